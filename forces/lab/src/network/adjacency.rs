//! Adjacencies of unmodified FRR daemons on a CE, under floods of exceptions: `weir run network/adjacency`.
//!
//! ```text
//!   CE: a router (FRR) for each FE, v1, v2 and v3
//!
//!   area 1          area 0
//!   r1 ──── a fe1 b ────── b fe2 a ──── r2
//!   flood       c            d
//!                ╲          ╱
//!                 c   fe3  d
//!                      a ────────────── x, another AS
//! ```
//!
//! r1 has OSPF, OSPFv3, IS-IS, BGP and BFD with v1, and floods fe1 through the same port. v1 also has OSPF, OSPFv3 and
//! IS-IS with v2 and v3, and BGP and BFD with v2, through the other ports of fe1; v3 has BGP and BFD with x. All these
//! packets are exceptions of the FEs, and the TAP devices of the CE carry them to FRR.
//!
//! A run of a variant: everything comes up; the link fe1-fe2 fails and recovers; the flood starts; adjacencies are
//! counted; the link fails again under the flood; the flood ends; the CE is killed and started again.
//!
//! Convergence is that of the routers' kernel tables, from which the FEs get their routes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use weir_base::{Rate, Span};
use weir_experiment::Error;
use weir_experiment::cpu::Others;
use weir_experiment::folder::Folder;
use weir_experiment::namespaces::process::run_to_end;
use weir_experiment::namespaces::router::{self, Router};
use weir_experiment::programs::Programs;
use weir_live::namespace;

pub use super::flood::Kind;
pub use super::suite::{AllFlaps, Flaps, PROTOCOLS, Protocol};

use super::flood::{Flood, Sender};
use super::keeper::Keeper;
use super::suite::{self, Suite};
use super::topology::{self, FLOODED, Network};
use super::watch::{Watch, timeout};
use crate::channel::write_keys;

/// The name for `weir run`.
pub const NAME: &str = "network/adjacency";
/// The title in lists.
pub const TITLE: &str =
    "OSPF, IS-IS, BGP and BFD of FRR on a control element, under a flood of exceptions";

/// Rate of the channel from each FE to the CE.
const CHANNEL: Rate = Rate::from_bps(1_500_000);
/// Rate of the flood, in multiples of the channel's.
const TIMES: u64 = 10;
/// Adjacencies must come up within this time.
const UP_MAX: Duration = Duration::from_secs(60);
/// Time limit of a wait for an adjacency or a route under a flood.
const PATIENCE: Duration = Duration::from_secs(30);
/// OSPF originates the same LSA again only after MinLSInterval (5 s), so a link that fails earlier shows that timer.
const SETTLE: Duration = Duration::from_secs(6);
/// Interval of the samples of adjacencies.
const SAMPLE: Duration = Duration::from_millis(500);
/// Interval between two looks at something that is timed.
const STEP: Duration = Duration::from_millis(20);
/// Number of open files that the lab needs.
const FILES: u64 = 4096;

/// A variant: how exceptions share a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The variant's name.
    pub name: &'static str,
    schedule: &'static str,
    has_classes: bool,
}

/// All variants, the default first.
pub const VARIANTS: [Variant; 4] = [
    Variant {
        name: "classes",
        schedule: "dppbrb",
        has_classes: true,
    },
    Variant {
        name: "dppbrb",
        schedule: "dppbrb",
        has_classes: false,
    },
    Variant {
        name: "priorities",
        schedule: "priorities",
        has_classes: false,
    },
    Variant {
        name: "drop_tail",
        schedule: "drop_tail",
        has_classes: false,
    },
];

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of the flood before the second failure.
    pub duration: Span,
    /// Kinds of packets, which the flood mixes in equal parts.
    pub kinds: Vec<Kind>,
    /// Variants to run.
    pub variants: Vec<Variant>,
    /// Seed of the first run of each variant.
    pub seed: u64,
    /// Number of runs of each variant, each with another seed.
    pub runs: u64,
    /// A stand-in for the programs that it starts; if `None`, the programs in the folder of this program.
    pub executable: Option<PathBuf>,
    /// Shows progress on standard error.
    pub progress: bool,
    /// Ends the run when it becomes true.
    pub interrupt: Arc<AtomicBool>,
}

/// The figures of a run of a variant.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The variant.
    pub variant: &'static str,
    /// The seed.
    pub seed: u64,
    /// Packets of the flood per second.
    pub flood_per_s: f64,
    /// Adjacencies of each protocol that ended during the flood.
    #[serde(flatten)]
    pub flaps: AllFlaps,
    /// Share of the samples during the flood in which all OSPF neighbours of the routers were Full.
    pub full_ratio: f64,
    /// Time from the failure of a link until the routers at both ends had another route, without the flood; `None` if
    /// they found none.
    pub convergence_s: Option<f64>,
    /// Like `convergence_s`, under the flood.
    pub convergence_flooded_s: Option<f64>,
    /// Time from the end of the CE, which is started again at once, until all OSPF neighbours are Full.
    pub full_after_kill_s: Option<f64>,
    /// CPUs that other programs kept busy.
    pub others_cpu_ratio: f64,
}

/// Returns an error if FRR cannot be started here.
pub(super) fn prepare() -> Result<(), Error> {
    suite::check_installed()?;
    let raised = namespace::raise_file_limit(FILES);
    raised
        .map(drop)
        .map_err(Error::io("cannot raise the limit of open files"))
}

/// Runs all variants.
pub fn run(options: &Options) -> Result<Vec<Row>, Error> {
    prepare()?;
    let programs = Programs::new(options.executable.as_deref())?;
    let mut watch = Watch::new(options.progress, &options.interrupt);
    let mut rows = Vec::new();
    for seed in (0..options.runs).map(|run| options.seed.wrapping_add(run)) {
        for variant in &options.variants {
            watch.prefix = format!(
                "[{}/{}] {}, seed {seed}: ",
                rows.len() + 1,
                options.variants.len() as u64 * options.runs,
                variant.name
            );
            rows.push(run_one(*variant, seed, options, &programs, &mut watch)?);
        }
    }
    Ok(rows)
}

fn run_one(
    variant: Variant,
    seed: u64,
    options: &Options,
    programs: &Programs,
    watch: &mut Watch<'_>,
) -> Result<Row, Error> {
    let (others, started) = (Others::now(), Instant::now());
    watch.show("building")?;
    let mut bed = Bed::new(variant, programs, false)?;
    watch.show("waiting for adjacencies")?;
    bed.must_come_up(watch)?;
    bed.add_route(programs)?;
    thread::sleep(SETTLE);

    watch.show("a link fails without a flood")?;
    let convergence_s = bed.converge(watch)?;
    bed.must_come_up(watch)?;

    let sender = bed.flood(&options.kinds, seed)?;
    let before = bed.suite.flaps()?;
    let (mut full, mut samples) = (0_u32, 0_u32);
    let began = Instant::now();
    while began.elapsed().as_nanos() < u128::from(options.duration.as_nanos()) {
        watch.show(&format!(
            "flood, {:.0} s of {}",
            began.elapsed().as_secs_f64(),
            options.duration
        ))?;
        thread::sleep(SAMPLE);
        samples += 1;
        full += u32::from(bed.suite.is_full());
        bed.check()?;
    }
    let flaps = suite::since(&bed.suite.flaps()?, &before);
    watch.show("a link fails under the flood")?;
    let convergence_flooded_s = bed.converge(watch)?;
    let sent = sender.stop()?;
    let flood_per_s = sent as f64 / began.elapsed().as_secs_f64();

    watch.show("waiting for adjacencies")?;
    bed.comes_up(watch)?; // if not, the time after the kill shows it
    watch.show("the CE is killed")?;
    let full_after_kill_s = bed.kill(programs, watch)?;
    Ok(Row {
        variant: variant.name,
        seed,
        flood_per_s,
        flaps,
        full_ratio: f64::from(full) / f64::from(samples.max(1)),
        convergence_s,
        convergence_flooded_s,
        full_after_kill_s,
        others_cpu_ratio: Others::now().processors(&others, started.elapsed().as_secs_f64()),
    })
}

/// The network with its elements and routers, which are removed when this value is dropped.
pub(super) struct Bed {
    pub(super) suite: Suite, // dropped before the namespaces
    ce: Option<Router>,
    fes: Vec<Router>,
    pub(super) network: Network,
    variant: Variant,
    keeper: Option<Keeper>,
    folder: Folder,
}

impl Bed {
    /// Starts everything. `keeps`: whether TAPs outlive the CE; then BGP does not depend on BFD, whose packets nobody
    /// answers without a CE.
    pub(super) fn new(variant: Variant, programs: &Programs, keeps: bool) -> Result<Self, Error> {
        let folder = Folder::new().map_err(Error::io("cannot create a private folder"))?;
        // FRR runs as another user, and its folders are below this one, whose list of files stays private.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o711))
            .map_err(Error::io("cannot open the private folder to FRR"))?;
        write_keys(folder.path(), topology::FES).map_err(Error::io("cannot write certificates"))?;
        let network = Network::build()?;
        let suite = Suite::start(&network, folder.path(), !keeps)?;
        let keeper = keeps.then(|| Keeper::start(folder.path())).transpose();
        let channel = Some((variant.schedule, CHANNEL));
        let mut bed = Self {
            suite,
            ce: None,
            fes: Vec::new(),
            network,
            variant,
            keeper: keeper.map_err(Error::io("cannot keep the TAPs of the CE"))?,
            folder,
        };
        bed.start_ce(programs)?;
        bed.fes = bed
            .network
            .start_fes(programs, bed.folder.path(), channel)?;
        Ok(bed)
    }

    /// Starts the CE; kills an earlier one.
    pub(super) fn start_ce(&mut self, programs: &Programs) -> Result<(), Error> {
        drop(self.ce.take());
        let program = programs.with("ce")?;
        let command = match &self.keeper {
            Some(keeper) => keeper.command(&program),
            None => Command::new(program),
        };
        let (network, variant) = (&self.network, self.variant);
        let ce = network.start_ce(command, self.folder.path(), |socket| {
            topology::ce_configuration(network, variant.has_classes, None, socket)
        });
        self.ce = Some(ce?);
        Ok(())
    }

    /// Whether all FEs are in their desired states.
    pub(super) fn is_in_sync(&self) -> bool {
        let fes = self.ce.as_ref().map(|ce| ce.page("fes"));
        let fes = fes.unwrap_or_default();
        let is_in_sync = |fe: &Value| fe["state"] == "in sync";
        fes.as_array().is_some_and(|fes| fes.iter().all(is_in_sync)) // a CE that does not answer has no list
    }

    /// Gives fe1 the route that the flood needs.
    pub(super) fn add_route(&self, programs: &Programs) -> Result<(), Error> {
        let mut command = Command::new(programs.with("route")?);
        let socket = router::socket(self.folder.path(), topology::CE_NAME);
        command
            .args(["route", "add", "--fe", "fe1", "--file", "-", "--socket"])
            .arg(socket);
        let (spawner, place) = (
            &self.network.spawner,
            &self.network.namespaces[topology::CE],
        );
        run_to_end(
            spawner,
            place,
            "weir route",
            command,
            &topology::flood_route(),
        )
    }

    /// Starts a flood of these kinds from r1.
    pub(super) fn flood(&self, kinds: &[Kind], seed: u64) -> Result<Sender, Error> {
        let flood = Flood::new(kinds, seed);
        let per_s = flood.per_s(CHANNEL.as_bps() * TIMES);
        flood.start(&self.network.namespaces[FLOODED], per_s)
    }

    /// Returns an error if a process has ended.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        let mut all = self.fes.iter_mut().chain(&mut self.ce);
        all.try_for_each(Router::check)?;
        self.suite.check()
    }

    /// Waits until all adjacencies are up; returns whether they are.
    fn comes_up(&mut self, watch: &mut Watch<'_>) -> Result<bool, Error> {
        let time = watch.time((STEP, UP_MAX), |_| {
            self.check()?;
            Ok(self.suite.is_up())
        })?;
        Ok(time.is_some())
    }

    /// Waits until all adjacencies are up; returns an error if they are not.
    pub(super) fn must_come_up(&mut self, watch: &mut Watch<'_>) -> Result<(), Error> {
        if self.comes_up(watch)? {
            return Ok(());
        }
        let missing = self.suite.missing();
        Err(timeout("the routers have not become adjacent", missing))
    }

    /// Lets the link between fe1 and fe2 fail, and recover once the routers have other routes, which takes the returned
    /// time. `None` if that takes too long, or if the routers have lost the routes through this link before.
    fn converge(&mut self, watch: &mut Watch<'_>) -> Result<Option<f64>, Error> {
        if !self.suite.uses_link() {
            return Ok(None);
        }
        self.network.set_link(false)?;
        let time = watch.time((STEP, PATIENCE), |_| Ok(self.suite.has_detour()));
        self.network.set_link(true)?;
        time
    }

    /// Kills the CE and starts another at once.
    fn kill(&mut self, programs: &Programs, watch: &mut Watch<'_>) -> Result<Option<f64>, Error> {
        let began = Instant::now();
        self.start_ce(programs)?;
        // Devices of the old CE are deleted with it, so a neighbour that is Full now belongs to the new CE.
        let is_full = |_: &mut _| Ok(self.network.has_devices() && self.suite.is_full());
        let full = watch.time((STEP, UP_MAX), is_full)?;
        Ok(full.map(|_| began.elapsed().as_secs_f64()))
    }
}

//! A CE that dies many times, while packets pass, a flood of exceptions arrives and routes change:
//! `weir bench ce-kills`.
//!
//! The network is that of [`adjacency`](super::adjacency), with classes of exceptions. A service manager keeps the TAPs of the
//! CE, so FRR may notice no more than a pause. r1 sends packets to r2, and floods fe1 through the same port.
//! Static routes of all routers change from one next hop to another, also before a new CE has found its FEs. At the end, the FEs must have
//! the routes of their routers.

use std::fmt::Write as _;
use std::io;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ipnet::{IpNet, Ipv4Net};
use rand::RngExt;
use serde::Serialize;
use weir_base::statistics::percentile;
use weir_base::{Stream, Streams};
use weir_experiment::Error;
use weir_experiment::cpu::Others;
use weir_experiment::programs::Programs;

use super::adjacency::{Bed, VARIANTS, prepare};
use super::flood::Kind;
use super::installed;
use super::probe::Probe;
use super::suite::{AllFlaps, since};
use super::topology::{self, FES, FLOODED, NEIGHBOUR, Network, ports, router};
use super::watch::{Watch, timeout};

/// Time limit until the FEs are in sync with a new CE, and until they have the last changes.
const SYNC_MAX: Duration = Duration::from_secs(60);
/// Interval between two looks at the FEs.
const STEP: Duration = Duration::from_millis(20);
/// Interval between two bursts of changed routes.
const BURST: Duration = Duration::from_millis(100);
/// Routes that change in a burst, of each router.
const BURST_ROUTES: usize = 20;
/// Changing routes of each router.
const ROUTES: u32 = 400;
/// The networks of these routes.
const NETWORKS: Ipv4Net = Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10);
/// Time between a CE that is in sync and its end, in milliseconds: at least a hello of each neighbour passes. A hello that
/// is sent when the CE dies is lost, and four of them in succession end an adjacency.
const LIFE_MS: Range<u64> = 1500..3500;
/// The host behind r2 to which packets go.
const PROBED: Ipv4Addr = Ipv4Addr::new(172, 16, 2, 1);

/// Options of the measurement.
#[derive(Debug)]
pub struct Options {
    /// How often the CE dies.
    pub kills: u64,
    /// Seed of the flood, of the changes, and of the lives of CEs.
    pub seed: u64,
    /// A stand-in for the programs that it starts; if `None`, the programs in the folder of this program.
    pub executable: Option<PathBuf>,
    /// Ends the measurement when it becomes true.
    pub interrupt: Arc<AtomicBool>,
}

/// The figures.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How often the CE died.
    pub kills: u64,
    /// Adjacencies of each protocol that ended meanwhile.
    pub flaps: AllFlaps,
    /// Time from the end of a CE, whose successor starts at once, until all FEs are in sync: the median and the maximum, in
    /// seconds.
    pub in_sync_s: [f64; 2],
    /// Packets from r1 to r2 that were lost; r1 sends one each millisecond.
    pub lost: u64,
    /// Length of the measurement, in seconds.
    pub length_s: f64,
    /// Packets of the flood per second.
    pub flood_per_s: f64,
    /// Changes of routes.
    pub changes: u64,
    /// Routes for which an FE and its router differ at the end.
    pub wrong: usize,
    /// CPUs that other programs kept busy.
    pub others_cpu_ratio: f64,
}

/// Measures.
pub fn run(options: &Options) -> Result<Report, Error> {
    prepare()?;
    let programs = Programs::new(options.executable.as_deref())?;
    let mut watch = Watch::new(true, &options.interrupt);
    let streams = Streams::new(options.seed);
    let mut lives = streams.stream("lives");
    watch.show("waiting for adjacencies")?;
    let mut bed = Bed::new(VARIANTS[0], &programs, true)?;
    bed.must_come_up(&mut watch)?;
    bed.add_route(&programs)?;

    let (others, began) = (Others::now(), Instant::now());
    let sender = bed.flood(&Kind::DEFAULT, options.seed)?;
    let ends = [FLOODED, NEIGHBOUR + 1].map(|n| &bed.network.namespaces[n]);
    let probe = Probe::start(ends, PROBED);
    let probe = probe.map_err(Error::io("cannot send packets through the FEs"))?;
    let mut churn = Churn::new(streams.stream("churn"));
    let before = bed.suite.flaps()?;
    let mut times = Vec::new();
    for kill in 1..=options.kills {
        watch.show(&format!("kill {kill} of {}", options.kills))?;
        let killed = Instant::now();
        bed.start_ce(&programs)?;
        let time = watch.time((STEP, SYNC_MAX), |_| {
            bed.check()?;
            churn.step(&bed.network)?;
            Ok(bed.is_in_sync())
        })?;
        time.ok_or_else(|| timeout("the FEs are not in sync", format!("after kill {kill}")))?;
        times.push(killed.elapsed().as_secs_f64());
        let life = Duration::from_millis(lives.random_range(LIFE_MS));
        watch.time((STEP, life), |_| {
            bed.check()?;
            churn.step(&bed.network).map(|()| false)
        })?;
    }
    watch.show("comparing")?;
    let mut wrong = 0;
    watch.time((BURST, SYNC_MAX), |_| {
        wrong = count_wrong(&bed.network)?;
        bed.check().map(|()| wrong == 0)
    })?;
    let (lost, length_s) = (probe.lost_since(began), began.elapsed().as_secs_f64());
    let sent = sender.stop()?;
    times.sort_by(f64::total_cmp);
    Ok(Report {
        kills: options.kills,
        flaps: since(&bed.suite.flaps()?, &before),
        in_sync_s: [0.5, 1.0].map(|share| percentile(&times, share).unwrap_or_default()),
        lost,
        length_s,
        flood_per_s: sent as f64 / length_s,
        changes: churn.changes,
        wrong,
        others_cpu_ratio: Others::now().processors(&others, length_s),
    })
}

/// Changes static routes of the routers.
struct Churn {
    random: Stream,
    last: Instant,
    changes: u64,
}

impl Churn {
    fn new(random: Stream) -> Self {
        Self {
            random,
            last: Instant::now(),
            changes: 0,
        }
    }

    /// Changes routes of each router if it is time.
    fn step(&mut self, network: &Network) -> Result<(), Error> {
        if self.last.elapsed() < BURST {
            return Ok(());
        }
        self.last = Instant::now();
        for n in 1..=FES {
            let peers: Vec<_> = ports(n).iter().skip(1).map(topology::Port::peer).collect();
            let mut batch = String::new();
            for _ in 0..BURST_ROUTES {
                let route = self.random.random_range(0..ROUTES);
                let peer = peers[self.random.random_range(0..peers.len())];
                let network = Ipv4Addr::from(u32::from(NETWORKS.addr()) + (route << 8));
                // Writing to a string cannot fail.
                let _ = writeln!(batch, "route replace {network}/24 via {peer} proto static");
            }
            network.ip(&network.namespaces[router(n)], &batch)?;
            self.changes += BURST_ROUTES as u64;
        }
        Ok(())
    }
}

/// The number of changing routes for which FEs and their routers differ.
fn count_wrong(network: &Network) -> Result<usize, Error> {
    let changing = |namespace: usize| {
        let devices = installed::devices(&network.namespaces[namespace]);
        let mut devices = devices.map_err(Error::io("cannot read the routes of a router"))?;
        devices
            .retain(|prefix, _| matches!(prefix, IpNet::V4(prefix) if NETWORKS.contains(prefix)));
        Ok::<_, Error>(devices)
    };
    let wrong = (1..=FES).map(|n| {
        let (own, router) = (changing(topology::fe(n))?, changing(router(n))?);
        if router.is_empty() {
            let none = io::Error::other("no route has changed");
            return Err(Error::io("cannot compare routes")(none));
        }
        let is_right = |(prefix, device): &(&IpNet, &String)| {
            own.get(*prefix)
                .is_some_and(|own| **device == format!("{}.{own}", topology::fe_name(n)))
        };
        let right = router.iter().filter(is_right).count();
        Ok(router.len().max(own.len()) - right)
    });
    wrong.sum()
}

//! A router under all kinds of load at the same time, for minutes: `weir soak`.
//!
//! ```text
//!   source ── a0 ═══ lan ┌────────┐ wan ═══ b0 ── sink        TCP, UDP, web, pings, IPv4 and IPv6
//!                        │ router │
//!    guest ── g0 ═ guest └────────┘ spare ═ s0                 floods and hostile frames from the guest
//!   meanwhile: routes come and go (`routes`), configurations, disciplines, captures, queries (`operator`), links of
//!   the guest and the spare port go down and up
//!   guest and the spare port go down and up
//! ```
//!
//! All random choices follow from one seed. But the machine determines the timing, so runs differ.
//!
//! At the end the traffic stops, and the state must be as before (`checks`): the counters account for every packet,
//! memory and files are as after the warm-up, and the router has removed its tables from the kernel.
//!
//! - `bed`: hosts, links, the router
//! - `traffic`: traffic that must arrive
//! - `frames`: frames that no honest sender sends
//! - `attacker`: floods and hostile frames
//! - `routes`: a table that changes all the time
//! - `operator`: an operator who changes something all the time
//! - `usage`: memory, files and threads of the router
//! - `frame_counters`: the counters of the router and of the kernel
//! - `checks`: conditions that must hold

mod attacker;
mod bed;
mod checks;
mod frame_counters;
mod frames;
mod operator;
mod routes;
mod traffic;
mod usage;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_base::{Span, Streams};
use weir_live::namespace;

pub use checks::Check;

use self::attacker::Attacker;
use self::bed::Bed;
use self::checks::Checks;
use self::frame_counters::FrameCounters;
use self::operator::Operator;
use self::routes::Routes;
use self::traffic::Traffic;
use self::usage::Usage;
use crate::error::Error;
use crate::programs::Programs;
use crate::progress::Progress;
use crate::scenario::Mode;

/// Number of open files that the lab needs.
const FILES: u64 = 4096;
/// Interval of the checks of the router.
const LOOK: Duration = Duration::from_millis(500);

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The forwarder.
    pub mode: Mode,
    /// Length of the run.
    pub duration: Span,
    /// Seed of the random choices.
    pub seed: u64,
    /// Number of routes in the table.
    pub routes: u32,
    /// A stand-in for the programs that it starts; if `None`, this program and those in its folder.
    pub executable: Option<PathBuf>,
    /// Shows progress on standard error.
    pub progress: bool,
    /// Ends the run when it becomes true.
    pub interrupt: Arc<AtomicBool>,
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Length of the run, in seconds.
    pub duration_s: f64,
    /// Number of actions of each kind.
    pub done: BTreeMap<String, u64>,
    /// The checks.
    pub checks: Vec<Check>,
    /// Packets that the router dropped, by reason.
    pub drops: BTreeMap<String, u64>,
}

impl Report {
    /// Whether all checks hold.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }

    /// The report as a page for a terminal; the last line is the verdict.
    pub fn text(&self) -> String {
        let list = |all: &BTreeMap<String, u64>| {
            let line = |(what, number): (&String, &u64)| format!("{number:>14} {what}\n");
            all.iter().map(line).collect::<String>()
        };
        let check = |check: &Check| {
            let word = if check.holds { "holds" } else { "FAILS" };
            format!("{word} {}: {}\n", check.what, check.seen)
        };
        let checks = self.checks.iter().map(check).collect::<String>();
        let holding = self.checks.iter().filter(|check| check.holds).count();
        format!(
            "ACTIONS IN {:.0} S, SEED {}\n{}\nDROPPED PACKETS, BY REASON\n{}\nCHECKS\n{checks}\nverdict: {holding} of \
             {} hold\n",
            self.duration_s,
            self.seed,
            list(&self.done),
            list(&self.drops),
            self.checks.len()
        )
    }
}

/// Counts of actions.
type Done = BTreeMap<String, u64>;

/// A flag that ends the threads.
#[derive(Debug, Default)]
struct Stop(AtomicBool);

impl Stop {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Sleeps; returns early if the flag is set.
    fn sleep(&self, time: Duration) {
        const STEP: Duration = Duration::from_millis(20);
        let until = Instant::now() + time;
        while !self.is_set() && Instant::now() < until {
            thread::sleep(STEP.min(until.saturating_duration_since(Instant::now())));
        }
    }
}

/// Runs the test. Unless the user is root, it must be called before the process has a second thread.
pub fn run(options: &Options) -> Result<Report, Error> {
    namespace::become_root()?;
    namespace::raise_file_limit(FILES)
        .map_err(Error::io("cannot raise the limit of open files"))?;
    let programs = Programs::new(options.executable.as_deref())?;
    let mut progress = Progress::new(options.progress);
    progress.say("creating hosts and starting the router");
    let began = Instant::now();
    let mut bed = Bed::new(programs, options.mode)?;
    let before = FrameCounters::settled(&bed)?;
    let (done, watched) = under_fire(options, &mut bed, &mut progress)?;
    progress.say("traffic stopped; comparing the counters");
    let after = FrameCounters::settled(&bed)?;
    let mut checks = Checks::default();
    checks.books(&before, &after, options.mode, options.routes);
    checks.usage(&watched);
    checks.done(&done);
    checks.answers(&bed);
    checks.end(bed)?;
    Ok(Report {
        seed: options.seed,
        duration_s: began.elapsed().as_secs_f64(),
        done,
        checks: checks.all,
        drops: after.drops,
    })
}

/// The router's resources after the warm-up and at the end: the median of each in the second and in the last quarter of
/// the run, because a reload of the table needs twice its memory for a moment.
struct Watched {
    warm: Usage,
    end: Usage,
    looks: usize,
}

/// Runs all parts for the duration; returns the counts of their actions.
fn under_fire(
    options: &Options,
    bed: &mut Bed,
    progress: &mut Progress,
) -> Result<(Done, Watched), Error> {
    let (stop, streams) = (Stop::default(), Streams::new(options.seed));
    let duration = Duration::from_nanos(options.duration.as_nanos());
    let mut routes = Routes::new(options.routes);
    routes.fill(bed)?;
    let traffic = Traffic::start(bed, options.duration)?;
    let mut watched = None;
    let parts = thread::scope(|scope| {
        let (stop, bed_ref, streams) = (&stop, &*bed, &streams);
        let works = [
            scope.spawn(move || Attacker::new(bed_ref, streams)?.run(stop)),
            scope.spawn(move || routes.churn(bed_ref, streams, stop)),
            scope.spawn(move || Operator::new(bed_ref, streams).run(stop)),
        ];
        let is_over = || works.iter().any(|work| work.is_finished());
        let looked = watch(options, duration, bed_ref, &is_over, progress);
        stop.set();
        let joined = works.map(|work| {
            work.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        watched = Some(looked);
        joined
    });
    bed.check()?; // an ended router is the cause: report it first
    let mut done = Done::new();
    for part in parts {
        done.extend(part?);
    }
    let Some(watched) = watched else {
        unreachable!("the scope has ended")
    };
    let watched = watched?;
    done.extend(traffic.finish()?);
    Ok((done, watched))
}

/// Watches the router for the duration, or until a part has failed.
fn watch(
    options: &Options,
    duration: Duration,
    bed: &Bed,
    is_over: &dyn Fn() -> bool,
    progress: &mut Progress,
) -> Result<Watched, Error> {
    let began = Instant::now();
    let mut looks: Vec<(Duration, Usage)> = Vec::new();
    while began.elapsed() < duration && !is_over() {
        if options.interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let left = duration.saturating_sub(began.elapsed());
        thread::sleep(LOOK.min(left));
        let Some(now) = Usage::of(bed)? else {
            continue;
        };
        looks.push((began.elapsed(), now));
        progress.update(&format!(
            "{:.0} of {:.0} s; the router uses {} MiB",
            began.elapsed().as_secs_f64(),
            duration.as_secs_f64(),
            now.memory >> 20
        ));
    }
    let quarter = duration / 4;
    let between = |from: Duration, to: Duration| {
        let within = looks.iter().filter(|(at, _)| (from..to).contains(at));
        Usage::median(within.map(|(_, usage)| *usage).collect())
    };
    let silent = || Error::Program {
        what: "the router".to_owned(),
        output: "it did not answer for a quarter of the run".to_owned(),
    };
    Ok(Watched {
        warm: between(quarter, quarter * 2).ok_or_else(silent)?,
        end: between(quarter * 3, Duration::MAX).ok_or_else(silent)?,
        looks: looks.len(),
    })
}

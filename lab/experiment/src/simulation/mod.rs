//! Runs a plan in virtual time: every variant at every point of its sweep, with several seeds, in
//! parallel on all processors.
//!
//! ```text
//!   scenario ─▶ topology ─▶ build (a weir_sim::Simulation) ─▶ run ─▶ observe ─▶ results
//! ```
//!
//! - [`build`]: a scenario as a simulation
//! - [`cake_autorate`]: a model of that program's algorithm, for comparison
//! - [`control`]: the scenario's controllers as actors
//! - [`hosts`]: fairness between hosts
//! - [`layer`]: a network layer besides IP
//! - [`links`], [`packets`]: measurements that only the simulator can make: queues, delays, places of loss
//! - [`observe`]: reports, curves and flows of a finished simulation
//! - [`passage`]: the admission of flows at the watched links: acceptance delay, outages
//! - [`shaper`]: shapers that find their rate
//! - [`trace`]: captures of links
//!
//! A run depends only on its scenario and its seed, so results are independent of `--jobs`.

mod build;
mod cake_autorate;
mod control;
pub(crate) mod hosts;
pub(crate) mod layer;
pub(crate) mod links;
mod observe;
pub(crate) mod packets;
pub(crate) mod passage;
mod shaper;
mod trace;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant as Wall;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use serde_json::Map;
use weir_base::{Instant, Rate, Span, Varying};

use crate::error::Error;
use crate::finished::Finished;
use crate::habitat::Habitat;
use crate::lines;
use crate::measure::{distributions, measure};
use crate::options::{Capture, RunOptions};
use crate::progress::Progress;
use crate::results::{OneRun, PointResult, RunResult};
use crate::scenario::{Plan, Scenario};

/// Simulated time between two checks of progress and Ctrl-C.
const LOOK: Span = Span::from_millis(200);

/// Runs `plan` in virtual time.
pub(crate) fn run(plan: &Plan, options: &RunOptions) -> Result<RunResult, Error> {
    let (runs, seed) = options.runs_of(plan);
    let tasks: Vec<(usize, u64)> = (0..plan.points.len())
        .flat_map(|point| (0..runs).map(move |run| (point, seed.wrapping_add(run))))
        .collect();
    if tasks.len() > 1 {
        check(plan, options)?; // a single run checks itself
    }
    let finished = Finished::open(plan, options)?;
    let notes = Vec::from_iter(finished.note(tasks.len()));
    let status = Status::new(options, &tasks, plan);
    let pool = ThreadPoolBuilder::new()
        .num_threads(options.jobs.unwrap_or(0))
        .build()
        .map_err(|e| Error::io("cannot start threads")(std::io::Error::other(e)))?;
    let ran: Vec<Result<(OneRun, u64), Error>> = pool.install(|| {
        let tasks = tasks.par_iter().with_max_len(1);
        let one = |(point, run): &(usize, u64)| {
            let scenario = &plan.points[*point].scenario;
            if let Some(ran) = finished.take(*point, *run) {
                let work = work(scenario, scenario.duration);
                status.resumed.fetch_add(work, Ordering::Relaxed);
                status.advance(work)?;
                return Ok(ran);
            }
            // Captures of one run of a point are enough.
            let captures = if *run == seed {
                &options.captures[..]
            } else {
                &[]
            };
            let (ran, events) = run_one(scenario, *run, captures, &status)?;
            finished.add(*point, &ran, events)?;
            Ok((ran, events))
        };
        tasks.map(one).collect()
    });
    let mut points: Vec<PointResult> = plan.points.iter().map(PointResult::of).collect();
    let mut events = 0;
    for ((point, _), ran) in tasks.iter().zip(ran) {
        let (run, happened) = ran?;
        events += happened;
        points[*point].add(run);
    }
    Ok(RunResult {
        events: Some(events),
        notes,
        ..RunResult::of(plan, Habitat::Sim, seed, points)
    })
}

/// Checks that the simulator supports every scenario of a plan.
pub(crate) fn check(plan: &Plan, options: &RunOptions) -> Result<(), Error> {
    for point in &plan.points {
        let mut world = build::World::new(&point.scenario, 0, options.transports)?;
        trace::begin(&mut world, &options.captures)?;
    }
    Ok(())
}

/// An estimate of a scenario's work: the bits that its busiest watched link can carry.
pub(crate) fn work(scenario: &Scenario, span: Span) -> u64 {
    const UNKNOWN: Rate = Rate::from_mbps(100);
    let rates = scenario.watched().filter_map(|link| {
        let rates = link.directions.iter().filter_map(|d| d.rate.as_ref());
        rates.map(Varying::greatest).max()
    });
    let rate = rates.max().unwrap_or(UNKNOWN);
    rate.bytes_in(span).max(1)
}

/// Performs one run; returns its result, with captures if requested, and its number of events.
fn run_one(
    scenario: &Scenario,
    seed: u64,
    captures: &[Capture],
    status: &Status<'_>,
) -> Result<(OneRun, u64), Error> {
    let mut world = build::World::new(scenario, seed, status.options.transports)?;
    trace::begin(&mut world, captures)?;
    let end = Instant::ZERO + scenario.duration;
    let mut now = Instant::ZERO;
    while now < end {
        let next = (now + LOOK).min(end);
        world.simulation.run_until(next);
        status.advance(work(scenario, next.since(now)))?;
        now = next;
    }
    let reported = observe::reported(scenario, &world);
    let (mut measured, mut series) = measure(scenario, &reported);
    packets::add_metrics(scenario, &world, &mut measured);
    links::add_metrics(scenario, &world, &mut measured);
    passage::add_metrics(scenario, &world, &mut measured);
    let meters = world.simulation.meters();
    hosts::add_metrics(scenario, meters, &[], &mut measured);
    for layer in &world.layers {
        layer.add_metrics(scenario, &world.simulation, &mut measured);
    }
    observe::add_curves(scenario, &world, &mut series);
    lines::add_curves(scenario, &mut series);
    shaper::add_curves(scenario, &world.shapers, &mut series);
    let mut distributions = distributions(scenario, &reported);
    observe::add_distributions(&world, &mut distributions);
    crate::control::add(
        scenario,
        &observe::records(&world),
        &mut measured,
        &mut series,
    );
    let run = OneRun {
        seed,
        metrics: measured.0,
        series,
        distributions,
        routers: Map::new(),
        flows: observe::flows(scenario, &world),
        notes: Vec::new(),
        captures: trace::end(&world, captures)?,
    };
    Ok((run, world.simulation.fabric().events()))
}

/// The progress of all runs together, and whether they should continue.
struct Status<'a> {
    options: &'a RunOptions,
    began: Wall,
    whole: u64,
    done: AtomicU64,
    /// The part of `done` that earlier calls did, which took no time of this one.
    resumed: AtomicU64,
    runs: usize,
    progress: Mutex<Progress>,
}

impl<'a> Status<'a> {
    fn new(options: &'a RunOptions, tasks: &[(usize, u64)], plan: &Plan) -> Self {
        let scenarios = tasks.iter().map(|(p, _)| &plan.points[*p].scenario);
        Self {
            options,
            began: Wall::now(),
            whole: scenarios.map(|s| work(s, s.duration)).sum(),
            done: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            runs: tasks.len(),
            progress: Mutex::new(Progress::new(options.progress)),
        }
    }

    fn advance(&self, work: u64) -> Result<(), Error> {
        if self.options.interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let done = self.done.fetch_add(work, Ordering::Relaxed) + work;
        // If another run is writing the line, skip this update.
        if let Ok(mut progress) = self.progress.try_lock() {
            let own = done - self.resumed.load(Ordering::Relaxed).min(done);
            let passed = self.began.elapsed().as_secs_f64();
            let left = passed * self.whole.saturating_sub(done) as f64 / own.max(1) as f64;
            let share = done as f64 / self.whole as f64;
            progress.update(&format!(
                "{} runs: {:.0} %, {left:.0} s left",
                self.runs,
                100.0 * share
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;
    use weir_live::clock::thread_cpu_time;

    /// Three layers of routers with `k` ports, and as many hosts as fit, each of which sends to another pod (Al-Fares,
    /// Loukissas and Vahdat, "A Scalable, Commodity Data Center Network Architecture", SIGCOMM 2008).
    fn fat_tree(k: usize) -> String {
        let half = k / 2;
        let mut links = Vec::new();
        let (mut routers, mut hosts) = (Vec::new(), Vec::new());
        for pod in 0..k {
            for i in 0..half {
                let (edge, middle) = (format!("e{pod}_{i}"), format!("a{pod}_{i}"));
                for j in 0..half {
                    let host = format!("h{pod}_{i}_{j}");
                    links.push((host.clone(), edge.clone()));
                    links.push((edge.clone(), format!("a{pod}_{j}")));
                    links.push((middle.clone(), format!("c{}", i * half + j)));
                    hosts.push(host);
                }
                routers.extend([edge, middle]);
            }
        }
        routers.extend((0..half * half).map(|core| format!("c{core}")));
        let mut text = "title = \"fat tree\"\nduration = \"1 s\"\n".to_owned();
        routers
            .iter()
            .for_each(|name| text += &format!("[router.{name}]\n"));
        hosts
            .iter()
            .for_each(|name| text += &format!("[host.{name}]\n"));
        for (number, (a, b)) in links.iter().enumerate() {
            text += &format!(
                "[link.l{number}]\nends = [\"{a}\", \"{b}\"]\nrate = \"1 Gbit\"\ndelay = \"10 us\"\n"
            );
        }
        for (number, from) in hosts.iter().enumerate() {
            let to = &hosts[(number + hosts.len() / 2 + 1) % hosts.len()];
            text += &format!(
                "[traffic.t{number}]\nkind = \"tcp\"\nfrom = \"{from}\"\nto = \"{to}\"\nsize = \"2 MB\"\nspread = \"10 ms\"\n"
            );
        }
        text
    }

    #[test]
    fn a_fat_tree_is_set_up_in_a_tenth_of_its_run() {
        let text = fat_tree(8);
        let set_up = || {
            let began = thread_cpu_time();
            let (scenario, _) = plan(&text, &[], &[]).unwrap();
            let world = build::World::new(&scenario, 1, None).unwrap();
            (thread_cpu_time() - began, scenario, world)
        };
        // The minimum of several runs: a busy machine makes each of them longer.
        let others = (0..4).map(|_| set_up().0).min().unwrap();
        let (least, scenario, mut world) = set_up();
        let least = least.min(others).as_secs_f64();
        let began = thread_cpu_time();
        world
            .simulation
            .run_until(Instant::ZERO + scenario.duration);
        let run = (thread_cpu_time() - began).as_secs_f64();
        assert!(10.0 * least < run, "set-up {least} s, run {run} s");
    }
}

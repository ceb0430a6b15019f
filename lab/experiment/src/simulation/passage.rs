//! The admission of flows at the watched links: acceptance delay, goodput since acceptance, outages, and the changes
//! by each run of a mechanism.
//!
//! A flow that passes several watched links is accepted when all of them have accepted it. A flow that was never
//! accepted counts in the acceptance delay with its age at the end of the run. Web fetches are not distinguished here.
//!
//! - `goodput_since_accepted_mbps`: for all flows that were ever accepted, payload delivered in the window divided by
//!   the time in the window since their first acceptance
//! - `goodput_since_kept_mbps`: payload that has left in the window since their final acceptance, divided by the time in the
//!   window since then, without flows that were accepted only for moments, until the clean-up of a mechanism's run
//! - `run_after_flows`: flows on the list one second after the beginning of each run in the window, when the run has
//!   cleaned up or restored; without runs, the mean over time

use weir_base::statistics::mean;
use weir_base::{Instant, Span};
use weir_sim::meter::{Flow, Watch};
use weir_sim::passage::{Passage, SENDING_STEP};

use super::build::World;
use crate::reported::mbps;
use crate::results::Metrics;
use crate::scenario::{Kind, Scenario};

/// Time after the start of a mechanism's run within which the flows that it accepts have passed: half an interval of
/// the fair rate and a sampling interval.
const LET_IN: Span = Span::from_millis(350);
/// Time after the start of a run within which its clean-up has finished.
const CLEANED_UP: Span = Span::from_secs(1);

/// The admission of a flow at all watched links.
struct Passed<'a> {
    flow: &'a Flow,
    /// Arrival of the flow.
    offered: Instant,
    /// Time at which all links had accepted the flow.
    passed: Option<Instant>,
    /// Time at which all links had finally accepted the flow, and its payload in bytes that has left the last link in
    /// the window since then.
    kept: Option<(Instant, u64)>,
    outage: Option<Span>,
}

/// Adds the metrics of the admission of all flows.
pub(super) fn add_metrics(scenario: &Scenario, world: &World, metrics: &mut Metrics) {
    let end = Instant::ZERO + scenario.duration;
    let meters = world.simulation.meters();
    let watches = world.watched.iter().filter_map(|(name, port)| {
        let watch = world.simulation.watched(*port)?;
        Some((name.as_str(), watch))
    });
    let watches: Vec<(&str, &Watch)> = watches.collect();
    for (number, traffic) in scenario.traffic.iter().enumerate() {
        let name = &traffic.name;
        if traffic.kind.kind() == Kind::Web {
            continue;
        }
        let flows = meters.flows.iter().zip(0..);
        let flows = flows.filter(|(flow, _)| flow.traffic == number as u32);
        let passed: Vec<Passed<'_>> = flows
            .filter_map(|(flow, id)| passed(flow, &watches, id, end))
            .collect();
        add_passed(scenario, name, &passed, metrics);
        for (link, watch) in &watches {
            add_sending(scenario, [*link, name.as_str()], watch, number, metrics);
            add_runs(
                scenario,
                [*link, name.as_str()],
                watch,
                number,
                &passed,
                metrics,
            );
        }
    }
}

fn passed<'a>(
    flow: &'a Flow,
    watches: &[(&str, &Watch)],
    id: u32,
    end: Instant,
) -> Option<Passed<'a>> {
    let passages = watches.iter().map(|(_, watch)| watch.passages.get(id));
    let passages: Vec<Passage> = passages.filter(|p| p.offered.is_some()).collect();
    let everywhere = passages.iter().all(|passage| passage.passed.is_some());
    let outages = passages.iter();
    let outages = outages.filter_map(|p| p.outage_until(end, flow.end.is_some()));
    Some(Passed {
        flow,
        offered: passages.iter().filter_map(|p| p.offered).min()?,
        passed: if everywhere {
            passages.iter().filter_map(|p| p.passed).max()
        } else {
            None
        },
        kept: passages
            .iter()
            .map(|p| Some((p.kept?, p.kept_bytes)))
            .collect::<Option<Vec<_>>>()
            .and_then(|all| all.into_iter().max()),
        outage: outages.max(),
    })
}

/// Adds delays, goodput and outages.
fn add_passed(scenario: &Scenario, name: &str, all: &[Passed<'_>], metrics: &mut Metrics) {
    let end = Instant::ZERO + scenario.duration;
    let from = Instant::ZERO + scenario.warm_up;
    let delay = |until: Instant, p: &Passed<'_>| until.since(p.offered).as_secs_f64();
    let accepted = || all.iter().filter_map(|p| p.passed.map(|at| (p, at)));
    let every = all.iter().map(|p| delay(p.passed.unwrap_or(end), p));
    let every: Vec<f64> = every.collect();
    let of_accepted: Vec<f64> = accepted().map(|(p, at)| delay(at, p)).collect();
    let goodput = |p: &Passed<'_>, at: Instant, bytes: u64| {
        let until = p.flow.end.unwrap_or(end);
        let seconds = until.since(at.max(from)).as_secs_f64();
        (seconds > 0.0).then(|| mbps(bytes, seconds))
    };
    let goodputs = accepted().filter_map(|(p, at)| goodput(p, at, p.flow.window_bytes));
    let goodputs: Vec<f64> = goodputs.collect();
    let kept = all.iter().filter_map(|p| {
        let (at, bytes) = p.kept?;
        goodput(p, at, bytes)
    });
    let kept: Vec<f64> = kept.collect();
    let outages = all.iter().filter_map(|p| p.outage);
    let outages: Vec<f64> = outages.map(Span::as_secs_f64).collect();
    let mut set = |what: &str, value: Option<f64>| {
        if let Some(value) = value {
            metrics.insert(format!("{what}.{name}"), value);
        }
    };
    set("acceptance_delay_s", mean(&every));
    set(
        "acceptance_delay_s_max",
        every.iter().copied().reduce(f64::max),
    );
    set("acceptance_delay_s_accepted", mean(&of_accepted));
    let never = (every.len() - of_accepted.len()) as f64;
    set("never_accepted_flows", (!every.is_empty()).then_some(never));
    set("goodput_since_accepted_mbps", mean(&goodputs));
    set("goodput_since_kept_mbps", mean(&kept));
    set("outage_s_mean", mean(&outages));
    set("outage_s_max", outages.iter().copied().reduce(f64::max));
}

/// Adds the mean number of sending flows over the ten-second steps of the window.
fn add_sending(
    scenario: &Scenario,
    [link, name]: [&str; 2],
    watch: &Watch,
    traffic: usize,
    metrics: &mut Metrics,
) {
    let step = SENDING_STEP.as_nanos();
    let first = scenario.warm_up.as_nanos().div_ceil(step) as usize;
    let last = (scenario.duration.as_nanos() / step) as usize;
    let steps = watch.passages.sending.iter().take(last).skip(first);
    let counts = steps.map(|counts| counts.get(traffic).copied().unwrap_or(0) as f64);
    if let Some(mean) = mean(&counts.collect::<Vec<_>>()) {
        metrics.insert(format!("sending_flows.{link}.{name}"), mean);
    }
}

/// Adds, for the runs of a mechanism: the number of accepted flows a second after each run, its increase, and the share
/// of the flows waiting before the run that the run accepted.
fn add_runs(
    scenario: &Scenario,
    [link, name]: [&str; 2],
    watch: &Watch,
    traffic: usize,
    all: &[Passed<'_>],
    metrics: &mut Metrics,
) {
    let Some(tracked) = &watch.tracked else {
        return;
    };
    let at = |sampling: usize| Instant::ZERO + scenario.sample.times(sampling as u64);
    let later = CLEANED_UP.as_nanos().div_ceil(scenario.sample.as_nanos()) as usize;
    let curve = &tracked.curves[traffic];
    let begins = scenario
        .warm_up
        .as_nanos()
        .div_ceil(scenario.sample.as_nanos());
    let after = watch
        .gauges
        .runs
        .iter()
        .filter(|run| **run as u64 >= begins);
    let after = after.filter_map(|run| curve.get(run + later));
    let after: Vec<f64> = after.map(|flows| f64::from(*flows)).collect();
    let mut growth = Vec::new();
    let (mut waited, mut let_in) = (0_u64, 0_u64);
    for run in &watch.gauges.runs {
        let (before, after) = (at(run - 1), at(*run) + LET_IN);
        if let (Some(old), Some(new)) = (curve.get(run - 1), curve.get(run + later)) {
            growth.push(f64::from(*new) - f64::from(*old));
        }
        let waits = |p: &&Passed<'_>| p.offered <= before && p.passed.is_none_or(|at| at > before);
        for p in all.iter().filter(waits) {
            waited += 1;
            let_in += u64::from(p.passed.is_some_and(|at| at <= after));
        }
    }
    let over_time = tracked.flows[traffic].tracked as f64 / tracked.samples.max(1) as f64;
    metrics.insert(
        format!("run_after_flows.{link}.{name}"),
        mean(&after).unwrap_or(over_time),
    );
    if let Some(mean) = mean(&growth) {
        metrics.insert(format!("run_growth_flows.{link}.{name}"), mean);
    }
    if waited > 0 {
        let ratio = let_in as f64 / waited as f64;
        metrics.insert(format!("run_let_in_ratio.{link}.{name}"), ratio);
    }
}

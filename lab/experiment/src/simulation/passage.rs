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
use crate::metrics::Measured;
use crate::reported::mbps;
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

/// The flows of a flow group.
struct Flows<'a> {
    passed: &'a [Passed<'a>],
    from: Instant,
    end: Instant,
}

/// The flows of a flow group at one link.
struct AtLink<'a> {
    scenario: &'a Scenario,
    watch: &'a Watch,
    /// The position of the flow group in the scenario.
    traffic: usize,
    passed: &'a [Passed<'a>],
}

crate::metrics! {
    TRAFFIC on sim;
    /// Adds delays, goodput and outages.
    fn add_traffic(flows: &Flows<'_>) {
        /// from a flow's first packet to its first packet accepted at every watched link, mean; a flow that was never
        /// accepted counts with its age at the end
        "acceptance_delay_s.TRAFFIC" = mean(&flows.delays());
        /// maximum of the same
        "acceptance_delay_s_max.TRAFFIC" = flows.delays().into_iter().reduce(f64::max);
        /// mean over accepted flows only
        "acceptance_delay_s_accepted.TRAFFIC" = mean(&flows.of_each(|p| Some(p.delay(p.passed?))));
        /// flows that were never accepted
        "never_accepted_flows.TRAFFIC" = flows.never_accepted();
        /// payload of a flow in the window, divided by the time since it was accepted, mean
        "goodput_since_accepted_mbps.TRAFFIC" = flows.goodput(|p| Some((p.passed?, p.flow.window_bytes)));
        /// payload that a flow delivered since its final acceptance, divided by the time since then, mean over flows
        /// that were not refused again within 2 s
        "goodput_since_kept_mbps.TRAFFIC" = flows.goodput(|p| p.kept);
        /// longest time that a removed, formerly accepted flow was blocked
        "outage_s_STATISTIC.TRAFFIC" =
            vec![("mean", mean(&flows.outages())), ("max", flows.outages().into_iter().reduce(f64::max))];
    }
}

crate::metrics! {
    LINK on sim;
    /// Adds the flows that send, and the changes by each run of a mechanism.
    fn add_link(at: &AtLink<'_>) {
        /// flows of the flow group that sent in each 10 s interval of the window, mean
        "sending_flows.LINK.TRAFFIC" = at.sending();
        /// flows on the list one second after each activation of a congestion mechanism in the window, mean over
        /// activations; without activations, the mean over time
        "run_after_flows.LINK.TRAFFIC" = at.after_runs();
        /// change in the number of tracked flows from before an activation of a congestion mechanism to one second
        /// after it, mean over activations
        "run_growth_flows.LINK.TRAFFIC" = at.growth();
        /// flows that waited before such an activation and were accepted by it, divided by all flows that waited
        "run_let_in_ratio.LINK.TRAFFIC" = at.let_in();
    }
}

/// Adds the metrics of the admission of all flows.
pub(super) fn add_metrics(scenario: &Scenario, world: &World, measured: &mut Measured) {
    let end = Instant::ZERO + scenario.duration;
    let from = Instant::ZERO + scenario.warm_up;
    let meters = world.simulation.meters();
    let watches = world.watched.iter().filter_map(|(name, port)| {
        let watch = world.simulation.watched(*port)?;
        Some((name.as_str(), watch))
    });
    let watches: Vec<(&str, &Watch)> = watches.collect();
    for (number, traffic) in scenario.traffic.iter().enumerate() {
        let name = traffic.name.as_str();
        if traffic.kind.kind() == Kind::Web {
            continue;
        }
        let flows = meters.flows.iter().zip(0..);
        let flows = flows.filter(|(flow, _)| flow.traffic == number as u32);
        let passed: Vec<Passed<'_>> = flows
            .filter_map(|(flow, id)| passed(flow, &watches, id, end))
            .collect();
        let passed = passed.as_slice();
        add_traffic(&Flows { passed, from, end }, &[name], measured);
        for (link, watch) in &watches {
            let at = AtLink {
                scenario,
                watch,
                traffic: number,
                passed,
            };
            add_link(&at, &[link, name], measured);
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

impl Passed<'_> {
    fn delay(&self, until: Instant) -> f64 {
        until.since(self.offered).as_secs_f64()
    }
}

impl Flows<'_> {
    fn of_each(&self, read: impl Fn(&Passed<'_>) -> Option<f64>) -> Vec<f64> {
        self.passed.iter().filter_map(read).collect()
    }

    /// The acceptance delay of every flow.
    fn delays(&self) -> Vec<f64> {
        self.of_each(|p| Some(p.delay(p.passed.unwrap_or(self.end))))
    }

    fn outages(&self) -> Vec<f64> {
        self.of_each(|p| p.outage.map(Span::as_secs_f64))
    }

    /// `None` without flows.
    fn never_accepted(&self) -> Option<f64> {
        let never = self.passed.iter().filter(|p| p.passed.is_none());
        (!self.passed.is_empty()).then(|| never.count() as f64)
    }

    /// The mean goodput of flows since a time, if `since` gives the time and the bytes delivered since then.
    fn goodput(&self, since: impl Fn(&Passed<'_>) -> Option<(Instant, u64)>) -> Option<f64> {
        mean(&self.of_each(|p| {
            let (at, bytes) = since(p)?;
            let until = p.flow.end.unwrap_or(self.end);
            let seconds = until.since(at.max(self.from)).as_secs_f64();
            (seconds > 0.0).then(|| mbps(bytes, seconds))
        }))
    }
}

impl AtLink<'_> {
    /// The mean number of sending flows over the ten-second steps of the window.
    fn sending(&self) -> Option<f64> {
        let first = self.scenario.warm_up.steps(SENDING_STEP);
        let last = (self.scenario.duration.as_nanos() / SENDING_STEP.as_nanos()) as usize;
        let steps = self.watch.passages.sending.iter().take(last).skip(first);
        let counts = steps.map(|counts| counts.get(self.traffic).copied().unwrap_or(0) as f64);
        mean(&counts.collect::<Vec<_>>())
    }

    /// Samplings from the start of a run to the end of its clean-up.
    fn later(&self) -> usize {
        CLEANED_UP.steps(self.scenario.sample)
    }

    fn growth(&self) -> Option<f64> {
        let curve = &self.watch.tracked.as_ref()?.curves[self.traffic];
        let flows = |sampling: usize| Some(f64::from(*curve.get(sampling)?));
        let runs = self.watch.gauges.runs.iter();
        let growth = runs.filter_map(|run| Some(flows(run + self.later())? - flows(run - 1)?));
        mean(&growth.collect::<Vec<_>>())
    }

    /// The number of accepted flows a second after each run in the window.
    fn after_runs(&self) -> Option<f64> {
        let tracked = self.watch.tracked.as_ref()?;
        let begins = self.scenario.warm_up.steps(self.scenario.sample);
        let runs = self.watch.gauges.runs.iter().filter(|run| **run >= begins);
        let curve = &tracked.curves[self.traffic];
        let after = runs.filter_map(|run| curve.get(run + self.later()));
        let after: Vec<f64> = after.map(|flows| f64::from(*flows)).collect();
        let sum = tracked.flows[self.traffic].tracked;
        let over_time = sum as f64 / tracked.samples.max(1) as f64;
        Some(mean(&after).unwrap_or(over_time))
    }

    /// The share of the flows waiting before a run that the run accepted.
    fn let_in(&self) -> Option<f64> {
        self.watch.tracked.as_ref()?;
        let at = |sampling: usize| Instant::ZERO + self.scenario.sample.times(sampling as u64);
        let (mut waited, mut let_in) = (0_u64, 0_u64);
        for run in &self.watch.gauges.runs {
            let (before, after) = (at(run - 1), at(*run) + LET_IN);
            let waits =
                |p: &&Passed<'_>| p.offered <= before && p.passed.is_none_or(|at| at > before);
            for p in self.passed.iter().filter(waits) {
                waited += 1;
                let_in += u64::from(p.passed.is_some_and(|at| at <= after));
            }
        }
        (waited > 0).then(|| let_in as f64 / waited as f64)
    }
}

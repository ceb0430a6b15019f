//! Runs one scenario in both habitats and compares them: where they agree, where they differ, and possible reasons.
//!
//! The simulator is a model: its TCP is not the kernel's, and its hosts have no processors. The expected agreement is
//! stated here as data: a tolerance for each metric ([`METRICS`]) and the known causes of differences ([`CAUSES`]).

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::habitat::Habitat;
use crate::options::RunOptions;
use crate::results::{PointResult, RunResult};

/// The results of one scenario, in one habitat or both.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Ran {
    /// The results of one habitat.
    One(Box<RunResult>),
    /// The results of both habitats.
    Both(Box<Both>),
}

/// The results of a scenario in both habitats, and their comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Both {
    /// The result in virtual time.
    pub sim: RunResult,
    /// The result in network namespaces.
    pub lab: RunResult,
    /// The comparison of each metric.
    pub comparison: Vec<Compared>,
}

/// A metric of a point in both habitats: the medians of the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The point's variant.
    pub variant: Option<String>,
    /// The values that identify the point.
    pub set: Map<String, Value>,
    /// The point as text.
    pub title: String,
    /// The metric.
    pub metric: &'static str,
    /// The median in simulation.
    pub sim: f64,
    /// The median in the lab.
    pub lab: f64,
    /// Simulation minus lab; divided by the lab's value if `relative`. `None` if that would divide by zero.
    pub difference: Option<f64>,
    /// Whether the difference and its tolerance are shares of the lab's value.
    pub relative: bool,
    /// Maximum expected difference.
    pub tolerance: f64,
    /// Whether the difference is within the tolerance.
    pub agrees: bool,
    /// Known causes of the difference, if it exceeds the tolerance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<&'static str>,
}

/// A compared metric.
struct Metric {
    name: &'static str,
    relative: bool,
    tolerance: f64,
    /// Values that differ by no more than this agree, even if the relative difference is large.
    floor: f64,
}

const fn share(name: &'static str, tolerance: f64) -> Metric {
    Metric {
        name,
        relative: false,
        tolerance,
        floor: 0.0,
    }
}

const fn size(name: &'static str, tolerance: f64, floor: f64) -> Metric {
    Metric {
        name,
        relative: true,
        tolerance,
        floor,
    }
}

/// The compared metrics, with the expected agreement of each.
const METRICS: [Metric; 12] = [
    share("tcp_share_ratio", 0.03),
    size("tcp_goodput_mbps", 0.1, 0.5),
    size("udp_goodput_mbps", 0.1, 0.5),
    size("web_goodput_mbps", 0.25, 0.2),
    share("udp_loss_ratio", 0.03),
    share("jain_index", 0.1),
    size("web_fetches_per_s", 0.25, 0.5),
    size("web_response_s_p50", 0.3, 0.005),
    size("web_response_s_mean", 0.5, 0.01),
    size("web_connect_s_mean", 0.5, 0.01),
    size("transfers_per_s", 0.25, 0.1),
    size("transfer_s_mean", 0.25, 0.05),
];

/// Known causes of differences: the prefixes of the metrics that each cause affects, and a sentence that explains it.
const CAUSES: [(&[&str], &str); 6] = [
    (
        &["web_"],
        "the kernel retransmits a lost SYN after 1 s regardless of the scenario, and its timeouts follow its own \
         clock tick",
    ),
    (
        &["tcp_", "transfer", "jain_"],
        "the kernel passes a flow's data to the queue in small portions (TSQ) and leaves slow start early (HyStart); \
         the model sends as much as its window permits",
    ),
    (
        &["tcp_share", "udp_", "tcp_goodput", "web_"],
        "at a full queue, the packet that arrives just when a slot becomes free is queued: floods are exact to the \
         nanosecond in simulation, but only as exact as the scheduler in the lab",
    ),
    (
        &["tcp_", "udp_", "web_goodput"],
        "tbf paces the hosts' links in the lab, and its bucket permits short bursts",
    ),
    (
        &["web_"],
        "a fetch that hashes into the queue of a flood in a fair scheduler blocks its client for seconds; such \
         fetches are few, so their number is random, but they dominate the means",
    ),
    (
        &["web_", "transfer", "udp_"],
        "hosts and routers in the lab need CPU time, which delays replies and senders, more so on a busy machine; the \
         model's hosts and routers need none",
    ),
];

impl Ran {
    /// The results, simulation first.
    pub fn results(&self) -> Vec<&RunResult> {
        match self {
            Self::One(one) => vec![one],
            Self::Both(both) => vec![&both.sim, &both.lab],
        }
    }
}

impl From<RunResult> for Ran {
    fn from(result: RunResult) -> Self {
        Self::One(Box::new(result))
    }
}

/// Runs a scenario in both habitats and ignores `options.on`. Like [`crate::run()`] it must be called before the
/// process has a second thread; therefore the lab comes first.
pub fn run_both(options: &RunOptions) -> Result<Both, Error> {
    let on = |on| RunOptions {
        on,
        ..options.clone()
    };
    // Check first: a scenario that the simulator cannot run must not cost the time of a lab run.
    crate::run::check(&on(Habitat::Sim))?;
    let lab = crate::run(&RunOptions {
        captures: Vec::new(),
        ..on(Habitat::Lab)
    })?;
    let sim = crate::run(&on(Habitat::Sim))?;
    let comparison = compare(&sim, &lab);
    Ok(Both {
        sim,
        lab,
        comparison,
    })
}

/// Compares each metric that both results have, point by point.
fn compare(sim: &RunResult, lab: &RunResult) -> Vec<Compared> {
    let same = |a: &PointResult, b: &PointResult| a.variant == b.variant && a.set == b.set;
    let mut comparison = Vec::new();
    for ours in &sim.points {
        let Some(theirs) = lab.points.iter().find(|p| same(p, ours)) else {
            continue;
        };
        for metric in &METRICS {
            let pair = ours.median(metric.name).zip(theirs.median(metric.name));
            if let Some((sim, lab)) = pair {
                comparison.push(metric.compare(ours, sim, lab));
            }
        }
    }
    comparison
}

impl Metric {
    fn compare(&self, point: &PointResult, sim: f64, lab: f64) -> Compared {
        let absolute = sim - lab;
        let difference = if self.relative {
            Some(absolute / lab).filter(|x| x.is_finite())
        } else {
            Some(absolute)
        };
        let kept = difference.is_some_and(|d| d.abs() <= self.tolerance);
        let agrees = kept || absolute.abs() <= self.floor;
        let known = CAUSES.iter().filter(|(of, _)| {
            let mut of = of.iter();
            !agrees && of.any(|begin| self.name.starts_with(begin))
        });
        Compared {
            variant: point.variant.clone(),
            set: point.set.clone(),
            title: point.label(),
            metric: self.name,
            sim,
            lab,
            difference,
            relative: self.relative,
            tolerance: self.tolerance,
            agrees,
            causes: known.map(|(_, cause)| *cause).collect(),
        }
    }
}

impl Compared {
    /// `agrees` or `differs`.
    pub fn verdict(&self) -> &'static str {
        if self.agrees { "agrees" } else { "differs" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(metrics: &[(&str, f64)]) -> PointResult {
        let mut point = PointResult {
            variant: None,
            set: Map::new(),
            sweep: Map::new(),
            runs: Vec::new(),
            summary: Default::default(),
        };
        point.add(crate::results::OneRun {
            seed: 1,
            metrics: metrics.iter().map(|(n, x)| ((*n).to_owned(), *x)).collect(),
            series: Default::default(),
            distributions: Default::default(),
            routers: Map::new(),
            flows: Vec::new(),
            notes: Vec::new(),
            captures: Vec::new(),
        });
        point
    }

    fn result(metrics: &[(&str, f64)]) -> RunResult {
        RunResult {
            scenario: String::new(),
            title: String::new(),
            about: String::new(),
            on: String::new(),
            seed: 1,
            duration_s: 1.0,
            warm_up_s: 0.0,
            notes: Vec::new(),
            traffic: Vec::new(),
            points: vec![point(metrics)],
            events: None,
            cpu_s: 0.0,
            wall_s: 0.0,
        }
    }

    #[test]
    fn shares_differ_absolutely_and_sizes_by_the_labs() {
        let sim = result(&[
            ("tcp_share_ratio", 0.52),
            ("web_fetches_per_s", 30.0),
            ("x", 1.0),
        ]);
        let lab = result(&[("tcp_share_ratio", 0.50), ("web_fetches_per_s", 20.0)]);
        let rows = compare(&sim, &lab);
        let [share, fetches] = &rows[..] else {
            panic!("{rows:?}");
        };
        assert!((share.difference.unwrap() - 0.02).abs() < 1e-9);
        assert_eq!((share.verdict(), share.causes.len()), ("agrees", 0));
        assert!((fetches.difference.unwrap() - 0.5).abs() < 1e-9);
        assert_eq!(fetches.verdict(), "differs");
        assert!(fetches.causes[0].contains("SYN"), "{fetches:?}");
    }

    #[test]
    fn small_values_agree_and_nothing_divides_by_nothing() {
        let sim = result(&[("tcp_goodput_mbps", 0.4), ("web_response_s_p50", 0.004)]);
        let lab = result(&[("tcp_goodput_mbps", 0.0), ("web_response_s_p50", 0.002)]);
        let rows = compare(&sim, &lab);
        assert_eq!(rows[0].difference, None);
        assert!(rows.iter().all(|row| row.agrees), "{rows:?}");
    }
}

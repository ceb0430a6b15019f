//! The results of rows (usually disciplines) under one load: the metrics of each run, and their summaries.

use std::collections::BTreeMap;

use crate::TrafficInfo;
use crate::results::RunResult;
use crate::statistics::Summary;

/// The metrics of a run by name: [`crate::metrics`], and [`SMALL_P50`], [`SMALL_P99`] and [`SMALL_LOST`].
pub(super) type Metrics = BTreeMap<String, f64>;
/// A figure of a run.
pub(super) type Read = fn(&Metrics) -> Option<f64>;

/// The median delay of small packets, in ms: the maximum of all sparse flow groups.
pub(super) const SMALL_P50: &str = "small_packets_delay_ms_p50";
/// The 99th percentile of the delay of small packets, in ms: the maximum of all sparse flow groups.
pub(super) const SMALL_P99: &str = "small_packets_delay_ms_p99";
/// The share of lost small packets: the maximum of all sparse flow groups.
pub(super) const SMALL_LOST: &str = "small_packets_loss_ratio";

/// The metric that marks a disturbed run.
const DISTURBED: &str = "disturbed";

/// One load, and the results of each row under it.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The scenario's name, and the values that its sweep sets in addition to the discipline.
    pub name: String,
    /// The scenario's title.
    pub title: String,
    /// The scenario's explanation.
    pub about: String,
    /// How the load was measured, in a sentence.
    pub note: String,
    /// For each row: its name, and the metrics of its runs.
    pub rows: Vec<(String, Vec<Metrics>)>,
}

impl Load {
    /// The loads in the results of a scenario of this name: one for each combination of the values of its own sweep.
    /// Leaves out points without a variant.
    pub fn all(name: &str, result: &RunResult) -> Vec<Self> {
        let mut loads: Vec<Self> = Vec::new();
        for point in &result.points {
            let Some(row) = point.variant.clone() else {
                continue;
            };
            let name = match point.swept().as_str() {
                "" => name.to_owned(),
                swept => format!("{name}, {swept}"),
            };
            let runs = point.runs.iter();
            let runs = runs.map(|run| {
                let mut metrics = with_small_packets(&result.traffic, run.metrics.clone());
                if !run.notes.is_empty() {
                    metrics.insert(DISTURBED.to_owned(), 1.0);
                }
                metrics
            });
            let row = (row, runs.collect());
            match loads.iter_mut().find(|load| load.name == name) {
                Some(load) => load.rows.push(row),
                None => loads.push(Self {
                    name,
                    title: result.title.clone(),
                    about: result.about.clone(),
                    note: note(result, point.runs.len()),
                    rows: vec![row],
                }),
            }
        }
        loads
    }

    /// The metrics of all runs.
    pub fn metrics(&self) -> impl Iterator<Item = &Metrics> {
        self.rows.iter().flat_map(|(_, runs)| runs)
    }

    /// Whether a disturbance affected any run of a row.
    pub(super) fn is_disturbed(&self, name: &str) -> bool {
        let mut rows = self.rows.iter().filter(|(row, _)| row == name);
        rows.any(|(_, runs)| runs.iter().any(|run| run.contains_key(DISTURBED)))
    }

    /// Whether the load has this row.
    pub fn has(&self, name: &str) -> bool {
        self.rows.iter().any(|(row, _)| row == name)
    }

    /// The summary of a figure over all runs of a row; `None` if no run has it.
    pub fn summary(&self, name: &str, read: Read) -> Option<Summary> {
        let (_, runs) = self.rows.iter().find(|(row, _)| row == name)?;
        Summary::of(&runs.iter().filter_map(read).collect::<Vec<_>>())
    }
}

/// The rows of these loads, each once, in the order of their first appearance.
pub(super) fn rows<'a>(loads: impl IntoIterator<Item = &'a Load>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in loads.into_iter().flat_map(|load| &load.rows) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

fn note(result: &RunResult, runs: usize) -> String {
    let RunResult {
        duration_s,
        warm_up_s,
        seed,
        ..
    } = result;
    let runs = match runs as u64 {
        1 => format!("one run, seed {seed}"),
        runs => format!(
            "{runs} runs, seeds {seed} to {}",
            seed.wrapping_add(runs.saturating_sub(1))
        ),
    };
    format!("{duration_s} s, the first {warm_up_s} s not counted; {runs}.")
}

/// Adds the figures of small packets: for each figure the maximum of all sparse flow groups.
fn with_small_packets(traffic: &[TrafficInfo], mut metrics: Metrics) -> Metrics {
    let of_traffic = [
        (SMALL_P50, "delay_ms_p50"),
        (SMALL_P99, "delay_ms_p99"),
        (SMALL_LOST, "loss_ratio"),
    ];
    for (name, base) in of_traffic {
        let sparse = traffic.iter().filter(|traffic| traffic.is_sparse);
        let values = sparse.filter_map(|traffic| metrics.get(&format!("{base}.{}", traffic.name)));
        if let Some(most) = values.copied().reduce(f64::max) {
            metrics.insert(name.to_owned(), most);
        }
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_sparse_traffics_counts_and_floods_do_not() {
        let traffic = |name: &str, is_sparse: bool| TrafficInfo {
            name: name.into(),
            kind: "udp".into(),
            flows: 1,
            hosts: 1,
            is_sparse,
            crosses: Vec::new(),
        };
        let traffic = [
            traffic("ping", true),
            traffic("pong", true),
            traffic("flood", false),
        ];
        let metrics = [
            ("delay_ms_p99.ping", 25.0),
            ("delay_ms_p99.pong", 26.0),
            ("delay_ms_p99.flood", 500.0),
            ("loss_ratio.flood", 0.5),
        ];
        let metrics = metrics.map(|(name, value)| (name.to_owned(), value)).into();
        let with = with_small_packets(&traffic, metrics);
        let small = [SMALL_P50, SMALL_P99, SMALL_LOST].map(|name| with.get(name).copied());
        assert_eq!(small, [None, Some(26.0), None]);
    }
}

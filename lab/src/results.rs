//! What `weir run` gives: every run's metrics and curves, and a summary of each point.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::run::Habitat;
use crate::scenario::{Plan, Point};
use crate::statistics::Summary;

/// The result of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The scenario's file.
    pub scenario: String,
    /// Its title.
    #[serde(default)]
    pub title: String,
    /// What it shows.
    #[serde(default)]
    pub about: String,
    /// `lab` or `sim`.
    pub on: String,
    /// Seed of the first run.
    pub seed: u64,
    /// Length of a run, in seconds.
    #[serde(default)]
    pub duration_s: f64,
    /// What is left out of the metrics, from the start of a run.
    #[serde(default)]
    pub warm_up_s: f64,
    /// What the reader must know: what was left out, what went late.
    #[serde(default)]
    pub notes: Vec<String>,
    /// One for each variant at each point of the sweep.
    pub points: Vec<PointResult>,
    /// Events of a simulation; none in the lab.
    pub events: Option<u64>,
    /// Processor time used by all processes.
    pub cpu_s: f64,
    /// Time that passed.
    pub wall_s: f64,
}

/// The runs of one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// The variant's name, if the scenario has variants.
    #[serde(default)]
    pub variant: Option<String>,
    /// What sets the point apart: path and value.
    pub set: Map<String, Value>,
    /// Its runs.
    pub runs: Vec<OneRun>,
    /// What they say together.
    pub summary: BTreeMap<String, Summary>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OneRun {
    /// Its seed.
    pub seed: u64,
    /// What was measured, with the unit in the name.
    pub metrics: BTreeMap<String, f64>,
    /// Curves.
    pub series: BTreeMap<String, Curve>,
    /// What each router said of itself at the end, by its name.
    #[serde(default)]
    pub routers: Map<String, Value>,
    /// Every flow, for tables only: they can be many.
    #[serde(skip)]
    pub flows: Vec<FlowRow>,
    /// Captures of links that were asked for, as files of their own.
    #[serde(skip)]
    pub captures: Vec<Captured>,
}

/// What was captured at a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Captured {
    /// The link's name.
    pub link: String,
    /// The content of a pcapng file.
    pub pcapng: Vec<u8>,
}

/// One flow of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowRow {
    /// Its traffic.
    pub traffic: String,
    /// When it began, in seconds of the run.
    pub start_s: f64,
    /// When the connection was there.
    pub connected_s: Option<f64>,
    /// When the last byte of a transfer had come.
    pub end_s: Option<f64>,
    /// Bytes of the transfer, if it has a size.
    pub size_bytes: Option<u64>,
    /// Payload delivered in the whole run.
    pub bytes: u64,
    /// Payload delivered in the window.
    pub window_bytes: u64,
}

impl FlowRow {
    /// The completion time in seconds of a transfer that has ended.
    pub fn completion_s(&self) -> Option<f64> {
        self.size_bytes?;
        Some(self.end_s? - self.start_s)
    }
}

/// Values at even steps of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The step, in seconds; the first value is of the first step.
    pub step_s: f64,
    /// The values.
    pub values: Vec<f64>,
}

impl RunResult {
    /// The paths of the sweep: those that take more than one value within a variant.
    pub fn swept(&self) -> Vec<String> {
        let mut seen: BTreeMap<(&str, Option<&str>), &Value> = BTreeMap::new();
        let mut swept = BTreeSet::new();
        for point in &self.points {
            for (path, value) in &point.set {
                let first = seen
                    .entry((path, point.variant.as_deref()))
                    .or_insert(value);
                if *first != value {
                    swept.insert(path.clone());
                }
            }
        }
        swept.into_iter().collect()
    }
}

impl RunResult {
    /// Of a plan's points, which `on` ran from `seed` on; notes, events and times are to be added.
    pub fn of(plan: &Plan, on: Habitat, seed: u64, points: Vec<PointResult>) -> Self {
        Self {
            scenario: plan.file.clone(),
            title: plan.base.title.clone(),
            about: plan.base.about.clone(),
            on: on.word().into(),
            seed,
            duration_s: plan.base.duration.as_secs_f64(),
            warm_up_s: plan.base.warm_up.as_secs_f64(),
            notes: Vec::new(),
            points,
            events: None,
            cpu_s: 0.0,
            wall_s: 0.0,
        }
    }
}

impl PointResult {
    /// No run of `point` yet.
    pub fn of(point: &Point) -> Self {
        Self {
            variant: point.variant.clone(),
            set: point.set.clone(),
            runs: Vec::new(),
            summary: BTreeMap::new(),
        }
    }

    /// Takes a run in and brings the summary up to date.
    pub fn add(&mut self, run: OneRun) {
        self.runs.push(run);
        let names: Vec<String> = self
            .runs
            .iter()
            .flat_map(|r| r.metrics.keys().cloned())
            .collect();
        for name in names {
            let values = self.runs.iter().filter_map(|r| r.metrics.get(&name));
            let values: Vec<f64> = values.copied().collect();
            if let Some(summary) = Summary::of(&values) {
                self.summary.insert(name, summary);
            }
        }
    }

    /// The median of a metric over the runs.
    pub fn median(&self, metric: &str) -> Option<f64> {
        self.summary.get(metric).map(|s| s.median)
    }

    /// What sets the point apart, in words: the variant, and the values of the sweep.
    pub fn title(&self) -> String {
        match (&self.variant, self.place().as_str()) {
            (None, "") => "all".to_owned(),
            (None, place) => place.to_owned(),
            (Some(variant), "") => variant.clone(),
            (Some(variant), place) => format!("{variant}, {place}"),
        }
    }

    /// The single values that were set, in words: `flows 3`.
    fn place(&self) -> String {
        let plain = self.set.iter().filter(|(_, v)| !v.is_object());
        let words = plain.map(|(path, value)| {
            let key = path.rsplit('.').next().unwrap_or(path);
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            format!("{} {value}", key.replace('_', " "))
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_summarises_its_runs() {
        let mut point = PointResult {
            variant: None,
            set: Map::from_iter([
                ("traffic.flood.flows".to_owned(), Value::from(3)),
                (
                    "link.out.discipline".to_owned(),
                    serde_json::json!({ "kind": "fifo" }),
                ),
            ]),
            runs: Vec::new(),
            summary: BTreeMap::new(),
        };
        for (seed, x) in [(1, 1.0), (2, 5.0), (3, 3.0)] {
            point.add(OneRun {
                seed,
                metrics: BTreeMap::from([("x_mbps".to_owned(), x)]),
                series: BTreeMap::new(),
                routers: Map::new(),
                flows: Vec::new(),
                captures: Vec::new(),
            });
        }
        assert_eq!(point.median("x_mbps"), Some(3.0));
        assert_eq!(point.summary["x_mbps"].n, 3);
        assert_eq!(point.title(), "flows 3");
    }
}

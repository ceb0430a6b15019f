//! The results of `weir run`: every run's metrics and curves, and a summary of each point.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::options::Habitat;
use crate::scenario::{Plan, Point};
use crate::statistics::Summary;
use crate::traffic_info::TrafficInfo;

/// Metrics by name.
pub type Metrics = BTreeMap<String, f64>;

/// The result of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The scenario's file.
    pub scenario: String,
    /// The scenario's title.
    #[serde(default)]
    pub title: String,
    /// The scenario's explanation.
    #[serde(default)]
    pub about: String,
    /// `lab` or `sim`.
    pub on: String,
    /// Seed of the first run.
    pub seed: u64,
    /// Length of a run, in seconds.
    #[serde(default)]
    pub duration_s: f64,
    /// The length in seconds of the start of a run, which the metrics leave out.
    #[serde(default)]
    pub warm_up_s: f64,
    /// Notes for the reader: features that were left out, delays of the run.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The traffic of the scenario, as far as it is needed to understand the metrics.
    #[serde(default)]
    pub traffic: Vec<TrafficInfo>,
    /// One result for each variant at each point of the sweep.
    pub points: Vec<PointResult>,
    /// Number of events of a simulation; `None` in the lab.
    pub events: Option<u64>,
    /// Processor time used by all processes, in seconds.
    pub cpu_s: f64,
    /// Elapsed time, in seconds.
    pub wall_s: f64,
}

/// The runs of one point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PointResult {
    /// The variant's name, if the scenario has variants.
    #[serde(default)]
    pub variant: Option<String>,
    /// The values that identify the point, by path.
    pub set: Map<String, Value>,
    /// The swept values of `set`; the others follow from the variant's name.
    #[serde(default)]
    pub sweep: Map<String, Value>,
    /// The runs.
    pub runs: Vec<OneRun>,
    /// The summary of each metric.
    pub summary: BTreeMap<String, Summary>,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OneRun {
    /// The seed.
    pub seed: u64,
    /// The metrics, with the unit in the name.
    pub metrics: Metrics,
    /// The curves, by name.
    pub series: BTreeMap<String, Curve>,
    /// The distributions of the values whose means and percentiles `metrics` has.
    #[serde(default)]
    pub distributions: BTreeMap<String, Distribution>,
    /// The pages of each router at the end, by the router's name.
    #[serde(default)]
    pub routers: Map<String, Value>,
    /// Every flow, for tables only: there can be many.
    #[serde(skip)]
    pub flows: Vec<FlowRow>,
    /// Disturbances of the run, in sentences: busy programs, late tools, packets lost where the scenario loses none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The requested captures of links, which become separate files.
    #[serde(skip)]
    pub captures: Vec<Captured>,
}

/// The capture of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Captured {
    /// The link's name.
    pub link: String,
    /// The content of a pcapng file.
    pub pcapng: Vec<u8>,
}

/// One flow of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRow {
    /// The name of the traffic.
    pub traffic: String,
    /// Start time, in seconds of the run.
    pub start_s: f64,
    /// Time at which the connection was established, in seconds of the run.
    pub connected_s: Option<f64>,
    /// Arrival of the last byte of a transfer, in seconds of the run.
    pub end_s: Option<f64>,
    /// Bytes of the transfer, if it has a size.
    pub size_bytes: Option<u64>,
    /// Payload delivered in the whole run, in bytes.
    pub bytes: u64,
    /// Payload delivered in the window, in bytes.
    pub window_bytes: u64,
}

impl FlowRow {
    /// The completion time in seconds of a transfer that has ended.
    pub fn completion_s(&self) -> Option<f64> {
        self.size_bytes?;
        Some(self.end_s? - self.start_s)
    }
}

/// Values at equal steps of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The step, in seconds; the first value belongs to the first step.
    pub step_s: f64,
    /// The values; NaN (`null` in JSON) for a step without a value.
    #[serde(deserialize_with = "numbers_or_null")]
    pub values: Vec<f64>,
}

fn numbers_or_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let values = Vec::<Option<f64>>::deserialize(from)?;
    Ok(values.into_iter().map(|v| v.unwrap_or(f64::NAN)).collect())
}

/// A distribution: pairs of a share and the value that this share does not exceed, in ascending order. In JSON it is
/// an object: `{ "0.5": 12.1, "0.99": 40.3 }`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, f64>", into = "BTreeMap<String, f64>")]
pub struct Distribution(pub Vec<[f64; 2]>);

impl From<Distribution> for BTreeMap<String, f64> {
    fn from(Distribution(pairs): Distribution) -> Self {
        let pairs = pairs.into_iter();
        pairs
            .map(|[share, value]| (share.to_string(), value))
            .collect()
    }
}

impl From<BTreeMap<String, f64>> for Distribution {
    /// Leaves out entries whose name is not a share.
    fn from(values: BTreeMap<String, f64>) -> Self {
        let pair = |(share, value): (String, f64)| Some([share.parse().ok()?, value]);
        let mut pairs: Vec<[f64; 2]> = values.into_iter().filter_map(pair).collect();
        pairs.sort_by(|a, b| a[0].total_cmp(&b[0]));
        Self(pairs)
    }
}

impl Distribution {
    /// The shares that a distribution stores, close together in the tail.
    const SHARES: [f64; 28] = [
        0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65,
        0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 1.0,
    ];

    /// The distribution of `value` for each share; `None` if it has no values.
    pub fn of(value: impl Fn(f64) -> Option<f64>) -> Option<Self> {
        let pair = |share| Some([share, value(share)?]);
        let pairs: Option<Vec<_>> = Self::SHARES.into_iter().map(pair).collect();
        pairs.map(Self)
    }

    /// The value that this share does not exceed, if the distribution stores this share.
    pub fn at(&self, share: f64) -> Option<f64> {
        self.0.iter().find(|[s, _]| *s == share).map(|[_, v]| *v)
    }
}

impl RunResult {
    /// The paths of the sweep: paths that take more than one value within a variant.
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
    /// The result of a plan's points, which ran in the habitat `on` with seeds from `seed`; the caller adds notes,
    /// events and times.
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
            traffic: TrafficInfo::of_all(&plan.base),
            points,
            events: None,
            cpu_s: 0.0,
            wall_s: 0.0,
        }
    }
}

impl PointResult {
    /// The result of `point`, without runs yet.
    pub fn of(point: &Point) -> Self {
        Self {
            variant: point.variant.clone(),
            set: point.set.clone(),
            sweep: point.sweep.clone(),
            runs: Vec::new(),
            summary: BTreeMap::new(),
        }
    }

    /// Adds a run and updates the summary.
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

    /// The median's interval if there are enough runs for an interval; otherwise the minimum and the maximum of several
    /// runs.
    pub fn spread(&self, metric: &str) -> Option<[f64; 2]> {
        let summary = self.summary.get(metric)?;
        summary.median_ci95.or_else(|| {
            let values = || {
                self.runs
                    .iter()
                    .filter_map(|r| r.metrics.get(metric).copied())
            };
            let ends = [values().reduce(f64::min)?, values().reduce(f64::max)?];
            (summary.n > 1).then_some(ends)
        })
    }

    /// Whether a disturbance affected any run of the point.
    pub fn is_disturbed(&self) -> bool {
        self.runs.iter().any(|run| !run.notes.is_empty())
    }

    /// The title in a report, which marks a disturbed point wherever its name occurs.
    pub fn label(&self) -> String {
        marked(self.title(), self.is_disturbed())
    }

    /// The values of the sweep as text; empty without a sweep.
    pub fn swept(&self) -> String {
        place(&self.sweep)
    }

    /// The values that identify the point, as text: the variant, and the values of the sweep.
    pub fn title(&self) -> String {
        let place = self.swept();
        match (&self.variant, place.as_str()) {
            (None, "") => "all".to_owned(),
            (None, place) => place.to_owned(),
            (Some(variant), "") => variant.clone(),
            (Some(variant), place) => format!("{variant}, {place}"),
        }
    }
}

/// A name, with a mark if any of its runs was disturbed.
pub(crate) fn marked(name: String, is_disturbed: bool) -> String {
    if is_disturbed {
        name + " (disturbed)"
    } else {
        name
    }
}

/// Values at paths as text, each once: `flows 3`. A kind comes first and needs no key; two paths with the same last
/// word get more words.
fn place(sweep: &Map<String, Value>) -> String {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let (mut names, mut words) = (Vec::new(), Vec::new());
    for (path, value) in sweep {
        let value = value_in_words(value);
        let key = last(path);
        let is_alone = sweep
            .iter()
            .all(|(p, v)| last(p) != key || value_in_words(v) == value);
        let is_name = is_alone && (key == "kind" || key == "discipline");
        let word = match is_alone {
            true if is_name => value,
            true => format!("{} {value}", key.replace('_', " ")),
            false => format!("{path} {value}"),
        };
        let of_its_like = if is_name { &mut names } else { &mut words };
        if !of_its_like.contains(&word) {
            of_its_like.push(word);
        }
    }
    names.append(&mut words);
    names.join(", ")
}

/// A value of a sweep as text. A table is always a discipline; its text is its kind and its settings.
fn value_in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(table) => {
            let kind = table.get("kind").map(value_in_words);
            let others = table.iter().filter(|(key, _)| *key != "kind");
            let others =
                others.map(|(key, v)| format!("{} {}", key.replace('_', " "), value_in_words(v)));
            kind.into_iter().chain(others).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_summarises_its_runs() {
        let sweep = [
            ("link.out.delay", Value::from("2 ms")),
            ("link.out.discipline.kind", "fifo".into()),
            ("link.out.reverse_discipline.kind", "fifo".into()),
        ];
        let mut point = PointResult {
            variant: None,
            set: Map::new(),
            sweep: sweep
                .map(|(path, value)| (path.to_owned(), value))
                .into_iter()
                .collect(),
            runs: Vec::new(),
            summary: BTreeMap::new(),
        };
        for (seed, x) in [(1, 1.0), (2, 5.0), (3, 3.0)] {
            point.add(OneRun {
                seed,
                metrics: BTreeMap::from([("x_mbps".to_owned(), x)]),
                series: BTreeMap::new(),
                distributions: BTreeMap::new(),
                routers: Map::new(),
                flows: Vec::new(),
                notes: Vec::new(),
                captures: Vec::new(),
            });
        }
        assert_eq!(point.median("x_mbps"), Some(3.0));
        assert_eq!(point.summary["x_mbps"].n, 3);
        assert_eq!(point.spread("x_mbps"), Some([1.0, 5.0]));
        assert_eq!(point.label(), "fifo, delay 2 ms");
        point.runs[1].notes.push("late".into());
        assert_eq!(point.label(), "fifo, delay 2 ms (disturbed)");
        point.variant = Some("plain".into());
        point.sweep.retain(|path, _| path.ends_with("delay"));
        assert_eq!(point.title(), "plain, delay 2 ms");
        let delays = [("link.a.delay", "1 ms"), ("link.b.delay", "2 ms")];
        let delays = delays.map(|(path, value)| (path.to_owned(), value.into()));
        assert_eq!(
            place(&delays.into_iter().collect()),
            "link.a.delay 1 ms, link.b.delay 2 ms"
        );
    }

    #[test]
    fn a_distribution_comes_back_from_json() {
        let all = Distribution::of(|share| Some(10.0 * share)).unwrap();
        assert_eq!(all.at(0.99), Some(9.9));
        let text = serde_json::to_string(&all).unwrap();
        assert!(text.contains(r#""0.99":9.9"#), "{text}");
        assert_eq!(serde_json::from_str::<Distribution>(&text).unwrap(), all);
        assert_eq!(Distribution::of(|_| None), None);
    }

    #[test]
    fn a_step_without_a_value_comes_back_from_json() {
        let curve = Curve {
            step_s: 0.5,
            values: vec![1.0, f64::NAN],
        };
        let text = serde_json::to_string(&curve).unwrap();
        assert_eq!(text, r#"{"step_s":0.5,"values":[1.0,null]}"#);
        let read: Curve = serde_json::from_str(&text).unwrap();
        assert!(read.values[0] == 1.0 && read.values[1].is_nan());
    }
}

//! Measurements of a paper's file that are neither scenarios nor load tests: a computation, or code that is timed in
//! memory.
//!
//! ```toml
//! [[bench]]
//! name = "fpf/internet"
//! measures = "internet"
//! ```
//!
//! Quantities refer to its points as to those of a scenario; [`Measures`] lists them.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Options;
use crate::error::Error;
use crate::options::RunOptions;
use crate::progress::Progress;
use crate::results::{OneRun, PointResult};
use crate::scale::{self, generate, graph::Graph};

/// A measurement with all its points.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bench {
    /// The name by which quantities refer to it, in place of a scenario.
    pub name: String,
    /// The quantity that is measured.
    pub measures: Measures,
}

/// The measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measures {
    /// Paths, LIDs and headers on a graph of domains ([`scale`]): one point, `graph`. From a file there is one run;
    /// without a file each run generates a graph of its own.
    Internet,
}

/// A point: its variant, and the values that identify it.
pub(super) type Point = (&'static str, Map<String, Value>);

/// Metrics by name.
pub(super) type Metrics = BTreeMap<String, f64>;

impl Measures {
    /// All points.
    pub(super) fn points(self) -> Vec<Point> {
        match self {
            Self::Internet => vec![("graph", Map::new())],
        }
    }

    /// Runs all points.
    pub(super) fn run(
        self,
        how: &Options,
        options: &RunOptions,
        notes: &mut Vec<String>,
    ) -> Result<Vec<PointResult>, Error> {
        let runs = options.runs.unwrap_or(1);
        match self {
            Self::Internet => {
                let graphs = Graphs::new(how.graph.as_deref(), runs, notes)?;
                let runs = graphs.study(options)?;
                Ok(vec![result(self.points().remove(0), runs)])
            }
        }
    }
}

fn result((variant, set): Point, runs: Vec<Metrics>) -> PointResult {
    let run = |(n, metrics): (usize, Metrics)| OneRun {
        seed: n as u64 + 1,
        metrics,
        series: BTreeMap::new(),
        distributions: BTreeMap::new(),
        routers: Map::new(),
        flows: Vec::new(),
        captures: Vec::new(),
    };
    PointResult {
        variant: Some(variant.to_owned()),
        set,
        runs: runs.into_iter().enumerate().map(run).collect(),
        ..PointResult::default()
    }
}

/// The graphs of a study.
enum Graphs {
    File(Graph),
    /// Seeds from 1 to this.
    Generated(u64),
}

impl Graphs {
    fn new(file: Option<&Path>, runs: u64, notes: &mut Vec<String>) -> Result<Self, Error> {
        let Some(path) = file else {
            notes.push(format!(
                "The graph of domains is generated, with the degrees of Table II: {} domains, {runs} seeds. Its paths are shorter than the Internet's. `--graph FILE` takes relationships of autonomous systems instead.",
                generate::DOMAINS
            ));
            return Ok(Self::Generated(runs));
        };
        let graph = Graph::read(path);
        let graph = graph.map_err(Error::io(format!("cannot read {}", path.display())))?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        notes.push(format!(
            "The graph of domains is {}: {} domains, {} links.",
            name.display(),
            graph.domains(),
            graph.links()
        ));
        Ok(Self::File(graph))
    }

    fn study(&self, options: &RunOptions) -> Result<Vec<Metrics>, Error> {
        let progress = Mutex::new(Progress::new(options.progress));
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let jobs = options.jobs.unwrap_or(processors);
        let one = |which: String, graph: &Graph| {
            let show = |done: usize| {
                let text = format!("{which}: {done} of {} domains", graph.domains());
                if let Ok(mut progress) = progress.lock() {
                    progress.update(&text);
                }
            };
            let found = scale::study(graph, jobs, &options.interrupt, &show);
            found.ok_or(Error::Interrupted)
        };
        match self {
            Self::File(graph) => Ok(vec![one("graph".to_owned(), graph)?]),
            Self::Generated(runs) => (1..=*runs)
                .map(|seed| one(format!("graph {seed} of {runs}"), &generate::internet(seed)))
                .collect(),
        }
    }
}

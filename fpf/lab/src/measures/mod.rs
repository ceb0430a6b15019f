//! The paper's measurements that are neither scenarios nor load tests; [`Measures`] lists them.

mod engine;
mod internet;
mod table;
mod wire;

use serde_json::{Map, Value};
use weir_experiment::namespaces;
use weir_experiment::reproduce::Options;
use weir_experiment::reproduce::bench::{Bench, Point, in_turns};
use weir_experiment::results::Metrics;
use weir_experiment::scenario::plan::{Choices, load_built_in};
use weir_experiment::{Error, RunOptions};

use self::internet::Graphs;
use crate::scale::header::Header;

/// The measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measures {
    /// Paths, LIDs and headers on a graph of domains ([`crate::scale`]): one point, `graph`. From a file there is
    /// one run; without a file each run generates a graph of its own.
    Internet,
    /// Whether packets take the paths of the paper: `figure 1`, `multicast` (by `leaves`), `mixed LIDs`, `headers`. One
    /// run.
    Conformance,
    /// Forwarding in memory: `FPF`, `IPv6` (one route) and `IPv6, 10000 routes` by `bytes` of a frame; `edge` with 1000
    /// and 16000 `flows` at 78 bytes.
    Core,
    /// Forwarding by a core FE in memory, frames of 78 bytes, by `flows` of the packets inside.
    Flows,
    /// Lookups alone: `FPF` and `IPv6, 10000 routes`.
    LookUp,
    /// Encapsulation by an edge FE in memory: `edge` by `flows` and `bytes`; `classifier on` with 1000 `flows` of a class.
    Edge,
    /// Flows while the classifier finds their class: `set-up`; and frames of `bytes` that follow the routes of an edge:
    /// `no classifier`, `decided`, `copied` and `lost`.
    Implicit,
    /// A packet's passage through the edge's own stages, and its lookup alone: `edge` by `flows`.
    Encapsulation,
    /// Throughput between two interfaces through one router, up to that of a link of 1 Gbit/s: `FPF`, `IPv6` and `IPv4`
    /// by `bytes` of a frame.
    Wire,
    /// Throughput as in [`Self::Wire`], with a header for each frame: `edge` by `flows` and `bytes`.
    WireEdge,
    /// Throughput as in [`Self::Wire`], for frames that pass the router several times, because wires join its ports:
    /// `FPF` by `loops` and `bytes`. Each pass counts.
    WireLoops,
    /// The scenario `fpf/mixed`, whose kinds of links the simulator does not support: one point, `mixed`, with its
    /// metrics.
    Media,
    /// Classification of a capture: `classifier` by `flows` and `bytes`.
    Classifier,
    /// Sizes of headers by `hops`: [`Header::ALL`] by name. One run.
    Headers,
    /// Rows of a core FE's forwarding table: `core FE` by `paths` from end to end. One run.
    Table,
}

impl Bench for Measures {
    fn points(&self) -> Vec<Point> {
        match self {
            Self::Internet => vec![("graph", Map::new())],
            Self::Headers => headers().map(|(point, _)| point).collect(),
            Self::Table => table::points(),
            Self::Wire | Self::WireEdge | Self::WireLoops => wire::points(*self),
            Self::Media => vec![("mixed", Map::new())],
            _ => engine::points(*self),
        }
    }

    fn needs_lab(&self) -> bool {
        matches!(
            self,
            Self::Wire | Self::WireEdge | Self::WireLoops | Self::Media
        )
    }

    fn run(
        &self,
        how: &Options,
        options: &RunOptions,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Vec<Metrics>>, Error> {
        let runs = options.runs.unwrap_or(1);
        let one_run = |metrics: Vec<Metrics>| metrics.into_iter().map(|m| vec![m]).collect();
        match self {
            Self::Internet => {
                let graphs = Graphs::new(how.graph.as_deref(), runs, notes)?;
                Ok(vec![graphs.study(options)?])
            }
            Self::Conformance => Ok(one_run(engine::conformance(how.quick)?)),
            Self::Headers => Ok(one_run(headers().map(|(_, metrics)| metrics).collect())),
            Self::Table => Ok(one_run(table::rows(how.quick)?)),
            Self::Wire | Self::WireEdge | Self::WireLoops => {
                let mut routers = wire::start(options, how.quick)?;
                in_turns(self, options, |at| wire::measure(&mut routers, *self, at))
            }
            Self::Media => Ok(vec![media(options, runs, how.quick, notes)?]),
            _ => in_turns(self, options, |at| engine::measure(*self, at, how.quick)),
        }
    }
}

/// The metrics of each run over links of several kinds.
fn media(
    options: &RunOptions,
    runs: u64,
    quick: bool,
    notes: &mut Vec<String>,
) -> Result<Vec<Metrics>, Error> {
    let choices = Choices {
        quick,
        ..Choices::default()
    };
    let plan = load_built_in("fpf/mixed", choices)?;
    let options = RunOptions {
        runs: Some(runs),
        ..options.clone()
    };
    let ran = namespaces::run(&plan, &options)?;
    notes.extend(ran.notes);
    let runs = ran.points.into_iter().flat_map(|point| point.runs);
    Ok(runs.map(|run| run.metrics).collect())
}

/// Number of hops of the paper's longest path.
const HOPS_MAX: u32 = 20;

/// Headers of paths of 1 to 20 hops: `bytes` of the list, and `encapsulated_bytes` with the outer IPv6 header of SRv6.
fn headers() -> impl Iterator<Item = (Point, Metrics)> {
    Header::ALL.into_iter().flat_map(|(name, header)| {
        (1..=HOPS_MAX).map(move |hops| {
            let sizes = [
                ("bytes", header.bytes(hops)),
                ("encapsulated_bytes", header.encapsulated_bytes(hops)),
            ];
            let metrics = sizes.map(|(name, bytes)| (name.to_owned(), f64::from(bytes)));
            ((name, place(&[("hops", hops.into())])), metrics.into())
        })
    })
}

/// The values that identify a point.
fn place(values: &[(&str, u64)]) -> Map<String, Value> {
    let values = values.iter();
    values
        .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
        .collect()
}

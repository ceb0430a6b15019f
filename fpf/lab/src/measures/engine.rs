//! Measurements of the forwarding engine in memory.

use weir_benches::classifier;
use weir_experiment::Error;
use weir_experiment::reproduce::bench::Point;
use weir_experiment::results::Metrics;

use super::{Measures, place};
use crate::memory::conformance;
use crate::memory::encapsulation;
use crate::memory::implicit;
use crate::memory::throughput::{self, Classifier, Engine, FRAME_BYTES, GAP_BYTES, Kind};

/// Numbers of flows of an edge (Figure 6).
const FLOWS: [u32; 5] = [1000, 2000, 4000, 8000, 16_000];
/// Lengths of frames at an edge. The link behind it cannot carry a frame of 1518 bytes with an additional header.
const EDGE_BYTES: [usize; 5] = [78, 128, 256, 384, 1024];
/// Number of flows of a class, and lengths of their frames (section V.C).
const CLASSIFIED: u32 = 1000;
const CLASSIFIED_BYTES: [usize; 3] = [384, 512, 1024];
/// Flows that the classifier does not decide, so that each frame belongs to a new flow, or to one flow among many.
const UNMATCHED: [(&str, Classifier); 4] = [
    ("no classifier", Classifier::None),
    ("decided", Classifier::Decided),
    ("copied", Classifier::Fetches),
    ("lost", Classifier::Late),
];
const UNMATCHED_FLOWS: u32 = 16_384;
const UNMATCHED_BYTES: [usize; 2] = [128, 1024];
/// Number of rounds of a measurement of the classifier, whose spread is a metric.
const ROUNDS: usize = 5;
/// Numbers of leaves of a multicast rule.
const LEAVES: [u8; 2] = [2, 8];
/// Rate in bit/s and overhead in bytes of the link of the paper's server; then of the bus of its network processor
/// (Figure 5), which carries only frames.
const LINK: (f64, usize) = (1e9, GAP_BYTES);
const BUS: (f64, usize) = (12.8e9, 0);

/// A point, its kind of frames, and their length.
type EnginePoint = (Point, Kind, usize);

fn engines(measures: Measures) -> Vec<EnginePoint> {
    let least = FRAME_BYTES[0];
    let by_bytes = |variant, kind| {
        let sizes = FRAME_BYTES.into_iter();
        sizes.map(move |bytes| ((variant, place(&[("bytes", bytes as u64)])), kind, bytes))
    };
    let by_flows = |variant, flows: u32, kind, bytes| {
        let values = [("flows", flows.into()), ("bytes", bytes as u64)];
        ((variant, place(&values)), kind, bytes)
    };
    match measures {
        Measures::Core => {
            let routers = by_bytes("IPv6", Kind::Ipv6)
                .chain(by_bytes("IPv6, 10000 routes", Kind::Ipv6Routes));
            let edge = [1000, 16_000].map(|n| by_flows("edge", n, Kind::Edge(n), least));
            by_bytes("FPF", Kind::Fpf(1))
                .chain(routers)
                .chain(edge)
                .collect()
        }
        Measures::Flows => {
            let flows = [1, 16_000].into_iter();
            flows
                .map(|n| by_flows("FPF", n, Kind::Fpf(n), least))
                .collect()
        }
        Measures::Edge => {
            let flows = FLOWS.into_iter();
            let classified = CLASSIFIED_BYTES.map(|bytes| {
                let kind = Kind::Classified(CLASSIFIED);
                by_flows("classifier on", CLASSIFIED, kind, bytes)
            });
            flows
                .flat_map(|n| EDGE_BYTES.map(|bytes| by_flows("edge", n, Kind::Edge(n), bytes)))
                .chain(classified)
                .collect()
        }
        Measures::Implicit => UNMATCHED
            .into_iter()
            .flat_map(|(variant, classifier)| {
                let kind = Kind::Unmatched(UNMATCHED_FLOWS, classifier);
                UNMATCHED_BYTES.map(|bytes| {
                    let values = place(&[("bytes", bytes as u64)]);
                    ((variant, values), kind, bytes)
                })
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Numbers of flows and lengths of frames for the classifier.
fn classified() -> impl Iterator<Item = (u32, usize)> {
    let lengths = classifier::FRAME_BYTES.into_iter();
    lengths.flat_map(|bytes| classifier::FLOWS.map(|flows| (flows, bytes)))
}

/// All points of a measurement of the engine.
pub(super) fn points(measures: Measures) -> Vec<Point> {
    match measures {
        Measures::Conformance => {
            let leaves = LEAVES.map(|n| ("multicast", place(&[("leaves", n.into())])));
            let others = ["figure 1", "mixed LIDs", "headers"].map(|name| (name, place(&[])));
            others.into_iter().chain(leaves).collect()
        }
        Measures::LookUp => vec![("look-up", place(&[]))],
        Measures::Classifier => classified()
            .map(|(flows, bytes)| {
                let values = [("flows", flows.into()), ("bytes", bytes as u64)];
                ("classifier", place(&values))
            })
            .collect(),
        Measures::Encapsulation => {
            let flows = FLOWS.into_iter();
            flows
                .map(|n| ("edge", place(&[("flows", n.into())])))
                .collect()
        }
        _ => {
            let points = engines(measures).into_iter().map(|(point, ..)| point);
            let set_up = (measures == Measures::Implicit).then(|| ("set-up", place(&[])));
            points.chain(set_up).collect()
        }
    }
}

/// Measures one point once.
pub(super) fn measure(measures: Measures, at: usize, is_quick: bool) -> Result<Metrics, Error> {
    match measures {
        Measures::LookUp => {
            let rounds = if is_quick { 1 } else { 100 };
            let [lid, ipv6] = throughput::look_up_ns(rounds).map_err(failed)?;
            Ok(metrics(&[("lid_ns", lid), ("ipv6_ns", ipv6)]))
        }
        Measures::Classifier => {
            let (flows, bytes) = classified().nth(at).unwrap_or_default();
            let rounds = if is_quick { 1 } else { ROUNDS };
            let row = classifier::row(flows, bytes, rounds, is_quick);
            let row = row.map_err(failed)?;
            Ok(metrics(&[
                ("read_ns", row.read_ns),
                ("classify_ns", row.classify_ns),
                ("ratio", row.ratio),
                ("spread", row.spread),
            ]))
        }
        Measures::Encapsulation => {
            let batches = if is_quick { 2 } else { 500 };
            let sample = encapsulation::sample(FLOWS[at], batches);
            let [all, look_up] = sample.map_err(failed)?;
            Ok(metrics(&[("encapsulate_ns", all), ("look_up_ns", look_up)]))
        }
        _ => match engines(measures).into_iter().nth(at) {
            Some((_, kind, bytes)) => forwarding(kind, bytes, is_quick),
            None => set_up(is_quick),
        },
    }
}

/// | metric | |
/// |---|---|
/// | `ns` | processor time for a frame |
/// | `fps` | throughput (RFC 2544) of the engine alone, in frames per second |
/// | `link_share_ratio` | throughput as a share of the rate of a link of 1 Gbit/s, at most 1 |
/// | `bus_share_ratio` | throughput as a share of the rate of a bus of 12.8 Gbit/s, at most 1 |
fn forwarding(kind: Kind, bytes: usize, is_quick: bool) -> Result<Metrics, Error> {
    let frames = if is_quick { 500 } else { 100_000 };
    let mut engine = Engine::new(kind, bytes).map_err(failed)?;
    engine.ns(frames); // caches and branches are cold at first
    let ns = engine.ns(frames);
    let fps = engine.throughput(frames, None);
    if engine.dropped() > 0 {
        // Dropping is cheaper than forwarding, so the figure would mislead.
        let what = format!("{} frames of {bytes} bytes were dropped", engine.dropped());
        return Err(Error::io("invalid measurement")(std::io::Error::other(
            what,
        )));
    }
    let share = |(bps, gap): (f64, usize)| (fps * 8.0 * (bytes + gap) as f64 / bps).min(1.0);
    Ok(metrics(&[
        ("ns", ns),
        ("fps", fps),
        ("link_share_ratio", share(LINK)),
        ("bus_share_ratio", share(BUS)),
    ]))
}

/// | metric | |
/// |---|---|
/// | `lost` | packets of the flows that did not leave |
/// | `without_path_ratio` | share of the flows without a rule of their class at the end |
/// | `by_routes_per_flow` | mean number of packets of a flow that followed the routes |
/// | `delay_max_ms` | the longest work of the forwarding thread for a burst, copies and decisions included |
fn set_up(is_quick: bool) -> Result<Metrics, Error> {
    let packets = if is_quick { 5 } else { 100 };
    let outcome = implicit::set_up(CLASSIFIED, packets).map_err(failed)?;
    let flows = f64::from(CLASSIFIED);
    Ok(metrics(&[
        ("lost", outcome.lost as f64),
        (
            "without_path_ratio",
            1.0 - outcome.classified as f64 / flows,
        ),
        ("by_routes_per_flow", outcome.by_routes as f64 / flows),
        ("delay_max_ms", outcome.delay_max.as_secs_f64() * 1e3),
    ]))
}

/// Measures all points of [`Measures::Conformance`].
pub(super) fn conformance(is_quick: bool) -> Result<Vec<Metrics>, Error> {
    let cases = if is_quick { 1000 } else { 1_000_000 };
    let yes = |is: bool| f64::from(u8::from(is));
    let walk = conformance::figure_1().map_err(failed)?;
    let index = |at: usize| walk.indices.get(at).map_or(-1.0, |index| (*index).into());
    let mut of_walk = metrics(&[
        (
            "same_lid",
            yes(walk.lids.get(1) == walk.lids.get(2) && walk.lids.len() == 3),
        ),
        ("original", yes(walk.is_original)),
        ("routed", yes(walk.is_routed)),
    ]);
    of_walk.extend((0..4).map(|at| (format!("index.{}", at + 1), index(at))));
    let of_cases = |right: u64| metrics(&[("cases", cases as f64), ("right", right as f64)]);
    let mut all = vec![
        of_walk,
        of_cases(conformance::mixed_lids(cases).map_err(failed)?),
        of_cases(conformance::headers(cases).map_err(failed)?),
    ];
    for leaves in LEAVES {
        let (copies, others) = conformance::multicast(leaves).map_err(failed)?;
        let of = |found: Option<&usize>| found.map_or(f64::NAN, |n| *n as f64);
        all.push(metrics(&[
            ("copies_min", of(copies.iter().min())),
            ("copies_max", of(copies.iter().max())),
            ("copies_other", others as f64),
        ]));
    }
    Ok(all)
}

fn metrics(values: &[(&str, f64)]) -> Metrics {
    let values = values.iter();
    values
        .map(|(name, value)| ((*name).to_owned(), *value))
        .collect()
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::io("cannot set up a measurement")(std::io::Error::other(error))
}

//! Throughput of a router between two interfaces, in network namespaces.

use weir_base::Span;
use weir_experiment::Error;
use weir_experiment::RunOptions;
use weir_experiment::reproduce::bench::Point;
use weir_experiment::results::Metrics;

use super::{Measures, place};
use crate::wire::{Found, Kind, LOOPS_MAX, Throughput};

/// Lengths of frames, check sequence included.
const CORE_BYTES: [u64; 9] = [78, 96, 128, 196, 256, 384, 512, 1024, 1518];
/// Those at an edge. The link behind it carries no frame of 1518 bytes with a header more.
const EDGE_BYTES: [u64; 3] = [384, 512, 1024];
/// Flows of an edge.
const EDGE_FLOWS: [u32; 2] = [1000, 16_000];
/// Lengths of frames that pass loops, and the numbers of loops: a frame is forwarded once more than that.
const LOOP_BYTES: [u64; 2] = [128, 1518];
const LOOPS: [u32; 2] = [0, LOOPS_MAX];
/// Length of a trial.
const TRIAL: Span = Span::from_secs(2);
const TRIAL_QUICK: Span = Span::from_millis(300);

/// All points: kinds of frames take turns at each length.
fn all(measures: Measures) -> Vec<(Point, Kind, usize)> {
    let core = CORE_BYTES.into_iter().flat_map(|bytes| {
        let kinds = [
            ("FPF", Kind::Fpf),
            ("IPv6", Kind::Ipv6),
            ("IPv4", Kind::Ipv4),
        ];
        kinds.map(|(name, kind)| ((name, place(&[("bytes", bytes)])), kind, bytes as usize))
    });
    let edge = EDGE_BYTES.into_iter().flat_map(|bytes| {
        EDGE_FLOWS.map(|flows| {
            let values = [("flows", flows.into()), ("bytes", bytes)];
            (("edge", place(&values)), Kind::Edge(flows), bytes as usize)
        })
    });
    let loops = LOOP_BYTES.into_iter().flat_map(|bytes| {
        LOOPS.map(|loops| {
            let values = [("loops", loops.into()), ("bytes", bytes)];
            (("FPF", place(&values)), Kind::Loops(loops), bytes as usize)
        })
    });
    match measures {
        Measures::WireLoops => loops.collect(),
        Measures::WireEdge => edge.collect(),
        _ => core.collect(),
    }
}

/// All points of a measurement.
pub(super) fn points(measures: Measures) -> Vec<Point> {
    all(measures).into_iter().map(|(point, ..)| point).collect()
}

/// The routers of a measurement.
pub(super) fn start(options: &RunOptions, is_quick: bool) -> Result<Throughput, Error> {
    Throughput::new(options, if is_quick { TRIAL_QUICK } else { TRIAL })
}

/// Measures one point once.
///
/// | metric | |
/// |---|---|
/// | `fps` | throughput (RFC 2544) in frames per second, up to the rate of a link of 1 Gbit/s, or a multiple of it with loops |
/// | `link_share_ratio` | the same over that rate |
/// | `offered_share_ratio` | the rate that the source reached when it was to send at the link's rate, over that rate |
/// | `lost_share_ratio` | the share of the frames that was lost then |
/// | `router_ns` | processor time of the router for a frame, each time that it passes |
pub(super) fn measure(
    routers: &mut Throughput,
    measures: Measures,
    at: usize,
) -> Result<Metrics, Error> {
    let (_, kind, bytes) = all(measures).swap_remove(at);
    let Found {
        fps,
        link_share,
        offered_share,
        lost_share,
        ns,
    } = routers.search(kind, bytes)?;
    let metrics = [
        ("fps", fps),
        ("link_share_ratio", link_share),
        ("offered_share_ratio", offered_share),
        ("lost_share_ratio", lost_share),
        ("router_ns", ns),
    ];
    Ok(metrics.map(|(name, value)| (name.to_owned(), value)).into())
}

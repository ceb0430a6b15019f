//! Figures 4, 6 and 7: throughput in memory and through interfaces.

use weir_experiment::reproduce::figure::swept;
use weir_experiment::reproduce::findings::{Findings, check, show};
use weir_experiment::reproduce::measured::Measured;
use weir_experiment::reproduce::query::{Point, Series, extremes, pairs, series};
use weir_experiment::reproduce::recipe::{Recipe, claim};
use weir_experiment::reproduce::samples::Samples;

use super::{
    FPS, FRAME_BYTES, IN_MEMORY, INTERFACES, OF_LINK, OF_LINK_OFFERED, ROUTES, at, core, edge,
};

/// Maximum half of a 95 % interval, as a share of the mean.
const SPREAD_MAX: f64 = 0.02;
/// A note on measurements through interfaces.
const SLOW_SOURCE: &str =
    "a source that offers less than the link's rate cannot show that a router carries it";

/// FPF's frames per second in memory by those of another engine.
fn gain(m: &Measured, other: &str, bytes: u32) -> Samples {
    core(m, "FPF", bytes).metric(FPS) / core(m, other, bytes).metric(FPS)
}

/// The same through interfaces, compared with IPv6 with one route.
fn gain_on_wire(m: &Measured, bytes: u32) -> Samples {
    let [fpf, ipv6] =
        ["FPF", "IPv6"].map(|engine| at(m, "wire", engine).and("bytes", bytes).metric(FPS));
    fpf / ipv6
}

fn by_bytes(bytes: &[u32], of: impl Fn(u32) -> Samples) -> Series {
    series!(for bytes in bytes, "{bytes} B": of(*bytes))
}

/// The link's rate is reached at these points.
fn at_line_rate(m: &Measured, f: &mut Findings, points: &[(String, Point<'_>)]) {
    check!(f, for (name, at) in points, "{name}, throughput to the link's rate":
        at_least(at.metric(OF_LINK), 0.99));
    show!(f, m, "offered share of the link's rate": for (name, at) in points, "{name}":
        at.metric(OF_LINK_OFFERED));
    show!(f, m, "lost share of it": for (name, at) in points, "{name}":
        at.metric("lost_share_ratio"));
    f.remark(SLOW_SOURCE);
}

pub(super) fn fig4(r: &mut Recipe) {
    r.title = "Throughput of a core FE and of an IPv6 router";
    r.notes = &[IN_MEMORY, INTERFACES];
    r.benches = &["fpf/core", "fpf/look-up", "fpf/wire"];
    let title = "Throughput of one core, million frames per second";
    r.figure(title, "bytes of a frame", |m| {
        let fps = |engine, bytes| core(m, engine, bytes).metric(FPS) / 1e6;
        let gigabit = |bytes| 1e3 / (8.0 * (f64::from(bytes) + 20.0));
        vec![
            swept!(for x in FRAME_BYTES, "FPF": fps("FPF", x)),
            swept!(for x in FRAME_BYTES, "IPv6, one route": fps("IPv6", x)),
            swept!(for x in FRAME_BYTES, "IPv6, 10,000 routes": fps(ROUTES, x)),
            swept!(for x in FRAME_BYTES, "1 Gbit/s": gigabit(x).into()),
        ]
    });

    claim(r, "fig4.1", "FPF beats IPv6 below 256 B").measured(|m, f| {
        let small = &FRAME_BYTES[..4];
        let fps = |engine, x| core(m, engine, x).metric(FPS);
        check!(f, for &x in small, "{x} B, frames per second, FPF to IPv6 with one route":
            times(fps("FPF", x), fps("IPv6", x), 1.05));
        show!(f, m, "through interfaces, FPF to IPv6 with one route":
            by_bytes(small, |x| gain_on_wire(m, x)));
        show!(f, m, "FPF to IPv6 with 10,000 routes": by_bytes(small, |x| gain(m, ROUTES, x)));
        f.remark("processor-bound; decided against the router with one route, the cheapest one");
    });
    claim(r, "fig4.2", "From 256 B both run at line rate").measured(|m, f| {
        let point = |(bytes, engine)| {
            let at = at(m, "wire", engine).and("bytes", bytes);
            (format!("{engine}, {bytes} B"), at)
        };
        let points = pairs(&FRAME_BYTES[4..], &["FPF", "IPv6"])
            .into_iter()
            .map(point);
        at_line_rate(m, f, &points.collect::<Vec<_>>());
    });
    claim(r, "fig4.3", "CPU-bound: up to twice IPv6").measured(|m, f| {
        let [greatest, _] = extremes(FRAME_BYTES.map(|bytes| gain(m, "IPv6", bytes)));
        check!(f, "highest ratio to IPv6 with one route": at_least(greatest, 1.05));
        for (name, other) in [("one route", "IPv6"), ("10,000 routes", ROUTES)] {
            show!(f, m, "FPF to IPv6 with {name}": by_bytes(&FRAME_BYTES, |x| gain(m, other, x)));
        }
    });
    claim(r, "fig4.4", "Interface-bound: comparable").measured(|m, f| {
        check!(f, for &x in &FRAME_BYTES[4..], "{x} B, throughput through interfaces, FPF to IPv6":
            between(gain_on_wire(m, x), [0.98, 1.02]));
    });
    let text = "The gain comes from small constant-size lookup";
    claim(r, "fig4.5", text).measured(|m, f| {
        let at = at(m, "look-up", "look-up");
        check!(f, "lookup in ns, LID among 256 to longest prefix among 10,000":
            less(at.metric("lid_ns"), at.metric("ipv6_ns")));
        f.remark("alone, 65,536 independent lookups in sequence");
    });
    claim(r, "fig4.6", "Measurements repeat within 2 %").measured(|m, f| {
        for (engine, bytes) in pairs(&["FPF", "IPv6"], &FRAME_BYTES) {
            let summary = core(m, engine, bytes).metric(FPS).summary();
            let spread = summary.and_then(|s| Some(s.ci95? / s.mean));
            let shown = spread.map_or("not measured".to_owned(), |x| format!("{:.2} %", 100.0 * x));
            check!(f, "{engine}, {bytes} B, half of the 95 % interval: {shown} of the mean":
                is_if_known(spread.map(|spread| spread <= SPREAD_MAX)));
        }
    });
}

const FLOWS: [u32; 5] = [1000, 2000, 4000, 8000, 16_000];

pub(super) fn fig6(r: &mut Recipe) {
    r.title = "Encapsulation at an edge FE by number of flows";
    r.notes = &[
        IN_MEMORY,
        "Every frame gets a header with four LIDs; each flow has a rule of its own and differs in \
         its source address.",
        INTERFACES,
    ];
    r.benches = &["fpf/edge", "fpf/encapsulation", "fpf/wire-edge"];
    let title = "Encapsulation by one core, million frames per second";
    r.figure(title, "flows", |m| {
        let fps = |flows, bytes| edge(m, "edge", flows, bytes).metric(FPS) / 1e6;
        let line = |bytes| swept!(for flows in FLOWS, "{bytes} B": fps(flows, bytes));
        [78, 128, 256, 384, 1024].map(line).into()
    });

    let text = "Encapsulation falls slightly with the flow count";
    claim(r, "fig6.1", text).measured(|m, f| {
        let [few, many] = [1000, 16_000].map(|flows| edge(m, "edge", flows, 78).metric(FPS));
        check!(f, "78 B, frames per second, 16K flows to 1K": not_more(&many, &few));
        check!(f, "78 B, frames per second, 16K flows to 1K": times(many, few, 0.8));
    });
    claim(r, "fig6.2", "Only frames below 384 B are touched").measured(|m, f| {
        let point = |(bytes, flows)| {
            let at = edge(m, "wire-edge", flows, bytes);
            (format!("{flows} flows, {bytes} B"), at)
        };
        let points = pairs(&[384, 512, 1024], &[1000, 16_000])
            .into_iter()
            .map(point);
        at_line_rate(m, f, &points.collect::<Vec<_>>());
    });
    claim(r, "fig6.3", "The loss is lookup time").measured(|m, f| {
        let ns = |flows, metric| {
            at(m, "encapsulation", "edge")
                .and("flows", flows)
                .metric(metric)
        };
        let [look_up, all] =
            ["look_up_ns", "encapsulate_ns"].map(|metric| ns(16_000, metric) - ns(1000, metric));
        let what = "growth of the lookup by the growth of the whole, 1K to 16K flows";
        f.at_least(what, look_up / all, 0.8);
        for (what, metric) in [
            ("ns for a packet", "encapsulate_ns"),
            ("of which lookup, in bursts", "look_up_ns"),
        ] {
            show!(f, m, "{what}": for n in FLOWS, "{n} flows":
                ns(n, metric));
        }
    });
    claim(r, "fig6.4", "16K bounds the 64 kb/s calls on 1 Gb/s").arithmetic(|_, f| {
        check!(f, "calls of 64 kbit/s on 1 Gbit/s": at_most(1e9 / 64e3, 16_000.0));
    });
}

pub(super) fn fig7(r: &mut Recipe) {
    r.title = "The flow-aware classifier by number of flows";
    r.notes = &[
        "A capture in memory, one core: T0 finds and copies the frames, T1 classifies them too, \
         with a table of 20,000 flows. A quarter of the flows each is RTP, TLS, HTTP, and random \
         bytes over UDP. Lengths include the check sequence.",
    ];
    r.benches = &["fpf/classifier"];
    fn at(m: &Measured, flows: u32, bytes: u32) -> Point<'_> {
        let at = super::at(m, "classifier", "classifier");
        at.and("flows", flows).and("bytes", bytes)
    }
    const FLOWS: [u32; 4] = [10, 100, 1000, 10_000];

    claim(r, "fig7.1", "Small packets cost the classifier more").measured(|m, f| {
        for n in FLOWS {
            let [small, large] = [128, 1518].map(|bytes| at(m, n, bytes).metric("ratio"));
            check!(f, "{n} flows, T0/T1 at 128 B less that at 1518 B":
                at_most((small - large).into_shares(), 0.0));
        }
    });
    claim(r, "fig7.2", "Level up to 1K flows").measured(|m, f| {
        for bytes in [128, 1518] {
            let [greatest, least] =
                extremes([10, 100, 1000].map(|n| at(m, n, bytes).metric("ratio")));
            check!(f, "{bytes} B, highest to lowest T0/T1 of 10, 100 and 1000 flows":
                at_most(greatest / least, 1.1));
        }
    });
    claim(r, "fig7.3", "About half at 10K").measured(|m, f| {
        for bytes in [128, 1518] {
            let ratio = at(m, 10_000, bytes).metric("ratio");
            check!(f, "{bytes} B, T0/T1": between(ratio.into_shares(), [0.35, 0.65]));
        }
        f.remark(
            "the paper's packets are of 128 and of 1518 B (R23: it prints 1528); a faster \
             classifier would be above the range",
        );
    });
    claim(r, "fig7.4", "Repeats within 18 %").measured(|m, f| {
        for (bytes, n) in pairs(&[128, 1518], &FLOWS) {
            check!(f, "{n} flows, {bytes} B, half of the range of the rounds to their median":
                at_most(at(m, n, bytes).metric("spread"), 0.18));
        }
    });
}

//! Beben et al., "A Scalable and Flexible Packet Forwarding Method": claims that need their own arithmetic.

use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Checks};
use crate::reproduce::verdict::{Findings, Samples};
use crate::scale::header::{Header, lid_bytes, lids};

pub(super) const CHECKS: &Checks = &[
    ("fig4.6", repeats),
    ("table2.1", lids_by_degree),
    ("table2.2", bytes_by_lids),
    ("table2.3", one_byte),
    ("header.2", worst_header),
    ("header.6", smaller_than_segments),
    ("text.1", faster_overall),
];

/// Maximum degree at each percentile of Table II, its LIDs, and their bytes.
const TABLE_2: [(u32, u64, u32); 5] = [
    (6, 24, 1),
    (60, 240, 1),
    (128, 512, 2),
    (2000, 8000, 2),
    (2972, 11_888, 2),
];

/// Number of domains of the longest path.
const LONGEST: u32 = 20;

/// Frame sizes in bytes, check sequence included.
const FRAME_BYTES: [u32; 9] = [78, 96, 128, 196, 256, 384, 512, 1024, 1518];
/// Maximum half of a 95 % interval, as a share of the mean.
const SPREAD_MAX: f64 = 0.02;

/// Throughput of an engine for frames of this size.
fn throughput(m: &Measured, engine: &str, bytes: u32) -> Samples {
    m.samples(&At::new("fpf/core", engine).and("bytes", bytes), "fps")
}

fn repeats(m: &Measured, f: &mut Findings) {
    for engine in ["FPF", "IPv6"] {
        for bytes in FRAME_BYTES {
            let summary = throughput(m, engine, bytes).summary();
            let spread = summary.and_then(|s| Some(s.ci95? / s.mean));
            let shown = spread.map_or("not measured".to_owned(), |x| format!("{:.2} %", 100.0 * x));
            let text =
                format!("{engine}, {bytes} B, half of the 95 % interval: {shown} of the mean");
            f.is_if_known(text, spread.map(|spread| spread <= SPREAD_MAX));
        }
    }
}

fn faster_overall(m: &Measured, f: &mut Findings) {
    for router in ["IPv6", "IPv6, 10000 routes"] {
        let ratio = |bytes| {
            let [fpf, ipv6] = ["FPF", router].map(|engine| throughput(m, engine, bytes));
            fpf.with(&ipv6, |fpf, ipv6| (fpf / ipv6).ln())
        };
        let sum = FRAME_BYTES.map(ratio).into_iter();
        let sum = sum
            .reduce(|a, b| a.with(&b, |a, b| a + b))
            .unwrap_or_default();
        let mean = sum.map(|sum| (sum / FRAME_BYTES.len() as f64).exp());
        f.above(
            &format!("geometric mean over all sizes, FPF to {router}"),
            &mean,
            1.0,
        );
    }
}

fn lids_by_degree(_: &Measured, f: &mut Findings) {
    for (degree, printed, _) in TABLE_2 {
        let ours = lids(degree);
        let text = format!("degree {degree}: {ours} LIDs (paper {printed})");
        f.is(text, ours == printed);
    }
}

fn bytes_by_lids(_: &Measured, f: &mut Findings) {
    for (degree, lids, printed) in TABLE_2 {
        let bytes = lid_bytes(degree);
        let text = format!("{lids} LIDs: {bytes} B (paper {printed})");
        f.is(text, bytes == printed);
    }
}

fn one_byte(m: &Measured, f: &mut Findings) {
    let degrees = (1..).take_while(|degree| lid_bytes(*degree) == 1);
    let greatest = degrees.last().unwrap_or_default();
    let [_, (at_99, ..), ..] = TABLE_2;
    let text =
        format!("maximum degree with one-byte LIDs: {greatest} (at the 99th percentile: {at_99})");
    f.is(text, greatest >= at_99);
    let share = m.samples(&At::new("fpf/internet", "graph"), "one_byte_share_ratio");
    f.at_least("share of the domains of our graph", &share, 0.99);
}

fn worst_header(_: &Measured, f: &mut Findings) {
    let bytes = Header::Fpf(2).bytes(LONGEST);
    let text = format!("{LONGEST} LIDs of 2 B: {bytes} B (paper 42)");
    f.is(text, bytes == 42);
    let vector = 2 * LONGEST;
    let text = format!("Length of the vector: {vector} (one byte holds 255)");
    f.is(text, vector <= u8::MAX.into());
}

fn smaller_than_segments(_: &Measured, f: &mut Findings) {
    for (lid_bytes, from) in [(1, 1), (2, 2)] {
        for (name, other) in [("SR-MPLS", Header::SrMpls), ("SRv6", Header::Srv6)] {
            let bytes = |hops| (Header::Fpf(lid_bytes).bytes(hops), other.bytes(hops));
            let longer = (from..=LONGEST).find(|hops| bytes(*hops).0 >= bytes(*hops).1);
            let [(fpf, theirs), ..] = [LONGEST, from].map(bytes);
            let text = match longer {
                None => format!(
                    "LIDs of {lid_bytes} B against {name}: smaller at {from} to {LONGEST} hops, {fpf} to {theirs} B at {LONGEST}"
                ),
                Some(hops) => format!(
                    "LIDs of {lid_bytes} B against {name}: {} to {} B at {hops} hops",
                    bytes(hops).0,
                    bytes(hops).1
                ),
            };
            f.is(text, longer.is_none());
        }
    }
}

//! The FPF header.

use weir_experiment::reproduce::figure::swept;
use weir_experiment::reproduce::findings::{Findings, check, show};
use weir_experiment::reproduce::measured::Measured;
use weir_experiment::reproduce::query::{Series, series};
use weir_experiment::reproduce::recipe::{Recipe, claim, names};
use weir_experiment::reproduce::samples::Samples;

use super::at;
use super::internet::graph;
use crate::scale::header::Header;

/// Number of domains of the longest path.
const LONGEST: u32 = 20;

/// Kinds of lists of hops; the last three are also counted with the outer IPv6 header.
const KINDS: [&str; 6] = names![
    "FPF, 1-byte LIDs" "FPF, 2-byte LIDs" "SR-MPLS" "SRv6" "SRv6, NEXT-C-SID" "SRv6, REPLACE-C-SID"
];

fn size(m: &Measured, kind: &str, hops: u32, metric: &str) -> Samples {
    at(m, "headers", kind).and("hops", hops).metric(metric)
}

fn by_hops(m: &Measured, kind: &str, metric: &str) -> Series {
    let hops = [1, 2, 4, 6, 7, 10, 13, 20];
    series!(for hops in hops, "{hops} hops": size(m, kind, hops, metric))
}

/// All cases of a conformance test went right.
fn all_right(m: &Measured, f: &mut Findings, test: &str, [right, wrong]: [&str; 2]) {
    let at = at(m, "conformance", test);
    f.at_least(right, at.metric("right"), 1.0);
    f.at_most(wrong, at.metric("cases") - at.metric("right"), 0.0);
}

pub(super) fn header(r: &mut Recipe) {
    r.title = "The FPF header";
    r.notes = &[
        "Headers on our graph: two bytes, and for each domain of the path (both ends included) a \
         LID of the size that formula (1) gives it. Of equally short paths the one with the most \
         bytes counts.",
    ];
    r.benches = &["fpf/internet", "fpf/conformance", "fpf/headers"];
    r.figure("Bytes of the list of hops", "hops", |m| {
        let line = |kind| swept!(for hops in (1..=LONGEST), "{kind}": size(m, kind, hops, "bytes"));
        KINDS.map(line).into()
    });

    claim(r, "header.1", "Most headers are under 10 bytes").measured(|m, f| {
        check!(f, "bytes with 7 LIDs of one byte": at_most(2.0 + 7.0 * 1.0, 9.0));
        let share = graph(m).metric("header_within_share_ratio.9");
        check!(f, "share of headers of at most 9 bytes": at_least(share, 0.95));
        let of = |metric| graph(m).metric(metric);
        show!(f, m, "mean header in bytes": of("header_bytes_mean"));
        show!(f, m, "longest": of("header_bytes_max"));
        show!(f, m, "share of at most 9 bytes with one LID less, as in Figure 1, at least":
            of("header_within_share_ratio.10"));
        show!(f, m, "with one byte for every LID, share of paths under 10 bytes":
            of("length_within_share_ratio.7"));
        f.remark(
            "7 LIDs of one byte fit, but nearly every path crosses large domains, whose LIDs have \
             two: 99 % of the domains need one byte, not 99 % of the domains on paths",
        );
    });
    claim(r, "header.2", "Worst header 42 bytes").arithmetic(|_, f| {
        let bytes = Header::Fpf(2).bytes(LONGEST);
        check!(f, "{LONGEST} LIDs of 2 B: {bytes} B (paper 42)": is(bytes == 42));
        let vector = 2 * LONGEST;
        check!(f, "Length of the vector: {vector} (one byte holds 255)":
            is(vector <= u8::MAX.into()));
    });
    claim(r, "header.3", "That is like IPv6").arithmetic(|_, f| {
        check!(f, "42 bytes to the 40 of IPv6": between(42.0 / 40.0, [1.0, 1.05]));
        check!(f, "bytes more than IPv6": above(42.0 - 40.0, 0.0));
    });
    claim(r, "header.4", "LID size may differ between domains").measured(|m, f| {
        let whats = [
            "paths on which every FE found its LID",
            "paths that were not followed",
        ];
        all_right(m, f, "mixed LIDs", whats);
        f.remark("1 to 20 random domains, every other one with LIDs of two bytes");
    });
    let text = "Index > Length drops, = Length strips, else lookup by (interface, LID)";
    claim(r, "header.5", text).measured(|m, f| {
        let whats = [
            "headers decided as section III.A says",
            "headers that were not",
        ];
        all_right(m, f, "headers", whats);
        f.remark(
            "complete, truncated and invalid headers; rules of two interfaces, LIDs of one and of two bytes",
        );
    });
    let text = "Local, variable LIDs are smaller than 32-bit segments";
    claim(r, "header.6", text).arithmetic(smaller_than_segments);
    claim(r, "header.7", "60 s at 1518 B is at least 4.8e6 frames").arithmetic(|_, f| {
        let frames = 60.0 * 1e9 / (8.0 * (1518.0 + 20.0));
        check!(f, "frames of 1518 B in 60 s on 1 Gbit/s": at_least(frames, 4.8e6));
    });
}

fn smaller_than_segments(m: &Measured, f: &mut Findings) {
    for (lid_bytes, from) in [(1, 1), (2, 2)] {
        for (name, other) in [("SR-MPLS", Header::SrMpls), ("SRv6", Header::Srv6)] {
            let bytes = |hops| (Header::Fpf(lid_bytes).bytes(hops), other.bytes(hops));
            let longer = (from..=LONGEST).find(|hops| bytes(*hops).0 >= bytes(*hops).1);
            let (fpf, theirs) = bytes(longer.unwrap_or(LONGEST));
            let sizes = match longer {
                None => {
                    format!("smaller at {from} to {LONGEST} hops, {fpf} to {theirs} B at {LONGEST}")
                }
                Some(hops) => format!("{fpf} to {theirs} B at {hops} hops"),
            };
            check!(f, "LIDs of {lid_bytes} B against {name}: {sizes}": is(longer.is_none()));
        }
    }
    for kind in KINDS {
        show!(f, m, "{kind}, bytes": by_hops(m, kind, "bytes"));
    }
    for kind in &KINDS[3..] {
        show!(f, m, "{kind}, with the outer IPv6 header": by_hops(m, kind, "encapsulated_bytes"));
    }
    f.remark(
        "compressed SIDs have 16 bits behind a block of 32; NEXT-C-SID packs six into an address, \
         REPLACE-C-SID eight into a segment after the first. They are shorter than FPF's one-byte \
         LIDs only where the outer IPv6 header is needed anyway, and then up to six hops, or one",
    );
}

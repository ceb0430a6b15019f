//! The flows that classifiers track by identity.

use weir_base::setting::{Kind, Parameter, Settings};
use weir_base::{Instant, Rate};
use weir_discipline::{FlowStanding, Threshold};
use weir_model::class::{Cell, Class, Layout};
use weir_path::plane::Plane;

use super::{
    DESTINATION, DESTINATION_PORT, FLOW, Flow, PORT, PROTOCOL, RATE, SILENT, SOURCE, SOURCE_PORT,
    TRACKED, flows_of, limit, seen, standing,
};
use crate::class::{
    Block, Column, PACKET_COUNTER, PACKETS, RATE_BPS, RATIO, Source, TEXT, component, components,
    rows,
};

pub(in crate::class) static HOGS: Block = Block {
    class: Class {
        name: "hogs",
        id: 0x00F7_0104,
        about: "flows that a discipline tracks individually (`lru_fq`), fastest first, and why a flow is a hog",
        key: &["port", "flow"],
        query: &[
            Parameter::new(
                "all",
                Kind::Flag,
                "false",
                "list watched flows too, not only hogs and pinned flows",
            ),
            limit("50", "maximum flows, fastest first"),
        ],
        components: &components::<Flow, { COLUMNS.len() }>(COLUMNS),
        layout: Layout {
            head: "A flow at or above the threshold is a hog: it shares the queue of all hogs.",
            empty: "No flow is a hog now. `weir show hogs --all` lists watched flows too; only the discipline `lru_fq` \
                    identifies hogs.",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Flows(hogs, |flows| rows(COLUMNS, flows)),
};

/// Tracked flows, fastest first.
fn hogs(plane: &Plane, now: Instant, query: &Settings) -> Vec<Flow> {
    let all = query.flag("all");
    let wanted = |standing: FlowStanding| {
        standing.is_of_classifier() && (all || standing != FlowStanding::Watched)
    };
    let mut hogs: Vec<_> = flows_of(plane, now, wanted).flatten().collect();
    hogs.sort_by_key(|hog| std::cmp::Reverse(hog.report.rate));
    hogs.truncate(query.count("limit") as usize);
    hogs
}

fn share(flow: Rate, link: Rate) -> f64 {
    flow.as_bps() as f64 / link.as_bps().max(1) as f64
}

const COLUMNS: &[Column<Flow>] = &[
    PORT,
    FLOW,
    SOURCE,
    SOURCE_PORT,
    DESTINATION,
    DESTINATION_PORT,
    PROTOCOL,
    component(9, "key", TEXT, "flow")
        .about("Unit that the discipline tracks as a flow: `flow`, `source`, `destination`, ...")
        .shown(&[Cell::new("KEY")])
        .read(|flow| flow.report.kind.word().into()),
    standing(
        "`hog` (in the queue for high-bandwidth flows), `pinned` (a hog that cannot be evicted), or `watched`.",
        "hog",
    ),
    RATE,
    component(14, "link_share_ratio", RATIO, "1.57")
        .optional()
        .about("Rate of the flow as a share of the link's rate; null if the port is not paced.")
        .shown(&[Cell::new("OF LINK")])
        .read(|flow| flow.link.map(|link| share(flow.report.rate, link)).into()),
    component(15, "threshold_packets", PACKETS, "")
        .optional()
        .about("Threshold in packets; null if it is of another kind.")
        .read(|flow| match flow.report.threshold {
            Some(Threshold::Packets(packets)) => Some(packets).into(),
            _ => None::<u64>.into(),
        }),
    component(16, "threshold_bps", RATE_BPS, "")
        .optional()
        .about("Threshold as a rate; null if it is of another kind.")
        .read(|flow| match flow.report.threshold {
            Some(Threshold::Rate(rate)) => Some(rate).into(),
            _ => None::<Rate>.into(),
        }),
    component(17, "threshold_share_ratio", RATIO, "0.05")
        .optional()
        .about("Threshold as a share of all traffic; null if it is of another kind.")
        .read(|flow| match flow.report.threshold {
            Some(Threshold::Share(share)) => Some(share).into(),
            _ => None::<f64>.into(),
        }),
    seen(
        "Packets since tracking of the flow began.",
        &[Cell::new("PACKETS").of("packets")],
    ),
    component(18, "threshold", TEXT, "5.0 % of all")
        .optional()
        .about("The threshold as text.")
        .shown(&[Cell::new("THRESHOLD")])
        .read(|flow| {
            let words = |threshold| match threshold {
                Threshold::Packets(packets) => format!("{packets} packets"),
                Threshold::Rate(rate) => rate.to_string(),
                Threshold::Share(share) => format!("{:.1} % of all", 100.0 * share),
            };
            flow.report.threshold.map(words).into()
        }),
    component(19, "dropped_packets", PACKET_COUNTER, "31000")
        .about(
            "Dropped packets of the flow since tracking began, excluding the packet that began it.",
        )
        .shown(&[Cell::new("DROPPED")])
        .read(|flow| flow.report.dropped.unwrap_or(0).into()),
    TRACKED,
    SILENT,
];

//! The flows that admission controls accepted, let wait or blocked.

use weir_base::Instant;
use weir_base::setting::Settings;
use weir_discipline::{FlowClass, FlowStanding};
use weir_model::class::{Cell, Class, Layout};
use weir_path::plane::Plane;

use super::{
    DESTINATION, DESTINATION_PORT, FLOW, Flow, PORT, PROTOCOL, RATE, SILENT, SOURCE, SOURCE_PORT,
    TRACKED, flows_of, limit, seen, standing,
};
use crate::class::{Block, Column, SECONDS, Source, TEXT, component, components, rows};

pub(in crate::class) static FLOWS: Block = Block {
    class: Class {
        name: "flows",
        id: 0x00F7_0105,
        about: "flows under admission control (`fan`): accepted, waiting or blocked, with their delay",
        key: &["port", "flow"],
        query: &[limit(
            "1000",
            "maximum flows of each port, waiting flows first",
        )],
        components: &components::<Flow, { COLUMNS.len() }>(COLUMNS),
        layout: Layout {
            empty: "No flow is under admission control; only the discipline `fan` has it.",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Flows(flows, |flows| rows(COLUMNS, flows)),
};

/// The flows of each port: waiting flows first, longest wait first; then the others, latest packet first.
fn flows(plane: &Plane, now: Instant, query: &Settings) -> Vec<Flow> {
    let limit = query.count("limit") as usize;
    let ports = flows_of(plane, now, |standing| !standing.is_of_classifier());
    let sorted = |mut flows: Vec<Flow>| {
        flows.sort_by_key(|Flow { report, .. }| match report.standing {
            FlowStanding::Waiting => (0, report.since),
            _ => (1, Instant::ZERO + Instant::FAR_FUTURE.since(report.latest)),
        });
        flows.truncate(limit);
        flows
    };
    ports.flat_map(sorted).collect()
}

const COLUMNS: &[Column<Flow>] = &[
    PORT,
    FLOW,
    SOURCE,
    SOURCE_PORT,
    DESTINATION,
    DESTINATION_PORT,
    PROTOCOL,
    standing(
        "`accepted`, `waiting`, `blocked` (removed, and refused for a time), or `set_aside` (removed, and readmitted \
         before others).",
        "waiting",
    ),
    component(9, "class", TEXT, "")
        .optional()
        .about("How an accepted flow is classified: `streaming` or `elastic`.")
        .shown(&[Cell::new("CLASS")])
        .read(|flow| match flow.report.standing {
            FlowStanding::Accepted(FlowClass::Streaming) => Some("streaming").into(),
            FlowStanding::Accepted(FlowClass::Elastic) => Some("elastic").into(),
            _ => None::<&str>.into(),
        }),
    component(14, "acceptance_delay_s", SECONDS, "1.4")
        .about(
            "Time from the first packet to the first accepted packet; for a waiting flow, the time so far.",
        )
        .shown(&[Cell::new("DELAY")])
        .read(|flow| flow.report.waited.unwrap_or_default().into()),
    RATE,
    seen(
        "Packets since tracking began: for an accepted flow, all packets; for a waiting flow, the refused packets.",
        &[
            Cell::new("PACKETS").of("packets"),
            Cell::new("BYTES").of("bytes"),
        ],
    ),
    TRACKED,
    SILENT,
];

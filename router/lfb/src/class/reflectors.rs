//! The delay references of a port that finds its rate: hosts that answer its probes, and the port's own traffic if it
//! is used for measuring.

use weir_autorate::{BY_TRAFFIC, ReflectorState};
use weir_model::class::{Cell, Class, Layout, Type, Unit};

use super::rates::Finding;
use super::{Block, Column, Row, SECONDS, Source, TEXT, component, components, rows};

pub(super) static REFLECTORS: Block = Block {
    class: Class {
        name: "reflectors",
        id: 0x00F7_0121,
        about: "delay references of ports with rate auto: hosts that answer probes, or the port's own traffic",
        key: &["port", "address"],
        metric: Some("reflector"),
        components: &components::<ReflectorRow, { COLUMNS.len() }>(COLUMNS),
        layout: Layout {
            empty: "No port has rate = \"auto\".",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Rates(|findings| rows(COLUMNS, findings.iter().flat_map(reflectors))),
};

struct ReflectorRow;

struct View<'a> {
    port: &'a str,
    address: String,
    state: ReflectorState,
}

impl Row for ReflectorRow {
    type View<'a> = View<'a>;
}

fn reflectors(finding: &Finding) -> impl Iterator<Item = View<'_>> {
    let states = finding.reflectors.iter().copied();
    let hosts = finding.auto.reflectors.iter().map(ToString::to_string);
    let traffic = finding.traffic.map(|state| (BY_TRAFFIC.to_owned(), state));
    hosts
        .zip(states)
        .chain(traffic)
        .map(|(address, state)| View {
            port: &finding.port,
            address,
            state,
        })
}

const COLUMNS: &[Column<ReflectorRow>] = &[
    component(1, "port", TEXT, "wan")
        .about("Name of the port.")
        .shown(&[Cell::new("PORT")])
        .read(|row| row.port.into()),
    component(2, "address", TEXT, "192.0.2.1")
        .about("Address of the host; `traffic` for the TCP connections through the port.")
        .shown(&[Cell::new("ADDRESS")])
        .read(|row| row.address.as_str().into()),
    component(3, "state", TEXT, "answers")
        .varying()
        .about(
            "`asked`: no answer yet. `answers`: it answers. `silent`: it does not answer, and is probed every two \
             seconds. `not believed`: other reflectors contradicted its delays. For `traffic`: `measured`, or `idle` \
             if none of it was answered in the last 0.5 s.",
        )
        .shown(&[Cell::new("STATE")])
        .read(|row| row.state.word.into()),
    component(4, "rtt_s", SECONDS, "0.0216")
        .optional()
        .about("Latest round-trip time; for `traffic`, of any peer; null before the first answer.")
        .shown(&[Cell::new("ROUND TRIP")])
        .read(|row| row.state.rtt.into()),
    component(5, "baseline_s", SECONDS, "0.0204")
        .optional()
        .about("Minimum round-trip time of the last minute; for `traffic`, of the same peer; null before the first \
                answer.")
        .shown(&[Cell::new("BASELINE")])
        .read(|row| row.state.baseline.into()),
    component(6, "lost", Type::Gauge(Unit::Packets), "0")
        .about("Probes lost since the last answer.")
        .shown(&[Cell::new("LOST")])
        .read(|row| u64::from(row.state.lost).into()),
];

//! Exceptions: packets for the control element, and packets from it.

use weir_model::class::{COUNT, Cell, Class, Component, Form, Type, Unit};
use weir_path::exception::Stats;
use weir_path::plane::Plane;

use super::{BYTES, Block, Column, Row, Source, component, components, row};
use crate::redirect;

pub(crate) static REDIRECT: Block = Block {
    class: Class {
        name: "redirect",
        id: 0x00F7_0001,
        about: "packets that the router hands to its control element, and packets from it",
        parameters: redirect::PARAMETERS,
        metric: Some("redirect"),
        components: &components::<Counted, { COLUMNS.len() }>(COLUMNS),
        ..Class::PLAIN
    },
    source: Source::Plane(|plane| row(COLUMNS, &stats(plane))),
};

struct Counted;

impl Row for Counted {
    type View<'a> = Stats;
}

fn stats(plane: &Plane) -> Stats {
    plane.exception_stats()
}

const fn packets(id: u32, name: &'static str, about: &'static str) -> Component {
    Component::new(id, name, Type::Counter(Unit::Packets), "15").about(about)
}

const fn bytes(id: u32, name: &'static str, about: &'static str) -> Component {
    Component::new(id, name, Type::Counter(Unit::Bytes), "9000").about(about)
}

/// The counters of the token buckets, which count messages with all their bytes.
const GATE: Type = Type::Struct(&[
    packets(1, "packets", "Exceptions that came to the token buckets."),
    bytes(2, "bytes", "Their bytes."),
    packets(3, "committed_packets", "Exceptions within `bc`."),
    bytes(4, "committed_bytes", "Their bytes."),
    packets(5, "excess_packets", "Exceptions beyond it that passed."),
    bytes(6, "excess_bytes", "Their bytes."),
    packets(
        7,
        "dropped_packets",
        "Exceptions dropped because there were no tokens.",
    ),
    bytes(8, "dropped_bytes", "Their bytes."),
]);

const COLUMNS: &[Column<Counted>] = &[
    component(5, "stats", GATE, "")
        .about("Exceptions at the token buckets: messages with all their bytes.")
        .shown(&[
            Cell::new("CAME").of("packets").since_start(),
            Cell::new("POLICED").of("dropped_packets").since_start(),
        ])
        .read(|stats| {
            let gate = stats.gate;
            let tallies = [
                ("packets", "bytes", gate.offered),
                ("committed_packets", "committed_bytes", gate.committed),
                ("excess_packets", "excess_bytes", gate.excess),
                ("dropped_packets", "dropped_bytes", gate.policed),
            ];
            let members = tallies.into_iter().flat_map(|(packets, bytes, tally)| {
                [
                    (packets.into(), tally.packets.into()),
                    (bytes.into(), tally.bytes.into()),
                ]
            });
            weir_model::Value::Struct(members.collect())
        }),
    component(20, "redirected", COUNT, "")
        .about("Exceptions on their way to the control element, or there.")
        .shown(&[
            Cell::new("TO CE").of("packets").since_start(),
            Cell::new("TO CE PKT/S").of("packets").form(Form::PerSecond),
        ])
        .read(|stats| stats.redirected.into()),
    component(21, "overflowed", COUNT, "")
        .about("Exceptions dropped because the control side took none for too long.")
        .shown(&[Cell::new("OVERFLOWED").of("packets").since_start()])
        .read(|stats| stats.full.into()),
    component(22, "injected", COUNT, "")
        .about("Packets of the control element that were sent on.")
        .shown(&[
            Cell::new("FROM CE").of("packets").since_start(),
            Cell::new("FROM CE PKT/S")
                .of("packets")
                .form(Form::PerSecond),
        ])
        .read(|stats| stats.injected.into()),
    component(23, "refused", COUNT, "")
        .about("Packets of the control element that could not be sent.")
        .shown(&[Cell::new("REFUSED").of("packets").since_start()])
        .read(|stats| stats.refused.into()),
    component(30, "burst_max_bytes", BYTES, "100000000")
        .capability()
        .about("The largest `burst`.")
        .read(|_| redirect::BURST_MAX.0.into()),
];

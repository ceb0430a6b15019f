//! Exceptions: packets for the control element, and packets from it.

use weir_base::{Instant, Rate, Tally};
use weir_model::class::{COUNT, Cell, Class, Component, Condition, Event, Form, Type, Unit};
use weir_path::exception::Stats;
use weir_path::plane::Plane;

use super::{BYTES, Block, Column, RATE_BPS, Row, Source, component, components, row};
use crate::redirect;

pub(crate) static REDIRECT: Block = Block {
    class: Class {
        name: "redirect",
        id: 0x00F7_0001,
        about: "packets that the router redirects to its control element, and packets from it",
        parameters: redirect::PARAMETERS,
        metric: Some("redirect"),
        components: &components::<Counted, { COLUMNS.len() }>(COLUMNS),
        events: EVENTS,
        ..Class::PLAIN
    },
    source: Source::Redirect(|plane, now, control| row(COLUMNS, &counted(plane, now, control))),
};

/// Control messages that a forwarding element has sent to its control elements.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControlSent {
    /// All messages and their bytes.
    pub total: Tally,
    /// The rate of recent messages.
    pub rate: Rate,
}

/// Components that flow control needs, so that an event saves it a query.
const SAMPLE: &[&str] = &["stats", "control", "redirect_bps", "control_bps"];

const EVENTS: &[Event] = &[
    Event {
        id: 1,
        name: "redirect_rate_changed",
        about: "The rate of exceptions changed. Subscribe with an interval.",
        target: "redirect_bps",
        condition: Condition::Changed,
        reports: SAMPLE,
    },
    Event {
        id: 2,
        name: "control_rate_changed",
        about: "The rate of control messages changed. Subscribe with a hysteresis: a report is itself a control \
                message.",
        target: "control_bps",
        condition: Condition::Changed,
        reports: SAMPLE,
    },
];

/// The counters of exceptions and of control messages.
struct Counted {
    stats: Stats,
    rate: Rate,
    control: ControlSent,
}

impl Row for Counted {
    type View<'a> = Self;
}

fn counted(plane: &Plane, now: Instant, control: ControlSent) -> Counted {
    Counted {
        stats: plane.exception_stats(),
        rate: plane.exception_rate(now),
        control,
    }
}

const fn packets(id: u32, name: &'static str, about: &'static str) -> Component {
    Component::new(id, name, Type::Counter(Unit::Packets), "15").about(about)
}

const fn bytes(id: u32, name: &'static str, about: &'static str) -> Component {
    Component::new(id, name, Type::Counter(Unit::Bytes), "9000").about(about)
}

/// The counters of the token buckets, which count whole messages, headers included.
const GATE: Type = Type::Struct(&[
    packets(
        1,
        "packets",
        "Exceptions that arrived at the token buckets.",
    ),
    bytes(2, "bytes", "Bytes of these messages."),
    packets(3, "committed_packets", "Exceptions within `bc`."),
    bytes(4, "committed_bytes", "Bytes of these messages."),
    packets(5, "excess_packets", "Exceptions that passed beyond `bc`."),
    bytes(6, "excess_bytes", "Bytes of these messages."),
    packets(
        7,
        "dropped_packets",
        "Exceptions dropped because there were no tokens.",
    ),
    bytes(8, "dropped_bytes", "Bytes of these messages."),
]);

/// Sent messages.
const MESSAGES: Type = Type::Struct(&[
    Component::new(1, "messages", Type::Counter(Unit::One), "15").about("Messages."),
    Component::new(2, "bytes", Type::Counter(Unit::Bytes), "9000")
        .about("Bytes of these messages."),
]);

const COLUMNS: &[Column<Counted>] = &[
    component(5, "stats", GATE, "")
        .about("Exceptions at the token buckets, counted as whole messages.")
        .shown(&[
            Cell::new("RECEIVED").of("packets").since_start(),
            Cell::new("POLICED").of("dropped_packets").since_start(),
        ])
        .read(|counted| {
            let gate = counted.stats.gate;
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
        .about("Exceptions passed on to the control element, including those still on the way.")
        .shown(&[
            Cell::new("TO CE").of("packets").since_start(),
            Cell::new("TO CE PKT/S").of("packets").form(Form::PerSecond),
        ])
        .read(|counted| counted.stats.redirected.into()),
    component(21, "overflowed", COUNT, "")
        .about("Exceptions dropped because the control side accepted none for too long.")
        .shown(&[Cell::new("OVERFLOWED").of("packets").since_start()])
        .read(|counted| counted.stats.full.into()),
    component(22, "injected", COUNT, "")
        .about("Packets from the control element that were sent.")
        .shown(&[
            Cell::new("FROM CE").of("packets").since_start(),
            Cell::new("FROM CE PKT/S")
                .of("packets")
                .form(Form::PerSecond),
        ])
        .read(|counted| counted.stats.injected.into()),
    component(23, "refused", COUNT, "")
        .about("Packets from the control element that could not be sent.")
        .shown(&[Cell::new("REFUSED").of("packets").since_start()])
        .read(|counted| counted.stats.refused.into()),
    component(27, "routing", COUNT, "")
        .about("Exceptions of the class of routing protocols that were passed on to the control element.")
        .read(|counted| counted.stats.routing.into()),
    component(28, "crowded", COUNT, "")
        .about(
            "Exceptions dropped because a routing protocol, or neighbour discovery, exceeded its limit at a port.",
        )
        .shown(&[Cell::new("CROWDED").of("packets").since_start()])
        .read(|counted| counted.stats.crowded.into()),
    component(24, "control", MESSAGES, "")
        .about("Control messages sent to control elements: all messages except exceptions.")
        .read(|counted| {
            let total = counted.control.total;
            weir_model::Value::Struct(vec![
                ("messages".into(), total.packets.into()),
                ("bytes".into(), total.bytes.into()),
            ])
        }),
    component(25, "redirect_bps", RATE_BPS, "1500000")
        .about("Rate of exceptions at the token buckets over 200 ms, counted as whole messages.")
        .read(|counted| counted.rate.as_bps().into()),
    component(26, "control_bps", RATE_BPS, "12000")
        .about("Rate of control messages over 200 ms.")
        .read(|counted| counted.control.rate.as_bps().into()),
    component(30, "burst_max_bytes", BYTES, "100000000")
        .capability()
        .about("Maximum `burst`.")
        .read(|_| redirect::BURST_MAX.0.into()),
];

//! The table of packets that FEs have redirected.

use weir_model::class::{Cell, Type, Unit};
use weir_model::column::{self, Column, Row, components};
use weir_model::{Class, Component, Value};

use super::Stats;

/// A fate, its packets and its description.
struct Fate;

impl Row for Fate {
    type View<'a> = (&'static str, u64, &'static str);
}

/// Packets that FEs have redirected, by fate.
pub static EXCEPTIONS: Class = Class {
    name: "exceptions",
    metric: Some("exception"),
    id: 0x00F7_031C,
    about: "the packets that forwarding elements have redirected to the control element since its start, by fate",
    key: &["fate"],
    components: &components::<Fate, { COLUMNS.len() }>(COLUMNS),
    ..Class::PLAIN
};

const COLUMNS: &[Column<Fate>] = &[
    Component::new(1, "fate", Type::Text, "kernel")
        .about("Fate of the packets.")
        .shown(&[Cell::new("FATE")])
        .read(|(fate, ..)| (*fate).into()),
    Component::new(2, "is_loss", Type::Flag, "false")
        .about("Whether the packets were dropped.")
        .read(|(.., meaning)| meaning.starts_with("dropped").into()),
    Component::new(3, "packets", Type::Counter(Unit::Packets), "17")
        .about("Packets.")
        .shown(&[Cell::new("PACKETS")])
        .read(|(_, packets, _)| (*packets).into()),
    Component::new(
        4,
        "meaning",
        Type::Text,
        "passed to the kernel of the CE, through the TAP device of the port",
    )
    .about("Description of the fate.")
    .shown(&[Cell::new("MEANING")])
    .read(|(.., meaning)| (*meaning).into()),
];

impl Stats {
    /// The rows of the table [`EXCEPTIONS`].
    pub fn rows(&self) -> Value {
        let rows = [
            (
                "kernel",
                self.kernel,
                "passed to the kernel of the CE, through the TAP device of the port",
            ),
            ("icmp", self.icmp, "answered with an ICMP error"),
            (
                "neighbours",
                self.neighbours,
                "answered: ARP or neighbour discovery",
            ),
            (
                "malformed",
                self.malformed,
                "dropped: the metadata is malformed or missing",
            ),
            (
                "unknown_port",
                self.unknown_port,
                "dropped: the CE acts for no port with this number",
            ),
            (
                "not_answered",
                self.not_answered,
                "dropped: an ICMP error is not permitted, or its rate limit is reached",
            ),
            (
                "not_for_us",
                self.not_for_us,
                "dropped: the port has no TAP device, and the CE itself does not answer such packets",
            ),
        ];
        column::rows(COLUMNS, rows)
    }
}

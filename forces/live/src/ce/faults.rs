//! The table `faults`, of faults on links to the control element.

use weir_model::class::{Cell, Layout, Type, Unit};
use weir_model::column::{self, Column, Row, components};
use weir_model::{Class, Component, Value};

use crate::tml::{Fault, Faults};

/// A kind of fault, and the number of its occurrences.
struct Counted;

impl Row for Counted {
    type View<'a> = (Fault, u64);
}

/// Faults of links between the CE and its peers.
pub(super) static FAULTS: Class = Class {
    name: "faults",
    metric: Some("link_fault"),
    id: 0x00F7_031B,
    about: "the faults of links to the control element since its start: impostors, floods, losses",
    key: &["fault"],
    components: &components::<Counted, { COLUMNS.len() }>(COLUMNS),
    layout: Layout {
        empty: "There have been no link faults since the start.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

const COLUMNS: &[Column<Counted>] = &[
    Component::new(1, "fault", Type::Text, "unknown_certificate")
        .about("Kind of fault; the log names the peers.")
        .shown(&[Cell::new("FAULT")])
        .read(|(fault, _)| fault.name().into()),
    Component::new(2, "count", Type::Counter(Unit::One), "3")
        .about("Number of these faults.")
        .shown(&[Cell::new("COUNT")])
        .read(|(_, count)| (*count).into()),
];

/// Rows of faults that have occurred.
pub(super) fn rows(faults: &Faults) -> Value {
    let counted = Fault::ALL
        .into_iter()
        .map(|fault| (fault, faults.count(fault)));
    column::rows(COLUMNS, counted.filter(|(_, count)| *count > 0))
}

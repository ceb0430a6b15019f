//! Kernel state that a router refuses or warns about.

use weir_model::class::{Cell, Class, Condition, Event, Layout};

use super::{Block, Column, FLAG, Row, Source, TEXT, component, components, rows};

pub(super) static KERNEL: Block = Block {
    class: Class {
        name: "kernel",
        id: 0x00F7_0122,
        about: "kernel state of this machine that the router refuses or warns about",
        key: &["kind", "what"],
        components: &components::<FoundRow, { COLUMNS.len() }>(COLUMNS),
        events: &[Event {
            id: 1,
            name: "state_appeared",
            about: "State that the router refuses or warns about appeared in the kernel.",
            target: "",
            condition: Condition::Created,
            reports: &["kind", "what", "refused"],
        }],
        layout: Layout {
            empty: "This machine's kernel has no state that the router refuses or warns about.",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::Kernel(|found| rows(COLUMNS, found)),
};

/// Kernel state that the router refuses or warns about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Kind of state: docs/router.md lists them.
    pub kind: &'static str,
    /// Name and place of the state.
    pub what: String,
    /// Whether the router must not forward while this state exists.
    pub refused: bool,
    /// Whether it existed when the router started.
    pub at_start: bool,
}

struct FoundRow;

impl Row for FoundRow {
    type View<'a> = &'a Found;
}

const COLUMNS: &[Column<FoundRow>] = &[
    component(1, "kind", TEXT, "policy rules")
        .about("Kind of state; docs/router.md lists the kinds.")
        .shown(&[Cell::new("KIND")])
        .read(|found| found.kind.into()),
    component(
        2,
        "what",
        TEXT,
        "IPv4 rule 5270: from all lookup 52",
    )
    .about("Name and location of the state, as the machine's tools show them.")
    .shown(&[Cell::new("WHAT")])
    .read(|found| found.what.as_str().into()),
    component(3, "refused", FLAG, "true")
        .about("Whether the router refuses to forward because of it; false: only a warning, or permitted by a \
                configuration key.")
        .shown(&[Cell::new("REFUSED")])
        .read(|found| found.refused.into()),
    component(4, "at_start", FLAG, "false")
        .about("Whether the state existed when the router started.")
        .shown(&[Cell::new("AT START")])
        .read(|found| found.at_start.into()),
];

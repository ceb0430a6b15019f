//! Kernel state that a router refuses or warns about.

use weir_model::class::{Cell, Class, Condition, Event, Layout};

use super::{Block, Column, FLAG, Row, Source, TEXT, component, components, rows};

pub(super) static KERNEL: Block = Block {
    class: Class {
        name: "kernel",
        id: 0x00F7_0122,
        about: "kernel state of this machine that the router refuses or warns of",
        key: &["kind", "what"],
        components: &components::<FoundRow, { COLUMNS.len() }>(COLUMNS),
        events: &[Event {
            id: 1,
            name: "state_appeared",
            about: "The kernel has state that the router refuses or warns of and that did not exist at the start.",
            target: "",
            condition: Condition::Created,
            reports: &["kind", "what", "refused"],
        }],
        layout: Layout {
            empty: "The kernel of this machine has nothing that the router refuses or warns of.",
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
        .about("Kind of state: docs/router.md lists them.")
        .shown(&[Cell::new("KIND")])
        .read(|found| found.kind.into()),
    component(
        2,
        "what",
        TEXT,
        "IPv4 rule 5270: from all lookup 52",
    )
    .about("Its name and place, as the tools of the machine show them.")
    .shown(&[Cell::new("WHAT")])
    .read(|found| found.what.as_str().into()),
    component(3, "refused", FLAG, "true")
        .about("Whether the router refuses to forward beside it; false: a warning, or permitted by a key.")
        .shown(&[Cell::new("REFUSED")])
        .read(|found| found.refused.into()),
    component(4, "at_start", FLAG, "false")
        .about("Whether it existed when the router started.")
        .shown(&[Cell::new("AT START")])
        .read(|found| found.at_start.into()),
];

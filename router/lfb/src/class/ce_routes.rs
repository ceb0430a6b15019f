//! The routes of a control element in the kernel of its forwarding element.

use weir_model::class::{Cell, Class, Condition, Event, Layout};

use super::{Block, COUNTER, Column, NUMBER, Row, Source, TEXT, component, components, row};

/// The name of the class.
pub const NAME: &str = "ce_routes";

pub(crate) static CE_ROUTES: Block = Block {
    class: Class {
        name: NAME,
        id: 0x00F7_0130,
        about: "routes written by a control element, and the routes that the kernel lacks",
        metric: Some("ce_routes"),
        components: &components::<Routes, { COLUMNS.len() }>(COLUMNS),
        events: EVENTS,
        layout: Layout {
            empty: "The control element has written no routes.",
            ..Layout::PLAIN
        },
        ..Class::PLAIN
    },
    source: Source::CeRoutes(|routes| row(COLUMNS, &routes)),
};

/// How many routes of a control element the kernel has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CeRoutes {
    /// Routes that the kernel must have.
    pub wanted: u64,
    /// Routes of these that the kernel lacks now.
    pub missing: u64,
    /// The first missing route, and why; empty if none is missing.
    pub first: String,
    /// Routes that the kernel has lost, including reinstalled routes.
    pub lost: u64,
    /// Reinstalled routes.
    pub restored: u64,
}

const REPORT: &[&str] = &["missing", "first", "lost", "restored"];

const EVENTS: &[Event] = &[
    Event {
        id: 1,
        name: "missing_changed",
        about: "The number of missing routes changed.",
        target: "missing",
        condition: Condition::Changed,
        reports: REPORT,
    },
    Event {
        id: 2,
        name: "route_lost",
        about: "The kernel has lost routes.",
        target: "lost",
        condition: Condition::Changed,
        reports: REPORT,
    },
];

struct Routes;

impl Row for Routes {
    type View<'a> = &'a CeRoutes;
}

const COLUMNS: &[Column<Routes>] = &[
    component(1, "wanted", NUMBER, "120")
        .about("Routes that the control element has written.")
        .shown(&[Cell::new("WANTED")])
        .read(|routes| routes.wanted.into()),
    component(2, "missing", NUMBER, "0")
        .about("Routes that the kernel lacks now.")
        .shown(&[Cell::new("MISSING")])
        .read(|routes| routes.missing.into()),
    component(3, "lost", COUNTER, "2")
        .about(
            "Routes lost from the kernel, with their interface or because another program removed or replaced them.",
        )
        .shown(&[Cell::new("LOST").since_start()])
        .read(|routes| routes.lost.into()),
    component(4, "restored", COUNTER, "2")
        .about("Lost routes that were reinstalled.")
        .shown(&[Cell::new("RESTORED").since_start()])
        .read(|routes| routes.restored.into()),
    component(5, "first", TEXT, "route 10.0.0.0/8: interface eth1 is down or absent")
        .varying()
        .about("First missing route, and the cause; empty if no route is missing.")
        .shown(&[Cell::new("FIRST MISSING")])
        .read(|routes| routes.first.as_str().into()),
];

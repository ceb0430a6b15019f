//! The table of the controllers.

use weir_model::class::{Cell, Layout, Type, Unit};
use weir_model::column::{Column, Row, components};
use weir_model::{Class, Component, Value};

use super::Report;

const NUMBER: Type = Type::Gauge(Unit::One);

impl Row for Report {
    type View<'a> = Self;
}

/// The controllers.
pub static CONTROLLERS: Class = Class {
    name: "controllers",
    metric: Some("controller"),
    id: 0x00F7_0317,
    about: "the controllers of the control element: the elements that they steer, their gauges and errors",
    key: &["controller"],
    components: &components::<Report, { COLUMNS.len() }>(COLUMNS),
    layout: Layout {
        empty: "No controller is configured. Add `[controller.NAME]` to the configuration of the CE.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

pub(super) const COLUMNS: &[Column<Report>] = &[
    Component::new(1, "controller", Type::Text, "flow")
        .about("Name in the configuration of the CE.")
        .shown(&[Cell::new("CONTROLLER")])
        .read(|report| report.name.as_str().into()),
    Component::new(2, "kind", Type::Text, "flow_control")
        .about("Kind of the controller; `weir describe KIND` explains it.")
        .shown(&[Cell::new("KIND")])
        .read(|report| report.kind.into()),
    Component::new(3, "elements", NUMBER, "3")
        .about("FEs and devices that are connected.")
        .shown(&[Cell::new("ELEMENTS")])
        .read(|report| (report.elements[0] as u64).into()),
    Component::new(4, "configured", NUMBER, "3")
        .about("FEs and devices whose queues the controller uses.")
        .shown(&[Cell::new("CONFIGURED")])
        .read(|report| (report.elements[1] as u64).into()),
    Component::new(
        5,
        "gauges",
        Type::Map(&Type::Real(Unit::One)),
        "committed_mbps=2.13",
    )
    .about("Gauges of the controller; `weir describe KIND` explains them.")
    .shown(&[Cell::new("GAUGE")])
    .read(|report| {
        let gauges = report.gauges.iter();
        Value::Struct(
            gauges
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
        )
    }),
    Component::new(6, "why", Type::Text, "edge1: no answer in time")
        .optional()
        .varying()
        .about("Recent errors, by element.")
        .shown(&[Cell::new("WHY").or("")])
        .read(|report| {
            let troubles = report.troubles.iter();
            let troubles: Vec<_> = troubles
                .map(|(element, why)| format!("{element}: {why}"))
                .collect();
            (!troubles.is_empty()).then(|| troubles.join("; ")).into()
        }),
];

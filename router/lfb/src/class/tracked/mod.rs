//! Flows that a discipline tracks: the components that classifiers and admission controls share.

use std::sync::Arc;

use weir_base::setting::{Kind, Parameter};
use weir_base::{Instant, Rate};
use weir_discipline::{FlowReport, FlowStanding};
use weir_model::class::{COUNT, Cell, Form};
use weir_path::plane::Plane;

use super::{Column, NUMBER, RATE_BPS, Row, SECONDS, TEXT, component};

pub(super) mod flows;
pub(super) mod hogs;

/// Maximum flows in one answer: the forwarding thread is busy while it collects them.
const FLOWS_MAX: u64 = 10_000;

/// The query parameter for the maximum number of flows.
const fn limit(default: &'static str, about: &'static str) -> Parameter {
    Parameter::new("limit", Kind::Count(0, FLOWS_MAX), default, about)
}

/// A flow at one moment: the forwarding thread only collects flows; another thread converts them to values.
#[derive(Debug)]
pub struct Flow {
    port: Arc<str>,
    /// Rate of the port's link.
    link: Option<Rate>,
    report: FlowReport,
    now: Instant,
}

impl Row for Flow {
    type View<'a> = Self;
}

/// The flows of each port whose standing is `wanted`.
fn flows_of(
    plane: &Plane,
    now: Instant,
    wanted: impl Fn(FlowStanding) -> bool,
) -> impl Iterator<Item = Vec<Flow>> {
    plane.ports().iter().map(move |slot| {
        let queue = slot.port.queue();
        let port: Arc<str> = slot.name.as_str().into();
        let mut flows = Vec::new();
        queue.flows(now, &mut |report| {
            if wanted(report.standing) {
                flows.push(Flow {
                    port: port.clone(),
                    link: slot.port.link().rate,
                    report,
                    now,
                });
            }
        });
        flows
    })
}

const PORT: Column<Flow> = component(1, "port", TEXT, "wan")
    .about("Name of the port.")
    .shown(&[Cell::new("PORT")])
    .read(|flow| flow.port.as_ref().into());

const FLOW: Column<Flow> = component(2, "flow", TEXT, "10.0.0.2:40000 > 10.0.1.2:5001 udp")
    .about("The flow in one line, as far as the discipline distinguishes flows.")
    .shown(&[Cell::new("FLOW")])
    .read(|flow| flow.report.key.to_string().into());

const SOURCE: Column<Flow> = component(3, "source", TEXT, "10.0.0.2")
    .optional()
    .about(
        "Source address: IPv4, IPv6, or the MAC address of non-IP packets; null if the discipline does not distinguish \
         sources.",
    )
    .read(|flow| flow.report.key.address_shown(flow.report.key.source).into());

const SOURCE_PORT: Column<Flow> = component(4, "source_port", NUMBER, "40000")
    .optional()
    .about("Source port.")
    .read(|flow| nonzero(flow.report.key.source_port).into());

const DESTINATION: Column<Flow> = component(5, "destination", TEXT, "10.0.1.2")
    .optional()
    .about("Destination address.")
    .read(|flow| {
        flow.report
            .key
            .address_shown(flow.report.key.destination)
            .into()
    });

const DESTINATION_PORT: Column<Flow> = component(6, "destination_port", NUMBER, "5001")
    .optional()
    .about("Destination port.")
    .read(|flow| nonzero(flow.report.key.destination_port).into());

const PROTOCOL: Column<Flow> = component(7, "protocol", NUMBER, "17")
    .optional()
    .about("IP protocol number.")
    .read(|flow| nonzero(flow.report.key.protocol).into());

/// `None` for zero, which means that the discipline does not distinguish this field.
fn nonzero(number: impl Into<u64>) -> Option<u64> {
    Some(number.into()).filter(|number| *number != 0)
}

const RATE: Column<Flow> = component(10, "rate_bps", RATE_BPS, "149000000")
    .about("Recent rate; for admission control, the mean rate since tracking of the flow began.")
    .shown(&[Cell::new("MBIT/S").form(Form::Megabits)])
    .read(|flow| flow.report.rate.into());

const TRACKED: Column<Flow> = component(11, "known_s", SECONDS, "4.2")
    .about("Time since tracking of the flow began.")
    .shown(&[Cell::new("TRACKED")])
    .read(|flow| flow.now.since(flow.report.since).into());

const SILENT: Column<Flow> = component(12, "silent_s", SECONDS, "0.0001")
    .about("Time since the latest packet of the flow.")
    .shown(&[Cell::new("IDLE")])
    .read(|flow| flow.now.since(flow.report.latest).into());

/// Packets and bytes of a flow.
const fn seen(about: &'static str, cells: &'static [Cell]) -> Column<Flow> {
    component(13, "seen", COUNT, "")
        .about(about)
        .shown(cells)
        .read(|flow| flow.report.seen.into())
}

/// How a flow is treated.
const fn standing(about: &'static str, example: &'static str) -> Column<Flow> {
    component(8, "standing", TEXT, example)
        .about(about)
        .shown(const { &[Cell::new("STATE")] })
        .read(|flow| match flow.report.standing {
            FlowStanding::Watched => "watched".into(),
            FlowStanding::Hog => "hog".into(),
            FlowStanding::Pinned => "pinned".into(),
            FlowStanding::Accepted(_) => "accepted".into(),
            FlowStanding::Waiting => "waiting".into(),
            FlowStanding::SetAside => "set_aside".into(),
            FlowStanding::Blocked => "blocked".into(),
        })
}

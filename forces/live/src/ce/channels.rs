//! Rows of the table `channels`: the traffic of an association's link.

use weir_base::Tally;
use weir_model::class::{Cell, Layout, Type, Unit};
use weir_model::column::{Column, Row, components};
use weir_model::{Class, Component, Value};

use crate::tml::{Channel, Report};

/// The name of an FE, and the report of its link.
pub(super) struct Link;

impl Row for Link {
    type View<'a> = (&'a str, Report);
}

const CONTROL: usize = Channel::Control as usize;
const REDIRECT: usize = Channel::Redirect as usize;

const NUMBER: Type = Type::Gauge(Unit::One);
const COUNTER: Type = Type::Counter(Unit::One);

/// Messages that have passed a channel.
const PASSED: Type = Type::Struct(&[
    Component::new(1, "messages", COUNTER, "15").about("Messages."),
    Component::new(2, "bytes", Type::Counter(Unit::Bytes), "9000")
        .about("Bytes of these messages."),
]);

/// Waiting messages.
const WAITING: Type = Type::Struct(&[
    Component::new(1, "messages", NUMBER, "4").about("Messages."),
    Component::new(2, "bytes", Type::Gauge(Unit::Bytes), "2400").about("Bytes of these messages."),
]);

/// Messages and gauges of the links to the associated FEs.
pub(super) static CHANNELS: Class = Class {
    name: "channels",
    metric: Some("channel"),
    id: 0x00F7_0319,
    about: "the two channels of each association, control and redirect, and their discipline at this end",
    key: &["fe"],
    components: &components::<Link, { COLUMNS.len() }>(COLUMNS),
    layout: Layout {
        empty: "No FE is associated. `weir show fes` shows why.",
        ..Layout::PLAIN
    },
    ..Class::PLAIN
};

pub(super) const COLUMNS: &[Column<Link>] = &[
    Component::new(1, "fe", Type::Text, "edge1")
        .about("Name of the FE in the configuration of the CE.")
        .shown(&[Cell::new("FE")])
        .read(|(fe, _)| (*fe).into()),
    Component::new(2, "discipline", Type::Text, "dppbrb")
        .about("Discipline that divides the link between the channels.")
        .shown(&[Cell::new("DISCIPLINE")])
        .read(|(_, report)| report.discipline.into()),
    Component::new(3, "control_sent", PASSED, "")
        .about("Control messages handed to the transport.")
        .shown(&[Cell::new("CONTROL OUT").of("messages")])
        .read(|(_, report)| messages(report.channels[CONTROL].sent)),
    Component::new(4, "control_received", PASSED, "")
        .about("Control messages from the FE.")
        .shown(&[Cell::new("CONTROL IN").of("messages")])
        .read(|(_, report)| messages(report.channels[CONTROL].received)),
    Component::new(5, "control_waiting", WAITING, "")
        .about("Control messages queued for the transport.")
        .shown(&[Cell::new("CONTROL WAITING").of("messages")])
        .read(|(_, report)| messages(report.channels[CONTROL].queued)),
    Component::new(6, "redirect_sent", PASSED, "")
        .about("Redirected packets handed to the transport.")
        .shown(&[Cell::new("REDIRECT OUT").of("messages")])
        .read(|(_, report)| messages(report.channels[REDIRECT].sent)),
    Component::new(7, "redirect_received", PASSED, "")
        .about("Redirected packets from the FE.")
        .shown(&[Cell::new("REDIRECT IN").of("messages")])
        .read(|(_, report)| messages(report.channels[REDIRECT].received)),
    Component::new(8, "redirect_waiting", WAITING, "")
        .about("Redirected packets queued for the transport.")
        .shown(&[Cell::new("REDIRECT WAITING").of("messages")])
        .read(|(_, report)| messages(report.channels[REDIRECT].queued)),
    Component::new(9, "redirect_dropped", PASSED, "")
        .about("Redirected packets dropped from the queue.")
        .shown(&[Cell::new("REDIRECT DROPPED").of("messages")])
        .read(|(_, report)| messages(report.channels[REDIRECT].dropped)),
    Component::new(10, "combined", COUNTER, "0")
        .about("Redirected packets that were sent in the message of another packet.")
        .read(|(_, report)| report.combined.into()),
    Component::new(
        11,
        "gauges",
        Type::Map(&Type::Gauge(Unit::One)),
        "control_share=1000",
    )
    .about("Gauges of the discipline; `weir describe DISCIPLINE` explains them.")
    .read(|(_, report)| {
        let gauges = report.gauges.iter();
        Value::Struct(
            gauges
                .map(|(name, n)| ((*name).into(), (*n).into()))
                .collect(),
        )
    }),
];

fn messages(tally: Tally) -> Value {
    Value::Struct(vec![
        ("messages".into(), tally.packets.into()),
        ("bytes".into(), tally.bytes.into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_channel::ChannelReport;
    use weir_model::column::row;

    #[test]
    fn a_row_has_every_component_and_each_channel_its_own() {
        let sent = |packets| ChannelReport {
            sent: Tally {
                packets,
                bytes: 100 * packets,
            },
            ..ChannelReport::default()
        };
        let report = Report {
            channels: [sent(3), sent(7)],
            combined: 2,
            discipline: "dppbrb",
            gauges: vec![("control_share", 900)],
        };
        let row = row(COLUMNS, &("edge1", report));
        for component in CHANNELS.components {
            let value = row.get(component.name).unwrap();
            assert!(component.admits(value), "{}: {value:?}", component.name);
        }
        let messages = |name| row.get(name).unwrap().whole("messages");
        assert_eq!(
            (messages("control_sent"), messages("redirect_sent")),
            (Some(3), Some(7))
        );
        assert_eq!(row.get("gauges").unwrap().whole("control_share"), Some(900));
    }
}

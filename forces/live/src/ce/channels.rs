//! Rows of the table `channels`: the traffic of an association's link.

use weir_base::Tally;
use weir_ce::tables::CHANNELS;
use weir_model::{Component, Value};

use crate::tml::{Channel, Report};

/// The row of an FE.
pub(super) fn row(fe: &str, report: &Report) -> Value {
    let of = |channel: Channel| &report.channels[channel as usize];
    let (control, redirect) = (of(Channel::Control), of(Channel::Redirect));
    Component::values(CHANNELS.components, |component| match component.name {
        "fe" => fe.into(),
        "discipline" => report.discipline.into(),
        "control_sent" => messages(control.sent),
        "control_received" => messages(control.received),
        "control_waiting" => messages(control.queued),
        "redirect_sent" => messages(redirect.sent),
        "redirect_received" => messages(redirect.received),
        "redirect_waiting" => messages(redirect.queued),
        "redirect_dropped" => messages(redirect.dropped),
        "combined" => report.combined.into(),
        _ => {
            let gauges = report.gauges.iter();
            Value::Struct(
                gauges
                    .map(|(name, n)| ((*name).into(), (*n).into()))
                    .collect(),
            )
        }
    })
}

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
        let row = row("edge1", &report);
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

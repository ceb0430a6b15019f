//! Builds queue samples from values of the class `queues`: rows of a whole table, and event reports.

use std::collections::BTreeMap;

use weir_base::Tally;
use weir_controller::Sample;
use weir_model::Value;

/// The class whose instances are the queues of ports.
pub(super) const QUEUES: &str = "queues";

/// The rows of a whole table, by port.
pub(super) fn by_port(rows: &Value) -> BTreeMap<&str, &Value> {
    let rows = rows.rows().iter();
    rows.filter_map(|row| Some((row.text("port")?, row)))
        .collect()
}

/// Builds a sample from a row or a report, with those `gauges` that it contains; `None` if a counter is missing.
pub(super) fn sample(row: &Value, gauges: &[&'static str]) -> Option<Sample> {
    let tally = |name: &str| {
        Some(Tally {
            packets: row.whole(&format!("{name}.packets"))?,
            bytes: row.whole(&format!("{name}.bytes"))?,
        })
    };
    let sample = Sample::new(tally("received")?, tally("sent")?, tally("backlog")?);
    let values = row.get("gauges");
    let values = gauges
        .iter()
        .filter_map(|name| Some((*name, gauge(values?, name)?)));
    Some(values.fold(sample, |sample, (name, value)| {
        sample.with_gauge(name, value)
    }))
}

/// Finds a gauge by name, in a map or in the table that encodes a map on the wire.
fn gauge(gauges: &Value, name: &str) -> Option<u64> {
    let of_table = |row: &Value| {
        row.whole("value")
            .filter(|_| row.text("name") == Some(name))
    };
    gauges
        .whole(name)
        .or_else(|| gauges.rows().iter().find_map(of_table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(port: &str, gauges: Value) -> Value {
        let count = |packets| {
            Value::from(Tally {
                packets,
                bytes: 100 * packets,
            })
        };
        Value::Struct(vec![
            ("port".into(), port.into()),
            ("received".into(), count(9)),
            ("sent".into(), count(4)),
            ("backlog".into(), count(5)),
            ("gauges".into(), gauges),
        ])
    }

    #[test]
    fn gauges_come_by_name_in_both_forms() {
        let map = Value::Struct(vec![("a".into(), 7_u64.into()), ("b".into(), 8_u64.into())]);
        let entry = |name: &str, value: u64| {
            Value::Struct(vec![
                ("name".into(), name.into()),
                ("value".into(), value.into()),
            ])
        };
        let table = Value::List(vec![entry("a", 7), entry("b", 8)]);
        for gauges in [map, table] {
            let rows = Value::List(vec![row("wan", gauges), Value::Absent]);
            let all: Vec<_> = by_port(&rows).into_iter().collect();
            let [("wan", row)] = all[..] else {
                panic!("{all:?}")
            };
            let sample = sample(row, &["b", "c"]).unwrap();
            assert_eq!(sample.backlog.packets, 5);
            assert_eq!(
                ["a", "b", "c"].map(|name| sample.gauge(name)),
                [None, Some(8), None]
            );
        }
    }

    #[test]
    fn what_is_no_queue_is_no_sample() {
        let without = Value::Struct(vec![("port".into(), "wan".into())]);
        assert_eq!(sample(&without, &[]), None);
        assert!(by_port(&without).is_empty());
    }
}

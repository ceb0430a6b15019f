//! `GET /metrics`: the metrics of all classes in Prometheus's text format (version 0.0.4). The node exporter's textfile
//! collector can read it too.
//!
//! Names and units come from the declarations ([`weir_model::metric`]). The number of series is bounded by the
//! configuration: classes with a row for each flow, route or neighbour have no metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use weir_model::class::Mechanisms;
use weir_model::metric::{INFO, Metric};
use weir_model::{Class, Value};

/// The media type of the text.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of these classes, each with its answer, and of the mechanisms that their rows report.
pub fn text(answers: &[(&Class, Value)]) -> String {
    let mut text = String::new();
    for (class, answer) in answers {
        let rows = match class.key {
            [] => std::slice::from_ref(answer),
            _ => answer.rows(),
        };
        let label = |row| (labels(class, row, false), row);
        let mut rows: Vec<_> = rows.iter().map(label).collect();
        let there: BTreeSet<_> = rows.iter().map(|(labels, _)| labels.clone()).collect();
        let silent = (class.silent)();
        let silent = silent.iter().map(label);
        rows.extend(silent.filter(|(labels, _)| !there.contains(labels)));
        if let Some(name) = class.info() {
            info(&mut text, class, &name, &rows);
        }
        write_all(&mut text, class, &rows);
        if let Some(mechanisms) = class.mechanisms {
            write_mechanisms(&mut text, &mechanisms, &rows);
        }
    }
    text
}

/// The gauges of mechanisms, by class.
fn write_mechanisms(text: &mut String, mechanisms: &Mechanisms, rows: &[(String, &Value)]) {
    let mut reports: BTreeMap<&str, Vec<(String, &Value)>> = BTreeMap::new();
    for (labels, row) in rows {
        if let (Some(kind), Some(report)) = (row.text(mechanisms.name), row.get(mechanisms.report))
        {
            let report = (labels.clone(), report);
            reports.entry(kind).or_default().push(report);
        }
    }
    for class in (mechanisms.classes)() {
        if let Some(reports) = reports.get(class.name) {
            write_all(text, &class, reports);
        }
    }
}

/// Writes all metrics of a class, except metrics without a value in any row.
fn write_all(text: &mut String, class: &Class, rows: &[(String, &Value)]) {
    for family in class.metrics().chunk_by(|a, b| a.name == b.name) {
        let lines = |metric: &Metric, (labels, row): &(String, &Value)| -> String {
            let name = &metric.name;
            let samples = metric.samples(row).into_iter();
            let line = |(end, label, value): (&str, Option<String>, String)| {
                let labels = braced([labels.clone()].into_iter().chain(label));
                format!("{name}{end}{labels} {value}\n")
            };
            samples.map(line).collect()
        };
        let lines = |metric| rows.iter().map(move |row| lines(metric, row));
        let lines: String = family.iter().flat_map(lines).collect();
        if let Some(Metric {
            name, about, kind, ..
        }) = family.first()
            && !lines.is_empty()
        {
            head(text, name, about, kind.word());
            text.push_str(&lines);
        }
    }
}

fn head(text: &mut String, name: &str, about: &str, kind: &str) {
    let about = about.replace('\\', "\\\\").replace('\n', " ");
    let _ = write!(text, "# HELP {name} {about}\n# TYPE {name} {kind}\n");
}

/// Writes the texts of each row, as labels of a metric with value 1.
fn info(text: &mut String, class: &Class, name: &str, rows: &[(String, &Value)]) {
    if !rows.is_empty() {
        head(text, name, INFO, "gauge");
    }
    for (_, row) in rows {
        let labels = braced([labels(class, row, true)]);
        let _ = writeln!(text, "{name}{labels} 1");
    }
}

/// Labels in braces, as they follow the name of a metric.
fn braced(labels: impl IntoIterator<Item = String>) -> String {
    let labels: Vec<_> = labels.into_iter().filter(|text| !text.is_empty()).collect();
    if labels.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", labels.join(","))
    }
}

/// The key of a row, or all of its texts, as labels separated by commas.
fn labels(class: &Class, row: &Value, all_texts: bool) -> String {
    let wanted = class.texts();
    let wanted = wanted.filter(|name| all_texts || class.key.contains(name));
    let label = |name: &str| {
        let value = row.text(name)?.replace('\\', "\\\\").replace('"', "\\\"");
        Some(format!("{name}=\"{}\"", value.replace('\n', "\\n")))
    };
    wanted.filter_map(label).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use weir_model::Component;
    use weir_model::class::{Gauge, Type, Unit};

    use super::*;

    const FULL: Gauge = Gauge::counter(101, "full", Unit::Packets, "lost");
    const FIFO: Class = Class::mechanism((2, "fifo", ""), &[], &[FULL]);

    const QUEUES: Class = Class {
        name: "queues",
        key: &["port"],
        metric: Some("queue"),
        mechanisms: Some(Mechanisms {
            name: "discipline",
            report: "gauges",
            classes: || vec![FIFO],
        }),
        components: &[
            Component::new(1, "port", Type::Text, "wan"),
            Component::new(2, "discipline", Type::Text, "fifo"),
            Component::new(3, "sent", weir_model::class::COUNT, "").about("Sent."),
            Component::new(5, "delay_s", weir_model::metric::TIMES, "").about("Delay."),
            Component::new(4, "gauges", Type::Map(&Type::Gauge(Unit::One)), "full=3"),
        ],
        ..Class::PLAIN
    };

    #[test]
    fn a_row_is_a_line_of_each_metric() {
        let expected = "\
# HELP weir_queue_info The strings of a row as labels; the value is always 1.
# TYPE weir_queue_info gauge
weir_queue_info{port=\"wan\",discipline=\"fifo\"} 1
# HELP weir_queue_sent_packets_total Sent.
# TYPE weir_queue_sent_packets_total counter
weir_queue_sent_packets_total{port=\"wan\"} 15
# HELP weir_queue_sent_bytes_total Sent.
# TYPE weir_queue_sent_bytes_total counter
weir_queue_sent_bytes_total{port=\"wan\"} 9000
# HELP weir_queue_delay_seconds Delay.
# TYPE weir_queue_delay_seconds histogram
weir_queue_delay_seconds_bucket{port=\"wan\",le=\"0.004194304\"} 1450
weir_queue_delay_seconds_bucket{port=\"wan\",le=\"+Inf\"} 1500
weir_queue_delay_seconds_sum{port=\"wan\"} 4.5
weir_queue_delay_seconds_count{port=\"wan\"} 1500
# HELP weir_fifo_full_packets_total lost
# TYPE weir_fifo_full_packets_total counter
weir_fifo_full_packets_total{port=\"wan\"} 3
";
        let answer = Value::List(vec![QUEUES.example()]);
        assert_eq!(text(&[(&QUEUES, answer)]), expected);
        assert_eq!(text(&[(&QUEUES, Value::List(Vec::new()))]), "");
    }

    #[test]
    fn a_row_without_events_is_there() {
        let row = |reason: &str, count: u64| {
            Value::Struct(vec![
                ("reason".into(), reason.into()),
                ("why".into(), "differs each time".into()),
                ("count".into(), count.into()),
            ])
        };
        const DROPS: Class = Class {
            key: &["reason"],
            metric: Some("dropped"),
            components: &[
                Component::new(1, "reason", Type::Text, ""),
                Component::new(2, "why", Type::Text, "").varying(),
                Component::new(3, "count", Type::Counter(Unit::One), "").about("Dropped."),
            ],
            ..Class::PLAIN
        };
        let drops = Class {
            silent: || {
                let reason = |name: &str| {
                    let row = vec![
                        ("reason".into(), name.into()),
                        ("count".into(), 0_u64.into()),
                    ];
                    Value::Struct(row)
                };
                ["full", "late"].map(reason).to_vec()
            },
            ..DROPS
        };
        let expected = "\
# HELP weir_dropped_total Dropped.
# TYPE weir_dropped_total counter
weir_dropped_total{reason=\"late\"} 3
weir_dropped_total{reason=\"full\"} 0
";
        let answer = Value::List(vec![row("late", 3)]);
        assert_eq!(text(&[(&drops, answer)]), expected);
    }

    #[test]
    fn a_label_is_escaped() {
        let row = Value::Struct(vec![("port".into(), "a\"b\\".into())]);
        assert_eq!(labels(&QUEUES, &row, false), r#"port="a\"b\\""#);
    }
}

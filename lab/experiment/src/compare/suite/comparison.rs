//! Every discipline under the same load: the scenarios of RFC 7928, RRUL and many hosts. The summary is in
//! docs/comparison.md.

use crate::compare::figures::{self, Column, column};
use crate::compare::load::{Load, rows};
use crate::compare::markdown::{glance, header, row, table};
use crate::compare::number::with_half;
use crate::statistics::Summary;

use super::Suite;

pub(super) const SUITE: Suite = Suite {
    name: "comparison",
    about: "RRUL, RFC 7928 and many hosts: docs/comparison.md",
    folders: &["rrul", "rfc7928", "hosts"],
    summary,
    tables: all_tables,
    picture: None,
};

const COLUMNS: [Column; 10] = [
    column("queue, p99 ms", figures::queue_p99),
    column("small packets, p99 ms", figures::small_p99),
    column("TCP, Mbit/s", figures::elastic_goodput),
    column("UDP, Mbit/s", |m| m.get("udp_goodput_mbps").copied()),
    column("loss, %", |m| Some(100.0 * m.get("loss_ratio")?)),
    column("Jain", figures::jain),
    // RFC 7928, section 6.3: goodput of category II over category I.
    column("far / near", |m| {
        Some(m.get("goodput_mbps.far")? / m.get("goodput_mbps.near")?)
    }),
    column("shared address, Mbit/s", |m| {
        m.get("goodput_mbps.shared").copied()
    }),
    column("short flows, mean s", figures::short_flows),
    column("p99 s", figures::short_flows_p99),
];

/// Columns of the summary, for each of its loads.
const IN_SHORT: [Column; 4] = [
    column("delay, p99 ms", figures::small_p99),
    column("goodput, Mbit/s", figures::goodput),
    column("Jain", figures::jain),
    column("short flows, s", figures::short_flows),
];
/// The loads of the summary, with their headings: the loads that have all of its columns.
const LOADS_IN_SHORT: [(&str, &str); 2] = [("rrul", "RRUL"), ("9-mix", "mix")];

/// A mean and its interval with about four digits.
fn shown(summary: &Summary) -> String {
    with_half(summary, 4)
}

/// Delay, goodput, fairness and short flows of each discipline in one table.
fn summary(loads: &[Load]) -> String {
    let loads: Vec<(&str, &Load)> = LOADS_IN_SHORT
        .iter()
        .filter_map(|(name, word)| Some((*word, loads.iter().find(|load| load.name == *name)?)))
        .collect();
    let titles = loads.iter().flat_map(|(word, _)| {
        let titles = IN_SHORT.iter().map(|column| column.title);
        titles.map(move |title| format!("{word}: {title}"))
    });
    let mut text = header(&titles.collect::<Vec<_>>());
    for name in rows(loads.iter().map(|(_, load)| *load)) {
        let cells = loads.iter().flat_map(|(_, load)| {
            let columns = IN_SHORT.iter();
            columns.map(|column| load.cell(name, column.read, shown))
        });
        text += &row(name, &cells.collect::<Vec<_>>());
    }
    format!("\n{text}\n")
}

fn all_tables(loads: &[Load]) -> String {
    let mut text = delays(loads);
    for load in loads {
        text += &format!("\n## {}\n\n{} {}\n\n", load.name, load.about, load.note);
        text += &table(load, &columns(load), shown);
    }
    text
}

/// Delay of each discipline under each load.
fn delays(loads: &[Load]) -> String {
    let mut text = String::from(
        "\n## Delay under each load\n\n99th percentile in ms: end-to-end delay of small packets where the load has \
         them (*), otherwise queue delay of all packets.\n\n",
    );
    for (number, load) in (1..).zip(loads) {
        let small = load.metrics().any(|m| figures::small_p99(m).is_some());
        let star = if small { " (*)" } else { "" };
        text += &format!("{number}. {}{star}\n", load.name);
    }
    text += "\n";
    let all: Vec<&Load> = loads.iter().collect();
    text + &glance(
        &all,
        &rows(loads),
        |m| figures::small_p99(m).or_else(|| figures::queue_p99(m)),
        0,
    )
}

/// The columns for a load. A single flow is always fair to itself, so its fairness is left out.
fn columns(load: &Load) -> Vec<&'static Column> {
    let mut columns = load.columns(&COLUMNS);
    columns.retain(|column| {
        column.title != "Jain" || load.metrics().filter_map(column.read).any(|x| x != 1.0)
    });
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_summary_has_a_row_for_each_discipline() {
        let load = |name: &str, delay: f64| {
            let metrics = [
                ("small_packets_delay_ms_p99", delay),
                ("tcp_goodput_mbps", 10.0),
                ("udp_goodput_mbps", 2.0),
                ("jain_index", 0.5),
                ("web_response_s_mean", 0.25),
            ];
            let metrics = metrics.map(|(name, value)| (name.to_owned(), value));
            Load {
                name: name.into(),
                title: String::new(),
                about: String::new(),
                note: String::new(),
                rows: vec![("fifo".into(), vec![metrics.into()])],
            }
        };
        let text = summary(&[load("rrul", 30.0), load("5.2", 1.0), load("9-mix", 60.0)]);
        let expected = "| `fifo` | 30.00 ± 0.00 | 12.00 ± 0.00 | 0.5000 ± 0.0000 | 0.2500 ± 0.0000 | 60.00 ± 0.00 |";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("| RRUL: delay, p99 ms | RRUL: goodput"),
            "{text}"
        );
    }

    #[test]
    fn a_table_for_each_load() {
        let point = |kind: &str, rate: &str, delay: f64| {
            json!({
                "variant": kind,
                "set": { "link.bottleneck.discipline.kind": kind, "traffic.flood.rate": rate },
                "sweep": { "traffic.flood.rate": rate },
                "summary": {},
                "runs": [{
                    "seed": 1, "series": {},
                    "metrics": { "queue_delay_ms_p99.bottleneck": delay, "jain_index": 1.0 },
                }],
            })
        };
        let results = json!({
            "title": "T", "about": "A load.", "seed": 1, "duration_s": 60.0, "warm_up_s": 10.0,
            "scenario": "", "on": "sim", "cpu_s": 0.0, "wall_s": 0.0,
            "points": [point("fifo", "80 Mbit", 100.0), point("red", "80 Mbit", 7.25), point("fifo", "200 Mbit", 120.0)],
        });
        let loads = Load::all("5.3", &serde_json::from_value(results).unwrap());
        assert_eq!(loads.len(), 2);
        let text = all_tables(&loads);
        assert!(text.contains("## 5.3, rate 80 Mbit\n"), "{text}");
        assert!(
            text.contains("| `fifo` | 100 | 120 |\n| `red` | 7 | - |\n"),
            "{text}"
        );
        assert!(
            text.contains("| | queue, p99 ms |\n|---|---|\n| `fifo` | 100.0 ± 0.0 |\n"),
            "{text}"
        );
    }
}

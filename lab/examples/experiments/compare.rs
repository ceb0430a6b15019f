//! Every discipline under the same load: the scenarios of RFC 7928 and RRUL. The summary is in docs/comparison.md.

use serde_json::Value;

use crate::summary as words;
use crate::tables::{
    self, Column, Document, Load, Metrics, Place, column, first, header, most, names, row, sum,
};

/// The path at which a point names its discipline.
const DISCIPLINE: &str = "link.bottleneck.discipline.kind";

/// The document of `cargo xtask compare`.
pub(crate) const DOCUMENT: Document = Document {
    command: "compare",
    path: "docs/comparison.md",
    folders: &["rrul", "rfc7928"],
    place,
    summary,
    tables: all_tables,
};

const COLUMNS: [Column; 9] = [
    column("queue, p99 ms", queue_delay),
    column("small packets, p99 ms", small_packets),
    column("TCP, Mbit/s", |m| {
        sum(m, &["tcp_goodput_mbps", "web_goodput_mbps"])
    }),
    column("UDP, Mbit/s", |m| m.get("udp_goodput_mbps").copied()),
    column("loss, %", |m| Some(100.0 * m.get("loss_ratio")?)),
    column("Jain", jain),
    // RFC 7928, section 6.3: goodput of category II over category I.
    column("far / near", |m| {
        Some(m.get("goodput_mbps.far")? / m.get("goodput_mbps.near")?)
    }),
    column("short flows, mean s", short_flows),
    column("p99 s", |m| {
        first(m, &["transfer_s_p99", "web_response_s_p99"])
    }),
];

/// Columns of the summary, for each of its loads.
const IN_SHORT: [Column; 4] = [
    column("delay, p99 ms", small_packets),
    column("goodput, Mbit/s", |m| {
        let kinds = ["tcp_goodput_mbps", "udp_goodput_mbps", "web_goodput_mbps"];
        sum(m, &kinds)
    }),
    column("Jain", jain),
    column("short flows, s", short_flows),
];
/// The loads of the summary, with their headings: those that have all of its columns.
const LOADS_IN_SHORT: [(&str, &str); 2] = [("rrul", "RRUL"), ("9-mix", "mix")];

fn queue_delay(metrics: &Metrics) -> Option<f64> {
    let both = [
        "queue_delay_ms_p99.bottleneck",
        "queue_delay_ms_p99.bottleneck.reverse",
    ];
    most(metrics, &both)
}

fn small_packets(metrics: &Metrics) -> Option<f64> {
    let small = [
        "delay_ms_p99.voice",
        "delay_ms_p99.ping",
        "delay_ms_p99.pong",
    ];
    most(metrics, &small)
}

/// Jain's index of long flows; between long and short flows it would mean nothing.
fn jain(metrics: &Metrics) -> Option<f64> {
    let index = metrics.get("jain_index").copied();
    index.filter(|_| !metrics.contains_key("transfers"))
}

fn short_flows(metrics: &Metrics) -> Option<f64> {
    first(metrics, &["transfer_s_mean", "web_response_s_mean"])
}

/// The discipline, and the other values that the sweep sets.
fn place(point: &Value) -> Option<Place> {
    let set = point["set"].as_object()?;
    let others = set
        .iter()
        .filter(|(path, _)| !path.ends_with("discipline.kind"));
    let others = others.map(|(path, value)| {
        let value = value.as_str().map_or(value.to_string(), str::to_owned);
        format!(", {path} = {value}")
    });
    Some(Place {
        row: set.get(DISCIPLINE)?.as_str()?.to_owned(),
        load: others.collect(),
    })
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
    for name in names(loads.iter().map(|(_, load)| *load)) {
        let cells = loads.iter().flat_map(|(_, load)| {
            let columns = IN_SHORT.iter();
            columns.map(|column| load.cell(name, column.read, words::shown))
        });
        text += &row(name, &cells.collect::<Vec<_>>());
    }
    format!("\n{text}\n")
}

fn all_tables(loads: &[Load]) -> String {
    let mut text = delays(loads);
    for load in loads {
        text += &format!("\n## {}\n\n{} {}\n\n", load.name, load.about, load.note);
        text += &tables::table(load, &columns(load), words::shown);
    }
    text
}

/// Delay of each discipline under each load.
fn delays(loads: &[Load]) -> String {
    let mut text = String::from(
        "\n## Delay under each load\n\nIn ms, the 99th percentile: of small packets from end to end where the load has them \
         (*), of all packets in the queue otherwise.\n\n",
    );
    for (number, load) in (1..).zip(loads) {
        let small = load.metrics().any(|m| small_packets(m).is_some());
        let star = if small { " (*)" } else { "" };
        text += &format!("{number}. {}{star}\n", load.name);
    }
    text += "\n";
    let all: Vec<&Load> = loads.iter().collect();
    text + &tables::glance(
        &all,
        &names(loads),
        |m| small_packets(m).or_else(|| queue_delay(m)),
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
                ("delay_ms_p99.voice", delay),
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
                "set": { DISCIPLINE: kind, "traffic.flood.rate": rate },
                "runs": [{ "metrics": { "queue_delay_ms_p99.bottleneck": delay, "jain_index": 1.0 } }],
            })
        };
        let results = json!({
            "title": "T", "about": "A load.", "seed": 1, "duration_s": 60.0, "warm_up_s": 10.0,
            "points": [point("fifo", "80 Mbit", 100.0), point("red", "80 Mbit", 7.25), point("fifo", "200 Mbit", 120.0)],
        });
        let loads = tables::loads("5.3", &results, place).unwrap_or_default();
        assert_eq!(loads.len(), 2);
        let text = all_tables(&loads);
        assert!(
            text.contains("## 5.3, traffic.flood.rate = 80 Mbit\n"),
            "{text}"
        );
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

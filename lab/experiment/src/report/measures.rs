//! Tables of quantities that the simulator measures and the lab does not: queues, delays, jitter, places of loss,
//! completion times by size. Empty tables are left out.
//!
//! The numbers are found by their names: `delay_ms_p99.long` is the column `delay_ms_p99` of the row
//! `long`.

use std::collections::BTreeMap;

use super::html::{escape, section};
use super::metric::shown;
use crate::results::{PointResult, RunResult};

/// Maximum number of rows of a table; the rest is in `summary.csv`.
const ROWS_MAX: usize = 120;

/// A column: its heading, the line below that, and the prefix of the metric's name.
type Column = (&'static str, &'static str, &'static str);

/// A table: a row for each flow group, link or class of each point.
pub(super) struct Group {
    /// The subject of a row.
    of: &'static str,
    /// The columns.
    pub(super) columns: &'static [Column],
}

/// Watched queues.
pub(super) const QUEUES: Group = Group {
    of: "Link",
    columns: &[
        ("Queue delay", "mean, ms", "queue_delay_ms_mean"),
        ("Queue delay", "median, ms", "queue_delay_ms_p50"),
        ("Queue delay", "p95, ms", "queue_delay_ms_p95"),
        ("Queue delay", "p99, ms", "queue_delay_ms_p99"),
        ("Queue delay", "max, ms", "queue_delay_ms_max"),
        ("Queue", "mean, packets", "queue_packets_mean"),
        ("Sent", "Mbit/s", "throughput_mbps"),
        ("Utilisation", "of its rate", "utilisation_ratio"),
    ],
};

const TRAFFICS: Group = Group {
    of: "Traffic",
    columns: &[
        ("Goodput", "Mbit/s", "goodput_mbps"),
        ("Delay", "mean, ms", "delay_ms_mean"),
        ("Delay", "median, ms", "delay_ms_p50"),
        ("Delay", "p95, ms", "delay_ms_p95"),
        ("Delay", "p99, ms", "delay_ms_p99"),
        ("Delay", "max, ms", "delay_ms_max"),
        ("Jitter", "RFC 3550, ms", "jitter_ms"),
        ("Loss", "of its packets", "loss_ratio"),
    ],
};

const SIZES: Group = Group {
    of: "Size",
    columns: &[
        ("Time", "mean, s", "completion_s_mean"),
        ("Time", "median, s", "completion_s_p50"),
        ("Time", "p99, s", "completion_s_p99"),
    ],
};

/// A row of a group's table.
pub(super) struct Row<'a> {
    /// The traffic, link or class.
    pub(super) of: &'a str,
    /// The numbers, by column.
    pub(super) cells: Vec<Option<f64>>,
}

impl Group {
    /// The rows of a point.
    pub(super) fn rows<'a>(&self, point: &'a PointResult) -> Vec<Row<'a>> {
        let mut rows: BTreeMap<&str, Vec<Option<f64>>> = BTreeMap::new();
        for (name, summary) in &point.summary {
            let Some((base, of)) = name.split_once('.') else {
                continue;
            };
            if let Some(place) = self.columns.iter().position(|(.., metric)| *metric == base) {
                let cells = rows.entry(of);
                let cells = cells.or_insert_with(|| vec![None; self.columns.len()]);
                cells[place] = Some(summary.median);
            }
        }
        rows.into_iter()
            .map(|(of, cells)| Row { of, cells })
            .collect()
    }

    fn html(&self, result: &RunResult) -> Option<String> {
        let heads = self.columns.iter();
        let heads =
            heads.map(|(heading, unit, _)| format!("<th>{heading}<small>{unit}</small></th>"));
        let mut table = Table::new(&format!(
            "<th class=\"word\">{}</th>{}",
            self.of,
            heads.collect::<String>()
        ));
        for point in &result.points {
            for row in self.rows(point) {
                let cells = row.cells.iter().map(|x| x.map(shown).unwrap_or_default());
                let cells = cells.map(|x| format!("<td>{x}</td>")).collect::<String>();
                let of = escape(&row.of.replace('_', " "));
                table.row(
                    &point.label(),
                    &format!("<td class=\"word\">{of}</td>{cells}"),
                );
            }
        }
        table.html()
    }
}

/// All tables that are not empty.
pub(super) fn html(result: &RunResult) -> String {
    // The lab has goodputs of each flow group, but not the subject of this table.
    let measured = |begin: &str| {
        let mut names = result.points.iter().flat_map(|p| p.summary.keys());
        names.any(|name| name.starts_with(begin))
    };
    let mut html = String::new();
    if let Some(table) = QUEUES.html(result) {
        html += &section(&waiting(result), &table);
    }
    if measured("delay_ms_mean.")
        && let Some(table) = TRAFFICS.html(result)
    {
        let remark = "<p>One-way delay of packets with payload, from host to host. Jitter per RFC 3550 (RTP).</p>";
        let message = "Delay, jitter and loss of each flow group";
        html += &section(message, &(table + remark));
    }
    if let Some(table) = SIZES.html(result) {
        let remark =
            "<p>Transfers that began in the window; unfinished transfers count with their age.</p>";
        let message = "Completion time of transfers, by size";
        html += &section(message, &(table + remark));
    }
    html + &losses(result)
}

/// The message about the queues: where waiting is longest and where it is shortest. Most packets are a flood's, so
/// the text names the owner of the waiting time.
fn waiting(result: &RunResult) -> String {
    let name = QUEUES.columns[1].2;
    let mut waits: Vec<(f64, &str, String)> = Vec::new();
    for point in &result.points {
        for (metric, summary) in &point.summary {
            if let Some((base, link)) = metric.split_once('.')
                && base == name
            {
                waits.push((summary.median, link, point.label()));
            }
        }
    }
    waits.sort_by(|a, b| a.0.total_cmp(&b.0));
    let heavy = result
        .traffic
        .iter()
        .any(|t| t.kind == "udp" && !t.is_sparse);
    let whose = if heavy {
        "Queue delay of all packets, including UDP,"
    } else {
        "Queue delay of all packets"
    };
    match (waits.first(), waits.last()) {
        (Some((wait, link, _)), Some(_)) if waits.len() == 1 => {
            format!("{whose} at {link}: median {} ms", shown(*wait))
        }
        (Some((least, one, short)), Some((most, other, long))) if most > least => {
            let (least, most) = (shown(*least), shown(*most));
            if one == other {
                format!("{whose} at {one}: median {least} ms under {short}, {most} ms under {long}")
            } else {
                format!(
                    "{whose}: median {least} ms at {one} ({short}), {most} ms at {other} ({long})"
                )
            }
        }
        _ => "Queue delay of all packets".to_owned(),
    }
}

/// A loss: traffic, place and reason, and the mean number of packets per run.
struct Loss<'a> {
    traffic: &'a str,
    place: &'a str,
    reason: &'a str,
    packets: f64,
}

fn losses_of(point: &PointResult) -> Vec<Loss<'_>> {
    let mut losses = Vec::new();
    for (name, summary) in &point.summary {
        let rest = name.strip_prefix("lost_packets.");
        if let Some((traffic, rest)) = rest.and_then(|rest| rest.split_once('.'))
            && let Some((place, reason)) = rest.rsplit_once('.')
        {
            // A run without losses there has no such metric: the mean is over all runs.
            let packets = summary.mean * summary.n as f64 / point.runs.len().max(1) as f64;
            losses.push(Loss {
                traffic,
                place,
                reason,
                packets,
            });
        }
    }
    losses.sort_by(|a, b| b.packets.total_cmp(&a.packets));
    losses
}

fn losses(result: &RunResult) -> String {
    let mut table = Table::new(
        "<th class=\"word\">Traffic</th><th class=\"word\">Dropped at</th><th \
         class=\"word\">Reason</th><th>Lost<small>packets per run</small></th><th>Share<small>of all lost \
         packets</small></th>",
    );
    let mut places: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for point in &result.points {
        let losses = losses_of(point);
        let all: f64 = losses.iter().map(|l| l.packets).sum();
        for loss in &losses {
            *places.entry((loss.place, loss.reason)).or_default() += loss.packets;
            let words = [loss.traffic, loss.place, loss.reason];
            let words = words.map(|w| format!("<td class=\"word\">{}</td>", escape(w)));
            let share = 100.0 * loss.packets / all;
            let cells = format!(
                "{}<td>{:.0}</td><td>{share:.1} %</td>",
                words.concat(),
                loss.packets
            );
            table.row(&point.label(), &cells);
        }
    }
    let all: f64 = places.values().sum();
    let most = places.iter().max_by(|a, b| a.1.total_cmp(b.1));
    let (Some(table), Some(((place, reason), packets))) = (table.html(), most) else {
        return String::new();
    };
    let share = match 100.0 * packets / all {
        share if share >= 99.95 => "All".to_owned(),
        share => format!("{share:.0} % of all"),
    };
    let message = format!("{share} lost packets are dropped at {}: {reason}", place);
    section(&message, &table)
}

/// A table whose first column is the point, named once for all of its rows.
struct Table {
    html: String,
    point: Option<String>,
    rows: usize,
}

impl Table {
    fn new(heads: &str) -> Self {
        Self {
            html: format!(
                "<div class=\"scroll\"><table class=\"measures\"><thead><tr><th></th>{heads}</tr>\
                 </thead><tbody>"
            ),
            point: None,
            rows: 0,
        }
    }

    fn row(&mut self, point: &str, cells: &str) {
        self.rows += 1;
        if self.rows > ROWS_MAX {
            return;
        }
        let class = if self.point.as_deref() == Some(point) {
            " class=\"same\""
        } else {
            ""
        };
        let title = escape(point);
        self.html += &format!("<tr{class}><th scope=\"row\">{title}</th>{cells}</tr>");
        self.point = Some(point.to_owned());
    }

    /// The table, if it has a row.
    fn html(self) -> Option<String> {
        let more = match self.rows.saturating_sub(ROWS_MAX) {
            0 => String::new(),
            more => format!("<p>{more} more rows in summary.csv</p>"),
        };
        (self.rows > 0).then(|| self.html + "</tbody></table></div>" + &more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn queues_have_a_row_for_each_link() {
        let result = example::result();
        let rows = QUEUES.rows(&result.points[0]);
        assert_eq!((rows.len(), rows[0].of), (1, "out"));
        assert_eq!((rows[0].cells[0], rows[0].cells[3]), (Some(2.0), Some(9.5)));
        let page = html(&result);
        assert!(page.contains("Queue delay of all packets"), "{page}");
        assert!(page.contains("new &lt;b&gt;, flows 3"), "{page}");
        assert!(!page.contains("that are lost"), "{page}");
    }

    #[test]
    fn losses_are_told_by_place_and_reason() {
        let mut result = example::result();
        let mut run = result.points[0].runs[0].clone();
        run.metrics
            .insert("lost_packets.long.out.queue-full".into(), 30.0);
        run.metrics
            .insert("lost_packets.long.out.reverse.aqm".into(), 10.0);
        result.points[0].add(run);
        let losses = losses_of(&result.points[0]);
        let seen: Vec<_> = losses
            .iter()
            .map(|l| (l.traffic, l.place, l.reason))
            .collect();
        assert_eq!(
            seen,
            [
                ("long", "out", "queue-full"),
                ("long", "out.reverse", "aqm")
            ]
        );
        // Only one of two runs lost packets.
        assert_eq!(losses[0].packets, 15.0);
        assert!(html(&result).contains("75 % of all lost packets are dropped at out: queue-full"));
    }
}

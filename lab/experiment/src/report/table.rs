//! The table of a result: its columns, and the notation of their numbers.

use crate::TrafficInfo;
use crate::results::{PointResult, RunResult};

use super::gain;
use super::measures::QUEUES;
use super::metric::shown;
use super::paper::{self, Row};
use super::shares::Group;

/// Maximum number of columns of delays of small packets, and of flow groups of one kind that do not compete.
const OF_TRAFFIC_MAX: usize = 4;

/// A column: its heading, the metric, decimals, and the paper's number.
pub(super) struct Column {
    /// Heading.
    pub(super) heading: String,
    /// Unit, under the heading.
    pub(super) unit: &'static str,
    metric: String,
    decimals: usize,
    paper: fn(&Row) -> Option<f64>,
}

fn column(
    heading: impl Into<String>,
    unit: &'static str,
    metric: impl Into<String>,
    decimals: usize,
    paper: fn(&Row) -> Option<f64>,
) -> Column {
    Column {
        heading: heading.into(),
        unit,
        metric: metric.into(),
        decimals,
        paper,
    }
}

/// The columns for which a result has numbers.
pub(super) fn columns(result: &RunResult) -> Vec<Column> {
    // Without UDP other than small packets, TCP's share does not matter.
    let is_beside = |t: &TrafficInfo| t.kind == "udp" && !t.is_sparse;
    let is_shared = result.traffic.is_empty() || result.traffic.iter().any(is_beside);
    let mut all = small_packets(result);
    if is_shared {
        all.push(column(
            "TCP share",
            "of TCP + UDP",
            "tcp_share_ratio",
            3,
            |r| Some(r.share),
        ));
    }
    all.extend(tcp(result));
    all.extend([
        column("UDP", "Mbit/s", "udp_goodput_mbps", 1, |r| Some(r.udp)),
        column("Web", "Mbit/s", "web_goodput_mbps", 2, |_| None),
        column("Fetches", "per second", "web_fetches_per_s", 2, |r| {
            Some(r.fetches / paper::SECONDS)
        }),
        column("Response", "mean, s", "web_response_s_mean", 3, |r| {
            Some(r.response)
        }),
        column("Response", "median, s", "web_response_s_p50", 3, |_| None),
        column("Response", "p99, s", "web_response_s_p99", 2, |_| None),
        column("Connection", "mean, s", "web_connect_s_mean", 3, |r| {
            Some(r.connect)
        }),
        column("Completion", "median, s", "transfer_s_p50", 3, |_| None),
        column("Completion", "p99, s", "transfer_s_p99", 2, |_| None),
        column("UDP loss", "", "udp_loss_ratio", 3, |_| None),
        column("Fairness", "Jain, TCP", "jain_index", 3, |_| None),
    ]);
    all.retain(|c| result.points.iter().any(|p| p.median(&c.metric).is_some()));
    if !is_shared {
        all.retain(|c| c.metric != "udp_goodput_mbps");
    }
    all
}

/// The delay of small packets, the purpose of a run with any.
fn small_packets(result: &RunResult) -> Vec<Column> {
    let sparse = result.traffic.iter().filter(|t| t.is_sparse);
    let columns = sparse.take(OF_TRAFFIC_MAX / 2).flat_map(|t| {
        let of = |unit, statistic: &str| {
            let metric = format!("delay_ms_{statistic}.{}", t.name);
            column(format!("Delay of {}", t.name), unit, metric, 1, |_| None)
        };
        [of("median, ms", "p50"), of("p99, ms", "p99")]
    });
    columns.collect()
}

/// The goodput of TCP: the sum, or that of each flow group if they do not compete, as in two directions of a line.
/// Their sum would exceed the rate of the link.
fn tcp(result: &RunResult) -> Vec<Column> {
    let groups = Group::of(result);
    let of_tcp = result.traffic.iter().filter(|t| t.kind == "tcp");
    let names: Vec<&str> = of_tcp.map(|t| t.name.as_str()).collect();
    if groups.len() > 1 && (2..=OF_TRAFFIC_MAX).contains(&names.len()) {
        let of = |name: &str| {
            column(
                format!("TCP {name}"),
                "Mbit/s",
                format!("goodput_mbps.{name}"),
                1,
                |_| None,
            )
        };
        names.into_iter().map(of).collect()
    } else {
        vec![column("TCP", "Mbit/s", "tcp_goodput_mbps", 1, |r| {
            Some(r.tcp)
        })]
    }
}

impl Column {
    /// Our number.
    pub(super) fn ours(&self, point: &PointResult) -> Option<String> {
        point.median(&self.metric).map(|x| self.show(x))
    }

    /// The median's interval, if there are several runs.
    pub(super) fn spread(&self, point: &PointResult) -> Option<String> {
        let [low, high] = point.spread(&self.metric)?;
        Some(format!("{}–{}", self.show(low), self.show(high)))
    }

    /// The paper's number.
    pub(super) fn paper(&self, row: &Row) -> Option<String> {
        (self.paper)(row).map(|x| self.show(x))
    }

    fn show(&self, x: f64) -> String {
        format!("{x:.*}", self.decimals)
    }
}

/// A plain table.
pub(super) fn text(result: &RunResult) -> String {
    let columns = columns(result);
    let mut rows: Vec<Vec<String>> = vec![
        head("", columns.iter().map(|c| c.heading.as_str())),
        head("", columns.iter().map(|c| c.unit)),
    ];
    for point in &result.points {
        let ours = columns.iter().map(|c| c.ours(point).unwrap_or_default());
        rows.push(std::iter::once(point.label()).chain(ours).collect());
        if let Some(row) = paper::row_of(result, point) {
            let cells = columns.iter().map(|c| c.paper(&row).unwrap_or_default());
            rows.push(
                std::iter::once("  the paper".to_owned())
                    .chain(cells)
                    .collect(),
            );
        }
    }
    let mut text = format!("{}\n{}\n\n", result.title, measured(result));
    if let Some(headline) = gain::headline(result) {
        text += &format!("{headline}.\n\n");
    }
    text += &align(&rows);
    for worse in gain::worse(result) {
        text += &format!("\nworse: {worse}");
    }
    text += match gain::worse(result).len() {
        0 => "",
        _ => "\n",
    };
    text += &queues(result);
    for note in &result.notes {
        text += &format!("\nnote: {note}");
    }
    text.trim_end().to_owned() + "\n"
}

/// A line for each watched link of each point; empty if no link is watched.
fn queues(result: &RunResult) -> String {
    let heads = QUEUES.columns.iter();
    let mut rows = vec![
        head("", [""].into_iter().chain(heads.clone().map(|c| c.0))),
        head("", ["link"].into_iter().chain(heads.map(|c| c.1))),
    ];
    for point in &result.points {
        for (place, row) in QUEUES.rows(point).iter().enumerate() {
            let title = match place {
                0 => point.label(),
                _ => String::new(),
            };
            let cells = row.cells.iter().map(|x| x.map(shown).unwrap_or_default());
            rows.push(
                [title, row.of.to_owned()]
                    .into_iter()
                    .chain(cells)
                    .collect(),
            );
        }
    }
    match rows.len() {
        2 => String::new(),
        _ => format!("\n{}", align(&rows)),
    }
}

fn head<'a>(first: &str, cells: impl Iterator<Item = &'a str>) -> Vec<String> {
    let cells = cells.map(str::to_owned);
    std::iter::once(first.to_owned()).chain(cells).collect()
}

/// How the result was measured, in a sentence.
pub(super) fn measured(result: &RunResult) -> String {
    let runs = result
        .points
        .iter()
        .map(|p| p.runs.len())
        .max()
        .unwrap_or(0);
    let runs = match runs {
        1 => "one run".to_owned(),
        n => format!("medians of {n} runs"),
    };
    let place = match result.on.as_str() {
        "lab" => "in network namespaces with real TCP",
        _ => "in simulation",
    };
    format!(
        "Measured {place}: {runs} of {} s, excluding the first {} s; seed {}.",
        result.duration_s, result.warm_up_s, result.seed
    )
}

/// The sentence below the medians; empty for a single run.
pub(super) fn spreads(result: &RunResult) -> String {
    let runs = result
        .points
        .iter()
        .map(|p| p.runs.len())
        .max()
        .unwrap_or(0);
    match runs {
        0 | 1 => String::new(),
        2..=5 => format!(
            "Medians of {runs} runs; below, the lowest and the highest run (a 95 % interval of the median requires \
             six runs)."
        ),
        _ => format!("Medians of {runs} runs; below, the 95 % interval of the median."),
    }
}

/// Rows of cells as lines; the first column is aligned to the left, all others to the right.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (place, (cell, width)) in row.iter().zip(&widths).enumerate() {
            line += &match place {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["", "TCP"], ["fifo", "5.9"], ["lru_fq", "44.9"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|r| r.map(str::to_owned).to_vec()).collect();
        assert_eq!(align(&rows), "         TCP\nfifo     5.9\nlru_fq  44.9\n");
    }
}

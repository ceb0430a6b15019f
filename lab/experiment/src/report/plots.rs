//! The plots of a result.
//!
//! - the distributions of quantities measured per packet or per fetch, with a line for each point;
//! - for numeric sweeps, the main metrics against each swept number: medians with their intervals, with a line for
//!   each combination of the other values;
//! - each curve over time, with a line for each point: the mean of its runs.
//!
//! Metrics that may number in the hundreds (losses by place, extremes) are only in the sheets.

use std::collections::{BTreeMap, BTreeSet};

use weir_base::statistics::{mean, percentile};

use super::figure::lines::{Dot, Form, LINES_MAX, Line, Plot};
use super::metric::Metric;
use super::swept;
use crate::results::{Curve, PointResult, RunResult};

/// Maximum number of plots of one result.
const PLOTS_MAX: usize = 200;

/// Metrics that are plotted against swept values, without the name of their traffic or link.
const PLOTTED: [&str; 26] = [
    "tcp_share_ratio",
    "tcp_goodput_mbps",
    "udp_goodput_mbps",
    "web_goodput_mbps",
    "goodput_mbps",
    "web_fetches_per_s",
    "web_response_s_mean",
    "web_response_s_p50",
    "web_response_s_p99",
    "web_connect_s_mean",
    "jain_index",
    "udp_loss_ratio",
    "transfers_per_s",
    "transfer_s_mean",
    "transfer_s_p99",
    "completion_s_mean",
    "completion_s_p99",
    "loss_ratio",
    "delay_ms_mean",
    "delay_ms_p50",
    "delay_ms_p99",
    "jitter_ms",
    "queue_delay_ms_mean",
    "queue_delay_ms_p50",
    "queue_delay_ms_p99",
    "utilisation_ratio",
];

/// All plots with the names of their files, and the number of plots that are left out.
pub(super) fn of(result: &RunResult) -> (Vec<(String, Plot)>, usize) {
    let mut plots = distributed(result);
    plots.extend(swept(result));
    plots.extend(over_time(result));
    let more = plots.len().saturating_sub(PLOTS_MAX);
    plots.truncate(PLOTS_MAX);
    (plots, more)
}

/// A plot; if it has too many lines, several plots, named after their first and last lines.
fn split(name: &str, plot: Plot) -> Vec<(String, Plot)> {
    let is_one = plot.lines.len() <= LINES_MAX;
    let part = |lines: &[Line]| {
        let name = match (lines.first(), lines.last()) {
            (Some(first), Some(last)) if !is_one => {
                format!("{name}-from-{}-to-{}", first.name, last.name)
            }
            _ => name.to_owned(),
        };
        let lines = lines.to_vec();
        (
            name,
            Plot {
                lines,
                ..plot.clone()
            },
        )
    };
    plot.lines.chunks(LINES_MAX).map(part).collect()
}

fn over_time(result: &RunResult) -> Vec<(String, Plot)> {
    let runs = result.points.iter().flat_map(|p| &p.runs);
    let names: BTreeSet<&String> = runs.flat_map(|r| r.series.keys()).collect();
    let plot = |name: &String| {
        let with = |(_, point): &(usize, &PointResult)| {
            point.runs.iter().any(|r| r.series.contains_key(name))
        };
        let line = |(colour, point): (usize, &PointResult)| Line {
            name: point.label(),
            colour,
            points: mean_curve(point, name),
            is_marked: false,
        };
        let plot = Plot {
            title: format!("{} over time", titled(name)),
            x: "time, s".into(),
            lines: result
                .points
                .iter()
                .enumerate()
                .filter(with)
                .map(line)
                .collect(),
            form: Form::Values,
        };
        split(&format!("{name}-over-time"), plot)
    };
    names.into_iter().flat_map(plot).collect()
}

/// Distributions of values, with a line for each point.
fn distributed(result: &RunResult) -> Vec<(String, Plot)> {
    let runs = result.points.iter().flat_map(|p| &p.runs);
    let names: BTreeSet<&String> = runs.flat_map(|r| r.distributions.keys()).collect();
    let all: Vec<(usize, &PointResult)> = result.points.iter().enumerate().collect();
    let plot = |name: &String| {
        let plots = distribution(&all, name);
        let named = plots
            .into_iter()
            .flat_map(|plot| split(&format!("{name}-distribution"), plot));
        named.collect::<Vec<_>>()
    };
    names.into_iter().flat_map(plot).collect()
}

/// The distributions of the values of this name at these points, each with its colour: for each share, the median of a
/// point's runs.
pub(super) fn distribution(points: &[(usize, &PointResult)], name: &str) -> Option<Plot> {
    let line = |(colour, point): &(usize, &PointResult)| {
        let mut shares: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for distribution in point.runs.iter().filter_map(|r| r.distributions.get(name)) {
            for [share, value] in &distribution.0 {
                // Shares are positive, so their bits sort in the same order.
                shares.entry(share.to_bits()).or_default().push(*value);
            }
        }
        let dot = |(share, mut values): (u64, Vec<f64>)| {
            values.sort_by(f64::total_cmp);
            Some(Dot {
                x: percentile(&values, 0.5)?,
                y: 100.0 * f64::from_bits(share),
                interval: None,
            })
        };
        let points: Vec<Dot> = shares.into_iter().filter_map(dot).collect();
        (!points.is_empty()).then(|| Line {
            name: point.label(),
            colour: *colour,
            points,
            is_marked: false,
        })
    };
    let lines: Vec<Line> = points.iter().filter_map(line).collect();
    let metric = Metric::named(name);
    (!lines.is_empty()).then(|| Plot {
        title: format!("{}: cumulative distribution, in %", metric.heading()),
        x: titled(name),
        lines,
        form: Form::Distributions,
    })
}

/// The mean of a curve over a point's runs. A queue is sampled when a step begins; any other value is a mean over the
/// step, and is drawn in the middle of it.
pub(crate) fn mean_curve(point: &PointResult, name: &str) -> Vec<Dot> {
    let curves: Vec<&Curve> = point
        .runs
        .iter()
        .filter_map(|r| r.series.get(name))
        .collect();
    let steps = curves.iter().map(|c| c.values.len()).max().unwrap_or(0);
    let within = if name.starts_with("queue_") { 0.0 } else { 0.5 };
    let dot = |step: usize| {
        let there = curves.iter().filter_map(|c| c.values.get(step).copied());
        let values: Vec<f64> = there.filter(|x| x.is_finite()).collect();
        Some(Dot {
            x: (step as f64 + within) * curves.first()?.step_s,
            y: mean(&values)?,
            interval: None,
        })
    };
    (0..steps).filter_map(dot).collect()
}

/// A metric as text, with its unit.
pub(super) fn titled(name: &str) -> String {
    let metric = Metric::named(name);
    match metric.unit {
        "" => metric.heading(),
        unit => format!("{}, {unit}", metric.heading()),
    }
}

fn swept(result: &RunResult) -> Vec<(String, Plot)> {
    let axes = swept::axes(result);
    let names: BTreeSet<&String> = result
        .points
        .iter()
        .flat_map(|p| p.summary.keys())
        .collect();
    let plotted = |name: &&String| {
        let base = name.split('.').next().unwrap_or(name);
        PLOTTED.contains(&base)
    };
    let names = names.into_iter().filter(plotted);
    let both = names.flat_map(|name| axes.iter().map(move |axis| (name, axis)));
    let plot = |(name, axis): (&String, &swept::Axis)| {
        let plot = against(result, axis, name)?;
        Some(split(&format!("{name}-by-{}", axis.path), plot))
    };
    both.filter_map(plot).flatten().collect()
}

/// A metric against the swept values; `None` for a single point, which is not a line.
pub(super) fn against(result: &RunResult, axis: &swept::Axis, metric: &str) -> Option<Plot> {
    let lines = swept::lines(result, axis, metric);
    let is_line = lines.iter().any(|line| line.points.len() > 1);
    is_line.then(|| Plot {
        title: format!("{} by {}", titled(metric), axis.path),
        x: axis.title(),
        lines,
        form: Form::Values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn curves_and_sweeps_and_distributions_have_plots() {
        let (plots, more) = of(&example::result());
        let names: Vec<&str> = plots.iter().map(|(name, _)| name.as_str()).collect();
        let by = "by-traffic.flood.flows";
        let expected = [
            "delay_ms.voice-distribution".to_owned(),
            format!("delay_ms_mean.long-{by}"),
            format!("delay_ms_p50.voice-{by}"),
            format!("delay_ms_p99.voice-{by}"),
            format!("queue_delay_ms_mean.out-{by}"),
            format!("queue_delay_ms_p99.out-{by}"),
            format!("tcp_share_ratio-{by}"),
            "queue_packets.out-over-time".to_owned(),
            "tcp_mbps-over-time".to_owned(),
        ];
        assert_eq!(
            (names, more),
            (expected.iter().map(String::as_str).collect(), 0)
        );
        let (_, curves) = &plots[8];
        assert_eq!(curves.lines.len(), 4);
        assert_eq!(
            (curves.lines[0].points[1].x, curves.lines[0].points[1].y),
            (0.75, 20.0)
        );
        let (_, sweep) = &plots[6];
        assert_eq!(sweep.x, "traffic.flood.flows");
        let names: Vec<&str> = sweep.lines.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["plain, \"old\"", "new <b>"]);
        assert_eq!(sweep.lines[0].points.len(), 2);
        let (_, voice) = &plots[0];
        let middle = voice.lines[1].points.iter().find(|dot| dot.y == 50.0);
        assert_eq!(middle.map(|dot| dot.x), Some(7.5));
    }

    #[test]
    fn parts_of_a_plot_are_named_after_their_lines() {
        let line = |n: usize| Line {
            name: format!("q{n}"),
            colour: n,
            points: Vec::new(),
            is_marked: false,
        };
        let plot = Plot {
            title: String::new(),
            x: String::new(),
            lines: (0..10).map(line).collect(),
            form: Form::Values,
        };
        let names: Vec<String> = split("call", plot)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["call-from-q0-to-q7", "call-from-q8-to-q9"]);
    }
}

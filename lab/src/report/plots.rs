//! Which plots a result has.
//!
//! - each curve over time, a line for each point: the mean of its runs;
//! - where numbers were swept, each metric that a reader asks for against each of them, with the
//!   95 % interval of the mean; a line for everything else that sets points apart.
//!
//! Metrics of which there can be hundreds (losses by place, extremes) are in the sheets only.

use std::collections::BTreeSet;

use serde_json::Value;

use super::metric::Metric;
use super::plot::{Dot, LINES_MAX, Line, Plot};
use crate::results::{Curve, PointResult, RunResult};
use crate::statistics::mean;

/// Plots of one result at most.
const PLOTS_MAX: usize = 200;

/// Metrics that are plotted against what was swept, without the name of their traffic or link.
const PLOTTED: [&str; 24] = [
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
    "delay_ms_p99",
    "jitter_ms",
    "queue_delay_ms_mean",
    "queue_delay_ms_p99",
    "utilisation_ratio",
];

/// All plots with their names, and how many more there would be.
pub(super) fn of(result: &RunResult) -> (Vec<(String, Plot)>, usize) {
    let mut plots = over_time(result);
    plots.extend(swept(result));
    let more = plots.len().saturating_sub(PLOTS_MAX);
    plots.truncate(PLOTS_MAX);
    (plots, more)
}

fn over_time(result: &RunResult) -> Vec<(String, Plot)> {
    let runs = result.points.iter().flat_map(|p| &p.runs);
    let names: BTreeSet<&String> = runs.flat_map(|r| r.series.keys()).collect();
    let mut plots = Vec::new();
    for name in names {
        let with = |point: &&PointResult| point.runs.iter().any(|r| r.series.contains_key(name));
        let points: Vec<_> = result.points.iter().filter(with).collect();
        for (part, points) in points.chunks(LINES_MAX).enumerate() {
            let line = |point: &&PointResult| Line {
                name: point.title(),
                points: mean_curve(point, name),
                is_marked: false,
            };
            let file = match part {
                0 => name.clone(),
                part => format!("{name}-{}", part + 1),
            };
            let plot = Plot {
                title: titled(name),
                x: "time, s".into(),
                lines: points.iter().map(line).collect(),
            };
            plots.push((file, plot));
        }
    }
    plots
}

/// The mean of a curve over a point's runs. A queue is looked at when a step begins; anything else
/// is a mean over the step, and is drawn in the middle of it.
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
            half: None,
        })
    };
    (0..steps).filter_map(dot).collect()
}

fn titled(name: &str) -> String {
    let metric = Metric::named(name);
    match metric.unit {
        "" => metric.heading(),
        unit => format!("{}, {unit}", metric.heading()),
    }
}

fn swept(result: &RunResult) -> Vec<(String, Plot)> {
    let swept = result.swept();
    let numbers: Vec<Axis> = swept.iter().filter_map(|p| Axis::of(result, p)).collect();
    let names: BTreeSet<&String> = result
        .points
        .iter()
        .flat_map(|p| p.summary.keys())
        .collect();
    let plotted = |name: &&String| {
        let base = name.split('.').next().unwrap_or(name);
        PLOTTED.contains(&base)
    };
    let mut plots = Vec::new();
    for axis in &numbers {
        for name in names.iter().copied().filter(plotted) {
            let lines = lines(result, axis, name);
            // One point is no line.
            if !lines.iter().any(|line| line.points.len() > 1) {
                continue;
            }
            let file = match &numbers[..] {
                [_] => name.clone(),
                _ => format!("{name}-by-{}", axis.path),
            };
            for (part, lines) in lines.chunks(LINES_MAX).enumerate() {
                let file = match part {
                    0 => file.clone(),
                    part => format!("{file}-{}", part + 1),
                };
                let plot = Plot {
                    title: titled(name),
                    x: axis.title(),
                    lines: lines.to_vec(),
                };
                plots.push((file, plot));
            }
        }
    }
    plots
}

/// A line for each combination of everything but the axis.
fn lines(result: &RunResult, axis: &Axis, metric: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for point in &result.points {
        let Some((x, summary)) = axis.value(point).zip(point.summary.get(metric)) else {
            continue;
        };
        if !summary.mean.is_finite() {
            continue;
        }
        let mut others = point.clone();
        others.set.remove(&axis.path);
        let name = others.title();
        let dot = Dot {
            x,
            y: summary.mean,
            half: summary.ci95,
        };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(dot),
            None => lines.push(Line {
                name,
                points: vec![dot],
                is_marked: true,
            }),
        }
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    lines
}

/// A swept path whose values are numbers, perhaps with a unit.
#[derive(Clone, Debug, PartialEq)]
struct Axis {
    path: String,
    unit: String,
}

/// Units of which a sweep may mix several, by what they measure: each as a multiple of the first.
const SCALES: [&[(&str, f64)]; 4] = [
    &[("kbit", 1.0), ("Mbit", 1e3), ("Gbit", 1e6), ("bit", 1e-3)],
    &[
        ("ms", 1.0),
        ("us", 1e-3),
        ("ns", 1e-6),
        ("s", 1e3),
        ("min", 60e3),
    ],
    &[("kB", 1.0), ("B", 1e-3), ("MB", 1e3), ("GB", 1e6)],
    &[("packets", 1.0), ("packet", 1.0)],
];

impl Axis {
    /// Of a path whose values are all numbers of one kind.
    fn of(result: &RunResult, path: &str) -> Option<Self> {
        let values = result.points.iter().filter_map(|p| p.set.get(path));
        let units: Vec<String> = values.map(|v| Some(number(v)?.1)).collect::<Option<_>>()?;
        let unit = units.first()?.clone();
        let axis = Self {
            path: path.to_owned(),
            unit,
        };
        let fits = |unit: &String| axis.factor(unit).is_some();
        units.iter().all(fits).then_some(axis)
    }

    /// What one of `unit` is in units of the axis.
    fn factor(&self, unit: &str) -> Option<f64> {
        if unit == self.unit {
            return Some(1.0);
        }
        let size = |scale: &[(&str, f64)], unit: &str| {
            scale
                .iter()
                .find(|(name, _)| *name == unit)
                .map(|(_, size)| *size)
        };
        let mut scales = SCALES.iter();
        scales.find_map(|scale| Some(size(scale, unit)? / size(scale, &self.unit)?))
    }

    fn value(&self, point: &PointResult) -> Option<f64> {
        let (value, unit) = number(point.set.get(&self.path)?)?;
        Some(value * self.factor(&unit)?)
    }

    fn title(&self) -> String {
        match self.unit.as_str() {
            "" => self.path.clone(),
            unit => format!("{}, {unit}", self.path),
        }
    }
}

/// `4` or `"100 Mbit"`.
fn number(value: &Value) -> Option<(f64, String)> {
    if let Some(x) = value.as_f64() {
        return Some((x, String::new()));
    }
    let text = value.as_str()?.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_')))
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let x = digits.replace('_', "").parse().ok()?;
    Some((x, unit.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn curves_and_sweeps_have_plots() {
        let (plots, more) = of(&example::result());
        let names: Vec<&str> = plots.iter().map(|(name, _)| name.as_str()).collect();
        let expected = [
            "queue_packets.out",
            "tcp_mbps",
            "delay_ms_mean.long",
            "queue_delay_ms_mean.out",
            "queue_delay_ms_p99.out",
            "tcp_share_ratio",
        ];
        assert_eq!((names.as_slice(), more), (expected.as_slice(), 0));
        let (_, curves) = &plots[1];
        assert_eq!(curves.lines.len(), 4);
        assert_eq!(
            (curves.lines[0].points[1].x, curves.lines[0].points[1].y),
            (0.75, 20.0)
        );
        let (_, sweep) = &plots[5];
        assert_eq!(sweep.x, "traffic.flood.flows");
        let names: Vec<&str> = sweep.lines.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["plain, \"old\"", "new <b>"]);
        assert_eq!(sweep.lines[0].points.len(), 2);
    }

    #[test]
    fn an_axis_has_one_unit() {
        let mut result = example::result();
        let path = "link.out.rate";
        let rates = ["10 Mbit", "500 kbit", "1 Gbit", "2 Mbit"];
        for (point, rate) in result.points.iter_mut().zip(rates) {
            point.set.insert(path.into(), rate.into());
        }
        let axis = Axis::of(&result, path).unwrap();
        let values: Vec<_> = result
            .points
            .iter()
            .map(|p| axis.value(p).unwrap())
            .collect();
        assert_eq!(axis.title(), "link.out.rate, Mbit");
        assert_eq!(values, [10.0, 0.5, 1000.0, 2.0]);
        result.points[0].set.insert(path.into(), "1 s".into());
        assert_eq!(Axis::of(&result, path), None);
        result.points[0].set.insert(path.into(), "many".into());
        assert_eq!(Axis::of(&result, path), None);
    }
}

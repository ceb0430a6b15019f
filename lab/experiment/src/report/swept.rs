//! The sweep of a result: its axes of numbers, the lines over them, and the point in the middle.

use std::collections::BTreeSet;

use serde_json::Value;

use super::figure::lines::{Dot, Line};
use super::figure::scale::label;
use super::metric::shown;
use crate::results::{PointResult, RunResult, marked};

/// A swept path whose values are numbers, perhaps with a unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    /// The path.
    pub(super) path: String,
    unit: String,
}

/// Groups of units that a sweep may mix; each unit is a multiple of the first.
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
    /// The axis of a path whose values are all numbers of one kind.
    fn of(result: &RunResult, path: &str) -> Option<Self> {
        let values = result.points.iter().filter_map(|p| p.sweep.get(path));
        let units: Vec<String> = values.map(|v| Some(number(v)?.1)).collect::<Option<_>>()?;
        let unit = units.first()?.clone();
        let axis = Self {
            path: path.to_owned(),
            unit,
        };
        let fits = |unit: &String| axis.factor(unit).is_some();
        units.iter().all(fits).then_some(axis)
    }

    /// The factor from `unit` to the unit of the axis.
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

    /// The position of a point.
    pub(super) fn value(&self, point: &PointResult) -> Option<f64> {
        let (value, unit) = number(point.sweep.get(&self.path)?)?;
        Some(value * self.factor(&unit)?)
    }

    /// The path and its unit.
    pub(super) fn title(&self) -> String {
        match self.unit.as_str() {
            "" => self.path.clone(),
            // In a scenario, a quantity in bits is a rate.
            unit if unit.ends_with("bit") => format!("{}, {unit}/s", self.path),
            unit => format!("{}, {unit}", self.path),
        }
    }

    /// The swept values as text: `flows from 2 to 4`.
    pub(super) fn words(&self, result: &RunResult) -> String {
        let values = || result.points.iter().filter_map(|p| self.value(p));
        let (least, most) = (
            values().fold(f64::INFINITY, f64::min),
            values().fold(0.0, f64::max),
        );
        let key = self
            .path
            .rsplit('.')
            .next()
            .unwrap_or_default()
            .replace('_', " ");
        let unit = match self.title().rsplit_once(", ") {
            Some((_, unit)) => format!("\u{a0}{unit}"),
            None => String::new(),
        };
        format!("{key} from {} to {}{unit}", label(least), label(most))
    }
}

/// The swept paths whose values are numbers.
pub(super) fn axes(result: &RunResult) -> Vec<Axis> {
    let swept = result.swept();
    swept
        .iter()
        .filter_map(|path| Axis::of(result, path))
        .collect()
}

/// A line for each combination of the other values: medians and their intervals.
pub(super) fn lines(result: &RunResult, axis: &Axis, metric: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let is_only = axes(result).len() == 1;
    let mut disturbed: BTreeSet<usize> = BTreeSet::new();
    for point in &result.points {
        let Some((x, y)) = axis.value(point).zip(point.median(metric)) else {
            continue;
        };
        if !y.is_finite() {
            continue;
        }
        let name = without(point, std::slice::from_ref(axis)).title();
        let dot = Dot {
            x,
            y,
            interval: point.spread(metric),
        };
        let place = lines.iter().position(|line| line.name == name);
        let place = place.unwrap_or(lines.len());
        if point.is_disturbed() {
            disturbed.insert(place);
        }
        match lines.get_mut(place) {
            Some(line) => line.points.push(dot),
            None => lines.push(Line {
                name,
                // With several axes a discipline has several lines.
                colour: if is_only {
                    colour(result, point)
                } else {
                    place
                },
                points: vec![dot],
                is_marked: true,
            }),
        }
    }
    for (place, line) in lines.iter_mut().enumerate() {
        line.name = marked(std::mem::take(&mut line.name), disturbed.contains(&place));
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    lines
}

/// The number of a point's colour: points that differ only in swept numbers have the same number in all pictures.
pub(super) fn colour(result: &RunResult, point: &PointResult) -> usize {
    let axes = axes(result);
    let own = without(point, &axes).title();
    let mut names: Vec<String> = Vec::new();
    for point in &result.points {
        let name = without(point, &axes).title();
        if name == own {
            break;
        }
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.len()
}

/// The points in the middle of the numeric sweeps, one for each combination of the other values.
pub(super) fn middles(result: &RunResult) -> Vec<&PointResult> {
    let axes = axes(result);
    let mut groups: Vec<(String, Vec<&PointResult>)> = Vec::new();
    for point in &result.points {
        let name = without(point, &axes).title();
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => groups.push((name, vec![point])),
        }
    }
    let mut middles = Vec::new();
    for (_, mut points) in groups {
        points.sort_by(|a, b| {
            let mut orders = axes.iter().map(|axis| {
                let (a, b) = (axis.value(a), axis.value(b));
                a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0))
            });
            orders
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        middles.push(points.swap_remove((points.len() - 1) / 2));
    }
    middles
}

/// A sentence for pictures of the middle: the points that they leave out.
pub(super) fn middle_note(result: &RunResult) -> String {
    let words: Vec<String> = axes(result).iter().map(|axis| axis.words(result)).collect();
    match (middles(result).len(), words.join("; ").as_str()) {
        (shown, _) if shown == result.points.len() => String::new(),
        (shown, words) => format!(
            "<p>Swept: {words}. {shown} of {} points are shown: those in the middle of the sweep; the curves show \
             all points.</p>",
            result.points.len()
        ),
    }
}

/// The point without its positions on the axes.
fn without(point: &PointResult, axes: &[Axis]) -> PointResult {
    let mut others = PointResult {
        variant: point.variant.clone(),
        sweep: point.sweep.clone(),
        ..PointResult::default()
    };
    for axis in axes {
        others.sweep.remove(&axis.path);
    }
    others
}

/// The first and the last number of each line: `lru_fq: 0.469 to 0.483`.
pub(super) fn told(lines: &[Line], unit: &str) -> Option<String> {
    let tell = |line: &Line| {
        let (first, last) = (line.points.first()?, line.points.last()?);
        let name = match line.name.as_str() {
            "all" => String::new(),
            name => format!("{name}: "),
        };
        Some(format!(
            "{name}{} to {}{unit}",
            shown(first.y),
            shown(last.y)
        ))
    };
    let told: Option<Vec<String>> = lines.iter().map(tell).collect();
    Some(told?.join(", "))
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
    fn an_axis_has_one_unit() {
        let mut result = example::result();
        let path = "link.out.rate";
        let rates = ["10 Mbit", "500 kbit", "1 Gbit", "2 Mbit"];
        for (point, rate) in result.points.iter_mut().zip(rates) {
            point.sweep.insert(path.into(), rate.into());
        }
        let axis = Axis::of(&result, path).unwrap();
        let values: Vec<_> = result
            .points
            .iter()
            .map(|p| axis.value(p).unwrap())
            .collect();
        assert_eq!(axis.title(), "link.out.rate, Mbit/s");
        assert_eq!(axis.words(&result), "rate from 0.5 to 1000\u{a0}Mbit/s");
        assert_eq!(values, [10.0, 0.5, 1000.0, 2.0]);
        result.points[0].sweep.insert(path.into(), "1 s".into());
        assert_eq!(Axis::of(&result, path), None);
        result.points[0].sweep.insert(path.into(), "many".into());
        assert_eq!(Axis::of(&result, path), None);
    }

    #[test]
    fn the_middle_is_told_from_all_that_was_swept() {
        let mut result = example::result();
        let titles = |result: &RunResult| -> Vec<String> {
            middles(result).iter().map(|p| p.title()).collect()
        };
        assert_eq!(
            titles(&result),
            ["plain, \"old\", flows 2", "new <b>, flows 2"]
        );
        let note = middle_note(&result);
        assert!(
            note.contains("flows from 2 to 3") && note.contains("2 of 4 points"),
            "{note}"
        );
        // A sweep over names has no middle: each name counts separately.
        for (point, kind) in result.points.iter_mut().zip(["fifo", "red", "drr", "sfq"]) {
            point.variant = None;
            point.sweep = [("link.out.discipline.kind".to_owned(), kind.into())]
                .into_iter()
                .collect();
        }
        assert_eq!(titles(&result), ["fifo", "red", "drr", "sfq"]);
        assert_eq!(middle_note(&result), "");
    }
}

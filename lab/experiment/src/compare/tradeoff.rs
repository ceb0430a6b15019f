//! Delay over rate: a discipline trades one for the other, so neither alone shows whether it is good.
//!
//! ```text
//!   load ──▶ tradeoff: (delay, rate) of each discipline  ─┬▶ a picture of the load
//!   all loads, each value over the load's best ───────────┴▶ a picture of all of them
//! ```
//!
//! The delay is the 99th percentile of small packets; under a load without small packets, the time of all packets in
//! the queue. The rate is the goodput of TCP and web; under an attack, the share of it that honest traffic keeps.

use serde::Serialize;

use super::answers::is_attack;
use super::figures::{elastic_goodput, kept, queue_p99, small_p99};
use super::load::{Load, Read};
use crate::report::{Point, Scatter, section};
use crate::results::marked;
use crate::statistics::Summary;

/// A picture: a point for each discipline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tradeoff {
    /// The load; empty for all loads together.
    pub load: String,
    /// The name of the delay, with the unit.
    pub delay: &'static str,
    /// The name of the rate, with the unit.
    pub rate: &'static str,
    /// The disciplines that have both.
    pub points: Vec<Both>,
}

/// Both figures of a discipline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Both {
    /// The discipline.
    pub discipline: String,
    /// The delay: less is better.
    pub delay: Summary,
    /// The rate: more is better.
    pub rate: Summary,
    /// Whether a disturbance affected any run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
}

/// The figures of a load, with their titles.
fn figures(load: &Load) -> [(&'static str, Read); 2] {
    let has = |read: Read| load.metrics().any(|metrics| read(metrics).is_some());
    let delay: (_, Read) = if has(small_p99) {
        ("p99 delay of small packets, ms", small_p99)
    } else {
        ("p99 queue delay, ms", queue_p99)
    };
    let rate: (_, Read) = if is_attack(load) {
        ("share of its goodput that honest traffic keeps", kept)
    } else {
        ("goodput of TCP and web, Mbit/s", elastic_goodput)
    };
    [delay, rate]
}

impl Tradeoff {
    /// The picture of a load; `None` for fewer than two points.
    pub(super) fn of(load: &Load) -> Option<Self> {
        let [(delay, read_delay), (rate, read_rate)] = figures(load);
        let both = |(name, _): &(String, _)| {
            Some(Both {
                discipline: name.clone(),
                delay: load.summary(name, read_delay)?,
                rate: load.summary(name, read_rate)?,
                disturbed: load.is_disturbed(name),
            })
        };
        let points: Vec<Both> = load.rows.iter().filter_map(both).collect();
        (points.len() > 1).then(|| Self {
            load: load.name.clone(),
            delay,
            rate,
            points,
        })
    }

    /// The picture of all loads: for each discipline and seed the geometric mean of delays, and of rates, each divided
    /// by the load's best. A discipline without a value under one of the loads has no point. `None` for a single load,
    /// and for fewer than two points.
    pub(super) fn of_all(loads: &[Load]) -> Option<Self> {
        let bests: Vec<(&Load, Self, [f64; 2])> = loads
            .iter()
            .filter_map(|load| {
                let own = Self::of(load)?;
                let delays = own.points.iter().map(|point| point.delay.mean);
                let rates = own.points.iter().map(|point| point.rate.mean);
                let bests = [
                    delays.fold(f64::INFINITY, f64::min),
                    rates.fold(0.0, f64::max),
                ];
                bests
                    .iter()
                    .all(|best| *best > 0.0)
                    .then_some((load, own, bests))
            })
            .collect();
        let (_, first, _) = bests.first().filter(|_| bests.len() > 1)?;
        let both = |point: &Both| {
            let name = &point.discipline;
            let mean = |which: usize| {
                let of_loads = bests.iter().map(|(load, _, best)| {
                    let (_, read) = figures(load)[which];
                    let (_, runs) = load.rows.iter().find(|(row, _)| row == name)?;
                    let logs = runs
                        .iter()
                        .map(|run| Some((read(run)? / best[which]).max(LEAST).ln()));
                    logs.collect::<Option<Vec<f64>>>()
                });
                let of_loads: Vec<Vec<f64>> = of_loads.collect::<Option<_>>()?;
                let runs = of_loads.iter().map(Vec::len).min()?;
                let of_run = |run: usize| {
                    let sum: f64 = of_loads.iter().map(|logs| logs[run]).sum();
                    (sum / of_loads.len() as f64).exp()
                };
                Summary::of(&(0..runs).map(of_run).collect::<Vec<_>>())
            };
            Some(Both {
                discipline: name.clone(),
                delay: mean(0)?,
                rate: mean(1)?,
                disturbed: bests.iter().any(|(load, ..)| load.is_disturbed(name)),
            })
        };
        let points: Vec<Both> = first.points.iter().filter_map(both).collect();
        (points.len() > 1).then(|| Self {
            load: String::new(),
            delay: "delay relative to the best of each load",
            rate: "rate relative to the best of each load",
            points,
        })
    }

    /// Whether the picture is of this load, or of a point of its sweep.
    pub(super) fn is_of(&self, load: &str) -> bool {
        let rest = self.load.strip_prefix(load);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(", "))
    }

    /// The disciplines that no other discipline beats.
    fn front(&self) -> Vec<&str> {
        let beaten = |a: &Both| self.points.iter().any(|b| b.beats(a));
        let front = self.points.iter().filter(|point| !beaten(point));
        front.map(|point| point.discipline.as_str()).collect()
    }

    /// The picture as a section of the page; the index of a discipline in `disciplines` is the number of its colour.
    pub(super) fn html(&self, disciplines: &[String]) -> String {
        let front = self.front();
        let of = match self.load.as_str() {
            "" => "all loads together".to_owned(),
            load => load.to_owned(),
        };
        let named = match front.get(NAMES_MAX..) {
            None | Some([]) => front.join(", "),
            Some(more) => format!("{} and {} more", front[..NAMES_MAX].join(", "), more.len()),
        };
        let message = format!("Delay and rate, {of}: no discipline beats {named}");
        let ends = |summary: &Summary| {
            let half = summary.ci95.unwrap_or(0.0);
            [summary.mean - half, summary.mean, summary.mean + half]
        };
        let point = |both: &Both| Point {
            name: marked(both.discipline.clone(), both.disturbed),
            colour: disciplines
                .iter()
                .position(|name| *name == both.discipline)
                .unwrap_or(0),
            x: ends(&both.delay),
            y: ends(&both.rate),
            is_strong: front.contains(&both.discipline.as_str()),
        };
        let scatter = Scatter {
            x: self.delay.to_owned(),
            y: self.rate.to_owned(),
            points: self.points.iter().map(point).collect(),
        };
        let note = "<p>Means and their 95 % intervals. A discipline beats another if one of its two figures is better \
                    beyond both intervals, and the other figure is better or within the other's interval. Filled \
                    marks: disciplines that no other beats.</p>";
        section(&message, &(scatter.html() + note))
    }
}

/// Maximum number of disciplines in a heading.
const NAMES_MAX: usize = 6;
/// Minimum of a ratio, so that a single rate of zero does not decide alone.
const LEAST: f64 = 0.001;

impl Both {
    /// Whether it is better in one figure, beyond both intervals; and better in the other, or within the other's
    /// interval. Its own interval does not count there: otherwise a discipline with a great variance would beat all
    /// others.
    fn beats(&self, other: &Self) -> bool {
        let half = |summary: &Summary| summary.ci95.unwrap_or(0.0);
        // Differences of a thousandth do not count, also between runs without an interval.
        let is_less =
            |a: &Summary, b: &Summary, room: f64| a.mean + room < b.mean - 0.001 * b.mean.abs();
        let both = half(&self.delay) + half(&other.delay);
        let shorter = is_less(&self.delay, &other.delay, both);
        let longer = is_less(&other.delay, &self.delay, half(&other.delay));
        let both = half(&self.rate) + half(&other.rate);
        let faster = is_less(&other.rate, &self.rate, both);
        let slower = is_less(&self.rate, &other.rate, half(&other.rate));
        (shorter && !slower) || (faster && !longer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load with runs of (delay, rate) for each row.
    fn load(name: &str, rows: &[(&str, &[(f64, f64)])]) -> Load {
        let run = |(delay, rate): &(f64, f64)| {
            let metrics = [
                ("queue_delay_ms_p99.bottleneck", *delay),
                ("tcp_goodput_mbps", *rate),
            ];
            metrics.map(|(name, value)| (name.to_owned(), value)).into()
        };
        let row = |(name, runs): &(&str, &[(f64, f64)])| {
            ((*name).to_owned(), runs.iter().map(run).collect())
        };
        Load {
            name: name.into(),
            title: String::new(),
            about: String::new(),
            note: String::new(),
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn whom_nobody_beats() {
        let load = load(
            "x",
            &[
                ("fast", &[(100.0, 50.0)]),
                ("short", &[(5.0, 40.0)]),
                ("worse", &[(120.0, 45.0)]),
                ("level", &[(5.001, 40.0)]),
            ],
        );
        let picture = Tradeoff::of(&load).unwrap();
        assert_eq!(picture.front(), ["fast", "short", "level"]);
        let html = picture.html(&["fast".to_owned(), "short".to_owned()]);
        assert!(html.contains("line1\"></span>short<"), "{html}");
        assert!(
            html.contains("Delay and rate, x: no discipline beats fast, short, level"),
            "{html}"
        );
        assert!(html.contains("p99 queue delay"), "{html}");
        // The intervals of two runs with 10 and 20 are wide.
        let wide: &[(f64, f64)] = &[(10.0, 40.0), (20.0, 40.0)];
        let load = super::tests::load("x", &[("a", wide), ("b", &[(30.0, 40.0), (31.0, 40.0)])]);
        assert_eq!(Tradeoff::of(&load).unwrap().front(), ["a", "b"]);
        // A wide interval does not help to beat a faster discipline.
        let varies: &[(f64, f64)] = &[(5.0, 10.0), (5.0, 70.0)];
        let load = super::tests::load("x", &[("a", varies), ("b", &[(30.0, 50.0), (30.0, 50.0)])]);
        assert_eq!(Tradeoff::of(&load).unwrap().front(), ["a", "b"]);
    }

    #[test]
    fn all_loads_count_by_their_ratios_to_the_best() {
        let one = load("one", &[("a", &[(10.0, 8.0)]), ("b", &[(20.0, 10.0)])]);
        let two = load("two", &[("a", &[(300.0, 1.0)]), ("b", &[(150.0, 4.0)])]);
        let all = Tradeoff::of_all(&[one.clone(), two]).unwrap();
        let means: Vec<[f64; 2]> = all
            .points
            .iter()
            .map(|p| [p.delay.mean, p.rate.mean])
            .collect();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        // a: 1 and 2 times the shortest delay, 0.8 and 0.25 of the best rate; b: 2 and 1, 1 and 1.
        assert!(
            near(means[0][0], 2_f64.sqrt()) && near(means[0][1], 0.2_f64.sqrt()),
            "{means:?}"
        );
        assert!(
            near(means[1][0], 2_f64.sqrt()) && near(means[1][1], 1.0),
            "{means:?}"
        );
        assert_eq!(all.front(), ["b"]);
        assert_eq!(Tradeoff::of_all(&[one]), None);
    }
}

//! From batches to points to runs, and back: every point that several results need is run once.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::judge::Samples;
use super::recipe::{At, Batch};
use crate::error::Error;
use crate::measure::goodput_curve;
use crate::namespaces;
use crate::results::{OneRun, PointResult};
use crate::run::{Habitat, RunOptions};
use crate::scenario::{Kind, Override, Plan, Point, Scenario, Traffic, TrafficKind, plan::plan};
use crate::simulation;
use crate::statistics::mean;

/// Length and warm-up of a run in the lab: 30 s are counted.
const LAB: [&str; 2] = ["40 s", "10 s"];

/// What was measured, by batch.
#[derive(Debug, Default)]
pub struct Measured {
    batches: BTreeMap<&'static str, Vec<Known>>,
    /// Where.
    pub on: Habitat,
    /// What the habitat could not do or left out.
    pub notes: Vec<String>,
    /// Runs of all points.
    pub runs: u64,
}

/// A point that was run.
#[derive(Debug)]
struct Known {
    result: PointResult,
    scenario: Scenario,
}

/// From when to when, in seconds of a run.
pub(super) type Window = [f64; 2];

impl Measured {
    /// The values of a metric at a point, one for each seed; none if it was not measured.
    pub fn samples(&self, at: &At, metric: &str) -> Samples {
        self.of_runs(at, |run| run.metrics.get(metric).copied())
    }

    fn of_runs(&self, at: &At, number: impl Fn(&OneRun) -> Option<f64>) -> Samples {
        let Some(point) = self.point(at) else {
            return Samples::default();
        };
        let values: Option<Vec<f64>> = point.runs.iter().map(number).collect();
        Samples::new(values.unwrap_or_default())
    }

    /// A number that is made of the curves of these names in each run at a point, without its warm-up;
    /// none if a run does not give it.
    pub(super) fn of_curves(
        &self,
        at: &At,
        names: &[&str],
        number: impl Fn(&[&[f64]]) -> Option<f64>,
    ) -> Samples {
        let warm_up = self
            .known(at)
            .map_or(0.0, |known| known.scenario.window().0);
        self.of_runs(at, |run| {
            let curves: Option<Vec<&[f64]>> = names
                .iter()
                .map(|name| {
                    let curve = run.series.get(*name)?;
                    let skipped = (warm_up / curve.step_s).round() as usize;
                    curve.values.get(skipped..)
                })
                .collect();
            number(&curves?)
        })
    }

    /// What a function makes of a curve's values in a window; none if there is no such curve.
    pub(super) fn curve(
        &self,
        at: &At,
        name: &str,
        window: Window,
        of: impl Fn(&[f64]) -> Option<f64>,
    ) -> Samples {
        let runs = self.point(at).map(|point| &point.runs[..]);
        let values = runs.unwrap_or_default().iter().map(|run| {
            let curve = run.series.get(name)?;
            let [from, until] = window.map(|t| (t / curve.step_s).round() as usize);
            of(curve.values.get(from..until)?)
        });
        let values: Option<Vec<f64>> = values.collect();
        Samples::new(values.unwrap_or_default())
    }

    /// Delivered by offered in a window, of a traffic that offers a rate at all times: what its schedule
    /// says, not what a transport took of it.
    pub(super) fn delivered(&self, at: &At, traffic: &str, window: Window) -> Samples {
        let offered = self.traffic(at, traffic).and_then(|(scenario, found)| {
            let mbps = offered_mbps(scenario, found, window)?;
            Some((goodput_curve(scenario, found), mbps))
        });
        let Some((curve, offered)) = offered else {
            return Samples::default();
        };
        self.curve(at, &curve, window, mean)
            .map(|goodput| goodput / offered)
    }

    /// The curve of a traffic's goodput, and of which kind the traffic is.
    pub(super) fn goodput(&self, at: &At, traffic: &str) -> Option<(Kind, String)> {
        let (scenario, found) = self.traffic(at, traffic)?;
        Some((found.kind.kind(), goodput_curve(scenario, found)))
    }

    fn traffic(&self, at: &At, name: &str) -> Option<(&Scenario, &Traffic)> {
        let scenario = &self.known(at)?.scenario;
        let found = scenario.traffic.iter().find(|t| t.name == name)?;
        Some((scenario, found))
    }

    /// What of a point's runs is counted.
    pub(super) fn window(&self, at: &At) -> Option<Window> {
        let (from, until) = self.known(at)?.scenario.window();
        Some([from, until])
    }

    /// The runs of a point.
    pub(super) fn point(&self, at: &At) -> Option<&PointResult> {
        self.known(at).map(|known| &known.result)
    }

    fn known(&self, at: &At) -> Option<&Known> {
        let mut points = self.batches.get(at.batch)?.iter();
        points.find(|known| {
            let point = &known.result;
            point.variant.as_deref().unwrap_or_default() == at.variant
                && at.place.iter().all(|(key, value)| {
                    let found = point.set.iter().find(|(path, _)| is_key(path, key));
                    found.is_some_and(|(_, found)| shown(found) == *value)
                })
        })
    }
}

/// What all flows of a traffic offer in a window, on average; none if that depends on chance.
fn offered_mbps(scenario: &Scenario, traffic: &Traffic, [from, until]: Window) -> Option<f64> {
    let offered = match &traffic.kind {
        TrafficKind::Tcp {
            offered: Some(offered),
            activity: None,
            ..
        } => offered,
        TrafficKind::Udp {
            offered,
            activity: None,
            ..
        } => offered,
        _ => return None,
    };
    let begins = from.max(traffic.start.as_secs_f64());
    let ends = until.min(traffic.end(scenario.duration).as_secs_f64());
    let hosts = scenario.group(&traffic.from).map_or(1, |host| host.count);
    let flows = f64::from(traffic.kind.flows()) * f64::from(hosts);
    let bits = offered.bits_between(begins, ends) * flows;
    Some(bits / (until - from) / 1e6).filter(|mbps| *mbps > 0.0)
}

/// Whether a path ends in these words.
fn is_key(path: &str, key: &str) -> bool {
    let before = path.strip_suffix(key);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

fn shown(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    }
}

/// Runs all points of these batches, each once.
pub(super) fn measure(
    batches: &[&'static Batch],
    quick: bool,
    more: &[Override],
    options: &RunOptions,
) -> Result<Measured, Error> {
    let mut measured = Measured {
        on: options.on,
        ..Measured::default()
    };
    let mut wanted: Vec<(&'static str, Vec<(Point, usize)>)> = Vec::new();
    let mut points: Vec<Point> = Vec::new();
    for batch in batches {
        let own = self::points(batch, quick, more, options.on)?;
        let places = own.into_iter().map(|point| {
            let known = points.iter().position(|p| p.scenario == point.scenario);
            let place = known.unwrap_or_else(|| {
                points.push(point.clone());
                points.len() - 1
            });
            (point, place)
        });
        wanted.push((batch.name, places.collect()));
    }
    let ran = match options.on {
        Habitat::Sim => in_simulation(points, options)?,
        Habitat::Lab => in_the_lab(points, options, &mut measured.notes)?,
    };
    measured.runs = ran.iter().map(|point| point.runs.len() as u64).sum();
    for (name, places) in wanted {
        let of_batch = places.into_iter().map(|(point, place)| Known {
            result: PointResult {
                variant: point.variant,
                set: point.set,
                ..ran[place].clone()
            },
            scenario: point.scenario,
        });
        measured.batches.insert(name, of_batch.collect());
    }
    Ok(measured)
}

/// The points of a batch, without what does not change a run.
fn points(batch: &Batch, quick: bool, more: &[Override], on: Habitat) -> Result<Vec<Point>, Error> {
    let set = |path: &str, value: &str| Override {
        path: path.to_owned(),
        value: value.to_owned(),
    };
    let mut overrides: Vec<Override> = batch.set.iter().map(|(p, v)| set(p, v)).collect();
    let length = match (on, quick) {
        (_, true) => Some(batch.quick),
        (Habitat::Lab, false) => Some(LAB),
        (Habitat::Sim, false) => None,
    };
    if let Some([duration, warm_up]) = length {
        // The order matters to no check: both are read after all are set.
        overrides.push(set("duration", duration));
        overrides.push(set("warm_up", warm_up));
    }
    overrides.extend_from_slice(more);
    let only: Vec<String> = batch.only.iter().map(|&name| name.to_owned()).collect();
    let (_, points) = plan(batch.text, &overrides, &only).map_err(|e| e.in_file(batch.file))?;
    let plain = |point: Point| Point {
        scenario: Scenario {
            title: String::new(),
            about: String::new(),
            runs: 1,
            ..point.scenario
        },
        ..point
    };
    Ok(points.into_iter().map(plain).collect())
}

/// All points in one go, so that both processors are busy to the end.
fn in_simulation(points: Vec<Point>, options: &RunOptions) -> Result<Vec<PointResult>, Error> {
    // Those with much work first: the end is even then.
    let work = |place: &usize| {
        let scenario = &points[*place].scenario;
        simulation::work(scenario, scenario.duration)
    };
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|place| std::cmp::Reverse(work(place)));
    let sorted = order.iter().map(|place| points[*place].clone()).collect();
    let Some(plan) = plan_of(sorted) else {
        return Ok(Vec::new());
    };
    let ran = simulation::run(&plan, options)?;
    let mut placed: Vec<_> = order.into_iter().zip(ran.points).collect();
    placed.sort_by_key(|(place, _)| *place);
    Ok(placed.into_iter().map(|(_, point)| point).collect())
}

/// One point after another; what the lab cannot do is left out.
fn in_the_lab(
    points: Vec<Point>,
    options: &RunOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<PointResult>, Error> {
    let mut all = Vec::new();
    for point in points {
        let empty = PointResult {
            variant: None,
            set: Map::new(),
            runs: Vec::new(),
            summary: BTreeMap::new(),
        };
        let ran = plan_of(vec![point]).map(|plan| namespaces::run(&plan, options));
        all.push(match ran {
            Some(Ok(mut result)) => {
                notes.append(&mut result.notes);
                result.points.pop().unwrap_or(empty)
            }
            Some(Err(Error::Unsupported { why, .. })) => {
                notes.push(format!("left out: {why}"));
                empty
            }
            Some(Err(error)) => return Err(error),
            None => empty,
        });
    }
    notes.sort();
    notes.dedup();
    Ok(all)
}

fn plan_of(points: Vec<Point>) -> Option<Plan> {
    let base = points.first()?.scenario.clone();
    Some(Plan {
        file: "reproduce".to_owned(),
        base,
        points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_batch_can_be_run() {
        let recipes = crate::reproduce::select(&[]).unwrap();
        for batch in recipes.iter().flat_map(|recipe| recipe.batches) {
            for (on, quick) in [
                (Habitat::Sim, false),
                (Habitat::Sim, true),
                (Habitat::Lab, false),
            ] {
                let points = points(batch, quick, &[], on);
                let points = points.unwrap_or_else(|error| panic!("{}: {error}", batch.name));
                assert!(!points.is_empty(), "{}", batch.name);
                if on == Habitat::Sim && !quick {
                    let plan = plan_of(points).unwrap();
                    let checked = simulation::check(&plan, &RunOptions::default());
                    checked.unwrap_or_else(|error| panic!("{}: {error}", batch.name));
                }
            }
        }
    }

    #[test]
    fn a_name_stands_for_one_batch() {
        // Places name their batch, and a batch that several results share is run once.
        let recipes = crate::reproduce::select(&[]).unwrap();
        let batches = || recipes.iter().flat_map(|recipe| recipe.batches);
        for batch in batches() {
            let what = |b: &Batch| (b.file, b.set, b.only);
            let mut named = batches().filter(|other| other.name == batch.name);
            assert!(
                named.all(|other| what(other) == what(batch)),
                "{}",
                batch.name
            );
        }
    }

    #[test]
    fn a_key_is_the_end_of_a_path() {
        assert!(is_key("traffic.flood.flows", "flows"));
        assert!(is_key("traffic.flood.flows", "flood.flows"));
        assert!(is_key("flows", "flows"));
        assert!(!is_key("traffic.flood.overflows", "flows"));
    }
}

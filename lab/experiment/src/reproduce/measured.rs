//! From scenarios to points to runs, and back: a point that several results need runs only once.
//!
//! A paper with ambiguous places runs as read, and with its other readings. A claim requests points by name, and gets
//! those of the column in which it is decided. A name that does not exist is recorded, so that a misspelt name can
//! neither decide a claim nor leave it open.

mod machine;
pub(super) mod made_up;
mod running;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use weir_base::statistics::mean;

use super::Options;
use weir_config::ConfigError;

use super::samples::Samples;
use crate::cpu::OTHERS;
use crate::error::Error;
use crate::habitat::Habitat;
use crate::measure::goodput_curve;
use crate::options::RunOptions;
use crate::results::{OneRun, PointResult};
use crate::scenario::{self, Choices, Override, Point, Reading, Scenario, Traffic, TrafficKind};
pub(super) use machine::add_of_machine;
use machine::without_scenario;
use running::{in_simulation, in_the_lab};

/// The name of a measured point: the scenario, the variant, and values of the sweep under the last word of their
/// path.
#[derive(Clone, Debug)]
pub struct At {
    pub(super) scenario: String,
    pub(super) variant: String,
    /// Values of the sweep, as text.
    pub(super) place: Vec<(&'static str, String)>,
}

/// The measurements, by scenario.
#[derive(Debug, Default)]
pub struct Measured {
    scenarios: BTreeMap<&'static str, Vec<Measurement>>,
    /// The measurements with other readings.
    columns: Vec<(Reading, Self)>,
    /// Requested names that do not exist, as text.
    unknown: RefCell<BTreeSet<String>>,
    /// Whether a load test or another measurement was requested that did not run.
    needs_load: Cell<bool>,
    /// Whether the values that are read now decide nothing.
    is_aside: Cell<bool>,
    /// The number of measured values read since the last [`Self::watch`].
    reads: Cell<usize>,
    /// The index of a measured value to multiply by a factor, and the factor.
    changed: Cell<Option<(usize, f64)>>,
    /// The maximum share of the processors that others used during a measurement of this machine; `None` without any.
    busy: Cell<Option<f64>>,
    /// Whether the runs are shorter and fewer than the verdicts need.
    pub is_preview: bool,
    /// The habitat.
    pub on: Habitat,
    /// Limits of the habitat, and features that it left out.
    pub notes: Vec<String>,
    /// Number of runs of all points of scenarios.
    pub runs: u64,
    /// Number of single tests of load tests.
    pub tests: u64,
    /// Number of other measurements.
    pub benches: u64,
}

/// A point that ran. Several points may share their runs.
#[derive(Debug)]
struct Measurement {
    variant: Option<String>,
    set: Map<String, Value>,
    result: Arc<PointResult>,
    /// The scenario; `None` for a load test or another measurement.
    scenario: Option<Scenario>,
}

/// Start and end, in seconds of a run.
pub type Window = [f64; 2];

/// A value multiplied by a factor. A factor does not change 0, so it is replaced by 1 first.
fn multiplied(value: f64, factor: f64) -> f64 {
    match value {
        0.0 => factor,
        _ => value * factor,
    }
}

impl Measured {
    /// The measurements with another reading, if any value differs.
    pub(super) fn column(&self, reading: Reading) -> Option<&Self> {
        let mut columns = self.columns.iter();
        let found = columns.find(|(known, _)| *known == reading);
        found.map(|(_, measured)| measured)
    }

    /// The points, metrics and curves that were requested since the last call but do not exist.
    pub(super) fn take_unknown(&self) -> Vec<String> {
        self.unknown.take().into_iter().collect()
    }

    /// Whether a load test was requested since the last call, but was not run.
    pub(super) fn take_needs_load(&self) -> bool {
        self.needs_load.take()
    }

    /// Starts to count the measured values that are read. The value at one index may be multiplied by a factor.
    pub(super) fn watch(&self, changed: Option<(usize, f64)>) {
        self.reads.set(0);
        self.busy.set(None);
        self.changed.set(changed);
    }

    /// Reads values that decide nothing, and so are not counted; `None` if they are measurements of the machine that
    /// did not run.
    pub(super) fn aside<'a, T>(&'a self, read: impl FnOnce(&'a Self) -> T) -> Option<T> {
        let needed = self.needs_load.take();
        self.is_aside.set(true);
        let read = read(self);
        self.is_aside.set(false);
        (!self.needs_load.replace(needed)).then_some(read)
    }

    /// The measurements with the values that the paper prints, if any value differs.
    pub(super) fn printed(&self) -> Option<&Self> {
        self.column(Reading::Printed)
    }

    /// The number of measured values read since [`Self::watch`].
    pub(super) fn reads(&self) -> usize {
        self.reads.get()
    }

    /// The maximum share of the processors that others used during the watched measurements; `None` if all are
    /// simulated.
    pub(super) fn busy(&self) -> Option<f64> {
        self.busy.get()
    }

    fn note_unknown(&self, what: String) {
        self.unknown.borrow_mut().insert(what);
    }

    /// The values of a metric at a point, one for each seed; empty if it was not measured.
    pub(super) fn samples(&self, at: &At, metric: &str) -> Samples {
        let samples = self.of_runs(at, |run| run.metrics.get(metric).copied());
        if !self.needs_load.get() && !self.has(|run| run.metrics.contains_key(metric)) {
            self.note_unknown(format!("unknown metric `{metric}`"));
        }
        if is_share(metric) {
            samples.into_shares()
        } else {
            samples
        }
    }

    /// Whether any run satisfies the condition.
    fn has(&self, what: impl Fn(&OneRun) -> bool) -> bool {
        let all = self.scenarios.values().flatten();
        let mut runs = all.flat_map(|one| &one.result.runs);
        runs.any(what)
    }

    fn of_runs(&self, at: &At, number: impl Fn(&OneRun) -> Option<f64>) -> Samples {
        let Some(point) = self.point(at) else {
            return Samples::default();
        };
        let values: Option<Vec<f64>> = point.runs.iter().map(number).collect();
        let Some(values) = values else {
            return Samples::default();
        };
        if self.is_aside.get() {
            return Samples::new(values);
        }
        let others = point.runs.iter().filter_map(|run| run.metrics.get(OTHERS));
        let busy = others.copied().chain(self.busy.get());
        self.busy.set(busy.reduce(f64::max));
        let place = self.reads.replace(self.reads.get() + 1);
        let changed = self.changed.get().filter(|(changed, _)| *changed == place);
        match changed {
            Some((_, factor)) => Samples::new(values).map(|value| multiplied(value, factor)),
            None => Samples::new(values),
        }
    }

    /// Records the name of a curve that no run has.
    pub(super) fn check_curve(&self, name: &str) {
        if !self.has(|run| run.series.contains_key(name)) {
            self.note_unknown(format!("unknown curve `{name}`"));
        }
    }

    /// A number computed from two curves in each run at a point, without the warm-up; empty if a run has no such
    /// number.
    pub(super) fn of_curves(
        &self,
        at: &At,
        names: [&str; 2],
        number: impl Fn([&[f64]; 2]) -> Option<f64>,
    ) -> Samples {
        names.iter().for_each(|name| self.check_curve(name));
        let warm_up = self.window(at).map_or(0.0, |[from, _]| from);
        self.of_runs(at, |run| {
            let [first, second] = names.map(|name| {
                let curve = run.series.get(name)?;
                let skipped = (warm_up / curve.step_s).round() as usize;
                curve.values.get(skipped..)
            });
            number([first?, second?])
        })
    }

    /// A function of a curve's values in a window; empty if there is no such curve.
    pub(super) fn curve(
        &self,
        at: &At,
        name: &str,
        window: Window,
        of: impl Fn(&[f64]) -> Option<f64>,
    ) -> Samples {
        self.check_curve(name);
        self.of_runs(at, |run| {
            let curve = run.series.get(name)?;
            let [from, until] = window.map(|t| (t / curve.step_s).round() as usize);
            of(curve.values.get(from..until)?)
        })
    }

    /// Delivered divided by offered load in a window, for all these flow groups together. They must offer a rate at all
    /// times: the rate of their schedule, not the part that a transport accepted.
    pub(super) fn delivered(&self, at: &At, traffics: &[&str], window: Window) -> Samples {
        let (mut offered, mut delivered) = (0.0, None::<Samples>);
        for traffic in traffics {
            let Some((scenario, found)) = self.traffic(at, traffic) else {
                return Samples::default();
            };
            let Some(mbps) = offered_mbps(scenario, found, window) else {
                self.note_unknown(format!(
                    "traffic `{traffic}` does not have an offered load at all times"
                ));
                return Samples::default();
            };
            offered += mbps;
            let goodput = self.curve(at, &goodput_curve(scenario, found), window, mean);
            delivered = Some(match delivered {
                None => goodput,
                Some(sum) => sum.with(&goodput, |a, b| a + b),
            });
        }
        let delivered = delivered.unwrap_or_default();
        delivered.map(|goodput| goodput / offered).into_shares()
    }

    fn traffic(&self, at: &At, name: &str) -> Option<(&Scenario, &Traffic)> {
        let scenario = self.measurement(at)?.scenario.as_ref()?;
        let found = scenario.traffic.iter().find(|t| t.name == name);
        if found.is_none() {
            self.note_unknown(format!("unknown traffic `{name}` in {at}"));
        }
        Some((scenario, found?))
    }

    /// The window of the metrics of a point.
    pub(super) fn window(&self, at: &At) -> Option<Window> {
        let (from, until) = self.measurement(at)?.scenario.as_ref()?.window();
        Some([from, until])
    }

    /// The runs of a point.
    pub(super) fn point(&self, at: &At) -> Option<&PointResult> {
        self.measurement(at).map(|one| &*one.result)
    }

    /// The only point that a place names.
    fn measurement(&self, at: &At) -> Option<&Measurement> {
        let points = self
            .scenarios
            .get(at.scenario.as_str())
            .map_or(&[][..], Vec::as_slice);
        let mut fitting = points
            .iter()
            .filter(|one| is_at(one.variant.as_deref(), &one.set, at));
        match (fitting.next(), fitting.count()) {
            (Some(one), 0) => return Some(one),
            (None, _) if points.is_empty() && machine::is_known(&at.scenario) => {
                self.needs_load.set(true);
            }
            (None, _) => self.note_unknown(format!("unknown point {at}")),
            (Some(_), more) => self.note_unknown(format!("{at} matches {} points", more + 1)),
        }
        None
    }
}

/// Whether a place names this point.
fn is_at(variant: Option<&str>, set: &Map<String, Value>, at: &At) -> bool {
    variant.unwrap_or_default() == at.variant
        && at.place.iter().all(|(key, value)| {
            let found = set.iter().find(|(path, _)| is_key(path, key));
            found.is_some_and(|(_, found)| is_shown_as(found, value))
        })
}

/// Whether a metric is a share; a difference below 0.01 between shares means nothing.
fn is_share(metric: &str) -> bool {
    let name = metric.split('.').next().unwrap_or(metric);
    let shares = ["share_ratio", "delivered_ratio", "utilisation_ratio"];
    shares.iter().any(|share| name.ends_with(share))
}

/// The mean rate that all flows of a group offer in a window; `None` if it is random.
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
    let flows = f64::from(traffic.kind.flows()) * scenario.pairs(traffic) as f64;
    let bits = offered.bits_between(begins, ends) * flows;
    Some(bits / (until - from) / 1e6).filter(|mbps| *mbps > 0.0)
}

/// Whether a path ends in these words.
fn is_key(path: &str, key: &str) -> bool {
    let before = path.strip_suffix(key);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Whether this is the value as text.
fn is_shown_as(value: &Value, text: &str) -> bool {
    match value.as_str() {
        Some(own) => own == text,
        None => text == value.to_string().as_str(),
    }
}

/// A scenario that the requested results need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The name of the built-in scenario.
    pub(super) scenario: &'static str,
    /// Whether verdicts in both columns depend on the scenario; otherwise it only runs as read.
    pub(super) decides: bool,
}

/// The points of a scenario, each with its index among all points to run.
type Places = Vec<(&'static str, Vec<(Point, usize)>)>;

/// Runs all points of these scenarios, each once.
pub(super) fn measure(
    wanted: &[Wanted],
    how: &Options,
    options: &RunOptions,
) -> Result<Measured, Error> {
    let mut points: Vec<Point> = Vec::new();
    let has = |wanted: &&Wanted, reading: Reading| {
        let columns = &super::paper_of(wanted.scenario).columns;
        reading == Reading::Calibrated || columns.iter().any(|(_, known)| *known == reading)
    };
    let mut place = |reading: Reading| -> Result<Places, Error> {
        let of_paper = wanted.iter().filter(|wanted| has(wanted, reading));
        let of_each = of_paper.map(|wanted| {
            let reading = if wanted.decides {
                reading
            } else {
                Reading::Calibrated
            };
            let own = self::points(wanted.scenario, reading, how, options.on)?;
            let places = own.into_iter().map(|point| {
                let same = points.iter().position(|p| p.scenario == point.scenario);
                let place = same.unwrap_or_else(|| {
                    points.push(point.clone());
                    points.len() - 1
                });
                (point, place)
            });
            Ok((wanted.scenario, places.collect()))
        });
        of_each.collect()
    };
    let read = place(Reading::Calibrated)?;
    let mut others: Vec<(Reading, Places)> = Vec::new();
    // The lab's time is real, so it only runs the papers as read.
    if options.on == Habitat::Sim {
        let columns = super::papers().iter().flat_map(|paper| paper.columns);
        for (_, reading) in columns {
            if others.iter().all(|(known, _)| known != reading) {
                others.push((*reading, place(*reading)?));
            }
        }
        let differs = |places: &Places| places.iter().any(|place| !read.contains(place));
        others.retain(|(_, places)| differs(places));
    }
    let mut notes = Vec::new();
    let ran = match options.on {
        Habitat::Sim => in_simulation(points, options, &mut notes)?,
        Habitat::Lab => in_the_lab(points, options, &mut notes)?,
    };
    let runs = ran.iter().map(|point| point.runs.len() as u64).sum();
    let ran: Vec<Arc<PointResult>> = ran.into_iter().map(Arc::new).collect();
    let measured = |places: Places| Measured {
        scenarios: places
            .into_iter()
            .map(|(name, places)| (name, measurements(places, &ran)))
            .collect(),
        on: options.on,
        is_preview: how.quick,
        ..Measured::default()
    };
    Ok(Measured {
        columns: others
            .into_iter()
            .map(|(reading, places)| (reading, measured(places)))
            .collect(),
        notes,
        runs,
        ..measured(read)
    })
}

fn measurements(places: Vec<(Point, usize)>, ran: &[Arc<PointResult>]) -> Vec<Measurement> {
    let one = |(point, place): (Point, usize)| Measurement {
        variant: point.variant,
        set: point.set,
        result: ran[place].clone(),
        scenario: Some(point.scenario),
    };
    places.into_iter().map(one).collect()
}

/// The points of a scenario, without fields that do not affect a run.
fn points(
    name: &str,
    reading: Reading,
    how: &Options,
    on: Habitat,
) -> Result<Vec<Point>, ConfigError> {
    let set = |path: &str, value: &str| Override {
        path: path.to_owned(),
        value: value.to_owned(),
    };
    let mut overrides = Vec::new();
    if on == Habitat::Lab && !how.quick {
        let [duration, warm_up] = super::paper_of(name).lab;
        overrides = vec![set("duration", duration), set("warm_up", warm_up)];
    }
    overrides.extend_from_slice(&how.overrides);
    let choices = Choices {
        overrides: &overrides,
        reading,
        quick: how.quick,
        ..Choices::default()
    };
    let plain = |point: Point| Point {
        scenario: Scenario {
            title: String::new(),
            about: String::new(),
            runs: 1,
            ..point.scenario
        },
        ..point
    };
    let plan = scenario::load_built_in(name, choices)?;
    Ok(plan.points.into_iter().map(plain).collect())
}

#[cfg(test)]
mod tests {
    use super::running::plan_of;
    use super::*;
    use crate::simulation;

    #[test]
    fn shares_are_known_by_their_names() {
        assert!(is_share("tcp_share_ratio") && is_share("udp_delivered_ratio"));
        assert!(is_share("utilisation_ratio.uplink"));
        assert!(!is_share("loss_ratio.long") && !is_share("goodput_mbps.share_ratio"));
    }

    fn all_scenarios() -> Vec<Wanted> {
        crate::reproduce::wanted(&crate::reproduce::select(&[]).unwrap())
    }

    #[test]
    fn every_scenario_can_be_run() {
        for Wanted { scenario, .. } in all_scenarios() {
            for (on, quick, reading) in [
                (Habitat::Sim, false, Reading::Calibrated),
                (Habitat::Sim, false, Reading::Printed),
                (Habitat::Sim, true, Reading::Calibrated),
                (Habitat::Lab, false, Reading::Calibrated),
            ] {
                let how = Options {
                    quick,
                    ..Options::default()
                };
                let points = points(scenario, reading, &how, on).unwrap();
                assert!(!points.is_empty(), "{scenario}");
                if on == Habitat::Sim && !quick {
                    let plan = plan_of(points).unwrap();
                    let checked = simulation::check(&plan, &RunOptions::default());
                    checked.unwrap_or_else(|error| panic!("{scenario}: {error}"));
                }
            }
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

//! Load tests as a paper's file describes them.
//!
//! ```toml
//! [[load]]
//! name = "forces-flow-control/fig8"
//! measures = "loss"                   # loss | fes | rate | redirects | flood
//! forms = ["process", "one thread", "two threads"]
//! fes = [1]
//! bytes = [1024]
//! per_s = [100, 200, 300]             # events of each FE in a second ..
//! unit = true                         # .. of which one thread carries 400
//! work = "80 us"                      # of the CE for each event
//! duration = "2 s"
//! runs = 5
//! ```
//!
//! The points are all combinations; the variant of a point is its form, and its values are `fes`, `bytes` and `per_s`.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use weir_base::Span;

use crate::message::EVENT_BYTES_MIN;

/// Maximum number of FEs of a load test.
pub const FES_MAX: u32 = 1024;
/// Maximum length of an event, in bytes.
const EVENT_BYTES_MAX: u32 = 65_000;
/// Maximum number of events of a run: each needs a few bytes of memory.
const EVENTS_MAX: f64 = 20e6;
/// Maximum length of a run of a preview.
const PREVIEW_MAX: Span = Span::from_secs(5);
/// Maximum length of a run.
const DURATION_MAX: Span = Span::from_secs(60);

/// A load test with all its points.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The name by which quantities refer to it, in place of a scenario.
    pub name: String,
    /// The quantity to measure at each point.
    pub measures: Measures,
    /// The forms of the CETML.
    pub forms: Vec<Form>,
    /// Numbers of FEs.
    pub fes: Vec<u32>,
    /// Lengths of an event and of its answer, in bytes.
    pub bytes: Vec<u32>,
    /// Events per second of each FE.
    pub per_s: Vec<f64>,
    /// Whether `per_s` is relative to the rate at which one thread loses nothing: 400 is that rate.
    #[serde(default)]
    pub unit: bool,
    /// The CE's work for each event, half on its arrival and half before its answer: processor time in addition to the
    /// transport's own.
    #[serde(default, deserialize_with = "span")]
    pub work: Span,
    /// Time for which events are offered.
    #[serde(deserialize_with = "span")]
    pub duration: Span,
    /// Runs of each point.
    pub runs: u64,
}

/// The quantity to measure at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measures {
    /// Loss, delay and processor time at the offered rate.
    Loss,
    /// The maximum number of FEs served without loss, each at the offered rate; `fes` is the maximum to try.
    Fes,
    /// The rate of arriving redirected packets of 64 B, if FEs send as many as they can: singly, or joined into
    /// messages of up to `bytes` when several wait.
    Redirects,
    /// Associations under a flood of five FEs, whose events are 5 Mbit/s each; two of them redirect 5 Mbit/s, and three
    /// redirect `per_s` packets of 1000 B. Each FE's channel has the rate that equation 13 leaves to a busy FE.
    Flood,
    /// The maximum rate of each FE without loss; `per_s` is the maximum to try.
    Rate,
}

/// A form of the CE's side of the transport (CETML).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Form {
    /// One process for each FE.
    #[serde(rename = "process")]
    Process,
    /// One thread receives and sends for all FEs.
    #[serde(rename = "one thread")]
    OneThread,
    /// One thread receives for all FEs, and another thread sends.
    #[serde(rename = "two threads")]
    TwoThreads,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::OneThread => "one thread",
            Self::TwoThreads => "two threads",
        })
    }
}

/// One point of a load test.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The quantity to measure.
    pub measures: Measures,
    /// The form of the CETML.
    pub form: Form,
    /// Number of FEs.
    pub fes: u32,
    /// Length of an event and of its answer, in bytes.
    pub bytes: u32,
    /// Events per second of each FE, in the paper's unit if `unit` is set.
    pub per_s: f64,
    /// See [`Load::unit`].
    pub unit: bool,
    /// The CE's work for each event.
    pub work: Span,
    /// Time for which events are offered.
    pub duration: Span,
}

fn span<'de, D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(D::Error::custom)
}

impl Load {
    /// Refuses values that cannot be measured. The error is a sentence.
    pub fn check(&self) -> Result<(), String> {
        let wrong = |what: String| Err(format!("{}: {what}", self.name));
        if self.points().is_empty() || self.runs == 0 {
            return wrong("it must have at least one point and one run".to_owned());
        }
        if self.duration == Span::ZERO || self.duration > DURATION_MAX {
            return wrong(format!("`duration` must be from 1 ns to {DURATION_MAX}"));
        }
        for point in self.points() {
            if !(1..=FES_MAX).contains(&point.fes) {
                return wrong(format!("`fes` must be from 1 to {FES_MAX}"));
            }
            if !(EVENT_BYTES_MIN..=EVENT_BYTES_MAX).contains(&point.bytes) {
                let range = format!("{EVENT_BYTES_MIN} to {EVENT_BYTES_MAX}");
                return wrong(format!("`bytes` must be from {range}"));
            }
            let events = point.per_s * f64::from(point.fes) * self.duration.as_secs_f64();
            if !(point.per_s > 0.0 && events <= EVENTS_MAX) {
                return wrong(format!("a run must have 1 to {EVENTS_MAX} events"));
            }
        }
        Ok(())
    }

    /// All points.
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for &form in &self.forms {
            for &fes in &self.fes {
                for &bytes in &self.bytes {
                    points.extend(self.per_s.iter().map(|&per_s| Point {
                        measures: self.measures,
                        form,
                        fes,
                        bytes,
                        per_s,
                        unit: self.unit,
                        work: self.work,
                        duration: self.duration,
                    }));
                }
            }
        }
        points
    }
}

impl Point {
    /// Shortens the run of the point to a preview, which is not a result.
    pub fn preview(&mut self) {
        self.duration = Span::from_nanos(self.duration.as_nanos() / 2).min(PREVIEW_MAX);
    }

    /// The values that identify the point in addition to its form.
    pub fn place(&self) -> Map<String, Value> {
        let rate = match self.per_s.fract() {
            0.0 => Value::from(self.per_s as u64),
            _ => Value::from(self.per_s),
        };
        let fes = ("fes".to_owned(), Value::from(self.fes));
        let bytes = ("bytes".to_owned(), Value::from(self.bytes));
        Map::from_iter([fes, bytes, ("per_s".to_owned(), rate)])
    }
}

#[cfg(test)]
mod tests {
    use crate::*;

    const TEXT: &str = r#"
        name = "p/r"
        measures = "loss"
        forms = ["process", "two threads"]
        fes = [1, 4]
        bytes = [64]
        per_s = [100, 250.5]
        work = "80 us"
        duration = "2 s"
        runs = 3
    "#;

    #[test]
    fn points_are_all_combinations() {
        let load: Load = toml::from_str(TEXT).unwrap();
        load.check().unwrap();
        let points = load.points();
        assert_eq!(points.len(), 8);
        assert_eq!(points[7].form.to_string(), "two threads");
        assert_eq!(points[7].work, Span::from_micros(80));
        let place = serde_json::json!({ "fes": 4, "bytes": 64, "per_s": 250.5 });
        assert_eq!(Value::from(points[7].place()), place);
        assert_eq!(points[0].place()["per_s"], 100);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        let error = |old: &str, new: &str| {
            assert!(TEXT.contains(old), "{old}");
            let load: Load = toml::from_str(&TEXT.replace(old, new)).unwrap();
            load.check().unwrap_err()
        };
        assert_eq!(
            error("[1, 4]", "[1, 0]"),
            "p/r: `fes` must be from 1 to 1024"
        );
        assert_eq!(
            error("[64]", "[63]"),
            "p/r: `bytes` must be from 64 to 65000"
        );
        assert_eq!(
            error("[64]", "[]"),
            "p/r: it must have at least one point and one run"
        );
        assert_eq!(
            error("runs = 3", "runs = 0"),
            "p/r: it must have at least one point and one run"
        );
        let error = error("250.5", "1e9");
        assert!(error.contains("must have 1 to"), "{error}");
        assert!(toml::from_str::<Load>(&TEXT.replace("two threads", "three threads")).is_err());
    }
}

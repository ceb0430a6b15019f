//! Load tests of the transports between control and forwarding elements. The points of a test are all combinations of
//! its values; the variant of a point is its form, and its values are `fes`, `bytes` and `per_s`.

use std::fmt;

use serde_json::{Map, Value};
use weir_base::Span;

/// Maximum number of FEs of a load test.
pub const FES_MAX: u32 = 1024;
/// Maximum length of a run of a preview.
const PREVIEW_MAX: Span = Span::from_secs(5);

/// A load test with all its points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The name by which points refer to it, in place of a scenario.
    pub name: &'static str,
    /// The quantity to measure at each point.
    pub measures: Measures,
    /// The forms of the CETML.
    pub forms: &'static [Form],
    /// Numbers of FEs.
    pub fes: &'static [u32],
    /// Lengths of an event and of its answer, in bytes.
    pub bytes: &'static [u32],
    /// Events per second of each FE.
    pub per_s: &'static [f64],
    /// Whether `per_s` is relative to the rate at which one thread loses nothing: 400 is that rate.
    pub unit: bool,
    /// The CE's work for each event, half on its arrival and half before its answer: processor time in addition to the
    /// transport's own.
    pub work: Span,
    /// Time for which events are offered.
    pub duration: Span,
    /// Runs of each point.
    pub runs: u64,
}

/// The quantity to measure at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// One process for each FE.
    Process,
    /// One thread receives and sends for all FEs.
    OneThread,
    /// One thread receives for all FEs, and another thread sends.
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
#[derive(Clone, Copy, Debug, PartialEq)]
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

impl Load {
    /// All points.
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for &form in self.forms {
            for &fes in self.fes {
                for &bytes in self.bytes {
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
    use super::*;

    #[test]
    fn points_are_all_combinations() {
        let load = Load {
            name: "p/r",
            measures: Measures::Loss,
            forms: &[Form::Process, Form::TwoThreads],
            fes: &[1, 4],
            bytes: &[64],
            per_s: &[100.0, 250.5],
            unit: false,
            work: Span::from_micros(80),
            duration: Span::from_secs(2),
            runs: 3,
        };
        let points = load.points();
        assert_eq!(points.len(), 8);
        assert_eq!(points[7].form.to_string(), "two threads");
        assert_eq!(points[7].work, Span::from_micros(80));
        let place = serde_json::json!({ "fes": 4, "bytes": 64, "per_s": 250.5 });
        assert_eq!(Value::from(points[7].place()), place);
        assert_eq!(points[0].place()["per_s"], 100);
    }
}

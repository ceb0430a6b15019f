//! Measurements that are neither scenarios nor load tests: a computation, or code whose execution is timed. Points refer
//! to them by their names in the paper, as to scenarios.

use std::fmt::Debug;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value};

use super::Options;
use crate::cpu::undisturbed;
use crate::error::Error;
use crate::options::RunOptions;
use crate::progress::Progress;
use crate::results::Metrics;

/// A measurement.
pub trait Bench: Debug + Sync {
    /// All points.
    fn points(&self) -> Vec<Point>;

    /// Whether the measurement needs real packets in network namespaces.
    fn needs_lab(&self) -> bool;

    /// Runs all points; returns the metrics of each run of each point.
    fn run(
        &self,
        how: &Options,
        options: &RunOptions,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Vec<Metrics>>, Error>;
}

/// A point: its variant, and the values that identify it.
pub type Point = (&'static str, Map<String, Value>);

/// Measures each point of a measurement once in each run. The runs of a point are spread over the whole time, so that a
/// disturbance of the machine does not affect only one point.
pub fn in_turns(
    bench: &dyn Bench,
    options: &RunOptions,
    mut measure: impl FnMut(usize) -> Result<Metrics, Error>,
) -> Result<Vec<Vec<Metrics>>, Error> {
    let runs = options.runs.unwrap_or(1);
    let mut progress = Progress::new(options.progress);
    let mut all = vec![Vec::new(); bench.points().len()];
    let count = all.len();
    for run in 1..=runs {
        for (place, of_point) in all.iter_mut().enumerate() {
            if options.interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let at = format!("point {} of {count}", place + 1);
            progress.update(&format!("{bench:?}: {at}, run {run} of {runs}"));
            of_point.push(undisturbed(|| measure(place))?);
        }
    }
    Ok(all)
}

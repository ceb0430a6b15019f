//! Measurements of the machine that runs them: load tests, and code and computations in memory. They have points like
//! scenarios, and run only on request.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Measured, Measurement};
use crate::cpu::undisturbed;
use crate::error::Error;
use crate::habitat::Habitat;
use crate::load::{Load, Point};
use crate::options::RunOptions;
use crate::programs::Programs;
use crate::progress::Progress;
use crate::reproduce::bench::{self, Bench};
use crate::reproduce::{Options, papers};
use crate::results::{Metrics, OneRun, PointResult};
use crate::transports::LoadTests;

/// The load test of this name.
pub(super) fn load(name: &str) -> Option<&'static Load> {
    let mut loads = papers().iter().flat_map(|paper| paper.loads);
    loads.find(|load| load.name == name)
}

/// The measurement of this name that is neither a scenario nor a load test.
pub(super) fn bench(name: &str) -> Option<&'static dyn Bench> {
    let mut benches = papers().iter().flat_map(|paper| paper.benches);
    let found = benches.find(|(known, _)| *known == name);
    found.map(|(_, measures)| *measures)
}

/// Whether this is the name of a measurement of the machine.
pub(super) fn is_known(name: &str) -> bool {
    load(name).is_some() || bench(name).is_some()
}

/// Runs these load tests and other measurements of the machine, and adds their points.
pub(in crate::reproduce) fn add_of_machine(
    measured: &mut Measured,
    [loads, benches]: [BTreeSet<&'static str>; 2],
    how: &Options,
    options: &RunOptions,
) -> Result<(), Error> {
    if let Some(transports) = options.transports {
        let programs = Programs::new(options.executable.as_deref())?;
        let interrupt = Arc::clone(&options.interrupt);
        let mut tests = transports.load_tests(programs.own().to_owned(), interrupt);
        let mut progress = Progress::new(options.progress);
        for load in loads.into_iter().filter_map(load) {
            let points = run_load(load, tests.as_mut(), how.quick, &mut progress)?;
            let points = without_scenario(points);
            measured.scenarios.insert(load.name, points);
        }
        measured.tests += tests.tests();
    }
    for name in benches {
        if let Some(measures) = bench(name) {
            if measures.needs_lab() && options.on != Habitat::Lab {
                let note = format!("{name} requires real interfaces; use --on lab");
                measured.notes.push(note);
                continue;
            }
            let runs = measures.run(how, options, &mut measured.notes)?;
            let points = measures.points().into_iter().zip(runs);
            let points = points.map(|(point, runs)| result(point, runs)).collect();
            measured.benches += 1;
            measured.scenarios.insert(name, without_scenario(points));
        }
    }
    Ok(())
}

/// Runs all points of a load, one after another. The runs of a point are spread over the whole time, so that a
/// disturbance of the machine does not affect only one point. A preview has one run of each point.
fn run_load(
    load: &Load,
    tests: &mut dyn LoadTests,
    is_quick: bool,
    progress: &mut Progress,
) -> Result<Vec<PointResult>, Error> {
    let mut points = load.points();
    if is_quick {
        points.iter_mut().for_each(Point::preview);
    }
    let empty = |point: &Point| PointResult {
        variant: Some(point.form.to_string()),
        set: point.place(),
        ..PointResult::default()
    };
    let mut results: Vec<PointResult> = points.iter().map(empty).collect();
    let runs = if is_quick { 1 } else { load.runs };
    for seed in 1..=runs {
        for (place, (point, result)) in points.iter().zip(&mut results).enumerate() {
            let at = format!("{} of {}, run {seed} of {runs}", place + 1, points.len());
            progress.update(&format!("{}: point {at}", load.name));
            let metrics = undisturbed(|| tests.measure(point))?;
            result.runs.push(OneRun {
                seed,
                metrics,
                ..OneRun::default()
            });
        }
    }
    progress.clear();
    Ok(results)
}

fn result((variant, set): bench::Point, runs: Vec<Metrics>) -> PointResult {
    let run = |(n, metrics): (usize, Metrics)| OneRun {
        seed: n as u64 + 1,
        metrics,
        ..OneRun::default()
    };
    PointResult {
        variant: Some(variant.to_owned()),
        set,
        runs: runs.into_iter().enumerate().map(run).collect(),
        ..PointResult::default()
    }
}

/// Points that no scenario describes.
pub(super) fn without_scenario(points: Vec<PointResult>) -> Vec<Measurement> {
    let measurement = |point: PointResult| Measurement {
        variant: point.variant.clone(),
        set: point.set.clone(),
        result: Arc::new(point),
        scenario: None,
    };
    points.into_iter().map(measurement).collect()
}

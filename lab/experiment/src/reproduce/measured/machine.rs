//! Measurements of the machine that runs them: load tests, and code and computations in memory. They have points like
//! scenarios, and run only on request.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_forces_load::plan::Load;

use super::{Measured, Measurement};
use crate::error::Error;
use crate::load::Runner;
use crate::options::{Habitat, RunOptions};
use crate::reproduce::bench::Measures;
use crate::reproduce::{Options, papers};
use crate::results::PointResult;

/// The load test of this name.
pub(super) fn load(name: &str) -> Option<&'static Load> {
    let mut loads = papers().iter().flat_map(|paper| paper.loads);
    loads.find(|load| load.name == name)
}

/// The measurement of this name that is neither a scenario nor a load test.
pub(super) fn bench(name: &str) -> Option<Measures> {
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
    let mut runner = Runner::new(options)?;
    for name in loads {
        if let Some(load) = load(name) {
            let points = runner.run(load, how.quick)?;
            measured.scenarios.insert(name, without_scenario(points));
        }
    }
    measured.tests += runner.tests();
    for name in benches {
        if let Some(measures) = bench(name) {
            if measures.needs_lab() && options.on != Habitat::Lab {
                let note = format!("{name} requires real interfaces; use --on lab");
                measured.notes.push(note);
                continue;
            }
            let points = measures.run(how, options, &mut measured.notes)?;
            measured.benches += 1;
            measured.scenarios.insert(name, without_scenario(points));
        }
    }
    Ok(())
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

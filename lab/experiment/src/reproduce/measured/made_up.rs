//! Made-up measurements: every point of the scenarios and other measurements that a result names, with a
//! value for each known metric and curve.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Measured, Measurement, machine, points, without_scenario};
use crate::habitat::Habitat;
use crate::reproduce::Options;
use crate::results::{Curve, OneRun, PointResult};
use crate::scenario::Reading;

/// Makes measurements of scenarios, as read and as printed, and of load tests and other measurements of the machine.
pub(in crate::reproduce) fn made_up(
    names: &[&'static str],
    [loads, benches]: [&[&'static str]; 2],
    metrics: &BTreeSet<String>,
    curves: &BTreeSet<String>,
) -> Measured {
    let result = |variant: Option<String>, set: Map<String, Value>| PointResult {
        variant,
        set,
        runs: vec![run(metrics, curves)],
        ..PointResult::default()
    };
    let of = |reading| {
        let scenarios = names.iter().map(|&name| {
            let points = points(name, reading, &Options::default(), Habitat::Sim);
            let one = |point: crate::scenario::Point| Measurement {
                result: Arc::new(result(point.variant.clone(), point.set.clone())),
                variant: point.variant,
                set: point.set,
                scenario: Some(point.scenario),
            };
            (name, points.into_iter().flatten().map(one).collect())
        });
        Measured {
            scenarios: scenarios.collect(),
            ..Measured::default()
        }
    };
    let mut measured = of(Reading::Calibrated);
    measured.columns = vec![(Reading::Printed, of(Reading::Printed))];
    for name in loads {
        let points = machine::load(name).map(|load| load.points());
        let points = points.into_iter().flatten();
        let points = points.map(|point| result(Some(point.form.to_string()), point.place()));
        measured
            .scenarios
            .insert(name, without_scenario(points.collect()));
    }
    for name in benches {
        let points = machine::bench(name).map(|bench| bench.points());
        let points = points.into_iter().flatten();
        let points = points.map(|(variant, set)| result(Some(variant.to_owned()), set));
        measured
            .scenarios
            .insert(name, without_scenario(points.collect()));
    }
    measured
}

fn run(metrics: &BTreeSet<String>, curves: &BTreeSet<String>) -> OneRun {
    let values = metrics.iter().zip(1..);
    let curve = Curve {
        step_s: 1.0,
        values: vec![1.0; 1000],
    };
    OneRun {
        seed: 1,
        metrics: values
            .map(|(name, n)| (name.clone(), f64::from(n)))
            .collect(),
        series: curves
            .iter()
            .map(|name| (name.clone(), curve.clone()))
            .collect(),
        distributions: BTreeMap::new(),
        routers: Map::new(),
        flows: Vec::new(),
        notes: Vec::new(),
        captures: Vec::new(),
    }
}

//! Runs points of scenarios, in simulation or in the lab.

use std::collections::BTreeMap;

use serde_json::Map;

use crate::error::Error;
use crate::namespaces;
use crate::options::RunOptions;
use crate::results::PointResult;
use crate::scenario::{Plan, Point};
use crate::simulation;

/// Runs all points at once, so that all processors stay busy to the end.
pub(super) fn in_simulation(
    points: Vec<Point>,
    options: &RunOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<PointResult>, Error> {
    // Long runs first, so that the processors finish at about the same time.
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
    let mut ran = simulation::run(&plan, options)?;
    notes.append(&mut ran.notes);
    let mut placed: Vec<_> = order.into_iter().zip(ran.points).collect();
    placed.sort_by_key(|(place, _)| *place);
    Ok(placed.into_iter().map(|(_, point)| point).collect())
}

/// Runs one point after another; leaves out points that the lab cannot run.
pub(super) fn in_the_lab(
    points: Vec<Point>,
    options: &RunOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<PointResult>, Error> {
    let mut all = Vec::new();
    for point in points {
        let empty = PointResult {
            variant: None,
            set: Map::new(),
            sweep: Map::new(),
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

pub(super) fn plan_of(points: Vec<Point>) -> Option<Plan> {
    let base = points.first()?.scenario.clone();
    Some(Plan {
        file: "reproduce".to_owned(),
        base,
        points,
    })
}

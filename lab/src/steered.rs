//! What controllers said of themselves in a run, as metrics and curves: the same in both habitats.

use std::collections::BTreeMap;

use crate::results::Curve;
use crate::scenario::Scenario;
use crate::statistics::mean;

/// What a controller's gauges were after each sample, by name.
pub(crate) type Gauges = BTreeMap<&'static str, Vec<f64>>;

/// Adds the gauges of each controller: their means after the warm-up, what they were at the end,
/// and their curves.
pub(crate) fn add(
    scenario: &Scenario,
    all: &[Gauges],
    metrics: &mut BTreeMap<String, f64>,
    curves: &mut BTreeMap<String, Curve>,
) {
    for (controller, gauges) in scenario.controllers.iter().zip(all) {
        let skipped = scenario
            .warm_up
            .as_nanos()
            .div_ceil(controller.period.as_nanos());
        for (gauge, values) in gauges {
            let name = format!("controller.{}.{gauge}", controller.name);
            if let Some(mean) = mean(values.get(skipped as usize..).unwrap_or_default()) {
                metrics.insert(format!("{name}.mean"), mean);
            }
            if let Some(last) = values.last() {
                metrics.insert(name.clone(), *last);
            }
            let curve = Curve {
                step_s: controller.period.as_secs_f64(),
                values: values.clone(),
            };
            curves.insert(name, curve);
        }
    }
}

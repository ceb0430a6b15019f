//! What controllers said of themselves in a run, as metrics and curves: the same in both habitats.

use std::collections::BTreeMap;

use weir_base::Span;
use weir_controller::Controller;

use crate::results::Curve;
use crate::scenario::Scenario;
use crate::statistics::mean;

/// What a controller's gauges were after each sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauges {
    /// How far the samples are apart, which on the lab may be more than the scenario says.
    period: Span,
    values: BTreeMap<&'static str, Vec<f64>>,
}

impl Gauges {
    /// Of a controller that is asked so often.
    pub(crate) fn new(period: Span) -> Self {
        Self {
            period,
            values: BTreeMap::new(),
        }
    }

    /// Adds what the controller says after a sample.
    pub(crate) fn note(&mut self, controller: &dyn Controller) {
        controller.inspect(&mut |name, value| {
            self.values.entry(name).or_default().push(value);
        });
    }
}

/// Adds the gauges of each controller: their means after the warm-up, what they were at the end,
/// and their curves.
pub(crate) fn add(
    scenario: &Scenario,
    all: &[Gauges],
    metrics: &mut BTreeMap<String, f64>,
    curves: &mut BTreeMap<String, Curve>,
) {
    for (controller, gauges) in scenario.controllers.iter().zip(all) {
        for (gauge, values) in &gauges.values {
            let skipped = scenario
                .warm_up
                .as_nanos()
                .div_ceil(gauges.period.as_nanos());
            let name = format!("controller.{}.{gauge}", controller.name);
            if let Some(mean) = mean(values.get(skipped as usize..).unwrap_or_default()) {
                metrics.insert(format!("{name}.mean"), mean);
            }
            if let Some(last) = values.last() {
                metrics.insert(name.clone(), *last);
            }
            let curve = Curve {
                step_s: gauges.period.as_secs_f64(),
                values: values.clone(),
            };
            curves.insert(name, curve);
        }
    }
}

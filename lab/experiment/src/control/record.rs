//! The record of a controller's work in a run: its gauges after each round, as metrics and curves, and
//! errors.

use std::collections::BTreeMap;
use std::fmt::Display;

use weir_base::Span;
use weir_base::statistics::mean;
use weir_controller::runner::Event;

use super::Channel;
use crate::metrics::Measured;
use crate::results::Curve;
use crate::scenario::Scenario;

/// The record of a controller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Interval of the rounds; in the lab it may be longer than in the scenario.
    period: Span,
    /// The gauges after each round.
    gauges: BTreeMap<&'static str, Vec<f64>>,
    /// The first request that was refused.
    refused: Option<String>,
    /// The first error that a control element has reported.
    troubled: Option<String>,
    /// Number of requests without an answer, and the error of the first.
    unanswered: u64,
    first_unanswered: Option<String>,
}

impl Record {
    /// The record of a controller with a round every `period`.
    pub(crate) fn new(period: Span) -> Self {
        Self {
            period,
            ..Self::default()
        }
    }

    /// Reads the channel's events.
    pub(crate) fn take_events(&mut self, channel: &mut Channel) {
        while let Some(event) = channel.poll_event() {
            match event {
                Event::Sampled => channel.inspect(&mut |name, value| self.take_gauge(name, value)),
                Event::Refused { element, why } => {
                    self.refused.get_or_insert(format!("{element}: {why}"));
                }
                Event::Unanswered { element, why } => self.unanswered(&element, why),
            }
        }
    }

    /// Records the value of a gauge after a round.
    pub(crate) fn take_gauge(&mut self, name: &'static str, value: f64) {
        self.gauges.entry(name).or_default().push(value);
    }

    /// Records that a request to an element was not answered.
    pub(crate) fn unanswered(&mut self, element: &str, why: impl Display) {
        self.unanswered += 1;
        self.first_unanswered
            .get_or_insert(format!("{element}: {why}"));
    }

    /// Records an error that the control element reports.
    pub(crate) fn troubled(&mut self, why: &str) {
        self.troubled.get_or_insert(why.to_owned());
    }

    /// The errors, as sentences.
    pub(crate) fn trouble(&self) -> Vec<String> {
        let refused = self
            .refused
            .iter()
            .map(|why| format!("refused request: {why}"));
        let unanswered = self.first_unanswered.iter().map(|first| {
            let requests = self.unanswered;
            format!("{requests} unanswered requests, first: {first}")
        });
        let troubled = self
            .troubled
            .iter()
            .map(|why| format!("the control element reports an error: {why}"));
        refused.chain(unanswered).chain(troubled).collect()
    }
}

crate::metrics! {
    GAUGE on both;
    /// Adds the value of a gauge.
    fn add_gauge(value: Option<f64>) {
        /// a gauge of the controller: its value at the end; with .mean its mean over the window
        "controller.CONTROLLER.GAUGE" = value;
    }
}

/// Adds the gauges of each controller: their means after the warm-up, their final values, and their curves.
pub(crate) fn add(
    scenario: &Scenario,
    all: &[Record],
    measured: &mut Measured,
    curves: &mut BTreeMap<String, Curve>,
) {
    for (controller, record) in scenario.controllers.iter().zip(all) {
        let skipped = scenario.warm_up.steps(record.period);
        for (gauge, values) in &record.gauges {
            let mean = mean(values.get(skipped..).unwrap_or_default());
            let gauge_mean = format!("{gauge}.mean");
            add_gauge(mean, &[&controller.name, &gauge_mean], measured);
            add_gauge(values.last().copied(), &[&controller.name, gauge], measured);
            let curve = Curve {
                step_s: record.period.as_secs_f64(),
                values: values.clone(),
            };
            curves.insert(format!("controller.{}.{gauge}", controller.name), curve);
        }
    }
}

//! Shapers that find their rate, in virtual time: an actor that sends the probes and paces the port.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use weir_autorate::{Autorate, Params, Probe, Sample};
use weir_base::{Instant, Rate};
use weir_path::round_trips::RoundTrip;
use weir_sim::{Actor, Fabric, PortId, ProberId};

use super::cake_autorate::CakeAutorate;
use crate::results::Curve;
use crate::scenario::{Auto, Scenario};

/// The rates of a shaper, each with its start time, which can be read after the run.
pub(super) type SharedCourse = Arc<Mutex<Vec<(Instant, Rate)>>>;

enum Law {
    Ours(Box<Autorate>),
    Cake(Box<CakeAutorate>),
}

/// Calls the same function of either algorithm.
macro_rules! either {
    ($law:expr, $call:ident($($argument:expr),*)) => {
        match &mut $law {
            Law::Ours(law) => law.$call($($argument),*),
            Law::Cake(law) => law.$call($($argument),*),
        }
    };
}

/// A shaper that finds its rate.
pub(super) struct ShaperActor {
    law: Law,
    port: PortId,
    reflectors: Vec<ProberId>,
    by_traffic: bool,
    record: SharedCourse,
}

impl ShaperActor {
    /// The shaper of a port with these reflectors.
    pub(super) fn new(auto: &Auto, port: PortId, reflectors: Vec<ProberId>) -> Self {
        let params = Params {
            least: auto.least,
            base: auto.base,
            most: auto.most,
            threshold: auto.threshold,
            interval: auto.interval,
            reflectors: reflectors.len(),
        };
        Self {
            law: if auto.is_cake {
                Law::Cake(Box::new(CakeAutorate::new(params)))
            } else {
                Law::Ours(Box::new(Autorate::new(params, Instant::ZERO, 0)))
            },
            port,
            reflectors,
            by_traffic: auto.by_traffic,
            record: Arc::new(Mutex::new(vec![(Instant::ZERO, auto.base)])),
        }
    }

    /// The shaper's record.
    pub(super) fn record(&self) -> SharedCourse {
        Arc::clone(&self.record)
    }
}

impl Actor for ShaperActor {
    fn act(&mut self, fabric: &mut Fabric) -> Option<Instant> {
        let now = fabric.now();
        for (reflector, prober) in self.reflectors.iter().enumerate() {
            for echo in fabric.echoes(*prober) {
                let number = echo.number;
                either!(
                    self.law,
                    handle_answer(echo.at, Probe { reflector, number })
                );
            }
        }
        if let (true, Law::Ours(law)) = (self.by_traffic, &mut self.law) {
            for RoundTrip {
                peer,
                at,
                sent,
                took,
            } in fabric.round_trips(self.port)
            {
                let sample = Sample {
                    peer,
                    at,
                    sent,
                    round_trip: took,
                };
                law.handle_sample(at + took, &sample);
            }
        }
        let port = fabric.port(self.port);
        let (before, sent) = (port.link().rate, port.on_wire());
        either!(self.law, handle_timeout(now, sent));
        while let Some(probe) = either!(self.law, poll_probe()) {
            fabric.probe(self.reflectors[probe.reflector], probe.number);
        }
        let rate = either!(self.law, rate());
        if before != Some(rate) {
            fabric.pace(self.port, rate);
            let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
            record.push((now, rate));
        }
        Some(either!(self.law, poll_timeout()))
    }
}

/// Adds the curve `shaper_rate_mbps` of each shaper: the mean rate over each step.
pub(super) fn add_curves(
    scenario: &Scenario,
    shapers: &[(String, SharedCourse)],
    curves: &mut BTreeMap<String, Curve>,
) {
    let step = scenario.sample;
    let steps = (scenario.duration.as_nanos() / step.as_nanos()).max(1);
    for (name, record) in shapers {
        let record = record.lock().unwrap_or_else(PoisonError::into_inner);
        let mut values = vec![0.0; steps as usize];
        let end = Instant::ZERO + scenario.duration;
        let ends = record.iter().skip(1).map(|(at, _)| *at).chain([end]);
        for ((from, rate), until) in record.iter().zip(ends) {
            let mut from = *from;
            while from < until {
                let place = from.as_nanos() / step.as_nanos();
                let next = until.min(Instant::ZERO + step.times(place + 1));
                if let Some(value) = values.get_mut(place as usize) {
                    let part = next.since(from).as_secs_f64() / step.as_secs_f64();
                    *value += rate.as_bps() as f64 / 1e6 * part;
                }
                from = next;
            }
        }
        let step_s = step.as_secs_f64();
        curves.insert(format!("shaper_rate_mbps.{name}"), Curve { step_s, values });
    }
}

#[cfg(test)]
mod tests {
    use super::super::run;
    use crate::options::RunOptions;
    use crate::scenario::plan::{Choices, load_built_in};

    /// Means over three runs of a variant: p99 of the call's delay in ms, and the link's utilisation.
    fn measured(scenario: &str, variant: &str) -> [f64; 2] {
        let variants = [variant.to_owned()];
        let choices = Choices {
            variants: &variants,
            ..Choices::default()
        };
        let plan = load_built_in(scenario, choices).unwrap();
        let options = RunOptions {
            runs: Some(3),
            ..RunOptions::default()
        };
        let runs = run(&plan, &options).unwrap().points.remove(0).runs;
        ["delay_ms_p99.voice", "utilisation_ratio.wan"]
            .map(|metric| runs.iter().map(|run| run.metrics[metric]).sum::<f64>() / 3.0)
    }

    #[test]
    fn a_shaper_that_finds_the_rate_is_nearly_as_good_as_one_that_knows_it() {
        for (scenario, longer, of_known) in [
            ("varying/shaper-step", 1.2, 0.9),
            ("varying/shaper-sawtooth", 1.2, 0.9),
            ("varying/shaper-trace", 1.2, 0.75),
        ] {
            let [known, auto] = ["known", "auto"].map(|variant| measured(scenario, variant));
            assert!(
                auto[0] < longer * known[0],
                "{scenario}: {auto:?} {known:?}"
            );
            assert!(
                auto[1] > of_known * known[1],
                "{scenario}: {auto:?} {known:?}"
            );
        }
    }

    #[test]
    fn its_own_traffic_tells_a_port_about_the_link_if_less_well() {
        for (variant, longer, of_known) in [("both", 1.2, 0.9), ("traffic", 1.35, 0.8)] {
            let [known, auto] =
                ["known", variant].map(|variant| measured("varying/shaper-step", variant));
            assert!(auto[0] < longer * known[0], "{variant}: {auto:?} {known:?}");
            assert!(
                auto[1] > of_known * known[1],
                "{variant}: {auto:?} {known:?}"
            );
        }
    }

    #[test]
    fn the_model_of_cake_autorate_follows_the_link_more_slowly() {
        let [auto, cake] =
            ["auto", "cake_autorate"].map(|variant| measured("varying/shaper-sawtooth", variant));
        assert!(
            cake[0] > 5.0 * auto[0] && cake[1] < auto[1],
            "{cake:?} {auto:?}"
        );
        assert!(cake[1] > 0.8, "it does find a rate: {cake:?}");
    }
}

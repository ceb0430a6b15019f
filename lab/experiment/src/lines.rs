//! The rates and delays of links over time: as curves next to the measured ones, and as the changes that a lab applies.
//! They follow from the scenario alone, so they are the same in every run.

use std::collections::BTreeMap;

use weir_base::varying::BIT;
use weir_base::{Instant, Rate, Span, Varying};

use crate::results::Curve;
use crate::scenario::Scenario;

/// Adds a curve for each direction of a link whose rate or delay changes: `link_rate_mbps` with the mean over each
/// step, and `link_delay_ms` with the value at its start. They are named like the curves of queues.
pub(crate) fn add_curves(scenario: &Scenario, curves: &mut BTreeMap<String, Curve>) {
    let step = scenario.sample;
    let steps = (scenario.duration.as_nanos() / step.as_nanos()).max(1);
    let starts = || (0..steps).map(|n| Instant::ZERO + step.times(n));
    let mut add = |name: String, values: Vec<f64>| {
        let step_s = step.as_secs_f64();
        curves.insert(name, Curve { step_s, values });
    };
    for link in &scenario.links {
        for (direction, suffix) in link.directions.iter().zip(["", ".reverse"]) {
            let name = &link.name;
            if let Some(rate) = direction.rate.as_ref().filter(|r| !r.is_constant()) {
                let mean = |from: Instant| mean_mbps(rate, from, from + step);
                let name = format!("link_rate_mbps.{name}{suffix}");
                add(name, starts().map(mean).collect());
            }
            if !direction.delay.is_constant() {
                let delay = |at: Instant| 1e3 * direction.delay.at(at).as_secs_f64();
                let name = format!("link_delay_ms.{name}{suffix}");
                add(name, starts().map(delay).collect());
            }
        }
    }
}

/// The rate to set at `now`, and the end of its validity, if the rate can be set only at intervals of `step`: where
/// `rate` changes faster, its mean over the step.
pub(crate) fn settled(rate: &Varying<Rate>, now: Instant, step: Span) -> (Rate, Instant) {
    let (value, until) = rate.piece(now);
    if until >= now + step {
        (value, until)
    } else {
        let bits = rate.work(now, now + step) / u128::from(step.as_nanos());
        (Rate::from_bps(bits as u64), now + step)
    }
}

/// The mean of a rate in Mbit/s.
pub(crate) fn mean_mbps(rate: &Varying<Rate>, from: Instant, until: Instant) -> f64 {
    let bits = rate.work(from, until) as f64 / BIT as f64;
    bits / until.since(from).as_secs_f64() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::plan::plan;

    #[test]
    fn fast_changes_are_averaged_and_slow_ones_are_exact() {
        let at = |ms: u64| Instant::ZERO + Span::from_millis(ms);
        let rate: Varying<Rate> = "8 Mbit, 2 Mbit from 50 ms, 4 Mbit from 150 ms"
            .parse()
            .unwrap();
        let settled = |now| {
            let (rate, until) = settled(&rate, now, Span::from_millis(100));
            (rate.as_bps() / 1_000_000, until)
        };
        assert_eq!(settled(at(0)), (5, at(100)));
        assert_eq!(settled(at(100)), (3, at(200)));
        assert_eq!(settled(at(200)), (4, Instant::FAR_FUTURE));
    }

    #[test]
    fn directions_that_change_have_curves() {
        let text = r#"
title = "t"
duration = "3 s"
sample = "1 s"
[router.r]
[host.a]
[link.wan]
ends = ["a", "r"]
rate = "8 Mbit, 4 Mbit from 1.5 s, outage from 2 s"
reverse_rate = "2 Mbit"
reverse_delay = "10 ms, 30 ms from 1 s"
"#;
        let (scenario, _) = plan(text, &[], &[]).unwrap();
        let mut curves = BTreeMap::new();
        add_curves(&scenario, &mut curves);
        let names: Vec<&String> = curves.keys().collect();
        assert_eq!(names, ["link_delay_ms.wan.reverse", "link_rate_mbps.wan"]);
        assert_eq!(curves["link_rate_mbps.wan"].values, [8.0, 6.0, 0.0]);
        let delays = &curves["link_delay_ms.wan.reverse"].values;
        assert_eq!(delays[..], [10.0, 30.0, 30.0]);
    }
}

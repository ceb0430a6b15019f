//! The effect of an attack on honest traffic: before, during and after it.
//!
//! The attack is the traffic with `hog = true`, from the first of its starts to the last of its stops; all other
//! traffic is honest. Without honest traffic before the attack nothing can be compared.

use std::collections::BTreeMap;

use crate::reported::{Reported, mbps};
use crate::scenario::{Scenario, Traffic};

/// Honest traffic has recovered when it has this share of its goodput before the attack.
const RECOVERED: f64 = 0.9;
/// Resolution of the recovery time, in seconds: several round trips of a recovering TCP.
const STEP_S: f64 = 0.1;
/// Number of steps that are averaged, so that a single burst does not count as recovery.
const STEPS: usize = 5;

/// Adds the metrics of an attack, if the scenario has an attack that begins after the warm-up.
pub(crate) fn measure(
    scenario: &Scenario,
    reported: &[Reported],
    metrics: &mut BTreeMap<String, f64>,
) {
    let (from, until) = scenario.window();
    let attackers = || scenario.traffic.iter().filter(|traffic| traffic.hog);
    let begins = attackers().map(|t| t.start.as_secs_f64());
    // An attack whose stop lies after the end of the run ends with the run.
    let ends = attackers().map(|t| t.end(scenario.duration).as_secs_f64().min(until));
    let (Some(begin), Some(end)) = (begins.reduce(f64::min), ends.reduce(f64::max)) else {
        return;
    };
    if begin <= from {
        return;
    }
    let all = scenario.traffic.iter().zip(reported);
    let honest: Vec<(&Traffic, &Reported)> = all.filter(|(traffic, _)| !traffic.hog).collect();
    let rate = |from: f64, until: f64| {
        let bytes = honest.iter().map(|(_, r)| r.bytes_between(from, until));
        mbps(bytes.sum(), until - from)
    };
    let before = rate(from, begin);
    if before <= 0.0 {
        return;
    }
    metrics.insert("honest_before_mbps".into(), before);
    metrics.insert("honest_kept_ratio".into(), rate(begin, end) / before);
    for (traffic, reported) in &honest {
        let of = |from, until| mbps(reported.bytes_between(from, until), until - from);
        if of(from, begin) > 0.0 {
            let kept = of(begin, end) / of(from, begin);
            metrics.insert(format!("kept_ratio.{}", traffic.name), kept);
        }
    }
    if until - end < 2.0 * STEP_S * STEPS as f64 {
        return;
    }
    metrics.insert("honest_regained_ratio".into(), rate(end, until) / before);
    let steps = ((until - end) / STEP_S) as usize;
    let is_back = |step: &usize| {
        let from = end + *step as f64 * STEP_S;
        rate(from, from + STEPS as f64 * STEP_S) >= RECOVERED * before
    };
    let back = (0..=steps - STEPS).find(is_back);
    let recovery = back.map_or(until - end, |step| step as f64 * STEP_S);
    metrics.insert("recovery_s".into(), recovery);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported::Series;
    use crate::scenario::plan::plan;

    /// Bytes by tenths of a second.
    fn reported(bytes: impl Fn(usize) -> u64) -> Reported {
        let series = Series {
            protocol: "x".into(),
            port: 1,
            interval_s: 0.1,
            bytes: (0..80).map(bytes).collect(),
        };
        Reported {
            series: vec![series],
            ..Reported::default()
        }
    }

    fn metrics(flood: &str) -> BTreeMap<String, f64> {
        let text = format!(
            r#"
title = "t"
duration = "8 s"
warm_up = "1 s"
[router.r]
[host.a]
[host.b]
[traffic.long]
kind = "tcp"
from = "a"
to = "b"
[traffic.flood]
kind = "udp"
from = "a"
to = "b"
rate = "1 Mbit"
{flood}
"#
        );
        let scenario = plan(&text, &[], &[]).unwrap().0;
        // 1 Mbit/s, a tenth of it from 3 to 5 s, and the full rate again 1.2 s later.
        let long = reported(|tenth| match tenth {
            0..30 => 12_500,
            30..50 => 1_250,
            50..62 => 0,
            _ => 12_500,
        });
        let mut metrics = BTreeMap::new();
        measure(&scenario, &[long, reported(|_| 99_999)], &mut metrics);
        metrics
    }

    #[test]
    fn by_hand() {
        let metrics = metrics("hog = true\nstart = \"3 s\"\nstop = \"5 s\"");
        let is = |name: &str, value: f64| {
            let got = metrics[name];
            assert!((got - value).abs() < 1e-9, "{name} is {got}, not {value}");
        };
        is("honest_before_mbps", 1.0);
        is("honest_kept_ratio", 0.1);
        is("kept_ratio.long", 0.1);
        is("honest_regained_ratio", 1.8 / 3.0);
        // The first half second with 0.9 of it begins at 1.2 s: all five of its tenths.
        is("recovery_s", 1.2);
    }

    #[test]
    fn an_attack_that_never_ends_has_no_recovery() {
        let of = metrics;
        let metrics = of("hog = true\nstart = \"3 s\"");
        assert!(metrics.contains_key("honest_kept_ratio"));
        assert!(!metrics.contains_key("recovery_s"));
        // An attack whose stop lies after the end of the run gives the same metrics.
        assert_eq!(of("hog = true\nstart = \"3 s\"\nstop = \"20 s\""), metrics);
    }

    #[test]
    fn without_a_time_before_it_there_is_nothing_to_compare() {
        assert!(metrics("hog = true").is_empty());
        assert!(metrics("start = \"3 s\"").is_empty());
    }
}

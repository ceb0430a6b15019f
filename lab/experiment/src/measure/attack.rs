//! The effect of an attack on honest traffic: before, during and after it.
//!
//! The attack is the traffic with `hog = true`, from the first of its starts to the last of its stops; all other
//! traffic is honest. Without honest traffic before the attack nothing can be compared.

use super::goodput::Reports;
use crate::metrics::Measured;
use crate::reported::{Reported, mbps};
use crate::scenario::Traffic;

/// Honest traffic has recovered when it has this share of its goodput before the attack.
const RECOVERED: f64 = 0.9;
/// Resolution of the recovery time, in seconds: several round trips of a recovering TCP.
const STEP_S: f64 = 0.1;
/// Number of steps that are averaged, so that a single burst does not count as recovery.
const STEPS: usize = 5;

/// An attack that begins after the warm-up, and the honest traffic.
#[derive(Debug)]
pub(crate) struct Attack<'a> {
    honest: Vec<(&'a Traffic, &'a Reported)>,
    /// The window.
    from: f64,
    until: f64,
    begin: f64,
    end: f64,
}

crate::metrics! {
    RUN on both;
    /// Adds the metrics of all honest traffic.
    fn add_all(attack: &Attack<'_>) {
        /// goodput of all traffic without `hog = true` from the warm-up to the first start of a hog
        "honest_before_mbps" = attack.before();
        /// goodput of the same traffic during the attack, divided by that before it
        "honest_kept_ratio" = attack.rate(attack.begin, attack.end) / attack.before();
        /// goodput of the same traffic after the attack, divided by that before it
        "honest_regained_ratio" = attack.regained();
        /// from the end of the attack to the first half second in which honest traffic reaches 90 % of its former
        /// goodput; the rest of the run if it never does
        "recovery_s" = attack.recovery_s();
    }
}

crate::metrics! {
    TRAFFIC on both;
    /// Adds the share that an honest flow group kept.
    fn add_traffic(attack: &Attack<'_>, reported: &Reported) {
        /// goodput during the attack divided by that before it, for one honest flow group
        "kept_ratio.TRAFFIC" = attack.kept(reported);
    }
}

/// Adds the metrics of an attack, if the scenario has an attack that begins after the warm-up.
pub(super) fn add_metrics(reports: Reports<'_>, measured: &mut Measured) {
    let Some(attack) = Attack::of(reports) else {
        return;
    };
    add_all(&attack, &[], measured);
    for (traffic, reported) in &attack.honest {
        add_traffic(&attack, reported, &[&traffic.name], measured);
    }
}

impl<'a> Attack<'a> {
    /// `None` without an attack, and without honest goodput before it.
    fn of(reports: Reports<'a>) -> Option<Self> {
        let scenario = reports.scenario;
        let (from, until) = scenario.window();
        let attackers = || scenario.traffic.iter().filter(|traffic| traffic.hog);
        let begins = attackers().map(|t| t.start.as_secs_f64());
        // An attack whose stop lies after the end of the run ends with the run.
        let ends = attackers().map(|t| t.end(scenario.duration).as_secs_f64().min(until));
        let attack = Self {
            honest: reports.groups().filter(|(t, _)| !t.hog).collect(),
            from,
            until,
            begin: begins.reduce(f64::min)?,
            end: ends.reduce(f64::max)?,
        };
        (attack.begin > from && attack.before() > 0.0).then_some(attack)
    }

    /// The goodput of honest traffic in Mbit/s.
    fn rate(&self, from: f64, until: f64) -> f64 {
        let bytes = self.honest.iter();
        let bytes = bytes.map(|(_, reported)| reported.bytes_between(from, until));
        mbps(bytes.sum(), until - from)
    }

    fn before(&self) -> f64 {
        self.rate(self.from, self.begin)
    }

    fn kept(&self, reported: &Reported) -> Option<f64> {
        let of = |from, until| mbps(reported.bytes_between(from, until), until - from);
        let before = of(self.from, self.begin);
        (before > 0.0).then(|| of(self.begin, self.end) / before)
    }

    /// The time after the attack, if it suffices for a recovery.
    fn left(&self) -> Option<f64> {
        let left = self.until - self.end;
        (left >= 2.0 * STEP_S * STEPS as f64).then_some(left)
    }

    fn regained(&self) -> Option<f64> {
        self.left()?;
        Some(self.rate(self.end, self.until) / self.before())
    }

    fn recovery_s(&self) -> Option<f64> {
        let left = self.left()?;
        let steps = (left / STEP_S) as usize;
        let before = self.before();
        let is_back = |step: &usize| {
            let from = self.end + *step as f64 * STEP_S;
            self.rate(from, from + STEPS as f64 * STEP_S) >= RECOVERED * before
        };
        let back = (0..=steps - STEPS).find(is_back);
        Some(back.map_or(left, |step| step as f64 * STEP_S))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::tests::{is, tenths};
    use crate::results::Metrics;
    use crate::scenario::plan::plan;

    /// Bytes by tenths of a second.
    fn reported(bytes: impl Fn(usize) -> u64) -> Reported {
        Reported {
            series: tenths((0..80).map(bytes)),
            ..Reported::default()
        }
    }

    fn metrics(flood: &str) -> Metrics {
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
        let reported = [long, reported(|_| 99_999)];
        let reports = Reports {
            scenario: &scenario,
            reported: &reported,
        };
        let mut measured = Measured::default();
        add_metrics(reports, &mut measured);
        measured.0
    }

    #[test]
    fn by_hand() {
        let metrics = metrics("hog = true\nstart = \"3 s\"\nstop = \"5 s\"");
        let is = |name: &str, value: f64| is(&metrics, name, value);
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

//! Domzal et al., "Efficient congestion control mechanism for flow-aware networks": claims that need their own
//! arithmetic.

use super::measured::Measured;
use super::recipe::{At, Checks};
use super::verdict::{Findings, Samples};

pub(super) const CHECKS: &Checks = &[
    ("fig7.2", alike_at_3_s),
    ("fig7.3", better_at_most_intervals),
    ("fig9.7", more_flows_less_goodput),
    ("text.1", alike_on_all),
    ("text.2", lets_in_all),
];

/// Acceptance delay of streams; a stream that is never accepted counts with its age at the end (R10).
const DELAY: &str = "acceptance_delay_s.stream";
/// Goodput of elastic flows since their acceptance, without flows that the clean-up of the same run removed (R29).
const GOODPUT: &str = "goodput_since_kept_mbps.elastic";
/// Elastic flows on the list after each run's clean-up or restoration (R30).
const AFTER_RUNS: &str = "run_after_flows.bottleneck.elastic";

/// A metric of a mechanism at an interval, at 100 Mbit/s.
fn of(m: &Measured, mechanism: &str, interval: u32, metric: &str) -> Samples {
    let variant = format!("{mechanism} {interval}");
    m.samples(&At::new("afan-eccm/mechanisms", variant), metric)
}

/// Whether two quantities are alike: within a tolerance, or with overlapping intervals. `None` if one was not measured.
fn alike(a: &Samples, b: &Samples, within: impl Fn(f64, f64) -> bool) -> Option<bool> {
    let (a, b) = (a.summary()?, b.summary()?);
    let reach = a.ci95.unwrap_or(0.0) + b.ci95.unwrap_or(0.0);
    Some(within(a.mean, b.mean) || (a.mean - b.mean).abs() <= reach)
}

fn alike_at_3_s(m: &Measured, f: &mut Findings) {
    let (a, b) = (of(m, "ramaf", 3, DELAY), of(m, "eccm", 3, DELAY));
    let what = format!("delay at 3 s, RAMAF {}, ECCM {}", a.shown(), b.shown());
    f.is_if_known(what, alike(&a, &b, |a, b| (a - b).abs() <= 1.0));
}

fn better_at_most_intervals(m: &Measured, f: &mut Findings) {
    let both = [9, 12, 15].map(|interval| {
        let [eccm, ramaf] = ["eccm", "ramaf"].map(|name| of(m, name, interval, DELAY));
        (format!("{interval} s"), eccm, ramaf)
    });
    f.mostly_less("delay, ECCM and RAMAF", &both, 2);
}

fn more_flows_less_goodput(m: &Measured, f: &mut Findings) {
    let points = ["ramaf", "eccm"].into_iter();
    let points = points.flat_map(|mechanism| [3, 6, 9, 12, 15].map(|i| (mechanism, i)));
    let means = points.map(|(mechanism, i)| {
        let mean = |metric| of(m, mechanism, i, metric).mean();
        Some((mean(AFTER_RUNS)?, mean(GOODPUT)?))
    });
    let rho = means.collect::<Option<Vec<_>>>().map(|means| {
        let (flows, goodput): (Vec<f64>, Vec<f64>) = means.into_iter().unzip();
        rank_correlation(&flows, &goodput)
    });
    let shown = rho.map_or("not measured".into(), |rho| format!("{rho:.2}"));
    let what = format!("rank correlation of flows and goodput {shown} (at most -0.70)");
    f.is_if_known(what, rho.map(|rho| rho <= -0.7));
}

fn alike_on_all(m: &Measured, f: &mut Findings) {
    for i in [3, 6] {
        for (what, metric) in [("delay, s", DELAY), ("goodput, Mbit/s", GOODPUT)] {
            let afan = of(m, "eccm", i, metric);
            for scheduler in ["pfq", "pdrr"] {
                let at = At::new("afan-eccm/text", format!("{scheduler} {i}"));
                let other = m.samples(&at, metric);
                let close = |a: f64, b: f64| (a / b - 1.0).abs() <= 0.25;
                let shown = (other.shown(), afan.shown());
                let text = format!("{what}, {i} s, {scheduler} {}, afan {}", shown.0, shown.1);
                f.is_if_known(text, alike(&other, &afan, close));
            }
        }
    }
}

fn lets_in_all(m: &Measured, f: &mut Findings) {
    for i in [3, 6] {
        // If no stream waits at any run of a seed, the metric does not exist.
        let let_in = of(m, "eccm", i, "run_let_in_ratio.bottleneck.stream");
        match let_in.mean() {
            Some(_) => {
                let what = format!("{i} s, share of waiting streams admitted");
                f.at_least(&what, &let_in, 0.99);
            }
            None => f.nothing(format!("{i} s: in some seeds no stream waited at a run")),
        }
    }
}

/// Spearman's coefficient: the correlation of ranks.
fn rank_correlation(a: &[f64], b: &[f64]) -> f64 {
    let ranks = |values: &[f64]| -> Vec<f64> {
        let below = |x: f64| values.iter().filter(|y| **y < x).count() as f64;
        let same = |x: f64| values.iter().filter(|y| **y == x).count() as f64;
        values
            .iter()
            .map(|x| below(*x) + (same(*x) - 1.0) / 2.0)
            .collect()
    };
    let (a, b) = (ranks(a), ranks(b));
    let middle = (a.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(x, y)| (x - middle) * (y - middle)).sum()
    };
    product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlation_by_hand() {
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[2.0, 3.0, 100.0]), 1.0);
        assert_eq!(rank_correlation(&[1.0, 5.0, 9.0], &[3.0, 2.0, 1.0]), -1.0);
        // Ranks 0 1 2 3 and 1 0 2 3: 1 - 6 * 2 / (4 * 15) = 0.8.
        let rho = rank_correlation(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 3.0, 4.0]);
        assert!((rho - 0.8).abs() < 1e-12);
    }
}

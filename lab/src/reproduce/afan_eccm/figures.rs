//! Figures 7, 8 and 9: acceptance delay, goodput and flows on the list, by mechanism and interval.

use super::basic::remark;
use super::{AFTER_RUNS, DELAY, GOODPUT, GOODPUT_OF_ALL, LISTED, alike, none, of, spread};
use crate::reproduce::figure::{Figure, Lines};
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::Code;

/// Intervals of RAMAF and ECCM.
const INTERVALS: [u32; 5] = [3, 6, 9, 12, 15];
/// Intervals of EFMP.
const EFMP: [u32; 4] = [1, 2, 3, 4];
pub(super) const CODE: Code = Code {
    checks: &[
        ("fig7.2", |m, f| {
            let (a, b) = (of(m, "ramaf", 3, DELAY), of(m, "eccm", 3, DELAY));
            let what = format!("delay at 3 s, RAMAF {}, ECCM {}", a.shown(), b.shown());
            f.is_if_known(what, alike(&a, &b, |a, b| (a - b).abs() <= 1.0));
        }),
        ("fig7.3", |m, f| {
            let both = [9, 12, 15].map(|interval| {
                let [eccm, ramaf] = ["eccm", "ramaf"].map(|name| of(m, name, interval, DELAY));
                (format!("{interval} s"), eccm, ramaf)
            });
            f.mostly_less("delay, ECCM and RAMAF", &both, 2);
            remark(m, f, DELAY);
        }),
        ("fig7.8", |m, f| {
            f.above("delay, EFMP 6 s", &of(m, "efmp", 6, DELAY), 11.0);
            let short = EFMP.map(|i| format!("{i} s {}", of(m, "efmp", i, DELAY).shown()));
            f.remark(format!("below: {}", short.join(", ")));
        }),
        ("fig7.10", |m, f| {
            for (mechanism, interval) in [
                ("ramaf", 3),
                ("ramaf", 6),
                ("eccm", 3),
                ("eccm", 6),
                ("eccm", 9),
            ] {
                bound(m, f, mechanism, interval, 11.0);
            }
            let all = EFMP.map(|i| ("efmp", i)).into_iter();
            let all = all.chain(INTERVALS.map(|i| ("ramaf", i)));
            let all = all.chain(INTERVALS.map(|i| ("eccm", i)));
            let met = all.filter(|(mechanism, interval)| {
                of(m, mechanism, *interval, DELAY)
                    .mean()
                    .is_some_and(|mean| mean <= 11.0)
            });
            let met: Vec<_> = met
                .map(|(mechanism, i)| format!("{mechanism} {i}"))
                .collect();
            f.remark(format!("means within 11 s: {}", met.join(", ")));
        }),
        ("fig8.1", |m, f| {
            for other in ["ramaf", "eccm"] {
                let what = format!("goodput at 3 s, EFMP and {other}");
                f.less(&what, &of(m, "efmp", 3, GOODPUT), &of(m, other, 3, GOODPUT));
            }
            f.remark(other_goodputs(m));
            remark(m, f, GOODPUT);
        }),
        ("fig8.2", |m, f| {
            let most = spread(INTERVALS.iter().map(|i| of(m, "eccm", *i, GOODPUT)));
            f.at_most("goodput of ECCM, greatest to least", &most, 1.10);
            remark(m, f, GOODPUT);
        }),
        ("fig8.3", |m, f| {
            f.rises("goodput, RAMAF", &steps(m, "ramaf", &INTERVALS, GOODPUT));
            let (short, long) = (of(m, "ramaf", 3, GOODPUT), of(m, "ramaf", 15, GOODPUT));
            let ratio = short.with(&long, |a, b| a / b);
            f.between("goodput at 3 s to that at 15 s", &ratio, [0.65, 0.98]);
        }),
        ("fig9.2", |m, f| {
            for i in EFMP {
                to_basic(m, f, ("efmp", i), 1.3);
            }
        }),
        ("fig9.4", |m, f| {
            let ratio = ratio(m, "ramaf", 3);
            f.between("flows on the list, RAMAF 3 s to basic", &ratio, [1.6, 2.4]);
            remark(m, f, LISTED);
        }),
        ("fig9.5", |m, f| {
            let most = spread(INTERVALS.iter().map(|i| of(m, "eccm", *i, AFTER_RUNS)));
            f.at_most("flows on the list of ECCM, greatest to least", &most, 1.15);
        }),
        ("fig9.6", |m, f| {
            for i in INTERVALS {
                to_basic(m, f, ("eccm", i), 1.25);
            }
            remark(m, f, LISTED);
        }),
        ("fig9.7", |m, f| {
            let points = ["ramaf", "eccm"].into_iter();
            let points = points.flat_map(|mechanism| INTERVALS.map(|i| (mechanism, i)));
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
        }),
        ("fig9.8", |m, f| {
            let share = |mechanism| {
                let sending = of(m, mechanism, 3, "sending_flows.bottleneck.elastic");
                sending.with(&of(m, mechanism, 3, LISTED), |sending, listed| {
                    sending / listed
                })
            };
            f.less(
                "flows that send in 10 s to flows on the list, ECCM and EFMP",
                &share("eccm"),
                &share("efmp"),
            );
        }),
    ],
    remarks: &[
        ("fig7.1", |m, f| remark(m, f, DELAY)),
        ("fig7.7", |m, f| remark(m, f, DELAY)),
        ("fig7.9", |m, f| remark(m, f, DELAY)),
        ("fig8.4", |m, f| remark(m, f, GOODPUT)),
        ("fig8.5", |m, f| {
            f.remark(format!("RAMAF 3 s {}", of(m, "ramaf", 3, GOODPUT).shown()));
        }),
        ("fig8.6", |m, f| remark(m, f, GOODPUT)),
    ],
    figures: &[
        (
            "fig7",
            &[Figure {
                title: "Acceptance delay of streams, s",
                x: "interval between two runs, s",
                draw: |m, lines| draw(m, lines, DELAY),
            }],
        ),
        (
            "fig8",
            &[Figure {
                title: "Goodput of an elastic flow since it was let in, Mbit/s",
                x: "interval between two runs, s",
                draw: |m, lines| draw(m, lines, GOODPUT),
            }],
        ),
        (
            "fig9",
            &[Figure {
                title: "Elastic flows on the list",
                x: "interval between two runs, s",
                draw: |m, lines| draw(m, lines, AFTER_RUNS),
            }],
        ),
    ],
};

fn draw(m: &Measured, lines: &mut Lines, metric: &str) {
    for (mechanism, intervals) in [
        ("efmp", &EFMP[..]),
        ("ramaf", &INTERVALS),
        ("eccm", &INTERVALS),
    ] {
        let point = |i: &u32| (f64::from(*i), of(m, mechanism, *i, metric));
        lines.swept(mechanism.to_uppercase(), intervals.iter().map(point));
    }
}

/// R29 read otherwise: over all flows ever let in, and what the link delivers by flows on the list.
fn other_goodputs(m: &Measured) -> String {
    let shown = ["efmp", "ramaf", "eccm"].map(|mechanism| {
        let listed = of(m, mechanism, 3, LISTED);
        let each = of(m, mechanism, 3, "tcp_goodput_mbps").with(&listed, |all, n| all / n);
        let all = of(m, mechanism, 3, GOODPUT_OF_ALL).shown();
        format!("{mechanism} {all} and {}", each.shown())
    });
    format!(
        "at 3 s over all flows ever let in, and goodput of the link by flows on the list: {}",
        shown.join(", ")
    )
}

fn steps(m: &Measured, mechanism: &str, all: &[u32], metric: &str) -> Vec<(String, Samples)> {
    let steps = all
        .iter()
        .map(|i| (format!("{i} s"), of(m, mechanism, *i, metric)));
    steps.collect()
}

fn bound(m: &Measured, f: &mut Findings, mechanism: &str, interval: u32, bound: f64) {
    let what = format!("delay, {mechanism} {interval} s");
    f.at_most(&what, &of(m, mechanism, interval, DELAY), bound);
}

fn ratio(m: &Measured, mechanism: &str, interval: u32) -> Samples {
    of(m, mechanism, interval, AFTER_RUNS).with(&none(m, LISTED), |a, b| a / b)
}

fn to_basic(m: &Measured, f: &mut Findings, (mechanism, interval): (&str, u32), most: f64) {
    let what = format!("flows on the list, {mechanism} {interval} s to basic");
    f.between(&what, &ratio(m, mechanism, interval), [1.0, most]);
}

/// Spearman's: the correlation of ranks.
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

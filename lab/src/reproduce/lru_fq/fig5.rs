//! Figure 5: floods held at a set share.

use super::{HUB, SHARE, readings, udp_share};
use crate::reproduce::figure::Figure;
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Code};

pub(super) const FIG5A_RUNS: &str = "lru-fq/fig5a";
/// Floods that pause: each sends in bursts of 0.2 s, and waits as long, on average.
const PAUSES_RUNS: &str = "lru-fq/fig5a-pauses";
const FIG5B_RUNS: &str = "lru-fq/fig5b";

pub(super) const CODE: Code = Code {
    checks: &[
        ("fig5a.1", met_down_to_30),
        ("fig5a.2", not_met_below),
        ("fig5a.3", more_floods),
        ("fig5a.4", pushed_out),
        ("fig5a.6", clearly_more),
        ("fig5b.1", every_rate),
        ("fig5b.2", lower_rates),
    ],
    remarks: &[("fig5a.5", by_hub)],
    figures: &[
        (
            "fig5a",
            &[Figure {
                title: "UDP's share of UDP and long TCP",
                x: "share set for the queue of hogs, %",
                draw: |m, lines| {
                    for floods in [2, 3, 4, 6] {
                        let share =
                            |percent| (f64::from(percent), udp_share(m, &at(percent, floods)));
                        let shares = (10..=90).step_by(10).map(share);
                        lines.swept(format!("{floods} floods"), shares);
                    }
                },
            }],
        ),
        (
            "fig5b",
            &[Figure {
                title: "UDP's share of UDP and long TCP, three floods",
                x: "rate of all floods together, Mbit/s",
                draw: |m, lines| {
                    for percent in (10..=50).step_by(10) {
                        let share = |rate| {
                            let excess = excess(m, percent, rate);
                            (
                                f64::from(rate),
                                excess.map(|e| e + f64::from(percent) / 100.0),
                            )
                        };
                        lines.swept(
                            format!("{percent} % set"),
                            (40..=100).step_by(10).map(share),
                        );
                    }
                },
            }],
        ),
    ],
};

pub(super) fn at(percent: u32, floods: u32) -> At {
    At::new(FIG5A_RUNS, format!("hit {percent}")).and("flows", floods)
}

fn fifo(floods: u32) -> At {
    At::new(FIG5A_RUNS, "fifo").and("flows", floods)
}

fn met_down_to_30(m: &Measured, f: &mut Findings) {
    for floods in [2, 3] {
        for percent in (30..=90).step_by(10) {
            let excess = udp_share(m, &at(percent, floods)).map(|s| s - f64::from(percent) / 100.0);
            let what = format!("{floods} floods at {percent} %, excess of UDP");
            match percent {
                30..=50 => f.between(&what, &excess, [-0.05, 0.05]),
                _ => f.at_most(&what, &excess, 0.05),
            }
        }
    }
}

fn not_met_below(m: &Measured, f: &mut Findings) {
    for floods in [2, 3] {
        let excess = |percent: u32| {
            udp_share(m, &at(percent, floods)).map(|s| s - f64::from(percent) / 100.0)
        };
        for percent in [10, 20] {
            let what = format!("{floods} floods at {percent} %, excess of UDP");
            f.above(&what, &excess(percent), 0.0);
        }
        let steps = [30, 20, 10].map(|percent| (format!("{percent} %"), excess(percent)));
        f.ascends(&format!("{floods} floods, excess of UDP"), &steps);
    }
}

fn more_floods(m: &Measured, f: &mut Findings) {
    for percent in [50, 30] {
        let share = |floods| udp_share(m, &at(percent, floods));
        f.not_more(
            &format!("at {percent} %, UDP share of 3 and 4 floods"),
            &share(3),
            &share(4),
        );
        f.less(
            &format!("at {percent} %, UDP share of 3 and 6 floods"),
            &share(3),
            &share(6),
        );
        let pausing = with_pauses(|at, _| udp_share(m, at), percent);
        f.remark(format!(
            "at {percent} % with floods that pause for 0.2 s at a time, UDP share: {pausing}"
        ));
    }
}

/// A quantity by the number of floods, where these pause, in words.
fn with_pauses(quantity: impl Fn(&At, u32) -> Samples, percent: u32) -> String {
    let shown = [2, 3, 4, 6].map(|floods| {
        let at = At::new(PAUSES_RUNS, format!("hit {percent}")).and("flows", floods);
        format!("{floods} floods {}", quantity(&at, floods).shown())
    });
    shown.join(", ")
}

/// Which share of their packets a router sends to the miss queue, on average: that share by which
/// floods of even rates are not known as hogs.
pub(super) fn missed(m: &Measured, at: &At, floods: u32) -> Samples {
    let known = m.samples(at, "hog_flows.bottleneck.flood");
    known.map(|hogs| 1.0 - hogs / f64::from(floods)).as_shares()
}

fn pushed_out(m: &Measured, f: &mut Findings) {
    let missed = |floods| missed(m, &at(50, floods), floods);
    f.less(
        "share of flood packets in the miss queue, 2 and 4 floods",
        &missed(2),
        &missed(4),
    );
    f.less(
        "share of flood packets in the miss queue, 4 and 6 floods",
        &missed(4),
        &missed(6),
    );
    for floods in [4, 6] {
        // A flood is never pushed out by a flood: all of them fit, so who is admitted is TCP.
        let evicted = m.samples(&at(50, floods), "gauge.bottleneck.evicted_hogs");
        let absent = m.samples(&at(50, floods), "known_flows.bottleneck.flood");
        let absent = absent.map(|known| f64::from(floods) - known);
        f.above(
            &format!("{floods} floods, how many are not in the cache at a time"),
            &absent,
            0.0,
        );
        f.remark(format!(
            "{floods} floods: {} hogs replaced in a run",
            evicted.shown()
        ));
    }
    let pausing = with_pauses(|at, floods| self::missed(m, at, floods), 50);
    f.remark(format!(
        "floods that pause for 0.2 s at a time, share not in the hit queue: {pausing}"
    ));
}

fn by_hub(m: &Measured, f: &mut Findings) {
    f.remark(readings(
        m,
        "by what the hub carries, in Mbit/s",
        "fifo",
        &HUB,
        SHARE,
    ));
}

fn clearly_more(m: &Measured, f: &mut Findings) {
    for floods in [2, 3, 4, 6] {
        let normal = m.samples(&fifo(floods), SHARE);
        for percent in (10..=80).step_by(10) {
            let ours = m.samples(&at(percent, floods), SHARE);
            let factor = if percent == 50 && floods <= 4 {
                4.0
            } else {
                1.5
            };
            f.times(
                &format!("{floods} floods at {percent} %"),
                &ours,
                &normal,
                factor,
            );
        }
    }
}

const RATES: [u32; 7] = [40, 50, 60, 70, 80, 90, 100];

fn excess(m: &Measured, percent: u32, rate: u32) -> Samples {
    let at = At::new(FIG5B_RUNS, format!("hit {percent}"));
    let at = at.and("total_rate", format!("{rate} Mbit"));
    udp_share(m, &at).map(|share| share - f64::from(percent) / 100.0)
}

fn every_rate(m: &Measured, f: &mut Findings) {
    for percent in [30, 40, 50] {
        for rate in RATES.into_iter().filter(|rate| *rate > percent) {
            let what = format!("{rate} Mbit/s at {percent} %, excess of UDP");
            f.at_most(&what, &excess(m, percent, rate), 0.05);
        }
    }
}

fn lower_rates(m: &Measured, f: &mut Findings) {
    for percent in [10, 20] {
        let steps = RATES.map(|rate| (format!("{rate} Mbit/s"), excess(m, percent, rate)));
        let what = format!("at {percent} %, excess of UDP");
        f.less(
            &format!("{what} at 40 and at 100 Mbit/s"),
            &steps[0].1,
            &steps[6].1,
        );
        f.rises(&what, &steps);
    }
}

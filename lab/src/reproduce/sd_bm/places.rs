//! Figures 1 and 8, and where packets are lost: what waits and what ends at which place.

use super::arithmetic::THRESHOLDS;
use super::{INGRESSES, LOAD_14, LOAD_18, LOAD_20, Load, READINGS, ingress_share, red, rs_red};
use crate::reproduce::figure::Figure;
use crate::reproduce::judge::{Findings, Samples, shown};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Code};
use crate::statistics::{mean, percentile};

pub(super) const CODE: Code = Code {
    checks: &[
        ("fig1.1", empty_at_the_top),
        ("fig8.1", near_the_threshold),
        ("fig8.2", follows_the_threshold),
        ("location.1", only_at_the_egress),
        ("location.2", at_the_ingress),
        ("location.3", can_be_set),
        ("location.4", relieved),
    ],
    remarks: &[],
    figures: &[
        (
            "fig1",
            &[Figure {
                title: "Packets waiting with RED",
                x: "time, s",
                draw: |m, lines| {
                    let at = red(&LOAD_20);
                    lines.over_time("edge router", m, (&at, "queue_packets.wan"), 1.0);
                    lines.over_time("ingress n4", m, (&at, "queue_packets.n4"), 1.0);
                },
            }],
        ),
        (
            "fig8",
            &[Figure {
                title: "Packets waiting at ingress n4",
                x: "time, s",
                draw: |m, lines| {
                    for l in [20, 30, 40] {
                        let at = rs_red(&LOAD_20, "RS-RED", l);
                        lines.over_time(format!("RS-RED {l}"), m, (&at, "queue_packets.n4"), 1.0);
                        let at = rs_red(&LOAD_20, "egress-driven", l);
                        lines.over_time(
                            format!("egress-driven {l}"),
                            m,
                            (&at, "queue_packets.n4"),
                            1.0,
                        );
                    }
                },
            }],
        ),
    ],
};

fn queue(name: &str) -> String {
    format!("queue_packets.{name}")
}

fn empty_at_the_top(m: &Measured, f: &mut Findings) {
    for name in INGRESSES {
        let (edge, ingress) = (queue("wan"), queue(name));
        let share = m.of_curves(&red(&LOAD_20), &[&edge, &ingress], |curves| {
            let top = 0.9 * curves[0].iter().copied().fold(0.0, f64::max);
            let both = curves[0].iter().zip(curves[1]);
            let at_top: Vec<f64> = both.filter(|(e, _)| **e >= top).map(|(_, i)| *i).collect();
            let empty = at_top.iter().filter(|waiting| **waiting <= 2.0).count();
            (!at_top.is_empty()).then(|| empty as f64 / at_top.len() as f64)
        });
        let what = format!("{name}, share of such samples with at most 2 packets");
        f.at_least(&what, &share, 0.95);
    }
}

/// What a function makes of an ingress queue's samples, while the average is above min_th, a quarter of all
/// places.
fn level(
    m: &Measured,
    (scheme, l): (&str, u32),
    name: &str,
    of: impl Fn(&[f64]) -> Option<f64>,
) -> Samples {
    let min = f64::from(100 + 4 * l) / 4.0;
    let curves = [queue(name), "controller.sdn.average".to_owned()];
    m.of_curves(
        &rs_red(&LOAD_20, scheme, l),
        &[&curves[0], &curves[1]],
        |curves| {
            let both = curves[0].iter().zip(curves[1]);
            let above: Vec<f64> = both.filter(|(_, a)| **a > min).map(|(q, _)| *q).collect();
            of(&above)
        },
    )
}

/// R31: the length that it does not exceed in 95 % of them.
fn peak(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    percentile(&sorted, 0.95)
}

/// The mean of all four.
fn all_levels(m: &Measured, of: (&str, u32), level_of: fn(&[f64]) -> Option<f64>) -> Samples {
    let each = INGRESSES.map(|name| level(m, of, name, level_of));
    let sum = each.into_iter().reduce(|a, b| a.with(&b, |a, b| a + b));
    sum.unwrap_or_default().map(|sum| sum / 4.0)
}

/// Means, which decide nothing, in words.
fn means(m: &Measured, scheme: &str) -> String {
    let each = [20, 30, 40].map(|l| {
        let mean = all_levels(m, (scheme, l), mean);
        format!("{l}: {}", mean.shown())
    });
    format!("{scheme}, means at {}", each.join(", "))
}

fn near_the_threshold(m: &Measured, f: &mut Findings) {
    for l in [20, 30, 40] {
        for name in INGRESSES {
            let bounds = [0.8 * f64::from(l), 1.2 * f64::from(l)];
            f.between(
                &format!("L = {l}, {name}, packets"),
                &level(m, ("RS-RED", l), name, peak),
                bounds,
            );
        }
    }
    f.remark(means(m, "RS-RED"));
    f.remark(means(m, "egress-driven"));
}

fn follows_the_threshold(m: &Measured, f: &mut Findings) {
    let steps = [20, 30, 40].map(|l| (format!("L = {l}"), all_levels(m, ("RS-RED", l), peak)));
    f.ascends("95th percentile of the ingress queues", &steps);
    f.remark(means(m, "RS-RED"));
}

fn only_at_the_egress(m: &Measured, f: &mut Findings) {
    for load in [&LOAD_14, &LOAD_18, &LOAD_20] {
        let at = red(load);
        let egress = m.samples(&at, "dropped_payload_packets.wan");
        let all = m.samples(&at, "lost_packets");
        let elsewhere = egress.with(&all, |here, all| 1.0 - here / all.max(1.0));
        f.at_most(
            &format!("{}, share lost elsewhere", load.name),
            &elsewhere,
            0.01,
        );
    }
}

fn at_the_ingress(m: &Measured, f: &mut Findings) {
    for load in [&LOAD_14, &LOAD_18, &LOAD_20] {
        for l in THRESHOLDS {
            let share = ingress_share(m, &rs_red(load, "RS-RED", l));
            let what = format!("{}, L = {l}, share lost at the ingresses", load.name);
            match l {
                50 => f.at_least(&what, &share, 0.5),
                _ => f.above(&what, &share, 0.0),
            }
        }
    }
    let set = |l| ingress_share(m, &rs_red(&LOAD_20, "egress-driven", l));
    f.remark(super::by_egress("that share", set));
}

fn can_be_set(m: &Measured, f: &mut Findings) {
    let readings = [
        "RS-RED 20, max_p 0.02",
        "RS-RED 20, max_p 0.5",
        "RS-RED 50, max_p 0.02",
        "RS-RED 50, max_p 0.5",
        "RS-RED 20, thresholds of 100",
        "RS-RED 50, thresholds of 100",
    ];
    let readings = readings.map(|name| (name.to_owned(), At::new(READINGS, name)));
    let levels = THRESHOLDS.map(|l| (format!("{l}"), rs_red(&LOAD_20, "RS-RED", l)));
    let shares = levels.into_iter().chain(readings);
    let shares = shares.map(|(name, at)| (name, ingress_share(m, &at).mean()));
    let shares: Vec<(String, Option<f64>)> = shares.collect();
    let known: Option<Vec<f64>> = shares.iter().map(|(_, share)| *share).collect();
    let spans = known.map(|all| {
        let greatest = all.iter().copied().fold(0.0, f64::max);
        greatest - all.iter().copied().fold(1.0, f64::min)
    });
    let each = shares.iter().map(|(name, share)| {
        let share = share.map_or_else(|| "not measured".to_owned(), shown);
        format!("{name}: {share}")
    });
    let each: Vec<String> = each.collect();
    f.is_if_known(
        format!(
            "share lost at the ingresses, by L and readings: {}",
            each.join(", ")
        ),
        spans.map(|span| span >= 0.3),
    );
}

/// Packets that come to the edge router, for each that leaves it.
fn burden(m: &Measured, at: &At) -> Samples {
    let [n2, n3, wan] =
        ["n2", "n3", "wan"].map(|name| m.samples(at, &format!("packets_sent.{name}")));
    n2.with(&n3, |a, b| a + b)
        .with(&wan, |come, leave| come / leave)
}

fn relieved(m: &Measured, f: &mut Findings) {
    let loads: [&Load; 3] = [&LOAD_14, &LOAD_18, &LOAD_20];
    for load in loads {
        let red = red(load);
        for l in THRESHOLDS {
            let ours = rs_red(load, "RS-RED", l);
            let dropped = |at: &At| m.samples(at, "dropped_packets.wan");
            let what = format!("{}, L = {l}, dropped at the egress", load.name);
            f.less(&what, &dropped(&ours), &dropped(&red));
            let what = format!("{}, L = {l}, packets come for each that leaves", load.name);
            f.less(&what, &burden(m, &ours), &burden(m, &red));
        }
    }
}

//! Figures 1 and 8, and where packets are lost: what waits and what ends at which place.

use super::arithmetic::THRESHOLDS;
use super::{INGRESSES, LOAD_14, LOAD_18, LOAD_20, READINGS, ingress_share, red, rs_red};
use crate::reproduce::figure::Figure;
use crate::reproduce::judge::{Findings, Samples, shown};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Batch, Recipe, claim};

pub(super) const FIG1: Recipe = Recipe {
    id: "sd-bm/fig1",
    title: "With RED, ingress queues are empty while the edge queue is full",
    notes: &[
        "Both are sampled every 40 ms. The top of the edge queue is nine tenths of the longest that it was in the run.",
    ],
    batches: &[&LOAD_20],
    tables: &[],
    figures: &[Figure {
        title: "Packets waiting with RED",
        x: "time, s",
        draw: |m, lines| {
            let at = red(&LOAD_20);
            lines.over_time("edge router", m, (&at, "queue_packets.wan"), 1.0);
            lines.over_time("ingress n4", m, (&at, "queue_packets.n4"), 1.0);
        },
    }],
    claims: &[claim(
        "sd-bm/fig1.1",
        "Ingress queues stay empty while the edge queue is at its top",
        empty_at_the_top,
    )],
};

pub(super) const FIG8: Recipe = Recipe {
    id: "sd-bm/fig8",
    title: "Ingress queues by their threshold",
    notes: &[
        "The mean of an ingress queue over the samples at which the average of the virtual queue was above min_th, where \
         the probability is not zero.",
        "By Little's law this figure and Table II cannot both be meant for means: if each of four ingresses keeps 50 packets \
         waiting all the time, 200 packets wait for a link that carries 1250 in a second, which takes 160 ms, and not the \
         36 ms that are printed. The figure shows a curve over time; we read it as the level of the peaks.",
    ],
    batches: &[&LOAD_20],
    tables: &[],
    figures: &[Figure {
        title: "Packets waiting at ingress n4",
        x: "time, s",
        draw: |m, lines| {
            for l in [20, 30, 40] {
                let at = rs_red(&LOAD_20, "drop", l);
                lines.over_time(format!("drop {l}"), m, (&at, "queue_packets.n4"), 1.0);
                let at = rs_red(&LOAD_20, "set", l);
                lines.over_time(format!("set {l}"), m, (&at, "queue_packets.n4"), 1.0);
            }
        },
    }],
    claims: &[
        claim(
            "sd-bm/fig8.1",
            "Ingress queues sit near the threshold",
            near_the_threshold,
        ),
        claim(
            "sd-bm/fig8.2",
            "The level follows the threshold",
            follows_the_threshold,
        ),
    ],
};

pub(super) const LOCATION: Recipe = Recipe {
    id: "sd-bm/location",
    title: "Where packets are lost",
    notes: &[
        "Packets with payload that ended at a port, by all that were lost anywhere, the same packets.",
    ],
    batches: &[&LOAD_14, &LOAD_18, &LOAD_20, &READINGS],
    tables: &[],
    figures: &[],
    claims: &[
        claim(
            "sd-bm/location.1",
            "RED: loss only at the egress",
            only_at_the_egress,
        ),
        claim(
            "sd-bm/location.2",
            "RS-RED: loss at the ingress, or at both",
            at_the_ingress,
        ),
        claim(
            "sd-bm/location.3",
            "The share can be set by parameters",
            can_be_set,
        ),
        claim(
            "sd-bm/location.4",
            "The edge router is relieved before overload",
            relieved,
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

/// The mean of an ingress queue while the average is above min_th, a quarter of all places.
fn level(m: &Measured, count: &str, name: &str, l: u32) -> Samples {
    let min = f64::from(100 + 4 * l) / 4.0;
    let curves = [queue(name), "controller.sdn.average".to_owned()];
    m.of_curves(
        &rs_red(&LOAD_20, count, l),
        &[&curves[0], &curves[1]],
        |curves| {
            let both = curves[0].iter().zip(curves[1]);
            let of: Vec<f64> = both.filter(|(_, a)| **a > min).map(|(q, _)| *q).collect();
            crate::statistics::mean(&of)
        },
    )
}

/// The mean of all four.
fn all_levels(m: &Measured, count: &str, l: u32) -> Samples {
    let each = INGRESSES.map(|name| level(m, count, name, l));
    let sum = each.into_iter().reduce(|a, b| a.with(&b, |a, b| a + b));
    sum.unwrap_or_default().map(|sum| sum / 4.0)
}

fn near_the_threshold(m: &Measured, f: &mut Findings) {
    for l in [20, 30, 40] {
        for name in INGRESSES {
            let bounds = [0.8 * f64::from(l), 1.2 * f64::from(l)];
            f.between(
                &format!("L = {l}, {name}, packets"),
                &level(m, "drop", name, l),
                bounds,
            );
        }
    }
    let set = [20, 30, 40].map(|l| format!("{l}: {}", all_levels(m, "set", l).shown()));
    f.remark(format!(
        "with the reading `set`, packets at {}",
        set.join(", ")
    ));
}

fn follows_the_threshold(m: &Measured, f: &mut Findings) {
    let steps = [20, 30, 40].map(|l| (format!("L = {l}"), all_levels(m, "drop", l)));
    f.ascends("mean of the ingress queues", &steps);
}

fn only_at_the_egress(m: &Measured, f: &mut Findings) {
    for batch in [&LOAD_14, &LOAD_18, &LOAD_20] {
        let at = red(batch);
        let egress = m.samples(&at, "dropped_packets.wan");
        let all = m.samples(&at, "lost_packets");
        let elsewhere = egress.with(&all, |here, all| 1.0 - here / all.max(1.0));
        f.at_most(
            &format!("{}, share lost elsewhere", batch.name),
            &elsewhere,
            0.01,
        );
    }
}

fn at_the_ingress(m: &Measured, f: &mut Findings) {
    for batch in [&LOAD_14, &LOAD_18, &LOAD_20] {
        for l in THRESHOLDS {
            let share = ingress_share(m, &rs_red(batch, "drop", l));
            let what = format!("{}, L = {l}, share lost at the ingresses", batch.name);
            match l {
                50 => f.at_least(&what, &share, 0.5),
                _ => f.above(&what, &share, 0.0),
            }
        }
    }
    let set = |l| ingress_share(m, &rs_red(&LOAD_20, "set", l));
    f.remark(super::by_set("that share", set));
}

fn can_be_set(m: &Measured, f: &mut Findings) {
    let readings = [
        "20, max_p 0.02",
        "20, max_p 0.5",
        "50, max_p 0.02",
        "50, max_p 0.5",
        "20, thresholds of 100",
        "50, thresholds of 100",
    ];
    let readings = readings.map(|name| (name.to_owned(), At::new(READINGS.name, name)));
    let levels = THRESHOLDS.map(|l| (format!("{l}"), rs_red(&LOAD_20, "drop", l)));
    let shares = levels.into_iter().chain(readings);
    let shares = shares.filter_map(|(name, at)| Some((name, ingress_share(m, &at).mean()?)));
    let shares: Vec<(String, f64)> = shares.collect();
    let ends = shares
        .iter()
        .fold((1.0_f64, 0.0_f64), |(low, high), (_, share)| {
            (low.min(*share), high.max(*share))
        });
    let each: Vec<String> = shares
        .iter()
        .map(|(name, share)| format!("{name}: {}", shown(*share)))
        .collect();
    f.is(
        format!(
            "share lost at the ingresses, by L and readings: {}",
            each.join(", ")
        ),
        ends.1 - ends.0 >= 0.3,
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
    let batches: [&Batch; 3] = [&LOAD_14, &LOAD_18, &LOAD_20];
    for batch in batches {
        let red = red(batch);
        for l in THRESHOLDS {
            let ours = rs_red(batch, "drop", l);
            let dropped = |at: &At| m.samples(at, "dropped_packets.wan");
            let what = format!("{}, L = {l}, dropped at the egress", batch.name);
            f.less(&what, &dropped(&ours), &dropped(&red));
            let what = format!("{}, L = {l}, packets come for each that leaves", batch.name);
            f.less(&what, &burden(m, &ours), &burden(m, &red));
        }
    }
}

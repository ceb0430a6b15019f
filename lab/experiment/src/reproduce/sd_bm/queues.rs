//! Figures 1 and 8: the queues of the ingress devices while another curve is high.

use weir_base::statistics::{mean, percentile};

use super::{INGRESSES, TABLES};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Checks};
use crate::reproduce::verdict::{Findings, Samples};

pub(super) const CHECKS: &Checks = &[
    ("fig1.1", empty_at_the_top),
    ("fig8.1", near_the_threshold),
    ("fig8.2", follows_the_threshold),
];

fn queue(name: &str) -> String {
    format!("queue_packets.{name}")
}

fn empty_at_the_top(m: &Measured, f: &mut Findings) {
    for name in INGRESSES {
        let (edge, ingress) = (queue("wan"), queue(name));
        let share = m.of_curves(&At::new(TABLES, "RED 100"), &[&edge, &ingress], |curves| {
            let top = 0.9 * curves[0].iter().copied().fold(0.0, f64::max);
            let both = curves[0].iter().zip(curves[1]);
            let at_top: Vec<f64> = both.filter(|(e, _)| **e >= top).map(|(_, i)| *i).collect();
            let empty = at_top.iter().filter(|waiting| **waiting <= 2.0).count();
            (!at_top.is_empty()).then(|| empty as f64 / at_top.len() as f64)
        });
        let what = format!("{name}, share of these samples with at most 2 packets");
        f.at_least(&what, &share, 0.95);
    }
}

/// A function of an ingress queue's samples, taken while the average is above min_th, a quarter of the capacity.
fn level(
    m: &Measured,
    (scheme, l): (&str, u32),
    name: &str,
    of: impl Fn(&[f64]) -> Option<f64>,
) -> Samples {
    let min = f64::from(100 + 4 * l) / 4.0;
    let curves = [queue(name), "controller.sdn.average".to_owned()];
    m.of_curves(
        &At::new(TABLES, format!("{scheme} {l}")),
        &[&curves[0], &curves[1]],
        |curves| {
            let both = curves[0].iter().zip(curves[1]);
            let above: Vec<f64> = both.filter(|(_, a)| **a > min).map(|(q, _)| *q).collect();
            of(&above)
        },
    )
}

/// R31: the length that 95 % of the samples do not exceed.
fn peak(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    percentile(&sorted, 0.95)
}

/// The mean of all four queues.
fn all_levels(m: &Measured, of: (&str, u32), level_of: fn(&[f64]) -> Option<f64>) -> Samples {
    let each = INGRESSES.map(|name| level(m, of, name, level_of));
    let sum = each.into_iter().reduce(|a, b| a.with(&b, |a, b| a + b));
    sum.unwrap_or_default().map(|sum| sum / 4.0)
}

/// The means as text, without effect on a verdict.
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
        let mean = all_levels(m, ("RS-RED", l), mean);
        let bounds = [0.8 * f64::from(l), 1.2 * f64::from(l)];
        f.between(&format!("L = {l}, mean of all (R31)"), &mean, bounds);
    }
    f.remark(means(m, "egress-driven"));
}

fn follows_the_threshold(m: &Measured, f: &mut Findings) {
    let steps = [20, 30, 40].map(|l| (format!("L = {l}"), all_levels(m, ("RS-RED", l), peak)));
    f.ascends("95th percentile of the ingress queues", &steps);
    f.remark(means(m, "RS-RED"));
}

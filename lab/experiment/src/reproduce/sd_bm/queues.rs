//! Figures 1 and 8: the queues of the ingress devices while another curve is high.

use super::{INGRESSES, peak, tables};
use crate::reproduce::figure::curve;
use crate::reproduce::findings::{Findings, check};
use crate::reproduce::measured::Measured;
use crate::reproduce::query::{pairs, series};
use crate::reproduce::recipe::{Recipe, claim};
use crate::reproduce::samples::Samples;
use weir_base::statistics::mean;

fn queue(name: &str) -> String {
    format!("queue_packets.{name}")
}

pub(super) fn fig1(r: &mut Recipe) {
    r.title = "With RED, ingress queues are empty while the edge queue is full";
    r.notes = &[
        "Both are sampled every 40 ms. The top of the edge queue is nine tenths of its maximum \
         length in the run.",
    ];
    r.scenarios = &["sd-bm/tables"];
    r.figure("Packets waiting with RED", "time, s", |m| {
        let red = tables(m, "RED", 100);
        let line = |(name, of)| curve(name, &red, &queue(of), 1.0);
        [("edge router", "wan"), ("ingress n4", "n4")]
            .map(line)
            .into()
    });
    let text = "Ingress queues stay empty while the edge queue is at its top";
    claim(r, "fig1.1", text).measured(|m, f| {
        for name in INGRESSES {
            let curves = [queue("wan"), queue(name)];
            let curves = curves.each_ref().map(String::as_str);
            let share = tables(m, "RED", 100).curves(curves, |[edge, ingress]| {
                let top = 0.9 * edge.iter().copied().fold(0.0, f64::max);
                let at_top = || edge.iter().zip(ingress).filter(|(edge, _)| **edge >= top);
                let empty = at_top().filter(|(_, waiting)| **waiting <= 2.0).count();
                (at_top().count() > 0).then(|| empty as f64 / at_top().count() as f64)
            });
            check!(f, "{name}, share of these samples with at most 2 packets":
                at_least(share, 0.95));
        }
    });
}

/// A function of an ingress queue's samples, taken while the average is above min_th, a quarter of the capacity.
fn level(m: &Measured, scheme: &str, l: u32, name: &str, of: fn(&[f64]) -> Option<f64>) -> Samples {
    let min = f64::from(100 + 4 * l) / 4.0;
    let curves = [&queue(name), "controller.sdn.average"];
    tables(m, scheme, l).curves(curves, |[queue, average]| {
        let both = queue.iter().zip(average);
        let above: Vec<f64> = both.filter(|(_, a)| **a > min).map(|(q, _)| *q).collect();
        of(&above)
    })
}

/// The mean of all four queues.
fn all_levels(m: &Measured, scheme: &str, l: u32, of: fn(&[f64]) -> Option<f64>) -> Samples {
    let each = INGRESSES.map(|name| level(m, scheme, l, name, of));
    let sum = each.into_iter().reduce(|a, b| a + b);
    sum.unwrap_or_default() / 4.0
}

/// The means as text, without effect on a verdict.
fn show_means(m: &Measured, f: &mut Findings, scheme: &str) {
    let each = [20, 30, 40].map(|l| {
        let mean = all_levels(m, scheme, l, mean);
        format!("{l}: {}", mean.shown())
    });
    f.remark(format!("{scheme}, means at {}", each.join(", ")));
}

pub(super) fn fig8(r: &mut Recipe) {
    r.title = "Ingress queues by their threshold";
    r.notes = &[
        "R31: the 95th percentile of an ingress queue over the samples at which the average of the \
         virtual queue was above min_th, where the probability is not zero. As means this figure \
         and Table II contradict each other by Little's law: if each of four ingresses keeps 50 \
         packets waiting all the time, 200 packets wait for a link that carries 1250 in a second, \
         which takes 160 ms, and not the 36 ms that are printed.",
    ];
    r.scenarios = &["sd-bm/tables"];
    r.figure("Packets waiting at ingress n4", "time, s", |m| {
        let all = pairs(&[20, 30, 40], &["RS-RED", "egress-driven"]).into_iter();
        let line = |(l, scheme)| {
            let name = format!("{scheme} {l}");
            curve(name, &tables(m, scheme, l), &queue("n4"), 1.0)
        };
        all.map(line).collect()
    });

    claim(r, "fig8.1", "Ingress queues sit near the threshold").measured(|m, f| {
        for l in [20, 30, 40] {
            let bounds = [0.8, 1.2].map(|share| share * f64::from(l));
            check!(f, for name in INGRESSES, "L = {l}, {name}, packets":
                between(level(m, "RS-RED", l, name, peak), bounds));
            let mean = all_levels(m, "RS-RED", l, mean);
            check!(f, "L = {l}, mean of all (R31)": between(mean, bounds));
        }
        show_means(m, f, "egress-driven");
    });
    claim(r, "fig8.2", "The level follows the threshold").measured(|m, f| {
        let steps = series!(for l in [20, 30, 40], "L = {l}": all_levels(m, "RS-RED", l, peak));
        check!(f, "95th percentile of the ingress queues": ascends(steps));
        show_means(m, f, "RS-RED");
    });
}

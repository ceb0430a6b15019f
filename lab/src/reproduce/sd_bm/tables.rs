//! Tables II and III: what a threshold at the ingresses costs in delay, and what it saves in loss.

use super::arithmetic::{THRESHOLDS, printed_increments, printed_reductions};
use super::{DELAY, LOAD_20, LOSS, by_egress, readings, red, rs_red};
use crate::reproduce::figure::{Figure, Lines};
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Code};

pub(super) const CODE: Code = Code {
    checks: &[
        ("table2.1", adds_delay),
        ("table2.2", below_the_maximum),
        ("table2.3", acceptable),
        ("table2.4", printed_increments),
        ("table3.2", cut_at_50),
        ("table3.3", printed_reductions),
    ],
    remarks: &[("table3.1", |m, f| {
        f.remark(by_egress("loss saved", |l| {
            reduction(m, "egress-driven", l)
        }))
    })],
    figures: &[
        (
            "table2",
            &[Figure {
                title: "Mean one-way delay, ms",
                x: "threshold, packets",
                draw: |m, lines| draw(m, lines, DELAY, 1.0, &[81.0, 88.0, 97.0, 106.0, 117.0]),
            }],
        ),
        (
            "table3",
            &[Figure {
                title: "Loss, %",
                x: "threshold, packets",
                draw: |m, lines| draw(m, lines, LOSS, 100.0, &[2.266, 2.062, 1.867, 1.715, 1.350]),
            }],
        ),
    ],
};

/// RED as a threshold of 0, then RS-RED; the paper's numbers beside ours.
fn draw(m: &Measured, lines: &mut Lines, metric: &str, scale: f64, paper: &[f64]) {
    let x = || [0.0].into_iter().chain(THRESHOLDS.map(f64::from));
    let printed = paper.iter().map(|y| Samples::new(vec![*y]));
    lines.swept("paper", x().zip(printed));
    for scheme in ["RS-RED", "egress-driven"] {
        let ours = THRESHOLDS.map(|l| rs_red(&LOAD_20, scheme, l));
        let ours = [red(&LOAD_20)].into_iter().chain(ours);
        let ours = ours.map(|at| m.samples(&at, metric).map(|y| y * scale));
        lines.swept(format!("ours, {scheme}"), x().zip(ours));
    }
}

/// What a threshold adds to RED's delay, in ms.
fn increment(m: &Measured, scheme: &str, l: u32) -> Samples {
    let ours = m.samples(&rs_red(&LOAD_20, scheme, l), DELAY);
    ours.less(&m.samples(&red(&LOAD_20), DELAY))
}

/// Which share of RED's losses a threshold saves.
fn reduction(m: &Measured, scheme: &str, l: u32) -> Samples {
    let ours = m.samples(&rs_red(&LOAD_20, scheme, l), LOSS);
    ours.with(&m.samples(&red(&LOAD_20), LOSS), |ours, red| {
        1.0 - ours / red
    })
}

/// Readings, each of which has a RED of its own where the network differs.
const OTHERS: [&str; 17] = [
    "RS-RED 50, no wait",
    "RS-RED 50, n anew on a hold",
    "RS-RED 50, integral",
    "RS-RED 50, w 0.1",
    "RS-RED 50, max_p 0.02",
    "RS-RED 50, max_p 0.5",
    "RS-RED 50, thresholds of 100",
    "RS-RED 50, round trip 40 ms",
    "RS-RED 50, round trip 240 ms",
    "RS-RED 50, UDP 0 %",
    "RS-RED 50, UDP 10 %",
    "RS-RED 50, UDP 25 %",
    "RS-RED 50, UDP 50 %",
    "egress-driven 50, all backlogs",
    "egress-driven 50, w 0.002",
    "egress-driven 50, max_p 0.02",
    "egress-driven 50, max_p 0.5",
];

fn adds_delay(m: &Measured, f: &mut Findings) {
    for (l, paper) in THRESHOLDS.into_iter().zip([7, 16, 25, 36]) {
        let what = format!("L = {l}, added delay in ms (paper {paper})");
        f.above(&what, &increment(m, "RS-RED", l), 0.0);
    }
    let steps = THRESHOLDS.map(|l| (l.to_string(), increment(m, "RS-RED", l)));
    f.rises("added delay by L", &steps);
    f.remark(by_egress("added delay in ms", |l| {
        increment(m, "egress-driven", l)
    }));
    f.remark(readings("delay in ms, other readings", &OTHERS, |at| {
        m.samples(at, DELAY)
    }));
}

fn below_the_maximum(m: &Measured, f: &mut Findings) {
    for (l, most) in THRESHOLDS.into_iter().zip([24.0, 36.0, 48.0, 60.0]) {
        let what = format!("L = {l}, added delay in ms");
        f.at_most(&what, &increment(m, "RS-RED", l), most);
    }
    f.remark(by_egress("added delay in ms", |l| {
        increment(m, "egress-driven", l)
    }));
    f.remark(
        "the maximum is of one ingress queue alone that its link empties at full rate; what four queues share is the egress \
         link: 4 x 50 packets that wait there take 160 ms of it",
    );
}

fn acceptable(m: &Measured, f: &mut Findings) {
    let red = m.samples(&red(&LOAD_20), DELAY);
    let share = |scheme: &str| increment(m, scheme, 50).with(&red, |more, red| more / red);
    f.at_most("L = 50, added delay by RED's", &share("RS-RED"), 0.5);
    let set = share("egress-driven").shown();
    f.remark(format!("egress-driven: {set}"));
}

fn cut_at_50(m: &Measured, f: &mut Findings) {
    let what = "L = 50, share of the loss that is saved (paper 0.404)";
    f.at_least(what, &reduction(m, "RS-RED", 50), 0.2);
    f.remark(by_egress("loss saved", |l| {
        reduction(m, "egress-driven", l)
    }));
    f.remark(readings("loss, other readings", &OTHERS, |at| {
        m.samples(at, LOSS)
    }));
    let nets = [
        "RED, round trip 40 ms",
        "RED, round trip 240 ms",
        "RED, UDP 0 %",
        "RED, UDP 10 %",
        "RED, UDP 25 %",
        "RED, UDP 50 %",
        "RED, no wait",
    ];
    f.remark(readings("loss of RED there", &nets, |at: &At| {
        m.samples(at, LOSS)
    }));
}

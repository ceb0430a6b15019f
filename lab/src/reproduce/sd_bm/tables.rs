//! Tables II and III: what a threshold at the ingresses costs in delay, and what it saves in loss.

use super::arithmetic::{THRESHOLDS, printed_increments, printed_reductions};
use super::{DELAY, LOAD_20, LOSS, READINGS, by_egress, readings, red, rs_red};
use crate::reproduce::figure::{Figure, Lines};
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Column, Line, Recipe, Table, claim, column};

const NOTES: &[&str] = &[
    "R14: the virtual queue is the sum of the backlogs that the devices report. R15: a packet at the head of an ingress \
     queue is held, for one packet time; the count begins anew with a drop only. R16: RED has 100 packets. R17 and R25, calibrated on \
     RED alone (its 81 ms and 2.266 %): 1 % of the load are UDP, 88 ms there and back without queues. R26: the tree. Both RED and \
     the ingresses spread drops by the same rule (`wait`).",
    "Why losses do not go on falling beyond L = 30: the controller's thresholds are shares of all places, so that a larger L raises \
     them too. Its probability falls then, the ingresses drop less, and the egress, which has 100 places whatever L is, \
     loses by overflow again. And an ingress that has passed 2/rho_b packets without a drop sends nothing until its queue has \
     reached the threshold: at L = 50 its flows often have fewer packets under way, everything waits for time-outs, and goodput falls.",
    "The printed pairs of delay and loss are those of TCP with a longer queue anywhere: losses go with the inverse square of the \
     round trip.",
    "The lines `egress-driven` (R32) are ours, not the paper's, and decide nothing: docs/egress-driven.md.",
];

pub(super) const TABLE2: Recipe = Recipe {
    id: "sd-bm/table2",
    title: "Delay by the threshold of the ingress queues",
    notes: NOTES,
    scenarios: &[LOAD_20.scenario],
    readings: &[READINGS],
    tables: &[Table {
        columns: &[Column {
            tolerance: 1.0 / 3.0,
            ..column("mean delay, ms", DELAY)
        }],
        lines: &[
            line(&[("method", "RED")], "RED 100", &[81.0]),
            line(
                &[("method", "RS-RED"), ("threshold", "20")],
                "RS-RED 20",
                &[88.0],
            ),
            line(
                &[("method", "RS-RED"), ("threshold", "30")],
                "RS-RED 30",
                &[97.0],
            ),
            line(
                &[("method", "RS-RED"), ("threshold", "40")],
                "RS-RED 40",
                &[106.0],
            ),
            line(
                &[("method", "RS-RED"), ("threshold", "50")],
                "RS-RED 50",
                &[117.0],
            ),
            line(
                &[("method", "egress-driven"), ("threshold", "20")],
                "egress-driven 20",
                &[88.0],
            ),
            line(
                &[("method", "egress-driven"), ("threshold", "30")],
                "egress-driven 30",
                &[97.0],
            ),
            line(
                &[("method", "egress-driven"), ("threshold", "40")],
                "egress-driven 40",
                &[106.0],
            ),
            line(
                &[("method", "egress-driven"), ("threshold", "50")],
                "egress-driven 50",
                &[117.0],
            ),
        ],
    }],
    figures: &[Figure {
        title: "Mean one-way delay, ms",
        x: "threshold, packets",
        draw: |m, lines| draw(m, lines, DELAY, 1.0, &[81.0, 88.0, 97.0, 106.0, 117.0]),
    }],
    claims: &[
        claim(
            "sd-bm/table2.1",
            "Refill adds delay, growing with L",
            adds_delay,
        ),
        claim(
            "sd-bm/table2.2",
            "The mean added delay stays below the theory maximum",
            below_the_maximum,
        ),
        claim(
            "sd-bm/table2.3",
            "The added delay is acceptable",
            acceptable,
        ),
        claim("sd-bm/table2.4", "Printed increments", printed_increments),
    ],
};

pub(super) const TABLE3: Recipe = Recipe {
    id: "sd-bm/table3",
    title: "Loss by the threshold of the ingress queues",
    notes: NOTES,
    scenarios: &[LOAD_20.scenario],
    readings: &[READINGS],
    tables: &[Table {
        columns: &[Column {
            scale: 100.0,
            tolerance: 1.0 / 3.0,
            ..column("loss, %", LOSS)
        }],
        lines: &[
            line(&[("method", "RED")], "RED 100", &[2.266]),
            line(
                &[("method", "RS-RED"), ("threshold", "20")],
                "RS-RED 20",
                &[2.062],
            ),
            line(
                &[("method", "RS-RED"), ("threshold", "30")],
                "RS-RED 30",
                &[1.867],
            ),
            line(
                &[("method", "RS-RED"), ("threshold", "40")],
                "RS-RED 40",
                &[1.715],
            ),
            line(
                &[("method", "RS-RED"), ("threshold", "50")],
                "RS-RED 50",
                &[1.350],
            ),
            line(
                &[("method", "egress-driven"), ("threshold", "20")],
                "egress-driven 20",
                &[2.062],
            ),
            line(
                &[("method", "egress-driven"), ("threshold", "30")],
                "egress-driven 30",
                &[1.867],
            ),
            line(
                &[("method", "egress-driven"), ("threshold", "40")],
                "egress-driven 40",
                &[1.715],
            ),
            line(
                &[("method", "egress-driven"), ("threshold", "50")],
                "egress-driven 50",
                &[1.350],
            ),
        ],
    }],
    figures: &[Figure {
        title: "Loss, %",
        x: "threshold, packets",
        draw: |m, lines| draw(m, lines, LOSS, 100.0, &[2.266, 2.062, 1.867, 1.715, 1.350]),
    }],
    claims: &[
        claim("sd-bm/table3.1", "Loss falls with L", loss_falls),
        claim("sd-bm/table3.2", "Cut of about 40 % at L = 50", cut_at_50),
        claim("sd-bm/table3.3", "Printed reductions", printed_reductions),
    ],
};

const fn line(
    set: &'static [(&'static str, &'static str)],
    variant: &'static str,
    numbers: &'static [f64],
) -> Line {
    Line {
        set,
        scenario: LOAD_20.scenario,
        variant,
        place: &[],
        numbers,
    }
}

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

fn loss_falls(m: &Measured, f: &mut Findings) {
    let loss = |l| m.samples(&rs_red(&LOAD_20, "RS-RED", l), LOSS);
    let red = m.samples(&red(&LOAD_20), LOSS);
    for l in THRESHOLDS {
        f.less(&format!("loss at L = {l} and with RED"), &loss(l), &red);
    }
    let mut steps = THRESHOLDS.map(|l| (format!("L = {l}"), loss(l)));
    steps.reverse();
    f.rises("loss, from large L to small,", &steps);
    f.remark(by_egress("loss saved", |l| {
        reduction(m, "egress-driven", l)
    }));
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

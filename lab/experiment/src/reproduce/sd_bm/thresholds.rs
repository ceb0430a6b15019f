//! Tables II and III: delay and loss by the threshold of the ingress queues.

use super::{DELAY, LOSS, THRESHOLDS, by_threshold, tables};
use crate::reproduce::figure::{sweep, swept};
use crate::reproduce::findings::{Findings, check, show};
use crate::reproduce::measured::Measured;
use crate::reproduce::query::{Point, Quantity, pairs, series};
use crate::reproduce::recipe::{Recipe, claim, line, names};
use crate::reproduce::samples::Samples;

/// RED (at 0), and RS-RED by threshold: delay in ms, and loss in %.
const TABLE_2: [(u32, f64); 5] = [(0, 81.0), (20, 88.0), (30, 97.0), (40, 106.0), (50, 117.0)];
const TABLE_3: [(u32, f64); 5] = [
    (0, 2.266),
    (20, 2.062),
    (30, 1.867),
    (40, 1.715),
    (50, 1.35),
];

fn at<'a>(m: &'a Measured, scheme: &str, l: u32) -> Point<'a> {
    match l {
        0 => tables(m, "RED", 100),
        _ => tables(m, scheme, l),
    }
}

/// The lines and the picture of a table.
fn table(
    r: &mut Recipe,
    [column, title]: [&'static str; 2],
    table: [(u32, f64); 5],
    ours: Quantity,
) {
    let schemes = ["RS-RED", "egress-driven"];
    let by_scheme = pairs(&schemes, &table[1..]).into_iter();
    for (scheme, (l, printed)) in [("RED", table[0])].into_iter().chain(by_scheme) {
        let threshold = (l > 0).then(|| ("threshold", l.into()));
        let place = [("method", scheme.into())].into_iter().chain(threshold);
        line(r, place, &[column], [printed], [1.0 / 3.0]).ours(move |m| [ours(&at(m, scheme, l))]);
    }
    let of = move |m: &Measured, scheme, l| ours(&at(m, scheme, l));
    r.figure(title, "threshold, packets", move |m| {
        let steps = table.map(|(l, _)| l);
        let printed = table.map(|(l, printed)| (f64::from(l), printed.into()));
        vec![
            sweep("paper", printed.into_iter()),
            swept!(for l in steps, "ours, RS-RED": of(m, "RS-RED", l)),
            swept!(for l in steps, "ours, egress-driven": of(m, "egress-driven", l)),
        ]
    });
}

/// Other readings at a threshold of 50.
const READINGS: [&str; 17] = names![
    "RS-RED 50, no wait" "RS-RED 50, n anew on a hold" "RS-RED 50, integral" "RS-RED 50, w 0.002"
    "RS-RED 50, max_p 0.02" "RS-RED 50, max_p 0.5" "RS-RED 50, thresholds of 100"
    "RS-RED 50, round trip 40 ms" "RS-RED 50, round trip 240 ms" "RS-RED 50, UDP 0 %"
    "RS-RED 50, UDP 10 %" "RS-RED 50, UDP 25 %" "RS-RED 50, UDP 50 %"
    "egress-driven 50, all backlogs" "egress-driven 50, w 0.002" "egress-driven 50, max_p 0.02"
    "egress-driven 50, max_p 0.5"
];
const READINGS_RED: [&str; 7] = names![
    "RED, round trip 40 ms" "RED, round trip 240 ms" "RED, UDP 0 %" "RED, UDP 10 %" "RED, UDP 25 %"
    "RED, UDP 50 %" "RED, no wait"
];

fn read<'a>(m: &'a Measured, reading: impl Into<String>) -> Point<'a> {
    m.at("sd-bm/readings", reading)
}

fn show_readings(m: &Measured, f: &mut Findings, what: &str, metric: &'static str) {
    for rho_a in ["rho_a with wait", "rho_a as in RED's paper"] {
        let at = |l, w: f64| {
            m.at("sd-bm/together", format!("RS-RED {l}, {rho_a}"))
                .and("weight", w)
        };
        show!(f, m, "{what}, {rho_a}": for (l, w) in pairs(&THRESHOLDS, &[0.002, 0.02, 0.095]),
            "L {l} w {w}": at(l, w).metric(metric));
    }
    show!(f, m, "{what}, ours, where holds end": for l in THRESHOLDS, "L {l}":
        read(m, format!("RS-RED {l}, holds end")).metric(metric));
    show!(f, m, "{what}, other readings": for reading in READINGS, "{reading}":
        read(m, reading).metric(metric));
}

pub(super) fn table2(r: &mut Recipe) {
    r.title = "Delay by the threshold of the ingress queues";
    r.notes = &[
        "R14: the virtual queue is the sum of the backlogs that the devices report. R15: a packet \
         at the head of an ingress queue is held, for one packet time; the count restarts with \
         a drop only. R16: RED has 100 packets. R17 and R25, calibrated on RED alone (its 81 ms \
         and 2.266 %): 1 % of the load are UDP, 88 ms there and back without queues. R26: the \
         tree. Both RED and the ingresses spread drops by the same rule (`wait`). The weight of a \
         sample is what RED's 0.002 for a packet makes in the 50 packets between two samples.",
        "The lines `egress-driven` (R32) are ours, not the paper's, and decide nothing: \
         docs/egress-driven.md.",
    ];
    r.scenarios = &["sd-bm/tables"];
    r.readings = &["sd-bm/readings", "sd-bm/together"];
    let title = "Mean one-way delay, ms";
    table(r, ["mean delay, ms", title], TABLE_2, |at| at.metric(DELAY));
    fn red(m: &Measured) -> Samples {
        tables(m, "RED", 100).metric(DELAY)
    }
    /// The delay that a scheme adds to RED's.
    fn added(m: &Measured, scheme: &str, l: u32) -> Samples {
        tables(m, scheme, l).metric(DELAY) - red(m)
    }
    fn show_egress_driven(m: &Measured, f: &mut Findings) {
        show!(f, m, "egress-driven, added delay in ms":
            by_threshold(|l| added(m, "egress-driven", l)));
    }

    claim(r, "table2.1", "Refill adds delay, growing with L").measured(|m, f| {
        check!(f, for (l, paper) in [(20, 7), (30, 16), (40, 25), (50, 36)],
            "L = {l}, added delay in ms (paper {paper})": above(added(m, "RS-RED", l), 0.0));
        check!(f, "added delay by L": rises(by_threshold(|l| added(m, "RS-RED", l))));
        show_egress_driven(m, f);
        show_readings(m, f, "delay in ms", DELAY);
    });
    let text = "The mean added delay stays below the theory maximum";
    claim(r, "table2.2", text).measured(|m, f| {
        for l in THRESHOLDS {
            let what = format!("L = {l}, added delay in ms");
            f.at_most(&what, added(m, "RS-RED", l), 1.2 * f64::from(l));
        }
        show_egress_driven(m, f);
        f.remark(
            "the maximum is that of a single ingress queue, which its link empties at full rate; but four queues \
             share the egress link: 4 x 50 waiting packets take 160 ms of it",
        );
    });
    claim(r, "table2.3", "The added delay is acceptable").measured(|m, f| {
        let by_red = |scheme| added(m, scheme, 50) / red(m);
        check!(f, "L = 50, added delay by RED's": at_most(by_red("RS-RED"), 0.5));
        show!(f, m, "egress-driven": by_red("egress-driven"));
    });
    claim(r, "table2.4", "Printed increments").arithmetic(|_, f| {
        let [(_, red), by_l @ ..] = TABLE_2;
        for ((l, delay), paper) in by_l.into_iter().zip([7.0, 16.0, 25.0, 36.0]) {
            check!(f, "L = {l}, {delay} - 81 ms": between(delay - red, [paper; 2]));
        }
    });
}

pub(super) fn table3(r: &mut Recipe) {
    r.title = "Loss by the threshold of the ingress queues";
    r.notes = &["Set-up and readings as in sd-bm/table2."];
    r.scenarios = &["sd-bm/tables"];
    r.readings = &["sd-bm/readings", "sd-bm/together"];
    table(r, ["loss, %", "Loss, %"], TABLE_3, |at| {
        at.metric(LOSS) * 100.0
    });
    /// The share of RED's loss that a scheme saves.
    fn saved(m: &Measured, scheme: &str, l: u32) -> Samples {
        1.0 - tables(m, scheme, l).metric(LOSS) / tables(m, "RED", 100).metric(LOSS)
    }
    fn show_egress_driven(m: &Measured, f: &mut Findings) {
        show!(f, m, "egress-driven, loss saved": by_threshold(|l| saved(m, "egress-driven", l)));
    }

    claim(r, "table3.1", "Loss falls with L").measured(|m, f| {
        let loss = |scheme, l| tables(m, scheme, l).metric(LOSS);
        check!(f, for l in THRESHOLDS, "loss at L = {l} and with RED":
            less(loss("RS-RED", l), loss("RED", 100)));
        let steps = series!(for l in [50, 40, 30, 20], "L = {l}": loss("RS-RED", l));
        check!(f, "loss, from large L to small,": rises(steps));
        show_egress_driven(m, f);
    });
    claim(r, "table3.2", "Cut of about 40 % at L = 50").measured(|m, f| {
        check!(f, "L = 50, share of the loss that is saved (paper 0.404)":
            between(saved(m, "RS-RED", 50), [0.3, 0.5]));
        show_egress_driven(m, f);
        show_readings(m, f, "loss", LOSS);
        show!(f, m, "loss of RED there": for reading in READINGS_RED, "{reading}":
            read(m, reading).metric(LOSS));
    });
    claim(r, "table3.3", "Printed reductions").arithmetic(|_, f| {
        let [(_, red), by_l @ ..] = TABLE_3;
        for ((l, loss), paper) in by_l.into_iter().zip([9.0, 17.6, 24.3, 40.4]) {
            check!(f, "L = {l}, reduction in % (paper {paper:?})":
                between(100.0 * (1.0 - loss / red), [paper - 0.1, paper + 0.1]));
        }
    });
}

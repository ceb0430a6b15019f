//! Figures 11 and 12: one forwarding element, and an attack through it.

use super::{over_time, throughput};
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::{Measured, Window};
use crate::reproduce::recipe::{At, Code};
use crate::statistics::mean;

const FIG11_RUNS: &str = "forces-flow-control/fig11";
const FIG12_RUNS: &str = "forces-flow-control/fig12";

/// The three disciplines of the figures.
const DISCIPLINES: [&str; 3] = ["dppbrb", "drr", "drop-tail"];
/// What they carry: messages of the source, and an attack.
const TRAFFICS: [&str; 3] = ["control", "redirect", "attack"];
/// While the uplink is overloaded.
const FULL: Window = [2.5, 6.0];

pub(super) const CODE: Code = Code {
    checks: &[
        ("fig11.1", |m, f| {
            for discipline in DISCIPLINES {
                all_pass(m, f, &at11(discipline), &TRAFFICS, [0.2, 2.2]);
            }
        }),
        ("fig11.2", |m, f| kept(m, f, at11)),
        ("fig11.3", |m, f| {
            let at = at11("dppbrb");
            falls(
                f,
                "redirect messages and attack",
                &m.curve(&at, "udp_mbps", FULL, slope),
            );
            let goodput = |window| m.curve(&at, "goodput_mbps.redirect", window, mean);
            f.less(
                "redirect messages of the source, Mbit/s at 5 to 6 s and at 2.5 to 3.5 s",
                &goodput([5.0, 6.0]),
                &goodput([2.5, 3.5]),
            );
        }),
        ("fig11.4", |m, f| {
            opposite(m, f, at11);
            let at = at11("drr");
            falls(
                f,
                "delivered share of control messages",
                &trend(m, &at, "control"),
            );
        }),
        ("fig11.5", |m, f| worse_still(m, f, at11)),
        ("fig12.1", |m, f| {
            for discipline in DISCIPLINES {
                all_pass(
                    m,
                    f,
                    &at12(discipline),
                    &["control", "redirect"],
                    [0.2, 1.0],
                );
            }
        }),
        ("fig12.2", |m, f| kept(m, f, at12)),
        ("fig12.3", |m, f| {
            let fall = m.curve(&at12("dppbrb"), "goodput_mbps.redirect", [1.5, 6.0], slope);
            falls(f, "redirect messages of the source", &fall);
        }),
        ("fig12.4", |m, f| opposite(m, f, at12)),
        ("fig12.5", |m, f| worse_still(m, f, at12)),
    ],
    remarks: &[],
    figures: &[
        (
            "fig11",
            &[
                over_time("(a) DPPBRB: throughput at the CE, Mbit/s", |m, lines| {
                    throughput(m, lines, &at11("dppbrb"), &TRAFFICS);
                }),
                over_time("(b) DRR: throughput at the CE, Mbit/s", |m, lines| {
                    throughput(m, lines, &at11("drr"), &TRAFFICS);
                }),
                over_time("(c) Drop-tail: throughput at the CE, Mbit/s", |m, lines| {
                    throughput(m, lines, &at11("drop-tail"), &TRAFFICS);
                }),
            ],
        ),
        (
            "fig12",
            &[
                over_time("(a) DPPBRB: throughput at the CE, Mbit/s", |m, lines| {
                    throughput(m, lines, &at12("dppbrb"), &TRAFFICS);
                }),
                over_time("(b) DRR: throughput at the CE, Mbit/s", |m, lines| {
                    throughput(m, lines, &at12("drr"), &TRAFFICS);
                }),
                over_time("(c) Drop-tail: throughput at the CE, Mbit/s", |m, lines| {
                    throughput(m, lines, &at12("drop-tail"), &TRAFFICS);
                }),
            ],
        ),
    ],
};

fn at11(variant: &str) -> At {
    At::new(FIG11_RUNS, variant)
}

fn at12(variant: &str) -> At {
    At::new(FIG12_RUNS, variant)
}

pub(super) fn both_kept(m: &Measured, f: &mut Findings) {
    f.at_least("rates that grow", &control(m, &at11("dppbrb")), 0.95);
    f.at_least("constant rates", &control(m, &at12("dppbrb")), 0.95);
}

/// Control messages delivered by offered, while the uplink is overloaded.
fn control(m: &Measured, at: &At) -> Samples {
    m.delivered(at, "control", FULL)
}

fn all_pass(m: &Measured, f: &mut Findings, at: &At, traffics: &[&str], window: Window) {
    for traffic in traffics {
        let what = format!("{}, {traffic} delivered by offered", at.variant);
        f.at_least(&what, &m.delivered(at, traffic, window), 0.95);
    }
}

fn kept(m: &Measured, f: &mut Findings, at: fn(&str) -> At) {
    f.at_least("delivered by offered", &control(m, &at("dppbrb")), 0.95);
    let shown = |variants: &[&str]| {
        let shown = variants.iter();
        let shown = shown.map(|variant| format!("{variant} {}", control(m, &at(variant)).shown()));
        shown.collect::<Vec<_>>().join(", ")
    };
    f.remark(format!(
        "beside it: {}",
        shown(&["drop-tail", "drr", "drr by flow", "drr by class"])
    ));
    let readings = [
        "dppbrb, start 0.5",
        "dppbrb, K 10 ms",
        "dppbrb, K 100 ms",
        "dppbrb, K 500 ms",
        "dppbrb, UDP 210 B",
    ];
    f.remark(format!("other readings: {}", shown(&readings)));
}

fn opposite(m: &Measured, f: &mut Findings, at: fn(&str) -> At) {
    let at_drr = at("drr");
    let redirect = |at: &At| m.delivered(at, "redirect", FULL);
    f.at_most(
        "drr, control messages delivered by offered",
        &control(m, &at_drr),
        0.9,
    );
    f.less(
        "drr, delivered by offered, control and redirect messages",
        &control(m, &at_drr),
        &redirect(&at_drr),
    );
    for variant in ["drr by flow", "drr by class", "drr, UDP 210 B"] {
        let at = at(variant);
        let (control, redirect) = (control(m, &at).shown(), redirect(&at).shown());
        f.remark(format!("{variant}: control {control}, redirect {redirect}"));
    }
}

fn worse_still(m: &Measured, f: &mut Findings, at: fn(&str) -> At) {
    let tail = control(m, &at("drop-tail"));
    f.less(
        "control messages delivered by offered, drop-tail and dppbrb",
        &tail,
        &control(m, &at("dppbrb")),
    );
    f.not_more(
        "control messages delivered by offered, drop-tail and drr",
        &tail,
        &control(m, &at("drr")),
    );
    let small = |variant| control(m, &at(variant)).shown();
    f.remark(format!(
        "with UDP in packets of 210 B: drop-tail {}, drr {}",
        small("drop-tail, UDP 210 B"),
        small("drr, UDP 210 B")
    ));
}

/// The slope of the line that fits best, for each step.
fn slope(values: &[f64]) -> Option<f64> {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let x = |place: usize| place as f64 - middle;
    let square: f64 = (0..values.len()).map(|n| x(n) * x(n)).sum();
    let sum: f64 = values.iter().enumerate().map(|(n, y)| x(n) * y).sum();
    (square > 0.0).then(|| sum / square)
}

/// The slope of what is delivered by what is offered, over steps of 0.5 s.
fn trend(m: &Measured, at: &At, traffic: &str) -> Samples {
    let starts = (5..12).map(|n| f64::from(n) / 2.0);
    let shares: Vec<Samples> = starts
        .map(|from| m.delivered(at, traffic, [from, from + 0.5]))
        .collect();
    // A sum of all shares by their distance from the middle: the slope, but for a constant.
    let weighted = shares.iter().enumerate();
    let weighted = weighted.map(|(n, share)| share.map(|x| x * (n as f64 - 3.0) / 28.0));
    weighted
        .reduce(|sum, share| sum.with(&share, |a, b| a + b))
        .unwrap_or_default()
}

fn falls(f: &mut Findings, what: &str, slope: &Samples) {
    let steps = if what.starts_with("delivered") {
        "0.5 s"
    } else {
        "0.1 s"
    };
    f.above(
        &format!("{what}, fall for each {steps}"),
        &slope.map(|x| -x),
        0.0,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_by_hand() {
        assert_eq!(slope(&[1.0, 3.0, 5.0]), Some(2.0));
        // x = -1.5, -.5, .5, 1.5: (1.5 + .5 * 0 + 0 + 4.5) / 5.
        assert_eq!(slope(&[-1.0, 0.0, 0.0, 3.0]), Some(1.2));
        assert_eq!(slope(&[1.0]), None);
    }
}

//! Figures 14 to 17: many forwarding elements on the control element's link, without and with flow control.

use super::{TCP, UDP, over_time, throughput};
use crate::reproduce::figure::{Figure, Lines};
use crate::reproduce::judge::Samples;
use crate::reproduce::measured::{Measured, Window};
use crate::reproduce::recipe::{At, Code};

const FIG14_RUNS: &str = "forces-flow-control/fig14";
const FIG15_RUNS: &str = "forces-flow-control/fig15";
const FIG17_RUNS: &str = "forces-flow-control/fig17";

/// What passes FE1, and the others: the figures' two pictures.
const FE1: [&str; 3] = ["control1", "redirect1", "attack"];
const OTHERS: [&str; 4] = ["control2", "redirect2", "control3", "redirect3"];

pub(super) const CODE: Code = Code {
    checks: &[
        ("fig14.1", |m, f| {
            for fe in 1..=3 {
                for traffic in ["control", "redirect"] {
                    let name = format!("{traffic}{fe}");
                    let share = m.delivered(&fig14("off"), &name, [0.2, 1.0]);
                    f.at_least(&format!("{name} delivered by offered"), &share, 0.95);
                }
            }
        }),
        ("fig14.2", |m, f| {
            for fe in 1..=3 {
                let share = control(m, &fig14("off"), fe, [3.0, 6.0]);
                f.at_most(&format!("FE{fe}, control messages"), &share, 0.8);
            }
        }),
        ("fig14.3", |m, f| {
            for fe in [2, 3] {
                let share = |window| control(m, &fig14("off"), fe, window);
                f.less(
                    &format!("FE{fe}, control messages at 3 to 6 s and at 0 to 1 s"),
                    &share([3.0, 6.0]),
                    &share([0.0, 1.0]),
                );
            }
        }),
        ("fig15.1", |m, f| {
            for fe in 1..=3 {
                let share = control(m, &fig15("off"), fe, [1.0, 6.0]);
                f.at_most(&format!("FE{fe}, control messages"), &share, 0.7);
            }
        }),
        ("fig15.2", |m, f| {
            for fe in 1..=3 {
                let share = control(m, &fig14("on"), fe, [3.0, 6.0]);
                f.at_least(&format!("attack, FE{fe}, control messages"), &share, 0.95);
            }
            let sum = |variant: &str| {
                let each = (1..=3).map(|fe| {
                    let share = control(m, &fig15(variant), fe, [1.0, 6.0]);
                    share.map(|share| 4.0 * share)
                });
                each.reduce(|a, b| a.with(&b, |a, b| a + b))
                    .unwrap_or_default()
            };
            f.at_least("overload, control messages of all, Mbit/s", &sum("on"), 9.5);
            f.less(
                "overload, without and with flow control, Mbit/s",
                &sum("off"),
                &sum("on"),
            );
        }),
        ("fig17.2", |m, f| {
            let at = fig17("on", 50);
            for fe in 1..=3 {
                let rate = redirect(m, &at, fe);
                let what = format!("busy FE{fe}, Mbit/s of redirect messages");
                f.above(&what, &rate, 15.0);
                f.at_most(&what, &rate, 21.92 * 1.05);
            }
            let all = (1..=5).map(|fe| frames(m, &at, fe));
            let all = all.reduce(|a, b| a.with(&b, |a, b| a + b));
            let all = all.unwrap_or_default();
            f.at_most("all FEs send to the CE's link, Mbit/s", &all, 101.5);
            let excess = m.samples(&at, "controller.flow.excess_mbps.mean").shown();
            f.remark(format!("B_e at x = 50: {excess} Mbit/s"));
        }),
        ("fig17.3", |m, f| {
            for fe in [4, 5] {
                let share = redirect(m, &fig17("on", 50), fe).map(|rate| rate / 5.0);
                f.at_least(&format!("FE{fe}, redirect messages"), &share, 0.95);
            }
        }),
    ],
    remarks: &[],
    figures: &[
        (
            "fig14",
            &[
                over_time(
                    "(a) FE1, without flow control: throughput at the CE, Mbit/s",
                    |m, lines| {
                        throughput(m, lines, &fig14("off"), &FE1);
                    },
                ),
                over_time(
                    "(b) FE2 and FE3, without flow control: throughput at the CE, Mbit/s",
                    |m, lines| {
                        throughput(m, lines, &fig14("off"), &OTHERS);
                    },
                ),
                over_time(
                    "FE1, with flow control: throughput at the CE, Mbit/s",
                    |m, lines| {
                        throughput(m, lines, &fig14("on"), &FE1);
                    },
                ),
                over_time(
                    "FE2 and FE3, with flow control: throughput at the CE, Mbit/s",
                    |m, lines| {
                        throughput(m, lines, &fig14("on"), &OTHERS);
                    },
                ),
            ],
        ),
        (
            "fig15",
            &[
                over_time(
                    "(a) FE1, without flow control: throughput at the CE, Mbit/s",
                    |m, lines| {
                        throughput(m, lines, &fig15("off"), &FE1[..2]);
                    },
                ),
                over_time(
                    "(b) FE2 and FE3, without flow control: throughput at the CE, Mbit/s",
                    |m, lines| {
                        throughput(m, lines, &fig15("off"), &OTHERS);
                    },
                ),
                over_time(
                    "FE1, with flow control: throughput at the CE, Mbit/s",
                    |m, lines| {
                        throughput(m, lines, &fig15("on"), &FE1[..2]);
                    },
                ),
                over_time(
                    "FE2 and FE3, with flow control: throughput at the CE, Mbit/s",
                    |m, lines| {
                        throughput(m, lines, &fig15("on"), &OTHERS);
                    },
                ),
            ],
        ),
        (
            "fig16",
            &[by_redirect(|m, lines| relative(m, lines, "off"))],
        ),
        ("fig17", &[by_redirect(|m, lines| relative(m, lines, "on"))]),
    ],
};

fn fig14(variant: &str) -> At {
    At::new(FIG14_RUNS, variant)
}

fn fig15(variant: &str) -> At {
    At::new(FIG15_RUNS, variant)
}

fn control(m: &Measured, at: &At, fe: u32, window: Window) -> Samples {
    m.delivered(at, &format!("control{fe}"), window)
}

/// A picture of what is delivered of what is offered, drawn by [`relative`].
const fn by_redirect(draw: fn(&Measured, &mut Lines)) -> Figure {
    Figure {
        title: "Relative throughput (delivered by offered), %",
        x: "redirect messages that each of three FEs is offered, Mbit/s",
        draw,
    }
}

fn relative(m: &Measured, lines: &mut Lines, variant: &str) {
    for (name, kind) in [("control", "tcp"), ("redirect", "udp")] {
        let share = |x| {
            let metric = format!("{kind}_delivered_ratio");
            let share = m.samples(&fig17(variant, x), &metric);
            (f64::from(x), share.map(|share| 100.0 * share))
        };
        lines.swept(name, (5..=50).step_by(5).map(share));
    }
}

pub(super) fn fig17(variant: &str, x: u32) -> At {
    At::new(FIG17_RUNS, format!("{variant}, x {x}"))
}

/// What an FE sends towards the CE, in Mbit/s of frames of 1000 B.
fn frames(m: &Measured, at: &At, fe: u32) -> Samples {
    let seconds = m.window(at).map_or(f64::NAN, |[from, until]| until - from);
    let packets = m.samples(at, &format!("packets_sent.uplink{fe}"));
    packets.map(|packets| packets * 8000.0 / seconds / 1e6)
}

/// Redirect messages of an FE that arrive at the CE, in Mbit/s of frames.
pub(super) fn redirect(m: &Measured, at: &At, fe: u32) -> Samples {
    let goodput = m.samples(at, &format!("goodput_mbps.redirect{fe}"));
    goodput.map(|goodput| goodput / UDP)
}

/// Control messages of all FEs that arrive at the CE, in Mbit/s of frames.
pub(super) fn all_control(m: &Measured, at: &At) -> Samples {
    m.samples(at, "tcp_goodput_mbps")
        .map(|goodput| goodput / TCP)
}

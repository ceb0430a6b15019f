//! Figures 14 to 17: many forwarding elements on the control element's link, without and with flow control.

use super::{TCP, UDP, over_time, throughput};
use crate::reproduce::figure::{Figure, Lines};
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::{Measured, Window};
use crate::reproduce::recipe::{At, Recipe, claim};

const FIG14_RUNS: &str = "forces-flow-control/fig14";
const FIG15_RUNS: &str = "forces-flow-control/fig15";
const FIG17_RUNS: &str = "forces-flow-control/fig17";

/// What passes FE1, and the others: the figures' two pictures.
const FE1: [&str; 3] = ["control1", "redirect1", "attack"];
const OTHERS: [&str; 4] = ["control2", "redirect2", "control3", "redirect3"];

const THREE: &str = "Three uplinks with DPPBRB (R18) and the CE's link with drop-tail, 100 packets each, all at 10 Mbit/s. \
     Messages are frames of 1000 B and rates count frames. Flow control, where it is on: R21, delta = 1 %, by a controller that samples \
     the uplinks every 40 ms.";

pub(super) const FIG14: Recipe = Recipe {
    id: "forces-flow-control/fig14",
    title: "Three FEs, and an attack at one of them",
    notes: &[THREE],
    scenarios: &[FIG14_RUNS],
    readings: &[],
    tables: &[],
    figures: &[
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
    claims: &[
        claim(
            "forces-flow-control/fig14.1",
            "While the sum is below the CE's link, all flows pass",
            |m, f| {
                for fe in 1..=3 {
                    for traffic in ["control", "redirect"] {
                        let name = format!("{traffic}{fe}");
                        let share = m.delivered(&fig14("off"), &name, [0.2, 1.0]);
                        f.at_least(&format!("{name} delivered by offered"), &share, 0.95);
                    }
                }
            },
        ),
        claim(
            "forces-flow-control/fig14.2",
            "Above it every control channel suffers, although the uplinks run DPPBRB",
            |m, f| {
                for fe in 1..=3 {
                    let share = control(m, &fig14("off"), fe, [3.0, 6.0]);
                    f.at_most(&format!("FE{fe}, control messages"), &share, 0.8);
                }
            },
        ),
        claim(
            "forces-flow-control/fig14.3",
            "An attack at one FE harms the others",
            |m, f| {
                for fe in [2, 3] {
                    let share = |window| control(m, &fig14("off"), fe, window);
                    f.less(
                        &format!("FE{fe}, control messages at 3 to 6 s and at 0 to 1 s"),
                        &share([3.0, 6.0]),
                        &share([0.0, 1.0]),
                    );
                }
            },
        ),
    ],
};

pub(super) const FIG15: Recipe = Recipe {
    id: "forces-flow-control/fig15",
    title: "Three FEs that offer more than the CE's link carries",
    notes: &[
        THREE,
        "R22: control messages alone offer 12 Mbit/s, so equation 12 is negative and counts as 0: with flow control no \
         redirect message passes, and what control messages can reach is 10/12.",
    ],
    scenarios: &[FIG14_RUNS, FIG15_RUNS],
    readings: &[],
    tables: &[],
    figures: &[
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
    claims: &[
        claim(
            "forces-flow-control/fig15.1",
            "Overload without any attacker collapses control messages too",
            |m, f| {
                for fe in 1..=3 {
                    let share = control(m, &fig15("off"), fe, [1.0, 6.0]);
                    f.at_most(&format!("FE{fe}, control messages"), &share, 0.7);
                }
            },
        ),
        claim(
            "forces-flow-control/fig15.2",
            "Flow control rescues both cases",
            |m, f| {
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
            },
        ),
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

const FIVE: &str = "Five FEs, all links 100 Mbit/s with drop-tail queues of 100 packets; 30 s for each point. Messages are frames \
     of 1000 B and rates count frames. The paper's test bed is a traffic generator with 100 Mbit/s Ethernet. R21: delta = 1 %.";

pub(super) const FIG16: Recipe = Recipe {
    id: "forces-flow-control/fig16",
    title: "Five FEs without flow control, by what three of them redirect",
    notes: &[FIVE],
    scenarios: &[FIG17_RUNS],
    readings: &[],
    tables: &[],
    figures: &[by_redirect(|m, lines| relative(m, lines, "off"))],
    claims: &[
        claim(
            "forces-flow-control/fig16.1",
            "Control throughput falls as redirect traffic grows",
            |m, f| {
                falls(f, "delivered control messages", "tcp_delivered_ratio", m);
                f.at_most(
                    "at x = 50",
                    &m.samples(&fig17("off", 50), "tcp_delivered_ratio"),
                    0.8,
                );
            },
        ),
        claim(
            "forces-flow-control/fig16.2",
            "No harm before the link is full",
            |m, f| {
                for x in [5, 10, 15, 20] {
                    let share = m.samples(&fig17("off", x), "tcp_delivered_ratio");
                    f.at_least(&format!("control messages at x = {x}"), &share, 0.98);
                }
            },
        ),
        claim(
            "forces-flow-control/fig16.3",
            "Redirect throughput changes too",
            |m, f| falls(f, "delivered redirect messages", "udp_delivered_ratio", m),
        ),
    ],
};

/// What falls from x = 20 on rises from x = 50 back.
fn falls(f: &mut Findings, what: &str, metric: &str, m: &Measured) {
    let back = (4..=10).rev().map(|n| {
        let x = 5 * n;
        (format!("x = {x}"), m.samples(&fig17("off", x), metric))
    });
    f.rises(
        &format!("{what}, from x = 50 back,"),
        &back.collect::<Vec<_>>(),
    );
}

pub(super) const FIG17: Recipe = Recipe {
    id: "forces-flow-control/fig17",
    title: "The same five FEs with flow control",
    notes: &[FIVE],
    scenarios: &[FIG17_RUNS],
    readings: &[],
    tables: &[],
    figures: &[by_redirect(|m, lines| relative(m, lines, "on"))],
    claims: &[
        claim(
            "forces-flow-control/fig17.1",
            "With flow control, control messages stay near 100 %",
            |m, f| {
                for x in (5..=50).step_by(5) {
                    let share = m.samples(&fig17("on", x), "tcp_delivered_ratio");
                    f.at_least(&format!("control messages at x = {x}"), &share, 0.98);
                }
            },
        ),
        claim(
            "forces-flow-control/fig17.2",
            "Some burst is still allowed",
            |m, f| {
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
            },
        ),
        claim(
            "forces-flow-control/fig17.3",
            "Quiet FEs are not harmed",
            |m, f| {
                for fe in [4, 5] {
                    let share = redirect(m, &fig17("on", 50), fe).map(|rate| rate / 5.0);
                    f.at_least(&format!("FE{fe}, redirect messages"), &share, 0.95);
                }
            },
        ),
    ],
};

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

//! Figures 14 to 17: several FEs with and without flow control.

use super::{TCP, UDP, at};
use crate::report::Line;
use crate::reproduce::figure::{curve, swept};
use crate::reproduce::findings::{check, show};
use crate::reproduce::measured::{Measured, Window};
use crate::reproduce::query::{Point, Series, pairs, series};
use crate::reproduce::recipe::{Recipe, claim};
use crate::reproduce::samples::Samples;

/// Delivered by offered load of an FE's control messages.
fn control(m: &Measured, figure: &str, variant: &str, fe: u32, window: Window) -> Samples {
    let traffic = format!("control{fe}");
    at(m, figure, variant).during(window).delivered(&[&traffic])
}

/// Throughput of these flow groups over time.
fn lines(at: &Point<'_>, traffics: &[&str]) -> Vec<Line> {
    let line = |traffic: &&str| {
        let (kind, payload) = if traffic.starts_with("control") {
            ("TCP", TCP)
        } else {
            ("UDP", UDP)
        };
        let goodput = format!("goodput_mbps.{traffic}");
        curve(format!("{traffic} ({kind})"), at, &goodput, 1.0 / payload)
    };
    traffics.iter().map(line).collect()
}

/// Pictures of the first FE's traffic, and of the traffic of the two others.
fn figures(r: &mut Recipe, figure: &'static str, first: &'static [&'static str]) {
    let others: &[&str] = &["control2", "redirect2", "control3", "redirect3"];
    let titles = [
        [
            "(a) FE1, without flow control",
            "(b) FE2 and FE3, without flow control",
        ],
        ["FE1, with flow control", "FE2 and FE3, with flow control"],
    ];
    for (variant, titles) in ["off", "on"].into_iter().zip(titles) {
        for (title, traffics) in titles.into_iter().zip([first, others]) {
            let title = format!("{title}: throughput at the CE, Mbit/s");
            r.figure(title, "time, s", move |m| {
                lines(&at(m, figure, variant), traffics)
            });
        }
    }
}

pub(super) fn fig14(r: &mut Recipe) {
    r.title = "Three FEs, and an attack at one of them";
    r.notes = &[
        "Three uplinks with DPPBRB (R18) and the CE's link with drop-tail, 100 packets each, all \
         at 10 Mbit/s. Messages are frames of 1000 B and rates count frames. Flow control, where \
         it is on: R21, delta = 1 %, by a controller that samples the uplinks every 40 ms.",
    ];
    r.scenarios = &["forces-flow-control/fig14"];
    figures(r, "fig14", &["control1", "redirect1", "attack"]);

    let text = "While the sum is below the CE's link, all flows pass";
    claim(r, "fig14.1", text).measured(|m, f| {
        let at = at(m, "fig14", "off").during([0.2, 1.0]);
        for (fe, traffic) in pairs(&[1, 2, 3], &["control", "redirect"]) {
            let traffic = format!("{traffic}{fe}");
            check!(f, "{traffic} delivered by offered": at_least(at.delivered(&[&traffic]), 0.95));
        }
    });
    let text = "Above it every control channel suffers, although the uplinks run DPPBRB";
    claim(r, "fig14.2", text).measured(|m, f| {
        check!(f, for fe in 1..=3, "FE{fe}, control messages":
            at_most(control(m, "fig14", "off", fe, [3.0, 6.0]), 0.8));
    });
    claim(r, "fig14.3", "An attack at one FE harms the others").measured(|m, f| {
        let during = |fe, window| control(m, "fig14", "off", fe, window);
        check!(f, for fe in [2, 3], "FE{fe}, control messages at 3 to 6 s and at 0 to 1 s":
            less(during(fe, [3.0, 6.0]), during(fe, [0.0, 1.0])));
    });
}

pub(super) fn fig15(r: &mut Recipe) {
    r.title = "Three FEs that offer more than the CE's link carries";
    r.notes = &[
        "Set-up and readings as in forces-flow-control/fig14.",
        "R22: control messages alone offer 12 Mbit/s, so equation 12 is negative and counts as 0: \
         with flow control no redirect message passes, and control messages can reach at most 10/12.",
    ];
    r.scenarios = &["forces-flow-control/fig14", "forces-flow-control/fig15"];
    figures(r, "fig15", &["control1", "redirect1"]);

    let text = "Overload without any attacker collapses control messages too";
    claim(r, "fig15.1", text).measured(|m, f| {
        let control = |variant, fe| control(m, "fig15", variant, fe, [1.0, 6.0]);
        check!(f, for fe in 1..=3, "FE{fe}, control messages": at_most(control("off", fe), 0.7));
        check!(f, for fe in 1..=3, "FE{fe}, control messages without and with flow control":
            less(control("off", fe), control("on", fe)));
    });
    claim(r, "fig15.2", "Flow control rescues both cases").measured(|m, f| {
        check!(f, for fe in 1..=3, "attack, FE{fe}, control messages":
            at_least(control(m, "fig14", "on", fe, [3.0, 6.0]), 0.95));
        let [off, on] = ["off", "on"].map(|variant| {
            let at = at(m, "fig15", variant).during([1.0, 6.0]);
            let [one, two, three] =
                ["control1", "control2", "control3"].map(|name| at.delivered(&[name]));
            4.0 * one + 4.0 * two + 4.0 * three
        });
        check!(f, "overload, control messages of all, Mbit/s": at_least(&on, 9.5));
        check!(f, "overload, without and with flow control, Mbit/s": less(off, on));
    });
}

const FRAME_BITS: f64 = 8000.0;

/// The load of each of three FEs, in Mbit/s.
const OFFERED: [u32; 10] = [5, 10, 15, 20, 25, 30, 35, 40, 45, 50];

/// Five FEs: delivered by offered load of a kind of messages, with flow control on or off.
fn delivered(m: &Measured, flow_control: &str, x: u32, kind: &str) -> Samples {
    let at = at(m, "fig17", format!("{flow_control}, x {x}"));
    at.metric(format!("{kind}_delivered_ratio"))
}

fn relative_throughput(r: &mut Recipe, flow_control: &'static str) {
    let title = "Relative throughput (delivered by offered), %";
    let x = "redirect messages that each of three FEs is offered, Mbit/s";
    r.figure(title, x, move |m| {
        let line = |(name, kind)| {
            swept!(for x in OFFERED, "{name}":
            delivered(m, flow_control, x, kind) * 100.0)
        };
        [("control", "tcp"), ("redirect", "udp")].map(line).into()
    });
}

pub(super) fn fig16(r: &mut Recipe) {
    r.title = "Five FEs without flow control, by the redirect rate of three of them";
    r.notes = &[
        "Five FEs, all links 100 Mbit/s with drop-tail queues of 100 packets; 30 s for each point. \
         Messages are frames of 1000 B and rates count frames. The paper's test bed is a \
         traffic generator with 100 Mbit/s Ethernet. R21: delta = 1 %.",
    ];
    r.scenarios = &["forces-flow-control/fig17"];
    relative_throughput(r, "off");
    /// From a full link on, from much to little.
    fn falling(m: &Measured, kind: &str) -> Series {
        let steps = OFFERED[3..].iter().rev();
        series!(for x in steps, "x = {x}": delivered(m, "off", *x, kind))
    }

    let text = "Control throughput falls as redirect traffic grows";
    claim(r, "fig16.1", text).measured(|m, f| {
        check!(f, "delivered control messages, from x = 50 downwards,": rises(falling(m, "tcp")));
        check!(f, "at x = 50": at_most(delivered(m, "off", 50, "tcp"), 0.8));
    });
    claim(r, "fig16.2", "No harm before the link is full").measured(|m, f| {
        check!(f, for x in [5, 10, 15, 20], "control messages at x = {x}":
            at_least(delivered(m, "off", x, "tcp"), 0.98));
    });
    claim(r, "fig16.3", "Redirect throughput changes too").measured(|m, f| {
        check!(f, "delivered redirect messages, from x = 50 downwards,": rises(falling(m, "udp")));
    });
}

pub(super) fn fig17(r: &mut Recipe) {
    r.title = "The same five FEs with flow control";
    r.notes = &["Set-up and readings as in forces-flow-control/fig16."];
    r.scenarios = &["forces-flow-control/fig17"];
    relative_throughput(r, "on");

    let text = "With flow control, control messages stay near 100 %";
    claim(r, "fig17.1", text).measured(|m, f| {
        check!(f, for x in OFFERED, "control messages at x = {x}":
            at_least(delivered(m, "on", x, "tcp"), 0.98));
    });
    claim(r, "fig17.2", "Some burst is still allowed").measured(|m, f| {
        let at = at(m, "fig17", "on, x 50");
        for fe in 1..=3 {
            let rate = at.metric(format!("goodput_mbps.redirect{fe}")) / UDP;
            let what = format!("busy FE{fe}, Mbit/s of redirect messages");
            f.above(&what, &rate, 15.0);
            f.at_most(&what, rate, 21.92 * 1.05);
        }
        let seconds = at.window().map_or(f64::NAN, |[from, until]| until - from);
        let sent = |fe| at.metric(format!("packets_sent.uplink{fe}")) * FRAME_BITS / seconds / 1e6;
        let all = (1..=5).map(sent).reduce(|a, b| a + b).unwrap_or_default();
        check!(f, "all FEs send to the CE's link, Mbit/s": at_most(all, 101.5));
        show!(f, m, "B_e at x = 50, Mbit/s": at.metric("controller.flow.excess_mbps.mean"));
    });
    claim(r, "fig17.3", "Quiet FEs are not harmed").measured(|m, f| {
        for fe in [4, 5] {
            let goodput = at(m, "fig17", "on, x 50").metric(format!("goodput_mbps.redirect{fe}"));
            check!(f, "FE{fe}, redirect messages": at_least(goodput / UDP / 5.0, 0.95));
        }
    });
}

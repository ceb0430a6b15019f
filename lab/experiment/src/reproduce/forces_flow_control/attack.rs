//! Figures 11 and 12: an attack on one FE, and the disciplines of its channel.

use super::{TCP, UDP, at};
use crate::reproduce::figure::curve;
use crate::reproduce::findings::{Findings, check, show};
use crate::reproduce::measured::{Measured, Window};
use crate::reproduce::query::{Series, pairs, series};
use crate::reproduce::recipe::{Recipe, claim, names};
use crate::reproduce::samples::Samples;
use weir_base::statistics::{mean, slope};

const DISCIPLINES: [&str; 3] = ["dppbrb", "drr", "drop-tail"];

/// While the links are congested.
const CONGESTED: Window = [2.5, 6.0];

/// Delivered divided by offered load of a flow group while the links are congested.
fn delivered(m: &Measured, figure: &str, variant: &str, traffic: &str) -> Samples {
    at(m, figure, variant)
        .during(CONGESTED)
        .delivered(&[traffic])
}

/// The same of control messages.
fn control(m: &Measured, figure: &str, variants: &[&str]) -> Series {
    series!(for variant in variants, "{variant}": delivered(m, figure, variant, "control"))
}

fn all_pass(m: &Measured, f: &mut Findings, figure: &str, traffics: &[&str], window: Window) {
    for (discipline, traffic) in pairs(&DISCIPLINES, traffics) {
        let delivered = at(m, figure, discipline)
            .during(window)
            .delivered(&[traffic]);
        check!(f, "{discipline}, {traffic} delivered by offered": at_least(delivered, 0.95));
    }
}

fn control_keeps_its_rate(m: &Measured, f: &mut Findings, figure: &str) {
    check!(f, "delivered by offered": at_least(delivered(m, figure, "dppbrb", "control"), 0.95));
    show!(f, m, "beside it":
        control(m, figure, &["drop-tail", "drr", "drr by flow", "drr by class"]));
    let readings = names![
        "dppbrb, start 0.5" "dppbrb, K 10 ms" "dppbrb, K 100 ms" "dppbrb, K 500 ms"
        "dppbrb, UDP 210 B"
    ];
    show!(f, m, "other readings": control(m, figure, &readings));
}

fn opposite_under_drr(m: &Measured, f: &mut Findings, figure: &str) {
    let [control, redirect] =
        ["control", "redirect"].map(|traffic| delivered(m, figure, "drr", traffic));
    check!(f, "drr, control messages delivered by offered": at_most(&control, 0.9));
    check!(f, "drr, delivered by offered, control and redirect messages": less(control, redirect));
    f.shown(m, "delivered by offered", |m| {
        let variants = ["drr by flow", "drr by class", "drr, UDP 210 B"];
        series!(for (traffic, variant) in pairs(&["control", "redirect"], &variants),
            "{variant}, {traffic}": delivered(m, figure, variant, traffic))
    });
}

fn drop_tail_is_worse(m: &Measured, f: &mut Findings, figure: &str) {
    let [dppbrb, drr, tail] = DISCIPLINES.map(|name| delivered(m, figure, name, "control"));
    check!(f, "control messages delivered by offered, drop-tail and dppbrb": less(&tail, dppbrb));
    check!(f, "control messages delivered by offered, drop-tail and drr": not_more(tail, drr));
    show!(f, m, "with UDP in packets of 210 B": for name in ["drop-tail", "drr"], "{name}":
        delivered(m, figure, &format!("{name}, UDP 210 B"), "control"));
}

fn figures(r: &mut Recipe, figure: &'static str) {
    for (title, discipline) in [
        ("(a) DPPBRB: throughput at the CE, Mbit/s", "dppbrb"),
        ("(b) DRR: throughput at the CE, Mbit/s", "drr"),
        ("(c) Drop-tail: throughput at the CE, Mbit/s", "drop-tail"),
    ] {
        r.figure(title, "time, s", move |m| {
            let at = at(m, figure, discipline);
            let udp = |name| {
                let goodput = format!("goodput_mbps.{name}");
                curve(format!("{name} (UDP)"), &at, &goodput, 1.0 / UDP)
            };
            let control = curve("control (TCP)", &at, "tcp_mbps", 1.0 / TCP);
            vec![control, udp("redirect"), udp("attack")]
        });
    }
}

pub(super) fn fig11(r: &mut Recipe) {
    r.title = "An attack on one FE, all rates growing: DPPBRB, DRR and drop-tail";
    r.notes = &[
        "R18: 100 packets for each queue of DPPBRB, K = 20 ms, p_c starts at 0.8. R19: DRR's \
         buckets are source addresses, so that control and redirect messages of the source share \
         one; quantum 256 B (our minimum; ns-2 has 250 B); its two buckets share 200 packets. \
         Messages are frames of 1000 B and rates count frames: the paper's rates add up to exactly what the links \
         carry.",
    ];
    r.scenarios = &["forces-flow-control/fig11"];
    figures(r, "fig11");

    let text = "Before congestion all flows pass, under all disciplines";
    claim(r, "fig11.1", text).measured(|m, f| {
        let traffics = ["control", "redirect", "attack"];
        all_pass(m, f, "fig11", &traffics, [0.2, 2.2]);
    });
    let text = "Under DPPBRB control messages keep their rate";
    claim(r, "fig11.2", text).measured(|m, f| control_keeps_its_rate(m, f, "fig11"));
    let text = "Under DPPBRB redirect messages give way as time goes on";
    claim(r, "fig11.3", text).measured(|m, f| {
        let during = |window| at(m, "fig11", "dppbrb").during(window);
        let fall = 0.0 - during(CONGESTED).curve("udp_mbps", slope);
        check!(f, "redirect messages and attack, fall for each 0.1 s": above(fall, 0.0));
        let [late, early] = [[5.0, 6.0], [2.5, 3.5]]
            .map(|window| during(window).curve("goodput_mbps.redirect", mean));
        check!(f, "redirect messages of the source, Mbit/s at 5 to 6 s and at 2.5 to 3.5 s":
            less(late, early));
    });
    claim(r, "fig11.4", "Under DRR it is the opposite").measured(|m, f| {
        opposite_under_drr(m, f, "fig11");
        let during = |from| {
            at(m, "fig11", "drr")
                .during([from, from + 0.5])
                .delivered(&["control"])
        };
        let weighted = 3.0 * during(2.5) + 2.0 * during(3.0) + during(3.5);
        let fall = (weighted - during(4.5) - 2.0 * during(5.0) - 3.0 * during(5.5)) / 28.0;
        check!(f, "delivered share of control messages, fall of the best line for each 0.5 s":
            above(fall, 0.0));
    });
    claim(r, "fig11.5", "Drop-tail is worse still")
        .measured(|m, f| drop_tail_is_worse(m, f, "fig11"));
}

pub(super) fn fig12(r: &mut Recipe) {
    r.title = "An attack on one FE, control and redirect messages at constant rates";
    r.notes = &["Set-up and readings as in forces-flow-control/fig11."];
    r.scenarios = &["forces-flow-control/fig12"];
    figures(r, "fig12");

    let text = "Before the attack the flows pass, under all disciplines";
    claim(r, "fig12.1", text).measured(|m, f| {
        all_pass(m, f, "fig12", &["control", "redirect"], [0.2, 1.0]);
    });
    let text = "Under DPPBRB control messages keep their 4 Mbit/s";
    claim(r, "fig12.2", text).measured(|m, f| control_keeps_its_rate(m, f, "fig12"));
    let text = "Under DPPBRB redirect messages of the source fall with time";
    claim(r, "fig12.3", text).measured(|m, f| {
        let at = at(m, "fig12", "dppbrb").during([1.5, 6.0]);
        let fall = 0.0 - at.curve("goodput_mbps.redirect", slope);
        check!(f, "redirect messages of the source, fall for each 0.1 s": above(fall, 0.0));
    });
    claim(r, "fig12.4", "Under DRR it is the opposite")
        .measured(|m, f| opposite_under_drr(m, f, "fig12"));
    claim(r, "fig12.5", "Drop-tail is worse still")
        .measured(|m, f| drop_tail_is_worse(m, f, "fig12"));
}

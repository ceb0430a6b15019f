//! What the text claims without a figure, and what only a lab with a TML decides.

use super::{UDP, one_fe};
use crate::reproduce::judge::Findings;
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Code};
use crate::statistics::mean;

const TEXT_RUNS: &str = "forces-flow-control/text";
const DEMAND_RUNS: &str = "forces-flow-control/demand";

pub(super) const CODE: Code = Code {
    checks: &[
        ("text.1", one_fe::both_kept),
        ("text.2", |m, f| {
            let share = |variant| m.delivered(&at(variant), "control", [1.0, 6.0]);
            let what = "drop-tail, 4 Mbit/s of control and 12 of redirect messages on 10, control delivered by offered";
            f.at_most(what, &share("crowded"), 0.5);
            f.remark(format!("under DPPBRB: {}", share("protected").shown()));
        }),
        ("text.3", eases),
        ("text.6", demand_rises),
    ],
    remarks: &[],
    figures: &[],
};

/// Mbit/s of control messages from 2 s on.
const DEMANDS: [u32; 3] = [6, 7, 8];

fn demand_rises(m: &Measured, f: &mut Findings) {
    let share = |discipline: &str, demand: u32| {
        let at = At::new(DEMAND_RUNS, format!("{discipline} {demand}"));
        m.delivered_of_all(&at, &["control", "more"], [3.0, 10.0])
    };
    for demand in DEMANDS {
        let what =
            format!("DPPBRB, {demand} of 10 Mbit/s of control messages, delivered by offered");
        f.at_least(&what, &share("dppbrb", demand), 0.98);
    }
    let by_class = DEMANDS.map(|demand| format!("{demand}: {}", share("drr", demand).shown()));
    f.remark(format!(
        "two classes served alike at {}",
        by_class.join(", ")
    ));
}

fn at(variant: &str) -> At {
    At::new(TEXT_RUNS, variant)
}

fn eases(m: &Measured, f: &mut Findings) {
    let share = |window| {
        let goodput = m.curve(&at("eases"), "udp_mbps", window, mean);
        goodput.map(|mbps| mbps / UDP / 10.0)
    };
    f.at_least(
        "control messages stop at 3 s, redirect messages' share of the link from 3.5 s on",
        &share([3.5, 6.0]),
        0.95,
    );
    let (before, after) = (share([1.0, 3.0]).shown(), share([3.0, 3.5]).shown());
    f.remark(format!(
        "before 3 s {before}, in the half second after it {after}"
    ));
}

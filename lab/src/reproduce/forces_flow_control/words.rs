//! What the text claims without a figure, and what only a lab with a TML decides.

use super::{UDP, one_fe};
use crate::reproduce::judge::Findings;
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Claim, Recipe, claim, not_run};
use crate::statistics::mean;

const TEXT_RUNS: &str = "forces-flow-control/text";
const DEMAND_RUNS: &str = "forces-flow-control/demand";

const NEEDS_TML: &str = "needs CETML and FETMLs with one and two threads, which are not built yet";

/// A figure of the TML's performance.
const fn figure(id: &'static str, title: &'static str, claims: &'static [Claim]) -> Recipe {
    Recipe {
        id,
        title,
        notes: &[],
        scenarios: &[],
        readings: &[],
        tables: &[],
        figures: &[],
        claims,
    }
}

pub(super) const FIG7: Recipe = figure(
    "forces-flow-control/fig7",
    "How many FETMLs a CETML serves",
    &[
        not_run(
            "forces-flow-control/fig7.1",
            "One thread serves 11 FETMLs",
            NEEDS_TML,
        ),
        not_run(
            "forces-flow-control/fig7.2",
            "Two threads serve 17, about 1.5 times as many",
            NEEDS_TML,
        ),
        not_run(
            "forces-flow-control/fig7.3",
            "Two threads are better with few FETMLs too",
            NEEDS_TML,
        ),
    ],
);

pub(super) const FIG8: Recipe = figure(
    "forces-flow-control/fig8",
    "Loss by message rate, messages of 1024 B",
    &[
        not_run(
            "forces-flow-control/fig8.1",
            "No loss in either form at low rates",
            NEEDS_TML,
        ),
        not_run(
            "forces-flow-control/fig8.2",
            "Two threads stay lossless 1.5 times further",
            NEEDS_TML,
        ),
        not_run(
            "forces-flow-control/fig8.3",
            "Beyond that, two threads lose less",
            NEEDS_TML,
        ),
    ],
);

pub(super) const FIG9: Recipe = figure(
    "forces-flow-control/fig9",
    "Loss by message rate, messages of 64 B",
    &[
        not_run(
            "forces-flow-control/fig9.1",
            "Loss grows with the rate",
            NEEDS_TML,
        ),
        not_run(
            "forces-flow-control/fig9.2",
            "Small messages are lost earlier, in both forms",
            NEEDS_TML,
        ),
        not_run(
            "forces-flow-control/fig9.3",
            "Two threads are better with small messages too",
            NEEDS_TML,
        ),
    ],
);

pub(super) const TEXT: Recipe = Recipe {
    id: "forces-flow-control/text",
    title: "What the text claims without a figure",
    notes: &["Messages are frames of 1000 B and rates count frames."],
    scenarios: &[TEXT_RUNS, DEMAND_RUNS, one_fe::RUNS[0], one_fe::RUNS[1]],
    readings: &[],
    tables: &[],
    figures: &[],
    claims: &[
        claim(
            "forces-flow-control/text.1",
            "DPPBRB holds for constant rates and for rates that grow",
            one_fe::both_kept,
        ),
        claim(
            "forces-flow-control/text.2",
            "TCP meets the needs of control messages only if it is protected: UDP crowds it out",
            |m, f| {
                let share = |variant| m.delivered(&at(variant), "control", [1.0, 6.0]);
                let what = "drop-tail, 4 Mbit/s of control and 12 of redirect messages on 10, control delivered by offered";
                f.at_most(what, &share("crowded"), 0.5);
                f.remark(format!("under DPPBRB: {}", share("protected").shown()));
            },
        ),
        claim(
            "forces-flow-control/text.3",
            "When control messages ease, redirect messages get the bandwidth back",
            eases,
        ),
        not_run(
            "forces-flow-control/text.4",
            "Joining small packets into large ones raises the forwarding rate",
            NEEDS_TML,
        ),
        not_run(
            "forces-flow-control/text.5",
            "Attackers cannot cut the CE from its FEs",
            "needs associations and heartbeats of ForCES, which are not built yet",
        ),
        claim(
            "forces-flow-control/text.6",
            "(ours) DPPBRB earns its place where a fixed share does not do: control messages need more than it",
            demand_rises,
        ),
    ],
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

//! The network without a mechanism, and what the other readings make of it.

use super::{DELAY, GOODPUT, LISTED, NONE, READINGS, none, of};
use crate::reproduce::judge::Findings;
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Line, Recipe, Table, claim, column};

pub(super) const BASIC: Recipe = Recipe {
    id: "afan-eccm/basic",
    title: "100 Mbit/s without a mechanism",
    notes: &[
        "R11 is calibrated on this link, so that its three numbers are no evidence: access links of 1 Gbit/s, transfers that \
         outlast the run, delays of 0.1 ms and 1 ms. Then some 23 elastic flows are on the list, and streams that come before \
         the link is full are let in at once, all others never: that, counted to the end of the run, is the paper's delay.",
        "As printed streams do not wait 200 s. A TCP connection behind 10 Mbit/s never has more than an MTU waiting on a link \
         of 100 Mbit/s until more than ten of them are there: it counts as streaming, and seven of them are a priority load \
         of 70 %. And transfers end: one of 70 Mbit, the least, takes 16 s at 4.4 Mbit/s; whoever sends then gets in.",
    ],
    scenarios: &[NONE],
    readings: &[READINGS],
    tables: &[Table {
        columns: &[
            column("acceptance delay, s", DELAY),
            column("goodput of an elastic flow, Mbit/s", GOODPUT),
            column("elastic flows on the list", LISTED),
        ],
        lines: &[
            line(&[("reading", "as read")], NONE, "none"),
            line(
                &[("reading", "access links of 10 Mbit/s")],
                READINGS,
                "access as printed",
            ),
            line(
                &[("reading", "transfers of 210 Mbit")],
                READINGS,
                "volumes as printed",
            ),
            line(
                &[("reading", "delays of 1 ms and 10 ms")],
                READINGS,
                "delays as printed",
            ),
            line(
                &[("reading", "streams from 20 s on (R10)")],
                READINGS,
                "streams from 20 s",
            ),
            line(
                &[("reading", "window of 20 packets")],
                READINGS,
                "window of 20 packets",
            ),
            line(
                &[("reading", "buffer of 1000 packets")],
                READINGS,
                "buffer of 1000 packets",
            ),
        ],
    }],
    figures: &[],
    claims: &[
        claim(
            "afan-eccm/basic.1",
            "Without a mechanism streams wait unacceptably long",
            |m, f| {
                f.above("mean acceptance delay, s", &none(m, DELAY), 11.0);
                let others = readings(m, DELAY);
                f.remark(format!(
                    "of those let in only {}; never let in {} of 20; other readings: {others}",
                    none(m, "acceptance_delay_s_accepted.stream").shown(),
                    none(m, "never_accepted_flows.stream").shown(),
                ));
            },
        )
        .calibrated(),
        claim(
            "afan-eccm/basic.2",
            "Elastic goodput about 3.7 Mb/s",
            |m, f| {
                f.between("goodput, Mbit/s", &none(m, GOODPUT), [2.8, 4.7]);
                let all = none(m, "tcp_goodput_mbps");
                let each = all.with(&none(m, LISTED), |all, flows| all / flows);
                let others = readings(m, GOODPUT);
                f.remark(format!(
                    "goodput of the link over flows on the list {}; other readings: {others}",
                    each.shown()
                ));
            },
        )
        .calibrated(),
        claim("afan-eccm/basic.3", "PFL size about 23", |m, f| {
            f.between("elastic flows on the list", &none(m, LISTED), [19.0, 27.0]);
            f.remark(format!("other readings: {}", readings(m, LISTED)));
        })
        .calibrated(),
        claim(
            "afan-eccm/basic.4",
            "Printed values agree with the link",
            |_, f| {
                let all = 22.9 * 3.71;
                f.is(
                    format!("22.9 x 3.71 = {all:.1} <= 100 Mbit/s"),
                    all <= 100.0,
                );
                let each = 100.0 / 22.9;
                f.is(format!("100 / 22.9 = {each:.2} < 5 Mbit/s"), each < 5.0);
            },
        ),
    ],
};

/// The readings, in the order of remarks.
const OTHERS: [&str; 6] = [
    "access as printed",
    "volumes as printed",
    "delays as printed",
    "streams from 20 s",
    "window of 20 packets",
    "buffer of 1000 packets",
];

const fn line(
    set: &'static [(&'static str, &'static str)],
    scenario: &'static str,
    variant: &'static str,
) -> Line {
    Line {
        set,
        scenario,
        variant,
        place: &[],
        numbers: &[201.66, 3.71, 22.9],
    }
}

/// A metric of the basic network as printed, and with one value at a time read otherwise.
fn readings(m: &Measured, metric: &str) -> String {
    let others = OTHERS.iter().map(|reading| {
        let value = m.samples(&At::new(READINGS, *reading), metric);
        format!("{reading} {}", value.shown())
    });
    let printed = m.as_printed();
    let printed = printed.map(|m| format!("as printed {}", none(m, metric).shown()));
    let all: Vec<_> = printed.into_iter().chain(others).collect();
    all.join("; ")
}

/// Adds what some points have as printed to the evidence.
pub(super) fn remark(m: &Measured, f: &mut Findings, metric: &str) {
    let Some(printed) = m.as_printed() else {
        return;
    };
    let points = [
        ("efmp", 3),
        ("ramaf", 3),
        ("ramaf", 9),
        ("eccm", 3),
        ("eccm", 9),
    ];
    let shown = points.map(|(mechanism, interval)| {
        let value = of(printed, mechanism, interval, metric);
        format!("{mechanism} {interval} {}", value.shown())
    });
    let basic = none(printed, metric).shown();
    f.remark(format!("as printed: none {basic}, {}", shown.join(", ")));
}

//! The network without a mechanism, and what the other readings make of it.

use super::{
    BUFFER, DELAY, ENDLESS, FAST, GOODPUT, LATE, LISTED, NONE, SLOW_ENDLESS, WINDOW, none,
};
use crate::reproduce::judge::Findings;
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Batch, Line, Recipe, Table, claim, column};

pub(super) const BASIC: Recipe = Recipe {
    id: "afan-eccm/basic",
    title: "100 Mbit/s without a mechanism",
    notes: &[
        "As read (R11: access links of 10 Mbit/s, transfers of 210 Mbit on average) streams do not wait 200 s. Two \
         things keep the paper's numbers away. First, transfers end: one of 70 Mbit, the least, takes 16 s at \
         4.4 Mbit/s, so that half of those on the list are gone after half a minute, the fair rate rises, and \
         whoever sends gets in; a stream sends every 10 ms. Second, a TCP connection behind 10 Mbit/s never has \
         more than an MTU waiting on a link of 100 Mbit/s until more than ten of them are there: it counts as \
         streaming, and seven of them are a priority load of 70 %.",
        "With access links of 1 Gbit/s, as Table I prints them, and transfers that do not end in 300 s, the \
         three numbers come out together: some 22 flows on the list, some 4.3 Mbit/s each, and streams that came \
         before the link was full are let in at once, all others never: that, counted to the end of the run, is \
         a delay of two to three hundred seconds, as the paper has it. So the paper's simulation very likely had \
         transfers that outlast the run, and access links faster than the FAN link.",
    ],
    batches: &[
        &NONE,
        &FAST,
        &ENDLESS,
        &SLOW_ENDLESS,
        &LATE,
        &WINDOW,
        &BUFFER,
    ],
    tables: &[Table {
        columns: &[
            column("acceptance delay, s", DELAY),
            column("goodput of an elastic flow, Mbit/s", GOODPUT),
            column("elastic flows on the list", LISTED),
        ],
        lines: &[
            line(&[("reading", "as read")], NONE),
            line(&[("reading", "access links of 1 Gbit/s")], FAST),
            line(
                &[("reading", "access 1 Gbit/s, endless transfers")],
                ENDLESS,
            ),
            line(&[("reading", "endless transfers")], SLOW_ENDLESS),
            line(&[("reading", "streams from 20 s on (R10)")], LATE),
            line(&[("reading", "window of 20 packets")], WINDOW),
            line(&[("reading", "buffer of 1000 packets (R11)")], BUFFER),
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
        ),
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
        ),
        claim("afan-eccm/basic.3", "PFL size about 23", |m, f| {
            f.between("elastic flows on the list", &none(m, LISTED), [19.0, 27.0]);
            f.remark(format!("other readings: {}", readings(m, LISTED)));
        }),
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

const fn line(set: &'static [(&'static str, &'static str)], batch: Batch) -> Line {
    Line {
        set,
        batch: batch.name,
        variant: "none",
        place: &[],
        numbers: &[201.66, 3.71, 22.9],
    }
}

/// A metric of the basic network under the other readings.
fn readings(m: &Measured, metric: &str) -> String {
    let batches = [FAST, ENDLESS, SLOW_ENDLESS, LATE, WINDOW, BUFFER];
    let shown = batches.iter().map(|batch| {
        let value = m.samples(&At::new(batch.name, "none"), metric);
        format!("{} {}", batch.name, value.shown())
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// What the other readings make of mechanisms, for remarks elsewhere.
pub(super) fn mechanisms(m: &Measured, metric: &str) -> String {
    let shown = [FAST, ENDLESS].map(|batch| {
        let values = super::READ.iter().map(|variant| {
            let value = m.samples(&At::new(batch.name, *variant), metric);
            format!("{variant} {}", value.shown())
        });
        format!("{}: {}", batch.name, values.collect::<Vec<_>>().join(", "))
    });
    shown.join("; ")
}

/// Adds them to the evidence.
pub(super) fn remark(m: &Measured, f: &mut Findings, metric: &str) {
    f.remark(format!("other readings, {}", mechanisms(m, metric)));
}

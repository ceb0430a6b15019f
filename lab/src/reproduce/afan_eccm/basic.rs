//! The network without a mechanism, and what the other readings make of it.

use super::{DELAY, GOODPUT, LISTED, READINGS, none, of};
use crate::reproduce::judge::Findings;
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Code};

pub(super) const CODE: Code = Code {
    checks: &[
        ("basic.1", |m, f| {
            f.above("mean acceptance delay, s", &none(m, DELAY), 11.0);
            let others = readings(m, DELAY);
            f.remark(format!(
                "of those let in only {}; never let in {} of 20; other readings: {others}",
                none(m, "acceptance_delay_s_accepted.stream").shown(),
                none(m, "never_accepted_flows.stream").shown(),
            ));
        }),
        ("basic.2", |m, f| {
            f.between("goodput, Mbit/s", &none(m, GOODPUT), [2.8, 4.7]);
            let all = none(m, "tcp_goodput_mbps");
            let each = all.with(&none(m, LISTED), |all, flows| all / flows);
            let others = readings(m, GOODPUT);
            f.remark(format!(
                "goodput of the link over flows on the list {}; other readings: {others}",
                each.shown()
            ));
        }),
        ("basic.3", |m, f| {
            f.between("elastic flows on the list", &none(m, LISTED), [19.0, 27.0]);
            f.remark(format!("other readings: {}", readings(m, LISTED)));
        }),
        ("basic.4", |_, f| {
            let all = 22.9 * 3.71;
            f.is(
                format!("22.9 x 3.71 = {all:.1} <= 100 Mbit/s"),
                all <= 100.0,
            );
            let each = 100.0 / 22.9;
            f.is(format!("100 / 22.9 = {each:.2} < 5 Mbit/s"), each < 5.0);
        }),
    ],
    remarks: &[],
    figures: &[],
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

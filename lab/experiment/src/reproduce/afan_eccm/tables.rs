//! Tables II and III: a link of 1 Gbit/s.

use super::{BOTH, DELAY, GOODPUT, LOCAL, gigabit};
use crate::reproduce::findings::check;
use crate::reproduce::measured::Measured;
use crate::reproduce::query::{Quantity, pairs};
use crate::reproduce::recipe::{Recipe, TOLERANCE, claim, line};
use crate::reproduce::samples::Samples;

/// The lines of Tables II and III: the mechanism and its interval.
const GIGABIT: [(&str, Option<u32>, &str); 5] = [
    ("none", None, "none"),
    ("RAMAF", Some(3), "ramaf 3"),
    ("RAMAF", Some(6), "ramaf 6"),
    ("ECCM", Some(3), "eccm 3"),
    ("ECCM", Some(6), "eccm 6"),
];
const TABLE_2: [f64; 5] = [82.7, 2.42, 2.93, 1.42, 2.57];
const TABLE_3: [f64; 5] = [4.42, 3.32, 3.8, 3.57, 4.28];

fn gigabit_table(r: &mut Recipe, column: &'static str, printed: [f64; 5], ours: Quantity) {
    for ((mechanism, interval, variant), printed) in GIGABIT.into_iter().zip(printed) {
        let interval = interval.map(|s| ("interval, s", s.into()));
        let place = [("mechanism", mechanism.into())]
            .into_iter()
            .chain(interval);
        line(r, place, &[column], [printed], [TOLERANCE])
            .ours(move |m| [ours(&m.at("afan-eccm/gigabit", variant))]);
    }
}

pub(super) fn table2(r: &mut Recipe) {
    r.title = "Acceptance delay at 1 Gbit/s";
    r.notes = &[
        "R11 as in afan-eccm/basic, with ten times the rates: access links of 10 Gbit/s, delays of \
         0.01 ms and 0.2 ms. Arrivals every 0.2 s are printed, and run: 1500 of the 4000 transfers \
         begin in 300 s.",
        "R12: the goodput of Table III counts in units of 10 Mbit/s for each flow; only ratios \
         decide. R29 as in afan-eccm/fig7.",
    ];
    r.scenarios = &["afan-eccm/gigabit", "afan-eccm/mechanisms"];
    gigabit_table(r, "acceptance delay, s", TABLE_2, |at| at.metric(DELAY));
    fn delay(m: &Measured, mechanism: &str, interval: u32) -> Samples {
        gigabit(m, mechanism, interval).metric(DELAY)
    }

    claim(r, "table2.1", "1 Gb/s: both cut d_acc strongly").measured(|m, f| {
        let basic = m.at("afan-eccm/gigabit", "none").metric(DELAY);
        check!(f, for (name, s) in pairs(&BOTH, &[3, 6]), "delay, basic to {name} {s} s":
            times(&basic, delay(m, name, s), 10.0));
    });
    claim(r, "table2.2", "1 Gb/s: ECCM below RAMAF").measured(|m, f| {
        let [ramaf, eccm] = BOTH.map(|name| move |s| delay(m, name, s));
        check!(f, "delay at 3 s, ECCM and RAMAF": less(eccm(3), ramaf(3)));
        check!(f, "delay at 6 s, ECCM and RAMAF": not_more(eccm(6), ramaf(6)));
    });
    claim(r, "table2.3", "1 Gb/s: local bound met").measured(|m, f| {
        check!(f, for (name, s) in pairs(&BOTH, &[3, 6]), "delay, {name} {s} s":
            at_most(delay(m, name, s), LOCAL));
    });
    claim(r, "table2.4", "d_acc near half the interval").measured(|m, f| {
        check!(f, "delay, ECCM 3 s": between(delay(m, "eccm", 3), [1.2, 2.8]));
        check!(f, "delay, ECCM 6 s": between(delay(m, "eccm", 6), [2.1, 4.9]));
    });
}

pub(super) fn table3(r: &mut Recipe) {
    r.title = "Goodput at 1 Gbit/s";
    r.notes = &["Set-up and readings as in afan-eccm/table2."];
    r.scenarios = &["afan-eccm/gigabit"];
    let column = "goodput of an elastic flow, 10 Mbit/s";
    gigabit_table(r, column, TABLE_3, |at| at.metric(GOODPUT) * 0.1);
    fn goodput(m: &Measured, mechanism: &str, interval: u32) -> Samples {
        gigabit(m, mechanism, interval).metric(GOODPUT)
    }

    claim(r, "table3.1", "ECCM goodput at least RAMAF's").measured(|m, f| {
        // The interval decides, not the mean.
        check!(f, for s in [3, 6], "goodput at {s} s, RAMAF and ECCM":
            not_more(goodput(m, "ramaf", s), goodput(m, "eccm", s)));
    });
    claim(r, "table3.2", "ECCM like the basic link").measured(|m, f| {
        let basic = m.at("afan-eccm/gigabit", "none").metric(GOODPUT);
        check!(f, for (s, factor) in [(6, 0.9), (3, 0.75)], "goodput, ECCM {s} s to basic":
            times(gigabit(m, "eccm", s).metric(GOODPUT), &basic, factor));
    });
    claim(r, "table3.3", "RAMAF loses more").measured(|m, f| {
        check!(f, for s in [3, 6], "goodput at {s} s, RAMAF and ECCM":
            less(goodput(m, "ramaf", s), goodput(m, "eccm", s)));
    });
    claim(r, "table3.4", "Longer interval, higher goodput").measured(|m, f| {
        for name in BOTH {
            let [short, long] = [3, 6].map(|s| gigabit(m, name, s).metric(GOODPUT));
            check!(f, "goodput, {name} at 3 s and 6 s": less(short, long));
        }
    });
}

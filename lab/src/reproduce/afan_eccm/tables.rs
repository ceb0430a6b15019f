//! Tables II and III: acceptance delay and goodput at 1 Gbit/s.

use super::{DELAY, FIGURES, GIGABIT, GOODPUT, of};
use crate::reproduce::judge::Samples;
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Column, Line, Recipe, TOLERANCE, Table, claim, column};

const CELLS: [(&str, u32); 4] = [("ramaf", 3), ("ramaf", 6), ("eccm", 3), ("eccm", 6)];
const NOTES: &[&str] = &[
    "R11 as in afan-eccm/basic, with ten times the rates: access links of 10 Gbit/s, delays of 0.01 ms and 0.2 ms. Arrivals \
     every 0.2 s are printed, and run: 1500 of the 4000 transfers begin in 300 s.",
    "R12: the goodput of Table III counts in units of 10 Mbit/s for each flow; only ratios decide. R29 as in afan-eccm/fig8.",
];

const fn line(
    set: &'static [(&'static str, &'static str)],
    variant: &'static str,
    numbers: &'static [f64],
) -> Line {
    Line {
        set,
        scenario: GIGABIT,
        variant,
        place: &[],
        numbers,
    }
}

pub(super) const TABLE2: Recipe = Recipe {
    id: "afan-eccm/table2",
    title: "Acceptance delay at 1 Gbit/s",
    notes: NOTES,
    scenarios: &[GIGABIT, FIGURES],
    readings: &[],
    tables: &[Table {
        columns: &[column("acceptance delay, s", DELAY)],
        lines: &[
            line(&[("mechanism", "none")], "none", &[82.70]),
            line(
                &[("mechanism", "RAMAF"), ("interval, s", "3")],
                "ramaf 3",
                &[2.42],
            ),
            line(
                &[("mechanism", "RAMAF"), ("interval, s", "6")],
                "ramaf 6",
                &[2.93],
            ),
            line(
                &[("mechanism", "ECCM"), ("interval, s", "3")],
                "eccm 3",
                &[1.42],
            ),
            line(
                &[("mechanism", "ECCM"), ("interval, s", "6")],
                "eccm 6",
                &[2.57],
            ),
        ],
    }],
    figures: &[],
    claims: &[
        claim(
            "afan-eccm/table2.1",
            "1 Gb/s: both cut d_acc strongly",
            |m, f| {
                for (mechanism, i) in CELLS {
                    let what = format!("delay, basic to {mechanism} {i} s");
                    f.times(&what, &basic(m, DELAY), &cell(m, mechanism, i, DELAY), 10.0);
                }
            },
        ),
        claim("afan-eccm/table2.2", "1 Gb/s: ECCM below RAMAF", |m, f| {
            let pair = |i| (cell(m, "eccm", i, DELAY), cell(m, "ramaf", i, DELAY));
            let (eccm, ramaf) = pair(3);
            f.less("delay at 3 s, ECCM and RAMAF", &eccm, &ramaf);
            let (eccm, ramaf) = pair(6);
            f.not_more("delay at 6 s, ECCM and RAMAF", &eccm, &ramaf);
        }),
        claim("afan-eccm/table2.3", "1 Gb/s: local bound met", |m, f| {
            for (mechanism, i) in CELLS {
                let what = format!("delay, {mechanism} {i} s");
                f.at_most(&what, &cell(m, mechanism, i, DELAY), 6.0);
            }
        }),
        claim(
            "afan-eccm/table2.4",
            "d_acc near half the interval",
            |m, f| {
                for i in [3, 6] {
                    let half = 0.5 * (f64::from(i) + 1.0);
                    let range = [0.6 * half, 1.4 * half];
                    f.between(
                        &format!("delay, ECCM {i} s"),
                        &cell(m, "eccm", i, DELAY),
                        range,
                    );
                }
            },
        ),
    ],
};

pub(super) const TABLE3: Recipe = Recipe {
    id: "afan-eccm/table3",
    title: "Goodput at 1 Gbit/s",
    notes: NOTES,
    scenarios: &[GIGABIT],
    readings: &[],
    tables: &[Table {
        columns: &[Column {
            name: "goodput of an elastic flow, 10 Mbit/s",
            metric: GOODPUT,
            plus: None,
            scale: 0.1,
            tolerance: TOLERANCE,
        }],
        lines: &[
            line(&[("mechanism", "none")], "none", &[4.42]),
            line(
                &[("mechanism", "RAMAF"), ("interval, s", "3")],
                "ramaf 3",
                &[3.32],
            ),
            line(
                &[("mechanism", "RAMAF"), ("interval, s", "6")],
                "ramaf 6",
                &[3.80],
            ),
            line(
                &[("mechanism", "ECCM"), ("interval, s", "3")],
                "eccm 3",
                &[3.57],
            ),
            line(
                &[("mechanism", "ECCM"), ("interval, s", "6")],
                "eccm 6",
                &[4.28],
            ),
        ],
    }],
    figures: &[],
    claims: &[
        claim(
            "afan-eccm/table3.1",
            "ECCM goodput at least RAMAF's",
            |m, f| {
                for i in [3, 6] {
                    let (ramaf, eccm) = (cell(m, "ramaf", i, GOODPUT), cell(m, "eccm", i, GOODPUT));
                    f.not_more(&format!("goodput at {i} s, RAMAF and ECCM"), &ramaf, &eccm);
                }
            },
        ),
        claim("afan-eccm/table3.2", "ECCM like the basic link", |m, f| {
            for (i, share) in [(6, 0.90), (3, 0.75)] {
                let what = format!("goodput, ECCM {i} s to basic");
                f.times(
                    &what,
                    &cell(m, "eccm", i, GOODPUT),
                    &basic(m, GOODPUT),
                    share,
                );
            }
        }),
        claim("afan-eccm/table3.3", "RAMAF loses more", |m, f| {
            for i in [3, 6] {
                let (ramaf, eccm) = (cell(m, "ramaf", i, GOODPUT), cell(m, "eccm", i, GOODPUT));
                f.less(&format!("goodput at {i} s, RAMAF and ECCM"), &ramaf, &eccm);
            }
        }),
        claim(
            "afan-eccm/table3.4",
            "Longer interval, higher goodput",
            |m, f| {
                for mechanism in ["ramaf", "eccm"] {
                    let at = |i| cell(m, mechanism, i, GOODPUT);
                    f.less(
                        &format!("goodput, {mechanism} at 3 s and 6 s"),
                        &at(3),
                        &at(6),
                    );
                }
            },
        ),
    ],
};

fn basic(m: &Measured, metric: &str) -> Samples {
    m.samples(&At::new(GIGABIT, "none"), metric)
}

/// A cell of the tables.
pub(super) fn cell(m: &Measured, mechanism: &str, interval: u32, metric: &str) -> Samples {
    m.samples(&At::new(GIGABIT, format!("{mechanism} {interval}")), metric)
}

/// The delay at 1 Gbit/s and that at 100 Mbit/s.
pub(super) fn scaled(m: &Measured, mechanism: &str, interval: u32) -> [Samples; 2] {
    [
        cell(m, mechanism, interval, DELAY),
        of(m, mechanism, interval, DELAY),
    ]
}

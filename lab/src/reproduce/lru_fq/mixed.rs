//! Tables III and IV: loads that need no holding back.

use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Column, Line, Recipe, TOLERANCE, Table, claim, column};

const TABLE3_RUNS: &str = "lru-fq/table3";
const TABLE4_RUNS: &str = "lru-fq/table4";

macro_rules! lines {
    ($($router:literal $variant:literal $flows:literal: $numbers:expr;)*) => {
        &[$(Line {
            set: &[("router", $router), ("flows", $flows)],
            scenario: TABLE3_RUNS,
            variant: $variant,
            place: &[("count", $flows)],
            numbers: &$numbers,
        }),*]
    };
}

const TABLE_III: Table = Table {
    columns: &[
        column("mean of a flow, Mbit/s", "tcp_flow_goodput_mbps_mean"),
        Column {
            name: "deviation of a flow, Mbit/s",
            metric: "tcp_flow_goodput_mbps_dev",
            plus: None,
            scale: 1.0,
            // One spread of twenty numbers, and the paper does not say over how long: a factor of two.
            tolerance: 1.0,
        },
        column("total, Mbit/s", "tcp_goodput_mbps"),
    ],
    lines: lines! {
        "normal" "fifo" "15": [6.194959, 0.273623, 92.92439];
        "normal" "fifo" "20": [4.637118, 0.246848, 92.74325];
        "normal" "fifo" "25": [3.710390, 0.179423, 92.75976];
        "LRU-FQ" "lru_fq" "15": [6.196750, 0.104381, 92.95125];
        "LRU-FQ" "lru_fq" "20": [4.627254, 0.235561, 92.54508];
        "LRU-FQ" "lru_fq" "25": [3.709822, 0.285475, 92.74556];
    },
};

pub(super) const TABLE3: Recipe = Recipe {
    id: "lru-fq/table3",
    title: "Table III: long TCP connections only",
    notes: &[
        "Readings as in lru-fq/fig5a. A cache of 9, admission with 1/55, both queues with the same weight.",
        "Our totals are the link: 1460 of 1538 bytes are payload, 94.93 Mbit/s. The paper's 92.8 are 98 % of it.",
    ],
    scenarios: &[TABLE3_RUNS],
    readings: &[],
    tables: &[TABLE_III],
    figures: &[],
    claims: &[
        claim(
            "lru-fq/table3.1",
            "Responsive-only load: total unharmed",
            |m, f| {
                unharmed(m, f, "tcp_goodput_mbps");
            },
        ),
        claim("lru-fq/table3.2", "Mean per flow unharmed", |m, f| {
            unharmed(m, f, "tcp_flow_goodput_mbps_mean");
        }),
        claim("lru-fq/table3.3", "Fairness among them unharmed", fairness),
        claim("lru-fq/table3.4", "Printed totals = flows x mean", totals),
    ],
};

const FLOWS: [u32; 3] = [15, 20, 25];

fn both(m: &Measured, flows: u32, metric: &str) -> [Samples; 2] {
    ["fifo", "lru_fq"]
        .map(|router| m.samples(&At::new(TABLE3_RUNS, router).and("count", flows), metric))
}

fn unharmed(m: &Measured, f: &mut Findings, metric: &str) {
    for flows in FLOWS {
        let [normal, ours] = both(m, flows, metric);
        f.within(
            &format!("{flows} flows, LRU-FQ to normal, Mbit/s"),
            &ours,
            &normal,
            0.01,
        );
    }
}

fn fairness(m: &Measured, f: &mut Findings) {
    for flows in FLOWS {
        let [normal, ours] = both(m, flows, "jain_index");
        f.at_least(&format!("{flows} flows, LRU-FQ, Jain's index"), &ours, 0.98);
        let lost = ours.less(&normal);
        f.at_least(
            &format!("{flows} flows, index of LRU-FQ less that of normal"),
            &lost,
            -0.01,
        );
    }
}

/// Only the paper's numbers.
fn totals(_: &Measured, f: &mut Findings) {
    for line in TABLE_III.lines {
        let ([mean, _, total], [(_, router), (_, flows)]) = (line.numbers, line.set) else {
            unreachable!("the table has three columns")
        };
        let flows: f64 = flows.parse().unwrap_or(f64::NAN);
        let off = mean * flows / total - 1.0;
        let what = format!("{router}, {flows} flows: off by {:.4} %", 100.0 * off);
        f.is(what, off.abs() <= 1e-4);
    }
}

const TABLE_IV: [Table; 3] = [
    table_iv(
        &PER_FLOW_2,
        &[line_iv(
            "lru_fq 2",
            &[("UDP flows", "2"), ("TCP flows", "18")],
            &[4.9141, 4.6327, 4.6608],
        )],
    ),
    table_iv(
        &PER_FLOW_3,
        &[line_iv(
            "lru_fq 3",
            &[("UDP flows", "3"), ("TCP flows", "17")],
            &[4.7240, 4.6607, 4.6702],
        )],
    ),
    table_iv(
        &PER_FLOW_4,
        &[line_iv(
            "lru_fq 4",
            &[("UDP flows", "4"), ("TCP flows", "16")],
            &[4.5839, 4.7015, 4.6780],
        )],
    ),
];

const PER_FLOW_2: [Column; 3] = per_flow(2);
const PER_FLOW_3: [Column; 3] = per_flow(3);
const PER_FLOW_4: [Column; 3] = per_flow(4);

const fn table_iv(columns: &'static [Column; 3], lines: &'static [Line; 1]) -> Table {
    Table { columns, lines }
}

/// Means of a UDP flow, a TCP flow, and all twenty.
const fn per_flow(udp: u32) -> [Column; 3] {
    [
        Column {
            name: "mean of a UDP flow, Mbit/s",
            metric: "udp_goodput_mbps",
            plus: None,
            scale: 1.0 / udp as f64,
            tolerance: TOLERANCE,
        },
        Column {
            name: "mean of a TCP flow, Mbit/s",
            metric: "tcp_goodput_mbps",
            plus: None,
            scale: 1.0 / (20 - udp) as f64,
            tolerance: TOLERANCE,
        },
        Column {
            name: "mean of all flows, Mbit/s",
            metric: "udp_goodput_mbps",
            plus: Some("tcp_goodput_mbps"),
            scale: 1.0 / 20.0,
            tolerance: TOLERANCE,
        },
    ]
}

const fn line_iv(
    variant: &'static str,
    set: &'static [(&'static str, &'static str)],
    numbers: &'static [f64],
) -> Line {
    Line {
        set,
        scenario: TABLE4_RUNS,
        variant,
        place: &[],
        numbers,
    }
}

pub(super) const TABLE4: Recipe = Recipe {
    id: "lru-fq/table4",
    title: "Table IV: UDP that keeps to its share",
    notes: &[
        "R27: each UDP flow offers 5 Mbit/s of payload, the link over twenty. A cache of 9, admission with 1/55, both \
         queues with the same weight.",
    ],
    scenarios: &[TABLE4_RUNS],
    readings: &[],
    tables: &TABLE_IV,
    figures: &[],
    claims: &[
        claim(
            "lru-fq/table4.1",
            "UDP at its fair share is not penalised",
            udp_unharmed,
        ),
        claim("lru-fq/table4.2", "TCP is not harmed either", tcp_unharmed),
        claim("lru-fq/table4.3", "Printed ideal = weighted mean", ideal),
    ],
};

/// Mean of a UDP flow, of a TCP flow, and of all flows.
fn means(m: &Measured, router: &str, floods: u32) -> [Samples; 3] {
    let at = At::new(TABLE4_RUNS, format!("{router} {floods}"));
    let [udp, tcp] = ["udp", "tcp"].map(|kind| m.samples(&at, &format!("{kind}_goodput_mbps")));
    let all = udp.with(&tcp, |udp, tcp| (udp + tcp) / 20.0);
    let (udp, tcp) = (
        udp.map(|sum| sum / f64::from(floods)),
        tcp.map(|sum| sum / f64::from(20 - floods)),
    );
    [udp, tcp, all]
}

fn udp_unharmed(m: &Measured, f: &mut Findings) {
    for floods in 2..=4 {
        let [udp, _, all] = means(m, "lru_fq", floods);
        let [normal, ..] = means(m, "fifo", floods);
        f.times(
            &format!("{floods} UDP flows, one of them to the mean of all"),
            &udp,
            &all,
            0.95,
        );
        f.times(
            &format!("{floods} UDP flows, LRU-FQ to normal"),
            &udp,
            &normal,
            0.95,
        );
        let at = At::new(TABLE4_RUNS, format!("lru_fq {floods}"));
        let hogs = m
            .samples(&at, "hog_flows.bottleneck.flood")
            .map(|hogs| hogs / f64::from(floods));
        f.remark(format!(
            "{floods} UDP flows are treated as hogs {} of the time",
            hogs.shown()
        ));
    }
}

fn tcp_unharmed(m: &Measured, f: &mut Findings) {
    for floods in 2..=4 {
        let [_, tcp, all] = means(m, "lru_fq", floods);
        f.times(
            &format!("{floods} UDP flows, a TCP flow to the mean of all"),
            &tcp,
            &all,
            0.97,
        );
    }
}

/// Only the paper's numbers.
fn ideal(_: &Measured, f: &mut Findings) {
    let lines = TABLE_IV.iter().flat_map(|table| table.lines);
    for (line, floods) in lines.zip([2.0, 3.0, 4.0]) {
        let [udp, tcp, printed] = line.numbers else {
            unreachable!("the table has three columns")
        };
        let mean = (floods * udp + (20.0 - floods) * tcp) / 20.0;
        let what = format!("{floods} UDP flows: {mean:.4}, printed {printed:.4}");
        f.is(what, (mean - printed).abs() <= 0.001);
    }
}

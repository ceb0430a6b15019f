//! Tables I and II: the web beside long flows.

use super::{HUB, READINGS, SHARE, readings};
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Column, Line, Recipe, TOLERANCE, Table, claim, column};

/// The paper's length: 600 s, nothing left out. The file is shorter, because it is for the lab too.
pub(super) const TABLE1_RUNS: &str = "lru-fq/table1";

const NOTES: &[&str] = &[
    "Readings as in lru-fq/fig5a: the hub carries 94 Mbit/s, the threshold is 125 packets a second. R4: six web clients, the \
     Webstone mix from memory; a response includes its connection. R5: web data cross the congested port. R7: unfinished \
     fetches count with their age. 600 s without a warm-up, as in the paper; the web begins after 5 s, onto a full queue.",
    "R1 decides much here. With a hub at exactly 100 Mbit/s, as printed, the normal router's web nearly stops, so the ratios \
     to LRU-FQ are far beyond the paper's, while its UDP and its TCP share are not the paper's.",
];

const FLOODS: [u32; 3] = [2, 3, 4];

macro_rules! lines {
    ($($router:literal $variant:literal $floods:literal: $numbers:expr;)*) => {
        &[$(Line {
            set: &[("router", $router), ("floods", $floods)],
            scenario: TABLE1_RUNS,
            variant: $variant,
            place: &[("flows", $floods)],
            numbers: &$numbers,
        }),*]
    };
}

const TABLE_I: Table = Table {
    columns: &[
        column("UDP, Mbit/s", "udp_goodput_mbps"),
        Column {
            name: "web fetches in 600 s",
            metric: "web_fetches_per_s",
            plus: None,
            scale: 600.0,
            tolerance: TOLERANCE,
        },
        column("TCP, Mbit/s", "tcp_goodput_mbps"),
        column("TCP share of TCP + UDP", SHARE),
    ],
    lines: lines! {
        "normal" "fifo" "2": [89.450, 1313.0, 5.883, 0.0617];
        "normal" "fifo" "3": [89.796, 1284.0, 5.548, 0.0581];
        "normal" "fifo" "4": [89.125, 927.0, 6.212, 0.0651];
        "LRU-FQ" "lru_fq" "2": [45.727, 13915.0, 44.916, 0.4955];
        "LRU-FQ" "lru_fq" "3": [45.733, 13828.0, 44.830, 0.4950];
        "LRU-FQ" "lru_fq" "4": [46.237, 13632.0, 44.514, 0.4905];
    },
};

const TABLE_II: Table = Table {
    columns: &[
        column("response, mean, s", "web_response_s_mean"),
        column("response, deviation, s", "web_response_s_dev"),
        column("response, least, s", "web_response_s_min"),
        column("response, longest, s", "web_response_s_max"),
        column("connection, mean, s", "web_connect_s_mean"),
        column("connection, deviation, s", "web_connect_s_dev"),
        column("connection, least, s", "web_connect_s_min"),
        column("connection, longest, s", "web_connect_s_max"),
    ],
    lines: lines! {
        "normal" "fifo" "2": [2.540, 4.429, 0.026, 45.080, 1.952, 3.074, 0.0118, 45.007];
        "normal" "fifo" "3": [2.696, 4.923, 0.026, 93.017, 1.935, 3.110, 0.0115, 45.013];
        "normal" "fifo" "4": [3.064, 4.826, 0.026, 45.028, 2.112, 3.415, 0.0122, 45.005];
        "LRU-FQ" "lru_fq" "2": [0.255, 0.849, 0.012, 21.149, 0.136, 0.661, 0.0014, 21.014];
        "LRU-FQ" "lru_fq" "3": [0.258, 0.854, 0.013, 22.265, 0.131, 0.589, 0.0017, 9.034];
        "LRU-FQ" "lru_fq" "4": [0.260, 0.875, 0.013, 21.054, 0.134, 0.614, 0.0020, 9.026];
    },
};

pub(super) const TABLE1: Recipe = Recipe {
    id: "lru-fq/table1",
    title: "Table I: bandwidth of floods, long TCP and the web",
    notes: NOTES,
    scenarios: &[TABLE1_RUNS, super::words::WEB_RUNS],
    readings: &[READINGS],
    tables: &[TABLE_I],
    figures: &[],
    claims: &[
        claim(
            "lru-fq/table1.1",
            "Web fetches rise about tenfold",
            fetches_rise,
        ),
        claim("lru-fq/table1.2", "Long TCP keeps its half", half),
        claim(
            "lru-fq/table1.3",
            "Normal router: TCP about 6 %",
            normal_share,
        )
        .calibrated(),
        claim(
            "lru-fq/table1.4",
            "UDP drops from about 89 to about 46 Mb/s",
            udp_drops,
        )
        .calibrated(),
        claim(
            "lru-fq/table1.5",
            "TCP rises from about 6 to about 45 Mb/s",
            tcp_rises,
        ),
        claim(
            "lru-fq/table1.6",
            "Fetches under LRU-FQ hardly depend on the flood count; normal loses most at 4",
            by_floods,
        ),
        claim(
            "lru-fq/table1.7",
            "Table is consistent with a full link",
            full_link,
        ),
        claim(
            "lru-fq/table1.8",
            "Web is isolated from long flows of both kinds",
            isolated,
        ),
    ],
};

pub(super) const TABLE2: Recipe = Recipe {
    id: "lru-fq/table2",
    title: "Table II: delays of the web",
    notes: NOTES,
    scenarios: &[TABLE1_RUNS],
    readings: &[READINGS],
    tables: &[TABLE_II],
    figures: &[],
    claims: &[
        claim("lru-fq/table2.1", "Mean response about a tenth", |m, f| {
            shrinks(m, f, "web_response_s_mean", 5.0);
            let names = [
                "as read",
                "5 clients",
                "8 clients",
                "50 packets",
                "200 packets",
                "SYN after 1 s",
            ];
            for router in ["fifo", "lru_fq"] {
                f.remark(readings(
                    m,
                    &format!("{router}, s"),
                    router,
                    &names,
                    "web_response_s_mean",
                ));
            }
        }),
        claim("lru-fq/table2.2", "Spread of response lower", |m, f| {
            shrinks(m, f, "web_response_s_dev", 2.0);
        }),
        claim(
            "lru-fq/table2.3",
            "Mean connection time far lower",
            |m, f| {
                shrinks(m, f, "web_connect_s_mean", 5.0);
            },
        ),
        claim(
            "lru-fq/table2.4",
            "Spread of connection time lower",
            |m, f| {
                shrinks(m, f, "web_connect_s_dev", 2.0);
            },
        ),
        claim("lru-fq/table2.5", "Least response about halves", |m, f| {
            shrinks(m, f, "web_response_s_min", 1.5);
        }),
        claim(
            "lru-fq/table2.6",
            "Least connection time falls several-fold",
            least_connection,
        ),
        claim("lru-fq/table2.7", "Worst cases not longer", worst_cases),
        claim(
            "lru-fq/table2.8",
            "Under LRU-FQ response hardly grows with the flood count",
            growth,
        ),
    ],
};

fn at(router: &'static str, floods: u32) -> At {
    At::new(TABLE1_RUNS, router).and("flows", floods)
}

fn both(m: &Measured, floods: u32, metric: &str) -> [Samples; 2] {
    ["fifo", "lru_fq"].map(|router| m.samples(&at(router, floods), metric))
}

/// The normal router as printed: with a hub that carries 100 Mbit/s.
fn full_hub(m: &Measured, f: &mut Findings, what: &str, metric: &str) {
    let Some(printed) = m.as_printed() else {
        return;
    };
    let value = |floods: u32| {
        let value = printed.samples(&at("fifo", floods), metric);
        format!("{floods} floods {}", value.shown())
    };
    let values = FLOODS.map(value).join(", ");
    f.remark(format!(
        "normal router with a hub that carries 100 Mbit/s, {what}: {values}"
    ));
}

fn fetches_rise(m: &Measured, f: &mut Findings) {
    for floods in FLOODS {
        let [normal, ours] = both(m, floods, "web_fetches_per_s");
        f.times(
            &format!("{floods} floods, fetches a second"),
            &ours,
            &normal,
            5.0,
        );
    }
    full_hub(m, f, "fetches a second", "web_fetches_per_s");
    f.remark(readings(
        m,
        "normal router, fetches a second by hub",
        "fifo",
        &HUB,
        "web_fetches_per_s",
    ));
    let names = ["5 clients", "as read", "8 clients"];
    f.remark(readings(
        m,
        "LRU-FQ, fetches a second",
        "lru_fq",
        &names,
        "web_fetches_per_s",
    ));
}

fn half(m: &Measured, f: &mut Findings) {
    for floods in FLOODS {
        let [_, ours] = both(m, floods, SHARE);
        f.between(&format!("{floods} floods"), &ours, [0.47, 0.53]);
    }
    let names = [
        "50 packets",
        "as read",
        "200 packets",
        "packets since admission",
        "window of 100 ms",
        "window of 400 ms",
        "10 Mbit/s",
        "hub at 100",
    ];
    f.remark(readings(m, "other readings", "lru_fq", &names, SHARE));
}

fn normal_share(m: &Measured, f: &mut Findings) {
    for floods in FLOODS {
        let [normal, _] = both(m, floods, SHARE);
        f.at_most(&format!("{floods} floods"), &normal, 0.10);
    }
    full_hub(m, f, "TCP share", SHARE);
    f.remark(readings(
        m,
        "by what the hub carries, in Mbit/s",
        "fifo",
        &HUB,
        SHARE,
    ));
}

fn udp_drops(m: &Measured, f: &mut Findings) {
    for floods in FLOODS {
        let [normal, ours] = both(m, floods, "udp_goodput_mbps");
        f.between(
            &format!("{floods} floods, normal, Mbit/s"),
            &normal,
            [85.0, 93.0],
        );
        f.between(
            &format!("{floods} floods, LRU-FQ, Mbit/s"),
            &ours,
            [43.0, 49.0],
        );
    }
    full_hub(m, f, "UDP in Mbit/s", "udp_goodput_mbps");
}

fn tcp_rises(m: &Measured, f: &mut Findings) {
    for floods in FLOODS {
        let [normal, ours] = both(m, floods, "tcp_goodput_mbps");
        f.times(&format!("{floods} floods, Mbit/s"), &ours, &normal, 4.0);
        f.between(
            &format!("{floods} floods, LRU-FQ, Mbit/s"),
            &ours,
            [41.0, 48.0],
        );
    }
}

fn by_floods(m: &Measured, f: &mut Findings) {
    let [normal, ours] = [0, 1]
        .map(|router| FLOODS.map(|floods| both(m, floods, "web_fetches_per_s")[router].clone()));
    f.within(
        "LRU-FQ, fetches a second at 4 and at 2 floods",
        &ours[2],
        &ours[0],
        0.10,
    );
    f.less(
        "normal, fetches a second at 4 and at 3 floods",
        &normal[2],
        &normal[1],
    );
    f.not_more(
        "normal, fetches a second at 3 and at 2 floods",
        &normal[1],
        &normal[0],
    );
    full_hub(m, f, "fetches a second", "web_fetches_per_s");
}

/// Only the paper's numbers: what they add up to on the wire.
fn full_link(_: &Measured, f: &mut Findings) {
    const WEB_BYTES: f64 = 19_175.0; // mean file of the mix (R4)
    for line in TABLE_I.lines {
        let [udp, fetches, tcp, _] = line.numbers else {
            unreachable!("the table has four columns")
        };
        let web = fetches * WEB_BYTES * 8.0 / 600.0 / 1e6;
        let full = (udp * 1538.0 / 1472.0 + (tcp + web) * 1538.0 / 1460.0) / 100.0;
        let [(_, router), (_, floods)] = line.set else {
            unreachable!("a router and a number of floods")
        };
        let what = format!("{router}, {floods} floods: {full:.4} of the link (0.98 to 1.005)");
        f.is(what, (0.98..=1.005).contains(&full));
    }
}

fn isolated(m: &Measured, f: &mut Findings) {
    let quiet = |router: &str| {
        let at = At::new(super::words::WEB_RUNS, format!("quiet {router}"));
        m.samples(&at, "web_fetches_per_s")
    };
    for floods in FLOODS {
        let [_, ours] = both(m, floods, "web_fetches_per_s");
        let what = format!("{floods} floods and none, LRU-FQ, fetches a second");
        f.times(&what, &ours, &quiet("lru_fq"), 0.5);
    }
    f.remark(format!(
        "normal router without floods: {} fetches a second",
        quiet("fifo").shown()
    ));
}

fn shrinks(m: &Measured, f: &mut Findings, metric: &str, factor: f64) {
    for floods in FLOODS {
        let [normal, ours] = both(m, floods, metric);
        f.times(
            &format!("{floods} floods, normal to LRU-FQ, s"),
            &normal,
            &ours,
            factor,
        );
    }
    full_hub(m, f, "s", metric);
}

fn least_connection(m: &Measured, f: &mut Findings) {
    shrinks(m, f, "web_connect_s_min", 3.0);
    for floods in FLOODS {
        let [normal, _] = both(m, floods, "web_connect_s_min");
        f.between(
            &format!("{floods} floods, normal, s"),
            &normal,
            [0.009, 0.014],
        );
    }
}

fn worst_cases(m: &Measured, f: &mut Findings) {
    for floods in FLOODS {
        for (name, metric) in [
            ("response", "web_response_s_max"),
            ("connection", "web_connect_s_max"),
        ] {
            let [normal, ours] = both(m, floods, metric);
            let what = format!("{floods} floods, longest {name} of LRU-FQ and normal, s");
            f.not_more(&what, &ours, &normal);
        }
    }
}

fn growth(m: &Measured, f: &mut Findings) {
    let [few, many] = [2, 4].map(|floods| both(m, floods, "web_response_s_mean"));
    let grown = |router: usize| many[router].with(&few[router], |a, b| a / b - 1.0);
    f.at_most("LRU-FQ, growth from 2 to 4 floods", &grown(1), 0.10);
    f.less("growth of LRU-FQ and of normal", &grown(1), &grown(0));
}

//! Tables I and II: the web beside long flows.

use super::{HUB, SHARE, readings};
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::lines;
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Code};

/// The paper's length: 600 s, nothing left out. The file is shorter, because it is for the lab too.
pub(super) const TABLE1_RUNS: &str = "lru-fq/table1";

const FLOODS: [u32; 3] = [2, 3, 4];

pub(super) const CODE: Code = Code {
    checks: &[
        ("table1.4", udp_drops),
        ("table1.5", tcp_rises),
        ("table1.6", by_floods),
        ("table1.7", full_link),
        ("table1.8", isolated),
        ("table2.6", least_connection),
        ("table2.8", growth),
    ],
    remarks: &[
        ("table1.1", fetches_otherwise),
        ("table1.2", shares_otherwise),
        ("table2.1", responses_otherwise),
        ("table2.2", |m, f| full_hub(m, f, "s", "web_response_s_dev")),
        ("table2.3", |m, f| full_hub(m, f, "s", "web_connect_s_mean")),
        ("table2.4", |m, f| full_hub(m, f, "s", "web_connect_s_dev")),
        ("table2.5", |m, f| full_hub(m, f, "s", "web_response_s_min")),
        ("table1.3", normal_shares_otherwise),
    ],
    figures: &[],
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

fn fetches_otherwise(m: &Measured, f: &mut Findings) {
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

fn shares_otherwise(m: &Measured, f: &mut Findings) {
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

fn normal_shares_otherwise(m: &Measured, f: &mut Findings) {
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
    for line in lines("lru-fq/table1") {
        let [udp, fetches, tcp, _] = line.numbers[..] else {
            unreachable!("the table has four columns")
        };
        let web = fetches * WEB_BYTES * 8.0 / 600.0 / 1e6;
        let full = (udp * 1538.0 / 1472.0 + (tcp + web) * 1538.0 / 1460.0) / 100.0;
        let [router, floods] = ["router", "floods"].map(|key| line.word(key));
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

fn responses_otherwise(m: &Measured, f: &mut Findings) {
    full_hub(m, f, "s", "web_response_s_mean");
    let names = [
        "as read",
        "5 clients",
        "8 clients",
        "50 packets",
        "200 packets",
        "SYN after 1 s",
    ];
    for router in ["fifo", "lru_fq"] {
        let what = format!("{router}, s");
        f.remark(readings(m, &what, router, &names, "web_response_s_mean"));
    }
}

fn least_connection(m: &Measured, f: &mut Findings) {
    for floods in FLOODS {
        let [normal, ours] = both(m, floods, "web_connect_s_min");
        let what = format!("{floods} floods, normal to LRU-FQ, s");
        f.times(&what, &normal, &ours, 3.0);
    }
    full_hub(m, f, "s", "web_connect_s_min");
    for floods in FLOODS {
        let [normal, _] = both(m, floods, "web_connect_s_min");
        f.between(
            &format!("{floods} floods, normal, s"),
            &normal,
            [0.009, 0.014],
        );
    }
}

fn growth(m: &Measured, f: &mut Findings) {
    let [few, many] = [2, 4].map(|floods| both(m, floods, "web_response_s_mean"));
    let grown = |router: usize| many[router].with(&few[router], |a, b| a / b - 1.0);
    f.at_most("LRU-FQ, growth from 2 to 4 floods", &grown(1), 0.10);
    f.less("growth of LRU-FQ and of normal", &grown(1), &grown(0));
}

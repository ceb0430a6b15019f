//! Tables I to IV.

use super::{
    FETCHES, FIFO, FLOODS, HOGS, HUBS, LRU, RESPONSE, RESPONSE_DEV, SHARE, TCP, UDP, by_reading,
    flooded, lines, show_printed, variant,
};
use crate::reproduce::findings::{Findings, check, show};
use crate::reproduce::measured::Measured;
use crate::reproduce::query::pairs;
use crate::reproduce::recipe::{Recipe, TOLERANCE, claim, line, names};
use crate::reproduce::samples::Samples;

/// UDP, web fetches, TCP, TCP share.
const TABLE_1: [[f64; 4]; 6] = [
    [89.45, 1313.0, 5.883, 0.0617],
    [89.796, 1284.0, 5.548, 0.0581],
    [89.125, 927.0, 6.212, 0.0651],
    [45.727, 13915.0, 44.916, 0.4955],
    [45.733, 13828.0, 44.83, 0.495],
    [46.237, 13632.0, 44.514, 0.4905],
];
const COLUMNS_1: [&str; 4] = names![
    "UDP, Mbit/s" "web fetches in 600 s" "TCP, Mbit/s" "TCP share of TCP + UDP"
];

pub(super) fn table1(r: &mut Recipe) {
    r.title = "Table I: bandwidth of floods, long TCP and the web";
    r.notes = &[
        "Readings as in lru-fq/fig5a: the hub carries 94 Mbit/s, the threshold is 125 packets a \
         second. R4: six web clients, the Webstone mix from memory; a response includes its \
         connection. R5: web data cross the congested port. R7: unfinished fetches count with \
         their age. 600 s without a warm-up, as in the paper; the web begins after 5 s, onto a \
         full queue.",
    ];
    r.scenarios = &["lru-fq/table1", "lru-fq/text-web"];
    r.readings = &["lru-fq/readings"];
    for ((router, floods), printed) in lines(&FLOODS).zip(TABLE_1) {
        let place = [("router", router.into()), ("floods", floods.into())];
        line(r, place, &COLUMNS_1, printed, [TOLERANCE; 4]).ours(move |m| {
            let of = |metric| flooded(m, variant(router), floods, metric);
            [of(UDP), of(FETCHES) * 600.0, of(TCP), of(SHARE)]
        });
    }
    claims_of_table1(r);
}

fn claims_of_table1(r: &mut Recipe) {
    claim(r, "table1.1", "Web fetches rise about tenfold").measured(|m, f| {
        check!(f, for n in FLOODS, "{n} floods, fetches a second":
            times(flooded(m, LRU, n, FETCHES), flooded(m, FIFO, n, FETCHES), 5.0));
        show_printed(m, f, "fetches a second", FETCHES);
        show!(f, m, "normal router, fetches a second by hub, with three floods":
            by_reading(m, FIFO, &HUBS, FETCHES));
        let readings = ["5 clients", "as read", "8 clients"];
        show!(f, m, "LRU-FQ, fetches a second, with three floods":
            by_reading(m, LRU, &readings, FETCHES));
    });
    claim(r, "table1.2", "Long TCP keeps its half").measured(|m, f| {
        check!(f, for n in FLOODS, "{n} floods": between(flooded(m, LRU, n, SHARE), [0.47, 0.53]));
        let readings = names![
            "50 packets" "as read" "200 packets" "packets since admission" "window of 100 ms"
            "window of 400 ms" "10 Mbit/s" "hub at 100"
        ];
        show!(f, m, "other readings, with three floods": by_reading(m, LRU, &readings, SHARE));
    });
    claim(r, "table1.3", "Normal router: TCP about 6 %").calibrated(|m, f| {
        check!(f, for n in FLOODS, "{n} floods": at_most(flooded(m, FIFO, n, SHARE), 0.1));
        show_printed(m, f, "TCP share", SHARE);
        show!(f, m, "by what the hub carries, in Mbit/s, with three floods":
            by_reading(m, FIFO, &HUBS, SHARE));
    });
    claim(r, "table1.4", "UDP drops from about 89 to about 46 Mb/s").calibrated(|m, f| {
        check!(f, for n in FLOODS, "{n} floods, normal, Mbit/s":
            between(flooded(m, FIFO, n, UDP), [85.0, 93.0]));
        check!(f, for n in FLOODS, "{n} floods, LRU-FQ, Mbit/s":
            between(flooded(m, LRU, n, UDP), [43.0, 49.0]));
        show_printed(m, f, "UDP in Mbit/s", UDP);
    });
    claim(r, "table1.5", "TCP rises from about 6 to about 45 Mb/s").measured(|m, f| {
        check!(f, for n in FLOODS, "{n} floods, Mbit/s":
            times(flooded(m, LRU, n, TCP), flooded(m, FIFO, n, TCP), 4.0));
        check!(f, for n in FLOODS, "{n} floods, LRU-FQ, Mbit/s":
            between(flooded(m, LRU, n, TCP), [41.0, 48.0]));
    });
    let text =
        "Fetches under LRU-FQ hardly depend on the flood count; the normal router loses most at 4";
    claim(r, "table1.6", text).measured(|m, f| {
        let [lru, fifo] = [LRU, FIFO].map(|router| move |n| flooded(m, router, n, FETCHES));
        check!(f, "LRU-FQ, fetches a second at 4 and at 2 floods": within(lru(4), lru(2), 0.1));
        check!(f, "normal, fetches a second at 4 and at 3 floods": less(fifo(4), fifo(3)));
        check!(f, "normal, fetches a second at 3 and at 2 floods": not_more(fifo(3), fifo(2)));
        show_printed(m, f, "fetches a second", FETCHES);
    });
    claim(r, "table1.7", "Table is consistent with a full link").arithmetic(|_, f| {
        for ((router, floods), [udp, web, tcp, _]) in lines(&FLOODS).zip(TABLE_1) {
            let tcp = tcp + web * 19175.0 * 8.0 / 600.0 / 1e6;
            let used = (udp * 1538.0 / 1472.0 + tcp * 1538.0 / 1460.0) / 100.0;
            check!(f, "{router}, {floods} floods, share of the link on the wire with a mean file of \
                       19175 B (R4)":
                between(used, [0.98, 1.005]));
        }
    });
    let text = "Web is isolated from long flows of both kinds";
    claim(r, "table1.8", text).measured(|m, f| {
        let other = |variant| m.at("lru-fq/text-web", variant).metric(FETCHES);
        check!(f, for n in FLOODS, "{n} floods and none, LRU-FQ, fetches a second":
            times(flooded(m, LRU, n, FETCHES), other("quiet lru_fq"), 0.5));
        check!(f, for n in FLOODS, "{n} floods and the web alone, LRU-FQ, fetches a second":
            times(flooded(m, LRU, n, FETCHES), other("web alone"), 0.5));
        show!(f, m, "normal router without floods, fetches a second": other("quiet fifo"));
    });
}

/// Mean, deviation, minimum and maximum of the response, and of the connection.
const TABLE_2: [[f64; 8]; 6] = [
    [2.54, 4.429, 0.026, 45.08, 1.952, 3.074, 0.0118, 45.007],
    [2.696, 4.923, 0.026, 93.017, 1.935, 3.11, 0.0115, 45.013],
    [3.064, 4.826, 0.026, 45.028, 2.112, 3.415, 0.0122, 45.005],
    [0.255, 0.849, 0.012, 21.149, 0.136, 0.661, 0.0014, 21.014],
    [0.258, 0.854, 0.013, 22.265, 0.131, 0.589, 0.0017, 9.034],
    [0.26, 0.875, 0.013, 21.054, 0.134, 0.614, 0.002, 9.026],
];
const COLUMNS_2: [&str; 8] = names![
    "response, mean, s" "response, deviation, s" "response, least, s" "response, longest, s"
    "connection, mean, s" "connection, deviation, s" "connection, least, s" "connection, longest, s"
];
const METRICS_2: [&str; 8] = names![
    "web_response_s_mean" "web_response_s_dev" "web_response_s_min" "web_response_s_max"
    "web_connect_s_mean" "web_connect_s_dev" "web_connect_s_min" "web_connect_s_max"
];

/// A delay of the normal router is at least `factor` times that of LRU-FQ.
fn shorter(m: &Measured, f: &mut Findings, metric: &str, factor: f64) {
    check!(f, for n in FLOODS, "{n} floods, normal to LRU-FQ, s":
        times(flooded(m, FIFO, n, metric), flooded(m, LRU, n, metric), factor));
    show_printed(m, f, "s", metric);
}

pub(super) fn table2(r: &mut Recipe) {
    r.title = "Table II: delays of the web";
    r.notes = &["Set-up and readings as in lru-fq/table1."];
    r.scenarios = &["lru-fq/table1"];
    r.readings = &["lru-fq/readings"];
    for ((router, floods), printed) in lines(&FLOODS).zip(TABLE_2) {
        let place = [("router", router.into()), ("floods", floods.into())];
        line(r, place, &COLUMNS_2, printed, [TOLERANCE; 8])
            .ours(move |m| METRICS_2.map(|x| flooded(m, variant(router), floods, x)));
    }

    claim(r, "table2.1", "Mean response about a tenth").measured(|m, f| {
        shorter(m, f, RESPONSE, 5.0);
        let readings = names![
            "as read" "5 clients" "8 clients" "50 packets" "200 packets" "SYN after 1 s"
        ];
        for router in [FIFO, LRU] {
            show!(f, m, "{router}, s, with three floods":
                by_reading(m, router, &readings, RESPONSE));
        }
    });
    claim(r, "table2.2", "Spread of response lower").measured(|m, f| {
        shorter(m, f, RESPONSE_DEV, 2.0);
    });
    claim(r, "table2.3", "Mean connection time far lower").measured(|m, f| {
        shorter(m, f, "web_connect_s_mean", 5.0);
    });
    claim(r, "table2.4", "Spread of connection time lower").measured(|m, f| {
        shorter(m, f, "web_connect_s_dev", 2.0);
    });
    claim(r, "table2.5", "Minimum response about halves").measured(|m, f| {
        shorter(m, f, "web_response_s_min", 1.5);
    });
    claim(r, "table2.6", "Minimum connection time falls several-fold").measured(|m, f| {
        shorter(m, f, "web_connect_s_min", 3.0);
        check!(f, for n in FLOODS, "{n} floods, normal, s":
            between(flooded(m, FIFO, n, "web_connect_s_min"), [0.009, 0.014]));
    });
    claim(r, "table2.7", "Worst cases not longer").measured(|m, f| {
        let longest = [
            ("response", "web_response_s_max"),
            ("connection", "web_connect_s_max"),
        ];
        for (n, (name, metric)) in pairs(&FLOODS, &longest) {
            let [lru, fifo] = [LRU, FIFO].map(|router| flooded(m, router, n, metric));
            check!(f, "{n} floods, longest {name} of LRU-FQ and normal, s": not_more(lru, fifo));
        }
    });
    let text = "Under LRU-FQ response hardly grows with the flood count";
    claim(r, "table2.8", text).measured(|m, f| {
        let [lru, fifo] = [LRU, FIFO].map(|router| {
            let [few, many] = [2, 4].map(|n| flooded(m, router, n, RESPONSE));
            many / few - 1.0
        });
        check!(f, "LRU-FQ, growth from 2 to 4 floods": at_most(&lru, 0.1));
        check!(f, "growth of LRU-FQ and of normal": less(lru, fifo));
    });
}

const FLOW_MEAN: &str = "tcp_flow_goodput_mbps_mean";

/// Mean and deviation of a flow, and the total.
const TABLE_3: [[f64; 3]; 6] = [
    [6.194959, 0.273623, 92.92439],
    [4.637118, 0.246848, 92.74325],
    [3.71039, 0.179423, 92.75976],
    [6.19675, 0.104381, 92.95125],
    [4.627254, 0.235561, 92.54508],
    [3.709822, 0.285475, 92.74556],
];
const COLUMNS_3: [&str; 3] = names![
    "mean of a flow, Mbit/s" "deviation of a flow, Mbit/s" "total, Mbit/s"
];

const FLOWS: [u32; 3] = [15, 20, 25];

/// Long TCP flows alone.
fn long(m: &Measured, router: &str, flows: u32, metric: &str) -> Samples {
    m.at("lru-fq/table3", router)
        .and("count", flows)
        .metric(metric)
}

pub(super) fn table3(r: &mut Recipe) {
    r.title = "Table III: long TCP connections only";
    r.notes = &[
        "Readings as in lru-fq/fig5a. A cache of 9, admission with 1/55, both queues with the same \
         weight.",
    ];
    r.scenarios = &["lru-fq/table3"];
    for ((router, flows), printed) in lines(&FLOWS).zip(TABLE_3) {
        let place = [("router", router.into()), ("flows", flows.into())];
        line(r, place, &COLUMNS_3, printed, [TOLERANCE, 1.0, TOLERANCE]).ours(move |m| {
            [FLOW_MEAN, "tcp_flow_goodput_mbps_dev", TCP]
                .map(|x| long(m, variant(router), flows, x))
        });
    }

    claim(r, "table3.1", "Responsive-only load: total unharmed").measured(|m, f| {
        check!(f, for n in FLOWS, "{n} flows, LRU-FQ to normal, Mbit/s":
            within(long(m, LRU, n, TCP), long(m, FIFO, n, TCP), 0.01));
    });
    claim(r, "table3.2", "Mean per flow unharmed").measured(|m, f| {
        check!(f, for n in FLOWS, "{n} flows, LRU-FQ to normal, Mbit/s":
            within(long(m, LRU, n, FLOW_MEAN), long(m, FIFO, n, FLOW_MEAN), 0.01));
    });
    claim(r, "table3.3", "Fairness among them unharmed").measured(|m, f| {
        let index = |router, n| long(m, router, n, "jain_index");
        check!(f, for n in FLOWS, "{n} flows, LRU-FQ, Jain's index":
            at_least(index(LRU, n), 0.98));
        check!(f, for n in FLOWS, "{n} flows, index of LRU-FQ less that of normal":
            at_least(index(LRU, n) - index(FIFO, n), -0.01));
    });
    claim(r, "table3.4", "Printed totals = flows x mean").arithmetic(|_, f| {
        for ((router, flows), [mean, _, total]) in lines(&FLOWS).zip(TABLE_3) {
            let off = (mean * f64::from(flows) / total - 1.0).abs();
            check!(f, "{router}, {flows} flows, off by": at_most(off, 0.0001));
        }
    });
}

/// UDP flows and TCP flows; the mean of a UDP flow, of a TCP flow, and of all.
const TABLE_4: [(u32, u32, [f64; 3]); 3] = [
    (2, 18, [4.9141, 4.6327, 4.6608]),
    (3, 17, [4.724, 4.6607, 4.6702]),
    (4, 16, [4.5839, 4.7015, 4.678]),
];
const COLUMNS_4: [&str; 3] = names![
    "mean of a UDP flow, Mbit/s" "mean of a TCP flow, Mbit/s" "mean of all flows, Mbit/s"
];

pub(super) fn table4(r: &mut Recipe) {
    r.title = "Table IV: UDP that keeps to its share";
    r.notes = &[
        "R27: each UDP flow offers 5 Mbit/s of payload, the link over twenty. A cache of 9, \
         admission with 1/55, both queues with the same weight.",
    ];
    r.scenarios = &["lru-fq/table4"];
    for (udp, tcp, printed) in TABLE_4 {
        let place = [("UDP flows", udp.into()), ("TCP flows", tcp.into())];
        line(r, place, &COLUMNS_4, printed, [TOLERANCE; 3]).ours(move |m| {
            let [of_udp, of_tcp] = [UDP, TCP].map(|metric| of(m, LRU, udp, metric));
            let all = (of(m, LRU, udp, UDP) + of(m, LRU, udp, TCP)) * 0.05;
            [of_udp / f64::from(udp), of_tcp / f64::from(tcp), all]
        });
    }

    fn of(m: &Measured, router: &str, n: u32, metric: &str) -> Samples {
        m.at("lru-fq/table4", format!("{router} {n}"))
            .metric(metric)
    }
    /// The mean of all flows.
    fn of_all(m: &Measured, n: u32) -> Samples {
        (of(m, LRU, n, UDP) + of(m, LRU, n, TCP)) / 20.0
    }
    claim(r, "table4.1", "UDP at its fair share is not penalised").measured(|m, f| {
        let of_udp = |router, n| of(m, router, n, UDP) / f64::from(n);
        check!(f, for n in FLOODS, "{n} UDP flows, one of them to the mean of all":
            times(of_udp(LRU, n), of_all(m, n), 0.95));
        check!(f, for n in FLOODS, "{n} UDP flows, LRU-FQ to normal":
            times(of_udp(LRU, n), of_udp(FIFO, n), 0.95));
        show!(f, m, "share of the time that UDP flows are treated as hogs":
            for n in FLOODS, "{n} UDP flows": of(m, LRU, n, HOGS) / f64::from(n));
    });
    claim(r, "table4.2", "TCP is not harmed either").measured(|m, f| {
        check!(f, for n in FLOODS, "{n} UDP flows, a TCP flow to the mean of all":
            times(of(m, LRU, n, TCP) / f64::from(20 - n), of_all(m, n), 0.97));
    });
    claim(r, "table4.3", "Printed ideal = weighted mean").arithmetic(|_, f| {
        for (udp, tcp, [of_udp, of_tcp, of_all]) in TABLE_4 {
            let mean = (f64::from(udp) * of_udp + f64::from(tcp) * of_tcp) / 20.0;
            check!(f, "{udp} UDP flows, weighted mean of {of_udp:?} and {of_tcp:?} less the printed \
                       {of_all:?}": at_most((mean - of_all).abs(), 0.001));
        }
    });
}

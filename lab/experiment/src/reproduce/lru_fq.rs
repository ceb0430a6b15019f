//! Achanta and Reddy, "Design and Evaluation of a Partial State Router".

use super::figure::swept;
use super::measured::Measured;
use super::query::{Point, Series, extremes, pairs, series};
use super::recipe::{Paper, Recipe, TOLERANCE, claim, line, names, results};
use super::verdict::{Findings, Samples, check, show};
use crate::scenario::Reading;

pub(super) fn paper() -> Paper {
    Paper {
        name: "lru-fq",
        source: "Achanta and Reddy, \"Design and Evaluation of a Partial State Router\", ICC 2004",
        columns: &[
            ("as printed", Reading::Printed),
            ("packets since admission (R3)", Reading::SinceAdmission),
            ("UDP at 4.66 Mbit/s (R27)", Reading::MeasuredShare),
        ],
        lab: ["40 s", "10 s"], // 30 s are counted
        loads: &[],
        benches: &[],
        results: results!["lru-fq": table1 table2 table3 table4 fig5a fig5b fig6 fig7 text],
    }
}

/// The routers' names in the scenarios, and in the paper.
const LRU: &str = "lru_fq";
const FIFO: &str = "fifo";
const NORMAL: &str = "normal";

const FLOODS: [u32; 3] = [2, 3, 4];

const TCP: &str = "tcp_goodput_mbps";
const UDP: &str = "udp_goodput_mbps";
const SHARE: &str = "tcp_share_ratio";
const FETCHES: &str = "web_fetches_per_s";
const RESPONSE: &str = "web_response_s_mean";
const RESPONSE_DEV: &str = "web_response_s_dev";
const HOGS: &str = "hog_flows.bottleneck.flood";
const KNOWN: &str = "known_flows.bottleneck.flood";

/// The lines of a table: the normal router and LRU-FQ, each with these numbers of flows.
fn lines(flows: &[u32]) -> impl Iterator<Item = (&'static str, u32)> {
    pairs(&[NORMAL, "LRU-FQ"], flows).into_iter()
}

/// The variant of a router of the paper.
fn variant(router: &str) -> &'static str {
    if router == NORMAL { FIFO } else { LRU }
}

/// Floods, long TCP and the web, by the number of floods.
fn flooded(m: &Measured, router: &str, floods: u32, metric: &str) -> Samples {
    m.at("lru-fq/table1", router)
        .and("flows", floods)
        .metric(metric)
}

/// Other readings, with three floods.
fn by_reading(m: &Measured, router: &str, readings: &[&str], metric: &str) -> Series {
    let of = |reading| m.at("lru-fq/readings", format!("{router}, {reading}"));
    series!(for reading in readings, "{reading}": of(reading).metric(metric))
}

/// Readings of the hub, by the Mbit/s that it carries.
const HUBS: [&str; 6] = names![
    "hub at 90" "hub at 92" "as read" "hub at 96" "hub at 98" "hub at 100"
];

/// Shows the normal router with the hub as printed.
fn show_printed(m: &Measured, f: &mut Findings, what: &str, metric: &str) {
    let what = format!("normal router with a hub that carries 100 Mbit/s, {what}");
    let by_floods = |m| series!(for n in FLOODS, "{n} floods": flooded(m, FIFO, n, metric));
    f.shown(m.printed(), &what, by_floods);
}

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

fn table1(r: &mut Recipe) {
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
    let text = "Fetches under LRU-FQ hardly depend on the flood count; normal loses most at 4";
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

/// Mean, deviation, least and longest of the response, and of the connection.
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

fn table2(r: &mut Recipe) {
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
    claim(r, "table2.5", "Least response about halves").measured(|m, f| {
        shorter(m, f, "web_response_s_min", 1.5);
    });
    claim(r, "table2.6", "Least connection time falls several-fold").measured(|m, f| {
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

fn table3(r: &mut Recipe) {
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

fn table4(r: &mut Recipe) {
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

/// Floods beside long TCP, by the number of floods.
fn limited<'a>(m: &'a Measured, variant: &str, floods: u32) -> Point<'a> {
    m.at("lru-fq/fig5a", variant).and("flows", floods)
}

/// UDP's share where a percentage is set for the queue of hogs.
fn udp_share(m: &Measured, percent: u32, floods: u32) -> Samples {
    1.0 - limited(m, &format!("hit {percent}"), floods).metric(SHARE)
}

/// UDP's share above what is set.
fn excess(m: &Measured, percent: u32, floods: u32) -> Samples {
    udp_share(m, percent, floods) - f64::from(percent) / 100.0
}

const FIG_5A_FLOODS: [u32; 4] = [2, 3, 4, 6];

fn fig5a(r: &mut Recipe) {
    r.title = "Floods held at a set share of the link";
    r.notes = &[
        "R1: all floods share a hub, which is calibrated to carry 94 Mbit/s: the paper's normal \
         router delivers 89.1 to 89.8 Mbit/s of UDP payload, 93 to 94 Mbit/s on the wire, whatever \
         the number of floods, and a half-duplex hub with several senders cannot fill its 100 \
         Mbit/s.",
        "R3: the threshold of 125, printed without a unit, is 125 packets a second (1.514 Mbit/s); \
         the window of that rate is calibrated on two and three floods in this figure: 300 ms. As \
         printed: 125 packets since the admission.",
        "R2: 100 packets for each queue. R6: a first SYN time-out of 3 s. R33: TCP as in Linux \
         2.4.17: Reno with SACK, segments of 1460 B, initial window 2, windows of 64 kB, no byte \
         counting, least time-out 200 ms, acknowledgements delayed by 40 ms at most.",
    ];
    r.scenarios = &["lru-fq/fig5a"];
    r.readings = &["lru-fq/fig5a-pauses", "lru-fq/readings"];
    for floods in FIG_5A_FLOODS {
        let place = [("router", NORMAL.into()), ("flows", floods.into())];
        line(r, place, &["TCP share of TCP + UDP"], [0.07], [TOLERANCE])
            .ours(move |m| [limited(m, FIFO, floods).metric(SHARE)]);
    }
    let x = "share set for the queue of hogs, %";
    r.figure("UDP's share of UDP and long TCP", x, |m| {
        let percents = [10, 20, 30, 40, 50, 60, 70, 80, 90];
        let line = |n| swept!(for x in percents, "{n} floods": udp_share(m, x, n));
        FIG_5A_FLOODS.map(line).into()
    });

    let text = "With 2 or 3 floods the set limit is met down to 30 %";
    claim(r, "fig5a.1", text).calibrated(|m, f| {
        check!(f, for (n, x) in pairs(&[2, 3], &[30, 40, 50]),
            "{n} floods at {x} %, excess of UDP": between(excess(m, x, n), [-0.05, 0.05]));
        check!(f, for (n, x) in pairs(&[2, 3], &[60, 70, 80, 90]),
            "{n} floods at {x} %, excess of UDP": at_most(excess(m, x, n), 0.05));
    });
    let text = "Limits of 20 and 10 % are not met, because the scheduler is work-conserving";
    claim(r, "fig5a.2", text).calibrated(|m, f| {
        check!(f, for (n, x) in pairs(&[2, 3], &[10, 20]),
            "{n} floods at {x} %, excess of UDP": above(excess(m, x, n), 0.0));
        check!(f, for n in [2, 3], "{n} floods, excess of UDP":
            ascends(series!(for x in [30, 20, 10], "{x} %": excess(m, x, n))));
    });
    claim(r, "fig5a.3", "More floods weaken containment").measured(|m, f| {
        check!(f, for x in [50, 30], "at {x} %, UDP share of 3 and 4 floods":
            not_more(udp_share(m, x, 3), udp_share(m, x, 4)));
        check!(f, for x in [50, 30], "at {x} %, UDP share of 3 and 6 floods":
            less(udp_share(m, x, 3), udp_share(m, x, 6)));
        let pauses = |n, x: u32| {
            m.at("lru-fq/fig5a-pauses", format!("hit {x}"))
                .and("flows", n)
        };
        show!(f, m, "with floods that pause for 0.2 s at a time, UDP share":
            for (n, x) in pairs(&FIG_5A_FLOODS, &[50, 30]), "{n} floods at {x} %":
                1.0 - pauses(n, x).metric(SHARE));
    });
    let text = "The cause is floods pushed out of the cache by TCP flows";
    claim(r, "fig5a.4", text).measured(|m, f| {
        let missed = |scenario, n: u32| {
            let at = m.at(scenario, "hit 50").and("flows", n);
            (1.0 - at.metric(HOGS) / f64::from(n)).into_shares()
        };
        let of = |n, metric| limited(m, "hit 50", n).metric(metric);
        check!(f, for (n, more) in [(2, 4), (4, 6)],
            "share of flood packets in the miss queue, {n} and {more} floods":
                less(missed("lru-fq/fig5a", n), missed("lru-fq/fig5a", more)));
        check!(f, for n in [4, 6], "{n} floods, how many are not in the cache at a time":
            above(f64::from(n) - of(n, KNOWN), 0.0));
        show!(f, m, "hogs replaced in a run": for n in [4, 6], "{n} floods":
            of(n, "gauge.bottleneck.evicted_hogs"));
        show!(f, m, "floods that pause for 0.2 s at a time, share not in the hit queue":
            for n in FIG_5A_FLOODS, "{n} floods": missed("lru-fq/fig5a-pauses", n));
    });
    claim(r, "fig5a.5", "The normal router leaves TCP about 7 %").calibrated(|m, f| {
        check!(f, for n in FIG_5A_FLOODS, "{n} floods":
            between(limited(m, FIFO, n).metric(SHARE), [0.03, 0.12]));
        show!(f, m, "by what the hub carries, in Mbit/s, with three floods":
            by_reading(m, FIFO, &HUBS, SHARE));
    });
    let text = "LRU-FQ gives TCP clearly more than the normal router at every point";
    claim(r, "fig5a.6", text).calibrated(|m, f| {
        let others = [10, 20, 30, 40, 60, 70, 80];
        let share = |n, variant: &str| limited(m, variant, n).metric(SHARE);
        for (floods, percents, factor) in [
            (&FIG_5A_FLOODS[..], &others[..], 1.5),
            (&[2, 3, 4], &[50], 4.0),
            (&[6], &[50], 1.5),
        ] {
            check!(f, for (n, x) in pairs(floods, percents), "{n} floods at {x} %":
                times(share(n, &format!("hit {x}")), share(n, FIFO), factor));
        }
    });
}

const RATES: [u32; 7] = [40, 50, 60, 70, 80, 90, 100];

fn fig5b(r: &mut Recipe) {
    r.title = "Slower floods held at a set share of the link";
    r.notes = &[
        "Readings as in lru-fq/fig5a. Three floods of 40 to 100 Mbit/s of payload together; their \
         hub carries 90 Mbit/s of payload, so the last two rates are nearly the same.",
    ];
    r.scenarios = &["lru-fq/fig5b"];
    fn share(m: &Measured, percent: u32, rate: u32) -> Samples {
        let at = m.at("lru-fq/fig5b", format!("hit {percent}"));
        1.0 - at.and("total_rate", format!("{rate} Mbit")).metric(SHARE)
    }
    fn excess(m: &Measured, percent: u32, rate: u32) -> Samples {
        share(m, percent, rate) - f64::from(percent) / 100.0
    }
    let title = "UDP's share of UDP and long TCP, three floods";
    r.figure(title, "rate of all floods together, Mbit/s", |m| {
        let line = |percent| swept!(for x in RATES, "{percent} % set": share(m, percent, x));
        [10, 20, 30, 40, 50].map(line).into()
    });

    claim(r, "fig5b.1", "Containment works at every flood rate").measured(|m, f| {
        for (percent, rates) in [(30, &RATES[..]), (40, &RATES[1..]), (50, &RATES[2..])] {
            check!(f, for &rate in rates, "{rate} Mbit/s at {percent} %, excess of UDP":
                at_most(excess(m, percent, rate), 0.05));
        }
    });
    let text = "At lower flood rates the goals are met better";
    claim(r, "fig5b.2", text).measured(|m, f| {
        check!(f, for x in [10, 20], "at {x} %, excess of UDP at 40 and at 100 Mbit/s":
            less(excess(m, x, 40), excess(m, x, 100)));
        check!(f, for x in [10, 20], "at {x} %, excess of UDP":
            rises(series!(for rate in RATES, "{rate} Mbit/s": excess(m, x, rate))));
    });
}

const CACHES: [u32; 13] = [2, 3, 4, 5, 6, 8, 9, 12, 16, 20, 24, 32, 48];

fn fig6(r: &mut Recipe) {
    r.title = "The size of the cache";
    r.notes = &[
        "Readings as in lru-fq/fig5a. Admission with 1/55, both queues with the same weight.",
        "Pinning: the paper names a rate-based threshold and shows no run. R3's threshold is one, \
         and decides; as printed it counts packets, which every long TCP connection reaches that \
         stays in the cache.",
    ];
    r.scenarios = &["lru-fq/fig6", "lru-fq/fig6-pin"];
    fn at(m: &Measured, floods: u32, cache: u32) -> Point<'_> {
        m.at("lru-fq/fig6", "no pin")
            .and("flows", floods)
            .and("cache", cache)
    }
    fn spread<'a>(of: impl Fn(u32) -> Point<'a>) -> Samples {
        let shares = CACHES[2..].iter().map(|cache| of(*cache).metric(SHARE));
        let [greatest, least] = extremes(shares);
        greatest - least
    }
    let title = "TCP's share of UDP and long TCP";
    r.figure(title, "flows in the cache", |m| {
        let line = |n| swept!(for x in CACHES, "{n} floods": at(m, n, x).metric(SHARE));
        [2, 3, 4, 5].map(line).into()
    });

    claim(r, "fig6.1", "Cache equal to the flood count is too small").measured(|m, f| {
        check!(f, for n in [2, 3, 4, 5], "{n} floods, a cache of {n}, TCP share":
            at_most(at(m, n, n).metric(SHARE), 0.4));
    });
    claim(r, "fig6.2", "A cache larger than the flood count mends it").measured(|m, f| {
        let large: [(u32, &[u32]); 3] = [
            (2, &[6, 8, 9, 12, 16, 24, 48]),
            (3, &[9, 12, 16, 24, 48]),
            (4, &[12, 16, 24, 48]),
        ];
        for (n, caches) in large {
            check!(f, for &cache in caches, "{n} floods, a cache of {cache}, TCP share":
                at_least(at(m, n, cache).metric(SHARE), 0.45));
        }
    });
    claim(r, "fig6.3", "Below that, S_tcp rises with the cache").measured(|m, f| {
        let small: [(u32, &[u32]); 4] = [
            (2, &[2, 3, 4, 5, 6]),
            (3, &[3, 4, 5, 6, 8, 9]),
            (4, &[4, 5, 6, 8, 9, 12]),
            (5, &[5, 6, 8, 9, 12]),
        ];
        check!(f, for (n, caches) in small, "{n} floods, TCP share":
            rises(series!(for &x in caches, "cache {x}": at(m, n, x).metric(SHARE))));
    });
    claim(r, "fig6.4", "A very large cache lets TCP flows in").measured(|m, f| {
        let hit = "class_packets.bottleneck.long.1";
        check!(f, for n in [2, 3, 4, 5],
            "{n} floods, TCP packets from the hit queue, cache of 12 and of 48":
                less(at(m, n, 12).metric(hit), at(m, n, 48).metric(hit)));
        show!(f, m, "TCP share by cache": for (cache, n) in pairs(&[12, 24, 32, 48], &[2, 3, 4, 5]),
            "{n} floods {cache}": at(m, n, cache).metric(SHARE));
    });
    let text = "Pinning by a rate threshold lowers sensitivity to the cache size";
    claim(r, "fig6.5", text).measured(|m, f| {
        let pinned = |variant| spread(|cache| m.at("lru-fq/fig6-pin", variant).and("cache", cache));
        check!(f, "spread of the TCP share over caches of 4 to 48, pinned and not pinned":
            less(pinned("pin"), spread(|cache| at(m, 3, cache))));
        show!(f, m, "pinned from 10 Mbit/s on": pinned("pin at 10 Mbit/s"));
    });
}

fn fig7(r: &mut Recipe) {
    r.title = "The total, by the size of the cache and by the number of flows";
    r.notes = &[
        "R8: the text decides which figure is which. The paper asks whether its router keeps up; a \
         simulation has no processor that could be too slow. What is decided here is the queues' \
         half: that nothing of the link is lost by splitting it. The cost of a packet is measured \
         by `weir bench discipline`.",
    ];
    r.scenarios = &["lru-fq/fig7"];
    const QUEUES: &str = "of the queues only: a simulation has no processor";
    fn total(m: &Measured, flows: u32, queues: &str) -> Samples {
        m.at("lru-fq/fig7", format!("flows {flows} {queues}"))
            .metric(TCP)
    }
    claim(r, "fig7a.1", "Aggregate does not depend on the cache size").measured(|m, f| {
        check!(f, for cache in [5, 10, 20, 40, 60, 100], "cache of {cache} to normal, Mbit/s":
            within(total(m, 30, &format!("cache {cache}")), total(m, 30, FIFO), 0.02));
        f.remark(QUEUES);
    });
    let text = "Aggregate does not depend on the flow count, up to 150";
    claim(r, "fig7b.1", text).measured(|m, f| {
        check!(f, for n in [5, 10, 30, 60, 100, 150], "{n} flows, LRU-FQ to normal, Mbit/s":
            within(total(m, n, "cache 60"), total(m, n, FIFO), 0.02));
        f.remark(QUEUES);
    });
    let why = "a bench: a simulation has no processor. `weir bench discipline` measures \
        nanoseconds a packet by flows and by cache";
    claim(r, "fig7b.2", "Packet cost stays level").not_run(why);
}

/// A remedy for four floods: UDP's share above the 30 % that are set.
fn remedied(m: &Measured, remedy: &str) -> Samples {
    1.0 - m.at("lru-fq/text-limit", remedy).metric(SHARE) - 0.3
}

/// The remedy mends what a cache of 12 does not.
fn mends(m: &Measured, f: &mut Findings, remedy: &str) {
    check!(f, "4 floods at 30 %, excess of UDP with {remedy} and with a cache of 12":
        less(remedied(m, remedy), remedied(m, "cache 12")));
    check!(f, "excess of UDP with {remedy}": at_most(remedied(m, remedy), 0.05));
}

/// The share of a traffic's packets that were sent from the hit queue.
fn hit_share(at: &Point<'_>, traffic: &str) -> Samples {
    let [miss, hit] =
        [0, 1].map(|class| at.metric(format!("class_packets.bottleneck.{traffic}.{class}")));
    hit.clone() / (hit + miss)
}

fn text(r: &mut Recipe) {
    r.title = "What the text claims";
    r.notes = &[
        "Readings as in lru-fq/fig5a and lru-fq/table1.",
        "What LRU-FQ knows is compared with the truth, which a simulation knows: flows in the \
         cache and flows treated as hogs are sampled ten times a second. A flood of an even rate \
         is in the hit queue by that share of its packets by which it is a hog.",
    ];
    r.scenarios = &[
        "lru-fq/fig5a",
        "lru-fq/table1",
        "lru-fq/text-web",
        "lru-fq/text-limit",
        "lru-fq/text-floods",
        "lru-fq/text-sfq",
        "lru-fq/text-cbq",
        "lru-fq/text-victim",
        "lru-fq/text-state",
    ];
    remedies(r);
    compared(r);
    known(r);
}

fn remedies(r: &mut Recipe) {
    claim(r, "text.1", "A larger cache mends the 4-flood case").measured(|m, f| {
        mends(m, f, "cache 24");
        let others = ["cache 48", "cache 24, 10 Mbit/s", "cache 48, 10 Mbit/s"];
        show!(f, m, "excess with others": for other in others, "{other}": remedied(m, other));
    });
    claim(r, "text.2", "Pinning mends the 4-flood case").measured(|m, f| {
        mends(m, f, "pin");
        show!(f, m, "pinned from 10 Mbit/s on": remedied(m, "pin at 10 Mbit/s"));
    });
    let text = "Weighting the miss queue above the hit queue lowers web delay";
    claim(r, "text.3", text).measured(|m, f| {
        let at = |weights| m.at("lru-fq/text-web", weights).metric(RESPONSE);
        check!(f, "mean response at 1:4 and at 1:1, s": less(at("1:4"), at("1:1")));
        check!(f, "mean response at 1:9 and at 1:4, s": not_more(at("1:9"), at("1:4")));
        show!(f, m, "at 1:2": at("1:2"));
    });
    claim(r, "text.4", "Weights set the bandwidth split by policy").calibrated(|m, f| {
        for n in FLOODS {
            let udp = |percent| udp_share(m, percent, n);
            let slope = 2.0 * udp(70) + udp(60) - udp(40) - 2.0 * udp(30);
            check!(f, "{n} floods, slope of the UDP share over targets of 30 % to 70 %":
                between(slope, [0.85, 1.15]));
        }
    });
}

const SHARE_AND_FETCHES: [(&str, &str); 2] =
    [("TCP share", SHARE), ("web fetches a second", FETCHES)];

fn compared(r: &mut Recipe) {
    let text = "Under DoS much better than stochastic fair queueing (cited)";
    claim(r, "text.5", text).measured(|m, f| {
        for (ports, buckets) in pairs(&[4, 100], &[16, 128]) {
            for (name, metric) in SHARE_AND_FETCHES {
                let of = |variant: &str| {
                    let at = m.at("lru-fq/text-sfq", variant).and("flows", ports);
                    at.metric(metric)
                };
                check!(f, "{ports} ports, SFQ with {buckets} queues, {name} of the other and of \
                           LRU-FQ":
                    less(of(&format!("sfq {buckets}")), of(LRU)));
            }
        }
    });
    let text = "Under DoS much better than class-based queueing (cited)";
    claim(r, "text.6", text).measured(|m, f| {
        let of = |variant: String, metric| m.at("lru-fq/text-cbq", variant).metric(metric);
        for (place, (name, metric)) in pairs(&["apart", "among"], &SHARE_AND_FETCHES) {
            let [cbq, lru] = ["cbq", LRU].map(|queue| of(format!("{queue} {place}"), metric));
            check!(f, "floods {place}, {name} of the other and of LRU-FQ": less(cbq, lru));
        }
        show!(f, m, "not decided: TCP share with classes by protocol":
            for place in ["apart", "among"], "{place}": of(format!("protocol {place}"), SHARE));
        f.remark(
            "`apart`: the floods' network is a class of its own, so classes hold them back by \
             construction; `among`: the floods come from the network of the TCP senders",
        );
    });
}

fn known(r: &mut Recipe) {
    fn of(m: &Measured, floods: u32, metric: &str) -> Samples {
        m.at("lru-fq/text-floods", "hit 50")
            .and("flows", floods)
            .metric(metric)
    }
    let text = "Attack flows are identified with high probability";
    claim(r, "text.7", text).measured(|m, f| {
        check!(f, for n in [1, 2, 3], "{n} floods, share of packets to the hit queue":
            at_least(of(m, n, HOGS) / f64::from(n), 0.9));
    });
    claim(r, "text.8", "State is fixed whatever the flow count").measured(|m, f| {
        let bytes = |flows: u32| {
            let at = m.at("lru-fq/text-state", "").and("flows", flows);
            at.metric("state_bytes.bottleneck")
        };
        check!(f, for (flows, each) in [(1000, 200), (100_000, 20_000)],
            "{flows} flows, bytes of state for each (the addresses, ports and protocol of a flow are \
             13)":
                at_most(bytes(each) / f64::from(flows), 12.9));
        f.remark(
            "a test of all disciplines compares what they say of their state with what they \
             allocate",
        );
    });
    let why = "a bench: a simulation has no processor. `weir bench discipline` measures \
        nanoseconds a packet";
    claim(r, "text.9", "Packet scheduling is O(1)").not_run(why);
    let text = "Random admission keeps short flows out; the threshold prunes the rest";
    claim(r, "text.10", text).measured(|m, f| {
        let web = |variant| hit_share(&m.at("lru-fq/text-web", variant), "web").into_shares();
        check!(f, "web packets from the hit queue, share": at_most(web("1:1"), 0.05));
        check!(f, "the same, and with every flow admitted at once": less(web("1:1"), web("all")));
    });
    claim(r, "text.11", "Cache holds mainly high-rate flows").measured(|m, f| {
        check!(f, for n in [1, 2, 3], "{n} floods, share of samples in the cache":
            at_least(of(m, n, KNOWN) / f64::from(n), 0.9));
        show!(f, m, "long TCP flows among the 12 entries": for n in [1, 2, 3], "{n} floods":
            of(m, n, "known_flows.bottleneck.long"));
    });
    claim(r, "text.12", "Web gets lower delay and less jitter at once").measured(|m, f| {
        for (what, metric, factor) in [("mean", RESPONSE, 5.0), ("deviation of", RESPONSE_DEV, 2.0)]
        {
            check!(f, for n in FLOODS, "{n} floods, {what} response, normal to LRU-FQ, s":
                times(flooded(m, FIFO, n, metric), flooded(m, LRU, n, metric), factor));
        }
    });
    let why = "for the lab and the bench: small packets cost processor time, which a simulation has \
        not. `weir bench discipline` and `weir bench forwarding` measure it";
    let text = "Aggregate also scales with packet size (experiment not shown)";
    claim(r, "text.13", text).not_run(why);
    let text = "Keying the cache by destination alone finds a DoS on one network (outlook)";
    claim(r, "text.14", text).measured(|m, f| {
        let by = |key: &str| {
            hit_share(&m.at("lru-fq/text-victim", format!("by {key}")), "flood").into_shares()
        };
        check!(f, "attack packets from the hit queue, by destination":
            at_least(by("destination"), 0.8));
        check!(f, "attack packets from the hit queue, by 5-tuple": at_most(by("flow"), 0.5));
        show!(f, m, "by destination network": by("destination_prefix"));
    });
}

//! Computes metrics and curves from reports. Everything is counted at the receiver.
//!
//! Goodput is payload, each byte counted once. In simulation a byte counts when it arrives, in order or not, so
//! goodput never exceeds the rate of the links. In the lab a byte counts when the receiving program can read it.
//! After a loss that is later, and then for many bytes at once: there a step of a curve may exceed the link's rate.
//!
//! The window is the run without its warm-up. A share is TCP / (TCP + UDP), web not counted. The goodput of a flow is
//! taken over that part of the window in which it existed. A fetch or a transfer belongs to the window if it ends
//! there; an unfinished fetch or transfer counts with its age at the end of the run.

use std::collections::BTreeMap;

use weir_base::statistics::{deviation, jain, mean, percentile};

use crate::attack;
use crate::reported::{Fetch, Flow, Outcome, Reported, Sent, Transfer, mbps};
use crate::results::{Curve, Distribution};
use crate::scenario::{Kind, Scenario, Traffic};

/// The metrics and curves of a run; `reported` has one entry for each traffic of the scenario.
pub fn measure(
    scenario: &Scenario,
    reported: &[Reported],
) -> (BTreeMap<String, f64>, BTreeMap<String, Curve>) {
    let mut metrics = Metrics::default();
    let mut curves: BTreeMap<String, Curve> = BTreeMap::new();
    let (from, until) = scenario.window();
    let step_s = scenario.sample.as_secs_f64();
    let all = scenario.traffic.iter().zip(reported);
    for kind in [Kind::Tcp, Kind::Udp, Kind::Web] {
        let of_kind = all.clone().filter(|(t, _)| t.kind.kind() == kind);
        let mut kind_bytes = None;
        for (traffic, reported) in of_kind {
            let counted = reported.window_bytes;
            let bytes = counted.unwrap_or_else(|| reported.bytes_between(from, until));
            let goodput = mbps(bytes, until - from);
            metrics.set(format!("goodput_mbps.{}", traffic.name), goodput);
            measure_delays(&mut metrics, &traffic.name, reported);
            *kind_bytes.get_or_insert(0) += bytes;
            let values = reported.curve(until, step_s);
            let sum = curves.entry(sum_curve(kind));
            let sum = sum.or_insert_with(|| Curve {
                step_s,
                values: vec![0.0; values.len()],
            });
            sum.values
                .iter_mut()
                .zip(&values)
                .for_each(|(a, b)| *a += b);
            let own = goodput_curve(scenario, traffic);
            curves.entry(own).or_insert(Curve { step_s, values });
        }
        if let Some(bytes) = kind_bytes {
            let name = format!("{}_goodput_mbps", kind.word());
            metrics.set(name, mbps(bytes, until - from));
        }
    }
    let share = metrics.get("tcp_goodput_mbps").map(|tcp| {
        let udp = metrics.get("udp_goodput_mbps").unwrap_or(0.0);
        tcp / (tcp + udp)
    });
    metrics.set_if("tcp_share_ratio", share.filter(|x| x.is_finite()));
    let of = |kind: Kind| {
        let of_kind = all.clone().filter(move |(t, _)| t.kind.kind() == kind);
        of_kind.map(|(_, reported)| reported).collect::<Vec<_>>()
    };
    let (tcp, udp) = (of(Kind::Tcp), of(Kind::Udp));
    measure_flows(&mut metrics, &tcp, (from, until));
    measure_senders(&mut metrics, &tcp, &udp, until - from);
    let transfers = tcp.iter().flat_map(|r| &r.transfers);
    measure_transfers(&mut metrics, &transfers.collect::<Vec<_>>(), (from, until));
    let web = of(Kind::Web);
    if !web.is_empty() {
        let fetches = web.iter().flat_map(|r| &r.fetches);
        measure_web(&mut metrics, &fetches.collect::<Vec<_>>(), (from, until));
    }
    attack::measure(scenario, reported, &mut metrics.0);
    (metrics.0, curves)
}

/// The distributions of the times whose means and percentiles [`measure()`] gives.
pub fn distributions(scenario: &Scenario, reported: &[Reported]) -> BTreeMap<String, Distribution> {
    let (from, _) = scenario.window();
    let fetches = reported.iter().flat_map(|r| &r.fetches);
    let ended = |f: &&Fetch| matches!(f.outcome, Outcome::Finished | Outcome::Unfinished);
    let responses = fetches.filter(ended).filter(|f| f.is_counted(from));
    let transfers = reported.iter().flat_map(|r| &r.transfers);
    let transfers = transfers.filter(|t| t.is_counted(from));
    let times = [
        ("web_response_s", responses.map(|f| f.response_s).collect()),
        ("transfer_s", transfers.map(|t| t.time_s).collect()),
    ];
    let distribution = |(name, mut times): (&str, Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        let all = Distribution::of(|share| percentile(&times, share))?;
        Some((name.to_owned(), all))
    };
    let delays = scenario.traffic.iter().zip(reported);
    let delays = delays.filter_map(|(traffic, reported)| {
        let all = Distribution::of(|share| reported.delay_ms(share))?;
        Some((format!("delay_ms.{}", traffic.name), all))
    });
    times
        .into_iter()
        .filter_map(distribution)
        .chain(delays)
        .collect()
}

/// The name of the goodput curve of a kind of traffic.
fn sum_curve(kind: Kind) -> String {
    format!("{}_mbps", kind.word())
}

/// The name of a traffic's goodput curve: that of its kind, unless several traffics have this kind.
pub(crate) fn goodput_curve(scenario: &Scenario, traffic: &Traffic) -> String {
    let kind = traffic.kind.kind();
    let of_kind = scenario.traffic.iter().filter(|t| t.kind.kind() == kind);
    match of_kind.count() {
        1 => sum_curve(kind),
        _ => format!("goodput_mbps.{}", traffic.name),
    }
}

/// Delays of datagrams, as the receivers measured them.
fn measure_delays(metrics: &mut Metrics, name: &str, reported: &Reported) {
    let described = [
        ("mean", reported.delay_ms_mean()),
        ("p50", reported.delay_ms(0.5)),
        ("p95", reported.delay_ms(0.95)),
        ("p99", reported.delay_ms(0.99)),
        ("max", reported.delay_ms(1.0)),
    ];
    metrics.set_each(|what| format!("delay_ms_{what}.{name}"), described);
}

fn measure_flows(metrics: &mut Metrics, tcp: &[&Reported], (from, until): (f64, f64)) {
    let rate = |flow: &Flow| {
        let end = flow.end_s.unwrap_or(until).min(until);
        let seconds = end - flow.start_s.max(from);
        (seconds > 0.0).then(|| mbps(flow.window_bytes, seconds))
    };
    let flows = tcp.iter().flat_map(|r| &r.flows);
    let mut rates: Vec<f64> = flows.filter_map(rate).collect();
    rates.sort_by(f64::total_cmp);
    metrics.set_if("jain_index", jain(&rates));
    let described = [
        ("mean", mean(&rates)),
        ("dev", deviation(&rates)),
        ("p10", percentile(&rates, 0.1)),
        ("p50", percentile(&rates, 0.5)),
        ("p90", percentile(&rates, 0.9)),
    ];
    metrics.set_each(|what| format!("tcp_flow_goodput_mbps_{what}"), described);
}

/// Size classes of transfers in bytes: above the first number, up to the second.
const SIZES: [(&str, u64, u64); 5] = [
    ("all", 0, u64::MAX),
    ("to_10kB", 0, 10_000),
    ("to_100kB", 10_000, 100_000),
    ("to_1MB", 100_000, 1_000_000),
    ("above_1MB", 1_000_000, u64::MAX),
];

fn measure_transfers(metrics: &mut Metrics, all: &[&Transfer], (from, until): (f64, f64)) {
    if all.is_empty() {
        return;
    }
    let counted = all.iter().filter(|t| t.is_counted(from));
    let (finished, unfinished): (Vec<&Transfer>, _) = counted.partition(|t| t.finished);
    let times = |transfers: &[&Transfer]| transfers.iter().map(|t| t.time_s).collect::<Vec<_>>();
    metrics.set("transfers".into(), finished.len() as f64);
    let per_s = finished.len() as f64 / (until - from);
    metrics.set("transfers_per_s".into(), per_s);
    metrics.set("transfers_unfinished".into(), unfinished.len() as f64);
    metrics.set_if("transfer_finished_s_mean", mean(&times(&finished)));
    metrics.describe(
        "transfer_s",
        [times(&finished), times(&unfinished)].concat(),
    );
    for (name, least, most) in SIZES {
        let of_size = finished.iter().chain(&unfinished);
        let of_size = of_size.filter(|t| least < t.bytes && t.bytes <= most);
        let mut times: Vec<f64> = of_size.map(|t| t.time_s).collect();
        times.sort_by(f64::total_cmp);
        let described = [
            ("mean", mean(&times)),
            ("p50", percentile(&times, 0.5)),
            ("p99", percentile(&times, 0.99)),
        ];
        metrics.set_each(|what| format!("completion_s_{what}.{name}"), described);
    }
}

fn measure_senders(metrics: &mut Metrics, tcp: &[&Reported], udp: &[&Reported], seconds: f64) {
    for (kind, reported) in [("tcp", tcp), ("udp", udp)] {
        let sent: Vec<&Sent> = reported.iter().flat_map(|r| &r.sent).collect();
        // Greedy senders have no offered load to compare with.
        let offered = sent.iter().map(|s| s.offered_bytes).sum::<Option<u64>>();
        let offered = offered
            .map(|bytes| mbps(bytes, seconds))
            .filter(|x| *x > 0.0);
        metrics.set_if(&format!("{kind}_offered_mbps"), offered);
        let goodput = metrics.get(&format!("{kind}_goodput_mbps"));
        let delivered = goodput
            .zip(offered)
            .map(|(goodput, offered)| goodput / offered);
        metrics.set_if(&format!("{kind}_delivered_ratio"), delivered);
    }
    let delivered = metrics.get("udp_delivered_ratio");
    metrics.set_if("udp_loss_ratio", delivered.map(|x| (1.0 - x).max(0.0)));
    let late = udp.iter().flat_map(|r| &r.sent).map(|s| s.late_s_p99);
    metrics.set_if("udp_sender_late_s_p99", late.reduce(f64::max));
}

fn measure_web(metrics: &mut Metrics, fetches: &[&Fetch], (from, until): (f64, f64)) {
    let counted: Vec<&Fetch> = fetches
        .iter()
        .copied()
        .filter(|f| f.is_counted(from))
        .collect();
    let count = |wanted: &dyn Fn(Outcome) -> bool| {
        counted.iter().filter(|f| wanted(f.outcome)).count() as f64
    };
    let is_finished = |o| o == Outcome::Finished;
    let is_unfinished = |o| o == Outcome::Unfinished;
    let finished = count(&is_finished);
    metrics.set("web_fetches".into(), finished);
    metrics.set("web_fetches_per_s".into(), finished / (until - from));
    metrics.set("web_unfinished".into(), count(&is_unfinished));
    let failed = count(&|o| !is_finished(o) && !is_unfinished(o));
    metrics.set("web_failures".into(), failed);
    let responses = |wanted: &dyn Fn(Outcome) -> bool| {
        let wanted = counted.iter().filter(|f| wanted(f.outcome));
        wanted.map(|f| f.response_s).collect::<Vec<_>>()
    };
    metrics.describe(
        "web_response_s",
        responses(&|o| is_finished(o) || is_unfinished(o)),
    );
    let finished = responses(&is_finished);
    metrics.set_if("web_response_finished_s_mean", mean(&finished));
    // A connection that is still being opened at the end counts with its age, like a fetch.
    let connects = counted
        .iter()
        .filter_map(|f| match (f.connect_s, f.outcome) {
            (Some(connect), _) => Some(connect),
            (None, Outcome::Unfinished) => Some(f.response_s),
            (None, _) => None,
        });
    metrics.describe("web_connect_s", connects.collect());
}

#[derive(Debug, Default)]
struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    fn set(&mut self, name: String, value: f64) {
        self.0.insert(name, value);
    }

    fn set_if(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value);
        }
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Mean, deviation, extremes and percentiles.
    fn describe(&mut self, name: &str, mut values: Vec<f64>) {
        values.sort_by(f64::total_cmp);
        let described = [
            ("mean", mean(&values)),
            ("dev", deviation(&values)),
            ("min", values.first().copied()),
            ("max", values.last().copied()),
            ("p50", percentile(&values, 0.5)),
            ("p99", percentile(&values, 0.99)),
        ];
        self.set_each(|what| format!("{name}_{what}"), described);
    }

    /// Sets the values that exist, each under the name of its word.
    fn set_each<const N: usize>(
        &mut self,
        name: impl Fn(&str) -> String,
        described: [(&str, Option<f64>); N],
    ) {
        for (what, value) in described {
            self.set_if(&name(what), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported::Series;
    use crate::scenario::plan::plan;

    fn scenario() -> Scenario {
        let text = r#"
title = "t"
duration = "2 s"
warm_up = "1 s"
[router.r]
[host.a]
[host.b]
[traffic.long]
kind = "tcp"
from = "a"
to = "b"
[traffic.flood]
kind = "udp"
from = "a"
to = "b"
rate = "1 Mbit"
[traffic.web]
kind = "web"
from = "a"
to = "b"
"#;
        plan(text, &[], &[]).unwrap().0
    }

    /// 20 intervals of 0.1 s; `first` bytes in each interval of the first second, `second` in the others.
    fn series(first: u64, second: u64) -> Vec<Series> {
        vec![Series {
            protocol: "x".into(),
            port: 1,
            interval_s: 0.1,
            bytes: (0..20)
                .map(|n| if n < 10 { first } else { second })
                .collect(),
        }]
    }

    fn fetch(start_s: f64, response_s: f64, outcome: Outcome) -> Fetch {
        Fetch {
            client: 0,
            bytes: 500,
            start_s,
            connect_s: (outcome == Outcome::Finished).then_some(0.1),
            response_s,
            outcome,
        }
    }

    #[test]
    fn flows_count_while_they_are_there() {
        let flow = |window_bytes, start_s, end_s| Flow {
            protocol: "tcp".into(),
            port: 1,
            peer: "x".into(),
            bytes: window_bytes,
            window_bytes,
            window_packets: 0,
            start_s,
            end_s,
        };
        let transfer = |start_s, time_s, finished| Transfer {
            flow: 0,
            bytes: 1,
            start_s,
            time_s,
            finished,
        };
        let long = Reported {
            flows: vec![
                flow(125_000, 0.2, None),       // 1 Mbit in 1 s
                flow(125_000, 1.5, None),       // 1 Mbit in 0.5 s
                flow(125_000, 0.5, Some(1.25)), // 1 Mbit in 0.25 s
                flow(0, 0.1, Some(0.9)),        // closed before the window
            ],
            transfers: vec![
                transfer(0.1, 0.8, true), // before the window
                transfer(0.5, 0.75, true),
                transfer(1.5, 0.5, false),
            ],
            ..Reported::default()
        };
        let none = Reported::default;
        let (metrics, curves) = measure(&scenario(), &[long, none(), none()]);
        let is = |name: &str, value: f64| {
            let got = metrics[name];
            assert!((got - value).abs() < 1e-9, "{name} is {got}, not {value}");
        };
        is("tcp_flow_goodput_mbps_mean", 7.0 / 3.0);
        is("tcp_flow_goodput_mbps_p10", 1.0);
        is("tcp_flow_goodput_mbps_p90", 4.0);
        is("transfers", 1.0);
        is("transfers_unfinished", 1.0);
        is("transfer_s_mean", 0.625);
        is("transfer_finished_s_mean", 0.75);
        assert_eq!(curves["tcp_mbps"].step_s, 0.5);
    }

    #[test]
    fn metrics_by_hand() {
        let long = Reported {
            series: series(9_999, 12_500), // 1 Mbit/s in the window
            ..Reported::default()
        };
        let flood = Reported {
            series: series(0, 37_500), // 3 Mbit/s
            sent: vec![Sent {
                offered_bytes: Some(500_000), // 4 Mbit in the second of the window
                ..Sent::default()
            }],
            ..Reported::default()
        };
        let web = Reported {
            fetches: vec![
                fetch(0.2, 0.3, Outcome::Finished), // before the window
                fetch(0.9, 0.2, Outcome::Finished),
                fetch(1.1, 0.4, Outcome::Finished),
                fetch(1.5, 0.1, Outcome::Reset),
                fetch(0.4, 1.6, Outcome::Unfinished),
            ],
            ..Reported::default()
        };
        let (metrics, curves) = measure(&scenario(), &[long, flood, web]);
        let is = |name: &str, value: f64| {
            let got = metrics[name];
            assert!((got - value).abs() < 1e-9, "{name} is {got}, not {value}");
        };
        is("tcp_goodput_mbps", 1.0);
        is("udp_goodput_mbps", 3.0);
        is("tcp_share_ratio", 0.25);
        is("udp_loss_ratio", 0.25);
        is("goodput_mbps.flood", 3.0);
        is("web_fetches", 2.0);
        is("web_unfinished", 1.0);
        is("web_failures", 1.0);
        is("web_response_s_mean", (0.2 + 0.4 + 1.6) / 3.0);
        is("web_response_finished_s_mean", 0.3);
        is("web_response_s_max", 1.6);
        is("web_response_s_p50", 0.4);
        is("web_connect_s_max", 1.6);
        assert_eq!(curves["udp_mbps"].values, [0.0, 0.0, 3.0, 3.0]);
    }
}

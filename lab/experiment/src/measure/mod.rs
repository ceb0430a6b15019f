//! Computes metrics and curves from reports. Everything is counted at the receiver.
//!
//! Goodput is payload, each byte counted once. In simulation a byte counts when it arrives, in order or not, so
//! goodput never exceeds the rate of the links. In the lab a byte counts when the receiving program can read it.
//! After a loss that is later, and then for many bytes at once: there a step of a curve may exceed the link's rate.
//!
//! The window is the run without its warm-up. A share is TCP / (TCP + UDP), web not counted. The goodput of a flow is
//! taken over that part of the window in which it existed. A fetch or a transfer belongs to the window if it ends
//! there; an unfinished fetch or transfer counts with its age at the end of the run.

pub(crate) mod attack;
pub(crate) mod goodput;
pub(crate) mod losses;
pub(crate) mod queues;
pub(crate) mod transfers;
pub(crate) mod web;

pub use losses::add_copies;

use std::collections::BTreeMap;

use weir_base::statistics::{deviation, mean, percentile};

use crate::metrics::{Measured, Values};
use crate::reported::Reported;
use crate::results::{Curve, Distribution};
use crate::scenario::{Kind, Scenario, Traffic};
use goodput::Reports;
use transfers::Transfers;
use web::Fetches;

/// The metrics and curves that both habitats measure from reports; `reported` has one entry for each flow group of the
/// scenario.
pub(crate) fn measure(
    scenario: &Scenario,
    reported: &[Reported],
) -> (Measured, BTreeMap<String, Curve>) {
    let mut measured = Measured::default();
    let reports = Reports { scenario, reported };
    goodput::add_metrics(reports, &[], &mut measured);
    for (traffic, reported) in reports.groups() {
        goodput::add_traffic(reports, reported, &[&traffic.name], &mut measured);
    }
    if let Some(transfers) = Transfers::of(reports) {
        transfers.add_metrics(&mut measured);
    }
    if let Some(fetches) = Fetches::of(reports) {
        web::add_metrics(&fetches, &[], &mut measured);
    }
    attack::add_metrics(reports, &mut measured);
    (measured, curves(reports))
}

/// The goodput of each kind of traffic, and of each flow group.
fn curves(reports: Reports<'_>) -> BTreeMap<String, Curve> {
    let mut curves: BTreeMap<String, Curve> = BTreeMap::new();
    let (_, until) = reports.scenario.window();
    let step_s = reports.scenario.sample.as_secs_f64();
    for (traffic, reported) in reports.groups() {
        let values = reported.curve(until, step_s);
        let sum = curves.entry(sum_curve(traffic.kind.kind()));
        let sum = sum.or_insert_with(|| Curve {
            step_s,
            values: vec![0.0; values.len()],
        });
        sum.values
            .iter_mut()
            .zip(&values)
            .for_each(|(a, b)| *a += b);
        let own = goodput_curve(reports.scenario, traffic);
        curves.entry(own).or_insert(Curve { step_s, values });
    }
    curves
}

/// The distributions of the times whose means and percentiles [`measure()`] gives.
pub(crate) fn distributions(
    scenario: &Scenario,
    reported: &[Reported],
) -> BTreeMap<String, Distribution> {
    let reports = Reports { scenario, reported };
    let times = [
        ("web_response_s", Fetches::of(reports).map(|f| f.ended())),
        ("transfer_s", Transfers::of(reports).map(|t| t.times())),
    ];
    let times = times.into_iter().filter_map(|(name, times)| {
        let mut times = times?;
        times.sort_by(f64::total_cmp);
        let all = Distribution::of(|share| percentile(&times, share))?;
        Some((name.to_owned(), all))
    });
    let delays = reports.groups().filter_map(|(traffic, reported)| {
        let all = Distribution::of(|share| reported.delays.ms(share))?;
        Some((format!("delay_ms.{}", traffic.name), all))
    });
    times.chain(delays).collect()
}

/// The statistics of these words.
pub(crate) fn statistics(words: &[&'static str], mut values: Vec<f64>) -> Values {
    values.sort_by(f64::total_cmp);
    let statistic = |word: &str| match word {
        "mean" => mean(&values),
        "dev" => deviation(&values),
        "min" => values.first().copied(),
        "max" => values.last().copied(),
        _ => percentile(
            &values,
            word.strip_prefix('p')?.parse::<f64>().ok()? / 100.0,
        ),
    };
    let all = words.iter().map(|word| (*word, statistic(word)));
    all.collect::<Vec<_>>().into()
}

/// The statistics of delays in ms; `at` gives the delay that a share of the packets does not exceed.
pub(crate) fn delays(mean: Option<f64>, at: impl Fn(f64) -> Option<f64>) -> Values {
    let shares = [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)];
    let shares = shares.map(|(word, share)| (word, at(share)));
    let all = [("mean", mean)].into_iter().chain(shares);
    all.collect::<Vec<_>>().into()
}

/// The words of most times.
const WORDS: &[&str] = &["mean", "dev", "min", "max", "p50", "p99"];

/// The name of the goodput curve of a kind of traffic.
fn sum_curve(kind: Kind) -> String {
    format!("{}_mbps", kind.word())
}

/// The name of a flow group's goodput curve: that of its kind, unless several flow groups have this kind.
pub(crate) fn goodput_curve(scenario: &Scenario, traffic: &Traffic) -> String {
    let kind = traffic.kind.kind();
    let of_kind = scenario.traffic.iter().filter(|t| t.kind.kind() == kind);
    match of_kind.count() {
        1 => sum_curve(kind),
        _ => format!("goodput_mbps.{}", traffic.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported::{Fetch, Flow, Outcome, Sent, Series, Transfer};
    use crate::results::Metrics;
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

    /// Fails unless a metric has this value.
    pub(super) fn is(metrics: &Metrics, name: &str, value: f64) {
        let got = metrics[name];
        assert!((got - value).abs() < 1e-9, "{name} is {got}, not {value}");
    }

    /// A series with these bytes by tenths of a second.
    pub(super) fn tenths(bytes: impl Iterator<Item = u64>) -> Vec<Series> {
        vec![Series {
            protocol: "x".into(),
            port: 1,
            interval_s: 0.1,
            bytes: bytes.collect(),
        }]
    }

    /// 20 intervals of 0.1 s; `first` bytes in each interval of the first second, `second` in the others.
    fn series(first: u64, second: u64) -> Vec<Series> {
        tenths((0..20).map(|n| if n < 10 { first } else { second }))
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
        let (Measured(metrics), curves) = measure(&scenario(), &[long, none(), none()]);
        let is = |name: &str, value: f64| is(&metrics, name, value);
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
        let (Measured(metrics), curves) = measure(&scenario(), &[long, flood, web]);
        let is = |name: &str, value: f64| is(&metrics, name, value);
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

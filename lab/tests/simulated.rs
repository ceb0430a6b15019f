//! Scenarios in virtual time: settings take effect, and counts match their names.

#![allow(clippy::unwrap_used)] // as in every test

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_lab::{Capture, RunOptions, RunResult, run};

/// A scenario with two hosts; `out` is the link of 10 Mbit/s that leaves the router.
fn scenario(out: &str, traffic: &str) -> String {
    format!(
        r#"
title = "two hosts"
duration = "2 s"
watch = ["out", "in"]
[router.r]
[host.a]
[host.b]
[link.in]
ends = ["a", "r"]
delay = "0.5 ms"
[link.out]
ends = ["r", "b"]
rate = "10 Mbit"
{out}
[traffic.long]
kind = "tcp"
from = "a"
to = "b"
{traffic}
"#
    )
}

fn simulate(name: &str, text: &str, captures: &[&str]) -> Result<RunResult, String> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("simulated-{name}.toml"));
    std::fs::write(&file, text).unwrap();
    let captures: Vec<Capture> = captures.iter().map(|c| c.parse().unwrap()).collect();
    let options = RunOptions {
        scenario: file,
        captures,
        ..RunOptions::default()
    };
    run(&options).map_err(|error| error.to_string())
}

fn metrics(name: &str, text: &str) -> BTreeMap<String, f64> {
    let result = simulate(name, text, &[]).unwrap();
    result.points[0].runs[0].metrics.clone()
}

#[test]
fn a_data_centre_repairs_a_lost_tail_in_its_own_least_timeout() {
    // All twenty segments fit the first window of thirty, but the queue holds only ten: the rest is lost, and no
    // later segment can reveal the loss of the tail. A round trip is a millisecond or two.
    let time = |name: &str, options: &str| {
        let out = "discipline = { kind = \"fifo\", limit = \"10 packets\" }";
        let traffic = format!("size = \"20 kB\"\nmss = \"1000 B\"\ninitial_window = 30\n{options}");
        metrics(name, &scenario(out, &traffic))["transfer_s_max"]
    };
    let usual = time("rto-usual", "");
    assert!((0.2..0.4).contains(&usual), "{usual}");
    // min_rto alone is enough: the margin follows it, as in Linux.
    let short = time("rto-short", "min_rto = \"10 ms\"\ndelayed_ack = \"1 ms\"");
    assert!((0.01..0.05).contains(&short), "{short}");
    let margin = "min_rto = \"10 ms\"\ngranularity = \"100 ms\"\ndelayed_ack = \"1 ms\"";
    let margin = time("rto-margin", margin);
    assert!((0.1..0.2).contains(&margin), "{margin}");
}

#[test]
fn acknowledgments_that_are_lost_count_where_all_packets_count() {
    // A flood towards a fills the queue that the acknowledgments of a's transfer go through.
    let out = "discipline = { kind = \"fifo\", limit = \"10000 packets\" }\n\
               reverse_discipline = { kind = \"fifo\", limit = \"10 packets\" }";
    let flood = "[traffic.flood]\nkind = \"udp\"\nfrom = \"b\"\nto = \"a\"\nrate = \"12 Mbit\"";
    let m = metrics("ack-path", &scenario(out, flood));
    let lost = m["lost_packets.flood.out.reverse.queue-full"];
    assert_eq!(m["dropped_payload_packets.out.reverse"], lost);
    let acknowledgments = m["dropped_packets.out.reverse"] - lost;
    assert!(acknowledgments > 20.0, "{acknowledgments}");
    assert!(!m.contains_key("lost_packets.long.out.reverse.queue-full"));
    assert_eq!(
        m.get("loss_ratio.long"),
        Some(&0.0),
        "no payload of it is lost"
    );
}

#[test]
fn a_full_link_carries_its_rate_whatever_its_framing() {
    for framing in ["0 B", "2 B", "38 B", "100 B"] {
        let out = format!(
            "framing = \"{framing}\"\ndiscipline = {{ kind = \"fifo\", limit = \"50 packets\" }}"
        );
        let text =
            scenario(&out, "mss = \"200 B\"").replace("\"2 s\"", "\"2 s\"\nwarm_up = \"1 s\"");
        let m = metrics(&format!("framing-{}", &framing[..1]), &text);
        let (throughput, used) = (m["throughput_mbps.out"], m["utilisation_ratio.out"]);
        assert!(
            (9.8..=10.01).contains(&throughput),
            "{framing}: {throughput}"
        );
        assert!((throughput - 10.0 * used).abs() < 1e-9, "{framing}: {used}");
    }
}

#[test]
fn a_direction_has_the_same_name_in_metrics_and_captures() {
    let out = "discipline = { kind = \"fifo\", limit = \"10 packets\" }";
    let text = scenario(out, "initial_window = 50");
    let m = metrics("names", &text);
    let lost = m.keys().find(|name| name.starts_with("lost_packets.long."));
    assert_eq!(lost.unwrap(), "lost_packets.long.out.queue-full");
    let directions: Vec<&str> = m
        .keys()
        .filter_map(|name| name.strip_prefix("packets_sent."))
        .collect();
    assert_eq!(directions, ["in", "out"]);
    let captured = simulate("names", &text, &["out", "out.reverse", "in.reverse"]).unwrap();
    let captured = &captured.points[0].runs[0].captures;
    assert!(captured.iter().all(|c| c.pcapng.len() > 1000));
    let error = simulate("names", &text, &["r>b"]).unwrap_err();
    let all = "there are: in.reverse, in, out, out.reverse";
    assert!(error.contains(all), "{error}");
}

#[test]
fn bbr_is_refused_with_what_the_simulator_has() {
    let error = simulate("bbr", &scenario("", "congestion = \"bbr\""), &[]).unwrap_err();
    let wanted = "is for the lab only; the simulator models cubic, sack and newreno";
    assert!(error.contains(wanted), "{error}");
}

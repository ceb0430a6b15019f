//! Scenarios in virtual time: settings take effect, and counts match their names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_experiment::{Capture, RunOptions, RunResult, run};

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
fn one_host_sends_to_each_of_many() {
    let text = scenario("", "").replace("[host.b]", "[host.b]\ncount = 3");
    let m = metrics("fan-out", &text);
    // A wire of 10 Mbit/s for each receiver.
    assert!((20.0..30.0).contains(&m["goodput_mbps.long"]), "{m:?}");
    assert_eq!(m["jain_index_senders"], 1.0);
    assert!(m["jain_index_receivers"] > 0.99, "{m:?}");
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
    let all = "the scenario has: in.reverse, in, out, out.reverse";
    assert!(error.contains(all), "{error}");
}

#[test]
fn bbr_is_refused_with_what_the_simulator_has() {
    let error = simulate("bbr", &scenario("", "congestion = \"bbr\""), &[]).unwrap_err();
    let wanted = "only the lab supports; the simulator supports cubic, sack and newreno";
    assert!(error.contains(wanted), "{error}");
}

/// A flood of 8 Mbit/s of datagrams, 1000 a second of 1000 B on the wire, into a link whose rate changes.
fn flooded(link: &str) -> BTreeMap<String, f64> {
    let out = format!("{link}\ndiscipline = {{ kind = \"fifo\", limit = \"10000 packets\" }}");
    // 962 B and the headers of UDP, IP and Ethernet (with preamble and gap) are 1028 B: as many packets per second as
    // 8.224 Mbit/s carry.
    let flood = "[traffic.flood]\nkind = \"udp\"\nfrom = \"a\"\nto = \"b\"\nrate = \"7.696 Mbit\"\npayload = \"962 B\"\nstop = \"1 s\"";
    let text = scenario(&out, flood).replace(
        "kind = \"tcp\"\nfrom = \"a\"\nto = \"b\"",
        "kind = \"tcp\"\nfrom = \"b\"\nto = \"a\"\nrate = \"1 kbit\"",
    );
    let rate = text.replace("rate = \"10 Mbit\"\n", "");
    metrics(&format!("flooded-{}", link.len()), &rate)
}

#[test]
fn what_a_changing_link_carries_is_its_mean_rate() {
    // 1000 packets arrive in a second at 8.224 Mbit/s; at half the rate, from half a second on, the last one leaves
    // after another half second.
    let step = flooded("rate = \"8.224 Mbit, 4.112 Mbit from 0.5 s\"");
    let most = step["queue_delay_ms_max.out"];
    assert!((499.0..503.0).contains(&most), "{most}");
    // 4.112 Mbit/s over two seconds; in the second one, only the remaining packets leave.
    let used = step["utilisation_ratio.out"];
    let expected = 8.224 / (0.5 * 8.224 + 1.5 * 4.112);
    assert!((used - expected).abs() < 0.005, "{used} {expected}");
    // Both steps of a sawtooth last 50 ms and have the mean 8.224 Mbit/s: the queue grows for 50 ms at 4.112.
    let tooth = flooded("rate = \"sawtooth 4.112 Mbit to 12.336 Mbit in 2 steps every 100 ms\"");
    let most = tooth["queue_delay_ms_max.out"];
    assert!((23.0..28.0).contains(&most), "{most}");
    assert_eq!(tooth["lost_packets"], 0.0);
}

#[test]
fn a_link_without_its_discipline_knowing_it_delays_in_its_modem() {
    let modem = "rate = \"8.224 Mbit, 4.112 Mbit from 0.5 s\"\nbuffer = \"50 kB\"";
    let m = flooded(modem);
    // 50 000 B hold 49 frames of 1004 B, each for 2 ms, plus the frame that is being sent.
    let delay = m["delay_ms_max.flood"];
    assert!((98.0..102.0).contains(&delay), "{delay}");
    assert_eq!(m["queue_delay_ms_max.out"], 0.0);
    let lost = m["lost_packets.flood.out.impaired"];
    // Half of the 500 packets from half a second on are too many, and the modem holds 50 of them.
    assert!((195.0..205.0).contains(&lost), "{lost}");
    let slow = flooded(&format!("{modem}\nshaper = \"4 Mbit\""));
    assert!(!slow.contains_key("lost_packets.flood.out.impaired"));
    assert!(slow["queue_delay_ms_max.out"] > 1000.0, "{slow:?}");
}

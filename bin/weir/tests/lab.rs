//! A small version of the demo, with asserts: `weir run` builds the network, runs `weir router` in
//! it, and LRU-FQ protects TCP and the web from a flood, where a plain queue does not.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A short run.
const SHORT: &[&str] = &["duration=\"8 s\"", "warm_up=\"3 s\""];

/// Runs a scenario of the repository and gives its result; none where namespaces are not permitted.
fn run(scenario: &str, length: &[&str], arguments: &[&str]) -> Option<Value> {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../scenarios")
        .join(scenario);
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .arg("run")
        .arg(scenario)
        .args(["--on", "lab", "--json", "--runs", "1"])
        .args(length.iter().flat_map(|set| ["--set", set]))
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("permits no user namespaces") {
        println!("skipped: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The metric of the only run of a variant, or of the only point of a scenario without.
fn metric(result: &Value, variant: &str, name: &str) -> f64 {
    let points = result["points"].as_array().unwrap();
    let is_it = |p: &&Value| points.len() == 1 || p["variant"] == variant;
    let point = points.iter().find(is_it).unwrap();
    let value = &point["runs"][0]["metrics"][name];
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{variant} has no {name}: {point}"))
}

#[test]
fn lru_fq_keeps_tcp_and_the_web_alive_under_a_flood() {
    let arguments = ["--variant", "fifo", "--variant", "lru_fq"];
    let Some(result) = run("lru-fq/demo.toml", SHORT, &arguments) else {
        return;
    };
    let share = |variant| metric(&result, variant, "tcp_share_ratio");
    assert!(share("fifo") <= 0.10, "{}", share("fifo"));
    // The issue is decided by the demo's longer runs; a busy machine gets some room here.
    assert!(share("lru_fq") >= 0.40, "{}", share("lru_fq"));
    let fetches = |variant| metric(&result, variant, "web_fetches");
    assert!(
        fetches("lru_fq") >= 5.0 * fetches("fifo"),
        "{} and {}",
        fetches("lru_fq"),
        fetches("fifo")
    );
}

#[test]
fn a_distributed_flood_is_found_by_its_destination() {
    let arguments = [
        "--variant",
        "fq_codel",
        "--variant",
        "lru_fq by destination",
    ];
    let Some(result) = run("lru-fq/distributed.toml", SHORT, &arguments) else {
        return;
    };
    let share = |variant| metric(&result, variant, "tcp_share_ratio");
    assert!(share("fq_codel") <= 0.20, "{}", share("fq_codel"));
    let by_destination = share("lru_fq by destination");
    assert!(by_destination >= 0.40, "{by_destination}");
}

#[test]
fn a_long_way_takes_its_time_and_loses_nothing() {
    let Some(result) = run("both/long-way.toml", SHORT, &[]) else {
        return;
    };
    let of = |name| metric(&result, "all", name);
    // A SYN and its answer: 30 ms, and 1 ms + 10 % for bridges, stacks and this machine.
    let least = of("web_connect_s_min");
    assert!((0.030..0.034).contains(&least), "{least}");
    // 20 Mbit/s less the call: the bridges hold what is under way, so TCP fills the link.
    assert!(of("tcp_goodput_mbps") >= 14.0, "{}", of("tcp_goodput_mbps"));
    assert!(of("udp_loss_ratio") <= 0.02, "{}", of("udp_loss_ratio"));
    let notes = result["notes"].to_string();
    assert!(notes.contains("links left 5 ms, middle 10 ms"), "{notes}");
    assert!(!notes.contains("lost"), "{notes}");
}

/// Packets that ended in the queue of a router's port.
fn dropped(result: &Value, variant: &str, router: &str, port: &str) -> u64 {
    let points = result["points"].as_array().unwrap();
    let point = points.iter().find(|p| p["variant"] == variant).unwrap();
    let queues = point["runs"][0]["routers"][router]["queues"].as_array();
    let queue = queues.unwrap().iter().find(|q| q["port"] == port).unwrap();
    queue["dropped"]["packets"].as_u64().unwrap()
}

#[test]
fn rs_red_shares_the_queue_with_the_ingresses_and_loses_less() {
    let arguments = ["--variant", "RED 100", "--variant", "RS-RED 20"];
    let Some(result) = run(
        "lab/rs-red.toml",
        &["duration=\"12 s\"", "warm_up=\"4 s\""],
        &arguments,
    ) else {
        return;
    };
    const INGRESSES: [&str; 4] = ["n4", "n5", "n6", "n7"];
    for ingress in INGRESSES {
        let queue = |variant| metric(&result, variant, &format!("queue_packets_mean.{ingress}"));
        assert!(queue("RED 100") <= 2.0, "{}", queue("RED 100"));
        let held = queue("RS-RED 20");
        assert!((8.0..=22.0).contains(&held), "{ingress} holds {held}");
    }
    let at_egress = |variant| dropped(&result, variant, "n1", "sink");
    let lost = |variant| {
        let ingresses = INGRESSES.map(|ingress| dropped(&result, variant, ingress, "n1"));
        at_egress(variant) + ingresses.iter().sum::<u64>()
    };
    let (red, rs_red) = ("RED 100", "RS-RED 20");
    assert!(
        4 * at_egress(rs_red) < at_egress(red),
        "{} {}",
        at_egress(rs_red),
        at_egress(red)
    );
    assert!(lost(rs_red) < lost(red), "{} {}", lost(rs_red), lost(red));
    // What is not lost waits: a connection takes longer, as in the paper's Table II.
    let delay = |variant| metric(&result, variant, "web_connect_s_p50");
    assert!(
        delay(rs_red) > delay(red),
        "{} {}",
        delay(rs_red),
        delay(red)
    );
    assert_eq!(metric(&result, rs_red, "controller.rs.silent"), 0.0);
}

#[test]
fn dppbrb_keeps_control_messages_alive_under_a_flood_of_redirect() {
    let arguments = ["--variant", "fifo", "--variant", "dppbrb"];
    let Some(result) = run("lab/dppbrb.toml", &[], &arguments) else {
        return;
    };
    let delivered = |variant| metric(&result, variant, "tcp_delivered_ratio");
    // The paper's claim is 0.95, and single runs on a busy machine had 0.96 to 0.98.
    assert!(delivered("dppbrb") >= 0.95, "{}", delivered("dppbrb"));
    assert!(delivered("fifo") <= 0.5, "{}", delivered("fifo"));
}

#[test]
fn eccm_lets_streams_in_while_tcp_fills_the_link() {
    let Some(result) = run("lab/afan-eccm.toml", &[], &[]) else {
        return;
    };
    // Counted from four seconds after the last stream began: with ECCM all are there by then.
    let delivered = |variant| metric(&result, variant, "udp_delivered_ratio");
    assert!(delivered("eccm") >= 0.95, "{}", delivered("eccm"));
    assert!(delivered("none") <= 0.5, "{}", delivered("none"));
    for variant in ["none", "eccm"] {
        let elastic = metric(&result, variant, "tcp_goodput_mbps");
        assert!(elastic >= 6.5, "{variant}: {elastic}");
    }
}

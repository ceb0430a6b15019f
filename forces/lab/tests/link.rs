//! The simulated link between a controller and a router, with the queues of the transport at both ends.

#![allow(clippy::unwrap_used)] // as in every test

use std::path::PathBuf;

use weir_experiment::{RunOptions, run};
use weir_forces_lab::ForCes;

const SCENARIO: &str = r#"
title = "a controller behind a link"
duration = "10 s"
[router.r]
[host.a]
[host.b]
[link.in]
ends = ["a", "r"]
[link.out]
ends = ["r", "b"]
rate = "10 Mbit"
discipline = { kind = "refill" }
[traffic.t]
kind = "udp"
from = "a"
to = "b"
rate = "1 Mbit"
[controller.c]
kind = "backpressure"
ingress = ["out"]
egress = ["in.reverse"]
delay = "1 ms"
channel_rate = "10 Mbit"
"#;

/// Latency of control messages to the controller in milliseconds, with this load of redirects in Mbit/s: mean and
/// maximum.
fn latency(schedule: &str, redirect: u64) -> (f64, f64) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let scenario = folder.join(format!("link-{schedule}-{redirect}.toml"));
    let channel =
        format!("channel_schedule = \"{schedule}\"\nchannel_redirect = \"{redirect} Mbit\"\n");
    std::fs::write(&scenario, format!("{SCENARIO}{channel}")).unwrap();
    let options = RunOptions {
        scenario,
        transports: Some(&ForCes),
        ..RunOptions::default()
    };
    let result = run(&options).unwrap();
    let run = &result.points[0].runs[0];
    let curve = &run.series["controller.c.to_controller_ms"].values;
    let most = curve.iter().copied().fold(0.0, f64::max);
    (run.metrics["controller.c.to_controller_ms.mean"], most)
}

/// As on the wire: DPPBRB and priorities protect the reports of an element from a flood of redirects, drop-tail
/// does not.
#[test]
fn a_flood_of_redirects_delays_control_messages_with_drop_tail_only() {
    // A report of two queues takes 0.3 ms, and the link 1 ms.
    for schedule in ["dppbrb", "priorities", "drop_tail"] {
        let (mean, most) = latency(schedule, 0);
        assert!(mean > 1.0 && most < 1.6, "{schedule}: {mean} {most}");
    }
    let [dppbrb, priorities, drop_tail] =
        ["dppbrb", "priorities", "drop_tail"].map(|s| latency(s, 100));
    let all = format!("dppbrb {dppbrb:?}, priorities {priorities:?}, drop_tail {drop_tail:?}");
    // A redirect takes 0.8 ms, and 100 of them 80.
    assert!(priorities.1 < 1.4 + 0.9, "{all}");
    assert!(dppbrb.0 < 4.0 && dppbrb.1 < 20.0, "{all}");
    assert!(drop_tail.0 > 60.0, "{all}");
}

#[test]
fn a_link_needs_transports() {
    let scenario = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("link-alone.toml");
    std::fs::write(&scenario, SCENARIO).unwrap();
    let options = RunOptions {
        scenario,
        ..RunOptions::default()
    };
    let error = run(&options).unwrap_err().to_string();
    assert!(
        error.contains("no transports for `channel_rate` of controller c"),
        "{error}"
    );
}

//! Many changes of the kernel's tables on a busy machine.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::common::{Hosts, UNPACED, eventually_or};
use super::load::Busy;
use super::stream::{Count, Stream};

/// Number of busy processes next to the router.
const BUSY: usize = 8;
/// Changes in a round without [`CHANGES`].
const FEW: usize = 6000;
/// The variable with the changes of a round.
const CHANGES: &str = "WEIR_ROUTE_CHANGES";
/// The variable with the number of rounds.
const ROUNDS: &str = "WEIR_ROUTE_ROUNDS";

fn number(variable: &str, default: usize) -> usize {
    let number = std::env::var(variable).ok();
    number.map_or(default, |number| number.parse().unwrap())
}

/// Writes a batch for `ip`: each IPv4 and IPv6 prefix is added, replaced and deleted.
fn write_batch(file: &Path, changes: usize) {
    let mut lines = String::new();
    for verb in ["add", "replace", "del"] {
        let hop = match verb {
            "add" => ("10.77.2.2", "r1"),
            _ => ("10.77.1.2", "r0"),
        };
        for n in 0..changes / 6 {
            let (via, dev) = hop;
            let (high, low) = (n / 250, n % 250);
            writeln!(
                lines,
                "route {verb} 10.{}.{}.{low}/32 via {via}",
                100 + high / 250,
                high % 250
            )
            .unwrap();
            writeln!(lines, "route {verb} fd99::{n:x}/128 dev {dev}").unwrap();
        }
    }
    fs::write(file, lines).unwrap();
}

/// Forwards a stream during the changes, with busy processes on the machine.
fn churn(hosts: &Hosts, batch: &Path) -> (Count, Duration) {
    let _busy = Busy::start(BUSY);
    let stream = Stream::begin(hosts);
    let began = Instant::now();
    hosts.ip(&format!("-batch {}", batch.display()));
    let took = began.elapsed();
    (stream.end(), took)
}

#[test]
fn route_changes_on_a_busy_machine_kill_no_router() {
    let Some(hosts) = Hosts::new() else { return };
    let changes = number(CHANGES, FEW);
    let batch = hosts.folder.join("changes");
    write_batch(&batch, changes);
    for round in 0..number(ROUNDS, 1) {
        let (kernel, took) = churn(&hosts, &batch);
        println!(
            "round {round}: the kernel forwards through {changes} changes in {took:?}: {kernel:?}"
        );
        let router = hosts.start("a", UNPACED);
        let child = router.child();
        let (weir, took) = churn(&hosts, &batch);
        println!("round {round}: weir forwards through {changes} changes in {took:?}: {weir:?}");
        assert_eq!(router.child(), child, "{}", router.log());
        assert!(
            !router.log().contains("until it is restarted"),
            "{}",
            router.log()
        );
        // The router follows the tables, and forwards.
        hosts.ip("route add 10.98.0.0/16 via 10.77.2.2");
        eventually_or(
            "the last change is in force",
            || router.log(),
            || {
                let routes = hosts.ask(&["show", "routes"], "a");
                routes.contains("10.98.0.0/16") && !routes.contains("10.100.")
            },
        );
        assert!(hosts.ping("-c 3 -W 5 10.77.2.2"), "{}", router.log());
        hosts.ip("route del 10.98.0.0/16");
        let stands_still = router
            .log()
            .matches("the forwarding thread stalled")
            .count();
        println!("round {round}: the kernel took over {stands_still} times");
    }
}

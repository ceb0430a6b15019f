//! Signals while a router starts.

use std::fs;
use std::thread;
use std::time::Instant;

use weir_benches::testbed::run;

use super::common::{ANSWERED, Hosts, eventually};
use super::stream::CONFIG;

/// Number of moments during a start at which a signal is tried.
const MOMENTS: u32 = 12;

#[test]
fn a_signal_at_any_moment_of_a_start_ends_the_router_in_order() {
    let Some(hosts) = Hosts::new() else { return };
    for watchdog in ["watchdog = \"1 s\"", "watchdog = \"0 s\""] {
        let config = format!("{watchdog}\n{CONFIG}");
        let began = Instant::now();
        drop(hosts.start("a", &config));
        let start = began.elapsed();
        for n in 0..MOMENTS {
            let mut router = hosts.spawn("a", &config);
            // No program can handle a signal that comes before its first instruction.
            eventually("its first instruction", || is_ready(router.process.id()));
            thread::sleep(start * n / MOMENTS);
            router.signal(if n % 2 == 0 { "TERM" } else { "INT" });
            let status = router.ended();
            assert!(
                status.success(),
                "{watchdog}, moment {n}: {status}\n{}",
                router.log()
            );
            let tables = run(&hosts.bed.router, "nft", "list tables").unwrap();
            assert!(!tables.contains("weir"), "moment {n}: {tables}");
        }
    }
    run(&hosts.bed.source, "ping", ANSWERED).unwrap();
    hosts.start("b", CONFIG); // no interface lock is left either
}

/// Whether SIGTERM no longer kills the process immediately.
fn is_ready(process: u32) -> bool {
    const TERM: u64 = 1 << (15 - 1);
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mask = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name));
        u64::from_str_radix(mask.unwrap().trim(), 16).unwrap()
    };
    (mask("SigBlk:") | mask("SigCgt:")) & TERM != 0
}

//! The checks of a router during and after the load.

use std::process::Command;
use std::sync::atomic::Ordering;

use serde::Serialize;
use weir_live::namespace::Namespace;

use super::bed::{Bed, OPERATOR_TABLE};
use super::frame_counters::{FrameCounters, Port};
use super::routes::routes_of;
use super::{Done, Watched};
use crate::error::Error;
use crate::scenario::Mode;

/// Permitted growth of memory after the warm-up, as a share, in addition to [`MEMORY_SPARE`]: an allocator keeps its
/// memory of the busiest moment, which may come late.
const MEMORY_GROWTH: f64 = 0.10;
/// Permitted growth of memory in bytes.
const MEMORY_SPARE: u64 = 16 << 20;
/// Files and threads that a request in progress may hold.
const IN_PROGRESS: u64 = 8;
/// One answer in this number may take longer than the client waits (5 s): a change of ports waits for the lock of the
/// kernel's tables, which changes of routes and links hold as well.
const LATE_ONE_IN: u64 = 50;
/// Traffic that must have arrived in any case.
const MUST_ARRIVE: [&str; 5] = [
    "bytes received by TCP",
    "bytes received by TCP over IPv6",
    "bytes received by UDP",
    "bytes received by UDP over IPv6",
    "files fetched",
];

/// A condition that must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The condition.
    pub what: String,
    /// Whether it holds.
    pub holds: bool,
    /// The figures.
    pub seen: String,
}

/// The checks so far.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) all: Vec<Check>,
}

impl Checks {
    fn add(&mut self, what: impl Into<String>, holds: bool, seen: String) {
        let what = what.into();
        self.all.push(Check { what, holds, seen });
    }

    fn equal(&mut self, what: impl Into<String>, [left, right]: [u64; 2], seen: &str) {
        self.add(what, left == right, format!("{left} = {right}: {seen}"));
    }

    /// Checks the counters of each port, of the whole router, and of the kernel's interfaces.
    pub(super) fn books(
        &mut self,
        before: &FrameCounters,
        after: &FrameCounters,
        mode: Mode,
        networks: u32,
    ) {
        for (name, port) in &after.ports {
            let [received, sent, dropped, held] = port.queue;
            for (unit, [received, sent, dropped, held]) in [
                (
                    "packets",
                    [received, sent, dropped, held].map(|count| count.packets),
                ),
                (
                    "bytes",
                    [received, sent, dropped, held].map(|count| count.bytes),
                ),
            ] {
                let what = format!("the queue of {name} accounts for all {unit}");
                let seen = format!("received = {sent} sent + {dropped} dropped + {held} held");
                self.equal(what, [received, sent + dropped + held], &seen);
            }
        }
        let sum = |of: fn(&Port) -> u64| after.ports.values().map(of).sum::<u64>();
        let (received, sent) = (sum(|port| port.received), sum(|port| port.sent));
        let held = sum(|port| port.queue[3].packets) + after.waiting;
        let (created, dropped) = (after.created, after.drops.values().sum::<u64>());
        let seen = format!(
            "{received} received + {created} created = {sent} sent + {dropped} dropped + {held} held"
        );
        let what = "the router's counters account for all packets";
        self.equal(what, [received + created, sent + dropped + held], &seen);
        // Beside the queue, an interface carries the packets of starts and reloads.
        let alone = ["lan", "wan"].into_iter().filter(|_| mode == Mode::Routed);
        for name in alone {
            if let (Some(before), Some(after)) = (before.ports.get(name), after.ports.get(name)) {
                self.beside_the_kernel(name, before, after);
            }
        }
        if let Some(routes) = after.routes {
            let seen = format!("{networks} networks, some also with an IPv6 route");
            let what = "the router has a route to every network";
            self.equal(what, [routes, routes_of(networks)], &seen);
        }
    }

    /// Compares the counts of a port since the start with the kernel's counts at its interface.
    fn beside_the_kernel(&mut self, name: &str, before: &Port, after: &Port) {
        let since = |of: fn(&Port) -> u64| of(after) - of(before);
        let (received, missed) = (since(|port| port.received), since(|port| port.missed));
        let by_kernel = since(|port| port.kernel[0]);
        let seen = format!(
            "{received} received + {missed} lost in the ring; the interface counted {by_kernel}"
        );
        let what = format!("port {name} counted every frame that its interface received");
        // A full ring also loses frames that the machine itself sends.
        let permitted = received..=received + missed;
        self.add(what, permitted.contains(&by_kernel), seen);
        let own_missed = (received + missed).saturating_sub(by_kernel);
        let (sent, charged) = (since(|port| port.sent), since(|port| port.charged));
        let refused = since(|port| port.refused);
        let [by_kernel, dropped] = [since(|port| port.kernel[1]), since(|port| port.kernel[2])];
        let seen = format!(
            "{sent} sent - {refused} refused + {charged} of the kernel + {own_missed} of its own lost in the ring; \
             the kernel counted {by_kernel} sent and {dropped} dropped"
        );
        let what = format!("the interface of port {name} sent every frame that the port sent");
        // The kernel drops some of its own frames before the interface counts them, and some after.
        let permitted = by_kernel..=by_kernel + dropped;
        let counted = sent + charged + own_missed - refused;
        self.add(what, permitted.contains(&counted), seen);
    }

    /// Checks that memory, files and threads are as after the warm-up, and belong to the same process.
    pub(super) fn usage(&mut self, watched: &Watched) {
        let Watched { warm, end, looks } = watched;
        let seen = format!("process {} in {looks} samples", end.pid);
        self.add(
            "the watchdog never fired, and the router never restarted",
            warm.pid == end.pid,
            seen,
        );
        let allowed = warm.memory + (warm.memory as f64 * MEMORY_GROWTH) as u64 + MEMORY_SPARE;
        let [a, b, c] = [warm.memory, end.memory, allowed].map(|bytes| bytes >> 20);
        let seen =
            format!("{a} MiB in the second quarter, {b} MiB in the last quarter, limit {c} MiB");
        self.add("memory use is constant", end.memory <= allowed, seen);
        for (what, warm, end) in [
            ("open files", warm.files, end.files),
            ("threads", warm.threads, end.threads),
        ] {
            let seen = format!("{warm} in the second quarter, {end} in the last quarter");
            self.add(
                format!("the number of {what} is constant"),
                end <= warm + IN_PROGRESS,
                seen,
            );
        }
    }

    /// Checks that all required traffic has arrived.
    pub(super) fn done(&mut self, done: &Done) {
        let number = |what: &str| done.get(what).copied().unwrap_or(0);
        let lacking: Vec<&str> = MUST_ARRIVE
            .into_iter()
            .filter(|what| number(what) == 0)
            .collect();
        let seen = match lacking[..] {
            [] => "all kinds".to_owned(),
            _ => format!("no {}", lacking.join(", no ")),
        };
        self.add("every kind of traffic arrived", lacking.is_empty(), seen);
        let pings = number("pings answered (IPv4, IPv6)");
        self.add(
            "pings were answered over IPv4 and IPv6",
            pings == 2,
            format!("{pings} of 2"),
        );
    }

    /// Checks that the router has answered in time.
    pub(super) fn answers(&mut self, bed: &Bed) {
        let [asked, late] = [&bed.asked, &bed.late].map(|count| count.load(Ordering::Relaxed));
        let seen = format!("{late} of {asked} requests were answered too late");
        self.add(
            "the router answered requests in time",
            late * LATE_ONE_IN <= asked,
            seen,
        );
    }

    /// Checks that the router ends in order, and leaves nothing in the kernel's tables.
    pub(super) fn end(&mut self, bed: Bed) -> Result<(), Error> {
        let (host, ended) = bed.stop();
        let seen = match &ended {
            Ok(()) => "exit code 0, and no panic".to_owned(),
            Err(error) => error.to_string(),
        };
        self.add("the router shut down cleanly", ended.is_ok(), seen);
        let left = tables(&host)?;
        let seen = if left.is_empty() {
            "no tables left".to_owned()
        } else {
            left.clone()
        };
        self.add(
            "the router's kernel tables were deleted",
            left.is_empty(),
            seen,
        );
        Ok(())
    }
}

/// The tables of nf_tables in a namespace, as `nft` lists them.
fn tables(host: &Namespace) -> Result<String, Error> {
    let list = || Command::new("nft").args(["list", "tables"]).output();
    let output = host.enter(list).and_then(|output| output);
    let output = output.map_err(Error::io("cannot run nft (Debian package nftables)"))?;
    if output.status.success() {
        let listed = String::from_utf8_lossy(&output.stdout);
        let left = listed.lines().filter(|table| *table != OPERATOR_TABLE);
        Ok(left.collect::<Vec<_>>().join("\n"))
    } else {
        Err(Error::Program {
            what: "nft".to_owned(),
            output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame_counters::Count;
    use super::*;

    fn books() -> FrameCounters {
        let count = |packets| Count {
            packets,
            bytes: 100 * packets,
        };
        let lan = Port {
            received: 10,
            sent: 4,
            kernel: [10, 5, 0],
            charged: 1,
            queue: [count(5), count(4), count(1), count(0)],
            ..Port::default()
        };
        FrameCounters {
            ports: [("lan".to_owned(), lan)].into(),
            drops: [("queue-full".to_owned(), 8)].into(),
            created: 2,
            ..FrameCounters::default()
        }
    }

    fn failed(after: &FrameCounters) -> Vec<String> {
        let mut before = books();
        before.ports.insert("lan".to_owned(), Port::default());
        let mut checks = Checks::default();
        checks.books(&before, after, Mode::Routed, 0);
        let failed = checks.all.into_iter().filter(|check| !check.holds);
        failed.map(|check| check.what).collect()
    }

    #[test]
    fn a_packet_that_is_in_no_book_is_found() {
        assert_eq!(failed(&books()), [] as [&str; 0]);
        let mut after = books();
        after.created = 1;
        assert_eq!(
            failed(&after),
            ["the router's counters account for all packets"]
        );
        let mut after = books();
        if let Some(lan) = after.ports.get_mut("lan") {
            lan.queue[2].bytes += 1;
            lan.kernel[0] += 1;
        }
        let expected = [
            "the queue of lan accounts for all bytes",
            "port lan counted every frame that its interface received",
        ];
        assert_eq!(failed(&after), expected);
    }
}

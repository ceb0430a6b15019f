//! The counters of the router and of the kernel, read while no packet moves.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::bed::Bed;
use super::routes::is_network;
use crate::error::Error;

/// All counters are constant within this time after the traffic has stopped.
const SETTLE_MAX: Duration = Duration::from_secs(60);
/// Two readings this far apart are equal if no packet moves.
const APART: Duration = Duration::from_millis(300);

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl Count {
    fn of(value: &Value) -> Self {
        Self {
            packets: value["packets"].as_u64().unwrap_or(0),
            bytes: value["bytes"].as_u64().unwrap_or(0),
        }
    }
}

/// A port, its queue and its interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Port {
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) charged: u64,
    pub(super) missed: u64,
    pub(super) refused: u64,
    /// Counters of the queue: offered, sent, dropped, held.
    pub(super) queue: [Count; 4],
    /// The kernel's counters of the interface: received, sent, dropped on sending.
    pub(super) kernel: [u64; 3],
}

/// The counters of the router.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FrameCounters {
    pub(super) ports: BTreeMap<String, Port>,
    /// Dropped packets, by reason.
    pub(super) drops: BTreeMap<String, u64>,
    /// Packets that the router made.
    pub(super) created: u64,
    /// Packets that wait for neighbours.
    pub(super) waiting: u64,
    /// Number of networks of `routes` that the router has a route to; `None` if the answer is too long.
    pub(super) routes: Option<u64>,
}

impl FrameCounters {
    /// The counters once they no longer change.
    pub(super) fn settled(bed: &Bed) -> Result<Self, Error> {
        let began = Instant::now();
        let mut last = Self::read(bed)?;
        loop {
            thread::sleep(APART);
            let now = Self::read(bed)?;
            if now == last && now.is_idle() {
                return Ok(Self {
                    routes: routes(bed),
                    ..now
                });
            }
            if began.elapsed() > SETTLE_MAX {
                let output = format!("its counters still change after {SETTLE_MAX:?}: {now:?}");
                let what = "the router".to_owned();
                return Err(Error::Program { what, output });
            }
            last = now;
        }
    }

    /// Whether no packet is held.
    fn is_idle(&self) -> bool {
        let held = self.ports.values().map(|port| port.queue[3].packets);
        held.sum::<u64>() + self.waiting == 0
    }

    fn read(bed: &Bed) -> Result<Self, Error> {
        let mut books = Self {
            created: bed.page("status")["created"].as_u64().unwrap_or(0),
            ..Self::default()
        };
        let read = || fs::read_to_string("/proc/thread-self/net/dev");
        let interfaces = bed.middle.enter(read).and_then(|text| text);
        let interfaces = interfaces.map_err(Error::io("cannot read the interface counters"))?;
        for row in rows(&bed.page("ports")) {
            let number = |name: &str| row[name].as_u64().unwrap_or(0);
            let port = Port {
                received: Count::of(&row["received"]).packets,
                sent: Count::of(&row["sent"]).packets,
                charged: Count::of(&row["charged"]).packets,
                missed: number("missed"),
                refused: number("refused"),
                kernel: kernel(&interfaces, text(row, "interface")),
                ..Port::default()
            };
            books.ports.insert(text(row, "port").to_owned(), port);
        }
        for row in rows(&bed.page("queues")) {
            if let Some(port) = books.ports.get_mut(text(row, "port")) {
                port.queue =
                    ["received", "sent", "dropped", "backlog"].map(|name| Count::of(&row[name]));
            }
        }
        for row in rows(&bed.page("drops")) {
            let packets = Count::of(&row["count"]).packets;
            books.drops.insert(text(row, "reason").to_owned(), packets);
        }
        let neighbours = bed.page("neighbours");
        let waiting = rows(&neighbours).map(|row| row["waiting"].as_u64().unwrap_or(0));
        books.waiting = waiting.sum();
        Ok(books)
    }
}

/// Counts the routes to `routes`' networks, but not those of the interfaces, which come and go with the links and
/// appear only after duplicate address detection.
fn routes(bed: &Bed) -> Option<u64> {
    let page = bed.page("routes");
    let of_networks = |rows: &Vec<Value>| {
        let networks = rows.iter().filter(|row| is_network(text(row, "prefix")));
        networks.count() as u64
    };
    page.as_array().map(of_networks)
}

fn rows(page: &Value) -> impl Iterator<Item = &Value> {
    page.as_array().into_iter().flatten()
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_default()
}

/// Frames that an interface has received, sent, and dropped on sending, per `/proc/net/dev`.
fn kernel(interfaces: &str, name: &str) -> [u64; 3] {
    let line = interfaces.lines().find_map(|line| {
        let (interface, numbers) = line.split_once(':')?;
        (interface.trim() == name).then_some(numbers)
    });
    let numbers = line.map(|line| line.split_whitespace().map(|n| n.parse().unwrap_or(0)));
    let numbers: Vec<u64> = numbers.into_iter().flatten().collect();
    [1, 9, 11].map(|place| numbers.get(place).copied().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_by_their_whole_name() {
        let dev = "Inter-|   Receive\n face |bytes\n   lan: 1 2 0 0 0 0 0 0 9 10 0 12 0 0 0 0\n  lan0: 7 7 7\n";
        assert_eq!(kernel(dev, "lan"), [2, 10, 12]);
        assert_eq!(kernel(dev, "wan"), [0; 3]);
    }
}

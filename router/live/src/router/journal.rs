//! The router's log: one line for each event that an operator may want to look up later.
//!
//! Level `info` has starts and stops; `debug` adds changes of the kernel's tables and requests for neighbours.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

use weir_base::Tally;
use weir_packet::Reason;
use weir_path::ip::tables::{Action, Neighbour, Tables};
use weir_path::plane::{Plane, PlanePort};

use weir_element::{ActiveState, Notice, Place, differences};

/// Maximum changes in one line; the others are counted.
const CHANGES_SHOWN_MAX: usize = 20;
/// A controller can change components many times a second. Level `info` logs at most one change in this time.
const SPARSE_GAP: Duration = Duration::from_secs(1);

/// Logs that the router has started, with its ports.
pub fn started(ActiveState { plan, limits, .. }: &ActiveState) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        mode = plan.router.mode_word(),
        socket = plan.router.socket,
        ports = plan.ports.len(),
        pool_packets = limits.pool,
        "router started"
    );
    for port in &plan.ports {
        let rate = port
            .rate
            .map_or_else(|| "not paced".to_owned(), |rate| rate.to_string());
        tracing::info!(
            port = port.name,
            interface = port.interface,
            rate,
            discipline = port.discipline.kind(),
            "port opened"
        );
    }
}

/// Logs a notice of the element.
pub(super) fn notice(notice: Notice) {
    match notice {
        Notice::Doubt(doubt) => tracing::warn!("{doubt}"),
        Notice::KernelForwards { ports, why } => {
            tracing::error!(
                ports,
                error = why,
                "the kernel forwards packets that arrive at these ports"
            );
        }
        Notice::HandedBack { why } => {
            for why in &why {
                tracing::error!(
                    "the kernel forwards at all ports until this is removed or permitted: {why}"
                );
            }
        }
        Notice::TakenBack => {
            tracing::warn!("weir forwards again: kernel state no longer prevents it")
        }
        Notice::NotDrained { ports: Some(ports) } => {
            tracing::warn!(ports, "ports removed before their queues were empty");
        }
        Notice::NotDrained { ports: None } => {
            tracing::warn!("stopped before the queues were empty")
        }
        Notice::NotGivenBack {
            ports: Some(ports),
            why,
        } => {
            tracing::warn!(
                ports,
                error = why,
                "ports released without an orderly handover to the kernel"
            );
        }
        Notice::NotGivenBack { ports: None, why } => {
            tracing::warn!(
                error = why,
                "stopped without an orderly handover to the kernel"
            );
        }
        Notice::RulesStay {
            port,
            is_lost: true,
            why,
        } => {
            tracing::warn!(
                port,
                error = why,
                "cannot remove the rules of a lost port; they stay until it returns"
            );
        }
        Notice::RulesStay { port, why, .. } => {
            tracing::error!(
                port,
                error = why,
                "cannot remove the rules of a removed port; the kernel does not forward packets that arrive there"
            );
        }
        Notice::Renamed {
            place: Place { port, interface },
            from,
        } => {
            tracing::info!(
                port,
                from,
                to = interface,
                "interface renamed; the port follows it"
            );
        }
        Notice::Carrier { port, works: true } => tracing::info!(port, "carrier found"),
        Notice::Carrier { port, works: false } => tracing::warn!(port, "carrier lost"),
    }
}

/// Packets that a router has received, sent and lost.
#[derive(Clone, Copy, Debug)]
pub struct Totals {
    received: Tally,
    sent: Tally,
    lost_packets: u64,
}

impl Totals {
    /// Totals of a plane whose ports still exist.
    pub fn of(plane: &Plane) -> Self {
        let sum = |count: fn(&PlanePort) -> Tally| {
            let counts = plane.ports().iter().map(count);
            counts.fold(Tally::ZERO, |sum, one| sum + one)
        };
        let losses = Reason::ALL.into_iter().filter(|reason| reason.is_loss());
        Self {
            received: sum(|slot| slot.received),
            sent: sum(|slot| slot.sent()),
            lost_packets: losses.map(|loss| plane.fates().ended(loss).packets).sum(),
        }
    }
}

/// Logs that the router stops, with its totals if the forwarding thread could still report them.
pub fn stopped(totals: Option<Totals>, started: Instant) {
    let uptime_s = started.elapsed().as_secs();
    let Some(Totals {
        received,
        sent,
        lost_packets,
    }) = totals
    else {
        tracing::info!(uptime_s, "router stopped");
        return;
    };
    tracing::info!(
        uptime_s,
        received_packets = received.packets,
        received_bytes = received.bytes,
        sent_packets = sent.packets,
        sent_bytes = sent.bytes,
        lost_packets,
        "router stopped"
    );
}

/// Selects, of many similar entries, those that level `info` logs: at most one a second. Level `debug` logs all.
#[derive(Debug, Default)]
pub struct Sparse {
    latest: Option<Instant>,
    skipped: u64,
}

impl Sparse {
    /// The number of entries skipped before the current one, if level `info` logs it; `None` if level `info` skips it.
    pub fn admit(&mut self) -> Option<u64> {
        if self.latest.is_some_and(|at| at.elapsed() < SPARSE_GAP) {
            self.skipped += 1;
            return None;
        }
        self.latest = Some(Instant::now());
        Some(std::mem::take(&mut self.skipped))
    }
}

/// Joins changes to one line; cuts a long list, and counts the rest.
pub fn listed(messages: &[String]) -> String {
    let shown: Vec<&str> = messages
        .iter()
        .take(CHANGES_SHOWN_MAX)
        .map(String::as_str)
        .collect();
    let shown = shown.join("; ");
    match messages.len().saturating_sub(CHANGES_SHOWN_MAX) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

/// Logs changes of the kernel's tables.
pub(super) fn tables(old: &Tables, new: &Tables) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return; // comparing large tables takes time
    }
    let changes = [
        compared("route", &routes(old), &routes(new)),
        compared("neighbour", &neighbours(old), &neighbours(new)),
    ];
    let changes = changes.concat();
    tracing::debug!(
        routes = new.routes().count(),
        neighbours = new.neighbours.len(),
        interfaces = new.interfaces.len(),
        changes = listed(&changes),
        "kernel tables"
    );
}

fn routes(tables: &Tables) -> BTreeMap<String, String> {
    let shown = |action: &Action| match action {
        Action::Forward(hops) => {
            let hop = |hop: &weir_path::ip::tables::NextHop| match hop.gateway {
                Some(gateway) => format!("via {gateway}"),
                None => "on the link".to_owned(),
            };
            let hops: Vec<_> = hops.iter().map(hop).collect();
            hops.join(", ")
        }
        other => format!("{other:?}").to_lowercase(),
    };
    let routes = tables.routes();
    routes
        .map(|(prefix, route)| (prefix.to_string(), shown(&route.action)))
        .collect()
}

fn neighbours(tables: &Tables) -> BTreeMap<String, String> {
    let shown = |neighbour: &Neighbour| match neighbour {
        Neighbour::Reachable(mac) | Neighbour::Permanent(mac) => {
            let mac: Vec<_> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
            mac.join(":")
        }
        Neighbour::Failed => "failed".to_owned(),
    };
    let name = |number: &u32| tables.interfaces.get(number).map(|i| i.name.clone());
    let neighbours = tables.neighbours.iter();
    neighbours
        .map(|((interface, address), neighbour)| {
            let interface = name(interface).unwrap_or_else(|| format!("#{interface}"));
            (format!("{address} dev {interface}"), shown(neighbour))
        })
        .collect()
}

fn compared(
    what: impl Display,
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    let changes = differences(before, after);
    changes
        .iter()
        .map(|change| format!("{what} {change}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut_and_says_so() {
        let messages: Vec<String> = (0..25).map(|n| format!("~ {n}")).collect();
        let listed = listed(&messages);
        assert!(listed.ends_with("~ 19; and 5 more"), "{listed}");
        assert_eq!(super::listed(&messages[..2]), "~ 0; ~ 1");
    }
}

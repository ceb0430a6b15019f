//! Sent datagrams, and datagrams that arrived at each receiver.
//!
//! The number of lost datagrams is known only if all of a run's datagrams have arrived or been lost by its end: all of
//! its traffic is UDP, and stops before the end.

use std::collections::BTreeMap;

use crate::measure::losses;
use crate::metrics::Measured;
use crate::reported::Reported;
use crate::scenario::{Scenario, Traffic, TrafficKind};
use crate::topology::Topology;

/// Datagrams that arrived in the window, by traffic and receiving node.
pub(super) type Arrived = BTreeMap<(usize, usize), u64>;

/// Adds losses, and the copies that each receiver got.
pub(super) fn add_metrics(
    scenario: &Scenario,
    topology: &Topology,
    (reported, arrived): (&[Reported], &Arrived),
    measured: &mut Measured,
) {
    let sent = |number: usize| -> u64 {
        let senders = reported[number].sent.iter();
        senders.map(|sender| sender.window_packets).sum()
    };
    let settles = |traffic: &Traffic| {
        let stops = traffic.stop.is_some_and(|stop| stop < scenario.duration);
        stops && matches!(traffic.kind, TrafficKind::Udp { .. })
    };
    if scenario.traffic.iter().all(settles) {
        let numbered = scenario.traffic.iter().enumerate();
        let copies = numbered.map(|(n, traffic)| {
            let receivers = 1 + traffic.kind.copies_to().len() as u64;
            sent(n) * receivers
        });
        // Counts would hide a loss if a datagram were duplicated in the network; routers do not duplicate.
        let lost = copies.sum::<u64>() as f64 - arrived.values().sum::<u64>() as f64;
        losses::add_metrics(lost, &[], measured);
    }
    for (number, traffic) in scenario.traffic.iter().enumerate() {
        let copies = traffic.kind.copies_to();
        if copies.is_empty() {
            continue;
        }
        for host in [&traffic.to].into_iter().chain(copies) {
            let node = topology.node(host);
            let received = node.and_then(|node| arrived.get(&(number, node)));
            let received = received.copied().unwrap_or_default();
            let names = [&*traffic.name, host];
            losses::add_copies(received, sent(number), &names, measured);
        }
    }
}

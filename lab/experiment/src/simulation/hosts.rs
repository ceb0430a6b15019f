//! Fairness between hosts, at each end of the traffic.
//!
//! A host's amount is the bytes of all flows that it sends (at the other end: receives) in the window. Its demand is
//! unlimited if one of these flows is a transfer without end. A flow that offers a rate demands its offered load. Pages
//! and transfers of a given size stop by themselves: their demand is the amount that they transferred.
//!
//! The fair level is that of max-min fairness: if each host had the smaller of the level and its demand, the sum would
//! be the sum of all amounts. Hosts whose demand exceeds the level count. The index is computed for each end
//! separately, because the ends contradict each other where a host has many partners: fifty senders to one home are
//! unequal to the two senders of its neighbours if the homes are equal, and vice versa.

use std::collections::BTreeMap;

use weir_base::statistics::jain;
use weir_sim::meter::Meters;

use crate::scenario::{Scenario, TrafficKind};

/// The bytes of a host in the window.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    had: f64,
    wanted: f64,
}

crate::metrics! {
    RUN on sim;
    /// Adds Jain's index of the hosts at each end.
    pub(super) fn add_metrics(scenario: &Scenario, meters: &Meters) {
        /// Jain's fairness index of the goodput of sending hosts, each summed over its flows; counts only hosts whose
        /// demand exceeds the max-min fair level. The demand of an endless transfer is unlimited, of a rate its offered
        /// load, of web and sized transfers the goodput that they got
        "jain_index_senders" = jain(&wanting(hosts(scenario, meters, 0)));
        /// the same for receiving hosts; separate from the senders' index, because the two conflict where one host has
        /// many peers
        "jain_index_receivers" = jain(&wanting(hosts(scenario, meters, 1)));
    }
}

/// The hosts at one end of the flows.
fn hosts(scenario: &Scenario, meters: &Meters, end: usize) -> Vec<Host> {
    let mut flows = vec![0.0; scenario.traffic.len()];
    for flow in &meters.flows {
        flows[flow.traffic as usize] += 1.0;
    }
    let mut hosts: BTreeMap<_, Host> = BTreeMap::new();
    for flow in &meters.flows {
        let traffic = flow.traffic as usize;
        let had = flow.window_bytes as f64;
        let host = hosts.entry(flow.hosts[end]).or_default();
        host.had += had;
        host.wanted += match scenario.traffic[traffic].kind {
            TrafficKind::Web { .. } | TrafficKind::Tcp { size: Some(_), .. } => had,
            TrafficKind::Tcp { size: None, .. } | TrafficKind::Udp { .. } => {
                let offered = meters.traffics[traffic].offered_bytes;
                offered.map_or(f64::INFINITY, |bytes| bytes as f64 / flows[traffic])
            }
        };
    }
    hosts.into_values().collect()
}

/// The bytes of the hosts whose demand exceeds the fair level.
fn wanting(mut hosts: Vec<Host>) -> Vec<f64> {
    hosts.sort_by(|a, b| a.wanted.total_cmp(&b.wanted));
    let mut left: f64 = hosts.iter().map(|host| host.had).sum();
    let first = (0..hosts.len()).find(|&n| {
        let level = left / (hosts.len() - n) as f64;
        left -= hosts[n].wanted;
        hosts[n].wanted > level
    });
    let wanting = &hosts[first.unwrap_or(hosts.len())..];
    wanting.iter().map(|host| host.had).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_want_more_than_their_share_by_hand() {
        let hosts = |all: &[(f64, f64)]| {
            let host = |&(had, wanted)| Host { had, wanted };
            wanting(all.iter().map(host).collect())
        };
        let all = f64::INFINITY;
        // The sum is 10, and the first host demands only 1: 9 for the other three, a level of 3.
        let mixed = hosts(&[(1.0, 1.0), (5.0, all), (1.0, 4.0), (3.0, all)]);
        assert_eq!(mixed, [1.0, 5.0, 3.0]);
        // 9^2 / (3 * (1 + 25 + 9))
        assert!((jain(&mixed).unwrap() - 81.0 / 105.0).abs() < 1e-9);
        assert!(hosts(&[(1.0, 1.0), (2.0, 2.0)]).is_empty());
        assert_eq!(jain(&[]), None);
    }
}

//! Selects packets for a capture or an observer, by flow and by drop reason.
//!
//! ```text
//!  (host | host ..)  and  (source | ..)  and  (protocol | ..)  and  (port number | ..)  and  (reason | ..)
//! ```
//!
//! Values of one field are alternatives; every field that has values must match. A field without values matches
//! everything. The fields of a packet are those of its flow key: fragments and ICMP have no port numbers, and a frame
//! that is not IP matches no field of IP.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use weir_packet::{FlowKey, Reason};

/// A checked filter; the default filter matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Networks of either end.
    pub hosts: Vec<IpNet>,
    /// Networks of the source.
    pub sources: Vec<IpNet>,
    /// Networks of the destination.
    pub destinations: Vec<IpNet>,
    /// IP protocol numbers.
    pub protocols: Vec<u8>,
    /// Port numbers of either end.
    pub port_numbers: Vec<RangeInclusive<u16>>,
    /// Drop reasons; a packet that is not dropped has none.
    pub reasons: Vec<Reason>,
}

impl Filter {
    /// Whether the filter takes packets with this drop reason; `None` for packets that are forwarded.
    pub fn takes_end(&self, end: Option<Reason>) -> bool {
        let is_one = |reason| self.reasons.contains(&reason);
        self.reasons.is_empty() || end.is_some_and(is_one)
    }

    /// Whether the filter takes packets of some flows only.
    pub fn reads_flows(&self) -> bool {
        let networks = [&self.hosts, &self.sources, &self.destinations];
        networks.into_iter().any(|all| !all.is_empty())
            || !self.protocols.is_empty()
            || !self.port_numbers.is_empty()
    }

    /// Whether the filter takes packets of this flow.
    pub fn takes_flow(&self, key: &FlowKey) -> bool {
        if !self.reads_flows() {
            return true;
        }
        let (Some(source), Some(destination)) = (key.source_ip(), key.destination_ip()) else {
            return false;
        };
        let within = |all: &[IpNet], ends: &[IpAddr]| {
            all.is_empty()
                || all
                    .iter()
                    .any(|net| ends.iter().any(|end| net.contains(end)))
        };
        let numbers = [key.source_port, key.destination_port];
        let has = |range: &RangeInclusive<u16>| {
            numbers
                .iter()
                .any(|port| *port != 0 && range.contains(port))
        };
        (self.protocols.is_empty() || self.protocols.contains(&key.protocol))
            && (self.port_numbers.is_empty() || self.port_numbers.iter().any(has))
            && within(&self.hosts, &[source, destination])
            && within(&self.sources, &[source])
            && within(&self.destinations, &[destination])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(source: &str, destination: &str, protocol: u8, ports: (u16, u16)) -> FlowKey {
        let [source, destination] = [source, destination].map(|text| text.parse().unwrap());
        FlowKey::ip(source, destination, protocol, ports.0, ports.1)
    }

    fn nets(all: &[&str]) -> Vec<IpNet> {
        all.iter().map(|net| net.parse().unwrap()).collect()
    }

    #[test]
    fn values_of_one_field_are_alternatives_and_every_field_must_match() {
        let udp = key("10.1.2.3", "192.0.2.9", 17, (5000, 53));
        let tcp = key("fd00::1", "2001:db8::1", 6, (5000, 443));
        let not_ip = FlowKey::link([1; 6], [2; 6]);
        let takes = |filter: &Filter| [&udp, &tcp, &not_ip].map(|key| filter.takes_flow(key));
        let all = Filter::default();
        assert_eq!(takes(&all), [true; 3]);
        let cases: [(Filter, [bool; 2]); 8] = [
            (
                Filter {
                    hosts: nets(&["192.0.2.0/24"]),
                    ..all.clone()
                },
                [true, false],
            ),
            (
                Filter {
                    hosts: nets(&["fd00::/8", "10.0.0.0/8"]),
                    ..all.clone()
                },
                [true, true],
            ),
            (
                Filter {
                    sources: nets(&["192.0.2.0/24"]),
                    ..all.clone()
                },
                [false, false],
            ),
            (
                Filter {
                    destinations: nets(&["2001:db8::1/128"]),
                    ..all.clone()
                },
                [false, true],
            ),
            (
                Filter {
                    protocols: vec![6, 17],
                    ..all.clone()
                },
                [true, true],
            ),
            (
                Filter {
                    port_numbers: vec![50..=60, 440..=440],
                    ..all.clone()
                },
                [true, false],
            ),
            (
                Filter {
                    port_numbers: vec![5000..=5000],
                    protocols: vec![6],
                    ..all.clone()
                },
                [false, true],
            ),
            (
                Filter {
                    hosts: nets(&["10.0.0.0/8"]),
                    protocols: vec![6],
                    ..all.clone()
                },
                [false, false],
            ),
        ];
        for (filter, expected) in cases {
            assert_eq!(
                takes(&filter),
                [expected[0], expected[1], false],
                "{filter:?}"
            );
        }
    }

    #[test]
    fn a_packet_that_goes_on_has_no_reason() {
        let filter = Filter {
            reasons: vec![Reason::QueueFull],
            ..Filter::default()
        };
        assert!(filter.takes_end(Some(Reason::QueueFull)));
        assert!(!filter.takes_end(Some(Reason::Congestion)));
        assert!(!filter.takes_end(None));
        assert!(Filter::default().takes_end(None));
        let icmp = key("10.0.0.1", "10.0.0.2", 1, (0, 0));
        let any_port = Filter {
            port_numbers: vec![0..=u16::MAX],
            ..Filter::default()
        };
        assert!(!any_port.takes_flow(&icmp), "it has no ports");
    }
}

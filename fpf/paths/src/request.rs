//! Requests of applications, and the encapsulation rules that answer them.
//!
//! Source: section III.B.1. For each flow request the controller selects among the existing paths. The filter of the
//! edge FE is installed before the flow begins: the application receives its answer after the edge FE has applied the
//! changes.

use std::net::IpAddr;

use weir_base::{Rate, Span};

use super::disjoint::Disjoint;
use super::error::PathError;
use super::route::Target;
use super::topology::{DomainId, FeId};

/// A step of a named path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Any FEs in this domain.
    Domain(DomainId),
    /// Exactly this FE.
    Fe(FeId),
}

/// A range of addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// First address of the range.
    pub address: IpAddr,
    /// Length of the common prefix in bits.
    pub bits: u8,
}

/// The packets of a flow. A field that is `None` matches all packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter {
    /// Source addresses.
    pub source: Option<Prefix>,
    /// Destination addresses.
    pub destination: Option<Prefix>,
    /// Protocol number of IPv4, or last next header of IPv6.
    pub protocol: Option<u8>,
    /// First and last source port, both included.
    pub source_ports: Option<[u16; 2]>,
    /// First and last destination port, both included.
    pub destination_ports: Option<[u16; 2]>,
    /// EtherType of packets that are not IP.
    pub ether_type: Option<u16>,
}

/// Protocols with ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

impl Filter {
    /// Refuses a filter that contradicts itself.
    pub fn check(&self) -> Result<(), PathError> {
        let prefixes = || self.source.iter().chain(&self.destination);
        let mut ports = self.source_ports.iter().chain(&self.destination_ports);
        let wrong = |why| Err(PathError::Filter(why));
        let bits = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
        if prefixes().any(|prefix| prefix.bits > bits(prefix.address)) {
            return wrong("has a prefix that is longer than its address");
        }
        let families = prefixes().map(|prefix| prefix.address.is_ipv4());
        let families: Vec<bool> = families.collect();
        if families.windows(2).any(|pair| pair[0] != pair[1]) {
            return wrong("has IPv4 and IPv6 addresses");
        }
        let has_ports = ports.clone().next().is_some();
        let is_ip = !families.is_empty() || self.protocol.is_some() || has_ports;
        if self.ether_type.is_some() && is_ip {
            return wrong("has both an ether type and IP fields");
        }
        if ports.any(|[first, last]| first > last) {
            return wrong("has a range of ports whose first port is above its last port");
        }
        match self.protocol {
            Some(protocol) if WITH_PORTS.contains(&protocol) => Ok(()),
            _ if has_ports => wrong("has ports, but no protocol that has ports"),
            _ => Ok(()),
        }
    }
}

/// The number and kind of paths of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spread {
    /// The cheapest path.
    One,
    /// At most this number of cheapest paths.
    Cheapest(usize),
    /// Exactly this number of paths that share nothing of this kind.
    Disjoint(usize, Disjoint),
}

/// The future flow of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Packets of the flow.
    pub filter: Filter,
    /// The edge FE where the flow enters.
    pub source: FeId,
    /// The target, or for multicast several targets, which must be edge FEs.
    pub targets: Vec<Target>,
    /// The domains and FEs of a path that an operator names, including the first and the last: the flow then has one
    /// path to one target. If empty, the controller chooses the paths.
    pub through: Vec<Step>,
    /// The behaviour requested from every domain; `None` means the first behaviour of each domain.
    pub behaviour: Option<String>,
    /// The rate that links must have left, and that is reserved; several paths share it equally.
    pub rate: Option<Rate>,
    /// Number and kind of paths. A multicast tree has one path to each target.
    pub spread: Spread,
    /// Whether packets of one flow may take different paths, and so may be reordered.
    pub by_packet: bool,
    /// Time without packets after which the edge FE removes the rule; `None` means never.
    pub timeout: Option<Span>,
    /// The session of the application.
    pub session: Option<u64>,
}

/// The vectors of an encapsulation rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carry {
    /// Each packet has one of these vectors; packets or flows are distributed evenly.
    Share {
        /// The vectors.
        vectors: Vec<Vec<u8>>,
        /// Whether packets are distributed, instead of flows.
        by_packet: bool,
    },
    /// Each packet is copied once for each of these vectors.
    Copies(Vec<Vec<u8>>),
}

/// A rule of an edge FE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    /// Packets of the flow.
    pub filter: Filter,
    /// Vectors of the packets.
    pub carry: Carry,
    /// Time without packets after which the rule is removed.
    pub timeout: Option<Span>,
    /// The session of the application.
    pub session: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_contradicts_itself_is_refused() {
        let prefix = |address: &str, bits| {
            let address = address.parse().unwrap();
            Some(Prefix { address, bits })
        };
        let base = Filter {
            source: prefix("10.0.0.0", 8),
            protocol: Some(17),
            destination_ports: Some([5000, 5001]),
            ..Filter::default()
        };
        assert_eq!(base.check(), Ok(()));
        assert_eq!(Filter::default().check(), Ok(()));
        let wrong = [
            Filter {
                source: prefix("10.0.0.0", 33),
                ..base.clone()
            },
            Filter {
                destination: prefix("2001:db8::", 32),
                ..base.clone()
            },
            Filter {
                ether_type: Some(0x88b5),
                ..base.clone()
            },
            Filter {
                destination_ports: Some([2, 1]),
                ..base.clone()
            },
            Filter {
                protocol: Some(1),
                ..base.clone()
            },
            Filter {
                protocol: None,
                ..base.clone()
            },
        ];
        for filter in wrong {
            assert!(filter.check().is_err(), "{filter:?}");
        }
        let mpls = Filter {
            ether_type: Some(0x8847),
            ..Filter::default()
        };
        assert_eq!(mpls.check(), Ok(()));
    }
}

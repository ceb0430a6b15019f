//! Requests of applications, and the encapsulation rules that answer them.
//!
//! Source: section III.B.1. For each flow request the controller selects among the paths that are there, and the edge
//! FE's filter stands before the flow begins: the application is answered when the edge FE has taken the changes.

use std::net::IpAddr;

use weir_base::{Rate, Span};

use super::disjoint::Disjoint;
use super::error::PathError;
use super::route::Target;
use super::topology::{DomainId, FeId};

/// A part of a named path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Any FEs of this domain.
    Domain(DomainId),
    /// This FE.
    Fe(FeId),
}

/// Addresses with a common beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The first address.
    pub address: IpAddr,
    /// Bits that all of them share.
    pub bits: u8,
}

/// The packets of a flow. A field that is not given fits every packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter {
    /// Sources.
    pub source: Option<Prefix>,
    /// Destinations.
    pub destination: Option<Prefix>,
    /// The protocol, or the last next header of IPv6.
    pub protocol: Option<u8>,
    /// First and last source port.
    pub source_ports: Option<[u16; 2]>,
    /// First and last destination port.
    pub destination_ports: Option<[u16; 2]>,
    /// The ether type of packets that are not IP.
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
            return wrong("has a prefix with more bits than its addresses have");
        }
        let families = prefixes().map(|prefix| prefix.address.is_ipv4());
        let families: Vec<bool> = families.collect();
        if families.windows(2).any(|pair| pair[0] != pair[1]) {
            return wrong("has IPv4 and IPv6 addresses");
        }
        let has_ports = ports.clone().next().is_some();
        let is_ip = !families.is_empty() || self.protocol.is_some() || has_ports;
        if self.ether_type.is_some() && is_ip {
            return wrong("has an ether type of other packets, and fields of IP");
        }
        if ports.any(|[first, last]| first > last) {
            return wrong("has a range of ports that ends before it begins");
        }
        match self.protocol {
            Some(protocol) if WITH_PORTS.contains(&protocol) => Ok(()),
            _ if has_ports => wrong("has ports, but no protocol with ports"),
            _ => Ok(()),
        }
    }
}

/// The number of paths that a flow has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spread {
    /// The cheapest one.
    One,
    /// At most this many of the cheapest ones.
    Cheapest(usize),
    /// This many that share nothing of this kind.
    Disjoint(usize, Disjoint),
}

/// A flow that an application will send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its packets.
    pub filter: Filter,
    /// The edge FE where it enters.
    pub source: FeId,
    /// Its target; several for multicast, which must be edge FEs.
    pub targets: Vec<Target>,
    /// The domains and FEs that its path leads through, the first and the last one included, if an operator names it: then it
    /// is one path to one target. Empty: the controller chooses.
    pub through: Vec<Step>,
    /// The behaviour that it wants of every domain; the first of each if not given.
    pub behaviour: Option<String>,
    /// The rate that links must have left for it, and that is reserved; several paths share it evenly.
    pub rate: Option<Rate>,
    /// Its paths. A multicast tree has one to each target.
    pub spread: Spread,
    /// Packets of a flow go different ways, and may arrive in another order.
    pub by_packet: bool,
    /// The edge FE forgets the rule after this time without a packet; never if not given.
    pub timeout: Option<Span>,
    /// The session of the application.
    pub session: Option<u64>,
}

/// The vectors of an encapsulation rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carry {
    /// Each packet has one of these, evenly shared out.
    Share {
        /// The vectors.
        vectors: Vec<Vec<u8>>,
        /// By packet instead of by flow.
        by_packet: bool,
    },
    /// A copy of each packet has each of these.
    Copies(Vec<Vec<u8>>),
}

/// A rule of an edge FE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    /// The packets.
    pub filter: Filter,
    /// Their vectors.
    pub carry: Carry,
    /// The rule ends after this time without a packet.
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

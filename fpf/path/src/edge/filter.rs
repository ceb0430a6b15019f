//! Multi-field filters: which packets an encapsulation rule takes.
//!
//! ```text
//!  IP      version   source prefix   destination prefix   protocol?   source ports   destination ports
//!  other   ether type
//! ```
//!
//! Source: Beben et al., section III.B (the 5-tuple; for other protocols "filters specific for such protocols").
//!
//! A field that is not given matches everything. Bits of an address beyond its prefix do not count. IPv6
//! extension headers are skipped, so the protocol is that of the last header.
//!
//! **Fragments.** Only the first fragment of a datagram has ports. A filter that names ports matches no fragment,
//! not even the first one; a filter without ports matches all fragments of a datagram or none. So a datagram never
//! takes two paths. `tc flower` of Linux does the same.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_packet::key::{Family, KeyKind};
use weir_packet::{FlowKey, Packet, Pool};
use weir_path::classify;
use weir_path::headers::Headers;
use weir_wire::ipv6_extension::is_extension;
use weir_wire::{EtherType, Protocol};

/// A filter as configured, before it is checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawFilter {
    /// IP version: 4 or 6. It may be omitted if a prefix is given.
    pub version: Option<u8>,
    /// Ether type, instead of all other fields: packets that are not IP.
    pub ethertype: Option<u16>,
    /// Source prefix.
    pub source: Option<IpNet>,
    /// Destination prefix.
    pub destination: Option<IpNet>,
    /// IP protocol number.
    pub protocol: Option<u8>,
    /// First and last source port.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub destination_ports: Option<(u16, u16)>,
}

/// Why a filter is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}, but must be {permitted}")]
pub struct FilterError {
    /// The field.
    pub field: &'static str,
    /// Value of the field.
    pub found: String,
    /// The values permitted.
    pub permitted: &'static str,
}

/// A checked filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    family: Family,
    /// The fields with unknown bits zero; the ports are the first ports of their ranges. Without IP, the source port is
    /// the ether type.
    least: FlowKey,
    /// The last ports of the ranges.
    last_ports: [u16; 2],
    /// Lengths of the two prefixes.
    prefix_lens: [u8; 2],
    protocol: Option<u8>,
}

/// A packet as filters see it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Flow key of the packet. Without IP, only the family counts.
    pub key: &'a FlowKey,
    /// Keyed hash of that key.
    pub hash: u64,
    /// Whether the ports in the key are the packet's own: false for a fragment, and if the header ends early.
    pub has_ports: bool,
    /// Ether type of the packet.
    pub ethertype: EtherType,
}

/// Every port.
const ALL_PORTS: (u16, u16) = (0, u16::MAX);
/// Minimum ether type; smaller values are lengths (IEEE 802.3, clause 3.2.6).
const ETHERTYPE_MIN: u16 = 0x0600;

impl RawFilter {
    /// Checks the fields and their combination.
    pub fn check(&self) -> Result<Filter, FilterError> {
        if let Some(ethertype) = self.ethertype {
            return self.check_ethertype(ethertype);
        }
        let family = self.family()?;
        if let Some(protocol) = self.protocol
            && family == Family::V6
            && is_extension(protocol.into())
        {
            let permitted = "the protocol after the IPv6 extension headers";
            return Err(wrong("protocol", protocol, permitted));
        }
        let ports = [self.source_ports, self.destination_ports];
        for (field, range) in ["source_ports", "destination_ports"].into_iter().zip(ports) {
            self.check_ports(field, range)?;
        }
        let [source_ports, destination_ports] = ports.map(|range| range.unwrap_or(ALL_PORTS));
        let prefixes = [self.source, self.destination];
        let [source, destination] = prefixes.map(|prefix| match prefix {
            Some(prefix) => (prefix.network(), prefix.prefix_len()),
            None => (unspecified(family), 0),
        });
        let least = FlowKey::ip(
            source.0,
            destination.0,
            self.protocol.unwrap_or(0),
            source_ports.0,
            destination_ports.0,
        );
        Ok(Filter {
            family,
            least,
            last_ports: [source_ports.1, destination_ports.1],
            prefix_lens: [source.1, destination.1],
            protocol: self.protocol,
        })
    }

    fn family(&self) -> Result<Family, FilterError> {
        let of_prefix = |prefix: IpNet| match prefix {
            IpNet::V4(_) => Family::V4,
            IpNet::V6(_) => Family::V6,
        };
        let prefixes = [("source", self.source), ("destination", self.destination)];
        let named = match self.version {
            Some(4) => Some(Family::V4),
            Some(6) => Some(Family::V6),
            Some(other) => return Err(wrong("version", other, "4 or 6")),
            None => prefixes
                .iter()
                .find_map(|(_, prefix)| prefix.map(of_prefix)),
        };
        let Some(family) = named else {
            let permitted = "4 or 6, unless a prefix or an ether type is given";
            return Err(wrong("version", "not given", permitted));
        };
        for (field, prefix) in prefixes {
            if let Some(prefix) = prefix
                && of_prefix(prefix) != family
            {
                return Err(wrong(field, prefix, "of the filter's IP version"));
            }
        }
        Ok(family)
    }

    fn check_ports(
        &self,
        field: &'static str,
        range: Option<(u16, u16)>,
    ) -> Result<(), FilterError> {
        let Some((first, last)) = range else {
            return Ok(());
        };
        if first > last {
            let found = format!("{first} to {last}");
            return Err(wrong(
                field,
                found,
                "a range whose first port is not above its last port",
            ));
        }
        match self.protocol {
            Some(protocol) if Protocol::from(protocol).has_ports() => Ok(()),
            _ => {
                let found = format!("{first} to {last}");
                let permitted = "absent, unless the protocol has ports: 6, 17, 33, 132 or 136";
                Err(wrong(field, found, permitted))
            }
        }
    }

    fn check_ethertype(&self, ethertype: u16) -> Result<Filter, FilterError> {
        let alone = Self {
            ethertype: self.ethertype,
            ..Self::default()
        };
        let shown = format!("{ethertype:#06x}");
        let code = EtherType::from(ethertype);
        if ethertype < ETHERTYPE_MIN
            || code.is_tag()
            || matches!(code, EtherType::IPV4 | EtherType::IPV6)
        {
            let permitted =
                "from 0x0600 to 0xffff, and neither IP (use the version instead) nor a VLAN tag";
            return Err(wrong("ethertype", shown, permitted));
        }
        if *self == alone {
            Ok(Filter {
                family: Family::Link,
                least: of_ethertype(code),
                last_ports: [0; 2],
                prefix_lens: [0; 2],
                protocol: None,
            })
        } else {
            Err(wrong("ethertype", shown, "absent if there are IP fields"))
        }
    }
}

impl Filter {
    /// The filter for all packets with this 5-tuple; ports do not count if the protocol has none.
    pub fn exact(key: &FlowKey) -> Self {
        let (has_ports, bits) = (
            Protocol::from(key.protocol).has_ports(),
            address_bits(key.family),
        );
        let without_ports = FlowKey {
            source_port: 0,
            destination_port: 0,
            ..*key
        };
        Self {
            family: key.family,
            least: if has_ports { *key } else { without_ports },
            last_ports: if has_ports {
                [key.source_port, key.destination_port]
            } else {
                [u16::MAX; 2]
            },
            prefix_lens: [bits; 2],
            protocol: Some(key.protocol),
        }
    }

    /// The flow key, if the packets of exactly one flow match.
    pub fn flow(&self) -> Option<FlowKey> {
        let key = &self.least;
        let (protocol, bits) = (self.protocol?, address_bits(self.family));
        let one_flow = if Protocol::from(protocol).has_ports() {
            self.last_ports == [key.source_port, key.destination_port]
        } else {
            true
        };
        (self.prefix_lens == [bits; 2] && one_flow).then_some(*key)
    }

    /// Whether a packet matches.
    #[inline]
    pub fn matches(&self, subject: &Subject<'_>) -> bool {
        let key = subject.key;
        if key.family != self.family {
            return false;
        }
        if self.family == Family::Link {
            return of_ethertype(subject.ethertype) == self.least;
        }
        let [source_len, destination_len] = self.prefix_lens;
        masked(key.source, source_len) == self.least.source
            && masked(key.destination, destination_len) == self.least.destination
            && self
                .protocol
                .is_none_or(|protocol| protocol == key.protocol)
            && self.ports_match(subject)
    }

    fn ports_match(&self, subject: &Subject<'_>) -> bool {
        let (key, [source_last, destination_last]) = (subject.key, self.last_ports);
        let within = || {
            (self.least.source_port..=source_last).contains(&key.source_port)
                && (self.least.destination_port..=destination_last).contains(&key.destination_port)
        };
        !self.names_ports() || subject.has_ports && within()
    }

    /// Whether the filter names a range of ports, so that it matches no fragment.
    pub fn names_ports(&self) -> bool {
        let least = [self.least.source_port, self.least.destination_port];
        self.family != Family::Link && (least, self.last_ports) != ([0; 2], [u16::MAX; 2])
    }

    /// The kind of packets.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The fields as configured.
    pub fn raw(&self) -> RawFilter {
        let key = &self.least;
        if self.family == Family::Link {
            return RawFilter {
                ethertype: Some(key.source_port),
                ..RawFilter::default()
            };
        }
        let prefix = |address: [u8; 16], len: u8| {
            let address = match self.family {
                Family::V4 => IpAddr::from([address[0], address[1], address[2], address[3]]),
                _ => IpAddr::from(address),
            };
            IpNet::new(address, len).ok().filter(|_| len > 0)
        };
        let range = |first: u16, last: u16| Some((first, last)).filter(|range| *range != ALL_PORTS);
        RawFilter {
            version: Some(self.family as u8),
            ethertype: None,
            source: prefix(key.source, self.prefix_lens[0]),
            destination: prefix(key.destination, self.prefix_lens[1]),
            protocol: self.protocol,
            source_ports: range(key.source_port, self.last_ports[0]),
            destination_ports: range(key.destination_port, self.last_ports[1]),
        }
    }

    /// The fields with unknown bits zero.
    pub(super) fn least(&self) -> &FlowKey {
        &self.least
    }

    /// Lengths of the source and the destination prefix.
    pub(super) fn prefix_lens(&self) -> [u8; 2] {
        self.prefix_lens
    }

    /// Whether the filter names a protocol.
    pub(super) fn names_protocol(&self) -> bool {
        self.protocol.is_some()
    }

    /// Number of leading bits that all ports of each range have in common.
    pub(super) fn port_lens(&self) -> [u8; 2] {
        let [source_last, destination_last] = self.last_ports;
        let common = |first: u16, last: u16| (first ^ last).leading_zeros() as u8;
        match self.family {
            Family::Link => [0; 2],
            _ => [
                common(self.least.source_port, source_last),
                common(self.least.destination_port, destination_last),
            ],
        }
    }
}

impl<'a> Subject<'a> {
    /// A packet whose headers have been read and whose flow key is in the pool.
    #[inline]
    pub fn new(pool: &'a Pool, packet: &Packet, headers: &Headers) -> Self {
        Self {
            key: pool.keys.key(packet),
            hash: pool.keys.hash(packet, KeyKind::Flow),
            has_ports: classify::has_ports(headers),
            ethertype: match headers.family {
                Family::V4 => EtherType::IPV4,
                Family::V6 => EtherType::IPV6,
                Family::Link => ethertype(pool.frame(packet), headers),
            },
        }
    }

    /// Whether the packet can match the filter of one flow: its ports are known, or its protocol has none.
    #[inline]
    pub(super) fn is_of_one_flow(&self) -> bool {
        self.has_ports
            || self.key.family != Family::Link && !Protocol::from(self.key.protocol).has_ports()
    }
}

/// The ether type of a frame that is not IP: the two bytes before its payload.
fn ethertype(frame: &[u8], headers: &Headers) -> EtherType {
    let before = frame.get(..usize::from(headers.l3));
    let code = before.and_then(|link| link.last_chunk().copied());
    code.map_or(0, u16::from_be_bytes).into()
}

/// An address with only its first `len` bits.
#[inline]
pub(super) fn masked(address: [u8; 16], len: u8) -> [u8; 16] {
    let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
    (u128::from_be_bytes(address) & mask).to_be_bytes()
}

/// The key that stands for all packets of an ether type, which takes the place of the source port.
#[inline]
pub(super) fn of_ethertype(ethertype: EtherType) -> FlowKey {
    FlowKey {
        source_port: ethertype.into(),
        ..FlowKey::default()
    }
}

/// Length of an address.
fn address_bits(family: Family) -> u8 {
    match family {
        Family::V4 => 32,
        Family::V6 => 128,
        Family::Link => 0,
    }
}

fn unspecified(family: Family) -> IpAddr {
    match family {
        Family::V6 => IpAddr::from([0; 16]),
        _ => IpAddr::from([0; 4]),
    }
}

fn wrong(field: &'static str, found: impl ToString, permitted: &'static str) -> FilterError {
    FilterError {
        field,
        found: found.to_string(),
        permitted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::samples::{filters, packets, whole};
    use proptest::prelude::*;

    fn v4() -> RawFilter {
        RawFilter {
            version: Some(4),
            ..RawFilter::default()
        }
    }

    fn udp(source: [u8; 4], ports: (u16, u16)) -> FlowKey {
        FlowKey::ip(source.into(), [192, 0, 2, 1].into(), 17, ports.0, ports.1)
    }

    #[test]
    fn an_empty_filter_of_a_version_takes_all_of_it() {
        let filter = v4().check().unwrap();
        assert!(filter.matches(&whole(&udp([10, 0, 0, 1], (1, 2)))));
        let v6 = FlowKey::ip([1; 16].into(), [2; 16].into(), 17, 1, 2);
        assert!(!filter.matches(&whole(&v6)));
        assert!(!filter.matches(&whole(&FlowKey::link([1; 6], [2; 6]))));
    }

    #[test]
    fn each_field_counts() {
        let filter = RawFilter {
            source: Some("10.1.2.3/16".parse().unwrap()),
            destination: Some("192.0.2.1/32".parse().unwrap()),
            protocol: Some(17),
            source_ports: Some((5000, 5003)),
            destination_ports: Some((53, 53)),
            ..v4()
        };
        let matches = |key: &FlowKey| filter.check().unwrap().matches(&whole(key));
        let good = udp([10, 1, 200, 1], (5003, 53));
        assert!(matches(&good));
        let wrong = [
            udp([10, 2, 0, 1], (5003, 53)),
            udp([10, 1, 0, 1], (4999, 53)),
            udp([10, 1, 0, 1], (5004, 53)),
            udp([10, 1, 0, 1], (5000, 54)),
            FlowKey {
                protocol: 6,
                ..good
            },
            FlowKey {
                destination: [9; 16],
                ..good
            },
        ];
        assert!(wrong.iter().all(|key| !matches(key)));
    }

    #[test]
    fn a_filter_with_ports_matches_no_fragment_and_one_without_matches_all() {
        let key = udp([10, 0, 0, 1], (0, 0));
        let fragment = Subject {
            has_ports: false,
            ..whole(&key)
        };
        let of_udp = RawFilter {
            protocol: Some(17),
            ..v4()
        };
        assert!(of_udp.check().unwrap().matches(&fragment));
        for ports in [(0, 0), (0, 9), (1, u16::MAX)] {
            let with_ports = RawFilter {
                source_ports: Some(ports),
                ..of_udp
            };
            assert!(!with_ports.check().unwrap().matches(&fragment));
        }
        let all_ports = RawFilter {
            source_ports: Some(ALL_PORTS),
            ..of_udp
        };
        assert!(all_ports.check().unwrap().matches(&fragment)); // the same as no ports
    }

    #[test]
    fn other_protocols_have_their_ether_type() {
        let filter = RawFilter {
            ethertype: Some(0x88f7),
            ..RawFilter::default()
        };
        let filter = filter.check().unwrap();
        let key = FlowKey::link([1; 6], [2; 6]);
        let of_type = |ethertype| Subject {
            ethertype,
            ..whole(&key)
        };
        assert!(filter.matches(&of_type(EtherType(0x88f7))));
        assert!(!filter.matches(&of_type(EtherType::ARP)));
    }

    #[test]
    fn errors_name_the_field_and_the_permitted_values() {
        let net = |text: &str| Some(text.parse().unwrap());
        let (none, ethertype) = (RawFilter::default(), |ethertype| RawFilter {
            ethertype: Some(ethertype),
            ..RawFilter::default()
        });
        let cases = [
            (
                none.clone(),
                "version is not given, but must be 4 or 6, unless a prefix or an ether type is given",
            ),
            (
                RawFilter {
                    version: Some(5),
                    ..none.clone()
                },
                "version is 5, but must be 4 or 6",
            ),
            (
                RawFilter {
                    destination: net("2001:db8::/32"),
                    ..v4()
                },
                "destination is 2001:db8::/32, but must be of the filter's IP version",
            ),
            (
                RawFilter {
                    source: net("10.0.0.0/8"),
                    destination: net("::/0"),
                    ..none.clone()
                },
                "destination is ::/0, but must be of the filter's IP version",
            ),
            (
                RawFilter {
                    protocol: Some(17),
                    source_ports: Some((9, 8)),
                    ..v4()
                },
                "source_ports is 9 to 8, but must be a range whose first port is not above its last port",
            ),
            (
                RawFilter {
                    protocol: Some(1),
                    destination_ports: Some((8, 8)),
                    ..v4()
                },
                "destination_ports is 8 to 8, but must be absent, unless the protocol has ports: 6, 17, 33, 132 or 136",
            ),
            (
                RawFilter {
                    protocol: Some(43),
                    version: Some(6),
                    ..none.clone()
                },
                "protocol is 43, but must be the protocol after the IPv6 extension headers",
            ),
            (
                ethertype(0x0800),
                "ethertype is 0x0800, but must be from 0x0600 to 0xffff, and neither IP (use the version instead) nor a VLAN tag",
            ),
            (
                ethertype(0x05ff),
                "ethertype is 0x05ff, but must be from 0x0600 to 0xffff, and neither IP (use the version instead) nor a VLAN tag",
            ),
            (
                RawFilter {
                    protocol: Some(6),
                    ..ethertype(0x88f7)
                },
                "ethertype is 0x88f7, but must be absent if there are IP fields",
            ),
        ];
        for (raw, message) in cases {
            assert_eq!(raw.check().unwrap_err().to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn the_fields_come_back(filter in filters()) {
            prop_assert_eq!(filter.raw().check(), Ok(filter));
            if let Some(key) = filter.flow() {
                prop_assert_eq!(Filter::exact(&key), filter);
            }
        }

        #[test]
        fn a_flow_matches_its_own_filter_only((key, fragment, _) in packets(), (other, ..) in packets()) {
            if key.family != Family::Link && !fragment {
                let filter = Filter::exact(&key);
                prop_assert_eq!(filter.flow(), Some(key));
                prop_assert!(filter.matches(&whole(&key)));
                prop_assert_eq!(filter.matches(&whole(&other)), key == other);
            }
        }
    }
}

//! From a captured frame to a flow key and a transport payload.
//!
//! ```text
//!  link type     Ethernet, Linux cooked (SLL, SLL2), loopback (null), PPP and Cisco HDLC, raw IP
//!  between       802.1Q and 802.1ad tags, MPLS labels, PPPoE
//!  IP            IPv4, IPv6 with extension headers
//!  tunnels       IP in IP, GRE, GTP-U: the inner packet is the flow, four deep at most
//! ```
//!
//! It serves captures. A router has already parsed its packets, and passes key and payload to the classifier itself.

use std::net::IpAddr;

use weir_packet::FlowKey;
use weir_wire::ipv6_extension::Chain;
use weir_wire::{EtherType, FragmentOffset, Protocol, ethernet, ipv4, ipv6, pppoe, vlan};

use crate::reader::Reader;
use crate::segment::Segment;

/// Maximum number of tunnels and tags to remove.
const DEPTH_MAX: usize = 8;
/// The port of GTP-U (3GPP TS 29.281).
const PORT_GTP: u16 = 2152;
/// The ether type of service tags before 802.1ad.
const TAG_OLD: u16 = 0x9100;
/// IP protocols in addition to those of [`Protocol`].
const IP_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;

/// A packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parsed<'a> {
    /// Addresses, protocol and ports.
    pub key: FlowKey,
    /// The transport payload.
    pub segment: Segment<'a>,
    /// The packet of the flow, from its IP header on.
    pub packet: &'a [u8],
}

impl<'a> Parsed<'a> {
    /// Adds the packet, unless a tunnel has already set the inner packet.
    fn within(mut self, packet: &'a [u8]) -> Self {
        if self.packet.is_empty() {
            self.packet = packet;
        }
        self
    }
}

/// The reasons for which a frame has no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unparsed {
    /// The link type is not supported.
    LinkType(u32),
    /// The frame does not carry IP.
    NotIp,
    /// A fragment that is not the first one: it has no ports.
    Fragment,
    /// A header is truncated, or contradicts itself.
    Malformed,
}

/// Reads a frame of this link type (`LINKTYPE_` of libpcap).
pub fn parse(link_type: u32, frame: &[u8]) -> Result<Parsed<'_>, Unparsed> {
    let mut reader = Reader(frame);
    let cut = Unparsed::Malformed;
    match link_type {
        0 | 108 => {
            reader.take(4).ok_or(cut)?; // the family in the byte order of some machine
            by_version(reader.0, 0)
        }
        1 => {
            reader.take(ethernet::HEADER_LEN - 2).ok_or(cut)?;
            ether(reader, 0)
        }
        9 | 50 | 104 => ppp(reader),
        12 | 14 | 101 | 228 | 229 => by_version(frame, 0),
        113 => {
            reader.take(14).ok_or(cut)?;
            ether(reader, 0)
        }
        276 => {
            let kind = reader.u16().ok_or(cut)?;
            reader.take(18).ok_or(cut)?;
            payload(kind, reader, 0)
        }
        other => Err(Unparsed::LinkType(other)),
    }
}

/// PPP with or without address and control bytes, and Cisco's HDLC, to which captures give the same link type.
fn ppp(mut reader: Reader<'_>) -> Result<Parsed<'_>, Unparsed> {
    match reader.0 {
        [0x0f | 0x8f, 0, ..] => {
            reader.take(2);
            return ether(reader, 0);
        }
        [0xff, 3, ..] => {
            reader.take(2);
        }
        _ => {}
    }
    ppp_protocol(reader, 0)
}

fn ppp_protocol(mut reader: Reader<'_>, depth: usize) -> Result<Parsed<'_>, Unparsed> {
    let first = reader.u8().ok_or(Unparsed::Malformed)?;
    let number = match first & 1 {
        1 => u16::from(first), // compressed to one byte
        _ => u16::from(first) << 8 | u16::from(reader.u8().ok_or(Unparsed::Malformed)?),
    };
    match pppoe::Protocol::from(number) {
        pppoe::Protocol::IPV4 | pppoe::Protocol::IPV6 => by_version(reader.0, depth),
        _ => Err(Unparsed::NotIp),
    }
}

/// Reads an ether type and the packet that follows.
fn ether(mut reader: Reader<'_>, depth: usize) -> Result<Parsed<'_>, Unparsed> {
    let kind = reader.u16().ok_or(Unparsed::Malformed)?;
    payload(kind, reader, depth)
}

fn payload(kind: u16, mut reader: Reader<'_>, depth: usize) -> Result<Parsed<'_>, Unparsed> {
    let cut = Unparsed::Malformed;
    if depth > DEPTH_MAX {
        return Err(cut);
    }
    match EtherType::from(kind) {
        EtherType::IPV4 | EtherType::IPV6 => by_version(reader.0, depth),
        tag if tag.is_tag() || kind == TAG_OLD => {
            reader.take(vlan::TAG_LEN - 2).ok_or(cut)?;
            ether(reader, depth + 1)
        }
        EtherType::MPLS | EtherType::MPLS_UPSTREAM => {
            for _ in 0..DEPTH_MAX {
                let label = reader.u32().ok_or(cut)?;
                if label & 0x100 != 0 {
                    return by_version(reader.0, depth + 1);
                }
            }
            Err(cut)
        }
        EtherType::PPPOE_SESSION => {
            reader.take(6).ok_or(cut)?; // version, code, session, length
            ppp_protocol(reader, depth + 1)
        }
        _ => Err(Unparsed::NotIp),
    }
}

/// Reads an IP packet; its first bits contain the version.
fn by_version(packet: &[u8], depth: usize) -> Result<Parsed<'_>, Unparsed> {
    if depth > DEPTH_MAX {
        return Err(Unparsed::Malformed);
    }
    match packet.first().map(|b| b >> 4) {
        Some(4) => version_4(packet, depth),
        Some(6) => version_6(packet, depth),
        Some(_) => Err(Unparsed::NotIp),
        None => Err(Unparsed::Malformed),
    }
}

fn version_4(packet: &[u8], depth: usize) -> Result<Parsed<'_>, Unparsed> {
    let view = ipv4::View::new_checked(packet).map_err(|_| Unparsed::Malformed)?;
    let total = match usize::from(view.total_len()) {
        0 => packet.len(), // captured before the interface segmented it
        len => len.min(packet.len()),
    };
    let body = packet
        .get(view.header_len()..total)
        .ok_or(Unparsed::Malformed)?;
    if view.fragment_offset() != FragmentOffset::ZERO {
        return Err(Unparsed::Fragment);
    }
    let ends = [view.source().into(), view.destination().into()];
    let parsed = transport(ends, view.protocol(), body, depth)?;
    Ok(parsed.within(&packet[..total]))
}

fn version_6(packet: &[u8], depth: usize) -> Result<Parsed<'_>, Unparsed> {
    let view = ipv6::View::new_checked(packet).map_err(|_| Unparsed::Malformed)?;
    let total = match view.payload_len() {
        0 => packet.len(),
        len => (ipv6::HEADER_LEN + usize::from(len)).min(packet.len()),
    };
    let body = packet
        .get(ipv6::HEADER_LEN..total)
        .ok_or(Unparsed::Malformed)?;
    let chain = Chain::walk(view.next_header(), body);
    let is_later = |f: weir_wire::ipv6_extension::FragmentRepr| f.offset != FragmentOffset::ZERO;
    if chain.fragment.is_some_and(is_later) {
        return Err(Unparsed::Fragment);
    }
    let ends = [view.source().into(), view.destination().into()];
    let parsed = transport(ends, chain.protocol, &body[chain.len..], depth)?;
    Ok(parsed.within(&packet[..total]))
}

fn transport(
    [source, destination]: [IpAddr; 2],
    protocol: Protocol,
    body: &[u8],
    depth: usize,
) -> Result<Parsed<'_>, Unparsed> {
    let number = u8::from(protocol);
    let parsed = |ports: [u16; 2], segment| Parsed {
        key: FlowKey::ip(source, destination, number, ports[0], ports[1]),
        segment,
        packet: &[],
    };
    match protocol {
        Protocol::TCP | Protocol::UDP => {
            let segment = Segment::parse(number, body).ok_or(Unparsed::Malformed)?;
            let mut reader = Reader(body);
            let mut port = || reader.u16().ok_or(Unparsed::Malformed);
            let ports = [port()?, port()?];
            if let Segment::Datagram(bytes) = segment
                && ports.contains(&PORT_GTP)
                && let Some(inner) = gtp(bytes)
                && let Ok(inside) = by_version(inner, depth + 1)
            {
                return Ok(inside);
            }
            Ok(parsed(ports, segment))
        }
        _ if number == IP_IN_IP || number == IPV6_IN_IP => by_version(body, depth + 1),
        _ if number == GRE => match gre(body) {
            Some((kind, inner)) => payload(kind, inner, depth + 1),
            None => Ok(parsed([0, 0], Segment::Other)),
        },
        _ => Ok(parsed([0, 0], Segment::Other)),
    }
}

/// The packet of a user in GTP-U, version 1 (3GPP TS 29.281, section 5).
fn gtp(bytes: &[u8]) -> Option<&[u8]> {
    const USER_DATA: u8 = 255;
    let mut reader = Reader(bytes);
    let flags = reader.u8().filter(|flags| flags >> 4 == 3)?;
    reader.u8().filter(|kind| *kind == USER_DATA)?;
    reader.u16()?; // length
    reader.u32()?; // tunnel
    if flags & 7 != 0 {
        reader.take(3)?; // sequence number, and the number of a protocol data unit
        let mut next = reader.u8()?;
        for _ in 0..DEPTH_MAX {
            if next == 0 || flags & 4 == 0 {
                break;
            }
            let words = usize::from(*reader.0.first()?);
            let extension = reader.take(4 * words.max(1))?;
            next = *extension.last()?;
        }
    }
    Some(reader.0)
}

/// Protocol and content of a GRE packet (RFC 2784, RFC 2890).
fn gre(bytes: &[u8]) -> Option<(u16, Reader<'_>)> {
    let mut reader = Reader(bytes);
    let flags = reader.u16()?;
    let kind = reader.u16()?;
    for flag in [0x8000, 0x2000, 0x1000] {
        if flags & flag != 0 {
            reader.u32()?; // checksum, key, sequence number
        }
    }
    (flags & 0x4007 == 0).then_some((kind, reader))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 packet with a UDP datagram.
    fn datagram(protocol: u8, body: &[u8]) -> Vec<u8> {
        let len = (20 + body.len() as u16).to_be_bytes();
        let header = [0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, protocol, 0, 0];
        [&header[..], &[10, 0, 0, 1], &[10, 0, 0, 2], body].concat()
    }

    fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
        let len = (8 + payload.len() as u16).to_be_bytes();
        let [a, b] = ports.map(u16::to_be_bytes);
        [&a[..], &b, &len, &[0, 0], payload].concat()
    }

    fn read(link_type: u32, frame: &[u8]) -> String {
        match parse(link_type, frame) {
            Ok(Parsed {
                key,
                segment: Segment::Datagram(bytes),
                packet: found,
            }) => {
                assert_eq!(found[..4], packet()[..4]);
                assert!(found.ends_with(bytes), "from the IP header to the payload");
                format!("{key} {}", String::from_utf8_lossy(bytes))
            }
            other => format!("{other:?}"),
        }
    }

    const EXPECTED: &str = "10.0.0.1:5000 > 10.0.0.2:53 udp hello";

    fn packet() -> Vec<u8> {
        datagram(17, &udp([5000, 53], b"hello"))
    }

    #[test]
    fn every_link_type_leads_to_the_packet() {
        let packet = &packet()[..];
        let ether = [&[0; 12][..], &[8, 0], packet, &[0; 9]].concat();
        assert_eq!(read(1, &ether), EXPECTED, "with padding");
        let tagged = [
            &[0; 12][..],
            &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 0],
            packet,
        ]
        .concat();
        assert_eq!(read(1, &tagged), EXPECTED);
        let labels = [
            &[0; 12][..],
            &[0x88, 0x47, 0, 1, 0, 64, 0, 1, 1, 64],
            packet,
        ]
        .concat();
        assert_eq!(read(1, &labels), EXPECTED);
        let session = [
            &[0; 12][..],
            &[0x88, 0x64, 0x11, 0, 0, 1, 0, 35, 0, 0x21],
            packet,
        ]
        .concat();
        assert_eq!(read(1, &session), EXPECTED);
        assert_eq!(
            read(113, &[&[0; 14][..], &[8, 0], packet].concat()),
            EXPECTED
        );
        assert_eq!(
            read(276, &[&[8, 0][..], &[0; 18], packet].concat()),
            EXPECTED
        );
        assert_eq!(read(0, &[&[2, 0, 0, 0], packet].concat()), EXPECTED);
        assert_eq!(read(9, &[&[0xff, 3, 0, 0x21], packet].concat()), EXPECTED);
        assert_eq!(read(9, &[&[0x0f, 0, 8, 0], packet].concat()), EXPECTED);
        assert_eq!(read(101, packet), EXPECTED);
        assert_eq!(parse(105, packet), Err(Unparsed::LinkType(105)));
        assert_eq!(parse(1, &[0; 60]), Err(Unparsed::NotIp));
    }

    #[test]
    fn tunnels_are_opened() {
        let inner = packet();
        assert_eq!(read(101, &datagram(4, &inner)), EXPECTED);
        let gre = [&[0x20, 0, 8, 0, 0, 0, 0, 7], &inner[..]].concat();
        assert_eq!(read(101, &datagram(47, &gre)), EXPECTED);
        let gtp = [&[0x32, 255, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0], &inner[..]].concat();
        assert_eq!(read(101, &datagram(17, &udp([2152, 2152], &gtp))), EXPECTED);
        let mut deep = inner;
        for _ in 0..20 {
            deep = datagram(4, &deep);
        }
        assert_eq!(parse(101, &deep), Err(Unparsed::Malformed));
    }

    #[test]
    fn fragments_but_the_first_have_no_ports() {
        let mut packet = packet();
        packet[6..8].copy_from_slice(&[0x20, 0]);
        assert_eq!(read(101, &packet), EXPECTED);
        packet[7] = 1;
        assert_eq!(parse(101, &packet), Err(Unparsed::Fragment));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), at: prop::sample::Index, byte: u8) {
            for link_type in [0, 1, 9, 50, 101, 104, 108, 113, 228, 276] {
                let _ = parse(link_type, &bytes);
            }
            let gtp = [&[0x36, 255, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0x85], &bytes[..]].concat();
            let mut packet = datagram(17, &udp([2152, 2152], &gtp));
            let at = at.index(packet.len());
            packet[at] = byte;
            let _ = parse(101, &packet);
            let _ = parse(101, &packet[..at]);
        }
    }
}

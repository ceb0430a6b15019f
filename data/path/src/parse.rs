//! From bytes to [`Headers`]: what a frame is, where its headers are, whether a router may take it.
//!
//! Source: RFC 1812, sections 5.2.2 (validation) and 5.3.7 (martian addresses); RFC 8200; RFC 4291;
//! RFC 5095 (type-0 routing headers); RFC 2644 and RFC 1812, section 5.3.4 (link-layer broadcasts).
//!
//! ```text
//!  frame: | Ethernet | 802.1Q? | IP | options or extension headers | transport ... | padding
//!         0                    l3                                  l4       l3 + total_len
//! ```
//!
//! Two modes. *Routed* refuses with a [`Reason`] whatever a router must not forward, and cuts the
//! frame to the length that the IP header names, since Ethernet pads short ones. *Bridged* refuses
//! nothing: it only looks for what makes a flow key, and what it does not understand (a malformed
//! packet included) has the family [`Family::Link`].
//!
//! Deviations and choices:
//!
//! - Options and extension headers are not processed: record route and timestamp pass unchanged,
//!   hop-by-hop options are skipped (RFC 8200 permits that), a chain of extension headers that is too
//!   long or ends outside the packet passes without ports (RFC 7045: a router forwards it, its
//!   destination judges).
//! - A packet *to* a link-local address ends as [`Reason::LocalDelivery`]: it came to the router's own
//!   MAC address and can be for nobody else.
//! - A tag with VLAN 0 carries only a priority: a router takes it off. With any other VLAN among the
//!   frame's bytes it ends as [`Reason::UnknownVlan`]; a bridge looks through two tags.
//! - Jumbograms (RFC 2675) are refused; no slot of the pool could hold one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_packet::key::Family;
use weir_packet::{Ecn, Packet, Pool, Reason};
use weir_wire::ipv6_extension::{Chain, is_extension};
use weir_wire::{EtherType, Protocol, checksum, ethernet, ipv4, ipv6, vlan};

use crate::icmp_error::IcmpCause;
use crate::rewrite;
use crate::tables::Mac;

/// How the port that a packet came in by treats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// Router or bump in the wire.
    pub mode: Mode,
    /// The port's own MAC address, if frames to others must end as [`Reason::OtherHost`]; none
    /// where the device has already looked.
    pub mac: Option<Mac>,
}

/// What weir is between its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A router: judges headers by RFC 1812 and RFC 8200.
    Routed,
    /// A bump in the wire: judges nothing.
    Bridged,
}

/// A packet whose headers are known.
#[derive(Debug)]
pub struct Parsed {
    /// The packet.
    pub packet: Packet,
    /// Its headers.
    pub headers: Headers,
}

/// A packet that ends here: its caller discards it, and may build an ICMP error before.
#[derive(Debug)]
pub struct Ended {
    /// The packet.
    pub packet: Packet,
    /// Why.
    pub reason: Reason,
    /// What its sender should be told. Parsing says nothing yet: RFC 1812 and RFC 4443 demand no
    /// error for any of its reasons.
    pub notify: Option<(Headers, IcmpCause)>,
}

/// Where the headers are, and the fields that later stages read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Offset of the IP header in the frame; of the payload if the family is [`Family::Link`].
    pub l3: u16,
    /// Offset of what follows the IP header and the extension headers. It may lie beyond the end of
    /// the packet: who reads there asks for the slice.
    pub l4: u16,
    /// Length of the IP packet from `l3` on; never beyond the frame.
    pub total_len: u32,
    /// What the addresses are; [`Family::Link`] if this is not an IP packet (bridged mode only).
    pub family: Family,
    /// IP protocol number of what is at `l4`; the same in all fragments of a datagram.
    pub protocol: u8,
    /// TTL or hop limit, as received.
    pub ttl: u8,
    /// ECN field, as received.
    pub ecn: Ecn,
    /// Whether it is a piece of a datagram.
    pub fragment: Fragment,
    /// Whether a router may not fragment it: always so in IPv6.
    pub dont_fragment: bool,
    /// Source address; unspecified if this is not an IP packet.
    pub source: IpAddr,
    /// Destination address; unspecified if this is not an IP packet.
    pub destination: IpAddr,
}

/// Whether a packet is a piece of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragment {
    /// A whole datagram.
    #[default]
    Whole,
    /// The first piece: the only one with a transport header.
    First,
    /// A later piece.
    Later,
}

impl Headers {
    /// Where the IP packet lies in its frame.
    #[inline]
    pub fn l3_range(&self) -> std::ops::Range<usize> {
        let start = usize::from(self.l3);
        start..start + self.total_len as usize
    }

    /// Whether this is an IP packet.
    #[inline]
    pub fn is_ip(&self) -> bool {
        self.family != Family::Link
    }

    /// What is at `l4`, up to the end of the IP packet; empty if that lies beyond it.
    #[inline]
    pub fn transport<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame
            .get(usize::from(self.l4)..self.l3_range().end)
            .unwrap_or(&[])
    }
}

/// Tags that are looked through: a service tag and a customer tag (802.1ad).
const TAGS_MAX: usize = 2;

/// Finds the headers of a packet, and in routed mode judges them.
///
/// Sets the packet's ECN field from its header. In routed mode cuts off what follows the IP packet,
/// and takes a priority tag out.
#[inline]
pub fn parse(pool: &mut Pool, mut packet: Packet, ingress: &Ingress) -> Result<Parsed, Ended> {
    if ingress.mode == Mode::Bridged {
        let headers = look(pool.frame(&packet));
        packet.ecn = headers.ecn;
        return Ok(Parsed { packet, headers });
    }
    let mut headers = match judge(pool.frame(&packet), ingress) {
        Ok(headers) => headers,
        Err(reason) => {
            return Err(Ended {
                packet,
                reason,
                notify: None,
            });
        }
    };
    packet.ecn = headers.ecn;
    let end = headers.l3_range().end;
    if end < packet.len as usize {
        pool.truncate(&mut packet, end);
    }
    if usize::from(headers.l3) > ethernet::HEADER_LEN && rewrite::remove_tag(pool, &mut packet) {
        headers.l3 -= vlan::TAG_LEN as u16;
        headers.l4 -= vlan::TAG_LEN as u16;
    }
    Ok(Parsed { packet, headers })
}

/// The link layer of a frame: what it carries, where that starts, and the VLAN of the outermost tag.
struct Link {
    destination: Mac,
    ethertype: EtherType,
    l3: usize,
    vlan: u16,
}

/// Reads the Ethernet header and at most `tags_max` tags.
#[inline]
fn link(frame: &[u8], tags_max: usize) -> Option<Link> {
    let view = ethernet::View::new_unchecked(frame.first_chunk::<{ ethernet::HEADER_LEN }>()?);
    let mut link = Link {
        destination: view.destination(),
        ethertype: view.ethertype(),
        l3: ethernet::HEADER_LEN,
        vlan: 0,
    };
    for n in 0..tags_max {
        if !link.ethertype.is_tag() {
            break;
        }
        let tag = frame.get(link.l3..)?.first_chunk::<{ vlan::TAG_LEN }>()?;
        let tag = vlan::View::new_unchecked(tag);
        if n == 0 {
            link.vlan = tag.id();
        }
        link.ethertype = tag.ethertype();
        link.l3 += vlan::TAG_LEN;
    }
    Some(link)
}

/// The headers, or why a router may not forward the frame.
#[inline]
fn judge(frame: &[u8], ingress: &Ingress) -> Result<Headers, Reason> {
    let link = link(frame, 1).ok_or(Reason::TruncatedHeader)?;
    let is_group = ethernet::is_group(link.destination);
    if !is_group && ingress.mac.is_some_and(|mac| mac != link.destination) {
        return Err(Reason::OtherHost);
    }
    if link.vlan != 0 || link.ethertype.is_tag() {
        return Err(Reason::UnknownVlan);
    }
    let headers = match link.ethertype {
        EtherType::Ipv4 => judge_v4(frame, &link)?,
        EtherType::Ipv6 => judge_v6(frame, &link)?,
        _ => return Err(Reason::NotIp),
    };
    match is_group {
        true => Err(Reason::Multicast),
        false => Ok(headers),
    }
}

#[inline]
fn judge_v4(frame: &[u8], link: &Link) -> Result<Headers, Reason> {
    let packet = &frame[link.l3..];
    let fixed = packet.first_chunk().ok_or(Reason::TruncatedHeader)?;
    let view = ipv4::View::<&[u8; ipv4::HEADER_LEN_MIN]>::new_unchecked(fixed);
    if view.version() != 4 {
        return Err(Reason::IpVersion);
    }
    let header_len = view.header_len();
    if header_len < ipv4::HEADER_LEN_MIN || header_len > packet.len() {
        return Err(Reason::IpHeaderLength);
    }
    let total_len = usize::from(view.total_len());
    if total_len < header_len || total_len > packet.len() {
        return Err(Reason::IpTotalLength);
    }
    // The fixed part alone is a sum of known length, which is faster, and mostly all there is.
    let sum = checksum::Sum::default().bytes(fixed);
    let options = &packet[ipv4::HEADER_LEN_MIN..header_len];
    if sum.bytes(options).checksum() != 0 {
        return Err(Reason::IpChecksum);
    }
    judge_addresses_v4(view.source(), view.destination())?;
    for option in ipv4::walk_options(options) {
        let option = option.map_err(|_| Reason::IpHeaderLength)?;
        if option.is_source_route() {
            return Err(Reason::SourceRoute);
        }
    }
    Ok(headers_v4(fixed, link, total_len))
}

/// RFC 1812, section 5.3.7; RFC 3927, section 7 (link-local addresses).
#[inline]
fn judge_addresses_v4(source: Ipv4Addr, destination: Ipv4Addr) -> Result<(), Reason> {
    match destination.octets() {
        [224..=239, ..] | [255, 255, 255, 255] => return Err(Reason::Multicast),
        [0 | 127 | 240..=255, ..] => return Err(Reason::MartianDestination),
        [169, 254, ..] => return Err(Reason::LocalDelivery),
        _ => {}
    }
    match source.octets() {
        [0 | 127 | 224..=255, ..] | [169, 254, ..] => Err(Reason::MartianSource),
        _ => Ok(()),
    }
}

#[inline]
fn headers_v4(fixed: &[u8; ipv4::HEADER_LEN_MIN], link: &Link, total_len: usize) -> Headers {
    let view = ipv4::View::new_unchecked(fixed);
    let first = view.fragment_offset().bits() == 0;
    Headers {
        l3: link.l3 as u16,
        l4: (link.l3 + view.header_len()) as u16,
        total_len: total_len as u32,
        family: Family::V4,
        protocol: view.protocol().into(),
        ttl: view.ttl(),
        ecn: Ecn::from_bits(view.traffic_class()),
        fragment: match (first, view.more_fragments()) {
            (true, false) => Fragment::Whole,
            (true, true) => Fragment::First,
            (false, _) => Fragment::Later,
        },
        dont_fragment: view.dont_fragment(),
        source: view.source().into(),
        destination: view.destination().into(),
    }
}

#[inline]
fn judge_v6(frame: &[u8], link: &Link) -> Result<Headers, Reason> {
    let packet = &frame[link.l3..];
    let fixed = packet.first_chunk().ok_or(Reason::TruncatedHeader)?;
    let view = ipv6::View::<&[u8; ipv6::HEADER_LEN]>::new_unchecked(fixed);
    if view.version() != 6 {
        return Err(Reason::IpVersion);
    }
    let total_len = view.total_len();
    let jumbo = view.payload_len() == 0 && view.next_header() == Protocol::HopByHop;
    if total_len > packet.len() || jumbo {
        return Err(Reason::IpTotalLength);
    }
    judge_addresses_v6(view.source(), view.destination())?;
    let (headers, source_routed) = headers_v6(packet, fixed, link, total_len);
    match source_routed {
        true => Err(Reason::SourceRoute),
        false => Ok(headers),
    }
}

/// RFC 4291, sections 2.5.2, 2.5.3, 2.5.6 and 2.7; RFC 4942, section 2.2 (mapped addresses).
#[inline]
fn judge_addresses_v6(source: Ipv6Addr, destination: Ipv6Addr) -> Result<(), Reason> {
    // ::, ::1 and ::ffff:0:0/96
    let never_on_a_link = |a: Ipv6Addr| {
        let bits = a.to_bits();
        bits <= 1 || bits >> 32 == 0xffff
    };
    if destination.is_multicast() {
        return Err(Reason::Multicast);
    }
    if never_on_a_link(destination) {
        return Err(Reason::MartianDestination);
    }
    if destination.is_unicast_link_local() {
        return Err(Reason::LocalDelivery);
    }
    if source.is_multicast() || source.is_unicast_link_local() || never_on_a_link(source) {
        return Err(Reason::MartianSource);
    }
    Ok(())
}

/// The headers, and whether there is a routing header of type 0.
#[inline]
fn headers_v6(
    packet: &[u8],
    fixed: &[u8; ipv6::HEADER_LEN],
    link: &Link,
    total_len: usize,
) -> (Headers, bool) {
    let view = ipv6::View::new_unchecked(fixed);
    let mut headers = Headers {
        l3: link.l3 as u16,
        l4: (link.l3 + ipv6::HEADER_LEN) as u16,
        total_len: total_len as u32,
        family: Family::V6,
        protocol: view.next_header().into(),
        ttl: view.hop_limit(),
        ecn: Ecn::from_bits(view.traffic_class()),
        fragment: Fragment::Whole,
        dont_fragment: true,
        source: view.source().into(),
        destination: view.destination().into(),
    };
    if !is_extension(view.next_header()) {
        return (headers, false);
    }
    let chain = Chain::walk(view.next_header(), &packet[ipv6::HEADER_LEN..total_len]);
    headers.l4 += chain.len as u16;
    headers.protocol = chain.protocol.into();
    headers.fragment = match chain.fragment {
        Some(f) if f.is_whole() => Fragment::Whole,
        None => Fragment::Whole,
        Some(f) if f.offset.bits() == 0 => Fragment::First,
        Some(_) => Fragment::Later,
    };
    (headers, chain.source_routed)
}

/// The headers without any judgement.
#[inline]
pub(crate) fn look(frame: &[u8]) -> Headers {
    let Some(link) = link(frame, TAGS_MAX) else {
        return not_ip(frame, ethernet::HEADER_LEN);
    };
    let packet = &frame[link.l3..];
    let found = match link.ethertype {
        EtherType::Ipv4 => look_v4(packet, &link),
        EtherType::Ipv6 => look_v6(packet, &link),
        _ => None,
    };
    found.unwrap_or_else(|| not_ip(frame, link.l3))
}

#[inline]
fn look_v4(packet: &[u8], link: &Link) -> Option<Headers> {
    let fixed = packet.first_chunk::<{ ipv4::HEADER_LEN_MIN }>()?;
    let view = ipv4::View::new_unchecked(fixed);
    let header_len = view.header_len();
    if view.version() != 4 || !(ipv4::HEADER_LEN_MIN..=packet.len()).contains(&header_len) {
        return None;
    }
    // A total length of zero is a segment yet to be cut (GSO); one beyond the frame is cut to it.
    let total_len = match usize::from(view.total_len()) {
        len if (header_len..=packet.len()).contains(&len) => len,
        _ => packet.len(),
    };
    Some(headers_v4(fixed, link, total_len))
}

#[inline]
fn look_v6(packet: &[u8], link: &Link) -> Option<Headers> {
    let fixed = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
    let view = ipv6::View::new_unchecked(fixed);
    if view.version() != 6 {
        return None;
    }
    let total_len = view.total_len().min(packet.len());
    Some(headers_v6(packet, fixed, link, total_len).0)
}

/// The headers of a frame that is not IP.
fn not_ip(frame: &[u8], l3: usize) -> Headers {
    let l3 = l3.min(frame.len());
    Headers {
        l3: l3 as u16,
        l4: l3 as u16,
        total_len: (frame.len() - l3) as u32,
        family: Family::Link,
        protocol: 0,
        ttl: 0,
        ecn: Ecn::NotCapable,
        fragment: Fragment::Whole,
        dont_fragment: true,
        source: Ipv4Addr::UNSPECIFIED.into(),
        destination: Ipv4Addr::UNSPECIFIED.into(),
    }
}

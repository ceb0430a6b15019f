//! The headers of an IP packet that a router may forward, or the reason why it may not.
//!
//! Source: RFC 1812, sections 5.2.2 (validation) and 5.3.7 (martian addresses); RFC 8200; RFC 4291;
//! RFC 5095 (type-0 routing headers); RFC 2644 and RFC 1812, section 5.3.4 (link-layer broadcasts).
//!
//! ```text
//!  frame: | Ethernet | 802.1Q? | IP | options or extension headers | transport ... | padding
//!         0                    l3                                  l4       l3 + total_len
//! ```
//!
//! The frame is cut to the length in the IP header, because Ethernet pads short frames.
//!
//! Deviations and choices:
//!
//! - Options and extension headers are not processed. Record route and timestamp pass unchanged.
//!   Hop-by-hop options are skipped (RFC 8200 permits that). A packet whose chain of extension headers is
//!   too long or ends outside the packet passes, without ports (RFC 7045: a router forwards it, its
//!   destination validates it).
//! - A packet *to* a link-local address is refused as [`Reason::LocalDelivery`]: it came to the router's
//!   own MAC address and cannot be for any other host. Neighbour discovery *from* one is refused likewise.
//! - Jumbograms (RFC 2675) are refused; no slot of the pool could hold one.
//! - The helpers are always inlined: otherwise their results are copied between stack frames, which is slow.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_packet::{Packet, Pool, Reason};
use weir_wire::{EtherType, Protocol, checksum, ethernet, ipv4, ipv6, vlan};

use crate::headers::{self, Headers};
use crate::link;

/// Validates the headers of a packet whose link layer has been validated. Sets the packet's ECN field, cuts off the
/// bytes after the IP packet, and removes a priority tag. On an error, the caller discards the packet for this reason;
/// RFC 1812 and RFC 4443 require an ICMP error for none of these reasons.
#[inline(never)] // so that the caller copies the headers as a whole, and not field by field
pub fn parse(pool: &mut Pool, packet: &mut Packet, link: &link::Header) -> Result<Headers, Reason> {
    let mut headers = validate(pool.frame(packet), link)?;
    packet.ecn = headers.ecn;
    let end = headers.l3_range().end;
    if end < packet.len as usize {
        pool.truncate(packet, end);
    }
    if usize::from(headers.l3) > ethernet::HEADER_LEN && link::tag::remove(pool, packet) {
        headers.l3 -= vlan::TAG_LEN as u16;
        headers.l4 -= vlan::TAG_LEN as u16;
    }
    Ok(headers)
}

/// Like [`parse`], but changes nothing.
#[inline(always)]
pub(crate) fn validate(frame: &[u8], link: &link::Header) -> Result<Headers, Reason> {
    let headers = match link.ethertype {
        EtherType::IPV4 => validate_v4(frame, link)?,
        EtherType::IPV6 => validate_v6(frame, link)?,
        _ => return Err(Reason::NotIp),
    };
    if ethernet::is_group(link.destination) {
        Err(Reason::Multicast)
    } else {
        Ok(headers)
    }
}

#[inline(always)]
fn validate_v4(frame: &[u8], link: &link::Header) -> Result<Headers, Reason> {
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
    // The sum over the fixed part has a known length, which is faster, and most headers have no options.
    let sum = checksum::Sum::default().bytes(fixed);
    let options = &packet[ipv4::HEADER_LEN_MIN..header_len];
    if sum.bytes(options).checksum() != 0 {
        return Err(Reason::IpChecksum);
    }
    validate_addresses_v4(view.source(), view.destination())?;
    for option in ipv4::walk_options(options) {
        let option = option.map_err(|_| Reason::IpHeaderLength)?;
        if option.is_source_route() {
            return Err(Reason::SourceRoute);
        }
    }
    Ok(headers::from_v4(fixed, link.l3, total_len))
}

/// RFC 1812, section 5.3.7. The routes decide about reserved blocks ([`Action::Reserved`](crate::ip::tables::Action)).
#[inline(always)]
fn validate_addresses_v4(source: Ipv4Addr, destination: Ipv4Addr) -> Result<(), Reason> {
    let is_group = |a: Ipv4Addr| a.is_multicast() || a.is_broadcast();
    let never_on_a_link = |a: Ipv4Addr| a.is_loopback() || a.is_unspecified();
    if is_group(destination) {
        Err(Reason::Multicast)
    } else if never_on_a_link(destination) {
        Err(Reason::MartianDestination)
    } else if is_group(source) || never_on_a_link(source) {
        Err(Reason::MartianSource)
    } else {
        Ok(())
    }
}

#[inline(always)]
fn validate_v6(frame: &[u8], link: &link::Header) -> Result<Headers, Reason> {
    let packet = &frame[link.l3..];
    let fixed = packet.first_chunk().ok_or(Reason::TruncatedHeader)?;
    let view = ipv6::View::<&[u8; ipv6::HEADER_LEN]>::new_unchecked(fixed);
    if view.version() != 6 {
        return Err(Reason::IpVersion);
    }
    let total_len = view.total_len();
    let jumbo = view.payload_len() == 0 && view.next_header() == Protocol::HOP_BY_HOP;
    if total_len > packet.len() || jumbo {
        return Err(Reason::IpTotalLength);
    }
    validate_addresses_v6(view.source(), view.destination()).map_err(|reason| {
        // RFC 4861, section 7.1: neighbour discovery has hop limit 255, and never leaves the link.
        let discovery = view.next_header() == Protocol::ICMPV6 && view.hop_limit() == 255;
        match view.source().is_unicast_link_local() && discovery {
            true if reason == Reason::MartianSource => Reason::LocalDelivery,
            _ => reason,
        }
    })?;
    let (headers, source_routed) = headers::from_v6(packet, fixed, link.l3, total_len);
    if source_routed {
        Err(Reason::SourceRoute)
    } else {
        Ok(headers)
    }
}

/// RFC 4291, sections 2.5.2, 2.5.3, 2.5.6 and 2.7. The routes decide about IPv4-mapped addresses.
#[inline(always)]
fn validate_addresses_v6(source: Ipv6Addr, destination: Ipv6Addr) -> Result<(), Reason> {
    // :: and ::1
    let never_on_a_link = |a: Ipv6Addr| a.to_bits() <= 1;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge;
    use crate::headers::{Fragment, Parsed};
    use crate::plane::Mode;
    use etherparse::PacketBuilder;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weir_base::Instant;
    use weir_packet::Ecn;
    use weir_packet::key::Family;
    use weir_wire::ethernet::Mac;

    const OURS: Mac = [2, 0, 0, 0, 0, 1];
    const THEIRS: Mac = [2, 0, 0, 0, 0, 2];

    fn pool() -> Pool {
        Pool::new(4, 2048, (1, 2))
    }

    /// Parses a frame, and checks that the packet is as long as the frame.
    fn parse_frame(frame: &[u8], mode: Mode) -> Result<(Headers, Vec<u8>, Ecn), Reason> {
        let mut pool = pool();
        let mut packet = pool.receive(frame, Instant::ZERO).unwrap();
        let parsed = match mode {
            Mode::Bridged | Mode::Queue => bridge::parse(&pool, packet),
            Mode::Routed => {
                let link = link::validate(frame)?;
                let headers = parse(&mut pool, &mut packet, &link)?;
                Parsed { packet, headers }
            }
        };
        let Parsed { packet, headers } = parsed;
        let frame = pool.frame(&packet).to_vec();
        assert_eq!(packet.len as usize, frame.len());
        Ok((headers, frame, packet.ecn))
    }

    /// UDP from 10.0.0.1:5000 to 192.0.2.1:53 with TTL 9, ECT(0) and the payload "hello".
    fn udp_v4() -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(THEIRS, OURS)
            .ipv4([10, 0, 0, 1], [192, 0, 2, 1], 9)
            .udp(5000, 53)
            .write(&mut frame, b"hello")
            .unwrap();
        frame[15] = 0b10;
        fix_checksum(&mut frame);
        frame
    }

    /// TCP from 2001:db8::1 to 2001:db8::2 with hop limit 9 and the payload "hello".
    fn tcp_v6() -> Vec<u8> {
        let address = |n: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n).octets();
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(THEIRS, OURS)
            .ipv6(address(1), address(2), 9)
            .tcp(5000, 80, 0, 0)
            .write(&mut frame, b"hello")
            .unwrap();
        frame
    }

    fn fix_checksum(frame: &mut [u8]) {
        ipv4::View::new_unchecked(&mut frame[14..]).fill_checksum();
    }

    fn refused(mut frame: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Option<Reason> {
        change(&mut frame);
        parse_frame(&frame, Mode::Routed).err()
    }

    /// Puts the source (at 12) or destination (at 16) into the IPv4 header, and the checksum.
    fn refused_v4(at: usize, address: [u8; 4]) -> Option<Reason> {
        refused(udp_v4(), |f| {
            f[14 + at..18 + at].copy_from_slice(&address);
            fix_checksum(f);
        })
    }

    /// Puts the source (at 8) or destination (at 24) into the IPv6 header.
    fn refused_v6(at: usize, address: &str) -> Option<Reason> {
        let address: Ipv6Addr = address.parse().unwrap();
        refused(tcp_v6(), |f| {
            f[14 + at..30 + at].copy_from_slice(&address.octets());
        })
    }

    /// Puts an extension header between the IPv6 header and TCP.
    fn with_extension(kind: u8, mut extension: Vec<u8>) -> Vec<u8> {
        let mut frame = tcp_v6();
        extension[0] = 6;
        frame[14 + 6] = kind;
        frame[14 + 5] += extension.len() as u8;
        frame.splice(54..54, extension);
        frame
    }

    #[test]
    fn the_fields_of_an_ipv4_packet() {
        let frame = udp_v4();
        let (headers, same, ecn) = parse_frame(&frame, Mode::Routed).unwrap();
        assert_eq!(same, frame);
        assert_eq!(ecn, Ecn::Capable0);
        assert_eq!(
            headers,
            Headers {
                l3: 14,
                l4: 34,
                total_len: 33,
                family: Family::V4,
                protocol: 17,
                ttl: 9,
                ecn: Ecn::Capable0,
                fragment: Fragment::Whole,
                dont_fragment: true,     // as etherparse builds it
                ..headers::peek(&frame)  // the addresses
            }
        );
        let addresses = (headers.source(), headers.destination());
        assert_eq!(addresses, ([10, 0, 0, 1].into(), [192, 0, 2, 1].into()));
        assert_eq!(&headers.transport(&frame)[8..], b"hello");
        assert_eq!(parse_frame(&frame, Mode::Bridged).unwrap().0, headers);
    }

    #[test]
    fn the_fields_of_an_ipv6_packet() {
        let frame = tcp_v6();
        let (headers, _, _) = parse_frame(&frame, Mode::Routed).unwrap();
        assert_eq!(
            headers,
            Headers {
                l3: 14,
                l4: 54,
                total_len: 65,
                family: Family::V6,
                protocol: 6,
                ttl: 9,
                ecn: Ecn::NotCapable,
                fragment: Fragment::Whole,
                dont_fragment: true,
                source: 0x2001_0db8 << 96 | 1,
                destination: 0x2001_0db8 << 96 | 2,
            }
        );
        assert_eq!(parse_frame(&frame, Mode::Bridged).unwrap().0, headers);
    }

    #[test]
    fn padding_is_cut_off_when_routed_and_kept_when_bridged() {
        for frame in [udp_v4(), tcp_v6()] {
            let mut padded = frame.clone();
            padded.resize(frame.len() + 10, 0xee);
            let (headers, cut, _) = parse_frame(&padded, Mode::Routed).unwrap();
            assert_eq!(cut, frame);
            assert_eq!(headers.l3_range().end, frame.len());
            assert_eq!(parse_frame(&padded, Mode::Bridged).unwrap().1, padded);
        }
    }

    #[test]
    fn fragments_are_told_apart() {
        let fragment = |high: u8, low: u8| {
            let mut frame = udp_v4();
            frame[20..22].copy_from_slice(&[high, low]);
            fix_checksum(&mut frame);
            let headers = parse_frame(&frame, Mode::Routed).unwrap().0;
            (headers.fragment, headers.dont_fragment)
        };
        assert_eq!(fragment(0x40, 0), (Fragment::Whole, true));
        assert_eq!(fragment(0x00, 0), (Fragment::Whole, false));
        assert_eq!(fragment(0x20, 0), (Fragment::First, false));
        assert_eq!(fragment(0x20, 9), (Fragment::Later, false));
        assert_eq!(fragment(0x00, 9), (Fragment::Later, false));
        let fragment = |high: u8, low: u8| {
            let frame = with_extension(44, vec![0, 0, high, low, 0, 0, 0, 7]);
            let headers = parse_frame(&frame, Mode::Routed).unwrap().0;
            assert_eq!((headers.protocol, headers.l4), (6, 62));
            headers.fragment
        };
        assert_eq!(fragment(0, 0), Fragment::Whole); // atomic
        assert_eq!(fragment(0, 1), Fragment::First);
        assert_eq!(fragment(1, 0), Fragment::Later);
    }

    #[test]
    fn a_header_that_ends_outside_the_frame() {
        assert_eq!(
            refused(udp_v4(), |f| f.truncate(13)),
            Some(Reason::TruncatedHeader)
        );
        assert_eq!(
            refused(udp_v4(), |f| f.truncate(33)),
            Some(Reason::TruncatedHeader)
        );
        assert_eq!(
            refused(tcp_v6(), |f| f.truncate(53)),
            Some(Reason::TruncatedHeader)
        );
        assert_eq!(refused(udp_v4(), Vec::clear), Some(Reason::TruncatedHeader));
    }

    #[test]
    fn what_is_not_ip() {
        let with_type = |high, low| refused(udp_v4(), |f| f[12..14].copy_from_slice(&[high, low]));
        assert_eq!(with_type(0x08, 0x06), Some(Reason::NotIp)); // ARP
        assert_eq!(with_type(0x00, 0x26), Some(Reason::NotIp)); // an 802.3 length
    }

    #[test]
    fn impossible_ip_headers() {
        assert_eq!(refused(udp_v4(), |f| f[14] = 0x65), Some(Reason::IpVersion));
        assert_eq!(refused(tcp_v6(), |f| f[14] = 0x40), Some(Reason::IpVersion));
        let v4 = |change: fn(&mut [u8])| {
            refused(udp_v4(), |f| {
                change(f);
                fix_checksum(f);
            })
        };
        assert_eq!(v4(|f| f[14] = 0x44), Some(Reason::IpHeaderLength));
        assert_eq!(v4(|f| f[14] = 0x4f), Some(Reason::IpHeaderLength));
        assert_eq!(v4(|f| f[17] = 19), Some(Reason::IpTotalLength));
        assert_eq!(v4(|f| f[17] = 34), Some(Reason::IpTotalLength));
        assert_eq!(
            refused(tcp_v6(), |f| f[19] += 1),
            Some(Reason::IpTotalLength)
        );
        let jumbo = |f: &mut Vec<u8>| (f[19], f[20]) = (0, 0);
        assert_eq!(refused(tcp_v6(), jumbo), Some(Reason::IpTotalLength));
        assert_eq!(refused(udp_v4(), |f| f[24] ^= 1), Some(Reason::IpChecksum));
        let mut with_options = with_options(&[0x44, 0, 0, 0]);
        fix_checksum(&mut with_options);
        assert_eq!(refused(with_options, |_| ()), Some(Reason::IpHeaderLength));
    }

    /// A UDP packet with eight bytes of options instead of its UDP header.
    fn with_options(options: &[u8]) -> Vec<u8> {
        let mut frame = udp_v4();
        frame[14] = 0x47;
        frame[34..42].fill(0);
        frame[34..34 + options.len()].copy_from_slice(options);
        fix_checksum(&mut frame);
        frame
    }

    #[test]
    fn martian_addresses() {
        for source in [
            [0, 0, 0, 0],
            [127, 0, 0, 1],
            [224, 0, 0, 1],
            [255, 255, 255, 255],
        ] {
            assert_eq!(
                refused_v4(12, source),
                Some(Reason::MartianSource),
                "{source:?}"
            );
        }
        for destination in [[0, 0, 0, 0], [127, 0, 0, 1]] {
            let reason = refused_v4(16, destination);
            assert_eq!(reason, Some(Reason::MartianDestination), "{destination:?}");
        }
        for source in ["::", "::1", "ff02::1", "fe80::1"] {
            assert_eq!(
                refused_v6(8, source),
                Some(Reason::MartianSource),
                "{source}"
            );
        }
        for destination in ["::", "::1"] {
            let reason = refused_v6(24, destination);
            assert_eq!(reason, Some(Reason::MartianDestination), "{destination}");
        }
        for good in [
            [10, 0, 0, 1],
            [169, 254, 0, 1],
            [0, 0, 0, 1],
            [240, 0, 0, 1],
        ] {
            assert_eq!(refused_v4(12, good), None, "{good:?}");
        }
    }

    #[test]
    fn groups_and_the_link_are_not_forwarded_to() {
        assert_eq!(refused_v4(16, [224, 0, 0, 5]), Some(Reason::Multicast));
        assert_eq!(refused_v4(16, [255; 4]), Some(Reason::Multicast));
        assert_eq!(refused_v6(24, "ff02::1"), Some(Reason::Multicast));
        assert_eq!(refused(udp_v4(), |f| f[0] = 0xff), Some(Reason::Multicast));
        assert_eq!(refused_v6(24, "fe80::2"), Some(Reason::LocalDelivery));
        let solicitation = |f: &mut Vec<u8>| {
            (f[20], f[21]) = (58, 255); // ICMPv6, hop limit
            f[22..24].copy_from_slice(&[0xfe, 0x80]);
        };
        assert_eq!(refused(tcp_v6(), solicitation), Some(Reason::LocalDelivery));
    }

    #[test]
    fn source_routes() {
        for kind in [131, 137] {
            let frame = with_options(&[1, kind, 7, 4, 10, 0, 0, 9]);
            assert_eq!(refused(frame, |_| ()), Some(Reason::SourceRoute));
        }
        let record_route = with_options(&[7, 7, 4, 0, 0, 0, 0]);
        assert_eq!(refused(record_route, |_| ()), None);
        let routing = |kind| with_extension(43, vec![0, 0, kind, 0, 0, 0, 0, 0]);
        assert_eq!(refused(routing(0), |_| ()), Some(Reason::SourceRoute));
        assert_eq!(refused(routing(4), |_| ()), None);
    }

    #[test]
    fn tags_among_the_bytes() {
        let tagged = |tags: &[[u8; 4]]| {
            let mut frame = udp_v4();
            frame.splice(12..12, tags.concat());
            frame
        };
        let plain = udp_v4();
        // Priority 5, VLAN 0: taken off.
        let (headers, frame, _) =
            parse_frame(&tagged(&[[0x81, 0, 0xa0, 0]]), Mode::Routed).unwrap();
        assert_eq!((headers.l3, headers.l4), (14, 34));
        assert_eq!(frame, plain);
        for tags in [
            &[[0x81, 0, 0, 7]][..],
            &[[0x88, 0xa8, 0, 0], [0x81, 0, 0, 0]],
        ] {
            let frame = tagged(tags);
            assert_eq!(refused(frame, |_| ()), Some(Reason::UnknownVlan));
        }
        let qinq = tagged(&[[0x88, 0xa8, 0, 3], [0x81, 0, 0, 7]]);
        let (headers, frame, _) = parse_frame(&qinq, Mode::Bridged).unwrap();
        assert_eq!((headers.l3, headers.l4, headers.protocol), (22, 42, 17));
        assert_eq!(frame, qinq);
        assert_eq!(
            refused(qinq, |f| f.truncate(15)),
            Some(Reason::TruncatedHeader)
        );
    }

    #[test]
    fn a_bridge_lets_malformed_packets_pass() {
        let mut bad_checksum = udp_v4();
        bad_checksum[24] ^= 1;
        assert!(parse_frame(&bad_checksum, Mode::Bridged).unwrap().0.is_ip());
        let mut bad_version = udp_v4();
        bad_version[14] = 0x65;
        let (headers, same, ecn) = parse_frame(&bad_version, Mode::Bridged).unwrap();
        assert!(!headers.is_ip());
        assert_eq!((same, ecn), (bad_version, Ecn::NotCapable));
        assert!(!parse_frame(&[1, 2, 3], Mode::Bridged).unwrap().0.is_ip());
        // A total length of zero: a segment that is yet to be cut.
        let mut gso = udp_v4();
        gso[16..18].fill(0);
        assert_eq!(parse_frame(&gso, Mode::Bridged).unwrap().0.total_len, 33);
    }

    /// Bytes that get past the first checks more often than random ones do.
    fn frames() -> impl Strategy<Value = Vec<u8>> {
        let start = prop::sample::select(vec![
            vec![],
            udp_v4()[..14].to_vec(),
            udp_v4(),
            with_options(&[1, 7, 7, 4, 0, 0, 0, 0]),
            tcp_v6()[..20].to_vec(),
            tcp_v6(),
            with_extension(0, vec![0; 8]),
            with_extension(44, vec![0; 8]),
            with_extension(51, vec![0; 8]),
        ]);
        let changes = vec((0_usize..90, any::<u8>()), 0..6);
        (start, vec(any::<u8>(), 0..80), changes, any::<bool>()).prop_map(
            |(mut frame, more, changes, right)| {
                frame.extend(more);
                for (at, value) in changes {
                    if let Some(byte) = frame.get_mut(at) {
                        *byte = value;
                    }
                }
                if right && frame.len() >= 34 && frame[14] >> 4 == 4 {
                    fix_checksum(&mut frame);
                }
                frame
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_bytes_make_it_panic_and_offsets_stay_inside(frame in frames()) {
            for mode in [Mode::Routed, Mode::Bridged] {
                if let Ok((headers, after, _)) = parse_frame(&frame, mode) {
                    prop_assert!(headers.l3_range().end <= after.len());
                    let _ = headers.transport(&after);
                    if mode == Mode::Bridged {
                        prop_assert_eq!(&after, &frame);
                    } else {
                        prop_assert_eq!(headers.l3_range().end, after.len());
                        prop_assert!(headers.is_ip());
                        prop_assert!(usize::from(headers.l4) <= after.len());
                    }
                }
            }
        }

        #[test]
        fn what_is_routed_is_ip_for_etherparse_too(frame in frames()) {
            if let Ok((headers, after, _)) = parse_frame(&frame, Mode::Routed) {
                let theirs = etherparse::LaxSlicedPacket::from_ethernet(&after).unwrap();
                let (source, destination) = match theirs.net {
                    Some(etherparse::LaxNetSlice::Ipv4(v4)) => {
                        let header = v4.header();
                        prop_assert_eq!(header.ttl(), headers.ttl);
                        prop_assert_eq!(header.protocol().0, headers.protocol);
                        (header.source_addr().into(), header.destination_addr().into())
                    }
                    Some(etherparse::LaxNetSlice::Ipv6(v6)) => {
                        let header = v6.header();
                        prop_assert_eq!(header.hop_limit(), headers.ttl);
                        (header.source_addr().into(), header.destination_addr().into())
                    }
                    other => panic!("{other:?}"),
                };
                prop_assert_eq!((headers.source(), headers.destination()), (source, destination));
            }
        }
    }
}

//! ICMP errors about packets that the router cannot forward: which error to send, and when to send none.
//!
//! Source: RFC 1812, sections 4.3.2 and 5.2.7; RFC 1191, section 4; RFC 4443, sections 2.4, 3.1 to
//! 3.3 (parentheses below); RFC 792.
//!
//! ```text
//!  offender -- may it be answered? -- within the limits? -- a slot? --> error
//!                    | no                    | no              | no
//!                    v                       v                 v
//!                forbidden                limited           no_room
//! ```
//!
//! Not answered: ICMP errors, and packets that might be ICMP errors (2.4 e.1, e.2); later fragments (in
//! IPv6 only if they could belong to an ICMP error, because it has no rule against the others); packets that
//! arrived by link-layer broadcast or go to a group (e.3 to e.5); packets whose source is not a single host
//! (e.6).
//!
//! | cause | ICMP | ICMPv6 |
//! |---|---|---|
//! | [`TtlExpired`](IcmpCause::TtlExpired) | 11, 0 | 3, 0 |
//! | [`NetUnreachable`](IcmpCause::NetUnreachable) | 3, 0 | 1, 0 |
//! | [`HostUnreachable`](IcmpCause::HostUnreachable) | 3, 1 | 1, 3 |
//! | [`RouteUnreachable`](IcmpCause::RouteUnreachable) | 3, 1 | 1, 0, as in Linux |
//! | [`Prohibited`](IcmpCause::Prohibited) | 3, 13 | 1, 1 |
//! | [`TooBig`](IcmpCause::TooBig) | 3, 4 with the MTU | 2, 0 with the MTU |
//!
//! An error quotes as much of the offending packet as fits within 576 bytes in total (IPv4), or 1280 (IPv6).
//!
//! For rate limits see [`error_budget`](crate::ip::error_budget).
//!
//! Deviation: RFC 4443 permits "packet too big" in answer to a multicast packet; this router forwards none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU8;

use weir_base::Instant;
use weir_packet::key::Family;
use weir_packet::{Packet, Pool};
use weir_wire::ipv6_extension::{Chain, is_extension};
use weir_wire::{EtherType, Protocol, ethernet, icmpv4, icmpv6, ipv4, ipv6};

use crate::headers::{self, Fragment, Headers, Parsed};
use crate::ip::error_budget::{ErrorBudget, Receiver};
use crate::ip::icmp_cause::IcmpCause;

/// Maximum total length of an error: the MTU that every IPv4 path is expected to support.
const ERROR_LEN_MAX_V4: usize = 576;
/// Maximum total length of an error: the minimum MTU of IPv6.
const ERROR_LEN_MAX_V6: usize = 1280;
/// TTL of an error.
const TTL: NonZeroU8 = NonZeroU8::MIN.saturating_add(63);
/// Precedence "internetwork control" (RFC 1812, section 4.3.2.5).
const TRAFFIC_CLASS_V4: u8 = 0xc0;

/// Builds the error that reports `cause` to the sender of a packet; `None` if no error may be sent, or if no slot is
/// free.
///
/// `packet` must be as received, because the error quotes it. Its flow key must be set. The MAC addresses of the new
/// frame are zero, for forwarding to fill in.
pub fn build(
    pool: &mut Pool,
    budget: &mut ErrorBudget,
    packet: &Packet,
    headers: &Headers,
    cause: IcmpCause,
    from: IpAddr,
    now: Instant,
) -> Option<Parsed> {
    let offender = pool.frame(packet);
    if !may_answer(offender, headers) || from.is_ipv4() != headers.source().is_ipv4() {
        budget.stats.forbidden += 1;
        return None;
    }
    let receiver = Receiver::of(pool.keys.key(packet), &pool.keys);
    if !budget.allows(receiver, cause, now) {
        budget.stats.limited += 1;
        return None;
    }
    let mut buffer = [0; ethernet::HEADER_LEN + ERROR_LEN_MAX_V6];
    let room = pool.frame_bytes_max().min(buffer.len());
    let quoted = offender.get(headers.l3_range()).unwrap_or(&[]);
    let id = packet.id as u16;
    let len = match (from, headers.source()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            write_v4(&mut buffer[..room], quoted, cause, from, to, id)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            write_v6(&mut buffer[..room], quoted, cause, from, to)
        }
        _ => None,
    };
    let error = len.and_then(|len| pool.receive(&buffer[..len], now));
    let Some(packet) = error else {
        budget.stats.no_room += 1;
        return None;
    };
    budget.take(receiver, cause, now);
    let headers = headers::peek(pool.frame(&packet));
    Some(Parsed { packet, headers })
}

/// Whether the rules permit an answer.
fn may_answer(frame: &[u8], headers: &Headers) -> bool {
    let to_group = match ethernet::View::new_checked(frame) {
        Ok(view) => ethernet::is_group(view.destination()),
        Err(_) => true,
    };
    let (from, to) = (headers.source(), headers.destination());
    let addressed_well = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => is_one_host_v4(from) && is_one_host_v4(to),
        (from, to) => {
            let bad = from.is_unspecified() || from.is_loopback() || from.is_multicast();
            !bad && !to.is_multicast()
        }
    };
    let transport = headers.transport(frame);
    !to_group
        && addressed_well
        && match headers.family {
            Family::V4 => may_answer_v4(headers, transport),
            Family::V6 => may_answer_v6(headers, transport),
            Family::Link => false,
        }
}

fn is_one_host_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [127 | 224..=239, ..] | [0, 0, 0, 0] | [255, 255, 255, 255]
    )
}

fn may_answer_v4(headers: &Headers, transport: &[u8]) -> bool {
    let is_icmp = Protocol::from(headers.protocol) == Protocol::ICMPV4;
    match (headers.fragment, is_icmp) {
        (Fragment::Later, _) => false,
        (_, false) => true,
        (_, true) => transport.first().is_some_and(|t| !icmpv4::is_error(*t)),
    }
}

fn may_answer_v6(headers: &Headers, transport: &[u8]) -> bool {
    let protocol = Protocol::from(headers.protocol);
    if headers.fragment == Fragment::Later {
        return protocol != Protocol::ICMPV6 && !is_extension(protocol);
    }
    // Parsing stops at a fragment header; in a first fragment, the walk continues after it here.
    let chain = Chain::walk(protocol, transport);
    match chain.protocol {
        _ if !chain.complete => false,
        Protocol::ICMPV6 => transport
            .get(chain.len)
            .is_some_and(|t| !icmpv6::is_error(*t) && *t != icmpv6::REDIRECT),
        _ => true,
    }
}

/// Writes the frame of an ICMP error and returns its length; `None` if the buffer is too small.
fn write_v4(
    buffer: &mut [u8],
    quoted: &[u8],
    cause: IcmpCause,
    from: Ipv4Addr,
    to: Ipv4Addr,
    identification: u16,
) -> Option<usize> {
    use icmpv4::{Exceeded, Repr, Unreachable};
    let message = match cause {
        IcmpCause::TtlExpired => Repr::TimeExceeded(Exceeded::TTL),
        IcmpCause::NetUnreachable => Repr::Unreachable(Unreachable::NETWORK),
        IcmpCause::HostUnreachable | IcmpCause::RouteUnreachable => {
            Repr::Unreachable(Unreachable::HOST)
        }
        IcmpCause::Prohibited => Repr::Unreachable(Unreachable::PROHIBITED),
        IcmpCause::TooBig { mtu } => Repr::FragmentationNeeded {
            mtu: u16::try_from(mtu).unwrap_or(u16::MAX),
        },
    };
    let packet = write_link(buffer, EtherType::IPV4, ERROR_LEN_MAX_V4)?;
    let body = packet.get_mut(ipv4::HEADER_LEN_MIN..)?;
    let len = write_quote(body, icmpv4::HEADER_LEN, quoted)?;
    let body = &mut body[..len];
    message.emit(&mut icmpv4::View::new_unchecked(&mut *body));
    icmpv4::View::new_unchecked(&mut *body).fill_checksum();
    let mut repr = ipv4::Repr::new(from, to, Protocol::ICMPV4, len).ok()?;
    repr.ttl = TTL;
    repr.traffic_class = TRAFFIC_CLASS_V4;
    repr.identification = identification;
    repr.emit(&mut ipv4::View::new_unchecked(packet));
    Some(ethernet::HEADER_LEN + ipv4::HEADER_LEN_MIN + len)
}

/// Writes the frame of an ICMPv6 error and returns its length; `None` if the buffer is too small.
fn write_v6(
    buffer: &mut [u8],
    quoted: &[u8],
    cause: IcmpCause,
    from: Ipv6Addr,
    to: Ipv6Addr,
) -> Option<usize> {
    use icmpv6::{Exceeded, Repr, Unreachable};
    let message = match cause {
        IcmpCause::TtlExpired => Repr::TimeExceeded(Exceeded::HOP_LIMIT),
        IcmpCause::NetUnreachable | IcmpCause::RouteUnreachable => {
            Repr::Unreachable(Unreachable::NO_ROUTE)
        }
        IcmpCause::HostUnreachable => Repr::Unreachable(Unreachable::ADDRESS),
        IcmpCause::Prohibited => Repr::Unreachable(Unreachable::PROHIBITED),
        IcmpCause::TooBig { mtu } => Repr::PacketTooBig { mtu },
    };
    let packet = write_link(buffer, EtherType::IPV6, ERROR_LEN_MAX_V6)?;
    let body = packet.get_mut(ipv6::HEADER_LEN..)?;
    let len = write_quote(body, icmpv6::HEADER_LEN, quoted)?;
    let body = &mut body[..len];
    message.emit(&mut icmpv6::View::new_unchecked(&mut *body));
    icmpv6::View::new_unchecked(&mut *body).fill_checksum(from, to);
    let repr = ipv6::Repr {
        traffic_class: 0,
        flow_label: ipv6::FlowLabel::default(),
        payload_len: len as u16, // at most 1280
        next_header: Protocol::ICMPV6,
        hop_limit: TTL.get(),
        source: from,
        destination: to,
    };
    repr.emit(&mut ipv6::View::new_unchecked(packet));
    Some(ethernet::HEADER_LEN + ipv6::HEADER_LEN + len)
}

/// Writes an Ethernet header without addresses, and returns the rest of the buffer, cut to `packet_len_max`.
fn write_link(buffer: &mut [u8], ethertype: EtherType, packet_len_max: usize) -> Option<&mut [u8]> {
    let (link, packet) = buffer.split_at_mut_checked(ethernet::HEADER_LEN)?;
    let repr = ethernet::Repr {
        destination: [0; 6],
        source: [0; 6],
        ethertype,
    };
    repr.emit(&mut ethernet::View::new_unchecked(link));
    let len = packet.len().min(packet_len_max);
    Some(&mut packet[..len])
}

/// Copies as much of the offending packet after an ICMP header as fits, and returns the message's length.
fn write_quote(body: &mut [u8], header_len: usize, quoted: &[u8]) -> Option<usize> {
    let room = body.get_mut(header_len..)?;
    let len = quoted.len().min(room.len());
    room[..len].copy_from_slice(&quoted[..len]);
    Some(header_len + len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge;
    use crate::classify::{Classified, classify};
    use etherparse::{
        IcmpEchoHeader, Icmpv4Slice, Icmpv4Type, Icmpv6Slice, Icmpv6Type, IpNumber, PacketBuilder,
        SlicedPacket, icmpv4 as their_v4, icmpv6 as their_v6,
    };
    use proptest::prelude::*;

    const NOW: Instant = Instant::from_nanos(5_000_000_000);
    const ROUTER_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 254));
    const ROUTER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe));
    const SENDER_V4: [u8; 4] = [10, 0, 0, 1];
    const SENDER_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

    fn v4(payload_len: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4(SENDER_V4, [192, 0, 2, 1], 1)
            .udp(5000, 53)
            .write(&mut frame, &vec![7; payload_len])
            .unwrap();
        frame
    }

    fn v6(payload_len: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv6(SENDER_V6.octets(), [0x20; 16], 1)
            .udp(5000, 53)
            .write(&mut frame, &vec![7; payload_len])
            .unwrap();
        frame
    }

    /// The error about a frame that was parsed as for a bridge, so that no other check refuses it.
    fn error(frame: &[u8], cause: IcmpCause, budget: &mut ErrorBudget) -> Option<Vec<u8>> {
        error_in(&mut Pool::new(2, 9000, (1, 2)), frame, cause, budget)
    }

    fn error_in(
        pool: &mut Pool,
        frame: &[u8],
        cause: IcmpCause,
        budget: &mut ErrorBudget,
    ) -> Option<Vec<u8>> {
        let packet = pool.receive(frame, NOW).unwrap();
        let parsed = bridge::parse(pool, packet);
        let Classified { packet, headers } = classify(pool, parsed);
        let from = match headers.family {
            Family::V4 => ROUTER_V4,
            _ => ROUTER_V6,
        };
        let answer = build(pool, budget, &packet, &headers, cause, from, NOW);
        pool.release(packet);
        let Parsed { packet, headers } = answer?;
        let bytes = pool.frame(&packet).to_vec();
        assert_eq!(headers, headers::peek(&bytes));
        assert_eq!((packet.arrived, packet.ecn), (NOW, headers.ecn));
        assert!(headers.source() == from && headers.l3_range().end == bytes.len());
        pool.release(packet);
        Some(bytes)
    }

    const CAUSES: [IcmpCause; 5] = [
        IcmpCause::TtlExpired,
        IcmpCause::NetUnreachable,
        IcmpCause::HostUnreachable,
        IcmpCause::Prohibited,
        IcmpCause::TooBig { mtu: 1400 },
    ];

    #[test]
    fn etherparse_reads_the_icmp_errors() {
        use their_v4::{DestUnreachableHeader as Why, TimeExceededCode};
        let expected = [
            Icmpv4Type::TimeExceeded(TimeExceededCode::TtlExceededInTransit),
            Icmpv4Type::DestinationUnreachable(Why::Network),
            Icmpv4Type::DestinationUnreachable(Why::Host),
            Icmpv4Type::DestinationUnreachable(Why::FilterProhibited),
            Icmpv4Type::DestinationUnreachable(Why::FragmentationNeeded { next_hop_mtu: 1400 }),
        ];
        for (cause, kind) in CAUSES.into_iter().zip(expected) {
            let offender = v4(2000);
            let frame = error(&offender, cause, &mut ErrorBudget::default()).unwrap();
            let packet = SlicedPacket::from_ethernet(&frame).unwrap();
            let net = packet.net.unwrap();
            let header = net.ipv4_ref().unwrap().header();
            assert_eq!(header.destination(), SENDER_V4);
            assert_eq!(IpAddr::V4(header.source_addr()), ROUTER_V4);
            assert_eq!((header.ttl(), header.total_len()), (64, 576));
            let own = header.to_header();
            assert_eq!(own.header_checksum, own.calc_header_checksum());
            let message = Icmpv4Slice::from_slice(&frame[34..]).unwrap();
            assert_eq!(message.icmp_type(), kind);
            let sum = message.icmp_type().calc_checksum(message.payload());
            assert_eq!(message.checksum(), sum);
            assert_eq!(message.payload(), &offender[14..14 + 548]);
        }
    }

    #[test]
    fn etherparse_reads_the_icmpv6_errors() {
        use their_v6::{DestUnreachableCode as Why, TimeExceededCode};
        let expected = [
            Icmpv6Type::TimeExceeded(TimeExceededCode::HopLimitExceeded),
            Icmpv6Type::DestinationUnreachable(Why::NoRoute),
            Icmpv6Type::DestinationUnreachable(Why::Address),
            Icmpv6Type::DestinationUnreachable(Why::Prohibited),
            Icmpv6Type::PacketTooBig { mtu: 1400 },
        ];
        for (cause, kind) in CAUSES.into_iter().zip(expected) {
            let offender = v6(2000);
            let frame = error(&offender, cause, &mut ErrorBudget::default()).unwrap();
            let packet = SlicedPacket::from_ethernet(&frame).unwrap();
            let net = packet.net.unwrap();
            let header = net.ipv6_ref().unwrap().header();
            assert_eq!(header.destination_addr(), SENDER_V6);
            assert_eq!(IpAddr::V6(header.source_addr()), ROUTER_V6);
            assert_eq!((header.hop_limit(), header.payload_length()), (64, 1240));
            let message = Icmpv6Slice::from_slice(&frame[54..]).unwrap();
            assert_eq!(message.icmp_type(), kind);
            assert!(message.is_checksum_valid(header.source(), header.destination()));
            assert_eq!(message.payload(), &offender[14..14 + 1232]);
        }
    }

    #[test]
    fn a_short_offender_is_quoted_whole() {
        let offender = v4(5);
        let cause = IcmpCause::TtlExpired;
        let frame = error(&offender, cause, &mut ErrorBudget::default()).unwrap();
        assert_eq!(frame[42..], offender[14..]);
        assert_eq!(frame[..12], [0; 12]);
        let offender = v6(5);
        let frame = error(&offender, cause, &mut ErrorBudget::default()).unwrap();
        assert_eq!(frame[62..], offender[14..]);
    }

    fn is_answered(frame: &[u8]) -> bool {
        let mut budget = ErrorBudget::default();
        let answered = error(frame, IcmpCause::TtlExpired, &mut budget).is_some();
        assert_eq!(budget.stats().sent(), u64::from(answered));
        assert_eq!(budget.stats().forbidden, u64::from(!answered));
        answered
    }

    fn with(mut frame: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    }

    #[test]
    fn icmp_errors_are_not_answered_but_pings_are() {
        let ping = |kind: u8| {
            let mut frame = Vec::new();
            PacketBuilder::ethernet2([2; 6], [4; 6])
                .ipv4(SENDER_V4, [192, 0, 2, 1], 1)
                .icmpv4(Icmpv4Type::EchoRequest(IcmpEchoHeader { id: 1, seq: 2 }))
                .write(&mut frame, &[])
                .unwrap();
            with(frame, 34, &[kind])
        };
        assert!(is_answered(&ping(8)) && is_answered(&ping(0)) && is_answered(&ping(13)));
        for kind in [3, 4, 5, 11, 12, 99] {
            assert!(!is_answered(&ping(kind)), "type {kind}");
        }
        let mut cut = ping(8);
        cut.truncate(34);
        assert!(!is_answered(&cut));
    }

    #[test]
    fn icmpv6_errors_are_not_answered_even_behind_extension_headers() {
        let message = |next: u8, body: &[u8]| {
            let mut frame = Vec::new();
            PacketBuilder::ethernet2([2; 6], [4; 6])
                .ipv6(SENDER_V6.octets(), [0x20; 16], 1)
                .write(&mut frame, IpNumber(next), body)
                .unwrap();
            frame
        };
        assert!(is_answered(&message(58, &[128, 0, 0, 0, 0, 0, 0, 0])));
        for kind in [1, 2, 3, 4, 127, 137] {
            assert!(!is_answered(&message(58, &[kind, 0, 0, 0, 0, 0, 0, 0])));
            let behind_options = [58, 0, 1, 4, 0, 0, 0, 0, kind, 0, 0, 0];
            assert!(!is_answered(&message(60, &behind_options)));
            // The first fragment of a datagram that starts with destination options.
            let piece = [&[60, 0, 0, 1, 0, 0, 0, 7], &behind_options[..]].concat();
            assert!(!is_answered(&message(44, &piece)));
        }
        assert!(!is_answered(&message(58, &[])));
        assert!(!is_answered(&message(60, &[6, 9, 0, 0, 0, 0, 0, 0]))); // ends outside
        let later = |next| message(44, &[next, 0, 1, 0, 0, 0, 0, 7]);
        assert!(is_answered(&later(17)));
        assert!(!is_answered(&later(58)) && !is_answered(&later(60)));
    }

    #[test]
    fn groups_and_nobody_are_not_answered() {
        assert!(is_answered(&v4(5)) && is_answered(&v6(5)));
        assert!(!is_answered(&with(v4(5), 20, &[0, 9]))); // a later fragment
        assert!(is_answered(&with(v4(5), 20, &[0x20, 0]))); // the first one
        for source in [[0; 4], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
            assert!(!is_answered(&with(v4(5), 26, &source)));
        }
        assert!(!is_answered(&with(v4(5), 30, &[224, 0, 0, 1])));
        assert!(!is_answered(&with(v4(5), 0, &[0xff; 6])));
        assert!(!is_answered(&with(v6(5), 0, &[0x33, 0x33])));
        assert!(!is_answered(&with(v6(5), 22, &[0; 16])));
        assert!(!is_answered(&with(v6(5), 22, &[0xff])));
        assert!(!is_answered(&with(v6(5), 38, &[0xff])));
        assert!(!is_answered(&with(v4(5), 12, &[8, 6]))); // ARP
    }

    #[test]
    fn a_full_pool_costs_no_token() {
        let mut budget = ErrorBudget::default();
        let mut pool = Pool::new(1, 9000, (1, 2));
        for _ in 0..20 {
            assert!(error_in(&mut pool, &v4(5), CAUSES[0], &mut budget).is_none());
        }
        assert_eq!((budget.stats().no_room, budget.stats().limited), (20, 0));
    }

    proptest! {
        #[test]
        fn any_quoted_length_gives_a_right_checksum(len in 0_usize..1500, cause in prop::sample::select(&CAUSES[..])) {
            let frame = error(&v4(len), cause, &mut ErrorBudget::default()).unwrap();
            prop_assert!(weir_wire::checksum::is_right(&frame[34..]));
            let frame = error(&v6(len), cause, &mut ErrorBudget::default()).unwrap();
            let packet = SlicedPacket::from_ethernet(&frame).unwrap().net.unwrap();
            let header = packet.ipv6_ref().unwrap().header();
            let message = Icmpv6Slice::from_slice(&frame[54..]).unwrap();
            prop_assert!(message.is_checksum_valid(header.source(), header.destination()));
        }
    }
}

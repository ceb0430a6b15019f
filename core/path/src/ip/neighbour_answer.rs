//! Answers to ARP requests and neighbour solicitations for addresses of a control element, which the machine's kernel does
//! not have.
//!
//! Source: RFC 826; RFC 4861, sections 7.1.1 (which solicitations are valid) and 7.2.4 (the answer); RFC 5227 and
//! RFC 4862, section 5.4 (probes: another host wants the address, and learns that it is taken).

use std::net::{IpAddr, Ipv6Addr};

use weir_wire::checksum::Sum;
use weir_wire::discovery::{self, AdvertisementFlags, Whose};
use weir_wire::ethernet::{self, Mac};
use weir_wire::{EtherType, Protocol, arp, icmpv6, ipv6};

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_MAC: Mac = [0x33, 0x33, 0, 0, 0, 1];

/// The answer to a frame that requests the MAC address for our address; that MAC address is `mac`.
pub fn answer(frame: &[u8], mac: Mac, is_ours: impl Fn(IpAddr) -> bool) -> Option<Vec<u8>> {
    let view = ethernet::View::new_checked(frame).ok()?;
    let body = frame.get(ethernet::HEADER_LEN..)?;
    match view.ethertype() {
        EtherType::ARP => answer_arp(mac, is_ours, body),
        EtherType::IPV6 => answer_discovery(mac, is_ours, view.source(), body),
        _ => None,
    }
}

fn answer_arp(mac: Mac, is_ours: impl Fn(IpAddr) -> bool, body: &[u8]) -> Option<Vec<u8>> {
    let request = arp::Repr::parse(&arp::View::new_checked(body).ok()?).ok()?;
    let asks = request.operation == arp::Operation::REQUEST && request.sender != request.target;
    if !asks || !is_ours(request.target.into()) || ethernet::is_group(request.sender_mac) {
        return None;
    }
    let reply = arp::Repr {
        operation: arp::Operation::REPLY,
        sender_mac: mac,
        sender: request.target,
        target_mac: request.sender_mac,
        target: request.sender,
    };
    let mut frame = link(request.sender_mac, mac, EtherType::ARP, arp::LEN);
    let body = &mut frame[ethernet::HEADER_LEN..];
    reply.emit(&mut arp::View::new_unchecked(body));
    Some(frame)
}

/// A valid solicitation.
struct Solicitation {
    source: Ipv6Addr,
    target: Ipv6Addr,
    mac: Option<Mac>,
}

fn answer_discovery(
    mac: Mac,
    is_ours: impl Fn(IpAddr) -> bool,
    from: Mac,
    packet: &[u8],
) -> Option<Vec<u8>> {
    let asked = solicitation(packet)?;
    if !is_ours(asked.target.into()) {
        return None;
    }
    let probe = asked.source.is_unspecified();
    let (to, to_mac) = if probe {
        (ALL_NODES, ALL_NODES_MAC)
    } else {
        (asked.source, asked.mac.unwrap_or(from))
    };
    if !probe && ethernet::is_group(to_mac) {
        return None;
    }
    let flags = AdvertisementFlags {
        router: true,
        solicited: !probe,
        replaces: true,
    };
    Some(advertisement(mac, asked.target, (to, to_mac), flags))
}

/// Parses a neighbour solicitation; `None` if the packet is not a valid one (RFC 4861, section 7.1.1).
fn solicitation(packet: &[u8]) -> Option<Solicitation> {
    let header = ipv6::Repr::parse(&ipv6::View::new_checked(packet).ok()?).ok()?;
    let end = ipv6::HEADER_LEN + usize::from(header.payload_len);
    let message = packet.get(ipv6::HEADER_LEN..end)?;
    let view = icmpv6::View::new_checked(message).ok()?;
    let (source, destination) = (header.source, header.destination);
    let sum = Sum::default().pseudo(
        source.into(),
        destination.into(),
        Protocol::ICMPV6,
        message.len(),
    );
    let counts = header.next_header == Protocol::ICMPV6
        && header.hop_limit == discovery::HOP_LIMIT
        && (view.kind(), view.code()) == (discovery::SOLICITATION, 0)
        && sum.bytes(message).checksum() == 0
        && !source.is_multicast();
    if !counts {
        return None;
    }
    let body = message.get(icmpv6::HEADER_LEN..)?;
    let repr = discovery::Repr::parse(&discovery::View::new_checked(body).ok()?).ok()?;
    let mac = match repr.mac {
        Some((Whose::Source, mac)) => Some(mac),
        _ => None,
    };
    let bad_probe = source.is_unspecified() && (mac.is_some() || !destination.is_multicast());
    (!bad_probe).then_some(Solicitation {
        source,
        target: repr.target,
        mac,
    })
}

/// The frame of an advertisement that `target` is at MAC address `own`.
fn advertisement(
    own: Mac,
    target: Ipv6Addr,
    (to, mac): (Ipv6Addr, Mac),
    flags: AdvertisementFlags,
) -> Vec<u8> {
    const LEN: usize = icmpv6::HEADER_LEN + discovery::LEN;
    let mut frame = link(mac, own, EtherType::IPV6, ipv6::HEADER_LEN + LEN);
    let (header, message) = frame[ethernet::HEADER_LEN..].split_at_mut(ipv6::HEADER_LEN);
    let repr = ipv6::Repr {
        traffic_class: 0,
        flow_label: ipv6::FlowLabel::default(),
        payload_len: LEN as u16,
        next_header: Protocol::ICMPV6,
        hop_limit: discovery::HOP_LIMIT,
        source: target,
        destination: to,
    };
    repr.emit(&mut ipv6::View::new_unchecked(header));
    let body = discovery::Repr {
        target,
        mac: Some((Whose::Target, own)),
    };
    let after = &mut message[icmpv6::HEADER_LEN..];
    body.emit(&mut discovery::View::new_unchecked(after));
    let icmp = icmpv6::Repr::Other {
        kind: discovery::ADVERTISEMENT,
        code: 0,
        rest: flags.bytes(),
    };
    let mut view = icmpv6::View::new_unchecked(message);
    icmp.emit(&mut view);
    view.fill_checksum(target, to);
    frame
}

/// A frame with this header and `len` zero bytes of payload.
fn link(destination: Mac, source: Mac, ethertype: EtherType, len: usize) -> Vec<u8> {
    let mut frame = vec![0; ethernet::HEADER_LEN + len];
    let repr = ethernet::Repr {
        destination,
        source,
        ethertype,
    };
    repr.emit(&mut ethernet::View::new_unchecked(&mut frame[..]));
    frame
}

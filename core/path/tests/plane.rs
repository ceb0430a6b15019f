//! A whole plane in memory: frames enter at one port and leave at another, and all of them are accounted for.

use std::net::IpAddr;
use std::sync::Arc;

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use weir_base::{Instant, Rate, Span, Streams, Tally};
use weir_discipline::Spec;
use weir_packet::Fate::{Dropped, Marked, Passed};
use weir_packet::{Direction, Fate, Reason};
use weir_path::egress::port::Link;
use weir_path::ip::resolution::{self, NeighbourRequest};
use weir_path::ip::tables::{Action, Address, Interface, Neighbour, NextHop, Tables};
use weir_path::ip::waiting;
use weir_path::link::offload::{Offload, PartialChecksum, SegmentKind, Segmentation};
use weir_path::plane::deferred::{SENDER_BYTES_MAX, SENDERS_MAX};
use weir_path::plane::filter::Filter;
use weir_path::plane::step::Arrival;
use weir_path::plane::watch::{LEASE, Sightings, Want, Watched};
use weir_path::plane::{Mode, Plane};
use weir_wire::Protocol;
use weir_wire::checksum::{self, Sum};

const LAN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const WAN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];
const NEXT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 4];
const LAN: usize = 0;
const WAN: usize = 1;

/// Two ports: `lan` (10.0.1.1/24) and `wan` (10.0.2.1/24, MTU `wan_mtu`); the default route leads
/// to 10.0.2.254, whose MAC address is known, as is that of the host 10.0.1.10.
fn tables(wan_mtu: u32) -> Tables {
    let mut tables = Tables::default();
    let interface = |name: &str, mac, mtu, addresses: &[&str]| Interface {
        name: name.to_owned(),
        mac,
        mtu,
        up: true,
        carrier: true,
        addresses: addresses
            .iter()
            .map(|a| Address::of(a.parse().unwrap()))
            .collect(),
    };
    let lan = interface("lan", LAN_MAC, 1500, &["10.0.1.1/24", "2001:db8:1::1/64"]);
    let wan = interface(
        "wan",
        WAN_MAC,
        wan_mtu,
        &["10.0.2.1/24", "2001:db8:2::1/64"],
    );
    tables.interfaces.insert(1, lan);
    tables.interfaces.insert(2, wan);
    let route = |interface, gateway: Option<&str>| {
        Action::Forward(vec![NextHop {
            interface,
            gateway: gateway.map(|g| g.parse().unwrap()),
            weight: 1,
        }])
    };
    for (prefix, action) in [
        ("10.0.1.0/24", route(1, None)),
        ("10.0.2.0/24", route(2, None)),
        ("0.0.0.0/0", route(2, Some("10.0.2.254"))),
        ("10.0.1.1/32", Action::Local),
        ("2001:db8:1::/64", route(1, None)),
        ("::/0", route(2, Some("2001:db8:2::254"))),
    ] {
        tables.set_route(prefix.parse().unwrap(), action.into());
    }
    for (interface, address, mac) in [
        (1, "10.0.1.10", HOST_MAC),
        (2, "10.0.2.254", NEXT_MAC),
        (1, "2001:db8:1::10", HOST_MAC),
        (2, "2001:db8:2::254", NEXT_MAC),
    ] {
        let neighbour = (interface, address.parse().unwrap());
        tables
            .neighbours
            .insert(neighbour, Neighbour::Reachable(mac));
    }
    tables
}

fn plane(mode: Mode, tables: Tables, rate: Option<Rate>) -> Plane {
    plane_of(64, mode, tables, rate)
}

/// A plane with a pool of this many packets.
fn plane_of(packets: usize, mode: Mode, tables: Tables, rate: Option<Rate>) -> Plane {
    let mut plane = Plane::new(packets, 1518, Streams::new(1));
    for name in ["lan", "wan"] {
        let spec = Spec::check("fifo", []).unwrap();
        let link = Link {
            rate,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1518,
        };
        plane.add_port(name, name, mode, spec, link, Instant::ZERO);
    }
    plane.set_tables(Arc::new(tables), Instant::ZERO);
    plane
}

fn arrival(frame: &[u8]) -> Arrival {
    Arrival {
        at: Instant::ZERO,
        len: frame.len() as u32,
        vlan: None,
        offload: Offload::NONE,
    }
}

fn send(plane: &mut Plane, port: usize, frame: &[u8]) {
    plane.receive(port, frame, arrival(frame));
}

/// The frames that leave a port up to `now`.
fn leaving(plane: &mut Plane, port: usize, now: Instant) -> Vec<Vec<u8>> {
    plane.step(now);
    let mut frames = Vec::new();
    let left = plane.flush(port, |burst, _| {
        frames.extend(burst.iter().map(|frame| frame.to_vec()));
        Ok::<_, ()>(burst.len())
    });
    assert_eq!(left, Ok(false));
    frames
}

fn udp(destination: [u8; 4], ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST_MAC, LAN_MAC)
        .ipv4([10, 0, 1, 10], destination, ttl)
        .udp(4000, 53)
        .write(&mut frame, payload)
        .unwrap();
    frame[0..6].copy_from_slice(&LAN_MAC);
    frame[6..12].copy_from_slice(&HOST_MAC);
    frame
}

fn udp_v6(hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let address = |text: &str| match text.parse().unwrap() {
        IpAddr::V6(a) => a.octets(),
        IpAddr::V4(_) => unreachable!("an IPv6 address"),
    };
    PacketBuilder::ethernet2(HOST_MAC, LAN_MAC)
        .ipv6(
            address("2001:db8:1::10"),
            address("2001:db8:9::9"),
            hop_limit,
        )
        .udp(4000, 53)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

/// Nothing is lost without a reason, and no slot leaks.
fn assert_balanced(plane: &mut Plane) {
    let ended = plane.fates().all_ended();
    plane.shut_down();
    assert!(plane.fates().all_ended().packets >= ended.packets);
    let spec = Spec::check("fifo", []).unwrap();
    let link = Link {
        rate: None,
        framing: weir_base::Framing::bytes(0),
        frame_bytes_max: 1518,
    };
    plane.add_port("lan", "lan", Mode::Routed, spec, link, Instant::ZERO);
    // Every slot is free again: 64 packets can wait at once.
    for host in 0..64_u8 {
        let frame = udp([10, 0, 1, 100 + host], 9, b"x");
        send(plane, LAN, &frame);
    }
    assert_eq!(plane.fates().ended(Reason::PoolExhausted), Tally::ZERO);
}

#[test]
fn a_forwarded_packet_has_one_hop_less_new_addresses_and_a_right_checksum() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    send(&mut plane, LAN, &udp([192, 0, 2, 1], 64, b"payload"));
    let frames = leaving(&mut plane, WAN, Instant::ZERO);
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0][0..6], NEXT_MAC);
    assert_eq!(frames[0][6..12], WAN_MAC);
    let sliced = SlicedPacket::from_ethernet(&frames[0]).unwrap();
    let Some(NetSlice::Ipv4(ip)) = sliced.net else {
        panic!("not IPv4: {sliced:?}")
    };
    assert_eq!(ip.header().ttl(), 63);
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    assert_balanced(&mut plane);
}

#[test]
fn an_expired_packet_is_answered_from_the_port_it_came_in_by() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    send(&mut plane, LAN, &udp([192, 0, 2, 1], 1, b"payload"));
    assert!(leaving(&mut plane, WAN, Instant::ZERO).is_empty());
    let frames = leaving(&mut plane, LAN, Instant::ZERO);
    assert_eq!(frames.len(), 1);
    let sliced = SlicedPacket::from_ethernet(&frames[0]).unwrap();
    let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Icmpv4(icmp))) =
        (sliced.net, sliced.transport)
    else {
        panic!("no ICMP")
    };
    assert_eq!(ip.header().source(), [10, 0, 1, 1]);
    assert_eq!(ip.header().destination(), [10, 0, 1, 10]);
    assert_eq!((icmp.type_u8(), icmp.code_u8()), (11, 0));
    assert_eq!(plane.fates().ended(Reason::TtlExpired).packets, 1);
    assert_balanced(&mut plane);
}

#[test]
fn ipv6_is_forwarded_and_answered_too() {
    let mut plane = plane(Mode::Routed, tables(1280), None);
    send(&mut plane, LAN, &udp_v6(64, b"payload"));
    let frames = leaving(&mut plane, WAN, Instant::ZERO);
    assert_eq!(frames[0][21], 63);
    send(&mut plane, LAN, &udp_v6(64, &[0; 1400]));
    let frames = leaving(&mut plane, LAN, Instant::ZERO);
    let sliced = SlicedPacket::from_ethernet(&frames[0]).unwrap();
    let Some(TransportSlice::Icmpv6(icmp)) = sliced.transport else {
        panic!("no ICMPv6")
    };
    assert_eq!((icmp.type_u8(), icmp.bytes5to8()), (2, [0, 0, 5, 0])); // too big: 1280
    assert_balanced(&mut plane);
}

#[test]
fn what_does_not_fit_is_fragmented_or_refused() {
    let mut plane = plane(Mode::Routed, tables(600), None);
    let mut frame = udp([192, 0, 2, 1], 64, &[7; 1000]);
    frame[20] &= !0x40; // clear "don't fragment"
    let checksum = {
        let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(NetSlice::Ipv4(ip)) = sliced.net else {
            panic!("not IPv4")
        };
        ip.header().to_header().calc_header_checksum()
    };
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    send(&mut plane, LAN, &frame);
    let fragments = leaving(&mut plane, WAN, Instant::ZERO);
    assert_eq!(fragments.len(), 2);
    assert!(fragments.iter().all(|f| f.len() <= 614 && f[22] == 63));
    frame[20] |= 0x40;
    frame[24..26].copy_from_slice(&(checksum - 0x4000).to_be_bytes());
    send(&mut plane, LAN, &frame);
    assert!(leaving(&mut plane, WAN, Instant::ZERO).is_empty());
    let answer = leaving(&mut plane, LAN, Instant::ZERO);
    assert_eq!(answer[0][34..36], [3, 4]); // fragmentation needed
    assert_balanced(&mut plane);
}

#[test]
fn packets_wait_for_a_neighbour_and_go_in_order_once_it_is_known() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    for n in 0..3 {
        send(&mut plane, LAN, &udp([10, 0, 2, 77], 64, &[n]));
    }
    assert!(leaving(&mut plane, WAN, Instant::ZERO).is_empty());
    let neighbour = (2, IpAddr::from([10, 0, 2, 77]));
    assert_eq!(
        plane.neighbour_requests().collect::<Vec<_>>(),
        [NeighbourRequest::Ask(neighbour)]
    );
    let mut known = tables(1500);
    known
        .neighbours
        .insert(neighbour, Neighbour::Reachable([2, 0, 0, 0, 0, 77]));
    plane.set_tables(Arc::new(known), Instant::ZERO);
    let frames = leaving(&mut plane, WAN, Instant::ZERO);
    let payloads: Vec<_> = frames.iter().map(|f| f[42]).collect();
    assert_eq!(payloads, [0, 1, 2]);
    assert_balanced(&mut plane);
}

#[test]
fn a_neighbour_that_never_answers_is_reported_to_the_sender() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    send(&mut plane, LAN, &udp([10, 0, 2, 77], 64, b"x"));
    assert_eq!(
        plane.step(Instant::ZERO),
        Some(Instant::ZERO + waiting::PATIENCE)
    );
    let later = Instant::ZERO + waiting::PATIENCE + Span::from_nanos(1);
    let frames = leaving(&mut plane, LAN, later);
    assert_eq!(frames[0][34..36], [3, 1]); // host unreachable
    assert_eq!(plane.fates().ended(Reason::NeighbourFailed).packets, 1);
    assert_balanced(&mut plane);
}

#[test]
fn a_scan_of_a_network_does_not_fill_the_pool() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    for host in 2..250 {
        send(&mut plane, LAN, &udp([10, 0, 2, host], 64, b"x"));
        plane.step(Instant::ZERO);
    }
    assert!(plane.waiting().neighbours().count() <= resolution::PLACES_MAX);
    plane.shut_down();
    assert_eq!(plane.waiting().neighbours().count(), 0);
}

#[test]
fn a_bridge_passes_every_frame_unchanged() {
    let mut plane = plane(Mode::Bridged, Tables::default(), None);
    let mut arp = vec![0xff; 6];
    arp.extend(HOST_MAC);
    arp.extend([8, 6]);
    arp.extend([0; 46]);
    let frames = [udp([192, 0, 2, 1], 64, b"payload"), arp, udp_v6(1, b"x")];
    for frame in &frames {
        send(&mut plane, LAN, frame);
    }
    assert_eq!(leaving(&mut plane, WAN, Instant::ZERO), frames);
    assert_balanced(&mut plane);
}

#[test]
fn a_bridge_puts_the_tag_back_that_came_out_of_band() {
    let mut plane = plane(Mode::Bridged, Tables::default(), None);
    let frame = udp([192, 0, 2, 1], 64, b"payload");
    let tagged = Arrival {
        vlan: Some(0x2064),
        ..arrival(&frame)
    };
    plane.receive(LAN, &frame, tagged);
    let out = leaving(&mut plane, WAN, Instant::ZERO);
    assert_eq!(out[0][..12], frame[..12]);
    assert_eq!(out[0][12..16], [0x81, 0x00, 0x20, 0x64]);
    assert_eq!(out[0][16..], frame[12..]);
}

#[test]
fn a_mark_and_a_checksum_reach_a_packet_behind_a_tag_out_of_band_and_pppoe() {
    let mut plane = plane(Mode::Bridged, Tables::default(), Some(Rate::from_mbps(1)));
    let ecn = weir_base::setting::Scalar::Flag(true);
    let spec = Spec::check("codel", [("ecn", &ecn)]).unwrap();
    let link = *plane.ports()[WAN].port.link();
    plane.reconfigure_port(WAN, spec, link, Instant::ZERO);
    let mut packet = udp([192, 0, 2, 1], 64, &[0; 1400])[14..].to_vec();
    packet[1] = 0b10;
    packet[10..12].fill(0);
    let checksum = checksum::internet(&packet[..20]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    let [high, low] = (packet.len() as u16 + 2).to_be_bytes();
    let session = [0x88, 0x64, 0x11, 0, 0, 7, high, low, 0, 0x21];
    let right = [&LAN_MAC[..], &HOST_MAC, &session, &packet].concat();
    // The sender has left the transport checksum to hardware.
    let mut frame = right.clone();
    let (from, to) = ([10, 0, 1, 10].into(), [192, 0, 2, 1].into());
    let pseudo = Sum::default().pseudo(from, to, Protocol::UDP, packet.len() - 20);
    frame[48..50].copy_from_slice(&pseudo.fold().to_be_bytes());
    let arrival = Arrival {
        vlan: Some(0x2064),
        offload: Offload {
            checksum: Some(PartialChecksum {
                start: 42,
                offset: 6,
            }),
            segmentation: None,
        },
        ..arrival(&frame)
    };
    for _ in 0..40 {
        plane.receive(LAN, &frame, arrival);
    }
    let steps = (0..500).map(|ms| Instant::ZERO + Span::from_millis(ms));
    let sent: Vec<_> = steps
        .flat_map(|now| leaving(&mut plane, WAN, now))
        .collect();
    let marked = sent.iter().filter(|frame| frame[27] == 0b11).count();
    assert!(
        (1..sent.len()).contains(&marked),
        "{marked} of {}",
        sent.len()
    );
    for mut frame in sent {
        assert_eq!(frame[12..16], [0x81, 0x00, 0x20, 0x64]);
        assert!(checksum::is_right(&frame[26..46]));
        frame[27] = packet[1];
        frame[36..38].copy_from_slice(&packet[10..12]);
        assert_eq!(frame[16..], right[12..]);
    }
}

#[test]
fn routed_and_bridged_ports_live_side_by_side() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    let link = *plane.ports()[LAN].port.link();
    let bridged = |plane: &mut Plane, name: &str| {
        let spec = Spec::check("fifo", []).unwrap();
        plane.add_port(name, name, Mode::Bridged, spec, link, Instant::ZERO)
    };
    let frame = udp([192, 0, 2, 1], 64, b"payload");
    let left = bridged(&mut plane, "left");
    // A bridge with one port leads nowhere.
    send(&mut plane, left, &frame);
    assert_eq!(plane.fates().ended(Reason::NotAPort).packets, 1);
    let right = bridged(&mut plane, "right");
    for port in [left, LAN, right] {
        send(&mut plane, port, &frame);
    }
    assert_eq!(leaving(&mut plane, left, Instant::ZERO)[0], frame);
    assert_eq!(leaving(&mut plane, right, Instant::ZERO)[0], frame);
    let routed = leaving(&mut plane, WAN, Instant::ZERO);
    assert_eq!((routed.len(), &routed[0][..6]), (1, &NEXT_MAC[..]));
    assert_balanced(&mut plane);
}

#[test]
fn a_new_discipline_takes_over_what_the_old_one_holds() {
    let mut plane = plane(Mode::Routed, tables(1500), Some(Rate::from_mbps(1)));
    for n in 0..10 {
        send(&mut plane, LAN, &udp([192, 0, 2, 1], 64, &[n]));
    }
    let mut frames = leaving(&mut plane, WAN, Instant::ZERO);
    let link = Link {
        rate: None,
        framing: weir_base::Framing::ETHERNET,
        frame_bytes_max: 1518,
    };
    plane.reconfigure_port(WAN, Spec::check("drr", []).unwrap(), link, Instant::ZERO);
    frames.extend(leaving(&mut plane, WAN, Instant::ZERO + Span::from_secs(1)));
    let payloads: Vec<_> = frames.iter().map(|f| f[42]).collect();
    assert_eq!(payloads, (0..10).collect::<Vec<_>>());
    assert_balanced(&mut plane);
}

#[test]
fn a_backlog_beyond_the_outbox_leaves_without_another_arrival() {
    let mut plane = Plane::new(2048, 1518, Streams::new(1));
    let spec = Spec::check("fifo", []).unwrap();
    for name in ["lan", "wan"] {
        let link = Link {
            rate: None,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1518,
        };
        plane.add_port(name, name, Mode::Routed, spec.clone(), link, Instant::ZERO);
    }
    plane.set_tables(Arc::new(tables(1500)), Instant::ZERO);
    for _ in 0..600 {
        send(&mut plane, LAN, &udp([192, 0, 2, 1], 64, b"x"));
    }
    let mut left = 0;
    while let Some(next) = plane.step(Instant::ZERO) {
        assert_eq!(next, Instant::ZERO);
        let before = left;
        plane
            .flush(WAN, |burst, _| {
                left += burst.len();
                Ok::<_, ()>(burst.len())
            })
            .unwrap();
        assert!(left > before, "due now, and nothing left");
    }
    plane
        .flush(WAN, |burst, _| {
            left += burst.len();
            Ok::<_, ()>(burst.len())
        })
        .unwrap();
    assert_eq!(left, 600);
}

#[test]
fn a_port_may_be_removed_while_its_packets_wait_for_a_neighbour() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    let third = Link {
        rate: None,
        framing: weir_base::Framing::ETHERNET,
        frame_bytes_max: 1518,
    };
    let spec = Spec::check("fifo", []).unwrap();
    let number = plane.add_port("third", "third", Mode::Routed, spec, third, Instant::ZERO);
    send(&mut plane, number, &udp([10, 0, 2, 77], 64, b"x"));
    send(&mut plane, WAN, &udp([10, 0, 1, 77], 64, b"x"));
    plane.remove_port(number, Reason::Reconfigured);
    plane.remove_port(LAN, Reason::Reconfigured);
    let later = Instant::ZERO + waiting::PATIENCE + Span::from_nanos(1);
    plane.step(later);
    assert_eq!(plane.fates().ended(Reason::NeighbourFailed).packets, 2);
}

#[test]
fn a_sender_that_left_the_checksum_to_hardware_is_helped() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    let right = udp([192, 0, 2, 1], 64, b"payload");
    // The sum of the pseudo header: 10.0.1.10, 192.0.2.1, UDP, length 15.
    let pseudo = 0x0a00_u16 + 0x010a + 0xc000 + 0x0201 + 17 + 15;
    let mut partial = right.clone();
    partial[40..42].copy_from_slice(&pseudo.to_be_bytes());
    let unfinished = |frame: &[u8], start| Arrival {
        offload: Offload {
            checksum: Some(PartialChecksum { start, offset: 6 }),
            segmentation: None,
        },
        ..arrival(frame)
    };
    // There may be padding after the packet, and a priority tag before it.
    let padded = [&partial[..], &[0xee; 9]].concat();
    let mut tagged = partial.clone();
    tagged.splice(12..12, [0x81, 0, 0xe0, 0]);
    for (frame, start) in [(&partial, 34), (&padded, 34), (&tagged, 38)] {
        plane.receive(LAN, frame, unfinished(frame, start));
        let out = leaving(&mut plane, WAN, Instant::ZERO);
        assert_eq!((out[0].len(), &out[0][40..]), (right.len(), &right[40..]));
    }
    for start in [33, 0, u16::MAX] {
        plane.receive(LAN, &partial, unfinished(&partial, start));
    }
    assert_eq!(plane.fates().ended(Reason::BadOffload).packets, 1);
}

/// TCP from the host to `destination`, with this payload; the checksum is left to hardware.
fn tcp_superframe(destination: [u8; 4], payload: &[u8], size: u16) -> (Vec<u8>, Arrival) {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST_MAC, LAN_MAC)
        .ipv4([10, 0, 1, 10], destination, 64)
        .tcp(4000, 80, 1000, 5000)
        .write(&mut frame, payload)
        .unwrap();
    let (from, to) = ([10, 0, 1, 10].into(), destination.into());
    let protocol = weir_wire::Protocol::TCP;
    let sum = weir_wire::checksum::Sum::default().pseudo(from, to, protocol, frame.len() - 34);
    frame[50..52].copy_from_slice(&sum.fold().to_be_bytes());
    let offload = Offload {
        checksum: Some(PartialChecksum {
            start: 34,
            offset: 16,
        }),
        segmentation: Some(Segmentation {
            kind: SegmentKind::TcpV4,
            size,
        }),
    };
    let arrival = Arrival {
        offload,
        ..arrival(&frame)
    };
    (frame, arrival)
}

#[test]
fn a_superframe_counts_and_leaves_as_the_frames_that_it_becomes() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    watch(&mut plane, &["lan", "wan"], false, 100);
    let payload: Vec<u8> = (0..3000).map(|n| n as u8).collect();
    let (frame, arrival) = tcp_superframe([192, 0, 2, 1], &payload, 1460);
    plane.receive(LAN, &frame, arrival);
    let lan = plane.ports()[LAN].received;
    assert_eq!((lan.packets, lan.bytes), (3, 3000 + 3 * 54));
    let out = leaving(&mut plane, WAN, Instant::ZERO);
    let lens: Vec<_> = out.iter().map(Vec::len).collect();
    assert_eq!(lens, [1514, 1514, 54 + 80]);
    let mut joined = Vec::new();
    for frame in &out {
        let sliced = SlicedPacket::from_ethernet(frame).unwrap();
        let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Tcp(tcp))) =
            (sliced.net, sliced.transport)
        else {
            panic!("TCP over IPv4 goes in")
        };
        assert_eq!(tcp.sequence_number() as usize, 1000 + joined.len());
        let right = tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination());
        assert_eq!(tcp.checksum(), right.unwrap());
        assert_eq!(ip.header().ttl(), 63);
        joined.extend_from_slice(tcp.payload());
    }
    assert_eq!(joined, payload);
    // A capture shows the frames that would have been on a wire.
    let seen = plane
        .sightings(Sightings::default(), Instant::ZERO)
        .unwrap();
    let came = |(s, _): &(&weir_path::plane::watch::Sighting, &[u8])| {
        s.direction == Some(Direction::Inbound)
    };
    let came: Vec<_> = seen.sightings.iter().filter(came).collect();
    assert_eq!(came.len(), 3);
    for ((sighting, bytes), out) in came.iter().zip(&out) {
        assert_eq!(sighting.len as usize, out.len());
        assert_eq!(bytes[34..54], out[34..54]);
    }
}

#[test]
fn a_superframe_that_cannot_be_cut_ends_with_its_reason() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    let (mut frame, arrival) = tcp_superframe([192, 0, 2, 1], &[7; 3000], 1460);
    frame[46] = 0x10; // a TCP header of four bytes
    plane.receive(LAN, &frame, arrival);
    assert_eq!(plane.fates().ended(Reason::BadOffload).packets, 1);
    plane.receive(LAN, &frame[..2000], arrival);
    assert_eq!(plane.fates().ended(Reason::BadOffload).packets, 2);
    // Segments that are too long for every port.
    let (frame, arrival) = tcp_superframe([192, 0, 2, 1], &[7; 4000], 2000);
    plane.receive(LAN, &frame, arrival);
    assert_eq!(plane.fates().ended(Reason::TruncatedFrame).packets, 2);
    assert_eq!(plane.ports()[LAN].received.packets, 4);
}

#[test]
fn a_superframe_of_tiny_segments_starves_nobody() {
    // The pool has 64 slots, and each queue fewer: segments that find none are dropped, and once the ports
    // have made a step there is a slot for another frame again.
    let mut plane = plane(Mode::Routed, tables(1500), None);
    let (spec, link) = (
        Spec::check(
            "fifo",
            [("limit", &weir_base::setting::Scalar::Integer(20))],
        ),
        plane.ports()[WAN].port.link(),
    );
    let link = Link {
        rate: Some(Rate::from_bps(100_000)),
        ..*link
    };
    plane.reconfigure_port(WAN, spec.unwrap(), link, Instant::ZERO);
    let (frame, arrival) = tcp_superframe([192, 0, 2, 1], &[7; 2000], 10);
    plane.receive(LAN, &frame, arrival);
    assert_eq!(plane.receive_deferred(LAN, 300), 200);
    assert_eq!(plane.fates().ended(Reason::PoolExhausted).packets, 200 - 64);
    plane.step(Instant::ZERO);
    send(&mut plane, WAN, &udp([10, 0, 1, 10], 64, b"x"));
    assert_eq!(plane.fates().ended(Reason::PoolExhausted).packets, 200 - 64);
}

/// A superframe of 2000 packets from the host, with its payload.
fn tiny_segments() -> (Vec<u8>, Arrival, Vec<u8>) {
    let payload: Vec<u8> = (0..64_000_u32).map(|n| (n / 7) as u8).collect();
    let (frame, arrival) = tcp_superframe([192, 0, 2, 1], &payload, 32);
    (frame, arrival, payload)
}

/// A frame of another host of the same network.
fn of_another_host(payload: &[u8]) -> Vec<u8> {
    let mut frame = udp([192, 0, 2, 1], 64, payload);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 5]);
    frame
}

#[test]
fn packets_of_a_superframe_of_tiny_segments_pass_one_piece_after_the_other() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    let (frame, arrival, payload) = tiny_segments();
    plane.receive(LAN, &frame, arrival);
    // The next packet of the same host waits behind it.
    send(&mut plane, LAN, &udp([192, 0, 2, 1], 64, b"later"));
    assert!(leaving(&mut plane, WAN, Instant::ZERO).is_empty());
    let mut out: Vec<Vec<u8>> = Vec::new();
    let mut pieces = 0;
    while plane.has_deferred(LAN) {
        assert!(!plane.is_drained(LAN));
        // Packets of others, on the same port or another, wait for this piece at most.
        send(&mut plane, LAN, &of_another_host(b"same port"));
        send(&mut plane, WAN, &udp([10, 0, 1, 10], 64, b"another port"));
        assert_eq!(leaving(&mut plane, LAN, Instant::ZERO).len(), 1);
        let others = leaving(&mut plane, WAN, Instant::ZERO);
        assert_eq!((others.len(), &others[0][42..51]), (1, &b"same port"[..]));
        let most = 1 + pieces % 50;
        let done = plane.receive_deferred(LAN, most);
        assert!(done == most || !plane.has_deferred(LAN), "{done} of {most}");
        let piece = leaving(&mut plane, WAN, Instant::ZERO);
        assert_eq!(piece.len(), done);
        out.extend(piece);
        pieces += 1;
    }
    assert_eq!(out.len(), 2001);
    assert_eq!(out[2000][42..47], *b"later");
    let joined: Vec<u8> = out[..2000].iter().flat_map(|f| f[54..].to_vec()).collect();
    assert!(joined == payload);
    for (n, frame) in out[..2000].iter().enumerate() {
        let sequence = u32::from_be_bytes([frame[38], frame[39], frame[40], frame[41]]);
        assert_eq!(sequence as usize, 1000 + 32 * n);
    }
    assert!(plane.is_drained(LAN));
    assert_eq!(plane.fates().all_ended().packets, 0);
    assert_balanced(&mut plane);
}

#[test]
fn superframes_that_wait_are_bounded_and_take_turns_by_sender() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    let (frame, arrival, _) = tiny_segments();
    let full = |plane: &Plane| plane.fates().ended(Reason::SegmentsQueueFull).packets;
    for _ in 0..10 {
        plane.receive(LAN, &frame, arrival);
    }
    let of_one = SENDER_BYTES_MAX / frame.len();
    assert_eq!(full(&plane) as usize, 10 - of_one);
    // Another sender has a place, and every second piece.
    let mut other = frame.clone();
    other[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 5]);
    plane.receive(LAN, &other, arrival);
    let before = plane.ports()[LAN].received;
    plane.receive_deferred(LAN, 64);
    assert_eq!((plane.ports()[LAN].received - before).packets, 64);
    drop(leaving(&mut plane, WAN, Instant::ZERO));
    // The number of senders is bounded; and usual superframes never wait.
    for n in 0..2 * SENDERS_MAX as u8 {
        other[11] = 100 + n;
        plane.receive(LAN, &other, arrival);
    }
    assert_eq!(full(&plane) as usize, 10 - of_one + SENDERS_MAX + 2);
    let (mut usual, how) = tcp_superframe([192, 0, 2, 1], &[7; 60 * 1000], 1000);
    usual[11] = 99;
    plane.receive(LAN, &usual, how);
    assert_eq!(leaving(&mut plane, WAN, Instant::ZERO).len(), 60);
    // Frames that wait when their port is removed are counted: frames of the first, of the second and of 14 more.
    plane.remove_port(LAN, Reason::Reconfigured);
    let gone = plane.fates().ended(Reason::Reconfigured).packets;
    assert_eq!(gone as usize, of_one + SENDERS_MAX - 1);
}

#[test]
fn a_superframe_of_tiny_segments_causes_few_icmp_errors() {
    // A burst of 64, and the errors about it.
    let mut plane = plane_of(128, Mode::Routed, tables(1500), None);
    let (mut frame, arrival, _) = tiny_segments();
    frame[22] = 1; // TTL, with a checksum to match
    frame[24..26].fill(0);
    let sum = weir_wire::checksum::internet(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    plane.receive(LAN, &frame, arrival);
    while plane.receive_deferred(LAN, 64) > 0 {}
    assert_eq!(plane.fates().ended(Reason::TtlExpired).packets, 2000);
    let errors = leaving(&mut plane, LAN, Instant::ZERO).len();
    assert_eq!(errors, 20); // the burst of one receiver: no time passes
}

#[test]
fn what_the_kernel_sends_is_charged_as_it_leaves() {
    let mut plane = plane(Mode::Routed, tables(1500), Some(Rate::from_mbps(10)));
    let (frame, arrival) = tcp_superframe([192, 0, 2, 1], &[7; 3000], 1460);
    plane.charge(WAN, &frame[..60], &arrival);
    let charged = plane.ports()[WAN].charged;
    assert_eq!((charged.packets, charged.bytes), (3, 3000 + 3 * 54));
}

#[test]
fn a_ping_of_the_router_is_left_to_the_kernel() {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST_MAC, LAN_MAC)
        .ipv4([10, 0, 1, 10], [10, 0, 1, 1], 64)
        .icmpv4_echo_request(1, 1)
        .write(&mut frame, b"ping")
        .unwrap();
    let mut plane = plane(Mode::Routed, tables(1500), None);
    send(&mut plane, LAN, &frame);
    assert_eq!(plane.fates().ended(Reason::LocalDelivery).packets, 1);
}

/// Watches both ports, or one whose name is given.
fn watch(plane: &mut Plane, ports: &[&str], drops: bool, packets: u64) {
    let want = Want {
        ports: ports.iter().map(|p| (*p).to_owned()).collect(),
        drops,
        filter: Filter::default(),
        snap: 60,
        packets,
        until: Instant::FAR_FUTURE,
    };
    plane
        .watch(want, Sightings::default(), Instant::ZERO)
        .unwrap();
}

/// The sightings: port, direction, fate and TTL.
fn seen(plane: &mut Plane) -> Vec<(u16, Option<Direction>, Fate, u8)> {
    let fetched = plane.sightings(Sightings::default(), Instant::ZERO);
    let sightings = fetched.unwrap().sightings;
    let seen = sightings
        .iter()
        .map(|(s, frame)| (s.port, s.direction, s.fate, frame[22]));
    seen.collect()
}

const IN: Option<Direction> = Some(Direction::Inbound);
const OUT: Option<Direction> = Some(Direction::Outbound);

#[test]
fn a_watch_sees_a_packet_come_and_go() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    watch(&mut plane, &["lan", "wan"], false, 100);
    send(&mut plane, LAN, &udp([192, 0, 2, 1], 64, &[0; 100]));
    leaving(&mut plane, WAN, Instant::from_nanos(7));
    let fetched = plane.sightings(Sightings::default(), Instant::ZERO);
    let sightings = fetched.unwrap().sightings;
    let seen: Vec<_> = sightings
        .iter()
        .map(|(s, f)| (s.port, s.direction, s.fate, s.at.as_nanos(), s.len, f.len()))
        .collect();
    assert_eq!(
        seen,
        [(0, IN, Passed, 0, 142, 60), (1, OUT, Passed, 7, 142, 60)]
    );
    assert_balanced(&mut plane);
}

#[test]
fn a_watch_sees_each_end_once_with_its_reason() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    watch(&mut plane, &["lan", "wan"], false, 100);
    send(&mut plane, LAN, &udp([192, 0, 2, 1], 1, b"expired"));
    send(
        &mut plane,
        LAN,
        &udp([10, 0, 1, 1], 64, b"for the router itself"),
    );
    leaving(&mut plane, LAN, Instant::ZERO);
    let expired = (0, IN, Dropped(Reason::TtlExpired), 1);
    let answer = (0, OUT, Passed, 64);
    assert_eq!(seen(&mut plane), [expired, (0, IN, Passed, 64), answer]);
    // A held packet is dropped later, at its ingress port.
    send(&mut plane, LAN, &udp([10, 0, 2, 77], 64, b"x"));
    let later = Instant::ZERO + waiting::PATIENCE;
    leaving(&mut plane, LAN, later);
    let failed = (0, IN, Dropped(Reason::NeighbourFailed), 64);
    assert_eq!(seen(&mut plane), [(0, IN, Passed, 64), failed, answer]);
    // A frame that finds no free slot in the pool never becomes a packet.
    for _ in 0..65 {
        send(&mut plane, LAN, &udp([192, 0, 2, 1], 9, b"x"));
    }
    let last = seen(&mut plane).pop();
    assert_eq!(last, Some((0, IN, Dropped(Reason::PoolExhausted), 9)));
}

#[test]
fn a_watch_for_losses_at_one_port_sees_nothing_else() {
    let mut plane = plane(Mode::Routed, tables(1500), Some(Rate::from_mbps(1)));
    watch(&mut plane, &["wan"], true, 100);
    let limit = weir_base::setting::Scalar::Integer(1);
    let spec = Spec::check("fifo", [("limit", &limit)]).unwrap();
    let link = *plane.ports()[WAN].port.link();
    plane.reconfigure_port(WAN, spec, link, Instant::ZERO);
    for ttl in [64, 50, 40] {
        send(&mut plane, LAN, &udp([192, 0, 2, 1], ttl, b"x"));
    }
    send(
        &mut plane,
        LAN,
        &udp([192, 0, 2, 1], 1, b"expired at the other port"),
    );
    assert_eq!(leaving(&mut plane, WAN, Instant::ZERO).len(), 1);
    let full = Dropped(Reason::QueueFull);
    assert_eq!(seen(&mut plane), [(0, OUT, full, 49), (0, OUT, full, 39)]);
    // The port is removed, and the packets that it holds with it.
    send(&mut plane, LAN, &udp([192, 0, 2, 1], 33, b"x"));
    plane.remove_port(WAN, Reason::Reconfigured);
    let gone = Dropped(Reason::Reconfigured);
    assert_eq!(seen(&mut plane), [(0, OUT, gone, 32)]);
}

#[test]
fn a_watch_tells_our_marks_from_others() {
    let mut plane = plane(Mode::Routed, tables(1500), Some(Rate::from_mbps(1)));
    let ecn = weir_base::setting::Scalar::Flag(true);
    let spec = Spec::check("codel", [("ecn", &ecn)]).unwrap();
    let link = *plane.ports()[WAN].port.link();
    plane.reconfigure_port(WAN, spec, link, Instant::ZERO);
    watch(&mut plane, &["wan"], false, 100);
    // All frames at once, each taking 12 ms: the queue lasts for half a second. The odd frames arrive marked.
    for n in 0..40_u8 {
        let mut frame = udp([192, 0, 2, 1], 64, &[0; 1450]);
        frame[15] = if n % 2 == 0 { 0b10 } else { 0b11 };
        let checksum = u16::from_be_bytes([frame[24], frame[25]]);
        let checksum = (checksum - u16::from(frame[15])).to_be_bytes();
        frame[24..26].copy_from_slice(&checksum);
        send(&mut plane, LAN, &frame);
    }
    for ms in 0..500 {
        leaving(&mut plane, WAN, Instant::ZERO + Span::from_millis(ms));
    }
    let fetched = plane.sightings(Sightings::default(), Instant::ZERO);
    let sightings = fetched.unwrap().sightings;
    let (mut marked, mut passed) = (0, 0);
    for (sighting, frame) in sightings.iter() {
        match sighting.fate {
            Marked => marked += 1,
            _ => passed += 1,
        }
        assert!(sighting.fate != Marked || frame[15] == 0b11);
    }
    assert!(marked > 0 && passed >= 20, "{marked} marked, {passed} not");
}

#[test]
fn a_watch_ends_after_its_packets_or_when_nobody_fetches() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    watch(&mut plane, &["lan"], false, 2);
    for _ in 0..3 {
        send(&mut plane, LAN, &udp([192, 0, 2, 1], 64, b"x"));
    }
    let fetched = plane.sightings(Sightings::default(), Instant::ZERO);
    let fetched = fetched.unwrap();
    assert_eq!((fetched.captured, fetched.done), (2, true));
    let ended = plane.sightings(Sightings::default(), Instant::ZERO);
    assert!(ended.is_none());
    watch(&mut plane, &["lan"], false, 2);
    let want = |until| Want {
        ports: vec!["wan".to_owned()],
        drops: false,
        filter: Filter::default(),
        snap: 96,
        packets: 9,
        until,
    };
    let end = Instant::ZERO + LEASE;
    let before = end.before(Span::from_nanos(1));
    plane.step(before);
    let again = plane.watch(want(before), Sightings::default(), before);
    assert_eq!(again, Err(Watched));
    plane.step(end);
    let again = plane.watch(want(end), Sightings::default(), end);
    assert_eq!(again, Ok(()));
    assert!(plane.sightings(Sightings::default(), end).unwrap().done);
}

/// Any offload that a device could report for a frame, true or not.
fn offloads() -> impl Strategy<Value = Offload> {
    let kinds = [SegmentKind::TcpV4, SegmentKind::TcpV6, SegmentKind::Udp];
    let checksum = (0_u16..120, prop_oneof![Just(6), Just(16), 0_u16..20])
        .prop_map(|(start, offset)| PartialChecksum { start, offset });
    let segmentation = (0_usize..3, 0_u16..50).prop_map(move |(kind, size)| Segmentation {
        kind: kinds[kind],
        size,
    });
    (prop::option::of(checksum), prop::option::of(segmentation)).prop_map(
        |(checksum, segmentation)| Offload {
            checksum,
            segmentation,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Hostile frames: a good frame with any bytes changed, and cut anywhere. Each frame leaves, waits, or is
    /// dropped with a reason; there is never a panic or a leaked slot.
    #[test]
    fn no_frame_panics_or_leaks(
        bridged in any::<bool>(),
        watched in any::<bool>(),
        frames in prop::collection::vec(
            (any::<bool>(), prop::collection::vec((0_usize..80, any::<u8>()), 0..6), 0_usize..120, offloads()),
            1..100,
        ),
    ) {
        let mode = if bridged { Mode::Bridged } else { Mode::Routed };
        let mut plane = plane(mode, tables(600), None);
        if watched {
            watch(&mut plane, &["lan", "wan"], false, 50);
        }
        let mut now = Instant::ZERO;
        for (v6, changes, len, offload) in frames {
            let mut frame = if v6 { udp_v6(2, &[1; 40]) } else { udp([192, 0, 2, 1], 2, &[1; 40]) };
            for (at, value) in changes {
                if let Some(byte) = frame.get_mut(at) {
                    *byte = value;
                }
            }
            frame.truncate(len.max(1));
            plane.receive(LAN, &frame, Arrival { offload, at: now, ..arrival(&frame) });
            now += Span::from_millis(1);
            leaving(&mut plane, WAN, now);
            leaving(&mut plane, LAN, now);
        }
        if !bridged {
            assert_balanced(&mut plane);
        }
    }
}

/// The reason for which a datagram that arrives at `lan` is dropped; `None` if it leaves.
fn end_of(plane: &mut Plane, now: Instant) -> Option<Reason> {
    let before: Vec<_> = Reason::ALL.map(|r| plane.fates().ended(r)).to_vec();
    let frame = udp([192, 0, 2, 1], 64, b"x");
    let arrival = Arrival {
        at: now,
        ..arrival(&frame)
    };
    plane.receive(LAN, &frame, arrival);
    if !leaving(plane, WAN, now).is_empty() {
        return None;
    }
    let mut reasons = Reason::ALL.into_iter().zip(before);
    let (reason, _) = reasons
        .find(|(reason, before)| plane.fates().ended(*reason) != *before)
        .unwrap();
    Some(reason)
}

#[test]
fn what_waited_for_too_long_is_stale() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    let at = |millis| Instant::ZERO + Span::from_millis(millis);
    plane.set_oldest(at(100));
    assert_eq!(end_of(&mut plane, at(99)), Some(Reason::Stale));
    assert_eq!(end_of(&mut plane, at(100)), None);
}

#[test]
fn an_interface_is_followed_by_its_index_and_comes_back_by_its_names() {
    let mut plane = plane(Mode::Routed, tables(1500), None);
    let now = Instant::ZERO;
    let publish = |plane: &mut Plane, index: u32, name: Option<&str>| {
        let mut tables = tables(1500);
        let wan = tables.interfaces.remove(&2).unwrap();
        if let Some(name) = name {
            let name = name.to_owned();
            tables.interfaces.insert(index, Interface { name, ..wan });
        }
        plane.set_tables(Arc::new(tables), now);
        plane.ports()[WAN].interface.clone()
    };
    assert_eq!(publish(&mut plane, 2, Some("uplink")), "uplink");
    assert_eq!(end_of(&mut plane, now), None);
    // The interface disappears; another appears with the latest name, then one with the configured name.
    assert_eq!(publish(&mut plane, 0, None), "uplink");
    assert_eq!(end_of(&mut plane, now), Some(Reason::NotAPort));
    assert_eq!(publish(&mut plane, 7, Some("uplink")), "uplink");
    assert!(plane.is_up(WAN));
    publish(&mut plane, 0, None);
    assert_eq!(publish(&mut plane, 2, Some("wan")), "wan");
    assert_eq!(end_of(&mut plane, now), None);
}

#[test]
fn a_closing_port_sends_what_it_holds_and_takes_nothing_more() {
    let mut plane = plane(Mode::Routed, tables(1500), Some(Rate::from_mbps(1)));
    let now = Instant::ZERO;
    let frame = udp([192, 0, 2, 1], 64, &[0; 1000]);
    (0..3).for_each(|_| send(&mut plane, LAN, &frame));
    assert_eq!(leaving(&mut plane, WAN, now).len(), 1);
    plane.close_port(WAN);
    assert_eq!(end_of(&mut plane, now), Some(Reason::NotAPort));
    assert!(!plane.is_drained(WAN));
    let later = |n: u64| now + Span::from_millis(10 * n);
    let left: usize = (1..4)
        .map(|n| leaving(&mut plane, WAN, later(n)).len())
        .sum();
    assert_eq!(left, 2);
    assert!(plane.is_drained(WAN));
}

#[test]
fn a_lent_superframe_passes_whole_only_where_the_link_sends_it_in_a_millisecond() {
    let (frame, arrival) = tcp_superframe([192, 0, 2, 1], &[7; 10 * 1448], 1448);
    let of = |mbps| {
        let mut plane = Plane::new(64, 1536, Streams::new(1)).with_superframes(2);
        let link = Link {
            rate: Some(Rate::from_mbps(mbps)),
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1518,
        };
        let spec = Spec::check("fifo", []).unwrap();
        plane.add_port("up", "wan", Mode::Queue, spec, link, Instant::ZERO);
        plane.set_offloads(0, true);
        // The third finds no room, and is cut.
        for _ in 0..3 {
            plane.receive(0, &frame, arrival);
        }
        let mut sent = Vec::new();
        plane.step(Instant::from_nanos(1_000_000_000));
        while !plane.ports()[0].port.is_idle() || sent.is_empty() {
            let now = Instant::from_nanos(1_000_000_000 + sent.len() as u64 * 1_000_000_000);
            plane.step(now);
            let flushed = plane.flush(0, |frames, offloads| {
                let both = frames.iter().zip(offloads);
                sent.extend(both.map(|(frame, offload)| (frame.len(), *offload)));
                Ok::<_, ()>(frames.len())
            });
            flushed.unwrap();
        }
        let port = &plane.ports()[0];
        assert_eq!(port.received.bytes, 30 * 1502);
        assert_eq!(port.sent().bytes, 30 * 1502);
        assert_eq!(port.on_the_wire(), 30 * (1502 + 24));
        sent
    };
    let whole = (54 + 14_480, arrival.offload);
    let cut = (1502, Offload::NONE);
    assert_eq!(of(1000), [vec![whole; 2], vec![cut; 10]].concat());
    assert_eq!(of(50), [cut; 30]);
}

/// The frames, and what is left to the device for each, that leave `wan` when the frame came in at `lan`.
fn superframe_through(mut plane: Plane, frame: &[u8], arrival: Arrival) -> Vec<(Vec<u8>, Offload)> {
    plane.receive(LAN, frame, arrival);
    plane.step(Instant::ZERO);
    let mut sent = Vec::new();
    let flushed = plane.flush(WAN, |frames, offloads| {
        let both = frames.iter().zip(offloads);
        sent.extend(both.map(|(frame, offload)| (frame.to_vec(), *offload)));
        Ok::<_, ()>(frames.len())
    });
    assert_eq!(flushed, Ok(false));
    let bytes = |frame: &[u8], left: &Offload| -> u64 {
        let lens = left.frame_lens(frame, frame.len() as u32);
        lens.map(u64::from).sum()
    };
    let received = bytes(frame, &arrival.offload);
    let leaves = sent.iter().map(|(frame, left)| bytes(frame, left)).sum();
    assert_eq!(plane.ports()[LAN].received.bytes, received);
    assert_eq!(plane.ports()[WAN].port.sent().bytes, leaves);
    sent
}

/// A plane whose ports' devices do offloads if `does`.
fn plane_with_offloads(mode: Mode, tables: Tables, rate: Option<Rate>, does: [bool; 2]) -> Plane {
    let mut plane = Plane::new(64, 1518, Streams::new(1)).with_superframes(2);
    for (number, name) in ["lan", "wan"].into_iter().enumerate() {
        let link = Link {
            rate,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1518,
        };
        let spec = Spec::check("fifo", []).unwrap();
        plane.add_port(name, name, mode, spec, link, Instant::ZERO);
        plane.set_offloads(number, does[number]);
    }
    plane.set_tables(Arc::new(tables), Instant::ZERO);
    plane
}

#[test]
fn a_superframe_is_forwarded_whole_as_its_segments_would_be() {
    let payload = [7; 10 * 1448 + 5];
    let (frame, arrival) = tcp_superframe([192, 0, 2, 1], &payload, 1448);
    for mode in [Mode::Routed, Mode::Bridged] {
        let plane = |does| plane_with_offloads(mode, tables(1500), None, does);
        let whole = superframe_through(plane([false, true]), &frame, arrival);
        let [(bytes, left)] = &whole[..] else {
            panic!("{} frames", whole.len())
        };
        assert_eq!(*left, arrival.offload);
        // The device makes of it what the router makes where the device cannot.
        let cut = superframe_through(plane([true, false]), &frame, arrival);
        assert_eq!(cut.len(), 11);
        let superframe = weir_path::link::segment::Superframe::new(bytes, left).unwrap();
        for (n, (segment, left)) in cut.iter().enumerate() {
            let mut made = Vec::new();
            superframe.write(n, &mut made);
            assert_eq!((&made, *left), (segment, Offload::NONE));
        }
    }
}

#[test]
fn a_superframe_is_cut_where_more_than_forwarding_happens_to_its_packets() {
    let (frame, arrival) = tcp_superframe([192, 0, 2, 1], &[7; 3 * 1448], 1448);
    let left = |mode, tables, rate, frame: &[u8], arrival| {
        let plane = plane_with_offloads(mode, tables, rate, [true; 2]);
        let sent = superframe_through(plane, frame, arrival);
        let whole = sent.iter().filter(|(_, left)| *left != Offload::NONE);
        (sent.len(), whole.count())
    };
    for mode in [Mode::Routed, Mode::Bridged] {
        assert_eq!(left(mode, tables(1500), None, &frame, arrival), (1, 1));
        // 4.5 kB take more than a millisecond; the queue sends the first frame at once.
        let slow = Some(Rate::from_mbps(20));
        let mut plane = plane_with_offloads(mode, tables(1500), slow, [true; 2]);
        plane.receive(LAN, &frame, arrival);
        assert_eq!(leaving(&mut plane, WAN, Instant::ZERO)[0].len(), 1502);
    }
    // IPv4 packets that are too long become fragments.
    let mut fragmentable = frame.clone();
    fragmentable[20] = 0;
    fragmentable[24..26].fill(0);
    let sum = checksum::internet(&fragmentable[14..34]);
    fragmentable[24..26].copy_from_slice(&sum.to_be_bytes());
    let routed = |tables, frame: &[u8], arrival| left(Mode::Routed, tables, None, frame, arrival);
    assert_eq!(routed(tables(1400), &fragmentable, arrival), (6, 0));
    // A lost hop, a neighbour to be found, no port: the sender learns it from the segments.
    let ends = |tables: Tables, frame: &[u8], arrival| {
        let mut plane = plane_with_offloads(Mode::Routed, tables, None, [true; 2]);
        plane.receive(LAN, frame, arrival);
        assert!(leaving(&mut plane, WAN, Instant::ZERO).is_empty());
        let waiting = plane.waiting().count(&(2, "10.0.2.9".parse().unwrap()));
        (plane.fates().all_ended().packets, waiting)
    };
    let mut expired = frame.clone();
    expired[22] = 1;
    expired[24..26].fill(0);
    let sum = checksum::internet(&expired[14..34]);
    expired[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(ends(tables(1500), &expired, arrival), (3, 0));
    let (lan, how) = tcp_superframe([10, 0, 2, 9], &[7; 3 * 1448], 1448);
    assert_eq!(ends(tables(1500), &lan, how), (0, 3));
    let (own, how) = tcp_superframe([10, 0, 1, 1], &[7; 3 * 1448], 1448);
    assert_eq!(ends(tables(1500), &own, how), (3, 0));
    assert_eq!(ends(tables(1400), &frame, arrival).0, 3); // too big, because it may not be fragmented
}

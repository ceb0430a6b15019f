//! A plane with a control element: packets out, packets in, and no packet missing from the counters.

use std::net::IpAddr;
use std::sync::Arc;

use etherparse::PacketBuilder;
use weir_base::{Bytes, Instant, Rate, Span, Streams, Tally};
use weir_discipline::Spec;
use weir_discipline::channel::token_bucket::Limits;
use weir_packet::Reason;
use weir_path::egress::port::Link;
use weir_path::exception::{
    Cause, Entry, ExceptionClass, FLOW, Injection, MESSAGE_OVERHEAD, Policy, RING_MAX,
};
use weir_path::ip::tables::{Action, Interface, Neighbour, NextHop, Tables};
use weir_path::link::offload::{Offload, PartialChecksum};
use weir_path::plane::step::Arrival;
use weir_path::plane::{Mode, Plane};

const LAN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const WAN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 3];
const NEXT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 4];
const HOST: [u8; 4] = [10, 0, 1, 10];
const FAR: [u8; 4] = [10, 0, 2, 10];
/// The control element's address at the port `lan`.
const OWNED: [u8; 4] = [10, 0, 1, 1];

/// `lan` has 10.0.1.0/24, `wan` 10.0.2.0/24 with an MTU of 1000; neither has an address. No other route.
fn plane(policy: Policy) -> Plane {
    let mut tables = Tables::default();
    for (index, name, mac, mtu) in [(1, "lan", LAN_MAC, 1500), (2, "wan", WAN_MAC, 1000)] {
        let interface = Interface {
            name: name.to_owned(),
            mac,
            mtu,
            up: true,
            carrier: true,
            addresses: Vec::new(),
        };
        tables.interfaces.insert(index, interface);
        let next_hop = NextHop {
            interface: index,
            gateway: None,
            weight: 1,
        };
        let action = Action::Forward(vec![next_hop]);
        let prefix = format!("10.0.{index}.0/24");
        tables.set_route(prefix.parse().unwrap(), action.into());
    }
    for (index, address, mac) in [(1, HOST, HOST_MAC), (2, FAR, NEXT_MAC)] {
        let neighbour = Neighbour::Reachable(mac);
        tables.neighbours.insert((index, address.into()), neighbour);
    }
    let mut plane = Plane::new(2048, 1518, Streams::new(1));
    for name in ["lan", "wan"] {
        let spec = Spec::check("fifo", []).unwrap();
        let link = Link {
            rate: None,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1518,
        };
        plane.add_port(name, name, Mode::Routed, spec, link, Instant::ZERO);
    }
    plane.set_tables(Arc::new(tables), Instant::ZERO);
    plane.set_exception_policy(policy, Instant::ZERO);
    plane
}

/// Everything goes to the control element, at any rate.
fn all() -> Policy {
    Policy {
        addresses: [IpAddr::from(OWNED), "2001:db8:1::1".parse().unwrap()].into(),
        neighbours: true,
        multicast: true,
        hop_limit: true,
        no_route: true,
        next_hop: true,
        too_big: true,
        router_alert: true,
        ..Policy::default()
    }
}

fn udp(to: [u8; 4], ttl: u8, len: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST_MAC, LAN_MAC)
        .ipv4(HOST, to, ttl)
        .udp(5000, 53)
        .write(&mut frame, &vec![7; len])
        .unwrap();
    frame
}

/// A UDP packet with an IPv4 option.
fn with_option(option: [u8; 4]) -> Vec<u8> {
    let mut frame = udp(FAR, 9, 10);
    frame.splice(34..34, option);
    frame[14] = 0x46;
    frame[17] += 4;
    let mut view = weir_wire::ipv4::View::new_unchecked(&mut frame[14..]);
    view.fill_checksum();
    frame
}

fn v6(to: &str, next_header: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let to: std::net::Ipv6Addr = to.parse().unwrap();
    let from: std::net::Ipv6Addr = "2001:db8:1::10".parse().unwrap();
    let mut frame = [&LAN_MAC[..], &HOST_MAC, &[0x86, 0xdd]].concat();
    frame.extend([0x60, 0, 0, 0, 0, payload.len() as u8, next_header, hops]);
    frame.extend(from.octets().into_iter().chain(to.octets()));
    frame.extend(payload);
    frame
}

/// A request for an address that nobody here has.
fn arp() -> Vec<u8> {
    arp_for([10, 0, 1, 2])
}

fn arp_for(target: [u8; 4]) -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &HOST_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    frame.extend(HOST_MAC.into_iter().chain(HOST).chain([0; 6]).chain(target));
    frame.resize(60, 0);
    frame
}

fn receive(plane: &mut Plane, frame: &[u8], at: Instant) {
    receive_at(plane, 0, frame, at);
}

fn receive_at(plane: &mut Plane, port: usize, frame: &[u8], at: Instant) {
    let arrival = Arrival {
        at,
        len: frame.len() as u32,
        vlan: None,
        offload: Offload::NONE,
    };
    plane.receive(port, frame, arrival);
}

/// The frames that leave a port at a time.
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

#[test]
fn each_cause_is_handed_over_with_the_frame_as_it_came() {
    const ECHO: u8 = 128;
    const SOLICITATION: u8 = 135;
    let alert_v6 = [17, 0, 5, 2, 0, 0, 1, 0, 0, 1, 0, 2, 0, 8, 0, 0];
    let cases = [
        (Cause::Local, udp(OWNED, 1, 10)),
        (Cause::Local, v6("2001:db8:1::1", 58, 9, &[ECHO; 8])),
        (Cause::Neighbours, arp()),
        (
            Cause::Neighbours,
            v6("ff02::1:ff00:1", 58, 255, &[SOLICITATION; 24]),
        ),
        (Cause::Neighbours, v6("2001:db8:1::1", 58, 255, &[136; 24])),
        (Cause::Multicast, udp([224, 0, 0, 5], 1, 10)),
        (Cause::Multicast, v6("ff02::1", 58, 255, &[ECHO; 8])),
        (Cause::HopLimit, udp(FAR, 1, 10)),
        (Cause::NoRoute, udp([192, 0, 2, 1], 9, 10)),
        (Cause::NoRoute, v6("2001:db8:9::1", 17, 9, &[0; 8])),
        (Cause::TooBig { mtu: 1000 }, udp(FAR, 9, 1200)),
        (Cause::RouterAlert, with_option([148, 4, 0, 0])),
        (Cause::RouterAlert, v6("2001:db8:9::1", 0, 9, &alert_v6)),
    ];
    for (cause, frame) in cases {
        let mut plane = plane(all());
        receive(&mut plane, &frame, Instant::ZERO);
        assert!(plane.announce_exceptions() && !plane.announce_exceptions());
        let taken = plane.take_exceptions();
        assert_eq!(taken.len(), 1, "{cause:?}");
        assert_eq!((taken[0].cause, &*taken[0].port), (cause, "lan"));
        assert_eq!(taken[0].frame, frame, "{cause:?}");
        let one = Tally::one(frame.len() as u64);
        assert_eq!(plane.fates().ended(Reason::Redirected), one);
        assert_eq!(plane.fates().all_ended(), one);
        assert_eq!(plane.exception_stats().redirected, one);
        assert_eq!(plane.errors().stats().sent(), 0);
        assert!(!plane.announce_exceptions());
    }
}

/// Neighbours keep finding the router while no control element runs, whatever waits for that, but nobody can flood the
/// router with requests.
#[test]
fn requests_for_the_control_elements_addresses_are_answered_without_it() {
    const WAITING_MAX: u64 = 32;
    for others in [1, WAITING_MAX + 8] {
        let mut plane = plane(all());
        for _ in 0..others {
            receive(&mut plane, &arp(), Instant::ZERO); // nobody takes it
        }
        let waiting = others.min(WAITING_MAX);
        let mut now = Instant::ZERO + Span::from_secs(2);
        receive(&mut plane, &arp_for(OWNED), now);
        let mut answer = [&HOST_MAC[..], &LAN_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
        answer.extend(LAN_MAC.into_iter().chain(OWNED).chain(HOST_MAC).chain(HOST));
        assert_eq!(leaving(&mut plane, 0, now), [answer]);
        assert_eq!(plane.fates().ended(Reason::LocalDelivery).packets, 1);
        // The address is not on this link.
        receive_at(&mut plane, 1, &arp_for(OWNED), now);
        assert_eq!(leaving(&mut plane, 1, now), [[0; 0]; 0]);
        assert_eq!(plane.fates().ended(Reason::NotIp).packets, 1);
        now += Span::from_secs(2);
        for _ in 0..1000 {
            receive(&mut plane, &arp_for(OWNED), now);
        }
        let answers = leaving(&mut plane, 0, now).len() as u64;
        assert!((1..500).contains(&answers), "{answers}");
        let crowded = plane.exception_stats().crowded.packets;
        assert_eq!(crowded, others - waiting + 1000 - answers);
        assert_eq!(plane.take_exceptions().len() as u64, waiting);
    }
}

#[test]
fn what_is_not_wanted_ends_as_without_a_control_element() {
    for (frame, reason) in [
        (udp(OWNED, 1, 10), Reason::TtlExpired),
        (arp(), Reason::NotIp),
        (udp([224, 0, 0, 5], 1, 10), Reason::Multicast),
        (udp(FAR, 1, 10), Reason::TtlExpired),
        (udp([192, 0, 2, 1], 9, 10), Reason::NoRoute),
        (udp(FAR, 9, 1200), Reason::TooBig),
    ] {
        let mut plane = plane(Policy::default());
        receive(&mut plane, &frame, Instant::ZERO);
        assert_eq!(plane.fates().ended(reason).packets, 1, "{reason:?}");
        assert!(!plane.announce_exceptions() && plane.take_exceptions().is_empty());
    }
    let mut plane = plane(Policy::default());
    receive(&mut plane, &with_option([148, 4, 0, 0]), Instant::ZERO);
    assert_eq!(leaving(&mut plane, 1, Instant::ZERO).len(), 1);
    // Packets with options other than the alert are forwarded.
    plane.set_exception_policy(all(), Instant::ZERO);
    receive(&mut plane, &with_option([7, 4, 4, 0]), Instant::ZERO);
    assert_eq!(leaving(&mut plane, 1, Instant::ZERO).len(), 1);
}

#[test]
fn an_address_is_the_control_elements_as_soon_as_the_policy_says_so() {
    let mut plane = plane(Policy::default());
    receive(&mut plane, &udp(FAR, 9, 10), Instant::ZERO); // now the next hop is cached
    assert_eq!(leaving(&mut plane, 1, Instant::ZERO).len(), 1);
    let policy = Policy {
        addresses: [IpAddr::from(FAR)].into(),
        ..Policy::default()
    };
    plane.set_exception_policy(policy, Instant::ZERO);
    receive(&mut plane, &udp(FAR, 9, 10), Instant::ZERO);
    assert_eq!(plane.take_exceptions()[0].cause, Cause::Local);
    assert_eq!(leaving(&mut plane, 1, Instant::ZERO), [[0; 0]; 0]);
}

#[test]
fn a_checksum_that_was_left_to_hardware_is_finished() {
    let finished = udp([224, 0, 0, 5], 1, 10);
    let mut frame = finished.clone();
    let partial = weir_wire::checksum::Sum::default()
        .bytes(&frame[26..34])
        .bytes(&[0, 17, 0, 18]);
    frame[40..42].copy_from_slice(&(!partial.checksum()).to_be_bytes());
    assert_ne!(frame, finished);
    let mut plane = plane(all());
    let checksum = Some(PartialChecksum {
        start: 34,
        offset: 6,
    });
    let arrival = Arrival {
        at: Instant::ZERO,
        len: frame.len() as u32,
        vlan: None,
        offload: Offload {
            checksum,
            ..Offload::NONE
        },
    };
    plane.receive(0, &frame, arrival);
    assert_eq!(plane.take_exceptions()[0].frame, finished);
}

/// 8 Mbit/s and ten frames at once.
fn limits(frame: u64) -> Limits {
    Limits {
        flow_control: true,
        committed: Rate::from_bps(8_000_000),
        excess: Rate::from_bps(8_000_000),
        burst: Bytes(10 * (frame + MESSAGE_OVERHEAD)),
    }
}

#[test]
fn a_flood_gets_what_the_buckets_pass_and_forwarding_goes_on() {
    let (flood, good) = (udp(FAR, 1, 198), udp(FAR, 9, 198));
    let price = flood.len() as u64 + MESSAGE_OVERHEAD;
    let policy = Policy {
        limits: limits(flood.len() as u64),
        ..all()
    };
    let mut plane = plane(policy);
    let (mut taken, mut forwarded) = (0, 0);
    let start = Instant::from_nanos(1_000_000_000);
    for n in 0..100_000_u64 {
        let now = start + Span::from_micros(10 * n);
        receive(&mut plane, &flood, now);
        if n % 100 == 0 {
            receive(&mut plane, &good, now);
            forwarded += leaving(&mut plane, 1, now).len();
            taken += plane.take_exceptions().len() as u64;
        }
    }
    taken += plane.take_exceptions().len() as u64;
    assert_eq!(forwarded, 1000);
    // 10^6 bytes in the second, and the half of the burst that errors may use.
    let expected = 1_000_000 / price + 5;
    assert!(taken.abs_diff(expected) <= 1, "{taken} for {expected}");
    let stats = plane.exception_stats();
    assert_eq!(stats.gate.offered.packets, 100_000);
    assert_eq!(stats.gate.committed.packets, taken);
    let fates = plane.fates();
    assert_eq!(fates.ended(Reason::Redirected).packets, taken);
    assert_eq!(fates.ended(Reason::Policed).packets, 100_000 - taken);
    assert_eq!(fates.all_ended().packets, 100_000);
}

#[test]
fn a_control_side_that_never_takes_costs_bounded_memory() {
    let mut plane = plane(all());
    let expired = udp(FAR, 1, 10);
    for _ in 0..RING_MAX + 100 {
        receive(&mut plane, &expired, Instant::ZERO);
    }
    assert_eq!(plane.fates().ended(Reason::QueueFull).packets, 100);
    assert_eq!(plane.exception_stats().full.packets, 100);
    assert_eq!(plane.take_exceptions().len(), RING_MAX);
    receive(&mut plane, &arp(), Instant::ZERO);
    assert!(plane.announce_exceptions());
}

/// A packet of OSPF to its group, through a port.
fn ospf(plane: &mut Plane, port: usize, now: Instant) {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST_MAC, [1, 0, 0x5e, 0, 0, 5])
        .ipv4(HOST, [224, 0, 0, 5], 1)
        .write(&mut frame, etherparse::IpNumber(89), &[0; 44])
        .unwrap();
    receive_at(plane, port, &frame, now);
}

/// A packet of a BGP session with the control element.
fn bgp(source: [u8; 4]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST_MAC, LAN_MAC)
        .ipv4(source, OWNED, 1)
        .tcp(40_000, 179, 1, 1000)
        .write(&mut frame, &[])
        .unwrap();
    frame
}

/// Counts of taken packets by class.
fn classes(plane: &mut Plane) -> [usize; 4] {
    let taken = plane.take_exceptions();
    assert!(taken.iter().is_sorted_by_key(|exception| exception.class));
    let mut counts = [0; 4];
    for exception in taken {
        counts[exception.class as usize] += 1;
    }
    counts
}

#[test]
fn a_flood_of_errors_leaves_the_other_classes_alone() {
    let policy = Policy {
        limits: limits(100),
        peers: [IpAddr::from(HOST)].into(),
        ..all()
    };
    for (has_classes, expected) in [(true, [200, 100, 100]), (false, [0, 0, 0])] {
        let mut plane = plane(Policy {
            classes: has_classes,
            ..policy.clone()
        });
        let mut taken = [0; 4];
        // Ten seconds. A hundred expired packets each millisecond: a hundred times what the buckets pass.
        for n in 0..10_000 {
            let now = Instant::from_nanos(1_000_000_000 + 1_000_000 * n);
            for _ in 0..100 {
                receive(&mut plane, &udp(FAR, 1, 58), now);
            }
            if n % 100 == 0 {
                ospf(&mut plane, 0, now);
                receive(&mut plane, &bgp(HOST), now);
                receive(&mut plane, &arp(), now);
                receive(&mut plane, &udp(OWNED, 9, 10), now);
            }
            for (total, taken) in taken.iter_mut().zip(classes(&mut plane)) {
                *total += taken;
            }
        }
        assert_eq!(taken[..3], expected, "classes: {has_classes}");
        assert!(taken[3] > 10_000, "{taken:?}");
    }
}

#[test]
fn packets_that_pretend_to_route_leave_other_protocols_and_ports_alone() {
    let policy = Policy {
        peers: [IpAddr::from(HOST)].into(),
        ..all()
    };
    let mut plane = plane(policy);
    let mut taken = [0; 4];
    let mut of_others = 0;
    for n in 0..1000 {
        let now = Instant::from_nanos(1_000_000_000 + 1_000_000 * n);
        (0..100).for_each(|_| ospf(&mut plane, 0, now));
        if n % 10 == 0 {
            ospf(&mut plane, 1, now);
            receive(&mut plane, &bgp(HOST), now);
            // Anybody can send this.
            receive(&mut plane, &bgp([203, 0, 113, 1]), now);
        }
        let all = plane.take_exceptions();
        for exception in all {
            taken[exception.class as usize] += 1;
            let is_forged = exception.port == "lan" && exception.cause == Cause::Multicast;
            of_others += usize::from(exception.class == ExceptionClass::Routing && !is_forged);
        }
    }
    assert_eq!(of_others, 200);
    let forged = FLOW.burst + FLOW.rate;
    assert!(taken[0] <= of_others + forged as usize, "{taken:?}");
    assert_eq!(taken[2], 100);
}

#[test]
fn without_a_control_side_the_router_answers_itself_again() {
    let mut plane = plane(all());
    let expired = udp(FAR, 1, 10);
    receive(&mut plane, &expired, Instant::ZERO);
    receive(&mut plane, &expired, Instant::ZERO + Span::from_millis(999));
    let gone = Instant::ZERO + Span::from_secs(1);
    receive(&mut plane, &expired, gone);
    receive(&mut plane, &with_option([148, 4, 0, 0]), gone);
    assert_eq!(plane.fates().ended(Reason::Redirected).packets, 2);
    assert_eq!(plane.fates().ended(Reason::TtlExpired).packets, 1);
    assert_eq!(
        leaving(&mut plane, 1, gone).len(),
        1,
        "the alert is forwarded"
    );
    // The control side takes exceptions again.
    assert_eq!(plane.take_exceptions().len(), 2);
    receive(&mut plane, &expired, gone);
    assert_eq!(plane.take_exceptions().len(), 1);
}

fn inject(plane: &mut Plane, entry: Entry, bytes: &[u8]) -> Result<(), Reason> {
    let bytes = bytes.to_vec();
    plane.inject(&Injection { entry, bytes }, Instant::ZERO)
}

fn through(port: &str) -> Entry {
    Entry::Frame {
        port: port.to_owned(),
    }
}

fn to(port: &str, next_hop: [u8; 4]) -> Entry {
    Entry::NextHop {
        port: port.to_owned(),
        next_hop: next_hop.into(),
    }
}

#[test]
fn packets_of_the_control_element_leave_as_it_says() {
    let mut plane = plane(all());
    let frame = udp(FAR, 1, 10);
    let packet = &frame[14..];
    let with_macs = |to: [u8; 6], from: [u8; 6]| [&to[..], &from, &frame[12..]].concat();

    assert_eq!(inject(&mut plane, through("wan"), &frame), Ok(()));
    assert_eq!(
        leaving(&mut plane, 1, Instant::ZERO)[..],
        std::slice::from_ref(&frame)[..]
    );
    // The routes: the TTL stays, because the packet begins here.
    assert_eq!(inject(&mut plane, Entry::Routes, packet), Ok(()));
    let by_routes = with_macs(NEXT_MAC, WAN_MAC);
    assert_eq!(leaving(&mut plane, 1, Instant::ZERO), [by_routes]);
    // A next hop other than the route's.
    assert_eq!(inject(&mut plane, to("lan", HOST), packet), Ok(()));
    let by_host = with_macs(HOST_MAC, LAN_MAC);
    assert_eq!(leaving(&mut plane, 0, Instant::ZERO), [by_host]);
    // A multicast group is its own next hop.
    assert_eq!(
        inject(&mut plane, to("lan", [224, 0, 0, 5]), packet),
        Ok(())
    );
    let by_group = with_macs([1, 0, 0x5e, 0, 0, 5], LAN_MAC);
    assert_eq!(leaving(&mut plane, 0, Instant::ZERO), [by_group]);

    let injected = plane.exception_stats().injected;
    assert_eq!(
        (injected.packets, plane.fates().all_ended().packets),
        (4, 0)
    );
}

#[test]
fn packets_that_lie_are_refused_and_booked() {
    let mut plane = plane(all());
    let frame = udp(FAR, 9, 10);
    let packet = frame[14..].to_vec();
    let long = udp(FAR, 9, 1200);
    let mut cut = packet.clone();
    cut.pop();
    let mut not_ip = packet.clone();
    not_ip[0] = 0x35;
    let cases = [
        (through("wann"), frame.clone(), Reason::NotAPort),
        (to("wann", FAR), packet.clone(), Reason::NotAPort),
        (to("wan", HOST), packet.clone(), Reason::NeighbourFailed),
        (through("wan"), vec![1; 13], Reason::TruncatedHeader),
        (through("wan"), vec![], Reason::TruncatedHeader),
        (through("wan"), long.clone(), Reason::TooBig),
        (through("lan"), vec![1; 1519], Reason::TruncatedFrame),
        (to("wan", FAR), long[14..].to_vec(), Reason::TooBig),
        (to("wan", FAR), cut.clone(), Reason::IpTotalLength),
        (to("wan", FAR), vec![0x45], Reason::IpHeaderLength),
        (Entry::Routes, cut, Reason::IpTotalLength),
        (Entry::Routes, vec![], Reason::IpVersion),
        (Entry::Routes, not_ip, Reason::IpVersion),
        (
            Entry::Routes,
            udp([224, 0, 0, 5], 9, 1)[14..].to_vec(),
            Reason::Multicast,
        ),
        (Entry::Routes, vec![0x45; 2000], Reason::TruncatedFrame),
    ];
    let count = cases.len() as u64;
    for (entry, bytes, reason) in cases {
        let before = plane.fates().ended(reason).packets;
        assert_eq!(
            inject(&mut plane, entry.clone(), &bytes),
            Err(reason),
            "{entry:?}"
        );
        assert_eq!(plane.fates().ended(reason).packets, before + 1, "{entry:?}");
    }
    assert_eq!(plane.exception_stats().refused.packets, count);
    assert_eq!(plane.exception_stats().injected, Tally::ZERO);
    for port in [0, 1] {
        assert!(leaving(&mut plane, port, Instant::ZERO).is_empty());
    }
    // Every slot is free again.
    for _ in 0..3000 {
        let _refused = inject(&mut plane, Entry::Routes, &long[14..]);
    }
    assert_eq!(plane.fates().ended(Reason::PoolExhausted), Tally::ZERO);
}

#[test]
fn what_the_control_element_sends_never_comes_back_to_it() {
    let mut plane = plane(all());
    for to in [OWNED, [192, 0, 2, 1]] {
        let packet = udp(to, 1, 10)[14..].to_vec();
        inject(&mut plane, Entry::Routes, &packet).unwrap();
    }
    assert!(plane.take_exceptions().is_empty());
    assert_eq!(plane.fates().ended(Reason::LocalDelivery).packets, 1);
    assert_eq!(plane.fates().ended(Reason::NoRoute).packets, 1);
}

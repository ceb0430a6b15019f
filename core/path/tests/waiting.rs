//! Packets that wait for neighbours, in a whole plane: the effects of a failure, a flood and a scan.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use etherparse::PacketBuilder;
use weir_base::{Instant, Span, Streams};
use weir_discipline::Spec;
use weir_packet::Reason;
use weir_path::egress::port::Link;
use weir_path::ip::resolution::{NeighbourRequest, PLACES_MAX};
use weir_path::ip::tables::{Action, Interface, Neighbour, NextHop, Tables};
use weir_path::ip::waiting::{PACKETS_MAX, PATIENCE};
use weir_path::link::offload::Offload;
use weir_path::plane::step::Arrival;
use weir_path::plane::{Mode, Plane};

const LAN: [u8; 6] = [2, 0, 0, 0, 0, 1];
const HOST: [u8; 6] = [2, 0, 0, 0, 0, 3];
const START: Instant = Instant::from_nanos(1_000_000_000);

/// `lan` (10.0.1.1/24) and `wan` (the rest of 10.0.0.0/8).
fn tables() -> Tables {
    let mut tables = Tables::default();
    for (index, name, prefix) in [(1, "lan", "10.0.1.0/24"), (2, "wan", "10.0.0.0/8")] {
        let interface = Interface {
            name: name.to_owned(),
            mac: LAN,
            mtu: 1500,
            up: true,
            carrier: true,
            addresses: Vec::new(),
        };
        tables.interfaces.insert(index, interface);
        let hop = NextHop {
            interface: index,
            gateway: None,
            weight: 1,
        };
        let action = Action::Forward(vec![hop]);
        tables.set_route(prefix.parse().unwrap(), action.into());
    }
    // The senders are known: an ICMP error to them does not wait itself.
    for sender in [2, 66] {
        let sender = (1, IpAddr::from([10, 0, 1, sender]));
        tables.neighbours.insert(sender, Neighbour::Reachable(HOST));
    }
    tables
}

fn plane() -> Plane {
    let mut plane = Plane::new(2000, 1518, Streams::new(1));
    for name in ["lan", "wan"] {
        let link = Link {
            rate: None,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1518,
        };
        let spec = Spec::check("fifo", []).unwrap();
        plane.add_port(name, name, Mode::Routed, spec, link, START);
    }
    plane.set_tables(Arc::new(tables()), START);
    plane
}

fn host(n: u32) -> (u32, IpAddr) {
    (2, IpAddr::V4(Ipv4Addr::from(0x0a63_0000 + n)))
}

fn send(plane: &mut Plane, from: [u8; 4], to: (u32, IpAddr), now: Instant) {
    let IpAddr::V4(to) = to.1 else { panic!() };
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST, LAN)
        .ipv4(from, to.octets(), 64)
        .udp(1, 2)
        .write(&mut frame, b"x")
        .unwrap();
    let arrival = Arrival {
        at: now,
        len: frame.len() as u32,
        vlan: None,
        offload: Offload::NONE,
    };
    plane.receive(0, &frame, arrival);
}

fn ended(plane: &Plane, reason: Reason) -> u64 {
    plane.fates().ended(reason).packets
}

fn requests(plane: &mut Plane) -> Vec<NeighbourRequest> {
    plane.neighbour_requests().collect()
}

#[test]
fn a_neighbour_that_failed_is_asked_again_and_the_packet_waits() {
    let mut plane = plane();
    let mut failed = tables();
    failed.neighbours.insert(host(1), Neighbour::Failed);
    plane.set_tables(Arc::new(failed.clone()), START);
    send(&mut plane, [10, 0, 1, 2], host(1), START);
    assert_eq!(requests(&mut plane), [NeighbourRequest::Ask(host(1))]);
    // The same snapshot again is not an answer to this request.
    plane.set_tables(Arc::new(failed.clone()), START);
    assert_eq!(plane.waiting().count(&host(1)), 1);
    // The snapshot is an answer if the entry was missing in between.
    plane.set_tables(Arc::new(tables()), START);
    plane.set_tables(Arc::new(failed.clone()), START);
    assert_eq!(ended(&plane, Reason::NeighbourFailed), 1);
    // A host that comes back gets the packets that were held for it.
    send(&mut plane, [10, 0, 1, 2], host(1), START);
    assert_eq!(requests(&mut plane), [NeighbourRequest::Ask(host(1))]);
    let answer = Neighbour::Reachable(HOST);
    failed.neighbours.insert(host(1), answer);
    plane.set_tables(Arc::new(failed), START);
    assert_eq!(plane.waiting().count(&host(1)), 0);
    assert_eq!(ended(&plane, Reason::NeighbourFailed), 1);
}

#[test]
fn a_flood_of_dead_destinations_leaves_room_for_others() {
    let mut plane = plane();
    for n in 0..100 {
        for _ in 0..64 {
            send(&mut plane, [10, 0, 1, 66], host(n), START);
        }
    }
    let waits: usize = (0..100).map(|n| plane.waiting().count(&host(n))).sum();
    assert_eq!(waits, PACKETS_MAX);
    send(&mut plane, [10, 0, 1, 2], host(500), START);
    assert_eq!(plane.waiting().count(&host(500)), 1);
    plane.step(START + PATIENCE);
    assert_eq!(plane.waiting().neighbours().count(), 0);
    let lost = ended(&plane, Reason::NeighbourFailed) + ended(&plane, Reason::NeighbourQueueFull);
    assert_eq!(lost, 100 * 64 + 1);
}

#[test]
fn a_scan_gives_way_to_a_host_of_another_network() {
    let mut plane = plane();
    for n in 0..10_000 {
        let now = START + Span::from_micros(u64::from(n) * 200); // 5000 a second
        send(&mut plane, [10, 0, 1, 66], host(n), now);
        plane.step(now);
        assert!(plane.waiting().neighbours().count() <= PLACES_MAX);
        if n % 1000 == 999 {
            let new = host(50_000 + n);
            requests(&mut plane);
            send(&mut plane, [10, 7, 1, 2], new, now);
            let asked = requests(&mut plane);
            assert!(
                matches!(asked[..], [NeighbourRequest::GiveUp(_), NeighbourRequest::Ask(n)] if n == new)
            );
        }
    }
    plane.shut_down();
    assert_eq!(plane.waiting().neighbours().count(), 0);
}

//! A port for processes of this machine in whole planes: packets that arrive through it, and packets that it hands to
//! the kernel.

use std::net::IpAddr;
use std::sync::Arc;

use etherparse::PacketBuilder;
use weir_base::{Instant, Streams};
use weir_discipline::Spec;
use weir_fpf_path::edge::filter::RawFilter;
use weir_fpf_path::edge::paths::{Paths, Spread};
use weir_fpf_path::edge::rule::Rule as Encapsulate;
use weir_fpf_path::edge::setup::{Encapsulation, Setup};
use weir_fpf_path::header::Vector;
use weir_fpf_path::{Builder, Domain, Fpf, Hop, Interface, Rule};
use weir_packet::{Queue, Reason};
use weir_path::egress::port::Link;
use weir_path::ip::tables::{Action, Address, Interface as Device, Neighbour, NextHop, Tables};
use weir_path::link::offload::Offload;
use weir_path::plane::step::Arrival;
use weir_path::plane::{Mode, Plane};

const WAN: usize = 0;
const OWN: usize = 1;
const NEXT: [u8; 6] = [2, 0, 0, 0, 0, 8];
const SLOTS: usize = 16;

/// A plane with the ports `wan` (10.0.1.1, MTU 1500), through which the default route leads, and `own`, into which the
/// kernel routes 192.0.2.0/24 and 2001:db8:7::/48. Packets to 192.0.2.1 and to that network in IPv6 get the vector 0b.
fn plane() -> Plane {
    let mut plane = Plane::new(SLOTS, 1600, Streams::new(1));
    let mut tables = Tables::default();
    for (port, name) in ["wan", "own"].into_iter().enumerate() {
        let link = Link {
            rate: None,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1518,
        };
        let spec = Spec::check("fifo", []).unwrap();
        plane.add_port(name, name, Mode::Routed, spec, link, Instant::ZERO);
        let device = Device {
            name: name.to_owned(),
            mac: if port == WAN { [2; 6] } else { [0; 6] },
            mtu: 1500,
            up: true,
            carrier: true,
            addresses: if port == WAN {
                vec![Address::of("10.0.1.1/24".parse().unwrap())]
            } else {
                Vec::new()
            },
        };
        tables.interfaces.insert(port as u32 + 1, device);
    }
    plane.set_local(OWN);
    let next_hop = |interface, gateway: Option<IpAddr>| {
        Action::Forward(vec![NextHop {
            interface,
            gateway,
            weight: 1,
        }])
    };
    let gateway = "10.0.1.254".parse().unwrap();
    for (prefix, action) in [
        ("0.0.0.0/0", next_hop(1, Some(gateway))),
        ("10.0.1.1/32", Action::Local),
        ("192.0.2.0/24", next_hop(2, None)),
        ("2001:db8:7::/48", next_hop(2, None)),
    ] {
        tables.set_route(prefix.parse().unwrap(), action.into());
    }
    let neighbour = Neighbour::Reachable(NEXT);
    tables.neighbours.insert((1, gateway), neighbour);
    plane.set_tables(Arc::new(tables), Instant::ZERO);

    let mut builder = Builder::new(Domain::default());
    let hop = Hop {
        interface: builder.interface(Interface::ethernet("wan")).unwrap(),
        destination: NEXT.into(),
        queue: Queue(0),
        leaves_domain: true,
    };
    builder.rule(None, 0x0b, Rule::Forward(hop)).unwrap();
    Fpf::set_table(&mut plane, Some(Arc::new(builder.build().unwrap())));
    let encapsulations = ["192.0.2.1/32", "2001:db8:7::/48"].into_iter().enumerate();
    let encapsulations = encapsulations.map(|(row, to)| Encapsulation {
        name: to.to_owned(),
        row: row as u32,
        filter: RawFilter {
            destination: Some(to.parse().unwrap()),
            ..RawFilter::default()
        }
        .check()
        .unwrap(),
        rule: Encapsulate {
            paths: Paths::new(Spread::ByFlow, &[(Vector::new(&[0x0b]).unwrap(), 1)]).unwrap(),
            timeout: None,
            session: 0,
            profile: None,
        },
    });
    let setup = Setup {
        encapsulations: encapsulations.collect(),
        ..Setup::default()
    };
    Fpf::set_edge(&mut plane, Some(Arc::new(setup)), Instant::ZERO);
    plane
}

/// UDP from an address of the machine, behind the Ethernet header.
fn v4(from: [u8; 4], to: [u8; 4], ttl: u8, payload: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4(from, to, ttl).udp(4000, 53);
    builder.write(&mut packet, &vec![7; payload]).unwrap();
    packet
}

fn v6(payload: usize) -> Vec<u8> {
    let address = |n| [0x20, 1, 0xd, 0xb8, 0, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv6(address(1), address(7), 9).udp(4000, 53);
    builder.write(&mut packet, &vec![7; payload]).unwrap();
    packet
}

fn frame(ethertype: [u8; 2], bytes: &[u8]) -> Vec<u8> {
    [&[2; 12], &ethertype[..], bytes].concat()
}

const V4: [u8; 2] = [8, 0];
const V6: [u8; 2] = [0x86, 0xdd];
const FPF: [u8; 2] = [0xc0, 0];
const MACHINE: [u8; 4] = [10, 0, 1, 1];
const FAR: [u8; 4] = [192, 0, 2, 1];

/// The frames that leave through `wan` and through `own` because of a received frame; no slot leaks.
fn through(plane: &mut Plane, ingress: usize, frame: &[u8]) -> [Vec<Vec<u8>>; 2] {
    let arrival = Arrival {
        at: Instant::ZERO,
        len: frame.len() as u32,
        vlan: None,
        offload: Offload::NONE,
    };
    plane.receive(ingress, frame, arrival);
    plane.step(Instant::ZERO);
    [WAN, OWN].map(|port| {
        let mut sent = Vec::new();
        let flushed = plane.flush(port, |burst, _| {
            sent.extend(burst.iter().map(|frame| frame.to_vec()));
            Ok::<_, ()>(burst.len())
        });
        flushed.unwrap();
        sent
    })
}

fn ended(plane: &Plane, reason: Reason) -> u64 {
    plane.fates().ended(reason).packets
}

#[test]
fn packets_of_processes_leave_unchanged_behind_their_header() {
    let mut plane = plane();
    // Also at the last hop: the next router decrements the TTL.
    for ttl in [64, 1] {
        let packet = v4(MACHINE, FAR, ttl, 100);
        let [sent, back] = through(&mut plane, OWN, &frame(V4, &packet));
        assert_eq!(sent[0][12..], [&FPF[..], &[1, 1, 0x0b], &packet].concat());
        assert_eq!((sent.len(), back.len()), (1, 0));
    }
    let [sent, _] = through(&mut plane, OWN, &frame(V6, &v6(100)));
    assert_eq!(sent[0][17..], v6(100));
    // A packet from a neighbour with such a source is refused, and so is its last hop.
    through(&mut plane, WAN, &frame(V4, &v4(MACHINE, FAR, 64, 100)));
    assert_eq!(ended(&plane, Reason::OwnSource), 1);
    through(&mut plane, WAN, &frame(V4, &v4([10, 9, 9, 9], FAR, 1, 100)));
    assert_eq!(ended(&plane, Reason::TtlExpired), 1);
}

#[test]
fn without_an_encapsulation_they_follow_the_routes_but_never_back() {
    let mut plane = plane();
    let packet = v4(MACHINE, [203, 0, 113, 1], 1, 100);
    let [sent, _] = through(&mut plane, OWN, &frame(V4, &packet));
    assert_eq!((&sent[0][..6], &sent[0][14..]), (&NEXT[..], &packet[..]));

    // The kernel's route leads back into the port, for processes and for neighbours.
    let others = [192, 0, 2, 9];
    for (ingress, from) in [(OWN, MACHINE), (WAN, [10, 9, 9, 9])] {
        let packet = v4(from, others, 9, 100);
        let before = ended(&plane, Reason::NoRoute);
        let [sent, own] = through(&mut plane, ingress, &frame(V4, &packet));
        assert_eq!(ended(&plane, Reason::NoRoute), before + 1);
        assert_eq!(
            (sent.len(), own.len()),
            if ingress == OWN { (0, 1) } else { (1, 0) }
        );
    }
    assert!(
        plane.waiting().neighbours().next().is_none(),
        "nobody is asked for"
    );
    // Nor does a neighbour on that interface that an operator configured.
    let mut tables = plane.tables().clone();
    let neighbour = (2, IpAddr::from(others));
    tables
        .neighbours
        .insert(neighbour, Neighbour::Permanent(NEXT));
    plane.set_tables(Arc::new(tables), Instant::ZERO);
    let [sent, own] = through(
        &mut plane,
        WAN,
        &frame(V4, &v4([10, 9, 9, 9], others, 9, 100)),
    );
    assert_eq!((sent.len(), own.len()), (0, 0));
    assert_eq!(ended(&plane, Reason::NotAPort), 1);
}

#[test]
fn errors_about_packets_of_processes_go_to_the_kernel() {
    let mut plane = plane();
    // The first hop carries 1497 bytes after a header of three.
    let [sent, own] = through(&mut plane, OWN, &frame(V4, &v4(MACHINE, FAR, 9, 1497 - 28)));
    assert_eq!((sent.len(), own.len()), (1, 0), "it fits");
    let [sent, own] = through(&mut plane, OWN, &frame(V4, &v4(MACHINE, FAR, 9, 1498 - 28)));
    assert_eq!((sent.len(), own.len()), (0, 1));
    let error = &own[0][14..];
    assert_eq!(
        (error[9], error[20], error[21]),
        (1, 3, 4),
        "fragmentation needed"
    );
    assert_eq!((&error[12..16], &error[16..20]), (&FAR[..], &MACHINE[..]));
    assert_eq!(error[26..28], 1497_u16.to_be_bytes());

    let [sent, own] = through(&mut plane, OWN, &frame(V6, &v6(1498 - 48)));
    assert_eq!((sent.len(), own.len()), (0, 1));
    let (error, offender) = (&own[0][14..], v6(0));
    assert_eq!(
        (error[6], error[40], error[41]),
        (58, 2, 0),
        "packet too big"
    );
    assert_eq!(
        (&error[8..24], &error[24..40]),
        (&offender[24..40], &offender[8..24])
    );
    assert_eq!(error[44..48], 1497_u32.to_be_bytes());
}

#[test]
fn what_comes_out_of_a_path_for_the_machine_goes_to_the_kernel() {
    let mut plane = plane();
    let packet = v4(FAR, MACHINE, 1, 100);
    let [sent, own] = through(
        &mut plane,
        WAN,
        &frame(FPF, &[&[0, 0], &packet[..]].concat()),
    );
    assert_eq!((sent.len(), own.len()), (0, 1));
    assert_eq!(own[0][12..], [&V4[..], &packet].concat(), "byte for byte");
    // The kernel has a copy of a packet without a header.
    let [_, own] = through(&mut plane, WAN, &frame(V4, &packet));
    assert_eq!((own.len(), ended(&plane, Reason::LocalDelivery)), (0, 1));
    // Without the port the packet is dropped.
    plane.remove_port(OWN, Reason::Reconfigured);
    let frame = frame(FPF, &[&[0, 0], &packet[..]].concat());
    let arrival = Arrival {
        at: Instant::ZERO,
        len: frame.len() as u32,
        vlan: None,
        offload: Offload::NONE,
    };
    plane.receive(WAN, &frame, arrival);
    assert_eq!(ended(&plane, Reason::NotAPort), 1);
}

/// A packet that left a path is checked as if it had arrived through the port of its frame, and through `own`.
#[test]
fn what_comes_out_of_a_path_is_checked_like_other_packets() {
    use weir_path::ip::tables::SourceCheck::{self, Loose, Off, Strict};
    let machine_v6 = "2001:db8:1::1".parse::<std::net::Ipv6Addr>().unwrap();
    let plane = |check: SourceCheck| {
        let mut plane = plane();
        plane.set_source_check(WAN, Some(check));
        let mut tables = plane.tables().clone();
        let hop = NextHop {
            interface: 3, // no port
            gateway: None,
            weight: 1,
        };
        for (prefix, action) in [
            ("10.0.1.255/32", Action::Local),
            ("2001:db8:1::1/128", Action::Local),
            ("198.51.100.0/24", Action::Forward(vec![hop])),
            ("203.0.113.0/24", Action::Blackhole),
        ] {
            tables.set_route(prefix.parse().unwrap(), action.into());
        }
        plane.set_tables(Arc::new(tables), Instant::ZERO);
        plane
    };
    let v6 = |from: &str, to: &str| {
        let [from, to] = [from, to].map(|a| a.parse::<std::net::Ipv6Addr>().unwrap());
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv6(from.octets(), to.octets(), 255);
        builder.udp(4000, 53).write(&mut packet, b"x").unwrap();
        packet
    };
    let (neighbour, elsewhere) = ([10, 7, 7, 7], [198, 51, 100, 7]);
    let own = Some(Reason::OwnSource);
    let reverse = Some(Reason::ReversePath);
    let to_us = |from| v4(from, MACHINE, 9, 100);
    let on = |from| v4(from, [192, 0, 2, 1], 9, 100);
    let machine = &machine_v6.to_string()[..];
    for (packet, ends) in [
        // To the machine: with off, loose and strict.
        (to_us(neighbour), [None, None, None]),
        (to_us(FAR), [None, None, None]), // through a path to it
        (to_us(elsewhere), [None, None, reverse]),
        (to_us([203, 0, 113, 1]), [None, reverse, reverse]),
        (to_us(MACHINE), [own, own, own]),
        (to_us([10, 0, 1, 255]), [own, own, own]),
        (v6(machine, machine), [own, own, own]),
        // Through it.
        (on(neighbour), [None, None, None]),
        (on(elsewhere), [None, None, reverse]),
        (on(MACHINE), [own, own, own]),
    ] {
        for (check, end) in [Off, Loose, Strict].into_iter().zip(ends) {
            let mut plane = plane(check);
            let frame = frame(FPF, &[&[0, 0], &packet[..]].concat());
            for _ in 0..2 {
                let before = Reason::ALL.map(|r| ended(&plane, r));
                let [_, own] = through(&mut plane, WAN, &frame);
                let after = Reason::ALL.map(|r| ended(&plane, r));
                let changed = (0..Reason::COUNT).find(|n| before[*n] != after[*n]);
                let reason = changed.map(|n| Reason::ALL[n]);
                // A forwarded packet is routed into the port for processes, which leads nowhere.
                let reason = reason.filter(|reason| *reason != Reason::NoRoute);
                assert_eq!(reason, end, "{check:?}: {packet:x?}");
                assert!(end.is_none() || own.is_empty());
            }
        }
    }
    // Accepting a packet out of a path does not make the same source acceptable on the link.
    let mut plane = plane(Strict);
    through(
        &mut plane,
        WAN,
        &frame(FPF, &[&[0, 0], &to_us(FAR)[..]].concat()),
    );
    through(&mut plane, WAN, &frame(V4, &on(FAR)));
    assert_eq!(ended(&plane, Reason::ReversePath), 1);
}

/// Martians, packets for a link, groups, source routes and packets at the end of their TTL.
#[test]
fn nobody_gets_what_no_router_may_pass_on() {
    let mut plane = plane();
    plane.set_exception_policy(
        weir_path::exception::Policy {
            neighbours: true,
            multicast: true,
            ..Default::default()
        },
        Instant::ZERO,
    );
    plane.take_exceptions(); // the control side takes exceptions
    let v6 = |from: &str, to: &str, hops: u8| {
        let [from, to] = [from, to].map(|a| a.parse::<std::net::Ipv6Addr>().unwrap());
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv6(from.octets(), to.octets(), hops);
        let solicitation = builder.icmpv6_raw(135, 0, [0; 4]);
        solicitation.write(&mut packet, &to.octets()).unwrap();
        packet
    };
    let global = "2001:db8:7::1";
    let martian = Reason::MartianDestination;
    for (packet, reason) in [
        (v4([127, 0, 0, 1], MACHINE, 9, 9), Reason::MartianSource),
        (v4([0, 0, 0, 0], MACHINE, 9, 9), Reason::MartianSource),
        (v4([224, 0, 0, 5], MACHINE, 9, 9), Reason::MartianSource),
        (v4([169, 254, 1, 1], MACHINE, 9, 9), Reason::MartianSource),
        (v4(FAR, [127, 0, 0, 1], 9, 9), martian),
        (v4(FAR, [0, 0, 0, 0], 9, 9), martian),
        (v4(FAR, [169, 254, 1, 1], 9, 9), martian),
        (v4(FAR, [224, 0, 0, 5], 1, 9), Reason::Multicast),
        (v4(FAR, [255; 4], 9, 9), Reason::Multicast),
        (v6(global, "::1", 9), martian),
        (v6(global, "fe80::1", 255), martian),
        (v6(global, "ff02::5", 255), Reason::Multicast),
        (v6("fe80::9", "fe80::1", 255), martian),
        (v6("fe80::9", "2001:db8:1::1", 255), martian), // neighbour discovery
        (v6("::1", "2001:db8:1::1", 9), Reason::MartianSource),
        (
            v4([10, 7, 7, 7], [203, 0, 113, 1], 1, 9),
            Reason::TtlExpired,
        ),
    ] {
        let before = ended(&plane, reason);
        let frame = frame(FPF, &[&[0, 0], &packet[..]].concat());
        let [_, own] = through(&mut plane, WAN, &frame);
        assert_eq!(own.len(), 0, "{packet:x?}");
        assert_eq!(ended(&plane, reason), before + 1, "{packet:x?}");
    }
    let redirected = plane.exception_stats().redirected.packets;
    assert_eq!(redirected, 0, "the control element hears of no link");
}

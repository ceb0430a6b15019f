//! Flexible packet forwarding in whole planes: frames enter at one port, leave at another, and all are accounted for.

mod cache;
mod segments;
mod tunnels;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use etherparse::PacketBuilder;
use weir_base::{Bytes, Instant, Rate, Span, Streams};
use weir_discipline::Spec;
use weir_fpf_path::edge::copies::{COPIES_MAX, Copies};
use weir_fpf_path::edge::filter::RawFilter;
use weir_fpf_path::edge::implicit::Decision;
use weir_fpf_path::edge::paths::{Paths, Spread};
use weir_fpf_path::edge::profile::{Police, Profile, Shape};
use weir_fpf_path::edge::rule::Rule as Encapsulate;
use weir_fpf_path::edge::setup::{Class as FlowClass, Encapsulation, NoMatch, Setup};
use weir_fpf_path::edge::shaper::QueueCounters;
use weir_fpf_path::header::Vector;
use weir_fpf_path::process::{Function, Processing};
use weir_fpf_path::{Builder, Destination, Domain, Fpf, Hop, Inner, Interface, Rule, Table};
use weir_packet::{FrameBytes, Queue, Reason};
use weir_path::egress::port::Link;
use weir_path::egress::rewrite::mark_congestion;
use weir_path::exception::Cause;
use weir_path::headers;
use weir_path::ip::resolution::NeighbourRequest;
use weir_path::ip::tables::{Action, Address, Interface as Device, Neighbour, NextHop, Tables};
use weir_path::ip::waiting::PATIENCE;
use weir_path::link::offload::Offload;
use weir_path::plane::step::Arrival;
use weir_path::plane::{Mode, Plane};
use weir_wire::EtherType;

const HOST: [u8; 6] = [2, 0, 0, 0, 0, 9];
const NEXT: [u8; 6] = [2, 0, 0, 0, 0, 8];
const LAN: usize = 0;
const WAN: usize = 1;
const SLOTS: usize = 16;

fn mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, port as u8]
}

/// A plane with the ports `lan` (10.0.1.1) and `wan` (10.0.2.1, MTU `mtu`). The default routes lead to 10.0.2.254 and
/// 2001:db8:2::254 behind `wan`.
fn plane(mtu: u32) -> Plane {
    let mut plane = Plane::new(SLOTS, 1600, Streams::new(1));
    let mut tables = Tables::default();
    for (port, name) in ["lan", "wan"].into_iter().enumerate() {
        let spec = Spec::check("fifo", []).unwrap();
        let link = Link {
            rate: None,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1518,
        };
        plane.add_port(name, name, Mode::Routed, spec, link, Instant::ZERO);
        let device = Device {
            name: name.to_owned(),
            mac: mac(port),
            mtu: if port == WAN { mtu } else { 1500 },
            up: true,
            carrier: true,
            addresses: vec![Address::of(
                format!("10.0.{}.1/24", port + 1).parse().unwrap(),
            )],
        };
        tables.interfaces.insert(port as u32 + 1, device);
    }
    let forward = |gateway: &str| {
        Action::Forward(vec![NextHop {
            interface: 2,
            gateway: Some(gateway.parse().unwrap()),
            weight: 1,
        }])
    };
    for (prefix, action) in [
        ("0.0.0.0/0", forward("10.0.2.254")),
        ("::/0", forward("2001:db8:2::254")),
        ("10.0.2.1/32", Action::Local),
    ] {
        tables.set_route(prefix.parse().unwrap(), action.into());
    }
    for gateway in ["10.0.2.254", "2001:db8:2::254"] {
        let key = (2, gateway.parse().unwrap());
        tables.neighbours.insert(key, Neighbour::Reachable(NEXT));
    }
    plane.set_tables(Arc::new(tables), Instant::ZERO);
    plane
}

/// A table of one-byte LIDs with the interfaces `lan` and `wan`, and the hop through `wan`.
fn builder() -> (Builder, Hop) {
    let mut builder = Builder::new(Domain::default());
    builder.interface(Interface::ethernet("lan")).unwrap();
    let hop = Hop {
        interface: builder.interface(Interface::ethernet("wan")).unwrap(),
        destination: NEXT.into(),
        queue: Queue(0),
        leaves_domain: true,
    };
    (builder, hop)
}

/// The same with rules made from the hop.
fn table(rules: impl FnOnce(Hop) -> Vec<(u16, Rule)>) -> Option<Arc<Table>> {
    let (mut builder, hop) = builder();
    for (lid, rule) in rules(hop) {
        builder.rule(None, lid, rule).unwrap();
    }
    Some(Arc::new(builder.build().unwrap()))
}

/// The bytes after an Ethernet header: IPv4 with UDP, TTL 9.
fn ipv4() -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv4([10, 0, 1, 10], [192, 0, 2, 1], 9)
        .udp(4000, 53)
        .write(&mut packet, b"payload")
        .unwrap();
    packet
}

fn ipv6() -> Vec<u8> {
    let address = |n| [0x20, 1, 0xd, 0xb8, 0, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let mut packet = Vec::new();
    PacketBuilder::ipv6(address(1), address(7), 9)
        .udp(4000, 53)
        .write(&mut packet, b"payload")
        .unwrap();
    packet
}

fn frame(ethertype: u16, bytes: &[&[u8]]) -> Vec<u8> {
    let ethertype = ethertype.to_be_bytes();
    [&mac(LAN)[..], &HOST, &ethertype, &bytes.concat()].concat()
}

/// An FPF frame with this header before an IPv4 packet.
fn fpf(header: &[u8]) -> Vec<u8> {
    frame(0xc000, &[header, &ipv4()])
}

fn arrival(frame: &[u8], vlan: Option<u16>) -> Arrival {
    Arrival {
        at: Instant::ZERO,
        len: frame.len() as u32,
        vlan,
        offload: Offload::NONE,
    }
}

/// The frames that leave through `wan`.
fn leave(plane: &mut Plane) -> Vec<Vec<u8>> {
    leave_at(plane, Instant::ZERO)
}

fn leave_at(plane: &mut Plane, now: Instant) -> Vec<Vec<u8>> {
    plane.step(now);
    let mut sent = Vec::new();
    plane
        .flush(WAN, |burst, _| {
            sent.extend(burst.iter().map(|frame| frame.to_vec()));
            Ok::<_, ()>(burst.len())
        })
        .unwrap();
    sent
}

/// Sends a frame in through `lan`, and returns the frames that leave through `wan`. All are accounted for.
fn through(plane: &mut Plane, frame: &[u8]) -> Vec<Vec<u8>> {
    through_vlan(plane, frame, None)
}

fn through_vlan(plane: &mut Plane, frame: &[u8], vlan: Option<u16>) -> Vec<Vec<u8>> {
    let books = |plane: &Plane| {
        let created = Fpf::stats(plane).created.packets;
        (created, plane.fates().all_ended().packets)
    };
    let before = books(plane);
    plane.receive(LAN, frame, arrival(frame, vlan));
    let sent = leave(plane);
    let after = books(plane);
    let (created, ended) = (after.0 - before.0, after.1 - before.1);
    assert_eq!(
        1 + created,
        sent.len() as u64 + ended,
        "every frame ends once"
    );
    sent
}

/// The reason for which a frame is dropped.
fn dropped(plane: &mut Plane, frame: &[u8]) -> Reason {
    let counts = |plane: &Plane| Reason::ALL.map(|r| plane.fates().ended(r).packets);
    let before = counts(plane);
    assert_eq!(through(plane, frame), Vec::<Vec<u8>>::new());
    let after = counts(plane);
    let changed = (0..Reason::COUNT).find(|n| before[*n] != after[*n]);
    Reason::ALL[changed.unwrap()]
}

#[test]
fn a_packet_is_forwarded_with_its_index_and_addresses_and_nothing_else_changed() {
    for (leaves_domain, index) in [(true, 1), (false, 0)] {
        let mut plane = plane(1500);
        Fpf::set_table(
            &mut plane,
            table(|hop| {
                let hop = Hop {
                    leaves_domain,
                    ..hop
                };
                vec![(0xa1, Rule::Forward(hop))]
            }),
        );
        let sent = through(&mut plane, &fpf(&[2, 0, 0xa1, 0xb2]));
        let mut expected = fpf(&[2, index, 0xa1, 0xb2]);
        expected[..6].copy_from_slice(&NEXT);
        expected[6..12].copy_from_slice(&mac(WAN));
        assert_eq!(sent, [expected]);
        assert_eq!(Fpf::stats(&plane).forwarded.packets, 1);
    }
}

/// The tables of a plane with another state of a neighbour behind `wan`.
fn with_neighbour(plane: &Plane, address: IpAddr, state: Option<Neighbour>) -> Arc<Tables> {
    let mut tables = plane.tables().clone();
    match state {
        Some(state) => _ = tables.neighbours.insert((2, address), state),
        None => _ = tables.neighbours.remove(&(2, address)),
    }
    Arc::new(tables)
}

#[test]
fn a_neighbour_with_an_ip_address_is_resolved_and_followed() {
    for address in ["10.0.2.7", "2001:db8:2::7"] {
        let address: IpAddr = address.parse().unwrap();
        let mut plane = plane(1500);
        Fpf::set_table(
            &mut plane,
            table(|hop| {
                let destination = Destination::Address(address);
                let hop = Hop { destination, ..hop };
                let inner = Inner::Frame(EtherType(0x88f7), hop);
                vec![(0xa1, Rule::Forward(hop)), (7, Rule::Decapsulate(inner))]
            }),
        );
        let requests = |plane: &mut Plane| plane.neighbour_requests().collect::<Vec<_>>();
        // Both packets wait, and one request is enough.
        let frames = [fpf(&[2, 0, 0xa1, 0xb2]), fpf(&[1, 0, 7])];
        for frame in &frames {
            plane.receive(LAN, frame, arrival(frame, None));
        }
        assert_eq!(leave(&mut plane), Vec::<Vec<u8>>::new());
        assert_eq!(plane.waiting().count(&(2, address)), 2);
        assert_eq!(requests(&mut plane), [NeighbourRequest::Ask((2, address))]);
        assert_eq!(plane.take_neighbours_in_use(Instant::ZERO), []);

        // They leave when the neighbour answers, although the rules have changed by then. A later packet does not wait,
        // and follows the neighbour to another MAC address.
        let mut expected = fpf(&[2, 1, 0xa1, 0xb2]);
        expected[6..12].copy_from_slice(&mac(WAN));
        let answered = |plane: &mut Plane, mac: [u8; 6]| {
            let tables = with_neighbour(plane, address, Some(Neighbour::Reachable(mac)));
            plane.set_tables(tables, Instant::ZERO);
        };
        let rules = Fpf::set_table(&mut plane, table(|_| Vec::new()));
        answered(&mut plane, [2, 7, 7, 7, 7, 7]);
        expected[..6].copy_from_slice(&[2, 7, 7, 7, 7, 7]);
        let sent = leave(&mut plane);
        assert_eq!((sent.len(), &sent[0]), (2, &expected));
        assert_eq!(sent[1][..14], [&expected[..12], &[0x88, 0xf7]].concat());
        Fpf::set_table(&mut plane, rules);
        assert_eq!(through(&mut plane, &frames[0]), [expected.clone()]);
        answered(&mut plane, [2, 8, 8, 8, 8, 8]);
        expected[..6].copy_from_slice(&[2, 8, 8, 8, 8, 8]);
        assert_eq!(through(&mut plane, &frames[0]), [expected]);
        assert_eq!(requests(&mut plane), []);
        // The kernel verifies the neighbour, as it verifies gateways.
        let used = plane.take_neighbours_in_use(Instant::ZERO);
        assert!(used.contains(&(2, address)), "{used:?}");
    }
}

#[test]
fn packets_to_a_neighbour_that_does_not_answer_are_dropped_without_an_icmp_error() {
    let address = "10.0.2.7".parse().unwrap();
    let mut plane = plane(1500);
    Fpf::set_table(
        &mut plane,
        table(|hop| {
            let destination = Destination::Address(address);
            vec![(0xa1, Rule::Forward(Hop { destination, ..hop }))]
        }),
    );
    let frame = fpf(&[2, 0, 0xa1, 0xb2]);
    for _ in 0..2 {
        plane.receive(LAN, &frame, arrival(&frame, None));
    }
    let failed = with_neighbour(&plane, address, Some(Neighbour::Failed));
    plane.set_tables(failed, Instant::ZERO);
    let ended = |plane: &Plane| plane.fates().ended(Reason::NeighbourFailed).packets;
    assert_eq!(ended(&plane), 2);
    // The neighbour may be reachable again: the next packet causes a new request, and waits no longer than an IP
    // packet.
    plane.receive(LAN, &frame, arrival(&frame, None));
    plane.step(Instant::ZERO + PATIENCE);
    assert_eq!(ended(&plane), 3);
    assert_eq!(plane.fates().all_ended().packets, 3);
    assert_eq!(leave(&mut plane), Vec::<Vec<u8>>::new());
    assert!(plane.ports().iter().all(|port| port.port.is_idle()));
}

/// Two FEs whose rules name each other would send a packet back and forth forever.
#[test]
fn a_packet_does_not_go_back_within_its_domain() {
    let back = |leaves_domain| {
        let mut plane = plane(1500);
        let mut builder = Builder::new(Domain::default());
        let hop = Hop {
            interface: builder.interface(Interface::ethernet("lan")).unwrap(),
            destination: HOST.into(),
            queue: Queue(0),
            leaves_domain,
        };
        builder.rule(None, 0xa1, Rule::Forward(hop)).unwrap();
        Fpf::set_table(&mut plane, Some(Arc::new(builder.build().unwrap())));
        plane
    };
    let frame = fpf(&[2, 0, 0xa1, 0xb2]);
    assert_eq!(dropped(&mut back(false), &frame), Reason::FpfReturn);
    let mut plane = back(true);
    plane.receive(LAN, &frame, arrival(&frame, None));
    assert_eq!(Fpf::stats(&plane).forwarded.packets, 1);
    assert_eq!(plane.fates().all_ended().packets, 0);
}

#[test]
fn fpf_ipv4_and_ipv6_go_side_by_side() {
    let mut plane = plane(1500);
    Fpf::set_table(&mut plane, table(|hop| vec![(0xa1, Rule::Forward(hop))]));
    for (ethertype, packet) in [
        (0x0800, ipv4()),
        (0x86dd, ipv6()),
        (0xc000, fpf(&[1, 0, 0xa1])[14..].to_vec()),
    ] {
        let sent = through(&mut plane, &frame(ethertype, &[&packet]));
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0][12..14], ethertype.to_be_bytes());
    }
    // Without a table, the router does not forward an FPF frame.
    Fpf::set_table(&mut plane, None);
    assert_eq!(dropped(&mut plane, &fpf(&[1, 0, 0xa1])), Reason::NotIp);
}

#[test]
fn at_the_last_element_the_ip_packet_goes_on_by_its_route() {
    let mut plane = plane(1500);
    Fpf::set_table(
        &mut plane,
        table(|_| vec![(7, Rule::Decapsulate(Inner::Ip))]),
    );
    for (packet, hops_at) in [(ipv4(), 14 + 8), (ipv6(), 14 + 7)] {
        let plain =
            |packet: &[u8]| frame(if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd }, &[packet]);
        let expected = through(&mut plane, &plain(&packet));
        assert_eq!(expected[0][hops_at], 8);
        // Index = Length; a vector without LIDs; a rule that removes the header before its end.
        for header in [&[2_u8, 2, 1, 1][..], &[0, 0], &[3, 1, 1, 7, 9]] {
            let sent = through(&mut plane, &frame(0xc000, &[header, &packet]));
            assert_eq!(sent, expected);
        }
    }
    assert_eq!(Fpf::stats(&plane).decapsulated.packets, 6);
}

#[test]
fn other_payloads_go_to_the_exit_that_the_rule_names() {
    let mut plane = plane(1500);
    Fpf::set_table(
        &mut plane,
        table(|hop| {
            let inner = Inner::Frame(EtherType(0x88f7), hop);
            vec![(7, Rule::Decapsulate(inner))]
        }),
    );
    let sent = through(&mut plane, &frame(0xc000, &[&[1, 0, 7], b"PTP sync"]));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][..12], [NEXT, mac(WAN)].concat());
    assert_eq!(sent[0][12..], [&[0x88, 0xf7], &b"PTP sync"[..]].concat());
    let nameless = frame(0xc000, &[&[1, 1, 7], b"PTP sync"]);
    assert_eq!(dropped(&mut plane, &nameless), Reason::FpfPayload);
}

#[test]
fn a_lost_packet_of_a_pair_is_repaired_and_a_new_table_keeps_the_sums() {
    let vector = |lid: u8| Vector::new(&[lid]).unwrap();
    let coded = || {
        let mut builder = Builder::new(Domain::default());
        builder.interface(Interface::ethernet("lan")).unwrap();
        let encoder = builder.processor("encoder", Function::XorEncode).unwrap();
        let decoder = builder.processor("decoder", Function::XorDecode).unwrap();
        let mut process = |lid, processor, leaves: &[u8]| {
            let leaves = leaves.iter().map(|lid| vector(*lid)).collect();
            let rule = Rule::Process(Processing { processor, leaves });
            builder.rule(None, lid, rule).unwrap();
        };
        // The second packet of each pair is lost.
        process(1, encoder, &[2, 3, 2]);
        process(2, decoder, &[4]);
        builder.rule(None, 3, Rule::Drop).unwrap();
        builder.rule(None, 4, Rule::Decapsulate(Inner::Ip)).unwrap();
        Some(Arc::new(builder.build().unwrap()))
    };
    let mut plane = plane(1500);
    Fpf::set_table(&mut plane, coded());
    let mut second = ipv4();
    second.extend([0x77; 30]);
    let total = second.len() as u16;
    second[2..4].copy_from_slice(&total.to_be_bytes());
    weir_wire::ipv4::View::new_unchecked(&mut second[..]).fill_checksum();
    let plain = |packet: &[u8]| frame(0x0800, &[packet]);
    for packet in [ipv4(), second.clone(), second, ipv4()] {
        let expected = through(&mut plane, &plain(&packet));
        assert_eq!(expected.len(), 1);
        let sent = through(&mut plane, &frame(0xc000, &[&[1, 0, 1], &packet]));
        assert_eq!(sent, expected);
        Fpf::set_table(&mut plane, coded());
    }
    let stats = Fpf::stats(&plane);
    assert_eq!((stats.repaired, stats.created.packets), (2, 2));
    assert_eq!(plane.fates().ended(Reason::FpfRule).packets, 2);

    // An unneeded parity ends here, and a processor with another function restarts.
    let mut builder = Builder::new(Domain::default());
    builder.interface(Interface::ethernet("lan")).unwrap();
    let processor = builder.processor("encoder", Function::XorDecode).unwrap();
    let leaves = [vector(4)].into();
    builder
        .rule(None, 1, Rule::Process(Processing { processor, leaves }))
        .unwrap();
    Fpf::set_table(&mut plane, Some(Arc::new(builder.build().unwrap())));
    assert_eq!(Fpf::stats(&plane).repaired, 0);
    let parity = frame(0xc000, &[&[1, 0, 1], &[2, 0, 0, 0, 0, 0, 0, 0]]);
    assert_eq!(dropped(&mut plane, &parity), Reason::FpfProcessed);
    let cut = frame(0xc000, &[&[1, 0, 1], &[2, 0]]);
    assert_eq!(dropped(&mut plane, &cut), Reason::TruncatedHeader);
}

#[test]
fn wrong_input_is_dropped_with_its_reason() {
    let mut plane = plane(100);
    Fpf::set_table(
        &mut plane,
        table(|hop| {
            vec![
                (1, Rule::Forward(hop)),
                (2, Rule::Drop),
                (3, Rule::Redirect),
            ]
        }),
    );
    for (header, reason) in [
        (&[1_u8, 2, 1][..], Reason::FpfIndex),
        (&[255, 0, 1], Reason::TruncatedHeader),
        (&[1, 0, 9], Reason::FpfUnknownLid),
        (&[1, 0, 2], Reason::FpfRule),
        (&[1, 0, 3], Reason::Redirected),
    ] {
        assert_eq!(dropped(&mut plane, &fpf(header)), reason, "{header:?}");
    }
    for len in 14..17 {
        let cut = &fpf(&[1, 0, 1])[..len];
        assert_eq!(dropped(&mut plane, cut), Reason::TruncatedHeader);
    }
    let truncated = &fpf(&[1, 1, 1])[..14 + 3 + 10];
    assert_eq!(dropped(&mut plane, truncated), Reason::TruncatedHeader);
    let long = frame(0xc000, &[&[1, 0, 1], &[0; 98]]);
    assert_eq!(dropped(&mut plane, &long), Reason::TooBig);
    let fits = frame(0xc000, &[&[1, 0, 1], &[0; 97]]);
    assert_eq!(through(&mut plane, &fits).len(), 1);
    let mut group = fpf(&[1, 0, 1]);
    group[0] |= 1;
    assert_eq!(dropped(&mut plane, &group), Reason::Multicast);
    let tagged = frame(0x8100, &[&[0, 7, 0xc0, 0, 1, 0, 1], &ipv4()]);
    assert_eq!(dropped(&mut plane, &tagged), Reason::UnknownVlan);
}

#[test]
fn a_redirected_packet_goes_to_the_control_element_whole() {
    let mut plane = plane(1500);
    Fpf::set_table(&mut plane, table(|_| vec![(3, Rule::Redirect)]));
    let frame = fpf(&[1, 0, 3]);
    assert_eq!(dropped(&mut plane, &frame), Reason::Redirected);
    let exceptions = plane.take_exceptions();
    assert_eq!(exceptions.len(), 1);
    assert_eq!(
        (exceptions[0].cause, &exceptions[0].frame),
        (Cause::Overlay, &frame)
    );
}

#[test]
fn each_leaf_has_a_copy_with_its_own_vector() {
    let mut plane = plane(1500);
    let vectors = [vec![0xa1, 0xe3, 0xd3], vec![0xa1; 200], vec![0xf2, 1]];
    let nested = [vec![0xa1, 7], vec![0xbb]];
    let rule = |vectors: &[Vec<u8>]| {
        Rule::Multicast(vectors.iter().map(|v| Vector::new(v).unwrap()).collect())
    };
    Fpf::set_table(
        &mut plane,
        table(|hop| {
            vec![
                (0xf1, rule(&vectors)),
                (0xf2, rule(&nested)),
                (0xa1, Rule::Forward(hop)),
            ]
        }),
    );
    let sent = through(&mut plane, &fpf(&[2, 1, 9, 0xf1]));
    // The leaf 0xbb has no rule.
    let found: BTreeSet<_> = sent.iter().map(|f| f[14..].to_vec()).collect();
    let expected: BTreeSet<_> = [&vectors[0], &vectors[1], &nested[0]]
        .map(|v| [&[v.len() as u8, 1], &v[..], &ipv4()].concat())
        .into();
    assert_eq!(found, expected);
    assert_eq!(plane.fates().ended(Reason::FpfUnknownLid).packets, 1);
    assert_eq!(Fpf::stats(&plane).created.packets, 3);
}

#[test]
fn copies_without_a_slot_are_dropped_and_no_slot_leaks() {
    let mut plane = plane(1500);
    let leaves = vec![Vector::new(&[0xa1]).unwrap(); SLOTS + 4];
    Fpf::set_table(
        &mut plane,
        table(|hop| {
            vec![
                (0xf1, Rule::Multicast(leaves.into())),
                (0xa1, Rule::Forward(hop)),
            ]
        }),
    );
    for n in 1..=3 {
        let sent = through(&mut plane, &fpf(&[1, 0, 0xf1]));
        assert_eq!(
            sent.len(),
            SLOTS,
            "the packet, and a copy for every other slot"
        );
        assert_eq!(plane.fates().ended(Reason::NoCopy).packets, 4 * n);
    }
}

#[test]
fn frames_of_a_vlan_come_in_and_go_out() {
    let mut plane = plane(1500);
    let mut builder = Builder::new(Domain::default());
    let [from, to] = [("lan", 7), ("wan", 9)].map(|(port, id)| {
        let interface = Interface::vlan(port, id).unwrap();
        builder.interface(interface).unwrap()
    });
    let hop = Hop {
        interface: to,
        destination: NEXT.into(),
        queue: Queue(0),
        leaves_domain: true,
    };
    builder.rule(Some(from), 1, Rule::Forward(hop)).unwrap();
    Fpf::set_table(&mut plane, Some(Arc::new(builder.build().unwrap())));
    let mut expected = fpf(&[1, 1, 1]);
    expected.splice(..12, [NEXT, mac(WAN)].concat());
    expected.splice(12..12, [0x81, 0, 0, 9]);
    let mut among_bytes = fpf(&[1, 0, 1]);
    among_bytes.splice(12..12, [0x81, 0, 0xa0, 7]);
    assert_eq!(through(&mut plane, &among_bytes), [expected.clone()]);
    let sent = through_vlan(&mut plane, &fpf(&[1, 0, 1]), Some(0xa007));
    assert_eq!(sent, [expected]);
    // The rule is for the VLAN only, and there is no other VLAN.
    assert_eq!(dropped(&mut plane, &fpf(&[1, 0, 1])), Reason::NotIp);
    among_bytes[15] = 8;
    assert_eq!(dropped(&mut plane, &among_bytes), Reason::UnknownVlan);
}

#[test]
fn a_tunnel_is_entered_and_left() {
    let (near, far) = ("10.0.2.1".parse().unwrap(), "10.9.9.9".parse().unwrap());
    let mut plane = plane(1500);
    let mut builder = Builder::new(Domain::default());
    let gre = Interface::gre(near, far).unwrap();
    let gre = gre.entered_at(vec!["lan".to_owned()]);
    let tunnel = builder.interface(gre).unwrap();
    let hop = Hop {
        interface: tunnel,
        destination: Default::default(),
        queue: Queue(0),
        leaves_domain: true,
    };
    let [_, wan] = ["lan", "wan"].map(|port| builder.interface(Interface::ethernet(port)).unwrap());
    let back = Hop {
        interface: wan,
        destination: NEXT.into(),
        ..hop
    };
    builder.rule(None, 1, Rule::Forward(hop)).unwrap();
    builder.rule(Some(tunnel), 1, Rule::Forward(back)).unwrap();
    Fpf::set_table(&mut plane, Some(Arc::new(builder.build().unwrap())));
    let sent = through(&mut plane, &fpf(&[2, 0, 1, 1]));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][..12], [NEXT, mac(WAN)].concat());
    let headers = etherparse::SlicedPacket::from_ethernet(&sent[0]).unwrap();
    assert!(headers.net.is_some());
    assert_eq!(sent[0][23], 47);
    assert_eq!(sent[0][34..38], [0, 0, 0xc0, 0]);
    assert_eq!(sent[0][38..], fpf(&[2, 1, 1, 1])[14..]);

    // In the other direction: from the far end to us.
    let mut answer = sent[0].clone();
    answer.splice(..12, [mac(LAN), HOST].concat());
    let (source, destination) = (answer[26..30].to_vec(), answer[30..34].to_vec());
    answer[26..30].copy_from_slice(&destination);
    answer[30..34].copy_from_slice(&source);
    let left = through(&mut plane, &answer);
    assert_eq!(left.len(), 1);
    assert_eq!(left[0][12..], fpf(&[2, 2, 1, 1])[12..]);
    // From another sender it is a packet to the router, and goes to the kernel.
    answer[29] ^= 1;
    answer[24..26].fill(0);
    let sum = weir_wire::checksum::internet(&answer[14..34]);
    answer[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(dropped(&mut plane, &answer), Reason::LocalDelivery);
}

/// Figure 1: the packet goes C-B-B-A; each element is a plane.
#[test]
fn three_elements_carry_a_packet_from_c_to_a() {
    let element = |lid, leaves_domain| {
        let mut plane = plane(1500);
        Fpf::set_table(
            &mut plane,
            table(|hop| {
                vec![(
                    lid,
                    Rule::Forward(Hop {
                        leaves_domain,
                        ..hop
                    }),
                )]
            }),
        );
        plane
    };
    let mut elements = [
        element(0x0b, true),
        element(0x0a, false),
        element(0x0a, true),
    ];
    let mut frame = fpf(&[2, 0, 0x0b, 0x0a]);
    let mut trace = vec![frame[15]];
    for plane in &mut elements {
        let sent = through(plane, &frame);
        assert_eq!(sent.len(), 1);
        frame.clone_from(&sent[0]);
        trace.push(frame[15]);
    }
    assert_eq!(trace, [0, 1, 1, 2]);
    let mut edge = plane(1500);
    Fpf::set_table(&mut edge, table(|_| Vec::new()));
    let sent = through(&mut edge, &frame);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][12..14], [8, 0]);
    assert_eq!(sent[0][22], 8, "one hop, at the edge");
}

#[test]
fn a_table_follows_ports_that_go() {
    let mut plane = plane(1500);
    Fpf::set_table(&mut plane, table(|hop| vec![(1, Rule::Forward(hop))]));
    plane.close_port(WAN);
    assert_eq!(dropped(&mut plane, &fpf(&[1, 0, 1])), Reason::NotAPort);
}

/// A plane that ends a tunnel from 10.9.9.9, and the paths of the packets in it. The tunnel accepts packets at these
/// ports.
fn end_of_tunnel(ports: &[&str]) -> Plane {
    let (near, far) = ("10.0.2.1".parse().unwrap(), "10.9.9.9".parse().unwrap());
    let mut plane = plane(1500);
    let mut builder = Builder::new(Domain::default());
    let ports = ports.iter().map(|port| (*port).to_owned());
    let gre = Interface::gre(near, far).unwrap();
    let tunnel = builder.interface(gre.entered_at(ports.collect())).unwrap();
    builder.end(Some(tunnel), Inner::Ip).unwrap();
    Fpf::set_table(&mut plane, Some(Arc::new(builder.build().unwrap())));
    plane
}

/// The packet at the end of its path, in the tunnel.
fn tunnelled(packet: &[u8]) -> Vec<u8> {
    let mut wrapped = Vec::new();
    let inner = [&[0, 0, 0xc0, 0, 0, 0], packet].concat();
    PacketBuilder::ipv4([10, 9, 9, 9], [10, 0, 2, 1], 9)
        .write(&mut wrapped, etherparse::IpNumber(47), &inner)
        .unwrap();
    wrapped
}

/// A packet out of a tunnel must itself be routed, while the burst is being routed.
#[test]
fn packets_out_of_tunnels_are_not_lost_in_a_burst() {
    let mut plane = end_of_tunnel(&["lan"]);
    let [plain, once] = [ipv4(), tunnelled(&ipv4())].map(|packet| frame(0x0800, &[&packet]));
    let mut burst = plane.burst(LAN);
    for frame in [&once, &plain, &once, &plain] {
        burst.receive(FrameBytes::Lent(frame), arrival(frame, None));
    }
    drop(burst);
    assert_eq!(leave(&mut plane).len(), 4);
}

/// A sender nests FPF in a tunnel to us, in FPF, in a tunnel to us, and so on. The tunnel accepts packets that leave
/// paths.
#[test]
fn headers_within_each_other_are_followed_to_a_bound() {
    let mut plane = end_of_tunnel(&["lan", "own"]);
    tunnels::add_local_port(&mut plane);
    let mut packet = ipv4();
    for depth in 1..=12 {
        packet = tunnelled(&packet);
        let frame = frame(0x0800, &[&packet]);
        match depth {
            ..=8 => assert_eq!(through(&mut plane, &frame).len(), 1, "{depth}"),
            _ => assert_eq!(dropped(&mut plane, &frame), Reason::FpfNested),
        }
    }
}

#[test]
fn fpf_frames_are_taken_at_named_interfaces_only() {
    let mut plane = plane(1500);
    let mut builder = Builder::new(Domain::default());
    builder.interface(Interface::ethernet("wan")).unwrap();
    Fpf::set_table(&mut plane, Some(Arc::new(builder.build().unwrap())));
    assert_eq!(dropped(&mut plane, &fpf(&[0, 0])), Reason::NotIp);
}

/// Packets of the filter `raw`, on these vectors.
fn encapsulation(raw: RawFilter, spread: Spread, vectors: &[(&[u8], u32)]) -> Encapsulation {
    let vectors = vectors
        .iter()
        .map(|(lids, weight)| (Vector::new(lids).unwrap(), *weight));
    let paths = Paths::new(spread, &vectors.collect::<Vec<_>>()).unwrap();
    Encapsulation {
        name: "video".to_owned(),
        row: 1,
        filter: raw.check().unwrap(),
        rule: Encapsulate {
            paths,
            timeout: None,
            session: 0,
            profile: None,
        },
    }
}

fn to(prefix: &str) -> RawFilter {
    RawFilter {
        destination: Some(prefix.parse().unwrap()),
        ..RawFilter::default()
    }
}

/// A plane whose LIDs 0x0b and 0x0c lead out through `wan`, and whose edge is this.
fn edge(mtu: u32, setup: Setup) -> Plane {
    let mut plane = plane(mtu);
    Fpf::set_table(
        &mut plane,
        table(|hop| [0x0b, 0x0c].map(|lid| (lid, Rule::Forward(hop))).to_vec()),
    );
    Fpf::set_edge(&mut plane, Some(Arc::new(setup)), Instant::ZERO);
    plane
}

fn only(encapsulation: Encapsulation) -> Setup {
    Setup {
        encapsulations: vec![encapsulation],
        ..Setup::default()
    }
}

#[test]
fn packets_that_match_get_a_header_and_the_others_follow_the_routes() {
    let video = encapsulation(to("192.0.2.0/24"), Spread::ByFlow, &[(&[0x0b, 0x0a], 1)]);
    let mut plane = edge(1500, only(video));
    let sent = through(&mut plane, &frame(0x0800, &[&ipv4()]));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][..12], [NEXT, mac(WAN)].concat());
    assert_eq!(
        sent[0][12..],
        fpf(&[2, 1, 0x0b, 0x0a])[12..],
        "byte for byte"
    );
    let sent = through(&mut plane, &frame(0x86dd, &[&ipv6()]));
    assert_eq!(sent[0][12..14], [0x86, 0xdd]);
    let inside = Fpf::encapsulations(&plane).next().unwrap();
    assert_eq!((&inside.name[..], inside.listed.hits.packets), ("video", 1));
    assert_eq!(Fpf::stats(&plane).encapsulated.packets, 1);

    // Only the edge gets another vector; counters are kept.
    let other = encapsulation(to("192.0.2.0/24"), Spread::ByFlow, &[(&[0x0c, 0x0a], 1)]);
    Fpf::set_edge(&mut plane, Some(Arc::new(only(other))), Instant::ZERO);
    let sent = through(&mut plane, &frame(0x0800, &[&ipv4()]));
    assert_eq!(sent[0][14..18], [2, 1, 0x0c, 0x0a]);
    let hits = Fpf::encapsulations(&plane).next().unwrap().listed.hits;
    assert_eq!(hits.packets, 2);
    Fpf::set_edge(&mut plane, None, Instant::ZERO);
    let sent = through(&mut plane, &frame(0x0800, &[&ipv4()]));
    assert_eq!(sent[0][12..14], [8, 0]);
}

#[test]
fn a_burst_is_parted_and_nothing_is_lost() {
    let video = encapsulation(
        to("192.0.2.0/24"),
        Spread::ByPacket,
        &[(&[0x0b], 3), (&[0x0c], 1)],
    );
    let mut plane = edge(1500, only(video));
    let frames = [frame(0x0800, &[&ipv4()]), frame(0x86dd, &[&ipv6()])];
    let mut burst = plane.burst(LAN);
    for n in 0..12 {
        let frame = &frames[usize::from(n % 3 == 2)];
        burst.receive(FrameBytes::Lent(frame), arrival(frame, None));
    }
    drop(burst);
    let sent = leave(&mut plane);
    let of = |lid| {
        sent.iter()
            .filter(|f| f[12..17] == [0xc0, 0, 1, 1, lid])
            .count()
    };
    assert_eq!((sent.len(), of(0x0b), of(0x0c)), (12, 6, 2));
}

#[test]
fn the_edge_leaves_alone_what_is_not_its_own() {
    let all = || encapsulation(to("0.0.0.0/0"), Spread::ByFlow, &[(&[0x0b], 1)]);
    let packet = |to: [u8; 4], ttl| {
        let mut packet = Vec::new();
        PacketBuilder::ipv4([10, 0, 1, 10], to, ttl)
            .udp(4000, 53)
            .write(&mut packet, b"payload")
            .unwrap();
        frame(0x0800, &[&packet])
    };
    let mut plane = edge(1500, only(all()));
    let local = dropped(&mut plane, &packet([10, 0, 2, 1], 9));
    assert_eq!(local, Reason::LocalDelivery);
    // A packet whose TTL has run out is answered, not sent on a path that does not count hops.
    let before = plane.fates().ended(Reason::TtlExpired).packets;
    plane.receive(
        LAN,
        &packet([192, 0, 2, 1], 1),
        arrival(&packet([192, 0, 2, 1], 1), None),
    );
    assert_eq!(plane.fates().ended(Reason::TtlExpired).packets, before + 1);
    leave(&mut plane);
    // A packet that leaves its path here is not sent on it again.
    let sent = through(&mut plane, &fpf(&[0, 0]));
    assert_eq!(sent[0][12..14], [8, 0]);
    // Ports that are not at the edge.
    let elsewhere = Setup {
        ports: vec!["wan".to_owned()],
        ..only(all())
    };
    Fpf::set_edge(&mut plane, Some(Arc::new(elsewhere)), Instant::ZERO);
    let sent = through(&mut plane, &packet([192, 0, 2, 1], 9));
    assert_eq!(sent[0][12..14], [8, 0]);
}

#[test]
fn packets_that_match_nothing_may_be_dropped() {
    let setup = Setup {
        no_match: NoMatch::Drop,
        ..only(encapsulation(
            to("192.0.2.1/32"),
            Spread::ByFlow,
            &[(&[0x0b], 1)],
        ))
    };
    let mut plane = edge(1500, setup);
    assert_eq!(through(&mut plane, &frame(0x0800, &[&ipv4()])).len(), 1);
    assert_eq!(
        dropped(&mut plane, &frame(0x86dd, &[&ipv6()])),
        Reason::FpfNoMatch
    );
}

#[test]
fn packets_of_other_types_get_a_header_too() {
    let raw = RawFilter {
        ethertype: Some(0x88b5),
        ..RawFilter::default()
    };
    let mut plane = edge(
        1500,
        only(encapsulation(raw, Spread::ByFlow, &[(&[0x0b, 9], 1)])),
    );
    let sent = through(&mut plane, &frame(0x88b5, &[b"not IP"]));
    assert_eq!(
        sent[0][12..],
        [&[0xc0, 0, 2, 1, 0x0b, 9][..], b"not IP"].concat()
    );
    assert_eq!(
        dropped(&mut plane, &frame(0x88b6, &[b"not IP"])),
        Reason::NotIp
    );
}

#[test]
fn several_leaves_get_a_copy_each() {
    let leaves: &[(&[u8], u32)] = &[(&[0x0b, 1], 1), (&[0x0c, 2], 1), (&[0x0b, 3], 1)];
    let tree = encapsulation(to("192.0.2.0/24"), Spread::Copies, leaves);
    let mut plane = edge(1500, only(tree));
    let sent = through(&mut plane, &frame(0x0800, &[&ipv4()]));
    let vectors: BTreeSet<_> = sent.iter().map(|f| f[16..18].to_vec()).collect();
    assert_eq!((sent.len(), vectors.len()), (3, 3));
    assert!(sent.iter().all(|f| f[18..] == ipv4()));
}

#[test]
fn the_header_counts_in_the_mtu() {
    let packet = |len: usize, may_fragment: bool| {
        let mut packet = Vec::new();
        PacketBuilder::ipv4([10, 0, 1, 10], [192, 0, 2, 1], 9)
            .udp(4000, 53)
            .write(&mut packet, &vec![7; len - 28])
            .unwrap();
        packet[6] = if may_fragment { 0 } else { 0x40 };
        packet[10..12].fill(0);
        let sum = weir_wire::checksum::internet(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        frame(0x0800, &[&packet])
    };
    let video = encapsulation(to("192.0.2.0/24"), Spread::ByFlow, &[(&[0x0b, 0x0a], 1)]);
    let mut plane = edge(1000, only(video));
    let sent = through(&mut plane, &packet(996, false));
    assert_eq!(sent[0].len(), 14 + 1000);
    plane.receive(LAN, &packet(997, false), arrival(&packet(997, false), None));
    assert_eq!(plane.fates().ended(Reason::TooBig).packets, 1);
    leave(&mut plane);
    plane.receive(LAN, &packet(997, true), arrival(&packet(997, true), None));
    let sent = leave(&mut plane);
    assert_eq!(sent.len(), 2);
    assert!(
        sent.iter()
            .all(|f| f[14..18] == [2, 1, 0x0b, 0x0a] && f.len() <= 14 + 1000)
    );
}

#[test]
fn a_profile_polices_and_a_timeout_ends() {
    let mut video = encapsulation(to("192.0.2.0/24"), Spread::ByFlow, &[(&[0x0b], 1)]);
    let police = Police::new(Rate::from_bps(8000), Bytes(1514)).unwrap();
    video.rule.profile = Some(Profile::Policed(police));
    video.rule.timeout = Some(Span::from_secs(1));
    let mut plane = edge(1500, only(video));
    let one = frame(0x0800, &[&[&ipv4()[..], &[0; 700]].concat()]);
    // Only the IP packet counts, without the bytes after it: 35 bytes and the Ethernet header.
    let passed = (0..50).filter(|_| {
        plane.receive(LAN, &one, arrival(&one, None));
        !leave(&mut plane).is_empty()
    });
    assert_eq!(passed.count(), 1514 / (14 + 35));
    assert_eq!(Fpf::encapsulations(&plane).count(), 1);
    plane.step(Instant::ZERO + Span::from_secs(3));
    assert_eq!(
        (
            Fpf::encapsulations(&plane).count(),
            Fpf::stats(&plane).expired
        ),
        (0, 1)
    );
}

#[test]
fn a_mark_goes_to_the_packet_behind_the_header() {
    let mut packet = ipv4();
    packet[1] = 2; // ECT(0)
    packet[10..12].fill(0);
    let sum = weir_wire::checksum::internet(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut bytes = frame(0xc000, &[&[1, 0, 0x0b], &packet]);
    let [outer, inner] = [
        headers::peek(&bytes),
        weir_fpf_path::payload::peek_behind(&bytes, 14),
    ];
    assert!(!mark_congestion(&mut bytes, &outer));
    assert!(mark_congestion(&mut bytes, &inner));
    assert_eq!(bytes[18], 3);
    assert!(weir_wire::checksum::is_right(&bytes[17..37]));
}

/// A class whose flows follow this vector.
fn class(name: &str, vector: &[u8]) -> FlowClass {
    FlowClass {
        name: name.to_owned(),
        criteria: name.to_owned(),
        rule: Encapsulate {
            paths: Paths::single(Vector::new(vector).unwrap()),
            timeout: Some(Span::from_secs(60)),
            session: 0,
            profile: None,
        },
    }
}

/// A plane like [`edge`], and its setup with these classes.
fn with_classes(
    classes: Vec<FlowClass>,
    encapsulations: Vec<Encapsulation>,
) -> (Plane, Arc<Setup>) {
    let setup = Arc::new(Setup {
        classes,
        encapsulations,
        flows_max: 100,
        ..Setup::default()
    });
    let mut plane = edge(1500, Setup::default());
    Fpf::set_edge(&mut plane, Some(Arc::clone(&setup)), Instant::ZERO);
    (plane, setup)
}

/// Decides that the flows of all copies are of a class; returns how many copies there were.
fn decide(plane: &mut Plane, setup: &Arc<Setup>, class: Option<u16>, is_watched: bool) -> usize {
    let copies = Fpf::take_copies(plane, Copies::default(), 7);
    let decisions = copies.iter().map(|(copy, _)| Decision {
        key: copy.key,
        hash: copy.hash,
        class,
        is_watched,
    });
    let decisions: Vec<_> = decisions.collect();
    Fpf::decide(plane, setup, &decisions, Instant::ZERO);
    decisions.len()
}

fn tcp(from: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    PacketBuilder::ipv4([10, 0, 1, 10], [192, 0, 2, 1], 9)
        .tcp(from, 443, 7, 1000)
        .write(&mut packet, payload)
        .unwrap();
    frame(0x0800, &[&packet])
}

/// Whether a frame leaves with this FPF header, or without a header.
fn leaves_with(plane: &mut Plane, frame: &[u8], header: Option<&[u8]>) -> bool {
    let sent = through(plane, frame);
    let ethertype = [sent[0][12], sent[0][13]];
    match header {
        Some(header) => ethertype == [0xc0, 0] && sent[0][14..].starts_with(header),
        None => ethertype == [8, 0] || ethertype == [0x86, 0xdd],
    }
}

#[test]
fn the_first_packets_of_a_flow_follow_the_routes_and_the_others_its_class() {
    let (mut plane, setup) = with_classes(vec![class("video", &[0x0b, 0x0a])], Vec::new());
    for one in [
        frame(0x0800, &[&ipv4()]),
        frame(0x86dd, &[&ipv6()]),
        tcp(4000, b"hello"),
    ] {
        assert!(leaves_with(&mut plane, &one, None));
        assert!(plane.announce_overlay() && !plane.announce_overlay());
        let copies = Fpf::take_copies(&mut plane, Copies::default(), 7);
        let (copy, bytes) = copies.iter().next().unwrap();
        assert!(one.ends_with(bytes) && bytes.starts_with(&4000_u16.to_be_bytes()));
        assert_eq!((copy.key.source_port, copy.at), (4000, Instant::ZERO));
        assert!(!plane.announce_overlay());

        assert!(leaves_with(&mut plane, &one, None), "not decided");
        assert_eq!(decide(&mut plane, &setup, Some(0), false), 1);
        assert!(leaves_with(&mut plane, &one, Some(&[2, 1, 0x0b, 0x0a])));
        assert_eq!(decide(&mut plane, &setup, Some(0), false), 0, "decided");
    }
    let video = Fpf::classes(&plane).next().unwrap();
    assert_eq!(
        (&video.name[..], video.flows, video.classified),
        ("video", 3, 3)
    );
    assert_eq!(video.hits.packets, 3);
    let stats = Fpf::stats(&plane).classes;
    assert_eq!((stats.copied, stats.followed), (6, 7));
}

#[test]
fn only_what_can_tell_a_class_is_copied_and_only_as_long_as_it_is_wanted() {
    let (mut plane, setup) = with_classes(
        vec![class("video", &[0x0b]), class("voice", &[0x0c])],
        Vec::new(),
    );
    let mut icmp = Vec::new();
    PacketBuilder::ipv4([10, 0, 1, 10], [192, 0, 2, 1], 9)
        .icmpv4_echo_request(1, 1)
        .write(&mut icmp, b"hello")
        .unwrap();
    let mut own = Vec::new();
    PacketBuilder::ipv4([10, 0, 1, 10], [10, 0, 2, 1], 9)
        .udp(4000, 53)
        .write(&mut own, b"for the router")
        .unwrap();
    let own = frame(0x0800, &[&own]);
    plane.receive(LAN, &own, arrival(&own, None));
    leave(&mut plane);
    for one in [tcp(4000, b""), frame(0x0800, &[&icmp])] {
        assert!(leaves_with(&mut plane, &one, None));
    }
    assert_eq!(decide(&mut plane, &setup, None, false), 0);

    // A flow without a class.
    let udp = frame(0x0800, &[&ipv4()]);
    through(&mut plane, &udp);
    assert_eq!(decide(&mut plane, &setup, None, false), 1);
    through(&mut plane, &udp);
    assert_eq!(decide(&mut plane, &setup, None, false), 0);
    // A class that may not be final.
    let hello = tcp(4001, b"hello");
    through(&mut plane, &hello);
    decide(&mut plane, &setup, Some(1), true);
    assert!(leaves_with(&mut plane, &hello, Some(&[1, 1, 0x0c])));
    assert_eq!(decide(&mut plane, &setup, Some(0), false), 1);
    assert!(leaves_with(&mut plane, &hello, Some(&[1, 1, 0x0b])));
    assert_eq!(decide(&mut plane, &setup, None, false), 0);
    // Copies also end without an answer of the classifier.
    let silent = (0..1000).filter(|_| {
        through(&mut plane, &tcp(4002, b"silent"));
        !Fpf::take_copies(&mut plane, Copies::default(), 7).is_empty()
    });
    assert_eq!(silent.count(), 128);
}

#[test]
fn a_packet_goes_on_when_its_copy_is_lost() {
    let (mut plane, setup) = with_classes(vec![class("video", &[0x0b])], Vec::new());
    for port in 0..COPIES_MAX as u16 + 10 {
        assert!(leaves_with(&mut plane, &tcp(1 + port, b"hello"), None));
    }
    let stats = Fpf::stats(&plane).classes;
    assert_eq!((stats.copied, stats.lost), (COPIES_MAX as u64, 10));
    assert_eq!(decide(&mut plane, &setup, Some(0), false), COPIES_MAX);
    let flows = Fpf::classes(&plane).next().unwrap().flows;
    assert_eq!(
        (flows, Fpf::stats(&plane).classes.ended.refused),
        (100, COPIES_MAX as u64 - 100)
    );
}

#[test]
fn an_encapsulation_comes_before_a_class_and_others_stay_when_one_changes() {
    let video = || encapsulation(to("192.0.2.0/24"), Spread::ByFlow, &[(&[0x0b, 9], 1)]);
    let udp = frame(0x0800, &[&ipv4()]);
    let (mut plane, old) = with_classes(vec![class("voice", &[0x0c])], Vec::new());
    through(&mut plane, &udp);
    decide(&mut plane, &old, Some(0), false);
    assert!(leaves_with(&mut plane, &udp, Some(&[1, 1, 0x0c])));
    let setup = |classes, encapsulations| {
        Arc::new(Setup {
            classes,
            encapsulations,
            flows_max: 100,
            ..Setup::default()
        })
    };
    let both = setup(vec![class("voice", &[0x0c])], vec![video()]);
    Fpf::set_edge(&mut plane, Some(Arc::clone(&both)), Instant::ZERO);
    assert!(leaves_with(&mut plane, &udp, Some(&[2, 1, 0x0b, 9])));
    // The flow keeps its rule meanwhile.
    let voice = setup(vec![class("voice", &[0x0b])], Vec::new());
    Fpf::set_edge(&mut plane, Some(Arc::clone(&voice)), Instant::ZERO);
    assert!(leaves_with(&mut plane, &udp, Some(&[1, 1, 0x0b])));
    // Decisions for classes that are no longer active are ignored.
    let hello = tcp(4000, b"hello");
    through(&mut plane, &hello);
    assert_eq!(decide(&mut plane, &both, Some(0), false), 1);
    assert!(leaves_with(&mut plane, &hello, None));
    assert_eq!(decide(&mut plane, &voice, Some(0), false), 1);
    assert!(leaves_with(&mut plane, &hello, Some(&[1, 1, 0x0b])));
    // Without classes nothing is copied.
    Fpf::set_edge(&mut plane, None, Instant::ZERO);
    assert!(leaves_with(&mut plane, &tcp(4003, b"hello"), None));
    assert!(!plane.announce_overlay());
    assert_eq!(Fpf::classes(&plane).count(), 0);
}

/// An edge with one encapsulation for 192.0.2.0/24, whose packets leave at one in 100 microseconds; at most three wait.
fn shaped(lid: u8) -> Setup {
    let mut video = encapsulation(to("192.0.2.0/24"), Spread::ByFlow, &[(&[lid], 1)]);
    let bytes = frame(0x0800, &[&ipv4()]).len() as u64;
    let shape = Shape::new(Rate::from_bps(bytes * 8 * 10_000), 3).unwrap();
    video.rule.profile = Some(Profile::Shaped(shape));
    only(video)
}

#[test]
fn a_shaped_path_sends_at_its_rate_and_its_books_balance() {
    let mut plane = edge(1500, shaped(0x0b));
    let plain = frame(0x0800, &[&ipv4()]);
    for _ in 0..5 {
        plane.receive(LAN, &plain, arrival(&plain, None));
    }
    let other = frame(0x86dd, &[&ipv6()]);
    plane.receive(LAN, &other, arrival(&other, None));
    let after = |micros| Instant::ZERO + Span::from_micros(micros);
    // A packet without a profile does not wait.
    let sent = leave(&mut plane);
    assert_eq!(sent.len(), 2, "the first of them, and the one of IPv6");
    assert_eq!(plane.step(after(99)), Some(after(100)));
    assert_eq!(leave_at(&mut plane, after(99)).len(), 0);
    let sent = leave_at(&mut plane, after(100));
    assert_eq!(
        (sent.len(), &sent[0][12..17]),
        (1, &[0xc0, 0, 1, 1, 0x0b][..])
    );
    let in_force = Fpf::encapsulations(&plane).next().unwrap();
    let QueueCounters {
        received,
        sent,
        dropped,
        waiting,
    } = in_force.queue;
    assert_eq!(
        [received, sent, dropped, waiting].map(|tally| tally.packets),
        [5, 2, 2, 1]
    );
    assert_eq!(in_force.listed.hits, sent);
    assert_eq!(plane.fates().ended(Reason::FpfQueueFull), dropped);
    assert_eq!(plane.fates().all_ended(), dropped);
    assert_eq!(leave_at(&mut plane, after(200)).len(), 1);
}

#[test]
fn packets_that_wait_for_their_rate_follow_the_rules_as_they_are_then() {
    let plain = frame(0x0800, &[&ipv4()]);
    let after = |micros| Instant::ZERO + Span::from_micros(micros);
    let waiting = || {
        let mut plane = edge(1500, shaped(0x0b));
        for _ in 0..3 {
            plane.receive(LAN, &plain, arrival(&plain, None));
        }
        assert_eq!(leave(&mut plane).len(), 1);
        plane
    };
    let set = |plane: &mut Plane, setup| Fpf::set_edge(plane, setup, Instant::ZERO);
    let ended = |plane: &Plane| plane.fates().all_ended().packets;
    // Another vector.
    let mut plane = waiting();
    set(&mut plane, Some(Arc::new(shaped(0x0c))));
    let sent = leave_at(&mut plane, after(100));
    assert_eq!(sent[0][12..17], [0xc0, 0, 1, 1, 0x0c]);
    assert_eq!(leave_at(&mut plane, after(200)).len(), 1);
    // Another encapsulation has taken the row: the packet follows the routes, at the old rate.
    let mut plane = waiting();
    let other = encapsulation(to("198.51.100.0/24"), Spread::ByFlow, &[(&[0x0b], 1)]);
    set(&mut plane, Some(Arc::new(only(other))));
    assert_eq!(leave_at(&mut plane, after(99)).len(), 0);
    assert_eq!(leave_at(&mut plane, after(100))[0][12..14], [8, 0]);
    assert_eq!(leave_at(&mut plane, after(200)).len(), 1);
    // The edge was removed: at once.
    let mut plane = waiting();
    set(&mut plane, None);
    assert_eq!(leave(&mut plane).len(), 2);
    assert_eq!(ended(&plane), 0);
    // Their port was removed, or the whole router stops.
    let mut plane = waiting();
    plane.remove_port(LAN, Reason::Reconfigured);
    plane.step(after(100));
    assert_eq!(plane.fates().ended(Reason::Reconfigured).packets, 1);
    plane.shut_down();
    assert_eq!(plane.fates().ended(Reason::Shutdown).packets, 1);
    assert_eq!(ended(&plane), 2);
}

//! Segments between two planes: a near plane that cuts, and a far plane that reassembles.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use weir_fpf_path::Fpf;
use weir_fpf_path::forwarder::Stats;
use weir_fpf_path::process::reassemble::{PACKETS_MAX, TIMEOUT};

/// LIDs: the rule that cuts, the hop through `wan`, the rule that reassembles.
const CUT: u8 = 0x5e;
const HOP: u8 = 0x0b;
const JOIN: u8 = 0x5f;

/// A table whose rules process packets, and whose LID [`HOP`] leads to the next FE.
fn processing() -> Option<Arc<Table>> {
    let mut builder = Builder::new(Domain::default());
    builder.interface(Interface::ethernet("lan")).unwrap();
    let wan = builder.interface(Interface::ethernet("wan")).unwrap();
    let hop = Hop {
        interface: wan,
        destination: NEXT.into(),
        queue: Queue(0),
        leaves_domain: true,
    };
    for (lid, function) in [(CUT, Function::Segment), (JOIN, Function::Reassemble)] {
        let processor = builder.processor(&lid.to_string(), function).unwrap();
        let leaves = [].into();
        let rule = Rule::Process(Processing { processor, leaves });
        builder.rule(None, lid.into(), rule).unwrap();
    }
    builder.rule(None, HOP.into(), Rule::Forward(hop)).unwrap();
    Some(Arc::new(builder.build().unwrap()))
}

/// A plane with this table, whose `wan` has an MTU.
fn element(mtu: u32) -> Plane {
    let mut plane = plane(mtu);
    Fpf::set_table(&mut plane, processing());
    plane
}

/// An IPv4 packet that must not be fragmented, with this number of bytes.
fn long(bytes: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let payload: Vec<u8> = (0..bytes - 28).map(|n| (n / 3) as u8).collect();
    PacketBuilder::ipv4([10, 0, 1, 10], [192, 0, 2, 1], 9)
        .udp(4000, 53)
        .write(&mut packet, &payload)
        .unwrap();
    packet[6] = 0x40;
    weir_wire::ipv4::View::new_unchecked(&mut packet[..]).fill_checksum();
    packet
}

fn cut(near: &mut Plane, packet: &[u8], after: &[u8]) -> Vec<Vec<u8>> {
    let vector = [&[CUT, HOP, JOIN], after].concat();
    let header = [&[vector.len() as u8, 0], &vector[..]].concat();
    through(near, &frame(0xc000, &[&header, packet]))
}

#[test]
fn long_packets_cross_a_short_link_whole() {
    let (mut near, mut far) = (element(1500), element(1500));
    for len in [28, 1490, 1491, 1492, 1500] {
        let packet = long(len);
        let segments = cut(&mut near, &packet, &[]);
        assert_eq!(segments.len(), if len > 1500 - 5 - 4 { 2 } else { 1 });
        assert!(segments.iter().all(|frame| frame.len() <= 1514));
        // Each has all of the vector, and the LID of the far end is the next one.
        assert!(
            segments
                .iter()
                .all(|frame| frame[14..19] == [3, 2, CUT, HOP, JOIN])
        );
        let expected = through(&mut plane(1500), &frame(0x0800, &[&packet]));
        let mut out = Vec::new();
        for segment in segments.iter().rev() {
            out.extend(through(&mut far, segment));
        }
        assert_eq!(out, expected, "{len}");
    }
    let stats = Fpf::stats(&near);
    assert_eq!((stats.segmented, stats.created.packets), (2, 2));
    assert_eq!(Fpf::stats(&far).reassembled, 2);
    assert_eq!(far.fates().ended(Reason::FpfSegment).packets, 2);
    assert_eq!(far.fates().all_ended().packets, 2);
}

#[test]
fn after_the_far_end_the_rest_of_the_vector_counts_whatever_the_payload_is() {
    let (mut near, mut far) = (element(300), element(1500));
    let payload: Vec<u8> = (0..1400).map(|n| (n % 251) as u8).collect();
    let segments = cut(&mut near, &payload, &[HOP, 7, 7]);
    assert_eq!(segments.len(), 6);
    let out: Vec<_> = segments.iter().flat_map(|s| through(&mut far, s)).collect();
    assert_eq!(out.len(), 1);
    let header = [6, 4, CUT, HOP, JOIN, HOP, 7, 7];
    assert_eq!(out[0][14..], [&header[..], &payload].concat());
    // A packet for more segments than permitted, and a vector that ends too early.
    let mut tiny = element(30);
    assert_eq!(
        dropped(&mut tiny, &frame(0xc000, &[&[2, 0, CUT, HOP], &payload])),
        Reason::TooBig
    );
    let ends = frame(0xc000, &[&[1, 0, CUT], &long(100)]);
    assert_eq!(dropped(&mut near, &ends), Reason::FpfPayload);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any payload, MTU and order; a lost packet is lost as a whole, and is counted.
    #[test]
    fn what_is_not_lost_comes_out_identical(
        payloads in vec(vec(any::<u8>(), 1..1490), 1..5),
        mtu in 150_u32..1600,
        lost in any::<prop::sample::Index>(),
        loses: bool,
        order in vec(any::<prop::sample::Index>(), 64),
    ) {
        let (mut near, mut far) = (element(mtu), element(1500));
        let mut segments: Vec<(usize, Vec<u8>)> = Vec::new();
        for (n, payload) in payloads.iter().enumerate() {
            segments.extend(cut(&mut near, payload, &[HOP]).into_iter().map(|s| (n, s)));
        }
        let lost = loses.then(|| segments.remove(lost.index(segments.len())).0);
        if !segments.is_empty() {
            for (n, to) in order.iter().enumerate() {
                let (from, to) = (n % segments.len(), to.index(segments.len()));
                segments.swap(from, to);
            }
        }
        let is_left = segments.iter().any(|(n, _)| Some(*n) == lost);
        let mut out: Vec<_> = segments.iter().flat_map(|(_, s)| through(&mut far, s)).collect();
        far.step(Instant::ZERO + TIMEOUT);
        prop_assert_eq!(far.fates().ended(Reason::FpfIncomplete).packets, u64::from(is_left));
        let header = [4, 4, CUT, HOP, JOIN, HOP];
        out.iter_mut().for_each(|frame| _ = frame.drain(..14));
        out.sort();
        let expected = payloads.iter().enumerate().filter(|(n, _)| Some(*n) != lost);
        let mut expected: Vec<_> = expected.map(|(_, p)| [&header[..], p].concat()).collect();
        expected.sort();
        prop_assert_eq!(out, expected);
    }
}

#[test]
fn a_packet_that_was_not_cut_can_be_marked_and_a_part_cannot() {
    let mut near = element(1500);
    for (len, is_ip) in [(28, true), (1491, true), (1492, false)] {
        let mut packet = long(len);
        packet[1] = 2; // ECT(0)
        weir_wire::ipv4::View::new_unchecked(&mut packet[..]).fill_checksum();
        for mut segment in cut(&mut near, &packet, &[]) {
            let headers = weir_fpf_path::payload::peek_behind(&segment, 14);
            let marked = mark_congestion(&mut segment, &headers);
            assert_eq!(marked, is_ip, "{len}");
            if is_ip {
                assert_eq!(segment[24], 3);
                assert!(weir_wire::checksum::is_right(&segment[23..43]));
            }
        }
    }
}

#[test]
fn queues_keep_each_flow_in_order_and_tell_flows_apart() {
    let mut near = element(1500);
    let link = Link {
        rate: Some(Rate::from_mbps(10)),
        framing: weir_base::Framing::ETHERNET,
        frame_bytes_max: 1518,
    };
    near.reconfigure_port(WAN, Spec::check("drr", []).unwrap(), link, Instant::ZERO);
    // Six long packets of a flow, a short one, and a short one of another flow.
    let mut packets = vec![long(1500); 6];
    packets.extend([long(100), long(100)]);
    packets[7][21] ^= 1; // the source port
    for packet in &packets {
        let frame = frame(0xc000, &[&[3, 0, CUT, HOP, JOIN], packet]);
        near.receive(LAN, &frame, arrival(&frame, None));
    }
    let mut lens = Vec::new();
    for milli in 0..20 {
        let sent = leave_at(&mut near, Instant::from_nanos(milli * 1_000_000));
        lens.extend(
            sent.iter()
                .map(|frame| (frame.len(), frame[14 + 5 + 4 + 21])),
        );
    }
    assert_eq!(lens.len(), 14);
    let short = 14 + 5 + 4 + 100;
    let place = |port: u8| lens.iter().position(|sent| *sent == (short, port)).unwrap();
    assert_eq!(place(packets[6][21]), 13, "the last of its flow");
    assert!(
        place(packets[7][21]) < 4,
        "it waits for no other flow: {lens:?}"
    );
}

/// The counts of a plane: created, incomplete, and all that ended.
fn books(plane: &Plane) -> [u64; 3] {
    let Stats { created, .. } = Fpf::stats(plane);
    let fates = plane.fates();
    let incomplete = fates.ended(Reason::FpfIncomplete);
    [created, incomplete, fates.all_ended()].map(|tally| tally.packets)
}

#[test]
fn packets_are_given_up_by_time_and_number_and_when_their_rule_goes() {
    let (mut near, mut far) = (element(1500), element(1500));
    let firsts = |near: &mut Plane, n: usize| -> Vec<Vec<u8>> {
        let first = |_| cut(near, &long(1500), &[]).remove(0);
        (0..n).map(first).collect()
    };
    for first in firsts(&mut near, PACKETS_MAX) {
        assert_eq!(dropped(&mut far, &first), Reason::FpfSegment);
    }
    let held = PACKETS_MAX as u64;
    assert_eq!(books(&far), [0, 0, held]);
    let one_more = firsts(&mut near, 1).remove(0);
    let arrival = arrival(&one_more, None);
    far.receive(LAN, &one_more, arrival);
    assert_eq!(books(&far), [1, 1, held + 2]);
    // Another table with the rule keeps them.
    Fpf::set_table(&mut far, processing());
    let before = Instant::from_nanos(TIMEOUT.as_nanos() - 1);
    assert_eq!(far.step(before), Some(Instant::ZERO + TIMEOUT));
    assert_eq!(books(&far), [1, 1, held + 2]);
    assert_eq!(far.step(Instant::ZERO + TIMEOUT), None);
    assert_eq!(books(&far), [held + 1, held + 1, 2 * held + 2]);
    // A table without the rule, and a router that stops, give them up.
    far = element(1500);
    far.receive(LAN, &one_more, arrival);
    Fpf::set_table(&mut far, table(|_| Vec::new()));
    assert_eq!(books(&far), [1, 1, 2]);
    far = element(1500);
    far.receive(LAN, &one_more, arrival);
    far.shut_down();
    assert_eq!(books(&far), [1, 1, 2]);
}

#[test]
fn at_the_edge_the_mtu_of_a_path_that_cuts_does_not_count() {
    let to_far = |vector: &[u8]| {
        let all = encapsulation(to("192.0.2.0/24"), Spread::ByFlow, &[(vector, 1)]);
        let mut plane = element(1500);
        Fpf::set_edge(&mut plane, Some(Arc::new(only(all))), Instant::ZERO);
        plane
    };
    let packet = frame(0x0800, &[&long(1500)]);
    let mut uncut = to_far(&[HOP, JOIN]);
    uncut.receive(LAN, &packet, arrival(&packet, None));
    assert_eq!(uncut.fates().ended(Reason::TooBig).packets, 1);
    assert_eq!(through(&mut to_far(&[CUT, HOP, JOIN]), &packet).len(), 2);
    // A TCP connection keeps its segment size.
    let mut syn = Vec::new();
    PacketBuilder::ipv4([10, 0, 1, 10], [192, 0, 2, 1], 9)
        .tcp(4000, 80, 1, 64000)
        .syn()
        .options(&[etherparse::TcpOptionElement::MaximumSegmentSize(1460)])
        .unwrap()
        .write(&mut syn, &[])
        .unwrap();
    let sent = through(&mut to_far(&[CUT, HOP, JOIN]), &frame(0x0800, &[&syn]));
    let behind = &sent[0][14 + 5 + 4..];
    assert_eq!(behind[40..44], [2, 4, 0x05, 0xb4], "1460");
}

#[test]
fn a_leaf_that_leads_on_through_a_processor_is_followed_to_a_loop() {
    let mut builder = Builder::new(Domain::default());
    let processor = builder.processor("cut", Function::Segment).unwrap();
    let leaves = [].into();
    let rule = Rule::Process(Processing { processor, leaves });
    builder.rule(None, CUT.into(), rule).unwrap();
    let leaves = [[CUT, 1, 1]].map(|leaf| Vector::new(&leaf).unwrap()).into();
    builder.rule(None, 1, Rule::Multicast(leaves)).unwrap();
    assert_eq!(
        builder.build().unwrap_err().to_string(),
        "the multicast rule of LID 0x1 leads back to itself: its packets would be copied forever"
    );
    // A sender's vector that names the rule repeatedly comes to its end.
    let mut plane = element(1500);
    let many = frame(0xc000, &[&[20, 0], &[CUT; 20], &long(100)]);
    assert_eq!(dropped(&mut plane, &many), Reason::FpfNested);
}

#[test]
fn frames_of_another_type_cross_a_short_link_too() {
    let raw = RawFilter {
        ethertype: Some(0x88b5),
        ..RawFilter::default()
    };
    let all = encapsulation(raw, Spread::ByFlow, &[(&[CUT, HOP, JOIN], 1)]);
    let mut near = element(1500);
    Fpf::set_edge(&mut near, Some(Arc::new(only(all))), Instant::ZERO);
    let (mut builder, hop) = builder();
    let processor = builder.processor("join", Function::Reassemble).unwrap();
    let leaves = [].into();
    let join = Rule::Process(Processing { processor, leaves });
    builder.rule(None, JOIN.into(), join).unwrap();
    let end = Inner::Frame(EtherType(0x88b5), hop);
    builder.end(None, end).unwrap();
    let mut far = plane(1500);
    Fpf::set_table(&mut far, Some(Arc::new(builder.build().unwrap())));
    for len in [1, 1491, 1492, 1500] {
        let payload = vec![0xe1; len];
        let segments = through(&mut near, &frame(0x88b5, &[&payload]));
        assert_eq!(segments.len(), 1 + usize::from(len > 1491));
        let out: Vec<_> = segments.iter().flat_map(|s| through(&mut far, s)).collect();
        assert_eq!(out.len(), 1);
        assert_eq!(out[0][12..], [&[0x88, 0xb5], &payload[..]].concat());
    }
}

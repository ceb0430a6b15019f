use etherparse::{Icmpv4Type, Icmpv6Slice, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::collection::vec;
use proptest::prelude::*;
use weir_base::Span;
use weir_protocol::wire::Ilv;

use super::*;

const NOW: Instant = Instant::from_nanos(5_000_000_000);
const PORT_MAC: Mac = [2, 0, 0, 0, 0, 1];
const HOST_MAC: Mac = [2, 0, 0, 0, 0, 2];
const OWN: [u8; 4] = [10, 0, 1, 1];
const HOST: [u8; 4] = [10, 0, 1, 10];
const OWN_V6: &str = "2001:db8:1::1";
const HOST_V6: &str = "2001:db8:1::10";

fn ports(tap: bool) -> Vec<RemotePort> {
    let addresses = vec![
        "fe80::1".parse().unwrap(),
        OWN.into(),
        OWN_V6.parse().unwrap(),
    ];
    let port = RemotePort {
        instance: 7,
        mac: PORT_MAC,
        addresses,
        tap,
    };
    let bare = RemotePort {
        instance: 8,
        addresses: Vec::new(),
        ..port.clone()
    };
    vec![bare, port]
}

fn v6(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().unwrap().octets()
}

fn udp() -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST_MAC, PORT_MAC)
        .ipv4(HOST, [192, 0, 2, 1], 1)
        .udp(5000, 53)
        .write(&mut frame, &[7; 100])
        .unwrap();
    frame
}

fn udp_v6() -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST_MAC, PORT_MAC)
        .ipv6(v6(HOST_V6), v6("2001:db8:9::1"), 1)
        .udp(5000, 53)
        .write(&mut frame, &[7; 100])
        .unwrap();
    frame
}

fn arp(target: [u8; 4]) -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &HOST_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    frame.extend(HOST_MAC.into_iter().chain(HOST).chain([0; 6]).chain(target));
    frame.resize(60, 0);
    frame
}

/// A neighbour solicitation with its checksum.
fn solicitation(from: &str, target: &str, mac: Option<Mac>, hops: u8) -> Vec<u8> {
    let mut body = v6(target).to_vec();
    if let Some(mac) = mac {
        body.extend([1, 1]);
        body.extend(mac);
    }
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(HOST_MAC, [0x33, 0x33, 0xff, 0, 0, 1])
        .ipv6(v6(from), v6("ff02::1:ff00:1"), hops)
        .icmpv6_raw(135, 0, [0; 4])
        .write(&mut frame, &body)
        .unwrap();
    frame
}

/// A REDIRECT in the form in which weir FEs send it.
fn redirect(id: ExceptionId, port: u32, frame: &[u8], more: &[Ilv]) -> Redirect {
    let mut metadata = vec![
        MetadataId::PhyPortId.with(&port.to_be_bytes()),
        MetadataId::DstMac.with(&frame[..6]),
        MetadataId::SrcMac.with(&frame[6..12]),
        MetadataId::EtherType.with(&frame[12..14]),
        MetadataId::ExceptionId.with(&u32::from(id).to_be_bytes()),
    ];
    metadata.extend_from_slice(more);
    Redirect::new(metadata, frame[14..].to_vec()).unwrap()
}

fn answers() -> Answers {
    Answers::new((1, 2))
}

fn handle(id: ExceptionId, port: u32, frame: &[u8], tap: bool) -> Outcome {
    answers().handle(&redirect(id, port, frame, &[]), &ports(tap), NOW)
}

/// The bytes of an answer for this output port of RedirectIn.
fn answer(outcome: Outcome, by: RedirectPort) -> Vec<u8> {
    let Outcome::Answer(answer) = outcome else {
        panic!("{outcome:?}")
    };
    let index = answer.number(MetadataId::RedirectIndex).unwrap().unwrap();
    assert_eq!(RedirectPort::from(index), by);
    if by == RedirectPort::Frame {
        assert_eq!(answer.number(MetadataId::PhyPortId), Ok(Some(7)));
    }
    answer.packet().unwrap().to_vec()
}

#[test]
fn icmp_errors_come_from_the_ports_address_and_go_by_the_routes() {
    use etherparse::icmpv4::{DestUnreachableHeader, TimeExceededCode};
    let mtu = MetadataId::Mtu.with(&1400_u32.to_be_bytes());
    let unreachable = Icmpv4Type::DestinationUnreachable;
    for (id, expected) in [
        (
            ExceptionId::BadTtl,
            Icmpv4Type::TimeExceeded(TimeExceededCode::TtlExceededInTransit),
        ),
        (
            ExceptionId::LpmLookupFailed,
            unreachable(DestUnreachableHeader::Network),
        ),
        (
            ExceptionId::NextHopLookupFailed,
            unreachable(DestUnreachableHeader::Host),
        ),
        (
            ExceptionId::FragRequired,
            unreachable(DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1400 }),
        ),
    ] {
        for port in [7, 8] {
            let redirect = redirect(id, port, &udp(), std::slice::from_ref(&mtu));
            let outcome = answers().handle(&redirect, &ports(true), NOW);
            let packet = answer(outcome, RedirectPort::Routes);
            let sliced = SlicedPacket::from_ip(&packet).unwrap();
            let Some(NetSlice::Ipv4(ip)) = &sliced.net else {
                panic!("{sliced:?}")
            };
            assert_eq!(ip.header().source(), OWN);
            assert_eq!(ip.header().destination(), HOST);
            let Some(TransportSlice::Icmpv4(icmp)) = &sliced.transport else {
                panic!("{sliced:?}")
            };
            assert_eq!(icmp.icmp_type(), expected);
            assert_eq!(icmp.payload(), &udp()[14..]);
        }
    }
}

#[test]
fn icmp_errors_of_ipv6_come_from_the_global_address() {
    let outcome = handle(ExceptionId::Ipv6HopLimitZero, 7, &udp_v6(), false);
    let packet = answer(outcome, RedirectPort::Routes);
    let sliced = SlicedPacket::from_ip(&packet).unwrap();
    let Some(NetSlice::Ipv6(ip)) = &sliced.net else {
        panic!("{sliced:?}")
    };
    assert_eq!(ip.header().source(), v6(OWN_V6));
    assert_eq!(ip.header().destination(), v6(HOST_V6));
    assert_eq!((packet[40], packet[41]), (3, 0));
}

#[test]
fn errors_are_limited_for_each_sender() {
    let mut answers = answers();
    let redirect = redirect(ExceptionId::BadTtl, 7, &udp(), &[]);
    let mut sent = 0;
    for n in 0..100_000 {
        let now = NOW + Span::from_micros(10 * n);
        let outcome = answers.handle(&redirect, &ports(false), now);
        sent += u64::from(matches!(outcome, Outcome::Answer(_)));
    }
    // 100 per second after a burst of 20, as suggested by RFC 4443, section 2.4 (f).
    assert!((119..=120).contains(&sent), "{sent}");
    let stats = answers.stats();
    assert_eq!((stats.icmp, stats.not_answered), (sent, 100_000 - sent));
}

#[test]
fn with_a_tap_the_kernel_gets_the_frame_as_it_arrived() {
    for id in [
        ExceptionId::LocalDelivery,
        ExceptionId::Neighbours,
        ExceptionId::Multicast,
        ExceptionId::RouterAlertOptions,
        ExceptionId::Other(99),
    ] {
        for frame in [udp(), arp(OWN), udp_v6()] {
            let kernel = Outcome::Kernel {
                port: 7,
                frame: frame.clone(),
            };
            assert_eq!(handle(id, 7, &frame, true), kernel);
        }
    }
    let not_for_us = Outcome::Dropped(Why::NotForUs);
    assert_eq!(
        handle(ExceptionId::LocalDelivery, 7, &udp(), false),
        not_for_us
    );
}

#[test]
fn without_a_tap_arp_for_the_ports_addresses_is_answered() {
    let outcome = handle(ExceptionId::Neighbours, 7, &arp(OWN), false);
    let frame = answer(outcome, RedirectPort::Frame);
    let mut expected = [&HOST_MAC[..], &PORT_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]].concat();
    expected.extend(PORT_MAC.into_iter().chain(OWN).chain(HOST_MAC).chain(HOST));
    assert_eq!(frame, expected);
    let not_answered = Outcome::Dropped(Why::NotAnswered);
    let mut reply = arp(OWN);
    reply[21] = 2;
    let mut announcement = arp(OWN);
    announcement[28..32].copy_from_slice(&OWN);
    let mut to_all = arp(OWN);
    to_all[22..28].fill(0xff);
    for frame in [
        arp([10, 0, 1, 2]),
        reply,
        announcement,
        to_all,
        arp(OWN)[..40].to_vec(),
    ] {
        assert_eq!(
            handle(ExceptionId::Neighbours, 7, &frame, false),
            not_answered
        );
    }
    assert_eq!(
        handle(ExceptionId::Neighbours, 8, &arp(OWN), false),
        not_answered
    );
}

#[test]
fn without_a_tap_solicitations_are_answered() {
    let probe_all = [0x33, 0x33, 0, 0, 0, 1];
    let elsewhere = [2, 0, 0, 0, 0, 9];
    for (from, mac, to, to_mac, flags) in [
        (HOST_V6, Some(elsewhere), HOST_V6, elsewhere, 0xe0),
        (HOST_V6, None, HOST_V6, HOST_MAC, 0xe0),
        ("::", None, "ff02::1", probe_all, 0xa0),
    ] {
        let asked = solicitation(from, OWN_V6, mac, 255);
        let frame = answer(
            handle(ExceptionId::Neighbours, 7, &asked, false),
            RedirectPort::Frame,
        );
        assert_eq!(frame[..6], to_mac);
        assert_eq!(frame[6..12], PORT_MAC);
        assert_eq!(
            (frame[21], &frame[22..38], &frame[38..54]),
            (255, &v6(OWN_V6)[..], &v6(to)[..])
        );
        let icmp = Icmpv6Slice::from_slice(&frame[54..]).unwrap();
        assert!(icmp.is_checksum_valid(v6(OWN_V6), v6(to)));
        assert_eq!((icmp.type_u8(), icmp.code_u8(), frame[58]), (136, 0, flags));
        assert_eq!(frame[62..78], v6(OWN_V6));
        assert_eq!(frame[78..], [&[2, 1][..], &PORT_MAC].concat());
    }
    let mut damaged = solicitation(HOST_V6, OWN_V6, None, 255);
    damaged[60] ^= 1;
    for frame in [
        damaged,
        solicitation(HOST_V6, OWN_V6, None, 254),
        solicitation(HOST_V6, "2001:db8:1::2", None, 255),
        solicitation("ff02::1", OWN_V6, None, 255),
        solicitation("::", OWN_V6, Some(HOST_MAC), 255),
        solicitation(HOST_V6, OWN_V6, Some([0xff; 6]), 255),
    ] {
        let outcome = handle(ExceptionId::Neighbours, 7, &frame, false);
        assert_eq!(outcome, Outcome::Dropped(Why::NotAnswered));
    }
}

#[test]
fn a_packet_without_its_ethernet_header_is_one_for_the_port() {
    let metadata = vec![
        MetadataId::PhyPortId.with(&[0, 0, 0, 7]),
        MetadataId::ExceptionId.with(&[0; 4]),
    ];
    let redirect = Redirect::new(metadata, udp()[14..].to_vec()).unwrap();
    let Outcome::Kernel { frame, .. } = answers().handle(&redirect, &ports(true), NOW) else {
        panic!("it is for the kernel")
    };
    assert_eq!(frame[..6], PORT_MAC);
    assert_eq!(frame[12..], udp()[12..]);
}

#[test]
fn a_forwarding_element_that_lies_gets_nothing() {
    let mut answers = answers();
    let mut why = |redirect: &Redirect| match answers.handle(redirect, &ports(true), NOW) {
        Outcome::Dropped(why) => why,
        outcome => panic!("{outcome:?}"),
    };
    let missing = |id| Why::Malformed(Malformed::Missing(id));
    let id = ExceptionId::FragRequired;
    assert_eq!(why(&redirect(id, 7, &udp(), &[])), missing(MetadataId::Mtu));
    assert_eq!(why(&redirect(id, 9, &udp(), &[])), Why::UnknownPort(9));
    let twice = MetadataId::SrcMac.with(&HOST_MAC);
    let error = MetadataError::Twice(MetadataId::SrcMac);
    let malformed = Why::Malformed(Malformed::Metadata(error));
    assert_eq!(why(&redirect(id, 7, &udp(), &[twice])), malformed);
    let bare = Redirect::new(vec![], udp()).unwrap();
    assert_eq!(why(&bare), missing(MetadataId::ExceptionId));
    let metadata = redirect(id, 7, &udp(), &[]).metadata().to_vec();
    let empty = Redirect::metadata_only(metadata).unwrap();
    assert_eq!(why(&empty), Why::Malformed(Malformed::NoPacket));
    assert_eq!(answers.stats().malformed, 4);
    assert_eq!(answers.stats().unknown_port, 1);
}

#[test]
fn a_frame_of_the_kernel_goes_to_the_port() {
    let redirect = to_port(7, udp()).unwrap();
    assert_eq!(
        answer(Outcome::Answer(redirect), RedirectPort::Frame),
        udp()
    );
    assert!(to_port(7, vec![0; 65_536]).is_err());
}

proptest! {
    #[test]
    fn no_packet_panics_and_no_slot_is_lost(
        packets in vec((0_u32..16, vec(any::<u8>(), 14..120)), 1..20), tap: bool,
    ) {
        let mut answers = answers();
        let mtu = MetadataId::Mtu.with(&[0; 4]);
        for (id, frame) in packets {
            let redirect = redirect(id.into(), 7, &frame, std::slice::from_ref(&mtu));
            answers.handle(&redirect, &ports(tap), NOW);
            prop_assert_eq!(answers.pool.available(), 2);
        }
    }
}

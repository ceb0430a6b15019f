//! Round trips of TCP connections that cross a port of a plane, in memory.

use etherparse::{PacketBuilder, PacketBuilderStep, TcpOptionElement, VlanId};
use std::net::IpAddr;
use weir_base::{Instant, Rate, Span, Streams};
use weir_discipline::Spec;
use weir_path::egress::port::Link;
use weir_path::link::offload::{Offload, PartialChecksum, SegmentKind, Segmentation};
use weir_path::plane::step::Arrival;
use weir_path::plane::{Mode, Plane};
use weir_path::round_trips::RoundTrip;

const LAN: usize = 0;
const WAN: usize = 1;
/// Bytes of a segment, and of its headers with timestamps.
const PAYLOAD: u32 = 1000;
const HEADERS_V4: usize = 14 + 20 + 32;

fn ms(n: u64) -> Instant {
    Instant::ZERO + Span::from_millis(n)
}

/// A bridge with a port of 10 Mbit/s whose round trips are measured.
fn plane() -> Plane {
    plane_of(Mode::Bridged, ["lan", "wan"])
}

fn plane_of(mode: Mode, interfaces: [&str; 2]) -> Plane {
    let mut plane = Plane::new(512, 1518, Streams::new(1));
    let rates = [None, Some(Rate::from_mbps(10))];
    for ((name, rate), interface) in ["lan", "wan"].into_iter().zip(rates).zip(interfaces) {
        let spec = Spec::check("fifo", []).unwrap();
        let link = Link {
            rate,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: 1518,
        };
        plane.add_port(name, interface, mode, spec, link, Instant::ZERO);
    }
    plane.measure_round_trips(WAN, true);
    plane
}

/// How the segments of a test arrive.
#[derive(Clone, Copy, Debug)]
struct Wire {
    is_v6: bool,
    is_tagged: bool,
}

const PLAIN: Wire = Wire {
    is_v6: false,
    is_tagged: false,
};

impl Wire {
    fn ip(self, [from, to]: [u8; 2]) -> PacketBuilderStep<etherparse::IpHeaders> {
        let link = PacketBuilder::ethernet2([2, 0, 0, 0, 0, from], [2, 0, 0, 0, 0, to]);
        let v6 = |n| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n];
        match (self.is_v6, self.is_tagged) {
            (false, false) => link.ipv4([192, 0, 2, from], [192, 0, 2, to], 9),
            (true, false) => link.ipv6(v6(from), v6(to), 9),
            (false, true) => {
                let tagged = link.single_vlan(VlanId::try_new(7).unwrap());
                tagged.ipv4([192, 0, 2, from], [192, 0, 2, to], 9)
            }
            (true, true) => {
                let tagged = link.single_vlan(VlanId::try_new(7).unwrap());
                tagged.ipv6(v6(from), v6(to), 9)
            }
        }
    }

    /// Data from host 1 to host 2 whose first byte has the number `n * PAYLOAD`.
    fn data(self, n: u32, timestamp: u32, payload: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        let tcp = self.ip([1, 2]).tcp(4000, 443, n * PAYLOAD, 1000).ack(7);
        let tcp = tcp.options(&[
            TcpOptionElement::Noop,
            TcpOptionElement::Noop,
            TcpOptionElement::Timestamp(timestamp, 1),
        ]);
        tcp.unwrap().write(&mut frame, &vec![0; payload]).unwrap();
        frame
    }

    /// The acknowledgment of all segments before `n`.
    fn answer(self, n: u32, echo: u32) -> Vec<u8> {
        let mut frame = Vec::new();
        let tcp = self.ip([2, 1]).tcp(443, 4000, 7, 1000).ack(n * PAYLOAD);
        let tcp = tcp.options(&[
            TcpOptionElement::Noop,
            TcpOptionElement::Noop,
            TcpOptionElement::Timestamp(1, echo),
        ]);
        tcp.unwrap().write(&mut frame, &[]).unwrap();
        frame
    }
}

fn arrival(frame: &[u8], at: Instant) -> Arrival {
    Arrival {
        at,
        len: frame.len() as u32,
        vlan: None,
        offload: Offload::NONE,
    }
}

fn receive(plane: &mut Plane, port: usize, frame: &[u8], at: Instant) {
    plane.receive(port, frame, arrival(frame, at));
}

/// Lets all ports send due frames, in each millisecond up to `until`; returns the number of frames that leave through
/// the wan.
fn run(plane: &mut Plane, from: u64, until: u64) -> usize {
    let mut count = 0;
    for at in from..=until {
        plane.step(ms(at));
        for port in [LAN, WAN] {
            let flushed = plane.flush(port, |frames, _| {
                count += if port == WAN { frames.len() } else { 0 };
                Ok::<_, ()>(frames.len())
            });
            assert_eq!(flushed, Ok(false));
        }
    }
    count
}

fn taken(plane: &mut Plane) -> Vec<RoundTrip> {
    plane.take_round_trips(WAN).collect()
}

#[test]
fn a_round_trip_begins_behind_the_queue_of_the_port() {
    for (is_v6, is_tagged) in [(false, false), (true, false), (false, true), (true, true)] {
        let wire = Wire { is_v6, is_tagged };
        let mut plane = plane();
        let mut len = 0;
        for n in 0..4 {
            let frame = wire.data(n, 50, PAYLOAD as usize);
            len = frame.len() as u64;
            receive(&mut plane, LAN, &frame, ms(0));
        }
        assert_eq!(run(&mut plane, 0, 4), 4, "paced at 10 Mbit/s");
        assert_eq!(taken(&mut plane), []);
        receive(&mut plane, WAN, &wire.answer(3, 50), ms(31));
        let found = taken(&mut plane);
        let [round_trip] = found[..] else {
            panic!("{wire:?} {found:?}")
        };
        // Each frame takes .9 ms, and the frames that the first frame's burst permits leave at once.
        let left = round_trip.at.since(ms(0));
        assert!((1_000_000..=3_000_000).contains(&left.as_nanos()), "{left}");
        assert_eq!(round_trip.at + round_trip.took, ms(31));
        assert_eq!(round_trip.sent, 2 * (len + 24), "what left before it");
        assert_eq!(taken(&mut plane), [], "once");
    }
}

#[test]
fn in_mode_queue_answers_arrive_at_the_other_port_of_the_interface() {
    for (received_at, expected) in [("eth1", 1), ("eth2", 0)] {
        let mut plane = plane_of(Mode::Queue, [received_at, "eth1"]);
        for n in 0..4 {
            let frame = PLAIN.data(n, 50, PAYLOAD as usize);
            receive(&mut plane, WAN, &frame, ms(0));
        }
        run(&mut plane, 0, 4);
        receive(&mut plane, WAN, &PLAIN.answer(3, 50), ms(30));
        assert_eq!(taken(&mut plane), [], "it also leaves");
        receive(&mut plane, LAN, &PLAIN.answer(3, 50), ms(31));
        assert_eq!(taken(&mut plane).len(), expected, "{received_at}");
    }
}

#[test]
fn what_the_kernel_sends_by_the_port_is_a_part_of_what_left_before() {
    let mut plane = plane();
    let kernels = PLAIN.data(100, 1, 500);
    plane.charge(WAN, &kernels, &arrival(&kernels, ms(0)));
    for n in 0..3 {
        let frame = PLAIN.data(n, 50, PAYLOAD as usize);
        receive(&mut plane, LAN, &frame, ms(1));
    }
    run(&mut plane, 1, 6);
    receive(&mut plane, WAN, &PLAIN.answer(1, 50), ms(20));
    let expected = kernels.len() as u64 + 24;
    assert_eq!(taken(&mut plane)[0].sent, expected);
    let all = expected + 3 * (HEADERS_V4 as u64 + u64::from(PAYLOAD) + 24);
    assert_eq!(plane.ports()[WAN].on_the_wire(), all);
}

/// Four segments in one frame, as a host with offloads sends them.
#[test]
fn the_segments_of_a_superframe_are_segments() {
    let mut plane = plane();
    let mut frame = PLAIN.data(0, 50, 4 * PAYLOAD as usize);
    let [from, to] = [1, 2].map(|n| IpAddr::from([192, 0, 2, n]));
    let len = frame.len() - 34;
    let sum = weir_wire::checksum::Sum::default();
    let sum = sum.pseudo(from, to, weir_wire::Protocol::TCP, len);
    frame[50..52].copy_from_slice(&sum.fold().to_be_bytes());
    let offload = Offload {
        checksum: Some(PartialChecksum {
            start: 34,
            offset: 16,
        }),
        segmentation: Some(Segmentation {
            kind: SegmentKind::TcpV4,
            size: PAYLOAD as u16,
        }),
    };
    let arrival = Arrival {
        offload,
        ..arrival(&frame, ms(0))
    };
    plane.receive(LAN, &frame, arrival);
    assert_eq!(run(&mut plane, 0, 5), 4);
    receive(&mut plane, WAN, &PLAIN.answer(3, 50), ms(30));
    let cost = (HEADERS_V4 as u32 + PAYLOAD + 24) as u64;
    assert_eq!(taken(&mut plane)[0].sent, 2 * cost);
}

#[test]
fn a_port_measures_only_if_it_is_wanted() {
    let exchange = |plane: &mut Plane, first: u32, at: u64| {
        for n in first..first + 3 {
            let frame = PLAIN.data(n, 50, PAYLOAD as usize);
            receive(plane, LAN, &frame, ms(at));
        }
        run(plane, at, at + 5);
        receive(plane, WAN, &PLAIN.answer(first + 1, 50), ms(at + 20));
        taken(plane).len()
    };
    let mut plane = plane();
    assert_eq!(exchange(&mut plane, 0, 0), 1);
    plane.measure_round_trips(WAN, true); // as before
    assert_eq!(exchange(&mut plane, 10, 100), 1);
    plane.measure_round_trips(WAN, false);
    assert_eq!(exchange(&mut plane, 20, 200), 0);
    plane.measure_round_trips(WAN, true);
    assert_eq!(exchange(&mut plane, 30, 300), 1);
    assert_eq!(plane.take_round_trips(LAN).count(), 0);
}

#[test]
fn round_trips_that_nobody_takes_need_no_more_memory() {
    let mut plane = plane();
    for n in 0..400 {
        let at = 2 * u64::from(n);
        let frame = PLAIN.data(n, 50, PAYLOAD as usize);
        receive(&mut plane, LAN, &frame, ms(at));
        run(&mut plane, at, at + 1);
        if n >= 2 {
            receive(&mut plane, WAN, &PLAIN.answer(n - 1, 50), ms(at + 1));
        }
    }
    assert_eq!(taken(&mut plane).len(), 64);
}

#[test]
fn frames_that_lie_give_no_round_trip() {
    let mut plane = plane();
    for n in 0..4 {
        let frame = PLAIN.data(n, 50, PAYLOAD as usize);
        receive(&mut plane, LAN, &frame, ms(0));
    }
    run(&mut plane, 0, 5);
    let echo_of_the_future = PLAIN.answer(2, 51);
    let of_what_was_never_sent = PLAIN.answer(9, 50);
    let cut = &PLAIN.answer(2, 50)[..HEADERS_V4 - 8];
    for frame in [&echo_of_the_future[..], &of_what_was_never_sent, cut] {
        receive(&mut plane, WAN, frame, ms(20));
        assert_eq!(taken(&mut plane), []);
    }
    // The same acknowledgment from the wrong side, and then the honest one.
    receive(&mut plane, LAN, &PLAIN.answer(2, 50), ms(21));
    assert_eq!(taken(&mut plane), []);
    receive(&mut plane, WAN, &PLAIN.answer(2, 50), ms(22));
    assert_eq!(taken(&mut plane).len(), 1);
}

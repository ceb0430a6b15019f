//! The packet socket between two ends of a veth pair, in a namespace.

use std::net::UdpSocket;
use std::time::Duration;

use crate::common::{eventually, in_namespace, run, succeeds};
use weir_base::Instant;
use weir_live::clock::{self, Waiter};
use weir_live::device::af_packet::{AfPacket, OUTGOING_BYTES_MAX, Options};
use weir_live::device::interface;
use weir_live::device::interface::device_gone;
use weir_live::device::{Device, Direction};
use weir_path::link::offload::{Offload, PartialChecksum};

/// A received frame, copied out.
#[derive(Clone, Debug, PartialEq)]
struct Got {
    bytes: Vec<u8>,
    len: u32,
    vlan: Option<u16>,
    direction: Direction,
    offload: Offload,
    arrived: Instant,
}

const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
/// "Local experimental Ethertype 1" of IEEE 802: the kernel sends no such frame.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

fn veth_pair() {
    run("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6");
    run(
        "ip link add x0 address 02:00:00:00:00:0a type veth peer name x1 address 02:00:00:00:00:0b",
    );
    run("ip link set x0 up && ip link set x1 up");
}

fn open(name: &str) -> AfPacket {
    AfPacket::open(name, Options::default()).unwrap()
}

fn frame(to: [u8; 6], ethertype: [u8; 2], len: usize) -> Vec<u8> {
    let mut frame = [&to[..], &MAC_A, &ethertype].concat();
    frame.extend((frame.len()..len).map(|n| n as u8));
    frame
}

fn receive(device: &mut AfPacket) -> Vec<Got> {
    let mut got = Vec::new();
    device
        .receive(1000, &mut |r| {
            got.push(Got {
                bytes: r.bytes.to_vec(),
                len: r.len,
                vlan: r.vlan,
                direction: r.direction,
                offload: r.offload,
                arrived: r.arrived,
            });
        })
        .unwrap();
    got
}

/// Waits for `count` frames.
fn await_frames(device: &mut AfPacket, count: usize) -> Vec<Got> {
    let mut got = Vec::new();
    eventually("frames", || {
        got.extend(receive(device));
        got.len() >= count
    });
    got
}

#[test]
fn frames_arrive_as_they_were_sent() {
    in_namespace(|| {
        veth_pair();
        let (mut a, mut b) = (open("x0"), open("x1"));
        assert!(a.slots() >= 4096 && a.frame_bytes_max() >= 1518);
        let before = clock::now();
        let frames = [
            frame(MAC_B, ETHERTYPE, 60),
            frame([0xff; 6], ETHERTYPE, 1514),
            frame([2, 9, 9, 9, 9, 9], ETHERTYPE, 100),
        ];
        let views: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        assert_eq!(a.transmit(&views).unwrap(), 3);
        let mut waiter = Waiter::new().unwrap();
        let limit = clock::now() + weir_base::Span::from_secs(5);
        assert!(waiter.wait(b.wait_on(), Some(limit)).unwrap().ready);
        let got = await_frames(&mut b, 3);
        let directions = [Direction::Host, Direction::Group, Direction::Other];
        let mut earlier = before;
        for ((got, sent), direction) in got.iter().zip(&frames).zip(directions) {
            assert_eq!(&got.bytes, sent);
            assert_eq!(got.len as usize, sent.len());
            assert_eq!(got.direction, direction);
            assert_eq!((got.vlan, got.offload), (None, Offload::NONE));
            assert!(got.arrived >= earlier && got.arrived <= clock::now());
            earlier = got.arrived;
        }
        assert_eq!(got.len(), 3);
        // Frames sent by this device do not come back to it.
        assert_eq!(receive(&mut a), []);
        let nothing = waiter.wait(b.wait_on(), Some(clock::now())).unwrap();
        assert!(!nothing.ready);
    });
}

#[test]
fn a_vlan_tag_comes_out_of_band() {
    in_namespace(|| {
        veth_pair();
        let (mut a, mut b) = (open("x0"), open("x1"));
        let mut tagged = frame(MAC_B, [0x81, 0x00], 64);
        tagged[14..18].copy_from_slice(&[0x60, 42, 0x88, 0xb5]);
        let mut service = frame(MAC_B, [0x88, 0xa8], 64);
        service[14..18].copy_from_slice(&[0, 43, 0x88, 0xb5]);
        let mut long = frame(MAC_B, [0x81, 0x00], 1518);
        long[14..18].copy_from_slice(&[0, 1, 0x88, 0xb5]);
        assert_eq!(a.transmit(&[&tagged, &service, &long]).unwrap(), 3);
        let got = await_frames(&mut b, 3);
        assert_eq!(got[0].vlan, Some(0x602a));
        assert_eq!(got[0].bytes, [&tagged[..12], &tagged[16..]].concat());
        assert_eq!(got[0].len, 60);
        assert_eq!(got[1].vlan, None);
        assert_eq!(got[1].bytes, service);
        assert_eq!((got[2].bytes.len(), got[2].len), (1514, 1514));
    });
}

#[test]
fn what_the_kernel_sends_is_seen_as_outgoing() {
    in_namespace(|| {
        veth_pair();
        run(
            "ip addr add 10.0.0.1/24 dev x0 && ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:0b dev x0",
        );
        let (mut a, mut b) = (open("x0"), open("x1"));
        let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
        socket.send_to(&[7; 1000], "10.0.0.2:9").unwrap();
        let out = await_frames(&mut a, 1);
        assert_eq!(out[0].direction, Direction::Outgoing);
        assert_eq!(out[0].len, 1042);
        assert_eq!(out[0].bytes.len(), OUTGOING_BYTES_MAX as usize);
        let arrived = await_frames(&mut b, 1);
        assert_eq!(arrived[0].direction, Direction::Host);
        assert_eq!(arrived[0].bytes.len(), 1042);
        // veth leaves the checksum unfinished.
        let checksum = PartialChecksum {
            start: 34,
            offset: 6,
        };
        assert_eq!(arrived[0].offload.checksum, Some(checksum));
        let ignoring = Options {
            outgoing: false,
            ..Options::default()
        };
        let mut quiet = AfPacket::open("x0", ignoring).unwrap();
        socket.send_to(&[7; 10], "10.0.0.2:9").unwrap();
        await_frames(&mut b, 1);
        assert_eq!(receive(&mut quiet), []);
    });
}

#[test]
fn a_frame_longer_than_a_slot_comes_whole() {
    in_namespace(|| {
        veth_pair();
        let small = Options {
            frame_bytes_max: Some(200),
            ..Options::default()
        };
        let mut b = AfPacket::open("x1", small).unwrap();
        let mut tagged = frame(MAC_B, [0x88, 0xa8], 1000);
        tagged[14..18].copy_from_slice(&[0, 43, 0x88, 0xb5]);
        let sent = [frame(MAC_B, ETHERTYPE, 1000), tagged];
        open("x0").transmit(&[&sent[0], &sent[1]]).unwrap();
        let got = await_frames(&mut b, 2);
        for (got, sent) in got.iter().zip(&sent) {
            assert_eq!((&got.bytes, got.len), (sent, 1000));
        }
    });
}

#[test]
fn a_full_ring_and_a_refused_frame_are_counted() {
    in_namespace(|| {
        veth_pair();
        let few = Options {
            slots: 64,
            ..Options::default()
        };
        let (mut a, mut b) = (open("x0"), AfPacket::open("x1", few).unwrap());
        let small = frame(MAC_B, ETHERTYPE, 60);
        for _ in 0..20 {
            assert_eq!(a.transmit(&[&small[..]; 50]).unwrap(), 50);
        }
        let held = b.slots() as u64;
        eventually("missed frames", || b.counters().missed == 1000 - held);
        assert_eq!(b.counters().missed, 1000 - held, "counted once");
        assert_eq!(await_frames(&mut b, held as usize).len() as u64, held);

        let long = frame(MAC_B, ETHERTYPE, 3000);
        assert_eq!(a.transmit(&[&small, &long, &small]).unwrap(), 3);
        assert_eq!(a.counters().refused, 1);
        assert_eq!(await_frames(&mut b, 2).len(), 2);
    });
}

#[test]
fn a_full_ring_counts_what_the_kernel_sends() {
    in_namespace(|| {
        veth_pair();
        run(
            "ip addr add 10.0.0.1/24 dev x0 && ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:0b dev x0",
        );
        let open = |outgoing| {
            let few = Options {
                slots: 64,
                outgoing,
                ..Options::default()
            };
            AfPacket::open("x0", few).unwrap()
        };
        let (mut all, mut quiet) = (open(true), open(false));
        let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
        for _ in 0..1000 {
            socket.send_to(&[7; 10], "10.0.0.2:9").unwrap();
        }
        let held = all.slots();
        let got = await_frames(&mut all, held);
        assert!(got.iter().all(|got| got.direction == Direction::Outgoing));
        assert_eq!(all.counters().missed, (1000 - held) as u64);
        assert_eq!(quiet.counters().missed, 0);
    });
}

#[test]
fn a_frame_that_the_far_end_never_takes_does_not_block_the_port() {
    in_namespace(|| {
        veth_pair();
        run("ip link set x1 mtu 1000");
        let (mut a, mut b) = (open("x0"), open("x1"));
        let (long, short) = (frame(MAC_B, ETHERTYPE, 1514), frame(MAC_B, ETHERTYPE, 60));
        let frames: [&[u8]; 2] = [&long, &short];
        let mut taken = 0;
        eventually("both frames taken", || {
            taken += a.transmit(&frames[taken..]).unwrap();
            taken == 2
        });
        assert_eq!(await_frames(&mut b, 1)[0].bytes, short);
    });
}

#[test]
fn a_port_that_went_away_is_recognised_and_opened_again() {
    in_namespace(|| {
        veth_pair();
        let (mut a, mut b) = (open("x0"), open("x1"));
        let small = frame(MAC_B, ETHERTYPE, 60);

        run("ip link set x0 down");
        assert!(device_gone(&a.transmit(&[&small]).unwrap_err()));
        let mut waiter = Waiter::new().unwrap();
        let error = loop {
            // The wait ends immediately, and a bounded number of calls finds the error.
            let limit = clock::now() + weir_base::Span::from_secs(2);
            assert!(waiter.wait(a.wait_on(), Some(limit)).unwrap().ready);
            if let Err(error) = a.receive(10, &mut |_| {}) {
                break error;
            }
        };
        assert!(device_gone(&error), "{error}");
        let quiet = clock::now() + weir_base::Span::from_millis(20);
        assert!(!waiter.wait(a.wait_on(), Some(quiet)).unwrap().ready);

        run("ip link set x0 up");
        eventually("carrier", || succeeds("ip link show x0 | grep -q LOWER_UP"));
        receive(&mut b);
        assert_eq!(a.transmit(&[&small]).unwrap(), 1);
        await_frames(&mut b, 1);

        run("ip link del x0");
        eventually("gone", || {
            let receives = a.receive(10, &mut |_| {});
            let transmits = a.transmit(&[&small]);
            receives.is_err_and(|e| device_gone(&e)) || transmits.is_err_and(|e| device_gone(&e))
        });
        assert!(device_gone(&a.transmit(&[&small]).unwrap_err()));
        let error = AfPacket::open("x0", Options::default()).unwrap_err();
        assert!(device_gone(&error), "{error}");

        veth_pair();
        let (mut a, mut b) = (open("x0"), open("x1"));
        assert_eq!(a.transmit(&[&small]).unwrap(), 1);
        await_frames(&mut b, 1);
    });
}

#[test]
fn an_interface_tells_its_mtu_and_becomes_promiscuous_on_request() {
    in_namespace(|| {
        veth_pair();
        run("ip link set x0 mtu 9000");
        assert_eq!(interface::mtu("x0").unwrap(), 9000);
        assert!(device_gone(&interface::mtu("nosuch").unwrap_err()));
        let promiscuous = || succeeds("ip -d link show x0 | grep -q 'promiscuity 1'");
        assert!(!promiscuous());
        let options = Options {
            promiscuous: true,
            ..Options::default()
        };
        let device = AfPacket::open("x0", options).unwrap();
        assert!(device.frame_bytes_max() >= 9018 && promiscuous());
        drop(device);
        assert!(!promiscuous());
    });
}

#[test]
fn bursts_of_any_size_keep_order() {
    in_namespace(|| {
        veth_pair();
        let (mut a, mut b) = (open("x0"), open("x1"));
        let mut frames: Vec<Vec<u8>> = Vec::new();
        for n in 0..10_000_u32 {
            let mut one = frame(MAC_B, ETHERTYPE, 60 + n as usize % 1400);
            one[14..18].copy_from_slice(&n.to_be_bytes());
            frames.push(one);
        }
        let mut got = Vec::new();
        let mut sent = 0;
        while sent < frames.len() {
            let burst = 1 + sent % 97;
            let end = frames.len().min(sent + burst);
            let views: Vec<&[u8]> = frames[sent..end].iter().map(Vec::as_slice).collect();
            sent += a.transmit(&views).unwrap();
            got.extend(receive(&mut b).into_iter().map(|g| g.bytes));
        }
        eventually("all frames", || {
            got.extend(receive(&mut b).into_iter().map(|g| g.bytes));
            got.len() == frames.len()
        });
        assert!(got == frames);
        assert_eq!(b.counters().missed, 0);
        std::thread::sleep(Duration::from_millis(1));
    });
}

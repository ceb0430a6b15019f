//! Superframes and unfinished checksums through a packet socket. The kernel's result for the same frames is the
//! reference: it segments them itself when the sending interface has its offloads switched off.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::common::{eventually, in_namespace, run};
use weir_base::Streams;
use weir_discipline::Spec;
use weir_live::clock;
use weir_live::device::Device;
use weir_live::device::af_packet::{AfPacket, Options};
use weir_live::device::injector::Injector;
use weir_path::egress::port::Link;
use weir_path::link::offload::{Offload, PartialChecksum, SegmentKind, Segmentation};
use weir_path::link::segment::Superframe;
use weir_path::plane::step::Arrival;
use weir_path::plane::{Mode, Plane};

const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];

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

/// A received frame, copied out.
type Got = (Vec<u8>, Offload);

fn await_frames(device: &mut AfPacket, count: usize) -> Vec<Got> {
    let mut got = Vec::new();
    eventually("frames", || {
        let take = &mut |r: weir_live::device::Received<'_>| {
            assert_eq!(r.bytes.len(), r.len as usize);
            got.push((r.bytes.to_vec(), r.offload));
        };
        device.receive(1000, take).unwrap();
        got.len() >= count
    });
    got
}

fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// An IP packet from 10.0.0.1 to 10.0.0.2, or from fd00::1 to fd00::2.
fn ip(v6: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut header;
    if v6 {
        header = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
        put(&mut header, 4, payload.len() as u16);
        for last in [1, 2] {
            header.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
    } else {
        header = vec![0x45, 0, 0, 0, 0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0];
        header.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        put(&mut header, 2, 20 + payload.len() as u16);
        let checksum = !sum(&header);
        put(&mut header, 10, checksum);
    }
    [&header, payload].concat()
}

fn pseudo(v6: bool, protocol: u8, len: usize) -> u16 {
    let packet = ip(v6, protocol, &[]);
    let addresses = if v6 { &packet[8..40] } else { &packet[12..20] };
    let rest = [&(len as u32).to_be_bytes()[..], &[0, protocol]].concat();
    sum(&[addresses, &rest].concat())
}

fn ethernet(packet: &[u8]) -> Vec<u8> {
    let ethertype: [u8; 2] = if packet[0] >> 4 == 6 {
        [0x86, 0xdd]
    } else {
        [0x08, 0x00]
    };
    [&MAC_B[..], &MAC_A, &ethertype, packet].concat()
}

/// A transport segment whose checksum is left to hardware.
fn transport(v6: bool, tcp: bool, payload: usize) -> Vec<u8> {
    let mut segment = vec![0x12, 0x34, 0, 80];
    if tcp {
        // FIN, PSH, ACK and CWR; sequence numbers that wrap
        segment.extend([
            0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x50, 0x99, 0x20, 0, 0, 0, 0, 0,
        ]);
    } else {
        segment.extend([0; 4]);
        put(&mut segment, 4, 8 + payload as u16);
    }
    segment.extend((0..payload).map(|n| (n / 3) as u8));
    let (at, protocol) = if tcp { (16, 6) } else { (6, 17) };
    let sum = pseudo(v6, protocol, segment.len());
    put(&mut segment, at, sum);
    segment
}

/// A superframe and its metadata.
fn superframe(kind: SegmentKind, payload: usize, size: u16) -> Got {
    let (v6, tcp) = (kind == SegmentKind::TcpV6, kind != SegmentKind::Udp);
    let packet = ip(v6, if tcp { 6 } else { 17 }, &transport(v6, tcp, payload));
    let checksum = PartialChecksum {
        start: if v6 { 54 } else { 34 },
        offset: if tcp { 16 } else { 6 },
    };
    let offload = Offload {
        checksum: Some(checksum),
        segmentation: Some(Segmentation { kind, size }),
    };
    (ethernet(&packet), offload)
}

fn cut((frame, offload): &Got) -> Vec<Vec<u8>> {
    let superframe = Superframe::new(frame, offload).unwrap();
    let segment = |n| {
        let mut segment = Vec::new();
        superframe.write(n, &mut segment);
        segment
    };
    (0..superframe.count()).map(segment).collect()
}

/// Each kind, short and long, with full segments only and with a shorter last one.
fn superframes() -> Vec<Got> {
    let kinds = [
        (SegmentKind::TcpV4, 64_000, 1460),
        (SegmentKind::TcpV4, 3000, 1448),
        (SegmentKind::TcpV6, 63_000, 1440),
        (SegmentKind::TcpV6, 2880, 1440),
        (SegmentKind::Udp, 60_000, 1000),
        (SegmentKind::Udp, 1400, 100),
    ];
    kinds
        .map(|(kind, payload, size)| superframe(kind, payload, size))
        .to_vec()
}

#[test]
fn a_superframe_arrives_whole_with_what_is_left_to_do() {
    in_namespace(|| {
        veth_pair();
        let mut b = open("x1");
        let raw = Injector::open("x0").unwrap();
        let mut sent = Vec::new();
        for superframe in superframes() {
            // Ordinary frames between them show that the order is that of the wire.
            let small = ethernet(&ip(false, 253, &[sent.len() as u8; 50]));
            raw.send(&small, &Offload::NONE).unwrap();
            raw.send(&superframe.0, &superframe.1).unwrap();
            sent.extend([(small, Offload::NONE), superframe]);
        }
        let got = await_frames(&mut b, sent.len());
        assert_eq!(got.len(), sent.len());
        for (got, sent) in got.iter().zip(&sent) {
            assert_eq!(got.1, sent.1);
            assert!(got.0 == sent.0);
        }
        assert_eq!(b.counters().missed, 0);
    });
}

#[test]
fn the_kernel_cuts_superframes_into_the_same_segments() {
    in_namespace(|| {
        veth_pair();
        run("ethtool -K x0 tso off gso off tx-udp-segmentation off tx off");
        let mut b = open("x1");
        let raw = Injector::open("x0").unwrap();
        for superframe in superframes() {
            raw.send(&superframe.0, &superframe.1).unwrap();
            let expected = cut(&superframe);
            let got = await_frames(&mut b, expected.len());
            assert_eq!(got.len(), expected.len());
            for ((frame, offload), expected) in got.iter().zip(&expected) {
                assert_eq!(*offload, Offload::NONE);
                assert_eq!(frame, expected);
            }
        }
    });
}

#[test]
fn superframes_that_find_no_place_are_counted() {
    in_namespace(|| {
        veth_pair();
        let mut b = open("x1");
        let raw = Injector::open("x0").unwrap();
        let (frame, offload) = superframe(SegmentKind::TcpV4, 64_000, 1460);
        const SENT: usize = 400; // 26 MB
        for _ in 0..SENT {
            raw.send(&frame, &offload).unwrap();
        }
        // Frames that fit a slot are not affected.
        raw.send(&ethernet(&ip(false, 253, &[1; 50])), &Offload::NONE)
            .unwrap();
        let mut came = 0;
        let mut last = 0;
        eventually("the last frame", || {
            let take = &mut |r: weir_live::device::Received<'_>| {
                came += usize::from(*r.bytes == frame);
                last = r.bytes.len();
            };
            b.receive(1000, take).unwrap();
            last == 14 + 20 + 50
        });
        assert!(came > 10, "{came} superframes had a place");
        assert_eq!(b.counters().missed as usize, SENT - came);
        // The receive buffer has room again.
        raw.send(&frame, &offload).unwrap();
        assert_eq!(await_frames(&mut b, 1)[0].0.len(), frame.len());
    });
}

#[test]
fn what_a_socket_cuts_into_datagrams_arrives_as_one() {
    in_namespace(|| {
        veth_pair();
        run("ip addr add 10.0.0.1/24 dev x0");
        run("ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:0b dev x0");
        let (mut a, mut b) = (open("x0"), open("x1"));
        let socket = UdpSocket::bind("10.0.0.1:0").unwrap();
        let (level, udp_segment, size): (_, _, libc::c_int) = (libc::IPPROTO_UDP, 103, 1000);
        // SAFETY: pointer and length describe an integer, which the kernel only reads.
        let done = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                udp_segment,
                std::ptr::from_ref(&size).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        assert_eq!(done, 0);
        socket.send_to(&[7; 4500], "10.0.0.2:9").unwrap();
        let got = await_frames(&mut b, 1);
        let lens: Vec<_> = cut(&got[0]).iter().map(Vec::len).collect();
        assert_eq!(lens, [1042, 1042, 1042, 1042, 542]);
        // The sender's side sees the first bytes, and the frame's metadata.
        let mut seen = Vec::new();
        eventually("what the kernel sent", || {
            let take = &mut |r: weir_live::device::Received<'_>| {
                seen.extend(r.offload.frame_lens(&r.bytes, r.len));
            };
            a.receive(10, take).unwrap();
            !seen.is_empty()
        });
        assert_eq!(seen, [1042, 1042, 1042, 1042, 542]);
    });
}

/// TCP in UDP and VXLAN, in IPIP, in IPv6 and in GRE, with the inner checksum left to hardware; also the offset where
/// the checksummed part begins.
fn tunnels() -> Vec<(Vec<u8>, u16)> {
    let segment = |v6| transport(v6, true, 300);
    let inner = |v6| ip(v6, 6, &segment(v6));
    let framed = ethernet(&inner(false));
    let vxlan_len = (16 + framed.len()) as u16;
    let mut udp = vec![0xab, 0xcd, 0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 42, 0];
    put(&mut udp, 4, vxlan_len);
    udp.extend_from_slice(&framed);
    let gre = [&[0, 0, 0x08, 0][..], &inner(false)].concat();
    [
        ip(false, 17, &udp),
        ip(true, 17, &udp),
        ip(false, 4, &inner(false)),
        ip(false, 41, &inner(true)),
        ip(true, 41, &inner(true)),
        ip(true, 47, &gre),
        ip(false, 4, &ip(false, 4, &ip(false, 17, &udp))),
    ]
    .map(|packet| {
        let frame = ethernet(&packet);
        let start = frame.len() - segment(false).len();
        (frame, start as u16)
    })
    .to_vec()
}

#[test]
fn a_checksum_is_finished_at_any_depth() {
    in_namespace(|| {
        veth_pair();
        let mut b = open("x1");
        let raw = Injector::open("x0").unwrap();
        let mut plane = Plane::new(64, 1518, Streams::new(1));
        for name in ["x1", "out"] {
            let link = Link {
                rate: None,
                framing: weir_base::Framing::ETHERNET,
                frame_bytes_max: 1518,
            };
            let spec = Spec::check("fifo", []).unwrap();
            plane.add_port(name, name, Mode::Bridged, spec, link, clock::now());
        }
        for (frame, start) in tunnels() {
            let checksum = PartialChecksum { start, offset: 16 };
            let unfinished = Offload {
                checksum: Some(checksum),
                segmentation: None,
            };
            raw.send(&frame, &unfinished).unwrap();
            let (came, offload) = await_frames(&mut b, 1).remove(0);
            assert_eq!((&came, offload), (&frame, unfinished));
            let arrival = Arrival {
                at: clock::now(),
                len: came.len() as u32,
                vlan: None,
                offload,
            };
            plane.receive(0, &came, arrival);
            plane.step(clock::now());
            let mut out = Vec::new();
            let flushed = plane.flush(1, |frames, _| {
                out.extend(frames.iter().map(|frame| frame.to_vec()));
                Ok::<_, ()>(frames.len())
            });
            assert_eq!((flushed, out.len()), (Ok(false), 1));
            let start = usize::from(start);
            // The inner TCP segment and its pseudo header now sum to zero; everything else is unchanged.
            let v6 = frame[start - 40] >> 4 == 6 && frame[start - 34] == 6;
            let pseudo = pseudo(v6, 6, frame.len() - start).to_be_bytes();
            assert_eq!(sum(&[&pseudo, &out[0][start..]].concat()), 0xffff);
            assert_eq!(out[0][..start + 16], frame[..start + 16]);
            assert_eq!(out[0][start + 18..], frame[start + 18..]);
            // The kernel finishes the checksum in the same way if nobody else does.
            run("ethtool -K x0 tx off");
            raw.send(&frame, &unfinished).unwrap();
            let finished = await_frames(&mut b, 1).remove(0);
            assert_eq!(finished, (out.remove(0), Offload::NONE));
            run("ethtool -K x0 tx on");
        }
    });
}

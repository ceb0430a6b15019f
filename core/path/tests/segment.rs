//! Superframes compared with a slow, obvious reference: the same model of a packet, built once as a
//! superframe and once for each segment.

use proptest::collection::vec;
use proptest::prelude::*;
use weir_packet::Reason;
use weir_path::link::offload::{Offload, PartialChecksum, SegmentKind, Segmentation};
use weir_path::link::segment::Superframe;

use crate::superframes;

/// An IP header and how it carries the next IP header.
#[derive(Clone, Debug)]
struct Outer {
    ip: Ip,
    carrier: Carrier,
}

#[derive(Clone, Debug)]
struct Ip {
    v6: bool,
    /// The identification of the first segment.
    identification: u16,
    /// IPv4 options, or an IPv6 destination options header.
    options: bool,
}

#[derive(Clone, Debug)]
enum Carrier {
    /// IP within IP.
    None,
    /// VXLAN, GENEVE: bytes between UDP and the inner IP header.
    Udp { checksum: bool, gap: Vec<u8> },
    /// GRE, with any bytes after its first four.
    Gre { checksum: bool, gap: Vec<u8> },
}

/// The headers between the tags and the first IP header.
#[derive(Clone, Copy, Debug)]
enum Shim {
    None,
    /// A PPPoE session.
    Session,
    /// An MPLS label stack.
    Labels,
}

#[derive(Clone, Debug)]
struct Model {
    tags: usize,
    shim: Shim,
    outer: Vec<Outer>,
    inner: Ip,
    tcp: bool,
    sequence: u32,
    flags: u8,
    options: usize,
    payload: Vec<u8>,
}

const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// The sum of 16-bit words, as RFC 1071 defines it.
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

impl Ip {
    fn addresses(&self) -> Vec<u8> {
        if self.v6 {
            (0..32).collect()
        } else {
            vec![10, 0, 0, 1, 192, 0, 2, 7]
        }
    }

    fn pseudo(&self, protocol: u8, len: usize) -> u16 {
        let mut bytes = self.addresses();
        bytes.extend((len as u32).to_be_bytes());
        bytes.extend([0, protocol]);
        sum(&bytes)
    }

    fn wrap(&self, protocol: u8, n: usize, payload: &[u8]) -> Vec<u8> {
        let mut header = Vec::new();
        if self.v6 {
            let options: &[u8] = if self.options {
                &[protocol, 0, 1, 4, 0, 0, 0, 0]
            } else {
                &[]
            };
            header.extend([
                0x6a,
                0xbc,
                0xde,
                0xf0,
                0,
                0,
                if self.options { 60 } else { protocol },
                64,
            ]);
            put(&mut header, 4, (options.len() + payload.len()) as u16);
            header.extend(self.addresses());
            header.extend(options);
        } else {
            let ihl = if self.options { 6 } else { 5 };
            header.extend([0x40 | ihl, 0x28, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
            header.extend(self.addresses());
            header.resize(4 * usize::from(ihl), 1); // "no operation"
            let total_len = (header.len() + payload.len()) as u16;
            put(&mut header, 2, total_len);
            put(&mut header, 4, self.identification.wrapping_add(n as u16));
            let checksum = !sum(&header);
            put(&mut header, 10, checksum);
        }
        [&header, payload].concat()
    }
}

impl Model {
    fn protocol(&self) -> u8 {
        if self.tcp { 6 } else { 17 }
    }

    fn checksum_at(&self) -> usize {
        if self.tcp { 16 } else { 6 }
    }

    fn transport(&self, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34, 0, 80];
        if self.tcp {
            bytes.extend(sequence.to_be_bytes());
            bytes.extend([
                9,
                8,
                7,
                6,
                (5 + self.options as u8) << 4,
                flags,
                0x20,
                0,
                0,
                0,
                0,
                0,
            ]);
            bytes.resize(20 + 4 * self.options, 1);
        } else {
            bytes.extend([0; 4]);
            put(&mut bytes, 4, (8 + payload.len()) as u16);
        }
        bytes.extend(payload);
        bytes
    }

    /// Everything around a transport segment. Checksums of tunnels are complete, or, for a superframe, the
    /// sums of the pseudo header.
    fn frame(&self, n: usize, transport: Vec<u8>, partial: bool) -> Vec<u8> {
        let mut packet = self.inner.wrap(self.protocol(), n, &transport);
        let mut v6 = self.inner.v6;
        for Outer { ip, carrier } in self.outer.iter().rev() {
            let protocol = match carrier {
                Carrier::None => {
                    if v6 {
                        41
                    } else {
                        4
                    }
                }
                Carrier::Udp { checksum, gap } => {
                    let mut udp =
                        [&[0xab, 0xcd, 0x12, 0xb5, 0, 0, 0, 0], &gap[..], &packet].concat();
                    let len = udp.len();
                    put(&mut udp, 4, len as u16);
                    let pseudo = ip.pseudo(17, len);
                    if *checksum {
                        put(&mut udp, 6, pseudo);
                        if !partial {
                            let right = match !sum(&udp) {
                                0 => 0xffff,
                                n => n,
                            };
                            put(&mut udp, 6, right);
                        }
                    }
                    packet = udp;
                    17
                }
                Carrier::Gre { checksum, gap } => {
                    let head = [if *checksum { 0x80 } else { 0 }, 0, 0x08, 0];
                    let field: &[u8] = if *checksum { &[0; 4] } else { &[] };
                    let mut gre = [&head, field, &gap[..], &packet].concat();
                    if *checksum {
                        let right = !sum(&gre);
                        put(&mut gre, 4, right);
                    }
                    packet = gre;
                    47
                }
            };
            packet = ip.wrap(protocol, n, &packet);
            v6 = ip.v6;
        }
        let mut frame = vec![2; 12];
        frame.extend([0x81, 0, 0, 7].repeat(self.tags));
        match self.shim {
            Shim::None => frame.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] }),
            Shim::Session => {
                let [high, low] = (packet.len() as u16 + 2).to_be_bytes();
                let protocol = if v6 { 0x57 } else { 0x21 };
                frame.extend([0x88, 0x64, 0x11, 0, 0, 7, high, low, 0, protocol]);
            }
            Shim::Labels => frame.extend([0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]),
        }
        [frame, packet].concat()
    }

    /// The superframe, and its offload.
    fn superframe(&self, size: u16) -> (Vec<u8>, Offload) {
        let mut transport = self.transport(self.sequence, self.flags, &self.payload);
        let pseudo = self.inner.pseudo(self.protocol(), transport.len());
        put(&mut transport, self.checksum_at(), pseudo);
        let len = transport.len();
        let frame = self.frame(0, transport, true);
        let kind = match (self.tcp, self.inner.v6) {
            (false, _) => SegmentKind::Udp,
            (true, false) => SegmentKind::TcpV4,
            (true, true) => SegmentKind::TcpV6,
        };
        let checksum = PartialChecksum {
            start: (frame.len() - len) as u16,
            offset: self.checksum_at() as u16,
        };
        let offload = Offload {
            checksum: Some(checksum),
            segmentation: Some(Segmentation { kind, size }),
        };
        (frame, offload)
    }

    /// The segments, each built from scratch.
    fn segments(&self, size: usize) -> Vec<Vec<u8>> {
        let mut chunks: Vec<&[u8]> = self.payload.chunks(size).collect();
        if chunks.is_empty() {
            chunks.push(&[]);
        }
        let last = chunks.len() - 1;
        let segment = |(n, chunk): (usize, &&[u8])| {
            let mut flags = self.flags;
            if n < last {
                flags &= !FIN_PSH;
            }
            if n > 0 {
                flags &= !CWR;
            }
            let sequence = self.sequence.wrapping_add((n * size) as u32);
            let mut transport = self.transport(sequence, flags, chunk);
            let pseudo = self.inner.pseudo(self.protocol(), transport.len());
            let right = !sum(&[&pseudo.to_be_bytes()[..], &transport].concat());
            let right = if right == 0 && !self.tcp {
                0xffff
            } else {
                right
            };
            put(&mut transport, self.checksum_at(), right);
            self.frame(n, transport, false)
        };
        chunks.iter().enumerate().map(segment).collect()
    }
}

fn cut(frame: &[u8], offload: &Offload) -> Result<Vec<Vec<u8>>, Reason> {
    let superframe = Superframe::new(frame, offload)?;
    let segment = |n| {
        let mut segment = vec![7; 3];
        superframe.write(n, &mut segment);
        segment
    };
    Ok((0..superframe.count()).map(segment).collect())
}

fn ips() -> impl Strategy<Value = Ip> {
    (any::<bool>(), any::<u16>(), any::<bool>()).prop_map(|(v6, identification, options)| Ip {
        v6,
        identification,
        options,
    })
}

fn outers() -> impl Strategy<Value = Outer> {
    let carrier = prop_oneof![
        Just(Carrier::None),
        (any::<bool>(), vec(any::<u8>(), 0..40))
            .prop_map(|(checksum, gap)| Carrier::Udp { checksum, gap }),
        (any::<bool>(), vec(any::<u8>(), 0..20))
            .prop_map(|(checksum, gap)| Carrier::Gre { checksum, gap }),
    ];
    (ips(), carrier).prop_map(|(ip, carrier)| Outer { ip, carrier })
}

fn models() -> impl Strategy<Value = Model> {
    let transport = (any::<bool>(), any::<u32>(), any::<u8>(), 0..=10_usize);
    let shim = prop::sample::select(vec![Shim::None, Shim::Session, Shim::Labels]);
    let around = (0..=2_usize, shim, vec(outers(), 0..3), ips());
    (around, transport, vec(any::<u8>(), 0..4000)).prop_map(
        |((tags, shim, outer, inner), (tcp, sequence, flags, options), payload)| Model {
            tags,
            shim,
            outer,
            inner,
            tcp,
            sequence,
            flags,
            options,
            payload,
        },
    )
}

/// VXLAN over IPv6 with a checksum, around TCP over IPv4.
fn vxlan() -> Model {
    let ip = |v6| Ip {
        v6,
        identification: 0xfffe,
        options: false,
    };
    Model {
        tags: 0,
        shim: Shim::None,
        outer: vec![Outer {
            ip: ip(true),
            carrier: Carrier::Udp {
                checksum: true,
                gap: vec![8; 22],
            },
        }],
        inner: ip(false),
        tcp: true,
        sequence: u32::MAX - 999,
        flags: 0xff,
        options: 3,
        payload: (0..3000).map(|n| n as u8).collect(),
    }
}

#[test]
fn a_tunnels_headers_are_all_put_right() {
    let (frame, offload) = vxlan().superframe(1400);
    let segments = cut(&frame, &offload).unwrap();
    assert_eq!(segments, vxlan().segments(1400));
    let lens: Vec<_> = segments.iter().map(Vec::len).collect();
    let headers = 14 + 40 + 8 + 22 + 20 + 32;
    assert_eq!(lens, [headers + 1400, headers + 1400, headers + 200]);
    let announced: Vec<_> = offload
        .frame_lens(&frame[..128], frame.len() as u32)
        .collect();
    assert_eq!(
        announced,
        lens.iter().map(|len| *len as u32).collect::<Vec<_>>()
    );
}

#[test]
fn a_superframe_that_contradicts_itself_is_refused() {
    let (frame, offload) = vxlan().superframe(1400);
    let refused = |frame: &[u8], change: &dyn Fn(&mut PartialChecksum, &mut Segmentation)| {
        let (mut partial, mut how) = (offload.checksum.unwrap(), offload.segmentation.unwrap());
        change(&mut partial, &mut how);
        let offload = Offload {
            checksum: Some(partial),
            segmentation: Some(how),
        };
        assert_eq!(cut(frame, &offload), Err(Reason::BadOffload));
    };
    refused(&frame, &|_, how| how.size = 0);
    refused(&frame, &|_, how| how.size = 1); // 3000 segments
    refused(&frame, &|_, how| how.kind = SegmentKind::Unknown);
    refused(&frame, &|_, how| how.kind = SegmentKind::TcpV6);
    refused(&frame, &|_, how| how.kind = SegmentKind::Udp);
    refused(&frame, &|partial, _| partial.start += 4);
    refused(&frame, &|partial, _| partial.start = u16::MAX);
    refused(&frame, &|partial, _| partial.offset = 6);
    refused(&frame[..frame.len() - 1], &|_, _| {});
    refused(&[&frame[..], &[0]].concat(), &|_, _| {});
    refused(&frame[..100], &|_, _| {});
    refused(&vec![0; 70_000], &|_, _| {});
    // Without a tunnel the partial checksum may be missing; the headers then give the position of TCP.
    let mut plain = vxlan();
    plain.outer.clear();
    let (frame, mut offload) = plain.superframe(1400);
    offload.checksum = None;
    assert_eq!(cut(&frame, &offload), Ok(plain.segments(1400)));
}

proptest! {
    #[test]
    fn segments_are_what_the_reference_builds(model in models(), size in 2_u16..1500) {
        let (frame, offload) = model.superframe(size);
        let segments = cut(&frame, &offload).unwrap();
        let expected = model.segments(size.into());
        prop_assert_eq!(segments.len(), expected.len());
        for (segment, expected) in segments.iter().zip(&expected) {
            prop_assert_eq!(segment, expected);
        }
        prop_assert!(segments.len() <= offload.packets_max(frame.len() as u32));
    }

    #[test]
    fn whatever_is_said_of_it_a_superframe_is_cut_whole_or_not_at_all(
        model in models(), size: u16, changes in vec((0_usize..200, any::<u8>()), 0..6),
        start in prop::option::of(any::<u16>()), near in -30_i32..30, checked: bool, kind in 0_usize..4,
        len in 0_usize..5000,
    ) {
        let (mut frame, mut offload) = model.superframe(size);
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(len);
        let partial = offload.checksum.as_mut().unwrap();
        partial.start = start.unwrap_or((i32::from(partial.start) + near) as u16);
        if !checked {
            offload.checksum = None;
        }
        let kinds = [SegmentKind::TcpV4, SegmentKind::TcpV6, SegmentKind::Udp, SegmentKind::Unknown];
        offload.segmentation = Some(Segmentation { kind: kinds[kind], size });
        superframes::check(&frame, &offload);
        let lens: u64 = offload.frame_lens(&frame, frame.len() as u32).map(u64::from).sum();
        prop_assert!(lens >= frame.len() as u64 || size < 10);
    }

    #[test]
    fn any_bytes_are_cut_into_what_they_were_or_not_at_all(bytes in vec(any::<u8>(), 0..300)) {
        if let Some((offload, frame)) = superframes::split(&bytes) {
            superframes::check(frame, &offload);
        }
    }
}

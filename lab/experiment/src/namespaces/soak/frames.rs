//! Frames that no honest sender sends, and honest frames for floods.

use rand::RngExt;
use weir_base::Stream;
use weir_path::link::offload::{Offload, PartialChecksum, SegmentKind, Segmentation};
use weir_wire::checksum;

use super::bed::LINKS;
use super::routes::address_in;

/// Maximum number of tags of a stack.
const TAGS_MAX: usize = 8;
/// Maximum length of a frame without offloaded work: the kernel refuses longer frames.
const FRAME_BYTES_MAX: usize = 1514;
/// Maximum length of a superframe.
const SUPERFRAME_BYTES_MAX: usize = 20_000;
/// The guest's own address, and the sink's.
const GUEST: [u8; 4] = [10, 83, 3, 2];
const SINK: [u8; 4] = [10, 83, 2, 2];

/// A kind of flood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flood {
    /// One flow to the sink.
    Plain,
    /// A different source address in each packet.
    Forged,
    /// A different flow of the guest in each packet.
    NewFlows,
    /// To hosts on the sink's link that do not exist.
    Scan,
    /// To networks whose routes come and go.
    Networks,
}

impl Flood {
    pub(super) const ALL: [Self; 5] = [
        Self::Plain,
        Self::Forged,
        Self::NewFlows,
        Self::Scan,
        Self::Networks,
    ];

    /// The flood's name in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "frames of plain floods",
            Self::Forged => "frames of floods with forged sources",
            Self::NewFlows => "frames of floods, each of a new flow",
            Self::Scan => "frames of scans",
            Self::Networks => "frames to networks whose routes change",
        }
    }

    /// A frame of the flood.
    pub(super) fn frame(self, random: &mut Stream, networks: u32) -> Vec<u8> {
        let mut packet = Packet {
            source: GUEST,
            destination: SINK,
            ports: [4000, 9],
            bytes: random.random_range(18..600),
        };
        match self {
            Self::Plain => {}
            Self::Forged => packet.source = [11, random.random(), random.random(), random.random()],
            Self::NewFlows => packet.ports = [random.random(), random.random()],
            Self::Scan => packet.destination = [10, 83, 2, random.random_range(3..255)],
            Self::Networks => {
                let network = random.random_range(0..networks);
                packet.destination = address_in(network, random.random()).octets();
            }
        }
        packet.frame()
    }
}

struct Packet {
    source: [u8; 4],
    destination: [u8; 4],
    ports: [u16; 2],
    /// Length of the payload.
    bytes: usize,
}

impl Packet {
    /// UDP over IPv4, from the guest to the router.
    fn frame(&self) -> Vec<u8> {
        let mut frame = ethernet(0x0800);
        let udp = (8 + self.bytes) as u16;
        frame.extend([0x45, 0]);
        frame.extend((20 + udp).to_be_bytes());
        frame.extend([0, 7, 0, 0, 64, 17, 0, 0]);
        frame.extend(self.source);
        frame.extend(self.destination);
        let sum = checksum::internet(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame.extend(self.ports.map(u16::to_be_bytes).concat());
        frame.extend(udp.to_be_bytes());
        frame.extend([0, 0]);
        frame.resize(frame.len() + self.bytes, 0x5a);
        frame
    }
}

fn ethernet(kind: u16) -> Vec<u8> {
    let (_, _, router, guest) = LINKS[2];
    [&router[..], &guest, &kind.to_be_bytes()].concat()
}

/// An IPv6 packet with one or two extension headers, whose next header is random.
fn ipv6(random: &mut Stream) -> Vec<u8> {
    let mut frame = ethernet(0x86dd);
    let body = random.random_range(0..200_u16);
    let next = [0, 43, 44, 58, 60, 17, 6, 59, random.random()][random.random_range(0..9)];
    frame.extend([0x60, 0, 0, 0]);
    frame.extend(body.to_be_bytes());
    frame.extend([next, 64]);
    let address = |net: u8, host: u8| [0xfd, 0x83, 0, net, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host];
    frame.extend(address(3, 2));
    frame.extend(address(2, 2));
    let inner = [0, 43, 44, 60, 17, 59][random.random_range(0..6)];
    frame.extend((0..body).map(|at| if at == 0 { inner } else { random.random() }));
    frame
}

/// A hostile frame, with the work that its sender claims to have offloaded to hardware.
pub(super) fn hostile(random: &mut Stream) -> (Vec<u8>, Offload) {
    let mut frame = Flood::Plain.frame(random, 1);
    match random.random_range(0..12) {
        0 => frame.truncate(random.random_range(14..60)),
        1 => frame[16..18].copy_from_slice(&random.random::<u16>().to_be_bytes()), // total length
        2 => frame[14] = random.random(), // version, header length
        3 => frame[12..14].copy_from_slice(&random.random::<u16>().to_be_bytes()), // Ethernet type
        4 => tags(random, &mut frame),
        5 => fragment(random, &mut frame),
        6 => options(random, &mut frame),
        7 => frame[22] = random.random_range(0..2), // TTL
        8 => frame[26..30].copy_from_slice(&SOURCES[random.random_range(0..SOURCES.len())]),
        9 => frame = ipv6(random),
        10 => {
            for byte in &mut frame[12..] {
                *byte = random.random();
            }
        }
        _ => return superframe(random),
    }
    if random.random_range(0..3) > 0 && frame.len() >= 34 {
        renew(&mut frame);
    }
    if random.random_range(0..8) == 0 {
        frame[..6].copy_from_slice(&RECEIVERS[random.random_range(0..RECEIVERS.len())]);
    }
    frame.resize(frame.len().clamp(14, FRAME_BYTES_MAX), 0);
    (frame, Offload::NONE)
}

/// Sources that are invalid in every packet.
const SOURCES: [[u8; 4]; 6] = [
    [0; 4],
    [127, 0, 0, 1],
    [224, 0, 0, 1],
    [255; 4],
    [10, 83, 3, 1],
    [10, 83, 2, 255],
];
/// Receivers: broadcast, a group, and other hosts.
const RECEIVERS: [[u8; 6]; 4] = [
    [0xff; 6],
    [1, 0, 0x5e, 0, 0, 1],
    [0x33, 0x33, 0, 0, 0, 1],
    [2, 9, 9, 9, 9, 9],
];

/// Writes the right checksum into the IPv4 header, so that the router reads the rest of the packet.
fn renew(frame: &mut [u8]) {
    let len = usize::from(frame[14] & 15) * 4;
    if len < 20 || 14 + len > frame.len() {
        return;
    }
    frame[24..26].fill(0);
    let sum = checksum::internet(&frame[14..14 + len]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

fn tags(random: &mut Stream, frame: &mut Vec<u8>) {
    for _ in 0..random.random_range(1..=TAGS_MAX) {
        let [high, low] = random.random::<u16>().to_be_bytes();
        let kind = [[0x81, 0], [0x88, 0xa8], [0x91, 0]][random.random_range(0..3)];
        drop(frame.splice(12..12, [kind[0], kind[1], high, low]));
    }
}

fn fragment(random: &mut Stream, frame: &mut [u8]) {
    let field = random.random::<u16>();
    frame[20..22].copy_from_slice(&field.to_be_bytes());
}

/// Adds IPv4 options: source routes, lengths that do not fit.
fn options(random: &mut Stream, frame: &mut Vec<u8>) {
    let words = random.random_range(1..=10_u8);
    frame[14] = 0x45 + words;
    let kinds = [0, 1, 7, 0x44, 0x83, 0x89, 0x94];
    let option = (0..words * 4).map(|at| match at % 4 {
        0 => kinds[random.random_range(0..kinds.len())],
        _ => random.random_range(0..16),
    });
    let option: Vec<u8> = option.collect();
    drop(frame.splice(34..34, option));
    let total = (frame.len() - 14) as u16;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
}

/// A superframe as from a virtual machine or GRO, whose headers contradict its offload data.
fn superframe(random: &mut Stream) -> (Vec<u8>, Offload) {
    let mut frame = Flood::Plain.frame(random, 1);
    let kind =
        [SegmentKind::TcpV4, SegmentKind::TcpV6, SegmentKind::Udp][random.random_range(0..3)];
    if kind == SegmentKind::TcpV6 {
        frame = ipv6(random);
    }
    let is_tcp = kind != SegmentKind::Udp;
    if is_tcp && frame[12] == 0x08 {
        frame[23] = 6;
        frame[46] = random.random(); // the length of the TCP header
    }
    frame.resize(random.random_range(60..SUPERFRAME_BYTES_MAX), 0x5a);
    if random.random() {
        let total = (frame.len() - 14) as u16;
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        renew(&mut frame);
    }
    let start = if kind == SegmentKind::TcpV6 { 54 } else { 34 };
    // A router counts a superframe that passes whole as one packet, its kernel counts the segments. Superframes with CWR
    // never pass whole.
    if is_tcp && let Some(flags) = frame.get_mut(usize::from(start) + 13) {
        *flags |= 0x80;
    }
    let offload = Offload {
        checksum: Some(PartialChecksum {
            start: if random.random_range(0..4) == 0 {
                random.random_range(0..200)
            } else {
                start
            },
            offset: if is_tcp { 16 } else { 6 },
        }),
        segmentation: Some(Segmentation {
            kind,
            size: random.random_range(1..2000),
        }),
    };
    (frame, offload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weir_base::Streams;

    #[test]
    fn hostile_frames_are_of_many_kinds_and_no_longer_than_a_link_takes() {
        let mut random = Streams::new(1).stream("x");
        let (mut kinds, mut superframes) = (BTreeSet::new(), 0);
        for _ in 0..20_000 {
            let (frame, offload) = hostile(&mut random);
            assert!(frame.len() >= 14);
            match offload.segmentation {
                Some(_) => superframes += 1,
                None => assert!(frame.len() <= FRAME_BYTES_MAX),
            }
            kinds.insert([frame[12], frame[13]]);
        }
        assert!(kinds.len() > 1000, "{}", kinds.len());
        assert!((1000..3000).contains(&superframes), "{superframes}");
    }

    #[test]
    fn floods_are_honest_but_for_what_they_are() {
        let mut random = Streams::new(1).stream("x");
        for flood in Flood::ALL {
            let frame = flood.frame(&mut random, 9);
            assert!(checksum::is_right(&frame[14..34]), "{flood:?}");
            assert_eq!(frame[26..30] == GUEST, flood != Flood::Forged);
        }
    }
}

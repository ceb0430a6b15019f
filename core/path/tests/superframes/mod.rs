//! Properties of any frame, whatever its sender claims to have left to hardware. The property tests of this
//! crate and the fuzz target `offload` share them.

use std::net::IpAddr;
use std::ops::Range;

use weir_path::link::encapsulation::{Next, walk};
use weir_path::link::offload::{Offload, PartialChecksum, SegmentKind, Segmentation};
use weir_path::link::segment::Superframe;
use weir_wire::checksum::{self, Sum};
use weir_wire::ipv6_extension::Chain;
use weir_wire::{Protocol, ipv4, ipv6, pppoe};

/// An offload and a frame from arbitrary bytes.
pub(crate) fn split(bytes: &[u8]) -> Option<(Offload, &[u8])> {
    let (head, frame) = bytes.split_first_chunk::<8>()?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let kind = match head[0] % 5 {
        0 => None,
        1 => Some(SegmentKind::TcpV4),
        2 => Some(SegmentKind::TcpV6),
        3 => Some(SegmentKind::Udp),
        _ => Some(SegmentKind::Unknown),
    };
    let checksum = PartialChecksum {
        start: word(2),
        offset: word(4),
    };
    let offload = Offload {
        checksum: (head[1] % 2 == 0).then_some(checksum),
        segmentation: kind.map(|kind| Segmentation {
            kind,
            size: word(6),
        }),
    };
    Some((offload, frame))
}

/// Finishes and cuts a frame as its offload describes, and checks the results.
pub(crate) fn check(frame: &[u8], offload: &Offload) {
    if let Some(partial) = offload.checksum {
        check_finished(frame, partial);
    }
    let len = frame.len() as u32;
    assert!(offload.frame_lens(frame, len).count() <= offload.packets_max(len));
    let (Some(segmentation), Ok(superframe)) =
        (offload.segmentation, Superframe::new(frame, offload))
    else {
        return;
    };
    let cut = |n| {
        let mut segment = vec![7; 3];
        superframe.write(n, &mut segment);
        segment
    };
    let segments: Vec<_> = (0..superframe.count()).map(cut).collect();
    assert!((1..=offload.packets_max(len)).contains(&segments.len()));
    check_payload(frame, &segments, segmentation.size.into());
    for segment in &segments {
        let ip = outermost(segment);
        assert_eq!(ip.len, segment.len() - ip.at, "the length that IP says");
        assert!(ip.header_is_right);
        check_transport(frame, segment, offload);
    }
}

/// A finished checksum is correct, and no other byte has changed; after an error no byte has.
fn check_finished(frame: &[u8], partial: PartialChecksum) {
    const SCTP: usize = 8; // its checksum is a CRC of four bytes
    let (start, offset) = (usize::from(partial.start), usize::from(partial.offset));
    let field = start + offset..start + offset + if offset == SCTP { 4 } else { 2 };
    let mut finished = frame.to_vec();
    if partial.finish(&mut finished, 0).is_err() {
        assert!(field.end > frame.len());
        assert_eq!(finished, frame);
        return;
    }
    if offset % 2 == 0 && offset != SCTP {
        let pseudo = word(frame, field.start);
        let sum = Sum::default().bytes(&finished[start..]).word(pseudo);
        assert_eq!(sum.fold(), 0xffff);
    }
    finished[field.clone()].copy_from_slice(&frame[field]);
    assert_eq!(finished, frame);
}

/// The payloads of the segments, joined, are the superframe's; all but the last are full.
fn check_payload(frame: &[u8], segments: &[Vec<u8>], size: usize) {
    let [first @ .., last] = segments else {
        unreachable!("there is one at least")
    };
    if first.is_empty() {
        assert_eq!(last.len(), frame.len());
        return;
    }
    let total: usize = segments.iter().map(Vec::len).sum();
    let headers = (total - frame.len()) / first.len();
    let payload: Vec<u8> = segments
        .iter()
        .flat_map(|segment| &segment[headers..])
        .copied()
        .collect();
    assert_eq!(payload, frame[headers..]);
    assert!(first.iter().all(|segment| segment.len() == headers + size));
    assert!((1..=size).contains(&(last.len() - headers)));
}

/// The transport checksum of a segment is correct.
fn check_transport(frame: &[u8], segment: &[u8], offload: &Offload) {
    let is_udp = offload
        .segmentation
        .is_some_and(|s| s.kind == SegmentKind::Udp);
    let (start, seed) = match offload.checksum {
        // The pseudo header is the sender's own, except for the length in it.
        Some(PartialChecksum { start, offset }) => {
            let start = usize::from(start);
            let pseudo = word(frame, start + usize::from(offset));
            let whole = (frame.len() - start) as u16;
            let len = (segment.len() - start) as u16;
            (start, Sum::default().word(pseudo).word(!whole).word(len))
        }
        None => {
            let ip = outermost(segment);
            let Range { start, end } = ip.transport;
            if is_udp && word(frame, start + 6) == 0 {
                assert_eq!(word(segment, start + 6), 0, "no checksum stays none");
                return;
            }
            let protocol = if is_udp { Protocol::UDP } else { Protocol::TCP };
            let (from, to) = ip.addresses;
            (
                start,
                Sum::default().pseudo(from, to, protocol, end - start),
            )
        }
    };
    assert_eq!(seed.bytes(&segment[start..]).fold(), 0xffff);
}

/// The outermost IP header of a segment.
struct Outermost {
    at: usize,
    /// The length of the packet that the header claims.
    len: usize,
    header_is_right: bool,
    addresses: (IpAddr, IpAddr),
    /// The payload, up to the end of the segment.
    transport: Range<usize>,
}

fn outermost(segment: &[u8]) -> Outermost {
    let mut session = None;
    let walked = walk(segment, |header, at| {
        session = (header == Next::Session).then_some(at).or(session);
    });
    let (next, at) = walked.unwrap_or((Next::Other, 0));
    if let Some(session) = session {
        let length = pppoe::View::new_unchecked(&segment[session..]).length();
        assert_eq!(usize::from(length), segment.len() - session - 6);
    }
    let packet = &segment[at..];
    if next == Next::V4 {
        let view = ipv4::View::new_unchecked(packet);
        return Outermost {
            at,
            len: view.total_len().into(),
            header_is_right: checksum::is_right(&packet[..view.header_len()]),
            addresses: (view.source().into(), view.destination().into()),
            transport: at + view.header_len()..segment.len(),
        };
    }
    assert_eq!(next, Next::V6);
    let view = ipv6::View::new_unchecked(packet);
    let chain = Chain::walk(view.next_header(), &packet[ipv6::HEADER_LEN..]);
    Outermost {
        at,
        len: view.total_len(),
        header_is_right: true, // it has no checksum
        addresses: (view.source().into(), view.destination().into()),
        transport: at + ipv6::HEADER_LEN + chain.len..segment.len(),
    }
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

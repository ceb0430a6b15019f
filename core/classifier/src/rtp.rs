//! RTP (RFC 3550), SRTP (RFC 3711) and their control packets.
//!
//! ```text
//!  RTP    [ 10 P X CC ][ M PT ][ sequence 16 ][ timestamp 32 ][ source (SSRC) 32 ][ CSRC.. ][ extension ]
//!  RTCP   [ 10 P count ][ 200..=207 ][ words 16 ][ source 32 ] ..
//! ```
//!
//! Nothing in one packet proves RTP. The paper (section III.B) classifies by two successive packets: the same source
//! and payload type, and the next sequence number. That is the rule here for payload types that are assigned or dynamic
//! (RFC 3551, 96 and up); other types, and a source of zero, need one more packet as confirmation. SRTP leaves these
//! fields in clear, so the same rule recognises it.
//!
//! A connection can bundle several sources (RFC 8843). The last [`SOURCES`] of each direction are remembered. Duplicate
//! and late packets neither confirm nor refute.
//!
//! Control packets share the ports of their media (RFC 5761). A flow of control packets alone has its own class, found
//! by the types and lengths of a compound packet.

use crate::finding::{Evidence, Finding};
use crate::kind::Kind;
use crate::reader::Reader;

/// Sources remembered for each direction.
const SOURCES: usize = 4;
/// Maximum number of packets missing between two packets that confirm each other.
const GAP_MAX: u16 = 1;

/// A packet of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    payload_type: u8,
    sequence: u16,
    source: u32,
    /// The profile of the header extension: 0xbede and 0x1000 to 0x100f are those of RFC 8285.
    extension: Option<u16>,
    pub(crate) payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet whose fields have permitted values.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let first = reader.u8().filter(|first| first >> 6 == 2)?;
        let payload_type = reader.u8()? & 0x7f;
        // These are the control packets 192 to 223 without their highest bit (RFC 5761, section 4).
        if (64..=95).contains(&payload_type) {
            return None;
        }
        let (sequence, _timestamp, source) = (reader.u16()?, reader.u32()?, reader.u32()?);
        reader.take(4 * usize::from(first & 15))?;
        let extension = match first & 0x10 {
            0 => None,
            _ => {
                let profile = reader.u16()?;
                let words = reader.u16()?;
                reader.take(4 * usize::from(words))?;
                Some(profile)
            }
        };
        let packet = Self {
            payload_type,
            sequence,
            source,
            extension,
            payload: reader.0,
        };
        (!packet.payload.is_empty()).then_some(packet)
    }

    /// Whether the payload type has its meaning from a signalling protocol (RFC 3551, section 3).
    pub(crate) fn is_dynamic(&self) -> bool {
        self.payload_type >= 96
    }

    /// Number of confirmations that this payload type needs.
    fn confirmations(&self) -> u8 {
        let is_assigned = matches!(self.payload_type, 0 | 3..=19 | 25..=28 | 31..=34 | 96..);
        if is_assigned && self.source != 0 {
            1
        } else {
            2
        }
    }

    /// The finding for a confirmed packet.
    pub(crate) fn finding(&self) -> Finding {
        let mut detail = format!("PT {}", self.payload_type);
        if let Some(name) = encoding(self.payload_type) {
            detail = format!("{detail} {name}");
        }
        if let Some(profile) = self.extension {
            let form = match profile {
                0xbede => "one-byte extensions".to_owned(),
                0x1000..=0x100f => "two-byte extensions".to_owned(),
                other => format!("extension {other:#06x}"),
            };
            detail = format!("{detail}, {form}");
        }
        Finding::new(Kind::Rtp, Evidence::Sequence).with(detail)
    }
}

/// The sources of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sources {
    known: [Source; SOURCES],
    /// The entry that the next new source overwrites.
    next: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Source {
    source: u32,
    sequence: u16,
    payload_type: u8,
    confirmations: u8,
    /// Whether this entry is in use.
    is_known: bool,
}

impl Sources {
    /// Takes a packet; returns whether its source is confirmed.
    pub(crate) fn confirm(&mut self, packet: &Packet<'_>) -> bool {
        let is_same = |s: &&mut Source| s.is_known && s.source == packet.source;
        let Some(source) = self.known.iter_mut().find(is_same) else {
            self.known[usize::from(self.next)] = Source {
                source: packet.source,
                sequence: packet.sequence,
                payload_type: packet.payload_type,
                confirmations: 0,
                is_known: true,
            };
            self.next = (self.next + 1) % SOURCES as u8;
            return false;
        };
        let step = packet.sequence.wrapping_sub(source.sequence);
        let is_next = (1..=1 + GAP_MAX).contains(&step);
        let is_late = step == 0 || step > u16::MAX / 2;
        if is_next && source.payload_type == packet.payload_type {
            source.confirmations += 1;
        } else if !is_late {
            source.confirmations = 0;
        }
        if !is_late {
            source.sequence = packet.sequence;
            source.payload_type = packet.payload_type;
        }
        source.confirmations >= packet.confirmations()
    }
}

/// Reads a compound control packet (RFC 3550, section 6.1; RFC 5506). In an encrypted compound packet only the header
/// of the first packet is in clear.
pub(crate) fn control(bytes: &[u8]) -> Option<Finding> {
    let mut reader = Reader(bytes);
    let mut evidence = Evidence::Message;
    let mut first_kind = None;
    while !reader.is_empty() {
        let read = (|| {
            let first = reader.u8().filter(|first| first >> 6 == 2)?;
            let kind = reader.u8().filter(|kind| (200..=207).contains(kind))?;
            let len = 4 * usize::from(reader.u16()?);
            reader
                .take(len)
                .filter(|_| len >= 4 || (kind == 203 && first & 31 == 0))?;
            Some(kind)
        })();
        match (read, first_kind) {
            (Some(kind), None) => first_kind = Some(kind),
            (Some(_), Some(_)) => {}
            (None, None) => return None,
            (None, Some(_)) => {
                evidence = Evidence::Header;
                break;
            }
        }
    }
    let name = match first_kind? {
        200 => "sender report",
        201 => "receiver report",
        205 | 206 => "feedback",
        _ => "",
    };
    Some(Finding::new(Kind::Rtcp, evidence).with(name))
}

/// Packets that follow a length of two bytes (RFC 4571), or are interleaved with RTSP (RFC 2326, section 10.12): `$`,
/// channel, length.
pub(crate) fn frames(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut reader = Reader(stream);
    std::iter::from_fn(move || {
        if reader.0.first() == Some(&b'$') {
            reader.u16()?; // `$`, channel
        }
        reader.long().map(|frame| frame.0)
    })
}

/// The encoding of a static payload type (RFC 3551, section 6).
fn encoding(payload_type: u8) -> Option<&'static str> {
    Some(match payload_type {
        0 => "PCMU",
        3 => "GSM",
        4 => "G723",
        8 => "PCMA",
        9 => "G722",
        10 | 11 => "L16",
        13 => "comfort noise",
        14 => "MPEG audio",
        15 => "G728",
        18 => "G729",
        26 => "JPEG",
        31 => "H261",
        32 => "MPEG video",
        33 => "MPEG transport stream",
        34 => "H263",
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A packet with a header extension of one-byte elements.
    pub(crate) fn packet(payload_type: u8, sequence: u16, source: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0x90, payload_type];
        out.extend(sequence.to_be_bytes());
        out.extend([0, 0, 3, 0]);
        out.extend(source.to_be_bytes());
        out.extend([0xbe, 0xde, 0, 1, 0x10, 0x7f, 0, 0]);
        out.extend(payload);
        out
    }

    fn confirmed(sequences: &[u16], payload_type: u8) -> Vec<bool> {
        let mut sources = Sources::default();
        let mut confirm = |sequence: &u16| {
            let bytes = packet(payload_type, *sequence, 0x1234_5678, b"voice");
            sources.confirm(&Packet::parse(&bytes).unwrap())
        };
        sequences.iter().map(&mut confirm).collect()
    }

    #[test]
    fn two_successive_packets_confirm_a_source() {
        assert_eq!(confirmed(&[7, 8], 96), [false, true]);
        assert_eq!(confirmed(&[u16::MAX, 0], 0), [false, true], "numbers wrap");
        assert_eq!(confirmed(&[7, 9], 96), [false, true], "one was lost");
        assert_eq!(confirmed(&[7, 12, 13], 96), [false, false, true]);
        assert_eq!(
            confirmed(&[7, 7, 6], 96),
            [false, false, false],
            "twice, and late"
        );
        assert_eq!(
            confirmed(&[7, 8, 9], 50),
            [false, false, true],
            "no such type yet"
        );
    }

    #[test]
    fn sources_are_told_apart() {
        let mut sources = Sources::default();
        let mut confirm = |sequence, source| {
            sources.confirm(&Packet::parse(&packet(111, sequence, source, b"x")).unwrap())
        };
        assert!(!confirm(7, 1) && !confirm(8, 2) && !confirm(9, 3));
        assert!(confirm(9, 2));
        for other in 10..14 {
            assert!(!confirm(1, other), "the oldest sources make room");
        }
        assert!(!confirm(8, 1));
    }

    #[test]
    fn a_header_says_what_is_in_it() {
        let bytes = packet(96, 1, 2, b"payload");
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(packet.payload, b"payload");
        assert_eq!(&*packet.finding().detail, "PT 96, one-byte extensions");
        for len in 0..=20 {
            assert_eq!(Packet::parse(&bytes[..len]), None, "{len} bytes");
        }
        assert_eq!(
            Packet::parse(&[0x80, 200, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]),
            None
        );
    }

    #[test]
    fn control_packets_are_read_to_the_end() {
        let report = [0x80, 201, 0, 1, 1, 2, 3, 4];
        let two = [report, report].concat();
        assert!(matches!(control(&two), Some(f) if f.evidence == Evidence::Message));
        let encrypted = [&report[..], &[7, 7, 7]].concat();
        assert!(matches!(control(&encrypted), Some(f) if f.evidence == Evidence::Header));
        assert_eq!(control(&report[..7]), None);
        assert_eq!(control(&[0x80, 96, 0, 1, 1, 2, 3, 4]), None);
        assert_eq!(control(&[]), None);
    }

    #[test]
    fn frames_of_a_stream_are_parted() {
        let parts: Vec<_> = frames(&[0, 2, 8, 9, b'$', 0, 0, 1, 7, 0, 5, 1]).collect();
        assert_eq!(parts, [&[8, 9][..], &[7]]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            Packet::parse(&bytes);
            control(&bytes);
            frames(&bytes).count();
        }
    }
}

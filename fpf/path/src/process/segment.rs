//! Segmentation: cuts packets that are longer than the next link permits.
//!
//! ```text
//!  | FPF | payload ............................ |     room: payload that the link carries after the FPF header
//!  | FPF | header | payload ... |
//!                 | FPF | header | ............ |     each a packet of its own
//! ```
//!
//! Source: Beben et al., section III: the FPF header makes packets longer, so that "the underlying transmission systems
//! may need segmentation/reassembly function for transferring FPF packets". The header of a segment is
//! [`crate::segment_header`]. [`reassemble`](super::reassemble) is the far end.
//!
//! The rule consumes a LID of the vector, like a link between two domains, and the segments continue with the next LID,
//! each with the whole vector: any number of paths share a rule. A packet that fits is sent whole, with the short
//! header. A payload may be anything. A packet that would become more than [`SEGMENTS_MAX`] segments is too big. Gauge:
//! [`SEGMENTED`].
//!
//! A flow has long and short packets, and segments have no ports. All of them have the flow's number instead, which a
//! part contains and which is computed for a whole packet ([`flow_of`]), so that queues keep their order and share a
//! link among flows.

use weir_packet::Reason;
use weir_path::classify::flow_key;
use weir_wire::checksum::crc32c;

use crate::payload;
use crate::segment_header::{PART_LEN, Part, Repr, View, WHOLE_LEN, Whole};

use super::{PAYLOAD_MAX, Processor, Taken};

/// Maximum segments of a packet: a jumbo frame can be cut for a link that carries 100 bytes.
pub const SEGMENTS_MAX: usize = 128;

/// The gauge of packets that were cut.
pub const SEGMENTED: &str = "segmented";

/// Cuts packets into segments.
#[derive(Clone, Debug, Default)]
pub struct Segmenter {
    /// Number of packets that were cut, and the identifier of the next packet.
    segmented: u64,
    out: Vec<u8>,
}

impl Segmenter {
    fn give(&mut self, header: Repr, payload: &[u8], give: &mut dyn FnMut(usize, &[u8])) {
        self.out.clear();
        self.out.resize(header.encoded_len(), 0);
        header.emit(&mut View::new_unchecked(&mut self.out[..]));
        self.out.extend_from_slice(payload);
        give(0, &self.out);
    }
}

/// The flow number of a packet that begins at an offset in these bytes, by its addresses, protocol and ports; zero if
/// it is not IP.
fn flow(bytes: &[u8], at: usize) -> u16 {
    let headers = payload::peek_by_version(bytes, at);
    if !headers.is_ip() {
        return 0;
    }
    let key = flow_key(bytes, &headers);
    let mut sum = crc32c(&key.source) ^ crc32c(&key.destination).rotate_left(1);
    sum ^= u32::from(key.source_port) << 16 | u32::from(key.destination_port);
    crc32c(&(sum ^ u32::from(key.protocol)).to_be_bytes()) as u16
}

/// The flow number of the packet, or part of a packet, in a segment that begins at an offset in a frame; `None` if
/// there is no segment.
#[cold]
pub fn flow_of(frame: &[u8], at: usize) -> Option<u16> {
    let view = View::new_checked(frame.get(at..)?).ok()?;
    Some(match Repr::parse(&view).ok()? {
        Repr::Whole(_) => flow(frame, at + WHOLE_LEN),
        Repr::Part(part) => part.of().flow,
    })
}

impl Processor for Segmenter {
    fn process(
        &mut self,
        Taken { payload, room, .. }: Taken<'_>,
        give: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), Reason> {
        if payload.len() > PAYLOAD_MAX {
            return Err(Reason::TooBig);
        }
        let total = payload.len() as u16; // at most PAYLOAD_MAX
        if WHOLE_LEN + payload.len() <= room {
            self.give(Repr::Whole(total), payload, give);
            return Ok(());
        }
        let longest = room.saturating_sub(PART_LEN);
        if longest == 0 || longest * SEGMENTS_MAX < payload.len() {
            return Err(Reason::TooBig);
        }
        let of = Whole {
            identifier: self.segmented as u16, // wraps after 65 536 packets
            flow: flow(payload, 0),
            total,
            check: crc32c(payload),
        };
        self.segmented += 1;
        let mut offset = 0;
        for piece in payload.chunks(longest) {
            let length = piece.len() as u16; // at most `total`
            let part = Part::new(of, offset, length).map_err(|_| Reason::TooBig)?; // each is within `total`
            self.give(Repr::Part(part), piece, give);
            offset += length;
        }
        Ok(())
    }

    fn leaves(&self) -> usize {
        0
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report(SEGMENTED, self.segmented);
    }

    fn state_bytes_max(&self) -> usize {
        size_of_val(self) + WHOLE_LEN + PAYLOAD_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Instant;

    fn cut(payload: &[u8], room: usize) -> Result<Vec<Vec<u8>>, Reason> {
        let mut segments = Vec::new();
        let packet = Taken {
            room,
            ..Taken::new(payload, Instant::ZERO)
        };
        let mut give = |leaf, bytes: &[u8]| {
            assert_eq!(leaf, 0);
            segments.push(bytes.to_vec());
        };
        Segmenter::default().process(packet, &mut give)?;
        Ok(segments)
    }

    #[test]
    fn five_bytes_by_hand() {
        let payload = [1, 2, 3, 4, 5];
        let whole = [&[0xe1, 0, 0, 5], &payload[..]].concat();
        assert_eq!(cut(&payload, 9), Ok(vec![whole]));
        // With one byte less room, parts do not fit either: a part with one byte of payload takes 17 bytes.
        assert_eq!(cut(&payload, 8), Err(Reason::TooBig));
        assert_eq!(cut(&[], 0), Err(Reason::TooBig));
        let payload: Vec<u8> = (1..=20).collect();
        let [a, b, c, d] = crc32c(&payload).to_be_bytes();
        let part = |offset, length, bytes: &[u8]| {
            let header = [0xe1, 1, 0, length, 0, offset, 0, 20, 0, 0, 0, 0, a, b, c, d]; // not IP: flow 0
            [&header[..], bytes].concat()
        };
        let parts = [part(0, 7, &payload[..7]), part(7, 7, &payload[7..14])];
        let expected = [&parts[..], &[part(14, 6, &payload[14..])]].concat();
        assert_eq!(cut(&payload, 23), Ok(expected));
    }

    #[test]
    fn all_packets_of_a_flow_have_its_number() {
        let flows = |port: u16, len: usize| -> Vec<u16> {
            let mut packet = Vec::new();
            etherparse::PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9)
                .udp(port, 53)
                .write(&mut packet, &vec![7; len])
                .unwrap();
            let segments = cut(&packet, 500).unwrap();
            let flow = |segment: &Vec<u8>| flow_of(&[&[0; 9], &segment[..]].concat(), 9).unwrap();
            segments.iter().map(flow).collect()
        };
        let [number] = flows(4000, 10)[..] else {
            panic!("one segment")
        };
        assert_ne!(number, 0);
        assert_eq!(flows(4000, 1200), [number; 3]);
        assert_ne!(flows(4001, 10), [number]);
        assert_eq!(flow_of(&[0xe1, 0, 0, 9], 0), None);
    }

    #[test]
    fn segments_are_as_long_as_the_room_and_as_few_as_permitted() {
        let payload = vec![7; PAYLOAD_MAX];
        let lens = |room| -> Vec<_> {
            let segments = cut(&payload, room).unwrap();
            segments.iter().map(Vec::len).collect()
        };
        assert_eq!(lens(PAYLOAD_MAX + 4), [PAYLOAD_MAX + 4]);
        assert_eq!(lens(PAYLOAD_MAX + 3), [PAYLOAD_MAX + 3, 16 + 13]);
        assert_eq!(lens(16 + 72), vec![16 + 72; SEGMENTS_MAX]);
        assert_eq!(cut(&payload, 16 + 71), Err(Reason::TooBig));
        assert_eq!(
            cut(&[payload, vec![7]].concat(), usize::MAX),
            Err(Reason::TooBig)
        );
    }
}

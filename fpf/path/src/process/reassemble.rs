//! Reassembly: restores the packets that [`segment`](super::segment) cut into segments.
//!
//! ```text
//!  whole packet --> header off ---------------------------------------------------> the packet
//!  part --> in progress? --> separate from received parts?    --> complete? check  --> the packet
//!               | no                | no                              | no
//!               +--> new            +--> overlap: given up            +--> it waits
//!            too many: an old one given up
//! ```
//!
//! Source: RFC 8200, section 4.5, and RFC 5722 (overlapping parts end their packet); RFC 4963 (reassembly errors when
//! identifiers repeat: here each part also contains the CRC of its packet).
//!
//! Parts may arrive in any order. A duplicate part is dropped. A packet is given up [`TIMEOUT`] after its first part,
//! when [`PACKETS_MAX`] newer packets are in progress, or when a part overlaps another part. Parts of packets that
//! ended recently are dropped, so that late and duplicate parts start no packet. Gauge: [`REASSEMBLED`].
//!
//! In the counters, a part that waits ends with reason `fpf-segment`, which is not a loss: its bytes are in the packet.
//! A packet that is given up counts as created, and as dropped with reason `fpf-incomplete`.
//!
//! Parts from different input interfaces are never put together, and an interface that has half of the places can
//! displace only its own packets. So an attacker can harm only packets that arrive through the same interface: use up
//! places, or end a packet by overlap if they know its identifier, length and CRC. Memory is bounded by `PACKETS_MAX`
//! times [`PAYLOAD_MAX`], time by the parts of one packet.

use std::collections::VecDeque;

use weir_base::{Instant, Span};
use weir_packet::Reason;
use weir_wire::WireError;
use weir_wire::checksum::crc32c;

use crate::segment_header::{Part, Repr, View, Whole};

use super::segment::SEGMENTS_MAX;
use super::{PAYLOAD_MAX, Processor, Taken};

/// Maximum packets in progress.
pub const PACKETS_MAX: usize = 64;
/// Time after its first part at which a packet is given up.
pub const TIMEOUT: Span = Span::from_secs(1);

/// The gauge of packets that were put together.
pub const REASSEMBLED: &str = "reassembled";

/// A packet of which parts have arrived.
#[derive(Clone, Debug)]
struct Partial {
    of: Whole,
    /// Number of the interface at which its parts arrive.
    from: u16,
    since: Instant,
    /// Offset and end of each part that has arrived, in the order of their offsets.
    parts: Vec<(u16, u16)>,
    /// All bytes of the packet; zeros where no part has arrived.
    bytes: Vec<u8>,
}

/// The effect of a part on its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Added {
    Waits,
    Completes,
    CameTwice,
    /// The part overlaps another part, or is one too many.
    Spoils,
}

impl Partial {
    fn new(of: Whole, from: u16, since: Instant) -> Self {
        Self {
            of,
            from,
            since,
            parts: Vec::new(),
            bytes: vec![0; of.total.into()],
        }
    }

    fn add(&mut self, part: &Part, payload: &[u8]) -> Added {
        let (start, end) = (part.offset(), part.offset() + part.length().get());
        let place = self.parts.partition_point(|(other, _)| *other < start);
        let Some(bytes) = self.bytes.get_mut(start.into()..end.into()) else {
            return Added::Spoils; // impossible: a part lies within its packet
        };
        if self.parts.get(place) == Some(&(start, end)) && bytes == payload {
            return Added::CameTwice;
        }
        let before = place.checked_sub(1).map(|place| self.parts[place]);
        let overlaps = before.is_some_and(|(_, before)| before > start)
            || self.parts.get(place).is_some_and(|(after, _)| *after < end);
        if overlaps || self.parts.len() >= SEGMENTS_MAX {
            return Added::Spoils;
        }
        bytes.copy_from_slice(payload);
        self.parts.insert(place, (start, end));
        if self.received() == self.bytes.len() {
            Added::Completes
        } else {
            Added::Waits
        }
    }

    /// Bytes that have arrived.
    fn received(&self) -> usize {
        let lens = self.parts.iter().map(|(start, end)| end - start);
        lens.map(usize::from).sum()
    }
}

/// Puts segments together.
#[derive(Clone, Debug, Default)]
pub struct Reassembler {
    /// Oldest first.
    packets: VecDeque<Partial>,
    /// Packets that ended last, their interfaces, and when: at most [`PACKETS_MAX`].
    ended: VecDeque<(Whole, u16, Instant)>,
    /// The number of bytes that had arrived of each packet that was given up, for [`Processor::poll_given_up`].
    given_up: VecDeque<usize>,
    reassembled: u64,
}

impl Reassembler {
    fn take_part(
        &mut self,
        part: &Part,
        payload: &[u8],
        (from, at): (u16, Instant),
        give: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), Reason> {
        let of = part.of();
        if usize::from(of.total) > PAYLOAD_MAX {
            return Err(Reason::TooBig);
        }
        let is_it = |packet: &Partial| packet.of == of && packet.from == from;
        let place = self.packets.iter().rposition(is_it);
        let place = match place {
            Some(place) => place,
            None if self.has_ended(&of, from, at) => return Err(Reason::FpfProcessed),
            None => {
                if self.packets.len() >= PACKETS_MAX {
                    self.give_up(self.oldest_for(from), at);
                }
                self.packets.push_back(Partial::new(of, from, at));
                self.packets.len() - 1
            }
        };
        match self.packets[place].add(part, payload) {
            Added::Waits => Err(Reason::FpfSegment),
            Added::CameTwice => Err(Reason::FpfProcessed),
            Added::Spoils => {
                self.give_up(place, at);
                Err(Reason::FpfProcessed)
            }
            Added::Completes if crc32c(&self.packets[place].bytes) != of.check => {
                self.give_up(place, at);
                Err(Reason::FpfSegment)
            }
            Added::Completes => {
                give(0, &self.packets[place].bytes);
                self.reassembled += 1;
                self.end(place, at);
                Ok(())
            }
        }
    }

    /// The packet that makes room for a packet of an interface: the interface's own oldest packet if it has half of the
    /// places, else the oldest of all.
    fn oldest_for(&self, from: u16) -> usize {
        let own = |packet: &Partial| packet.from == from;
        let count = self.packets.iter().filter(|packet| own(packet)).count();
        if count >= PACKETS_MAX / 2 {
            self.packets.iter().position(own).unwrap_or(0)
        } else {
            0
        }
    }

    /// Whether a packet has ended within [`TIMEOUT`].
    fn has_ended(&self, of: &Whole, from: u16, at: Instant) -> bool {
        let mut ended = self.ended.iter();
        ended.any(|(other, by, when)| (other, *by) == (of, from) && at.since(*when) < TIMEOUT)
    }

    fn give_up(&mut self, place: usize, at: Instant) {
        let received = self.packets.get(place).map(Partial::received);
        self.given_up.extend(received);
        self.end(place, at);
    }

    fn end(&mut self, place: usize, at: Instant) {
        if let Some(packet) = self.packets.remove(place) {
            if self.ended.len() >= PACKETS_MAX {
                self.ended.pop_front();
            }
            self.ended.push_back((packet.of, packet.from, at));
        }
    }
}

impl Processor for Reassembler {
    fn process(
        &mut self,
        Taken {
            payload, at, from, ..
        }: Taken<'_>,
        give: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), Reason> {
        self.handle_timeout(at);
        let header = View::new_checked(payload).and_then(|view| Repr::parse(&view));
        let header = header.map_err(|error| match error {
            WireError::Truncated { .. } => Reason::TruncatedHeader,
            _ => Reason::FpfProcessed,
        })?;
        let (start, len) = (header.encoded_len(), usize::from(header.payload_len()));
        let bytes = payload.get(start..start + len);
        let bytes = bytes.ok_or(Reason::TruncatedHeader)?;
        match header {
            Repr::Whole(_) => {
                give(0, bytes);
                Ok(())
            }
            Repr::Part(part) => self.take_part(&part, bytes, (from, at), give),
        }
    }

    fn leaves(&self) -> usize {
        0
    }

    fn handle_timeout(&mut self, now: Instant) {
        while self.poll_timeout().is_some_and(|due| due <= now) {
            self.give_up(0, now);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.packets.front()?.since + TIMEOUT)
    }

    fn poll_given_up(&mut self) -> Option<usize> {
        self.given_up.pop_front()
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report(REASSEMBLED, self.reassembled);
    }

    fn state_bytes_max(&self) -> usize {
        let partial = size_of::<Partial>() + PAYLOAD_MAX + SEGMENTS_MAX * size_of::<(u16, u16)>();
        let others = size_of::<(Whole, u16, Instant)>() + size_of::<usize>();
        size_of_val(self) + PACKETS_MAX * (partial + others)
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::Segmenter;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    const START: Instant = Instant::from_nanos(1 << 40);

    /// The packet that the far end gives for a segment at a time.
    fn put_at(far: &mut Reassembler, segment: &[u8], at: Instant) -> Result<Vec<u8>, Reason> {
        let mut given = Vec::new();
        far.process(Taken::new(segment, at), &mut |leaf, bytes| {
            assert_eq!(leaf, 0);
            given.push(bytes.to_vec());
        })?;
        assert_eq!(given.len(), 1);
        Ok(given.remove(0))
    }

    fn put(far: &mut Reassembler, segment: &[u8]) -> Result<Vec<u8>, Reason> {
        put_at(far, segment, START)
    }

    fn given_up(far: &mut Reassembler) -> Vec<usize> {
        std::iter::from_fn(|| far.poll_given_up()).collect()
    }

    fn cut(near: &mut Segmenter, payload: &[u8], room: usize) -> Vec<Vec<u8>> {
        let mut segments = Vec::new();
        let packet = Taken {
            room,
            ..Taken::new(payload, START)
        };
        let mut give = |_, bytes: &[u8]| segments.push(bytes.to_vec());
        near.process(packet, &mut give).unwrap();
        segments
    }

    /// The packet 0, 1, 2 .. in parts of ten bytes; the last part may be shorter.
    fn parts(len: u8, identifier: u16) -> Vec<Vec<u8>> {
        let payload: Vec<u8> = (0..len).collect();
        let of = Whole {
            identifier,
            flow: 0,
            total: len.into(),
            check: crc32c(&payload),
        };
        let at = |offset: u16| {
            part(
                of,
                offset,
                &payload[offset.into()..][..10.min(usize::from(len) - usize::from(offset))],
            )
        };
        (0..len.into()).step_by(10).map(at).collect()
    }

    fn part(of: Whole, offset: u16, payload: &[u8]) -> Vec<u8> {
        let header = Repr::Part(Part::new(of, offset, payload.len() as u16).unwrap());
        let mut bytes = vec![0; header.encoded_len()];
        header.emit(&mut View::new_unchecked(&mut bytes[..]));
        bytes.extend(payload);
        bytes
    }

    fn of(total: u16) -> Whole {
        Whole {
            identifier: 9,
            flow: 0,
            total,
            check: 1,
        }
    }

    /// Bytes in the memory of a reassembler.
    fn held(far: &Reassembler) -> usize {
        let packets = far.packets.iter();
        let bytes = |p: &Partial| p.bytes.capacity() + p.parts.capacity() * size_of::<(u16, u16)>();
        packets.map(bytes).sum()
    }

    #[test]
    fn nobody_reaches_packets_that_come_in_by_another_interface() {
        let mut far = Reassembler::default();
        let mut put_from = |from: u16, segment: &[u8]| {
            let packet = Taken {
                from,
                ..Taken::new(segment, START)
            };
            far.process(packet, &mut |_, _| ())
        };
        let honest = parts(25, 0);
        let waits = Err(Reason::FpfSegment);
        assert_eq!(put_from(1, &honest[0]), waits);
        // The same packet, with other bytes: it would spoil the honest one, and end it.
        let mut forged = honest[1].clone();
        *forged.last_mut().unwrap() ^= 1;
        for segment in [&honest[0], &forged, &honest[2]] {
            assert_eq!(put_from(2, segment), waits);
        }
        // Far more packets than there are places.
        for identifier in 1..1000 {
            assert_eq!(put_from(2, &parts(25, identifier)[0]), waits);
        }
        assert_eq!(put_from(1, &honest[1]), waits);
        assert_eq!(put_from(1, &honest[2]), Ok(()));
    }

    proptest! {
        /// Packets of any content and length, rooms of any size, segments of several packets mixed and padded: all come
        /// out, each once and identical.
        #[test]
        fn what_is_cut_comes_out_identical(
            packets in vec(vec(any::<u8>(), 0..2000), 1..6),
            mtu in 100_usize..1600,
            order in vec(any::<Index>(), 120),
            padding in 0_usize..50,
        ) {
            let room = mtu - 5; // an FPF header of three LIDs
            let (mut near, mut far) = (Segmenter::default(), Reassembler::default());
            let mut segments = Vec::new();
            for packet in &packets {
                let cut = cut(&mut near, packet, room);
                prop_assert!(cut.iter().all(|segment| segment.len() <= room));
                segments.extend(cut);
            }
            for (n, to) in order.iter().enumerate() {
                let (from, to) = (n % segments.len(), to.index(segments.len()));
                segments.swap(from, to);
            }
            let mut out = Vec::new();
            for segment in &mut segments {
                segment.resize(segment.len() + padding, 0xee);
                match put(&mut far, segment) {
                    Ok(packet) => out.push(packet),
                    Err(reason) => prop_assert_eq!(reason, Reason::FpfSegment),
                }
            }
            out.sort();
            let mut packets = packets;
            packets.sort();
            prop_assert_eq!(out, packets);
            prop_assert_eq!((held(&far), given_up(&mut far)), (0, vec![]));
        }

        /// If any one segment is lost, and the others arrive in any order, some of them twice, nothing comes out, and
        /// after the timeout nothing is left.
        #[test]
        fn of_a_packet_with_a_lost_segment_nothing_comes_out(
            packet in vec(any::<u8>(), 200..3000),
            mtu in 100_usize..200,
            lost: Index,
            order in vec(any::<Index>(), 60),
        ) {
            let mut segments = cut(&mut Segmenter::default(), &packet, mtu - 5);
            segments.remove(lost.index(segments.len()));
            let sum: usize = segments.iter().map(|segment| segment.len() - 16).sum();
            let mut far = Reassembler::default();
            for segment in order.iter().map(|at| at.get(&segments)).chain(&segments) {
                prop_assert!(matches!(put(&mut far, segment), Err(Reason::FpfSegment | Reason::FpfProcessed)));
            }
            prop_assert_eq!(given_up(&mut far), vec![]);
            far.handle_timeout(START + TIMEOUT);
            prop_assert_eq!(given_up(&mut far), vec![sum]);
            prop_assert_eq!((held(&far), far.poll_timeout()), (0, None));
        }

        /// Parts with any bounds and bytes: no panic, no packet that is not the one with this CRC, bounded memory.
        #[test]
        fn no_segments_make_it_panic_lie_or_grow(
            parts in vec((0_u16..3, 2_u16..12_000, any::<u16>(), any::<u16>(), 0_u8..2), 0..300),
            raw in vec(vec(any::<u8>(), 0..40), 0..20),
        ) {
            let mut far = Reassembler::default();
            for (identifier, total, offset, length, value) in parts {
                let total = if total % 2 == 0 { 40 } else { total };
                let length = 1 + length % (total - 1).min(50);
                let of = Whole { identifier, flow: 0, total, check: crc32c(&vec![0; total.into()]) };
                let segment = part(of, offset % (total - length + 1), &vec![value; length.into()]);
                if let Ok(packet) = put(&mut far, &segment) {
                    prop_assert_eq!(packet, vec![0; total.into()]);
                }
            }
            for segment in &raw {
                let _ = put(&mut far, segment);
            }
            prop_assert!(held(&far) <= far.state_bytes_max());
        }
    }

    #[test]
    fn parts_that_overlap_end_their_packet_and_later_parts_of_it_are_dropped() {
        for (offset, length) in [(5, 10), (0, 11), (0, 9), (1, 9), (1, 8), (0, 40), (9, 1)] {
            let mut far = Reassembler::default();
            let first = part(of(50), 0, &[7; 10]);
            assert_eq!(put(&mut far, &first), Err(Reason::FpfSegment));
            let other = part(of(50), offset, &vec![7; length]);
            assert_eq!(
                put(&mut far, &other),
                Err(Reason::FpfProcessed),
                "{offset} {length}"
            );
            assert_eq!(given_up(&mut far), [10]);
            assert_eq!(put(&mut far, &first), Err(Reason::FpfProcessed));
            assert_eq!(held(&far), 0);
        }
        // The same range with other bytes: one of the two parts is not from the sender.
        let mut far = Reassembler::default();
        let [first, other] = [7, 8].map(|byte| part(of(50), 0, &[byte; 10]));
        assert_eq!(put(&mut far, &first), Err(Reason::FpfSegment));
        assert_eq!(put(&mut far, &other), Err(Reason::FpfProcessed));
        assert_eq!(given_up(&mut far), [10]);
    }

    #[test]
    fn a_packet_whose_sum_is_wrong_is_given_up() {
        let mut far = Reassembler::default();
        let mut parts = parts(20, 0);
        parts[1][16] ^= 1;
        assert_eq!(put(&mut far, &parts[0]), Err(Reason::FpfSegment));
        assert_eq!(put(&mut far, &parts[1]), Err(Reason::FpfSegment));
        assert_eq!(given_up(&mut far), [20]);
    }

    #[test]
    fn packets_with_one_identifier_are_not_mixed() {
        let mut far = Reassembler::default();
        let [a, b] = [parts(20, 3), parts(25, 3)];
        for segment in [&a[0], &b[0], &b[2]] {
            assert_eq!(put(&mut far, segment), Err(Reason::FpfSegment));
        }
        assert_eq!(put(&mut far, &a[1]), Ok((0..20).collect()));
        assert_eq!(put(&mut far, &b[1]), Ok((0..25).collect()));
    }

    #[test]
    fn what_comes_twice_begins_no_packet_and_a_sender_that_begins_anew_does() {
        let mut far = Reassembler::default();
        let parts = parts(20, 3);
        assert_eq!(put(&mut far, &parts[1]), Err(Reason::FpfSegment));
        assert_eq!(put(&mut far, &parts[1]), Err(Reason::FpfProcessed));
        assert_eq!(put(&mut far, &parts[0]), Ok((0..20).collect()));
        assert_eq!(put(&mut far, &parts[0]), Err(Reason::FpfProcessed));
        let later = START + TIMEOUT;
        let waits = put_at(&mut far, &parts[0], later);
        assert_eq!(waits, Err(Reason::FpfSegment));
        assert_eq!(put_at(&mut far, &parts[1], later), Ok((0..20).collect()));
        assert_eq!(given_up(&mut far), [0; 0]);
    }

    #[test]
    fn a_flood_of_first_parts_is_bounded_and_the_oldest_packets_go_first() {
        let mut far = Reassembler::default();
        let long = |identifier| {
            part(
                Whole {
                    identifier,
                    ..of(PAYLOAD_MAX as u16)
                },
                0,
                &[1],
            )
        };
        let flood = 10 * PACKETS_MAX as u16;
        for identifier in 0..flood {
            assert_eq!(put(&mut far, &long(identifier)), Err(Reason::FpfSegment));
            assert!(held(&far) <= far.state_bytes_max());
        }
        assert_eq!(given_up(&mut far).len(), 9 * PACKETS_MAX);
        assert_eq!(far.packets[0].of.identifier, flood - PACKETS_MAX as u16);
        // A packet whose parts arrive together still passes.
        let parts = parts(20, 3);
        assert_eq!(put(&mut far, &parts[0]), Err(Reason::FpfSegment));
        assert_eq!(put(&mut far, &parts[1]), Ok((0..20).collect()));
        // Many small parts of one packet.
        for offset in 0..SEGMENTS_MAX as u16 {
            let small = part(of(1000), 2 * offset, &[1]);
            assert_eq!(put(&mut far, &small), Err(Reason::FpfSegment));
        }
        let more = part(of(1000), 999, &[1]);
        assert_eq!(put(&mut far, &more), Err(Reason::FpfProcessed));
        let too_long = part(of(PAYLOAD_MAX as u16 + 1), 0, &[1]);
        assert_eq!(put(&mut far, &too_long), Err(Reason::TooBig));
    }

    #[test]
    fn what_is_no_segment_is_dropped() {
        let mut far = Reassembler::default();
        assert_eq!(put(&mut far, &[0xe1, 0, 0]), Err(Reason::TruncatedHeader));
        assert_eq!(
            put(&mut far, &[0xe1, 0, 0, 1]),
            Err(Reason::TruncatedHeader)
        );
        assert_eq!(put(&mut far, &[0x45, 0, 0, 20]), Err(Reason::FpfProcessed));
        assert_eq!(put(&mut far, &[0xe1, 0, 0, 0]), Ok(vec![]));
    }
}

//! The memory for the bytes and flow keys of all held packets.
//!
//! ```text
//!  slot 0            slot 1
//! +--------+---------+--------+---------+--
//! | spare  | frame   | spare  | frame   | ...      fixed memory, allocated once
//! +--------+---------+--------+---------+--
//!   HEADROOM           HEADROOM
//! ```
//!
//! The spare bytes before each frame let a header grow without moving the payload. A pool may have a few long slots after
//! these, for superframes. Each is a buffer of its own, so that a device may read a superframe into such a buffer and
//! exchange it for a free one ([`FrameBytes::Buffer`]).

use std::ops::{Deref, Range};

use weir_base::Instant;

use crate::key::Keys;
use crate::packet::{HEADROOM, Packet, Slot};

/// A fixed number of packet slots.
#[derive(Debug)]
pub struct Pool {
    /// The flow keys, by slot.
    pub keys: Keys,
    memory: Memory,
    extents: Box<[Extent]>,
    free: Vec<Slot>,
    free_long: Vec<Slot>,
    next_id: u64,
}

/// The bytes of all slots: first the ordinary ones, then the long ones.
#[derive(Debug)]
struct Memory {
    bytes: Box<[u8]>,
    long: Vec<LongBuffer>,
    /// Number of ordinary slots.
    ordinary: usize,
    /// The longest frame in an ordinary slot.
    frame_bytes_max: usize,
}

/// The position of a frame within its slot, for callers that have only the slot. A [`Packet`] has its position, so
/// callers with a packet need not load this.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    start: u32,
    len: u32,
}

/// The longest frame that fits a long slot, in bytes: a superframe of 64 KB with its link header.
pub const LONG_BYTES_MAX: usize = 65_535 + 22;

/// A buffer for the longest superframe, with spare bytes before it.
#[derive(Debug)]
pub struct LongBuffer(Box<[u8]>);

impl Default for LongBuffer {
    fn default() -> Self {
        Self(vec![0; HEADROOM + LONG_BYTES_MAX].into())
    }
}

impl LongBuffer {
    /// The spare bytes and the bytes for the frame.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// The bytes of a received frame.
#[derive(Debug)]
pub enum FrameBytes<'a> {
    /// Bytes to be copied into the pool.
    Lent(&'a [u8]),
    /// The first bytes after the spare bytes of a buffer, and their number. The pool may take the buffer, and leave a free
    /// buffer in its place.
    Buffer(&'a mut LongBuffer, usize),
}

impl Deref for FrameBytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Buffer(buffer, len) => &buffer.0[HEADROOM..HEADROOM + len],
        }
    }
}

impl Pool {
    /// A pool of `slots` packets of at most `frame_bytes_max` bytes; flow hashes under `secret`.
    pub fn new(slots: usize, frame_bytes_max: usize, secret: (u64, u64)) -> Self {
        let numbers = 0..u32::try_from(slots).unwrap_or(u32::MAX);
        Self {
            keys: Keys::new(slots, secret),
            memory: Memory {
                bytes: vec![0; slots * (HEADROOM + frame_bytes_max)].into(),
                long: Vec::new(),
                ordinary: slots,
                frame_bytes_max,
            },
            extents: vec![Extent::default(); slots].into_boxed_slice(),
            free: numbers.rev().map(Slot).collect(),
            free_long: Vec::new(),
            next_id: 0,
        }
    }

    /// Adds `count` long slots to a pool that is still unused.
    pub fn with_long(self, count: usize) -> Self {
        let ordinary = self.ordinary();
        let total = ordinary + count;
        let numbers = ordinary as u32..total as u32;
        Self {
            keys: self.keys.sized(total),
            memory: Memory {
                long: (0..count).map(|_| LongBuffer::default()).collect(),
                ..self.memory
            },
            extents: vec![Extent::default(); total].into(),
            free_long: numbers.rev().map(Slot).collect(),
            ..self
        }
    }

    /// Whether a long slot is free.
    pub fn has_long(&self) -> bool {
        !self.free_long.is_empty()
    }

    /// Number of free slots.
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// Number of slots, long ones included.
    pub fn slots(&self) -> usize {
        self.extents.len()
    }

    /// Number of slots that are not long.
    pub fn ordinary(&self) -> usize {
        self.memory.ordinary
    }

    /// The longest frame that fits an ordinary slot, in bytes.
    pub fn frame_bytes_max(&self) -> usize {
        self.memory.frame_bytes_max
    }

    /// Stores a received frame; `None` if no slot is free or the frame does not fit in one.
    #[inline]
    pub fn receive(&mut self, frame: &[u8], arrived: Instant) -> Option<Packet> {
        let packet = self.create(frame.len(), arrived)?;
        self.frame_mut(&packet).copy_from_slice(frame);
        Some(packet)
    }

    /// Stores a received frame of `len` bytes by exchanging its buffer for that of a long slot; `None` if no such slot is
    /// free.
    pub fn exchange(
        &mut self,
        buffer: &mut LongBuffer,
        len: usize,
        arrived: Instant,
    ) -> Option<Packet> {
        let slot = self.free_long.pop()?;
        let number = self.memory.long_number(slot)?;
        std::mem::swap(&mut self.memory.long[number], buffer);
        Some(self.packet_at(slot, len, arrived))
    }

    /// A packet of `len` bytes whose content the caller must write; `None` in the same cases as [`Self::receive`].
    #[inline]
    pub fn create(&mut self, len: usize, arrived: Instant) -> Option<Packet> {
        let slot = self.take_slot(len)?;
        Some(self.packet_at(slot, len, arrived))
    }

    /// A free slot with room for `bytes` bytes behind the spare bytes; `None` in the same cases as [`Self::receive`].
    #[inline]
    fn take_slot(&mut self, bytes: usize) -> Option<Slot> {
        if bytes <= self.frame_bytes_max() {
            self.free.pop()
        } else if bytes <= LONG_BYTES_MAX {
            self.free_long.pop()
        } else {
            None
        }
    }

    #[inline]
    fn packet_at(&mut self, slot: Slot, len: usize, arrived: Instant) -> Packet {
        let id = self.next_id;
        self.next_id += 1;
        let packet = Packet::new(id, slot, len as u32, arrived);
        self.note(&packet);
        packet
    }

    /// A copy of a packet: its bytes, their position in the slot, its flow key, class, queue, ECN field and time of
    /// arrival, with a new serial number. `None` if no slot is free. The original may be in any slot of this pool.
    pub fn duplicate(&mut self, packet: &Packet) -> Option<Packet> {
        // A frame that has grown or shrunk at its front needs a slot in which its end has room.
        let slot = self.take_slot(range(packet).end.saturating_sub(HEADROOM))?;
        let mut copy = self.packet_at(slot, packet.len as usize, packet.arrived);
        copy.start = packet.start;
        self.note(&copy);
        self.memory.copy(packet, &copy);
        self.keys.copy(packet.slot, copy.slot);
        copy.class = packet.class;
        copy.queue = packet.queue;
        copy.ecn = packet.ecn;
        Some(copy)
    }

    /// The frame of a packet.
    #[inline]
    pub fn frame(&self, packet: &Packet) -> &[u8] {
        self.memory.at(packet.slot, range(packet))
    }

    /// The flow keys, and the frame of a packet.
    #[inline]
    pub fn keys_and_frame(&mut self, packet: &Packet) -> (&mut Keys, &[u8]) {
        (&mut self.keys, self.memory.at(packet.slot, range(packet)))
    }

    /// The frame in a slot that has not been returned yet.
    #[inline]
    pub fn frame_at(&self, slot: Slot) -> &[u8] {
        let Extent { start, len } = self.extents[slot.0 as usize];
        let start = start as usize;
        self.memory.at(slot, start..start + len as usize)
    }

    /// The frame of a packet, for rewriting headers in place.
    #[inline]
    pub fn frame_mut(&mut self, packet: &Packet) -> &mut [u8] {
        self.memory.at_mut(packet.slot, range(packet))
    }

    /// Bytes stripped from the front of a packet since it arrived; negative if it has grown.
    #[inline]
    pub fn stripped(&self, packet: &Packet) -> i32 {
        i32::from(packet.start) - HEADROOM as i32
    }

    /// Moves the start of the frame by `delta` bytes: a negative value grows a header into the spare
    /// bytes, a positive one strips a header. Returns whether there was room.
    #[inline]
    pub fn move_start(&mut self, packet: &mut Packet, delta: i32) -> bool {
        let start = i32::from(packet.start) + delta;
        let (Ok(start), Some(len)) = (u16::try_from(start), packet.len.checked_add_signed(-delta))
        else {
            return false;
        };
        (packet.start, packet.len) = (start, len);
        self.note(packet);
        true
    }

    /// Makes room for `bytes` more bytes at the front of the frame, whose content the caller must write. If there are
    /// fewer spare bytes before the frame, the frame moves towards the end of its slot, and
    /// [`Self::stripped`] counts from there. Returns whether there was room.
    #[inline]
    pub fn grow_front(&mut self, packet: &mut Packet, bytes: usize) -> bool {
        let start = usize::from(packet.start);
        let lacking = bytes.saturating_sub(start);
        let end = start + packet.len as usize + lacking;
        let longest = match self.memory.long_number(packet.slot) {
            Some(_) => LONG_BYTES_MAX,
            None => self.frame_bytes_max(),
        };
        if end > HEADROOM + longest {
            return false;
        }
        if lacking > 0 {
            let bytes = self.memory.at_mut(packet.slot, start..end);
            bytes.copy_within(..packet.len as usize, lacking);
            packet.start += lacking as u16; // `start` is now `bytes`
        }
        self.move_start(packet, -(bytes as i32)) // at least `bytes` bytes are before the frame
    }

    /// Cuts the frame to its first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, packet: &mut Packet, len: usize) {
        packet.len = packet.len.min(len as u32);
        self.note(packet);
    }

    /// Takes back the slot of a packet that was sent.
    pub fn release(&mut self, packet: Packet) {
        self.reclaim([packet.slot].into_iter());
    }

    /// Takes back the slots of packets that were discarded.
    pub fn reclaim(&mut self, slots: impl Iterator<Item = Slot>) {
        for slot in slots {
            match self.memory.long_number(slot) {
                Some(_) => self.free_long.push(slot),
                None => self.free.push(slot),
            }
        }
    }

    /// Records the position of a packet's frame for its slot.
    #[inline]
    fn note(&mut self, packet: &Packet) {
        self.extents[packet.slot.0 as usize] = Extent {
            start: packet.start.into(),
            len: packet.len,
        };
    }
}

impl Memory {
    /// A part of a slot.
    #[inline]
    fn at(&self, slot: Slot, part: Range<usize>) -> &[u8] {
        match self.long_number(slot) {
            None => &self.bytes[self.placed(slot, part)],
            Some(number) => &self.long[number].0[part],
        }
    }

    #[inline]
    fn at_mut(&mut self, slot: Slot, part: Range<usize>) -> &mut [u8] {
        match self.long_number(slot) {
            None => {
                let placed = self.placed(slot, part);
                &mut self.bytes[placed]
            }
            Some(number) => &mut self.long[number].0[part],
        }
    }

    /// Copies a frame to another slot.
    fn copy(&mut self, from: &Packet, to: &Packet) {
        if [from, to]
            .iter()
            .any(|p| self.long_number(p.slot).is_some())
        {
            let bytes = self.at(from.slot, range(from)).to_vec();
            self.at_mut(to.slot, range(to)).copy_from_slice(&bytes);
        } else {
            let (from, to) = [from, to].map(|p| self.placed(p.slot, range(p))).into();
            self.bytes.copy_within(from, to.start);
        }
    }

    /// The number of a long slot.
    #[inline]
    fn long_number(&self, slot: Slot) -> Option<usize> {
        (slot.0 as usize).checked_sub(self.ordinary)
    }

    /// The place of a part of an ordinary slot.
    #[inline]
    fn placed(&self, slot: Slot, part: Range<usize>) -> Range<usize> {
        let base = slot.0 as usize * (HEADROOM + self.frame_bytes_max);
        base + part.start..base + part.end
    }
}

/// The position of a packet's frame in its slot.
#[inline]
fn range(packet: &Packet) -> Range<usize> {
    let start = usize::from(packet.start);
    start..start + packet.len as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::FlowKey;
    use crate::packet::{Class, Ecn, Queue};

    #[test]
    fn a_pool_gives_out_each_slot_once() {
        let mut pool = Pool::new(2, 100, (1, 2));
        let a = pool.receive(b"abc", Instant::ZERO).unwrap();
        let b = pool.receive(b"defg", Instant::ZERO).unwrap();
        assert!(pool.receive(b"x", Instant::ZERO).is_none());
        assert_eq!(pool.frame(&a), b"abc");
        assert_eq!(pool.frame(&b), b"defg");
        pool.release(a);
        assert_eq!(pool.available(), 1);
    }

    #[test]
    fn a_frame_that_does_not_fit_is_refused() {
        let mut pool = Pool::new(1, 4, (1, 2));
        assert!(pool.receive(b"abcde", Instant::ZERO).is_none());
        assert_eq!(pool.available(), 1);
    }

    #[test]
    fn headers_grow_into_the_headroom_and_shrink_again() {
        let mut pool = Pool::new(1, 100, (1, 2));
        let mut packet = pool.receive(b"payload", Instant::ZERO).unwrap();
        assert!(pool.move_start(&mut packet, -2));
        pool.frame_mut(&packet)[..2].copy_from_slice(b"h:");
        assert_eq!(pool.frame(&packet), b"h:payload");
        assert_eq!(packet.len, 9);
        assert!(pool.move_start(&mut packet, 2));
        assert_eq!(pool.frame(&packet), b"payload");
        assert!(!pool.move_start(&mut packet, -1000));
        assert!(!pool.move_start(&mut packet, 1000));
    }

    #[test]
    fn a_copy_has_everything_of_the_original_and_a_life_of_its_own() {
        let mut pool = Pool::new(2, 100, (1, 2));
        let mut packet = pool.receive(b"..payload", Instant::from_nanos(5)).unwrap();
        assert!(pool.move_start(&mut packet, 2));
        let key = FlowKey::link([1; 6], [2; 6]);
        pool.keys.set(packet.slot, key);
        packet.class = Class(3);
        packet.queue = Queue(4);
        packet.ecn = Ecn::Capable0;
        let mut copy = pool.duplicate(&packet).unwrap();
        assert_eq!(pool.frame(&copy), b"payload");
        assert_eq!(pool.stripped(&copy), 2);
        assert_eq!(*pool.keys.key(&copy), key);
        assert_ne!((copy.id, copy.slot), (packet.id, packet.slot));
        let same = |p: &Packet| (p.arrived, p.len, p.class, p.queue, p.ecn);
        assert_eq!(same(&copy), same(&packet));
        assert!(pool.move_start(&mut copy, 3));
        pool.frame_mut(&copy)[0] = b'!';
        assert_eq!(pool.frame(&packet), b"payload");
        assert!(pool.duplicate(&packet).is_none(), "no slot is left");
    }

    #[test]
    fn a_copy_has_a_slot_with_room_for_its_end() {
        let mut pool = Pool::new(3, 100, (1, 2)).with_long(2);
        let mut grown = pool.receive(&[7; 100], Instant::ZERO).unwrap();
        assert!(pool.move_start(&mut grown, -(HEADROOM as i32)));
        let copy = pool.duplicate(&grown).unwrap();
        assert_eq!(pool.frame(&copy), pool.frame(&grown));
        assert_eq!(pool.available(), 1, "an ordinary slot has this room");
        let neighbour = pool.receive(&[9; 100], Instant::ZERO).unwrap();
        let long: Vec<u8> = (0..130).collect();
        let mut stripped = pool.receive(&long, Instant::ZERO).unwrap();
        assert!(pool.move_start(&mut stripped, 40));
        let copy = pool.duplicate(&stripped).unwrap();
        assert_eq!(pool.frame(&copy), &long[40..]);
        assert_eq!(pool.frame(&neighbour), [9; 100]);
    }

    #[test]
    fn a_frame_moves_back_if_there_is_too_little_room_before_it() {
        let mut pool = Pool::new(2, 100, (1, 2));
        let neighbour = pool.receive(&[7; 100], Instant::ZERO).unwrap();
        let mut packet = pool.receive(b"payload", Instant::ZERO).unwrap();
        assert!(pool.grow_front(&mut packet, HEADROOM));
        assert_eq!(pool.stripped(&packet), -(HEADROOM as i32));
        assert_eq!(packet.len as usize, HEADROOM + 7);
        assert!(pool.grow_front(&mut packet, 93), "to the last byte");
        assert_eq!(packet.len as usize, HEADROOM + 100);
        assert!(pool.frame(&packet).ends_with(b"payload"));
        assert!(!pool.grow_front(&mut packet, 1));
        assert!(pool.frame(&packet).ends_with(b"payload"));
        assert_eq!(pool.frame(&neighbour), [7; 100]);
    }
}

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
//! these, for superframes.

use weir_base::Instant;

use crate::key::Keys;
use crate::packet::{HEADROOM, Packet, Slot};

/// A fixed number of packet slots.
#[derive(Debug)]
pub struct Pool {
    /// The flow keys, by slot.
    pub keys: Keys,
    bytes: Box<[u8]>,
    extents: Box<[Extent]>,
    free: Vec<Slot>,
    free_long: Vec<Slot>,
    /// Number of ordinary slots.
    ordinary: usize,
    frame_bytes_max: usize,
    next_id: u64,
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

impl Pool {
    /// A pool of `slots` packets of at most `frame_bytes_max` bytes; flow hashes under `secret`.
    pub fn new(slots: usize, frame_bytes_max: usize, secret: (u64, u64)) -> Self {
        let numbers = 0..u32::try_from(slots).unwrap_or(u32::MAX);
        Self {
            keys: Keys::new(slots, secret),
            bytes: vec![0; slots * (HEADROOM + frame_bytes_max)].into_boxed_slice(),
            extents: vec![Extent::default(); slots].into_boxed_slice(),
            free: numbers.rev().map(Slot).collect(),
            free_long: Vec::new(),
            ordinary: slots,
            frame_bytes_max,
            next_id: 0,
        }
    }

    /// Adds `count` long slots to a pool that is still unused.
    pub fn with_long(self, count: usize) -> Self {
        let total = self.ordinary + count;
        let numbers = self.ordinary as u32..total as u32;
        Self {
            keys: self.keys.sized(total),
            bytes: vec![0; self.bytes.len() + count * (HEADROOM + LONG_BYTES_MAX)].into(),
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
        self.ordinary
    }

    /// The longest frame that fits an ordinary slot, in bytes.
    pub fn frame_bytes_max(&self) -> usize {
        self.frame_bytes_max
    }

    /// Stores a received frame; `None` if no slot is free or the frame does not fit in one.
    pub fn receive(&mut self, frame: &[u8], arrived: Instant) -> Option<Packet> {
        let packet = self.create(frame.len(), arrived)?;
        self.frame_mut(&packet).copy_from_slice(frame);
        Some(packet)
    }

    /// A packet of `len` bytes whose content the caller must write; `None` in the same cases as [`Self::receive`].
    pub fn create(&mut self, len: usize, arrived: Instant) -> Option<Packet> {
        let slot = if len <= self.frame_bytes_max {
            self.free.pop()?
        } else if len <= LONG_BYTES_MAX {
            self.free_long.pop()?
        } else {
            return None;
        };
        let id = self.next_id;
        self.next_id += 1;
        let packet = Packet::new(id, slot, len as u32, arrived);
        self.note(&packet);
        Some(packet)
    }

    /// A copy of a packet: its bytes, their position in the slot, its flow key, class, queue, ECN field and time of
    /// arrival, with a new serial number. `None` if no slot is free. The original may be in any slot of this pool.
    pub fn duplicate(&mut self, packet: &Packet) -> Option<Packet> {
        let mut copy = self.create(packet.len as usize, packet.arrived)?;
        let (from, to) = (self.range(packet), self.base(copy.slot));
        self.bytes.copy_within(from, to + usize::from(packet.start));
        copy.start = packet.start;
        self.note(&copy);
        self.keys.copy(packet.slot, copy.slot);
        copy.class = packet.class;
        copy.queue = packet.queue;
        copy.ecn = packet.ecn;
        Some(copy)
    }

    /// The frame of a packet.
    #[inline]
    pub fn frame(&self, packet: &Packet) -> &[u8] {
        &self.bytes[self.range(packet)]
    }

    /// The flow keys, and the frame of a packet.
    #[inline]
    pub fn keys_and_frame(&mut self, packet: &Packet) -> (&mut Keys, &[u8]) {
        let range = self.range(packet);
        (&mut self.keys, &self.bytes[range])
    }

    /// The frame in a slot that has not been returned yet.
    #[inline]
    pub fn frame_at(&self, slot: Slot) -> &[u8] {
        let Extent { start, len } = self.extents[slot.0 as usize];
        let start = self.base(slot) + start as usize;
        &self.bytes[start..start + len as usize]
    }

    /// The frame of a packet, for rewriting headers in place.
    #[inline]
    pub fn frame_mut(&mut self, packet: &Packet) -> &mut [u8] {
        let range = self.range(packet);
        &mut self.bytes[range]
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
        let longest = if self.is_long(packet.slot) {
            LONG_BYTES_MAX
        } else {
            self.frame_bytes_max
        };
        if end > HEADROOM + longest {
            return false;
        }
        if lacking > 0 {
            let from = self.range(packet);
            let to = from.start + lacking;
            self.bytes.copy_within(from, to);
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
            if self.is_long(slot) {
                self.free_long.push(slot);
            } else {
                self.free.push(slot);
            }
        }
    }

    #[inline]
    fn range(&self, packet: &Packet) -> std::ops::Range<usize> {
        let start = self.base(packet.slot) + usize::from(packet.start);
        start..start + packet.len as usize
    }

    /// Records the position of a packet's frame for its slot.
    #[inline]
    fn note(&mut self, packet: &Packet) {
        self.extents[packet.slot.0 as usize] = Extent {
            start: packet.start.into(),
            len: packet.len,
        };
    }

    #[inline]
    fn is_long(&self, slot: Slot) -> bool {
        slot.0 as usize >= self.ordinary
    }

    /// The offset of a slot in the memory, in bytes.
    #[inline]
    fn base(&self, slot: Slot) -> usize {
        let slot = slot.0 as usize;
        let before = slot.min(self.ordinary);
        before * (HEADROOM + self.frame_bytes_max) + (slot - before) * (HEADROOM + LONG_BYTES_MAX)
    }
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

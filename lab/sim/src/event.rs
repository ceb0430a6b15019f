//! The event queue: events in the order of (time, serial number).
//!
//! ```text
//!   in hand              wheel                                    far
//!   a sorted list:       65 536 slots of 1.024 us, each a list    a heap: later than
//!   the slot in hand     in no order; a bitmap finds the next     the wheel turns, 67 ms
//! ```
//!
//! An event is added to the wheel in constant time, and sorted only within its slot, when that slot is reached; usually
//! it is alone there. Events beyond one turn of the wheel wait in a heap; these are mostly retransmission timers, which
//! are few, because they are moved lazily. Entries are kept in one array and reused: in steady state nothing is
//! allocated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_base::Instant;

/// The length of a slot is 2^10 ns.
const SLOT_SHIFT: u32 = 10;
/// Number of slots of the wheel, a power of two.
const SLOTS: u64 = 1 << 16;
const WORDS: usize = SLOTS as usize / 64;
const NONE: u32 = u32::MAX;
/// Maximum events of a slot that are sorted by insertion.
const INSERTED_MAX: usize = 32;

/// Events of type `E` ordered by time; events of the same time are in the order of their scheduling.
#[derive(Debug)]
pub struct Queue<E> {
    entries: Vec<Entry<E>>,
    free: u32,
    serial: u64,
    /// The first event of the current slot and of earlier ones, which form a sorted list.
    first: u32,
    /// The number of the current slot, counted from time zero.
    hand: u64,
    wheel: Box<[u32; SLOTS as usize]>,
    /// One bit for each slot, set if the slot is not empty.
    occupied: Box<[u64; WORDS]>,
    far: BinaryHeap<Reverse<Key>>,
    /// Memory for sorting a slot.
    scratch: Vec<Key>,
}

/// Sort key: time, then serial number, then the index of the entry.
type Key = (u64, u64, u32);

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    time: u64,
    serial: u64,
    event: E,
    /// The next entry of the same list.
    next: u32,
}

impl<E: Copy> Default for Queue<E> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
            serial: 0,
            first: NONE,
            hand: 0,
            wheel: Box::new([NONE; SLOTS as usize]),
            occupied: Box::new([0; WORDS]),
            far: BinaryHeap::new(),
            scratch: Vec::new(),
        }
    }
}

impl<E: Copy> Queue<E> {
    /// Schedules an event. An event with a time in the past comes next.
    #[inline]
    pub fn push(&mut self, at: Instant, event: E) {
        let time = at.as_nanos();
        let serial = self.serial;
        self.serial += 1;
        let slot = time >> SLOT_SHIFT;
        let ahead = slot.saturating_sub(self.hand);
        let place = (slot % SLOTS) as usize;
        let entry = Entry {
            time,
            serial,
            event,
            next: self.wheel[place],
        };
        let index = match self.entries.get_mut(self.free as usize) {
            Some(place) => {
                let index = self.free;
                self.free = place.next;
                *place = entry;
                index
            }
            None => self.add(entry),
        };
        // Neither in the current slot nor beyond one turn of the wheel.
        if ahead.wrapping_sub(1) < SLOTS - 1 {
            self.wheel[place] = index;
            self.occupied[place / 64] |= 1 << (place % 64);
        } else {
            self.put_elsewhere(index, ahead);
        }
    }

    /// A new entry.
    #[cold]
    #[inline(never)]
    fn add(&mut self, entry: Entry<E>) -> u32 {
        self.entries.push(entry);
        (self.entries.len() - 1) as u32
    }

    /// Puts an event that is not for the wheel into the current slot or into the heap. This is a separate function to
    /// keep the common case short.
    #[inline(never)]
    fn put_elsewhere(&mut self, index: u32, ahead: u64) {
        match ahead {
            0 => self.insert(index),
            _ => {
                let Entry { time, serial, .. } = self.entries[index as usize];
                self.far.push(Reverse((time, serial, index)));
            }
        }
    }

    /// The time of the next event.
    #[inline]
    pub fn next_time(&mut self) -> Option<Instant> {
        if self.first == NONE {
            self.turn();
        }
        let entry = self.entries.get(self.first as usize)?;
        Some(Instant::from_nanos(entry.time))
    }

    /// Takes the next event if its time is not later than `time`.
    #[inline]
    pub fn pop_until(&mut self, time: Instant) -> Option<(Instant, E)> {
        if self.next_time()? > time {
            return None;
        }
        let index = self.first;
        let entry = self.entries.get_mut(index as usize)?;
        self.first = std::mem::replace(&mut entry.next, self.free);
        self.free = index;
        Some((Instant::from_nanos(entry.time), entry.event))
    }

    /// Number of scheduled events.
    pub fn len(&self) -> usize {
        let unused = std::iter::successors(self.entry(self.free), |entry| self.entry(entry.next));
        self.entries.len() - unused.count()
    }

    /// Whether nothing is scheduled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn entry(&self, index: u32) -> Option<&Entry<E>> {
        self.entries.get(index as usize)
    }

    /// Advances to the next slot with events, and takes its events.
    #[inline]
    fn turn(&mut self) {
        let never = u64::MAX;
        let on_wheel = self.next_occupied().unwrap_or(never);
        let ahead = match self.far.peek() {
            Some(Reverse((time, ..))) => time >> SLOT_SHIFT,
            None => never,
        };
        let slot = on_wheel.min(ahead);
        if slot == never {
            return;
        }
        self.hand = slot;
        if on_wheel == slot {
            let place = (slot % SLOTS) as usize;
            self.occupied[place / 64] &= !(1 << (place % 64));
            self.first = std::mem::replace(&mut self.wheel[place], NONE);
        }
        let is_alone = self.entry(self.first).is_none_or(|e| e.next == NONE);
        if ahead == slot || !is_alone {
            self.sort();
        }
    }

    /// Sorts the current slot, including the events that come from the heap.
    #[inline(never)]
    fn sort(&mut self) {
        let mut rest = std::mem::replace(&mut self.first, NONE);
        while let Some(Reverse((time, _, index))) = self.far.peek().copied()
            && time >> SLOT_SHIFT <= self.hand
        {
            self.far.pop();
            self.entries[index as usize].next = std::mem::replace(&mut rest, index);
        }
        // The event that was scheduled last is first in the list and mostly has the latest time, so each of these finds
        // its place immediately.
        for _ in 0..INSERTED_MAX {
            let Some(entry) = self.entry(rest) else {
                return;
            };
            self.insert(std::mem::replace(&mut rest, entry.next));
        }
        self.scratch.clear();
        for mut index in [self.first, rest] {
            while let Some(entry) = self.entries.get(index as usize) {
                self.scratch.push((entry.time, entry.serial, index));
                index = entry.next;
            }
        }
        self.scratch.sort_unstable();
        self.first = NONE;
        for (.., index) in self.scratch.iter().rev() {
            self.entries[*index as usize].next = std::mem::replace(&mut self.first, *index);
        }
    }

    /// Inserts an event of the current slot at its place: mostly the first, or close to it.
    #[inline]
    fn insert(&mut self, index: u32) {
        let key = |entry: &Entry<E>| (entry.time, entry.serial);
        let own = key(&self.entries[index as usize]);
        let mut before = NONE;
        let mut after = self.first;
        while let Some(entry) = self.entries.get(after as usize)
            && key(entry) < own
        {
            before = after;
            after = entry.next;
        }
        self.entries[index as usize].next = after;
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.next = index,
            None => self.first = index,
        }
    }

    /// The first slot after the current one, within one turn, that is not empty.
    #[inline]
    fn next_occupied(&self) -> Option<u64> {
        let first = self.hand + 1;
        let mut index = (first % SLOTS / 64) as usize;
        let near = self.occupied[index] >> (first % 64);
        if near != 0 {
            return Some(first + u64::from(near.trailing_zeros())); // the usual case
        }
        // All other words, and then the first one again for its lower bits.
        let mut slot = first - first % 64;
        for _ in 0..WORDS {
            index = (index + 1) % WORDS;
            slot += 64;
            if self.occupied[index] != 0 {
                return Some(slot + u64::from(self.occupied[index].trailing_zeros()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn one_time_is_served_in_the_order_of_scheduling() {
        let mut queue = Queue::default();
        queue.push(at(7), 'b');
        queue.push(at(7), 'c');
        queue.push(at(5), 'a');
        let all: String = std::iter::from_fn(|| queue.pop_until(at(9)))
            .map(|(_, event)| event)
            .collect();
        assert_eq!(all, "abc");
    }

    #[test]
    fn nothing_is_given_before_its_time() {
        let mut queue = Queue::default();
        queue.push(at(1 << 40), ());
        assert_eq!(queue.pop_until(at((1 << 40) - 1)), None);
        queue.push(at(3), ());
        assert_eq!(queue.pop_until(at(3)), Some((at(3), ())));
        assert_eq!(queue.next_time(), Some(at(1 << 40)));
    }

    proptest! {
        /// Compared with a tree, over times from one slot to many turns of the wheel.
        #[test]
        fn events_come_as_from_a_sorted_map(steps in prop::collection::vec((0_u64..28, any::<u32>(), 0_usize..3), 1..400)) {
            let mut queue = Queue::default();
            let mut map = BTreeMap::new();
            let mut now = 0;
            for (serial, (size, ahead, pops)) in steps.into_iter().enumerate() {
                let time = now + (u64::from(ahead) >> size);
                queue.push(at(time), serial);
                map.insert((time, serial), ());
                prop_assert_eq!(queue.len(), map.len());
                for _ in 0..pops {
                    let expected = map.pop_first().map(|((time, serial), ())| (at(time), serial));
                    let got = queue.pop_until(at(u64::MAX));
                    prop_assert_eq!(got, expected);
                    now = got.map_or(now, |(time, _)| time.as_nanos());
                }
            }
            while let Some(((time, serial), ())) = map.pop_first() {
                prop_assert_eq!(queue.pop_until(at(u64::MAX)), Some((at(time), serial)));
            }
            prop_assert!(queue.is_empty());
        }
    }
}

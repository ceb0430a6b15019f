//! The event queue: events in the order of (time, serial number).
//!
//! ```text
//!   near                 wheel                                    far
//!   a short sorted list: 16 384 slots of 4.096 us, each a list    a heap: later than
//!   the slot in hand     in no order; a bitmap finds the next     the wheel turns, 67 ms
//! ```
//!
//! An event goes to the wheel in constant time and is sorted only within its slot, when that is
//! reached. What lies further ahead than the wheel turns (mostly retransmission timers, which are
//! few, because they are moved lazily) waits in a heap. Entries live in one array and are
//! used again: in steady state nothing is allocated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use weir_base::Instant;

/// A slot is 2^12 ns long.
const SLOT_SHIFT: u32 = 12;
/// Slots of the wheel, a power of two.
const SLOTS: u64 = 1 << 14;
const WORDS: usize = SLOTS as usize / 64;
const NONE: u32 = u32::MAX;

/// Events of type `E` in the order of their time; of one time, in the order of their scheduling.
#[derive(Debug)]
pub struct Queue<E> {
    entries: Vec<Entry<E>>,
    free: u32,
    serial: u64,
    /// Events of the slot in hand and of earlier ones, the latest first.
    near: Vec<Key>,
    /// The slot in hand, counted from time zero.
    hand: u64,
    wheel: Box<[u32; SLOTS as usize]>,
    /// A bit for each slot that is not empty.
    occupied: Box<[u64; WORDS]>,
    far: BinaryHeap<Reverse<Key>>,
    length: usize,
}

/// Orders by time, then by serial number; the third is the entry.
type Key = (u64, u64, u32);

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    time: u64,
    serial: u64,
    next: u32,
    event: E,
}

impl<E: Copy> Default for Queue<E> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
            serial: 0,
            near: Vec::new(),
            hand: 0,
            wheel: Box::new([NONE; SLOTS as usize]),
            occupied: Box::new([0; WORDS]),
            far: BinaryHeap::new(),
            length: 0,
        }
    }
}

impl<E: Copy> Queue<E> {
    /// Schedules an event. A time that has passed already means: next.
    #[inline]
    pub fn push(&mut self, at: Instant, event: E) {
        let time = at.as_nanos();
        let serial = self.serial;
        self.serial += 1;
        self.length += 1;
        let entry = Entry {
            time,
            serial,
            next: NONE,
            event,
        };
        let index = match self.entries.get_mut(self.free as usize) {
            Some(place) => {
                let index = self.free;
                self.free = place.next;
                *place = entry;
                index
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        let slot = time >> SLOT_SHIFT;
        if slot <= self.hand {
            self.keep_near((time, serial, index));
        } else if slot - self.hand < SLOTS {
            let place = (slot % SLOTS) as usize;
            self.entries[index as usize].next = self.wheel[place];
            self.wheel[place] = index;
            self.occupied[place / 64] |= 1 << (place % 64);
        } else {
            self.far.push(Reverse((time, serial, index)));
        }
    }

    /// The time of the next event.
    #[inline]
    pub fn next_time(&mut self) -> Option<Instant> {
        if self.near.is_empty() {
            self.turn();
        }
        let (time, ..) = self.near.last()?;
        Some(Instant::from_nanos(*time))
    }

    /// Takes the next event if it is due at `time` or before.
    #[inline]
    pub fn pop_until(&mut self, time: Instant) -> Option<(Instant, E)> {
        if self.next_time()? > time {
            return None;
        }
        let (time, _, index) = self.near.pop()?;
        let entry = &mut self.entries[index as usize];
        let event = entry.event;
        entry.next = self.free;
        self.free = index;
        self.length -= 1;
        Some((Instant::from_nanos(time), event))
    }

    /// Events that are scheduled.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing is scheduled.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Moves the hand to the next slot with events, and takes those in hand.
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
            let mut index = std::mem::replace(&mut self.wheel[place], NONE);
            while let Some(entry) = self.entries.get(index as usize) {
                self.near.push((entry.time, entry.serial, index));
                index = entry.next;
            }
        }
        if ahead == slot {
            while let Some(Reverse(key)) = self.far.peek().copied() {
                if key.0 >> SLOT_SHIFT > slot {
                    break;
                }
                self.far.pop();
                self.near.push(key);
            }
        }
        if self.near.len() > 1 {
            self.near.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// Puts an event of the slot in hand at its place: mostly at the end, or close to it.
    #[inline]
    fn keep_near(&mut self, key: Key) {
        let later = self.near.iter().rev().take_while(|k| **k < key).count();
        self.near.insert(self.near.len() - later, key);
    }

    /// The first slot after the hand, within one turn, that is not empty.
    fn next_occupied(&self) -> Option<u64> {
        let first = ((self.hand + 1) % SLOTS) as usize;
        let mut index = first / 64;
        let mut word = self.occupied[index] & (u64::MAX << (first % 64));
        // One word more than there are: the first is looked at again for its lower bits.
        for _ in 0..=WORDS {
            if word != 0 {
                let place = (index * 64) as u64 + u64::from(word.trailing_zeros());
                return Some(self.hand + 1 + (place + SLOTS - first as u64) % SLOTS);
            }
            index = (index + 1) % WORDS;
            word = self.occupied[index];
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
        /// Against a tree, over times from one slot to many turns of the wheel.
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

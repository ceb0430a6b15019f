//! Queues of shaped rules: packets beyond the rate of their path wait at its edge, and leave at that rate.
//!
//! ```text
//!  offer --> [ row 3: | | | ] --> the rate of row 3 --+
//!            [ row 9: |     ] --> the rate of row 9 --+--> next, in the order of their times
//!              full: back to the caller, which drops it
//! ```
//!
//! Source: Beben et al., section III.B ("traffic profile, etc. .. used for traffic policing, shaping").
//!
//! Each row has its own queue, first in, first out, in front of a paced link ([`Transmitter`], as in a port). The type
//! of packets is generic: live routers hold frames here, and simulated routers their models of packets. A packet leaves
//! its queue before it gets its header. So a new path also applies to waiting packets, and the caller looks up their
//! rule again, because another rule may have taken the row meanwhile.
//!
//! A late call may catch up by at most [`Link::burst`] bytes of a row, as a port may.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_base::{Instant, Tally};
use weir_path::egress::transmitter::{Link, Transmitter};

use crate::edge::profile::Shape;

/// The queues of all shaped rules, by row.
#[derive(Debug)]
pub struct Shapers<P> {
    queues: BTreeMap<u32, Queue<P>>,
    /// The queues that hold packets, and when the first packet of each leaves.
    due: BTreeSet<(Instant, u32)>,
}

/// A packet that leaves its queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Released<P> {
    /// The row in whose queue the packet waited.
    pub row: u32,
    /// When the packet leaves.
    pub at: Instant,
    /// The packet.
    pub packet: P,
}

/// The counters of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets that arrived, including those that found the queue full.
    pub received: Tally,
    /// Packets that left.
    pub sent: Tally,
    /// Packets that found the queue full.
    pub dropped: Tally,
    /// Packets in the queue.
    pub waiting: Tally,
}

#[derive(Debug)]
struct Queue<P> {
    shape: Shape,
    transmitter: Transmitter,
    /// The packets with their bytes and their times of arrival.
    packets: VecDeque<(P, u64, Instant)>,
    books: QueueCounters,
}

impl<P> Default for Shapers<P> {
    fn default() -> Self {
        Self {
            queues: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }
}

impl<P> Shapers<P> {
    /// Puts a packet of `bytes` bytes into the queue of a row, whose profile is `shape` now. Returns a packet that
    /// finds the queue full.
    pub fn offer(
        &mut self,
        row: u32,
        shape: Shape,
        packet: P,
        bytes: u64,
        now: Instant,
    ) -> Result<(), P> {
        let queue = self.queues.entry(row).or_insert_with(|| Queue {
            shape,
            transmitter: Transmitter::new(link(shape), now),
            packets: VecDeque::new(),
            books: QueueCounters::default(),
        });
        let before = queue.due();
        if queue.shape != shape {
            queue.shape = shape;
            queue.transmitter.replace(link(shape), now);
        }
        queue.books.received.count(bytes);
        let is_full = queue.packets.len() >= shape.limit();
        let refused = if is_full {
            queue.books.dropped.count(bytes);
            Err(packet)
        } else {
            queue.books.waiting.count(bytes);
            queue.packets.push_back((packet, bytes, now));
            Ok(())
        };
        let after = queue.due();
        self.reschedule(row, before, after);
        refused
    }

    /// The next packet that leaves up to `now`, if there is one.
    pub fn next(&mut self, now: Instant) -> Option<Released<P>> {
        let (due, row) = *self.due.first()?;
        if due > now {
            return None;
        }
        let queue = self.queues.get_mut(&row)?;
        let at = due.max(now.before(queue.transmitter.link().lag_max()));
        let (packet, bytes, _) = queue.packets.pop_front()?;
        queue.transmitter.send(bytes, at);
        queue.books.waiting.uncount(bytes);
        queue.books.sent.count(bytes);
        let after = queue.due();
        self.reschedule(row, Some(due), after);
        Some(Released { row, at, packet })
    }

    /// When the next packet leaves.
    pub fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Forgets the queues and counters of rows that are not `kept`. Packets that remain there still leave at the rate
    /// of their queue.
    pub fn retain(&mut self, kept: impl Fn(u32) -> bool) {
        self.queues.retain(|row, queue| {
            let kept = kept(*row);
            if !kept {
                let waiting = queue.books.waiting;
                queue.books = QueueCounters {
                    received: waiting,
                    waiting,
                    ..QueueCounters::default()
                };
            }
            kept || !queue.packets.is_empty()
        });
    }

    /// Takes out all packets, also those that are not due yet.
    pub fn drain(&mut self) -> impl Iterator<Item = P> {
        self.due.clear();
        let queues = std::mem::take(&mut self.queues).into_values();
        queues.flat_map(|queue| queue.packets.into_iter().map(|(packet, ..)| packet))
    }

    /// The waiting packets.
    pub fn packets_mut(&mut self) -> impl Iterator<Item = &mut P> {
        let queues = self.queues.values_mut();
        queues.flat_map(|queue| queue.packets.iter_mut().map(|(packet, ..)| packet))
    }

    /// The counters of a row; zero if it has no queue.
    pub fn books(&self, row: u32) -> QueueCounters {
        self.queues
            .get(&row)
            .map(|queue| queue.books)
            .unwrap_or_default()
    }

    fn reschedule(&mut self, row: u32, before: Option<Instant>, after: Option<Instant>) {
        if before != after {
            before.map(|at| self.due.remove(&(at, row)));
            after.map(|at| self.due.insert((at, row)));
        }
    }
}

impl<P> Queue<P> {
    /// When the first packet leaves.
    fn due(&self) -> Option<Instant> {
        let (_, _, came) = self.packets.front()?;
        Some(self.transmitter.free_at().max(*came))
    }
}

/// The paced link behind a queue. Only the bytes of packets count, as for a token bucket.
fn link(shape: Shape) -> Link {
    const FRAME_BYTES_MAX: u32 = 1514;
    Link {
        rate: Some(shape.rate()),
        framing: weir_base::Framing::bytes(0),
        frame_bytes_max: FRAME_BYTES_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weir_base::{Rate, Span};

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Span::from_micros(micros)
    }

    fn shape(bits: u64, limit: usize) -> Shape {
        Shape::new(Rate::from_bps(bits), limit).unwrap()
    }

    fn released(shapers: &mut Shapers<u32>, now: Instant) -> Vec<(u32, Instant)> {
        let each = std::iter::from_fn(|| shapers.next(now));
        each.map(|released| (released.packet, released.at))
            .collect()
    }

    #[test]
    fn packets_wait_for_their_rate_and_a_full_queue_takes_none() {
        // 8 Mbit/s carry a byte each microsecond.
        let mut shapers = Shapers::default();
        let shape = shape(8_000_000, 3);
        for packet in 0..3 {
            assert_eq!(shapers.offer(7, shape, packet, 1000, at(0)), Ok(()));
        }
        assert_eq!(shapers.offer(7, shape, 3, 1000, at(0)), Err(3));
        assert_eq!(released(&mut shapers, at(999)), [(0, at(0))]);
        assert_eq!(shapers.due(), Some(at(1000)));
        let books = shapers.books(7);
        let packets = [books.received, books.sent, books.dropped, books.waiting];
        assert_eq!(packets.map(|tally| tally.packets), [4, 1, 1, 2]);
        assert_eq!(
            released(&mut shapers, at(2000)),
            [(1, at(1000)), (2, at(2000))]
        );
        assert_eq!(shapers.due(), None);
        // A pause saves up no bytes.
        for packet in 4..6 {
            assert_eq!(shapers.offer(7, shape, packet, 1000, at(9000)), Ok(()));
        }
        assert_eq!(released(&mut shapers, at(9500)), [(4, at(9000))]);
    }

    #[test]
    fn a_new_rate_holds_for_what_waits_and_a_row_that_goes_keeps_its_packets() {
        let mut shapers = Shapers::default();
        for packet in 0..3 {
            let offered = shapers.offer(7, shape(8_000, 10), packet, 1000, at(0));
            assert_eq!(offered, Ok(()));
        }
        assert_eq!(released(&mut shapers, at(0)).len(), 1);
        assert_eq!(shapers.due(), Some(at(1_000_000)));
        let faster = shapers.offer(7, shape(8_000_000, 10), 3, 1000, at(0));
        assert_eq!(faster, Ok(()));
        let due = shapers.due().unwrap();
        assert!(due < at(1_000_000), "{due:?}");
        shapers.retain(|_| false);
        assert_eq!(released(&mut shapers, due).len(), 1);
        assert_eq!(shapers.drain().collect::<Vec<_>>(), [2, 3]);
        assert_eq!(
            (shapers.due(), shapers.books(7)),
            (None, QueueCounters::default())
        );
    }

    proptest! {
        /// For any packets, and however late the calls are: the counters balance, each row keeps its order, and no row
        /// sends more than its rate and one burst.
        #[test]
        fn rows_keep_their_rates_and_their_books(
            steps in vec((0_u64..3000, 0_u32..3, 64_u64..1500), 1..300),
        ) {
            let shapes = [(1_000_000, 5), (8_000_000, 20), (100_000_000, 3)].map(|(r, l)| shape(r, l));
            let mut shapers = Shapers::default();
            let (mut now, mut kept, mut last) = (0, [0_u64; 3], [None; 3]);
            for (number, (later, row, bytes)) in steps.into_iter().enumerate() {
                now += later;
                let shape = shapes[row as usize];
                let is_full = shapers.books(row).waiting.packets == shape.limit() as u64;
                let offered = shapers.offer(row, shape, (number, bytes), bytes, at(now));
                prop_assert_eq!(offered.is_err(), is_full);
                while let Some(Released { row, packet: (number, bytes), .. }) = shapers.next(at(now)) {
                    let row = row as usize;
                    prop_assert!(last[row] < Some(number));
                    last[row] = Some(number);
                    kept[row] += bytes;
                    let rate = shapes[row].rate();
                    let most = rate.bytes_in(Span::from_micros(now)) + link(shapes[row]).burst() + 1514;
                    prop_assert!(kept[row] <= most, "{} of {}", kept[row], most);
                }
                for row in 0..3 {
                    let QueueCounters { received, sent, dropped, waiting } = shapers.books(row);
                    prop_assert_eq!(received.bytes, sent.bytes + dropped.bytes + waiting.bytes);
                    prop_assert_eq!(received.packets, sent.packets + dropped.packets + waiting.packets);
                    prop_assert!(waiting.packets <= shapes[row as usize].limit() as u64);
                }
            }
        }
    }
}

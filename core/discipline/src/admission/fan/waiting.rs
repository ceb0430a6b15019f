//! Flows that wait to be accepted. The time since a flow's first packet is its acceptance delay.
//!
//! The table is bounded, and no decision depends on it. When it is full, the flow whose latest packet is
//! oldest is forgotten, and its delay is counted from its next packet on.

use weir_base::{Instant, Span, Tally};
use weir_packet::FlowKey;

use crate::parts::lru::Lru;

/// Silence after which a flow no longer counts as waiting: longer than TCP's longest timeout for a SYN
/// (64 s in Linux).
const SILENCE_MAX: Span = Span::from_secs(75);
/// Maximum flows forgotten at one packet: more than the one flow that a packet may add.
const EXPIRED_MAX: usize = 4;

/// A flow that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// When its first packet arrived.
    pub(super) first: Instant,
    /// When its latest packet arrived.
    pub(super) latest: Instant,
    /// Refused packets and bytes of the flow.
    pub(super) seen: Tally,
}

/// The table.
#[derive(Debug)]
pub(super) struct Waiting {
    flows: Lru<Wait, 1>,
    keys: Vec<FlowKey>,
    forgotten: u64,
}

impl Waiting {
    /// Room for `capacity` flows.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            flows: Lru::new(capacity),
            keys: Vec::with_capacity(capacity),
            forgotten: 0,
        }
    }

    /// A table of the same flows with another bound. A smaller table keeps the most recent flows.
    pub(super) fn resized(&self, capacity: usize) -> Self {
        let mut new = Self::new(capacity);
        let skipped = self.flows.len().saturating_sub(capacity);
        for entry in self.flows.upwards(0).skip(skipped) {
            new.add(
                self.flows.hash(entry),
                self.keys[entry],
                *self.flows.get(entry),
            );
        }
        new.forgotten = self.forgotten;
        new
    }

    /// Records a refused packet of a flow.
    pub(super) fn refuse(&mut self, hash: u64, key: &FlowKey, now: Instant, bytes: u64) {
        self.expire(now);
        if let Some(entry) = self.flows.find(hash) {
            let wait = self.flows.get_mut(entry);
            wait.latest = now;
            wait.seen.count(bytes);
            self.flows.raise(entry, 0);
            return;
        }
        let wait = Wait {
            first: now,
            latest: now,
            seen: Tally::one(bytes),
        };
        self.add(hash, *key, wait);
    }

    /// Removes a flow that no longer waits; returns how long it waited.
    pub(super) fn accept(&mut self, hash: u64, now: Instant) -> Span {
        let Some(entry) = self.flows.find(hash) else {
            return Span::ZERO;
        };
        self.flows.remove(entry);
        match self.flows.get(entry) {
            wait if now.since(wait.latest) >= SILENCE_MAX => Span::ZERO,
            wait => now.since(wait.first),
        }
    }

    /// How many flows wait.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// How many flows were forgotten because the table was full.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The flows, the longest silent first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&FlowKey, &Wait)> {
        let entries = self.flows.upwards(0);
        entries.map(|entry| (&self.keys[entry], self.flows.get(entry)))
    }

    /// Bytes of memory allocated.
    pub(super) fn state_bytes(&self) -> usize {
        self.flows.state_bytes() + self.keys.capacity() * size_of::<FlowKey>()
    }

    fn add(&mut self, hash: u64, key: FlowKey, wait: Wait) {
        if self.flows.is_full()
            && let Some(silent) = self.flows.bottom(0)
        {
            self.flows.remove(silent);
            self.forgotten += 1;
        }
        let Ok(entry) = self.flows.insert(hash, wait, 0) else {
            return; // not reached: room was made
        };
        match self.keys.get_mut(entry) {
            Some(place) => *place = key,
            None => self.keys.push(key),
        }
    }

    fn expire(&mut self, now: Instant) {
        for _ in 0..EXPIRED_MAX {
            match self.flows.bottom(0) {
                Some(entry) if now.since(self.flows.get(entry).latest) >= SILENCE_MAX => {
                    self.flows.remove(entry);
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::ZERO + Span::from_secs(s)
    }

    #[test]
    fn delays_are_counted_from_the_first_packet() {
        let mut waiting = Waiting::new(2);
        waiting.refuse(1, &FlowKey::default(), at(1), 100);
        waiting.refuse(1, &FlowKey::default(), at(4), 100);
        assert_eq!(waiting.iter().next().unwrap().1.seen.packets, 2);
        assert_eq!(waiting.accept(1, at(10)), Span::from_secs(9));
        assert_eq!(waiting.accept(1, at(10)), Span::ZERO);
        // A flow that was silent for 75 s and came back counts as a new one.
        waiting.refuse(2, &FlowKey::default(), at(10), 100);
        assert_eq!(waiting.accept(2, at(85)), Span::ZERO);
    }

    #[test]
    fn a_full_table_forgets_the_longest_silent() {
        let mut waiting = Waiting::new(2);
        for (hash, s) in [(1, 1), (2, 2), (1, 3), (3, 4)] {
            waiting.refuse(hash, &FlowKey::default(), at(s), 100);
        }
        assert_eq!((waiting.len(), waiting.forgotten()), (2, 1));
        assert_eq!(waiting.accept(2, at(5)), Span::ZERO);
        assert_eq!(waiting.accept(1, at(5)), Span::from_secs(4));
        assert_eq!(waiting.resized(1).len(), 1);
    }
}

//! A timer wheel: which rules to check for their timeout.
//!
//! ```text
//!            now                                        102.4 s ahead
//!  ticks  |   .   |   .   |   .   |   .   |  ..  |   .   |
//!             |               |
//!           rule 5          rule 0 - rule 9           a ring for each tick of 100 ms
//! ```
//!
//! Source: Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987, scheme 4; with lazy renewal.
//!
//! A hit does not move a rule: it only writes its time into the rule. When the tick of a rule comes, the rule has
//! either expired, or moves to the tick at which it would expire without more hits. So a busy rule moves once for each
//! timeout, not for each packet. A deadline beyond the end of the wheel waits at the end.

use weir_base::{Instant, Span};

/// Length of a tick.
pub(super) const TICK: Span = Span::from_millis(100);
/// Ticks of the wheel.
const TICKS: usize = 1024;

/// The wheel.
#[derive(Debug)]
pub(super) struct Deadlines {
    /// Each ring's anchor, then each entry; an entry in no ring is linked to itself.
    links: Vec<Link>,
    /// The first tick whose ring has not been emptied.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    after: u32,
    before: u32,
}

/// The tick of an instant.
#[inline]
pub(super) fn tick(at: Instant) -> u32 {
    let ticks = at.as_nanos() / TICK.as_nanos();
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// The number of whole ticks that cover a span.
pub(super) fn ticks_in(span: Span) -> u32 {
    let ticks = span.as_nanos().div_ceil(TICK.as_nanos());
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

impl Deadlines {
    /// An empty wheel, with room for `capacity` entries.
    pub(super) fn new(capacity: usize, now: Instant) -> Self {
        let mut links = Vec::with_capacity(TICKS + capacity);
        links.extend((0..TICKS as u32).map(alone));
        let next = tick(now);
        Self { links, next }
    }

    /// Puts an entry at a tick, or at the next tick if that tick is over. The entry must not be in a ring.
    pub(super) fn put(&mut self, entry: u32, at: u32) {
        let place = TICKS as u32 + entry;
        while self.links.len() <= place as usize {
            self.links.push(alone(self.links.len() as u32));
        }
        let last = self.next.saturating_add(TICKS as u32 - 1);
        let anchor = at.clamp(self.next, last) % TICKS as u32;
        let after = self.links[anchor as usize].after;
        self.links[place as usize] = Link {
            after,
            before: anchor,
        };
        self.links[after as usize].before = place;
        self.links[anchor as usize].after = place;
    }

    /// Removes an entry from the wheel, if it is there.
    pub(super) fn remove(&mut self, entry: u32) {
        let place = TICKS as u32 + entry;
        if let Some(link) = self.links.get(place as usize).copied() {
            self.links[link.before as usize].after = link.after;
            self.links[link.after as usize].before = link.before;
            self.links[place as usize] = alone(place);
        }
    }

    /// Removes and returns the next entry whose tick is at most `now`.
    pub(super) fn take_due(&mut self, now: u32) -> Option<u32> {
        // After a pause longer than one revolution of the wheel every ring is due; one revolution empties them.
        self.next = self.next.max(now.saturating_sub(TICKS as u32 - 1));
        while self.next <= now {
            let anchor = self.next % TICKS as u32;
            let first = self.links[anchor as usize].after;
            if first != anchor {
                let entry = first - TICKS as u32;
                self.remove(entry);
                return Some(entry);
            }
            self.next = self.next.checked_add(1)?;
        }
        None
    }

    /// The tick at which the next entry is due.
    pub(super) fn due(&self) -> Option<u32> {
        let mut ticks = (0..TICKS as u32).map_while(|n| self.next.checked_add(n));
        ticks.find(|at| {
            let anchor = at % TICKS as u32;
            self.links[anchor as usize].after != anchor
        })
    }
}

/// A link to itself.
fn alone(place: u32) -> Link {
    Link {
        after: place,
        before: place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn ticks_are_rounded_so_that_nothing_is_over_too_early() {
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        assert_eq!([at(0), at(99), at(100)].map(tick), [0, 0, 1]);
        let spans = [0, 1, 100, 101].map(Span::from_millis);
        assert_eq!(spans.map(ticks_in), [0, 1, 1, 2]);
        assert_eq!(tick(Instant::FAR_FUTURE), u32::MAX);
        assert_eq!(ticks_in(Span::MAX), u32::MAX);
    }

    #[test]
    fn after_a_long_pause_everything_is_due_once() {
        let mut wheel = Deadlines::new(4, Instant::ZERO);
        (0..4).for_each(|entry| wheel.put(entry, [3, 900, 5000, 1][entry as usize]));
        assert_eq!(wheel.due(), Some(1));
        let mut due: Vec<_> = std::iter::from_fn(|| wheel.take_due(1_000_000)).collect();
        due.sort_unstable();
        assert_eq!(due, [0, 1, 2, 3]);
        assert_eq!(wheel.due(), None);
        wheel.put(0, u32::MAX);
        assert_eq!(wheel.take_due(1_000_001), None);
        assert_eq!(wheel.take_due(u32::MAX), Some(0));
        assert_eq!(wheel.take_due(u32::MAX), None);
    }

    proptest! {
        /// Each entry becomes due at its tick, or at the wheel's end if that is nearer.
        #[test]
        fn behaves_as_a_map(calls in prop::collection::vec((0_u32..20, 0_u32..3000, 0_u32..300), 0..200)) {
            let (mut wheel, mut map) = (Deadlines::new(4, Instant::ZERO), BTreeMap::new());
            let mut now = 0;
            for (entry, at, pass) in calls {
                match map.remove(&entry) {
                    Some(_) => wheel.remove(entry),
                    None => {
                        wheel.put(entry, at);
                        map.insert(entry, at.clamp(now, now + TICKS as u32 - 1));
                    }
                }
                prop_assert_eq!(wheel.due(), map.values().min().copied());
                now += pass;
                let mut due: Vec<_> = std::iter::from_fn(|| wheel.take_due(now)).collect();
                due.sort_unstable();
                let expected: Vec<u32> = map.iter().filter(|(_, at)| **at <= now).map(|(e, _)| *e).collect();
                prop_assert_eq!(due, expected);
                map.retain(|_, at| *at > now);
                now += 1; // the wheel is at the tick after the last one that it emptied
            }
        }
    }
}

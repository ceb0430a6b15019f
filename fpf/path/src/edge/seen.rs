//! Flows that were copied before, so that a flow costs a few copies only: a table of fixed size.
//!
//! ```text
//!  hash --lower bits--> a line of 8 places: [ tag of the hash | second of its latest packet | copies ] ..
//! ```
//!
//! A place is one number, and a line is one cache line, so a packet costs one access to memory, for any sender. A new
//! flow takes the place in its line of the flow that was silent for longest; of flows that sent a moment ago, one that
//! is not decided leaves first. So a flood of new flows does not displace busy flows that are decided.
//!
//! Tags are keyed hashes of 32 bits. Two flows of a line with the same tag count as one: the second flow may get no
//! copies until it is silent for a while.

use weir_base::Instant;

/// Maximum copies of a flow that is not decided: as many packets as the classifier reads of a flow.
const COPIES_MAX: u64 = 128;
/// Instead of the number of copies: the flow is decided.
const DECIDED: u64 = 255;
/// Seconds without a packet after which a flow counts as new.
const SILENT_MAX: u64 = 300;
/// Seconds after its last copy after which a flow that is still not decided is copied again: perhaps there was no room
/// for its rule.
const RETRY: u64 = 10;
/// Places of a line.
const PLACES: usize = 8;
const COPIES_BITS: u32 = 8;
const SECOND_BITS: u32 = 24;

/// The table.
#[derive(Debug)]
pub(super) struct Seen {
    lines: Vec<Line>,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Line([u64; PLACES]);

/// The place of a flow that may be copied once more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    line: usize,
    place: usize,
    /// The value for the place once the flow has been copied.
    next: u64,
}

impl Seen {
    /// A table with a place for at least this number of flows.
    pub(super) fn new(flows: usize) -> Self {
        let lines = flows.div_ceil(PLACES).next_power_of_two();
        Self {
            lines: vec![Line::default(); lines],
        }
    }

    /// Forgets all flows.
    pub(super) fn clear(&mut self) {
        self.lines.fill(Line::default());
    }

    /// Records a packet of the flow with this hash. Returns a place for [`Self::copied`], if the packet should be
    /// copied.
    #[inline]
    pub(super) fn wants(&mut self, hash: u64, now: Instant) -> Option<Place> {
        let (line, tag, second) = self.place_of(hash, now);
        let places = &mut self.lines[line].0;
        let known = places
            .iter()
            .position(|value| *value != 0 && value >> 32 == tag);
        let Some(place) = known else {
            let place = victim(places, second);
            let next = value(tag, second, 1);
            return Some(Place { line, place, next });
        };
        let copies = places[place] & ((1 << COPIES_BITS) - 1);
        let next = match (copies, age(places[place], second)) {
            (DECIDED, ..=SILENT_MAX) => {
                places[place] = value(tag, second, DECIDED);
                return None;
            }
            (COPIES_MAX, ..=RETRY) => return None,
            (..COPIES_MAX, ..=SILENT_MAX) => value(tag, second, copies + 1),
            _ => value(tag, second, 1),
        };
        Some(Place { line, place, next })
    }

    /// Counts a copy.
    #[inline]
    pub(super) fn copied(&mut self, place: Place) {
        self.lines[place.line].0[place.place] = place.next;
    }

    /// Records that the flow with this hash needs no more copies.
    pub(super) fn decide(&mut self, hash: u64, now: Instant) {
        let (line, tag, second) = self.place_of(hash, now);
        let places = &mut self.lines[line].0;
        let known = places.iter().position(|value| value >> 32 == tag);
        let place = known.unwrap_or_else(|| victim(places, second));
        places[place] = value(tag, second, DECIDED);
    }

    /// Forgets the flow with this hash: its next packet here counts as the first of a new flow.
    pub(super) fn forget(&mut self, hash: u64) {
        let (line, tag, _) = self.place_of(hash, Instant::ZERO);
        let known = self.lines[line].0.iter_mut().find(|v| **v >> 32 == tag);
        if let Some(value) = known {
            *value = 0;
        }
    }

    #[inline]
    fn place_of(&self, hash: u64, now: Instant) -> (usize, u64, u64) {
        let line = hash as usize & (self.lines.len() - 1);
        let second = now.as_nanos() / 1_000_000_000;
        (line, hash >> 32, second & ((1 << SECOND_BITS) - 1))
    }
}

fn value(tag: u64, second: u64, copies: u64) -> u64 {
    tag << 32 | second << COPIES_BITS | copies
}

/// Seconds since the latest packet. The counter of seconds wraps after half a year.
fn age(value: u64, second: u64) -> u64 {
    let latest = value >> COPIES_BITS;
    second.wrapping_sub(latest) & ((1 << SECOND_BITS) - 1)
}

/// The place that a new flow takes: an empty place, or that of the flow that was silent for longest; if all flows sent
/// in this second or the one before, that of the flow with the fewest copies.
fn victim(places: &[u64; PLACES], second: u64) -> usize {
    let rank = |value: u64| match value {
        0 => (u64::MAX, 0),
        _ => (age(value, second).max(1), DECIDED - (value & 255)),
    };
    let ranks = places
        .iter()
        .enumerate()
        .map(|(n, value)| (rank(*value), n));
    ranks.max().map_or(0, |(_, place)| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Span;

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Span::from_secs(secs)
    }

    fn hash(tag: u64) -> u64 {
        tag << 32
    }

    /// Copies that a flow gets of this number of packets.
    fn copies(seen: &mut Seen, hash: u64, packets: u64, now: Instant) -> u64 {
        let mut copies = 0;
        for _ in 0..packets {
            if let Some(place) = seen.wants(hash, now) {
                seen.copied(place);
                copies += 1;
            }
        }
        copies
    }

    #[test]
    fn a_flow_is_copied_until_it_is_decided_or_has_had_enough() {
        let mut seen = Seen::new(100);
        assert_eq!(copies(&mut seen, hash(7), 3, at(0)), 3);
        seen.decide(hash(7), at(0));
        assert_eq!(copies(&mut seen, hash(7), 3, at(300)), 0);
        assert_eq!(
            copies(&mut seen, hash(7), 3, at(601)),
            3,
            "silent for too long"
        );
        assert_eq!(copies(&mut seen, hash(8), 1000, at(0)), COPIES_MAX);
        assert_eq!(copies(&mut seen, hash(0), 1000, at(0)), COPIES_MAX);
        assert_eq!(copies(&mut seen, hash(8), 1000, at(10)), 0);
        assert_eq!(copies(&mut seen, hash(8), 1000, at(11)), COPIES_MAX);
        seen.forget(hash(8));
        assert_eq!(copies(&mut seen, hash(8), 1000, at(0)), COPIES_MAX);
        seen.clear();
        assert_eq!(copies(&mut seen, hash(8), 1, at(0)), 1);
    }

    #[test]
    fn a_packet_whose_copy_was_lost_does_not_count() {
        let mut seen = Seen::new(8);
        for _ in 0..1000 {
            assert!(seen.wants(hash(7), at(0)).is_some());
        }
        assert_eq!(copies(&mut seen, hash(7), 1000, at(0)), COPIES_MAX);
    }

    #[test]
    fn a_flood_of_new_flows_does_not_displace_busy_decided_ones() {
        let mut seen = Seen::new(8); // one line
        for tag in 1..PLACES as u64 {
            seen.decide(hash(tag), at(0));
        }
        let mut copied = 0;
        for second in 0..10 {
            for tag in 0..1000 {
                copied += copies(&mut seen, hash(1000 + 1000 * second + tag), 1, at(second));
            }
            for tag in 1..PLACES as u64 {
                assert_eq!(copies(&mut seen, hash(tag), 1, at(second)), 0);
            }
        }
        assert_eq!(copied, 10_000);
        // A flow that has been silent for longer is displaced.
        copies(&mut seen, hash(98), 1, at(11));
        copies(&mut seen, hash(99), 1, at(11));
        let kept = (1..PLACES as u64).filter(|tag| copies(&mut seen, hash(*tag), 1, at(11)) == 0);
        assert!(kept.count() < PLACES - 1);
    }
}

//! The sender's knowledge about segments in flight above the cumulative acknowledgment (RFC 6675).
//!
//! ```text
//!   una            HighRxt          lost              highest SACKed        next
//!    |  retransmitted  |   to repair  |    may be on its way    |  in flight   |
//!    |----####---------|--###---------|---#####----####--####---|--------------|
//! ```
//!
//! IsLost() can only be true below some sequence number, and retransmissions proceed upwards, so both properties are
//! marks rather than per-segment bits. The pipe follows from three sums, which are updated as SACK blocks arrive: no
//! acknowledgment causes a walk over the window.
//!
//! Without SACK the set stays empty, and the marks alone implement go-back-N after a timeout.

use super::range::{Range, RangeSet};

/// Number of duplicate acknowledgments, or of SACKed ranges, that indicate a loss (RFC 6675, DupThresh).
pub(super) const DUPLICATE_THRESHOLD: u32 = 3;

/// The scoreboard of one sender. Its lower end is `una`, which the sender passes to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Scoreboard {
    una: u64,
    sacked: RangeSet,
    sacked_bytes: u64,
    /// Everything below this number that is not SACKed is lost.
    lost: u64,
    sacked_below_lost: u64,
    /// Everything below this number that is not SACKed has been retransmitted (HighRxt).
    retransmitted: u64,
    sacked_below_retransmitted: u64,
}

impl Scoreboard {
    /// Everything below `una` has been acknowledged.
    pub(super) fn advance(&mut self, una: u64) {
        self.una = una;
        if !self.sacked.is_empty() {
            let removed = self.sacked.remove_below(una);
            self.sacked_bytes -= removed;
            // A mark above una has counted all of the removed range; a mark below una no longer counts anything.
            self.sacked_below_lost = self.sacked_below_lost.saturating_sub(removed);
            self.sacked_below_retransmitted =
                self.sacked_below_retransmitted.saturating_sub(removed);
        }
        if self.lost <= una {
            (self.lost, self.sacked_below_lost) = (una, 0);
        }
        if self.retransmitted <= una {
            (self.retransmitted, self.sacked_below_retransmitted) = (una, 0);
        }
    }

    /// Adds an arriving SACK block. Returns whether it contained anything new.
    pub(super) fn add(&mut self, block: Range) -> bool {
        let start = block.start.max(self.una);
        if start >= block.end {
            return false;
        }
        let (lost, retransmitted) = (self.lost, self.retransmitted);
        let before = self.sacked_bytes;
        self.sacked.insert(Range::new(start, block.end), |fresh| {
            self.sacked_bytes += fresh.length();
            self.sacked_below_lost += fresh.below(lost);
            self.sacked_below_retransmitted += fresh.below(retransmitted);
        });
        self.sacked_bytes > before
    }

    /// Number of bytes believed to be in the network (RFC 6675, SetPipe()); `next` is the first sequence number that
    /// was never sent.
    pub(super) fn pipe(&self, next: u64) -> u64 {
        let outstanding = next - self.una - self.sacked_bytes;
        let lost = self.lost - self.una - self.sacked_below_lost;
        let retransmitted = self.retransmitted - self.una - self.sacked_below_retransmitted;
        outstanding - lost + retransmitted
    }

    /// Moves the loss mark up to where IsLost() now holds; it never moves back.
    pub(super) fn find_lost(&mut self, mss: u64) {
        let (mut bytes, mut ranges) = (0, 0);
        for range in self.sacked.descending() {
            bytes += range.length();
            ranges += 1;
            if ranges >= DUPLICATE_THRESHOLD || bytes > u64::from(DUPLICATE_THRESHOLD - 1) * mss {
                if range.start > self.lost {
                    self.lost = range.start;
                    self.sacked_below_lost = self.sacked_bytes - bytes;
                }
                return;
            }
        }
    }

    /// Whether anything counts as lost.
    pub(super) fn has_lost(&self) -> bool {
        self.lost > self.una
    }

    /// Handles a timeout: everything below `next` that is not SACKed is lost, including retransmitted data. Our
    /// receiver never discards SACKed data, so SACKs stay valid (RFC 6675, section 5.1).
    pub(super) fn lose_all(&mut self, next: u64) {
        self.clear_marks();
        self.lost = next;
        self.sacked_below_lost = self.sacked_bytes;
    }

    /// Clears both marks: nothing is lost and nothing retransmitted, because recovery begins or is over.
    pub(super) fn clear_marks(&mut self) {
        (self.lost, self.sacked_below_lost) = (self.una, 0);
        (self.retransmitted, self.sacked_below_retransmitted) = (self.una, 0);
    }

    /// The lowest lost range that was not retransmitted (NextSeg(), rule 1).
    pub(super) fn next_lost(&self) -> Option<Range> {
        self.sacked.gap(self.retransmitted, self.lost)
    }

    /// The lowest range below the highest SACK that was not retransmitted (NextSeg(), rule 3).
    pub(super) fn next_gap(&self) -> Option<Range> {
        let highest = self.sacked.last()?;
        self.sacked.gap(self.retransmitted, highest.start)
    }

    /// The highest outstanding range that is not SACKed (NextSeg(), rule 4).
    pub(super) fn last_gap(&self, next: u64) -> Option<Range> {
        let mut end = next;
        for range in self.sacked.descending() {
            if range.end < end {
                return Some(Range::new(range.end, end));
            }
            end = range.start;
        }
        (self.una < end).then_some(Range::new(self.una, end))
    }

    /// Records that a range from `next_lost` or `next_gap`, or its lower part, was retransmitted.
    pub(super) fn retransmit(&mut self, range: Range) {
        // Everything between the mark and the range is SACKed, because otherwise the range would start lower.
        let skipped = range.start.saturating_sub(self.retransmitted);
        self.sacked_below_retransmitted += skipped;
        self.retransmitted = self.retransmitted.max(range.end);
    }

    /// The first range from `una` on, up to the lowest SACK or to `next`.
    pub(super) fn head(&self, next: u64) -> Range {
        let end = self.sacked.first().map_or(next, |range| range.start);
        Range::new(self.una, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u64 = 10;

    /// Segment number `n` of ten bytes, counted from zero.
    fn segments(from: u64, to: u64) -> Range {
        Range::new(1 + from * MSS, 1 + to * MSS)
    }

    fn scoreboard() -> Scoreboard {
        let mut scoreboard = Scoreboard::default();
        scoreboard.advance(1);
        scoreboard
    }

    #[test]
    fn the_pipe_by_hand() {
        // Ten segments are out; 0 and 4 are missing, 1 to 3 and 5 to 6 have arrived.
        let mut scoreboard = scoreboard();
        let next = segments(10, 11).start;
        assert_eq!(scoreboard.pipe(next), 100);
        assert!(scoreboard.add(segments(1, 4)));
        assert!(scoreboard.add(segments(5, 7)));
        assert!(!scoreboard.add(segments(5, 7)));
        assert_eq!(scoreboard.pipe(next), 50);
        // There are five SACKed segments above 0, and only two above 4, which is not more than two.
        scoreboard.find_lost(MSS);
        assert_eq!(scoreboard.next_lost(), Some(segments(0, 1)));
        assert_eq!(scoreboard.pipe(next), 40);
        scoreboard.retransmit(segments(0, 1));
        assert_eq!(scoreboard.next_lost(), None);
        assert_eq!(scoreboard.next_gap(), Some(segments(4, 5)));
        assert_eq!(scoreboard.last_gap(next), Some(segments(7, 10)));
        assert_eq!(scoreboard.pipe(next), 50);
        // With a third SACKed segment above 4, segment 4 is lost too.
        scoreboard.add(segments(7, 8));
        scoreboard.find_lost(MSS);
        assert_eq!(scoreboard.next_lost(), Some(segments(4, 5)));
        assert_eq!(scoreboard.pipe(next), 30);
    }

    #[test]
    fn three_separate_ranges_are_a_loss_however_small() {
        let mut scoreboard = scoreboard();
        for start in [3, 6, 9] {
            assert!(!scoreboard.has_lost());
            scoreboard.add(Range::new(start, start + 1));
            scoreboard.find_lost(MSS);
        }
        assert_eq!(scoreboard.next_lost(), Some(Range::new(1, 3)));
    }

    #[test]
    fn without_sack_a_timeout_goes_back_to_the_start() {
        let mut scoreboard = scoreboard();
        scoreboard.lose_all(101);
        assert_eq!(scoreboard.pipe(101), 0);
        assert_eq!(scoreboard.next_lost(), Some(segments(0, 10)));
        scoreboard.retransmit(segments(0, 1));
        assert_eq!(scoreboard.pipe(101), 10);
        // The acknowledgment covers more than was retransmitted.
        scoreboard.advance(segments(5, 6).start);
        assert_eq!(scoreboard.pipe(101), 0);
        assert_eq!(scoreboard.next_lost(), Some(segments(5, 10)));
    }

    /// RFC 6675: SetPipe() and IsLost() exactly as specified there, octet by octet.
    struct Model {
        una: u64,
        next: u64,
        sacked: Vec<bool>,
        lost: Vec<bool>,
        high_rxt: u64,
    }

    impl Model {
        fn is_lost(&self, octet: u64) -> bool {
            let above = &self.sacked[octet as usize + 1..];
            let bytes = above.iter().filter(|&&sacked| sacked).count() as u64;
            let ranges = above.split(|&sacked| !sacked).filter(|r| !r.is_empty());
            bytes > 2 * MSS || ranges.count() >= 3
        }

        fn find_lost(&mut self) {
            for octet in self.una..self.next {
                let lost = !self.sacked[octet as usize] && self.is_lost(octet);
                self.lost[octet as usize] |= lost;
            }
        }

        fn pipe(&self) -> u64 {
            (self.una..self.next)
                .filter(|&octet| !self.sacked[octet as usize])
                .map(|octet| {
                    u64::from(!self.lost[octet as usize]) + u64::from(octet < self.high_rxt)
                })
                .sum()
        }

        /// NextSeg(), rule 1.
        fn next_lost(&self) -> Option<u64> {
            (self.una.max(self.high_rxt)..self.next)
                .find(|&octet| self.lost[octet as usize] && !self.sacked[octet as usize])
        }
    }

    proptest! {
        #[test]
        fn the_marks_are_what_rfc_6675_says_for_each_octet(
            steps in prop::collection::vec((0_u8..4, 0_u64..200, 1_u64..25), 1..60),
        ) {
            let next = 201;
            let mut scoreboard = scoreboard();
            let mut model = Model {
                una: 1,
                next,
                sacked: vec![false; 202],
                lost: vec![false; 202],
                high_rxt: 1,
            };
            for (kind, position, length) in steps {
                match kind {
                    0 | 1 => {
                        // The octet at `una` is never SACKed: it would have been acknowledged.
                        let start = (model.una + 1).max(position);
                        let block = Range::new(start, (start + length).min(next));
                        if block.length() > 0 {
                            scoreboard.add(block);
                            (block.start..block.end).for_each(|o| model.sacked[o as usize] = true);
                        }
                        scoreboard.find_lost(MSS);
                        model.find_lost();
                    }
                    2 => {
                        if let Some(gap) = scoreboard.next_lost() {
                            let sent = Range::new(gap.start, gap.end.min(gap.start + MSS));
                            scoreboard.retransmit(sent);
                            model.high_rxt = sent.end;
                        }
                    }
                    _ => {
                        let mut una = (model.una + length / 4).min(next);
                        while una < next && model.sacked[una as usize] {
                            una += 1;
                        }
                        scoreboard.advance(una);
                        (model.una..una).for_each(|o| model.sacked[o as usize] = false);
                        model.una = una;
                        model.high_rxt = model.high_rxt.max(una);
                    }
                }
                prop_assert_eq!(scoreboard.pipe(next), model.pipe());
                prop_assert_eq!(scoreboard.next_lost().map(|gap| gap.start), model.next_lost());
            }
        }
    }
}

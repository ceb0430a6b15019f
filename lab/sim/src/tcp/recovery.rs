//! The sender's processing of acknowledgments: round-trip samples, window growth, detection and repair of losses
//! (RFC 5681, RFC 6582, RFC 6675), ECN echoes (RFC 3168).

use weir_base::{Instant, Span};

use super::congestion::Acked;
use super::receiver::timestamp;
use super::scoreboard::DUPLICATE_THRESHOLD;
use super::segment::{Flags, Segment};
use super::sender::{Phase, Sender};

impl Sender {
    /// Handles a segment with an acknowledgment.
    pub(super) fn on_ack(&mut self, segment: &Segment, now: Instant) {
        let acknowledgment = segment.acknowledgment;
        if acknowledgment < self.una || acknowledgment > self.next {
            return;
        }
        let advanced = acknowledgment - self.una;
        let flight = self.flight_size();
        let is_duplicate = advanced == 0 && self.is_duplicate(segment);
        // The right edge never moves back (RFC 9293, section 3.8.6).
        self.edge = self.edge.max(acknowledgment + u64::from(segment.window));
        if advanced > 0 {
            self.advance(segment, now);
        }
        let has_news = self.sack && !segment.sack.is_empty() && self.read_sack(segment);
        match self.phase {
            Phase::Open => {
                if self.ecn && segment.flags.contains(Flags::ECE) && self.una > self.reduced {
                    self.reduce_for_mark(flight);
                } else if advanced > 0 {
                    self.grow(advanced, now);
                }
                if has_news || (is_duplicate && !self.sack) {
                    self.on_duplicate(flight);
                }
            }
            Phase::Recovery if self.sack => self.continue_sack_recovery(),
            Phase::Recovery => self.continue_recovery(advanced, is_duplicate),
            Phase::Loss => self.continue_loss(advanced, now),
        }
    }

    /// RFC 5681, section 2; the caller has checked that the acknowledgment number is `una`.
    fn is_duplicate(&self, segment: &Segment) -> bool {
        self.flight() > 0
            && segment.length() == 0
            && self.una + u64::from(segment.window) == self.edge
    }

    /// Handles an acknowledgment of new data: sample, timer, scoreboard.
    fn advance(&mut self, segment: &Segment, now: Instant) {
        let is_clean = self.una >= self.retransmitted_below;
        self.una = segment.acknowledgment;
        self.scoreboard.advance(self.una);
        self.duplicates = 0;
        let oldest = self.note_acknowledged();
        if self.timestamps {
            let micros = timestamp(now).wrapping_sub(segment.echo);
            self.rtt.sample(Span::from_micros(u64::from(micros)));
        } else if let Some(sent) = oldest.filter(|_| is_clean) {
            self.rtt.sample(now.since(sent));
        }
        self.retries = 0;
        let is_partial = self.phase == Phase::Recovery && !self.sack && self.una < self.recover;
        if self.flight() == 0 {
            self.deadline = Instant::FAR_FUTURE; // RFC 6298, rule 5.2
        } else if !(is_partial && self.had_partial_ack) {
            self.deadline = now + self.rtt.rto(); // rule 5.3
        }
        self.had_partial_ack |= is_partial;
    }

    /// Returns whether the blocks cover anything that no earlier block covered.
    fn read_sack(&mut self, segment: &Segment) -> bool {
        let mut has_news = false;
        for block in segment.sack.ranges(segment.acknowledgment) {
            has_news |= block.end <= self.next && self.scoreboard.add(block);
        }
        has_news
    }

    fn grow(&mut self, bytes: u64, now: Instant) {
        self.congestion.on_ack(Acked {
            bytes,
            is_window_limited: self.is_window_limited,
            is_after_timeout: self.phase == Phase::Loss,
            rtt: self.rtt.smoothed().unwrap_or_default(),
            now,
        });
    }

    /// Handles an echoed mark after the peer has acknowledged data that was sent after the last reduction. The peer
    /// knows about that reduction, so this mark is new (RFC 3168, section 6.1.2).
    fn reduce_for_mark(&mut self, flight: u64) {
        self.statistics.marks += 1;
        self.congestion.on_mark(flight);
        self.note_reduction();
    }

    /// Handles a duplicate acknowledgment as defined in RFC 5681 or RFC 6675.
    fn on_duplicate(&mut self, flight: u64) {
        self.duplicates += 1;
        if !self.sack && self.una <= self.recover {
            // Here, duplicates may be answers to unnecessary retransmissions (RFC 6582, section 3.2, step 1). With
            // SACK, such answers contain nothing new and do not get here.
            return;
        }
        if self.sack {
            self.scoreboard.find_lost(self.mss);
        }
        if self.duplicates >= DUPLICATE_THRESHOLD || self.scoreboard.has_lost() {
            self.enter_recovery(flight);
        }
    }

    /// Fast retransmit (RFC 5681, section 3.2; RFC 6675, section 5, steps 4.1 to 4.3).
    fn enter_recovery(&mut self, flight: u64) {
        self.statistics.fast_retransmits += 1;
        // One reduction for each window of data: no reduction for data that was lost before the last reduction.
        if self.una >= self.reduced {
            self.congestion.on_loss(flight);
            self.note_reduction();
        }
        self.phase = Phase::Recovery;
        self.recover = self.next;
        self.had_partial_ack = false;
        self.is_rescued = false;
        self.is_head_due = true;
        if !self.sack {
            // The three segments that caused the duplicates have left the network.
            self.inflation = i64::from(DUPLICATE_THRESHOLD) * self.mss as i64;
        }
    }

    /// RFC 6675, section 5, steps A and B.
    fn continue_sack_recovery(&mut self) {
        if self.una >= self.recover {
            self.leave();
        } else {
            self.scoreboard.find_lost(self.mss);
        }
    }

    /// RFC 6582, section 3.2, steps 2 and 3; RFC 5681, section 3.2, step 4.
    fn continue_recovery(&mut self, advanced: u64, is_duplicate: bool) {
        let mss = self.mss as i64;
        if self.una >= self.recover {
            // The variant of the RFC that cannot send a burst.
            let flight = self.flight().max(self.mss);
            let window = self.congestion.threshold().min(flight + self.mss);
            self.congestion.set_window(window);
            self.leave();
        } else if advanced > 0 {
            self.is_head_due = true;
            let back = if advanced >= self.mss { mss } else { 0 };
            let window = self.congestion.window() as i64;
            let deflated = (window + self.inflation - advanced as i64).max(0) + back;
            self.inflation = deflated.max(mss) - window;
        } else if is_duplicate {
            self.inflation += mss;
        }
    }

    /// Repairs, in slow start, the losses of a timeout.
    fn continue_loss(&mut self, advanced: u64, now: Instant) {
        if advanced > 0 {
            self.grow(advanced, now);
        }
        if self.una >= self.recover {
            self.leave();
        }
    }

    fn leave(&mut self) {
        self.phase = Phase::Open;
        self.inflation = 0;
        self.duplicates = 0;
        self.scoreboard.clear_marks();
    }
}

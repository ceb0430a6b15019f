//! Selects the segments that the windows permit: retransmissions first, then new data.

use weir_base::Instant;

use super::range::Range;
use super::segment::{Flags, Segment};
use super::sender::{Phase, Sender};

impl Sender {
    /// Whether `transmit` has anything to check.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        self.next < self.stream_end() || self.phase != Phase::Open || self.is_head_due
    }

    /// Sends all segments that may be sent now. `header` has the fields common to all of them.
    pub(super) fn transmit(&mut self, header: &Segment, now: Instant, out: &mut Vec<Segment>) {
        if self.is_head_due {
            self.is_head_due = false;
            self.retransmit(self.scoreboard.head(self.next), header, now, out);
        }
        match self.phase {
            Phase::Recovery if self.sack => self.transmit_recovery(header, now, out),
            Phase::Loss => {
                if self.transmit_lost(header, now, out) {
                    self.transmit_new(header, now, out);
                }
            }
            Phase::Open | Phase::Recovery => self.transmit_new(header, now, out),
        }
    }

    /// Sends new data as far as the windows permit.
    fn transmit_new(&mut self, header: &Segment, now: Instant, out: &mut Vec<Segment>) {
        if self.una == self.next && self.next < self.data_end {
            self.restart_after_idle(now);
        }
        let window = self.window() + self.limited_transmit();
        let mut pipe = self.scoreboard.pipe(self.next);
        loop {
            let Some(new) = self.next_new() else {
                self.is_window_limited = false;
                return;
            };
            if pipe + self.payload(new) > window {
                self.is_window_limited = true;
                return;
            }
            pipe += new.length();
            self.send_new(new, header, now, out);
        }
    }

    /// After a timeout, sends lost data as far as the window permits. Returns whether all lost data was sent.
    fn transmit_lost(&mut self, header: &Segment, now: Instant, out: &mut Vec<Segment>) -> bool {
        while let Some(gap) = self.scoreboard.next_lost() {
            let segment = self.cut(gap);
            let pipe = self.scoreboard.pipe(self.next);
            if pipe + self.payload(segment) > self.congestion.window() {
                self.is_window_limited = true;
                return false;
            }
            self.retransmit(segment, header, now, out);
        }
        true
    }

    /// RFC 6675, section 5, step C, with NextSeg() of section 4.
    fn transmit_recovery(&mut self, header: &Segment, now: Instant, out: &mut Vec<Segment>) {
        while self.scoreboard.pipe(self.next) + self.mss <= self.congestion.window() {
            if let Some(lost) = self.scoreboard.next_lost() {
                self.retransmit(lost, header, now, out); // rule 1
            } else if let Some(new) = self.next_new() {
                self.send_new(new, header, now, out); // rule 2
            } else if let Some(gap) = self.scoreboard.next_gap() {
                self.retransmit(gap, header, now, out); // rule 3
            } else {
                self.rescue(header, now, out); // rule 4
                return;
            }
        }
    }

    /// Retransmits the highest outstanding segment, once in a recovery: no SACK would reveal its loss.
    fn rescue(&mut self, header: &Segment, now: Instant, out: &mut Vec<Segment>) {
        if self.is_rescued {
            return;
        }
        self.is_rescued = true;
        if let Some(gap) = self.scoreboard.last_gap(self.next) {
            // It must include the highest sequence number, and HighRxt stays (rule 4).
            let start = gap
                .start
                .max(gap.end.min(self.data_end).saturating_sub(self.mss));
            self.send_again(Range::new(start, gap.end), header, now, out);
        }
    }

    /// Retransmits the first segment of `gap`.
    fn retransmit(&mut self, gap: Range, header: &Segment, now: Instant, out: &mut Vec<Segment>) {
        let segment = self.cut(gap);
        // Fast recovery without SACK has no pipe: there, the inflated window limits all unacknowledged data.
        if self.sack || self.phase == Phase::Loss {
            self.scoreboard.retransmit(segment);
        }
        self.send_again(segment, header, now, out);
    }

    /// Sends data again: never ECN-capable (RFC 3168, section 6.1.5).
    fn send_again(&mut self, range: Range, header: &Segment, now: Instant, out: &mut Vec<Segment>) {
        self.retransmitted_below = self.retransmitted_below.max(range.end);
        self.statistics.retransmitted += 1;
        // The timer restarts when the first outstanding segment is retransmitted, as in Linux. The careful variant of
        // RFC 6675, section 6, would restart it for every retransmission, but then the loss of a retransmission would
        // be detected only after the whole recovery. Without SACK, it does not restart after the first partial
        // acknowledgment (RFC 6582, impatient variant).
        let is_first = range.start == self.una;
        if self.phase == Phase::Recovery && is_first && !self.had_partial_ack {
            self.deadline = now + self.rtt.rto();
        }
        self.push(range, Flags::empty(), false, header, out);
    }

    fn send_new(&mut self, range: Range, header: &Segment, now: Instant, out: &mut Vec<Segment>) {
        self.next = range.end;
        self.note_sent(range.end, now);
        if self.deadline == Instant::FAR_FUTURE {
            self.deadline = now + self.rtt.rto(); // RFC 6298, rule 5.1
        }
        let has_data = self.payload(range) > 0;
        let cwr = has_data && self.owes_cwr;
        self.owes_cwr &= !cwr;
        self.push(
            range,
            Flags::CWR.when(cwr),
            self.ecn && has_data,
            header,
            out,
        );
    }

    fn push(
        &mut self,
        range: Range,
        flags: Flags,
        ecn_capable: bool,
        header: &Segment,
        out: &mut Vec<Segment>,
    ) {
        self.statistics.segments += 1;
        out.push(Segment {
            sequence: range.start,
            payload: self.payload(range) as u32,
            flags: header.flags | flags | Flags::FIN.when(range.end > self.data_end),
            ecn_capable,
            ..*header
        });
    }

    /// The next segment of new data that the application and the receiver permit.
    #[inline]
    fn next_new(&self) -> Option<Range> {
        if self.next >= self.stream_end() {
            return None;
        }
        let new = self.cut(Range::new(self.next, self.stream_end()));
        if new.end <= self.edge {
            return Some(new);
        }
        // Shorter than a full segment only if nothing is in flight: no silly windows (RFC 1122, 4.2.3.4).
        let room = Range::new(self.next, self.edge);
        (self.una == self.next && room.length() > 0).then_some(room)
    }

    /// The first segment of a range; the FIN is part of the segment with the last byte.
    #[inline]
    fn cut(&self, range: Range) -> Range {
        let end = range.start + self.mss;
        if end >= self.data_end {
            return range;
        }
        Range::new(range.start, end.min(range.end))
    }

    /// Bytes of data in a range, without the FIN.
    #[inline]
    fn payload(&self, range: Range) -> u64 {
        range.below(self.data_end)
    }

    /// The sequence number after the data, or after the FIN.
    #[inline]
    fn stream_end(&self) -> u64 {
        self.data_end + u64::from(self.is_closing)
    }

    /// Each of the first two duplicate acknowledgments permits one new segment (RFC 3042). With SACK, the shorter pipe
    /// has the same effect.
    fn limited_transmit(&self) -> u64 {
        if self.phase == Phase::Open && !self.sack {
            u64::from(self.duplicates.min(2)) * self.mss
        } else {
            0
        }
    }

    /// RFC 5681, section 4.1.
    fn restart_after_idle(&mut self, now: Instant) {
        if now.since(self.last_sent) > self.rtt.rto() {
            self.congestion.restart(self.restart_window);
        }
    }
}

//! The receiving half: reassembly, acknowledgments, SACK blocks, ECN echo.
//!
//! The application reads immediately, so the advertised window is constant: data held out of order is within it and
//! does not reduce it.

use weir_base::{Instant, Span};

use super::options::Options;
use super::range::{Range, RangeSet};
use super::segment::{Flags, SackBlocks, Segment};

/// After this time TS.Recent is invalid (RFC 7323, section 5.5). It is less than 2^31 ticks of [`timestamp`], 36
/// minutes, after which a newer value looks older.
const OUTDATED: Span = Span::from_secs(30 * 60);

/// The receiving half of a connection.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// The next sequence number expected (RCV.NXT); zero before the SYN of the peer.
    next: u64,
    /// The number of the peer's FIN; higher than all numbers before it has arrived.
    fin: u64,
    /// Data that arrived out of order.
    held: RangeSet,
    /// Number of sequence numbers in `held`.
    held_length: u64,
    /// The ranges of `held` that changed last, the latest first (RFC 2018, section 4).
    recent: [Range; SackBlocks::MAX],
    window: u32,
    /// Bytes received in order since the last acknowledgment.
    unacknowledged: u64,
    /// Number of such bytes that forces an acknowledgment.
    ack_after: u64,
    ack_every: u32,
    delayed_ack: Span,
    /// Time at which an acknowledgment goes out even if nothing more arrives; far future when none is owed.
    deadline: Instant,
    is_ack_due: bool,
    sack: bool,
    ecn: bool,
    /// Whether a mark was seen, and no CWR since then.
    echo_congestion: bool,
    timestamps: bool,
    /// TS.Recent, its time of arrival, and the last acknowledged number (RFC 7323, section 4.3).
    timestamp: u32,
    timestamp_at: Instant,
    acknowledged: u64,
}

impl Receiver {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            next: 0,
            fin: u64::MAX,
            held: RangeSet::default(),
            held_length: 0,
            recent: [Range::default(); SackBlocks::MAX],
            window: options.receive_window,
            unacknowledged: 0,
            ack_after: 0,
            ack_every: options.ack_every,
            delayed_ack: options.delayed_ack,
            deadline: Instant::FAR_FUTURE,
            is_ack_due: false,
            sack: false,
            ecn: false,
            echo_congestion: false,
            timestamps: false,
            timestamp: 0,
            timestamp_at: Instant::ZERO,
            acknowledged: 0,
        }
    }

    /// Handles the peer's SYN; `agreed` are the options that both ends support.
    pub(super) fn synchronize(&mut self, syn: &Segment, mss: u32, agreed: Flags) {
        self.next = 1;
        self.acknowledged = 1;
        self.ack_after = u64::from(self.ack_every) * u64::from(mss);
        self.sack = agreed.contains(Flags::SACK_PERMITTED);
        self.ecn = agreed.contains(Flags::ECE);
        self.timestamps = agreed.contains(Flags::TIMESTAMPS);
        self.timestamp = syn.timestamp;
    }

    /// Payload bytes received in order.
    pub(super) fn delivered(&self) -> u64 {
        self.next.min(self.fin).saturating_sub(1)
    }

    /// Payload bytes received, in order or not; each byte counts once.
    pub(super) fn arrived(&self) -> u64 {
        // A held FIN has a number but no payload.
        let is_fin_held = self.fin != u64::MAX && self.next <= self.fin;
        self.delivered() + self.held_length - u64::from(is_fin_held)
    }

    /// Whether everything up to the FIN has arrived.
    pub(super) fn is_finished(&self) -> bool {
        self.next > self.fin
    }

    /// Time at which the delayed acknowledgment is due.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether an acknowledgment must go out now.
    pub(super) fn is_ack_due(&self) -> bool {
        self.is_ack_due
    }

    /// Handles arriving data or a FIN. Returns whether a pure acknowledgment must answer it even if data is sent too:
    /// only pure acknowledgments count as duplicates (RFC 5681, section 2).
    pub(super) fn on_data(&mut self, segment: &Segment, marked: bool, now: Instant) -> bool {
        let range = segment.range();
        if range.end <= self.next || range.end > self.next + u64::from(self.window) {
            return true; // old, or beyond the window (RFC 9293, section 3.10.7.4)
        }
        self.note_congestion(segment.flags, marked);
        self.note_timestamp(segment, now);
        if segment.flags.contains(Flags::FIN) {
            self.fin = range.end - 1;
            self.is_ack_due = true;
        }
        if range.start > self.next {
            self.hold(range);
            return true;
        }
        self.unacknowledged += range.end - self.next;
        self.next = range.end;
        if !self.held.is_empty() {
            self.fill();
        } else if self.ack_every <= 1 || self.unacknowledged >= self.ack_after {
            self.is_ack_due = true;
        } else if self.deadline == Instant::FAR_FUTURE {
            self.deadline = now + self.delayed_ack;
        }
        false
    }

    /// The header of a segment sent now: acknowledgment, window, flags and options.
    pub(super) fn header(&self, now: Instant) -> Segment {
        let sack = if self.held.is_empty() || !self.sack {
            SackBlocks::default()
        } else {
            SackBlocks::new(self.next, &self.recent)
        };
        Segment {
            acknowledgment: self.next,
            window: self.window,
            timestamp: timestamp(now),
            echo: self.timestamp,
            sack,
            flags: Flags::ACK
                | Flags::ECE.when(self.echo_congestion)
                | Flags::TIMESTAMPS.when(self.timestamps),
            ..Segment::default()
        }
    }

    /// Records that a segment with this header was sent: no acknowledgment is owed.
    pub(super) fn acknowledged(&mut self) {
        self.unacknowledged = 0;
        self.is_ack_due = false;
        self.deadline = Instant::FAR_FUTURE;
        self.acknowledged = self.next;
    }

    /// Echoes each mark until the sender confirms it (RFC 3168, section 6.1.3).
    fn note_congestion(&mut self, flags: Flags, marked: bool) {
        if !self.ecn {
            return;
        }
        if flags.contains(Flags::CWR) {
            self.echo_congestion = false;
        }
        if marked && !self.echo_congestion {
            self.echo_congestion = true;
            // Not delayed, as in Linux: a sender with a small window may wait for this acknowledgment.
            self.is_ack_due = true;
        }
    }

    /// RFC 7323, section 4.3, rule 2.
    fn note_timestamp(&mut self, segment: &Segment, now: Instant) {
        let is_newer = segment.timestamp.wrapping_sub(self.timestamp) < 1 << 31
            || now.since(self.timestamp_at) >= OUTDATED;
        if self.timestamps && is_newer && segment.sequence <= self.acknowledged {
            (self.timestamp, self.timestamp_at) = (segment.timestamp, now);
        }
    }

    /// Holds data that arrived out of order, and moves its range to the front of the report (RFC 2018, section 4).
    fn hold(&mut self, range: Range) {
        let length = &mut self.held_length;
        let latest = self.held.insert(range, |fresh| *length += fresh.length());
        let earlier = self.recent;
        let others = earlier
            .iter()
            .filter(|r| r.start > self.next && !latest.covers(**r));
        self.recent = [Range::default(); SackBlocks::MAX];
        let blocks = std::iter::once(&latest).chain(others);
        for (slot, block) in self.recent.iter_mut().zip(blocks) {
            *slot = *block;
        }
    }

    /// Handles the segment at the lower end of a gap: it fills all or part of the gap, and is acknowledged immediately
    /// (RFC 5681, section 4.2).
    fn fill(&mut self) {
        self.is_ack_due = true;
        if let Some(first) = self.held.first().filter(|r| r.start <= self.next) {
            self.next = self.next.max(first.end);
        }
        self.held_length -= self.held.remove_below(self.next);
    }
}

/// The timestamp clock: microseconds, wrapping.
pub(super) fn timestamp(now: Instant) -> u32 {
    (now.as_nanos() / 1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000);

    /// A receiver with SACK and ECN that has seen the SYN; segments have ten bytes.
    fn receiver(ack_every: u32) -> Receiver {
        let mut receiver = Receiver::new(&Options {
            ack_every,
            receive_window: 1000,
            ..Options::default()
        });
        let agreed = Flags::SACK_PERMITTED | Flags::ECE;
        receiver.synchronize(&Segment::default(), 10, agreed);
        receiver
    }

    /// Segment number `n` of ten bytes, counted from zero.
    fn segment(n: u64) -> Segment {
        Segment {
            sequence: 1 + 10 * n,
            payload: 10,
            ..Segment::default()
        }
    }

    /// Takes segment `n`; returns whether it is acknowledged immediately.
    fn take(receiver: &mut Receiver, n: u64) -> bool {
        let at_once = receiver.on_data(&segment(n), false, NOW) || receiver.is_ack_due();
        if at_once {
            receiver.acknowledged();
        }
        at_once
    }

    fn sacked(receiver: &Receiver) -> Vec<u64> {
        let header = receiver.header(NOW);
        header
            .sack
            .ranges(header.acknowledgment)
            .flat_map(|range| [(range.start - 1) / 10, (range.end - 1) / 10])
            .collect()
    }

    #[test]
    fn every_second_segment_is_acknowledged_at_once() {
        let mut receiver = receiver(2);
        assert!(!take(&mut receiver, 0));
        assert_eq!(receiver.deadline(), NOW + Span::from_millis(40));
        assert!(take(&mut receiver, 1));
        assert_eq!(receiver.deadline(), Instant::FAR_FUTURE);
        assert!(!take(&mut receiver, 2));
        let mut receiver = self::receiver(1);
        assert!(take(&mut receiver, 0));
    }

    #[test]
    fn whatever_is_not_in_order_is_acknowledged_at_once() {
        let mut receiver = receiver(2);
        assert!(take(&mut receiver, 3));
        assert!(take(&mut receiver, 0)); // a part of the gap
        assert!(take(&mut receiver, 0)); // old
        assert!(take(&mut receiver, 3)); // held already
        assert!(take(&mut receiver, 1));
        assert!(take(&mut receiver, 2)); // the whole gap
        assert_eq!(receiver.delivered(), 40);
        assert!(!take(&mut receiver, 4));
    }

    #[test]
    fn the_latest_block_comes_first() {
        // RFC 2018, section 4: the block with the segment that caused the acknowledgment, then the
        // others by the time of their last change.
        let mut receiver = receiver(2);
        take(&mut receiver, 2);
        take(&mut receiver, 4);
        assert_eq!(sacked(&receiver), [4, 5, 2, 3]);
        take(&mut receiver, 8);
        take(&mut receiver, 6);
        assert_eq!(sacked(&receiver), [6, 7, 8, 9, 4, 5]);
        take(&mut receiver, 7);
        assert_eq!(sacked(&receiver), [6, 9, 4, 5]);
        take(&mut receiver, 4);
        assert_eq!(sacked(&receiver), [4, 5, 6, 9]);
        for n in 0..4 {
            take(&mut receiver, n);
        }
        assert_eq!(receiver.delivered(), 50);
        assert_eq!(sacked(&receiver), [6, 9]);
    }

    #[test]
    fn every_byte_arrives_once_in_order_or_not() {
        let mut receiver = receiver(2);
        let mut arrived = |n: u64| {
            take(&mut receiver, n);
            receiver.arrived()
        };
        assert_eq!(arrived(2), 10);
        assert_eq!(arrived(2), 10); // held already
        assert_eq!(arrived(1), 20);
        assert_eq!(arrived(0), 30); // fills the gap
        assert_eq!(arrived(1), 30); // old
        let mut last = segment(4);
        last.flags |= Flags::FIN;
        receiver.on_data(&last, false, NOW);
        assert_eq!((receiver.arrived(), receiver.delivered()), (40, 30));
        take(&mut receiver, 3);
        assert_eq!((receiver.arrived(), receiver.delivered()), (50, 50));
    }

    #[test]
    fn nothing_beyond_the_window_is_taken() {
        let mut receiver = receiver(2);
        assert!(take(&mut receiver, 100));
        assert!(sacked(&receiver).is_empty());
        take(&mut receiver, 99);
        assert_eq!(sacked(&receiver), [99, 100]);
    }

    #[test]
    fn the_end_is_known_when_all_before_it_has_come() {
        let mut receiver = receiver(2);
        let mut last = segment(1);
        last.flags |= Flags::FIN;
        receiver.on_data(&last, false, NOW);
        assert!(!receiver.is_finished());
        take(&mut receiver, 0);
        assert!(receiver.is_finished());
        assert_eq!(receiver.delivered(), 20);
        assert_eq!(receiver.header(NOW).acknowledgment, 22);
    }

    #[test]
    fn a_mark_is_echoed_until_the_sender_has_heard_it() {
        let mut receiver = receiver(2);
        let echoes = |receiver: &Receiver| receiver.header(NOW).flags.contains(Flags::ECE);
        receiver.on_data(&segment(0), true, NOW);
        assert!(receiver.is_ack_due());
        receiver.acknowledged();
        assert!(!take(&mut receiver, 1));
        assert!(echoes(&receiver));
        let mut reduced = segment(2);
        reduced.flags |= Flags::CWR;
        receiver.on_data(&reduced, false, NOW);
        assert!(!echoes(&receiver));
        // Marked again on the same segment that has the CWR.
        reduced.sequence = segment(3).sequence;
        receiver.on_data(&reduced, true, NOW);
        assert!(echoes(&receiver));
    }

    #[test]
    fn the_echoed_timestamp_is_that_of_the_oldest_unacknowledged_segment() {
        let mut receiver = receiver(2);
        receiver.timestamps = true;
        let stamped = |n, timestamp| Segment {
            timestamp,
            ..segment(n)
        };
        receiver.on_data(&stamped(0, 5), false, NOW);
        receiver.on_data(&stamped(1, 6), false, NOW);
        assert_eq!(receiver.header(NOW).echo, 5);
        receiver.acknowledged();
        receiver.on_data(&stamped(3, 8), false, NOW);
        assert_eq!(receiver.header(NOW).echo, 5);
        receiver.on_data(&stamped(2, 7), false, NOW);
        assert_eq!(receiver.header(NOW).echo, 7);
    }

    #[test]
    fn a_timestamp_is_newer_after_any_silence() {
        for minutes in [1, 20, 36, 50, 71, 72, 100] {
            let mut receiver = receiver(1);
            receiver.timestamps = true;
            for (n, at) in [(0, NOW), (1, NOW + Span::from_secs(60 * minutes))] {
                let stamped = Segment {
                    timestamp: timestamp(at),
                    ..segment(n)
                };
                receiver.on_data(&stamped, false, at);
                assert_eq!(receiver.header(at).echo, timestamp(at), "{minutes} minutes");
                receiver.acknowledged();
            }
        }
    }
}

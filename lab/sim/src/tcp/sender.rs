//! The sending half: its state, its timer, and the SYN.
//!
//! Two more files belong to it: [`recovery`](super::recovery) processes acknowledgments, [`transmit`](super::transmit)
//! selects the segments to send.
//!
//! Choices that the RFCs leave open:
//! - no Nagle algorithm, no pacing: data goes out as soon as the windows permit;
//! - round-trip samples from every acknowledgment that covers no retransmitted data (Karn),
//!   measured from the oldest segment it covers, so that the receiver's delay is part of it;
//! - after idling for longer than the timeout the window restarts at the initial window (RFC 5681,
//!   section 4.1);
//! - the connection is given up after 15 expiries of the timer without progress, as in Linux, and
//!   after 6 for a SYN; one lost SYN does not shrink the initial window, but two do (as in Linux).

use std::collections::VecDeque;

use weir_base::Instant;

use super::congestion::Congestion;
use super::options::Options;
use super::rtt::RttEstimator;
use super::scoreboard::Scoreboard;
use super::segment::Flags;
use super::statistics::Statistics;

/// Maximum consecutive expiries of the timer for data (Linux, `tcp_retries2`).
const DATA_RETRIES_MAX: u32 = 15;
/// Maximum expiries for a SYN (Linux, `tcp_syn_retries`).
const SYN_RETRIES_MAX: u32 = 6;

/// The sender's phase of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No known losses.
    Open,
    /// Fast recovery (RFC 6582 or RFC 6675), until the data outstanding at its start is acknowledged.
    Recovery,
    /// Slow start after a timeout, until the data outstanding at the timeout is acknowledged.
    Loss,
}

/// Segments sent at one instant, up to a sequence number, for round-trip samples.
#[derive(Clone, Copy, Debug)]
struct Burst {
    end: u64,
    sent: Instant,
}

/// The sending half of a connection, used from the end of the handshake on.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    /// The lowest sequence number not acknowledged (SND.UNA).
    pub(super) una: u64,
    /// The lowest sequence number that was never sent (SND.NXT; RFC 6675, HighData + 1).
    pub(super) next: u64,
    /// The lowest sequence number beyond the peer's window.
    pub(super) edge: u64,
    /// The sequence number after the last byte that the application has written.
    pub(super) data_end: u64,
    /// Whether a FIN follows the data.
    pub(super) is_closing: bool,
    pub(super) mss: u64,
    /// Whether both ends permit SACK, have agreed on ECN, and send timestamps.
    pub(super) sack: bool,
    pub(super) ecn: bool,
    pub(super) timestamps: bool,

    pub(super) phase: Phase,
    /// Duplicate acknowledgments since `una` moved.
    pub(super) duplicates: u32,
    /// The value of `next` when the last recovery began: the recovery ends there, and no other begins before (RFC 6582,
    /// recover; RFC 6675, RecoveryPoint).
    pub(super) recover: u64,
    /// The value of `next` when the window was last reduced, because of a loss or a mark.
    pub(super) reduced: u64,
    /// The segment at `una` must be retransmitted, regardless of the window.
    pub(super) is_head_due: bool,
    /// Only the first partial acknowledgment restarts the timer (RFC 6582, impatient variant).
    pub(super) had_partial_ack: bool,
    /// The change of the congestion window by fast recovery without SACK: the segments that, according to duplicates,
    /// have left the network, minus the data that partial acknowledgments cover (RFC 5681, section 3.2, steps 3 and 4;
    /// RFC 6582). It is separate from the window, so that no reduction is calculated from it.
    pub(super) inflation: i64,
    /// The rescue retransmission of this recovery was made (RFC 6675, NextSeg() rule 4).
    pub(super) is_rescued: bool,
    /// The next new data must report that the window was reduced (RFC 3168, section 6.1.2).
    pub(super) owes_cwr: bool,
    /// Whether the congestion window ended the last transmission, rather than lack of data or receive window.
    pub(super) is_window_limited: bool,
    /// The window after idling.
    pub(super) restart_window: u64,

    /// Times at which the data in flight was first sent.
    bursts: VecDeque<Burst>,
    /// Data below this number may have been retransmitted, and gives no sample.
    pub(super) retransmitted_below: u64,
    /// Time at which the retransmission timer expires; far future when it does not run.
    pub(super) deadline: Instant,
    /// Expiries of the timer since the last progress.
    pub(super) retries: u32,
    /// Our SYN was sent again although the timer had not expired. It is unknown which SYN is acknowledged, so the
    /// acknowledgment gives no round-trip sample (Karn; RFC 6298, section 3).
    is_syn_repeated: bool,
    /// Time at which the SYN or new data was last sent.
    pub(super) last_sent: Instant,

    pub(super) rtt: RttEstimator,
    pub(super) scoreboard: Scoreboard,
    pub(super) congestion: Congestion,
    pub(super) statistics: Statistics,
}

impl Sender {
    pub(super) fn new(options: &Options) -> Self {
        let mut scoreboard = Scoreboard::default();
        scoreboard.advance(1);
        Self {
            una: 1,
            next: 1,
            edge: 1,
            data_end: 1,
            is_closing: false,
            mss: u64::from(options.mss),
            sack: false,
            ecn: false,
            timestamps: false,
            phase: Phase::Open,
            duplicates: 0,
            recover: 0,
            reduced: 0,
            is_head_due: false,
            had_partial_ack: false,
            inflation: 0,
            is_rescued: false,
            owes_cwr: false,
            is_window_limited: false,
            restart_window: 0,
            bursts: VecDeque::new(),
            retransmitted_below: 0,
            deadline: Instant::FAR_FUTURE,
            retries: 0,
            is_syn_repeated: false,
            last_sent: Instant::ZERO,
            rtt: RttEstimator::new(options),
            scoreboard,
            congestion: Congestion::new(options),
            statistics: Statistics::default(),
        }
    }

    /// The application offers `bytes` more.
    pub(super) fn write(&mut self, bytes: u64) {
        // Half of the sequence space is practically unlimited, and sums cannot overflow.
        self.data_end = self.data_end.saturating_add(bytes).min(u64::MAX / 2);
    }

    /// The application withdraws data that was never sent.
    pub(super) fn abandon_unsent(&mut self) {
        self.data_end = self.data_end.min(self.next);
    }

    /// Payload bytes that the application has offered.
    pub(super) fn written(&self) -> u64 {
        self.data_end - 1
    }

    /// Payload bytes that were never sent.
    pub(super) fn unsent(&self) -> u64 {
        self.data_end.saturating_sub(self.next)
    }

    /// Payload bytes that the peer has acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.una.min(self.data_end) - 1
    }

    /// Sequence numbers sent and not acknowledged (RFC 5681, FlightSize).
    pub(super) fn flight(&self) -> u64 {
        self.next - self.una
    }

    /// Whether the FIN is acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.is_closing && self.una > self.data_end
    }

    /// Records that a SYN is sent, or sent again if the timer has expired.
    pub(super) fn send_syn(&mut self, now: Instant) {
        self.last_sent = now;
        self.deadline = now + self.rtt.rto();
        self.statistics.retransmitted += u64::from(self.retries > 0);
    }

    /// Records that the SYN is sent again at the peer's request; the timer continues.
    pub(super) fn note_syn_repeated(&mut self) {
        self.is_syn_repeated = true;
        self.statistics.retransmitted += 1;
    }

    /// Handles an expiry of the timer during the handshake. Returns whether to continue.
    pub(super) fn on_syn_timeout(&mut self) -> bool {
        self.retries += 1;
        self.statistics.timeouts += 1;
        self.rtt.back_off();
        self.retries <= SYN_RETRIES_MAX
    }

    /// Completes the handshake with these options, the options `agreed` by both ends, and the peer's first window.
    pub(super) fn establish(
        &mut self,
        options: &Options,
        agreed: Flags,
        window: u32,
        now: Instant,
    ) {
        self.sack = agreed.contains(Flags::SACK_PERMITTED);
        self.ecn = agreed.contains(Flags::ECE);
        self.timestamps = agreed.contains(Flags::TIMESTAMPS);
        self.mss = u64::from(options.mss);
        self.congestion = Congestion::new(options);
        self.edge = self.next + u64::from(window);
        self.deadline = Instant::FAR_FUTURE;
        match self.retries {
            // The timer has not expired, so both its timeout and the window stay.
            0 if self.is_syn_repeated => {}
            0 => self.rtt.sample(now.since(self.last_sent)),
            1 => self.rtt.fall_back(),
            _ => {
                // RFC 5681, section 3.1. But since RFC 6298 the SYN times out after one second, so a single expiry
                // indicates little about the path.
                self.rtt.fall_back();
                self.congestion.set_window(self.mss);
            }
        }
        self.restart_window = self.congestion.window();
        self.retries = 0;
        self.last_sent = now;
    }

    /// Handles an expiry of the timer (RFC 6298, rules 5.4 to 5.6; RFC 5681, section 3.1). Everything that is not
    /// SACKed counts as lost. Returns whether to continue.
    pub(super) fn on_timeout(&mut self, now: Instant) -> bool {
        self.retries += 1;
        if self.retries > DATA_RETRIES_MAX {
            self.deadline = Instant::FAR_FUTURE;
            return false;
        }
        self.statistics.timeouts += 1;
        self.congestion
            .on_timeout(self.flight_size(), self.retries > 1);
        self.note_reduction();
        self.inflation = 0;
        self.phase = Phase::Loss;
        self.recover = self.next;
        self.duplicates = 0;
        self.is_head_due = true;
        self.scoreboard.lose_all(self.next);
        self.rtt.back_off();
        self.deadline = now + self.rtt.rto();
        true
    }

    /// The window that limits new data (cwnd).
    pub(super) fn window(&self) -> u64 {
        let window = self.congestion.window();
        window.saturating_add_signed(self.inflation).max(self.mss)
    }

    /// FlightSize for a reduction of the window, "the amount of outstanding data in the network" (RFC 5681, equation
    /// 4). This is less than all unacknowledged data: it excludes the segments that limited transmit has added (section
    /// 3.2, step 2) and those that duplicates have released in fast recovery. The same number has left the network, and
    /// a recovery of many round trips releases a window in each.
    pub(super) fn flight_size(&self) -> u64 {
        self.flight().min(self.congestion.window())
    }

    /// Records a reduction of the window because of data sent so far; the next segment reports it to the peer.
    pub(super) fn note_reduction(&mut self) {
        self.reduced = self.next;
        self.owes_cwr = self.ecn;
    }

    /// Records that new data up to `end` is sent.
    pub(super) fn note_sent(&mut self, end: u64, now: Instant) {
        match self.bursts.back_mut() {
            Some(burst) if burst.sent == now => burst.end = end,
            _ => self.bursts.push_back(Burst { end, sent: now }),
        }
        self.last_sent = now;
    }

    /// Records that data below `una` is acknowledged. Returns the time at which the oldest of this data was sent.
    pub(super) fn note_acknowledged(&mut self) -> Option<Instant> {
        let oldest = self.bursts.front()?.sent;
        while self.bursts.front().is_some_and(|b| b.end <= self.una) {
            self.bursts.pop_front();
        }
        Some(oldest)
    }
}

//! Detects whether the master takes redirected packets, faster than the heartbeats of CEHDI do, because the router
//! handles these packets itself while no CE takes them.
//!
//! ```text
//!   FE -- packets, after QUIET_MAX without a message of the master -->  CE
//!      -- Heartbeat, NoACK, correlator PROBE --------------------------->
//!      <------------------------ the same at once, or any other message --
//!   nothing within ANSWER_MAX: the master takes no packets, until its next message
//! ```
//!
//! *Decision*: RFC 5810 (7.10) forbids a CE to answer a heartbeat with AlwaysACK, but permits heartbeats at any time
//! and assigns no meaning to their correlators. A CE of another vendor treats the probe as an ordinary heartbeat.
//! Therefore the FE expects answers only from a master that has answered a probe in this association; it gives up any
//! other master after CEHDI.

use weir_base::{Instant, Span};

/// The FE does not probe a master that sent a message within this time.
pub(super) const QUIET_MAX: Span = Span::from_millis(500);
/// Maximum time for the answer to a probe. The round trip over a satellite link takes half of it.
const ANSWER_MAX: Span = Span::from_millis(1500);

#[derive(Debug, Default)]
pub(super) struct MasterProbe {
    /// The CE has answered a probe in this association.
    answers: bool,
    /// When the answer to the open probe is due.
    pub(super) due: Option<Instant>,
    pub(super) is_lost: bool,
}

impl MasterProbe {
    /// The CE sent a message.
    pub(super) const fn heard(&mut self, is_answer: bool) {
        self.answers |= is_answer;
        self.due = None;
        self.is_lost = false;
    }

    /// Whether a probe is to be sent now: none is open, and the CE is not known to be lost.
    pub(super) fn probe(&mut self, now: Instant) -> bool {
        let may = !self.is_lost && self.due.is_none();
        if may {
            self.due = Some(now + ANSWER_MAX); // also if the queue is full
        }
        may
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| now >= due) {
            self.due = None;
            self.is_lost = self.answers;
        }
    }
}

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

use super::super::PROBE;
use super::Fe;
use super::peer::Link;

/// The FE does not probe a master that sent a message within this time.
const QUIET_MAX: Span = Span::from_millis(500);
/// Maximum time for the answer to a probe. The round trip over a satellite link takes half of it.
const ANSWER_MAX: Span = Span::from_millis(1500);

#[derive(Debug, Default)]
pub(super) struct Attention {
    /// The CE has answered a probe in this association.
    answers: bool,
    /// When the answer to the open probe is due.
    pub(super) due: Option<Instant>,
    is_lost: bool,
}

impl Attention {
    /// The CE sent a message.
    pub(super) const fn heard(&mut self, is_answer: bool) {
        self.answers |= is_answer;
        self.due = None;
        self.is_lost = false;
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| now >= due) {
            self.due = None;
            self.is_lost = self.answers;
        }
    }
}

impl Fe {
    /// Whether there is a master that takes redirected packets, as far as the FE knows.
    pub fn has_attentive_master(&self) -> bool {
        let mut peers = self.peers.iter();
        let master = peers.find(|peer| Some(peer.id) == self.master);
        master.is_some_and(|peer| !peer.attention.is_lost)
    }

    /// Probes the master, so that the FE learns early whether the master answers probes.
    pub fn ask_master(&mut self, now: Instant) {
        let master = self.peers.iter().position(|p| Some(p.id) == self.master);
        if let Some(at) = master {
            self.ask(now, at);
        }
    }

    /// Probes the master before sending packets to it, if it was quiet.
    pub(super) fn ask_quiet(&mut self, now: Instant, at: usize) {
        if now >= self.peers[at].heard + QUIET_MAX {
            self.ask(now, at);
        }
    }

    /// Probes a CE, unless a probe is open.
    fn ask(&mut self, now: Instant, at: usize) {
        let peer = &mut self.peers[at];
        if peer.link != Link::Associated || peer.attention.is_lost || peer.attention.due.is_some() {
            return;
        }
        peer.attention.due = Some(now + ANSWER_MAX); // also if the queue is full
        self.send_heartbeat(now, at, PROBE);
    }
}

//! Whether the master takes redirected packets, which it must show sooner than by the heartbeats of CEHDI: while nobody
//! takes them, the router treats these packets itself.
//!
//! ```text
//!   FE -- packets, after QUIET_MAX without a message of the master -->  CE
//!      -- Heartbeat, NoACK, correlator PROBE --------------------------->
//!      <------------------------ the same at once, or any other message --
//!   nothing in ANSWER_MAX: the master takes no packets, until it is heard of again
//! ```
//!
//! *Decision*: RFC 5810 (7.10) forbids a CE to answer a heartbeat with AlwaysACK, but lets it send heartbeats at any
//! time and gives their correlators no meaning. A CE of another make takes the question for a plain heartbeat. So only
//! a master that has answered one in this association is expected to do so again; any other is given up after CEHDI.

use weir_base::{Instant, Span};

use super::super::PROBE;
use super::Fe;
use super::peer::Link;

/// A master that was heard of more recently is not asked.
const QUIET_MAX: Span = Span::from_millis(500);
/// How long a master may take to answer. A satellite link takes half of it.
const ANSWER_MAX: Span = Span::from_millis(1500);

#[derive(Debug, Default)]
pub(super) struct Attention {
    /// It has answered in this association.
    answers: bool,
    /// When an answer is due.
    pub(super) due: Option<Instant>,
    is_lost: bool,
}

impl Attention {
    /// The CE is heard of.
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

    /// Asks the master for a sign of life, so that it shows early whether it answers such questions.
    pub fn ask_master(&mut self, now: Instant) {
        let master = self.peers.iter().position(|p| Some(p.id) == self.master);
        if let Some(at) = master {
            self.ask(now, at);
        }
    }

    /// Asks the master before packets are sent to it, if it was quiet.
    pub(super) fn ask_quiet(&mut self, now: Instant, at: usize) {
        if now >= self.peers[at].heard + QUIET_MAX {
            self.ask(now, at);
        }
    }

    /// Asks a CE for a sign of life, unless it was asked already.
    fn ask(&mut self, now: Instant, at: usize) {
        let peer = &mut self.peers[at];
        if peer.link != Link::Associated || peer.attention.is_lost || peer.attention.due.is_some() {
            return;
        }
        peer.attention.due = Some(now + ANSWER_MAX); // also if it does not take the question
        self.send_heartbeat(now, at, PROBE);
    }
}

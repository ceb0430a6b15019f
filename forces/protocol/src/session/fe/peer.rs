//! One CE of an FE: its link, timers and queued messages.

use weir_base::{Instant, Span, Tally};

use super::super::Heartbeats;
use super::super::PROBE;
use super::super::outbox::Outbox;
use super::master_probe::MasterProbe;
use super::{CeStatus, Retry};
use crate::wire::{Body, Id, Message};

/// The progress of the association with a CE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// There is no link.
    Closed,
    /// The transport is opening a link; the attempt fails at this time.
    Opening(Instant),
    /// The FE has requested an association from the CE.
    Requesting {
        /// Number of setups sent.
        setups: u32,
        /// The correlator of the setup and its response.
        correlator: u64,
        /// When the FE sends the next setup.
        again: Instant,
        /// Number of messages that arrived instead of the answer, except redirected packets and heartbeats.
        strays: u32,
    },
    /// The CE has accepted.
    Associated,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) id: Id,
    pub(super) link: Link,
    pub(super) heard: Instant,
    pub(super) sent: Instant,
    pub(super) retry_at: Instant,
    failures: u32,
    pub(super) attention: MasterProbe,
    pub(super) out: Outbox,
    /// Messages received; received messages that were dropped; messages taken by the transport; messages dropped
    /// because the queue was full.
    pub(super) received: Tally,
    pub(super) dropped: Tally,
    pub(super) taken: Tally,
    pub(super) unsent: Tally,
    /// The status after the last association or attempt.
    ended: CeStatus,
    /// The transport accepts no more messages for now.
    pub(super) blocked: bool,
}

impl Peer {
    pub(super) fn new(id: Id, queue_bytes_max: usize) -> Self {
        Self {
            id,
            link: Link::Closed,
            heard: Instant::ZERO,
            sent: Instant::ZERO,
            retry_at: Instant::ZERO,
            failures: 0,
            attention: MasterProbe::default(),
            out: Outbox::new(queue_bytes_max),
            received: Tally::ZERO,
            dropped: Tally::ZERO,
            taken: Tally::ZERO,
            unsent: Tally::ZERO,
            ended: CeStatus::Disconnected,
            blocked: false,
        }
    }

    pub(super) fn associate(&mut self, now: Instant) {
        self.link = Link::Associated;
        self.failures = 0;
        (self.heard, self.sent) = (now, now);
        self.attention = MasterProbe::default();
    }

    /// A message of the association has arrived.
    pub(super) fn hear(&mut self, now: Instant, message: &Message) {
        self.heard = now;
        let is_heartbeat = matches!(message.body(), Body::Heartbeat(_));
        let is_answer = is_heartbeat && message.envelope().correlator == PROBE;
        self.attention.heard(is_answer);
    }

    /// Ends the association or the attempt; the FE retries the CE after a pause.
    pub(super) fn close(&mut self, now: Instant, retry: &Retry) {
        self.ended = match self.link {
            Link::Associated => CeStatus::LostConnection,
            _ => CeStatus::Unreachable,
        };
        self.link = Link::Closed;
        self.attention = MasterProbe::default();
        self.out.clear();
        self.blocked = false;
        let pause = retry.pause.times(1 << self.failures.min(32));
        self.retry_at = now + pause.min(retry.pause_max);
        self.failures = self.failures.saturating_add(1);
    }

    pub(super) const fn status(&self) -> CeStatus {
        match self.link {
            Link::Closed | Link::Opening(_) => self.ended,
            Link::Requesting { .. } => CeStatus::Connected,
            Link::Associated => CeStatus::Associated,
        }
    }

    pub(super) fn send(&mut self, now: Instant, message: &Message) {
        self.sent = now;
        self.out.push(message);
    }

    /// Whether the CE has been silent for too long.
    pub(super) fn is_silent(&self, now: Instant, heartbeats: &Heartbeats) -> bool {
        heartbeats.ce_sends && now >= self.heard + heartbeats.ce_dead
    }

    /// Whether the FE must send a heartbeat.
    pub(super) fn is_idle(&self, now: Instant, heartbeats: &Heartbeats) -> bool {
        heartbeats.fe_sends && now >= self.sent + heartbeats.fe_interval
    }

    /// When the next work for this peer is due.
    pub(super) fn deadline(&self, heartbeats: &Heartbeats) -> Option<Instant> {
        match self.link {
            Link::Closed => None,
            Link::Opening(deadline) => Some(deadline),
            Link::Requesting { again, .. } => Some(again),
            Link::Associated => {
                let after = |on: bool, since: Instant, span: Span| on.then_some(since + span);
                let silent = after(heartbeats.ce_sends, self.heard, heartbeats.ce_dead);
                let idle = after(heartbeats.fe_sends, self.sent, heartbeats.fe_interval);
                let timers = [silent, idle, self.attention.due];
                timers.into_iter().flatten().min()
            }
        }
    }
}

//! One CE of an FE: its link, its timers, and its waiting messages.

use weir_base::{Instant, Span, Tally};

use super::super::Heartbeats;
use super::super::outbox::Outbox;
use super::{CeStatus, Retry};
use crate::wire::{Id, Message};

/// How far the association with a CE has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// There is no link.
    Closed,
    /// The transport opens one; it may take until then.
    Opening(Instant),
    /// The CE was asked for the association.
    Requesting {
        /// How often.
        setups: u32,
        /// What the answer has in common with it.
        correlator: u64,
        /// When it is asked again.
        again: Instant,
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
    pub(super) out: Outbox,
    /// What came, what of it was dropped, and what the transport took.
    pub(super) received: Tally,
    pub(super) dropped: Tally,
    pub(super) taken: Tally,
    /// How the last association or attempt ended.
    ended: CeStatus,
    /// The transport takes no more for now.
    pub(super) blocked: bool,
}

impl Peer {
    pub(super) const fn new(id: Id, queue_bytes_max: usize) -> Self {
        Self {
            id,
            link: Link::Closed,
            heard: Instant::ZERO,
            sent: Instant::ZERO,
            retry_at: Instant::ZERO,
            failures: 0,
            out: Outbox::new(queue_bytes_max),
            received: Tally::ZERO,
            dropped: Tally::ZERO,
            taken: Tally::ZERO,
            ended: CeStatus::Disconnected,
            blocked: false,
        }
    }

    pub(super) fn associate(&mut self, now: Instant) {
        self.link = Link::Associated;
        self.failures = 0;
        (self.heard, self.sent) = (now, now);
    }

    /// Ends everything; the CE is left alone for a while.
    pub(super) fn close(&mut self, now: Instant, retry: &Retry) {
        self.ended = match self.link {
            Link::Associated => CeStatus::LostConnection,
            _ => CeStatus::Unreachable,
        };
        self.link = Link::Closed;
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

    /// Whether the CE has been quiet for too long.
    pub(super) fn is_silent(&self, now: Instant, heartbeats: &Heartbeats) -> bool {
        heartbeats.ce_sends && now >= self.heard + heartbeats.ce_dead
    }

    /// When there is something to do about it.
    pub(super) fn deadline(&self, heartbeats: &Heartbeats) -> Option<Instant> {
        match self.link {
            Link::Closed => None,
            Link::Opening(deadline) => Some(deadline),
            Link::Requesting { again, .. } => Some(again),
            Link::Associated => {
                let after = |on: bool, since: Instant, span: Span| on.then_some(since + span);
                let silent = after(heartbeats.ce_sends, self.heard, heartbeats.ce_dead);
                let idle = after(heartbeats.fe_sends, self.sent, heartbeats.fe_interval);
                silent.into_iter().chain(idle).min()
            }
        }
    }
}

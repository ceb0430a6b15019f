//! One FE of a CE: its timers and its requests.

use weir_base::{Instant, Span};

use super::super::{HEARTBEATS_MISSED_MAX, Heartbeats};
use super::contract::{LinkId, Statistics, TransactionId};
use super::request::Requests;
use crate::wire::MessageKind;
use crate::wire::header::Ack;

#[derive(Debug)]
pub(super) struct Association {
    pub(super) link: LinkId,
    /// The link and the correlator of the setup message that began the association.
    pub(super) setup_id: (LinkId, u64),
    pub(super) heartbeats: Heartbeats,
    pub(super) requests: Requests,
    pub(super) transaction: Option<TransactionId>,
    /// When the CE's timer for this FE fires.
    pub(super) timer: Option<Instant>,
    pub(super) sent: Instant,
    pub(super) statistics: Statistics,
    heard: Instant,
    /// Unanswered heartbeats, and when the last one was sent.
    unanswered: u64,
    asked: Instant,
}

impl Association {
    pub(super) fn new(now: Instant, setup_id: (LinkId, u64), heartbeats: Heartbeats) -> Self {
        Self {
            link: setup_id.0,
            setup_id,
            heartbeats,
            requests: Requests::default(),
            transaction: None,
            timer: None,
            sent: now,
            statistics: Statistics {
                since: now,
                heartbeats_sent: 0,
                heartbeats_received: 0,
                operations_sent: 0,
                operations_received: 0,
            },
            heard: now,
            unanswered: 0,
            asked: now,
        }
    }

    /// A message arrived from the FE.
    pub(super) const fn hear(&mut self, now: Instant, kind: MessageKind) {
        self.heard = now;
        self.unanswered = 0;
        match kind {
            MessageKind::Heartbeat => self.statistics.heartbeats_received += 1,
            MessageKind::AssociationTeardown => {}
            _ => self.statistics.operations_received += 1,
        }
    }

    /// The CE sends a message to the FE.
    pub(super) const fn count_sent(&mut self, now: Instant, kind: MessageKind) {
        self.sent = now;
        match kind {
            MessageKind::Heartbeat => self.statistics.heartbeats_sent += 1,
            MessageKind::AssociationSetupResponse => {}
            _ => self.statistics.operations_sent += 1,
        }
    }

    /// Interval of the CE's heartbeats while it sends no other messages.
    fn interval(&self) -> Span {
        Span::from_nanos(self.heartbeats.ce_dead.as_nanos() / HEARTBEATS_MISSED_MAX)
    }

    /// Start of the FE's silence: its last message, or the last heartbeat that requested an answer if that is later.
    fn quiet_since(&self) -> Instant {
        self.heard.max(self.asked)
    }

    pub(super) fn is_silent(&self, now: Instant) -> bool {
        if self.heartbeats.fe_sends {
            let span = self.heartbeats.fe_interval.times(HEARTBEATS_MISSED_MAX);
            now >= self.heard + span
        } else {
            let asked_enough = self.unanswered >= HEARTBEATS_MISSED_MAX;
            asked_enough && now >= self.quiet_since() + self.interval()
        }
    }

    /// The heartbeat that is due, if any, either to show that the CE is alive or to request an answer. It counts as
    /// sent.
    pub(super) fn heartbeat(&mut self, now: Instant) -> Option<Ack> {
        let (interval, asks) = (self.interval(), !self.heartbeats.fe_sends);
        let quiet = asks && now >= self.quiet_since() + interval;
        let idle = self.heartbeats.ce_sends && now >= self.sent + interval;
        if !quiet && !idle {
            return None;
        }
        self.sent = now;
        if !asks {
            return Some(Ack::Never);
        }
        self.unanswered += 1;
        self.asked = now;
        Some(Ack::Always)
    }

    /// When the next work for this FE is due.
    pub(super) fn deadline(&self) -> Instant {
        let mut at = if self.heartbeats.fe_sends {
            self.heard + self.heartbeats.fe_interval.times(HEARTBEATS_MISSED_MAX)
        } else {
            self.quiet_since() + self.interval()
        };
        if self.heartbeats.ce_sends {
            at = at.min(self.sent + self.interval());
        }
        at.min(self.requests.deadline().unwrap_or(at))
    }
}

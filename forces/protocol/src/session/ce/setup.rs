//! How associations between FEs and a CE begin and end.

use weir_base::Instant;

use super::super::{Dropped, Loss};
use super::association::Association;
use super::contract::{Cause, Event, LinkId, Transmit};
use super::messages::flags;
use super::request::Owner;
use super::{Ce, Link, Subject};
use crate::wire::header::{Ack, Flags};
use crate::wire::message::association_setup_response::SetupResult;
use crate::wire::message::association_teardown::TeardownReason;
use crate::wire::message::{AssociationSetupResponse, AssociationTeardown, Heartbeat};
use crate::wire::{Body, Envelope, Id, IdKind, Message, MessageKind};

impl Ce {
    pub(super) fn handle_setup(&mut self, now: Instant, link: LinkId, message: Message) {
        let (envelope, body) = message.into_parts();
        let Body::AssociationSetup(setup) = body else {
            return;
        };
        let (fe, result) = match self.admit(link, &envelope) {
            Ok(fe) => (fe, SetupResult::Success),
            Err(result) => (envelope.source, result),
        };
        let answer = Body::AssociationSetupResponse(AssociationSetupResponse { result });
        let flags = flags(MessageKind::AssociationSetupResponse);
        let response = Message::new(self.envelope(fe, envelope.correlator, flags), answer);
        let Ok(response) = response else {
            return self.close(link);
        };
        if result != SetupResult::Success {
            self.drops.count(Dropped::WrongId);
            let message = response.to_bytes();
            self.last_messages.push_back(Transmit { link, message });
            if let Some(fe) = self.links.get(&link).and_then(|l| l.fe) {
                self.lose(now, fe, Loss::Replaced);
            }
            return self.close(link);
        }
        let setup_id = (link, envelope.correlator);
        if let Some(before) = self.fes.get(&fe).map(|fe| fe.setup_id) {
            if before == setup_id {
                return self.send_if_room(now, fe, &response); // it was repeated before the answer came
            }
            self.lose(now, fe, Loss::Replaced);
            if before.0 != link {
                self.close(before.0);
            }
        }
        let mut association = Association::new(now, setup_id, self.params.heartbeats);
        association.requests.window = self.params.window;
        self.fes.insert(fe, association);
        if let Some(state) = self.links.get_mut(&link) {
            state.fe = Some(fe);
            state.out.push(&response);
        }
        self.make_ready(link);
        self.events.push_back(Event::Associated { fe, link, setup });
        self.arm(now, fe);
    }

    /// The ID of an FE that requests an association, or the reason for the refusal.
    pub(super) fn admit(&self, link: LinkId, envelope: &Envelope) -> Result<Id, SetupResult> {
        let state = self.links.get(&link).ok_or(SetupResult::PermissionDenied)?;
        let (asked, proved) = (envelope.source, state.proved);
        if envelope.destination != self.params.id || asked.kind() != IdKind::Fe {
            return Err(SetupResult::FeIdInvalid);
        }
        let fe = match (asked, proved, state.fe) {
            (Id::UNASSIGNED, Some(proved), _) => proved,
            (Id::UNASSIGNED, None, Some(fe)) => fe,
            (Id::UNASSIGNED, None, None) => {
                let mut free = self.params.assigns.clone().into_iter().flatten().map(Id);
                free.find(|id| !self.fes.contains_key(id))
                    .ok_or(SetupResult::FeIdInvalid)?
            }
            _ => asked,
        };
        match (proved, state.fe) {
            (Some(proved), _) if proved != fe => Err(SetupResult::PermissionDenied),
            (_, Some(before)) if before != fe => Err(SetupResult::FeIdInvalid),
            _ => Ok(fe),
        }
    }

    /// Sends a teardown and ends the association.
    pub(super) fn end(&mut self, now: Instant, fe: Id, reason: TeardownReason, loss: Loss) {
        let Some(link) = self.fes.get(&fe).map(|fe| fe.link) else {
            return;
        };
        let body = Body::AssociationTeardown(AssociationTeardown { reason });
        let envelope = self.envelope(fe, 0, flags(body.kind()));
        if let Ok(message) = Message::new(envelope, body) {
            let message = message.to_bytes();
            self.last_messages.push_back(Transmit { link, message });
        }
        self.lose(now, fe, loss);
        self.close(link);
    }

    /// An association has ended: all its requests become unanswered.
    pub(super) fn lose(&mut self, now: Instant, fe: Id, loss: Loss) {
        let Some(mut association) = self.fes.remove(&fe) else {
            return;
        };
        if let Some(at) = association.timer {
            self.timers.remove(&(at, Subject::Fe(fe)));
        }
        if let Some(link) = self.links.get_mut(&association.link) {
            link.fe = None;
            link.out.clear();
        }
        self.events.push_back(Event::Lost(fe, loss));
        for (request, owner) in association.requests.abandon() {
            match owner {
                Owner::Caller => self.events.push_back(Event::Unanswered(fe, request)),
                Owner::Transaction(..) => {}
            }
        }
        if let Some(transaction) = association.transaction {
            self.fail(now, transaction, fe, Cause::Lost);
        }
    }

    pub(super) fn close(&mut self, link: LinkId) {
        if self.remove_link(link).is_some() {
            self.events.push_back(Event::Close(link));
        }
    }

    pub(super) fn remove_link(&mut self, link: LinkId) -> Option<Link> {
        let state = self.links.remove(&link)?;
        self.timers.remove(&(state.deadline, Subject::Link(link)));
        Some(state)
    }

    /// Does all work that is due for one FE.
    pub(super) fn check(&mut self, now: Instant, fe: Id) {
        let Some(association) = self.fes.get_mut(&fe) else {
            return;
        };
        if association.is_silent(now) {
            return self.end(now, fe, TeardownReason::LossOfHeartbeats, Loss::Silent);
        }
        if let Some(ack) = association.heartbeat(now) {
            let flags = Flags {
                ack,
                ..flags(MessageKind::Heartbeat)
            };
            self.next += 1;
            let correlator = if ack == Ack::Always { self.next } else { 0 };
            let envelope = self.envelope(fe, correlator, flags);
            if let Ok(message) = Message::new(envelope, Body::Heartbeat(Heartbeat)) {
                self.send_if_room(now, fe, &message);
            }
        }
        while let Some((request, owner)) =
            self.fes.get_mut(&fe).and_then(|fe| fe.requests.expire(now))
        {
            match owner {
                Owner::Caller => self.events.push_back(Event::Unanswered(fe, request)),
                Owner::Transaction(id, stage) => {
                    self.settle(now, id, fe, stage, Err(Cause::Unanswered))
                }
            }
        }
        self.fill(now, fe);
        self.arm(now, fe);
    }

    /// Sets the timer of an FE to its next deadline.
    pub(super) fn arm(&mut self, now: Instant, fe: Id) {
        let Some(association) = self.fes.get_mut(&fe) else {
            return;
        };
        let at = association.deadline().max(now);
        if association.timer.is_some_and(|timer| timer <= at) {
            return; // the deadline is computed again at that time
        }
        if let Some(timer) = association.timer.replace(at) {
            self.timers.remove(&(timer, Subject::Fe(fe)));
        }
        self.timers.insert((at, Subject::Fe(fe)));
    }
}

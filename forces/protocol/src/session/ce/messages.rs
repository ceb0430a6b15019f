//! Handling of received messages of an association by a CE, and sending of its own.

use weir_base::Instant;

use super::super::{Dropped, Loss, PROBE};
use super::Ce;
use super::contract::{Cause, Event, LinkId, RequestError, RequestId};
use super::request::{Owner, Queued};
use crate::wire::header::{Ack, Flags, Phase, Priority, View};
use crate::wire::message::{AssociationTeardown, Heartbeat};
use crate::wire::{Body, Envelope, Id, Message, MessageKind};

impl Ce {
    pub(super) fn handle_associated(&mut self, now: Instant, fe: Id, message: Message) {
        if let Some(association) = self.fes.get_mut(&fe) {
            association.hear(now, message.body().kind());
        }
        let (envelope, body) = message.into_parts();
        match body {
            Body::Heartbeat(_) if envelope.correlator == PROBE => self.answer_probe(now, fe),
            Body::Heartbeat(_) => {}
            Body::AssociationTeardown(AssociationTeardown { reason }) => {
                let link = self.fes.get(&fe).map(|fe| fe.link);
                self.lose(now, fe, Loss::TornDown(reason));
                link.into_iter().for_each(|link| self.close(link));
            }
            Body::EventNotification(event) => self.events.push_back(Event::Notified(fe, event)),
            Body::PacketRedirect(packets) => self.events.push_back(Event::Redirected(fe, packets)),
            Body::ConfigResponse(_) | Body::QueryResponse(_) => {
                self.handle_response(now, fe, &envelope, body);
            }
            _ => self.drops.count(Dropped::Unexpected),
        }
    }

    /// An FE that has packets for the CE checks that the CE takes them.
    fn answer_probe(&mut self, now: Instant, fe: Id) {
        let envelope = self.envelope(fe, PROBE, flags(MessageKind::Heartbeat));
        if let Ok(message) = Message::new(envelope, Body::Heartbeat(Heartbeat)) {
            self.send_if_room(now, fe, &message);
        }
    }

    pub(super) fn handle_response(
        &mut self,
        now: Instant,
        fe: Id,
        envelope: &Envelope,
        body: Body,
    ) {
        let is_last = match body {
            Body::QueryResponse(_) => {
                !envelope.flags.transaction || envelope.flags.phase == Phase::End
            }
            _ => true,
        };
        let Some(association) = self.fes.get_mut(&fe) else {
            return;
        };
        let found = association
            .requests
            .answered(now, envelope.correlator, body.kind(), is_last);
        let Some((request, owner)) = found else {
            return self.drops.count(Dropped::Unexpected);
        };
        match (owner, body) {
            (Owner::Transaction(id, stage), Body::ConfigResponse(response)) => {
                let outcome = match super::super::answer::first_failure(response.selects()) {
                    Some(failure) => Err(Cause::Failed(failure.code(), failure.cause())),
                    None => Ok(()),
                };
                self.settle(now, id, fe, stage, outcome);
            }
            (_, body) => self.events.push_back(Event::Response {
                fe,
                request,
                body,
                is_last,
            }),
        }
        self.fill(now, fe);
    }

    /// Even an unreadable message shows that the FE is alive. If it answers a request, that request counts as
    /// unanswered.
    pub(super) fn handle_malformed(&mut self, now: Instant, fe: Id, bytes: &[u8]) {
        self.drops.count(Dropped::Malformed);
        let Some(association) = self.fes.get_mut(&fe) else {
            return;
        };
        let Ok(view) = View::new_checked(bytes) else {
            return;
        };
        association.hear(now, view.kind());
        match association
            .requests
            .answered(now, view.correlator(), view.kind(), true)
        {
            Some((request, Owner::Caller)) => {
                self.events.push_back(Event::Unanswered(fe, request));
            }
            Some((_, Owner::Transaction(id, stage))) => {
                self.settle(now, id, fe, stage, Err(Cause::Malformed));
            }
            None => {}
        }
        self.fill(now, fe);
    }

    /// Checks that the request queue of the FE is not full.
    pub(super) fn check_room(&self, fe: Id) -> Result<(), RequestError> {
        let association = self.fes.get(&fe).ok_or(RequestError::Unassociated(fe))?;
        if association.requests.waiting() < self.params.requests_max {
            Ok(())
        } else {
            Err(RequestError::Full(fe))
        }
    }

    /// Sends a request as soon as the window permits it. A transaction may exceed the limit of the queue by two
    /// requests.
    pub(super) fn request(
        &mut self,
        now: Instant,
        fe: Id,
        body: Body,
        flags: Flags,
        (deadline, owner): (Instant, Owner),
    ) -> Result<RequestId, RequestError> {
        if !self.fes.contains_key(&fe) {
            return Err(RequestError::Unassociated(fe));
        }
        let id = RequestId(self.next);
        let is_answered = flags.ack != Ack::Never || matches!(body, Body::Query(_));
        let correlator = if is_answered { id.0 } else { 0 };
        let kind = body.kind();
        let message = Message::new(self.envelope(fe, correlator, flags), body)?;
        self.next += 1;
        if let Some(association) = self.fes.get_mut(&fe) {
            association.requests.push(Queued {
                id,
                message: message.to_bytes(),
                kind,
                is_answered,
                deadline,
                owner,
            });
        }
        self.fill(now, fe);
        self.arm(now, fe);
        Ok(id)
    }

    /// Moves requests to the transport as far as the window and the queue permit.
    pub(super) fn fill(&mut self, now: Instant, fe: Id) {
        let Some(association) = self.fes.get_mut(&fe) else {
            return;
        };
        let link = association.link;
        let Some(state) = self.links.get_mut(&link) else {
            return;
        };
        while state.out.has_room()
            && let Some((kind, message)) = association.requests.next()
        {
            association.count_sent(now, kind);
            state.out.push_bytes(message);
        }
        self.make_ready(link);
    }

    pub(super) fn send(&mut self, now: Instant, fe: Id, message: &Message) {
        if let Some(association) = self.fes.get_mut(&fe)
            && let Some(link) = self.links.get_mut(&association.link)
        {
            association.count_sent(now, message.body().kind());
            link.out.push(message);
            let link = association.link;
            self.make_ready(link);
        }
    }

    pub(super) fn send_if_room(&mut self, now: Instant, fe: Id, message: &Message) {
        let link = self.fes.get(&fe).and_then(|fe| self.links.get(&fe.link));
        if link.is_some_and(|link| link.out.has_room()) {
            self.send(now, fe, message)
        } else {
            self.drops.count(Dropped::Full)
        }
    }

    pub(super) fn make_ready(&mut self, link: LinkId) {
        if let Some(state) = self.links.get_mut(&link)
            && !state.blocked
            && !state.out.is_empty()
            && !std::mem::replace(&mut state.is_ready, true)
        {
            self.ready.push_back(link);
        }
    }

    pub(super) const fn envelope(&self, fe: Id, correlator: u64, flags: Flags) -> Envelope {
        Envelope {
            source: self.params.id,
            destination: fe,
            correlator,
            flags,
        }
    }
}

pub(super) fn flags(kind: MessageKind) -> Flags {
    Flags {
        priority: Priority::of(kind),
        ..Flags::default()
    }
}

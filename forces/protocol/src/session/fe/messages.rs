//! Handling of received messages of an association by an FE, and sending of its own.

use weir_base::Instant;

use super::super::answer::{in_form, needs_form};
use super::super::refusal::refusal;
use super::super::{Dropped, Loss, execute};
use super::contract::{Event, Ticket, Transmit};
use super::transaction::{self, Verdict};
use super::{Fe, Pending};
use crate::wire::header::{Ack, Flags, HEADER_LEN, MESSAGE_LEN_MAX, Priority, View};
use crate::wire::message::association_teardown::TeardownReason;
use crate::wire::message::{AssociationTeardown, Config, Heartbeat, Selects};
use crate::wire::{
    Body, Envelope, Id, IdKind, LfbSelect, Message, MessageKind, Operation, OperationKind, Outcome,
    ResultCode, WireError,
};

impl Fe {
    pub(super) fn is_for_us(&self, destination: Id) -> bool {
        match destination.kind() {
            IdKind::AllFes | IdKind::AllElements => true,
            IdKind::Multicast => self.params.groups.contains(&destination),
            _ => destination == self.id,
        }
    }

    pub(super) fn handle_associated(&mut self, now: Instant, at: usize, message: Message) {
        let is_master = self.master == Some(self.peers[at].id);
        let (envelope, body) = message.into_parts();
        match body {
            Body::Heartbeat(_) => {
                if envelope.flags.ack == Ack::Always {
                    self.send_heartbeat(now, at, envelope.correlator);
                }
            }
            Body::AssociationTeardown(AssociationTeardown { reason }) => {
                self.lose(now, at, Loss::TornDown(reason));
            }
            Body::Query(query) => {
                if let Some(ticket) = self.take(at, &envelope, query.selects()) {
                    self.events.push_back(Event::Query(ticket, query));
                }
            }
            Body::Config(_) | Body::PacketRedirect(_) if !is_master => {
                self.drops.count(Dropped::NotMaster);
            }
            Body::Config(config) => self.handle_config(now, at, envelope, config),
            Body::PacketRedirect(packets) => self.events.push_back(Event::Redirected(packets)),
            _ => self.drops.count(Dropped::Unexpected),
        }
    }

    pub(super) fn handle_config(
        &mut self,
        now: Instant,
        at: usize,
        envelope: Envelope,
        config: Config,
    ) {
        let completes = transaction::has(&config, OperationKind::TransactionComplete);
        if !completes && !self.has_room_for_request(at) {
            return self.drops.count(Dropped::Full); // before the message changes the transaction
        }
        let verdict = self.participant.check(&envelope.flags, &config);
        if verdict == Verdict::Complete {
            return self.events.push_back(Event::Complete);
        }
        let Some(ticket) = self.take(at, &envelope, config.selects()) else {
            return;
        };
        let event = match verdict {
            Verdict::Execute(stage) => Event::Config(ticket, stage, envelope.flags, config),
            Verdict::Commit => Event::Commit(ticket),
            Verdict::Abort => Event::Abort(Some(ticket)),
            Verdict::Nothing => {
                let _ = self.respond_commit(now, ticket, ResultCode::Success);
                return;
            }
            Verdict::RefuseCommit(code) => {
                let _ = self.respond_commit(now, ticket, code);
                return;
            }
            Verdict::Refuse(code) => {
                let response = execute::refuse(&config, code).ok();
                let _ = self.respond(now, ticket, response.map(Body::ConfigResponse));
                return;
            }
            Verdict::Complete => unreachable!("returned above"),
        };
        self.events.push_back(event);
    }

    pub(super) fn has_room_for_request(&self, at: usize) -> bool {
        self.pending.len() < self.params.requests_max && self.peers[at].out.has_room()
    }

    /// Assigns a ticket to a request, if the limit of open requests permits it.
    pub(super) fn take(
        &mut self,
        at: usize,
        envelope: &Envelope,
        selects: &[LfbSelect],
    ) -> Option<Ticket> {
        if !self.has_room_for_request(at) {
            self.drops.count(Dropped::Full);
            return None;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let pending = Pending {
            ce: self.peers[at].id,
            correlator: envelope.correlator,
            flags: envelope.flags,
            block: selects
                .first()
                .map_or((1, 1), |select| (select.class(), select.instance())),
            has_begun: false,
        };
        self.pending.insert(ticket, pending);
        Some(ticket)
    }

    /// Refuses a whole request that is readable.
    pub(super) fn refuse(&mut self, now: Instant, at: usize, message: &Message, code: ResultCode) {
        let response = match message.body() {
            Body::Config(config) if self.master == Some(self.peers[at].id) => {
                execute::refuse(config, code).map(Body::ConfigResponse)
            }
            Body::Query(query) => execute::refuse_query(query, code).map(Body::QueryResponse),
            _ => return,
        };
        if let Ok(response) = response {
            self.send_refusal(now, at, message.envelope(), response);
        }
    }

    /// Refuses a request that is not fully readable.
    pub(super) fn refuse_unread(
        &mut self,
        now: Instant,
        at: usize,
        bytes: &[u8],
        error: &WireError,
    ) {
        let Ok(view) = View::new_checked(bytes) else {
            return;
        };
        let is_request = matches!(view.kind(), MessageKind::Config | MessageKind::Query);
        let refused = self.master == Some(self.peers[at].id) || view.kind() == MessageKind::Query;
        if is_request
            && refused
            && let Some(response) = refusal(bytes, error)
        {
            let envelope = Envelope {
                source: view.source(),
                destination: view.destination(),
                correlator: view.correlator(),
                flags: view.flags(),
            };
            if envelope.flags.transaction {
                self.participant.fail();
            }
            self.send_refusal(now, at, &envelope, response);
        }
    }

    pub(super) fn send_refusal(
        &mut self,
        now: Instant,
        at: usize,
        request: &Envelope,
        response: Body,
    ) {
        let is_answered = match response {
            Body::QueryResponse(_) => true,
            _ => matches!(request.flags.ack, Ack::Always | Ack::OnFailure),
        };
        if is_answered && let Ok(response) = self.in_form(response) {
            let flags = echoed(request.flags, &response);
            let _ = self.send(now, at, request.correlator, flags, response);
        }
    }

    pub(super) fn answer(
        &mut self,
        now: Instant,
        pending: &Pending,
        flags: Flags,
        response: Body,
    ) -> Result<(), WireError> {
        let Some(at) = self.peers.iter().position(|p| p.id == pending.ce) else {
            return Ok(());
        };
        let envelope = self.envelope(at, pending.correlator, flags);
        let message = Message::new(envelope, self.in_form(response)?)?;
        self.peers[at].send(now, &message);
        Ok(())
    }

    /// Whether the answer to this Config fits a message, for every possible result.
    pub fn can_answer(&self, ticket: Ticket, config: &Config) -> bool {
        let is_asked = |pending: &Pending| pending.flags.ack != Ack::Never;
        let fits = |response| {
            let response = self.in_form(Body::ConfigResponse(response))?;
            Ok::<_, WireError>(HEADER_LEN + response.encoded_len() <= MESSAGE_LEN_MAX)
        };
        !self.pending.get(&ticket).is_some_and(is_asked)
            || !execute::may_grow(config)
            || matches!(execute::longest(config).and_then(fits), Ok(true))
    }

    /// A response with its results in the form that the CE has chosen.
    fn in_form(&self, response: Body) -> Result<Body, WireError> {
        let extended = self.params.extended_results;
        Ok(match &response {
            Body::ConfigResponse(of) if needs_form(of.selects(), extended) => {
                Body::ConfigResponse(Selects::new(in_form(of.selects(), extended)?)?)
            }
            Body::QueryResponse(of) if needs_form(of.selects(), extended) => {
                Body::QueryResponse(Selects::new(in_form(of.selects(), extended)?)?)
            }
            _ => response,
        })
    }

    pub(super) fn send_heartbeat(&mut self, now: Instant, at: usize, correlator: u64) {
        let flags = flags(MessageKind::Heartbeat);
        let _ = self.send(now, at, correlator, flags, Body::Heartbeat(Heartbeat)); // always fits a message
    }

    /// Sends a message if the queue has room; otherwise drops and counts it. Returns whether the message is sent.
    pub(super) fn send(
        &mut self,
        now: Instant,
        at: usize,
        correlator: u64,
        flags: Flags,
        body: Body,
    ) -> Result<bool, WireError> {
        let message = Message::new(self.envelope(at, correlator, flags), body)?;
        let peer = &mut self.peers[at];
        if peer.out.has_room() {
            peer.send(now, &message);
            return Ok(true);
        }
        peer.unsent.count(message.encoded_len() as u64);
        self.drops.count(Dropped::Full);
        Ok(false)
    }

    /// Sends the last message to a peer; the end of the association clears the peer's queue.
    pub(super) fn send_teardown(&mut self, at: usize, reason: TeardownReason) {
        let body = Body::AssociationTeardown(AssociationTeardown { reason });
        let envelope = self.envelope(at, 0, flags(MessageKind::AssociationTeardown));
        if let Ok(message) = Message::new(envelope, body) {
            let peer = &mut self.peers[at];
            peer.taken.count(message.encoded_len() as u64);
            self.last_messages.push_back(Transmit {
                ce: peer.id,
                message: message.to_bytes(),
            });
        }
    }

    pub(super) fn envelope(&self, at: usize, correlator: u64, flags: Flags) -> Envelope {
        Envelope {
            source: self.id,
            destination: self.peers[at].id,
            correlator,
            flags,
        }
    }
}

/// The flags of a message other than a response.
pub(super) fn flags(kind: MessageKind) -> Flags {
    Flags {
        priority: Priority::of(kind),
        ..Flags::default()
    }
}

/// The flags of a response in one message: the flags of its request, as captured FEs send them. In a Query Response,
/// the transaction flag would announce further parts.
pub(super) fn echoed(request: Flags, response: &Body) -> Flags {
    Flags {
        ack: Ack::Never,
        transaction: request.transaction && !matches!(response, Body::QueryResponse(_)),
        ..request
    }
}

/// Builds the answer to a COMMIT, in an LFBselect of the LFB that the COMMIT names.
pub(super) fn commit_response(
    (class, instance): (u32, u32),
    outcome: Outcome,
) -> Result<Body, WireError> {
    let operation = Operation::commit_response(outcome)?;
    let select = LfbSelect::new(class, instance, vec![operation])?;
    Ok(Body::ConfigResponse(Selects::new(vec![select])?))
}

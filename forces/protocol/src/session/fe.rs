//! The associations of a forwarding element with its control elements.
//!
//! ```text
//!                 setup succeeds                    a CE is lost, or the master changes
//!  +-----------------+  ----->  +------------+  ----->  +----------------+
//!  | pre-association |          | associated |          | not associated |  keeps forwarding, tries its CEs
//!  +-----------------+  <-----  +------------+  <-----  +----------------+
//!     ^   no failover: at once               setup succeeds     |
//!     '---------------------------------------------------------'  CEFTI has passed
//! ```
//!
//! (RFC 5810, figure 44; RFC 7121, figure 3.) An [`Fe`] has a list of CEs. The first CE that accepts it becomes its
//! *master*, the only CE that may change it.
//!
//! - *No standby*: the FE tries only the first CE of its list.
//! - *Cold standby*: when a CE is lost or does not answer, the FE tries the next CE of the list; the first CE
//!   follows the last.
//! - *Hot standby*: the FE associates with all CEs. Backups may query, and receive events and heartbeats; the FE drops
//!   their changes. When the master is lost, the next associated backup takes over at once.
//!
//! Bounds: [`Params::requests_max`] unanswered requests, and [`Params::queue_bytes_max`] in the queue to each CE. The
//! transport calls [`Fe::wants`] before it reads another message from a CE.
//!
//! *Decision*: before a CE has answered the setup, the FE drops all other messages from it. On channels without
//! ordering, redirected packets and heartbeats of a CE may overtake its answer, so their number is not limited. The FE
//! tolerates [`STRAYS_MAX`] messages of other types, then closes the link and retries later, as after a missing answer.
//!
//! *Decision*: RFC 5810 does not define the fate of a transaction whose CE is lost. The FE undoes it; after the next
//! association the CE restores its desired state anyway.

mod associations;
mod contract;
mod master_probe;
mod messages;
mod peer;
mod transaction;

use std::collections::{BTreeMap, VecDeque};

use weir_base::Instant;

use self::contract::check_ces;
pub use self::contract::{
    CES_MAX, CeReport, CeStatus, Event, Failover, Params, ParamsError, Retry, STRAYS_MAX, Standby,
    State, Ticket, Transmit,
};
use self::messages::{commit_response, echoed, flags};
use self::peer::{Link, Peer};
use self::transaction::Participant;
pub use self::transaction::Stage;
use super::answer::{has_failure, short};
use super::{Dropped, Drops, Heartbeats, Loss};
use crate::wire::header::{Ack, Flags, Phase, Priority, View};
use crate::wire::message::{EventNotification, PacketRedirect, QueryResponse};
use crate::wire::{Body, Id, Message, MessageKind, Outcome, ResultCode, WireError};

#[derive(Clone, Copy, Debug)]
struct Pending {
    ce: Id,
    correlator: u64,
    flags: Flags,
    /// Class and instance ID of the first LFB in the request.
    block: (u32, u32),
    /// Whether a part of the answer was sent.
    has_begun: bool,
}

/// The associations of a forwarding element. See [the parent module](super) for the order of calls.
#[derive(Debug)]
pub struct Fe {
    params: Params,
    id: Id,
    state: State,
    master: Option<Id>,
    last_master: Option<Id>,
    peers: Vec<Peer>,
    /// Index of the peer that the FE tries while it has no master.
    candidate: usize,
    correlator: u64,
    participant: Participant,
    pending: BTreeMap<Ticket, Pending>,
    next_ticket: u64,
    last_messages: VecDeque<Transmit>,
    events: VecDeque<Event>,
    drops: Drops,
}

impl Fe {
    /// An FE that tries its first CE at once.
    pub fn new(now: Instant, params: Params) -> Result<Self, ParamsError> {
        params.check()?;
        let peers = params
            .ces
            .iter()
            .map(|ce| Peer::new(*ce, params.queue_bytes_max));
        let mut fe = Self {
            id: params.id,
            state: State::PreAssociation,
            master: None,
            last_master: None,
            peers: peers.collect(),
            candidate: 0,
            correlator: 0,
            participant: Participant::default(),
            pending: BTreeMap::new(),
            next_ticket: 0,
            last_messages: VecDeque::new(),
            events: VecDeque::new(),
            drops: Drops::default(),
            params,
        };
        fe.connect(now);
        Ok(fe)
    }

    /// ID of the FE, configured or assigned by a CE.
    pub const fn id(&self) -> Id {
        self.id
    }

    /// State of the FE's associations.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The CE that may change the FE.
    pub const fn master(&self) -> Option<Id> {
        self.master
    }

    /// Whether the FE is associated with this CE.
    pub fn is_associated(&self, ce: Id) -> bool {
        self.peers
            .iter()
            .any(|p| p.id == ce && p.link == Link::Associated)
    }

    /// CEs of the FE, the preferred master first.
    pub fn ces(&self) -> impl Iterator<Item = CeReport> {
        self.peers.iter().map(|peer| CeReport {
            id: peer.id,
            status: if self.master == Some(peer.id) {
                CeStatus::IsMaster
            } else {
                peer.status()
            },
            received: peer.received,
            dropped: peer.dropped,
            sent: peer.taken,
            unsent: peer.unsent,
        })
    }

    /// Counts of dropped messages.
    pub const fn drops(&self) -> Drops {
        self.drops
    }

    /// Whether the transport should read another message from this CE. If not, the FE drops a request that arrives.
    pub fn wants(&self, ce: Id) -> bool {
        let peer = self.peers.iter().position(|p| p.id == ce);
        peer.is_some_and(|at| self.has_room_for_request(at))
    }

    /// The link to a CE is open.
    pub fn handle_connected(&mut self, now: Instant, ce: Id) {
        let Some(peer) = self.peers.iter().position(|p| p.id == ce) else {
            return;
        };
        if matches!(self.peers[peer].link, Link::Opening(_)) {
            self.correlator += 1;
            self.peers[peer].link = Link::Requesting {
                setups: 0,
                correlator: self.correlator,
                again: now,
                strays: 0,
            };
            self.set_up(now, peer);
            self.connect(now);
        }
    }

    /// The link to a CE was lost, or could not be opened.
    pub fn handle_disconnected(&mut self, now: Instant, ce: Id) {
        if let Some(peer) = self.peers.iter().position(|p| p.id == ce)
            && self.peers[peer].link != Link::Closed
        {
            self.lose(now, peer, Loss::LinkLost);
            self.connect(now);
        }
    }

    /// Sets whether the link to a CE accepts more messages. [`Self::poll_transmit`] skips links that do not.
    pub fn handle_writable(&mut self, ce: Id, writable: bool) {
        if let Some(peer) = self.peers.iter_mut().find(|p| p.id == ce) {
            peer.blocked = !writable;
        }
    }

    /// A message arrived from a CE.
    pub fn handle_message(&mut self, now: Instant, ce: Id, bytes: &[u8]) {
        let Some(at) = self.peers.iter().position(|p| p.id == ce) else {
            return self.drops.count(Dropped::Unassociated);
        };
        let (dropped, len) = (self.drops.total(), bytes.len() as u64);
        self.receive(now, at, bytes);
        let peer = &mut self.peers[at];
        peer.received.count(len);
        if self.drops.total() > dropped {
            peer.dropped.count(len);
        }
        self.connect(now);
    }

    fn receive(&mut self, now: Instant, at: usize, bytes: &[u8]) {
        if let Link::Requesting { correlator, .. } = self.peers[at].link {
            return self.handle_before_answer(now, at, correlator, bytes);
        }
        let Ok(view) = View::new_checked(bytes) else {
            return self.drops.count(Dropped::Malformed);
        };
        if view.source() != self.peers[at].id {
            return self.drops.count(Dropped::WrongId);
        }
        match (&self.peers[at].link, Message::parse(bytes)) {
            (Link::Associated, Ok(message)) => {
                self.peers[at].hear(now, &message);
                if self.is_for_us(message.envelope().destination) {
                    self.handle_associated(now, at, message);
                } else {
                    self.drops.count(Dropped::WrongId);
                    let code = ResultCode::InvalidDestination;
                    self.refuse(now, at, &message, code);
                }
            }
            (Link::Associated, Err(error)) => {
                self.peers[at].heard = now;
                self.peers[at].attention.heard(false);
                self.drops.count(Dropped::Malformed);
                self.refuse_unread(now, at, bytes, &error);
            }
            _ => self.drops.count(Dropped::Unassociated),
        }
    }

    /// Does all work that is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        for at in 0..self.peers.len() {
            self.check_peer(now, at);
        }
        if let State::NotAssociated(until) = self.state
            && now >= until
        {
            self.enter(State::PreAssociation); // at once with a CEFTI of zero, if `check_peer` lost the master
        }
        self.connect(now);
    }

    /// The next instant at which to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let until = match self.state {
            State::NotAssociated(until) => Some(until),
            _ => None,
        };
        let peers = self.peers.iter().enumerate();
        let timers = peers.filter_map(|(at, peer)| match peer.link {
            Link::Closed if self.is_wanted(at) => Some(peer.retry_at),
            _ => peer.deadline(&self.params.heartbeats),
        });
        timers.chain(until).min()
    }

    /// The next message for a CE.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some(transmit) = self.last_messages.pop_front() {
            return Some(transmit);
        }
        let mut writable = self.peers.iter_mut().filter(|peer| !peer.blocked);
        writable.find_map(|peer| {
            let message = peer.out.pop()?;
            peer.taken.count(message.len() as u64);
            Some(Transmit {
                ce: peer.id,
                message,
            })
        })
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// Commands.
impl Fe {
    /// Answers a Config or a Query, or ends it without an answer, as [`execute`](super::execute) decides. The FE does
    /// not send an answer that the CE did not request, or whose CE is lost. After an error, for example because the
    /// answer does not fit a message, the request still waits for an answer.
    pub fn respond(
        &mut self,
        now: Instant,
        ticket: Ticket,
        response: Option<Body>,
    ) -> Result<(), WireError> {
        let Some(pending) = self.pending.get(&ticket).copied() else {
            return Ok(());
        };
        if let Some(Body::ConfigResponse(response)) = &response
            && pending.flags.transaction
            && has_failure(response.selects())
        {
            self.participant.fail();
        }
        if let Some(response) = response
            && (pending.flags.ack != Ack::Never || matches!(response, Body::QueryResponse(_)))
        {
            self.answer(now, &pending, echoed(pending.flags, &response), response)?;
        }
        self.pending.remove(&ticket);
        Ok(())
    }

    /// Whether a request still waits for an answer; false once its CE is lost.
    pub fn awaits(&self, ticket: Ticket) -> bool {
        self.pending.contains_key(&ticket)
    }

    /// Sends a part of a long answer to a Query (RFC 7391, 3.3). The last part has a result and no data, and ends the
    /// request. Returns false, without sending the part, if the queue is full.
    pub fn respond_part(
        &mut self,
        now: Instant,
        ticket: Ticket,
        part: QueryResponse,
        is_last: bool,
    ) -> Result<bool, WireError> {
        let Some(mut pending) = self.pending.get(&ticket).copied() else {
            return Ok(true); // the CE is lost
        };
        let peer = self.peers.iter().find(|p| p.id == pending.ce);
        if !peer.is_some_and(|peer| peer.out.has_room()) {
            return Ok(false);
        }
        let flags = Flags {
            ack: Ack::Never,
            transaction: true,
            phase: match (is_last, pending.has_begun) {
                (true, _) => Phase::End,
                (false, true) => Phase::Middle,
                (false, false) => Phase::Start,
            },
            ..pending.flags
        };
        self.answer(now, &pending, flags, Body::QueryResponse(part))?;
        pending.has_begun = true;
        if is_last {
            self.pending.remove(&ticket)
        } else {
            self.pending.insert(ticket, pending)
        };
        Ok(true)
    }

    /// Answers a commit, or the end of an aborted transaction.
    pub fn respond_commit(
        &mut self,
        now: Instant,
        ticket: Ticket,
        code: ResultCode,
    ) -> Result<(), WireError> {
        self.answer_commit(now, ticket, short(code))
    }

    /// Answers a commit or abort after a failure, with the reason in a sentence.
    pub fn refuse_commit(
        &mut self,
        now: Instant,
        ticket: Ticket,
        code: ResultCode,
        why: &str,
    ) -> Result<(), WireError> {
        let outcome = Outcome::extended(code, why).unwrap_or_else(|_| short(code)); // the sentence is too long
        self.answer_commit(now, ticket, outcome)
    }

    fn answer_commit(
        &mut self,
        now: Instant,
        ticket: Ticket,
        outcome: Outcome,
    ) -> Result<(), WireError> {
        let Some(pending) = self.pending.remove(&ticket) else {
            return Ok(());
        };
        if !outcome.is_success() {
            self.participant.fail();
        }
        let response = commit_response(pending.block, outcome)?;
        self.answer(now, &pending, echoed(pending.flags, &response), response)
    }

    /// Reports an event to all associated CEs, except those whose queue is full.
    pub fn notify(&mut self, now: Instant, event: &EventNotification) -> Result<(), WireError> {
        for at in 0..self.peers.len() {
            if self.peers[at].link == Link::Associated {
                let (body, flags) = (
                    Body::EventNotification(event.clone()),
                    flags(MessageKind::EventNotification),
                );
                self.send(now, at, 0, flags, body)?;
            }
        }
        Ok(())
    }

    /// Sends packets to the master. If there is no master or its queue is full, drops them and returns false.
    pub fn redirect(
        &mut self,
        now: Instant,
        packets: PacketRedirect,
        priority: Priority,
    ) -> Result<bool, WireError> {
        let master = self.peers.iter().position(|p| Some(p.id) == self.master);
        match master {
            Some(at) => {
                self.ask_quiet(now, at);
                let flags = Flags {
                    priority,
                    ..Flags::default()
                };
                self.send(now, at, 0, flags, Body::PacketRedirect(packets))
            }
            None => {
                self.drops.count(Dropped::Unassociated);
                Ok(false)
            }
        }
    }

    /// Sets the groups that the FE belongs to, after the CE has written them.
    pub fn set_groups(&mut self, groups: &[Id]) {
        self.params.groups = groups.to_vec();
    }

    /// Sets the form of results, after the CE has written it (EResultAdmin).
    pub const fn set_extended_results(&mut self, extended: bool) {
        self.params.extended_results = extended;
    }

    /// Sets the heartbeats, after the CE has written them.
    pub fn set_heartbeats(&mut self, heartbeats: Heartbeats) -> Result<(), ParamsError> {
        heartbeats.check()?;
        self.params.heartbeats = heartbeats;
        Ok(())
    }

    /// Sets the failover policy, after the CE has written it.
    pub fn set_failover(&mut self, now: Instant, failover: Failover) -> Result<(), ParamsError> {
        failover.check()?;
        self.params.failover = failover;
        self.connect(now);
        Ok(())
    }

    /// Sets the list of CEs, after the CE has written it, the preferred master first. If the preferred master is not
    /// the current master, the FE changes its master.
    pub fn set_ces(&mut self, now: Instant, ces: &[Id]) -> Result<(), ParamsError> {
        check_ces(ces)?;
        let mut old = std::mem::take(&mut self.peers);
        for ce in ces {
            let known = old
                .iter()
                .position(|p| p.id == *ce)
                .map(|at| old.swap_remove(at));
            let queue = self.params.queue_bytes_max;
            self.peers
                .push(known.unwrap_or_else(|| Peer::new(*ce, queue)));
        }
        self.peers.append(&mut old);
        self.leave_master(now, ces[0]);
        for at in ces.len()..self.peers.len() {
            self.release_peer(now, at);
        }
        self.peers.truncate(ces.len());
        self.candidate = 0;
        self.connect(now);
        Ok(())
    }

    /// Ends the association with a CE. The FE tries to associate again later.
    pub fn release(&mut self, now: Instant, ce: Id) {
        if let Some(at) = self.peers.iter().position(|p| p.id == ce) {
            self.release_peer(now, at);
            self.connect(now);
        }
    }
}

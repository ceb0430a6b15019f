//! The associations of a control element with its forwarding elements.
//!
//! ```text
//!  request --> waiting --> open, up to a window --> response or deadline      (one line for each FE)
//!  transact -> prepare at all FEs --> commit at all FEs --> complete
//!                   |                     '-- a failure: abort at all FEs
//! ```
//!
//! An FE opens a link and requests an association. If the transport can authenticate the peer, it reports the ID that
//! the peer has proved. Several requests may be open at the same time; the correlator of a response identifies its
//! request. Any message from an FE shows that the FE is alive. If an associated FE requests an association again, on
//! the same link or on a new one, it has lost its state, and the CE reports its open requests as unanswered. For a
//! repeated setup, with the same correlator on the same link, the CE only repeats the answer.
//!
//! Bounds: links ([`Params::links_max`]), and for each FE open requests ([`Params::window`]), waiting requests
//! ([`Params::requests_max`]) and bytes for the transport ([`Params::queue_bytes_max`]). If the queue is full, the CE
//! refuses a request without sending it.
//!
//! *Decision*: RFC 5810 defines neither how often a CE sends heartbeats nor when it gives up an FE. Our CE sends a
//! heartbeat after a third of the time after which an FE gives it up (CEHDI). It gives up an FE that sends heartbeats
//! (FEHBPolicy 1) after three of the FE's intervals, and any other FE after three unanswered heartbeats.

mod association;
mod contract;
mod messages;
mod request;
mod setup;
mod transaction;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_base::Instant;

use self::association::Association;
pub use self::contract::{
    Cause, Ended, Event, LinkId, Manner, Params, ParamsError, RequestError, RequestId, Statistics,
    TransactionId, Transmit,
};
use self::messages::flags;
use self::request::Owner;
use self::transaction::Transaction;
pub use self::transaction::{Deadlines, TransactionError};
use super::outbox::Outbox;
use super::{Dropped, Drops, Heartbeats, Loss};
use crate::wire::header::{Execution, Flags, Priority};
use crate::wire::message::association_teardown::TeardownReason;
use crate::wire::message::{Config, PacketRedirect, Query};
use crate::wire::{Body, Id, IdKind, LfbSelect, Message, MessageKind, OperationKind};

#[derive(Debug)]
struct Link {
    /// The ID that the peer has proved, if the transport authenticated it.
    proved: Option<Id>,
    fe: Option<Id>,
    /// The CE closes the link at this time if there is no association.
    deadline: Instant,
    out: Outbox,
    blocked: bool,
    /// Whether the link is in `Ce::ready`.
    is_ready: bool,
}

/// The associations of a control element. See [the parent module](super) for the order of calls.
#[derive(Debug)]
pub struct Ce {
    params: Params,
    links: BTreeMap<LinkId, Link>,
    /// The links with queued messages, in round-robin order.
    ready: VecDeque<LinkId>,
    last_messages: VecDeque<Transmit>,
    fes: BTreeMap<Id, Association>,
    transactions: BTreeMap<TransactionId, Transaction>,
    /// Each timer fires at or before the time when its subject's next work is due.
    timers: BTreeSet<(Instant, Subject)>,
    next: u64,
    events: VecDeque<Event>,
    drops: Drops,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Link(LinkId),
    Fe(Id),
}

impl Ce {
    /// A CE without links.
    pub fn new(params: Params) -> Result<Self, ParamsError> {
        params.check()?;
        Ok(Self {
            params,
            links: BTreeMap::new(),
            ready: VecDeque::new(),
            last_messages: VecDeque::new(),
            fes: BTreeMap::new(),
            transactions: BTreeMap::new(),
            timers: BTreeSet::new(),
            next: 1,
            events: VecDeque::new(),
            drops: Drops::default(),
        })
    }

    /// The associated FEs, with their links.
    pub fn fes(&self) -> impl Iterator<Item = (Id, LinkId)> {
        self.fes.iter().map(|(id, fe)| (*id, fe.link))
    }

    /// Number of waiting and open requests of an FE.
    pub fn requests(&self, fe: Id) -> usize {
        self.fes.get(&fe).map_or(0, |fe| fe.requests.len())
    }

    /// Counters of the association with an FE.
    pub fn statistics(&self, fe: Id) -> Option<Statistics> {
        Some(self.fes.get(&fe)?.statistics)
    }

    /// Counts of dropped messages.
    pub const fn drops(&self) -> Drops {
        self.drops
    }

    /// A link is open; `proved` is the ID of the peer, if the transport has authenticated it. Returns false if there
    /// are too many links; the transport then closes it.
    pub fn handle_connected(&mut self, now: Instant, link: LinkId, proved: Option<Id>) -> bool {
        if self.links.len() >= self.params.links_max || self.links.contains_key(&link) {
            return false;
        }
        let deadline = now + self.params.setup_max;
        self.timers.insert((deadline, Subject::Link(link)));
        self.links.insert(
            link,
            Link {
                proved,
                fe: None,
                deadline,
                out: Outbox::new(self.params.queue_bytes_max),
                blocked: false,
                is_ready: false,
            },
        );
        true
    }

    /// The link was lost.
    pub fn handle_disconnected(&mut self, now: Instant, link: LinkId) {
        if let Some(fe) = self.remove_link(link).and_then(|link| link.fe) {
            self.lose(now, fe, Loss::LinkLost);
        }
    }

    /// Sets whether a link accepts more messages. [`Self::poll_transmit`] skips links that do not.
    pub fn handle_writable(&mut self, link: LinkId, writable: bool) {
        if let Some(state) = self.links.get_mut(&link) {
            state.blocked = !writable;
            self.make_ready(link);
        }
    }

    /// A message arrived on a link.
    pub fn handle_message(&mut self, now: Instant, link: LinkId, bytes: &[u8]) {
        let Some(state) = self.links.get(&link) else {
            return self.drops.count(Dropped::Unassociated);
        };
        let fe = state.fe;
        let message = Message::parse(bytes);
        match (fe, message) {
            (_, Ok(message)) if message.body().kind() == MessageKind::AssociationSetup => {
                self.handle_setup(now, link, message);
            }
            (None, _) => {
                self.drops.count(Dropped::Unassociated);
                self.close(link);
            }
            (Some(fe), Ok(message)) => {
                let envelope = message.envelope();
                let to = envelope.destination;
                let ours = to == self.params.id
                    || matches!(to.kind(), IdKind::AllCes | IdKind::AllElements);
                if envelope.source == fe && ours {
                    self.handle_associated(now, fe, message)
                } else {
                    self.drops.count(Dropped::WrongId)
                }
            }
            (Some(fe), Err(_)) => self.handle_malformed(now, fe, bytes),
        }
    }

    /// Does all work that is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, subject)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            match subject {
                Subject::Link(link) => {
                    let idle = self
                        .links
                        .get(&link)
                        .is_some_and(|l| l.fe.is_none() && l.deadline <= now);
                    if idle {
                        self.drops.count(Dropped::Unassociated);
                        self.close(link);
                    }
                }
                Subject::Fe(fe) => {
                    if let Some(association) = self.fes.get_mut(&fe) {
                        association.timer = None;
                        self.check(now, fe);
                    }
                }
            }
        }
    }

    /// The next instant at which to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// The next message for a link that accepts messages; the CE serves links round-robin.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        if let Some(transmit) = self.last_messages.pop_front() {
            return Some(transmit);
        }
        while let Some(link) = self.ready.pop_front() {
            let Some(state) = self.links.get_mut(&link) else {
                continue; // the link was closed
            };
            state.is_ready = false;
            if !state.blocked
                && let Some(message) = state.out.pop()
            {
                if let Some(fe) = state.fe {
                    self.fill(now, fe);
                }
                self.make_ready(link);
                return Some(Transmit { link, message });
            }
        }
        None
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// Commands.
impl Ce {
    /// Sends changes of components to an FE. The CE does not track a Config that requests no answer.
    pub fn configure(
        &mut self,
        now: Instant,
        fe: Id,
        config: Config,
        manner: Manner,
    ) -> Result<RequestId, RequestError> {
        if commits(&config) {
            return Err(RequestError::Commits);
        }
        if manner.execution == Execution::Unset {
            return Err(RequestError::NoExecution);
        }
        if self.fes.get(&fe).is_some_and(|fe| fe.transaction.is_some()) {
            return Err(RequestError::Busy(fe));
        }
        self.check_room(fe)?;
        let flags = Flags {
            ack: manner.ack,
            execution: manner.execution,
            ..flags(MessageKind::Config)
        };
        self.request(
            now,
            fe,
            Body::Config(config),
            flags,
            (manner.deadline, Owner::Caller),
        )
    }

    /// Requests components of an FE.
    pub fn query(
        &mut self,
        now: Instant,
        fe: Id,
        query: Query,
        deadline: Instant,
    ) -> Result<RequestId, RequestError> {
        self.check_room(fe)?;
        let flags = flags(MessageKind::Query); // an FE answers every Query
        self.request(
            now,
            fe,
            Body::Query(query),
            flags,
            (deadline, Owner::Caller),
        )
    }

    /// Sends packets to an FE. If its queue is full, drops them and returns false.
    pub fn redirect(
        &mut self,
        now: Instant,
        fe: Id,
        packets: PacketRedirect,
        priority: Priority,
    ) -> Result<bool, RequestError> {
        let association = self.fes.get(&fe).ok_or(RequestError::Unassociated(fe))?;
        let has_room = self
            .links
            .get(&association.link)
            .is_some_and(|l| l.out.has_room());
        if !has_room {
            self.drops.count(Dropped::Full);
            return Ok(false);
        }
        let body = Body::PacketRedirect(packets);
        let flags = Flags {
            priority,
            ..Flags::default()
        };
        let message = Message::new(self.envelope(fe, 0, flags), body)?;
        self.send(now, fe, &message);
        Ok(true)
    }

    /// Changes the heartbeats of one FE, after the FE's own heartbeat components were changed.
    pub fn set_heartbeats(
        &mut self,
        now: Instant,
        fe: Id,
        heartbeats: Heartbeats,
    ) -> Result<(), ParamsError> {
        heartbeats.check()?;
        if let Some(association) = self.fes.get_mut(&fe) {
            association.heartbeats = heartbeats;
            self.arm(now, fe);
        }
        Ok(())
    }

    /// Ends the association with an FE and closes every link whose peer has proved this ID: the proof is no longer
    /// valid.
    pub fn expel(&mut self, now: Instant, fe: Id) {
        self.release(now, fe, TeardownReason::Normal);
        let links = self
            .links
            .iter()
            .filter(|(_, link)| link.proved == Some(fe));
        let links: Vec<LinkId> = links.map(|(id, _)| *id).collect();
        links.into_iter().for_each(|link| self.close(link));
    }

    /// Ends an association.
    pub fn release(&mut self, now: Instant, fe: Id, reason: TeardownReason) {
        self.end(now, fe, reason, Loss::Released);
    }
}

/// Whether a Config has operations that are reserved for transactions.
fn commits(config: &Config) -> bool {
    let mut operations = config.selects().iter().flat_map(LfbSelect::operations);
    operations.any(|o| {
        matches!(
            o.kind(),
            OperationKind::Commit | OperationKind::TransactionComplete
        )
    })
}

//! The control element as a state machine.

mod change;
mod continuation;
mod explain;
mod job;
mod kernel;
mod lead;
mod learnt;
mod member;
mod network;
mod overview;
mod permitted;
mod read;
mod reload;
mod resolved;
mod route;
mod steer;
mod sync;
mod tables;
mod watch;

pub use overview::{NETWORK, unread};
pub use tables::{ASSOCIATIONS, FES, LFBS};

use std::collections::{BTreeMap, VecDeque};

use weir_base::Instant;
use weir_lfb::named::Named;
use weir_protocol::schema::Registry;
use weir_protocol::session::ce::{
    Ce, Event, LinkId, ParamsError, RequestId, TransactionId, Transmit,
};
use weir_protocol::wire::header::{Priority, View};
use weir_protocol::wire::message::PacketRedirect;
use weir_protocol::wire::message::association_teardown::TeardownReason;
use weir_protocol::wire::{Id, MessageKind};

use self::continuation::Pending;
use self::job::{Job, JobId};
use self::lead::Leadership;
use self::member::Fe;
use self::watch::Watches;
use crate::codec::Codec;
use crate::contract::{
    Answer, FeConfig, LogEvent, Output, Params, REQUESTS_MAX, Refusal, Request, StoreTicket, Ticket,
};

/// The peer of a link.
#[derive(Clone, Debug)]
struct Peer {
    /// Transport and address of the peer.
    address: String,
    has_proved: bool,
}

/// A control element. After each call of a `handle_*` function or of [`Self::request`], call [`Self::poll_transmit`]
/// and [`Self::poll_output`] until they return nothing, and then [`Self::poll_timeout`] for the instant at which to
/// call [`Self::handle_timeout`]. Time must not run backwards.
#[derive(Debug)]
pub struct Control {
    params: Params,
    ce: Ce,
    codec: Codec,
    fes: BTreeMap<Id, Fe>,
    names: BTreeMap<String, Id>,
    peers: BTreeMap<LinkId, Peer>,
    jobs: BTreeMap<JobId, Job>,
    open: BTreeMap<RequestId, JobId>,
    transactions: BTreeMap<TransactionId, JobId>,
    stores: BTreeMap<StoreTicket, Pending>,
    /// Requests that wait until an FE has finished its other change.
    waiting: VecDeque<(Ticket, Request)>,
    /// Number of requests not answered yet.
    unanswered: usize,
    watches: Watches,
    /// Whether changed routes of routing suites are left that no answer of an FE will continue.
    has_rest: bool,
    /// `None` if this CE is the only one.
    leadership: Option<Leadership>,
    next: u64,
    outputs: VecDeque<Output>,
}

impl Control {
    /// Creates a CE for these FEs, with the classes of the registry.
    pub fn new(
        params: Params,
        registry: Registry,
        members: Vec<FeConfig>,
    ) -> Result<Self, ParamsError> {
        let ce = Ce::new(params.session.clone())?;
        let names = members.iter().map(|m| (m.name.clone(), m.id)).collect();
        let fes = members.into_iter().map(|m| (m.id, Fe::new(m))).collect();
        Ok(Self {
            params,
            ce,
            codec: Codec::new(registry),
            fes,
            names,
            peers: BTreeMap::new(),
            jobs: BTreeMap::new(),
            open: BTreeMap::new(),
            transactions: BTreeMap::new(),
            stores: BTreeMap::new(),
            waiting: VecDeque::new(),
            unanswered: 0,
            watches: Watches::default(),
            has_rest: false,
            leadership: None,
            next: 0,
            outputs: VecDeque::new(),
        })
    }

    /// The names of the FEs that may associate.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// The name of the FE with this ID.
    pub fn name(&self, id: Id) -> Option<&str> {
        self.fes.get(&id).map(|fe| fe.name.as_str())
    }

    /// Handles a new link. `proved` is the ID of the peer if the transport has authenticated the peer; `peer` describes
    /// its address. Returns false if there are too many links; the transport must then close the link.
    pub fn handle_connected(
        &mut self,
        now: Instant,
        link: LinkId,
        proved: Option<Id>,
        peer: &str,
    ) -> bool {
        let accepted = self.ce.handle_connected(now, link, proved);
        if accepted {
            let peer = Peer {
                address: peer.to_owned(),
                has_proved: proved.is_some(),
            };
            self.peers.insert(link, peer);
        }
        self.pump(now);
        accepted
    }

    /// Handles the loss of a link.
    pub fn handle_disconnected(&mut self, now: Instant, link: LinkId) {
        self.peers.remove(&link);
        self.ce.handle_disconnected(now, link);
        self.pump(now);
    }

    /// Records whether a link accepts more messages.
    pub fn handle_writable(&mut self, link: LinkId, writable: bool) {
        self.ce.handle_writable(link, writable);
    }

    /// Handles a message from a link.
    pub fn handle_message(&mut self, now: Instant, link: LinkId, bytes: &[u8]) {
        match self.impostor(link, bytes) {
            Some(journal) => {
                self.note(journal);
                self.peers.remove(&link);
                self.ce.handle_disconnected(now, link);
                self.outputs.push_back(Output::Close(link));
            }
            None => self.ce.handle_message(now, link, bytes),
        }
        self.pump(now);
    }

    /// Why an Association Setup must not reach the session, where it would end the existing association of the FE that
    /// it names: the FE is not configured, or it has a certificate and this peer has not authenticated.
    fn impostor(&self, link: LinkId, bytes: &[u8]) -> Option<LogEvent> {
        let view = View::new_checked(bytes).ok()?;
        let peer = self.peers.get(&link).filter(|peer| !peer.has_proved)?;
        if view.kind() != MessageKind::AssociationSetup || view.source() == Id::UNASSIGNED {
            return None;
        }
        match self.fes.get(&view.source()) {
            None => Some(LogEvent::Unknown(view.source())),
            Some(fe) if fe.is_pinned => {
                let (name, address) = (fe.name.clone(), peer.address.clone());
                Some(LogEvent::Unproved(name, address))
            }
            Some(_) => None,
        }
    }

    /// Handles everything that is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.check_leadership(now);
        self.ce.handle_timeout(now);
        self.ask_masters(now);
        self.sample(now);
        if std::mem::take(&mut self.has_rest) {
            self.send_all_learnt(now);
        }
        self.pump(now);
    }

    /// Handles the store's confirmation that a change is durable, or the reason why it failed.
    pub fn handle_stored(&mut self, now: Instant, ticket: StoreTicket, done: Result<(), String>) {
        if let Some(pending) = self.stores.remove(&ticket) {
            self.stored(now, pending, done);
        }
        self.pump(now);
    }

    /// Starts an operator's request; the answer is an output with the same ticket.
    pub fn request(&mut self, now: Instant, ticket: Ticket, request: Request) {
        if self.unanswered >= REQUESTS_MAX {
            let busy = Output::Answer(ticket, Err(Refusal::Busy));
            return self.outputs.push_back(busy);
        }
        self.unanswered += 1;
        self.begin(now, ticket, request);
        self.pump(now);
    }

    /// Instance of an FE's port.
    pub fn port(&self, fe: Id, name: &str) -> Option<u32> {
        let fe = self.fes.get(&fe).filter(|fe| fe.is_associated())?;
        fe.directory.number(Named::Port, name)
    }

    /// Sends packets to an FE. Returns false if they are dropped because the FE is not associated or its queue is full.
    pub fn redirect(
        &mut self,
        now: Instant,
        fe: Id,
        packets: PacketRedirect,
        priority: Priority,
    ) -> bool {
        let sent = self.ce.redirect(now, fe, packets, priority);
        sent.unwrap_or(false)
    }

    /// Ends all associations, before the program ends.
    pub fn leave(&mut self, now: Instant) {
        let fes: Vec<Id> = self.ce.fes().map(|(fe, _)| fe).collect();
        for fe in fes {
            self.ce.release(now, fe, TeardownReason::Normal);
        }
        self.pump(now);
    }

    /// Returns the next message for a link. Take all messages before the next output, which may close their link.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.check_leadership(now); // the process may have stood still
        self.ce.poll_transmit(now)
    }

    /// Returns the next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns the next instant at which to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let samples = self.watches.deadline();
        let due = self.leadership_due().into_iter().chain(samples);
        let due = due.chain(self.has_rest.then_some(Instant::ZERO));
        self.ce.poll_timeout().into_iter().chain(due).min()
    }

    fn begin(&mut self, now: Instant, ticket: Ticket, request: Request) {
        if let Some(refusal) = self.not_leading(&request) {
            return self.answer(ticket, Err(refusal));
        }
        match request {
            Request::Get(path) => self.get(now, ticket, &path),
            Request::Read { fe, class } => self.read_class(now, ticket, &fe, &class),
            Request::Config(fe) => self.read_config(now, ticket, &fe),
            Request::Change(..) | Request::Route(..) => self.change(ticket, request),
            Request::Routes(fe) => self.list_routes(ticket, fe.as_deref()),
            Request::Network(fe, suite) => self.overview(now, ticket, &fe, suite),
            Request::Explain(fe, destination, suite) => {
                self.explain(now, ticket, &fe, destination, suite);
            }
            Request::Path(_) => self.answer(ticket, Err(Refusal::no_network())),
            Request::Give(fe, sections) => self.give(now, ticket, fe, sections),
            Request::Steer(fe, changes) => self.steer(now, ticket, &fe, &changes),
            Request::Watch(watch) => self.watch(now, ticket, watch),
            Request::Fetch(id) => self.fetch(now, ticket, id),
            Request::Unwatch(id) => self.unwatch(now, ticket, id),
        }
    }

    fn answer(&mut self, ticket: Ticket, answer: Result<Answer, Refusal>) {
        self.unanswered = self.unanswered.saturating_sub(1);
        self.outputs.push_back(Output::Answer(ticket, answer));
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn note(&mut self, journal: LogEvent) {
        self.outputs.push_back(Output::LogEvent(journal));
    }

    /// Handles the events of the associations.
    fn pump(&mut self, now: Instant) {
        while let Some(event) = self.ce.poll_event() {
            match event {
                Event::Associated { fe, .. } => self.associated(now, fe),
                Event::Lost(fe, loss) => self.lost(now, fe, &loss.to_string()),
                Event::Close(link) => {
                    self.peers.remove(&link);
                    self.outputs.push_back(Output::Close(link));
                }
                Event::Response {
                    request,
                    body,
                    is_last,
                    ..
                } => self.respond(now, request, &body, is_last),
                Event::Unanswered(fe, request) => self.unanswered(now, fe, request),
                Event::Notified(fe, event) => self.notified(fe, &event),
                Event::Redirected(fe, packets) => {
                    self.outputs.push_back(Output::Redirected(fe, packets));
                }
                Event::Ended(id, ended) => self.ended(now, id, ended),
            }
        }
    }

    fn associated(&mut self, now: Instant, id: Id) {
        if !self.fes.contains_key(&id) {
            self.note(LogEvent::Unknown(id));
            return self.ce.release(now, id, TeardownReason::Unspecified);
        }
        if !self.stand_by(now, id) {
            self.take_over(now, id);
        }
    }

    /// Brings an associated FE into its desired state.
    fn take_over(&mut self, now: Instant, id: Id) {
        let Some(fe) = self.fes.get_mut(&id) else {
            return;
        };
        let name = fe.name.clone();
        fe.associated(now);
        self.note(LogEvent::Associated(name));
        self.describe(now, id);
    }

    fn lost(&mut self, now: Instant, id: Id, why: &str) {
        let was_on_standby = self.leave_standby(id);
        if let Some(fe) = self.fes.get_mut(&id) {
            fe.lost(now, why);
            if was_on_standby {
                return;
            }
            let name = fe.name.clone();
            self.note(LogEvent::Lost(name, why.to_owned()));
            self.retry(now);
        }
    }
}

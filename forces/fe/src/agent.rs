//! The state machine of an FE: associations on one side, the router on the other.
//!
//! ```text
//!   transport --- handle_message, ..  ---> +-------+ --- poll_effect: Read, Check, Change, Forward ---> habitat
//!             <-- poll_transmit ---------- | Agent | <-- handle_plan, handle_read, handle_changed ----- (router)
//!                                          +-------+
//! ```
//!
//! Order of calls: any `handle_*`, then [`Agent::poll_transmit`] until it returns nothing, then [`Agent::poll_effect`]
//! until it returns nothing; then wait for the next input, or for the time of [`Agent::poll_timeout`], at which to call
//! [`Agent::handle_timeout`].
//!
//! The agent executes one request at a time, in order of arrival; other requests wait. The session limits the number of
//! waiting requests (`requests_max`). Heartbeats and packets do not wait.
//!
//! *Decision*: from its start, an FE forwards according to its own configuration, for CEFTI even without a CE, because
//! a router at the edge must not wait for a CE to recover from a power failure. With CEFailoverPolicy 0, which means a
//! CEFTI of zero, it forwards only while it is associated.

mod events;
mod execute;
mod query;
mod route;
mod transaction;

use std::collections::VecDeque;

use weir_base::{Instant, Span};
use weir_lfb::Plan;
use weir_model::{Fault, Value};
use weir_path::exception::{Exception, ExceptionClass};
use weir_protocol::session::fe::{Event, Fe, ParamsError, Stage, State, Ticket, Transmit};
use weir_protocol::wire::Id;
use weir_protocol::wire::header::{Flags, Priority};
use weir_protocol::wire::message::{Config, PacketRedirect, Query};

use self::execute::Execution;
use self::query::{Parts, Reading};
use self::route::Leftover;
use self::transaction::{Ending, Transaction};
use crate::contract::{
    ChangeTicket, Effect, Forwarding, Notice, Params, ReadTicket, RouteFailure, RouteTicket,
};
use crate::event::Watches;
use crate::exception;
use crate::fib::Fib;
use crate::own::Own;

/// Longer than any FE runs, so this timer never expires.
const FOREVER: Span = Span::from_secs(u32::MAX as u64);

/// A forwarding element, independent of the machine that it runs on.
#[derive(Debug)]
pub struct Agent {
    fe: Fe,
    own: Own,
    plan: Plan,
    /// Not part of `own`: each request would have to copy the rows, which takes too long.
    fib: Fib,
    leftover: Leftover,
    watches: Watches,
    requests: VecDeque<Request>,
    job: Option<Job>,
    transaction: Option<Transaction>,
    tickets: u64,
    effects: VecDeque<Effect>,
    /// The state that the habitat knows; the FE forwards initially.
    forwarding: Forwarding,
    /// The last master that disabled the FE.
    disabled_by: Id,
    /// Time until which an FE forwards that has had no CE yet.
    alone_until: Option<Instant>,
}

/// A waiting request.
#[derive(Debug)]
enum Request {
    Query(Ticket, Query),
    Config(Ticket, Stage, Flags, Config),
    Commit(Ticket),
    Abort(Option<Ticket>),
    Complete,
}

/// The request in progress.
#[derive(Debug)]
enum Job {
    /// A Query that waits for tables.
    Reading(Reading),
    /// A long answer that waits for room in the queue.
    Parts(Parts),
    /// A Config that waits for the router.
    Executing(Box<Execution>),
    /// A commit or an abort that waits for the router.
    Ending(Box<Ending>),
}

impl Agent {
    /// An agent that tries its first CE at once.
    pub fn new(now: Instant, params: Params) -> Result<Self, ParamsError> {
        let Params {
            mut session,
            name,
            model,
            plan,
        } = params;
        let own = Own::new(&session, (name, model), &plan);
        if let Ok(setup) = own.setup() {
            session.setup = setup;
        }
        let alone_until = session.failover.keeps.map(|keeps| now + keeps);
        let mut agent = Self {
            fe: Fe::new(now, session)?,
            own,
            plan,
            fib: Fib::default(),
            leftover: Leftover::Unknown,
            watches: Watches::default(),
            requests: VecDeque::new(),
            job: None,
            transaction: None,
            tickets: 0,
            effects: VecDeque::new(),
            forwarding: Forwarding::Alone,
            disabled_by: Id::UNASSIGNED,
            alone_until,
        };
        agent.proceed(now);
        Ok(agent)
    }

    /// The associations of the FE.
    pub const fn session(&self) -> &Fe {
        &self.fe
    }

    /// Whether the FE forwards.
    pub const fn forwards(&self) -> bool {
        self.forwarding.is_on()
    }

    /// An operator at the FE makes it forward, even without a CE or if a CE has disabled it. A CE may disable it again.
    /// Returns the reason why it did not forward; `None` if it did.
    pub fn enable(&mut self, now: Instant) -> Option<Forwarding> {
        let before = Some(self.forwarding).filter(|forwarding| !forwarding.is_on());
        self.own.enable();
        if self.fe.state() == State::PreAssociation {
            self.alone_until = Some(now + FOREVER);
        }
        self.sample_own(now);
        self.decide_forwarding(now);
        before
    }

    /// Whether the transport should read another message from this CE.
    pub fn wants(&self, ce: Id) -> bool {
        self.fe.wants(ce)
    }

    /// The link to a CE is open.
    pub fn handle_connected(&mut self, now: Instant, ce: Id) {
        self.fe.handle_connected(now, ce);
        self.proceed(now);
    }

    /// The link to a CE was lost, or could not be opened.
    pub fn handle_disconnected(&mut self, now: Instant, ce: Id) {
        self.fe.handle_disconnected(now, ce);
        self.proceed(now);
    }

    /// Sets whether the link to a CE accepts more messages.
    pub fn handle_writable(&mut self, ce: Id, writable: bool) {
        self.fe.handle_writable(ce, writable);
    }

    /// A message arrived from a CE.
    pub fn handle_message(&mut self, now: Instant, ce: Id, bytes: &[u8]) {
        self.fe.handle_message(now, ce, bytes);
        self.proceed(now);
    }

    /// The running configuration has changed, for any reason.
    pub fn handle_plan(&mut self, plan: Plan) {
        let before = self.own.ports().clone();
        self.own.follow(&plan);
        let old = std::mem::replace(&mut self.plan, plan);
        self.routes_follow(&before, &old);
    }

    /// The rows of a class, or the reason why they cannot be read.
    pub fn handle_read(&mut self, now: Instant, ticket: ReadTicket, rows: Result<Value, String>) {
        if let Some(Job::Reading(reading)) = &mut self.job
            && reading.waits_for(ticket)
        {
            reading.take(ticket, rows);
        } else if self.watches.take(ticket, rows) {
            self.report_events(now);
        }
        self.proceed(now);
    }

    /// The effects queued before [`Effect::Turn`] are done, so a long job may continue.
    pub fn handle_turn(&mut self, now: Instant) {
        if let Some(Job::Parts(parts)) = &mut self.job {
            parts.go_on();
        }
        self.proceed(now);
    }

    /// The router has executed or checked operations, or has refused them.
    pub fn handle_changed(
        &mut self,
        now: Instant,
        ticket: ChangeTicket,
        answer: Result<Vec<String>, Vec<Fault>>,
    ) {
        match self.job.take() {
            Some(Job::Executing(execution)) if execution.waits_for(ticket) => {
                self.executed(now, execution, answer);
            }
            Some(Job::Ending(ending)) if ending.change == ticket => {
                self.ended(now, *ending, answer);
            }
            job => self.job = job,
        }
        self.proceed(now);
    }

    /// The routes were changed, except those in `failures`.
    pub fn handle_routed(&mut self, now: Instant, ticket: RouteTicket, failures: &[RouteFailure]) {
        match self.job.take() {
            Some(Job::Executing(execution)) if execution.waits_for_routes(ticket) => {
                self.routed(now, execution, failures);
            }
            Some(Job::Ending(ending)) if ending.routed == Some(ticket) => {
                self.ended_routes(now, *ending, failures);
            }
            job => self.job = job,
        }
        self.proceed(now);
    }

    /// Does all work that is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.fe.handle_timeout(now);
        self.sample(now);
        self.sweep(now);
        self.proceed(now);
    }

    /// The next instant at which to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let alone = self.alone_until.filter(|_| self.forwards());
        let (session, watches) = (self.fe.poll_timeout(), self.watches.due());
        let timers = [session, watches, alone, self.leftover.due()];
        timers.into_iter().flatten().min()
    }

    /// The next message for a CE.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.fe.poll_transmit().or_else(|| {
            self.proceed(now); // there may be room for a long answer
            self.fe.poll_transmit()
        })
    }

    /// The next effect for the habitat.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Redirects packets from the router to the master. Without a master or room in its queue, the session drops and
    /// counts them.
    pub fn redirect(&mut self, now: Instant, exceptions: impl IntoIterator<Item = Exception>) {
        for exception in exceptions {
            let Some(port) = self.own.number(&exception.port) else {
                continue; // the port was deleted after the packet arrived
            };
            let packet = exception::redirect(&exception, port);
            let priority = match exception.class {
                ExceptionClass::Routing | ExceptionClass::Neighbours => Priority::URGENT_REDIRECT,
                ExceptionClass::Local | ExceptionClass::Errors => Priority::OTHER_REDIRECT,
            };
            if let Ok(packets) = packet.and_then(|packet| PacketRedirect::new(vec![packet])) {
                let _ = self.fe.redirect(now, packets, priority); // it fits a message, as it fits a REDIRECT
            }
        }
    }

    /// Passes packets of the master to the router.
    fn inject(&mut self, packets: &PacketRedirect) {
        let (mut injections, mut refused) = (Vec::new(), None);
        for packet in packets.redirects() {
            match exception::injection(packet, |port| self.own.port(port)) {
                Ok(injection) => injections.push(injection),
                Err(why) => refused = Some(why),
            }
        }
        if !injections.is_empty() {
            self.effects.push_back(Effect::Inject(injections));
        }
        if let Some(why) = refused {
            self.notice(Notice::Refused(why)); // one notice per message
        }
    }

    /// Ends all associations, before the program ends.
    pub fn release(&mut self, now: Instant) {
        let ces: Vec<Id> = self.fe.ces().map(|ce| ce.id).collect();
        for ce in ces {
            self.fe.release(now, ce);
        }
    }

    /// Handles the events of the session, and continues with the requests.
    fn proceed(&mut self, now: Instant) {
        loop {
            while let Some(event) = self.fe.poll_event() {
                self.handle_event(now, event);
            }
            let is_waiting = match self.job.take() {
                Some(Job::Reading(reading)) => self.read(now, reading),
                Some(Job::Parts(parts)) => self.send_parts(now, parts),
                Some(job) => {
                    self.job = Some(job);
                    true
                }
                None => match self.requests.pop_front() {
                    Some(request) => {
                        self.begin(now, request);
                        false
                    }
                    None => break,
                },
            };
            if is_waiting {
                break;
            }
        }
        self.decide_forwarding(now);
    }

    fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Connect(ce) => self.effects.push_back(Effect::Connect(ce)),
            Event::Disconnect(ce) => self.effects.push_back(Effect::Disconnect(ce)),
            Event::Associated(ce, id) => {
                self.alone_until = None;
                self.leftover.associated(now);
                self.notice(Notice::Associated(ce, id));
            }
            Event::Lost(ce, loss) => self.notice(Notice::Lost(ce, loss)),
            Event::Master { from, to } => {
                self.own.master_changed(from);
                self.fe.ask_master(now);
                self.notice(Notice::Master { from, to });
                self.sample_own(now);
            }
            Event::State(state) => self.notice(Notice::State(state)),
            Event::Config(ticket, stage, flags, config) => {
                self.requests
                    .push_back(Request::Config(ticket, stage, flags, config));
            }
            Event::Query(ticket, query) => self.requests.push_back(Request::Query(ticket, query)),
            Event::Commit(ticket) => self.requests.push_back(Request::Commit(ticket)),
            Event::Abort(ticket) => self.requests.push_back(Request::Abort(ticket)),
            Event::Complete => self.requests.push_back(Request::Complete),
            Event::Redirected(packets) => self.inject(&packets),
        }
    }

    fn begin(&mut self, now: Instant, request: Request) {
        match request {
            Request::Query(ticket, query) => self.begin_query(ticket, query),
            Request::Config(ticket, stage, flags, config) => {
                self.begin_config(now, ticket, stage, flags, config);
            }
            Request::Commit(ticket) => self.begin_commit(now, ticket),
            Request::Abort(ticket) => self.begin_abort(now, ticket),
            Request::Complete => self.transaction = None,
        }
    }

    /// Applies the changes that a CE has made to the FE itself.
    fn adopt(&mut self, now: Instant, mut own: Own) {
        own.follow(&self.plan);
        let before = std::mem::replace(&mut self.own, own);
        if let (true, false, Some(master)) = (
            self.own.is_disabled(),
            before.is_disabled(),
            self.fe.master(),
        ) {
            self.disabled_by = master;
        }
        self.routes_follow(before.ports(), &self.plan.clone());
        self.own.apply(now, &before, &mut self.fe);
        self.watches.follow(now, &self.own);
        self.sample_own(now);
        self.decide_forwarding(now);
    }

    fn decide_forwarding(&mut self, now: Instant) {
        if self.alone_until.is_some_and(|until| now >= until) {
            self.alone_until = None;
        }
        let forwarding = match (self.own.is_disabled(), self.fe.state()) {
            (true, _) => Forwarding::Disabled {
                by: self.disabled_by,
                is_master: self.fe.master() == Some(self.disabled_by),
            },
            (false, State::Associated) => Forwarding::Controlled,
            (false, State::NotAssociated(_)) => Forwarding::Continued,
            (false, State::PreAssociation) if self.alone_until.is_some() => Forwarding::Alone,
            (false, State::PreAssociation) => Forwarding::Expired,
        };
        if let (State::PreAssociation, None) = (self.fe.state(), self.alone_until) {
            self.drop_routes();
        }
        let before = std::mem::replace(&mut self.forwarding, forwarding);
        if forwarding.is_on() != before.is_on() {
            self.effects.push_back(Effect::Forward(forwarding.is_on()));
        }
        if forwarding != before && !(forwarding.is_on() && before.is_on()) {
            self.notice(Notice::Forwarding(forwarding));
        }
    }

    fn notice(&mut self, notice: Notice) {
        self.effects.push_back(Effect::Notice(notice));
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }
}

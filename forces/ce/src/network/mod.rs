//! The path service: runs a network. It sends the FEs their sections, moves paths away from failures, and answers
//! requests for paths.
//!
//! ```text
//!   operators ──request──▶ ┌──────────────┐ ──sections──▶ Control ──▶ FEs
//!   Control ──its log────▶ │ Network      │ ──records──▶ store
//!   ports of FEs ─events─▶ │ HoldDown     │
//!                          │ Rollout      │ ──answer──▶ operator, when the edge has the encapsulation
//!                          └──────────────┘
//! ```
//!
//! - `state`: the controller's paths, and the resulting sections
//! - `health`: health of links and elements, derived from ports and associations
//! - `hold_down`: delay before a recovered link or element is used again
//! - `rollout`: the steps in which sections go to the elements
//! - `answer`: waiting operators, and the store
//! - `report`: the current network
//!
//! **Start.** A starting CE knows neither which elements are connected nor which links work. It waits until every
//! element has associated, five seconds at most, and changes nothing before: existing paths keep forwarding. Then every
//! element that has not associated counts as failed.
//!
//! **Failure.** A link fails when a port at either end has no carrier. An element fails when its association ends: the
//! CE cannot know whether the element still forwards, and can no longer change it. The element's packets take another
//! path, or IP.

mod answer;
mod health;
mod hold_down;
mod report;
mod rollout;
mod state;

use std::collections::{BTreeMap, VecDeque};

use weir_base::{Instant, Span};
use weir_model::{Change, Fault};

use self::answer::Waiting;
use self::health::{Event, Health, HealthQuery};
use self::rollout::{DeliveryId, Rollout};
use self::state::Network;
pub use self::state::{Keys, REQUESTS_MAX};
use crate::Control;
use crate::contract::{
    Answer, LogEvent, Output, PathRecord, Refusal, Request, StoreTicket, Ticket,
};
use weir_network::NetworkPlan;

/// Tickets of the path service have these bits set; tickets of the driver and of the bridge must not.
const OWN: u64 = 3 << 62;
/// Maximum time that a starting CE waits for the elements.
const START_MAX: Span = Span::from_secs(5);

/// The purpose of a request to the control element.
#[derive(Clone, Debug)]
enum Purpose {
    Delivery(DeliveryId),
    Health(HealthQuery),
}

/// A log event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A link or an element is out of service: `link c-b`, and why.
    Failed(String, String),
    /// A link or an element is in service again.
    Used(String),
    /// A stored request no longer fits the network, and was deleted.
    Dropped(u64, String),
    /// The lifetime of a request has expired.
    Ended(u64),
    /// An element has refused sections.
    Refused(String),
}

/// The path service of a control element. The driver passes every output of the [`Control`] to
/// [`handle_output`](Self::handle_output), and calls [`settle`](Self::settle) after every input of either.
#[derive(Debug, Default)]
pub struct PathService {
    network: Option<Network>,
    health: Health,
    rollout: Rollout,
    /// Latest time at which the network starts; `None` once started.
    starts: Option<Instant>,
    open: BTreeMap<Ticket, Purpose>,
    waiting: Vec<Waiting>,
    stores: VecDeque<(StoreTicket, PathRecord)>,
    answers: VecDeque<(Ticket, Result<Answer, Refusal>)>,
    notes: VecDeque<Note>,
    last_ticket: u64,
    last_request: u64,
}

impl PathService {
    /// Checks that a network can run with these FEs, given the configuration that each FE already has.
    pub fn check(plan: &NetworkPlan, fes: &BTreeMap<&str, &[Change]>) -> Result<(), Vec<Fault>> {
        let mut faults = health::check_elements(plan, fes);
        faults.extend(state::check_names(plan));
        if faults.is_empty() {
            faults = Network::new(plan.clone())?.check_desired(fes);
        }
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults)
        }
    }

    /// Starts a network, replaces it, or ends it. `kept` contains the stored requests; it applies to the first network
    /// only.
    pub fn replace(
        &mut self,
        now: Instant,
        plan: Option<NetworkPlan>,
        kept: BTreeMap<u64, Keys>,
        control: &mut Control,
    ) -> Result<(), Vec<Fault>> {
        if self.network.as_ref().map(|network| &network.plan) == plan.as_ref() {
            return Ok(());
        }
        let network = plan.map(Network::new).transpose()?;
        let is_first = self.network.is_none();
        let before = std::mem::replace(&mut self.network, network);
        self.rollout.replace();
        let Some(network) = &mut self.network else {
            self.health = Health::default();
            self.leave(now, before, control);
            return Ok(());
        };
        self.last_request = kept
            .keys()
            .copied()
            .max()
            .unwrap_or(0)
            .max(self.last_request);
        let all = match &before {
            None => kept
                .into_iter()
                .map(|(number, keys)| (number, keys, None))
                .collect(),
            Some(before) => before
                .requests()
                .map(|(_, asked)| asked.copy())
                .collect::<Vec<_>>(),
        };
        let mut dropped = Vec::new();
        for (number, keys, ends) in all {
            match network.request_again(now, (number, keys), ends) {
                Ok(()) => {}
                Err(faults) => {
                    let why = answer::sentences(&faults).join("; ");
                    self.notes.push_back(Note::Dropped(number, why));
                    dropped.push(number);
                }
            }
        }
        for number in dropped {
            self.keep(number, None);
        }
        if is_first {
            self.starts = Some(now + START_MAX);
        }
        if let Some(network) = &mut self.network {
            self.health.replace(now, network);
            if self.starts.is_none() {
                want_all(network, &mut self.rollout);
            }
        }
        self.leave(now, before, control);
        Ok(())
    }

    /// Removes the network's sections from elements that have left the network.
    fn leave(&mut self, now: Instant, before: Option<Network>, control: &mut Control) {
        let stays = |name: &str| {
            let network = self.network.as_ref();
            network.is_some_and(|network| network.plan.topology.fe_named(name).is_ok())
        };
        let names = before.iter().flat_map(|network| {
            let fes = network.plan.topology.fes();
            fes.map(|fe| network.name(fe).to_owned())
        });
        let gone: Vec<String> = names.filter(|name| !stays(name)).collect();
        for name in gone {
            self.rollout.forget(&name);
            control.leave_network(now, &name);
        }
    }

    /// Handles an output of the control element, and returns the output if others may need it too.
    pub fn handle_output(&mut self, now: Instant, output: Output) -> Option<Output> {
        match output {
            Output::Answer(ticket, answer) => match self.open.remove(&ticket) {
                Some(purpose) => self.answered(now, purpose, answer),
                None => return Some(Output::Answer(ticket, answer)),
            },
            Output::Noticed(watch) if self.health.watches(watch) => self.health.noticed(watch),
            Output::LogEvent(journal) => {
                match &journal {
                    LogEvent::InSync(fe, _) => self.health.comes(fe),
                    LogEvent::Refused(fe, why) => self.goes(now, fe, why),
                    LogEvent::Lost(fe, why) => self.goes(now, fe, why),
                    _ => {}
                }
                return Some(Output::LogEvent(journal));
            }
            other => return Some(other),
        }
        None
    }

    fn goes(&mut self, now: Instant, fe: &str, why: &str) {
        self.health.goes(now, fe, why);
        self.follow(now);
    }

    fn answered(&mut self, now: Instant, purpose: Purpose, answer: Result<Answer, Refusal>) {
        match purpose {
            Purpose::Delivery(delivery) => self.delivered(delivery, answer),
            Purpose::Health(wish) => self.health.handle_answer(now, wish, answer),
        }
    }

    /// Moves paths when links or elements have failed, or are in service again.
    fn follow(&mut self, now: Instant) {
        let Some(network) = self.network.as_mut().filter(|_| self.starts.is_none()) else {
            return;
        };
        self.health.handle_timeout(now);
        while let Some(event) = self.health.poll_event() {
            match event {
                Event::Link(link, works, note) => {
                    network.handle_link(link, works, &mut self.rollout);
                    self.notes.push_back(note);
                }
                Event::Element(fe, works, note) => {
                    network.handle_fe(fe, works, &mut self.rollout);
                    self.notes.push_back(note);
                }
            }
        }
    }

    /// Starts the network when all elements are in sync, or when the wait has expired.
    fn start(&mut self, now: Instant) {
        let Some(until) = self.starts else {
            return;
        };
        if now < until && !self.health.is_complete() {
            return;
        }
        self.starts = None;
        self.health.begin(now);
        self.follow(now);
        if let Some(network) = &self.network {
            want_all(network, &mut self.rollout);
        }
    }

    /// Does everything that is due at `now`, and sends requests to the control element.
    pub fn settle(&mut self, now: Instant, control: &mut Control) {
        if self.network.is_none() && self.waiting.is_empty() {
            return;
        }
        self.start(now);
        self.follow(now);
        self.end_requests(now);
        for (delivery, of) in self.rollout.poll(now) {
            let request = Request::Give(of.fe, of.sections);
            self.ask(now, control, Purpose::Delivery(delivery), request);
        }
        for (wish, request) in self.health.poll_wishes(now) {
            self.ask(now, control, Purpose::Health(wish), request);
        }
        self.answer_all(now);
    }

    /// Latest time for the next call of [`settle`](Self::settle).
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.network.as_ref()?;
        let ends = self.ends();
        let others = [
            self.starts,
            self.rollout.poll_timeout(),
            self.health.poll_timeout(),
        ];
        others.into_iter().flatten().chain(ends).min()
    }

    /// Returns the next change of the store; report its result with [`handle_stored`](Self::handle_stored).
    pub fn poll_store(&mut self) -> Option<(StoreTicket, PathRecord)> {
        self.stores.pop_front()
    }

    /// Returns the next answer for an operator.
    pub fn poll_answer(&mut self) -> Option<(Ticket, Result<Answer, Refusal>)> {
        self.answers.pop_front()
    }

    /// Returns the next log event.
    pub fn poll_note(&mut self) -> Option<Note> {
        self.notes.pop_front()
    }

    fn ask(&mut self, now: Instant, control: &mut Control, purpose: Purpose, request: Request) {
        let ticket = Ticket(self.ticket());
        self.open.insert(ticket, purpose);
        control.request(now, ticket, request);
    }

    fn ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket | OWN
    }
}

fn want_all(network: &Network, rollout: &mut Rollout) {
    for fe in network.plan.topology.fes() {
        network.want_all(fe, rollout);
    }
}

//! Operators' path requests: answering, ending and storing them.
//!
//! ```text
//!   request ──▶ path found ──┬──▶ store ─────────────────────────┬──▶ answer: the path
//!                            └──▶ encapsulation at the edge ─────┘
//! ```
//!
//! The service answers the application once the edge has the encapsulation, and so before the first packet (section
//! III.B.1 of the paper), and once the request is stored. If the edge refuses the encapsulation, the service withdraws
//! the request.
//!
//! Repeating a request returns the same path and restarts the request's lifetime. The service refuses packets that
//! another request already has at the same element with the same priority, because one of the two would never match.
//! Overlapping packets follow the request with the lower priority number, and among equal priorities the older request;
//! paths of the file are ordered by name.

use weir_base::Instant;
use weir_base::setting::Scalar;
use weir_model::{ElementPath, Fault, PathRequest};

use super::health::Health;
use super::rollout::{DeliveryId, Rollout};
use super::state::{Keys, Network};
use super::{Note, PathService, report};
use crate::contract::{Answer, PathCommand, Refusal, StoreTicket, Ticket};

/// Maximum number of waiting operators.
const WAITING_MAX: usize = 256;

/// A waiting operator.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    ticket: Ticket,
    number: u64,
    /// Location of the encapsulation.
    place: ElementPath,
    is_release: bool,
    /// The pending change of the store.
    store: Option<StoreTicket>,
}

impl PathService {
    /// Handles an operator's command; the answer comes with the same ticket.
    pub fn request(&mut self, now: Instant, ticket: Ticket, command: PathCommand) {
        let answer = match command {
            PathCommand::Request(request) => self.request_path(now, ticket, request),
            PathCommand::Release(number) => self.release(ticket, number),
            PathCommand::List => self.state().map(|(network, rollout, health)| {
                Some(Answer::Paths(report::paths(now, network, rollout, health)))
            }),
            PathCommand::Network => self.state().map(|(network, rollout, health)| {
                Some(Answer::Network(report::network(
                    now, network, rollout, health,
                )))
            }),
        };
        match answer {
            Ok(None) => {} // answered later
            Ok(Some(answer)) => self.answers.push_back((ticket, Ok(answer))),
            Err(refusal) => self.answers.push_back((ticket, Err(refusal))),
        }
    }

    /// The network and its state, for a report.
    fn state(&self) -> Result<(&Network, &Rollout, &Health), Refusal> {
        let network = self.network.as_ref().ok_or_else(Refusal::no_network)?;
        Ok((network, &self.rollout, &self.health))
    }

    fn request_path(
        &mut self,
        now: Instant,
        ticket: Ticket,
        request: PathRequest,
    ) -> Result<Option<Answer>, Refusal> {
        let network = self.network.as_mut().ok_or_else(Refusal::no_network)?;
        if self.starts.is_some() {
            let why = "the control element has just started, and is waiting for its elements; retry later";
            return Err(Refusal::Silent(why.to_owned()));
        }
        if self.waiting.len() >= WAITING_MAX {
            return Err(Refusal::Busy);
        }
        let keys = texts(request);
        let refused = |faults: Vec<Fault>| Refusal::Refused(sentences(&faults));
        let from = keys.get("from").cloned().unwrap_or_default();
        if self.health.is_away(&from) {
            let why = format!("`{from}` is unavailable: cannot set up the path; retry later");
            return Err(Refusal::Silent(why));
        }
        let number = match network.same(&keys) {
            Some(number) => {
                let renewed = network.renew(now, number, keys.clone());
                renewed.map_err(|fault| refused(vec![fault]))?;
                number
            }
            None => {
                let number = self.last_request + 1;
                let found = network.request(now, (number, keys.clone()), &mut self.rollout);
                found.map_err(refused)?;
                self.last_request = number;
                number
            }
        };
        let place = network.asked(number).map(|(_, flow)| network.place(flow));
        let Some(place) = place else {
            return Err(not_found(number));
        };
        let store = Some(self.keep(number, Some(keys)));
        let is_release = false;
        self.waiting.push(Waiting {
            ticket,
            number,
            place,
            is_release,
            store,
        });
        Ok(None)
    }

    fn release(&mut self, ticket: Ticket, number: u64) -> Result<Option<Answer>, Refusal> {
        let network = self.network.as_mut().ok_or_else(Refusal::no_network)?;
        let place = network.release(number, &mut self.rollout);
        let place = place.ok_or_else(|| not_found(number))?;
        let store = Some(self.keep(number, None));
        let is_release = true;
        self.waiting.push(Waiting {
            ticket,
            number,
            place,
            is_release,
            store,
        });
        Ok(None)
    }

    /// Asks the store to write a request, or to delete it.
    pub(super) fn keep(&mut self, number: u64, keys: Option<Keys>) -> StoreTicket {
        let ticket = StoreTicket(self.ticket());
        self.stores.push_back((ticket, (number, keys)));
        ticket
    }

    /// Handles the store's confirmation, or its error. Returns whether the ticket belongs to the path service.
    pub fn handle_stored(&mut self, ticket: StoreTicket, done: &Result<(), String>) -> bool {
        if ticket.0 & super::OWN != super::OWN {
            return false;
        }
        let waiting = self
            .waiting
            .iter_mut()
            .find(|one| one.store == Some(ticket));
        if let Some(one) = waiting {
            one.store = None;
            if let Err(why) = done {
                let one = one.clone();
                let why = if one.is_release {
                    format!("the store failed, and the request may return after a restart: {why}")
                } else {
                    format!("the store failed, and nothing has changed: {why}")
                };
                self.take_back(|other| other.ticket == one.ticket, &Refusal::Silent(why));
            }
        }
        true
    }

    /// Ends requests whose lifetime has expired.
    pub(super) fn end_requests(&mut self, now: Instant) {
        let Some(network) = &mut self.network else {
            return;
        };
        let is_due = |ends: &Option<Instant>| ends.is_some_and(|at| at <= now);
        let due = network.requests().filter(|(_, asked)| is_due(&asked.ends));
        let due: Vec<u64> = due.map(|(_, asked)| asked.number).collect();
        for &number in &due {
            network.release(number, &mut self.rollout);
            self.notes.push_back(Note::Ended(number));
        }
        for number in due {
            self.keep(number, None);
        }
    }

    /// The earliest end of a request.
    pub(super) fn ends(&self) -> Option<Instant> {
        let requests = self.network.iter().flat_map(|network| network.requests());
        requests.filter_map(|(_, asked)| asked.ends).min()
    }

    /// Handles an element's answer to a delivery.
    pub(super) fn delivered(&mut self, delivery: DeliveryId, answer: Result<Answer, Refusal>) {
        let refusal = match answer {
            Ok(_) => return drop(self.rollout.handle_done(delivery)),
            Err(Refusal::Busy) => return self.rollout.handle_unsent(delivery),
            Err(refusal) => refusal,
        };
        let Some(delivery) = self.rollout.handle_done(delivery) else {
            return;
        };
        let concerns = |one: &Waiting| {
            let mut paths = delivery.sections.iter().map(|(path, _)| path);
            !one.is_release
                && one.place.fe == delivery.fe
                && paths.any(|path| *path == one.place.path)
        };
        if !self.take_back(concerns, &refusal) && !matches!(refusal, Refusal::Silent(_)) {
            self.notes.push_back(Note::Refused(refusal.to_string()));
        }
    }

    /// Withdraws and refuses the requests of waiting operators. Returns whether there were any.
    fn take_back(&mut self, concerns: impl Fn(&Waiting) -> bool, refusal: &Refusal) -> bool {
        let (ended, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(concerns);
        self.waiting = rest;
        for one in &ended {
            if let Some(network) = self.network.as_mut().filter(|_| !one.is_release) {
                network.release(one.number, &mut self.rollout);
                self.keep(one.number, None);
            }
            self.answers.push_back((one.ticket, Err(refusal.clone())));
        }
        !ended.is_empty()
    }

    /// Answers the operators whose requests are done.
    pub(super) fn answer_all(&mut self, now: Instant) {
        let is_done = |one: &Waiting| one.store.is_none() && self.rollout.is_done(&one.place);
        let (done, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(is_done);
        self.waiting = rest;
        for one in done {
            let answer = match (&self.network, one.is_release) {
                (_, true) => Ok(Answer::Done),
                (None, false) => Err(Refusal::no_network()),
                (Some(network), false) => {
                    let all = report::paths(now, network, &self.rollout, &self.health);
                    let mut all = all.into_iter();
                    match all.find(|path| path.request == Some(one.number)) {
                        Some(path) if path.routes.is_empty() => Err(Refusal::Silent(format!(
                            "request {} is waiting: {}",
                            one.number,
                            path.why.unwrap_or_default()
                        ))),
                        Some(path) => Ok(Answer::Paths(vec![path])),
                        None => Err(not_found(one.number)), // released meanwhile
                    }
                }
            };
            self.answers.push_back((one.ticket, answer));
        }
    }
}

fn not_found(number: u64) -> Refusal {
    Refusal::NotFound(format!(
        "there is no request {number}; `weir paths list` lists all requests"
    ))
}

/// The keys of a request as strings.
fn texts(request: PathRequest) -> Keys {
    let lifetime = request
        .lifetime
        .map(|lifetime| ("lifetime".to_owned(), lifetime));
    let all = request.keys.into_iter().chain(lifetime);
    let text = |value| match Scalar::from(value) {
        Scalar::Text(text) => text,
        other => other.to_string(),
    };
    all.map(|(key, value)| (key, text(value))).collect()
}

/// Faults of a request as sentences, without paths in a file.
pub(super) fn sentences(faults: &[Fault]) -> Vec<String> {
    let sentence = |fault: &Fault| match fault.path.segments()[..] {
        ["path", _, key] if !fault.names_place => format!("{key}: {}", fault.message),
        _ => fault.message.clone(),
    };
    faults.iter().map(sentence).collect()
}

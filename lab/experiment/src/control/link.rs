//! The link between a controller and an element, with the queues of the transport at both ends.
//!
//! ```text
//!   element                                                     controller
//!   samples, answers --credit--> +---------+ ---rate, delay---> latest sample
//!   redirects ------------------>| Queue   | ---> counted
//!                                +---------+
//!   changes <------rate, delay-- | Queue   | <--credit--------- orders
//!                                +---------+
//! ```
//!
//! The queues are the same as in `weir ce` and `weir fe` ([`Transports`]). A message without credit waits at its
//! sender; a newer sample replaces a waiting one. Redirects arrive at a constant rate, and the controller ignores them.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_base::{Instant, Rate, Span};
use weir_controller::Sample;
use weir_controller::runner::{Request, RequestId, Response};

use crate::scenario::Wire;
use crate::transports::{Queue, Taken, Transports};

/// Bytes of a report for each queue in it: the queue's path, five components and the gauges.
const REPORT_LEN: usize = 160;
/// Bytes of a Config and of its answer without paths, and bytes of each path.
const CONFIG_LEN: usize = 40;
const CHANGE_LEN: usize = 40;
/// Bytes of a redirect.
const REDIRECT_LEN: usize = 1000;

/// Samples of the queues of an element.
pub(super) type Samples = Vec<(Arc<str>, Sample)>;

/// Control messages from an element.
#[derive(Debug)]
pub(super) enum Up {
    /// The samples of the element's queues.
    Report(Samples),
    /// The outcome of a change.
    Outcome(RequestId, Response),
}

/// A link.
pub(super) struct Link {
    pub(super) up: Direction<Up>,
    pub(super) down: Direction<Request>,
    /// The latest report, and its arrival time.
    pub(super) report: Option<(Instant, Samples)>,
}

impl Link {
    /// An idle link; `seed` for the random choices of its disciplines.
    pub(super) fn new(transports: &dyn Transports, wire: &Wire, delay: Span, seed: u64) -> Self {
        let queue = |seed| transports.queue(wire, seed);
        Self {
            up: Direction::new(queue(seed), wire.rate, delay, wire.redirect),
            down: Direction::new(queue(!seed), wire.rate, delay, Rate::from_bps(0)),
            report: None,
        }
    }

    /// Sends samples to the controller, replacing older samples that wait at the element.
    pub(super) fn report(&mut self, now: Instant, samples: Samples) {
        self.up
            .waiting
            .retain(|message| !matches!(message.content, Up::Report(_)));
        let len = samples.len() * REPORT_LEN;
        self.up.send(now, Up::Report(samples), len);
    }

    /// Sends the outcome of a change to the controller.
    pub(super) fn answer(&mut self, now: Instant, id: RequestId, response: Response) {
        self.up.send(now, Up::Outcome(id, response), CONFIG_LEN);
    }

    /// Sends a change to the element.
    pub(super) fn order(&mut self, now: Instant, request: Request, changes: usize) {
        let len = CONFIG_LEN + changes * CHANGE_LEN;
        self.down.send(now, request, len);
    }
}

/// A control message in flight.
#[derive(Debug)]
struct Message<T> {
    content: T,
    /// Time at which the sender had the message ready.
    begun: Instant,
    len: usize,
}

/// Redirects at a constant rate.
#[derive(Clone, Copy, Debug)]
struct Flood {
    next: Instant,
    gap: Span,
}

/// One direction of a link.
pub(super) struct Direction<T> {
    queue: Box<dyn Queue>,
    rate: Rate,
    delay: Span,
    flood: Option<Flood>,
    /// Messages that wait for credit.
    waiting: VecDeque<Message<T>>,
    /// Messages in the queue, which keeps the order of control messages.
    queued: VecDeque<Message<T>>,
    /// Messages on the wire, with their arrival times.
    sent: VecDeque<(Instant, Message<T>)>,
    /// The queue's next event.
    due: Option<Instant>,
    /// Latency of the latest message, from the time at which the sender had it ready to its arrival.
    latency: Option<Span>,
}

impl<T> Direction<T> {
    fn new(queue: Box<dyn Queue>, rate: Rate, delay: Span, redirect: Rate) -> Self {
        let flood = (redirect.as_bps() > 0).then(|| Flood {
            next: Instant::ZERO,
            gap: redirect
                .time_for(REDIRECT_LEN as u64)
                .max(Span::from_nanos(1)),
        });
        Self {
            queue,
            rate,
            delay,
            flood,
            waiting: VecDeque::new(),
            queued: VecDeque::new(),
            sent: VecDeque::new(),
            due: None,
            latency: None,
        }
    }

    fn send(&mut self, now: Instant, content: T, len: usize) {
        self.advance(now);
        self.waiting.push_back(Message {
            content,
            begun: now,
            len,
        });
        self.pull(now);
    }

    /// The next message that has arrived.
    pub(super) fn receive(&mut self, now: Instant) -> Option<T> {
        self.advance(now);
        let (_, message) = self.sent.pop_front_if(|(arrival, _)| *arrival <= now)?;
        self.latency = Some(now.since(message.begun));
        Some(message.content)
    }

    /// The next time at which a message arrives, or leaves the queue.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let arrival = self.sent.front().map(|(arrival, _)| *arrival);
        let is_empty = self.queued.is_empty() && self.waiting.is_empty();
        let due = self.due.filter(|_| !is_empty);
        arrival.into_iter().chain(due).min()
    }

    /// Latency of the latest message.
    pub(super) fn latency(&self) -> Option<Span> {
        self.latency
    }

    /// Replays redirects and departures up to `now`, each at its own time.
    fn advance(&mut self, now: Instant) {
        loop {
            let redirect = self.flood.map_or(Instant::FAR_FUTURE, |flood| flood.next);
            let due = self.due.unwrap_or(Instant::FAR_FUTURE);
            let at = redirect.min(due);
            if at > now {
                return;
            }
            if redirect <= due
                && let Some(flood) = &mut self.flood
            {
                flood.next += flood.gap;
                self.queue.offer_redirect(at, REDIRECT_LEN);
            }
            self.pull(at);
        }
    }

    /// Offers waiting messages to the queue as far as there is credit, and puts messages that leave the queue on the
    /// wire.
    fn pull(&mut self, now: Instant) {
        loop {
            while self.queue.has_room()
                && let Some(message) = self.waiting.pop_front()
            {
                self.queue.offer_control(now, message.len);
                self.queued.push_back(message);
            }
            match self.queue.take(now) {
                Taken::Control(len) => {
                    let arrival = now + self.rate.time_for(len as u64) + self.delay;
                    let message = self.queued.pop_front();
                    self.sent.extend(message.map(|message| (arrival, message)));
                }
                Taken::Redirect => {}
                Taken::At(due) => {
                    self.due = Some(due);
                    return;
                }
                Taken::Empty => {
                    self.due = None;
                    return;
                }
            }
        }
    }
}

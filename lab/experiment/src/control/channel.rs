//! The channel between a controller and its elements: a delay in each direction, and losses.
//!
//! ```text
//!   every period:  a sample of each queue ──loss, delay──▶ controller
//!                  the queues' parameters ◀──loss, delay───┘
//! ```
//!
//! In this model the elements report to the controller. A poll reaches them at the instant at which the round
//! begins, and their answer reaches the controller one delay later. The controller's decision depends only on the
//! samples, not on events in between. So the runner works on the controller's time, which is one delay ahead of the
//! elements', and decides at once; only its changes wait, for both delays.
//!
//! With `channel_rate`, a simulated link with the queues of the transport is between the controller and each element
//! ([`Link`]). Then samples are reports that wait there like any control message, and the latest report counts in every
//! round for [`REPORT_MAX`], as at a control element. Changes and their outcomes wait there as well.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use rand::{Rng, RngExt};
use weir_base::{Instant, Span, Stream, Streams};
use weir_controller::runner::{Event, Operation, Request, RequestId, Response, Timing};
use weir_controller::{Controller, Order, QueueName, QueueSample, Runner};

use super::ControlledQueue;
use super::link::{Link, Up};
use crate::error::Error;
use crate::scenario::Controller as Described;
use crate::transports::Transports;

/// Maximum time for an element to answer, in addition to the channel's delay.
const RESPONSE_MAX: Span = Span::from_secs(3);

/// A report counts for this time. A control element then polls again (`weir_ce::controller::REFRESH`).
const REPORT_MAX: Span = Span::from_millis(400);

/// A controller's runner behind a channel. Times are times of the run, at the elements.
pub(crate) struct Channel {
    runner: Runner,
    delay: Span,
    /// Changes in flight to their elements, with their arrival times.
    under_way: VecDeque<(Instant, Request)>,
    /// Links with queues, by element; empty for a channel without queues.
    links: BTreeMap<Arc<str>, Link>,
    /// Polls that the elements answer on their links, with the element of each.
    polls: BTreeMap<RequestId, Arc<str>>,
}

impl Channel {
    /// The controller of this description, with a round every `period`.
    pub(crate) fn new(
        described: &Described,
        queues: &[ControlledQueue],
        period: Span,
        streams: &Streams,
        transports: Option<&dyn Transports>,
    ) -> Result<Self, Error> {
        let controller = Lossy {
            controller: described.spec.build(),
            loss: described.loss,
            chance: streams.below("controller").stream(&described.name),
        };
        let timing = Timing {
            period,
            response_max: described.delay + described.delay + RESPONSE_MAX,
        };
        let roles = described.spec.manual().roles;
        let wire = described.wire.as_ref();
        // With a link, the link itself delays messages.
        let delay = wire.map_or(described.delay, |_| Span::ZERO);
        let mut stream = streams
            .below("controller")
            .below(&described.name)
            .stream("links");
        let elements: BTreeSet<_> = queues.iter().map(|queue| &queue.name.element).collect();
        let mut links = BTreeMap::new();
        if let Some(wire) = wire {
            let missing = || {
                let name = &described.name;
                let why = format!(
                    "this program has no transports for `channel_rate` of controller {name}"
                );
                Error::Network(why)
            };
            let transports = transports.ok_or_else(missing)?;
            for element in elements {
                let link = Link::new(transports, wire, described.delay, stream.next_u64());
                links.insert(Arc::clone(element), link);
            }
        }
        let start = Instant::ZERO + delay;
        let mut runner = Runner::new(Box::new(controller), roles, timing, start);
        for ControlledQueue { role, name, .. } in queues {
            if let Err(error) = runner.join(&name.element, &name.port, role.name) {
                unreachable!("the controller's queues were validated: {error}");
            }
        }
        Ok(Self {
            runner,
            delay,
            under_way: VecDeque::new(),
            links,
            polls: BTreeMap::new(),
        })
    }

    /// The latest instant at which to call [`handle_timeout`](Self::handle_timeout).
    pub(crate) fn poll_timeout(&self) -> Instant {
        let timeout = self.runner.poll_timeout().before(self.delay);
        let arrival = self.under_way.front().map(|(arrival, _)| *arrival);
        let links = self.links.values();
        let links = links.flat_map(|link| [link.up.poll_timeout(), link.down.poll_timeout()]);
        let all = arrival.into_iter().chain(links.flatten());
        all.fold(timeout, Instant::min)
    }

    /// Performs everything that is due at `now`.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        for link in self.links.values_mut() {
            while let Some(message) = link.up.receive(now) {
                match message {
                    Up::Report(samples) => link.report = Some((now, samples)),
                    Up::Outcome(id, response) => self.runner.handle_response(now, id, response),
                }
            }
        }
        self.runner.handle_timeout(now + self.delay);
    }

    /// The outcome of a request.
    pub(crate) fn handle_response(&mut self, now: Instant, id: RequestId, response: Response) {
        if self.links.is_empty() {
            return self.runner.handle_response(now + self.delay, id, response);
        }
        let Some(link) = self
            .polls
            .remove(&id)
            .and_then(|name| self.links.get_mut(&name))
        else {
            return;
        };
        match response {
            Response::Samples(samples) => {
                link.report(now, samples);
                let held = link.report.as_ref();
                let held = held.filter(|(at, _)| now.since(*at) < REPORT_MAX);
                let samples = held.map(|(_, samples)| samples.clone()).unwrap_or_default();
                self.runner
                    .handle_response(now, id, Response::Samples(samples));
            }
            outcome => link.answer(now, id, outcome),
        }
    }

    /// The next request that has reached its element.
    pub(crate) fn poll_request(&mut self, now: Instant) -> Option<Request> {
        let arrived = loop {
            match self.runner.poll_request() {
                Some(request) if !self.links.is_empty() => {
                    if matches!(request.operation, Operation::Poll(_)) {
                        break request;
                    }
                    self.order(now, request);
                }
                None if !self.links.is_empty() => {
                    let mut links = self.links.values_mut();
                    break links.find_map(|link| link.down.receive(now))?;
                }
                None => {
                    break self
                        .under_way
                        .pop_front_if(|(arrival, _)| *arrival <= now)?
                        .1;
                }
                Some(request) if matches!(request.operation, Operation::Poll(_)) => break request,
                Some(change) => {
                    let arrival = now + self.delay + self.delay;
                    self.under_way.push_back((arrival, change));
                }
            }
        };
        self.asked(&arrived);
        Some(Request {
            deadline: arrived.deadline.before(self.delay),
            ..arrived
        })
    }

    /// Sends a change to its element.
    fn order(&mut self, now: Instant, request: Request) {
        let count = match &request.operation {
            Operation::Change(changes) => changes.len(),
            Operation::Poll(_) => 0,
        };
        if let Some(link) = self.links.get_mut(&request.element) {
            link.order(now, request, count);
        }
    }

    /// Records a poll that the element answers on its link.
    fn asked(&mut self, request: &Request) {
        if !self.links.is_empty() {
            self.polls.insert(request.id, Arc::clone(&request.element));
        }
    }

    /// The next event.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.runner.poll_event()
    }

    /// The controller's gauges.
    pub(crate) fn inspect(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.runner.inspect(report);
        let (ups, downs) = (self.links.values(), self.links.values());
        let to_controller = ups.filter_map(|link| link.up.latency()).max();
        let to_element = downs.filter_map(|link| link.down.latency()).max();
        for (name, latency) in [
            ("to_controller_ms", to_controller),
            ("to_element_ms", to_element),
        ] {
            if let Some(latency) = latency {
                report(name, latency.as_secs_f64() * 1e3);
            }
        }
    }
}

/// A controller whose samples and orders are lost independently of each other.
struct Lossy {
    controller: Box<dyn Controller>,
    loss: f64,
    chance: Stream,
}

impl Lossy {
    fn is_lost(&mut self) -> bool {
        self.loss > 0.0 && self.chance.random_bool(self.loss)
    }
}

impl Controller for Lossy {
    fn join(&mut self, queue: &QueueName, role: &str) {
        self.controller.join(queue, role);
    }

    fn leave(&mut self, queue: &QueueName) {
        self.controller.leave(queue);
    }

    fn sample(&mut self, now: Instant, samples: &[QueueSample], orders: &mut Vec<Order>) {
        let arrived = samples.iter().map(|QueueSample { queue, sample }| {
            let is_lost = self.is_lost();
            QueueSample {
                queue: queue.clone(),
                sample: sample.filter(|_| !is_lost),
            }
        });
        let arrived: Vec<QueueSample> = arrived.collect();
        self.controller.sample(now, &arrived, orders);
        orders.retain(|_| !self.is_lost());
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.controller.inspect(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Tally;
    use weir_base::setting::Setting;
    use weir_controller::{Role, Sample};

    const ROLES: &[Role] = &[Role {
        name: "queues",
        queues: [0, 1000],
        sets: &["limit"],
        renews: &["limit"],
        reads: &[],
        about: "queues",
    }];

    /// A test controller: for each queue that answered, orders the number of packets that the queue holds, and reports
    /// the time at which it was asked.
    struct Echo {
        asked: Instant,
    }

    impl Controller for Echo {
        fn join(&mut self, _queue: &QueueName, _role: &str) {}

        fn leave(&mut self, _queue: &QueueName) {}

        fn sample(&mut self, now: Instant, samples: &[QueueSample], orders: &mut Vec<Order>) {
            self.asked = now;
            orders.extend(samples.iter().filter_map(|QueueSample { queue, sample }| {
                Some(Order {
                    queue: queue.clone(),
                    parameter: "limit",
                    value: Setting::Count((*sample)?.backlog.packets),
                })
            }));
        }

        fn inspect(&self, report: &mut dyn FnMut(&'static str, f64)) {
            report("asked_ms", self.asked.as_nanos() as f64 / 1e6);
        }
    }

    /// One element with `queues` queues, at a delay of 100 ms.
    fn channel(loss: f64, queues: usize) -> Channel {
        let delay = Span::from_millis(100);
        let controller = Lossy {
            controller: Box::new(Echo {
                asked: Instant::ZERO,
            }),
            loss,
            chance: Streams::new(1).stream("controller"),
        };
        let timing = Timing {
            period: Span::from_millis(40),
            response_max: RESPONSE_MAX,
        };
        let start = Instant::ZERO + delay;
        let mut runner = Runner::new(Box::new(controller), ROLES, timing, start);
        for port in 0..queues {
            runner.join("router", &port.to_string(), "queues").unwrap();
        }
        Channel {
            runner,
            delay,
            under_way: VecDeque::new(),
            links: BTreeMap::new(),
            polls: BTreeMap::new(),
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    /// All queues answer that they hold `packets`; returns the changes that arrive.
    fn turn(channel: &mut Channel, now: Instant, packets: u64) -> Vec<usize> {
        channel.handle_timeout(now);
        let mut arrived = Vec::new();
        while let Some(request) = channel.poll_request(now) {
            let response = match request.operation {
                Operation::Poll(queues) => {
                    let none = Tally::default();
                    let sample = Sample::new(none, none, Tally { packets, bytes: 0 });
                    let samples = queues.iter().map(|queue| (queue.port.clone(), sample));
                    Response::Samples(samples.collect())
                }
                Operation::Change(changes) => {
                    arrived.push(changes.len());
                    Response::Changed
                }
            };
            channel.handle_response(now, request.id, response);
        }
        arrived
    }

    #[test]
    fn changes_come_a_round_trip_after_their_samples() {
        let mut channel = channel(0.0, 1);
        // Rounds at 0, 40, .. ms; the changes of the first round arrive with the sixth samples.
        for step in 0..8 {
            let now = at(40 * step);
            assert_eq!(channel.poll_timeout(), now);
            let arrived = turn(&mut channel, now, step);
            assert_eq!(arrived.len(), usize::from(step >= 5), "at {now:?}");
            // The controller decides when the samples have reached it.
            channel.inspect(&mut |_, asked| assert_eq!(asked, (100 + 40 * step) as f64));
            assert_eq!(channel.poll_event(), Some(Event::Sampled));
            assert_eq!(channel.poll_event(), None);
        }
    }

    #[test]
    fn a_deadline_is_that_of_the_element() {
        let mut channel = channel(0.0, 1);
        channel.handle_timeout(at(0));
        let poll = channel.poll_request(at(0)).unwrap();
        assert_eq!(poll.deadline, at(40));
        assert_eq!(channel.poll_timeout(), at(40));
    }

    #[test]
    fn samples_and_orders_are_lost_each_by_itself() {
        // A quarter of the thousand samples is lost, and a quarter of the orders for the rest: 562 are left.
        let mut some = channel(0.25, 1000);
        assert!(turn(&mut some, at(0), 1).is_empty());
        let arrived: usize = turn(&mut some, at(200), 1).iter().sum();
        assert!((520..=605).contains(&arrived), "{arrived}");
        let mut all = channel(1.0, 2);
        turn(&mut all, at(0), 7);
        assert!(turn(&mut all, at(200), 7).is_empty());
    }
}

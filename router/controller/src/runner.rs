//! Runs a controller for a changing set of elements: rounds of polls, and changes, as a state machine without I/O.
//!
//! ```text
//!   round:  poll every element ──▶ samples in any order ──▶ Controller ──▶ changes, by element
//!           '---- until all awaited elements have answered, or the deadline ----'
//! ```
//!
//! A [`Runner`] begins a round every period. Its driver carries out each [`poll_request`](Runner::poll_request), passes
//! the result to [`handle_response`](Runner::handle_response), and calls [`handle_timeout`](Runner::handle_timeout) at
//! the time that [`poll_timeout`](Runner::poll_timeout) returns. After each of these calls, and after
//! [`join`](Runner::join) and [`leave`](Runner::leave), there may be new requests and events.
//!
//! A round ends when every element has answered or failed. The runner still polls an element that missed the deadline
//! of its last poll, but does not wait for it until it answers again: a dead element delays the others by one deadline,
//! not by one deadline per round. The deadline of a poll is never after the start of the next round, so rounds do not
//! overlap.
//!
//! Controllers repeat all their orders in every round; the runner sends only new orders
//! ([`sent_orders`](crate::sent_orders)). It repeats all orders for an element after a request to the element has
//! failed, and after the element has joined again.
//!
//! The number of requests in flight is bounded: one poll per element, and the changes of the rounds within
//! `response_max`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_base::setting::{Setting, did_you_mean, nearest};
use weir_base::{Instant, Span};

use crate::contract::{Controller, Order, QueueName, QueueSample, Role, Sample};
use crate::sent_orders::SentOrders;

/// Maximum number of changes in a request, unless one queue has more. The services of routers must accept this number.
pub const CHANGES_MAX: usize = 256;

/// The times of a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time from the start of one round to the start of the next; must exceed zero.
    pub period: Span,
    /// Maximum time for an element to answer a request; for a poll, at most a period.
    pub response_max: Span,
}

/// ID of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// A request to an element.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// ID for the response.
    pub id: RequestId,
    /// The element that receives the request.
    pub element: Arc<str>,
    /// A later response is ignored.
    pub deadline: Instant,
    /// The operation.
    pub operation: Operation,
}

/// The two kinds of requests to elements.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Read the state of these queues.
    Poll(Arc<[PolledQueue]>),
    /// Make all of these changes. The changes of one queue are always in one request, because a single change may
    /// contradict the queue's other parameters.
    Change(Vec<Change>),
}

/// A queue to sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolledQueue {
    /// The port that the queue belongs to.
    pub port: Arc<str>,
    /// The required gauges.
    pub gauges: &'static [&'static str],
}

/// A change of a parameter of a queue's discipline.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The port that the queue belongs to.
    pub port: Arc<str>,
    /// Name of the parameter.
    pub parameter: &'static str,
    /// New value of the parameter.
    pub value: Setting,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// State of the polled queues, by port. A missing queue has not answered.
    Samples(Vec<(Arc<str>, Sample)>),
    /// The changes are active.
    Changed,
    /// The element refuses the request, with the reason.
    Refused(String),
    /// The element was unreachable, or its answer was not understood.
    Failed(String),
}

/// An event of a runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A round has ended: the controller has taken its samples and updated its gauges.
    Sampled,
    /// An element refused a request.
    Refused {
        /// The element.
        element: Arc<str>,
        /// Reason given by the element.
        why: String,
    },
    /// An element was unreachable, or did not answer in time.
    Unanswered {
        /// The element.
        element: Arc<str>,
        /// The reason.
        why: String,
    },
}

/// Why a queue could not join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// The queue has already joined.
    #[error("the queue {0} has already joined")]
    Joined(QueueName),
    /// The controller has no such role.
    #[error("there is no role `{role}`{}", did_you_mean(*nearest))]
    UnknownRole {
        /// Name as written.
        role: String,
        /// The most similar name.
        nearest: Option<&'static str>,
    },
    /// The role already has its maximum number of queues.
    #[error("`{role}` is full: it has the maximum of {max} queues")]
    Full {
        /// Name of the role.
        role: &'static str,
        /// Maximum number of queues.
        max: usize,
    },
}

/// A controller with the elements that it controls.
pub struct Runner {
    controller: Box<dyn Controller>,
    roles: &'static [Role],
    timing: Timing,
    elements: BTreeMap<Arc<str>, Element>,
    /// All queues in the order of joining, with their samples of the latest round.
    samples: Vec<QueueSample>,
    /// Number of queues of each role.
    counts: BTreeMap<&'static str, usize>,
    round: Round,
    next_round: Instant,
    /// Unanswered changes, in the order of their deadlines.
    changes: BTreeMap<RequestId, (Arc<str>, Instant)>,
    last_id: u64,
    requests: VecDeque<Request>,
    events: VecDeque<Event>,
}

/// An element with at least one queue.
#[derive(Default)]
struct Element {
    queues: BTreeMap<Arc<str>, Queue>,
    /// The queues for a poll request; `None` after its queues have changed.
    polled: Option<Arc<[PolledQueue]>>,
    /// Whether the element missed the deadline of its last poll.
    is_silent: bool,
}

/// A queue of an element.
struct Queue {
    role: &'static Role,
    /// Index of the queue in `Runner::samples`.
    place: usize,
    told: SentOrders,
}

/// The latest round.
struct Round {
    began: Instant,
    deadline: Instant,
    /// Unanswered polls.
    polls: BTreeMap<RequestId, Arc<str>>,
    /// Number of unanswered polls that the round waits for.
    waits_for: usize,
    /// Whether the controller has not received the samples of this round yet.
    is_open: bool,
}

impl Runner {
    /// A runner of a controller with these roles, without queues; the first round begins at `start`.
    pub fn new(
        controller: Box<dyn Controller>,
        roles: &'static [Role],
        timing: Timing,
        start: Instant,
    ) -> Self {
        Self {
            controller,
            roles,
            timing,
            elements: BTreeMap::new(),
            samples: Vec::new(),
            counts: BTreeMap::new(),
            round: Round {
                began: start,
                deadline: start,
                polls: BTreeMap::new(),
                waits_for: 0,
                is_open: false,
            },
            next_round: start,
            changes: BTreeMap::new(),
            last_id: 0,
            requests: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Adds a queue in the role of this name; the runner polls it from the next round on. An element exists as long as
    /// it has a queue.
    pub fn join(&mut self, element: &str, port: &str, role: &str) -> Result<(), JoinError> {
        let Some(role) = self.roles.iter().find(|known| known.name == role) else {
            return Err(JoinError::UnknownRole {
                role: role.to_owned(),
                nearest: nearest(role, self.roles.iter().map(|known| known.name)),
            });
        };
        let (count, max) = (self.counts.entry(role.name).or_default(), role.queues[1]);
        let known = self.elements.get_key_value(element);
        let queue = QueueName {
            element: known.map_or_else(|| element.into(), |(name, _)| Arc::clone(name)),
            port: port.into(),
        };
        if known.is_some_and(|(_, element)| element.queues.contains_key(port)) {
            return Err(JoinError::Joined(queue));
        }
        if *count >= max {
            let role = role.name;
            return Err(JoinError::Full { role, max });
        }
        *count += 1;
        let element = self.elements.entry(Arc::clone(&queue.element)).or_default();
        let place = self.samples.len();
        let joined = Queue {
            role,
            place,
            told: SentOrders::default(),
        };
        element.queues.insert(Arc::clone(&queue.port), joined);
        element.polled = None;
        self.controller.join(&queue, role.name);
        let sample = None;
        self.samples.push(QueueSample { queue, sample });
        Ok(())
    }

    /// Removes an element with all its queues and pending requests. Does nothing if the element does not exist.
    pub fn leave(&mut self, now: Instant, element: &str) {
        let Some((name, gone)) = self.elements.remove_entry(element) else {
            return;
        };
        for (port, queue) in gone.queues {
            self.counts.entry(queue.role.name).and_modify(|n| *n -= 1);
            let element = Arc::clone(&name);
            self.controller.leave(&QueueName { element, port });
        }
        self.samples.retain(|sample| sample.queue.element != name);
        for (place, QueueSample { queue, .. }) in self.samples.iter().enumerate() {
            let element = self.elements.get_mut(&queue.element);
            if let Some(queue) = element.and_then(|e| e.queues.get_mut(&queue.port)) {
                queue.place = place;
            }
        }
        self.requests.retain(|request| request.element != name);
        self.changes.retain(|_, (element, _)| *element != name);
        let polled = self.round.polls.len();
        self.round.polls.retain(|_, element| *element != name);
        if self.round.polls.len() < polled && !gone.is_silent {
            self.round.waits_for -= 1;
        }
        self.end_complete_round(now);
    }

    /// The latest time at which to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Instant {
        let polls = (!self.round.polls.is_empty()).then_some(self.round.deadline);
        let change = self.changes.values().next().map(|(_, deadline)| *deadline);
        let deadlines = [polls, change].into_iter().flatten();
        deadlines.fold(self.next_round, Instant::min)
    }

    /// Handles deadlines that have passed, and begins a round if it is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(change) = self.changes.first_entry() {
            if now < change.get().1 {
                break;
            }
            let (element, _) = change.remove();
            self.late(element);
        }
        if self.round.deadline <= now {
            for element in std::mem::take(&mut self.round.polls).into_values() {
                if let Some(element) = self.elements.get_mut(&element) {
                    element.is_silent = true;
                }
                self.late(element);
            }
            self.round.waits_for = 0;
            self.end_complete_round(now);
        }
        if self.next_round <= now {
            self.begin_round(now);
        }
    }

    /// Handles the outcome of a request. The outcome is ignored if the deadline has passed or the element has left.
    pub fn handle_response(&mut self, now: Instant, id: RequestId, response: Response) {
        if let Some(element) = self.round.polls.remove(&id) {
            self.take_samples(&element, &response);
            self.note(element, response);
            self.end_complete_round(now);
        } else if let Some((element, _)) = self.changes.remove(&id) {
            self.note(element, response);
        }
    }

    /// The next request. An element must carry out its requests in this order.
    pub fn poll_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The controller's gauges.
    pub fn inspect(&self, report: &mut dyn FnMut(&'static str, f64)) {
        self.controller.inspect(report);
    }

    /// Begins a round and polls every element. If `now` is late, missed rounds are skipped.
    fn begin_round(&mut self, now: Instant) {
        self.next_round += self.timing.period;
        if self.next_round <= now {
            self.next_round = now + self.timing.period;
        }
        for sample in &mut self.samples {
            sample.sample = None;
        }
        let elements = &mut self.elements;
        if elements.values().all(|element| element.is_silent) {
            // A round that waits for no element would end before any element can answer.
            elements.values_mut().for_each(|e| e.is_silent = false);
        }
        self.round.began = now;
        self.round.deadline = self.next_round.min(now + self.timing.response_max);
        self.round.waits_for = elements.values().filter(|e| !e.is_silent).count();
        self.round.is_open = true;
        for (name, element) in elements {
            self.last_id += 1;
            let id = RequestId(self.last_id);
            self.round.polls.insert(id, Arc::clone(name));
            self.requests.push_back(Request {
                id,
                element: Arc::clone(name),
                deadline: self.round.deadline,
                operation: Operation::Poll(element.polled()),
            });
        }
        self.end_complete_round(now);
    }

    /// Adds the result of a poll to the round, if the round is open.
    fn take_samples(&mut self, element: &Arc<str>, response: &Response) {
        let Some(element) = self.elements.get_mut(element) else {
            return;
        };
        if !element.is_silent {
            self.round.waits_for -= 1;
        }
        let Response::Samples(samples) = response else {
            return;
        };
        element.is_silent = false;
        if !self.round.is_open {
            return;
        }
        for (port, sample) in samples {
            if let Some(queue) = element.queues.get(port) {
                self.samples[queue.place].sample = Some(*sample);
            }
        }
    }

    /// Passes the samples to the controller, unless the round still waits for elements.
    fn end_complete_round(&mut self, now: Instant) {
        if !self.round.is_open || self.round.waits_for > 0 {
            return;
        }
        self.round.is_open = false;
        let mut orders = Vec::new();
        self.controller
            .sample(self.round.began, &self.samples, &mut orders);
        self.events.push_back(Event::Sampled);
        // Skip orders for an element that has left: it would not answer.
        orders.retain(|order| {
            let element = self.elements.get_mut(&order.queue.element);
            let queue = element.and_then(|element| element.queues.get_mut(&order.queue.port));
            queue.is_some_and(|queue| queue.told.tell(now, queue.role, order))
        });
        for (element, changes) in by_element(orders) {
            self.last_id += 1;
            let (id, deadline) = (RequestId(self.last_id), now + self.timing.response_max);
            self.changes.insert(id, (Arc::clone(&element), deadline));
            self.requests.push_back(Request {
                id,
                element,
                deadline,
                operation: Operation::Change(changes),
            });
        }
    }

    fn note(&mut self, element: Arc<str>, response: Response) {
        if matches!(response, Response::Refused(_) | Response::Failed(_)) {
            self.forget_orders(&element);
        }
        self.events.extend(match response {
            Response::Refused(why) => Some(Event::Refused { element, why }),
            Response::Failed(why) => Some(Event::Unanswered { element, why }),
            Response::Samples(_) | Response::Changed => None,
        });
    }

    /// Forgets the orders sent to an element, because the element may not have carried them out.
    fn forget_orders(&mut self, element: &str) {
        let queues = self.elements.get_mut(element).into_iter();
        for queue in queues.flat_map(|element| element.queues.values_mut()) {
            queue.told.clear();
        }
    }

    fn late(&mut self, element: Arc<str>) {
        self.forget_orders(&element);
        let why = "no answer in time".to_owned();
        self.events.push_back(Event::Unanswered { element, why });
    }
}

impl Element {
    fn polled(&mut self) -> Arc<[PolledQueue]> {
        let queue = |(port, queue): (&Arc<str>, &Queue)| PolledQueue {
            port: Arc::clone(port),
            gauges: queue.role.reads,
        };
        let polled = self
            .polled
            .get_or_insert_with(|| self.queues.iter().map(queue).collect());
        Arc::clone(polled)
    }
}

/// Groups orders into the changes of requests, in the order in which the elements first occur.
fn by_element(orders: Vec<Order>) -> Vec<(Arc<str>, Vec<Change>)> {
    let mut requests: Vec<(Arc<str>, Vec<Change>)> = Vec::new();
    // Index of the latest request of each element.
    let mut latest: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    for of_queue in orders.chunk_by(|a, b| a.queue == b.queue) {
        let element = &of_queue[0].queue.element;
        let place = latest.get(element).copied();
        let has_room = |place: &usize| requests[*place].1.len() + of_queue.len() <= CHANGES_MAX;
        let place = place.filter(has_room).unwrap_or_else(|| {
            requests.push((Arc::clone(element), Vec::new()));
            latest.insert(Arc::clone(element), requests.len() - 1);
            requests.len() - 1
        });
        requests[place]
            .1
            .extend(of_queue.iter().map(|order| Change {
                port: Arc::clone(&order.queue.port),
                parameter: order.parameter,
                value: order.value.clone(),
            }));
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_base::Tally;

    const ROLES: &[Role] = &[
        Role {
            name: "held",
            queues: [0, 1000],
            sets: &["limit"],
            renews: &[],
            reads: &["depth"],
            about: "queues that are controlled",
        },
        Role {
            name: "seen",
            queues: [0, 1],
            sets: &[],
            renews: &[],
            reads: &[],
            about: "a queue that is sampled",
        },
    ];
    const TIMING: Timing = Timing {
        period: Span::from_millis(40),
        response_max: Span::from_millis(30),
    };

    /// A controller that orders each `held` queue that answered to limit itself to its current backlog.
    #[derive(Default)]
    struct Echo {
        held: Vec<QueueName>,
        began: Instant,
        /// Queues of the latest round, and the number of queues that answered.
        queues: [usize; 2],
    }

    impl Controller for Echo {
        fn join(&mut self, queue: &QueueName, role: &str) {
            if role == "held" {
                self.held.push(queue.clone());
            }
        }

        fn leave(&mut self, queue: &QueueName) {
            self.held.retain(|held| held != queue);
        }

        fn sample(&mut self, now: Instant, samples: &[QueueSample], orders: &mut Vec<Order>) {
            let answered = samples.iter().filter(|s| s.sample.is_some());
            self.began = now;
            self.queues = [samples.len(), answered.clone().count()];
            let held = answered.filter(|s| self.held.contains(&s.queue));
            orders.extend(held.map(|QueueSample { queue, sample }| Order {
                queue: queue.clone(),
                parameter: "limit",
                value: Setting::Count(sample.map_or(0, |s| s.backlog.packets)),
            }));
        }

        fn inspect(&self, report: &mut dyn FnMut(&'static str, f64)) {
            report("began", self.began.as_nanos() as f64 / 1e6);
            report("queues", self.queues[0] as f64);
            report("answered", self.queues[1] as f64);
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    fn runner(queues: &[(&str, &str, &str)]) -> Runner {
        let mut runner = Runner::new(Box::new(Echo::default()), ROLES, TIMING, Instant::ZERO);
        for (element, port, role) in queues {
            runner.join(element, port, role).unwrap();
        }
        runner
    }

    /// All pending requests, with their elements.
    fn requests(runner: &mut Runner) -> Vec<(RequestId, String, Operation)> {
        let next = || runner.poll_request();
        let all = std::iter::from_fn(next).map(|r| (r.id, r.element.to_string(), r.operation));
        all.collect()
    }

    fn events(runner: &mut Runner) -> Vec<Event> {
        std::iter::from_fn(|| runner.poll_event()).collect()
    }

    /// A response in which these ports hold these numbers of packets.
    fn holding(ports: &[(&str, u64)]) -> Response {
        let sample = |packets: u64| {
            let bytes = 1000 * packets;
            Sample::new(Tally::default(), Tally::default(), Tally { packets, bytes })
        };
        let samples = ports.iter().map(|(port, n)| ((*port).into(), sample(*n)));
        Response::Samples(samples.collect())
    }

    /// The changes of a request as "port parameter value".
    fn changes(operation: &Operation) -> Vec<String> {
        match operation {
            Operation::Change(changes) => changes
                .iter()
                .map(|c| format!("{} {} {}", c.port, c.parameter, c.value))
                .collect(),
            Operation::Poll(_) => panic!("{operation:?} is no change"),
        }
    }

    fn gauge(runner: &Runner, name: &str) -> f64 {
        let mut value = None;
        runner.inspect(&mut |known, v| {
            if known == name {
                value = Some(v);
            }
        });
        value.unwrap()
    }

    fn unanswered(element: &str) -> Event {
        Event::Unanswered {
            element: element.into(),
            why: "no answer in time".into(),
        }
    }

    #[test]
    fn samples_come_in_any_order_and_changes_go_by_element() {
        let mut runner = runner(&[
            ("b", "x", "held"),
            ("a", "x", "held"),
            ("b", "y", "held"),
            ("a", "z", "seen"),
        ]);
        assert_eq!(runner.poll_timeout(), at(0));
        runner.handle_timeout(at(0));
        let polls = requests(&mut runner);
        let ports = |operation: &Operation| match operation {
            Operation::Poll(queues) => queues
                .iter()
                .map(|queue| (queue.port.to_string(), queue.gauges.len()))
                .collect::<Vec<_>>(),
            Operation::Change(_) => panic!("{operation:?} is no poll"),
        };
        let asked: Vec<_> = polls.iter().map(|(_, e, o)| (&**e, ports(o))).collect();
        let queue = |port: &str, gauges: usize| (port.to_owned(), gauges);
        assert_eq!(
            asked,
            [
                ("a", vec![queue("x", 1), queue("z", 0)]),
                ("b", vec![queue("x", 1), queue("y", 1)])
            ]
        );
        assert_eq!(runner.poll_timeout(), at(30));
        // The second element answers first, with one queue too many; nothing happens until the other one answers.
        let of_b = holding(&[("y", 7), ("x", 5), ("other", 1)]);
        runner.handle_response(at(2), polls[1].0, of_b);
        assert_eq!(
            (requests(&mut runner), events(&mut runner)),
            (vec![], vec![])
        );
        // The first element omits one queue.
        runner.handle_response(at(3), polls[0].0, holding(&[("x", 6)]));
        assert_eq!(events(&mut runner), [Event::Sampled]);
        assert_eq!(gauge(&runner, "began"), 0.0);
        assert_eq!(
            [gauge(&runner, "queues"), gauge(&runner, "answered")],
            [4.0, 3.0]
        );
        let sent = requests(&mut runner);
        let sent: Vec<_> = sent.iter().map(|(_, e, o)| (&**e, changes(o))).collect();
        let lines = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            sent,
            [
                ("b", lines(&["x limit 5", "y limit 7"])),
                ("a", lines(&["x limit 6"]))
            ]
        );
    }

    #[test]
    fn a_dead_element_costs_the_others_one_deadline() {
        let mut runner = runner(&[("dead", "x", "held"), ("good", "x", "held")]);
        // In the first round, the runner waits for the element until its deadline.
        runner.handle_timeout(at(0));
        let polls = requests(&mut runner);
        runner.handle_response(at(1), polls[1].0, holding(&[("x", 1)]));
        assert_eq!(events(&mut runner), []);
        assert_eq!(runner.poll_timeout(), at(30));
        runner.handle_timeout(at(30));
        assert_eq!(events(&mut runner), [unanswered("dead"), Event::Sampled]);
        let sent = requests(&mut runner);
        assert_eq!((sent.len(), &*sent[0].1), (1, "good"));
        runner.handle_response(at(31), sent[0].0, Response::Changed);
        // Its late answers are ignored.
        runner.handle_response(at(32), polls[0].0, holding(&[("x", 9)]));
        assert_eq!(
            (requests(&mut runner), events(&mut runner)),
            (vec![], vec![])
        );
        assert_eq!(runner.poll_timeout(), at(40));
        // In later rounds the runner polls it without waiting for it.
        for round in [40, 80] {
            runner.handle_timeout(at(round));
            let polls = requests(&mut runner);
            assert_eq!(polls.len(), 2);
            runner.handle_response(at(round + 1), polls[1].0, holding(&[("x", round / 40 + 1)]));
            assert_eq!(events(&mut runner), [Event::Sampled]);
            let sent = requests(&mut runner);
            runner.handle_response(at(round + 2), sent[0].0, Response::Changed);
            if round == 80 {
                // It answers, too late for this round; the next round waits for it.
                runner.handle_response(at(105), polls[0].0, holding(&[("x", 3)]));
            }
            runner.handle_timeout(at(round + 30));
            let late = if round == 40 {
                vec![unanswered("dead")]
            } else {
                vec![]
            };
            assert_eq!(events(&mut runner), late);
        }
        runner.handle_timeout(at(120));
        let polls = requests(&mut runner);
        runner.handle_response(at(121), polls[1].0, holding(&[("x", 4)]));
        assert_eq!(events(&mut runner), []);
        runner.handle_response(at(122), polls[0].0, holding(&[("x", 4)]));
        assert_eq!(events(&mut runner), [Event::Sampled]);
        assert_eq!(requests(&mut runner).len(), 2);
    }

    #[test]
    fn where_all_are_dead_all_are_waited_for() {
        let mut runner = runner(&[("a", "x", "held"), ("b", "x", "held")]);
        runner.handle_timeout(at(0));
        requests(&mut runner);
        runner.handle_timeout(at(30));
        events(&mut runner);
        runner.handle_timeout(at(40));
        let polls = requests(&mut runner);
        runner.handle_response(at(41), polls[0].0, holding(&[("x", 1)]));
        assert_eq!(events(&mut runner), []);
        runner.handle_response(at(42), polls[1].0, holding(&[("x", 1)]));
        assert_eq!(events(&mut runner), [Event::Sampled]);
        assert_eq!(gauge(&runner, "answered"), 2.0);
    }

    #[test]
    fn an_element_that_cannot_be_reached_is_waited_for_until_that_is_known() {
        let mut runner = runner(&[("a", "x", "held"), ("b", "x", "held")]);
        runner.handle_timeout(at(0));
        let polls = requests(&mut runner);
        runner.handle_response(at(1), polls[0].0, holding(&[("x", 1)]));
        let refused = Response::Failed("connection refused".into());
        runner.handle_response(at(2), polls[1].0, refused);
        let why = "connection refused".into();
        let element = "b".into();
        let failed = Event::Unanswered { element, why };
        assert_eq!(events(&mut runner), [failed, Event::Sampled]);
        assert_eq!(gauge(&runner, "answered"), 1.0);
    }

    #[test]
    fn elements_come_and_go_within_a_round() {
        let mut runner = runner(&[("a", "x", "held"), ("b", "x", "held"), ("b", "y", "held")]);
        runner.handle_timeout(at(0));
        let polls = requests(&mut runner);
        runner.handle_response(at(1), polls[0].0, holding(&[("x", 1)]));
        runner.join("c", "x", "held").unwrap();
        // The last element that the round waits for leaves, so the round ends.
        runner.leave(at(2), "b");
        runner.leave(at(2), "b");
        assert_eq!(events(&mut runner), [Event::Sampled]);
        assert_eq!(
            [gauge(&runner, "queues"), gauge(&runner, "answered")],
            [2.0, 1.0]
        );
        let sent = requests(&mut runner);
        assert_eq!((sent.len(), &*sent[0].1), (1, "a"));
        runner.handle_response(at(3), polls[1].0, holding(&[("x", 9)]));
        // It joins again; its earlier requests have no effect.
        runner.join("b", "y", "held").unwrap();
        runner.leave(at(4), "a");
        runner.handle_response(at(5), sent[0].0, Response::Refused("too late".into()));
        runner.handle_timeout(at(40));
        let polls = requests(&mut runner);
        let asked: Vec<_> = polls.iter().map(|(_, element, _)| &**element).collect();
        assert_eq!(asked, ["b", "c"]);
        runner.handle_response(at(41), polls[0].0, holding(&[("y", 3)]));
        runner.handle_response(at(42), polls[1].0, holding(&[("x", 4)]));
        assert_eq!(events(&mut runner), [Event::Sampled]);
        let sent = requests(&mut runner);
        // In the order of joining.
        assert_eq!(changes(&sent[0].2), ["x limit 4"]);
        assert_eq!(changes(&sent[1].2), ["y limit 3"]);
    }

    /// A round in which `a` holds this number of packets; returns the resulting change.
    fn round(runner: &mut Runner, now: Instant, packets: u64) -> Option<RequestId> {
        runner.handle_timeout(now);
        let [(poll, ..)] = requests(runner)[..] else {
            panic!("one poll")
        };
        runner.handle_response(now, poll, holding(&[("x", packets)]));
        requests(runner).first().map(|(id, ..)| *id)
    }

    #[test]
    fn what_is_in_force_is_not_ordered_again() {
        let mut runner = runner(&[("a", "x", "held")]);
        let mut began = at(0);
        // A round, and the response to its change.
        let mut next = |runner: &mut Runner, packets, response: Option<Response>| {
            let (now, change) = (began, round(runner, began, packets));
            began += TIMING.period;
            if let (Some(change), Some(response)) = (change, response) {
                runner.handle_response(now, change, response);
            }
            change.map(|_| now)
        };
        let done = || Some(Response::Changed);
        assert!(next(&mut runner, 1, done()).is_some());
        assert_eq!(next(&mut runner, 1, done()), None);
        // A different value is sent, and then the first value again.
        assert!(next(&mut runner, 2, done()).is_some());
        let failed = Response::Failed("gone".into());
        assert!(next(&mut runner, 1, Some(failed)).is_some());
        // An order that was lost or refused is sent again, even without a failure report.
        let refused = Response::Refused("no".into());
        assert!(next(&mut runner, 1, Some(refused)).is_some());
        assert!(next(&mut runner, 1, None).is_some());
        let now = next(&mut runner, 1, done()).unwrap();
        assert_eq!(next(&mut runner, 1, done()), None);
        // An element that joins again has received no orders.
        runner.leave(now + TIMING.period, "a");
        runner.join("a", "x", "held").unwrap();
        let begin = next(&mut runner, 1, done()).unwrap();
        // An order is repeated after `REPEAT`, because others may have changed the parameter.
        let again = std::iter::repeat_with(|| next(&mut runner, 1, done()));
        let again = again.take(1000).flatten().next().unwrap();
        assert_eq!(again.since(begin), crate::sent_orders::REPEAT);
    }

    #[test]
    fn results_of_changes_are_events() {
        let mut runner = runner(&[("a", "x", "held"), ("b", "x", "held")]);
        runner.handle_timeout(at(0));
        let polls = requests(&mut runner);
        for (id, ..) in &polls {
            runner.handle_response(at(5), *id, holding(&[("x", 1)]));
        }
        let sent = requests(&mut runner);
        assert_eq!(events(&mut runner), [Event::Sampled]);
        let why = "x: limit must be at least 2".to_owned();
        runner.handle_response(at(6), sent[0].0, Response::Refused(why.clone()));
        let element = "a".into();
        assert_eq!(events(&mut runner), [Event::Refused { element, why }]);
        // The other element has until 35 ms.
        assert_eq!(runner.poll_timeout(), at(35));
        runner.handle_timeout(at(35));
        assert_eq!(events(&mut runner), [unanswered("b")]);
        runner.handle_response(at(36), sent[1].0, Response::Changed);
        assert_eq!(runner.poll_timeout(), at(40));
    }

    #[test]
    fn a_late_round_begins_at_once_and_the_next_ones_in_step() {
        let mut runner = runner(&[]);
        let mut began = Vec::new();
        // The rounds at 120 and 160 ms are missed: one round starts at once, not three.
        for now in [0, 39, 45, 79, 80, 170, 209, 210] {
            runner.handle_timeout(at(now));
            if !events(&mut runner).is_empty() {
                began.push(now);
            }
        }
        assert_eq!(began, [0, 45, 80, 170, 210]);
    }

    #[test]
    fn who_may_join() {
        let mut runner = runner(&[("a", "x", "held"), ("a", "y", "seen")]);
        let mut why =
            |element, port, role| runner.join(element, port, role).unwrap_err().to_string();
        assert_eq!(why("a", "x", "held"), "the queue x of a has already joined");
        assert_eq!(
            why("b", "x", "sen"),
            "there is no role `sen`; did you mean `seen`?"
        );
        assert_eq!(
            why("b", "x", "seen"),
            "`seen` is full: it has the maximum of 1 queues"
        );
        // None of these failed attempts has an effect.
        runner.leave(at(0), "a");
        runner.join("b", "x", "seen").unwrap();
        runner.handle_timeout(at(0));
        assert_eq!(requests(&mut runner).len(), 1);
    }

    #[test]
    fn many_changes_are_several_requests_and_no_queue_is_split() {
        let element: Arc<str> = "a".into();
        let order = |n: usize, parameter: &'static str| Order {
            queue: QueueName {
                element: Arc::clone(&element),
                port: format!("p{n}").into(),
            },
            parameter,
            value: Setting::Flag(true),
        };
        let of_queue = |n: usize| ["flow_control", "committed", "excess"].map(|p| order(n, p));
        let requests = by_element((0..200).flat_map(of_queue).collect());
        let sizes: Vec<usize> = requests.iter().map(|(_, changes)| changes.len()).collect();
        assert_eq!(sizes, [255, 255, 90]);
        let first = &requests[1].1[0];
        assert_eq!((&*first.port, first.parameter), ("p85", "flow_control"));
        assert!(by_element(Vec::new()).is_empty());
    }

    /// The next step of a conversation.
    #[derive(Clone, Debug)]
    enum Step {
        /// This number of milliseconds passes.
        Pass(u64),
        /// The unanswered request with this index is answered.
        Answer(usize),
        Fail(usize),
        Join(u8, u8),
        Leave(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1_u64..50).prop_map(Step::Pass),
            (0_usize..8).prop_map(Step::Answer),
            (0_usize..8).prop_map(Step::Answer),
            (0_usize..8).prop_map(Step::Fail),
            (0_u8..4, 0_u8..3).prop_map(|(element, port)| Step::Join(element, port)),
            (0_u8..4).prop_map(Step::Leave),
        ]
    }

    proptest! {
        /// For any behaviour of elements: each round samples once, no element has two polls at a time, and the number
        /// of requests in flight is bounded.
        #[test]
        fn any_conversation(steps in prop::collection::vec(step(), 1..200)) {
            let mut runner = runner(&[("e0", "p0", "held"), ("e1", "p0", "held")]);
            let (mut now, mut rounds) = (0, 0);
            let mut open: Vec<Request> = Vec::new();
            for step in steps {
                match step {
                    Step::Pass(millis) => now += millis,
                    Step::Answer(place) | Step::Fail(place) if place < open.len() => {
                        let Request { id, operation, .. } = open.remove(place);
                        let response = match (&step, operation) {
                            (Step::Fail(_), _) => Response::Failed("gone".into()),
                            (_, Operation::Poll(_)) => holding(&[("p0", 1), ("p1", 2)]),
                            (_, Operation::Change(_)) => Response::Changed,
                        };
                        runner.handle_response(at(now), id, response);
                    }
                    Step::Join(element, port) => {
                        let _ = runner.join(&format!("e{element}"), &format!("p{port}"), "held");
                    }
                    Step::Leave(element) => {
                        let name = format!("e{element}");
                        runner.leave(at(now), &name);
                        open.retain(|request| *request.element != *name);
                    }
                    Step::Answer(_) | Step::Fail(_) => {}
                }
                if runner.poll_timeout() <= at(now) {
                    rounds += u64::from(runner.next_round <= at(now));
                    runner.handle_timeout(at(now));
                }
                prop_assert!(runner.poll_timeout() > at(now));
                open.retain(|request| request.deadline > at(now));
                open.extend(std::iter::from_fn(|| runner.poll_request()));
                let polls = |request: &&Request| matches!(request.operation, Operation::Poll(_));
                let mut polled: Vec<_> = open.iter().filter(polls).map(|r| &r.element).collect();
                polled.sort();
                prop_assert!(polled.windows(2).all(|two| two[0] != two[1]));
                // The changes of a round live for 30 ms, and rounds are 40 ms apart, except after a late round.
                prop_assert!(open.len() <= 4 * 3, "{open:?}");
                let sampled = events(&mut runner).iter().filter(|e| **e == Event::Sampled).count() as u64;
                prop_assert!(sampled <= rounds, "{sampled} of {rounds}");
                rounds -= sampled;
                prop_assert!(rounds <= 1);
                prop_assert_eq!(rounds == 1, runner.round.is_open);
            }
        }
    }
}

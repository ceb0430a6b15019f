//! One controller over its FEs and devices.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_base::Instant;
use weir_controller::runner::{Event, Operation, Request, RequestId, Response, Timing};
use weir_controller::{Role, Runner, Sample};
use weir_model::Value;

use super::element::{Element, Port, Watch};
use super::redirect::{self, REDIRECT};
use super::sample::{QUEUES, by_port, sample};
use super::section::{ControllerPlan, QueueKind};
use super::{Command, CommandId, Done, NOTE_INTERVAL, Note, RESPONSE_MAX, Report};

/// One controller.
pub(super) struct Steering {
    /// Index among all controllers.
    place: usize,
    name: String,
    kind: &'static str,
    runner: Runner,
    elements: BTreeMap<Arc<str>, Element>,
    /// The element of each command in progress.
    open: BTreeMap<u64, Arc<str>>,
    /// For each watch, its element, its port and the index of its event.
    watches: BTreeMap<u64, (Arc<str>, Arc<str>, usize)>,
    last_number: u64,
    commands: VecDeque<(CommandId, Command)>,
    notes: VecDeque<Note>,
}

impl Steering {
    /// Creates a controller without FEs, whose first round starts at `now`.
    pub(super) fn new(now: Instant, place: usize, plan: &ControllerPlan) -> Self {
        let timing = Timing {
            period: plan.period,
            response_max: RESPONSE_MAX,
        };
        let manual = plan.spec.manual();
        let mut elements: BTreeMap<Arc<str>, Element> = BTreeMap::new();
        for queue in &plan.queues {
            let element = elements.entry(Arc::clone(&queue.element)).or_default();
            element.kind = queue.kind;
            let port = Port::new(queue.role, queue.kind, plan.period);
            element.ports.insert(Arc::clone(&queue.port), port);
        }
        let mut steering = Self {
            place,
            name: plan.name.clone(),
            kind: manual.name,
            runner: Runner::new(plan.spec.build(), manual.roles, timing, now),
            elements,
            open: BTreeMap::new(),
            watches: BTreeMap::new(),
            last_number: 0,
            commands: VecDeque::new(),
            notes: VecDeque::new(),
        };
        let devices = steering
            .elements
            .iter()
            .filter(|(_, element)| element.kind == QueueKind::Device);
        for name in devices
            .map(|(name, _)| Arc::clone(name))
            .collect::<Vec<_>>()
        {
            steering.join(now, &name);
        }
        steering
    }

    pub(super) fn handle_associated(&mut self, now: Instant, fe: &str) {
        let Some((name, element)) = self.elements.get_key_value(fe) else {
            return;
        };
        if element.kind == QueueKind::Device {
            return;
        }
        let name = Arc::clone(name);
        self.handle_lost(now, fe); // the FE may associate again without a reported loss
        self.join(now, &name);
        self.watch(&name);
        self.pump(now);
    }

    pub(super) fn handle_lost(&mut self, now: Instant, fe: &str) {
        let Some(element) = self
            .elements
            .get_mut(fe)
            .filter(|e| e.is_there && e.kind != QueueKind::Device)
        else {
            return;
        };
        element.forget();
        self.runner.leave(now, fe);
        self.pump(now);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.runner.poll_timeout() <= now {
            self.runner.handle_timeout(now);
            self.pump(now);
        }
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.runner.poll_timeout()
    }

    pub(super) fn poll_command(&mut self) -> Option<(CommandId, Command)> {
        self.commands.pop_front()
    }

    pub(super) fn poll_note(&mut self) -> Option<Note> {
        self.notes.pop_front()
    }

    pub(super) fn report(&self, now: Instant) -> Report {
        let mut gauges = Vec::new();
        self.runner
            .inspect(&mut |name, value| gauges.push((name, value)));
        let trouble = |(name, element): (&Arc<str>, &Element)| {
            let (at, why) = element.trouble.as_ref()?;
            (now.since(*at) < NOTE_INTERVAL).then(|| (Arc::clone(name), why.clone()))
        };
        Report {
            name: self.name.clone(),
            kind: self.kind,
            elements: [
                self.elements.values().filter(|e| e.is_there).count(),
                self.elements.len(),
            ],
            gauges,
            troubles: self.elements.iter().filter_map(trouble).collect(),
        }
    }

    pub(super) fn handle_done(&mut self, now: Instant, number: u64, done: Done) {
        let Some(name) = self.open.remove(&number) else {
            return;
        };
        if let Some((_, port, event)) = self.watches.get(&number) {
            let (port, event) = (Arc::clone(port), *event);
            self.watched(now, number, (&name, &port, event), done);
        } else if let Some(element) = self.elements.get_mut(&name) {
            let is_changed = element.changing.as_ref().is_some_and(|(n, _)| *n == number);
            if element.reading == Some(number) {
                self.read(now, &name, done);
            } else if is_changed && let Some((_, requests)) = element.changing.take() {
                self.changed(now, &requests, done);
                self.change(&name);
            }
        }
        self.pump(now);
    }

    pub(super) fn handle_report(&mut self, now: Instant, watch: u64, report: &Value) {
        let Some((name, port, _)) = self.watches.get(&watch) else {
            return;
        };
        let (name, port) = (Arc::clone(name), Arc::clone(port));
        let element = self
            .elements
            .get_mut(&name)
            .filter(|element| element.is_there);
        let Some(element) = element else {
            return;
        };
        let kind = element.kind;
        let Some(queue) = element.ports.get_mut(&port) else {
            return;
        };
        // A report without a sample has no information; the controller soon reads the table instead.
        if let Some(sample) = taken(kind, report, queue.role)
            && let Err(why) = queue.take(now, Some(sample))
        {
            self.note(now, &name, format!("{port}: {why}"));
        }
    }

    pub(super) fn handle_unwatched(&mut self, now: Instant, watch: u64) {
        let Some((name, port, event)) = self.watches.remove(&watch) else {
            return;
        };
        let Some(element) = self.elements.get_mut(&name) else {
            return;
        };
        let queue = element.ports.get_mut(&port);
        if let Some((_, state)) = queue.and_then(|queue| queue.watches.get_mut(event)) {
            *state = Watch::No;
        }
        if element.is_there {
            self.watch(&name);
            self.pump(now);
        }
    }

    /// Adds the queues of an element to the runner.
    fn join(&mut self, now: Instant, name: &Arc<str>) {
        let Some(element) = self.elements.get_mut(name) else {
            return;
        };
        element.is_there = true;
        let ports = element
            .ports
            .iter()
            .map(|(port, state)| (Arc::clone(port), state.role.name));
        for (port, role) in ports.collect::<Vec<_>>() {
            if let Err(error) = self.runner.join(name, &port, role) {
                self.note(now, name, error.to_string());
            }
        }
    }

    /// Subscribes to the queues of an FE that have no subscription.
    fn watch(&mut self, name: &Arc<str>) {
        let Some(element) = self.elements.get_mut(name) else {
            return;
        };
        let mut begun = Vec::new();
        for (port, queue) in &mut element.ports {
            for (place, (event, watch)) in queue.watches.iter_mut().enumerate() {
                if *watch == Watch::No {
                    *watch = Watch::Begins;
                    begun.push((Arc::clone(port), place, *event));
                }
            }
        }
        let kind = element.kind;
        for (port, place, event) in begun {
            let (class, instance) = match kind {
                QueueKind::Redirect => (REDIRECT, "1".into()),
                QueueKind::Port | QueueKind::Device => (QUEUES, Arc::clone(&port)),
            };
            let command = Command::Watch {
                fe: Arc::clone(name),
                class,
                instance,
                event: event.name,
                filter: event.filter,
            };
            let number = self.command(name, command);
            self.watches.insert(number, (Arc::clone(name), port, place));
        }
    }

    fn watched(
        &mut self,
        now: Instant,
        number: u64,
        (name, port, event): (&Arc<str>, &Arc<str>, usize),
        done: Done,
    ) {
        let element = self.elements.get_mut(name);
        let queue = element.and_then(|element| element.ports.get_mut(port));
        let Some((_, watch)) = queue.and_then(|queue| queue.watches.get_mut(event)) else {
            return;
        };
        let why = match done {
            Done::Refused(why) | Done::Silent(why) => why,
            _ => return *watch = Watch::Holds,
        };
        *watch = Watch::No;
        self.watches.remove(&number);
        self.note(
            now,
            name,
            format!("{port} is polled, because it cannot be watched: {why}"),
        );
    }

    /// Handles the result of reading an element's queues.
    fn read(&mut self, now: Instant, name: &Arc<str>, done: Done) {
        let Some(element) = self.elements.get_mut(name) else {
            return;
        };
        element.reading = None;
        let waits = element.waits.take();
        let (refused, faults) = match done {
            Done::Refused(why) => (Some(Response::Refused(why.clone())), vec![why]),
            Done::Silent(why) => (Some(Response::Failed(why.clone())), vec![why]),
            done => (None, take(now, element, &done)),
        };
        // Recent reports count even if the table could not be read.
        let fresh = element.fresh(now);
        let response = match refused {
            Some(refused) if fresh.is_empty() => refused,
            _ => Response::Samples(fresh),
        };
        for fault in faults {
            self.note(now, name, fault);
        }
        if let Some(request) = waits {
            self.runner.handle_response(now, request, response);
        }
    }

    /// Answers the runner's requests that belong to a change.
    fn changed(&mut self, now: Instant, requests: &[RequestId], done: Done) {
        let response = match done {
            Done::Refused(why) => Response::Refused(why),
            Done::Silent(why) => Response::Failed(why),
            _ => Response::Changed,
        };
        for request in requests {
            self.runner.handle_response(now, *request, response.clone());
        }
    }

    /// Starts the queued changes of an FE if no change is in progress.
    fn change(&mut self, name: &Arc<str>) {
        let Some(element) = self.elements.get_mut(name) else {
            return;
        };
        let (kind, Some(changes)) = (element.kind, element.next()) else {
            return;
        };
        let command = Command::Steer {
            fe: Arc::clone(name),
            changes: changes.components(kind),
        };
        let number = self.command(name, command);
        if let Some(element) = self.elements.get_mut(name) {
            element.changing = Some((number, changes.requests));
        }
    }

    /// Executes the runner's requests, and logs its events.
    fn pump(&mut self, now: Instant) {
        while let Some(request) = self.runner.poll_request() {
            self.carry_out(now, request);
        }
        while let Some(event) = self.runner.poll_event() {
            match event {
                Event::Sampled => {}
                Event::Refused { element, why } | Event::Unanswered { element, why } => {
                    self.note(now, &element, why);
                }
            }
        }
    }

    fn carry_out(&mut self, now: Instant, request: Request) {
        let Request {
            id, element: name, ..
        } = request;
        let Some(element) = self.elements.get_mut(&name) else {
            return;
        };
        match request.operation {
            Operation::Change(orders) => {
                element.order(id, orders);
                self.change(&name);
            }
            Operation::Poll(_) => {
                if let Some(samples) = element.held(now) {
                    let response = Response::Samples(samples);
                    return self.runner.handle_response(now, id, response);
                }
                element.waits = Some(id);
                if element.reading.is_some() {
                    return;
                }
                let read = |class| Command::Read {
                    fe: Arc::clone(&name),
                    class,
                };
                let command = match element.kind {
                    QueueKind::Device => Command::Sample {
                        device: Arc::clone(&name),
                        ports: element.ports.keys().cloned().collect(),
                    },
                    QueueKind::Port => read(QUEUES),
                    QueueKind::Redirect => read(REDIRECT),
                };
                let number = self.command(&name, command);
                if let Some(element) = self.elements.get_mut(&name) {
                    element.reading = Some(number);
                }
            }
        }
    }

    /// Queues a command for the driver; returns its number.
    fn command(&mut self, element: &Arc<str>, command: Command) -> u64 {
        self.last_number += 1;
        let number = self.last_number;
        let id = CommandId {
            controller: self.place,
            number,
        };
        self.open.insert(number, Arc::clone(element));
        self.commands.push_back((id, command));
        number
    }

    /// Records an error; the log gets at most one entry per element and [`NOTE_INTERVAL`].
    fn note(&mut self, now: Instant, name: &Arc<str>, why: String) {
        let Some(element) = self.elements.get_mut(name) else {
            return;
        };
        if element
            .noted
            .is_none_or(|at| now.since(at) >= NOTE_INTERVAL)
        {
            element.noted = Some(now);
            self.notes.push_back(Note {
                controller: self.name.clone(),
                element: Arc::clone(name),
                why: why.clone(),
            });
        }
        element.trouble = Some((now, why));
    }
}

/// Builds a sample from a row or a report of a queue.
fn taken(kind: QueueKind, value: &Value, role: &Role) -> Option<Sample> {
    match kind {
        QueueKind::Redirect => redirect::sample(value),
        QueueKind::Port | QueueKind::Device => sample(value, role.reads),
    }
}

/// Stores the samples that were read for the ports of an element; returns the errors.
fn take(now: Instant, element: &mut Element, done: &Done) -> Vec<String> {
    let rows = match done {
        Done::Rows(rows) => by_port(rows),
        _ => BTreeMap::new(),
    };
    let mut faults = Vec::new();
    for (name, port) in &mut element.ports {
        let sample = match (done, element.kind) {
            (Done::Samples(all), _) => {
                let of_port = all.iter().find(|(port, _)| port == name);
                of_port.map(|(_, sample)| *sample)
            }
            (Done::Rows(value), QueueKind::Redirect) => redirect::sample(value),
            (_, kind) => rows
                .get(&**name)
                .and_then(|row| taken(kind, row, port.role)),
        };
        if let Err(why) = port.take(now, sample) {
            faults.push(format!("{name}: {why}"));
        }
    }
    faults
}

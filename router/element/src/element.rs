//! The state machine: the state in force, waiting requests and events, and the job under way.
//!
//! Order of calls: any `handle_*`, then [`Element::poll_output`] until it gives nothing. An effect that it gives
//! is carried out and reported by [`Element::handle_completion`] before the next one comes. When nothing comes,
//! wait for whatever is first: a request, an event, or [`Element::poll_timeout`], which is reported by
//! [`Element::handle_timeout`].
//!
//! One job runs at a time, from its first effect to its last; `job.rs` has the order of each. Everything that comes in
//! the meantime waits: the end of the router first, then a handover to or from the kernel, then events, then requests as
//! they came. Only a start is given up when the router shall stop, and only before it has taken anything from the
//! kernel.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_base::Instant;
use weir_model::Fault;

use crate::effect::{Completion, Effect, Event, InForce, Notice, Output, Place, Request, Ticket};
use crate::job::{Job, Progress};
use crate::state::State;

/// Requests that wait; more are refused.
const REQUESTS_MAX: usize = 256;

/// A router, without the machine that it runs on.
#[derive(Debug, Default)]
pub struct Element {
    state: State,
    job: Option<Job>,
    requests: VecDeque<(Ticket, Request)>,
    stop: Option<Ticket>,
    is_stopping: bool,
}

impl Element {
    /// An element that has not started.
    pub fn new() -> Self {
        Self::default()
    }

    /// The state in force, once the forwarding thread has started.
    pub fn in_force(&self) -> Option<&Arc<InForce>> {
        self.state.in_force.as_ref()
    }

    /// Somebody asks for something; the answer carries the same ticket.
    pub fn handle_request(&mut self, now: Instant, ticket: Ticket, request: Request) {
        if self.is_stopping || self.stop.is_some() {
            return self.state.refuse(ticket, "the router stops");
        }
        match request {
            Request::Stop => {
                self.stop = Some(ticket);
                self.give_up_start();
            }
            _ if self.requests.len() >= REQUESTS_MAX => {
                return self
                    .state
                    .refuse(ticket, "too many changes wait; try again");
            }
            request => self.requests.push_back((ticket, request)),
        }
        self.proceed(now);
    }

    /// A device did something.
    pub fn handle_event(&mut self, now: Instant, event: Event) {
        let port = match &event {
            Event::Carrier { port, works } => {
                let (port, works) = (port.clone(), *works);
                return self.state.notice(Notice::Carrier { port, works });
            }
            Event::Renamed { place, from } => {
                let (place, from) = (place.clone(), from.clone());
                self.state.change(|in_force| {
                    if in_force
                        .plan
                        .ports
                        .iter()
                        .any(|port| port.name == place.port)
                    {
                        let Place { port, interface } = place.clone();
                        in_force.renamed.insert(port, interface);
                    }
                });
                self.state.notice(Notice::Renamed {
                    place: place.clone(),
                    from,
                });
                place.port
            }
            Event::Back(place) => place.port.clone(),
            Event::Lost { port } => port.clone(),
            Event::Kernel { findings, bridges } => {
                self.state.findings.clone_from(findings);
                self.state.bridges.clone_from(bridges);
                if let Some(job) = self.job.as_mut().filter(|_| self.state.must_hand_back()) {
                    job.hurry(now);
                }
                return self.proceed(now);
            }
        };
        self.state.events.insert(port, event);
        self.proceed(now);
    }

    /// The effect that was given last has ended. The end of one whose job was given up means nothing.
    pub fn handle_completion(&mut self, now: Instant, completion: Completion) {
        if let Some(job) = &mut self.job {
            job.complete(now, completion, &mut self.state);
            self.proceed(now);
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.proceed(now);
    }

    /// The next thing to do; none before something is handled.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.state.outputs.pop_front()
    }

    /// When [`Self::handle_timeout`] should be called, if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.job.as_ref().and_then(Job::timeout)
    }

    /// Gives up a start that has taken nothing from the kernel yet.
    fn give_up_start(&mut self) {
        let Some(ticket) = self.job.as_ref().and_then(Job::start_to_give_up) else {
            return;
        };
        self.job = None;
        self.state.in_force = None;
        let outputs = &mut self.state.outputs;
        outputs.retain(|output| !matches!(output, Output::Effect(_)));
        outputs.push_back(Output::Effect(Effect::Release { kept: Vec::new() }));
        self.state.refuse(ticket, "stopped while it started");
    }

    /// Goes on with the job, or with the next one.
    fn proceed(&mut self, now: Instant) {
        loop {
            let Some(job) = &mut self.job else {
                match self.next_job() {
                    Some(job) => self.job = Some(job),
                    None => return,
                }
                continue;
            };
            match job.advance(now, &mut self.state) {
                Progress::UnderWay => return,
                Progress::Finished(answer) => {
                    if let Some((ticket, answer)) = answer {
                        self.state.answer(ticket, answer);
                    }
                    self.job = None;
                }
            }
        }
    }

    /// The next job, if anything waits.
    fn next_job(&mut self) -> Option<Job> {
        if let Some(ticket) = self.stop.take() {
            self.is_stopping = true;
            while let Some((waiting, _)) = self.requests.pop_front() {
                self.state.refuse(waiting, "the router stops");
            }
            let in_force = self.state.in_force.clone();
            if in_force.is_none() {
                self.state.answer(ticket, Ok(Vec::new())); // it holds nothing
            }
            return in_force.map(|in_force| Job::stop(ticket, &in_force));
        }
        if self.is_stopping {
            return None;
        }
        if let Some(in_force) = self.state.in_force.clone() {
            if let Some(job) = self.handover() {
                return Some(job);
            }
            while let Some((port, event)) = self.state.events.pop_first() {
                let is_ours = in_force.plan.ports.iter().any(|p| p.name == port);
                match event {
                    _ if !is_ours => {} // removed in the meantime
                    Event::Lost { port } => return Some(Job::lost(port)),
                    Event::Back(place) | Event::Renamed { place, .. } => {
                        return Some(Job::take_again(place));
                    }
                    Event::Carrier { .. } | Event::Kernel { .. } => {}
                }
            }
        }
        while let Some((ticket, request)) = self.requests.pop_front() {
            match self.job_of(ticket, request) {
                Ok(job) => return Some(job),
                Err(why) => self.state.answer(ticket, Err(why)),
            }
        }
        None
    }

    /// Hands forwarding to the kernel, or takes it back, as the state of the kernel demands.
    fn handover(&mut self) -> Option<Job> {
        let in_force = self.state.in_force.clone()?;
        let why = self.state.reasons();
        if why == in_force.handed_back {
            return None;
        }
        self.state
            .change(|in_force| in_force.handed_back.clone_from(&why));
        if why.is_empty() {
            return Some(Job::take_back());
        }
        self.state.notice(Notice::HandedBack { why });
        in_force
            .handed_back
            .is_empty()
            .then(|| Job::hand_back(&in_force))
    }

    fn job_of(&mut self, ticket: Ticket, request: Request) -> Result<Job, Vec<Fault>> {
        match (request, self.state.in_force.clone()) {
            (Request::Start(plan, facts), None) => {
                Job::start(ticket, plan, &facts, &mut self.state)
            }
            (Request::Apply(plan), Some(_)) => Ok(Job::apply(ticket, plan)),
            (Request::Change(operations), Some(in_force)) => {
                let plan = in_force.plan.after(&operations)?;
                Ok(Job::change(ticket, plan, &operations, &in_force))
            }
            (Request::Check(operations), Some(in_force)) => {
                let plan = in_force.plan.after(&operations)?;
                Ok(Job::check(ticket, plan, &in_force))
            }
            (_, None) => Err(vec![Fault::of_machine("the router has not started")]),
            (_, Some(_)) => Err(vec![Fault::of_machine("the router runs already")]),
        }
    }
}

//! The state machine: the active state, waiting requests and events, and the current job.
//!
//! Calling order: any `handle_*`, then [`RouterCore::poll_output`] until it returns `None`. The caller carries out each
//! returned effect and reports it by [`RouterCore::handle_completion`]; only then does the next effect follow. When no
//! output is left, wait for a request, an event, or the time of [`RouterCore::poll_timeout`], which the caller reports
//! by [`RouterCore::handle_timeout`].
//!
//! One job runs at a time, from its first effect to its last; `job.rs` documents the order of effects of each job.
//! Inputs that arrive in the meantime wait, in this order of priority: a stop, then a handover to or from the kernel,
//! then events, then requests in order of arrival. A stop aborts only a start, and only before the start has taken
//! any transit from the kernel.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_base::Instant;
use weir_model::Fault;

use crate::effect::{
    ActiveState, Completion, Effect, Event, Notice, Output, Place, Request, Ticket,
};
use crate::job::{Job, Progress};
use crate::state::State;

/// Maximum waiting requests; further requests are refused.
const REQUESTS_MAX: usize = 256;

/// A router, without the machine that it runs on.
#[derive(Debug, Default)]
pub struct RouterCore {
    state: State,
    job: Option<Job>,
    requests: VecDeque<(Ticket, Request)>,
    stop: Option<Ticket>,
    is_stopping: bool,
}

impl RouterCore {
    /// An element that has not started.
    pub fn new() -> Self {
        Self::default()
    }

    /// The active state, once the forwarding thread has started.
    pub fn in_force(&self) -> Option<&Arc<ActiveState>> {
        self.state.in_force.as_ref()
    }

    /// Takes a request; its answer carries the same ticket.
    pub fn handle_request(&mut self, now: Instant, ticket: Ticket, request: Request) {
        if self.is_stopping || self.stop.is_some() {
            return self.state.refuse(ticket, "the router is stopping");
        }
        match request {
            Request::Stop => {
                self.stop = Some(ticket);
                self.give_up_start();
            }
            _ if self.requests.len() >= REQUESTS_MAX => {
                return self
                    .state
                    .refuse(ticket, "too many pending changes; retry later");
            }
            request => self.requests.push_back((ticket, request)),
        }
        self.proceed(now);
    }

    /// Takes an event of a device or of the machine.
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

    /// Takes the result of the last effect. The result is ignored if the job of the effect was aborted.
    pub fn handle_completion(&mut self, now: Instant, completion: Completion) {
        if let Some(job) = &mut self.job {
            job.complete(now, completion, &mut self.state);
            self.proceed(now);
        }
    }

    /// Takes the current time.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.proceed(now);
    }

    /// The next output; `None` if the caller must first handle an input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.state.outputs.pop_front()
    }

    /// When the caller must call [`Self::handle_timeout`], if ever.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.job.as_ref().and_then(Job::timeout)
    }

    /// Aborts a start that has not yet taken any transit from the kernel.
    fn give_up_start(&mut self) {
        let Some(ticket) = self.job.as_ref().and_then(Job::start_to_give_up) else {
            return;
        };
        self.job = None;
        self.state.in_force = None;
        let outputs = &mut self.state.outputs;
        outputs.retain(|output| !matches!(output, Output::Effect(_)));
        outputs.push_back(Output::Effect(Effect::Release { kept: Vec::new() }));
        self.state.refuse(ticket, "stopped during the start");
    }

    /// Continues the current job, or starts the next job.
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

    /// The next job, if an input waits.
    fn next_job(&mut self) -> Option<Job> {
        if let Some(ticket) = self.stop.take() {
            self.is_stopping = true;
            while let Some((waiting, _)) = self.requests.pop_front() {
                self.state.refuse(waiting, "the router is stopping");
            }
            let in_force = self.state.in_force.clone();
            if in_force.is_none() {
                self.state.answer(ticket, Ok(Vec::new())); // the router holds no transit
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
                    _ if !is_ours => {} // the port was removed in the meantime
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

    /// Hands forwarding to the kernel, or takes it back, as the kernel state requires.
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
            (_, Some(_)) => Err(vec![Fault::of_machine("the router is already running")]),
        }
    }
}

//! One job from its first effect to its last.
//!
//! ```text
//!  start:              claim, open -> tables, thread -> take
//!  change:   survey -> claim, open -> give back -> unprotect -> exchange -> release -> take
//!  check:    survey
//!  stop:                              give back
//!  lost:               list open ---------------> unprotect
//!  back:                                          unprotect -> claim -> take -> release
//!  hand back:                         give back -> unprotect
//!  take back:                                                           take
//!
//!  take:      list open -> take: from a moment on the router forwards -> wait -> settle
//!  give back: give back: from a moment on the kernel forwards -> wait -> close -> drained?
//! ```
//!
//! In case of doubt the kernel forwards a frame. A change that cannot claim and open its interfaces changes nothing;
//! once it has given a port back, it continues despite failures, and transit that it could not take stays with the
//! kernel until the next change. The router takes no transit while the kernel state requires that the kernel forwards.

mod handover;
mod outcome;

use std::collections::VecDeque;
use std::sync::Arc;

use weir_base::{Instant, Span};
use weir_lfb::Plan;
use weir_lfb::port::PortPlan;
use weir_model::{Fault, Operation};

use self::handover::{release, taken};
use crate::admission::{Admitted, Facts, admit, is_kept};
use crate::effect::{ActiveState, Answer, Completion, Effect, Notice, Output, Place, Ticket};
use crate::state::State;

/// Maximum time that a stop or a change waits for queues to empty. It covers a second's worth of packets in the
/// slowest sensible queue.
const DRAIN_TIME_MAX: Span = Span::from_secs(3);
/// Time between two checks whether the queues are empty.
const DRAIN_POLL: Span = Span::from_millis(2);

/// A running job.
#[derive(Debug)]
pub(crate) struct Job {
    task: Task,
    stage: Stage,
    /// The stages that follow.
    stages: &'static [Stage],
    /// The remaining steps of this stage.
    steps: VecDeque<Step>,
    under_way: Option<Effect>,
    wait_until: Option<Instant>,
    drain_until: Option<Instant>,
    /// Why the request is refused.
    failure: Option<Vec<Fault>>,
    /// Ports whose transit could not be taken from the kernel, one line each.
    untaken: Vec<String>,
}

/// The goal of a job.
#[derive(Debug)]
enum Task {
    Start {
        ticket: Ticket,
        plan: Plan,
        admitted: Admitted,
    },
    Change {
        ticket: Ticket,
        plan: Plan,
        /// Ports whose components are set, even to the same values.
        named: Vec<String>,
        survey_all: bool,
        /// The admission, once the machine has been surveyed.
        admitted: Option<Admitted>,
    },
    Stop {
        ticket: Ticket,
        ports: Vec<String>,
    },
    Lost {
        port: String,
    },
    TakeAgain(Place),
    /// Let the kernel forward at all ports, which stay open.
    HandBack {
        ports: Vec<String>,
    },
    /// Let the router forward again.
    TakeBack,
}

/// A part of a job, in which every failure has the same consequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Survey,
    Prepare,
    Launch,
    IsOpen,
    GiveBack,
    Unprotect,
    Exchange,
    Release,
    Take,
}

#[derive(Debug)]
enum Step {
    Do(Effect),
    Wait(Instant),
}

/// The progress of a job.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The job waits for a completion, or for time to pass.
    UnderWay,
    /// The job has ended, with the answer to its request if it has one.
    Finished(Option<(Ticket, Answer)>),
}

impl Job {
    /// The first job of an element; fails if the plan is not admitted.
    pub(crate) fn start(
        ticket: Ticket,
        plan: Plan,
        facts: &Facts,
        state: &mut State,
    ) -> Result<Self, Vec<Fault>> {
        let admitted = admit(None, &plan, facts)?;
        for doubt in &admitted.doubts {
            state.notice(Notice::Doubt(doubt.clone()));
        }
        state.findings.clone_from(&facts.findings);
        state.bridges.clone_from(&facts.bridges);
        let task = Task::Start {
            ticket,
            plan,
            admitted,
        };
        Ok(Self::new(task))
    }

    /// Switches to another plan.
    pub(crate) fn apply(ticket: Ticket, plan: Plan) -> Self {
        Self::new(Task::Change {
            ticket,
            plan,
            named: Vec::new(),
            survey_all: true,
            admitted: None,
        })
    }

    /// Switches to a plan that differs by single operations. If no port is new or gets another interface, the job needs
    /// only few facts about the machine.
    pub(crate) fn change(
        ticket: Ticket,
        plan: Plan,
        operations: &[Operation],
        in_force: &ActiveState,
    ) -> Self {
        let port = |operation: &Operation| match operation.path().segments()[..] {
            ["port", port, ..] => Some(port.to_owned()),
            _ => None,
        };
        let old = &in_force.plan.ports;
        Self::new(Task::Change {
            ticket,
            survey_all: plan.ports.iter().any(|p| !is_kept(p, old)),
            plan,
            named: operations.iter().filter_map(port).collect(),
            admitted: None,
        })
    }

    /// Checks whether the router could switch to a plan.
    pub(crate) fn check(ticket: Ticket, plan: Plan, in_force: &ActiveState) -> Self {
        Self {
            stages: &[Stage::Survey],
            ..Self::change(ticket, plan, &[], in_force)
        }
    }

    /// Gives all transit back to the kernel.
    pub(crate) fn stop(ticket: Ticket, in_force: &ActiveState) -> Self {
        let ports = in_force.taken.keys().cloned().collect();
        Self::new(Task::Stop { ticket, ports })
    }

    /// Gives the transit of a port with a lost device to the kernel, so that the kernel forwards as soon as the
    /// interface works again.
    pub(crate) fn lost(port: String) -> Self {
        Self::new(Task::Lost { port })
    }

    /// Takes the transit of a port again: its interface has reappeared or was renamed, and the rules may have been
    /// lost with the old interface.
    pub(crate) fn take_again(place: Place) -> Self {
        Self::new(Task::TakeAgain(place))
    }

    /// Gives the transit of all ports to the kernel, and keeps their devices.
    pub(crate) fn hand_back(in_force: &ActiveState) -> Self {
        let ports = in_force.taken.keys().cloned().collect();
        Self::new(Task::HandBack { ports })
    }

    /// Takes the transit of all ports.
    pub(crate) fn take_back() -> Self {
        Self::new(Task::TakeBack)
    }

    /// Stops waiting for queues to empty.
    pub(crate) fn hurry(&mut self, now: Instant) {
        self.drain_until = Some(now);
    }

    fn new(task: Task) -> Self {
        use Stage::{
            Exchange, GiveBack, IsOpen, Launch, Prepare, Release, Survey, Take, Unprotect,
        };
        let stages: &[Stage] = match &task {
            Task::Start { .. } => &[Prepare, Launch, Take],
            Task::Change { .. } => &[
                Survey, Prepare, GiveBack, Unprotect, Exchange, Release, Take,
            ],
            Task::Stop { .. } => &[GiveBack],
            Task::Lost { .. } => &[IsOpen, Unprotect],
            Task::TakeAgain(_) => &[Unprotect, Prepare, Take, Release],
            Task::HandBack { .. } => &[GiveBack, Unprotect],
            Task::TakeBack => &[Take],
        };
        Self {
            task,
            stage: stages[0],
            stages,
            steps: VecDeque::new(),
            under_way: None,
            wait_until: None,
            drain_until: None,
            failure: None,
            untaken: Vec::new(),
        }
    }

    /// When the job continues, if it waits for time to pass.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        self.wait_until
    }

    /// The ticket of a start that has not yet taken any transit from the kernel.
    pub(crate) fn start_to_give_up(&self) -> Option<Ticket> {
        match self.task {
            Task::Start { ticket, .. } if self.stage != Stage::Take => Some(ticket),
            _ => None,
        }
    }

    /// Advances the job as far as possible.
    pub(crate) fn advance(&mut self, now: Instant, state: &mut State) -> Progress {
        if self.under_way.is_some() || self.wait_until.is_some_and(|at| now < at) {
            return Progress::UnderWay;
        }
        self.wait_until = None;
        loop {
            match self.steps.pop_front() {
                Some(Step::Wait(at)) if now < at => {
                    self.wait_until = Some(at);
                    return Progress::UnderWay;
                }
                Some(Step::Wait(_)) => {}
                Some(Step::Do(effect)) => {
                    self.under_way = Some(effect.clone());
                    state.outputs.push_back(Output::Effect(effect));
                    return Progress::UnderWay;
                }
                None => {
                    let is_refused = self.failure.is_some();
                    let follows = |stage: &Stage| !is_refused || *stage == Stage::Release;
                    let [stage, rest @ ..] = self.stages else {
                        return Progress::Finished(self.answer(state));
                    };
                    self.stages = rest;
                    if follows(stage) {
                        self.stage = *stage;
                        self.enter(state);
                    }
                }
            }
        }
    }

    /// Enqueues the steps of a new stage.
    fn enter(&mut self, state: &mut State) {
        let effects: Vec<Effect> = match (self.stage, &self.task) {
            (
                Stage::Survey,
                Task::Change {
                    plan, survey_all, ..
                },
            ) => vec![Effect::Survey {
                plan: Box::new(plan.clone()),
                all: *survey_all,
            }],
            (Stage::Prepare, Task::TakeAgain(place)) => vec![Effect::Claim(place.clone())],
            (Stage::Prepare, _) => self.claim_and_open(),
            (Stage::Launch, Task::Start { plan, admitted, .. }) => vec![
                Effect::ReadTables,
                Effect::Launch(Box::new(plan.clone()), admitted.limits),
            ],
            (Stage::IsOpen, Task::Lost { port }) => vec![Effect::ListOpen(vec![port.clone()])],
            (Stage::GiveBack, Task::Change { .. }) if self.gone().is_empty() => Vec::new(),
            (Stage::GiveBack, _) => {
                vec![Effect::GiveBack(self.places_to_leave(state))]
            }
            (Stage::Unprotect, _) => {
                let places = self.places_to_leave(state).into_iter();
                places.map(Effect::Unprotect).collect()
            }
            (Stage::Exchange, _) => self.exchange(state),
            (Stage::Release, _) if self.keeps_all_ports() => Vec::new(),
            (Stage::Release, _) => vec![release(state)],
            (Stage::Take, _) => match self.places_to_take(state) {
                places if places.is_empty() => Vec::new(),
                places => vec![Effect::ListOpen(
                    places.into_iter().map(|place| place.port).collect(),
                )],
            },
            (stage, task) => unreachable!("{task:?} has no stage {stage:?}"),
        };
        self.steps.extend(effects.into_iter().map(Step::Do));
    }

    fn admitted(&self) -> Option<&Admitted> {
        match &self.task {
            Task::Start { admitted, .. } => Some(admitted),
            Task::Change { admitted, .. } => admitted.as_ref(),
            _ => None,
        }
    }

    /// Whether a change neither claims an interface nor gives up a claim.
    fn keeps_all_ports(&self) -> bool {
        let admitted = self.admitted();
        admitted.is_some_and(|admitted| admitted.added.is_empty() && admitted.gone.is_empty())
    }

    /// Ports whose transit goes back to the kernel.
    fn gone(&self) -> Vec<String> {
        match &self.task {
            Task::Stop { ports, .. } | Task::HandBack { ports } => ports.clone(),
            Task::Lost { port } | Task::TakeAgain(Place { port, .. }) => vec![port.clone()],
            _ => self.admitted().map(|a| a.gone.clone()).unwrap_or_default(),
        }
    }

    fn claim_and_open(&self) -> Vec<Effect> {
        let (Task::Start { plan, .. } | Task::Change { plan, .. }) = &self.task else {
            return Vec::new();
        };
        let added = self.admitted().map(|a| &a.added[..]).unwrap_or_default();
        let claims = added.iter().map(|port| Effect::Claim(place(port)));
        let mode = plan.router.mode;
        let opened = added.iter().map(|port| Effect::Open(port.clone(), mode));
        claims.chain(opened).collect()
    }

    fn exchange(&self, state: &mut State) -> Vec<Effect> {
        let Task::Change {
            plan,
            named,
            admitted: Some(admitted),
            ..
        } = &self.task
        else {
            return Vec::new();
        };
        let Admitted { added, changed, .. } = admitted;
        let is_added = |port: &PortPlan| added.iter().any(|a| a.name == port.name);
        let touched = |port: &&PortPlan| named.contains(&port.name) || changed.contains(port);
        let changed = plan.ports.iter().filter(|port| !is_added(port));
        let changed = changed.filter(touched).cloned().collect();
        let before = state.in_force.as_ref().map(|in_force| &in_force.plan);
        let redirect = before.map(|before| &before.redirect) != Some(&plan.redirect);
        let layers = before.map(|before| &before.layers) != Some(&plan.layers);
        let redirect = redirect.then(|| Arc::clone(&plan.redirect));
        let layers = layers.then(|| Arc::clone(&plan.layers));
        // Without an answer the change is still on its way to a slow forwarding thread, so record the state that
        // will be active afterwards.
        state.change(|in_force| {
            in_force.plan = plan.clone();
            in_force
                .renamed
                .retain(|port, _| !admitted.gone.contains(port));
        });
        // Waiting events of these ports are from their old devices.
        state.events.retain(|port, _| !admitted.gone.contains(port));
        vec![Effect::Exchange {
            gone: admitted.gone.clone(),
            added: added.clone(),
            changed,
            redirect,
            layers,
        }]
    }

    /// Handles the result of the current effect.
    pub(crate) fn complete(&mut self, now: Instant, completion: Completion, state: &mut State) {
        let Some(effect) = self.under_way.take() else {
            return;
        };
        let follow: Vec<Step> = match (effect, completion) {
            (effect, Completion::Failed(why)) => return self.fail(&effect, why, state),
            (Effect::Survey { .. }, Completion::Facts(facts)) => return self.admit(&facts, state),
            (Effect::ListOpen(_), Completion::Open(ports)) => self.opened(&ports, state),
            (Effect::Launch(plan, limits), Completion::Done) => {
                state.put_in_force(ActiveState {
                    plan: *plan,
                    taken: Default::default(),
                    limits,
                    handed_back: Vec::new(),
                    renamed: Default::default(),
                });
                Vec::new()
            }
            (Effect::Take(places, _), Completion::Moment(from)) => taken(places, from, state),
            (Effect::GiveBack(places), Completion::Moment(until)) => self.given_back(places, until),
            (ask @ Effect::AskDrained { .. }, Completion::Drained(false)) => {
                let until = *self.drain_until.get_or_insert(now + DRAIN_TIME_MAX);
                if now < until {
                    vec![Step::Wait(now + DRAIN_POLL), Step::Do(ask)]
                } else {
                    let ports = self.removed();
                    state.notice(Notice::NotDrained { ports });
                    Vec::new()
                }
            }
            (Effect::Unprotect(place), _) => {
                state.change(|in_force| drop(in_force.taken.remove(&place.port)));
                Vec::new()
            }
            _ => Vec::new(),
        };
        for step in follow.into_iter().rev() {
            self.steps.push_front(step);
        }
    }

    /// Checks the plan with the results of the survey.
    fn admit(&mut self, facts: &Facts, state: &mut State) {
        let (
            Task::Change {
                plan,
                survey_all,
                admitted,
                ..
            },
            Some(in_force),
        ) = (&mut self.task, &state.in_force)
        else {
            return;
        };
        match admit(Some((&in_force.plan, in_force.limits)), plan, facts) {
            Ok(admission) => {
                if *survey_all {
                    state.findings.clone_from(&facts.findings);
                    state.bridges.clone_from(&facts.bridges);
                }
                for doubt in &admission.doubts {
                    let doubt = Notice::Doubt(doubt.clone());
                    state.outputs.push_back(Output::Notice(doubt));
                }
                *admitted = Some(admission);
            }
            Err(faults) => {
                self.failure = Some(faults);
                self.stages = &[]; // nothing was claimed
            }
        }
    }
}

/// A port at the interface named in its plan.
fn place(port: &PortPlan) -> Place {
    Place {
        port: port.name.clone(),
        interface: port.interface.clone(),
    }
}

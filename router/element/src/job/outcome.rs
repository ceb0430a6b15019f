//! The consequences of a failure, and the answer of a job.

use weir_lfb::port::PortPlan;
use weir_model::{ComponentPath, Fault};

use super::{Job, Stage, Step, Task};
use crate::effect::{Answer, Effect, Notice, Place, Ticket, UNCHANGED};
use crate::state::State;

impl Job {
    /// Handles a failure; its consequence depends on the stage of the job.
    pub(super) fn fail(&mut self, effect: &Effect, why: String, state: &mut State) {
        let why = described(effect, &why);
        match (self.stage, &self.task) {
            (_, Task::Start { .. }) => {
                self.failure = Some(vec![fault(effect, why)]);
                self.steps.clear();
                state.in_force = None;
            }
            (Stage::GiveBack, _) => {
                let ports = self.removed();
                state.notice(Notice::NotGivenBack { ports, why });
                self.steps.clear();
            }
            (Stage::Unprotect, Task::TakeAgain(_)) | (Stage::Prepare, Task::TakeAgain(_)) => {
                self.kernel_forwards(&self.gone(), why, state);
                self.steps.clear();
                self.stages = &[Stage::Release];
            }
            (Stage::Unprotect, task) => {
                let is_lost = matches!(task, Task::Lost { .. });
                let Effect::Unprotect(Place { port, .. }) = effect else {
                    return;
                };
                let port = port.clone();
                if let Task::HandBack { .. } = task {
                    state.change(|in_force| drop(in_force.taken.remove(&port))); // so that it is taken again
                }
                state.notice(Notice::RulesStay { port, is_lost, why });
            }
            (Stage::Take, _) => self.fail_to_take(effect, why, state),
            (Stage::IsOpen | Stage::Release, _) => self.steps.clear(),
            _ => {
                self.failure = Some(vec![fault(effect, why)]);
                self.steps.clear();
            }
        }
    }

    /// Ports that cannot be taken together are taken one by one, so that the router gets the other ports if the
    /// kernel refuses the rules of one port.
    fn fail_to_take(&mut self, effect: &Effect, why: String, state: &mut State) {
        let ports = match effect {
            Effect::Take(places, mode) if places.len() > 1 => {
                let alone = |place: &Place| Step::Do(Effect::Take(vec![place.clone()], *mode));
                self.steps.extend(places.iter().map(alone));
                return;
            }
            Effect::Take(places, _) | Effect::Settle(places) => {
                places.iter().map(|place| place.port.clone()).collect()
            }
            Effect::Begin(ports, _) | Effect::ListOpen(ports) => ports.clone(),
            _ => Vec::new(),
        };
        let of_others = |step: &Step| matches!(step, Step::Do(Effect::Take(..)));
        while self.steps.front().is_some_and(|step| !of_others(step)) {
            self.steps.pop_front();
        }
        self.kernel_forwards(&ports, why, state);
    }

    fn kernel_forwards(&mut self, ports: &[String], why: String, state: &mut State) {
        let named: Vec<_> = ports.iter().map(|port| format!("`{port}`")).collect();
        let (plural, that) = match ports {
            [_] => ("", "that port"),
            _ => ("s", "those ports"),
        };
        self.untaken.push(format!(
            "port{plural} {}: {why}: the kernel forwards packets that arrive at {that} until the next change",
            named.join(", ")
        ));
        let ports = ports.join(", ");
        state.notice(Notice::KernelForwards { ports, why });
    }

    /// The answer to the request, if the job has one.
    pub(super) fn answer(&mut self, state: &mut State) -> Option<(Ticket, Answer)> {
        let answer = match self.failure.take() {
            Some(why) => Err(why),
            None => Ok(self.messages(state)),
        };
        match self.task {
            Task::Start { ticket, .. }
            | Task::Change { ticket, .. }
            | Task::Stop { ticket, .. } => Some((ticket, answer)),
            Task::TakeBack => {
                state.notice(Notice::TakenBack);
                None
            }
            Task::Lost { .. } | Task::TakeAgain(_) | Task::HandBack { .. } => None,
        }
    }

    /// The components that a change has changed, and the ports whose transit the router does not have yet.
    fn messages(&self, state: &State) -> Vec<String> {
        let (Task::Change { .. }, Some(admitted)) = (&self.task, self.admitted()) else {
            return Vec::new();
        };
        let mut messages = admitted.differences.clone();
        if messages.is_empty() {
            messages.push(UNCHANGED.to_owned());
        }
        if !self.untaken.is_empty() || self.stage == Stage::Survey {
            messages.extend(self.untaken.iter().cloned());
            return messages; // a check stops after its survey
        }
        let kernel = state.reasons();
        if !kernel.is_empty() {
            messages.push(format!(
                "the kernel forwards at all ports: {}",
                kernel.join("; ")
            ));
            return messages;
        }
        let waits = |port: &&PortPlan| state.taken(&port.name).is_none();
        let waiting = admitted.added.iter().filter(waits);
        messages.extend(waiting.map(|PortPlan { name, interface, .. }| {
            format!("port `{name}`: interface `{interface}` is down or missing; the port waits for it")
        }));
        messages
    }
}

/// The fault of a request whose effect failed; `why` names the port.
fn fault(effect: &Effect, why: String) -> Fault {
    let port = match effect {
        Effect::Claim(Place { port, .. }) => Some(port),
        Effect::Open(port, _) => Some(&port.name),
        _ => None,
    };
    let fault = Fault::of_machine(why).naming_place();
    match port {
        Some(port) => Fault {
            path: ComponentPath::new(["port", port, "interface"]),
            ..fault
        },
        None => fault,
    }
}

/// The failure, with its cause.
fn described(effect: &Effect, why: &str) -> String {
    match effect {
        Effect::Claim(Place { port, interface }) => {
            format!("port `{port}`: interface `{interface}`: {why}")
        }
        Effect::Open(port, _) => {
            format!(
                "port `{}`: cannot open `{}`: {why}",
                port.name, port.interface
            )
        }
        Effect::Take(..) | Effect::Settle(_) => {
            format!("cannot take over forwarding from the kernel: {why}")
        }
        Effect::GiveBack(_) => format!("cannot return forwarding to the kernel: {why}"),
        _ => why.to_owned(),
    }
}

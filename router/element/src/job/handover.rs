//! Handover of transit from the kernel to the router, and back, at a moment in the near future.

use weir_base::Span;
use weir_lfb::port::PortPlan;

use super::{Job, Step, Task};
use crate::effect::{Effect, Moment, Place};
use crate::state::State;

/// Maximum time from a frame's timestamp until the kernel's rule sees the frame; the rule compares this later time.
const SETTLE: Span = Span::from_millis(1);

impl Job {
    /// Ports whose transit the router should have, but does not have.
    pub(super) fn places_to_take(&self, state: &State) -> Vec<Place> {
        if !state.reasons().is_empty() {
            return Vec::new();
        }
        if let Task::TakeAgain(place) = &self.task {
            return vec![place.clone()];
        }
        let Some(in_force) = state.in_force.as_deref() else {
            return Vec::new();
        };
        let ports = in_force.plan.ports.iter();
        let untaken = ports.filter(|port| state.taken(&port.name).is_none());
        let place = |port: &PortPlan| Place {
            port: port.name.clone(),
            interface: in_force.interface(port).to_owned(),
        };
        untaken.map(place).collect()
    }

    /// The steps after [`Effect::ListOpen`]: these ports have their device.
    pub(super) fn opened(&mut self, ports: &[String], state: &State) -> Vec<Step> {
        if let Task::Lost { port } = &self.task {
            if ports.contains(port) {
                self.stages = &[]; // the device has come back in the meantime
            }
            return Vec::new();
        }
        let mut places = self.places_to_take(state);
        places.retain(|place| ports.contains(&place.port)); // the kernel forwards at the others until they are open
        match state.in_force.as_ref() {
            Some(in_force) if !places.is_empty() => {
                vec![Step::Do(Effect::Take(places, in_force.plan.router.mode))]
            }
            _ => Vec::new(),
        }
    }

    /// The steps after [`Effect::GiveBack`]: the kernel forwards at these places from a moment on.
    pub(super) fn given_back(&self, places: Vec<Place>, until: Moment) -> Vec<Step> {
        let is_removal = self.removed().is_some();
        let ports = self.gone();
        let taken = places.into_iter().map(|place| place.port).collect();
        let mut steps = vec![Step::Do(Effect::End(taken, until)), Step::Wait(until.at)];
        if let Task::HandBack { .. } = self.task {
            return steps; // the ports continue to send their queued packets
        }
        if is_removal {
            steps.push(Step::Do(Effect::Close(ports.clone())));
        }
        steps.push(Step::Do(Effect::AskDrained {
            ports,
            waiting: !is_removal,
        }));
        steps
    }

    /// The ports to remove, separated by commas; `None` if the router stops.
    pub(super) fn removed(&self) -> Option<String> {
        match self.task {
            Task::Stop { .. } => None,
            _ => Some(self.gone().join(", ")),
        }
    }

    /// Places whose transit the router has and gives back to the kernel.
    pub(super) fn places_to_leave(&self, state: &State) -> Vec<Place> {
        let gone = self.gone();
        gone.iter().filter_map(|port| state.taken(port)).collect()
    }
}

/// The steps after [`Effect::Take`]: the kernel stops forwarding at these places at a moment. The receive rings start
/// at the same moment; afterwards the kernel rule with that time is no longer needed.
pub(super) fn taken(places: Vec<Place>, from: Moment, state: &mut State) -> Vec<Step> {
    let taken = places.iter().cloned();
    let taken = taken.map(|place| (place.port, place.interface));
    state.change(|in_force| in_force.taken.extend(taken));
    let ports = places.iter().map(|place| place.port.clone()).collect();
    vec![
        Step::Do(Effect::Begin(ports, from)),
        Step::Wait(from.at + SETTLE),
        Step::Do(Effect::Settle(places)),
    ]
}

/// Releases all interfaces except those of the ports: the interfaces named in the plan, and the current ones.
pub(super) fn release(state: &State) -> Effect {
    let in_force = state.in_force.iter();
    let interfaces = in_force.flat_map(|in_force| {
        let planned = in_force.plan.ports.iter().map(|port| &port.interface);
        planned
            .chain(in_force.taken.values())
            .chain(in_force.renamed.values())
    });
    let mut kept: Vec<String> = interfaces.cloned().collect();
    kept.sort_unstable();
    kept.dedup();
    Effect::Release { kept }
}

//! The state that jobs read and change: the active state of the router, and the waiting outputs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_lfb::router::OnChange;
use weir_model::Fault;
use weir_model::fault::ResultCode;
use weir_path::plane::Mode;

use crate::admission::no_bridge;
use crate::effect::{ActiveState, Answer, Event, Notice, Output, Place, Ticket};
use crate::kernel::{Finding, refusals};

/// The state that jobs read and change.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// `None` before the forwarding thread has started.
    pub(crate) in_force: Option<Arc<ActiveState>>,
    pub(crate) outputs: VecDeque<Output>,
    /// The latest event of each port, which supersedes earlier events.
    pub(crate) events: BTreeMap<String, Event>,
    /// Kernel state that a router refuses or warns about.
    pub(crate) findings: Vec<Finding>,
    /// Interface index of the kernel's bridge that each interface is in; `None` in mode "routed".
    pub(crate) bridges: Option<BTreeMap<String, u32>>,
}

impl State {
    pub(crate) fn notice(&mut self, notice: Notice) {
        self.outputs.push_back(Output::Notice(notice));
    }

    pub(crate) fn answer(&mut self, ticket: Ticket, answer: Answer) {
        self.outputs.push_back(Output::Answer(ticket, answer));
    }

    pub(crate) fn refuse(&mut self, ticket: Ticket, why: &str) {
        let fault = Fault::of_machine(why).code(ResultCode::Busy);
        self.answer(ticket, Err(vec![fault]));
    }

    /// Replaces the active state, and publishes it.
    pub(crate) fn put_in_force(&mut self, in_force: ActiveState) {
        let in_force = Arc::new(in_force);
        self.in_force = Some(Arc::clone(&in_force));
        self.outputs.push_back(Output::ActiveState(in_force));
    }

    /// Changes the active state, and publishes it.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut ActiveState)) {
        if let Some(in_force) = &self.in_force {
            let mut in_force = ActiveState::clone(in_force);
            change(&mut in_force);
            self.put_in_force(in_force);
        }
    }

    /// Why the kernel should forward instead of the router, a sentence for each kind of kernel state. A router that
    /// bridges interfaces which the kernel does not bridge never hands back, because then nothing would forward.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let Some(ActiveState { plan, .. }) = self.in_force.as_deref() else {
            return Vec::new();
        };
        let is_alone = || no_bridge(plan, self.bridges.as_ref()).is_some();
        let ignored = match plan.router.kernel_change {
            OnChange::Stop => return Vec::new(), // the router ends instead, and then gives all transit back
            _ if plan.router.mode == Mode::Bridged && is_alone() => return Vec::new(),
            OnChange::Ignore => Finding::is_ignorable,
            OnChange::HandBack => |_: &Finding| false,
        };
        let counting: Vec<_> = self
            .findings
            .iter()
            .filter(|f| !ignored(f))
            .cloned()
            .collect();
        refusals(&counting, &plan.router)
    }

    /// Whether the router forwards although the kernel should forward.
    pub(crate) fn must_hand_back(&self) -> bool {
        let forwards = self
            .in_force
            .as_ref()
            .is_some_and(|i| i.handed_back.is_empty());
        forwards && !self.reasons().is_empty()
    }

    /// A port and the interface at which the router has taken its transit, if it has.
    pub(crate) fn taken(&self, port: &str) -> Option<Place> {
        let interface = self.in_force.as_ref()?.taken.get(port)?;
        Some(Place {
            port: port.to_owned(),
            interface: interface.clone(),
        })
    }
}

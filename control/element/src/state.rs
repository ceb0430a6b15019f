//! The state that jobs read and change: what is in force, and the outputs that wait.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_model::Fault;
use weir_model::fault::ResultCode;

use crate::effect::{Answer, Event, InForce, Notice, Output, Place, Ticket};

/// The state that jobs read and change.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Nothing before the forwarding thread has started.
    pub(crate) in_force: Option<Arc<InForce>>,
    pub(crate) outputs: VecDeque<Output>,
    /// The latest event of each port, which supersedes those before it.
    pub(crate) events: BTreeMap<String, Event>,
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

    /// Sets what is in force, and publishes it.
    pub(crate) fn put_in_force(&mut self, in_force: InForce) {
        let in_force = Arc::new(in_force);
        self.in_force = Some(Arc::clone(&in_force));
        self.outputs.push_back(Output::InForce(in_force));
    }

    /// Changes what is in force, and publishes it.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut InForce)) {
        if let Some(in_force) = &self.in_force {
            let mut in_force = InForce::clone(in_force);
            change(&mut in_force);
            self.put_in_force(in_force);
        }
    }

    /// A port, and the interface at which its transit is taken.
    pub(crate) fn taken(&self, port: &str) -> Option<Place> {
        let interface = self.in_force.as_ref()?.taken.get(port)?;
        Some(Place {
            port: port.to_owned(),
            interface: interface.clone(),
        })
    }
}

//! Controllers in a run: the channel between a controller and its elements, and what is kept of their
//! work. The same in both habitats.
//!
//! - `channel`: delay and losses, around the runner of `weir-controller`
//! - `record`: gauges and failures, as metrics, curves and sentences
//!
//! A habitat carries the channel's requests out: an actor in virtual time, a thread on the lab.

mod channel;
mod record;

pub(crate) use channel::Channel;
pub(crate) use record::{Record, add};

use weir_controller::{QueueName, Role};

use crate::scenario::{Controller as Described, Scenario};
use crate::topology::{Topology, Watched};

/// A queue that a controller has.
#[derive(Clone, Debug)]
pub(crate) struct ControlledQueue {
    /// Its role for the controller.
    pub(crate) role: &'static Role,
    /// Its name for the controller: the names of its node and of the node's interface.
    pub(crate) name: QueueName,
    /// Where it is.
    pub(crate) place: Watched,
}

/// The queues of a controller, in the order of its roles.
pub(crate) fn queues(
    topology: &Topology,
    scenario: &Scenario,
    described: &Described,
) -> Vec<ControlledQueue> {
    let all = topology.steered(scenario, described).into_iter();
    all.map(|(role, place)| {
        let node = &topology.nodes[place.node];
        let name = QueueName {
            element: node.name.as_str().into(),
            port: node.interfaces[place.port].name.as_str().into(),
        };
        ControlledQueue { role, name, place }
    })
    .collect()
}

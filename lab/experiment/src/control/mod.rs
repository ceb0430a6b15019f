//! Controllers in a run: the channel between a controller and its elements, and the record of its work. Both habitats
//! use the same code.
//!
//! - `channel`: delay and losses, around the runner of `weir-controller`
//! - `link`: queues of the transport between a controller and an element, in simulation
//! - `record`: gauges and failures, as metrics, curves and sentences
//!
//! Each habitat executes the channel's requests: the simulator in an actor, the lab in a thread.

mod channel;
mod link;
mod record;

pub(crate) use channel::Channel;
pub(crate) use record::{GAUGE, Record, add};

use weir_controller::{QueueName, Role};

use crate::scenario::{Controller as Described, Scenario};
use crate::topology::{Topology, Watched};

/// A queue of a controller.
#[derive(Clone, Debug)]
pub(crate) struct ControlledQueue {
    /// The queue's role for the controller.
    pub(crate) role: &'static Role,
    /// The queue's name for the controller: the names of its node and of the node's interface.
    pub(crate) name: QueueName,
    /// The place of the queue in the network.
    pub(crate) place: Watched,
}

/// The queues of a controller, in the order of the controller's roles.
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

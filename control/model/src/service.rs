//! Services that an operator asks of a control element: wishes in words of a network, which the control element
//! converts to operations on blocks of forwarding elements (FEs).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ChangeValue;

/// Services of one kind, for one FE or several: all of them take effect, or none.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceRequest {
    /// Queues of ports.
    Queue(Vec<QueueRequest>),
    /// Filters of exceptions.
    Filter(Vec<FilterRequest>),
}

/// How a port of an FE queues and sends its packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueRequest {
    /// Name of the FE.
    pub fe: String,
    /// Name of the port; it must exist.
    pub port: String,
    /// The rate of the port, like `50 Mbit`; it stays as it is if not given.
    #[serde(default)]
    pub rate: Option<ChangeValue>,
    /// The kind of discipline, as `weir list` names it; it stays as it is if not given.
    #[serde(default)]
    pub kind: Option<String>,
    /// Parameters of that kind; those that are not named have their defaults.
    #[serde(default)]
    pub parameters: BTreeMap<String, ChangeValue>,
}

/// Which packets an FE hands to the control element because it cannot handle them itself (exceptions).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterRequest {
    /// Name of the FE.
    pub fe: String,
    /// The kinds of exceptions that go to the control element: flags of the block `redirect`. The others do not.
    pub redirect: Vec<String>,
    /// Addresses that are the control element's: packets to them go there. They stay as they are if not given.
    #[serde(default)]
    pub addresses: Option<Vec<String>>,
    /// Maximum rate of all exceptions, like `1 Mbit`; it stays as it is if not given.
    #[serde(default)]
    pub rate: Option<ChangeValue>,
}

//! The service `path`: flows that follow a path of flexible packet forwarding, and the current state of a network.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ChangeValue;

/// A flow that an application will send, and the path that it shall have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathRequest {
    /// Time after which the request ends; the same request again begins it anew. Without it the request never ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<ChangeValue>,
    /// The keys of `[path.NAME]` in the file of a network: `from`, `to` or `through`, the packets, `paths` and so on.
    #[serde(flatten)]
    pub keys: BTreeMap<String, ChangeValue>,
}

/// A flow with a path: one of the network's file, or a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathReport {
    /// Name of its encapsulation at the element where it enters.
    pub path: String,
    /// Number of the request; null for a path of the file.
    pub request: Option<u64>,
    /// Name of the element where it enters.
    pub from: String,
    /// Name of the domain or element where it leaves.
    pub to: String,
    /// Its packets, as a configuration writes them: `destination=198.51.100.0/24 protocol=udp`.
    pub packets: String,
    /// `active` (the element has the encapsulation), `setting` (it is under way) or `waits` (there is no path, and the packets go
    /// by IP).
    pub state: String,
    /// Why it waits.
    pub why: Option<String>,
    /// Its paths.
    pub routes: Vec<RouteOfPath>,
    /// Seconds until the request ends; null if it has no lifetime.
    pub ends_s: Option<f64>,
}

/// One path of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteOfPath {
    /// The identifiers of its header in hexadecimal.
    pub vector: String,
    /// Sum of the costs of its links.
    pub cost: u64,
    /// Names of the elements that it passes.
    pub elements: Vec<String>,
}

/// A network as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkReport {
    /// Its domains.
    pub domains: Vec<DomainReport>,
    /// Its links.
    pub links: Vec<LinkReport>,
    /// Flows with paths.
    pub paths: Vec<PathReport>,
}

/// A domain of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DomainReport {
    /// Its name.
    pub domain: String,
    /// Its elements.
    pub elements: Vec<ElementReport>,
}

/// An element of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ElementReport {
    /// Its name.
    pub element: String,
    /// `works`, `failed` or `held` (it is back, and not used yet).
    pub state: String,
}

/// A link of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkReport {
    /// Its name.
    pub link: String,
    /// Names of the elements at its ends.
    pub ends: [String; 2],
    /// The identifiers in hexadecimal that lead over it from its ends; empty inside a domain.
    pub lids: [String; 2],
    /// `works`, `failed` or `held` (it is back, and not used yet).
    pub state: String,
    /// How often it has failed since the control element knows it.
    pub failures: u64,
}

//! The service `path`: flows that follow a path of flexible packet forwarding, and the current state of a network.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ChangeValue;

/// A flow that an application will send, and its requested path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathRequest {
    /// Request lifetime; repeating the request renews it. If absent, the request does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<ChangeValue>,
    /// The keys of `[path.NAME]` in the file of a network: `from`, `to` or `through`, the packets, `paths` and so on.
    #[serde(flatten)]
    pub keys: BTreeMap<String, ChangeValue>,
}

/// A flow with a path, from the network file or from a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathReport {
    /// Name of the flow's encapsulation at its ingress element.
    pub path: String,
    /// Number of the request; null for a path from the network file.
    pub request: Option<u64>,
    /// Name of the ingress element.
    pub from: String,
    /// Name of the egress domain or element.
    pub to: String,
    /// Packets of the flow, in configuration syntax: `destination=198.51.100.0/24 protocol=udp`.
    pub packets: String,
    /// `active` (the element has the encapsulation), `setting` (setup in progress) or `waits` (no path; the packets
    /// follow the IP routes).
    pub state: String,
    /// Why the flow has no path.
    pub why: Option<String>,
    /// Paths of the flow.
    pub routes: Vec<RouteOfPath>,
    /// Seconds until the request expires; null if it has no lifetime.
    pub ends_s: Option<f64>,
}

/// One path of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteOfPath {
    /// LID vector of the path in hexadecimal.
    pub vector: String,
    /// Sum of the costs of the path's links.
    pub cost: u64,
    /// Names of the elements on the path.
    pub elements: Vec<String>,
}

/// Current state of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkReport {
    /// Domains of the network.
    pub domains: Vec<DomainReport>,
    /// Links of the network.
    pub links: Vec<LinkReport>,
    /// Flows with paths.
    pub paths: Vec<PathReport>,
}

/// A domain of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DomainReport {
    /// Name of the domain.
    pub domain: String,
    /// Elements of the domain.
    pub elements: Vec<ElementReport>,
}

/// An element of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ElementReport {
    /// Name of the element.
    pub element: String,
    /// `works`, `failed` or `held` (recovered, but not yet used).
    pub state: String,
}

/// A link of a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkReport {
    /// Name of the link.
    pub link: String,
    /// Names of the elements at its ends.
    pub ends: [String; 2],
    /// LIDs in hexadecimal that lead over the link from each end; empty inside a domain.
    pub lids: [String; 2],
    /// `works`, `failed` or `held` (recovered, but not yet used).
    pub state: String,
    /// Failures since the control element learned of the link.
    pub failures: u64,
}

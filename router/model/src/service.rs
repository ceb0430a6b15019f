//! Services that an operator requests from a control element, in terms of a network. The control element converts
//! them to operations on LFBs of forwarding elements (FEs).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ChangeValue;

/// Requests of one kind, for one or more FEs: all of them take effect, or none.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceRequest {
    /// Configure queues of ports.
    Queue(Vec<QueueRequest>),
    /// Configure filters of exceptions.
    Filter(Vec<FilterRequest>),
    /// Add, replace or delete routes.
    Route(RouteVerb, Vec<RouteRequest>),
}

/// How a port of an FE queues and sends its packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueRequest {
    /// Name of the FE.
    pub fe: String,
    /// Name of the port; it must exist.
    pub port: String,
    /// Rate of the port, like `50 Mbit`; unchanged if absent.
    #[serde(default)]
    pub rate: Option<ChangeValue>,
    /// Kind of discipline, as `weir list` names it; unchanged if absent.
    #[serde(default)]
    pub kind: Option<String>,
    /// Parameters of that kind; parameters that are absent have their defaults.
    #[serde(default)]
    pub parameters: BTreeMap<String, ChangeValue>,
}

/// Which packets an FE hands to the control element because it cannot handle them itself (exceptions).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterRequest {
    /// Name of the FE.
    pub fe: String,
    /// Kinds of exceptions to redirect to the control element: flags of the section `redirect`.
    pub redirect: Vec<String>,
    /// Addresses of the control element; packets to them are redirected to it. Unchanged if absent.
    #[serde(default)]
    pub addresses: Option<Vec<String>>,
    /// Maximum rate of all exceptions, like `1 Mbit`; unchanged if absent.
    #[serde(default)]
    pub rate: Option<ChangeValue>,
}

/// Maximum routes of one request.
pub const ROUTES_MAX: usize = 1 << 18;

/// How the routes of a request change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteVerb {
    /// Add new routes.
    Add,
    /// Add routes, replacing routes with the same prefix and metric.
    Replace,
    /// Delete routes.
    Delete,
}

/// Routes of FEs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteRequest {
    /// Names of the FEs; each FE gets all routes.
    pub fes: Vec<String>,
    /// The routes.
    pub routes: Vec<RouteWish>,
}

/// A route of an FE, identified by its prefix and metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteWish {
    /// The destinations, like `10.0.0.0/8`.
    pub prefix: String,
    /// Address of the next hop; if absent, the destinations are on the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Name of the port; not needed to delete a route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Metric; of several routes with the same prefix, the FE gets the route with the lowest metric.
    #[serde(default)]
    pub metric: u32,
    /// Line of the route in its file, for error messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// A desired route of an FE, or a next hop of a route with several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteReport {
    /// Name of the FE.
    pub fe: String,
    /// The destinations.
    pub prefix: String,
    /// Address of the next router; none for destinations on the link.
    pub via: Option<String>,
    /// Name of the port; empty if the route drops packets.
    pub port: String,
    /// Weight of the next hop, if the route has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// `blackhole`, `unreachable` or `prohibit`, if the route drops packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<String>,
    /// Its metric.
    pub metric: u32,
    /// `operator`, or `router` if a routing suite has found it.
    pub origin: String,
    /// `installed`, `standby` behind a route with a lower metric, `waits` until the FE can have it, or `unsupported` by an
    /// FE of an older version.
    pub state: String,
}

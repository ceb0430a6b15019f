//! Why packets to a destination leave a forwarding element (FE), or do not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The path of packets to a destination, up to the first reason that stops them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteExplanation {
    /// Name of the FE.
    pub fe: String,
    /// The destination of the request: a prefix or an address.
    pub destination: String,
    /// Whether packets leave the FE, or reach its machine if the destination is its own address.
    pub reachable: bool,
    /// The first reason why they do not; null if they do.
    pub reason: Option<ReasonReport>,
    /// The findings up to that reason, in the order of the path of a route.
    pub steps: Vec<StepReport>,
    /// Where the packets leave, with an entry for each next hop that works.
    pub exits: Vec<ExitReport>,
}

/// A reason why packets do not leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReasonReport {
    /// Name of the reason.
    pub name: String,
    /// The reason in this case, as a sentence.
    pub why: String,
    /// The remedy, as a sentence.
    pub remedy: String,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepReport {
    /// The examined stage.
    pub at: String,
    /// The finding.
    pub found: String,
}

/// A port through which packets leave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExitReport {
    /// Name of the port.
    pub port: String,
    /// Address of the next hop; null for destinations on the link.
    pub via: Option<String>,
    /// MAC address of the next hop, or of the destination on the link; null if the request names no address, or the link
    /// has none.
    pub mac: Option<String>,
}

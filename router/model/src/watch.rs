//! A request to a control element to watch an event or a component, and its notices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Value;

/// Asks a control element to report an event of an FE, or to read a component at intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchRequest {
    /// The event or component: `edge1:port.wan.carrier_lost`.
    pub path: String,
    /// The threshold of an event that has one (RFC 5812, 4.8.5.1).
    #[serde(default)]
    pub threshold: Option<u32>,
    /// How far the value must move before the event is reported again.
    #[serde(default)]
    pub hysteresis: Option<u32>,
    /// Report every Nth occurrence only.
    #[serde(default)]
    pub count: Option<u32>,
    /// Milliseconds between reports of an event, or between samples of a component (1000 if not given).
    #[serde(default)]
    pub interval_ms: Option<u32>,
}

/// Notices of a watch that were not fetched before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchReport {
    /// The notices, the oldest first.
    pub notices: Vec<Value>,
    /// Notices that were lost, because they were not fetched in time.
    pub lost: u64,
}

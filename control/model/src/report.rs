//! What a router reports, by value: one struct for each table that `weir show` prints.
//!
//! Every quantity carries its unit in its name. Times are seconds, ages count back from the
//! moment of the report.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of layer-2 frames, without frame check sequence.
    pub bytes: u64,
}

impl From<weir_base::Tally> for Count {
    fn from(tally: weir_base::Tally) -> Self {
        Self {
            packets: tally.packets,
            bytes: tally.bytes,
        }
    }
}

/// A port and its link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortReport {
    /// Name in the configuration.
    pub port: String,
    /// Name of the network interface.
    pub interface: String,
    /// Whether the interface is switched on and the device works.
    pub up: bool,
    /// Whether the link works: a cable with somebody at its other end.
    pub carrier: bool,
    /// The rate it is paced to; none if it is not paced.
    pub rate_bps: Option<u64>,
    /// Kind of discipline.
    pub discipline: String,
    /// Frames received.
    pub received: Count,
    /// Frames sent.
    pub sent: Count,
    /// Frames of the kernel itself that were charged to this port.
    pub charged: Count,
    /// Frames of the kernel itself that were dropped: beyond the share of the port that the box's
    /// own packets have (`local_share`).
    pub local_dropped: Count,
    /// Frames that were lost before the router saw them: its receive ring was full.
    pub missed: u64,
    /// Frames that the device refused to send.
    pub refused: u64,
}

/// A chain of this machine's netfilter rules that transit through the router bypasses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BypassReport {
    /// Family of nf_tables, or `iptables` or `ip6tables` for legacy tables.
    pub family: String,
    /// Name of its table.
    pub table: String,
    /// Its name.
    pub chain: String,
    /// The hook that it is at.
    pub hook: String,
    /// Whether it has rules.
    pub has_rules: bool,
    /// Whether it drops what no rule decides about.
    pub policy_drop: bool,
    /// Whether it was there when the router started.
    pub at_start: bool,
}

/// A port's queue discipline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueReport {
    /// Name of the port.
    pub port: String,
    /// Kind of discipline.
    pub discipline: String,
    /// Its parameters, as a configuration would write them.
    pub parameters: BTreeMap<String, String>,
    /// Offered to it.
    pub received: Count,
    /// Given out by it.
    pub sent: Count,
    /// Ended in it.
    pub dropped: Count,
    /// Marked "congestion experienced" in it.
    pub marked: Count,
    /// Held now.
    pub backlog: Count,
    /// Gauges and counters of this kind of discipline; `weir describe` explains them.
    pub gauges: BTreeMap<String, u64>,
}

/// A flow that a discipline keeps state of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HogReport {
    /// Name of the port.
    pub port: String,
    /// The flow, as far as the discipline tells flows apart.
    pub flow: String,
    /// What counts as a flow there: `flow`, `source`, `destination`, ...
    pub key: String,
    /// `hog` (in the queue for high-bandwidth flows), `pinned` (the same, and kept), or `watched`.
    pub standing: String,
    /// Rate of late.
    pub rate_bps: u64,
    /// Seen since it is known.
    pub seen: Count,
    /// For how long it has been known.
    pub known_s: f64,
    /// How long ago its latest packet came.
    pub silent_s: f64,
}

/// A flow that an admission control knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdmissionReport {
    /// Name of the port.
    pub port: String,
    /// The flow.
    pub flow: String,
    /// `accepted`, `waiting`, `blocked` (removed, and not to come back for a time), or `set aside`
    /// (removed, and to come back before others).
    pub standing: String,
    /// What an accepted flow is taken for: `streaming` or `elastic`.
    pub class: Option<String>,
    /// From its first packet to the one that was let through; of a flow that waits, so far.
    pub acceptance_delay_s: f64,
    /// Mean rate since it is known.
    pub rate_bps: u64,
    /// Seen since it is known: of an accepted flow what came since, of a waiting one what was refused.
    pub seen: Count,
    /// For how long it has been accepted, or has waited.
    pub known_s: f64,
    /// How long ago its latest packet came.
    pub silent_s: f64,
}

/// Which flows are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HogQuery {
    /// Watched flows too, not only hogs and pinned ones.
    pub all: bool,
    /// So many at most, the fastest.
    pub most: usize,
}

impl Default for HogQuery {
    fn default() -> Self {
        Self {
            all: false,
            most: 50,
        }
    }
}

/// A route in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteReport {
    /// Destination network.
    pub prefix: String,
    /// `forward`, `local`, `blackhole`, `unreachable` or `prohibit`.
    pub action: String,
    /// Ways out, each as `via ADDRESS dev INTERFACE weight N`.
    pub next_hops: Vec<String>,
    /// The kernel's priority of the route.
    pub metric: u32,
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NeighbourReport {
    /// Its address.
    pub address: String,
    /// The interface it is on.
    pub interface: String,
    /// Its MAC address; none if it did not answer.
    pub mac: Option<String>,
    /// Packets that wait for it to answer.
    pub waiting: u64,
}

/// What ended for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DropReport {
    /// Stable name of the reason.
    pub reason: String,
    /// What it means.
    pub meaning: String,
    /// Whether a packet was lost by it (a copy of what the kernel handles itself is no loss).
    pub loss: bool,
    /// How much.
    pub count: Count,
}

/// What was answered to a new configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyReport {
    /// Whether it is in force.
    pub applied: bool,
    /// What changed, or why nothing did.
    pub messages: Vec<String>,
}

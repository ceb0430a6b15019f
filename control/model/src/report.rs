//! What a router reports, by value: one struct for each table that `weir show` prints.
//!
//! Every quantity carries its unit in its name. Times are seconds, ages count back from the
//! moment of the report.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::ChangeValue;

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

/// The router itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusReport {
    /// Version of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// `routed` or `bridged`.
    pub mode: String,
    /// Where the northbound service listens.
    pub socket: String,
    /// For how long it has run.
    pub uptime_s: f64,
    /// Ports.
    pub ports: u64,
    /// Packets that it can hold in all.
    pub pool_packets: u64,
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
    /// Its parameters. What has a unit has it in its name: `target_s`, `quantum_bytes`, `rate_bps`.
    pub parameters: BTreeMap<String, ChangeValue>,
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
    /// The flow, as far as the discipline tells flows apart, in one line.
    pub flow: String,
    /// The same in parts.
    #[serde(flatten)]
    pub ends: FlowEnds,
    /// What counts as a flow there: `flow`, `source`, `destination`, ...
    pub key: String,
    /// `hog` (in the queue for high-bandwidth flows), `pinned` (the same, and kept), or `watched`.
    pub standing: String,
    /// Its recent rate.
    pub rate_bps: u64,
    /// That rate as a share of the link's; none if the port is not paced.
    pub link_share_ratio: Option<f64>,
    /// From where on a flow is a hog, if in packets since it is known.
    pub threshold_packets: Option<u64>,
    /// From where on a flow is a hog, if by its rate.
    pub threshold_bps: Option<u64>,
    /// From where on a flow is a hog, if by its share of what all flows send.
    pub threshold_share_ratio: Option<f64>,
    /// Seen since it is known.
    pub seen: Count,
    /// Packets of it that were dropped since it is known, but for the one that made it known.
    pub dropped_packets: u64,
    /// For how long it has been known.
    pub known_s: f64,
    /// How long ago its latest packet came.
    pub silent_s: f64,
}

/// The ends of a flow; what the discipline does not tell apart is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowEnds {
    /// Source address: IPv4, IPv6, or the MAC address of what is not IP.
    pub source: Option<String>,
    /// Source port.
    pub source_port: Option<u16>,
    /// Destination address.
    pub destination: Option<String>,
    /// Destination port.
    pub destination_port: Option<u16>,
    /// IP protocol number.
    pub protocol: Option<u8>,
}

/// A flow that an admission control knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdmissionReport {
    /// Name of the port.
    pub port: String,
    /// The flow, in one line.
    pub flow: String,
    /// The same in parts.
    #[serde(flatten)]
    pub ends: FlowEnds,
    /// `accepted`, `waiting`, `blocked` (removed, and not to come back for a time), or `set_aside`
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

/// Which hogs are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HogQuery {
    /// Watched flows too, not only hogs and pinned ones.
    pub all: bool,
    /// Flows in the answer at most, the fastest first; up to 10000.
    pub limit: usize,
}

/// Which flows of admission controls are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FlowQuery {
    /// Flows of each port in the answer at most, those who wait first; up to 10000.
    pub limit: usize,
}

impl Default for HogQuery {
    fn default() -> Self {
        Self {
            all: false,
            limit: 50,
        }
    }
}

impl Default for FlowQuery {
    fn default() -> Self {
        Self { limit: 1000 }
    }
}

/// A route in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteReport {
    /// Destination network.
    pub prefix: String,
    /// `forward`, `local`, `blackhole`, `unreachable` or `prohibit`.
    pub action: String,
    /// The next hops; flows are spread over them by their weights.
    pub next_hops: Vec<NextHopReport>,
    /// The kernel's priority of the route.
    pub metric: u32,
}

/// A next hop of a route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextHopReport {
    /// The gateway; none if the destination is on the link.
    pub gateway: Option<String>,
    /// The interface.
    pub interface: String,
    /// Its share among the next hops.
    pub weight: u32,
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
    /// Stable name of the reason; `weir list drops` says what each means.
    pub reason: String,
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

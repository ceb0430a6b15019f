//! Which packets a capture or an observer wants, as it is written; a request to observe drops, and what is observed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Selects packets. Values of one field are alternatives; every field that has values must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PacketFilter {
    /// Addresses or prefixes of either end: 192.0.2.7, 2001:db8::/32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<String>,
    /// The same of the source.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub src: Vec<String>,
    /// The same of the destination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dst: Vec<String>,
    /// Protocols: tcp, udp, icmp (both versions), sctp, .., or a number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proto: Vec<String>,
    /// Port numbers of either end: 53, 5000-5999.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub port_number: Vec<String>,
    /// Drop reasons: queue-full.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reason: Vec<String>,
}

/// Asks for dropped packets, as they are dropped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ObserveRequest {
    /// Names of the router's ports; none means all.
    pub port: Vec<String>,
    /// Addresses or prefixes of either end: 192.0.2.7, 2001:db8::/32. Several values of a field are alternatives.
    pub host: Vec<String>,
    /// The same of the source.
    pub src: Vec<String>,
    /// The same of the destination.
    pub dst: Vec<String>,
    /// Protocols: tcp, udp, icmp (both versions), sctp, .., or a number.
    pub proto: Vec<String>,
    /// Port numbers of either end: 53, 5000-5999.
    pub port_number: Vec<String>,
    /// Drop reasons: queue-full.
    pub reason: Vec<String>,
    /// Begin with this many events of the past, 4096 at most.
    pub last: Option<u32>,
    /// Whether to go on with new events; if not given: yes, unless `last` is.
    pub follow: Option<bool>,
    /// The answer ends after this many seconds.
    pub seconds: Option<f64>,
}

/// Packets that were dropped for one reason within a quarter of a second: those of one flow, or all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Observed {
    /// When the first of them was dropped, in seconds since 1970.
    pub unix_s: f64,
    /// From the first to the last of them.
    pub over_s: f64,
    /// The drop reason.
    pub reason: String,
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// The flow; none if these are packets of many flows, more than the router tells apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<ObservedFlow>,
}

/// A flow whose packets were dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObservedFlow {
    /// The flow in one line.
    pub flow: String,
    /// Source address.
    pub source: String,
    /// Source port; none if the packets have none.
    pub source_port: Option<u16>,
    /// Destination address.
    pub destination: String,
    /// Destination port.
    pub destination_port: Option<u16>,
    /// IP protocol number; none if they are not IP.
    pub protocol: Option<u8>,
    /// Name of the port that held them, or by which they came; none if it is gone.
    pub port: Option<String>,
    /// `out` if they should have left by that port, `in` if they came by it.
    pub direction: String,
    /// Length of the first frame.
    pub frame_bytes: u32,
    /// The longest time that one of them had waited in the router.
    pub waited_s: f64,
}

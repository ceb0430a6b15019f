//! Flow specifications: from where to where, when, and what the sender does.

use std::net::IpAddr;

use weir_base::Instant;

use crate::network::NodeId;
use weir_base::pace::Load;

/// What a TCP flow's application does.
#[derive(Clone, Debug, PartialEq)]
pub enum Sender {
    /// Sends as much as it can.
    Greedy,
    /// Sends this number of bytes and closes.
    Transfer(u64),
    /// Offers a load; a transfer ends when this number of bytes is written.
    Paced(Load, Option<u64>),
}

/// A flow: its ends, its time, and the traffic that it counts for.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// The host that sends the data.
    pub from: NodeId,
    /// The host that receives them.
    pub to: NodeId,
    /// Port of the receiver.
    pub port: u16,
    /// Over IPv6.
    pub ipv6: bool,
    /// Another source address than the host's own.
    pub source: Option<IpAddr>,
    /// The first packet.
    pub start: Instant,
    /// The application stops.
    pub stop: Instant,
    /// The traffic that it counts for.
    pub traffic: u32,
    /// Names its random stream.
    pub name: String,
}

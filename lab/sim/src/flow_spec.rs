//! Flow specifications: ends, time, and the sender's behaviour.

use std::net::IpAddr;

use weir_base::{Instant, Stream, Streams};

use crate::id::NodeId;
use weir_base::pace::Load;

/// The behaviour of a TCP flow's application.
#[derive(Clone, Debug, PartialEq)]
pub enum Sender {
    /// Sends as much as it can.
    Greedy,
    /// Sends this number of bytes and closes.
    Transfer(u64),
    /// Offers a load; a transfer ends when this number of bytes has been written.
    Paced(Load, Option<u64>),
}

/// The stream of the random choices of the flow with this name, in a run with these streams: when it is on and off, and
/// the gaps between its pieces.
pub fn flow_stream(streams: &Streams, name: &str) -> Stream {
    streams.below("traffic").stream(name)
}

/// The stream of the random choices of the web client with this name: for each fetch its size, then the pause after it.
pub fn client_stream(streams: &Streams, name: &str) -> Stream {
    streams.below("web").stream(name)
}

/// A flow: its ends, its time, and its traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// The host that sends the data.
    pub from: NodeId,
    /// The host that receives the data.
    pub to: NodeId,
    /// Port of the receiver.
    pub port: u16,
    /// Whether the flow uses IPv6.
    pub ipv6: bool,
    /// A source address that replaces the host's own.
    pub source: Option<IpAddr>,
    /// Time of the first packet.
    pub start: Instant,
    /// Time at which the application stops.
    pub stop: Instant,
    /// The traffic whose meter counts the flow.
    pub traffic: u32,
    /// The name of the flow's random stream.
    pub name: String,
}

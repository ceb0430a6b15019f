//! Why an association has ended, and counters of its drops.

use std::fmt;

/// Why an association has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// This side closed the association.
    Closed,
    /// The peer closed the association, or has restarted.
    ByPeer,
    /// The peer was silent, and did not answer heartbeats.
    Silent,
    /// The peer violated the protocol.
    Violation(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed here"),
            Self::ByPeer => f.write_str("closed by the peer"),
            Self::Silent => f.write_str("the peer sent nothing, not even a heartbeat"),
            Self::Violation(what) => write!(f, "the peer violated the protocol: {what}"),
        }
    }
}

/// Counters of dropped packets, chunks and messages, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Packets with a wrong verification tag.
    pub tag: u64,
    /// Chunks of types that an established association does not accept.
    pub chunk: u64,
    /// Data or acknowledgements that no honest sender would send.
    pub implausible: u64,
    /// Data beyond the window.
    pub window: u64,
    /// Messages with the payload identifier of another channel.
    pub ppid: u64,
    /// Messages of a type that belongs to another channel.
    pub message_kind: u64,
    /// Messages with a priority that belongs to another channel.
    pub priority: u64,
    /// Messages of the low channel that are not ForCES messages.
    pub malformed: u64,
}

impl Dropped {
    /// The sum of both counters.
    pub fn plus(self, other: Self) -> Self {
        Self {
            tag: self.tag + other.tag,
            chunk: self.chunk + other.chunk,
            implausible: self.implausible + other.implausible,
            window: self.window + other.window,
            ppid: self.ppid + other.ppid,
            message_kind: self.message_kind + other.message_kind,
            priority: self.priority + other.priority,
            malformed: self.malformed + other.malformed,
        }
    }
}

//! Why an association has ended, and what it has dropped.

use std::fmt;

/// Why an association has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// We closed it.
    Closed,
    /// The peer closed it, or has restarted.
    ByPeer,
    /// Nothing came, not even an answer to heartbeats.
    Silent,
    /// The peer broke the protocol.
    Violation(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed here"),
            Self::ByPeer => f.write_str("closed by the peer"),
            Self::Silent => f.write_str("nothing came from the peer, not even a heartbeat"),
            Self::Violation(what) => write!(f, "the peer broke the protocol: {what}"),
        }
    }
}

/// Counters of dropped packets, chunks and messages, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Packets with another verification tag.
    pub tag: u64,
    /// Chunks of types that have no business here.
    pub chunk: u64,
    /// Data or acknowledgements that no honest sender sends now.
    pub implausible: u64,
    /// Data beyond the window.
    pub window: u64,
    /// Messages with the identifier of another channel.
    pub ppid: u64,
    /// Messages of a type of another channel.
    pub message_kind: u64,
    /// Messages with a priority of another channel.
    pub priority: u64,
    /// Messages of the low channel that are not of ForCES.
    pub malformed: u64,
}

impl Dropped {
    /// The sum of both.
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

//! Why a link ended.

use std::fmt;
use std::time::Duration;

use weir_protocol::wire::WireError;

use super::faults::Fault;

/// Why a link ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// This side closed or dropped [`Outgoing`](super::Outgoing).
    Here,
    /// The peer closed the link between two messages.
    ByPeer,
    /// The connection failed.
    Lost(String),
    /// The peer sent bytes that are not a message.
    Malformed(WireError),
    /// The peer started a message and did not complete it within this time.
    Stalled(Duration),
    /// The peer does not accept our certificate.
    Refused(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("closed here"),
            Self::ByPeer => f.write_str("closed by the peer"),
            Self::Lost(why) => write!(f, "lost: {why}"),
            Self::Malformed(error) => {
                write!(f, "the peer sent bytes that are not a message: {error}")
            }
            Self::Stalled(time) => write!(f, "a message was incomplete after {time:?}"),
            Self::Refused(why) => write!(
                f,
                "the peer does not accept our certificate ({why}): configure it there for our ID"
            ),
        }
    }
}

impl Ended {
    /// The fault to count for this reason; `None` for a regular end.
    pub(super) fn fault(&self) -> Option<Fault> {
        match self {
            Self::Here | Self::ByPeer => None,
            Self::Lost(_) => Some(Fault::Lost),
            Self::Malformed(_) => Some(Fault::Malformed),
            Self::Stalled(_) => Some(Fault::Stalled),
            Self::Refused(_) => Some(Fault::Handshake),
        }
    }
}

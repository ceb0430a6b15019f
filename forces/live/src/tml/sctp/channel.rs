//! The three channels of a ForCES association (RFC 5811, 4.2.1).
//!
//! | channel | port | PPID | reliability | priorities | messages |
//! |---|---|---|---|---|---|
//! | high | 6704 | 21 | reliable | 4 to 7 | set-up, tear-down, Config, Query and their responses |
//! | medium | 6705 | 22 | 2 s, then given up | 3 | Event Notification |
//! | low | 6706 | 23 | 0.5 s, then given up | 1, 2 | Packet Redirect, Heartbeat |
//!
//! Deviation: RFC 5811 does not define the lifetimes. Two seconds outlive a few retransmissions of an event; half a
//! second is more than a round trip, and an older redirected packet is useless.

use weir_base::Span;
use weir_protocol::wire::MessageKind;
use weir_protocol::wire::header::{MESSAGE_LEN_MAX, View, message_len};

/// Maximum length of a message in octets.
pub const MESSAGE_MAX: usize = MESSAGE_LEN_MAX;

/// A channel: one SCTP association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Control.
    High,
    /// Events.
    Medium,
    /// Redirected packets and heartbeats.
    Low,
}

/// Why a message does not belong on the channel on which it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stray {
    /// Not a ForCES message, or its length differs from the length in its header.
    Malformed,
    /// Another channel carries this type of message.
    Kind,
    /// Another channel carries this priority.
    Priority,
}

impl Channel {
    /// All channels, in the order of service.
    pub const ALL: [Self; 3] = [Self::High, Self::Medium, Self::Low];

    /// 0 for the high, 1 for the medium and 2 for the low channel: the offset of the channel's port from the first
    /// port.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The channel at this offset from the first port.
    pub fn at(offset: u16) -> Option<Self> {
        Self::ALL.get(usize::from(offset)).copied()
    }

    /// Payload protocol identifier of the channel's data.
    pub const fn ppid(self) -> u32 {
        21 + self as u32
    }

    /// Name of the channel in messages to people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }

    /// Time during which a message is retransmitted; `None`: until it arrives.
    pub const fn lifetime(self) -> Option<Span> {
        match self {
            Self::High => None,
            Self::Medium => Some(Span::from_secs(2)),
            Self::Low => Some(Span::from_millis(500)),
        }
    }

    /// The channel of a message type. Unknown types use the control channel.
    pub const fn of(kind: MessageKind) -> Self {
        match kind {
            MessageKind::EventNotification => Self::Medium,
            MessageKind::PacketRedirect | MessageKind::Heartbeat => Self::Low,
            _ => Self::High,
        }
    }

    /// Checks a whole message that arrived on this channel.
    pub fn check(self, message: &[u8]) -> Result<MessageKind, Stray> {
        if message_len(message) != Ok(Some(message.len())) {
            return Err(Stray::Malformed);
        }
        let view = View::new_checked(message).map_err(|_| Stray::Malformed)?;
        if Self::of(view.kind()) != self {
            return Err(Stray::Kind);
        }
        let permitted = match self {
            Self::High => 4..=7,
            Self::Medium => 3..=3,
            Self::Low => 1..=2,
        };
        if !permitted.contains(&view.flags().priority.level()) {
            return Err(Stray::Priority);
        }
        Ok(view.kind())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message without a body.
    fn message(kind: u8, priority: u8) -> Vec<u8> {
        let mut message = vec![0x10, kind, 0, 6];
        message.resize(20, 0);
        message.extend([priority << 3, 0, 0, 0]);
        message
    }

    #[test]
    fn every_type_has_one_channel_and_its_priorities() {
        let kinds = [
            (0x01, Channel::High),
            (0x02, Channel::High),
            (0x03, Channel::High),
            (0x04, Channel::High),
            (0x05, Channel::Medium),
            (0x06, Channel::Low),
            (0x0f, Channel::Low),
            (0x11, Channel::High),
            (0x13, Channel::High),
            (0x14, Channel::High),
            (0x80, Channel::High),
        ];
        for (kind, channel) in kinds {
            for other in Channel::ALL {
                for priority in 0..8 {
                    let home = match priority {
                        0 => None,
                        1 | 2 => Some(Channel::Low),
                        3 => Some(Channel::Medium),
                        _ => Some(Channel::High),
                    };
                    let expected = if other != channel {
                        Err(Stray::Kind)
                    } else if home != Some(channel) {
                        Err(Stray::Priority)
                    } else {
                        Ok(MessageKind::from(kind))
                    };
                    assert_eq!(other.check(&message(kind, priority)), expected);
                }
            }
        }
    }

    #[test]
    fn a_length_that_lies_and_another_version_are_malformed() {
        let mut long = message(0x0f, 1);
        long.extend([0; 4]);
        let mut version = message(0x0f, 1);
        version[0] = 0x20;
        for bytes in [&long[..], &version, &long[..23], &[]] {
            assert_eq!(Channel::Low.check(bytes), Err(Stray::Malformed));
        }
    }

    #[test]
    fn ports_and_identifiers_follow_the_rfc() {
        assert_eq!(Channel::ALL.map(Channel::ppid), [21, 22, 23]);
        assert_eq!(Channel::at(2), Some(Channel::Low));
        assert_eq!(Channel::at(3), None);
    }
}

//! The common header (RFC 5810, 6.1).
//!
//! ```text
//!  0         1      2        4        8             12           20      24
//! +----+----+------+--------+--------+-------------+------------+-------+------
//! | v  | 0  | type | length | source | destination | correlator | flags | TLVs
//! +----+----+------+--------+--------+-------------+------------+-------+------
//!   4    4    8      words                                        |
//!                            +-----+-----+---+----+----+----+-----+
//!                            | ACK | Pri | 0 | EM | AT | TP | 0   |
//!                            +-----+-----+---+----+----+----+-----+
//!                              2     3     3   2    1    2    19
//! ```

use std::fmt;

use super::bytes::{Writer, u16_at, u32_at, u64_at};
use super::error::{Place, WireError};
use super::result_code::ResultCode;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 24;
/// Version of the protocol.
pub const VERSION: u8 = 1;
/// Maximum length of a message in bytes: the length field counts words of four bytes.
pub const MESSAGE_LEN_MAX: usize = 4 * u16::MAX as usize;

const PART: &str = "header";

codes! {
    /// Message types (RFC 5810, A.1).
    MessageKind(u8) {
        /// An FE requests an association.
        AssociationSetup = 0x01 "Association Setup",
        /// An association ends.
        AssociationTeardown = 0x02 "Association Teardown",
        /// A CE changes components.
        Config = 0x03 "Config",
        /// A CE reads components.
        Query = 0x04 "Query",
        /// An FE reports an event.
        EventNotification = 0x05 "Event Notification",
        /// Packets, to a CE or from it.
        PacketRedirect = 0x06 "Packet Redirect",
        /// Shows that the sender is alive.
        Heartbeat = 0x0f "Heartbeat",
        /// The answer to an association setup.
        AssociationSetupResponse = 0x11 "Association Setup Response",
        /// The answer to a Config.
        ConfigResponse = 0x13 "Config Response",
        /// The answer to a Query.
        QueryResponse = 0x14 "Query Response",
    }
}

/// The ID of an element or of a group of elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u32);

/// The kind of element that an ID denotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// A forwarding element. An FE with ID zero asks a CE to assign an ID.
    Fe,
    /// A control element.
    Ce,
    /// A group.
    Multicast,
    /// All control elements.
    AllCes,
    /// All forwarding elements.
    AllFes,
    /// All elements.
    AllElements,
    /// Reserved.
    Reserved,
}

impl Id {
    /// Source ID of an association setup that asks a CE to assign an ID.
    pub const UNASSIGNED: Self = Self(0);
    /// All forwarding elements.
    pub const ALL_FES: Self = Self(0xffff_fffe);

    /// The kind of element that the ID denotes.
    pub const fn kind(self) -> IdKind {
        match self.0 {
            0..=0x3fff_ffff => IdKind::Fe,
            0x4000_0000..=0x7fff_ffff => IdKind::Ce,
            0xc000_0000..=0xffff_ffef => IdKind::Multicast,
            0xffff_fffd => IdKind::AllCes,
            0xffff_fffe => IdKind::AllFes,
            0xffff_ffff => IdKind::AllElements,
            _ => IdKind::Reserved,
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// When the receiver answers a Config. A Heartbeat has only `Never` and `Always`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ack {
    /// Never.
    #[default]
    Never,
    /// If all operations succeeded.
    OnSuccess,
    /// If any operation failed; the response has only the failed paths.
    OnFailure,
    /// Always.
    Always,
}

/// Effect of a failed operation on the other operations of a message (EM).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Execution {
    /// Not set; a Config must set it.
    #[default]
    Unset,
    /// All operations are undone.
    AllOrNone,
    /// Earlier operations remain in effect; later ones are not tried.
    UntilFailure,
    /// All operations are tried.
    ContinueOnFailure,
}

/// Position of a message in a transaction (TP). It is meaningless outside a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The first message.
    #[default]
    Start,
    /// A message in the middle.
    Middle,
    /// The last message: commit.
    End,
    /// Abort: undo the transaction.
    Abort,
}

/// Priority from 0 to 7; 7 is the most urgent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// A priority from 0 to 7.
    pub const fn new(priority: u8) -> Option<Self> {
        if priority > 7 {
            return None;
        }
        Some(Self(priority))
    }

    /// The default priority of a type of message (RFC 5811, 4.2.1).
    pub const fn of(kind: MessageKind) -> Self {
        Self(match kind {
            MessageKind::AssociationSetup
            | MessageKind::AssociationSetupResponse
            | MessageKind::AssociationTeardown => 7,
            MessageKind::EventNotification => 3,
            MessageKind::PacketRedirect => 2,
            MessageKind::Heartbeat => 1,
            _ => 4,
        })
    }

    /// The priority of a redirect that others may wait for: the sender ranks redirects (RFC 5810, 6.1), and the low
    /// channel has two priorities (RFC 5811, 4.2.1).
    pub const OTHER_REDIRECT: Self = Self(1);
    /// The priority of a redirect of a routing protocol, or of neighbour discovery.
    pub const URGENT_REDIRECT: Self = Self::of(MessageKind::PacketRedirect);

    /// The priority as a number from 0 to 7.
    pub const fn level(self) -> u8 {
        self.0
    }
}

/// The flags of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// When the receiver answers the message.
    pub ack: Ack,
    /// Priority of the message.
    pub priority: Priority,
    /// Effect of a failed operation on the others.
    pub execution: Execution,
    /// Whether the message is part of a transaction (AT).
    pub transaction: bool,
    /// The position in the transaction.
    pub phase: Phase,
}

impl Flags {
    /// Decodes the flags from a word; reserved bits are ignored.
    pub const fn from_word(word: u32) -> Self {
        Self {
            ack: match word >> 30 {
                0 => Ack::Never,
                1 => Ack::OnSuccess,
                2 => Ack::OnFailure,
                _ => Ack::Always,
            },
            priority: Priority((word >> 27 & 7) as u8),
            execution: match word >> 22 & 3 {
                0 => Execution::Unset,
                1 => Execution::AllOrNone,
                2 => Execution::UntilFailure,
                _ => Execution::ContinueOnFailure,
            },
            transaction: word >> 21 & 1 == 1,
            phase: match word >> 19 & 3 {
                0 => Phase::Start,
                1 => Phase::Middle,
                2 => Phase::End,
                _ => Phase::Abort,
            },
        }
    }

    /// Encodes the flags as a word.
    pub const fn word(self) -> u32 {
        let (ack, execution, phase) = (self.ack as u32, self.execution as u32, self.phase as u32);
        let priority = self.priority.0 as u32;
        ack << 30 | priority << 27 | execution << 22 | (self.transaction as u32) << 21 | phase << 19
    }
}

/// A view of the header fields of a message.
#[derive(Clone, Copy, Debug)]
pub struct View<T>(T);

impl<T: AsRef<[u8]>> View<T> {
    /// Makes a view if `buffer` is long enough for a header; nothing else is checked.
    pub fn new_checked(buffer: T) -> Result<Self, WireError> {
        let (len, mismatch) = (buffer.as_ref().len(), ResultCode::LengthMismatch);
        let place = Place::new(PART, 0);
        place.permit_len("number of bytes", len, (HEADER_LEN, usize::MAX), mismatch)?;
        Ok(Self(buffer))
    }

    /// The version of the protocol.
    pub fn version(&self) -> u8 {
        self.0.as_ref()[0] >> 4
    }

    /// The type of the message.
    pub fn kind(&self) -> MessageKind {
        self.0.as_ref()[1].into()
    }

    /// Length of the message in bytes, according to its header.
    pub fn length(&self) -> usize {
        4 * usize::from(u16_at(self.0.as_ref(), 2))
    }

    /// ID of the sender.
    pub fn source(&self) -> Id {
        Id(u32_at(self.0.as_ref(), 4))
    }

    /// ID of the receiver.
    pub fn destination(&self) -> Id {
        Id(u32_at(self.0.as_ref(), 8))
    }

    /// Correlator: the number that a response shares with its request.
    pub fn correlator(&self) -> u64 {
        u64_at(self.0.as_ref(), 12)
    }

    /// The flags.
    pub fn flags(&self) -> Flags {
        Flags::from_word(u32_at(self.0.as_ref(), 20))
    }

    /// The body: the bytes after the header.
    pub fn body(&self) -> &[u8] {
        &self.0.as_ref()[HEADER_LEN..]
    }
}

/// Length in bytes of the message at the start of a byte stream; `None` until the header is complete. After an error
/// the rest of the stream is unreadable, so the transport closes the connection.
pub fn message_len(stream: &[u8]) -> Result<Option<usize>, WireError> {
    let Ok(view) = View::new_checked(stream) else {
        return Ok(None);
    };
    let place = Place::new(PART, 0);
    check_version(place, &view)?;
    let (len, mismatch) = (view.length(), ResultCode::LengthMismatch);
    place.permit_len("length", len, (HEADER_LEN, MESSAGE_LEN_MAX), mismatch)?;
    Ok(Some(len))
}

fn check_version<T: AsRef<[u8]>>(place: Place, view: &View<T>) -> Result<(), WireError> {
    let only = u64::from(VERSION);
    place.permit(
        "version",
        view.version(),
        (only, only),
        ResultCode::VersionMismatch,
    )
}

/// A header without type and length, which follow from the body of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// ID of the sender.
    pub source: Id,
    /// ID of the receiver.
    pub destination: Id,
    /// The number that a response shares with its request; zero if no response is expected.
    pub correlator: u64,
    /// The flags.
    pub flags: Flags,
}

impl Envelope {
    /// Reads a header; its length must be that of the bytes.
    pub(crate) fn parse(view: &View<&[u8]>) -> Result<Self, WireError> {
        let place = Place::new(PART, 0);
        check_version(place, view)?;
        let (len, there) = (view.length(), view.0.len());
        place.permit_len("length", len, (there, there), ResultCode::LengthMismatch)?;
        Ok(Self {
            source: view.source(),
            destination: view.destination(),
            correlator: view.correlator(),
            flags: view.flags(),
        })
    }

    /// Writes the header of a message of `len` bytes.
    pub(crate) fn write(&self, kind: MessageKind, len: usize, to: &mut Writer<'_>) {
        to.bytes(&[VERSION << 4, kind.into()]);
        to.u16((len / 4) as u16); // fits: a message checks it
        to.u32(self.source.0);
        to.u32(self.destination.0);
        to.u64(self.correlator);
        to.u32(self.flags.word());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    const HEARTBEAT: [u8; 24] = [
        0x10, 0x0f, 0x00, 0x06,                         // version 1, Heartbeat, 6 words
        0x40, 0x00, 0x00, 0x01,                         // source: a CE
        0x00, 0x00, 0x00, 0x02,                         // destination: an FE
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, // correlator
        0xc8, 0x00, 0x00, 0x00,                         // answer it; priority 1
    ];

    #[test]
    fn a_header_is_read() {
        let view = View::new_checked(&HEARTBEAT[..]).unwrap();
        let envelope = Envelope::parse(&view).unwrap();
        assert_eq!(view.kind(), MessageKind::Heartbeat);
        assert_eq!(
            (envelope.source, envelope.destination),
            (Id(0x4000_0001), Id(2))
        );
        assert_eq!((envelope.correlator, envelope.flags.ack), (16, Ack::Always));
        assert_eq!(
            envelope.flags.priority,
            Priority::of(MessageKind::Heartbeat)
        );
    }

    #[test]
    fn a_stream_is_cut_by_lengths_that_can_be_true() {
        assert_eq!(message_len(&HEARTBEAT[..23]), Ok(None));
        assert_eq!(message_len(&HEARTBEAT), Ok(Some(24)));
        let mut bytes = HEARTBEAT;
        bytes[3] = 5;
        assert_eq!(
            message_len(&bytes).unwrap_err().code,
            ResultCode::LengthMismatch
        );
        bytes[0] = 0x20;
        assert_eq!(
            message_len(&bytes).unwrap_err().code,
            ResultCode::VersionMismatch
        );
    }

    #[test]
    fn ids_have_their_ranges() {
        for (id, kind) in [
            (0, IdKind::Fe),
            (0x3fff_ffff, IdKind::Fe),
            (0x4000_0000, IdKind::Ce),
            (0x8000_0000, IdKind::Reserved),
            (0xc000_0000, IdKind::Multicast),
            (0xffff_ffef, IdKind::Multicast),
            (0xffff_fff0, IdKind::Reserved),
            (0xffff_fffd, IdKind::AllCes),
            (0xffff_fffe, IdKind::AllFes),
            (0xffff_ffff, IdKind::AllElements),
        ] {
            assert_eq!(Id(id).kind(), kind, "{}", Id(id));
        }
    }

    #[test]
    fn every_flag_has_its_bits() {
        let reserved = 0x0707_ffff;
        for bit in 0..32 {
            let word = 1_u32 << bit;
            assert_eq!(Flags::from_word(word).word(), word & !reserved);
        }
        assert!(Priority::new(8).is_none());
    }
}

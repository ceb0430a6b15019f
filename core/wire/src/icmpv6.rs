//! ICMPv6 (RFC 4443).
//!
//! ```text
//!  0      1      2          4              8
//! +------+------+----------+--------------+---------
//! | type | code | checksum | by type      | payload: for an error, the start of the offender
//! +------+------+----------+--------------+---------
//!   < 128: errors
//! ```

use std::net::Ipv6Addr;

use crate::bytes::{array_at, clamped, set_u16, u16_at};
use crate::checksum::Sum;
use crate::{Protocol, WireError};

const HEADER: &str = "ICMPv6 header";

/// Length of the header.
pub const HEADER_LEN: usize = 8;

view!(
    /// A view of the bytes of an ICMPv6 message.
    View, HEADER, HEADER_LEN
);

impl<T: AsRef<[u8]>> View<T> {
    /// Type.
    pub fn kind(&self) -> u8 {
        self.bytes()[0]
    }

    /// Code, whose meaning depends on the type.
    pub fn code(&self) -> u8 {
        self.bytes()[1]
    }

    /// The checksum over pseudo header and message.
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes(), 2)
    }

    /// The four bytes whose meaning depends on the type.
    pub fn rest(&self) -> [u8; 4] {
        array_at(self.bytes(), 4)
    }

    /// The payload: the bytes after the header.
    pub fn payload(&self) -> &[u8] {
        clamped(self.bytes(), HEADER_LEN, usize::MAX)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Writes type and code.
    pub fn set_kind_and_code(&mut self, kind: u8, code: u8) {
        self.bytes_mut()[..2].copy_from_slice(&[kind, code]);
    }

    /// Writes the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        set_u16(self.bytes_mut(), 2, checksum);
    }

    /// Writes the four bytes whose meaning depends on the type.
    pub fn set_rest(&mut self, rest: [u8; 4]) {
        self.bytes_mut()[4..8].copy_from_slice(&rest);
    }

    /// Computes and writes the checksum over the whole buffer.
    pub fn fill_checksum(&mut self, source: Ipv6Addr, destination: Ipv6Addr) {
        self.set_checksum(0);
        let (from, to) = (source.into(), destination.into());
        let len = self.bytes().len();
        let pseudo = Sum::default().pseudo(from, to, Protocol::ICMPV6, len);
        let sum = pseudo.bytes(self.bytes());
        self.set_checksum(sum.checksum());
    }
}

codes! {
    /// Why a destination is unreachable.
    Unreachable(u8) {
        /// No route leads to the destination.
        NO_ROUTE = 0,
        /// Communication is administratively prohibited.
        PROHIBITED = 1,
        /// Beyond the scope of the source address.
        BEYOND_SCOPE = 2,
        /// The address does not answer.
        ADDRESS = 3,
        /// No process listens on the port.
        PORT = 4,
    }
}

codes! {
    /// Which limit was exceeded.
    Exceeded(u8) {
        /// The hop limit, in transit.
        HOP_LIMIT = 0,
        /// The time in which all fragments must arrive.
        REASSEMBLY = 1,
    }
}

/// The header of an ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// The destination is unreachable.
    Unreachable(Unreachable),
    /// The packet is longer than the MTU of a link on its path.
    PacketTooBig {
        /// The MTU of the next hop.
        mtu: u32,
    },
    /// Time was exceeded.
    TimeExceeded(Exceeded),
    /// Echo request: a ping.
    EchoRequest {
        /// Identifies the ping process.
        identifier: u16,
        /// Numbers the pings of a process.
        sequence: u16,
    },
    /// Echo reply: the answer to a ping.
    EchoReply {
        /// Identifies the ping process.
        identifier: u16,
        /// Numbers the pings of a process.
        sequence: u16,
    },
    /// Any other message, kept as it is.
    Other {
        /// Type.
        kind: u8,
        /// Code.
        code: u8,
        /// The four bytes whose meaning depends on the type.
        rest: [u8; 4],
    },
}

const UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 129;

impl Repr {
    /// Reads a header. A known type with a set bit that must be zero becomes [`Self::Other`].
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        let (kind, code, rest) = (view.kind(), view.code(), view.rest());
        let [a, b, c, d] = rest;
        let (identifier, sequence) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        Ok(match (kind, code) {
            (UNREACHABLE, code) if rest == [0; 4] => Self::Unreachable(code.into()),
            (PACKET_TOO_BIG, 0) => Self::PacketTooBig {
                mtu: u32::from_be_bytes(rest),
            },
            (TIME_EXCEEDED, code) if rest == [0; 4] => Self::TimeExceeded(code.into()),
            (ECHO_REQUEST, 0) => Self::EchoRequest {
                identifier,
                sequence,
            },
            (ECHO_REPLY, 0) => Self::EchoReply {
                identifier,
                sequence,
            },
            _ => Self::Other { kind, code, rest },
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header with a checksum of zero.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        let pair = |identifier: u16, sequence: u16| {
            let ([a, b], [c, d]) = (identifier.to_be_bytes(), sequence.to_be_bytes());
            [a, b, c, d]
        };
        let (kind, code, rest) = match *self {
            Self::Unreachable(why) => (UNREACHABLE, why.into(), [0; 4]),
            Self::PacketTooBig { mtu } => (PACKET_TOO_BIG, 0, mtu.to_be_bytes()),
            Self::TimeExceeded(what) => (TIME_EXCEEDED, what.into(), [0; 4]),
            Self::EchoRequest {
                identifier,
                sequence,
            } => (ECHO_REQUEST, 0, pair(identifier, sequence)),
            Self::EchoReply {
                identifier,
                sequence,
            } => (ECHO_REPLY, 0, pair(identifier, sequence)),
            Self::Other { kind, code, rest } => (kind, code, rest),
        };
        view.set_kind_and_code(kind, code);
        view.set_checksum(0);
        view.set_rest(rest);
    }
}

/// Whether messages of this type are errors, which must not be answered with errors.
pub const fn is_error(kind: u8) -> bool {
    kind < 128
}

/// Redirect (RFC 4861): not an error by its number, but it must not be answered with an error either
/// (RFC 4443, section 2.4 e.2).
pub const REDIRECT: u8 = 137;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const TOO_BIG: [u8; 12] = [
        0x02, 0x00,             // type: packet too big
        0x12, 0x34,             // checksum
        0x00, 0x00, 0x05, 0xac, // MTU: 1452
        0xde, 0xad, 0xbe, 0xef, // start of the offender
    ];

    #[test]
    fn a_message_is_read() {
        let view = View::new_checked(TOO_BIG).unwrap();
        assert_eq!(Repr::parse(&view), Ok(Repr::PacketTooBig { mtu: 1452 }));
        assert_eq!(view.checksum(), 0x1234);
        assert_eq!(view.payload(), [0xde, 0xad, 0xbe, 0xef]);
        assert!(is_error(1) && is_error(127) && !is_error(128) && !is_error(REDIRECT));
    }

    proptest! {
        #[test]
        fn what_is_read_is_emitted_again(
            kind in prop::sample::select(vec![1_u8, 2, 3, 4, 99, 128, 129, 135]), code in 0_u8..8,
            rest in prop::sample::select(vec![[0; 4], [0, 0, 5, 0xdc], [1, 2, 3, 4]]),
            from: [u8; 16], to: [u8; 16], payload in vec(any::<u8>(), 0..30),
        ) {
            let [a, b, c, d] = rest;
            let mut message = vec![kind, code, 0, 0, a, b, c, d];
            message.extend_from_slice(&payload);
            let repr = Repr::parse(&View::new_checked(&message[..]).unwrap()).unwrap();
            let mut emitted = [0xa5; HEADER_LEN + 4];
            repr.emit(&mut View::new_unchecked(&mut emitted[..repr.encoded_len()]));
            prop_assert_eq!(&emitted[..HEADER_LEN], &message[..HEADER_LEN]);
            prop_assert_eq!(&emitted[HEADER_LEN..], &[0xa5; 4]);
            prop_assert_eq!(Repr::parse(&View::new_checked(emitted).unwrap()), Ok(repr));
            View::new_unchecked(&mut message[..]).fill_checksum(from.into(), to.into());
            let theirs = etherparse::Icmpv6Slice::from_slice(&message).unwrap();
            prop_assert!(theirs.is_checksum_valid(from, to));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..40)) {
            if let Ok(view) = View::new_checked(&bytes[..]) {
                let _ = (view.payload().len(), Repr::parse(&view));
            }
        }
    }
}

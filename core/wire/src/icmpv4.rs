//! ICMP (RFC 792; the next-hop MTU of RFC 1191).
//!
//! ```text
//!  0      1      2          4              8
//! +------+------+----------+--------------+---------
//! | type | code | checksum | by type      | payload: for an error, the start of the offender
//! +------+------+----------+--------------+---------
//! ```

use crate::bytes::{array_at, clamped, set_u16, u16_at};
use crate::{WireError, checksum};

const HEADER: &str = "ICMP header";

/// Length of the header.
pub const HEADER_LEN: usize = 8;

view!(
    /// A view of the bytes of an ICMP message.
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

    /// The checksum over the message.
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
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let sum = checksum::internet(self.bytes());
        self.set_checksum(sum);
    }
}

codes! {
    /// Why a destination is unreachable.
    Unreachable(u8) {
        /// No route to the network.
        NETWORK = 0,
        /// The host does not answer.
        HOST = 1,
        /// The host does not know the protocol.
        PROTOCOL = 2,
        /// No process listens on the port.
        PORT = 3,
        /// A source route failed.
        SOURCE_ROUTE_FAILED = 5,
        /// Communication is administratively prohibited (RFC 1812).
        PROHIBITED = 13,
    }
}

codes! {
    /// Which time was exceeded.
    Exceeded(u8) {
        /// The TTL ran out in transit.
        TTL = 0,
        /// Fragments did not arrive in time.
        REASSEMBLY = 1,
    }
}

/// The header of an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// Echo reply: the answer to a ping.
    EchoReply {
        /// Identifies the ping process.
        identifier: u16,
        /// Numbers the pings of a process.
        sequence: u16,
    },
    /// Echo request: a ping.
    EchoRequest {
        /// Identifies the ping process.
        identifier: u16,
        /// Numbers the pings of a process.
        sequence: u16,
    },
    /// Fragmentation is needed, but not permitted.
    FragmentationNeeded {
        /// The MTU of the next hop; zero from routers before RFC 1191.
        mtu: u16,
    },
    /// The destination is unreachable.
    Unreachable(Unreachable),
    /// Time was exceeded.
    TimeExceeded(Exceeded),
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

/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const FRAGMENTATION_NEEDED: u8 = 4;

impl Repr {
    /// Reads a header. A known type with a set bit that must be zero becomes [`Self::Other`].
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        let (kind, code, rest) = (view.kind(), view.code(), view.rest());
        let [a, b, c, d] = rest;
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        Ok(match (kind, code) {
            (ECHO_REPLY, 0) => Self::EchoReply {
                identifier: high,
                sequence: low,
            },
            (ECHO_REQUEST, 0) => Self::EchoRequest {
                identifier: high,
                sequence: low,
            },
            (UNREACHABLE, FRAGMENTATION_NEEDED) if high == 0 => {
                Self::FragmentationNeeded { mtu: low }
            }
            (UNREACHABLE, code) if rest == [0; 4] => Self::Unreachable(code.into()),
            (TIME_EXCEEDED, code) if rest == [0; 4] => Self::TimeExceeded(code.into()),
            _ => Self::Other { kind, code, rest },
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header with a checksum of zero.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        let pair = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            [a, b, c, d]
        };
        let (kind, code, rest) = match *self {
            Self::EchoReply {
                identifier,
                sequence,
            } => (ECHO_REPLY, 0, pair(identifier, sequence)),
            Self::EchoRequest {
                identifier,
                sequence,
            } => (ECHO_REQUEST, 0, pair(identifier, sequence)),
            Self::FragmentationNeeded { mtu } => (UNREACHABLE, FRAGMENTATION_NEEDED, pair(0, mtu)),
            Self::Unreachable(why) => (UNREACHABLE, why.into(), [0; 4]),
            Self::TimeExceeded(what) => (TIME_EXCEEDED, what.into(), [0; 4]),
            Self::Other { kind, code, rest } => (kind, code, rest),
        };
        view.set_kind_and_code(kind, code);
        view.set_checksum(0);
        view.set_rest(rest);
    }
}

/// Whether messages of this type are errors, which must not be answered with errors: all except the
/// queries of RFC 1122 (section 3.2.2) and RFC 950. An unknown type counts as an error, to be safe.
pub const fn is_error(kind: u8) -> bool {
    !matches!(kind, 0 | 8 | 9 | 10 | 13 | 14 | 15 | 16 | 17 | 18 | 42 | 43)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const TOO_BIG: [u8; 12] = [
        0x03, 0x04,             // type: unreachable; code: fragmentation needed
        0x59, 0x68,             // checksum
        0x00, 0x00, 0x05, 0xac, // next-hop MTU: 1452
        0xde, 0xad, 0xbe, 0xef, // start of the offender
    ];

    #[test]
    fn a_message_is_read() {
        let view = View::new_checked(TOO_BIG).unwrap();
        assert_eq!(
            Repr::parse(&view),
            Ok(Repr::FragmentationNeeded { mtu: 1452 })
        );
        assert_eq!(view.payload(), [0xde, 0xad, 0xbe, 0xef]);
        assert!(is_error(3) && is_error(5) && is_error(200) && !is_error(8));
    }

    #[test]
    fn set_bits_where_zero_belongs_are_kept() {
        let message = View::new_unchecked([11, 0, 0, 0, 0, 5, 0, 0]); // a length of RFC 4884
        assert_eq!(
            Repr::parse(&message),
            Ok(Repr::Other {
                kind: 11,
                code: 0,
                rest: [0, 5, 0, 0]
            })
        );
    }

    #[test]
    fn etherparse_sends_the_same_ping() {
        let header = etherparse::IcmpEchoHeader { id: 7, seq: 9 };
        let theirs = etherparse::Icmpv4Header::with_checksum(
            etherparse::Icmpv4Type::EchoRequest(header),
            b"hello",
        );
        let ours = Repr::EchoRequest {
            identifier: 7,
            sequence: 9,
        };
        let mut message = [&[0xa5; HEADER_LEN], &b"hello"[..]].concat();
        ours.emit(&mut View::new_unchecked(&mut message[..]));
        View::new_unchecked(&mut message[..]).fill_checksum();
        assert_eq!(message[..HEADER_LEN], theirs.to_bytes()[..]);
    }

    proptest! {
        #[test]
        fn what_is_read_is_emitted_again(
            kind in prop::sample::select(vec![0_u8, 3, 5, 8, 11, 12, 99]), code in 0_u8..20,
            rest in prop::sample::select(vec![[0; 4], [0, 0, 5, 0xdc], [1, 2, 3, 4]]),
            payload in vec(any::<u8>(), 0..30),
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
            View::new_unchecked(&mut message[..]).fill_checksum();
            prop_assert!(checksum::is_right(&message));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..40)) {
            if let Ok(view) = View::new_checked(&bytes[..]) {
                let _ = (view.payload().len(), Repr::parse(&view));
            }
        }
    }
}

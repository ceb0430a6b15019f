//! IPv6 extension headers (RFC 8200, section 4; AH: RFC 4302) and the bounded walk over them.
//!
//! ```text
//!  hop-by-hop, routing, destination options      fragment                    authentication
//! +------+------+-----------------------+   +------+------+-----------+   +------+------+------
//! | next | len  | 8*len + 6 bytes       |   | next | 0    | off |0|M |   | next | len  | 4*len + 6 bytes
//! +------+------+-----------------------+   +------+------+-----------+   +------+------+------
//!                routing: type, segments    | identification          |
//!                                           +-------------------------+
//! ```
//!
//! The walk stops at the first header that is not one of these, at a fragment header of a datagram
//! that really is in pieces (so that all pieces show the same protocol), after [`HEADERS_MAX`]
//! headers, and where the bytes end. A packet is never refused here: the destination validates the
//! headers that the walk did not reach.

use crate::bytes::{set_u16, set_u32, u16_at, u32_at};
use crate::{FragmentOffset, Protocol, WireError};

const HEADER: &str = "IPv6 extension header";

/// Maximum extension headers that a walk passes: their number is the sender's choice, not ours.
pub const HEADERS_MAX: usize = 8;

/// Length of a fragment header.
pub const FRAGMENT_LEN: usize = 8;

view!(
    /// A view of any extension header: the two bytes that all of them share, and the routing header's next two. The
    /// fixed part is eight bytes for all of them.
    View, HEADER, 8
);

impl<T: AsRef<[u8]>> View<T> {
    /// The protocol of the bytes after this header.
    pub fn next_header(&self) -> Protocol {
        self.bytes()[0].into()
    }

    /// The length of this header in bytes, by the rule for its `kind`; `None` if `kind` is not an extension header.
    pub fn header_len(&self, kind: Protocol) -> Option<usize> {
        let units = usize::from(self.bytes()[1]);
        match kind {
            Protocol::HOP_BY_HOP | Protocol::ROUTING | Protocol::DESTINATION_OPTIONS => {
                Some((units + 1) * 8)
            }
            Protocol::AUTHENTICATION => Some((units + 2) * 4),
            Protocol::FRAGMENT => Some(FRAGMENT_LEN),
            _ => None,
        }
    }

    /// The type of a routing header.
    pub fn routing_type(&self) -> u8 {
        self.bytes()[2]
    }

    /// The segments that a routing header has left.
    pub fn segments_left(&self) -> u8 {
        self.bytes()[3]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Writes the protocol of the bytes after this header.
    pub fn set_next_header(&mut self, protocol: Protocol) {
        self.bytes_mut()[0] = protocol.into();
    }

    /// Writes the length byte: eight-byte units beyond the first, or for an authentication header
    /// four-byte units beyond the first two.
    pub fn set_len_units(&mut self, units: u8) {
        self.bytes_mut()[1] = units;
    }
}

view!(
    /// A view of a fragment header.
    FragmentView, HEADER, FRAGMENT_LEN
);

impl<T: AsRef<[u8]>> FragmentView<T> {
    /// The protocol of the bytes after this header in the datagram.
    pub fn next_header(&self) -> Protocol {
        self.bytes()[0].into()
    }

    /// The fragment's position in the datagram.
    pub fn offset(&self) -> FragmentOffset {
        FragmentOffset::from_bits(u16_at(self.bytes(), 2) >> 3)
    }

    /// Whether another fragment follows.
    pub fn more_fragments(&self) -> bool {
        self.bytes()[3] & 1 != 0
    }

    /// The identification: the same in all fragments of a datagram.
    pub fn identification(&self) -> u32 {
        u32_at(self.bytes(), 4)
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> FragmentView<T> {
    /// Writes the protocol of the bytes after this header, and zero into the reserved byte.
    pub fn set_next_header(&mut self, protocol: Protocol) {
        set_u16(self.bytes_mut(), 0, u16::from(u8::from(protocol)) << 8);
    }

    /// Writes offset and flag, and zero into the reserved bits.
    pub fn set_fragmentation(&mut self, offset: FragmentOffset, more: bool) {
        set_u16(self.bytes_mut(), 2, offset.bits() << 3 | u16::from(more));
    }

    /// Writes the identification.
    pub fn set_identification(&mut self, identification: u32) {
        set_u32(self.bytes_mut(), 4, identification);
    }
}

/// A fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentRepr {
    /// The protocol of the bytes after this header in the datagram.
    pub next_header: Protocol,
    /// The fragment's position in the datagram.
    pub offset: FragmentOffset,
    /// Whether another fragment follows.
    pub more_fragments: bool,
    /// The identification: the same in all fragments of a datagram.
    pub identification: u32,
}

impl FragmentRepr {
    /// Reads a fragment header; reserved bits are ignored, as RFC 8200 demands.
    pub fn parse<T: AsRef<[u8]>>(view: &FragmentView<T>) -> Result<Self, WireError> {
        Ok(Self {
            next_header: view.next_header(),
            offset: view.offset(),
            more_fragments: view.more_fragments(),
            identification: view.identification(),
        })
    }

    /// Whether it is the whole datagram and not a piece of it (an atomic fragment, RFC 6946).
    pub fn is_whole(&self) -> bool {
        self.offset == FragmentOffset::ZERO && !self.more_fragments
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        FRAGMENT_LEN
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut FragmentView<T>) {
        view.set_next_header(self.next_header);
        view.set_fragmentation(self.offset, self.more_fragments);
        view.set_identification(self.identification);
    }
}

/// The result of a walk over extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The protocol of the bytes after the last header that was passed.
    pub protocol: Protocol,
    /// Bytes of the headers that were passed.
    pub len: usize,
    /// The fragment header, if there was one.
    pub fragment: Option<FragmentRepr>,
    /// Whether there was a routing header of type 0 (RFC 5095).
    pub source_routed: bool,
    /// False if the walk had to stop at an extension header, because the bytes end within it or because
    /// there are too many headers.
    pub complete: bool,
}

impl Chain {
    /// Walks over the headers in `bytes`; `first` is the kind of the first one.
    pub fn walk(first: Protocol, bytes: &[u8]) -> Self {
        let mut chain = Self {
            protocol: first,
            len: 0,
            fragment: None,
            source_routed: false,
            complete: false,
        };
        for _ in 0..HEADERS_MAX {
            if chain.step(bytes) {
                return chain;
            }
        }
        chain.complete = !is_extension(chain.protocol);
        chain
    }

    /// Passes one header, if it can; returns whether the walk is over.
    fn step(&mut self, bytes: &[u8]) -> bool {
        if !is_extension(self.protocol) {
            self.complete = true;
            return true;
        }
        let rest = &bytes[self.len..];
        let Ok(view) = View::new_checked(rest) else {
            return true;
        };
        let Some(len) = view.header_len(self.protocol).filter(|n| *n <= rest.len()) else {
            return true;
        };
        if self.protocol == Protocol::ROUTING && view.routing_type() == 0 {
            self.source_routed = true;
        }
        let was_fragment = self.protocol == Protocol::FRAGMENT;
        self.protocol = view.next_header();
        self.len += len;
        if was_fragment {
            let fragment = FragmentRepr::parse(&FragmentView::new_unchecked(rest)).ok();
            self.fragment = fragment;
            if fragment.is_some_and(|f| !f.is_whole()) {
                self.complete = true;
                return true;
            }
        }
        false
    }
}

/// Whether a walk passes headers of this kind.
pub const fn is_extension(protocol: Protocol) -> bool {
    matches!(
        protocol,
        Protocol::HOP_BY_HOP
            | Protocol::ROUTING
            | Protocol::FRAGMENT
            | Protocol::AUTHENTICATION
            | Protocol::DESTINATION_OPTIONS
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const CHAIN: [u8; 44] = [
        0x2b, 0x00, 1, 4, 0, 0, 0, 0,             // hop-by-hop: next is routing, 8 bytes; PadN
        0x3c, 0x00, 0x04, 0x00, 0, 0, 0, 0,       // routing: next is destination options; type 4
        0x33, 0x00, 1, 4, 0, 0, 0, 0,             // destination options: next is AH
        0x2c, 0x01, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, // AH: next is fragment, 12 bytes
        0x11, 0x00, 0x00, 0x00, 0, 0, 0, 7,       // fragment: next is UDP, atomic, datagram 7
    ];

    #[test]
    fn a_whole_chain_is_walked() {
        let chain = Chain::walk(Protocol::HOP_BY_HOP, &CHAIN);
        assert_eq!(
            chain,
            Chain {
                protocol: Protocol::UDP,
                len: 44,
                fragment: Some(FragmentRepr {
                    next_header: Protocol::UDP,
                    offset: FragmentOffset::ZERO,
                    more_fragments: false,
                    identification: 7,
                }),
                source_routed: false,
                complete: true,
            }
        );
    }

    #[test]
    fn a_type_0_routing_header_is_seen() {
        let mut bytes = CHAIN;
        bytes[10] = 0;
        assert!(Chain::walk(Protocol::HOP_BY_HOP, &bytes).source_routed);
    }

    #[test]
    fn the_walk_stops_at_a_real_fragment() {
        // Next is a destination options header, which later pieces do not contain.
        let first = [0x3c, 0, 0x00, 0x01, 0, 0, 0, 7, 0x11, 0, 1, 4, 0, 0, 0, 0];
        let chain = Chain::walk(Protocol::FRAGMENT, &first);
        assert_eq!(
            (chain.protocol, chain.len),
            (Protocol::DESTINATION_OPTIONS, 8)
        );
        assert!(chain.complete && chain.fragment.is_some_and(|f| !f.is_whole()));
    }

    #[test]
    fn a_chain_that_ends_outside_or_is_too_long_is_incomplete() {
        let chain = Chain::walk(Protocol::HOP_BY_HOP, &CHAIN[..30]);
        assert_eq!((chain.protocol, chain.len), (Protocol::AUTHENTICATION, 24));
        assert!(!chain.complete);
        let options = [0x3c, 0, 1, 4, 0, 0, 0, 0].repeat(HEADERS_MAX + 1);
        let chain = Chain::walk(Protocol::DESTINATION_OPTIONS, &options);
        assert_eq!(chain.len, HEADERS_MAX * 8);
        assert!(!chain.complete);
        let mut last = options;
        last[HEADERS_MAX * 8 - 8] = 6; // the eighth one is followed by TCP
        let chain = Chain::walk(Protocol::DESTINATION_OPTIONS, &last);
        assert_eq!(chain.protocol, Protocol::TCP);
        assert!(chain.complete);
    }

    proptest! {
        #[test]
        fn a_fragment_header_that_is_emitted_is_read_back(
            next: u8, offset: u16, more_fragments: bool, identification: u32,
        ) {
            let repr = FragmentRepr {
                next_header: next.into(),
                offset: FragmentOffset::from_bits(offset),
                more_fragments,
                identification,
            };
            let mut buffer = [0xa5; FRAGMENT_LEN + 4];
            repr.emit(&mut FragmentView::new_unchecked(&mut buffer[..repr.encoded_len()]));
            prop_assert_eq!(&buffer[FRAGMENT_LEN..], &[0xa5; 4]);
            let view = FragmentView::new_checked(&buffer[..]).unwrap();
            prop_assert_eq!(FragmentRepr::parse(&view), Ok(repr));
            let theirs = etherparse::Ipv6FragmentHeaderSlice::from_slice(&buffer).unwrap();
            prop_assert_eq!(theirs.next_header().0, next);
            prop_assert_eq!(theirs.fragment_offset().value(), repr.offset.bits());
            prop_assert_eq!(theirs.more_fragments(), more_fragments);
            prop_assert_eq!(theirs.identification(), identification);
        }

        #[test]
        fn a_header_is_read_as_it_was_written(next: u8, units: u8) {
            let mut bytes = [0xa5; 8];
            let mut view = View::new_unchecked(&mut bytes[..]);
            view.set_next_header(next.into());
            view.set_len_units(units);
            let units = usize::from(units);
            prop_assert_eq!(u8::from(view.next_header()), next);
            prop_assert_eq!(view.header_len(Protocol::ROUTING), Some(8 + 8 * units));
            prop_assert_eq!(view.header_len(Protocol::AUTHENTICATION), Some(8 + 4 * units));
            prop_assert_eq!(view.header_len(Protocol::TCP), None);
            prop_assert_eq!((view.routing_type(), view.segments_left()), (0xa5, 0xa5));
        }

        #[test]
        fn no_bytes_make_it_panic_or_leave_the_packet(
            first in prop::sample::select(vec![0_u8, 43, 44, 51, 60, 6]),
            bytes in vec(prop::sample::select(vec![0_u8, 1, 2, 6, 43, 44, 51, 60, 255]), 0..200),
        ) {
            let chain = Chain::walk(first.into(), &bytes);
            prop_assert!(chain.len <= bytes.len());
            if let Ok(view) = View::new_checked(&bytes[..]) {
                let _ = (view.segments_left(), view.header_len(first.into()));
            }
        }
    }
}

//! Generic routing encapsulation (GRE), without options.
//!
//! ```text
//!  0          2      4
//! +-+-----+---+------+---------
//! |C|  0  |ver| type | payload        C: a checksum follows
//! +-+-----+---+------+---------
//! ```
//!
//! Source: RFC 2784, section 2. After an IPv4 header (RFC 2784) or an IPv6 header (RFC 7676), as protocol 47.
//!
//! Deviation: a header with a checksum (RFC 2784), or with a key or a sequence number (RFC 2890), is refused: a
//! tunnel has these only if both ends are configured for them.

use crate::bytes::{set_u16, u16_at};
use crate::error::permit;
use crate::{EtherType, WireError};

const HEADER: &str = "GRE header";

/// Length of a header without options.
pub const HEADER_LEN: usize = 4;

view!(
    /// A view of the bytes of a GRE header.
    View, HEADER, HEADER_LEN
);

impl<T: AsRef<[u8]>> View<T> {
    /// The flags and reserved bits: the first thirteen bits. Zero if there are no options.
    #[inline]
    pub fn flags(&self) -> u16 {
        u16_at(self.bytes(), 0) >> 3
    }

    /// The version, which is zero.
    #[inline]
    pub fn version(&self) -> u8 {
        self.bytes()[1] & 0x07
    }

    /// The Ethernet type of the payload.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        u16_at(self.bytes(), 2).into()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Writes version 0 without options.
    pub fn set_plain(&mut self) {
        set_u16(self.bytes_mut(), 0, 0);
    }

    /// Writes the Ethernet type of the payload.
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        set_u16(self.bytes_mut(), 2, ethertype.into());
    }
}

/// A GRE header without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The Ethernet type of the payload.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads a header. Options and other versions are errors.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        permit(HEADER, "flags", view.flags(), 0, 0)?;
        permit(HEADER, "version", view.version(), 0, 0)?;
        Ok(Self {
            ethertype: view.ethertype(),
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        view.set_plain();
        view.set_ethertype(self.ethertype);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_is_read() {
        let view = View::new_checked([0, 0, 0xc0, 0, 7]).unwrap();
        let ethertype = EtherType(0xc000);
        assert_eq!(Repr::parse(&view), Ok(Repr { ethertype }));
    }

    #[test]
    fn options_and_other_versions_are_refused() {
        for first in [[0x80, 0], [0x20, 0], [0x10, 0], [0, 0x08], [0, 1]] {
            let view = View::new_unchecked([first[0], first[1], 8, 0]);
            assert!(Repr::parse(&view).is_err(), "{first:?}");
        }
        let version = View::new_unchecked([0, 1, 8, 0]);
        assert_eq!(
            Repr::parse(&version).unwrap_err().to_string(),
            "GRE header: version is 1, but must be from 0 to 0"
        );
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(code: u16) {
            let repr = Repr { ethertype: code.into() };
            let mut buffer = [0xa5; HEADER_LEN + 4];
            repr.emit(&mut View::new_unchecked(&mut buffer[..repr.encoded_len()]));
            prop_assert_eq!(&buffer[HEADER_LEN..], &[0xa5; 4]);
            prop_assert_eq!(Repr::parse(&View::new_checked(&buffer[..]).unwrap()), Ok(repr));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            if let Ok(view) = View::new_checked(&bytes[..]) {
                let _ = Repr::parse(&view);
            }
        }
    }
}

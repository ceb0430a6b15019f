//! Ethernet II (IEEE 802.3, clause 3).
//!
//! ```text
//!  0      6      12     14
//! +------+------+------+---------
//! | dst  | src  | type | payload      no preamble, no frame check sequence
//! +------+------+------+---------
//! ```

use crate::bytes::{array_at, set_u16, u16_at};
use crate::{EtherType, WireError};

const HEADER: &str = "Ethernet header";

/// Length of the header.
pub const HEADER_LEN: usize = 14;

/// A link-layer address.
pub type Mac = [u8; 6];

view!(
    /// A view of the bytes of an Ethernet header.
    View, HEADER, HEADER_LEN
);

impl<T: AsRef<[u8]>> View<T> {
    /// Destination MAC address.
    #[inline]
    pub fn destination(&self) -> Mac {
        array_at(self.bytes(), 0)
    }

    /// Source MAC address.
    #[inline]
    pub fn source(&self) -> Mac {
        array_at(self.bytes(), 6)
    }

    /// The Ethernet type of the payload.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        u16_at(self.bytes(), 12).into()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Writes the destination MAC address.
    #[inline]
    pub fn set_destination(&mut self, mac: Mac) {
        self.bytes_mut()[..6].copy_from_slice(&mac);
    }

    /// Writes the source MAC address.
    #[inline]
    pub fn set_source(&mut self, mac: Mac) {
        self.bytes_mut()[6..12].copy_from_slice(&mac);
    }

    /// Writes the Ethernet type of the payload.
    #[inline]
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        set_u16(self.bytes_mut(), 12, ethertype.into());
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Destination MAC address.
    pub destination: Mac,
    /// Source MAC address.
    pub source: Mac,
    /// The Ethernet type of the payload.
    pub ethertype: EtherType,
}

impl Repr {
    /// Reads a header. A length below 1536 (an 802.3 frame) is kept as a number.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        Ok(Self {
            destination: view.destination(),
            source: view.source(),
            ethertype: view.ethertype(),
        })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        view.set_destination(self.destination);
        view.set_source(self.source);
        view.set_ethertype(self.ethertype);
    }
}

/// Whether an address names a group: broadcast or multicast.
#[inline]
pub const fn is_group(mac: Mac) -> bool {
    mac[0] & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const FRAME: [u8; 14] = [
        0x02, 0x00, 0x00, 0x00, 0x00, 0x01, // destination
        0x02, 0x00, 0x00, 0x00, 0x00, 0x02, // source
        0x86, 0xdd,                         // type: IPv6
    ];

    #[test]
    fn a_header_is_read() {
        let repr = Repr::parse(&View::new_checked(FRAME).unwrap()).unwrap();
        assert_eq!(
            repr,
            Repr {
                destination: [2, 0, 0, 0, 0, 1],
                source: [2, 0, 0, 0, 0, 2],
                ethertype: EtherType::IPV6,
            }
        );
        assert!(!is_group(repr.destination) && is_group([0xff; 6]));
    }

    #[test]
    fn a_short_frame_says_how_short() {
        assert_eq!(
            View::new_checked(&FRAME[..13]).unwrap_err(),
            WireError::Truncated {
                header: HEADER,
                needed: 14,
                found: 13
            }
        );
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(destination: Mac, source: Mac, code: u16) {
            let repr = Repr { destination, source, ethertype: code.into() };
            let mut buffer = [0xa5; HEADER_LEN + 4];
            repr.emit(&mut View::new_unchecked(&mut buffer[..repr.encoded_len()]));
            prop_assert_eq!(&buffer[HEADER_LEN..], &[0xa5; 4]);
            let view = View::new_checked(&buffer[..]).unwrap();
            prop_assert_eq!(Repr::parse(&view), Ok(repr));
            let theirs = etherparse::Ethernet2HeaderSlice::from_slice(&buffer).unwrap();
            prop_assert_eq!(theirs.destination(), destination);
            prop_assert_eq!(theirs.source(), source);
            prop_assert_eq!(theirs.ether_type().0, code);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(view) = View::new_checked(&bytes[..]) {
                let _ = Repr::parse(&view);
            }
        }
    }
}

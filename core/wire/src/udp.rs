//! UDP (RFC 768).
//!
//! ```text
//!  0             2             4        6          8
//! +-------------+-------------+--------+----------+---------
//! | source port | destination | length | checksum | payload
//! +-------------+-------------+--------+----------+---------
//! ```

use std::net::IpAddr;

use crate::bytes::{clamped, set_u16, u16_at};
use crate::checksum::{Sum, nonzero};
use crate::error::permit;
use crate::{Protocol, WireError};

const HEADER: &str = "UDP header";

/// Length of the header.
pub const HEADER_LEN: usize = 8;
/// Offset of the checksum.
pub const CHECKSUM_AT: usize = 6;

view!(
    /// A view of the bytes of a UDP datagram.
    View, HEADER, HEADER_LEN
);

impl<T: AsRef<[u8]>> View<T> {
    /// Source port.
    pub fn source_port(&self) -> u16 {
        u16_at(self.bytes(), 0)
    }

    /// Destination port.
    pub fn destination_port(&self) -> u16 {
        u16_at(self.bytes(), 2)
    }

    /// The length of header and payload that the header claims.
    pub fn length(&self) -> u16 {
        u16_at(self.bytes(), 4)
    }

    /// The checksum; zero if there is none.
    pub fn checksum(&self) -> u16 {
        u16_at(self.bytes(), CHECKSUM_AT)
    }

    /// The payload: the bytes after the header, up to the length field or the end of the buffer.
    pub fn payload(&self) -> &[u8] {
        clamped(self.bytes(), HEADER_LEN, self.length().into())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Writes the source port.
    pub fn set_source_port(&mut self, port: u16) {
        set_u16(self.bytes_mut(), 0, port);
    }

    /// Writes the destination port.
    pub fn set_destination_port(&mut self, port: u16) {
        set_u16(self.bytes_mut(), 2, port);
    }

    /// Writes the length of header and payload.
    pub fn set_length(&mut self, length: u16) {
        set_u16(self.bytes_mut(), 4, length);
    }

    /// Writes the checksum.
    pub fn set_checksum(&mut self, checksum: u16) {
        set_u16(self.bytes_mut(), CHECKSUM_AT, checksum);
    }

    /// Computes and writes the checksum over the whole buffer.
    pub fn fill_checksum(&mut self, source: IpAddr, destination: IpAddr) {
        self.set_checksum(0);
        let len = self.bytes().len();
        let pseudo = Sum::default().pseudo(source, destination, Protocol::UDP, len);
        let sum = pseudo.bytes(self.bytes());
        self.set_checksum(nonzero(sum.checksum()));
    }
}

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    payload_len: u16,
}

impl Repr {
    /// A header for a payload of `payload_len` bytes, at most 65527.
    pub fn new(
        source_port: u16,
        destination_port: u16,
        payload_len: usize,
    ) -> Result<Self, WireError> {
        let length = (payload_len + HEADER_LEN) as u64;
        permit(HEADER, "length", length, 8, u16::MAX.into())?;
        Ok(Self {
            source_port,
            destination_port,
            payload_len: payload_len as u16, // fits: the sum does
        })
    }

    /// Reads a header and its length; the checksum needs the addresses and is not validated.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        let room = view.bytes().len() as u64;
        permit(HEADER, "length", view.length(), 8, room)?;
        Ok(Self {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            payload_len: view.length() - HEADER_LEN as u16,
        })
    }

    /// Length of the payload.
    pub const fn payload_len(&self) -> u16 {
        self.payload_len
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header with a checksum of zero ("none").
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        view.set_source_port(self.source_port);
        view.set_destination_port(self.destination_port);
        view.set_length(self.payload_len + HEADER_LEN as u16);
        view.set_checksum(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    #[rustfmt::skip]
    const DATAGRAM: [u8; 12] = [
        0x13, 0x88,             // source port: 5000
        0x00, 0x35,             // destination port: 53
        0x00, 0x0c,             // length: 12
        0x86, 0x7f,             // checksum
        0xde, 0xad, 0xbe, 0xef, // payload
    ];

    #[test]
    fn a_datagram_is_read() {
        let view = View::new_checked(DATAGRAM).unwrap();
        assert_eq!(Repr::parse(&view), Ok(Repr::new(5000, 53, 4).unwrap()));
        assert_eq!(view.checksum(), 0x867f);
        assert_eq!(view.payload(), [0xde, 0xad, 0xbe, 0xef]);
    }

    #[test]
    fn an_impossible_length_is_refused() {
        for length in [7, 13] {
            let mut datagram = DATAGRAM;
            datagram[5] = length;
            let error = Repr::parse(&View::new_unchecked(datagram)).unwrap_err();
            assert!(matches!(
                error,
                WireError::NotPermitted {
                    field: "length",
                    least: 8,
                    most: 12,
                    ..
                }
            ));
        }
        assert!(Repr::new(1, 2, 65528).is_err());
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(from: u16, to: u16, len in 0_usize..100) {
            let repr = Repr::new(from, to, len).unwrap();
            let mut buffer = vec![0xa5; HEADER_LEN + len + 4];
            repr.emit(&mut View::new_unchecked(&mut buffer[..repr.encoded_len()]));
            prop_assert!(buffer[HEADER_LEN..].iter().all(|b| *b == 0xa5));
            prop_assert_eq!(Repr::parse(&View::new_checked(&buffer[..]).unwrap()), Ok(repr));
        }

        #[test]
        fn checksums_agree_with_etherparse(
            from: u16, to: u16, source: [u8; 4], destination: [u8; 4], payload in vec(any::<u8>(), 0..50),
        ) {
            let repr = Repr::new(from, to, payload.len()).unwrap();
            let mut bytes = vec![0xa5; HEADER_LEN];
            repr.emit(&mut View::new_unchecked(&mut bytes[..]));
            bytes.extend_from_slice(&payload);
            let [from, to] = [source, destination].map(|a| Ipv4Addr::from(a).into());
            View::new_unchecked(&mut bytes[..]).fill_checksum(from, to);
            let theirs = etherparse::UdpHeaderSlice::from_slice(&bytes).unwrap().to_header();
            prop_assert_eq!(
                theirs.checksum,
                theirs.calc_checksum_ipv4_raw(source, destination, &payload).unwrap()
            );
            prop_assert_eq!(theirs.source_port, repr.source_port);
            prop_assert_eq!(theirs.destination_port, repr.destination_port);
            prop_assert_eq!(usize::from(theirs.length), bytes.len());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..40)) {
            if let Ok(view) = View::new_checked(&bytes[..]) {
                let _ = (view.payload().len(), Repr::parse(&view));
            }
        }
    }
}

//! The header of a PPPoE session, and the PPP protocol number after it.
//!
//! ```text
//!  0        1      2         4        6          8
//! +---+----+------+---------+--------+----------+---------
//! |ver|type| code | session | length | protocol | payload
//! +---+----+------+---------+--------+----------+---------
//!   1    1     0                     |<---- length ---->|
//! ```
//!
//! Source: RFC 2516, section 4 (the header) and section 6 (the session stage); RFC 1661, section 2 (the protocol).
//!
//! Deviation: a protocol number that is compressed to one byte is not read; RFC 2516, section 7, advises against it.

use crate::WireError;
use crate::bytes::{set_u16, u16_at};
use crate::error::permit;

const HEADER: &str = "PPPoE session header";

/// Length of the header and the protocol number.
pub const HEADER_LEN: usize = 8;
/// Length of the protocol number, which the length field counts.
const PROTOCOL_LEN: u16 = 2;
/// Version 1, type 1, and the code of a session.
const SESSION: u16 = 0x1100;

codes! {
    /// PPP protocols: what a PPP frame carries (IANA PPP numbers).
    Protocol(u16) {
        /// IPv4.
        IPV4 = 0x0021,
        /// IPv6.
        IPV6 = 0x0057,
    }
}

view!(
    /// A view of the bytes of a PPPoE session header and the PPP protocol number.
    View, HEADER, HEADER_LEN
);

impl<T: AsRef<[u8]>> View<T> {
    /// Whether version, type and code announce the data of a session.
    #[inline]
    pub fn is_session(&self) -> bool {
        u16_at(self.bytes(), 0) == SESSION
    }

    /// The session.
    pub fn session(&self) -> u16 {
        u16_at(self.bytes(), 2)
    }

    /// Bytes of the protocol number and the payload.
    #[inline]
    pub fn length(&self) -> u16 {
        u16_at(self.bytes(), 4)
    }

    /// The PPP protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        u16_at(self.bytes(), 6).into()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Writes the number of bytes of the payload.
    pub fn set_payload_len(&mut self, len: u16) {
        set_u16(self.bytes_mut(), 4, PROTOCOL_LEN.saturating_add(len));
    }
}

/// The header of a PPPoE session, with the PPP protocol number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The session.
    pub session: u16,
    payload_len: u16,
    /// The PPP protocol of the payload.
    pub protocol: Protocol,
}

impl Repr {
    /// A header in front of a payload of up to 65533 bytes.
    pub fn new(session: u16, payload_len: u16, protocol: Protocol) -> Result<Self, WireError> {
        let most = (u16::MAX - PROTOCOL_LEN).into();
        permit(HEADER, "payload length", payload_len, 0, most)?;
        Ok(Self {
            session,
            payload_len,
            protocol,
        })
    }

    /// Reads a header. Another version, type or code, and a length without room for the protocol, are errors.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        let (found, session) = (u16_at(view.bytes(), 0), SESSION.into());
        permit(HEADER, "version, type and code", found, session, session)?;
        let most = u16::MAX.into();
        permit(HEADER, "length", view.length(), PROTOCOL_LEN.into(), most)?;
        Self::new(
            view.session(),
            view.length() - PROTOCOL_LEN,
            view.protocol(),
        )
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        set_u16(view.bytes_mut(), 0, SESSION);
        set_u16(view.bytes_mut(), 2, self.session);
        view.set_payload_len(self.payload_len);
        set_u16(view.bytes_mut(), 6, self.protocol.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const SESSION_DATA: [u8; 8] = [
        0x11, 0x00, // version 1, type 1, session
        0x00, 0x2a, // session 42
        0x00, 0x1e, // 30 bytes: the protocol, and 28
        0x00, 0x21, // IPv4
    ];

    #[test]
    fn a_header_is_read() {
        let repr = Repr::parse(&View::new_checked(SESSION_DATA).unwrap());
        assert_eq!(repr, Repr::new(42, 28, Protocol::IPV4));
        assert!(repr.is_ok());
    }

    #[test]
    fn what_is_no_session_is_refused() {
        for (at, value) in [(0, 0x12), (0, 0x21), (1, 0x09)] {
            let mut other = SESSION_DATA;
            other[at] = value;
            let view = View::new_unchecked(other);
            assert!(!view.is_session() && Repr::parse(&view).is_err());
        }
        let mut short = SESSION_DATA;
        short[5] = 1;
        assert_eq!(
            Repr::parse(&View::new_unchecked(short))
                .unwrap_err()
                .to_string(),
            "PPPoE session header: length is 1, but must be from 2 to 65535"
        );
        assert!(Repr::new(1, u16::MAX, Protocol::IPV6).is_err());
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(session: u16, len in 0..u16::MAX - 1, protocol: u16) {
            let repr = Repr::new(session, len, protocol.into()).unwrap();
            let mut buffer = [0xa5; HEADER_LEN + 4];
            repr.emit(&mut View::new_unchecked(&mut buffer[..repr.encoded_len()]));
            prop_assert_eq!(&buffer[HEADER_LEN..], &[0xa5; 4]);
            prop_assert_eq!(Repr::parse(&View::new_checked(&buffer[..]).unwrap()), Ok(repr));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..16)) {
            if let Ok(view) = View::new_checked(&bytes[..]) {
                let _ = Repr::parse(&view);
            }
        }
    }
}

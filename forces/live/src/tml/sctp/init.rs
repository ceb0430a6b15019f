//! INIT and INIT ACK: the parameters of both sides when an association opens (RFC 9260, 3.3.2 and 3.3.3).
//!
//! ```text
//! | initiate tag | window | outgoing streams | incoming streams | initial TSN | parameters ..
//!       4            4             2                  2                4
//! ```
//!
//! The only parameters used here are the state cookie and the two that announce FORWARD TSN (RFC 3758, 3.1; RFC 5061,
//! 4.2.7). All others are ignored: of a peer with several addresses, only the source address of its packets is used.

use super::packet::{kind, u16_at, u32_at};

const COOKIE: u16 = 7;
const EXTENSIONS: u16 = 0x8008;
const FORWARD_TSN_SUPPORTED: u16 = 0xc000;

/// The INIT parameters of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    /// Verification tag of packets to this side; never zero.
    pub tag: u32,
    /// Receive window of this side, in octets.
    pub window: u32,
    /// TSN of the first data; never zero.
    pub first_tsn: u32,
    /// Whether this side understands FORWARD TSN.
    pub forward_tsn: bool,
}

impl Init {
    /// Parses the value of an INIT or INIT ACK, and its state cookie if it has one.
    pub fn parse(value: &[u8]) -> Option<(Self, Option<&[u8]>)> {
        let streams = (u16_at(value, 8)?, u16_at(value, 10)?);
        let mut init = Self {
            tag: u32_at(value, 0)?,
            window: u32_at(value, 4)?,
            first_tsn: u32_at(value, 12)?,
            forward_tsn: false,
        };
        // The library accepts no TSN of zero. A peer draws another TSN when it tries again.
        if init.tag == 0 || init.first_tsn == 0 || streams.0 == 0 || streams.1 == 0 {
            return None;
        }
        let mut cookie = None;
        let mut rest = value.get(16..)?;
        while !rest.is_empty() {
            let (code, len) = (u16_at(rest, 0)?, usize::from(u16_at(rest, 2)?));
            let content = rest.get(4..len)?;
            match code {
                COOKIE => cookie = Some(content),
                EXTENSIONS => init.forward_tsn |= content.contains(&kind::FORWARD_TSN),
                FORWARD_TSN_SUPPORTED => init.forward_tsn = true,
                _ => {}
            }
            rest = rest
                .get(len.next_multiple_of(4).min(rest.len())..)
                .unwrap_or_default();
        }
        Some((init, cookie))
    }

    /// The value of an INIT, or of an INIT ACK with its cookie.
    pub fn value(&self, cookie: Option<&[u8]>) -> Vec<u8> {
        let mut value = Vec::with_capacity(160);
        value.extend(self.tag.to_be_bytes());
        value.extend(self.window.to_be_bytes());
        value.extend([0, 1, 0, 1]); // one stream in each direction
        value.extend(self.first_tsn.to_be_bytes());
        if let Some(cookie) = cookie {
            parameter(&mut value, COOKIE, cookie);
        }
        if self.forward_tsn {
            parameter(&mut value, EXTENSIONS, &[kind::FORWARD_TSN]);
            parameter(&mut value, FORWARD_TSN_SUPPORTED, &[]);
        }
        value
    }

    /// This side's parameters in the library's form: an INIT chunk.
    pub fn token(&self) -> Vec<u8> {
        let mut value = self.value(None);
        if self.forward_tsn {
            value.truncate(value.len() - 4); // the library knows one of the two parameters
        }
        let mut token = vec![kind::INIT, 0];
        token.extend((value.len() as u16 + 4).to_be_bytes());
        token.extend(value);
        token
    }
}

fn parameter(to: &mut Vec<u8>, code: u16, content: &[u8]) {
    to.extend(code.to_be_bytes());
    to.extend((content.len() as u16 + 4).to_be_bytes());
    to.extend(content);
    to.resize(to.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const INIT: Init = Init {
        tag: 0x0102_0304,
        window: 65_536,
        first_tsn: 9,
        forward_tsn: true,
    };

    #[test]
    fn a_statement_is_read_as_it_was_written() {
        assert_eq!(Init::parse(&INIT.value(None)), Some((INIT, None)));
        let plain = Init {
            forward_tsn: false,
            ..INIT
        };
        let value = plain.value(Some(b"cookie"));
        assert_eq!(Init::parse(&value), Some((plain, Some(&b"cookie"[..]))));
    }

    #[test]
    fn zeros_where_the_rfc_forbids_them_are_refused() {
        for at in [0..4, 8..10, 10..12, 12..16] {
            let mut value = INIT.value(None);
            value[at].fill(0);
            assert_eq!(Init::parse(&value), None);
        }
    }

    #[test]
    fn a_parameter_that_overruns_is_refused() {
        let mut value = INIT.value(Some(b"cookie"));
        value[19] = 200;
        assert_eq!(Init::parse(&value), None);
        value[19] = 3;
        assert_eq!(Init::parse(&value), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Init::parse(&bytes);
        }
    }
}

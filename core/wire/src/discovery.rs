//! Neighbour solicitations and advertisements (RFC 4861, sections 4.3, 4.4 and 4.6.1), after their ICMPv6 header.
//!
//! ```text
//!  0                                16     17    18                24
//! +--------------------------------+------+------+------------------+
//! | target                         | 1, 2 | 1    | link-layer address      further options are skipped
//! +--------------------------------+------+------+------------------+
//! ```
//!
//! The flags of an advertisement are in the ICMPv6 header: [`AdvertisementFlags`].

use std::net::Ipv6Addr;

use crate::WireError;
use crate::bytes::array_at;
use crate::error::permit;
use crate::ethernet::Mac;

const HEADER: &str = "neighbour discovery";

/// ICMPv6 type of a solicitation.
pub const SOLICITATION: u8 = 135;
/// ICMPv6 type of an advertisement.
pub const ADVERTISEMENT: u8 = 136;
/// Hop limit of both; a message with another hop limit was forwarded, and is ignored.
pub const HOP_LIMIT: u8 = 255;
/// Length of the target, and of the option with the link-layer address.
pub const LEN: usize = TARGET_LEN + 8;

const TARGET_LEN: usize = 16;

/// The flags of an advertisement in the first byte after the checksum: router, solicited, override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisementFlags {
    /// The sender is a router.
    pub router: bool,
    /// The advertisement answers a solicitation.
    pub solicited: bool,
    /// The advertisement overrides an existing cache entry.
    pub replaces: bool,
}

impl AdvertisementFlags {
    /// The four bytes in the ICMPv6 header.
    pub const fn bytes(self) -> [u8; 4] {
        let first =
            (self.router as u8) << 7 | (self.solicited as u8) << 6 | (self.replaces as u8) << 5;
        [first, 0, 0, 0]
    }
}

/// The option that has the link-layer address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// That of the sender: in a solicitation.
    Source,
    /// That of the target: in an advertisement.
    Target,
}

view!(
    /// A view of the bytes after the ICMPv6 header.
    View, HEADER, TARGET_LEN
);

impl<T: AsRef<[u8]>> View<T> {
    /// The target address.
    pub fn target(&self) -> Ipv6Addr {
        array_at::<16>(self.bytes(), 0).into()
    }

    /// The options.
    pub fn options(&self) -> &[u8] {
        self.bytes().get(TARGET_LEN..).unwrap_or_default()
    }
}

/// A solicitation or an advertisement after its ICMPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The target address.
    pub target: Ipv6Addr,
    /// The link-layer address, and whose it is.
    pub mac: Option<(Whose, Mac)>,
}

impl Repr {
    /// Reads a message. A multicast target, or an option without length, is an error (RFC 4861, section 7.1).
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        let target = view.target();
        let group = u8::from(target.is_multicast());
        permit(HEADER, "target is a group", group, 0, 0)?;
        let (mut rest, mut mac) = (view.options(), None);
        while let [kind, units, ..] = *rest {
            let most = (rest.len() / 8) as u64;
            permit(HEADER, "length of an option", units, 1, most)?;
            let (option, after) = rest.split_at(usize::from(units) * 8);
            rest = after;
            let whose = match kind {
                1 => Whose::Source,
                2 => Whose::Target,
                _ => continue,
            };
            mac = mac.or(Some((whose, array_at(option, 2))));
        }
        Ok(Self { target, mac })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        match self.mac {
            Some(_) => LEN,
            None => TARGET_LEN,
        }
    }

    /// Writes the message.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        let bytes = view.bytes_mut();
        bytes[..TARGET_LEN].copy_from_slice(&self.target.octets());
        if let Some((whose, mac)) = self.mac {
            let kind = match whose {
                Whose::Source => 1,
                Whose::Target => 2,
            };
            bytes[TARGET_LEN..TARGET_LEN + 2].copy_from_slice(&[kind, 1]);
            bytes[TARGET_LEN + 2..LEN].copy_from_slice(&mac);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn parse(bytes: &[u8]) -> Result<Repr, WireError> {
        Repr::parse(&View::new_checked(bytes)?)
    }

    #[test]
    fn options_that_do_not_fit_are_refused() {
        let target = [0xfe; 16];
        let with = |options: &[u8]| parse(&[&target[..], options].concat());
        assert!(with(&[]).is_ok() && with(&[1, 1, 2, 2, 2, 2, 2, 2]).is_ok());
        assert!(with(&[1, 0, 2, 2, 2, 2, 2, 2]).is_err());
        assert!(with(&[1, 2, 2, 2, 2, 2, 2, 2]).is_err());
        assert!(with(&[1, 1, 2]).is_err());
        assert!(parse(&[0xff; 16]).is_err());
        assert!(parse(&[0xfe; 15]).is_err());
        // An unknown option is skipped (RFC 4861, section 9).
        let nonce = [14, 1, 9, 9, 9, 9, 9, 9];
        let source = [1, 1, 2, 2, 2, 2, 2, 3];
        let found = with(&[nonce, source].concat()).unwrap();
        assert_eq!(found.mac, Some((Whose::Source, [2, 2, 2, 2, 2, 3])));
    }

    #[test]
    fn flags_are_in_the_first_byte() {
        let flags = AdvertisementFlags {
            router: true,
            solicited: false,
            replaces: true,
        };
        assert_eq!(flags.bytes(), [0xa0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(target: u128, mac: Option<[u8; 6]>, source: bool) {
            let target = Ipv6Addr::from_bits(target & !(1 << 127));
            let whose = if source { Whose::Source } else { Whose::Target };
            let repr = Repr { target, mac: mac.map(|mac| (whose, mac)) };
            let mut bytes = [0xa5; LEN + 1];
            let len = repr.encoded_len();
            repr.emit(&mut View::new_unchecked(&mut bytes[..len]));
            prop_assert_eq!(bytes[len], 0xa5);
            prop_assert_eq!(parse(&bytes[..len]), Ok(repr));
        }

        #[test]
        fn no_bytes_panic(bytes in vec(any::<u8>(), 0..80)) {
            let _either = parse(&bytes);
        }
    }
}

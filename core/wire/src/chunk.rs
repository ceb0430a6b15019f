//! Named chunks of content: the payload of the UDP datagrams that request or carry a chunk.
//!
//! ```text
//!  after the UDP header:
//!   0          1      2        4        20
//!  +----------+------+--------+--------+---------
//!  | 1101 0001| kind | length | name   | content       kind: 0 interest, 1 data
//!  +----------+------+--------+--------+---------
//!    magic, version
//! ```
//!
//! Source: the terms are those of RFC 8793. The format is ours, and smaller than CCNx (RFC 8609): a packet is one
//! datagram, and a name has a fixed length.
//!
//! - Name: a number, or the hash of a longer name. It is valid at one server, identified by address and port. The
//!   content of a name never changes, so other content needs another name.
//! - Length: of the content; zero in an interest.

use crate::WireError;
use crate::bytes::{set_u16, u16_at};
use crate::error::{needs, permit};

const HEADER: &str = "chunk header";

/// Length of the header.
pub const HEADER_LEN: usize = 20;
/// Length of a name.
pub const NAME_LEN: usize = 16;

const MAGIC: u8 = 0xd1;
const NAME_AT: usize = HEADER_LEN - NAME_LEN;

view!(
    /// A view of the bytes of a chunk's header.
    View, HEADER, HEADER_LEN
);

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Requests a chunk.
    Interest,
    /// Carries a chunk whose content has this number of bytes.
    Data(u16),
}

/// The header of an interest or of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// The kind.
    pub kind: Kind,
    /// The name of the chunk.
    pub name: [u8; NAME_LEN],
}

impl Repr {
    /// Reads a header, and checks that the content is complete.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        let bytes = view.bytes();
        permit(HEADER, "magic", bytes[0], MAGIC.into(), MAGIC.into())?;
        permit(HEADER, "kind", bytes[1], 0, 1)?;
        let length = u16_at(bytes, 2);
        let kind = match bytes[1] {
            0 => {
                permit(HEADER, "length", length, 0, 0)?;
                Kind::Interest
            }
            _ => Kind::Data(length),
        };
        needs(HEADER, HEADER_LEN + usize::from(length), bytes.len())?;
        let mut name = [0; NAME_LEN];
        name.copy_from_slice(&bytes[NAME_AT..HEADER_LEN]);
        Ok(Self { kind, name })
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        let (kind, length) = match self.kind {
            Kind::Interest => (0, 0),
            Kind::Data(length) => (1, length),
        };
        let bytes = view.bytes_mut();
        bytes[..2].copy_from_slice(&[MAGIC, kind]);
        set_u16(bytes, 2, length);
        bytes[NAME_AT..HEADER_LEN].copy_from_slice(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Repr, WireError> {
        View::new_checked(bytes).and_then(|view| Repr::parse(&view))
    }

    fn header(kind: u8, length: u8) -> Vec<u8> {
        [&[0xd1, kind, 0, length][..], &[7; NAME_LEN]].concat()
    }

    #[test]
    fn headers_by_hand() {
        let repr = |kind| Repr {
            kind,
            name: [7; NAME_LEN],
        };
        assert_eq!(read(&header(0, 0)), Ok(repr(Kind::Interest)));
        // Bytes after the content do not belong to it.
        let data = [&header(1, 2)[..], &[9; 5]].concat();
        assert_eq!(read(&data), Ok(repr(Kind::Data(2))));
        let mut magic = header(0, 0);
        magic[0] = 0xd2;
        for (bytes, why) in [
            (&header(0, 0)[..19], "needs 20 bytes, found 19"),
            (&header(1, 1)[..], "needs 21 bytes, found 20"),
            (&magic, "magic is 210, but must be from 209 to 209"),
            (&header(2, 0), "kind is 2, but must be from 0 to 1"),
            (&header(0, 1), "length is 1, but must be from 0 to 0"),
        ] {
            let error = read(bytes).unwrap_err().to_string();
            assert_eq!(error, format!("chunk header: {why}"));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_what_is_read_is_written(bytes in vec(any::<u8>(), 0..40), kind in 0_u8..3) {
            let mut bytes = bytes;
            if let [magic, found, high, low, ..] = &mut bytes[..] {
                (*magic, *found, *high, *low) = (MAGIC, kind, 0, *low % 24);
            }
            if let Ok(repr) = read(&bytes) {
                let mut again = [0xa5; HEADER_LEN];
                repr.emit(&mut View::new_unchecked(&mut again[..]));
                prop_assert_eq!(&again[..], &bytes[..HEADER_LEN]);
            }
        }
    }
}

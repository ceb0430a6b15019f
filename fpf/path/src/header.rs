//! The header of flexible packet forwarding (FPF).
//!
//! ```text
//!  0        1       2                2 + Length
//! +--------+-------+--- ... --------+----------
//! | Length | Index | LID vector     | payload
//! +--------+-------+--- ... --------+----------
//!              \______^ first byte of the LID that the current domain uses
//! ```
//!
//! Source: Beben et al., "A Scalable and Flexible Packet Forwarding Method for Future Internet Networks", section III
//! and figure 2. The header is between Ethernet and the payload, and does not name the type of the payload: IPv4 and
//! IPv6 differ in their version, and the rule that removes the header names any other type.
//!
//! A LID (local identifier) has one or two bytes, and only its own domain knows how many. So here a vector is plain
//! bytes. Index is at most Length; when they are equal, no LID is left, and the header must be removed.

use std::num::NonZeroU8;

use weir_wire::bytes::clamped;
use weir_wire::error::{needs, permit};
use weir_wire::{EtherType, WireError, view};

const HEADER: &str = "FPF header";

/// Length of the two fields before the LID vector.
pub const FIXED_LEN: usize = 2;

/// The longest LID vector: Length is one byte.
pub const VECTOR_LEN_MAX: usize = 255;

/// The Ethernet type of FPF frames, unless a domain uses another type: an experimental one. (Section IV of the paper
/// uses it; its section IV.A prints 0xcccc.)
pub const ETHERTYPE_DEFAULT: EtherType = EtherType(0xc000);

view!(
    /// A view of the bytes of an FPF header.
    View, HEADER, FIXED_LEN
);

impl<T: AsRef<[u8]>> View<T> {
    /// Bytes of the LID vector, as the header claims.
    #[inline]
    pub fn length(&self) -> u8 {
        self.bytes()[0]
    }

    /// Offset in the LID vector of the LID that the current domain uses.
    #[inline]
    pub fn index(&self) -> u8 {
        self.bytes()[1]
    }

    /// Length of the whole header, as the header claims.
    #[inline]
    pub fn header_len(&self) -> usize {
        FIXED_LEN + usize::from(self.length())
    }

    /// The LID vector, as far as the buffer has it.
    #[inline]
    pub fn vector(&self) -> &[u8] {
        clamped(self.bytes(), FIXED_LEN, self.header_len())
    }

    /// The bytes after the header; empty if it ends outside the buffer.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.bytes().get(self.header_len()..).unwrap_or(&[])
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> View<T> {
    /// Writes the number of bytes of the LID vector.
    #[inline]
    pub fn set_length(&mut self, length: u8) {
        self.bytes_mut()[0] = length;
    }

    /// Writes the offset of the current LID.
    #[inline]
    pub fn set_index(&mut self, index: u8) {
        self.bytes_mut()[1] = index;
    }
}

/// A LID vector: 1 to 255 bytes. It takes 256 bytes of memory, whatever its length is.
#[derive(Clone, Copy)]
pub struct Vector {
    len: NonZeroU8,
    bytes: [u8; VECTOR_LEN_MAX],
}

impl Vector {
    /// A vector of these bytes; an error if `lids` is empty or longer than 255 bytes.
    pub fn new(lids: &[u8]) -> Result<Self, WireError> {
        let found = lids.len() as u64;
        permit(HEADER, "Length", found, 1, VECTOR_LEN_MAX as u64)?;
        let mut bytes = [0; VECTOR_LEN_MAX];
        bytes[..lids.len()].copy_from_slice(lids);
        let len = NonZeroU8::MIN.saturating_add(lids.len() as u8 - 1); // 1 to 255
        Ok(Self { len, bytes })
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len.get())]
    }

    /// Number of bytes, at least one.
    #[inline]
    pub const fn len(&self) -> NonZeroU8 {
        self.len
    }
}

impl PartialEq for Vector {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Vector {}

impl std::hash::Hash for Vector {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl std::fmt::Display for Vector {
    /// In the notation of the paper: `0xa1e3d3`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("0x")?;
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Vector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vector({self})")
    }
}

/// An FPF header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    vector: Vector,
    index: u8,
}

impl Repr {
    /// A header whose current LID begins at `index`, which is at most the length of the vector.
    pub fn new(vector: Vector, index: u8) -> Result<Self, WireError> {
        permit(HEADER, "Index", index, 0, vector.len().get().into())?;
        Ok(Self { vector, index })
    }

    /// The header that an ingress edge writes: the first LID is the current one.
    pub const fn first(vector: Vector) -> Self {
        Self { vector, index: 0 }
    }

    /// Reads a header. An empty vector, a vector that ends outside the buffer, and an Index beyond the vector are
    /// errors.
    pub fn parse<T: AsRef<[u8]>>(view: &View<T>) -> Result<Self, WireError> {
        needs(HEADER, view.header_len(), view.bytes().len())?;
        Self::new(Vector::new(view.vector())?, view.index())
    }

    /// The LID vector.
    pub const fn vector(&self) -> &Vector {
        &self.vector
    }

    /// Offset of the current LID.
    pub const fn index(&self) -> u8 {
        self.index
    }

    /// Bytes that [`Self::emit`] writes.
    pub const fn encoded_len(&self) -> usize {
        FIXED_LEN + self.vector.len.get() as usize
    }

    /// Writes the header.
    #[inline]
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(&self, view: &mut View<T>) {
        view.set_length(self.vector.len.get());
        view.set_index(self.index);
        let len = self.encoded_len();
        view.bytes_mut()[FIXED_LEN..len].copy_from_slice(self.vector.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[rustfmt::skip]
    const HEADER: [u8; 7] = [
        0x03,             // Length: three bytes
        0x01,             // Index: the second byte
        0xa1, 0xe3, 0xd3, // LID vector
        0x45, 0x00,       // payload
    ];

    #[test]
    fn a_header_is_read() {
        let view = View::new_checked(HEADER).unwrap();
        assert_eq!(view.vector(), [0xa1, 0xe3, 0xd3]);
        assert_eq!(view.payload(), [0x45, 0x00]);
        let vector = Vector::new(&[0xa1, 0xe3, 0xd3]).unwrap();
        let repr = Repr::parse(&view).unwrap();
        assert_eq!(repr, Repr::new(vector, 1).unwrap());
        assert_eq!(repr.encoded_len(), 5);
        assert_eq!(vector.to_string(), "0xa1e3d3");
    }

    #[test]
    fn what_a_header_cannot_say_is_refused() {
        let error = |bytes: &[u8]| {
            let view = View::new_checked(bytes);
            let error = view.and_then(|view| Repr::parse(&view)).unwrap_err();
            error.to_string()
        };
        assert_eq!(error(&[3]), "FPF header: needs 2 bytes, found 1");
        assert_eq!(error(&HEADER[..4]), "FPF header: needs 5 bytes, found 4");
        assert_eq!(
            error(&[0, 0, 1]),
            "FPF header: Length is 0, but must be from 1 to 255"
        );
        assert_eq!(
            error(&[1, 2, 1]),
            "FPF header: Index is 2, but must be from 0 to 1"
        );
        assert!(Vector::new(&[0; 256]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_emitted_is_read_back(lids in vec(any::<u8>(), 1..=VECTOR_LEN_MAX), at: u8) {
            let vector = Vector::new(&lids).unwrap();
            prop_assert_eq!(vector.as_bytes(), &lids[..]);
            let index = (usize::from(at) % (lids.len() + 1)) as u8;
            let repr = Repr::new(vector, index).unwrap();
            let mut buffer = [0xa5; FIXED_LEN + VECTOR_LEN_MAX + 4];
            repr.emit(&mut View::new_unchecked(&mut buffer[..repr.encoded_len()]));
            prop_assert!(buffer[repr.encoded_len()..].iter().all(|byte| *byte == 0xa5));
            prop_assert_eq!(Repr::parse(&View::new_checked(&buffer[..]).unwrap()), Ok(repr));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..300)) {
            if let Ok(view) = View::new_checked(&bytes[..]) {
                let (vector, payload) = (view.vector(), view.payload());
                prop_assert!(FIXED_LEN + vector.len() + payload.len() <= bytes.len());
                if let Ok(repr) = Repr::parse(&view) {
                    prop_assert_eq!(repr.vector().as_bytes(), vector);
                    prop_assert_eq!(repr.encoded_len() + payload.len(), bytes.len());
                }
            }
        }
    }
}

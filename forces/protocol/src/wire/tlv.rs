//! TLVs and ILVs (RFC 5810, 6.2 and 6.3) and iterators over a series of them.
//!
//! ```text
//!  TLV                                        ILV
//! +------+--------+---------------+-----+    +------------+--------+---------------+-----+
//! | type | length | value         | pad |    | identifier | length | value         | pad |
//! +------+--------+---------------+-----+    +------------+--------+---------------+-----+
//!   2      2        length - 4      0..3       4            4        length - 8      0..3
//! ```
//!
//! A length covers the header and the value, without the padding after it. The length of a container covers all its
//! parts, with the padding after the last one. Operations (in an LFBselect) have their own type numbers:
//! [`super::OperationKind`].
//!
//! *Decision*: the padding after the last ILV of a container may be missing, because some senders count it as the
//! padding of the container.

use super::bytes::{Writer, padded, u16_at, u32_at};
use super::error::{Place, WireError};
use super::result_code::ResultCode;

/// Length of the header of a TLV in bytes.
pub const HEAD_LEN: usize = 4;
/// Length of the header of an ILV in bytes.
pub const ILV_HEAD_LEN: usize = 8;
/// Maximum length of a TLV in bytes, with its header.
pub const LEN_MAX: usize = u16::MAX as usize;

codes! {
    /// Types of TLVs that are not operations.
    TlvKind(u16) {
        /// One packet and its metadata.
        Redirect = 0x0001 "REDIRECT",
        /// The answer to an association setup.
        AssociationResult = 0x0010 "ASResult",
        /// The reason for the end of an association.
        TeardownReason = 0x0011 "ASTreason",
        /// A component and its data.
        PathData = 0x0110 "PATH-DATA",
        /// A key that selects a row.
        KeyInfo = 0x0111 "KEYINFO",
        /// A complete value.
        FullData = 0x0112 "FULLDATA",
        /// Parts of a value, each with its identifier.
        SparseData = 0x0113 "SPARSEDATA",
        /// The result of an operation.
        Result = 0x0114 "RESULT",
        /// Metadata of a packet.
        Metadata = 0x0115 "METADATA",
        /// The bytes of a packet.
        RedirectData = 0x0116 "REDIRECTDATA",
        /// A range of rows, from a first to a last index.
        TableRange = 0x0117 "TABLERANGE",
        /// The result of an operation, with a cause in words.
        ExtendedResult = 0x0118 "EXTENDEDRESULT",
        /// An LFB, with operations on it.
        LfbSelect = 0x1000 "LFBselect",
    }
}

/// A view of the fields of a TLV.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Makes a view if `bytes` are long enough for the header of a TLV; nothing else is checked.
    pub fn new_checked(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() >= HEAD_LEN).then_some(Self(bytes))
    }

    /// Type of the TLV.
    pub fn kind(&self) -> u16 {
        u16_at(self.0, 0)
    }

    /// Length, as stated in the header.
    pub fn length(&self) -> u16 {
        u16_at(self.0, 2)
    }
}

/// A TLV within a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Type of the TLV: a [`TlvKind`] or an [`super::OperationKind`].
    pub kind: u16,
    /// Offset of the TLV in the message, in bytes.
    pub at: usize,
    /// Value of the TLV.
    pub value: &'a [u8],
}

impl Tlv<'_> {
    /// Offset of the value in the message, in bytes.
    pub const fn value_at(&self) -> usize {
        self.at + HEAD_LEN
    }
}

/// An iterator over a series of TLVs; ends after the first error.
#[derive(Clone, Debug)]
pub struct Tlvs<'a> {
    part: &'static str,
    rest: &'a [u8],
    at: usize,
}

impl<'a> Tlvs<'a> {
    /// Iterates over `bytes`, which begin at offset `at` of the message and belong to `part`.
    pub const fn new(part: &'static str, bytes: &'a [u8], at: usize) -> Self {
        Self {
            part,
            rest: bytes,
            at,
        }
    }

    fn step(&mut self) -> Result<Tlv<'a>, WireError> {
        let place = Place::new(self.part, self.at);
        let (bytes, left) = (self.rest, self.rest.len());
        self.rest = &[];
        let mismatch = ResultCode::LengthMismatch;
        place.permit_len(
            "bytes left for a TLV",
            left,
            (HEAD_LEN, usize::MAX),
            mismatch,
        )?;
        let view = View(bytes);
        let len = usize::from(view.length());
        place.permit_len("length of a TLV", len, (HEAD_LEN, left), mismatch)?;
        let end = padded(len);
        place.permit_len(
            "length of a TLV with its padding",
            end,
            (HEAD_LEN, left),
            mismatch,
        )?;
        let tlv = Tlv {
            kind: view.kind(),
            at: self.at,
            value: &bytes[HEAD_LEN..len],
        };
        self.rest = &bytes[end..];
        self.at += end;
        Ok(tlv)
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.step())
    }
}

/// A value with an identifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ilv {
    /// The identifier: a component ID, a row's index, or a metadata ID.
    pub id: u32,
    /// The value.
    pub value: Vec<u8>,
}

impl Ilv {
    pub(crate) fn encoded_len(&self) -> usize {
        padded(ILV_HEAD_LEN + self.value.len())
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        to.u32(self.id);
        to.u32((ILV_HEAD_LEN + self.value.len()) as u32); // fits: it is in a TLV
        to.padded(&self.value);
    }
}

/// Length in bytes of a series of ILVs, with their padding.
pub(crate) fn ilvs_len(ilvs: &[Ilv]) -> usize {
    ilvs.iter().map(Ilv::encoded_len).sum()
}

/// An iterator over a series of ILVs, as identifier and value; ends after the first error.
#[derive(Clone, Debug)]
pub struct Ilvs<'a> {
    part: &'static str,
    rest: &'a [u8],
    at: usize,
}

impl<'a> Ilvs<'a> {
    /// Iterates over `bytes`, which begin at offset `at` of the message and belong to `part`.
    pub const fn new(part: &'static str, bytes: &'a [u8], at: usize) -> Self {
        Self {
            part,
            rest: bytes,
            at,
        }
    }

    /// Copies all ILVs, with their values.
    pub fn owned(self) -> Result<Vec<Ilv>, WireError> {
        self.map(|ilv| {
            ilv.map(|(id, value)| Ilv {
                id,
                value: value.to_vec(),
            })
        })
        .collect()
    }

    fn step(&mut self) -> Result<(u32, &'a [u8]), WireError> {
        let place = Place::new(self.part, self.at);
        let (bytes, left) = (self.rest, self.rest.len());
        self.rest = &[];
        let mismatch = ResultCode::LengthMismatch;
        place.permit_len(
            "bytes left for an ILV",
            left,
            (ILV_HEAD_LEN, usize::MAX),
            mismatch,
        )?;
        let len = u32_at(bytes, 4) as usize;
        place.permit_len("length of an ILV", len, (ILV_HEAD_LEN, left), mismatch)?;
        let end = padded(len).min(left);
        self.rest = &bytes[end..];
        self.at += end;
        Ok((u32_at(bytes, 0), &bytes[ILV_HEAD_LEN..len]))
    }
}

impl<'a> Iterator for Ilvs<'a> {
    type Item = Result<(u32, &'a [u8]), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.step())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_belongs_to_no_value() {
        let bytes = [1, 0x12, 0, 5, 9, 7, 7, 7, 1, 0x14, 0, 4];
        let tlvs: Vec<_> = Tlvs::new("test", &bytes, 24).map(Result::unwrap).collect();
        assert_eq!(tlvs.len(), 2);
        assert_eq!(
            (tlvs[0].kind, tlvs[0].at, tlvs[0].value),
            (0x112, 24, &[9][..])
        );
        assert_eq!(
            (tlvs[1].kind, tlvs[1].at, tlvs[1].value),
            (0x114, 32, &[][..])
        );
    }

    #[test]
    fn a_length_that_does_not_fit_is_named_once() {
        for (bytes, found) in [
            (&[1, 0x12, 0][..], 3),
            (&[1, 0x12, 0, 3][..], 3),
            (&[1, 0x12, 0, 9, 0, 0, 0, 0][..], 9),
            (&[1, 0x12, 0, 5, 0][..], 8),
        ] {
            let mut tlvs = Tlvs::new("test", bytes, 0);
            let error = tlvs.next().unwrap().unwrap_err();
            assert_eq!(
                (error.found, error.code),
                (found, ResultCode::LengthMismatch)
            );
            assert_eq!(tlvs.next(), None);
        }
    }

    #[test]
    fn the_padding_of_the_last_ilv_may_be_missing() {
        let bytes = [0, 0, 0, 2, 0, 0, 0, 9, 6];
        for end in [bytes.len(), 12] {
            let mut padded = [0; 12];
            padded[..9].copy_from_slice(&bytes);
            let ilvs = Ilvs::new("test", &padded[..end], 0).owned().unwrap();
            assert_eq!(
                ilvs,
                [Ilv {
                    id: 2,
                    value: vec![6]
                }]
            );
        }
        let error = Ilvs::new("test", &[0, 0, 0, 2, 0, 0, 0, 7], 0)
            .owned()
            .unwrap_err();
        assert_eq!(error.found, 7);
    }

    #[test]
    fn every_code_survives_a_round_trip() {
        for n in 0..=u16::MAX {
            assert_eq!(u16::from(TlvKind::from(n)), n);
        }
    }
}

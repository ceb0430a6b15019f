//! PATH-DATA: a component and its data (RFC 5810, 7.1; RFC 7391, 3.1).
//!
//! ```text
//! +--------+--------+-------+----------+--------------+----------+---------+
//! | 0x0110 | length | flags | ID count | IDs, 4 bytes | selector | content |
//! +--------+--------+-------+----------+--------------+----------+---------+
//!   2        2        2       2          each
//!                     |K|R|              path of IDs    KEYINFO (K) or TABLERANGE (R), or none
//! ```
//!
//! The content is one FULLDATA, SPARSEDATA or result, or nested PATH-DATA, whose paths continue this path, or empty.
//! Values are bytes, because their meaning depends on the LFB class.
//!
//! *Decision*: a figure in RFC 5810 has the flag of a key (K) at 0x8000. The numbers in RFC 7391 put it at 0x0001, and
//! the flag of a range (R) at 0x0002. We write 0x8000 and 0x4000, and read both.
//!
//! *Decision*: a path that selects rows by a range has no nested paths, because a response could not identify the row
//! of a result.

use super::bytes::{Writer, padded, u16_at, u32_at};
use super::error::{Place, WireError};
use super::result::Outcome;
use super::result_code::ResultCode;
use super::tlv::{HEAD_LEN, Ilv, Ilvs, LEN_MAX, Tlv, TlvKind, Tlvs, ilvs_len};

/// Maximum nesting of PATH-DATA. Without this limit, the sender would choose the depth.
pub const NESTING_MAX: usize = 16;
/// Maximum number of IDs of a whole path, nested paths included. The model's own alias paths have at most 32 IDs.
pub const IDS_MAX: usize = 64;

const PART: &str = "PATH-DATA-TLV";
const FIXED_LEN: usize = 4;
const KEY: u16 = 0x8000;
const RANGE: u16 = 0x4000;
const KEY_LOW: u16 = 0x0001;
const RANGE_LOW: u16 = 0x0002;

/// A view of the fields of a PATH-DATA.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    /// Makes a view if `value` is long enough for the flags, the ID count and that number of IDs; nothing else is
    /// checked.
    pub fn new_checked(tlv: &Tlv<'a>) -> Result<Self, WireError> {
        let place = Place::new(PART, tlv.at);
        let (len, mismatch) = (tlv.value.len(), ResultCode::LengthMismatch);
        place.permit_len("length of the value", len, (FIXED_LEN, LEN_MAX), mismatch)?;
        let view = Self(tlv.value);
        let most = (len - FIXED_LEN) / 4;
        place.permit_len("ID count", view.id_count(), (0, most), mismatch)?;
        Ok(view)
    }

    /// The flags.
    pub fn flags(&self) -> u16 {
        u16_at(self.0, 0)
    }

    /// The number of IDs.
    pub fn id_count(&self) -> usize {
        u16_at(self.0, 2).into()
    }

    /// The IDs.
    pub fn ids(&self) -> impl Iterator<Item = u32> + use<'a> {
        let ids = &self.0[FIXED_LEN..FIXED_LEN + 4 * self.id_count()];
        ids.chunks_exact(4).map(|id| u32_at(id, 0))
    }

    /// Whether a key selects a row, with the flag in either position.
    pub fn has_key(&self) -> bool {
        self.flags() & (KEY | KEY_LOW) != 0
    }

    /// Whether a range selects rows, with the flag in either position.
    pub fn has_range(&self) -> bool {
        self.flags() & (RANGE | RANGE_LOW) != 0
    }

    /// Selector and content: the bytes after the IDs.
    pub fn rest(&self) -> &'a [u8] {
        &self.0[FIXED_LEN + 4 * self.id_count()..]
    }
}

/// Selects rows of a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selector {
    /// The row in which the fields of a key have these values.
    Key {
        /// The ID of the key.
        id: u32,
        /// The values of the key's fields, one after the other.
        values: Vec<u8>,
    },
    /// The rows from the first to the last index, both included.
    Range {
        /// First index.
        first: u32,
        /// Last index; `u32::MAX` means the last row of the table.
        last: u32,
    },
}

/// The end of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// Nothing.
    Empty,
    /// A complete value.
    Full(Vec<u8>),
    /// Parts of a value.
    Sparse(Vec<Ilv>),
    /// The result of an operation.
    Outcome(Outcome),
    /// Paths that continue this path; at least one.
    Nested(Vec<PathData>),
}

/// A component and its data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PathData {
    ids: Vec<u32>,
    selector: Option<Selector>,
    content: Content,
    extent: Extent,
}

/// The sizes of a tree of paths that have limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Extent {
    /// Length of the TLV in bytes; containers need no padding.
    len: usize,
    /// Number of levels, this one included.
    depth: usize,
    /// Number of IDs of the longest path.
    ids: usize,
}

impl PathData {
    /// The component at the path `ids`, with a selector and a content.
    pub fn new(
        ids: Vec<u32>,
        selector: Option<Selector>,
        content: Content,
    ) -> Result<Self, WireError> {
        let mut path = Self {
            ids,
            selector,
            content,
            extent: Extent::default(),
        };
        path.extent = path.measure()?;
        Ok(path)
    }

    /// The component at the path `ids`, with its complete value.
    pub fn full(ids: Vec<u32>, value: Vec<u8>) -> Result<Self, WireError> {
        Self::new(ids, None, Content::Full(value))
    }

    /// The component at the path `ids`, without content.
    pub fn bare(ids: Vec<u32>) -> Result<Self, WireError> {
        Self::new(ids, None, Content::Empty)
    }

    /// The IDs, which continue the IDs of the enclosing paths.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The selector of rows, if the path has one.
    pub const fn selector(&self) -> Option<&Selector> {
        self.selector.as_ref()
    }

    /// The content.
    pub const fn content(&self) -> &Content {
        &self.content
    }

    /// Length in bytes.
    pub const fn encoded_len(&self) -> usize {
        self.extent.len
    }

    /// Reads a PATH-DATA.
    pub(crate) fn parse(tlv: &Tlv<'_>) -> Result<Self, WireError> {
        Self::parse_at(tlv, NESTING_MAX, IDS_MAX)
    }

    /// Reads a PATH-DATA with at most `levels` levels and `ids` IDs.
    fn parse_at(tlv: &Tlv<'_>, levels: usize, ids: usize) -> Result<Self, WireError> {
        let place = Place::new(PART, tlv.at);
        let view = View::new_checked(tlv)?;
        place.permit_len(
            "levels left",
            levels,
            (1, NESTING_MAX),
            ResultCode::InvalidPath,
        )?;
        place.permit_len(
            "ID count",
            view.id_count(),
            (0, ids),
            ResultCode::InvalidPath,
        )?;
        let rest_at = tlv.at + tlv.value.len() + HEAD_LEN - view.rest().len();
        let mut tlvs = Tlvs::new(PART, view.rest(), rest_at).peekable();
        let selector = match tlvs.peek() {
            Some(Ok(tlv)) => Selector::parse(tlv)?,
            _ => None,
        };
        if selector.is_some() {
            tlvs.next();
        }
        check_flags(place, &view, selector.as_ref())?;
        let mut content = Content::Empty;
        for tlv in tlvs {
            let tlv = tlv?;
            let ids_left = ids - view.id_count();
            content = content.with(&tlv, levels - 1, ids_left)?;
        }
        Self::new(view.ids().collect(), selector, content)
            .map_err(|e| WireError { at: tlv.at, ..e })
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        to.tlv(TlvKind::PathData.into(), self.extent.len);
        to.u16(match self.selector {
            None => 0,
            Some(Selector::Key { .. }) => KEY,
            Some(Selector::Range { .. }) => RANGE,
        });
        to.u16(self.ids.len() as u16); // fits: at most IDS_MAX
        for id in &self.ids {
            to.u32(*id);
        }
        if let Some(selector) = &self.selector {
            selector.write(to);
        }
        self.content.write(to);
    }

    fn measure(&self) -> Result<Extent, WireError> {
        let place = Place::new(PART, 0);
        let nested = match (&self.content, &self.selector) {
            (Content::Nested(_), Some(Selector::Range { .. })) => {
                let (kind, names) = (u16::from(TlvKind::PathData), "absent after a range of rows");
                return Err(place.unexpected("content", kind, names, ResultCode::InvalidTflags));
            }
            (Content::Nested(paths), _) => {
                let (count, least) = (paths.len(), (1, usize::MAX));
                place.permit_len(
                    "number of nested paths",
                    count,
                    least,
                    ResultCode::InvalidTlv,
                )?;
                paths.as_slice()
            }
            _ => &[],
        };
        let deepest =
            |of: fn(&Extent) -> usize| nested.iter().map(|p| of(&p.extent)).max().unwrap_or(0);
        let selector_len = self.selector.as_ref().map_or(0, Selector::encoded_len);
        let extent = Extent {
            len: HEAD_LEN
                + FIXED_LEN
                + 4 * self.ids.len()
                + selector_len
                + self.content.encoded_len(),
            depth: 1 + deepest(|e| e.depth),
            ids: self.ids.len() + deepest(|e| e.ids),
        };
        place.permit_len(
            "length",
            extent.len,
            (HEAD_LEN, LEN_MAX),
            ResultCode::ContentsTooLong,
        )?;
        place.permit_len(
            "nesting",
            extent.depth,
            (1, NESTING_MAX),
            ResultCode::InvalidPath,
        )?;
        place.permit_len(
            "IDs of a path",
            extent.ids,
            (0, IDS_MAX),
            ResultCode::InvalidPath,
        )?;
        Ok(extent)
    }
}

/// Checks that flags and selector agree.
fn check_flags(
    place: Place,
    view: &View<'_>,
    selector: Option<&Selector>,
) -> Result<(), WireError> {
    let says = (view.has_key(), view.has_range());
    let (has, names) = match selector {
        None => (
            (false, false),
            "without F_SELKEY and F_SELTABRANGE, as no selector follows the IDs",
        ),
        Some(Selector::Key { .. }) => (
            (true, false),
            "with F_SELKEY alone, as KEYINFO follows the IDs",
        ),
        Some(Selector::Range { .. }) => (
            (false, true),
            "with F_SELTABRANGE alone, as TABLERANGE follows the IDs",
        ),
    };
    if says == has {
        return Ok(());
    }
    Err(place.unexpected("flags", view.flags(), names, ResultCode::InvalidTflags))
}

impl Selector {
    /// Reads a selector, if this TLV is one.
    fn parse(tlv: &Tlv<'_>) -> Result<Option<Self>, WireError> {
        let mismatch = ResultCode::LengthMismatch;
        let len = tlv.value.len();
        match tlv.kind.into() {
            TlvKind::KeyInfo => {
                let place = Place::new("KEYINFO-TLV", tlv.at);
                place.permit_len("length of the value", len, (8, LEN_MAX), mismatch)?;
                let mut inner = Tlvs::new("KEYINFO-TLV", &tlv.value[4..], tlv.value_at() + 4);
                let values = match inner.next() {
                    Some(values) => values?,
                    None => unreachable!("four bytes are left"),
                };
                let (more, kind) = (inner.count(), values.kind);
                place.permit_len("TLVs after the first", more, (0, 0), ResultCode::InvalidTlv)?;
                if TlvKind::from(kind) != TlvKind::FullData {
                    return Err(place.unexpected(
                        "type of an inner TLV",
                        kind,
                        "FULLDATA",
                        ResultCode::InvalidTlv,
                    ));
                }
                Ok(Some(Self::Key {
                    id: u32_at(tlv.value, 0),
                    values: values.value.to_vec(),
                }))
            }
            TlvKind::TableRange => {
                let place = Place::new("TABLERANGE-TLV", tlv.at);
                place.permit_len("length of the value", len, (8, 8), mismatch)?;
                Ok(Some(Self::Range {
                    first: u32_at(tlv.value, 0),
                    last: u32_at(tlv.value, 4),
                }))
            }
            _ => Ok(None),
        }
    }

    fn encoded_len(&self) -> usize {
        match self {
            Self::Key { values, .. } => HEAD_LEN + 4 + padded(HEAD_LEN + values.len()),
            Self::Range { .. } => HEAD_LEN + 8,
        }
    }

    fn write(&self, to: &mut Writer<'_>) {
        match self {
            Self::Key { id, values } => {
                to.tlv(TlvKind::KeyInfo.into(), self.encoded_len());
                to.u32(*id);
                to.tlv(TlvKind::FullData.into(), HEAD_LEN + values.len());
                to.padded(values);
            }
            Self::Range { first, last } => {
                to.tlv(TlvKind::TableRange.into(), self.encoded_len());
                to.u32(*first);
                to.u32(*last);
            }
        }
    }
}

impl Content {
    /// Adds a TLV to this content: the first TLV may be of any kind, a further TLV must be a nested path.
    fn with(self, tlv: &Tlv<'_>, levels: usize, ids: usize) -> Result<Self, WireError> {
        let kind = TlvKind::from(tlv.kind);
        match (self, kind) {
            (Self::Empty, TlvKind::FullData) => Ok(Self::Full(tlv.value.to_vec())),
            (Self::Empty, TlvKind::SparseData) => {
                let ilvs = Ilvs::new("SPARSEDATA-TLV", tlv.value, tlv.value_at());
                Ok(Self::Sparse(ilvs.owned()?))
            }
            (Self::Empty, TlvKind::Result | TlvKind::ExtendedResult) => {
                Ok(Self::Outcome(Outcome::parse(tlv)?))
            }
            (Self::Empty, TlvKind::PathData) => {
                Ok(Self::Nested(vec![PathData::parse_at(tlv, levels, ids)?]))
            }
            (Self::Nested(mut paths), TlvKind::PathData) => {
                paths.push(PathData::parse_at(tlv, levels, ids)?);
                Ok(Self::Nested(paths))
            }
            (before, _) => {
                let names = match before {
                    Self::Empty => "FULLDATA, SPARSEDATA, RESULT, EXTENDEDRESULT or PATH-DATA",
                    Self::Nested(_) => "PATH-DATA, like the TLVs before it",
                    _ => "absent: one TLV of data ends a path",
                };
                let place = Place::new(PART, tlv.at);
                Err(place.unexpected(
                    "type of an inner TLV",
                    tlv.kind,
                    names,
                    ResultCode::InvalidTlv,
                ))
            }
        }
    }

    /// Length in bytes, with padding.
    pub(crate) fn encoded_len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Full(value) => padded(HEAD_LEN + value.len()),
            Self::Sparse(ilvs) => HEAD_LEN + ilvs_len(ilvs),
            Self::Outcome(outcome) => outcome.encoded_len(),
            Self::Nested(paths) => paths.iter().map(PathData::encoded_len).sum(),
        }
    }

    fn write(&self, to: &mut Writer<'_>) {
        match self {
            Self::Empty => {}
            Self::Full(value) => {
                to.tlv(TlvKind::FullData.into(), HEAD_LEN + value.len());
                to.padded(value);
            }
            Self::Sparse(ilvs) => {
                to.tlv(TlvKind::SparseData.into(), self.encoded_len());
                for ilv in ilvs {
                    ilv.write(to);
                }
            }
            Self::Outcome(outcome) => outcome.write(to),
            Self::Nested(paths) => {
                for path in paths {
                    path.write(to);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &[u8]) -> Result<PathData, WireError> {
        PathData::parse(&Tlv {
            kind: 0x110,
            at: 0,
            value,
        })
    }

    #[test]
    fn both_positions_of_a_flag_are_read_and_the_high_one_is_written() {
        let range = [0, 1, 0, 0, 0, 7, 0x01, 0x17, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2];
        for flags in [0x40, 0x00] {
            let mut value = vec![flags, if flags == 0 { 2 } else { 0 }];
            value.extend(range);
            let path = parse(&value).unwrap();
            assert_eq!(
                path.selector(),
                Some(&Selector::Range { first: 1, last: 2 })
            );
            let mut bytes = vec![0xa5; path.encoded_len()];
            path.write(&mut Writer::new(&mut bytes));
            assert_eq!(bytes[4..6], [0x40, 0]);
        }
    }

    #[test]
    fn flags_that_contradict_the_selector_are_refused() {
        for flags in [[0x80, 0], [0x40, 0], [0xc0, 0], [0, 1], [0, 3]] {
            let error = parse(&[flags[0], flags[1], 0, 1, 0, 0, 0, 7]).unwrap_err();
            assert_eq!(error.code, ResultCode::InvalidTflags, "{flags:?}");
        }
        assert!(
            parse(&[0x3f, 0xfc, 0, 1, 0, 0, 0, 7]).is_ok(),
            "reserved flags are ignored"
        );
    }

    #[test]
    fn nesting_and_length_of_a_path_are_bounded() {
        let nest = |levels: usize, ids: usize| {
            let mut path = PathData::bare(vec![1; ids]);
            for _ in 1..levels {
                path =
                    path.and_then(|p| PathData::new(vec![1; ids], None, Content::Nested(vec![p])));
            }
            path
        };
        assert!(nest(NESTING_MAX, 4).is_ok());
        assert_eq!(nest(NESTING_MAX + 1, 0).unwrap_err().field, "nesting");
        assert_eq!(nest(NESTING_MAX, 5).unwrap_err().field, "IDs of a path");
        let none = PathData::new(vec![], None, Content::Nested(vec![])).unwrap_err();
        assert_eq!(
            none.to_string(),
            "byte 0: PATH-DATA-TLV: number of nested paths is 0, but must be at least 1 (E_INVALID_TLV)"
        );
        let range = Some(Selector::Range { first: 0, last: 9 });
        let inner = PathData::bare(vec![1]).unwrap();
        let error = PathData::new(vec![1], range, Content::Nested(vec![inner])).unwrap_err();
        assert_eq!(error.code, ResultCode::InvalidTflags);

        let mut deep = vec![0, 0, 0, 0];
        for _ in 0..NESTING_MAX {
            let len = deep.len() as u16 + 4;
            let mut around = vec![0, 0, 0, 0, 1, 0x10];
            around.extend(len.to_be_bytes());
            around.append(&mut deep);
            deep = around;
        }
        let error = parse(&deep).unwrap_err();
        assert_eq!(
            (error.field, error.code),
            ("levels left", ResultCode::InvalidPath)
        );
    }

    #[test]
    fn what_does_not_fit_a_tlv_cannot_be_constructed() {
        let room = LEN_MAX - 3 - HEAD_LEN - FIXED_LEN - HEAD_LEN;
        assert!(PathData::full(vec![], vec![0; room]).is_ok());
        let error = PathData::full(vec![], vec![0; room + 1]).unwrap_err();
        assert_eq!(error.code, ResultCode::ContentsTooLong);
    }

    #[test]
    fn data_ends_a_path() {
        let two = [0, 0, 0, 0, 1, 0x12, 0, 4, 1, 0x12, 0, 4];
        assert_eq!(parse(&two).unwrap_err().code, ResultCode::InvalidTlv);
        let key_late = [
            0, 0, 0, 0, 1, 0x12, 0, 4, 1, 0x17, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(parse(&key_late).unwrap_err().code, ResultCode::InvalidTlv);
    }
}

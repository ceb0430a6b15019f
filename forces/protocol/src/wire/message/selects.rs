//! The common body of six messages: a series of LFBselects. A rule for each message limits their number and operations.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

use super::super::bytes::Writer;
use super::super::error::{Place, WireError};
use super::super::header::HEADER_LEN;
use super::super::operation::OperationKind;
use super::super::result_code::ResultCode;
use super::super::select::LfbSelect;
use super::super::tlv::{TlvKind, Tlvs};

/// The rule for the body of a type of message.
pub trait Rule: Clone + fmt::Debug + PartialEq + Eq + Hash {
    /// Name of the message in errors.
    const PART: &'static str;
    /// Names of the permitted operations in errors.
    const NAMES: &'static str;
    /// The minimum and maximum number of LFBselects.
    const COUNT: (usize, usize);

    /// Whether the message may have this known operation. Unknown operations are always permitted; the FE refuses them.
    fn permits(kind: OperationKind) -> bool;

    /// Whether an LFBselect may name this LFB class.
    fn permits_class(_class: u32) -> bool {
        true
    }
}

/// The body of a message: LFBselects in the order of their execution.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selects<R> {
    selects: Vec<LfbSelect>,
    rule: PhantomData<R>,
}

impl<R: Rule> Selects<R> {
    /// A body, if the rule permits it.
    pub fn new(selects: Vec<LfbSelect>) -> Result<Self, WireError> {
        let place = Place::new(R::PART, HEADER_LEN);
        let (count, missing) = (selects.len(), ResultCode::InvalidTlv);
        place.permit_len("number of LFBselects", count, R::COUNT, missing)?;
        let mut at = HEADER_LEN;
        for select in &selects {
            check::<R>(Place::new(R::PART, at), select)?;
            at += select.encoded_len();
        }
        Ok(Self {
            selects,
            rule: PhantomData,
        })
    }

    /// The LFBselects, in the order of their execution.
    pub fn selects(&self) -> &[LfbSelect] {
        &self.selects
    }

    /// Length in bytes.
    pub fn encoded_len(&self) -> usize {
        self.selects.iter().map(LfbSelect::encoded_len).sum()
    }

    /// Reads the body: the bytes after the header.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, WireError> {
        let mut selects = Vec::new();
        for tlv in Tlvs::new(R::PART, body, HEADER_LEN) {
            let tlv = tlv?;
            if TlvKind::from(tlv.kind) != TlvKind::LfbSelect {
                let place = Place::new(R::PART, tlv.at);
                return Err(place.unexpected(
                    "type of an inner TLV",
                    tlv.kind,
                    "LFBselect",
                    ResultCode::InvalidTlv,
                ));
            }
            selects.push(LfbSelect::parse(tlv)?);
        }
        Self::new(selects)
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        for select in &self.selects {
            select.write(to);
        }
    }
}

fn check<R: Rule>(place: Place, select: &LfbSelect) -> Result<(), WireError> {
    let invalid = ResultCode::InvalidOperation;
    if !R::permits_class(select.class()) {
        let names = "1 or 2, a class that every element has";
        return Err(place.unexpected("class", select.class(), names, ResultCode::InvalidTlv));
    }
    let mut kinds = select.operations().iter().map(|o| o.kind());
    match kinds.find(|kind| !R::permits(*kind) && !matches!(kind, OperationKind::Other(_))) {
        Some(kind) => Err(place.unexpected("operation", u16::from(kind), R::NAMES, invalid)),
        None => Ok(()),
    }
}

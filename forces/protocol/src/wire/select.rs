//! LFBselect: an LFB, with operations on it or their responses (RFC 5810, 7.1.5).
//!
//! ```text
//! +--------+--------+----------+-------------+-----------+-----------+
//! | 0x1000 | length | class ID | instance ID | operation | operation |
//! +--------+--------+----------+-------------+-----------+-----------+
//!   2        2        4          4
//! ```

use super::bytes::{Writer, u32_at};
use super::error::{Place, WireError};
use super::operation::Operation;
use super::result_code::ResultCode;
use super::tlv::{HEAD_LEN, LEN_MAX, Tlv, TlvKind, Tlvs};

const PART: &str = "LFBselect-TLV";
const FIXED_LEN: usize = 8;

/// A view of the fields of an LFBselect.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(Tlv<'a>);

impl<'a> View<'a> {
    /// Makes a view if the TLV's value is long enough for class and instance; nothing else is checked.
    pub fn new_checked(tlv: Tlv<'a>) -> Result<Self, WireError> {
        let (len, mismatch) = (tlv.value.len(), ResultCode::LengthMismatch);
        let place = Place::new(PART, tlv.at);
        place.permit_len("length of the value", len, (FIXED_LEN, LEN_MAX), mismatch)?;
        Ok(Self(tlv))
    }

    /// Class ID of the LFB.
    pub fn class(&self) -> u32 {
        u32_at(self.0.value, 0)
    }

    /// Instance ID of the LFB within its class.
    pub fn instance(&self) -> u32 {
        u32_at(self.0.value, 4)
    }

    /// An iterator over the operations.
    pub fn operations(&self) -> Tlvs<'a> {
        let at = self.0.value_at() + FIXED_LEN;
        Tlvs::new(PART, &self.0.value[FIXED_LEN..], at)
    }
}

/// Operations on one LFB.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LfbSelect {
    class: u32,
    instance: u32,
    operations: Vec<Operation>,
    len: usize,
}

impl LfbSelect {
    /// Length in bytes without operations.
    pub const EMPTY_LEN: usize = HEAD_LEN + FIXED_LEN;

    /// Operations on an LFB, in the order of their execution.
    pub fn new(class: u32, instance: u32, operations: Vec<Operation>) -> Result<Self, WireError> {
        let inner: usize = operations.iter().map(Operation::encoded_len).sum();
        let len = Self::EMPTY_LEN + inner;
        let place = Place::new(PART, 0);
        place.permit_len(
            "length",
            len,
            (Self::EMPTY_LEN, LEN_MAX),
            ResultCode::ContentsTooLong,
        )?;
        Ok(Self {
            class,
            instance,
            operations,
            len,
        })
    }

    /// Class ID of the LFB.
    pub const fn class(&self) -> u32 {
        self.class
    }

    /// Instance ID of the LFB within its class.
    pub const fn instance(&self) -> u32 {
        self.instance
    }

    /// The operations, in the order of their execution.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Length in bytes.
    pub const fn encoded_len(&self) -> usize {
        self.len
    }

    /// Reads an LFBselect.
    pub(crate) fn parse(tlv: Tlv<'_>) -> Result<Self, WireError> {
        let view = View::new_checked(tlv)?;
        let operations = view.operations().map(|tlv| Operation::parse(&tlv?));
        let operations = operations.collect::<Result<_, _>>()?;
        Self::new(view.class(), view.instance(), operations)
            .map_err(|e| WireError { at: tlv.at, ..e })
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        to.tlv(TlvKind::LfbSelect.into(), self.len);
        to.u32(self.class);
        to.u32(self.instance);
        for operation in &self.operations {
            operation.write(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{OperationKind, PathData};

    #[test]
    fn what_does_not_fit_a_tlv_cannot_be_constructed() {
        let set = |len| {
            let path = PathData::full(vec![1], vec![0; len]).unwrap();
            Operation::on(OperationKind::Set, vec![path]).unwrap()
        };
        assert!(LfbSelect::new(1, 1, vec![set(30_000), set(30_000)]).is_ok());
        let error = LfbSelect::new(1, 1, vec![set(30_000), set(40_000)]).unwrap_err();
        assert_eq!(error.code, ResultCode::ContentsTooLong);
    }

    #[test]
    fn an_operation_that_is_not_known_is_kept() {
        let value = [0, 0, 0, 9, 0, 0, 0, 1, 0x80, 1, 0, 5, 7, 0, 0, 0];
        let tlv = Tlv {
            kind: 0x1000,
            at: 24,
            value: &value,
        };
        let select = LfbSelect::parse(tlv).unwrap();
        assert_eq!(select.operations()[0].kind(), OperationKind::Other(0x8001));
        let mut bytes = vec![0xa5; select.encoded_len()];
        select.write(&mut Writer::new(&mut bytes));
        assert_eq!(bytes[4..], value);
    }
}

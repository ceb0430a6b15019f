//! Results of operations: RESULT (RFC 5810, 7.1.7) and EXTENDEDRESULT (RFC 7391, 3.2).
//!
//! ```text
//!  RESULT                                     EXTENDEDRESULT
//! +--------+--------+------+----------+      +--------+--------+------+----------------+-----+
//! | 0x0114 | length | code | reserved |      | 0x0118 | length | code | cause in words | pad |
//! +--------+--------+------+----------+      +--------+--------+------+----------------+-----+
//!   2        2        1      3                 2        2        4      length - 8
//! ```
//!
//! *Decision*: a FULLDATA after the code, which only the grammar of RFC 5810 permits, is ignored.

use super::bytes::{Writer, padded, u32_at};
use super::error::{Place, WireError};
use super::result_code::ResultCode;
use super::tlv::{HEAD_LEN, LEN_MAX, Tlv, TlvKind};

/// Maximum length of a cause in bytes, as recommended by RFC 7391.
pub const CAUSE_ADVISED_MAX: usize = 32;

/// A result code, in one of two forms.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    code: ResultCode,
    cause: Option<Vec<u8>>,
}

impl Outcome {
    /// Success, as RESULT.
    pub const SUCCESS: Self = Self {
        code: ResultCode::Success,
        cause: None,
    };

    /// A RESULT; its code must be below 0x100.
    pub fn plain(code: ResultCode) -> Result<Self, WireError> {
        let place = Place::new("RESULT-TLV", 0);
        place.permit(
            "code",
            u32::from(code),
            (0, 0xff),
            ResultCode::ValueOutOfRange,
        )?;
        Ok(Self { code, cause: None })
    }

    /// An EXTENDEDRESULT with a cause in words, which may be empty.
    pub fn extended(code: ResultCode, cause: &str) -> Result<Self, WireError> {
        let len = HEAD_LEN + 4 + cause.len();
        let place = Place::new("EXTENDEDRESULT-TLV", 0);
        place.permit_len(
            "length",
            len,
            (HEAD_LEN + 4, LEN_MAX),
            ResultCode::ContentsTooLong,
        )?;
        Ok(Self {
            code,
            cause: Some(cause.into()),
        })
    }

    /// Reads a RESULT or an EXTENDEDRESULT.
    pub(crate) fn parse(tlv: &Tlv<'_>) -> Result<Self, WireError> {
        let extended = TlvKind::from(tlv.kind) == TlvKind::ExtendedResult;
        let part = if extended {
            "EXTENDEDRESULT-TLV"
        } else {
            "RESULT-TLV"
        };
        let (least, most) = (HEAD_LEN + 4, LEN_MAX);
        let len = HEAD_LEN + tlv.value.len();
        Place::new(part, tlv.at).permit_len(
            "length",
            len,
            (least, most),
            ResultCode::LengthMismatch,
        )?;
        let word = u32_at(tlv.value, 0);
        Ok(if extended {
            Self {
                code: word.into(),
                cause: Some(tlv.value[4..].to_vec()),
            }
        } else {
            Self {
                code: (word >> 24).into(),
                cause: None,
            }
        })
    }

    /// The result code.
    pub const fn code(&self) -> ResultCode {
        self.code
    }

    /// Whether it is an EXTENDEDRESULT.
    pub const fn is_extended(&self) -> bool {
        self.cause.is_some()
    }

    /// The same result in the other form. A RESULT has no cause, and has `E_UNSPECIFIED_ERROR` instead of a code that
    /// does not fit a byte.
    pub fn in_other_form(&self) -> Self {
        let cause = match self.cause {
            None => Some(Vec::new()),
            Some(_) => None,
        };
        let code = if u32::from(self.code) > 0xff && cause.is_none() {
            ResultCode::Unspecified
        } else {
            self.code
        };
        Self { code, cause }
    }

    /// Whether it is a success.
    pub fn is_success(&self) -> bool {
        self.code == ResultCode::Success
    }

    /// The cause of an EXTENDEDRESULT; bytes that are not UTF-8 are replaced.
    pub fn cause(&self) -> Option<String> {
        let cause = self.cause.as_deref()?;
        Some(String::from_utf8_lossy(cause).into_owned())
    }

    /// Length in bytes, with padding.
    pub fn encoded_len(&self) -> usize {
        padded(HEAD_LEN + 4 + self.cause.as_ref().map_or(0, Vec::len))
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        let code = u32::from(self.code);
        match &self.cause {
            None => {
                to.tlv(TlvKind::Result.into(), HEAD_LEN + 4);
                to.u32(code << 24);
            }
            Some(cause) => {
                to.tlv(TlvKind::ExtendedResult.into(), HEAD_LEN + 4 + cause.len());
                to.u32(code);
                to.padded(cause);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_above_a_byte_need_the_extended_form() {
        let private = ResultCode::Other(0x100);
        assert!(Outcome::plain(private).is_err());
        assert_eq!(
            Outcome::extended(private, "no").unwrap().cause().as_deref(),
            Some("no")
        );
        assert!(Outcome::extended(private, &"x".repeat(LEN_MAX - 7)).is_err());
    }

    #[test]
    fn a_result_has_two_forms() {
        let plain = Outcome::plain(ResultCode::Busy).unwrap();
        let extended = Outcome::extended(ResultCode::Busy, "later").unwrap();
        assert_eq!(extended.in_other_form(), plain);
        assert_eq!(plain.in_other_form().cause().as_deref(), Some(""));
        let private = Outcome::extended(ResultCode::Other(0x100), "").unwrap();
        assert_eq!(private.in_other_form().code(), ResultCode::Unspecified);
    }

    #[test]
    fn reserved_bytes_and_what_follows_the_code_are_ignored() {
        let tlv = Tlv {
            kind: 0x114,
            at: 0,
            value: &[9, 1, 2, 3, 0x01, 0x12, 0, 4],
        };
        let outcome = Outcome::parse(&tlv).unwrap();
        assert_eq!(
            outcome,
            Outcome::plain(ResultCode::ComponentDoesNotExist).unwrap()
        );
    }
}

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
//! *Decision*: `E_CONTENTS_TOO_LONG` is 0x0f, as in the appendix of RFC 5810; table 4 assigns 0x0d to two codes. A
//! FULLDATA after the code, which only the grammar of RFC 5810 permits, is ignored.

use super::bytes::{Writer, padded, u32_at};
use super::error::{Place, WireError};
use super::tlv::{HEAD_LEN, LEN_MAX, Tlv, TlvKind};

/// Maximum length of a cause in bytes, as recommended by RFC 7391.
pub const CAUSE_ADVISED_MAX: usize = 32;

codes! {
    /// Result codes (RFC 5810, A.5; codes from 0x18: RFC 7391, 3.2.1).
    ResultCode(u32) {
        /// Success.
        Success = 0x00 "E_SUCCESS",
        /// The header contradicts itself.
        InvalidHeader = 0x01 "E_INVALID_HEADER",
        /// A length contradicts another one, or the number of bytes.
        LengthMismatch = 0x02 "E_LENGTH_MISMATCH",
        /// The version of the protocol is not supported.
        VersionMismatch = 0x03 "E_VERSION_MISMATCH",
        /// The message is not for this element.
        InvalidDestination = 0x04 "E_INVALID_DESTINATION_PID",
        /// The LFB class is unknown.
        LfbUnknown = 0x05 "E_LFB_UNKNOWN",
        /// The class is known, but the element has no LFB of it.
        LfbNotFound = 0x06 "E_LFB_NOT_FOUND",
        /// The class has no LFB with this instance ID.
        InstanceNotFound = 0x07 "E_LFB_INSTANCE_ID_NOT_FOUND",
        /// The class has no such path.
        InvalidPath = 0x08 "E_INVALID_PATH",
        /// The path exists in the class, but the component does not exist.
        ComponentDoesNotExist = 0x09 "E_COMPONENT_DOES_NOT_EXIST",
        /// The object already exists.
        Exists = 0x0a "E_EXISTS",
        /// The object was not found.
        NotFound = 0x0b "E_NOT_FOUND",
        /// The component cannot be written.
        ReadOnly = 0x0c "E_READ_ONLY",
        /// An array cannot be created this way.
        InvalidArrayCreation = 0x0d "E_INVALID_ARRAY_CREATION",
        /// The value is out of its range.
        ValueOutOfRange = 0x0e "E_VALUE_OUT_OF_RANGE",
        /// The content is too long.
        ContentsTooLong = 0x0f "E_CONTENTS_TOO_LONG",
        /// The parameters are wrong.
        InvalidParameters = 0x10 "E_INVALID_PARAMETERS",
        /// The message type is not permitted.
        InvalidMessageType = 0x11 "E_INVALID_MESSAGE_TYPE",
        /// The flags of the header are not permitted.
        InvalidFlags = 0x12 "E_INVALID_FLAGS",
        /// A TLV is missing, or is not permitted here.
        InvalidTlv = 0x13 "E_INVALID_TLV",
        /// An event failed.
        EventError = 0x14 "E_EVENT_ERROR",
        /// The request is not supported.
        NotSupported = 0x15 "E_NOT_SUPPORTED",
        /// The element is out of memory.
        MemoryError = 0x16 "E_MEMORY_ERROR",
        /// The element has an internal error.
        InternalError = 0x17 "E_INTERNAL_ERROR",
        /// The operation timed out.
        TimedOut = 0x18 "E_TIMED_OUT",
        /// The flags of a path contradict each other or its selector.
        InvalidTflags = 0x19 "E_INVALID_TFLAGS",
        /// The operation is not permitted here.
        InvalidOperation = 0x1a "E_INVALID_OP",
        /// The element is congested.
        Congested = 0x1b "E_CONGEST_NT",
        /// The component is not a table.
        NotATable = 0x1c "E_COMPONENT_NOT_A_TABLE",
        /// The requester has no permission.
        NotPermitted = 0x1d "E_PERM",
        /// The object is in use.
        Busy = 0x1e "E_BUSY",
        /// The object is empty.
        Empty = 0x1f "E_EMPTY",
        /// The reason is unknown.
        Unknown = 0x20 "E_UNKNOWN",
        /// A failure without a specific code.
        Unspecified = 0xff "E_UNSPECIFIED_ERROR",
    }
}

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
        Ok(match extended {
            true => Self {
                code: word.into(),
                cause: Some(tlv.value[4..].to_vec()),
            },
            false => Self {
                code: (word >> 24).into(),
                cause: None,
            },
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
        let code = match u32::from(self.code) > 0xff && cause.is_none() {
            true => ResultCode::Unspecified,
            false => self.code,
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
    fn every_code_survives_a_round_trip() {
        for n in 0..=0x200 {
            assert_eq!(u32::from(ResultCode::from(n)), n);
        }
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

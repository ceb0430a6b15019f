//! Errors of messages: the offset, the field, the value found, the values permitted, and the result code for the
//! answer.

use std::fmt;

use super::result_code::ResultCode;

/// Bytes that are not a valid message, or values that do not fit a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError {
    /// Offset of the part in the message, in bytes; zero for a value that is being constructed.
    pub at: usize,
    /// Name of the header or TLV.
    pub part: &'static str,
    /// Name of the field.
    pub field: &'static str,
    /// The value found.
    pub found: u64,
    /// The values permitted.
    pub permitted: Permitted,
    /// The result code for the answer.
    pub code: ResultCode,
}

/// The permitted values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permitted {
    /// A number in this range, both ends included.
    Range(u64, u64),
    /// One of these codes, given by name.
    Codes(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            part,
            field,
            found,
            permitted,
            code,
        } = self;
        write!(f, "byte {at}: {part}: {field} is ")?;
        match permitted {
            Permitted::Range(a, b) if a == b => write!(f, "{found}, but must be {a}"),
            Permitted::Range(a, u64::MAX) => write!(f, "{found}, but must be at least {a}"),
            Permitted::Range(a, b) => write!(f, "{found}, but must be from {a} to {b}"),
            Permitted::Codes(names) => write!(f, "{found:#06x}, but must be {names}"),
        }?;
        write!(f, " ({code})")
    }
}

impl std::error::Error for WireError {}

/// The position of a possible error: the part of the message, and its offset in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) part: &'static str,
    pub(crate) at: usize,
}

impl Place {
    pub(crate) const fn new(part: &'static str, at: usize) -> Self {
        Self { part, at }
    }

    /// Checks that `found` lies between `least` and `most`, both included.
    pub(crate) fn permit(
        self,
        field: &'static str,
        found: impl Into<u64>,
        (least, most): (u64, u64),
        code: ResultCode,
    ) -> Result<(), WireError> {
        let found = found.into();
        if (least..=most).contains(&found) {
            return Ok(());
        }
        Err(self.error(field, found, Permitted::Range(least, most), code))
    }

    /// Like [`Self::permit`], for a number of bytes or parts.
    pub(crate) fn permit_len(
        self,
        field: &'static str,
        found: usize,
        (least, most): (usize, usize),
        code: ResultCode,
    ) -> Result<(), WireError> {
        self.permit(field, found as u64, (least as u64, most as u64), code)
    }

    /// An error for a code that is not in `names`.
    pub(crate) fn unexpected(
        self,
        field: &'static str,
        found: impl Into<u64>,
        names: &'static str,
        code: ResultCode,
    ) -> WireError {
        self.error(field, found.into(), Permitted::Codes(names), code)
    }

    const fn error(
        self,
        field: &'static str,
        found: u64,
        permitted: Permitted,
        code: ResultCode,
    ) -> WireError {
        let Self { part, at } = self;
        WireError {
            at,
            part,
            field,
            found,
            permitted,
            code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_found_what_is_permitted_and_what_answers_it() {
        let place = Place::new("header", 0);
        let error = place
            .permit("version", 2_u8, (1, 1), ResultCode::VersionMismatch)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 0: header: version is 2, but must be 1 (E_VERSION_MISMATCH)"
        );
        let error = Place::new("RESULT-TLV", 60).unexpected(
            "type",
            0x111_u16,
            "FULLDATA",
            ResultCode::InvalidTlv,
        );
        assert_eq!(
            error.to_string(),
            "byte 60: RESULT-TLV: type is 0x0111, but must be FULLDATA (E_INVALID_TLV)"
        );
    }
}

//! Errors in headers: the header, the field, the value found, and the values permitted.

/// Why bytes could not be read as a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes end before the header does.
    #[error("{header}: needs {needed} bytes, found {found}")]
    Truncated {
        /// The header.
        header: &'static str,
        /// Bytes that it needs.
        needed: usize,
        /// Bytes in the buffer.
        found: usize,
    },
    /// A field has a value that contradicts the format or another field.
    #[error("{header}: {field} is {found}, but must be from {least} to {most}")]
    NotPermitted {
        /// The header.
        header: &'static str,
        /// The field.
        field: &'static str,
        /// The value found.
        found: u64,
        /// The least value permitted.
        least: u64,
        /// The maximum permitted value.
        most: u64,
    },
    /// The checksum does not match the bytes.
    #[error("{header}: checksum is {found:#06x}, but must be {permitted:#06x}")]
    Checksum {
        /// The header.
        header: &'static str,
        /// The checksum found.
        found: u16,
        /// The correct checksum.
        permitted: u16,
    },
    /// The checksum field is outside the bytes.
    #[error("the checksum field is at byte {at}, but there are only {len} bytes")]
    ChecksumOutside {
        /// Where the field begins.
        at: usize,
        /// Number of bytes.
        len: usize,
    },
}

/// Succeeds if `found` bytes are enough for the `needed` bytes of `header`.
#[inline]
pub fn needs(header: &'static str, needed: usize, found: usize) -> Result<(), WireError> {
    if found >= needed {
        return Ok(());
    }
    Err(WireError::Truncated {
        header,
        needed,
        found,
    })
}

/// Succeeds if `found` lies between `least` and `most`, both included.
#[inline]
pub fn permit(
    header: &'static str,
    field: &'static str,
    found: impl Into<u64>,
    least: u64,
    most: u64,
) -> Result<(), WireError> {
    let found = found.into();
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(WireError::NotPermitted {
        header,
        field,
        found,
        least,
        most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_found_and_what_is_permitted() {
        let error = permit("IPv4 header", "version", 6_u8, 4, 4).unwrap_err();
        assert_eq!(
            error.to_string(),
            "IPv4 header: version is 6, but must be from 4 to 4"
        );
        let error = needs("UDP header", 8, 3).unwrap_err();
        assert_eq!(error.to_string(), "UDP header: needs 8 bytes, found 3");
    }
}

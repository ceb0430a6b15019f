//! The codes of results.
//!
//! *Decision*: `E_CONTENTS_TOO_LONG` is 0x0f, as in the appendix of RFC 5810; table 4 assigns 0x0d to two codes.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_a_round_trip() {
        for n in 0..=0x200 {
            assert_eq!(u32::from(ResultCode::from(n)), n);
        }
    }
}

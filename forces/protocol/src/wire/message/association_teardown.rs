//! Association Teardown (RFC 5810, 7.5.3): the end of an association, with the reason. It has no answer.

use super::super::bytes::Writer;
use super::super::error::WireError;
use super::super::tlv::TlvKind;
use super::association_setup_response::{CODE_LEN, parse_code};

codes! {
    /// Why an association ends (RFC 5810, A.7).
    TeardownReason(u32) {
        /// An administrator ended it.
        Normal = 0 "ended by an administrator",
        /// The other element sent no heartbeats.
        LossOfHeartbeats = 1 "loss of heartbeats",
        /// There is not enough bandwidth.
        OutOfBandwidth = 2 "out of bandwidth",
        /// There is not enough memory.
        OutOfMemory = 3 "out of memory",
        /// An application failed.
        ApplicationCrash = 4 "application crash",
        /// Any other reason.
        Unspecified = 255 "unspecified reason",
    }
}

/// The body of an Association Teardown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AssociationTeardown {
    /// The reason.
    pub reason: TeardownReason,
}

impl AssociationTeardown {
    /// Length in bytes.
    pub const fn encoded_len(&self) -> usize {
        CODE_LEN
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Self, WireError> {
        let code = parse_code(
            "Association Teardown",
            body,
            TlvKind::TeardownReason,
            "ASTreason",
        )?;
        Ok(Self {
            reason: code.into(),
        })
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        to.tlv(TlvKind::TeardownReason.into(), CODE_LEN);
        to.u32(self.reason.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_that_is_not_known_is_kept() {
        for code in [0, 1, 2, 3, 4, 5, 255, 256] {
            let mut bytes = vec![0, 0x11, 0, 8];
            bytes.extend(u32::to_be_bytes(code));
            let teardown = AssociationTeardown::parse(&bytes).unwrap();
            let mut written = [0xa5; CODE_LEN];
            teardown.write(&mut Writer::new(&mut written));
            assert_eq!(written[..], bytes[..]);
        }
    }
}

//! Association Setup Response (RFC 5810, 7.5.2): a CE accepts an FE, or gives the reason for its refusal.

use super::super::bytes::{Writer, u32_at};
use super::super::error::{Place, WireError};
use super::super::header::HEADER_LEN;
use super::super::result_code::ResultCode;
use super::super::tlv::{HEAD_LEN, TlvKind, Tlvs};

/// Length in bytes of a body that consists of one code.
pub(super) const CODE_LEN: usize = HEAD_LEN + 4;

codes! {
    /// The answer to an association setup (RFC 5810, A.6).
    SetupResult(u32) {
        /// The FE is associated.
        Success = 0 "success",
        /// The FE may not use this ID.
        FeIdInvalid = 1 "FE ID invalid",
        /// The FE may not be associated.
        PermissionDenied = 2 "permission denied",
    }
}

/// The body of an Association Setup Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AssociationSetupResponse {
    /// The answer.
    pub result: SetupResult,
}

impl AssociationSetupResponse {
    /// Length in bytes.
    pub const fn encoded_len(&self) -> usize {
        CODE_LEN
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Self, WireError> {
        let code = parse_code(
            "Association Setup Response",
            body,
            TlvKind::AssociationResult,
            "ASResult",
        )?;
        Ok(Self {
            result: code.into(),
        })
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        to.tlv(TlvKind::AssociationResult.into(), CODE_LEN);
        to.u32(self.result.into());
    }
}

/// Reads a body that is one TLV with one code.
pub(super) fn parse_code(
    part: &'static str,
    body: &[u8],
    kind: TlvKind,
    name: &'static str,
) -> Result<u32, WireError> {
    let place = Place::new(part, HEADER_LEN);
    let tlvs = Tlvs::new(part, body, HEADER_LEN).collect::<Result<Vec<_>, _>>()?;
    place.permit_len("number of TLVs", tlvs.len(), (1, 1), ResultCode::InvalidTlv)?;
    let tlv = &tlvs[0];
    if TlvKind::from(tlv.kind) != kind {
        return Err(place.unexpected(
            "type of an inner TLV",
            tlv.kind,
            name,
            ResultCode::InvalidTlv,
        ));
    }
    let len = HEAD_LEN + tlv.value.len();
    place.permit_len(
        "length of an inner TLV",
        len,
        (CODE_LEN, CODE_LEN),
        ResultCode::LengthMismatch,
    )?;
    Ok(u32_at(tlv.value, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_code() {
        let denied = [0, 0x10, 0, 8, 0, 0, 0, 2];
        let response = AssociationSetupResponse::parse(&denied).unwrap();
        assert_eq!(response.result, SetupResult::PermissionDenied);
        let mut bytes = [0xa5; CODE_LEN];
        response.write(&mut Writer::new(&mut bytes));
        assert_eq!(bytes, denied);
        assert!(AssociationSetupResponse::parse(&[]).is_err());
        assert!(AssociationSetupResponse::parse(&[denied, denied].concat()).is_err());
        assert!(AssociationSetupResponse::parse(&[0, 0x11, 0, 8, 0, 0, 0, 2]).is_err());
        assert!(AssociationSetupResponse::parse(&[0, 0x10, 0, 4]).is_err());
    }
}

//! Heartbeat (RFC 5810, 7.10): shows that the sender is alive if it sends no other messages. It has no body.

use super::super::error::{Place, WireError};
use super::super::header::HEADER_LEN;
use super::super::result_code::ResultCode;

/// The body of a Heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heartbeat;

impl Heartbeat {
    /// Length in bytes.
    pub const fn encoded_len(&self) -> usize {
        0
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Self, WireError> {
        let place = Place::new("Heartbeat", HEADER_LEN);
        place.permit_len(
            "length of the body",
            body.len(),
            (0, 0),
            ResultCode::InvalidTlv,
        )?;
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_refused() {
        assert!(Heartbeat::parse(&[]).is_ok());
        assert!(Heartbeat::parse(&[0; 4]).is_err());
    }
}

//! Packet Redirect (RFC 5810, 7.9): packets that an FE sends to a CE, or a CE to an FE. It has no answer.

use super::super::bytes::Writer;
use super::super::error::{Place, WireError};
use super::super::header::HEADER_LEN;
use super::super::redirect::{Redirect, View};
use super::super::result_code::ResultCode;
use super::super::tlv::{Tlv, TlvKind, Tlvs};

const PART: &str = "Packet Redirect";

/// The body of a Packet Redirect: at least one packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PacketRedirect {
    redirects: Vec<Redirect>,
}

impl PacketRedirect {
    /// A body of packets.
    pub fn new(redirects: Vec<Redirect>) -> Result<Self, WireError> {
        let place = Place::new(PART, HEADER_LEN);
        let (count, missing) = (redirects.len(), ResultCode::InvalidTlv);
        place.permit_len("number of packets", count, (1, usize::MAX), missing)?;
        Ok(Self { redirects })
    }

    /// The packets.
    pub fn redirects(&self) -> &[Redirect] {
        &self.redirects
    }

    /// Length in bytes.
    pub fn encoded_len(&self) -> usize {
        self.redirects.iter().map(Redirect::encoded_len).sum()
    }

    pub(crate) fn parse(body: &[u8]) -> Result<Self, WireError> {
        let redirects = tlvs(body).map(|tlv| Redirect::parse(&tlv?));
        Self::new(redirects.collect::<Result<_, _>>()?)
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        for redirect in &self.redirects {
            redirect.write(to);
        }
    }
}

/// An iterator over the packets of a body, without copies.
pub fn views(body: &[u8]) -> impl Iterator<Item = Result<View<'_>, WireError>> {
    tlvs(body).map(|tlv| View::new_checked(&tlv?))
}

fn tlvs(body: &[u8]) -> impl Iterator<Item = Result<Tlv<'_>, WireError>> {
    Tlvs::new(PART, body, HEADER_LEN).map(|tlv| {
        let tlv = tlv?;
        match TlvKind::from(tlv.kind) {
            TlvKind::Redirect => Ok(tlv),
            _ => {
                let place = Place::new(PART, tlv.at);
                Err(place.unexpected(
                    "type of an inner TLV",
                    tlv.kind,
                    "REDIRECT",
                    ResultCode::InvalidTlv,
                ))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Ilv;

    #[test]
    fn views_lend_what_a_repr_copies() {
        let metadata = vec![Ilv {
            id: 14,
            value: vec![0, 0, 0, 1],
        }];
        let packets =
            [&[0x45, 1, 2][..], &[0x60]].map(|p| Redirect::new(metadata.clone(), p.to_vec()));
        let body = PacketRedirect::new(packets.map(Result::unwrap).to_vec()).unwrap();
        let mut bytes = vec![0xa5; body.encoded_len()];
        body.write(&mut Writer::new(&mut bytes));
        assert_eq!(PacketRedirect::parse(&bytes), Ok(body.clone()));
        for (view, redirect) in views(&bytes).zip(body.redirects()) {
            let view = view.unwrap();
            assert_eq!(view.packet(), redirect.packet());
            assert_eq!(view.metadata().owned().as_deref(), Ok(redirect.metadata()));
        }
        assert!(PacketRedirect::parse(&[]).is_err());
        assert!(PacketRedirect::parse(&[0x10, 0, 0, 4]).is_err());
    }
}

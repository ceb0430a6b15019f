//! REDIRECT: a packet and its metadata (RFC 5810, 7.9; metadata IDs: RFC 6956).
//!
//! ```text
//! +--------+--------+----------------------------+-----------------------------+
//! | 0x0001 | length | METADATA: a series of ILVs | REDIRECTDATA: the packet    |
//! +--------+--------+----------------------------+-----------------------------+
//! ```
//!
//! One of the two parts may be missing, but not both. A receiver that forwards the packet reads it from the message
//! through the [`View`], without a copy.

use super::bytes::{Writer, padded};
use super::error::{Place, WireError};
use super::result_code::ResultCode;
use super::tlv::{HEAD_LEN, Ilv, Ilvs, LEN_MAX, Tlv, TlvKind, Tlvs, ilvs_len};

const PART: &str = "REDIRECT-TLV";

codes! {
    /// Metadata IDs (RFC 6956); IDs from 0x80000000 are private.
    MetadataId(u32) {
        /// Physical port.
        PhyPortId = 1 "PHYPortID",
        /// Source MAC address.
        SrcMac = 2 "SrcMAC",
        /// Destination MAC address.
        DstMac = 3 "DstMAC",
        /// Logical port.
        LogicalPortId = 4 "LogicalPortID",
        /// EtherType.
        EtherType = 5 "EtherType",
        /// VLAN ID.
        VlanId = 6 "VlanID",
        /// The VLAN priority.
        VlanPriority = 7 "VlanPriority",
        /// IPv4 address of the next hop.
        NextHopIpv4Addr = 8 "NextHopIPv4Addr",
        /// IPv6 address of the next hop.
        NextHopIpv6Addr = 9 "NextHopIPv6Addr",
        /// Row of the next-hop table.
        HopSelector = 10 "HopSelector",
        /// Why the packet left the fast path.
        ExceptionId = 11 "ExceptionID",
        /// Why the packet is invalid.
        ValidateErrorId = 12 "ValidateErrorID",
        /// Port at the network layer.
        L3PortId = 13 "L3PortID",
        /// Output port for a packet from a CE.
        RedirectIndex = 14 "RedirectIndex",
        /// Row of the encapsulation table.
        MediaEncapInfoIndex = 15 "MediaEncapInfoIndex",
        /// Private: the MTU that a packet exceeds, in bytes.
        Mtu = 0x8000_0003 "Mtu",
    }
}

codes! {
    /// Why a packet left the fast path (RFC 6956, section 8.2; IDs from 0x80000000 are private).
    ExceptionId(u32) {
        /// Any other reason.
        Unrecognised = 0 "AnyUnrecognizedExceptionCase",
        /// The TTL has expired.
        BadTtl = 4 "BadTTL",
        /// The packet has the router alert option.
        RouterAlertOptions = 6 "RouterAlertOptions",
        /// The hop limit has expired.
        Ipv6HopLimitZero = 7 "IPv6HopLimitZero",
        /// The packet has hop-by-hop options.
        Ipv6NextHeaderHbh = 8 "IPv6NextHeaderHBH",
        /// No route leads to its destination.
        LpmLookupFailed = 11 "LPMLookupFailed",
        /// The next hop is unknown.
        NextHopLookupFailed = 13 "NextHopLookupFailed",
        /// The packet exceeds the MTU, and must not be fragmented.
        FragRequired = 14 "FragRequired",
        /// Private: the packet is addressed to the CE.
        LocalDelivery = 0x8000_0001 "LocalDelivery",
        /// Private: the packet is ARP or neighbour discovery.
        Neighbours = 0x8000_0002 "Neighbours",
        /// Private: the destination is a multicast group.
        Multicast = 0x8000_0003 "Multicast",
        /// Private: a rule of flexible packet forwarding (FPF) sends the packet to the CE.
        FpfRule = 0x8000_0004 "FpfRule",
    }
}

codes! {
    /// Output ports of RedirectIn, which determine how an FE sends a packet from a CE.
    RedirectPort(u32) {
        /// An IP packet, sent to a next hop that the CE selects.
        NextHop = 0 "next hop",
        /// An IP packet, sent according to the FE's routes.
        Routes = 1 "routes",
        /// A complete frame, sent through a port.
        Frame = 2 "frame",
    }
}

/// Metadata that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The same metadatum occurs twice.
    #[error("the redirect has {0} twice")]
    Twice(MetadataId),
    /// The metadatum has the wrong length.
    #[error("{0} of the redirect has {1} bytes, but needs {2}")]
    Length(MetadataId, usize, usize),
}

impl MetadataId {
    /// The metadatum with this ID and value.
    pub fn with(self, value: &[u8]) -> Ilv {
        Ilv {
            id: self.into(),
            value: value.to_vec(),
        }
    }
}

/// A view of the parts of a REDIRECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    metadata: Option<Tlv<'a>>,
    packet: Option<Tlv<'a>>,
}

impl<'a> View<'a> {
    /// Finds the two parts in a TLV's value; metadata is not validated yet.
    pub fn new_checked(tlv: &Tlv<'a>) -> Result<Self, WireError> {
        let place = Place::new(PART, tlv.at);
        let mut view = Self {
            metadata: None,
            packet: None,
        };
        for part in Tlvs::new(PART, tlv.value, tlv.value_at()) {
            let part = part?;
            match part.kind.into() {
                TlvKind::Metadata if view == Self::NOTHING => view.metadata = Some(part),
                TlvKind::RedirectData if view.packet.is_none() => view.packet = Some(part),
                _ => {
                    let (kind, names) = (part.kind, "METADATA, then REDIRECTDATA, once each");
                    return Err(place.unexpected(
                        "type of an inner TLV",
                        kind,
                        names,
                        ResultCode::InvalidTlv,
                    ));
                }
            }
        }
        let parts = u8::from(view != Self::NOTHING);
        place.permit("number of parts", parts, (1, 2), ResultCode::InvalidTlv)?;
        Ok(view)
    }

    const NOTHING: Self = Self {
        metadata: None,
        packet: None,
    };

    /// The packet, if present.
    pub fn packet(&self) -> Option<&'a [u8]> {
        self.packet.map(|tlv| tlv.value)
    }

    /// An iterator over the metadata.
    pub fn metadata(&self) -> Ilvs<'a> {
        match self.metadata {
            Some(tlv) => Ilvs::new("METADATA-TLV", tlv.value, tlv.value_at()),
            None => Ilvs::new("METADATA-TLV", &[], 0),
        }
    }
}

/// A packet and its metadata.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Redirect {
    metadata: Option<Vec<Ilv>>,
    packet: Option<Vec<u8>>,
    len: usize,
}

impl Redirect {
    /// A packet with metadata.
    pub fn new(metadata: Vec<Ilv>, packet: Vec<u8>) -> Result<Self, WireError> {
        Self::of(Some(metadata), Some(packet))
    }

    /// Metadata without a packet.
    pub fn metadata_only(metadata: Vec<Ilv>) -> Result<Self, WireError> {
        Self::of(Some(metadata), None)
    }

    /// The metadata.
    pub fn metadata(&self) -> &[Ilv] {
        self.metadata.as_deref().unwrap_or_default()
    }

    /// The value of a metadatum, if present.
    pub fn metadatum(&self, id: MetadataId) -> Option<&[u8]> {
        let found = self.metadata().iter().find(|ilv| ilv.id == u32::from(id))?;
        Some(&found.value)
    }

    /// The value of a metadatum of `N` bytes, if present.
    pub fn fixed<const N: usize>(&self, id: MetadataId) -> Result<Option<[u8; N]>, MetadataError> {
        let mut found = self.metadata().iter().filter(|m| m.id == u32::from(id));
        match (found.next(), found.next()) {
            (None, _) => Ok(None),
            (Some(_), Some(_)) => Err(MetadataError::Twice(id)),
            (Some(one), None) => {
                let wrong = |_| MetadataError::Length(id, one.value.len(), N);
                one.value[..].try_into().map(Some).map_err(wrong)
            }
        }
    }

    /// The value of a metadatum that is a 32-bit number, if present.
    pub fn number(&self, id: MetadataId) -> Result<Option<u32>, MetadataError> {
        Ok(self.fixed(id)?.map(u32::from_be_bytes))
    }

    /// The packet, if present.
    pub fn packet(&self) -> Option<&[u8]> {
        self.packet.as_deref()
    }

    /// Length in bytes.
    pub const fn encoded_len(&self) -> usize {
        self.len
    }

    /// Reads a REDIRECT.
    pub(crate) fn parse(tlv: &Tlv<'_>) -> Result<Self, WireError> {
        let view = View::new_checked(tlv)?;
        let metadata = view.metadata.map(|_| view.metadata().owned()).transpose()?;
        let packet = view.packet().map(<[u8]>::to_vec);
        Self::of(metadata, packet).map_err(|e| WireError { at: tlv.at, ..e })
    }

    pub(crate) fn write(&self, to: &mut Writer<'_>) {
        to.tlv(TlvKind::Redirect.into(), self.len);
        if let Some(metadata) = &self.metadata {
            to.tlv(TlvKind::Metadata.into(), HEAD_LEN + ilvs_len(metadata));
            for ilv in metadata {
                ilv.write(to);
            }
        }
        if let Some(packet) = &self.packet {
            to.tlv(TlvKind::RedirectData.into(), HEAD_LEN + packet.len());
            to.padded(packet);
        }
    }

    fn of(metadata: Option<Vec<Ilv>>, packet: Option<Vec<u8>>) -> Result<Self, WireError> {
        let metadata_len = metadata.as_ref().map_or(0, |m| HEAD_LEN + ilvs_len(m));
        let packet_len = packet.as_ref().map_or(0, |p| padded(HEAD_LEN + p.len()));
        let len = HEAD_LEN + metadata_len + packet_len;
        let place = Place::new(PART, 0);
        place.permit_len(
            "length",
            len,
            (HEAD_LEN, LEN_MAX),
            ResultCode::ContentsTooLong,
        )?;
        Ok(Self {
            metadata,
            packet,
            len,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_once_and_in_order() {
        let parts = |kinds: &[u16]| {
            let value: Vec<u8> = kinds
                .iter()
                .flat_map(|k| [k.to_be_bytes(), [0, 4]].concat())
                .collect();
            Redirect::parse(&Tlv {
                kind: 1,
                at: 24,
                value: &value,
            })
            .is_ok()
        };
        assert!(parts(&[0x115]) && parts(&[0x116]) && parts(&[0x115, 0x116]));
        assert!(!parts(&[]) && !parts(&[0x116, 0x115]) && !parts(&[0x115, 0x115]));
        assert!(!parts(&[0x116, 0x116]) && !parts(&[0x112]));
    }

    #[test]
    fn metadata_is_found_by_its_id() {
        let index = Ilv {
            id: 14,
            value: vec![0, 0, 0, 2],
        };
        let redirect = Redirect::new(vec![index], vec![0x45]).unwrap();
        assert_eq!(
            redirect.metadatum(MetadataId::RedirectIndex),
            Some(&[0, 0, 0, 2][..])
        );
        assert_eq!(redirect.metadatum(MetadataId::ExceptionId), None);
        assert_eq!(redirect.number(MetadataId::RedirectIndex), Ok(Some(2)));
        assert_eq!(redirect.number(MetadataId::ExceptionId), Ok(None));
        let wrong = redirect.fixed::<6>(MetadataId::RedirectIndex).unwrap_err();
        let expected = "RedirectIndex of the redirect has 4 bytes, but needs 6";
        assert_eq!(wrong.to_string(), expected);
        let one = MetadataId::SrcMac.with(&[1; 6]);
        let twice = Redirect::metadata_only(vec![one.clone(), one]).unwrap();
        let error = MetadataError::Twice(MetadataId::SrcMac);
        assert_eq!(twice.fixed::<6>(MetadataId::SrcMac), Err(error));
        assert!(Redirect::new(vec![], vec![0; LEN_MAX]).is_err());
    }
}

//! Packets between a forwarding element and its control element: converts exception packets of the data plane to
//! REDIRECTs, and REDIRECTs to packets that the data plane sends.
//!
//! ```text
//!  Exception --redirect--> metadata + packet --> control element
//!  Injection <--injection-- metadata + packet <-- control element
//! ```
//!
//! Source: RFC 5810, section 7.9; RFC 6956, sections 5.1 (metadata of a received frame) and 5.4.
//!
//! To the control element:
//!
//! | metadata | value |
//! |---|---|
//! | `PHYPortID` | the instance of the input port |
//! | `SrcMAC`, `DstMAC`, `EtherType` | the Ethernet header, removed from the packet (as by `EtherClassifier`) |
//! | `ExceptionID` | the cause |
//! | `Mtu` (private) | the MTU that the packet exceeds; only with `FragRequired` |
//!
//! From the control element, `RedirectIndex` defines the meaning of the bytes:
//!
//! | `RedirectIndex` | bytes | other metadata |
//! |---|---|---|
//! | 0 | an IP packet | `L3PortID` or `PHYPortID`: the port; `NextHopIPv4Addr` or `NextHopIPv6Addr` |
//! | 1 | an IP packet, sent according to the routes | |
//! | 2 | a complete frame | `PHYPortID` or `L3PortID`: the port |
//!
//! Other metadata is ignored (in RFC 5810, it would stay with the packet). A packet is refused if metadata is missing,
//! has the wrong length or occurs twice.

use std::net::IpAddr;

use weir_path::exception::{Cause, Entry, Exception, Injection};
use weir_protocol::wire::redirect::{
    ExceptionId, MetadataError, MetadataId, Redirect, RedirectPort,
};
use weir_protocol::wire::{Ilv, WireError};
use weir_wire::{EtherType, ethernet};

/// Why a packet of the control element was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The redirect has metadata only.
    #[error("the redirect has no packet")]
    NoPacket,
    /// Metadata is missing.
    #[error("the redirect has no {0}")]
    Missing(MetadataId),
    /// Metadata is unreadable.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// RedirectIn does not have this output port.
    #[error(
        "unknown RedirectIndex {0}: permitted are 0 (next hop), 1 (routes) and 2 (a frame for a port)"
    )]
    Index(u32),
    /// The forwarding element does not have this port.
    #[error("the forwarding element has no port {0}")]
    Port(u32),
}

/// Converts an exception packet to a REDIRECT; `port` is the instance of its port. Fails only if the packet is longer
/// than a message can carry.
pub fn redirect(exception: &Exception, port: u32) -> Result<Redirect, WireError> {
    let frame = &exception.frame[..];
    let mut metadata = vec![number(MetadataId::PhyPortId, port)];
    let mut packet = frame;
    if let Some((header, rest)) = frame.split_first_chunk::<{ ethernet::HEADER_LEN }>() {
        let view = ethernet::View::new_unchecked(header);
        let ethertype = u16::from(view.ethertype());
        metadata.extend([
            MetadataId::SrcMac.with(&view.source()),
            MetadataId::DstMac.with(&view.destination()),
            MetadataId::EtherType.with(&ethertype.to_be_bytes()),
        ]);
        packet = rest;
    }
    let id = exception_id(exception);
    metadata.push(number(MetadataId::ExceptionId, id.into()));
    if let Cause::TooBig { mtu } = exception.cause {
        metadata.push(number(MetadataId::Mtu, mtu));
    }
    Redirect::new(metadata, packet.to_vec())
}

/// Converts a REDIRECT of the control element to a packet; `port_of` returns the name of a port, given its instance.
pub fn injection(
    redirect: &Redirect,
    port_of: impl Fn(u32) -> Option<String>,
) -> Result<Injection, Refused> {
    let packet = redirect.packet().ok_or(Refused::NoPacket)?;
    let index = redirect.number(MetadataId::RedirectIndex)?;
    let index = index.ok_or(Refused::Missing(MetadataId::RedirectIndex))?;
    let port = |first, second| {
        let id = match redirect.number(first)? {
            Some(id) => id,
            None => redirect.number(second)?.ok_or(Refused::Missing(first))?,
        };
        port_of(id).ok_or(Refused::Port(id))
    };
    let entry = match RedirectPort::from(index) {
        RedirectPort::NextHop => Entry::NextHop {
            port: port(MetadataId::L3PortId, MetadataId::PhyPortId)?,
            next_hop: next_hop(redirect)?,
        },
        RedirectPort::Routes => Entry::Routes,
        RedirectPort::Frame => Entry::Frame {
            port: port(MetadataId::PhyPortId, MetadataId::L3PortId)?,
        },
        RedirectPort::Other(index) => return Err(Refused::Index(index)),
    };
    let bytes = packet.to_vec();
    Ok(Injection { entry, bytes })
}

fn exception_id(exception: &Exception) -> ExceptionId {
    let is_v6 = || {
        let view = ethernet::View::new_checked(&exception.frame[..]);
        view.is_ok_and(|view| view.ethertype() == EtherType::IPV6)
    };
    match exception.cause {
        Cause::Local => ExceptionId::LocalDelivery,
        Cause::Neighbours => ExceptionId::Neighbours,
        Cause::Multicast => ExceptionId::Multicast,
        Cause::HopLimit if is_v6() => ExceptionId::Ipv6HopLimitZero,
        Cause::HopLimit => ExceptionId::BadTtl,
        Cause::NoRoute => ExceptionId::LpmLookupFailed,
        Cause::NextHop => ExceptionId::NextHopLookupFailed,
        Cause::TooBig { .. } => ExceptionId::FragRequired,
        Cause::RouterAlert if is_v6() => ExceptionId::Ipv6NextHeaderHbh,
        Cause::RouterAlert => ExceptionId::RouterAlertOptions,
        Cause::Overlay => ExceptionId::FpfRule,
    }
}

fn next_hop(redirect: &Redirect) -> Result<IpAddr, Refused> {
    if let Some(v4) = redirect.fixed::<4>(MetadataId::NextHopIpv4Addr)? {
        return Ok(v4.into());
    }
    let v6 = redirect.fixed::<16>(MetadataId::NextHopIpv6Addr)?;
    let missing = Refused::Missing(MetadataId::NextHopIpv4Addr);
    v6.map(IpAddr::from).ok_or(missing)
}

fn number(id: MetadataId, value: u32) -> Ilv {
    id.with(&value.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use weir_base::Instant;
    use weir_path::exception::{ExceptionClass, MESSAGE_OVERHEAD};

    fn exception(cause: Cause, frame: Vec<u8>) -> Exception {
        Exception {
            cause,
            class: ExceptionClass::Local,
            port: "lan".to_owned(),
            at: Instant::ZERO,
            frame,
        }
    }

    fn frame(ethertype: u16, len: usize) -> Vec<u8> {
        let mut frame = [[4; 6], [2; 6]].concat();
        frame.extend(ethertype.to_be_bytes());
        frame.resize(14 + len, 0x45);
        frame
    }

    #[test]
    fn an_exception_has_its_metadata() {
        let sent = redirect(&exception(Cause::HopLimit, frame(0x0800, 20)), 7).unwrap();
        assert_eq!(sent.packet(), Some(&[0x45; 20][..]));
        for (id, value) in [
            (MetadataId::PhyPortId, &[0, 0, 0, 7][..]),
            (MetadataId::SrcMac, &[2; 6]),
            (MetadataId::DstMac, &[4; 6]),
            (MetadataId::EtherType, &[8, 0]),
            (MetadataId::ExceptionId, &[0, 0, 0, 4]),
        ] {
            assert_eq!(sent.metadatum(id), Some(value), "{id}");
        }
        assert_eq!(sent.metadatum(MetadataId::Mtu), None);
    }

    #[test]
    fn each_cause_has_its_id() {
        let id = |cause, ethertype| {
            let sent = redirect(&exception(cause, frame(ethertype, 20)), 1).unwrap();
            let id = sent.metadatum(MetadataId::ExceptionId).unwrap();
            u32::from_be_bytes(id.try_into().unwrap())
        };
        for (cause, expected) in [
            (Cause::Local, [0x8000_0001; 2]),
            (Cause::Neighbours, [0x8000_0002; 2]),
            (Cause::Multicast, [0x8000_0003; 2]),
            (Cause::HopLimit, [4, 7]),
            (Cause::NoRoute, [11; 2]),
            (Cause::NextHop, [13; 2]),
            (Cause::TooBig { mtu: 1400 }, [14; 2]),
            (Cause::RouterAlert, [6, 8]),
            (Cause::Overlay, [0x8000_0004; 2]),
        ] {
            assert_eq!([id(cause, 0x0800), id(cause, 0x86dd)], expected);
        }
    }

    #[test]
    fn a_message_is_never_longer_than_the_buckets_are_charged_for() {
        const HEADER_LEN: u64 = 24;
        for cause in [Cause::Local, Cause::TooBig { mtu: 1400 }] {
            for len in [0, 28, 1500] {
                let frame = frame(0x0806, len);
                let charged = frame.len() as u64 + MESSAGE_OVERHEAD;
                let sent = redirect(&exception(cause, frame), 1).unwrap();
                let message = HEADER_LEN + sent.encoded_len() as u64;
                assert!(message <= charged, "{message} {charged}");
                assert!(message + 15 >= charged, "{message} {charged}");
            }
        }
        assert!(redirect(&exception(Cause::Local, frame(0x0806, 65_535)), 1).is_err());
    }

    fn from_ce(metadata: &[(MetadataId, &[u8])]) -> Result<Injection, Refused> {
        let metadata = metadata.iter().map(|(id, value)| id.with(value));
        let redirect = Redirect::new(metadata.collect(), vec![0x45; 20]).unwrap();
        injection(&redirect, |id| (id == 7).then(|| "lan".to_owned()))
    }

    const INDEX: MetadataId = MetadataId::RedirectIndex;
    const PHY: MetadataId = MetadataId::PhyPortId;
    const L3: MetadataId = MetadataId::L3PortId;
    const V4: MetadataId = MetadataId::NextHopIpv4Addr;
    const V6: MetadataId = MetadataId::NextHopIpv6Addr;

    #[test]
    fn a_packet_of_the_control_element_is_sent_as_it_says() {
        let port = || "lan".to_owned();
        let to = |next_hop: IpAddr| Entry::NextHop {
            port: port(),
            next_hop,
        };
        let seven = &[0, 0, 0, 7][..];
        let cases = [
            (vec![(INDEX, &[0, 0, 0, 1][..])], Entry::Routes),
            (
                vec![(INDEX, &[0, 0, 0, 2]), (PHY, seven)],
                Entry::Frame { port: port() },
            ),
            (
                vec![(L3, seven), (V4, &[10, 0, 0, 1]), (INDEX, &[0; 4])],
                to([10, 0, 0, 1].into()),
            ),
            (
                vec![(PHY, seven), (V6, &[1; 16]), (INDEX, &[0; 4])],
                to([1; 16].into()),
            ),
        ];
        for (metadata, entry) in cases {
            let bytes = vec![0x45; 20];
            assert_eq!(from_ce(&metadata), Ok(Injection { entry, bytes }));
        }
    }

    #[test]
    fn metadata_that_lies_is_refused() {
        let (two, seven) = (&[0, 0, 0, 2][..], &[0, 0, 0, 7][..]);
        let cases = [
            (vec![(PHY, seven)], Refused::Missing(INDEX)),
            (
                vec![(INDEX, &two[..3])],
                MetadataError::Length(INDEX, 3, 4).into(),
            ),
            (
                vec![(INDEX, two), (INDEX, two)],
                MetadataError::Twice(INDEX).into(),
            ),
            (vec![(INDEX, seven)], Refused::Index(7)),
            (vec![(INDEX, two)], Refused::Missing(PHY)),
            (vec![(INDEX, two), (PHY, two)], Refused::Port(2)),
            (vec![(INDEX, &[0; 4]), (PHY, seven)], Refused::Missing(V4)),
            (
                vec![(INDEX, &[0; 4]), (PHY, seven), (V4, &[0; 16])],
                MetadataError::Length(V4, 16, 4).into(),
            ),
        ];
        for (metadata, refused) in cases {
            assert_eq!(from_ce(&metadata), Err(refused), "{metadata:?}");
        }
        let empty = Redirect::metadata_only(vec![number(INDEX, 1)]).unwrap();
        assert_eq!(injection(&empty, |_| None), Err(Refused::NoPacket));
    }

    proptest! {
        #[test]
        fn any_metadata_is_read_or_refused(
            metadata in vec((0_u32..20, vec(any::<u8>(), 0..20)), 0..6),
        ) {
            let metadata = metadata.into_iter().map(|(id, value)| Ilv { id, value });
            let redirect = Redirect::new(metadata.collect(), vec![0x45; 20]).unwrap();
            let _either = injection(&redirect, |_| Some(String::new()));
        }

        #[test]
        fn any_frame_is_handed_over(frame in vec(any::<u8>(), 0..80)) {
            let sent = redirect(&exception(Cause::NoRoute, frame.clone()), 1).unwrap();
            let packet = sent.packet().unwrap();
            prop_assert!(frame.ends_with(packet));
        }
    }
}

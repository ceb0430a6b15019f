//! A REDIRECT of a forwarding element as the frame that arrived at its port.
//!
//! The Ethernet header comes as metadata (`SrcMAC`, `DstMAC`, `EtherType`). FEs of other vendors may omit it; the
//! CE then assumes an IP packet for the port's own MAC address.

use weir_protocol::wire::redirect::{ExceptionId, MetadataId, Redirect};
use weir_wire::{EtherType, ethernet};

use super::{Malformed, RemotePort, Why};

/// A packet that a forwarding element redirected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received<'p> {
    /// The reason for the redirection.
    pub id: ExceptionId,
    /// The input port.
    pub port: &'p RemotePort,
    /// The MTU that the packet exceeds.
    pub mtu: Option<u32>,
    /// The whole frame.
    pub frame: Vec<u8>,
}

impl<'p> Received<'p> {
    /// Reads a REDIRECT of a forwarding element with these ports.
    pub fn new(redirect: &Redirect, ports: &'p [RemotePort]) -> Result<Self, Why> {
        let read = Read::new(redirect).map_err(Why::Malformed)?;
        let port = ports.iter().find(|port| port.instance == read.port);
        let port = port.ok_or(Why::UnknownPort(read.port))?;
        Ok(Self {
            id: read.id.into(),
            port,
            mtu: read.mtu,
            frame: read.frame(port),
        })
    }
}

/// The metadata before any checks against the ports.
struct Read<'r> {
    id: u32,
    port: u32,
    mtu: Option<u32>,
    source: Option<[u8; 6]>,
    destination: Option<[u8; 6]>,
    ethertype: Option<[u8; 2]>,
    packet: &'r [u8],
}

impl<'r> Read<'r> {
    fn new(redirect: &'r Redirect) -> Result<Self, Malformed> {
        let port = redirect.number(MetadataId::PhyPortId)?;
        let id = redirect.number(MetadataId::ExceptionId)?;
        Ok(Self {
            id: id.ok_or(Malformed::Missing(MetadataId::ExceptionId))?,
            port: port.ok_or(Malformed::Missing(MetadataId::PhyPortId))?,
            mtu: redirect.number(MetadataId::Mtu)?,
            source: redirect.fixed(MetadataId::SrcMac)?,
            destination: redirect.fixed(MetadataId::DstMac)?,
            ethertype: redirect.fixed(MetadataId::EtherType)?,
            packet: redirect.packet().ok_or(Malformed::NoPacket)?,
        })
    }

    fn frame(&self, port: &RemotePort) -> Vec<u8> {
        let is_v6 = self.packet.first().is_some_and(|byte| byte >> 4 == 6);
        let by_version = if is_v6 {
            EtherType::IPV6
        } else {
            EtherType::IPV4
        };
        let ethertype = self.ethertype.map(u16::from_be_bytes);
        let repr = ethernet::Repr {
            destination: self.destination.unwrap_or(port.mac),
            source: self.source.unwrap_or_default(),
            ethertype: ethertype.map_or(by_version, EtherType::from),
        };
        let mut frame = vec![0; ethernet::HEADER_LEN];
        repr.emit(&mut ethernet::View::new_unchecked(&mut frame[..]));
        frame.extend(self.packet);
        frame
    }
}

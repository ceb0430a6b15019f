//! Interests and data as IP packets: a UDP datagram with a chunk's header ([`weir_wire::chunk`]).

use std::net::{IpAddr, SocketAddr};

use weir_path::headers::Fragment;
use weir_wire::checksum::Sum;
use weir_wire::chunk::{HEADER_LEN, Kind, NAME_LEN, Repr, View};
use weir_wire::{Protocol, WireError, ipv4, ipv6, udp};

use crate::payload;

/// An interest, or data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Sender of the message.
    pub source: SocketAddr,
    /// Receiver of the message, with an address of the same family.
    pub destination: SocketAddr,
    /// The name of the chunk.
    pub name: [u8; NAME_LEN],
    /// The content of data; `None` for an interest.
    pub content: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Reads an IP packet; `None` if it is not a message, is a fragment, or has a wrong UDP checksum, which a cache
    /// would replace by a right one.
    pub fn read(packet: &'a [u8]) -> Option<Self> {
        let headers = payload::peek_by_version(packet, 0);
        let is_udp = headers.is_ip() && headers.protocol == u8::from(Protocol::UDP);
        if !is_udp || headers.l3 != 0 || headers.fragment != Fragment::Whole {
            return None;
        }
        let bytes = headers.transport(packet);
        let view = udp::View::new_checked(bytes).ok()?;
        let ports = udp::Repr::parse(&view).ok()?;
        let datagram = bytes.get(..view.length().into())?;
        let (from, to) = (headers.source(), headers.destination());
        let sum = Sum::default().pseudo(from, to, Protocol::UDP, datagram.len());
        let is_unchecked = view.checksum() == 0 && from.is_ipv4();
        if !is_unchecked && sum.bytes(datagram).checksum() != 0 {
            return None;
        }
        let body = datagram.get(udp::HEADER_LEN..)?;
        let chunk = Repr::parse(&View::new_checked(body).ok()?).ok()?;
        let content = match chunk.kind {
            Kind::Interest => None,
            Kind::Data(len) => Some(body.get(HEADER_LEN..HEADER_LEN + usize::from(len))?),
        };
        Some(Self {
            source: SocketAddr::new(from, ports.source_port),
            destination: SocketAddr::new(to, ports.destination_port),
            name: chunk.name,
            content,
        })
    }

    /// Replaces `out` with the IP packet.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let (from, to) = (self.source.ip(), self.destination.ip());
        let content = self.content.unwrap_or_default();
        let len = HEADER_LEN + content.len();
        let ports = udp::Repr::new(self.source.port(), self.destination.port(), len)?;
        let len = udp::HEADER_LEN + len;
        let v6 = |address| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        out.clear();
        let start = match (from, to) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut repr = ipv4::Repr::new(source, destination, Protocol::UDP, len)?;
                repr.dont_fragment = true; // so it needs no identification (RFC 6864)
                out.resize(repr.encoded_len() + len, 0);
                repr.emit(&mut ipv4::View::new_unchecked(&mut out[..]));
                repr.encoded_len()
            }
            _ => {
                let repr = ipv6::Repr {
                    traffic_class: 0,
                    flow_label: ipv6::FlowLabel::default(),
                    payload_len: len as u16, // fits: the UDP length has 16 bits as well
                    next_header: Protocol::UDP,
                    hop_limit: 64, // as in the other family
                    source: v6(from),
                    destination: v6(to),
                };
                out.resize(repr.encoded_len() + len, 0);
                repr.emit(&mut ipv6::View::new_unchecked(&mut out[..]));
                repr.encoded_len()
            }
        };
        let body = &mut out[start + udp::HEADER_LEN..];
        let chunk = Repr {
            kind: self.content.map_or(Kind::Interest, |content| {
                Kind::Data(content.len() as u16) // the UDP header permits no more
            }),
            name: self.name,
        };
        chunk.emit(&mut View::new_unchecked(&mut *body));
        body[HEADER_LEN..].copy_from_slice(content);
        let mut datagram = udp::View::new_unchecked(&mut out[start..]);
        ports.emit(&mut datagram);
        datagram.fill_checksum(from, to);
        Ok(())
    }
}

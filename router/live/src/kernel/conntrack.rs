//! Queries the kernel's connection tracking (ctnetlink): which connection a tuple belongs to.
//!
//! Only connections of the default zone are found: the same tuple may exist in several zones, and a frame has no
//! zone.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use weir_packet::FlowKey;
use weir_packet::key::Family;
use weir_path::translation::{Answer, ConnectionTracking, Inside};
use weir_wire::Protocol;

use super::netlink::{NFGENMSG_BYTES, NetlinkSocket, Request, attribute, messages};

/// `IPCTNL_MSG_CT_GET` of linux/netfilter/nfnetlink_conntrack.h.
const GET: u16 = (libc::NFNL_SUBSYS_CTNETLINK as u16) << 8 | 1;
/// Attributes of a connection, of a tuple, and of its two parts.
const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_STATUS: u16 = 3;
const CTA_TUPLE_IP: u16 = 1;
const CTA_TUPLE_PROTO: u16 = 2;
const CTA_IP_V4_SRC: u16 = 1;
const CTA_IP_V4_DST: u16 = 2;
const CTA_IP_V6_SRC: u16 = 3;
const CTA_IP_V6_DST: u16 = 4;
const CTA_PROTO_NUM: u16 = 1;
const CTA_PROTO_SRC_PORT: u16 = 2;
const CTA_PROTO_DST_PORT: u16 = 3;
/// Identifier, type and code of an echo.
const CTA_PROTO_ICMP: [u16; 3] = [4, 5, 6];
const CTA_PROTO_ICMPV6: [u16; 3] = [7, 8, 9];
/// `IPS_SRC_NAT` and `IPS_DST_NAT` of linux/netfilter/nf_conntrack_common.h.
const SRC_NAT: u32 = 1 << 4;
const DST_NAT: u32 = 1 << 5;

/// The connection tracking of a network namespace.
pub(crate) struct Conntrack {
    socket: NetlinkSocket,
    buffer: Vec<u8>,
}

impl Conntrack {
    /// That of the calling thread's network namespace; an error without ctnetlink.
    pub(crate) fn open() -> io::Result<Self> {
        let socket = NetlinkSocket::open(libc::NETLINK_NETFILTER)?;
        socket.set_nonblocking()?;
        let mut conntrack = Self {
            socket,
            buffer: vec![0; 4096],
        };
        let nobody = Ipv4Addr::UNSPECIFIED.into();
        conntrack.ask(&FlowKey::ip(nobody, nobody, Protocol::UDP.into(), 0, 0))?;
        Ok(conntrack)
    }

    /// The kernel answers before the send returns.
    fn ask(&mut self, tuple: &FlowKey) -> io::Result<Answer> {
        let asked = self.socket.send(&question(tuple))?;
        loop {
            for message in messages(self.socket.receive(&mut self.buffer)?) {
                if message.sequence != asked {
                    continue;
                }
                match message.result() {
                    Some(Err(error)) if error.raw_os_error() == Some(libc::ENOENT) => {
                        return Ok(Answer::Unknown);
                    }
                    Some(result) => return result.map(|()| Answer::Unknown),
                    None => return Ok(answer(message.payload, tuple)),
                }
            }
        }
    }
}

impl ConnectionTracking for Conntrack {
    fn find(&mut self, tuple: &FlowKey) -> Answer {
        self.ask(tuple).unwrap_or_else(|error| {
            tracing::debug!(%tuple, %error, "no answer from connection tracking");
            Answer::Unknown
        })
    }
}

fn question(tuple: &FlowKey) -> Request {
    let family = match tuple.family {
        Family::V6 => libc::AF_INET6,
        _ => libc::AF_INET,
    };
    let header = [family as u8, 0, 0, 0];
    let (source, destination) = (&tuple.source, &tuple.destination);
    Request::new(GET, 0, &header).nested(CTA_TUPLE_ORIG, |question| {
        question
            .nested(CTA_TUPLE_IP, |ip| match tuple.family {
                Family::V6 => ip
                    .with(CTA_IP_V6_SRC, source)
                    .with(CTA_IP_V6_DST, destination),
                _ => ip
                    .with(CTA_IP_V4_SRC, &source[..4])
                    .with(CTA_IP_V4_DST, &destination[..4]),
            })
            .nested(CTA_TUPLE_PROTO, |transport| {
                let transport = transport.with(CTA_PROTO_NUM, &[tuple.protocol]);
                let Some([identifier, kind, code]) = echo(tuple.protocol) else {
                    return transport
                        .with(CTA_PROTO_SRC_PORT, &tuple.source_port.to_be_bytes())
                        .with(CTA_PROTO_DST_PORT, &tuple.destination_port.to_be_bytes());
                };
                transport
                    .with(identifier, &tuple.source_port.to_be_bytes())
                    .with(kind, &[tuple.destination_port as u8])
                    .with(code, &[0])
            })
    })
}

fn echo(protocol: u8) -> Option<[u16; 3]> {
    match Protocol::from(protocol) {
        Protocol::ICMPV4 => Some(CTA_PROTO_ICMP),
        Protocol::ICMPV6 => Some(CTA_PROTO_ICMPV6),
        _ => None,
    }
}

/// The answer for a packet from outside with this tuple that belongs to the connection.
fn answer(connection: &[u8], tuple: &FlowKey) -> Answer {
    let connection = connection.get(NFGENMSG_BYTES..).unwrap_or_default();
    let status = attribute(connection, CTA_STATUS).and_then(|status| status.first_chunk());
    let status = status.map_or(0, |status| u32::from_be_bytes(*status));
    let [original, reply] =
        [CTA_TUPLE_ORIG, CTA_TUPLE_REPLY].map(|kind| attribute(connection, kind).and_then(read));
    let is_original = original == Some(*tuple);
    let inside = match (is_original, status & SRC_NAT != 0, status & DST_NAT != 0) {
        (true, _, true) => reply,
        (false, true, _) => original,
        _ => None,
    };
    inside.map_or(Answer::Untranslated, |tuple| {
        Answer::Translated(Inside {
            address: tuple.source,
            port: tuple.source_port,
        })
    })
}

/// Reads a tuple in the form of a [query](ConnectionTracking::find).
fn read(tuple: &[u8]) -> Option<FlowKey> {
    let ip = attribute(tuple, CTA_TUPLE_IP)?;
    let transport = attribute(tuple, CTA_TUPLE_PROTO)?;
    let address = |v4, v6| {
        let v4 = attribute(ip, v4).and_then(|bytes| bytes.first_chunk::<4>());
        let v6 = attribute(ip, v6).and_then(|bytes| bytes.first_chunk::<16>());
        let v4 = v4.map(|bytes| Ipv4Addr::from(*bytes).into());
        v4.or(v6.map(|bytes| Ipv6Addr::from(*bytes).into()))
    };
    let port = |kind| {
        let bytes = attribute(transport, kind).and_then(|bytes| bytes.first_chunk::<2>());
        bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
    };
    let protocol = *attribute(transport, CTA_PROTO_NUM)?.first()?;
    let (source_port, destination_port) = match echo(protocol) {
        Some([identifier, kind, _]) => {
            let kind = attribute(transport, kind).and_then(|bytes| bytes.first());
            (port(identifier), kind.copied().unwrap_or_default().into())
        }
        None => (port(CTA_PROTO_SRC_PORT), port(CTA_PROTO_DST_PORT)),
    };
    Some(FlowKey::ip(
        address(CTA_IP_V4_SRC, CTA_IP_V6_SRC)?,
        address(CTA_IP_V4_DST, CTA_IP_V6_DST)?,
        protocol,
        source_port,
        destination_port,
    ))
}

//! FPF: every LID leads to a neighbour of the same domain.

use std::net::{IpAddr, Ipv4Addr};

use rand::{Rng, RngExt};
use weir_base::{Stream, Tally};
use weir_packet::key::Family;
use weir_packet::{Class, Ecn, Fates, Packet, Pool, Reason};
use weir_path::egress::{self, Rewrites};
use weir_path::fpf::bindings::{self, Bindings, Device, PortState};
use weir_path::fpf::forward::{self, Decision};
use weir_path::fpf::table::{Input, TableError};
use weir_path::fpf::{Builder, Domain, Hop, Interface, Rule, Table};
use weir_path::headers::{Fragment, Headers};
use weir_path::link;
use weir_wire::ethernet;

use crate::headers::{Engine, FRAME_BYTES, OURS, link_frame, neighbour};

/// The state.
pub(super) struct Fpf {
    pub(super) table: Table,
    bindings: Bindings,
    input: Input,
    forwarded: Tally,
}

impl Fpf {
    pub(super) fn new() -> Result<Self, TableError> {
        let mut builder = Builder::new(Domain::default());
        let interface = builder.interface(Interface::ethernet("wan"))?;
        for lid in 0..=u8::MAX {
            let hop = Hop {
                interface,
                destination: neighbour(lid.into()),
                queue: Class(0),
                leaves_domain: false,
            };
            builder.rule(None, lid.into(), Rule::Forward(hop))?;
        }
        let table = builder.build()?;
        let ports = [("lan", OURS[1]), ("wan", OURS[0])].map(|(name, mac)| {
            let (mtu, up) = (1500, true);
            let device = Some(Device { mac, mtu, up });
            let open = true;
            PortState { name, open, device }
        });
        Ok(Self {
            bindings: Bindings::new(&table, ports.into_iter()),
            input: table.any_input(),
            table,
            forwarded: Tally::ZERO,
        })
    }
}

pub(super) fn fpf_frame(random: &mut Stream) -> [u8; FRAME_BYTES] {
    let mut frame = link_frame(weir_wire::fpf::ETHERTYPE_DEFAULT);
    let (length, index) = (6, random.random_range(0..6));
    frame[14..16].copy_from_slice(&[length, index]);
    random.fill_bytes(&mut frame[16..22]);
    frame[22] = 0x45;
    frame
}

impl Engine for Fpf {
    fn carry(&mut self, pool: &mut Pool, fates: &mut Fates, packets: &mut Vec<Packet>) -> usize {
        let mut ports = 0;
        for mut packet in packets.drain(..) {
            let frame = pool.frame(&packet);
            let header = link::validate(frame).and_then(|link| {
                let bytes = frame.get(ethernet::HEADER_LEN..).unwrap_or(&[]);
                match link.ethertype == self.table.domain().ethertype() {
                    _ if ethernet::is_group(link.destination) => Err(Reason::Multicast),
                    true => forward::parse(bytes, self.table.domain().lid_size()),
                    false => Err(Reason::NotIp),
                }
            });
            let decision =
                header.and_then(|header| forward::decide(&self.table, self.input, &header));
            let sent = match decision {
                Ok(Decision::Forward(hop, index)) => {
                    self.forwarded.count(packet.bytes());
                    match self.bindings.exit(hop.interface) {
                        bindings::Exit::Port {
                            port, source, mtu, ..
                        } if packet.len <= mtu + ethernet::HEADER_LEN as u32 => {
                            let rewrites = Rewrites {
                                fpf_index: Some(index),
                                macs: Some([hop.destination, source]),
                                ..Rewrites::default()
                            };
                            egress::carry_out(&rewrites, pool, &mut packet, &NO_HEADERS)
                                .map(|_| port)
                        }
                        _ => Err(Reason::TooBig),
                    }
                }
                Ok(_) => Err(Reason::FpfRule),
                Err(reason) => Err(reason),
            };
            match sent {
                Ok(port) => ports += port,
                Err(reason) => drop(fates.discard(packet, reason)),
            }
        }
        ports
    }
}

pub(super) const NO_HEADERS: Headers = Headers {
    l3: 0,
    l4: 0,
    total_len: 0,
    family: Family::Link,
    protocol: 0,
    ttl: 0,
    ecn: Ecn::NotCapable,
    fragment: Fragment::Whole,
    dont_fragment: true,
    source: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    destination: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
};

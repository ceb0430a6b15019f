//! FPF: every LID leads to a neighbour of the same domain.

use rand::{Rng, RngExt};
use weir_base::{Stream, Tally};
use weir_packet::{Class, Fates, Packet, Pool, Reason};
use weir_path::fpf::bindings::{Bindings, Device, PortState};
use weir_path::fpf::burst::{self, Label};
use weir_path::fpf::forward::{decide, parse};
use weir_path::fpf::table::{Input, TableError};
use weir_path::fpf::{Builder, Domain, Hop, Interface, Rule, Table};
use weir_path::ip::tables::BURST;
use weir_path::link;
use weir_wire::ethernet;

use crate::headers::{Engine, FRAME_BYTES, OURS, link_frame, neighbour};

/// The state.
pub(super) struct Fpf {
    pub(super) table: Table,
    bindings: Bindings,
    input: Input,
    labels: Vec<Label>,
    refused: Vec<usize>,
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
            labels: Vec::with_capacity(BURST),
            refused: Vec::with_capacity(BURST),
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

impl Fpf {
    /// The checks of a port before it hands a frame over to FPF.
    #[inline(always)]
    fn check(&self, frame: &[u8]) -> Result<(), Reason> {
        let link = link::validate(frame)?;
        match link.ethertype == self.table.domain().ethertype() {
            _ if ethernet::is_group(link.destination) => Err(Reason::Multicast),
            true => Ok(()),
            false => Err(Reason::NotIp),
        }
    }

    /// Why a frame is not forwarded.
    #[cold]
    fn reason(&self, frame: &[u8]) -> Reason {
        let decision = self.check(frame).and_then(|()| {
            let header = parse(
                &frame[ethernet::HEADER_LEN..],
                self.table.domain().lid_size(),
            )?;
            decide(&self.table, self.input, &header)
        });
        decision.map_or_else(|reason| reason, |_| Reason::TooBig)
    }
}

impl Engine for Fpf {
    fn carry(&mut self, pool: &mut Pool, fates: &mut Fates, packets: &mut Vec<Packet>) -> usize {
        for packet in &*packets {
            let frame = pool.frame(packet);
            self.labels.push(match self.check(frame) {
                Ok(()) => Label::parse(frame, &self.table, self.input),
                Err(_) => Label::default(),
            });
        }
        burst::look_up_all(&self.table, &mut self.labels);
        let (mut ports, mut forwarded) = (0, Tally::ZERO);
        for (n, label) in self.labels.drain(..).enumerate() {
            let packet = &mut packets[n];
            let bytes = packet.bytes();
            if let Some((hop, index)) = label.forward(&self.table)
                && let adjacency = self.bindings.adjacency(hop)
                && adjacency.takes(packet)
                && burst::rewrite(pool, packet, adjacency, index).is_ok()
            {
                forwarded.count(bytes);
                ports += adjacency.port as usize;
            } else {
                self.refused.push(n);
            }
        }
        self.forwarded += forwarded;
        while let Some(n) = self.refused.pop() {
            let packet = packets.swap_remove(n);
            let reason = self.reason(pool.frame(&packet));
            fates.discard(packet, reason);
        }
        packets.clear();
        ports
    }
}

//! FPF: every LID leads to a neighbour of the same domain.

use rand::{Rng, RngExt};
use weir_base::{Stream, Tally};
use weir_fpf_path::bindings::{Adjacency, Bindings, Device, PortState};
use weir_fpf_path::forward::{decide, parse};
use weir_fpf_path::relay;
use weir_fpf_path::table::{Input, TableError};
use weir_fpf_path::{Builder, Domain, Hop, Interface, Rule, Table};
use weir_packet::{DropCounters, Packet, Pool, Queue, Reason};
use weir_path::ip::tables::BURST;
use weir_path::link;
use weir_wire::ethernet;

use crate::memory::headers::{Engine, FRAME_BYTES, OURS, link_frame, neighbour};

pub(super) struct Fpf {
    pub(super) table: Table,
    bindings: Bindings,
    input: Input,
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
                destination: neighbour(lid.into()).into(),
                queue: Queue(0),
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
            bindings: Bindings::new(&table, ports.into_iter(), |_, _| None, |_| Vec::new()),
            input: table.any_input(),
            table,
            refused: Vec::with_capacity(BURST),
            forwarded: Tally::ZERO,
        })
    }
}

pub(super) fn fpf_frame(random: &mut Stream) -> [u8; FRAME_BYTES] {
    let mut frame = link_frame(weir_fpf_path::header::ETHERTYPE_DEFAULT);
    let (length, index) = (6, random.random_range(0..6));
    frame[14..16].copy_from_slice(&[length, index]);
    random.fill_bytes(&mut frame[16..22]);
    frame[22] = 0x45;
    frame
}

impl Fpf {
    /// Handles a packet that only goes to a neighbour; `None` for other packets.
    #[inline(always)]
    fn relay(&self, frame: &mut [u8]) -> Option<&Adjacency> {
        self.check(frame).ok()?;
        let (adjacency, _) = relay::rewrite(frame, &self.table, &self.bindings, self.input)?;
        Some(adjacency)
    }

    /// The checks of a port before it hands a frame over to FPF.
    #[inline(always)]
    fn check(&self, frame: &[u8]) -> Result<(), Reason> {
        let ethertype = link::ethertype(frame).ok_or(Reason::TruncatedHeader)?;
        match ethertype == self.table.domain().ethertype() {
            true if frame[0] & 1 == 1 => Err(Reason::Multicast),
            true => Ok(()),
            false => Err(Reason::NotIp),
        }
    }

    /// The reason for which a frame is not forwarded.
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
    fn carry(
        &mut self,
        pool: &mut Pool,
        fates: &mut DropCounters,
        packets: &mut Vec<Packet>,
    ) -> usize {
        let (mut ports, mut forwarded) = (0, Tally::ZERO);
        for (n, packet) in packets.iter_mut().enumerate() {
            let bytes = packet.bytes();
            if let Some(adjacency) = self.relay(pool.frame_mut(packet))
                && relay::finish(pool, packet, adjacency).is_ok()
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

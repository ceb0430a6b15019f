//! FPF packets in bursts: those that come in by a port, and go to a neighbour behind a port.
//!
//! ```text
//!  route_fpf --> [ labels: parse ] --> look up all --> classify, rewrite --> Port::offer
//!                                         |
//!                                         +--> what else is decided: plane::fpf, one by one
//! ```
//!
//! The stages are those of [`burst`]. Packets of a burst keep their order.

use weir_packet::Packet;

use crate::fpf::burst::{self, Label};
use crate::fpf::table::{COPIES_MAX, Input};
use crate::ip::tables::BURST;
use crate::plane::Plane;
use crate::plane::fpf::Entry;

/// A packet of a burst, the port that it came in by, and its rows.
pub(super) struct Gathered {
    packet: Packet,
    ingress: usize,
    input: Input,
}

impl Plane {
    /// Adds a packet to the burst.
    #[inline]
    pub(super) fn gather_fpf(&mut self, ingress: usize, input: Input, packet: Packet) {
        let Some(fpf) = &mut self.fpf else {
            return;
        };
        fpf.stats.received.count(packet.bytes());
        let label = Label::parse(self.pool.frame(&packet), &fpf.table, input);
        fpf.labels.push(label);
        fpf.gathered.push(Gathered {
            packet,
            ingress,
            input,
        });
        if fpf.gathered.len() >= BURST {
            self.forward_gathered_fpf();
        }
    }

    /// Carries on the packets of the burst so far: decides about all of them, then carries one decision out after the
    /// other.
    #[inline]
    pub(super) fn forward_gathered_fpf(&mut self) {
        if let Some(fpf) = &mut self.fpf
            && !fpf.gathered.is_empty()
        {
            burst::look_up_all(&fpf.table, &mut fpf.labels);
            let mut gathered = std::mem::take(&mut fpf.gathered);
            let mut labels = std::mem::take(&mut fpf.labels);
            for (packet, label) in gathered.drain(..).zip(labels.drain(..)) {
                self.forward_labelled(packet, &label);
            }
            if let Some(fpf) = &mut self.fpf {
                (fpf.gathered, fpf.labels) = (gathered, labels); // their memory
            }
        }
    }

    /// Sends a packet to a neighbour behind a port; what else is decided about it takes longer.
    #[inline]
    fn forward_labelled(&mut self, gathered: Gathered, label: &Label) {
        let Some(fpf) = &mut self.fpf else {
            return;
        };
        let Some((hop, index)) = label.forward(&fpf.table) else {
            return self.handle_alone(gathered);
        };
        let adjacency = *fpf.bindings.adjacency(hop);
        if !adjacency.takes(&gathered.packet) {
            return self.handle_alone(gathered);
        }
        fpf.stats.forwarded.count(gathered.packet.bytes());
        let mut packet = self
            .classify_payload(gathered.packet, label.header_len())
            .packet;
        match burst::rewrite(&mut self.pool, &mut packet, &adjacency, index) {
            Ok(()) => self.ports[adjacency.port as usize].port.offer(packet),
            Err(reason) => {
                self.fates.discard(packet, reason);
            }
        }
    }

    /// Handles an FPF packet that came in by a port, and that does not just go to a neighbour.
    #[cold]
    fn handle_alone(&mut self, gathered: Gathered) {
        let Gathered {
            packet,
            ingress,
            input,
        } = gathered;
        if let Some(fpf) = &mut self.fpf {
            fpf.copies_left = COPIES_MAX;
        }
        let at = packet.arrived;
        self.label_switch(Entry { ingress, input, at }, packet);
    }
}

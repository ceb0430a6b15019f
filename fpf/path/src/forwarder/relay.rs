//! FPF packets that arrived through a port: most of them just go to a neighbour behind another port.
//!
//! ```text
//!  receive --> relay: one pass --> classify --> Port::offer
//!                  |
//!                  +--> other decisions: label_switch
//! ```

use weir_packet::Packet;

use crate::relay;
use crate::table::{COPIES_MAX, Input};

use super::{Entry, Forwarding, classify_payload};

impl Forwarding<'_> {
    /// Handles an FPF packet that arrived through a port: sends it to a neighbour behind a port; other decisions take
    /// longer.
    #[inline]
    pub(super) fn relay(&mut self, ingress: usize, input: Input, mut packet: Packet) {
        let bytes = packet.bytes();
        self.fpf.stats.received.count(bytes);
        let frame = self.plane.pool.frame_mut(&packet);
        let Some((adjacency, header_len)) =
            relay::rewrite(frame, &self.fpf.table, &self.fpf.bindings, input)
        else {
            return self.handle_alone(ingress, input, packet);
        };
        self.fpf.stats.forwarded.count(bytes);
        let adjacency = *adjacency;
        packet = classify_payload(&mut self.plane.pool, packet, header_len).packet;
        match relay::finish(&mut self.plane.pool, &mut packet, &adjacency) {
            Ok(()) => self.plane.offer(adjacency.port as usize, packet),
            Err(reason) => self.plane.discard(packet, reason),
        }
    }

    /// Handles an FPF packet that does not just go to a neighbour.
    #[cold]
    fn handle_alone(&mut self, ingress: usize, input: Input, packet: Packet) {
        self.fpf.copies_left = COPIES_MAX;
        let at = packet.arrived;
        self.label_switch(Entry { ingress, input, at }, packet);
    }
}

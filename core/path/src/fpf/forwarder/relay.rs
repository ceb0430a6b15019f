//! FPF packets that arrived through a port: most of them just go to a neighbour behind another port.
//!
//! ```text
//!  receive --> relay: one pass --> classify --> Port::offer
//!                  |
//!                  +--> other decisions: plane::fpf
//! ```

use weir_packet::Packet;

use crate::fpf::relay;
use crate::fpf::table::{COPIES_MAX, Input};
use crate::plane::Plane;

use super::{Entry, Forwarder, classify_payload};

impl Forwarder {
    /// Handles an FPF packet that arrived through a port: sends it to a neighbour behind a port; other decisions take
    /// longer.
    #[inline]
    pub(super) fn relay(
        &mut self,
        plane: &mut Plane,
        ingress: usize,
        input: Input,
        mut packet: Packet,
    ) {
        let bytes = packet.bytes();
        self.stats.received.count(bytes);
        let frame = plane.pool.frame_mut(&packet);
        let Some((adjacency, header_len)) =
            relay::rewrite(frame, &self.table, &self.bindings, input)
        else {
            return self.handle_alone(plane, ingress, input, packet);
        };
        self.stats.forwarded.count(bytes);
        let adjacency = *adjacency;
        packet = classify_payload(&mut plane.pool, packet, header_len).packet;
        match relay::finish(&mut plane.pool, &mut packet, &adjacency) {
            Ok(()) => plane.offer(adjacency.port as usize, packet),
            Err(reason) => {
                plane.fates.discard(packet, reason);
            }
        }
    }

    /// Handles an FPF packet that does not just go to a neighbour.
    #[cold]
    fn handle_alone(&mut self, plane: &mut Plane, ingress: usize, input: Input, packet: Packet) {
        self.copies_left = COPIES_MAX;
        let at = packet.arrived;
        self.label_switch(plane, Entry { ingress, input, at }, packet);
    }
}

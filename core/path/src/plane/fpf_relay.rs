//! FPF packets that arrived through a port: most of them just go to a neighbour behind another port.
//!
//! ```text
//!  route_fpf --> relay: one pass --> classify --> Port::offer
//!                  |
//!                  +--> other decisions: plane::fpf
//! ```

use weir_packet::Packet;

use crate::fpf::relay;
use crate::fpf::table::{COPIES_MAX, Input};
use crate::plane::Plane;
use crate::plane::fpf::Entry;

impl Plane {
    /// Handles an FPF packet that arrived through a port: sends it to a neighbour behind a port; other decisions take
    /// longer.
    #[inline]
    pub(super) fn relay(&mut self, ingress: usize, input: Input, mut packet: Packet) {
        let Some(fpf) = &mut self.fpf else {
            return;
        };
        let bytes = packet.bytes();
        fpf.stats.received.count(bytes);
        let frame = self.pool.frame_mut(&packet);
        let Some((adjacency, header_len)) = relay::rewrite(frame, &fpf.table, &fpf.bindings, input)
        else {
            return self.handle_alone(ingress, input, packet);
        };
        fpf.stats.forwarded.count(bytes);
        let adjacency = *adjacency;
        packet = self.classify_payload(packet, header_len).packet;
        match relay::finish(&mut self.pool, &mut packet, &adjacency) {
            Ok(()) => self.ports[adjacency.port as usize].port.offer(packet),
            Err(reason) => {
                self.fates.discard(packet, reason);
            }
        }
    }

    /// Handles an FPF packet that does not just go to a neighbour.
    #[cold]
    fn handle_alone(&mut self, ingress: usize, input: Input, packet: Packet) {
        if let Some(fpf) = &mut self.fpf {
            fpf.copies_left = COPIES_MAX;
        }
        let at = packet.arrived;
        self.label_switch(Entry { ingress, input, at }, packet);
    }
}

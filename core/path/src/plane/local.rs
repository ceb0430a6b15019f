//! Packets between the plane and processes of this machine, which have their own port.
//!
//! ```text
//!  process --> kernel's route --> [local port] --> overlay --match--> path of the overlay
//!     ^                                 |            \--> by the routes; one back out of a local port: no-route
//!     |                                 v
//!     +--- kernel <-- [local port] <----+-- ICMP errors about these packets
//!                                       +-- packets for this machine that came out of the overlay
//! ```
//!
//! The kernel routes packets for the overlay into such a port, so its tables have routes out of the port. The plane
//! treats these routes as leading nowhere: packets that followed them would loop between the kernel and the router
//! forever. Only packets for the machine itself are written to the port.
//!
//! A process is not a neighbour. Its packets keep the TTL that the kernel gave them, as on every other path out of the
//! machine. Their sources are not checked, and packets that are not forwarded do not go to the control element.

use weir_packet::{Packet, Reason};

use crate::classify::Classified;
use crate::egress::{Departure, Exit, Rewrites};
use crate::headers::Headers;
use crate::ip::forward::Origin;
use crate::plane::{Mode, Plane, PlanePort};

impl Plane {
    /// Declares that a port leads to processes of this machine instead of a link.
    pub fn set_local(&mut self, number: usize) {
        self.ports[number].is_local = true;
        self.find_exits();
        self.passed.clear();
    }

    /// The origin of packets that arrived through a port.
    #[inline(always)]
    pub(super) fn origin_at(&self, ingress: usize) -> Origin {
        if self.ports[ingress].is_local {
            Origin::Process
        } else {
            Origin::Transit
        }
    }

    /// Whether an interface belongs to a local port.
    #[cold]
    pub(super) fn is_local(&self, interface: u32) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|port| port.is_local && port.index == Some(interface))
    }

    /// The port through which the kernel gets packets that left a path: of several, the first by name.
    #[cold]
    pub fn local_port(&self) -> Option<usize> {
        let takes = |p: &PlanePort| p.is_local && !p.closing && p.mode == Mode::Routed;
        let ports = self.ports.iter().enumerate();
        let first = ports.filter(|(_, p)| takes(p)).min_by_key(|(_, p)| &p.name);
        first.map(|(number, _)| number)
    }

    /// Whether this router itself reaches the source of a packet through the port for processes, and so through a path.
    #[cold]
    pub(super) fn is_reached_by_paths(&self, headers: &Headers) -> bool {
        let mut hops = self.tables.next_hops(headers.source());
        hops.any(|hop| self.is_local(hop.interface))
    }

    /// Hands a packet for this machine, of which the kernel has no copy, to the kernel.
    #[cold]
    pub(super) fn deliver_to_process(&mut self, packet: Packet, headers: &Headers) {
        match self.local_port() {
            Some(port) => self.depart(packet, headers, &unchanged(port)),
            None => self.discard(packet, Reason::NotAPort),
        }
    }

    /// Hands an ICMP error about a packet of a process to the kernel, through the port where the packet arrived.
    #[cold]
    pub(super) fn answer_process(&mut self, ingress: Option<usize>, error: Classified) {
        let Classified { packet, headers } = error;
        match ingress {
            Some(port) => self.depart(packet, &headers, &unchanged(port)),
            None => self.discard(packet, Reason::Reconfigured), // the port was removed
        }
    }
}

/// Sends a packet unchanged through a port.
fn unchanged(port: usize) -> Departure {
    Departure {
        rewrites: Rewrites::default(),
        exit: Exit::Port(port),
    }
}

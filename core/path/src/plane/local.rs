//! Packets between the plane and processes of this machine, which have a port of their own.
//!
//! ```text
//!  process --> kernel's route --> [local port] --> edge --match--> path of FPF
//!     ^                                 |            \--> by the routes; one back out of a local port: no-route
//!     |                                 v
//!     +--- kernel <-- [local port] <----+-- ICMP errors about these packets
//!                                       +-- packets for this machine that came out of a path of FPF
//! ```
//!
//! The kernel routes packets into such a port that a path shall carry, so its routes lead out of it. To the plane they
//! lead nowhere: whatever followed them would go round between the kernel and the router for ever. Only packets for the
//! machine itself are written to the port.
//!
//! A process is no neighbour. Its packets keep the TTL that the kernel gave them, as on every other way out of the
//! machine, and neither their sources nor packets that are not forwarded are the control element's business.

use weir_packet::{Packet, Reason};

use crate::classify::Classified;
use crate::egress::{Departure, Exit, Rewrites};
use crate::headers::Headers;
use crate::ip::forward::Origin;
use crate::plane::{Mode, Plane, PlanePort};

impl Plane {
    /// Declares that processes of this machine are behind a port, and no link.
    pub fn set_local(&mut self, number: usize) {
        self.ports[number].is_local = true;
        self.passed.clear();
    }

    /// The origin of packets that came in by a port.
    #[inline(always)]
    pub(super) fn origin_at(&self, ingress: usize) -> Origin {
        match self.ports[ingress].is_local {
            true => Origin::Process,
            false => Origin::Transit,
        }
    }

    /// Whether an interface is that of a local port.
    #[cold]
    pub(super) fn is_local(&self, interface: u32) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|port| port.is_local && port.index == Some(interface))
    }

    /// The port by which the kernel gets packets that came out of a path: of several, the one whose name comes first.
    #[cold]
    pub(super) fn local_port(&self) -> Option<usize> {
        let takes = |p: &PlanePort| p.is_local && !p.closing && p.mode == Mode::Routed;
        let ports = self.ports.iter().enumerate();
        let first = ports.filter(|(_, p)| takes(p)).min_by_key(|(_, p)| &p.name);
        first.map(|(number, _)| number)
    }

    /// Whether this router itself reaches the source of a packet by the port for processes, and so by a path.
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
            None => _ = self.fates.discard(packet, Reason::NotAPort),
        }
    }

    /// Hands an ICMP error about a packet of a process to the kernel, by the port by which the packet came.
    #[cold]
    pub(super) fn answer_process(&mut self, ingress: Option<usize>, error: Classified) {
        let Classified { packet, headers } = error;
        match ingress {
            Some(port) => self.depart(packet, &headers, &unchanged(port)),
            None => _ = self.fates.discard(packet, Reason::Reconfigured), // the port is gone
        }
    }
}

/// As it is, by a port.
fn unchanged(port: usize) -> Departure {
    Departure {
        rewrites: Rewrites::default(),
        exit: Exit::Port(port),
    }
}

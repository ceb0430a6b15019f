//! An overlay: a second network layer of a plane, next to IP, with its own header and state.
//!
//! ```text
//!  frames of its Ethernet type ------> receive ----+--> Plane::depart: leave through a port
//!  IP packets, before their routes --> take_burst -+--> Plane::send_on: follow the routes
//!  packets to this router -----------> deliver ----+--> Plane::route_ip: continue without the header
//!  time -----------------------------> step -------+--> Plane::fates: dropped
//! ```
//!
//! A plane has at most one overlay, and knows nothing else about it. While the overlay works, it has the plane, and the
//! plane does not have the overlay: a packet to this router that the overlay sends comes back by
//! [`Plane::delivered`].

use std::any::Any;

use weir_base::Instant;
use weir_packet::Packet;
use weir_wire::EtherType;

use crate::headers::Headers;
use crate::ip::tables::NeighbourKey;
use crate::ip::waiting::Held;
use crate::plane::Plane;
use crate::plane::step::Arrival;

/// An overlay of a plane.
pub trait Overlay: Any + Send {
    /// Whether it has anything to do.
    fn is_needed(&self) -> bool;

    /// The Ethernet type of its frames; `None` while it forwards none.
    fn ethertype(&self) -> Option<EtherType>;

    /// Whether these are the addresses of one of its tunnels to this router.
    fn is_of_tunnel(&self, headers: &Headers) -> bool;

    /// Takes a frame of its Ethernet type that arrived in this VLAN, or without one (0). Returns the frame if no
    /// interface of the overlay accepts it.
    fn receive(
        &mut self,
        plane: &mut Plane,
        ingress: usize,
        vlan: u16,
        packet: Packet,
        arrival: &Arrival,
    ) -> Option<Packet>;

    /// Takes some packets of a burst before they follow the routes. The others remain, in their order. A packet that is
    /// not IP is a burst of its own.
    fn take_burst(&mut self, plane: &mut Plane, burst: &mut Vec<Held>);

    /// Takes a received packet that is addressed to this router, or returns it.
    fn deliver(&mut self, plane: &mut Plane, held: Held, now: Instant) -> Option<Held>;

    /// Handles timeouts, and sends packets that are due. Returns the time of the next event, if one is known.
    fn step(&mut self, plane: &mut Plane, now: Instant) -> Option<Instant>;

    /// Follows a change of ports, their numbers, their devices or the tables. `removed` is the number that a removed
    /// port had; later ports have moved up.
    fn bind(&mut self, plane: &Plane, removed: Option<usize>);

    /// The neighbours that its configuration names, and that have MAC addresses.
    fn neighbours(&self, plane: &Plane) -> Vec<NeighbourKey>;

    /// The headers of the packet in a frame of its Ethernet type, whose payload starts at `l3`.
    fn peek(&self, frame: &[u8], l3: usize) -> Headers;

    /// Packets that it has created.
    fn created(&self) -> u64;

    /// Whether packets wait for its control thread that were not announced yet.
    fn announce(&mut self) -> bool;

    /// Drops all held packets, because the router stops.
    fn shut_down(&mut self, plane: &mut Plane);
}

impl Plane {
    /// The overlay, if it is of this type.
    pub fn overlay<T: Overlay>(&self) -> Option<&T> {
        (self.overlay.as_deref()? as &dyn Any).downcast_ref()
    }

    /// Changes the overlay, or starts a new one. An overlay that has nothing to do ends.
    pub fn change_overlay<T: Overlay + Default, R>(
        &mut self,
        change: impl FnOnce(&mut T, &mut Self) -> R,
    ) -> R {
        let overlay = self.overlay.take().map(|overlay| overlay as Box<dyn Any>);
        let overlay = overlay.and_then(|overlay| overlay.downcast().ok());
        let mut overlay: Box<T> = overlay.unwrap_or_default();
        let result = change(&mut overlay, self);
        self.overlay_ethertype = overlay.ethertype();
        self.overlay = overlay.is_needed().then_some(overlay as Box<dyn Overlay>);
        result
    }

    /// Lends the plane to its overlay; `None` if there is no overlay.
    #[inline]
    pub(crate) fn lend<R>(
        &mut self,
        work: impl FnOnce(&mut dyn Overlay, &mut Self) -> R,
    ) -> Option<R> {
        let mut overlay = self.overlay.take()?;
        let result = work(&mut *overlay, self);
        self.overlay = Some(overlay);
        Some(result)
    }
}

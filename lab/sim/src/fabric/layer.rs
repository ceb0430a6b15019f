//! A network layer besides IP, on some of the routers.
//!
//! ```text
//!   frame at a mark, or with Hop::LAYER ──▶ Layer::handle ──▶ Fabric::offer, discard or consume
//! ```
//!
//! Where a packet of IP reaches a router of the layer, a mark precedes the next port of its path. Networks without such
//! routers have no marks, and do no work for this.

use std::any::Any;
use std::fmt::Debug;
use std::net::IpAddr;

use weir_base::Instant;
use weir_packet::{FlowKey, Reason, Shared, Slot};

use super::{Event, Fabric, Node};
use crate::flight::{Chunk, Content, Flight, Flights};
pub use crate::frame::Frame;
use crate::id::{EndpointId, NodeId, PortId};
pub use crate::route::Hop;
use crate::route::Route;

/// The state of a network layer on all routers that have it.
pub trait Layer: Any + Debug + Send {
    /// Handles a frame at a router of the layer. `over` is the port that sent it there. Meanwhile the fabric does not call
    /// [`Self::forget`]: a frame is lost if [`Fabric::offer`] refuses it, or [`Fabric::discard`] takes it.
    fn handle(&mut self, fabric: &mut Fabric, over: PortId, frame: Frame);

    /// Handles a timer that [`Fabric::schedule_release`] has set.
    fn release(&mut self, fabric: &mut Fabric, router: NodeId);

    /// Forgets a packet that a port has lost.
    fn forget(&mut self, slot: Slot);

    /// From this router on, packets with this key take this path, and this endpoint receives them.
    fn deliver(&mut self, from: NodeId, key: FlowKey, first_hop: Hop, to: EndpointId);

    /// Registers a flow of interests or of data: its key, and a packet without name and content.
    fn know_chunks(&mut self, key: FlowKey, flight: Flight, shared: Shared);
}

impl Fabric {
    /// The layer, if it is of this type.
    pub fn layer<T: Layer>(&self) -> Option<&T> {
        let layer: &dyn Any = &**self.layer.as_ref()?;
        layer.downcast_ref()
    }

    /// The layer, which is made if there is none yet.
    pub fn layer_or<T: Layer>(&mut self, make: impl FnOnce() -> T) -> &mut T {
        let layer = self.layer.get_or_insert_with(|| Box::new(make()));
        let layer: &mut dyn Any = &mut **layer;
        let layer = layer.downcast_mut();
        layer.unwrap_or_else(|| unreachable!("a fabric has one layer besides IP"))
    }

    /// Adds a router to the layer.
    pub fn add_to_layer(&mut self, router: NodeId) {
        self.nodes[router.0 as usize].has_layer = true;
    }

    /// The key of flow hashes.
    pub fn secret(&self) -> (u64, u64) {
        self.secret
    }

    /// The packets in flight.
    pub fn flights(&self) -> &Flights {
        &self.flights
    }

    /// The packets in flight, for changes.
    pub fn flights_mut(&mut self) -> &mut Flights {
        &mut self.flights
    }

    /// The port through which a packet continues by IP.
    pub fn next_port(&self, hop: Hop) -> Option<PortId> {
        self.hops.port(hop)
    }

    /// Counts a packet that a router has received as delivered.
    pub fn consume(&mut self, frame: &Frame) {
        self.flights.release(frame.slot);
        self.delivered += 1;
    }

    /// Calls [`Layer::release`] at this time.
    pub fn schedule_release(&mut self, at: Instant, router: NodeId) {
        self.schedule(at, Event::Release(router));
    }

    /// The host that has the destination address of a key.
    pub fn host_of(&self, key: &FlowKey) -> Option<NodeId> {
        let is = |address: IpAddr| {
            let of = FlowKey::ip(address, address, 0, 0, 0);
            (of.family, of.destination) == (key.family, key.destination)
        };
        let has_it =
            |node: &Node| node.uplink.is_some() && (is(node.v4.into()) || is(node.v6.into()));
        let place = self.nodes.iter().position(has_it)?;
        Some(NodeId(place as u32))
    }

    /// Hands a frame to the layer, which is out of its place meanwhile. So nobody reports to it the packets that
    /// it loses itself; it knows of them.
    #[cold]
    #[inline(never)]
    pub(super) fn handle_in_layer(&mut self, over: PortId, frame: Frame) {
        match self.layer.take() {
            Some(mut layer) => {
                layer.handle(self, over, frame);
                self.layer = Some(layer);
            }
            None => self.discard(over, &frame, Reason::NoRoute),
        }
    }

    /// Calls the layer at the time that it has chosen.
    pub(crate) fn release(&mut self, router: NodeId) {
        if let Some(mut layer) = self.layer.take() {
            layer.release(self, router);
            self.layer = Some(layer);
        }
    }

    /// From this router on, packets with this key go to this host, and this endpoint receives them.
    pub(crate) fn deliver(&mut self, from: NodeId, key: &FlowKey, to: (NodeId, EndpointId)) {
        let first_hop = self.hops_from(from, false, to.0, key);
        if let Some(layer) = &mut self.layer {
            layer.deliver(from, *key, first_hop, to.1);
        }
    }

    /// The first hop to the address of a group: only the layer of the first router leads further.
    pub(crate) fn hops_to_group(&mut self) -> Hop {
        self.hops.keep_nowhere()
    }

    /// Registers a flow of interests or of data.
    pub(crate) fn know_chunks(&mut self, route: &Route) {
        let flight = Flight {
            to: route.peer,
            sent: self.now,
            traffic: route.traffic,
            flow: route.flow,
            content: Content::Chunk(Chunk::default()),
        };
        let key = *self.flights.keys.of(route.key);
        if let Some(layer) = &mut self.layer {
            layer.know_chunks(key, flight, route.key);
        }
    }
}

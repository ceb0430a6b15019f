//! The fabric: time, events, packets, ports and the routes between them; everything except the endpoints.
//!
//! ```text
//!            send()                    step                   arrive
//!  endpoint ───────▶ Port of the host ──────▶ ring (a delay) ───────▶ router ─▶ its Port ─▶ ..
//!                                                            └──────▶ host: to an endpoint
//! ```
//!
//! - `change`: changes by actors: rates, parameters, cuts
//! - [`layer`]: a network layer besides IP
//! - `probe`: probes of ports to reflectors; `round_trips`: round trips of the TCP connections that pass a port
//!
//! # The order at one instant
//!
//! First, all events of this instant are handled: packets arrive, timers run, endpoints send; all of these only *touch*
//! ports. Then every touched port makes one step. Ports whose link has neither rate nor delay come first, because their
//! packets arrive at the same instant. So all arrivals of an instant are queued before a port starts its next frame,
//! exactly as in a live router that is late and replays a whole batch.

mod change;
pub mod layer;
mod probe;
pub(crate) mod round_trips;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_base::Instant;
use weir_packet::{DropCounters, Ecn, FlowKey, Freed, Reason};

use self::layer::Layer;
pub use self::probe::{Echo, ProberId};
pub(crate) use self::probe::{NO_TRAFFIC, PROBE_BYTES, Prober};
use crate::event::Queue;
use crate::flight::{Flight, Flights};
use crate::frame::Frame;
use crate::id::EndpointId;
use crate::id::{NodeId, PortId};
use crate::meter::Meters;
use crate::route::Route;
use crate::route::{Hop, Hops, Routes};
use crate::wire::{PortView, Sender, Wire};

/// An event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The first frame in flight from this port arrives.
    Arrive(PortId),
    /// A port is due for a step.
    Wake(PortId),
    /// An endpoint starts.
    Start(EndpointId),
    /// An endpoint's application stops.
    Stop(EndpointId),
    /// A web client starts a fetch.
    Fetch(u32),
    /// A timer of the endpoint's protocol.
    Timeout(EndpointId),
    /// An endpoint's application is due to send.
    Tick(EndpointId),
    /// An actor's turn.
    Act(u32),
    /// A timer of the layer besides IP at a router.
    Release(NodeId),
}

/// An event as stored in the queue: packed into one word, so that it is passed in a register.
///
/// ```text
///   63      32 31      4 3    0
///  [ number   | generation | kind ]
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed(u64);

impl From<Event> for Packed {
    #[inline]
    fn from(event: Event) -> Self {
        let plain = |kind: u64, number: u32| kind | u64::from(number) << 32;
        let endpoint =
            |kind: u64, id: EndpointId| plain(kind, id.place) | u64::from(id.generation) << 4;
        Self(match event {
            Event::Arrive(port) => plain(0, port.0),
            Event::Wake(port) => plain(1, port.0),
            Event::Start(id) => endpoint(2, id),
            Event::Stop(id) => endpoint(3, id),
            Event::Fetch(client) => plain(4, client),
            Event::Timeout(id) => endpoint(5, id),
            Event::Tick(id) => endpoint(6, id),
            Event::Act(number) => plain(7, number),
            Event::Release(router) => plain(8, router.0),
        })
    }
}

impl From<Packed> for Event {
    #[inline]
    fn from(Packed(word): Packed) -> Self {
        let number = (word >> 32) as u32;
        let id = EndpointId {
            place: number,
            generation: word as u32 >> 4,
        };
        match word & 0xf {
            0 => Self::Arrive(PortId(number)),
            1 => Self::Wake(PortId(number)),
            2 => Self::Start(id),
            3 => Self::Stop(id),
            4 => Self::Fetch(number),
            5 => Self::Timeout(id),
            6 => Self::Tick(id),
            7 => Self::Act(number),
            _ => Self::Release(NodeId(number)),
        }
    }
}

/// A host or router.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
    /// The port of a host; `None` for a router.
    pub(crate) uplink: Option<PortId>,
    /// Whether it has the layer besides IP.
    pub(crate) has_layer: bool,
}

/// Time, events, packets, ports and routes.
pub struct Fabric {
    pub(crate) now: Instant,
    pub(crate) events: Queue<Packed>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) flights: Flights,
    pub(crate) fates: DropCounters,
    pub(crate) meters: Meters,
    layer: Option<Box<dyn Layer>>,
    secret: (u64, u64),
    probers: Vec<Prober>,
    routes: Routes,
    hops: Hops,
    touched: Vec<PortId>,
    /// Touched ports whose packets arrive at the instant of sending.
    timeless: Vec<PortId>,
    delivered: u64,
    lost: u64,
    happened: u64,
}

impl Fabric {
    pub(crate) fn new(
        nodes: Vec<Node>,
        wires: Vec<Wire>,
        routes: Routes,
        secret: (u64, u64),
    ) -> Self {
        Self {
            now: Instant::ZERO,
            events: Queue::default(),
            nodes,
            wires,
            flights: Flights::new(secret),
            fates: DropCounters::default(),
            meters: Meters::default(),
            layer: None,
            secret,
            probers: Vec::new(),
            routes,
            hops: Hops::default(),
            touched: Vec::new(),
            timeless: Vec::new(),
            delivered: 0,
            lost: 0,
            happened: 0,
        }
    }

    /// The current time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A port.
    pub fn port(&self, port: PortId) -> PortView<'_> {
        PortView {
            wire: &self.wires[port.0 as usize],
            now: self.now,
        }
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.happened
    }

    /// Totals of all packets: created, delivered, lost, in flight. The first is the sum of the others.
    pub fn books(&self) -> [u64; 4] {
        let under_way = self.flights.under_way() as u64;
        [self.flights.created(), self.delivered, self.lost, under_way]
    }

    /// The address of a host.
    pub(crate) fn address(&self, host: NodeId, ipv6: bool) -> IpAddr {
        let node = &self.nodes[host.0 as usize];
        if ipv6 { node.v6.into() } else { node.v4.into() }
    }

    /// The only port of a host.
    pub(crate) fn uplink(&self, host: NodeId) -> PortId {
        let uplink = self.nodes[host.0 as usize].uplink;
        uplink.unwrap_or_else(|| unreachable!("endpoints are on hosts"))
    }

    /// The name of a node.
    pub fn name(&self, node: NodeId) -> &str {
        &self.nodes[node.0 as usize].name
    }

    /// The router of a host.
    pub(crate) fn router_of(&self, host: NodeId) -> NodeId {
        self.wires[self.uplink(host).0 as usize].to
    }

    /// Whether packets between two hosts take any time, on each of the equal paths that their flow may use; `None` if
    /// no path exists.
    pub(crate) fn path_takes_time(&self, from: NodeId, to: NodeId) -> Option<bool> {
        // Every port of every path, and whether some path to the node of the port takes no time. All paths to a node
        // have the same number of hops, because they are shortest paths.
        let mut ports = BTreeMap::from([(self.nodes[from.0 as usize].uplink?, true)]);
        loop {
            let mut nodes = BTreeMap::new();
            for (port, timeless) in ports {
                let wire = &self.wires[port.0 as usize];
                *nodes.entry(wire.to).or_insert(false) |= timeless && !wire.takes_time();
            }
            if let Some(timeless) = nodes.get(&to) {
                return Some(!timeless);
            }
            ports = BTreeMap::new();
            for (node, timeless) in nodes {
                let next = self.routes.ports(node, to);
                ports.extend(next.map(|port| (port, timeless)));
            }
            if ports.is_empty() {
                return None;
            }
        }
    }

    /// The first hop of a flow with this key from one host to another, after the port of the first host.
    pub(crate) fn first_hop(&mut self, from: NodeId, to: NodeId, key: &FlowKey) -> Hop {
        let first = self.router_of(from);
        let decides = self.nodes[first.0 as usize].has_layer;
        self.hops_from(first, decides, to, key)
    }

    /// The first hop of a flow with this key from a node on; `decides`: the layer of that node may take the flow.
    pub fn hops_from(
        &mut self,
        mut node: NodeId,
        mut decides: bool,
        to: NodeId,
        key: &FlowKey,
    ) -> Hop {
        let hash = self.flights.keys.hash_key(key);
        let (wires, routes, nodes) = (&self.wires, &self.routes, &self.nodes);
        let ports = std::iter::from_fn(|| {
            let port = (if node == to {
                None
            } else {
                routes.port(node, to, hash)
            })?;
            node = wires[port.0 as usize].to;
            let here = std::mem::replace(&mut decides, nodes[node.0 as usize].has_layer);
            Some((port, here))
        });
        self.hops.keep(ports)
    }

    /// A host sends a packet of `len` bytes (layer 2).
    #[inline]
    pub(crate) fn send(&mut self, route: &Route, flight: Flight, len: u32, ecn: Ecn) {
        if flight.content.payload() > 0 {
            self.meters.sent(flight.traffic, self.now, len);
        }
        let slot = self.flights.create(flight, route.key);
        let frame = Frame {
            slot,
            hop: route.first_hop,
            len,
            ecn,
            ..Frame::default()
        };
        self.offer(route.uplink, frame);
    }

    /// Offers a frame to a port; returns whether it was not lost at once.
    #[inline(always)]
    pub fn offer(&mut self, port: PortId, frame: Frame) -> bool {
        let wire = &mut self.wires[port.0 as usize];
        if wire.is_cut {
            self.discard(port, &frame, Reason::DeviceDown);
            return false;
        }
        match &mut wire.sender {
            Sender::AnalyticFifo(plain) => {
                let Some(sending) = plain.admit(u64::from(frame.len), self.now, &wire.ring) else {
                    self.discard(port, &frame, Reason::QueueFull);
                    return false;
                };
                // The arrival is scheduled when the previous frame arrives, or by a step if there is no previous frame.
                let is_next = wire.ring.last().is_none_or(|l| l.arrival <= self.now);
                wire.ring.push(Frame {
                    arrival: sending.end + wire.delay,
                    start: sending.start,
                    ..frame
                });
                if is_next && !wire.touched {
                    wire.touched = true;
                    self.touched.push(port);
                }
            }
            Sender::Stepped(stepped) => {
                let packet = self.flights.packet(&frame, self.now);
                let flight = self.flights.get(packet.slot);
                if let Some(watch) = &mut stepped.watch
                    && flight.content.counts()
                {
                    watch.offered(flight, self.flights.keys.key(&packet), self.now);
                }
                stepped.port.offer(packet);
                self.touch(port);
            }
        }
        true
    }

    /// Drops a frame at a port.
    #[inline]
    pub fn discard(&mut self, port: PortId, frame: &Frame, reason: Reason) {
        let packet = self.flights.packet(frame, self.now);
        self.fates.discard(packet, reason);
        self.reap(port);
    }

    #[inline]
    fn touch(&mut self, port: PortId) {
        let wire = &mut self.wires[port.0 as usize];
        if !wire.touched {
            wire.touched = true;
            if wire.takes_time() {
                self.touched.push(port)
            } else {
                self.timeless.push(port)
            }
        }
    }

    /// The next event not later than `until`; `None` while touched ports wait for their step.
    #[inline]
    pub(crate) fn next(&mut self, until: Instant) -> Option<Event> {
        let is_settled = self.touched.is_empty() && self.timeless.is_empty();
        let until = if is_settled { until } else { self.now };
        let (time, event) = self.events.pop_until(until)?;
        self.now = self.now.max(time);
        self.happened += 1;
        Some(event.into())
    }

    /// Schedules an event.
    #[inline]
    pub(crate) fn schedule(&mut self, at: Instant, event: Event) {
        self.events.push(at, event.into());
    }

    /// Handles a port's timer, which is obsolete unless the port waits for this time.
    #[inline]
    pub(crate) fn wake(&mut self, port: PortId) {
        if let Sender::Stepped(stepped) = &mut self.wires[port.0 as usize].sender
            && stepped.wake == self.now
        {
            stepped.wake = Instant::FAR_FUTURE;
            self.touch(port);
        }
    }

    /// Handles the arrival of the first frame on a wire. A router forwards it; a frame that has reached its host is
    /// returned.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, port: PortId) -> Option<Frame> {
        let wire = &mut self.wires[port.0 as usize];
        let frame = wire.pop()?;
        if let Some(next) = wire.next_arrival(self.now) {
            self.events.push(next.arrival, Event::Arrive(port).into());
            // The memory for the next hop was last used one round trip ago: prefetch it into the cache while there is
            // other work to do.
            match self.hops.port(next.hop) {
                None => {
                    black_box(self.flights.get(next.slot).sent);
                }
                Some(port) => {
                    black_box(self.wires[port.0 as usize].touched);
                }
            }
        }
        if self.wires[port.0 as usize].is_cut {
            self.discard(port, &frame, Reason::DeviceDown);
            return None;
        }
        if self.wires[port.0 as usize].is_measured {
            self.measure_arrival(port, &frame);
        }
        if let Some(port) = self.hops.port(frame.hop) {
            let hop = frame.hop.next();
            self.offer(port, Frame { hop, ..frame });
            return None;
        }
        if !self.hops.is_end(frame.hop) {
            self.handle_in_layer(port, frame);
            return None;
        }
        Some(frame)
    }

    /// Delivers a frame to its host, and returns the content.
    #[inline]
    pub(crate) fn take(&mut self, frame: &Frame) -> Flight {
        self.delivered += 1;
        self.flights.release(frame.slot);
        *self.flights.get(frame.slot)
    }

    /// Makes one step of every port that was touched at this instant. Ports that take no time come first; if one of
    /// their packets arrives at this instant, the other ports wait for it. Returns whether any port was touched.
    #[inline]
    pub(crate) fn settle(&mut self) -> bool {
        if self.touched.is_empty() && self.timeless.is_empty() {
            return false;
        }
        if !self.timeless.is_empty() {
            for place in 0..self.timeless.len() {
                self.step(self.timeless[place]);
            }
            self.timeless.clear();
            if self.events.next_time() == Some(self.now) {
                return true;
            }
        }
        for place in 0..self.touched.len() {
            self.step(self.touched[place]);
        }
        self.touched.clear();
        true
    }

    #[inline]
    fn step(&mut self, id: PortId) {
        let wire = &mut self.wires[id.0 as usize];
        wire.touched = false;
        let (was_empty, wake) = match &mut wire.sender {
            Sender::AnalyticFifo(_) => (true, None),
            Sender::Stepped(stepped) => {
                let was_empty = wire.ring.is_empty();
                let (now, delay, ring) = (self.now, wire.delay, &mut wire.ring);
                let wake = stepped.step(now, delay, ring, &self.flights, &mut self.fates);
                (was_empty, wake)
            }
        };
        if was_empty && let Some(first) = wire.ring.get(0) {
            self.events.push(first.arrival, Event::Arrive(id).into());
        }
        if let Some(wake) = wake {
            self.events.push(wake, Event::Wake(id).into());
        }
        self.reap(id);
    }

    /// Counts the packets that a port dropped, and frees their slots.
    #[inline]
    fn reap(&mut self, port: PortId) {
        if self.fates.to_be_freed().is_empty() {
            return; // usual case: setting up a drain costs more than the rest of a step
        }
        for Freed { slot, reason, .. } in self.fates.freed() {
            let flight = self.flights.get(slot);
            let counts = flight.content.counts();
            if counts {
                self.meters.lost(flight, self.now, port, reason);
            }
            if counts && let Some((_, watch)) = self.wires[port.0 as usize].watched() {
                let key = self.flights.keys.key_at(slot);
                watch.lost(flight, key, self.now, reason);
            }
            self.flights.release(slot);
            if let Some(layer) = &mut self.layer {
                layer.forget(slot);
            }
            self.lost += 1;
        }
    }
}

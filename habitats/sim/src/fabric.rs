//! The fabric: time, events, packets, ports and the ways between them; everything but the endpoints.
//!
//! ```text
//!            send()                    step                   arrive
//!  endpoint ───────▶ Port of the host ──────▶ pipe (a delay) ───────▶ router ─▶ its Port ─▶ ..
//!                                                            └──────▶ host: to an endpoint
//! ```
//!
//! # The order at one instant
//!
//! First everything happens that happens at this instant: packets arrive, timers run, endpoints
//! send; each only *touches* ports. Then every port that was touched makes one step; those first whose
//! packets arrive at once, because their link has neither rate nor delay. So all that arrives
//! at one instant is queued before a port starts its next frame, exactly as in a live router that
//! comes late and replays a whole batch.

use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_base::{Instant, Span};
use weir_discipline::{Spec, SpecMismatch};
use weir_packet::{Ecn, Fates, KeyKind, Packet, Reason, Slot};
use weir_path::port::Port;

use crate::EndpointId;
use crate::endpoint::Route;
use crate::event::Queue;
use crate::flight::{Flight, Flights};
use crate::meter::{Meters, Watch};
use crate::network::{NodeId, PortId, Ways};

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The first packet in the pipe behind this port arrives.
    Arrive(PortId),
    /// A port wants to be stepped.
    Wake(PortId),
    /// An endpoint begins.
    Start(EndpointId),
    /// Its application stops.
    Stop(EndpointId),
    /// A web client begins a fetch.
    Fetch(u32),
    /// A timer of the endpoint's protocol.
    Timeout(EndpointId),
    /// The endpoint's application wants to send.
    Tick(EndpointId),
    /// An actor's turn.
    Act(u32),
}

/// An event as it waits: in one word, which goes from hand to hand in a register.
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
            _ => Self::Act(number),
        }
    }
}

/// A host or router.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
    /// The port of a host; none for a router.
    pub(crate) uplink: Option<PortId>,
}

/// One direction of a link.
pub(crate) struct Wire {
    pub(crate) port: Port,
    pub(crate) to: NodeId,
    pub(crate) delay: Span,
    /// Packets under way, with the time of their arrival.
    pub(crate) pipe: VecDeque<(Instant, Packet)>,
    /// When the port is to be stepped next; events for other times are out of date.
    pub(crate) wake: Instant,
    /// Whether it is on the list of ports to be stepped at this instant.
    pub(crate) touched: bool,
    /// What is recorded of it.
    pub(crate) watch: Option<Box<Watch>>,
}

impl Wire {
    /// Whether what is sent arrives later than it is sent.
    #[inline]
    fn takes_time(&self) -> bool {
        self.delay > Span::ZERO || self.port.link().rate.is_some()
    }
}

/// Time, events, packets, ports and ways.
pub struct Fabric {
    pub(crate) now: Instant,
    pub(crate) events: Queue<Packed>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) flights: Flights,
    pub(crate) fates: Fates,
    pub(crate) meters: Meters,
    ways: Ways,
    touched: Vec<PortId>,
    /// Touched ports whose packets arrive at the instant at which they are sent.
    timeless: Vec<PortId>,
    delivered: u64,
    lost: u64,
    happened: u64,
}

impl Fabric {
    pub(crate) fn new(nodes: Vec<Node>, wires: Vec<Wire>, ways: Ways, secret: (u64, u64)) -> Self {
        Self {
            now: Instant::ZERO,
            events: Queue::default(),
            nodes,
            wires,
            flights: Flights::new(secret),
            fates: Fates::default(),
            meters: Meters::default(),
            ways,
            touched: Vec::new(),
            timeless: Vec::new(),
            delivered: 0,
            lost: 0,
            happened: 0,
        }
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A port, to look at.
    pub fn port(&self, port: PortId) -> &Port {
        &self.wires[port.0 as usize].port
    }

    /// Puts other parameters of its discipline in force at a port, as a controller does.
    pub fn set(&mut self, port: PortId, spec: Spec) -> Result<(), SpecMismatch> {
        let wire = &mut self.wires[port.0 as usize];
        wire.port.set(spec, self.now)?;
        self.touch(port);
        Ok(())
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.happened
    }

    /// The books of all packets: made, taken by their host, lost, still under way. The first is the
    /// sum of the others.
    pub fn books(&self) -> [u64; 4] {
        let under_way = self.flights.under_way() as u64;
        [self.flights.created(), self.delivered, self.lost, under_way]
    }

    /// The address of a host.
    pub(crate) fn address(&self, host: NodeId, ipv6: bool) -> IpAddr {
        let node = &self.nodes[host.0 as usize];
        match ipv6 {
            true => node.v6.into(),
            false => node.v4.into(),
        }
    }

    /// The only port of a host.
    pub(crate) fn uplink(&self, host: NodeId) -> PortId {
        let uplink = self.nodes[host.0 as usize].uplink;
        uplink.unwrap_or_else(|| unreachable!("endpoints are on hosts"))
    }

    /// Whether there is a way between two hosts, and whether it takes any time, whichever of several
    /// equal ones a flow takes.
    pub(crate) fn way_takes_time(&self, from: NodeId, to: NodeId) -> Option<bool> {
        // Every port of every way, and whether some way to behind it takes no time. Ways are the
        // shortest ones: all that lead to a node have the same number of hops.
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
                // A host, and not the one that was meant, passes nothing on.
                if self.ways.is_router(node) {
                    let next = self.ways.ports(node, to);
                    ports.extend(next.map(|port| (port, timeless)));
                }
            }
            if ports.is_empty() {
                return None;
            }
        }
    }

    /// A host sends a packet of `len` bytes (layer 2).
    #[inline]
    pub(crate) fn send(&mut self, route: &Route, flight: Flight, len: u32, ecn: Ecn) {
        if flight.content.payload() > 0 {
            self.meters.sent(flight.traffic, self.now, len);
        }
        let mut packet = self.flights.create(flight, route.peer_host, route.key, len);
        packet.ecn = ecn;
        self.offer(route.uplink, packet);
    }

    // Always inlined: a packet that is written to the stack in fields and read as a whole makes the
    // processor wait.
    #[inline(always)]
    fn offer(&mut self, port: PortId, packet: Packet) {
        let wire = &mut self.wires[port.0 as usize];
        if wire.watch.is_some() {
            self.note_offered(port, packet.slot);
        }
        self.wires[port.0 as usize].port.offer(packet);
        self.touch(port);
    }

    /// A packet comes to a watched port.
    #[inline(never)]
    fn note_offered(&mut self, port: PortId, slot: Slot) {
        if let Some(watch) = &mut self.wires[port.0 as usize].watch {
            let flight = self.flights.get(slot);
            watch.passages.offered(flight.flow, self.now);
            if let Some(identification) = &mut watch.identification {
                let key = self.flights.keys.key_at(slot);
                identification.offered(flight.traffic, key, self.now);
            }
        }
    }

    #[inline]
    fn touch(&mut self, port: PortId) {
        let wire = &mut self.wires[port.0 as usize];
        if !wire.touched {
            wire.touched = true;
            match wire.takes_time() {
                true => self.touched.push(port),
                false => self.timeless.push(port),
            }
        }
    }

    /// The next event that is due at `until` or before.
    #[inline]
    pub(crate) fn next(&mut self, until: Instant) -> Option<Event> {
        let (time, event) = self.events.pop_until(until)?;
        self.now = self.now.max(time);
        self.happened += 1;
        Some(event.into())
    }

    /// Lets something happen at a time.
    #[inline]
    pub(crate) fn schedule(&mut self, at: Instant, event: Event) {
        self.events.push(at, event.into());
    }

    /// A port's timer; out of date unless it is the one that the port waits for.
    #[inline]
    pub(crate) fn wake(&mut self, port: PortId) {
        let wire = &mut self.wires[port.0 as usize];
        if wire.wake == self.now {
            wire.wake = Instant::FAR_FUTURE;
            self.touch(port);
        }
    }

    /// The first packet of a pipe has arrived. A router passes it on; what a host got is given back.
    #[inline]
    pub(crate) fn arrive(&mut self, port: PortId) -> Option<(Flight, bool)> {
        let wire = &mut self.wires[port.0 as usize];
        let (_, packet) = wire.pipe.pop_front()?;
        let node = wire.to;
        let is_host = !self.ways.is_router(node);
        match wire.pipe.front() {
            Some((next, packet)) => {
                self.events.push(*next, Event::Arrive(port).into());
                // What it will need has been lying there for a round trip: that comes back into the
                // cache while there is other work to do.
                match is_host {
                    true => {
                        black_box(self.flights.get(packet.slot).sent);
                    }
                    false => {
                        let destination = self.flights.destination(packet.slot);
                        if let Some(way) = self.ways.only_port(node, destination) {
                            black_box(self.wires[way.0 as usize].touched);
                        }
                    }
                }
            }
            None => wire.pipe.clear(), // back to the start of its memory, which is warm
        }
        if is_host {
            let flight = *self.flights.get(packet.slot);
            self.flights.release(packet.slot);
            self.delivered += 1;
            return Some((flight, packet.ecn == Ecn::Congested));
        }
        let destination = self.flights.destination(packet.slot);
        let keys = &self.flights.keys;
        let way = self
            .ways
            .port(node, destination, || keys.hash(&packet, KeyKind::Flow));
        let packet = Packet {
            arrived: self.now,
            ..packet
        };
        match way {
            Some(way) => self.offer(way, packet),
            None => {
                self.fates.discard(packet, Reason::NoRoute);
                self.bury(port);
            }
        }
        None
    }

    /// Every port that was touched at this instant makes a step; but if something arrives at this
    /// instant by those that take no time, the others wait for it.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if !self.timeless.is_empty() {
            for place in 0..self.timeless.len() {
                self.step(self.timeless[place]);
            }
            self.timeless.clear();
            if self.events.next_time() == Some(self.now) {
                return;
            }
        }
        for place in 0..self.touched.len() {
            self.step(self.touched[place]);
        }
        self.touched.clear();
    }

    #[inline]
    fn step(&mut self, id: PortId) {
        let wire = &mut self.wires[id.0 as usize];
        wire.touched = false;
        if wire.watch.is_none()
            && let Some((packet, sending)) = wire.port.pass(self.now)
        {
            let arrival = sending.end + wire.delay;
            if wire.pipe.is_empty() {
                self.events.push(arrival, Event::Arrive(id).into());
            }
            wire.pipe.push_back((arrival, packet));
            return;
        }
        let Wire {
            port, pipe, delay, ..
        } = wire;
        let was_empty = pipe.is_empty();
        let (watch, flights) = (&mut wire.watch, &self.flights);
        let next = port.step(
            self.now,
            &flights.keys,
            &mut self.fates,
            usize::MAX,
            &mut |packet, sending| {
                if let Some(watch) = watch {
                    let flight = flights.get(packet.slot);
                    watch.departed(&packet, sending.start, flight.flow, flight.traffic);
                    if let Some(trace) = &mut watch.trace {
                        let content = &flights.get(packet.slot).content;
                        let key = flights.keys.key(&packet);
                        trace.departed(sending.start, key, content, packet.ecn);
                    }
                }
                pipe.push_back((sending.end + *delay, packet));
            },
        );
        if was_empty && let Some((arrival, _)) = pipe.front() {
            self.events.push(*arrival, Event::Arrive(id).into());
        }
        if let Some(next) = next.filter(|next| *next != wire.wake) {
            wire.wake = next;
            self.events.push(next, Event::Wake(id).into());
        }
        self.bury(id);
    }

    /// Counts the packets that ended at a port, and frees their slots.
    #[inline]
    fn bury(&mut self, port: PortId) {
        if self.fates.to_be_freed().is_empty() {
            return; // mostly so, and setting up a drain costs more than the rest of a step
        }
        for (slot, reason) in self.fates.freed() {
            let flight = self.flights.get(slot);
            self.meters.lost(flight, self.now, port, reason);
            if let Some(watch) = &mut self.wires[port.0 as usize].watch {
                if reason == Reason::NotAdmitted {
                    watch.passages.refused(flight.flow, self.now);
                }
                if let Some(trace) = &mut watch.trace {
                    let key = self.flights.keys.key_at(slot);
                    trace.lost(self.now, key, &flight.content, reason);
                }
            }
            self.flights.release(slot);
            self.lost += 1;
        }
    }
}

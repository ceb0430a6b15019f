//! Routers that are forwarding elements (FEs) of flexible packet forwarding, in addition to IP.
//!
//! ```text
//!   no header ──▶ edge rules ──none──▶ the routes of IP
//!                     │ vectors; a shaped path lets the packet wait
//!                     ▼
//!   header ──▶ parse, decide (as in a live router) ──▶ a port, copies, or the header comes off ──▶ the routes of IP
//! ```
//!
//! The decisions are those of [`weir_fpf_path`]: its tables, its encapsulation rules, and [`decide`] on the bytes of a
//! header. Packets have no other bytes here, so the header is stored next to the packet, and counts in its length.
//!
//! Where a packet without a header reaches an FE, a mark precedes the next port of its path. Networks without FEs have
//! no marks, and do no work for this.
//!
//! - A packet whose header was removed continues by IP from there. The encapsulation rules of that FE do not apply to
//!   it again.
//! - Redirected packets are dropped: no control element receives them.
//! - There is no MTU: the header makes a packet longer, and no link refuses it.
//! - A drop counts at the link through which the packet arrived.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_base::Instant;
use weir_fpf_path::edge::filter::Subject;
use weir_fpf_path::edge::rule::Listed;
use weir_fpf_path::edge::rules::Rules;
use weir_fpf_path::edge::shaper::{QueueCounters, Shapers};
use weir_fpf_path::forward::{Decision, NESTED_MAX, decide, onward, parse};
use weir_fpf_path::header::{Repr, Vector, View};
use weir_fpf_path::process::ProcessorId;
use weir_fpf_path::table::Input;
use weir_fpf_path::{Inner, InterfaceId, Table};
use weir_packet::{FlowKey, Queue, Reason, Slot};
use weir_wire::EtherType;

use super::process::Processors;
use super::{Event, Fabric, Node};
use crate::error::NetworkError;
use crate::frame::Frame;
use crate::id::EndpointId;
use crate::id::{NodeId, PortId};
use crate::route::Hop;

/// Maximum encapsulation rules of an FE.
const RULES_MAX: usize = 1 << 16;

/// The FEs of a network, and the headers of packets in flight.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    /// FEs by router.
    elements: HashMap<NodeId, Element>,
    pub(super) processors: Processors,
    /// By slot: the header of its packet, empty without a header.
    headers: Vec<Vec<u8>>,
    /// The path on which a flow continues from an FE that removed its header.
    onward: HashMap<(NodeId, FlowKey), Onward>,
    /// The key of flow hashes.
    secret: (u64, u64),
    /// Buffer for expired rules.
    expired: Vec<Listed>,
}

/// A forwarding element.
#[derive(Debug)]
struct Element {
    table: Table,
    /// The port of each interface of the table, and the rows for packets that arrive there.
    ports: Vec<(PortId, Option<Input>)>,
    edge: Rules,
    /// Packets that wait for the rates of their paths, each with the port that sent it here.
    shapers: Shapers<(PortId, Frame)>,
    /// Time of the release event scheduled for them; far future if none is scheduled.
    wake: Instant,
}

/// The decision of an edge about a packet without a header.
enum Entry {
    /// The packet gets a header, or a copy of it gets each of these headers.
    Headers(Vec<Repr>),
    /// The packet waits for the rate of its path.
    Wait,
    /// The packet continues by IP.
    AnalyticFifo,
}

/// The rest of a flow's path, by IP.
#[derive(Clone, Copy, Debug)]
struct Onward {
    first_hop: Hop,
    /// The receiving endpoint, if the sender did not name it: a receiver of a group.
    to: Option<EndpointId>,
}

impl Element {
    /// The rows for frames that the port at the other end of a link has sent.
    fn input(&self, over: PortId) -> Input {
        let own = over.peer();
        let known = self.ports.iter().find(|(port, _)| *port == own);
        let input = known.and_then(|(_, input)| *input);
        input.unwrap_or_else(|| self.table.any_input())
    }

    fn port(&self, interface: InterfaceId) -> PortId {
        self.ports[interface.get()].0
    }
}

impl Elements {
    /// No FEs yet; `secret` is the key of flow hashes.
    pub(crate) fn new(secret: (u64, u64)) -> Self {
        Self {
            secret,
            ..Self::default()
        }
    }

    /// Whether a router is an FE.
    pub(crate) fn contain(&self, router: NodeId) -> bool {
        self.elements.contains_key(&router)
    }

    fn header_len(&self, frame: &Frame) -> u32 {
        self.headers
            .get(frame.slot.0 as usize)
            .map_or(0, |header| header.len() as u32)
    }

    /// Adds a header to a packet, in place of its current header.
    pub(super) fn put(&mut self, frame: &mut Frame, repr: &Repr) {
        frame.len = frame.len + repr.encoded_len() as u32 - self.header_len(frame);
        let place = frame.slot.0 as usize;
        if self.headers.len() <= place {
            self.headers.resize(place + 1, Vec::new());
        }
        let header = &mut self.headers[place];
        header.clear();
        header.resize(repr.encoded_len(), 0);
        repr.emit(&mut View::new_unchecked(&mut header[..]));
        frame.hop = Hop::ELEMENT;
    }

    /// The header of a packet that continues with its own vector after a processor of this router.
    pub(super) fn own_header(&self, router: NodeId, frame: &Frame) -> Option<Repr> {
        let header = &self.headers.get(frame.slot.0 as usize)?[..];
        let header = Repr::parse(&View::new_checked(header).ok()?).ok()?;
        onward(
            &header,
            self.elements.get(&router)?.table.domain().lid_size(),
        )
    }

    /// Removes the header of a packet.
    pub(super) fn remove_header(&mut self, frame: &mut Frame) {
        frame.len -= self.header_len(frame);
        if let Some(header) = self.headers.get_mut(frame.slot.0 as usize) {
            header.clear();
        }
    }

    /// Forgets the header and the bytes of a packet that is lost.
    #[inline]
    pub(crate) fn forget(&mut self, slot: Slot) {
        if let Some(header) = self.headers.get_mut(slot.0 as usize) {
            header.clear();
        }
        self.processors.forget(slot);
    }
}

/// The decision about a packet with a header.
enum Step {
    Send(PortId, Queue, u8),
    Copy(Vec<Repr>),
    Process(ProcessorId, Vec<Repr>),
    Strip(Option<PortId>),
    Drop(Reason),
}

impl Fabric {
    /// Makes a router an FE, or replaces its table. `ports` are those of the table's interfaces, by number. IP packets
    /// pass the encapsulation rules of all FEs that exist when their flow is created.
    pub fn set_table(
        &mut self,
        router: NodeId,
        table: Table,
        ports: Vec<PortId>,
    ) -> Result<(), NetworkError> {
        debug_assert_eq!(table.interfaces().len(), ports.len());
        for port in &ports {
            let wire = &self.wires[port.0 as usize];
            if !wire.takes_time() {
                let name = |node: NodeId| self.name(node).to_owned();
                return Err(NetworkError::NoTime(name(router), name(wire.to)));
            }
        }
        let inputs = table.interfaces().iter();
        let inputs = inputs.map(|interface| table.find(interface).map(|id| table.input(id)));
        let ports = ports.into_iter().zip(inputs).collect();
        match self.elements.elements.get_mut(&router) {
            Some(element) => (element.table, element.ports) = (table, ports),
            None => {
                let edge = Rules::new(RULES_MAX, self.elements.secret, self.now);
                let element = Element {
                    table,
                    ports,
                    edge,
                    shapers: Shapers::default(),
                    wake: Instant::FAR_FUTURE,
                };
                self.elements.elements.insert(router, element);
            }
        }
        Ok(())
    }

    /// The table of an FE.
    pub fn table(&self, router: NodeId) -> Option<&Table> {
        let element = self.elements.elements.get(&router)?;
        Some(&element.table)
    }

    /// The encapsulation rules of an FE.
    pub fn edge(&self, router: NodeId) -> Option<&Rules> {
        let element = self.elements.elements.get(&router)?;
        Some(&element.edge)
    }

    /// The counters of the packets that wait for the rate of a row.
    pub fn shaped(&self, router: NodeId, row: u32) -> QueueCounters {
        let element = self.elements.elements.get(&router);
        element.map_or_else(QueueCounters::default, |element| element.shapers.books(row))
    }

    /// The encapsulation rules of an FE, for changes.
    pub fn edge_mut(&mut self, router: NodeId) -> Option<&mut Rules> {
        let element = self.elements.elements.get_mut(&router)?;
        Some(&mut element.edge)
    }

    /// From this FE on, packets with this key go to this host, and this endpoint receives them.
    pub(crate) fn deliver(&mut self, from: NodeId, key: &FlowKey, to: (NodeId, EndpointId)) {
        let onward = Onward {
            first_hop: self.hops_from(from, false, to.0, key),
            to: Some(to.1),
        };
        self.elements.onward.insert((from, *key), onward);
    }

    /// The first hop to the address of a group: only an encapsulation rule of the first router leads further.
    pub(crate) fn hops_to_group(&mut self) -> Hop {
        self.hops.keep_nowhere()
    }

    /// Handles a frame at an FE. `over` is the port that sent it there.
    #[cold]
    #[inline(never)]
    pub(crate) fn handle_at_element(&mut self, over: PortId, frame: Frame) {
        match self.elements.header_len(&frame) {
            0 => self.handle_at_edge(over, frame, None),
            _ => self.forward(over, frame, 1),
        }
    }

    /// Handles a packet without a header: it gets a header, waits for the rate of its path, or continues by IP.
    /// `released` is the row whose rate it has waited for.
    fn handle_at_edge(&mut self, over: PortId, frame: Frame, released: Option<u32>) {
        match self.encapsulate(over, frame, released) {
            Ok(Entry::AnalyticFifo) => self.go_on(over, frame, frame.hop.next()),
            Ok(Entry::Headers(headers)) => self.copy(over, frame, &headers, 0),
            Ok(Entry::Wait) => {}
            Err(reason) => self.discard(over, &frame, reason),
        }
    }

    /// Forwards the packets that have waited for the rates of their paths, by the current rules.
    pub(crate) fn release(&mut self, router: NodeId) {
        if let Some(element) = self.elements.elements.get_mut(&router) {
            element.wake = Instant::FAR_FUTURE;
        }
        while let Some(element) = self.elements.elements.get_mut(&router)
            && let Some(released) = element.shapers.next(self.now)
        {
            let (over, frame) = released.packet;
            self.handle_at_edge(over, frame, Some(released.row));
        }
        self.wake_for_release(router);
    }

    fn wake_for_release(&mut self, router: NodeId) {
        if let Some(element) = self.elements.elements.get_mut(&router)
            && let Some(due) = element.shapers.due()
            && due < element.wake
        {
            element.wake = due;
            self.events.push(due, Event::Release(router).into());
        }
    }

    /// Applies the encapsulation rules to a packet without a header.
    fn encapsulate(
        &mut self,
        over: PortId,
        frame: Frame,
        released: Option<u32>,
    ) -> Result<Entry, Reason> {
        let router = self.wires[over.0 as usize].to;
        let Some(element) = self.elements.elements.get_mut(&router) else {
            return Ok(Entry::AnalyticFifo);
        };
        let edge = &mut element.edge;
        if edge.due().is_some_and(|due| due <= self.now) {
            edge.expire(self.now, &mut self.elements.expired);
            self.elements.expired.clear();
        }
        let key = self.flights.keys.key_at(frame.slot);
        let subject = Subject {
            key,
            hash: self.flights.keys.hash_key(key),
            has_ports: true, // there are no fragments
            ethertype: match key.source_ip() {
                Some(address) if address.is_ipv6() => EtherType::IPV6,
                _ => EtherType::IPV4,
            },
        };
        let Some(found) = edge.find(&subject) else {
            return Ok(Entry::AnalyticFifo);
        };
        let (row, _) = edge.name(found);
        if released != Some(row)
            && let Some(shape) = edge.shape(found)
        {
            let bytes = frame.len.into();
            let offered = element
                .shapers
                .offer(row, shape, (over, frame), bytes, self.now);
            offered.map_err(|_| Reason::FpfQueueFull)?;
            self.wake_for_release(router);
            return Ok(Entry::Wait);
        }
        edge.hit(found, frame.len.into(), self.now)?;
        let headers = edge.headers(found, subject.hash);
        Ok(Entry::Headers(headers.to_vec()))
    }

    /// Handles a packet with a header; `nested` counts the decisions about it at this FE, including this one.
    pub(super) fn forward(&mut self, over: PortId, frame: Frame, nested: u8) {
        match self.decide(over, &frame) {
            Step::Send(port, queue, index) => {
                if let Some(header) = self.elements.headers.get_mut(frame.slot.0 as usize) {
                    View::new_unchecked(&mut header[..]).set_index(index);
                }
                self.offer(port, Frame { queue, ..frame });
            }
            Step::Copy(_) if nested >= NESTED_MAX => {
                self.discard(over, &frame, Reason::FpfNested);
            }
            Step::Copy(headers) => self.copy(over, frame, &headers, nested),
            Step::Process(number, leaves) => self.process(over, frame, number, &leaves, nested),
            Step::Strip(port) => self.strip(over, frame, port),
            Step::Drop(reason) => self.discard(over, &frame, reason),
        }
    }

    fn decide(&self, over: PortId, frame: &Frame) -> Step {
        let router = self.wires[over.0 as usize].to;
        let Some(element) = self.elements.elements.get(&router) else {
            return Step::Drop(Reason::NotIp); // like a router without FPF
        };
        let header = &self.elements.headers[frame.slot.0 as usize];
        let lid_size = element.table.domain().lid_size();
        let decision = parse(header, lid_size)
            .and_then(|header| decide(&element.table, element.input(over), &header));
        let first = |vector: &Vector| Repr::first(*vector);
        match decision {
            Ok(Decision::Forward(hop, index)) => {
                Step::Send(element.port(hop.interface), hop.queue, index)
            }
            Ok(Decision::Multicast(leaves)) => Step::Copy(leaves.iter().map(first).collect()),
            Ok(Decision::Process(processing)) => {
                let leaves = processing.leaves.iter().map(first).collect();
                Step::Process(processing.processor, leaves)
            }
            Ok(Decision::Decapsulate(Inner::Ip)) => Step::Strip(None),
            Ok(Decision::Decapsulate(Inner::Frame(_, hop))) => {
                Step::Strip(Some(element.port(hop.interface)))
            }
            Ok(Decision::Redirect) => Step::Drop(Reason::FpfRule),
            Err(reason) => Step::Drop(reason),
        }
    }

    /// Sends a copy of a packet with each of these headers.
    fn copy(&mut self, over: PortId, frame: Frame, headers: &[Repr], nested: u8) {
        for (place, header) in headers.iter().enumerate() {
            let mut copy = frame;
            // The last copy is the packet itself.
            if place + 1 < headers.len() {
                copy.slot = self.flights.duplicate(frame.slot);
                copy.len -= self.elements.header_len(&frame);
            }
            self.elements.put(&mut copy, header);
            self.forward(over, copy, nested + 1);
        }
    }

    /// Removes the header: the packet continues by IP, from here or from the other end of this port's link.
    fn strip(&mut self, over: PortId, mut frame: Frame, port: Option<PortId>) {
        self.elements.remove_header(&mut frame);
        frame.queue = Queue::default();
        if !self.restore(&mut frame) {
            return self.discard(over, &frame, Reason::FpfPayload);
        }
        let here = self.wires[over.0 as usize].to;
        let from = port.map_or(here, |port| self.wires[port.0 as usize].to);
        let key = *self.flights.keys.key_at(frame.slot);
        let onward = match self.elements.onward.get(&(from, key)) {
            Some(onward) => Some(*onward),
            None => self.find_onward(from, &key),
        };
        let Some(onward) = onward else {
            return self.discard(over, &frame, Reason::NoRoute);
        };
        if let Some(to) = onward.to {
            self.flights.readdress(frame.slot, to);
        }
        match port {
            Some(port) => {
                let hop = onward.first_hop;
                self.offer(port, Frame { hop, ..frame });
            }
            None => self.go_on(over, frame, onward.first_hop),
        }
    }

    /// Finds the rest of a flow's path to the host that has its destination address, and stores it.
    fn find_onward(&mut self, from: NodeId, key: &FlowKey) -> Option<Onward> {
        let to = self.host_of(key)?;
        let onward = Onward {
            first_hop: self.hops_from(from, false, to, key),
            to: None,
        };
        self.elements.onward.insert((from, *key), onward);
        Some(onward)
    }

    /// Forwards a packet without a header by IP.
    fn go_on(&mut self, over: PortId, frame: Frame, hop: Hop) {
        match self.hops.port(hop) {
            Some(port) => {
                let hop = hop.next();
                self.offer(port, Frame { hop, ..frame });
            }
            None => self.discard(over, &frame, Reason::NoRoute),
        }
    }

    /// The host that has the destination address of a key.
    fn host_of(&self, key: &FlowKey) -> Option<NodeId> {
        let is = |address: IpAddr| {
            let of = FlowKey::ip(address, address, 0, 0, 0);
            (of.family, of.destination) == (key.family, key.destination)
        };
        let has_it =
            |node: &Node| node.uplink.is_some() && (is(node.v4.into()) || is(node.v6.into()));
        let place = self.nodes.iter().position(has_it)?;
        Some(NodeId(place as u32))
    }
}

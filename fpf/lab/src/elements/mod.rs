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
//! - A packet whose header was removed continues by IP from there. The encapsulation rules of that FE do not apply to
//!   it again.
//! - Redirected packets are dropped: no control element receives them.
//! - There is no MTU: the header makes a packet longer, and no link refuses it.
//! - A drop counts at the link through which the packet arrived.
//!
//! - [`process`]: the processors of routers

mod process;

use std::collections::HashMap;

use weir_base::Instant;
use weir_fpf_path::edge::filter::Subject;
use weir_fpf_path::edge::rule::Listed;
use weir_fpf_path::edge::rules::Rules;
use weir_fpf_path::edge::shaper::{QueueCounters, Shapers};
use weir_fpf_path::forward::{Decision, NESTED_MAX, decide, onward, parse};
use weir_fpf_path::header::{Repr, Vector, View};
use weir_fpf_path::process::{Processor, ProcessorId};
use weir_fpf_path::table::Input;
use weir_fpf_path::{Inner, InterfaceId, Table};
use weir_packet::{FlowKey, Queue, Reason, Shared, Slot};
use weir_sim::flight::Flight;
use weir_sim::layer::{Frame, Hop, Layer};
use weir_sim::{EndpointId, Fabric, NetworkError, NodeId, PortId};
use weir_wire::EtherType;

use self::process::Processors;

/// Maximum encapsulation rules of an FE.
const RULES_MAX: usize = 1 << 16;

/// The FEs of a network, and the headers of packets in flight.
#[derive(Debug, Default)]
pub(crate) struct Elements {
    /// FEs by router.
    elements: HashMap<NodeId, Element>,
    processors: Processors,
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
    fn new(secret: (u64, u64)) -> Self {
        Self {
            secret,
            ..Self::default()
        }
    }

    fn header_len(&self, frame: &Frame) -> u32 {
        self.headers
            .get(frame.slot.0 as usize)
            .map_or(0, |header| header.len() as u32)
    }

    /// Adds a header to a packet, in place of its current header.
    fn put(&mut self, frame: &mut Frame, repr: &Repr) {
        frame.len = frame.len + repr.encoded_len() as u32 - self.header_len(frame);
        let place = frame.slot.0 as usize;
        if self.headers.len() <= place {
            self.headers.resize(place + 1, Vec::new());
        }
        let header = &mut self.headers[place];
        header.clear();
        header.resize(repr.encoded_len(), 0);
        repr.emit(&mut View::new_unchecked(&mut header[..]));
        frame.hop = Hop::LAYER;
    }

    /// The header of a packet that continues with its own vector after a processor of this router.
    fn own_header(&self, router: NodeId, frame: &Frame) -> Option<Repr> {
        let header = &self.headers.get(frame.slot.0 as usize)?[..];
        let header = Repr::parse(&View::new_checked(header).ok()?).ok()?;
        onward(
            &header,
            self.elements.get(&router)?.table.domain().lid_size(),
        )
    }

    /// Removes the header of a packet.
    fn remove_header(&mut self, frame: &mut Frame) {
        frame.len -= self.header_len(frame);
        if let Some(header) = self.headers.get_mut(frame.slot.0 as usize) {
            header.clear();
        }
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

/// The forwarding elements of a fabric.
pub trait FabricExt {
    /// Makes a router an FE, or replaces its table. `ports` are those of the table's interfaces, by number. IP packets
    /// pass the encapsulation rules of all FEs that exist when their flow is created.
    fn set_table(
        &mut self,
        router: NodeId,
        table: Table,
        ports: Vec<PortId>,
    ) -> Result<(), NetworkError>;

    /// The table of an FE.
    fn table(&self, router: NodeId) -> Option<&Table>;

    /// The encapsulation rules of an FE.
    fn edge(&self, router: NodeId) -> Option<&Rules>;

    /// The counters of the packets that wait for the rate of a row.
    fn shaped(&self, router: NodeId, row: u32) -> QueueCounters;

    /// The encapsulation rules of an FE, for changes.
    fn edge_mut(&mut self, router: NodeId) -> Option<&mut Rules>;

    /// Adds a processor to an FE; the rules with its number hand it packets.
    fn set_processor(&mut self, router: NodeId, number: ProcessorId, processor: Box<dyn Processor>);

    /// A processor of an FE.
    fn processor(&self, router: NodeId, number: ProcessorId) -> Option<&dyn Processor>;
}

impl FabricExt for Fabric {
    fn set_table(
        &mut self,
        router: NodeId,
        table: Table,
        ports: Vec<PortId>,
    ) -> Result<(), NetworkError> {
        debug_assert_eq!(table.interfaces().len(), ports.len());
        for port in &ports {
            let port = self.port(*port);
            if !port.takes_time() {
                let name = |node: NodeId| self.name(node).to_owned();
                return Err(NetworkError::NoTime(name(router), name(port.to())));
            }
        }
        let inputs = table.interfaces().iter();
        let inputs = inputs.map(|interface| table.find(interface).map(|id| table.input(id)));
        let ports = ports.into_iter().zip(inputs).collect();
        self.add_to_layer(router);
        let now = self.now();
        let elements = elements(self);
        match elements.elements.get_mut(&router) {
            Some(element) => (element.table, element.ports) = (table, ports),
            None => {
                let edge = Rules::new(RULES_MAX, elements.secret, now);
                let element = Element {
                    table,
                    ports,
                    edge,
                    shapers: Shapers::default(),
                    wake: Instant::FAR_FUTURE,
                };
                elements.elements.insert(router, element);
            }
        }
        Ok(())
    }

    fn table(&self, router: NodeId) -> Option<&Table> {
        element(self, router).map(|element| &element.table)
    }

    fn edge(&self, router: NodeId) -> Option<&Rules> {
        element(self, router).map(|element| &element.edge)
    }

    fn shaped(&self, router: NodeId, row: u32) -> QueueCounters {
        let element = element(self, router);
        element.map_or_else(QueueCounters::default, |element| element.shapers.books(row))
    }

    fn edge_mut(&mut self, router: NodeId) -> Option<&mut Rules> {
        let element = elements(self).elements.get_mut(&router)?;
        Some(&mut element.edge)
    }

    fn set_processor(
        &mut self,
        router: NodeId,
        number: ProcessorId,
        processor: Box<dyn Processor>,
    ) {
        elements(self).processors.set((router, number), processor);
    }

    fn processor(&self, router: NodeId, number: ProcessorId) -> Option<&dyn Processor> {
        self.layer::<Elements>()?.processors.get((router, number))
    }
}

/// The FEs of a fabric, which has none at first.
fn elements(fabric: &mut Fabric) -> &mut Elements {
    let secret = fabric.secret();
    fabric.layer_or(|| Elements::new(secret))
}

fn element(fabric: &Fabric, router: NodeId) -> Option<&Element> {
    fabric.layer::<Elements>()?.elements.get(&router)
}

impl Layer for Elements {
    #[cold]
    fn handle(&mut self, fabric: &mut Fabric, over: PortId, frame: Frame) {
        match self.header_len(&frame) {
            0 => self.handle_at_edge(fabric, over, frame, None),
            _ => self.forward(fabric, over, frame, 1),
        }
    }

    /// Forwards the packets that have waited for the rates of their paths, by the current rules.
    fn release(&mut self, fabric: &mut Fabric, router: NodeId) {
        if let Some(element) = self.elements.get_mut(&router) {
            element.wake = Instant::FAR_FUTURE;
        }
        while let Some(element) = self.elements.get_mut(&router)
            && let Some(released) = element.shapers.next(fabric.now())
        {
            let (over, frame) = released.packet;
            self.handle_at_edge(fabric, over, frame, Some(released.row));
        }
        self.wake_for_release(fabric, router);
    }

    /// Forgets the header and the bytes of a packet.
    #[inline]
    fn forget(&mut self, slot: Slot) {
        if let Some(header) = self.headers.get_mut(slot.0 as usize) {
            header.clear();
        }
        self.processors.forget(slot);
    }

    fn deliver(&mut self, from: NodeId, key: FlowKey, first_hop: Hop, to: EndpointId) {
        let to = Some(to);
        self.onward.insert((from, key), Onward { first_hop, to });
    }

    fn know_chunks(&mut self, key: FlowKey, flight: Flight, shared: Shared) {
        self.processors.know_chunks(key, flight, shared);
    }
}

impl Elements {
    fn offer(&mut self, fabric: &mut Fabric, port: PortId, frame: Frame) {
        if !fabric.offer(port, frame) {
            self.forget(frame.slot);
        }
    }

    fn discard(&mut self, fabric: &mut Fabric, port: PortId, frame: &Frame, reason: Reason) {
        fabric.discard(port, frame, reason);
        self.forget(frame.slot);
    }

    /// Handles a packet without a header: it gets a header, waits for the rate of its path, or continues by IP.
    /// `released` is the row whose rate it has waited for.
    fn handle_at_edge(
        &mut self,
        fabric: &mut Fabric,
        over: PortId,
        frame: Frame,
        released: Option<u32>,
    ) {
        match self.encapsulate(fabric, over, frame, released) {
            Ok(Entry::AnalyticFifo) => self.go_on(fabric, over, frame, frame.hop.next()),
            Ok(Entry::Headers(headers)) => self.copy(fabric, over, frame, &headers, 0),
            Ok(Entry::Wait) => {}
            Err(reason) => self.discard(fabric, over, &frame, reason),
        }
    }

    fn wake_for_release(&mut self, fabric: &mut Fabric, router: NodeId) {
        if let Some(element) = self.elements.get_mut(&router)
            && let Some(due) = element.shapers.due()
            && due < element.wake
        {
            element.wake = due;
            fabric.schedule_release(due, router);
        }
    }

    /// Applies the encapsulation rules to a packet without a header.
    fn encapsulate(
        &mut self,
        fabric: &mut Fabric,
        over: PortId,
        frame: Frame,
        released: Option<u32>,
    ) -> Result<Entry, Reason> {
        let router = fabric.port(over).to();
        let Some(element) = self.elements.get_mut(&router) else {
            return Ok(Entry::AnalyticFifo);
        };
        let edge = &mut element.edge;
        if edge.due().is_some_and(|due| due <= fabric.now()) {
            edge.expire(fabric.now(), &mut self.expired);
            self.expired.clear();
        }
        let key = fabric.flights().keys().key_at(frame.slot);
        let subject = Subject {
            key,
            hash: fabric.flights().keys().hash_key(key),
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
                .offer(row, shape, (over, frame), bytes, fabric.now());
            offered.map_err(|_| Reason::FpfQueueFull)?;
            self.wake_for_release(fabric, router);
            return Ok(Entry::Wait);
        }
        edge.hit(found, frame.len.into(), fabric.now())?;
        let headers = edge.headers(found, subject.hash);
        Ok(Entry::Headers(headers.to_vec()))
    }

    /// Handles a packet with a header; `nested` counts the decisions about it at this FE, including this one.
    fn forward(&mut self, fabric: &mut Fabric, over: PortId, frame: Frame, nested: u8) {
        match self.decide(fabric, over, &frame) {
            Step::Send(port, queue, index) => {
                if let Some(header) = self.headers.get_mut(frame.slot.0 as usize) {
                    View::new_unchecked(&mut header[..]).set_index(index);
                }
                self.offer(fabric, port, Frame { queue, ..frame });
            }
            Step::Copy(_) if nested >= NESTED_MAX => {
                self.discard(fabric, over, &frame, Reason::FpfNested);
            }
            Step::Copy(headers) => self.copy(fabric, over, frame, &headers, nested),
            Step::Process(number, leaves) => {
                self.process(fabric, over, frame, number, &leaves, nested)
            }
            Step::Strip(port) => self.strip(fabric, over, frame, port),
            Step::Drop(reason) => self.discard(fabric, over, &frame, reason),
        }
    }

    fn decide(&self, fabric: &Fabric, over: PortId, frame: &Frame) -> Step {
        let router = fabric.port(over).to();
        let Some(element) = self.elements.get(&router) else {
            return Step::Drop(Reason::NotIp); // like a router without FPF
        };
        let header = &self.headers[frame.slot.0 as usize];
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
    fn copy(
        &mut self,
        fabric: &mut Fabric,
        over: PortId,
        frame: Frame,
        headers: &[Repr],
        nested: u8,
    ) {
        for (place, header) in headers.iter().enumerate() {
            let mut copy = frame;
            // The last copy is the packet itself.
            if place + 1 < headers.len() {
                copy.slot = fabric.flights_mut().duplicate(frame.slot);
                copy.len -= self.header_len(&frame);
            }
            self.put(&mut copy, header);
            self.forward(fabric, over, copy, nested + 1);
        }
    }

    /// Removes the header: the packet continues by IP, from here or from the other end of this port's link.
    fn strip(&mut self, fabric: &mut Fabric, over: PortId, mut frame: Frame, port: Option<PortId>) {
        self.remove_header(&mut frame);
        frame.queue = Queue::default();
        if !self.restore(fabric, &mut frame) {
            return self.discard(fabric, over, &frame, Reason::FpfPayload);
        }
        let here = fabric.port(over).to();
        let from = port.map_or(here, |port| fabric.port(port).to());
        let key = *fabric.flights().keys().key_at(frame.slot);
        let onward = match self.onward.get(&(from, key)) {
            Some(onward) => Some(*onward),
            None => self.find_onward(fabric, from, &key),
        };
        let Some(onward) = onward else {
            return self.discard(fabric, over, &frame, Reason::NoRoute);
        };
        if let Some(to) = onward.to {
            fabric.flights_mut().readdress(frame.slot, to);
        }
        match port {
            Some(port) => {
                let hop = onward.first_hop;
                self.offer(fabric, port, Frame { hop, ..frame });
            }
            None => self.go_on(fabric, over, frame, onward.first_hop),
        }
    }

    /// Finds the rest of a flow's path to the host that has its destination address, and stores it.
    fn find_onward(&mut self, fabric: &mut Fabric, from: NodeId, key: &FlowKey) -> Option<Onward> {
        let to = fabric.host_of(key)?;
        let onward = Onward {
            first_hop: fabric.hops_from(from, false, to, key),
            to: None,
        };
        self.onward.insert((from, *key), onward);
        Some(onward)
    }

    /// Forwards a packet without a header by IP.
    fn go_on(&mut self, fabric: &mut Fabric, over: PortId, frame: Frame, hop: Hop) {
        match fabric.next_port(hop) {
            Some(port) => {
                let hop = hop.next();
                self.offer(fabric, port, Frame { hop, ..frame });
            }
            None => self.discard(fabric, over, &frame, Reason::NoRoute),
        }
    }
}

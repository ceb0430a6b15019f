//! The stages joined: from a received frame to a frame that a device may send.
//!
//! ```text
//!  receive(frame) -> parse -> classify -> forward --> Port::offer        one burst
//!                      \________ \________ \______
//!                                                 \__ fates.discard, perhaps an ICMP error
//!
//!  step(now)  -> Port::step -> outbox                                    then, for each port
//!  flush(port, device)  -> frames leave, slots return to the pool
//! ```
//!
//! A [`Plane`] is driven by one thread and owns everything that a packet touches, so nothing here
//! locks. A router with more threads has a plane for each, and hands packets between them by
//! rings.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Instant, Span, Streams, Tally};
use weir_discipline::Spec;
use weir_packet::{Ecn, Fates, Packet, Pool, Reason};

use crate::classify::{Classified, classify};
use crate::forward::{Exit, Neighbourhood, Origin, Verdict, forward};
use crate::fragment;
use crate::icmp_error::{self, ErrorBudget, IcmpCause};
use crate::parse::{Ended, Headers, Ingress, Mode, Parsed, parse};
use crate::port::{Link, Port};
use crate::rewrite;
use crate::tables::Tables;
use crate::waiting::{Held, Wait, Waiting};

/// What is known of a received frame beside its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it came in.
    pub at: Instant,
    /// Its length on the link; more than there are bytes if a receive ring cut it.
    pub len: u32,
    /// The 802.1Q tag control information, if it was tagged.
    pub vlan: Option<u16>,
    /// Its transport checksum is still to be finished.
    pub checksum_partial: bool,
}

/// Frames that are ready for a device but that it has not taken.
const OUTBOX_MAX: usize = 256;
/// Frames that are offered to a device at once.
const FLUSH_MAX: usize = 64;

/// A neighbour that did not answer is asked again, but no more often than this (whoever floods an
/// address that nobody has must not keep the control side busy).
const ASK_AGAIN: Span = Span::from_millis(100);

const ROUTED: Ingress = Ingress {
    mode: Mode::Routed,
    mac: None, // the device has looked already
};
const BRIDGED: Ingress = Ingress {
    mode: Mode::Bridged,
    mac: None,
};

/// A port of the plane.
pub struct PlanePort {
    /// Name in the configuration.
    pub name: String,
    /// Name of the interface.
    pub interface: String,
    /// Discipline and link.
    pub port: Port,
    /// Received by it.
    pub received: Tally,
    /// Sent by the kernel itself, and charged to it.
    pub charged: Tally,
    index: Option<u32>,
    outbox: VecDeque<Packet>,
}

/// Everything that a packet touches, driven by one thread.
pub struct Plane {
    mode: Mode,
    pool: Pool,
    fates: Fates,
    ports: Vec<PlanePort>,
    tables: Arc<Tables>,
    waiting: Waiting,
    errors: ErrorBudget,
    questions: Vec<Neighbourhood>,
    ask_again_at: Instant,
    streams: Streams,
}

impl Plane {
    /// A plane without ports, for at most `packets` packets of `frame_bytes_max` bytes.
    pub fn new(mode: Mode, packets: usize, frame_bytes_max: usize, streams: Streams) -> Self {
        let secret = streams.hash_key("flow-hash");
        Self {
            mode,
            pool: Pool::new(packets, frame_bytes_max, secret),
            fates: Fates::default(),
            ports: Vec::new(),
            tables: Arc::default(),
            waiting: Waiting::default(),
            errors: ErrorBudget::default(),
            questions: Vec::new(),
            ask_again_at: Instant::ZERO,
            streams,
        }
    }

    /// Adds a port at the end and gives its number.
    pub fn add_port(
        &mut self,
        name: &str,
        interface: &str,
        spec: Spec,
        link: Link,
        now: Instant,
    ) -> usize {
        let streams = self.streams.below("port").below(name);
        self.ports.push(PlanePort {
            name: name.to_owned(),
            interface: interface.to_owned(),
            port: Port::new(spec, link, now, &streams),
            received: Tally::ZERO,
            charged: Tally::ZERO,
            index: None,
            outbox: VecDeque::with_capacity(OUTBOX_MAX),
        });
        self.find_indices();
        self.ports.len() - 1
    }

    /// Removes a port; the ones behind it move up by one. What it holds ends.
    pub fn remove_port(&mut self, number: usize, reason: Reason) {
        let mut gone = self.ports.remove(number);
        gone.port.shut_down(&mut self.fates, reason);
        for packet in gone.outbox.drain(..) {
            self.fates.discard(packet, reason);
        }
        self.reclaim();
    }

    /// Puts a discipline and a link in force at a port, without losing what it holds.
    pub fn reconfigure_port(&mut self, number: usize, spec: Spec, link: Link) {
        let slot = &mut self.ports[number];
        let streams = self.streams.below("port").below(&slot.name);
        let (keys, fates) = (&self.pool.keys, &mut self.fates);
        slot.port.reconfigure(spec, link, keys, fates, &streams);
        self.reclaim();
    }

    /// Takes a new snapshot of routes and neighbours, and sends on what waited for it.
    pub fn set_tables(&mut self, tables: Arc<Tables>, now: Instant) {
        self.tables = tables;
        self.find_indices();
        let tables = Arc::clone(&self.tables);
        for held in self.waiting.answered(|n| tables.neighbours.contains_key(n)) {
            self.send_on(held, now);
        }
        self.reclaim();
    }

    /// Takes a received frame in and carries it up to its egress port's queue.
    pub fn receive(&mut self, ingress: usize, frame: &[u8], arrival: Arrival) {
        let received = u64::from(arrival.len);
        self.ports[ingress].received.count(received);
        if frame.len() < arrival.len as usize || frame.len() > self.pool.frame_bytes_max() {
            self.fates.count_frame(received, Reason::TruncatedFrame);
            return;
        }
        let Some(packet) = self.pool.receive(frame, arrival.at) else {
            self.fates.count_frame(received, Reason::PoolExhausted);
            return;
        };
        match self.mode {
            Mode::Routed => self.route(ingress, packet, &arrival),
            Mode::Bridged => self.bridge(ingress, packet, &arrival),
        }
        self.reclaim();
    }

    /// Charges a port for a frame that the kernel itself sent out of its interface.
    pub fn charge(&mut self, number: usize, bytes: u32) {
        let slot = &mut self.ports[number];
        slot.charged.count(u64::from(bytes));
        slot.port.charge(u64::from(bytes));
    }

    /// Lets every port do what has become due. Gives the time of the next event, if one is known.
    pub fn step(&mut self, now: Instant) -> Option<Instant> {
        for held in self.waiting.expired(now) {
            let Classified { packet, headers } = held.packet;
            let notify = told(held.origin, headers, Some(IcmpCause::HostUnreachable));
            self.end(held.ingress, packet, Reason::NeighbourFailed, notify, now);
        }
        let mut next = self.waiting.deadline();
        for slot in &mut self.ports {
            let room = OUTBOX_MAX - slot.outbox.len();
            let (keys, fates) = (&self.pool.keys, &mut self.fates);
            let outbox = &mut slot.outbox;
            let due = slot.port.step(now, keys, fates, room, &mut |packet, _| {
                outbox.push_back(packet);
            });
            for packet in slot.outbox.range(OUTBOX_MAX - room..) {
                if packet.ecn == Ecn::Congested {
                    rewrite::mark_congestion(self.pool.frame_mut(packet));
                }
            }
            next = [next, due].into_iter().flatten().min();
        }
        self.reclaim();
        next
    }

    /// Offers the waiting frames of a port to its device, which says how many of them it took.
    /// Whether frames are left.
    pub fn flush<E>(
        &mut self,
        number: usize,
        mut send: impl FnMut(&[&[u8]]) -> Result<usize, E>,
    ) -> Result<bool, E> {
        while !self.ports[number].outbox.is_empty() {
            let outbox = &mut self.ports[number].outbox;
            let offered = outbox.len().min(FLUSH_MAX);
            let mut frames: [&[u8]; FLUSH_MAX] = [&[]; FLUSH_MAX];
            for (frame, packet) in frames.iter_mut().zip(outbox.iter()) {
                *frame = self.pool.frame(packet);
            }
            let taken = send(&frames[..offered])?;
            for packet in outbox.drain(..taken) {
                self.pool.release(packet);
            }
            if taken < offered {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends the frames of a port whose device is gone.
    pub fn discard_outbox(&mut self, number: usize) {
        for packet in self.ports[number].outbox.drain(..) {
            self.fates.discard(packet, Reason::DeviceDown);
        }
        self.reclaim();
    }

    /// Ends everything that is held: the router stops.
    pub fn shut_down(&mut self) {
        for held in self.waiting.drain() {
            self.fates.discard(held.packet.packet, Reason::Shutdown);
        }
        while let Some(last) = self.ports.len().checked_sub(1) {
            self.remove_port(last, Reason::Shutdown);
        }
    }

    /// The neighbours that forwarding has asked for since the last call.
    pub fn questions(&mut self) -> std::vec::Drain<'_, Neighbourhood> {
        self.questions.drain(..)
    }

    /// The ports, by number.
    pub fn ports(&self) -> &[PlanePort] {
        &self.ports
    }

    /// The snapshot that is in force.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The books.
    pub fn fates(&self) -> &Fates {
        &self.fates
    }

    /// Packets that wait for a neighbour.
    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// The limit on ICMP errors, with its counters.
    pub fn errors(&self) -> &ErrorBudget {
        &self.errors
    }

    /// Whether the interface of a port is up, as far as the tables say.
    pub fn is_up(&self, number: usize) -> bool {
        self.ports[number]
            .index
            .and_then(|index| self.tables.interfaces.get(&index))
            .is_some_and(|interface| interface.up)
    }

    /// How frames get from port to port.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    fn route(&mut self, ingress: usize, packet: Packet, arrival: &Arrival) {
        if arrival.vlan.is_some_and(|tci| tci & 0x0fff != 0) {
            self.fates.discard(packet, Reason::UnknownVlan);
            return;
        }
        match parse(&mut self.pool, packet, &ROUTED) {
            Ok(parsed) => {
                self.finish_checksum(&parsed, arrival);
                let held = Held {
                    packet: classify(&mut self.pool, parsed),
                    ingress,
                    origin: Origin::Transit,
                };
                self.send_on(held, arrival.at);
            }
            Err(Ended {
                packet,
                reason,
                notify,
            }) => self.end(ingress, packet, reason, notify, arrival.at),
        }
    }

    fn bridge(&mut self, ingress: usize, packet: Packet, arrival: &Arrival) {
        let mut packet = match parse(&mut self.pool, packet, &BRIDGED) {
            Ok(parsed) => {
                self.finish_checksum(&parsed, arrival);
                classify(&mut self.pool, parsed).packet
            }
            Err(Ended { packet, reason, .. }) => {
                self.fates.discard(packet, reason);
                return;
            }
        };
        let tagged = arrival
            .vlan
            .is_none_or(|tci| rewrite::insert_tag(&mut self.pool, &mut packet, tci));
        match (ingress, self.ports.len()) {
            (0 | 1, 2) if tagged => self.ports[1 - ingress].port.offer(packet),
            (0 | 1, 2) => {
                self.fates.discard(packet, Reason::TruncatedFrame);
            }
            _ => {
                self.fates.discard(packet, Reason::NotAPort);
            }
        }
    }

    /// Finishes a transport checksum that the sender left to hardware. Where there is nothing to
    /// finish (no such protocol, a fragment) the packet goes on as it is.
    fn finish_checksum(&mut self, parsed: &Parsed, arrival: &Arrival) {
        if !arrival.checksum_partial || !parsed.headers.is_ip() {
            return;
        }
        let frame = self.pool.frame_mut(&parsed.packet);
        if let Some(packet) = frame.get_mut(parsed.headers.l3_range()) {
            let _nothing_to_finish = weir_wire::checksum::finish_transport(packet);
        }
    }

    /// Forwards a classified packet; also after it has waited.
    fn send_on(&mut self, held: Held, now: Instant) {
        let Held {
            packet: Classified { packet, headers },
            ingress,
            origin,
        } = held;
        let hash = self.pool.keys.hash(&packet, weir_packet::KeyKind::Flow);
        match forward(&self.tables, &headers, hash, origin) {
            Verdict::Send(exit) => self.send(packet, &headers, exit, origin),
            Verdict::Fragment(exit, mtu) => {
                self.send_fragments(packet, &headers, exit, mtu, origin)
            }
            Verdict::Wait(neighbour) => {
                let packet = Classified { packet, headers };
                let held = Held {
                    packet,
                    ingress,
                    origin,
                };
                match self.waiting.push(now, neighbour, held) {
                    Wait::First => self.questions.push(neighbour),
                    Wait::Joined => {}
                    Wait::Full(held) => {
                        let packet = held.packet.packet;
                        self.fates.discard(packet, Reason::NeighbourQueueFull);
                    }
                }
            }
            Verdict::Failed(neighbour) => {
                if now >= self.ask_again_at {
                    self.ask_again_at = now + ASK_AGAIN;
                    self.questions.push(neighbour);
                }
                let notify = told(origin, headers, Some(IcmpCause::HostUnreachable));
                self.end(ingress, packet, Reason::NeighbourFailed, notify, now);
            }
            Verdict::End(reason, cause) => {
                self.end(ingress, packet, reason, told(origin, headers, cause), now);
            }
        }
    }

    /// Rewrites a packet's headers and offers it to the port it leaves by.
    fn send(&mut self, packet: Packet, headers: &Headers, exit: Exit, origin: Origin) {
        let Some(port) = self.port_of(exit.interface) else {
            self.fates.discard(packet, Reason::NotAPort);
            return;
        };
        let frame = self.pool.frame_mut(&packet);
        if origin == Origin::Transit {
            rewrite::decrement_ttl(frame, headers);
        }
        rewrite::set_macs(frame, exit.destination, exit.source);
        self.ports[port].port.offer(packet);
    }

    fn send_fragments(
        &mut self,
        packet: Packet,
        headers: &Headers,
        exit: Exit,
        mtu: u32,
        origin: Origin,
    ) {
        if origin == Origin::Transit {
            rewrite::decrement_ttl(self.pool.frame_mut(&packet), headers);
        }
        let mut fragments = Vec::new();
        let made = fragment::fragment(&mut self.pool, &packet, headers, mtu, &mut |fragment| {
            fragments.push(fragment);
        });
        for fragment in fragments {
            self.send(fragment, headers, exit, Origin::Router); // its TTL is right already
        }
        match made {
            Ok(()) => self.pool.release(packet),
            Err(reason) => {
                self.fates.discard(packet, reason);
            }
        }
    }

    /// Ends a packet; its sender may be told why.
    fn end(
        &mut self,
        ingress: usize,
        packet: Packet,
        reason: Reason,
        notify: Option<(Headers, IcmpCause)>,
        now: Instant,
    ) {
        if let Some((headers, cause)) = notify
            && let Some(from) = self.error_source(ingress, headers.source)
            && let Some(error) = icmp_error::build(
                &mut self.pool,
                &mut self.errors,
                &packet,
                &headers,
                cause,
                from,
                now,
            )
        {
            let held = Held {
                packet: classify(&mut self.pool, error),
                ingress,
                origin: Origin::Router,
            };
            self.send_on(held, now);
        }
        self.fates.discard(packet, reason);
    }

    /// The address that an ICMP error comes from: that of the port where the offender came in
    /// (RFC 1812, section 4.3.2.4), or of any other port if that one has none.
    fn error_source(&self, ingress: usize, to: IpAddr) -> Option<IpAddr> {
        let own = self.ports[ingress].index;
        let all = self.ports.iter().map(|p| p.index);
        [own]
            .into_iter()
            .chain(all)
            .flatten()
            .filter_map(|index| self.tables.interfaces.get(&index))
            .find_map(|interface| interface.address_for(to))
    }

    fn port_of(&self, interface: u32) -> Option<usize> {
        self.ports.iter().position(|p| p.index == Some(interface))
    }

    fn find_indices(&mut self) {
        for slot in &mut self.ports {
            slot.index = self
                .tables
                .interfaces
                .iter()
                .find(|(_, interface)| interface.name == slot.interface)
                .map(|(index, _)| *index);
        }
    }

    fn reclaim(&mut self) {
        self.pool.reclaim(self.fates.freed());
    }
}

/// Whom to tell: nobody about our own errors (RFC 1812, section 4.3.2.7).
fn told(
    origin: Origin,
    headers: Headers,
    cause: Option<IcmpCause>,
) -> Option<(Headers, IcmpCause)> {
    let cause = cause.filter(|_| origin == Origin::Transit)?;
    Some((headers, cause))
}

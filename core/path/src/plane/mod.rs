//! Everything that a packet touches, owned in one place: pool, counters, ports, tables.
//!
//! One thread drives a plane, so the plane needs no locks. A router with more threads has a plane for each, and passes
//! packets between them through rings. [`step`] and `layers` move packets through the plane, `redirect` to and from a
//! control element, and `local` to and from processes of this machine; this file adds, changes and removes ports.

pub mod deferred;
pub mod filter;
mod layers;
mod local;
pub mod observe;
pub mod overlay;
mod redirect;
mod round_trips;
mod shared;
pub mod step;
mod superframes;
pub mod watch;

use std::collections::VecDeque;
use std::sync::Arc;

use weir_base::{Instant, Rate, Streams, Tally};
use weir_discipline::Spec;
use weir_packet::{Direction, DropCounters, FlowKey, Packet, Pool, Reason, Slot};
use weir_wire::EtherType;

use crate::egress::Exit;
use crate::egress::port::{Link, Port};
use crate::exception::Exceptions;
use crate::ip::error_budget::ErrorBudget;
use crate::ip::next_hop_cache::NextHopCache;
use crate::ip::resolution::NeighbourRequest;
use crate::ip::source_check::Passed;
use crate::ip::tables::{BURST, Interface, NeighbourKey, SourceCheck, Tables};
use crate::ip::waiting::{Held, Waiting};
use crate::link::offload::Offload;
use crate::plane::deferred::Deferred;
use crate::plane::observe::{At, Batch, Events, Observers, TooMany};
use crate::plane::overlay::Overlay;
use crate::plane::round_trips::Measured;
use crate::plane::shared::SharedRate;
use crate::plane::step::Arrival;
use crate::plane::watch::{Fetched, Frame, PacketRecorder, Place, Sightings, Want, Watched};
use crate::talkers::Talkers;
use crate::translation::{ConnectionTracking, Side, Translations};

/// The network layer of a port: how frames that arrive at it are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By routes, as in a router (RFC 1812, RFC 8200). Frames leave through routed ports.
    Routed,
    /// To the other bridged port, as in a bump in the wire.
    Bridged,
    /// By the kernel, which lends its frames: each goes on through the port at which it arrived.
    Queue,
}

/// Maximum frames that are ready for a device but that the device has not taken yet.
pub(crate) const OUTBOX_MAX: usize = 256;

/// A port of the plane.
pub struct PlanePort {
    /// Name in the configuration.
    pub name: String,
    /// Current name of the interface: a renamed interface stays with its port.
    pub interface: String,
    /// Name of the interface in the configuration.
    pub configured_interface: String,
    /// Network layer of the port.
    pub mode: Mode,
    /// Discipline and link.
    pub port: Port,
    /// Packets and bytes received through the port.
    pub received: Tally,
    /// Packets and bytes that the kernel itself sent through the interface, which are charged to the port.
    pub charged: Tally,
    /// Packets and bytes that left the queue, but were dropped because the device disappeared before it took them.
    pub(crate) unsent: Tally,
    /// Index of the interface, while it exists.
    pub index: Option<u32>,
    /// Whether the port is about to be removed and accepts no more packets.
    pub closing: bool,
    /// Whether the port leads to processes of this machine instead of a link.
    pub(crate) is_local: bool,
    /// Source check of the port; `None` to use the kernel's setting.
    pub(crate) source_check: Option<SourceCheck>,
    /// Index in the list of watched ports; meaningless without a watch.
    pub(crate) watched: Option<u16>,
    /// Name of the port, for holders that outlive the port.
    pub(crate) label: Arc<str>,
    /// The side of a translation at which the port sees packets, if its flows have their addresses inside.
    pub translates: Option<Side>,
    /// Name of the port whose rate this port shares.
    pub(crate) rate_of: Option<String>,
    /// Whether the device of the port does what senders left to hardware.
    pub(crate) offloads: bool,
    /// Measurement of round trips, if enabled.
    pub(crate) round_trips: Option<Box<Measured>>,
    pub(crate) talkers: Talkers,
    pub(crate) outbox: VecDeque<Packet>,
    /// Received superframes that become too many packets, and later frames of their senders.
    pub(crate) deferred: Deferred,
}

impl PlanePort {
    /// Packets and bytes sent: all that left the queue, except those dropped because the device had disappeared.
    pub fn sent(&self) -> Tally {
        self.port.sent() - self.unsent
    }
}

/// Everything that a packet touches, driven by one thread.
pub struct Plane {
    /// The memory of packets.
    pub pool: Pool,
    /// The counters of dropped and marked packets.
    pub fates: DropCounters,
    pub(crate) ports: Vec<PlanePort>,
    /// The ports through which packets may be routed, by interface; sorted.
    exits: Vec<(u32, usize)>,
    pub(crate) shared: Vec<SharedRate>,
    pub(crate) tables: Arc<Tables>,
    pub(crate) next_hops: NextHopCache,
    pub(crate) passed: Passed,
    pub(crate) waiting: Waiting,
    /// The packets of a burst whose routes are not looked up yet: empty between two bursts.
    pub(crate) gathered: Vec<Held>,
    pub(crate) errors: ErrorBudget,
    /// Fragments made of packets, except the first of each packet.
    pub(crate) fragments: u64,
    pub(crate) exceptions: Exceptions,
    pub(crate) overlay: Option<Box<dyn Overlay>>,
    pub(crate) overlay_ethertype: Option<EtherType>,
    /// The packet to this router that the overlay has sent last. The overlay takes it, or returns it to
    /// [`Self::drop_ip`].
    pub delivered: Option<Held>,
    /// Whether the packet that is being handled came out of the overlay's header; the overlay sets this.
    pub within_overlay: bool,
    /// Work left to hardware for the packets of ports whose devices do it, by slot; empty without superframes.
    pub(crate) offloads: Box<[Offload]>,
    /// The source of all random streams.
    pub streams: Streams,
    /// Memory for one segment of a superframe.
    pub(crate) segment: Vec<u8>,
    pub(crate) translations: Option<Box<Translations>>,
    pub(crate) watch: Option<Box<PacketRecorder>>,
    pub(crate) observers: Observers,
    /// Time of the current step or arrival, which may drop packets.
    pub(crate) now: Instant,
    /// Frames that arrived before this are too old to be forwarded.
    pub(crate) oldest: Instant,
    /// Whether received frames are forwarded.
    pub(crate) forwards: bool,
}

impl Plane {
    /// A plane without ports, for at most `packets` packets of `frame_bytes_max` bytes.
    pub fn new(packets: usize, frame_bytes_max: usize, streams: Streams) -> Self {
        let secret = streams.hash_key("flow-hash");
        Self {
            pool: Pool::new(packets, frame_bytes_max, secret),
            fates: DropCounters::default(),
            ports: Vec::new(),
            exits: Vec::new(),
            shared: Vec::new(),
            tables: Arc::default(),
            next_hops: NextHopCache::default(),
            passed: Passed::default(),
            waiting: Waiting::default(),
            gathered: Vec::with_capacity(BURST),
            errors: ErrorBudget::default(),
            fragments: 0,
            exceptions: Exceptions::default(),
            overlay: None,
            overlay_ethertype: None,
            delivered: None,
            within_overlay: false,
            offloads: Box::default(),
            streams,
            segment: Vec::new(),
            translations: None,
            watch: None,
            observers: Observers::default(),
            now: Instant::ZERO,
            oldest: Instant::ZERO,
            forwards: true,
        }
    }

    /// Adds a port at the end and returns its number.
    pub fn add_port(
        &mut self,
        name: &str,
        interface: &str,
        mode: Mode,
        spec: Spec,
        link: Link,
        now: Instant,
    ) -> usize {
        let streams = self.streams.below("port").below(name);
        self.ports.push(PlanePort {
            name: name.to_owned(),
            interface: interface.to_owned(),
            configured_interface: interface.to_owned(),
            mode,
            port: Port::new(spec, link, now, &streams),
            received: Tally::ZERO,
            charged: Tally::ZERO,
            unsent: Tally::ZERO,
            index: None,
            closing: false,
            is_local: false,
            source_check: None,
            watched: None,
            label: name.into(),
            translates: None,
            rate_of: None,
            offloads: false,
            round_trips: None,
            talkers: Talkers::new(streams.stream("talkers")),
            outbox: VecDeque::with_capacity(OUTBOX_MAX),
            deferred: Deferred::default(),
        });
        self.find_indices();
        self.find_shared_rates();
        self.ports.len() - 1
    }

    /// Sets how the sources of packets that arrive at a port are checked; `None` for the kernel's setting.
    pub fn set_source_check(&mut self, number: usize, check: Option<SourceCheck>) {
        self.ports[number].source_check = check;
        self.passed.clear();
    }

    /// Makes room for `count` superframes, which pass whole where they can, in a plane that is still unused.
    pub fn with_superframes(self, count: usize) -> Self {
        let pool = self.pool.with_long(count);
        Self {
            offloads: vec![Offload::NONE; pool.slots()].into(),
            pool,
            ..self
        }
    }

    /// Sets whether the device of a port does what senders left to hardware: it cuts superframes and finishes checksums.
    /// Has no effect in a plane without [room for superframes](Self::with_superframes).
    pub fn set_offloads(&mut self, number: usize, does: bool) {
        self.ports[number].offloads = does && !self.offloads.is_empty();
    }

    /// Sets the connection tracking that knows the addresses inside.
    pub fn set_connection_tracking(&mut self, tracking: Box<dyn ConnectionTracking>) {
        let slots = self.pool.slots();
        self.translations = Some(Box::new(Translations::new(tracking, slots)));
    }

    /// Lets the flows of a port have their addresses inside: its packets leave to the outside, or arrive from there.
    pub fn set_translates(&mut self, number: usize, direction: Direction) {
        self.ports[number].translates = Some(Side::new(direction));
    }

    /// Closes a port: it accepts no more packets, and sends the packets that it holds at its rate.
    pub fn close_port(&mut self, number: usize) {
        self.ports[number].closing = true;
        self.find_exits();
        self.bind_overlay(None);
    }

    /// Drops frames that arrived before `at` with [`Reason::Stale`] when they are received.
    pub fn set_oldest(&mut self, at: Instant) {
        self.oldest = at;
    }

    /// Sets whether received frames are forwarded, or dropped with [`Reason::Disabled`]. Queued packets leave either
    /// way.
    pub fn set_forwarding(&mut self, on: bool) {
        self.forwards = on;
    }

    /// Removes a port; the ports after it move up by one. The packets that it holds are dropped.
    pub fn remove_port(&mut self, number: usize, reason: Reason) {
        self.drop_deferred(number, reason);
        let gone = &mut self.ports[number];
        gone.port.shut_down(&mut self.fates, reason);
        for packet in gone.outbox.drain(..) {
            self.fates.discard(packet, reason);
        }
        self.reclaim(Place::leaving(number));
        // Another port will get its number.
        let now = self.now;
        self.observers.flush_all(&self.ports, &self.fates, now);
        self.ports.remove(number);
        self.find_exits();
        self.find_shared_rates();
        self.exceptions.renumber();
        self.bind_overlay(Some(number));
        self.passed.clear();
        self.waiting.renumber(number);
    }

    /// Changes the discipline and the link of a port, without losing packets.
    pub fn reconfigure_port(&mut self, number: usize, spec: Spec, link: Link, now: Instant) {
        let slot = &mut self.ports[number];
        let streams = self.streams.below("port").below(&slot.name);
        let (keys, fates) = (&self.pool.keys, &mut self.fates);
        slot.port
            .reconfigure(spec, link, now, keys, fates, &streams);
        self.now = self.now.max(now);
        self.reclaim(Place::leaving(number));
    }

    /// Paces a port to another rate; the queue and its state stay.
    pub fn pace_port(&mut self, number: usize, rate: Rate, now: Instant) {
        self.ports[number].port.pace(Some(rate), now);
    }

    /// Drops the frames that wait for a device that has disappeared.
    pub fn discard_outbox(&mut self, number: usize) {
        let slot = &mut self.ports[number];
        for packet in slot.outbox.drain(..) {
            slot.unsent.count(packet.bytes());
            self.fates.discard(packet, Reason::DeviceDown);
        }
        self.reclaim(Place::leaving(number));
    }

    /// Drops all held packets, because the router stops.
    pub fn shut_down(&mut self) {
        for held in self.waiting.drain() {
            self.discard(held.packet.packet, Reason::Shutdown);
        }
        self.lend(|overlay, plane| overlay.shut_down(plane));
        while let Some(last) = self.ports.len().checked_sub(1) {
            self.remove_port(last, Reason::Shutdown);
        }
    }

    /// Starts to watch ports. Ports that are added later are not watched.
    pub fn watch(&mut self, want: Want, empty: Sightings, now: Instant) -> Result<(), Watched> {
        if self.watch.as_ref().is_some_and(|w| !w.is_abandoned(now)) {
            return Err(Watched);
        }
        let watch = PacketRecorder::new(want, empty, now);
        for slot in &mut self.ports {
            slot.watched = watch.place_of(&slot.name);
        }
        self.watch = Some(Box::new(watch));
        Ok(())
    }

    /// Fetches the sightings and continues with `empty`; the watch ends once its last sightings are fetched.
    /// `None` if there is no watch, or if it has ended.
    pub fn sightings(&mut self, empty: Sightings, now: Instant) -> Option<Fetched> {
        let fetched = self.watch.as_mut()?.fetch(empty, now);
        if fetched.done {
            self.watch = None;
        }
        Some(fetched)
    }

    /// Ends the watch.
    pub fn unwatch(&mut self) {
        self.watch = None;
    }

    /// Starts an observer, and returns its number.
    pub fn observe(
        &mut self,
        want: observe::Want,
        empty: Events,
        now: Instant,
    ) -> Result<u64, TooMany> {
        self.observers.begin(want, empty, now)
    }

    /// Events of each observer since the last call, the history first. The observers continue with the `empties`.
    pub fn observed(&mut self, empties: Vec<Events>, now: Instant) -> Vec<Batch> {
        self.observers.fetch(empties, &self.ports, &self.fates, now)
    }

    /// Ends an observer.
    pub fn end_observer(&mut self, number: u64) {
        self.observers.end(number);
    }

    /// Shows the watch a frame that the kernel itself sent through a port's interface.
    pub fn show_kernels(&mut self, number: usize, bytes: &[u8], arrival: &Arrival) {
        if let Some(watch) = &mut self.watch {
            let frame = Frame {
                bytes,
                len: arrival.len,
                tag: arrival.vlan,
            };
            watch.kernel_sent(self.ports[number].watched, &frame, arrival.at);
        }
    }

    /// The requests to resolve neighbours, or to stop resolving them, since the last call.
    pub fn neighbour_requests(&mut self) -> std::vec::Drain<'_, NeighbourRequest> {
        self.waiting.take_requests()
    }

    /// Limits how many neighbours are resolved at the same time, in IPv4 and IPv6: the kernel's tables are
    /// bounded.
    pub fn set_neighbour_request_limits(&mut self, limits: [usize; 2]) {
        self.waiting.pending().set_limits(limits);
    }

    /// The neighbours that packets were sent to since the last call, except those of routes with several next hops,
    /// which are all gateways; and the neighbours that the overlay names.
    pub fn take_neighbours_in_use(&mut self, now: Instant) -> Vec<NeighbourKey> {
        let mut used = self.next_hops.take_used();
        let overlay = self.overlay.iter();
        used.extend(overlay.flat_map(|overlay| overlay.neighbours(self)));
        for neighbour in &used {
            self.waiting.pending().answers(*neighbour, now);
        }
        used
    }

    /// Drops a packet.
    pub fn discard(&mut self, packet: Packet, reason: Reason) {
        self.fates.discard(packet, reason);
    }

    /// The ports, by number.
    pub fn ports(&self) -> &[PlanePort] {
        &self.ports
    }

    /// Offers a packet to a port, unchanged.
    #[inline]
    pub fn offer(&mut self, port: usize, packet: Packet) {
        self.ports[port].port.offer(packet);
    }

    /// The current snapshot.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The counters of dropped and marked packets.
    pub fn fates(&self) -> &DropCounters {
        &self.fates
    }

    /// The flow key of a packet that a port holds.
    pub fn key(&self, packet: &Packet) -> &FlowKey {
        self.pool.keys.key(packet)
    }

    /// Packets that wait for a neighbour.
    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// Packets that were created here: ICMP errors, fragments except the first of each packet, packets
    /// of the overlay, and packets of a control element. Each of them is sent or dropped like a received packet.
    pub fn created(&self) -> u64 {
        let injected = self.exceptions.stats();
        self.errors.stats().sent()
            + self.fragments
            + self.overlay.as_ref().map_or(0, |overlay| overlay.created())
            + injected.injected.packets
            + injected.refused.packets
    }

    /// The limit on ICMP errors, with its counters.
    pub fn errors(&self) -> &ErrorBudget {
        &self.errors
    }

    /// Whether the interface of a port is up, according to the tables.
    pub fn is_up(&self, number: usize) -> bool {
        self.interface(number).is_some_and(|interface| interface.up)
    }

    /// Whether the link of a port's interface works; `None` if the interface does not exist.
    pub fn has_carrier(&self, number: usize) -> Option<bool> {
        Some(self.interface(number)?.carrier)
    }

    /// The interface of a port, according to the tables.
    pub fn interface(&self, number: usize) -> Option<&Interface> {
        self.tables.interfaces.get(&self.ports[number].index?)
    }

    /// Whether a port holds no packets and no frame waits for its device.
    pub fn is_drained(&self, number: usize) -> bool {
        let slot = &self.ports[number];
        slot.port.is_idle() && slot.outbox.is_empty() && slot.deferred.is_empty()
    }

    /// Packets that the pool can hold.
    pub fn pool_packets(&self) -> usize {
        self.pool.ordinary()
    }

    /// The longest frame that the pool can hold.
    pub fn frame_bytes_max(&self) -> usize {
        self.pool.frame_bytes_max()
    }

    /// The port at an exit, if packets are forwarded to it.
    #[inline]
    pub(crate) fn port_at(&self, exit: Exit) -> Option<usize> {
        match exit {
            Exit::Port(port) => Some(port),
            Exit::Interface(interface) => {
                let exits = &self.exits;
                let found = exits.binary_search_by_key(&interface, |(index, _)| *index);
                found.ok().map(|found| exits[found].1)
            }
        }
    }

    /// Finds the ports through which packets may be routed; the first one of an interface.
    pub(super) fn find_exits(&mut self) {
        let leads_out = |p: &PlanePort| !p.closing && p.mode == Mode::Routed && !p.is_local;
        let ports = self.ports.iter().enumerate().filter(|(_, p)| leads_out(p));
        self.exits.clear();
        self.exits
            .extend(ports.filter_map(|(number, p)| Some((p.index?, number))));
        self.exits.sort_unstable();
        self.exits.dedup_by_key(|(index, _)| *index);
    }

    /// Finds the interface of each port. Once found, an interface is followed by its index, even if it is renamed. An
    /// interface that disappeared is found again by its latest name, or by the configured name.
    pub(crate) fn find_indices(&mut self) {
        let interfaces = &self.tables.interfaces;
        let named = |name: &str| {
            let mut all = interfaces.iter();
            all.find(|(_, i)| i.name == name).map(|(index, _)| *index)
        };
        for slot in &mut self.ports {
            let same = slot.index.filter(|index| interfaces.contains_key(index));
            slot.index = same
                .or_else(|| named(&slot.interface))
                .or_else(|| named(&slot.configured_interface));
            if let Some(interface) = slot.index.and_then(|index| interfaces.get(&index)) {
                slot.interface.clone_from(&interface.name);
            }
        }
        self.find_exits();
        self.bind_overlay(None);
    }

    fn bind_overlay(&mut self, removed: Option<usize>) {
        self.lend(|overlay, plane| overlay.bind(plane, removed));
    }

    /// Whether packets wait for the overlay's control thread that were not announced yet.
    pub fn announce_overlay(&mut self) -> bool {
        self.overlay.as_mut().is_some_and(|o| o.announce())
    }

    /// Returns the memory of dropped packets to the pool; observers and a watch see the packets first.
    #[inline]
    pub fn reclaim(&mut self, place: Place) {
        if !self.fates.to_be_freed().is_empty() {
            self.show_ended(place, None);
        }
    }

    /// Like [`Self::reclaim`], but the watch has already seen the packet in slot `seen`.
    #[inline(never)] // forwarded packets do not get here
    pub(crate) fn show_ended(&mut self, place: Place, seen: Option<Slot>) {
        let port = place.port.and_then(|n| Some((n, self.ports.get(n)?)));
        if let Some(watch) = &mut self.watch {
            let watched = port.and_then(|(_, port)| port.watched);
            watch.ended(watched, place.direction, &self.fates, &self.pool, seen);
        }
        let at = At {
            port: port.map(|(number, port)| (number, &port.name[..])),
            outbound: place.direction == Some(Direction::Outbound),
            now: self.now,
        };
        self.observers.see(&at, &self.fates, &self.pool);
        let translations = &mut self.translations;
        let freed = self.fates.freed().inspect(|freed| {
            if let Some(translations) = translations {
                translations.ended(freed.slot);
            }
        });
        self.pool.reclaim(freed.map(|freed| freed.slot));
    }
}

impl PlanePort {
    /// Whether the port carries what the interface has received, with the kernel behind it.
    pub fn is_inbound(&self) -> bool {
        let side = self.translates.as_ref();
        side.is_some_and(|side| side.direction == Direction::Inbound)
    }

    /// Whether the outbox is full: the port cannot go on until the device has taken some frames.
    pub(crate) fn is_full(&self) -> bool {
        self.outbox.len() >= OUTBOX_MAX && !self.port.is_idle()
    }

    /// Whether the port leads to processes of this machine instead of a link.
    pub fn is_local(&self) -> bool {
        self.is_local
    }
}

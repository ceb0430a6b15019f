//! FPF packets in a plane: from their interface to the exit that a rule names.
//!
//! ```text
//!  receive ----> Ethernet, VLAN ----> relay ----> rewrite (Ethernet, VLAN) --> Port::offer
//!                                                | others, one by one
//!                                                v         +--> depart (Ethernet, VLAN) --> Port::offer
//!  deliver ----> GRE off -------> label_switch --> decision +--> push GRE --> send_on: by the routes
//!                                   ^                      +--> strip ---> route_ip, or depart
//!                                   +---- each leaf -------+    redirect, discard
//! ```
//!
//! [`forward`] decides. The same engine handles leaves again, and an IP packet that comes out
//! may belong to a tunnel to this router. Tables are built so that leaves come to an end. A sender can still nest
//! headers, so decisions about one received frame, and copies of it, are bounded here.

mod exit;
mod first_hop;
mod process;
mod relay;

use std::sync::Arc;

use weir_base::{Instant, Tally};
use weir_packet::{Packet, Pool, Reason};
use weir_path::classify::{Classified, classify};
use weir_path::exception::Cause;
use weir_path::headers::{self, Fragment, Headers, Parsed};
use weir_path::ip::waiting::Held;
use weir_path::link;
use weir_path::link::offload::Offload;
use weir_path::plane::Plane;
use weir_path::plane::step::Arrival;
use weir_wire::{EtherType, Protocol, ethernet, gre};

use crate::bindings::Bindings;
use crate::edge::implicit;
use crate::encapsulation;
use crate::forward::{self, Decision, NESTED_MAX};
use crate::header::{Repr, Vector};
use crate::payload;
use crate::process::running::{Running, gauge, processors};
use crate::process::{cache, reassemble::REASSEMBLED, segment::SEGMENTED, xor::REPAIRED};
use crate::segment_header;
use crate::table::{COPIES_MAX, Input};
use crate::{Inner, Table};

/// The counters. A packet that is not forwarded is counted by its reason, like every other packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Received packets with an FPF header, from tunnels included.
    pub received: Tally,
    /// Packets that left for a next FE.
    pub forwarded: Tally,
    /// Packets that got a header here.
    pub encapsulated: Tally,
    /// Packets whose header was removed.
    pub decapsulated: Tally,
    /// Copies that multicast rules made, or failed to make, and packets that processors added or gave up.
    pub created: Tally,
    /// Packets that the current processors repaired, since they started.
    pub repaired: u64,
    /// Packets that the current processors cut into segments, since they started.
    pub segmented: u64,
    /// Packets that the current processors reassembled, since they started.
    pub reassembled: u64,
    /// Interests and data at the current caches, since they started.
    pub cache: cache::Counts,
    /// Encapsulations that ended because no packet matched them for their timeout; without implicit ones.
    pub expired: u64,
    /// Classes, and copies for the classifier.
    pub classes: implicit::Stats,
}

/// A table at work: its state.
pub(super) struct Forwarder {
    pub(super) table: Arc<Table>,
    pub(super) bindings: Bindings,
    pub(super) stats: Stats,
    /// Nested decisions in progress.
    nested: u8,
    /// Copies that the latest received frame may still become.
    copies_left: usize,
    /// The processors of the table, by number.
    processors: Vec<Running>,
}

/// Where and when an FPF packet arrived.
#[derive(Clone, Copy)]
struct Entry {
    ingress: usize,
    input: Input,
    at: Instant,
}

/// A forwarder, with the plane that it has while it handles a packet.
pub(super) struct Forwarding<'a> {
    pub(super) fpf: &'a mut Forwarder,
    pub(super) plane: &'a mut Plane,
}

impl Forwarder {
    /// Lends the plane to the forwarder.
    pub(super) fn on<'a>(&'a mut self, plane: &'a mut Plane) -> Forwarding<'a> {
        Forwarding { fpf: self, plane }
    }

    /// Sets or removes the table. A new table continues the counters of the old one, and the processors that are in
    /// both. Returns the old table.
    pub(super) fn set(
        this: &mut Option<Self>,
        plane: &mut Plane,
        table: Option<Arc<Table>>,
    ) -> Option<Arc<Table>> {
        let mut old = this.take();
        let mut none = Vec::new();
        let before = old.as_mut().map_or(&mut none, |old| &mut old.processors);
        *this = table.map(|table| Self {
            processors: processors(table.processors(), before),
            table,
            bindings: Bindings::default(),
            stats: Stats::default(),
            nested: 0,
            copies_left: 0,
        });
        if let Some(old) = &mut old {
            old.give_up(plane, Instant::FAR_FUTURE);
        }
        if let Some(new) = this {
            new.stats = old.as_ref().map(|old| old.stats).unwrap_or_default();
            new.bind(plane);
        }
        old.map(|old| old.table)
    }

    /// The counters.
    pub(super) fn stats(&self) -> Stats {
        let mut cache = cache::Counts::default();
        for (name, sum) in cache.by_name() {
            *sum = gauge(&self.processors, name);
        }
        Stats {
            repaired: gauge(&self.processors, REPAIRED),
            segmented: gauge(&self.processors, SEGMENTED),
            reassembled: gauge(&self.processors, REASSEMBLED),
            cache,
            ..self.stats
        }
    }

    /// The rows for the packets of the table's tunnel with these addresses that arrived through a port, or the reason
    /// to drop them.
    #[cold]
    pub(super) fn tunnel(
        &self,
        headers: &Headers,
        port: Option<usize>,
    ) -> Option<Result<Input, Reason>> {
        let is_gre = headers.protocol == u8::from(Protocol::GRE);
        let (local, remote) = (headers.destination(), headers.source());
        is_gre.then(|| self.bindings.tunnel(local, remote, port))?
    }
}

impl Forwarding<'_> {
    /// Handles a received FPF packet with at most one tag among its bytes, which is removed.
    #[inline]
    pub(super) fn receive(
        &mut self,
        ingress: usize,
        input: Input,
        mut packet: Packet,
        arrival: &Arrival,
    ) {
        if link::ethertype(self.plane.pool.frame(&packet))
            != Some(self.fpf.table.domain().ethertype())
        {
            link::tag::remove(&mut self.plane.pool, &mut packet);
        }
        let frame = self.plane.pool.frame(&packet);
        if frame.first().is_some_and(|byte| byte & 1 == 1) {
            return self.plane.discard(packet, Reason::Multicast);
        }
        if arrival.offload.checksum.is_some() {
            let headers = payload::peek_behind(frame, ethernet::HEADER_LEN);
            if let Err(reason) = self.plane.finish_checksum(&packet, &headers, arrival) {
                return self.plane.discard(packet, reason);
            }
        }
        self.relay(ingress, input, packet);
    }

    /// Decides about an FPF packet, and carries the decision out, unless the frame has reached the limit on nested
    /// decisions.
    fn label_switch(&mut self, entry: Entry, packet: Packet) {
        if self.fpf.nested >= NESTED_MAX {
            return self.plane.discard(packet, Reason::FpfNested);
        }
        self.fpf.nested += 1;
        self.plane.within_overlay = true;
        self.carry_out_decision(entry, packet);
        self.fpf.nested -= 1;
        self.plane.within_overlay = self.fpf.nested > 0;
    }

    fn carry_out_decision(&mut self, entry: Entry, packet: Packet) {
        let bytes = self.plane.pool.frame(&packet).get(ethernet::HEADER_LEN..);
        let header = forward::parse(bytes.unwrap_or(&[]), self.fpf.table.domain().lid_size());
        let decision = header.and_then(|header| {
            let decision = forward::decide(&self.fpf.table, entry.input, &header)?;
            Ok((decision, usize::from(header.len)))
        });
        match decision {
            Ok((Decision::Forward(hop, index), len)) => {
                self.fpf.stats.forwarded.count(packet.bytes());
                let packet = classify_payload(&mut self.plane.pool, packet, len);
                self.send_to(entry, packet, &hop, Some(index));
            }
            Ok((Decision::Multicast(leaves), len)) => {
                let leaves = Arc::clone(leaves);
                let Classified { packet, .. } = classify_payload(&mut self.plane.pool, packet, len);
                self.multicast(entry, packet, &leaves, len);
            }
            Ok((Decision::Decapsulate(inner), len)) => {
                self.fpf.stats.decapsulated.count(packet.bytes());
                self.decapsulate(entry, packet, inner, len);
            }
            Ok((Decision::Process(processing), len)) => {
                let processing = processing.clone();
                self.process(entry, packet, &processing, len);
            }
            Ok((Decision::Redirect, _)) => self.redirect(entry, packet),
            Err(reason) => self.plane.discard(packet, reason),
        }
    }

    /// Handles a packet once for each leaf of a multicast tree. The packet itself goes to the last leaf.
    #[cold]
    fn multicast(&mut self, entry: Entry, packet: Packet, leaves: &[Vector], len: usize) {
        let Some((last, others)) = leaves.split_last() else {
            return self.plane.discard(packet, Reason::FpfRule);
        };
        for leaf in others {
            if let Some(copy) = self.copy(&packet) {
                self.send_to_leaf(entry, copy, leaf, len);
            }
        }
        self.send_to_leaf(entry, packet, last, len);
    }

    /// A copy of a packet, which counts as created; `None` if it cannot be made, which is counted with its reason.
    fn copy(&mut self, packet: &Packet) -> Option<Packet> {
        if !self.may_create(packet.bytes()) {
            return None;
        }
        let copy = self.plane.pool.duplicate(packet);
        if copy.is_none() {
            self.plane.fates.count_frame(packet.bytes(), Reason::NoCopy);
        }
        copy
    }

    /// Counts a frame of `bytes` bytes as created. Returns whether it may be made; if not, it is counted as dropped.
    fn may_create(&mut self, bytes: u64) -> bool {
        self.fpf.stats.created.count(bytes);
        let left = self.fpf.copies_left.checked_sub(1);
        match left {
            Some(left) => self.fpf.copies_left = left,
            None => self.plane.fates.count_frame(bytes, Reason::FpfNested),
        }
        left.is_some()
    }

    /// Puts each of these headers before the packet, or before a copy of it, and sends it on its path.
    pub(super) fn push_each(
        &mut self,
        packet: Packet,
        ingress: Option<usize>,
        headers: &[Repr],
        at: Instant,
    ) {
        let Some((last, others)) = headers.split_last() else {
            return self.plane.discard(packet, Reason::FpfRule);
        };
        self.fpf.copies_left = COPIES_MAX;
        let entry = Entry {
            ingress: ingress.unwrap_or(0), // a packet that got a header arrived through a port
            input: self.fpf.table.any_input(),
            at,
        };
        for header in others {
            if let Some(copy) = self.copy(&packet) {
                self.push(entry, copy, header);
            }
        }
        self.push(entry, packet, last);
    }

    fn push(&mut self, entry: Entry, mut packet: Packet, header: &Repr) {
        self.fpf.stats.encapsulated.count(packet.bytes());
        let ethertype = self.fpf.table.domain().ethertype();
        if encapsulation::push_fpf(&mut self.plane.pool, &mut packet, ethertype, header) {
            self.label_switch(entry, packet)
        } else {
            self.plane.discard(packet, Reason::TruncatedFrame);
        }
    }

    fn send_to_leaf(&mut self, entry: Entry, mut packet: Packet, leaf: &Vector, len: usize) {
        let header = Repr::first(*leaf);
        if encapsulation::replace_fpf(&mut self.plane.pool, &mut packet, len, &header) {
            self.label_switch(entry, packet)
        } else {
            self.plane.discard(packet, Reason::TruncatedFrame);
        }
    }

    /// Removes the FPF header, which has `len` bytes.
    fn decapsulate(&mut self, entry: Entry, mut packet: Packet, inner: Inner, len: usize) {
        let payload = self
            .plane
            .pool
            .frame(&packet)
            .get(ethernet::HEADER_LEN + len);
        let ethertype = match (inner, payload.map(|byte| byte >> 4)) {
            (Inner::Frame(ethertype, _), _) => ethertype,
            (Inner::Ip, Some(4)) => EtherType::IPV4,
            (Inner::Ip, Some(6)) => EtherType::IPV6,
            (Inner::Ip, _) => {
                return self.plane.discard(packet, Reason::FpfPayload);
            }
        };
        encapsulation::strip(&mut self.plane.pool, &mut packet, len, ethertype);
        match inner {
            Inner::Frame(_, hop) => {
                let headers = headers::peek(self.plane.pool.frame(&packet));
                let packet = classify(&mut self.plane.pool, Parsed { packet, headers });
                self.send_to(entry, packet, &hop, None);
            }
            Inner::Ip => {
                let arrival = Arrival {
                    at: entry.at,
                    len: packet.len,
                    vlan: None,
                    offload: Offload::NONE,
                };
                match link::validate(self.plane.pool.frame(&packet)) {
                    Ok(link) => {
                        self.plane.route_ip(entry.ingress, packet, &link, &arrival);
                        self.take_delivered(entry.at);
                    }
                    Err(reason) => self.plane.discard(packet, reason),
                }
            }
        }
    }

    /// Hands a packet to the control element; without one, it is dropped.
    #[cold]
    fn redirect(&mut self, entry: Entry, packet: Packet) {
        if self.plane.is_attended(entry.at) {
            self.plane
                .redirect(entry.ingress, packet, Cause::Overlay, entry.at)
        } else {
            self.plane.discard(packet, Reason::FpfRule);
        }
    }

    /// The rows for a packet that is addressed to this router, if it has the addresses of one of the table's tunnels,
    /// or the reason to drop it: the kernel, which does not know the tunnel, gets none of these packets. A packet that
    /// left a path counts as arrived through the port for processes of this machine. A fragment is not a packet of the
    /// tunnel, because the other end forbids fragmentation.
    fn tunnel_input(&self, held: &Held) -> Option<Result<Input, Reason>> {
        let Classified { packet, headers } = &held.packet;
        let port = if self.fpf.nested > 0 {
            self.plane.local_port()
        } else {
            held.ingress
        };
        let input = self.fpf.tunnel(headers, port)?;
        let carries = || {
            let bytes = headers.transport(self.plane.pool.frame(packet));
            let header = gre::Repr::parse(&gre::View::new_checked(bytes).ok()?).ok()?;
            let is_whole = headers.fragment == Fragment::Whole;
            (is_whole && header.ethertype == self.fpf.table.domain().ethertype()).then_some(())
        };
        Some(input.and_then(|input| match carries() {
            Some(()) => Ok(input),
            None => Err(Reason::FpfTunnelPacket),
        }))
    }

    /// Takes a packet that is addressed to this router out of its tunnel, or returns it.
    pub(super) fn deliver(&mut self, held: Held, now: Instant) -> Option<Held> {
        match self.tunnel_input(&held) {
            None => return Some(held),
            Some(Ok(input)) => self.leave_tunnel(held, input, now),
            Some(Err(reason)) => self.plane.discard(held.packet.packet, reason),
        }
        None
    }

    /// Sends a packet by the routes.
    pub(super) fn send_on(&mut self, held: Held, now: Instant) {
        self.plane.send_on(held, now);
        self.take_delivered(now);
    }

    /// Handles the packet to this router that the last call to the plane has come to.
    fn take_delivered(&mut self, now: Instant) {
        if let Some(held) = self.plane.delivered.take()
            && let Some(held) = self.deliver(held, now)
        {
            self.plane.drop_ip(held, Reason::LocalDelivery, None, now);
        }
    }

    /// Takes a packet out of its tunnel, and handles the FPF packet in it.
    #[cold]
    fn leave_tunnel(&mut self, held: Held, input: Input, now: Instant) {
        let Classified {
            mut packet,
            headers,
        } = held.packet;
        let Some(ingress) = held.ingress else {
            return self.plane.discard(packet, Reason::LocalDelivery);
        };
        let ethertype = self.fpf.table.domain().ethertype();
        let outer = usize::from(headers.l4) + gre::HEADER_LEN - ethernet::HEADER_LEN;
        encapsulation::strip(&mut self.plane.pool, &mut packet, outer, ethertype);
        let entry = Entry {
            ingress,
            input,
            at: now,
        };
        self.fpf.stats.received.count(packet.bytes());
        if self.fpf.nested == 0 {
            self.fpf.copies_left = COPIES_MAX;
        }
        self.label_switch(entry, packet);
    }
}

/// Finds the flow key of a packet: the key of its payload, after an FPF header of `len` bytes.
#[inline]
fn classify_payload(pool: &mut Pool, mut packet: Packet, len: usize) -> Classified {
    let at = ethernet::HEADER_LEN + len;
    let frame = pool.frame(&packet);
    let headers = payload::peek_by_version(frame, at);
    packet.ecn = headers.ecn;
    if frame.get(at) == Some(&segment_header::MAGIC) {
        return process::classify_segment(pool, Parsed { packet, headers }, at);
    }
    classify(pool, Parsed { packet, headers })
}

//! FPF packets in a plane: from their interface to the exit that a rule names.
//!
//! ```text
//!  route ------> Ethernet --+--> decisions --> rewrite (Ethernet, VLAN) --> Port::offer
//!  route_tagged -> VLAN ----+                    |
//!                                                | others, one by one
//!                                                v         +--> depart (Ethernet, VLAN) --> Port::offer
//!  drop: to us -> GRE off ------> label_switch --> decision +--> push GRE --> send_on: by the routes
//!                                   ^                      +--> strip ---> route_ip, or depart
//!                                   +---- each leaf -------+    redirect, discard
//! ```
//!
//! [`fpf::forward`](crate::fpf::forward) decides. The same engine handles leaves again, and an IP packet that comes out
//! may belong to a tunnel to this router. Tables are built so that leaves come to an end. A sender can still nest
//! headers, so decisions about one received frame, and copies of it, are bounded here.

use std::sync::Arc;

use weir_base::{Instant, Tally};
use weir_packet::{Packet, Reason};
use weir_wire::fpf::{Repr, Vector};
use weir_wire::{EtherType, Protocol, ethernet, fpf_segment, gre, vlan};

use crate::classify::{Classified, classify};
use crate::egress::encapsulation;
use crate::exception::Cause;
use crate::fpf::bindings::Bindings;
use crate::fpf::forward::{self, Decision, NESTED_MAX};
use crate::fpf::process::running::{Running, gauge, processors};
use crate::fpf::process::{cache, reassemble::REASSEMBLED, segment::SEGMENTED, xor::REPAIRED};
use crate::fpf::table::{COPIES_MAX, Input};
use crate::fpf::{Inner, Table};
use crate::headers::{self, Fragment, Headers, Parsed};
use crate::ip::forward::Origin;
use crate::ip::waiting::Held;
use crate::link;
use crate::link::offload::Offload;
use crate::plane::Plane;
use crate::plane::step::Arrival;

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
}

/// The state of the layer.
pub(crate) struct Fpf {
    pub(super) table: Arc<Table>,
    pub(super) bindings: Bindings,
    pub(super) stats: Stats,
    /// Nested decisions in progress.
    nested: u8,
    /// Copies that the latest received frame may still become.
    pub(super) copies_left: usize,
    /// The processors of the table, by number.
    pub(super) processors: Vec<Running>,
}

/// Where and when an FPF packet arrived.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) ingress: usize,
    pub(super) input: Input,
    pub(super) at: Instant,
}

impl Plane {
    /// Sets or removes the FPF table; a new table continues the counters of the old one. Returns the old table, so that
    /// another thread can free it.
    pub fn set_fpf(&mut self, table: Option<Arc<Table>>) -> Option<Arc<Table>> {
        let mut old = self.fpf.take().map(|fpf| *fpf);
        let before = old.as_mut().map(|old| std::mem::take(&mut old.processors));
        let mut before = before.unwrap_or_default();
        let stats = old.as_ref().map(|fpf| fpf.stats).unwrap_or_default();
        self.fpf = table.map(|table| {
            Box::new(Fpf {
                processors: processors(table.processors(), &mut before),
                table,
                bindings: Bindings::default(),
                stats,
                nested: 0,
                copies_left: 0,
            })
        });
        self.end_processors(before);
        self.bind_fpf();
        old.map(|fpf| fpf.table)
    }

    /// The current FPF table.
    pub fn fpf(&self) -> Option<&Table> {
        Some(&self.fpf.as_ref()?.table)
    }

    /// The counters of FPF; zero without a table.
    pub fn fpf_stats(&self) -> Stats {
        let Some(fpf) = &self.fpf else {
            return Stats::default();
        };
        let mut cache = cache::Counts::default();
        for (name, sum) in cache.by_name() {
            *sum = gauge(&fpf.processors, name);
        }
        Stats {
            repaired: gauge(&fpf.processors, REPAIRED),
            segmented: gauge(&fpf.processors, SEGMENTED),
            reassembled: gauge(&fpf.processors, REASSEMBLED),
            cache,
            ..fpf.stats
        }
    }

    /// The rows for a frame of this Ethernet type without a VLAN, if it is an FPF packet.
    #[inline(always)]
    pub(super) fn fpf_input(&self, ingress: usize, ethertype: Option<EtherType>) -> Option<Input> {
        let fpf = self.fpf.as_ref()?;
        let is_fpf = Some(fpf.table.domain().ethertype()) == ethertype;
        is_fpf.then(|| fpf.bindings.port(ingress))?
    }

    /// Handles a packet in a VLAN: it is an FPF packet of an interface that the table names, or it is dropped.
    #[cold]
    pub(super) fn route_tagged(&mut self, ingress: usize, packet: Packet, arrival: &Arrival) {
        let tag = arrival.vlan.map_or(0, |tci| tci & 0x0fff);
        match self.vlan_input(ingress, &packet, tag) {
            Some(input) => self.route_untagged_fpf(ingress, input, packet, arrival),
            None => {
                self.fates.discard(packet, Reason::UnknownVlan);
            }
        }
    }

    /// The rows for a packet with one VLAN tag: `tag`, if it arrived out of band, or a tag among its bytes.
    fn vlan_input(&self, ingress: usize, packet: &Packet, tag: u16) -> Option<Input> {
        let fpf = self.fpf.as_ref()?;
        let link = link::peek(self.pool.frame(packet))?;
        let id = match (tag, link.l3 - ethernet::HEADER_LEN) {
            (0, vlan::TAG_LEN) => link.vlan,
            (id, 0) => id,
            _ => return None, // two tags
        };
        if link.ethertype == fpf.table.domain().ethertype() {
            fpf.bindings.vlan(ingress, id)
        } else {
            None
        }
    }

    /// Handles a received FPF packet with at most one tag among its bytes, which is removed.
    #[cold]
    pub(super) fn route_untagged_fpf(
        &mut self,
        ingress: usize,
        input: Input,
        mut packet: Packet,
        arrival: &Arrival,
    ) {
        link::tag::remove(&mut self.pool, &mut packet);
        self.route_fpf(ingress, input, packet, arrival);
    }

    /// Handles a received FPF packet, whose FPF header follows the Ethernet header.
    #[inline]
    pub(super) fn route_fpf(
        &mut self,
        ingress: usize,
        input: Input,
        mut packet: Packet,
        arrival: &Arrival,
    ) {
        let frame = self.pool.frame(&packet);
        if frame.first().is_some_and(|byte| byte & 1 == 1) {
            self.fates.discard(packet, Reason::Multicast);
            return;
        }
        if arrival.offload.checksum.is_some() {
            let headers = headers::peek_behind_fpf(frame, ethernet::HEADER_LEN);
            let parsed = Parsed { packet, headers };
            if let Err(reason) = self.finish_checksum(&parsed, arrival) {
                self.fates.discard(parsed.packet, reason);
                return;
            }
            packet = parsed.packet;
        }
        self.relay(ingress, input, packet);
    }

    /// Whether the packet that is being handled was within an FPF packet.
    #[inline]
    pub(super) fn is_within_fpf(&self) -> bool {
        self.fpf.as_ref().is_some_and(|fpf| fpf.nested > 0)
    }

    /// Handles an FPF packet that has left its tunnel.
    fn receive_fpf(&mut self, entry: Entry, packet: Packet) {
        if let Some(fpf) = &mut self.fpf {
            fpf.stats.received.count(packet.bytes());
            if fpf.nested == 0 {
                fpf.copies_left = COPIES_MAX;
            }
        }
        self.label_switch(entry, packet);
    }

    /// Decides about an FPF packet, and carries the decision out, unless the frame has reached the limit on nested
    /// decisions.
    pub(super) fn label_switch(&mut self, entry: Entry, packet: Packet) {
        match &mut self.fpf {
            Some(fpf) if fpf.nested < NESTED_MAX => fpf.nested += 1,
            _ => {
                self.fates.discard(packet, Reason::FpfNested);
                return;
            }
        }
        self.carry_out_decision(entry, packet);
        if let Some(fpf) = &mut self.fpf {
            fpf.nested -= 1;
        }
    }

    fn carry_out_decision(&mut self, entry: Entry, packet: Packet) {
        let Some(fpf) = &mut self.fpf else {
            return;
        };
        let bytes = self.pool.frame(&packet).get(ethernet::HEADER_LEN..);
        let header = forward::parse(bytes.unwrap_or(&[]), fpf.table.domain().lid_size());
        let decision = header.and_then(|header| {
            let decision = forward::decide(&fpf.table, entry.input, &header)?;
            Ok((decision, usize::from(header.len)))
        });
        match decision {
            Ok((Decision::Forward(hop, index), len)) => {
                fpf.stats.forwarded.count(packet.bytes());
                let packet = self.classify_payload(packet, len);
                self.send_to(entry, packet, &hop, Some(index));
            }
            Ok((Decision::Multicast(leaves), len)) => {
                let leaves = Arc::clone(leaves);
                let Classified { packet, .. } = self.classify_payload(packet, len);
                self.multicast(entry, packet, &leaves, len);
            }
            Ok((Decision::Decapsulate(inner), len)) => {
                fpf.stats.decapsulated.count(packet.bytes());
                self.decapsulate(entry, packet, inner, len);
            }
            Ok((Decision::Process(processing), len)) => {
                let processing = processing.clone();
                self.process(entry, packet, &processing, len);
            }
            Ok((Decision::Redirect, _)) => self.redirect_fpf(entry, packet),
            Err(reason) => {
                self.fates.discard(packet, reason);
            }
        }
    }

    /// Finds the flow key of a packet: the key of its payload, after an FPF header of `len` bytes.
    #[inline]
    pub(super) fn classify_payload(&mut self, mut packet: Packet, len: usize) -> Classified {
        let at = ethernet::HEADER_LEN + len;
        let frame = self.pool.frame(&packet);
        let headers = headers::peek_by_version(frame, at);
        packet.ecn = headers.ecn;
        if frame.get(at) == Some(&fpf_segment::MAGIC) {
            return self.classify_segment(Parsed { packet, headers }, at);
        }
        classify(&mut self.pool, Parsed { packet, headers })
    }

    /// Handles a packet once for each leaf of a multicast tree. The packet itself goes to the last leaf.
    #[cold]
    fn multicast(&mut self, entry: Entry, packet: Packet, leaves: &[Vector], len: usize) {
        let Some((last, others)) = leaves.split_last() else {
            self.fates.discard(packet, Reason::FpfRule);
            return;
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
        let copy = self.pool.duplicate(packet);
        if copy.is_none() {
            self.fates.count_frame(packet.bytes(), Reason::NoCopy);
        }
        copy
    }

    /// Counts a frame of `bytes` bytes as created. Returns whether it may be made; if not, it is counted as dropped.
    pub(super) fn may_create(&mut self, bytes: u64) -> bool {
        let Some(fpf) = &mut self.fpf else {
            return false;
        };
        fpf.stats.created.count(bytes);
        let left = fpf.copies_left.checked_sub(1);
        match left {
            Some(left) => fpf.copies_left = left,
            None => self.fates.count_frame(bytes, Reason::FpfNested),
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
        let (Some(fpf), Some((last, others))) = (&mut self.fpf, headers.split_last()) else {
            self.fates.discard(packet, Reason::FpfRule);
            return;
        };
        fpf.copies_left = COPIES_MAX;
        let entry = Entry {
            ingress: ingress.unwrap_or(0), // a packet that got a header arrived through a port
            input: fpf.table.any_input(),
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
        let Some(fpf) = &mut self.fpf else {
            return;
        };
        fpf.stats.encapsulated.count(packet.bytes());
        let ethertype = fpf.table.domain().ethertype();
        if encapsulation::push_fpf(&mut self.pool, &mut packet, ethertype, header) {
            self.label_switch(entry, packet)
        } else {
            self.fates.discard(packet, Reason::TruncatedFrame);
        }
    }

    fn send_to_leaf(&mut self, entry: Entry, mut packet: Packet, leaf: &Vector, len: usize) {
        let header = Repr::first(*leaf);
        if encapsulation::replace_fpf(&mut self.pool, &mut packet, len, &header) {
            self.label_switch(entry, packet)
        } else {
            self.fates.discard(packet, Reason::TruncatedFrame);
        }
    }

    /// Removes the FPF header, which has `len` bytes.
    fn decapsulate(&mut self, entry: Entry, mut packet: Packet, inner: Inner, len: usize) {
        let payload = self.pool.frame(&packet).get(ethernet::HEADER_LEN + len);
        let ethertype = match (inner, payload.map(|byte| byte >> 4)) {
            (Inner::Frame(ethertype, _), _) => ethertype,
            (Inner::Ip, Some(4)) => EtherType::IPV4,
            (Inner::Ip, Some(6)) => EtherType::IPV6,
            (Inner::Ip, _) => {
                self.fates.discard(packet, Reason::FpfPayload);
                return;
            }
        };
        encapsulation::strip(&mut self.pool, &mut packet, len, ethertype);
        match inner {
            Inner::Frame(_, hop) => {
                let headers = headers::peek(self.pool.frame(&packet));
                let packet = classify(&mut self.pool, Parsed { packet, headers });
                self.send_to(entry, packet, &hop, None);
            }
            Inner::Ip => {
                let arrival = Arrival {
                    at: entry.at,
                    len: packet.len,
                    vlan: None,
                    offload: Offload::NONE,
                };
                match link::validate(self.pool.frame(&packet)) {
                    Ok(link) => self.route_ip(entry.ingress, packet, &link, &arrival),
                    Err(reason) => {
                        self.fates.discard(packet, reason);
                    }
                }
            }
        }
    }

    /// Hands a packet to the control element; without one, it is dropped.
    #[cold]
    fn redirect_fpf(&mut self, entry: Entry, packet: Packet) {
        if self.exceptions.is_attended(entry.at) {
            self.redirect(entry.ingress, packet, Cause::Fpf, entry.at)
        } else {
            self.fates.discard(packet, Reason::FpfRule);
        }
    }

    /// The rows for a packet that is addressed to this router, if it has the addresses of one of the table's tunnels,
    /// or the reason to drop it: the kernel, which does not know the tunnel, gets none of these packets. A packet that
    /// left a path counts as arrived through the port for processes of this machine. A fragment is not a packet of the
    /// tunnel, because the other end forbids fragmentation.
    pub(super) fn tunnel_input(
        &self,
        held: &Held,
        reason: Reason,
    ) -> Option<Result<Input, Reason>> {
        let fpf = self.fpf.as_ref()?;
        let Classified { packet, headers } = &held.packet;
        let is_gre = headers.protocol == u8::from(Protocol::GRE);
        if reason != Reason::LocalDelivery || !is_gre || held.origin != Origin::Transit {
            return None;
        }
        let port = if self.is_within_fpf() {
            self.local_port()
        } else {
            held.ingress
        };
        let ends = (headers.destination(), headers.source());
        let input = fpf.bindings.tunnel(ends.0, ends.1, port)?;
        let carries = || {
            let bytes = headers.transport(self.pool.frame(packet));
            let header = gre::Repr::parse(&gre::View::new_checked(bytes).ok()?).ok()?;
            let is_whole = headers.fragment == Fragment::Whole;
            (is_whole && header.ethertype == fpf.table.domain().ethertype()).then_some(())
        };
        Some(input.and_then(|input| match carries() {
            Some(()) => Ok(input),
            None => Err(Reason::FpfTunnelPacket),
        }))
    }

    /// Whether a packet has the addresses of one of the table's tunnels, so that the kernel does not get it.
    #[cold]
    pub(super) fn is_of_tunnel(&self, headers: &Headers) -> bool {
        let is_gre = headers.protocol == u8::from(Protocol::GRE);
        let ends = (headers.destination(), headers.source());
        let named = |fpf: &Fpf| fpf.bindings.tunnel(ends.0, ends.1, None).is_some();
        is_gre && self.fpf.as_deref().is_some_and(named)
    }

    /// Takes a packet out of its tunnel, and handles the FPF packet in it.
    #[cold]
    pub(super) fn leave_tunnel(&mut self, held: Held, input: Input, now: Instant) {
        let Classified {
            mut packet,
            headers,
        } = held.packet;
        let (Some(ingress), Some(fpf)) = (held.ingress, &self.fpf) else {
            self.fates.discard(packet, Reason::LocalDelivery);
            return;
        };
        let ethertype = fpf.table.domain().ethertype();
        let outer = usize::from(headers.l4) + gre::HEADER_LEN - ethernet::HEADER_LEN;
        encapsulation::strip(&mut self.pool, &mut packet, outer, ethertype);
        let entry = Entry {
            ingress,
            input,
            at: now,
        };
        self.receive_fpf(entry, packet);
    }
}

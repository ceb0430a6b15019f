//! The stages joined: from a received frame to a frame that a device may send.
//!
//! ```text
//!  receive(frame) -> segment? -> parse -> classify -> forward --> Port::offer      one burst
//!                      \_________ \________ \________ \______
//!                                                            \__ fates.discard, perhaps an ICMP error
//!
//!  step(now)  -> Port::step -> outbox                                    then, for each port
//!  flush(port, device)  -> frames leave, slots return to the pool
//! ```

use std::net::IpAddr;
use std::sync::Arc;

use weir_base::Instant;
use weir_packet::{Ecn, Packet, Reason, Slot};

use crate::bridge;
use crate::classify::{Classified, classify};
use crate::egress::fragment;
use crate::egress::rewrite;
use crate::headers::{self, Headers, Parsed};
use crate::ip::forward::{Exit, Origin, Verdict, forward};
use crate::ip::icmp_error::{self, IcmpCause};
use crate::ip::parse::{Refused, parse};
use crate::ip::tables::{Neighbour, NeighbourKey, Tables};
use crate::ip::waiting::Held;
use crate::link;
use crate::link::offload::Offload;
use crate::link::segment::Superframe;
use crate::plane::watch;
use crate::plane::{Mode, OUTBOX_MAX, Plane};

/// What is known of a received frame beside its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When it came in.
    pub at: Instant,
    /// Its length on the link; more than there are bytes if a receive ring cut it.
    pub len: u32,
    /// The 802.1Q tag control information, if it was tagged.
    pub vlan: Option<u16>,
    /// What its sender left to hardware.
    pub offload: Offload,
}

/// Frames that are offered to a device at once.
const FLUSH_MAX: usize = 64;

impl Plane {
    /// Takes a new snapshot of routes and neighbours, and sends on what waited for it.
    /// Gives the old snapshot back: the last owner of a large one should not be this thread.
    pub fn set_tables(&mut self, tables: Arc<Tables>, now: Instant) -> Arc<Tables> {
        let old = std::mem::replace(&mut self.tables, tables);
        self.next_hops.clear();
        self.passed.clear();
        self.find_indices();
        let tables = Arc::clone(&self.tables);
        let settled = self.waiting.take_settled(&tables, now);
        for held in settled.answered {
            let place = self.came_by(held.ingress);
            self.send_on(held, now);
            self.reclaim(place);
        }
        self.give_up(settled.failed, now);
        old
    }

    /// Takes a received frame in and carries it up to its egress port's queue. A superframe is cut
    /// first; the packets that it becomes may be many, so whoever gave one should let the ports make
    /// a step before the next frame.
    pub fn receive(&mut self, ingress: usize, frame: &[u8], arrival: Arrival) {
        if arrival.offload.segmentation.is_some() {
            return self.receive_superframe(ingress, frame, &arrival);
        }
        self.receive_frame(ingress, frame, &arrival);
    }

    /// Cuts a superframe, and takes in each frame that it would have been on a wire.
    #[inline(never)] // so that the way of all other frames stays short
    fn receive_superframe(&mut self, ingress: usize, frame: &[u8], arrival: &Arrival) {
        let superframe = match Superframe::new(frame, &arrival.offload) {
            Ok(superframe) if frame.len() == arrival.len as usize => superframe,
            unusable => {
                let reason = unusable.map_or_else(|why| why, |_| Reason::TruncatedFrame);
                return self.refuse(ingress, frame, arrival, reason);
            }
        };
        let mut segment = std::mem::take(&mut self.segment);
        for n in 0..superframe.count() {
            superframe.write(n, &mut segment);
            let arrival = Arrival {
                len: segment.len() as u32,
                offload: Offload::NONE,
                ..*arrival
            };
            self.receive_frame(ingress, &segment, &arrival);
        }
        self.segment = segment;
    }

    #[inline]
    fn receive_frame(&mut self, ingress: usize, frame: &[u8], arrival: &Arrival) {
        let taken = self.take_in(ingress, frame, arrival);
        if self.watch.is_some() {
            self.show_arrival(ingress, frame, arrival, taken);
        }
        self.pool.reclaim(self.fates.freed().map(|(slot, _)| slot));
    }

    /// Ends a frame that never got into the pool.
    fn refuse(&mut self, ingress: usize, frame: &[u8], arrival: &Arrival, reason: Reason) {
        let received = u64::from(arrival.len);
        self.ports[ingress].received.count(received);
        self.fates.count_frame(received, reason);
        if self.watch.is_some() {
            self.show_arrival(ingress, frame, arrival, Err(reason));
        }
    }

    /// Where the frame went in the pool, or why it did not.
    fn take_in(&mut self, ingress: usize, frame: &[u8], arrival: &Arrival) -> Result<Slot, Reason> {
        let received = u64::from(arrival.len);
        self.ports[ingress].received.count(received);
        if arrival.at < self.oldest {
            self.fates.count_frame(received, Reason::Stale);
            return Err(Reason::Stale);
        }
        if frame.len() < arrival.len as usize || frame.len() > self.pool.frame_bytes_max() {
            self.fates.count_frame(received, Reason::TruncatedFrame);
            return Err(Reason::TruncatedFrame);
        }
        let Some(packet) = self.pool.receive(frame, arrival.at) else {
            self.fates.count_frame(received, Reason::PoolExhausted);
            return Err(Reason::PoolExhausted);
        };
        let slot = packet.slot;
        match self.mode {
            Mode::Routed => self.route(ingress, packet, arrival),
            Mode::Bridged => self.bridge(ingress, packet, arrival),
        }
        Ok(slot)
    }

    /// Lets the watch see a frame as it came, with its end if it has ended already, and what else
    /// has ended on its account.
    #[cold]
    fn show_arrival(
        &mut self,
        ingress: usize,
        frame: &[u8],
        arrival: &Arrival,
        taken: Result<Slot, Reason>,
    ) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        let end = match taken {
            Err(reason) => Some(reason),
            Ok(own) => {
                let mut ended = self.fates.to_be_freed().iter();
                ended.find(|(slot, _)| *slot == own).map(|(_, why)| *why)
            }
        };
        // As it would have been on a wire.
        let mut finished = Vec::new();
        let bytes = match arrival.offload.checksum {
            Some(partial) => {
                finished.extend_from_slice(frame);
                let end = headers::peek(frame).l3_range().end;
                let _shown_as_it_came = partial.finish(&mut finished[..end], 0);
                &finished
            }
            None => frame,
        };
        let frame = watch::Frame {
            bytes,
            len: arrival.len,
            tag: arrival.vlan,
        };
        let port = self.ports[ingress].watched;
        watch.came(port, &frame, arrival.at, end);
        let place = watch::Place {
            port,
            direction: None,
        };
        watch.ended(place, &self.fates, &self.pool, taken.ok());
    }

    /// Lets every port do what has become due. Gives the time of the next event, if one is known.
    pub fn step(&mut self, now: Instant) -> Option<Instant> {
        self.keep_watch(now);
        let expired = self.waiting.expired(now);
        self.give_up(expired, now);
        let mut next = self.waiting.deadline();
        for slot in &mut self.ports {
            let room = OUTBOX_MAX - slot.outbox.len();
            let (keys, fates) = (&self.pool.keys, &mut self.fates);
            let outbox = &mut slot.outbox;
            let due = slot.port.step(now, keys, fates, room, &mut |packet, _| {
                outbox.push_back(packet);
            });
            // With a full outbox the port could not go on: it may as soon as the device has taken some.
            let full = slot.outbox.len() >= OUTBOX_MAX && !slot.port.is_idle();
            let due = due.or(full.then_some(now));
            for packet in slot.outbox.range(OUTBOX_MAX - room..) {
                if packet.ecn == Ecn::Congested
                    && rewrite::mark_congestion(self.pool.frame_mut(packet))
                    && let Some(watch) = &mut self.watch
                {
                    watch.marked(packet.slot);
                }
            }
            if let Some(watch) = &mut self.watch {
                watch.ended(slot.place(), &self.fates, &self.pool, None);
            }
            self.pool.reclaim(self.fates.freed().map(|(slot, _)| slot));
            next = [next, due].into_iter().flatten().min();
        }
        next
    }

    /// Gives the watch the time, and ends it if its owner is gone.
    fn keep_watch(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.set_time(now);
            if watch.is_abandoned(now) {
                self.watch = None;
            }
        }
    }

    /// Offers the waiting frames of a port to its device, which says how many of them it took.
    /// Whether frames are left.
    pub fn flush<E>(
        &mut self,
        number: usize,
        mut send: impl FnMut(&[&[u8]]) -> Result<usize, E>,
    ) -> Result<bool, E> {
        while !self.ports[number].outbox.is_empty() {
            let outbox = &self.ports[number].outbox;
            let offered = outbox.len().min(FLUSH_MAX);
            let mut frames: [&[u8]; FLUSH_MAX] = [&[]; FLUSH_MAX];
            for (frame, packet) in frames.iter_mut().zip(outbox.iter()) {
                *frame = self.pool.frame(packet);
            }
            let taken = send(&frames[..offered])?;
            if let Some(watch) = &mut self.watch {
                let port = self.ports[number].watched;
                for packet in self.ports[number].outbox.iter().take(taken) {
                    watch.left(port, packet.slot, self.pool.frame(packet));
                }
            }
            let outbox = &mut self.ports[number].outbox;
            for packet in outbox.drain(..taken) {
                self.pool.release(packet);
            }
            if taken < offered {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn route(&mut self, ingress: usize, packet: Packet, arrival: &Arrival) {
        if arrival.vlan.is_some_and(|tci| tci & 0x0fff != 0) {
            self.fates.discard(packet, Reason::UnknownVlan);
            return;
        }
        let link = match link::validate(self.pool.frame(&packet)) {
            Ok(link) => link,
            Err(reason) => {
                self.fates.discard(packet, reason);
                return;
            }
        };
        match parse(&mut self.pool, packet, &link) {
            Ok(parsed) => {
                if let Err(reason) = self.check_source(ingress, &parsed.headers) {
                    self.fates.discard(parsed.packet, reason);
                    return;
                }
                if let Err(reason) = self.finish_checksum(&parsed, arrival) {
                    self.fates.discard(parsed.packet, reason);
                    return;
                }
                let held = Held {
                    packet: classify(&mut self.pool, parsed),
                    ingress: Some(ingress),
                    origin: Origin::Transit,
                };
                self.send_on(held, arrival.at);
            }
            Err(Refused { packet, reason }) => {
                self.fates.discard(packet, reason);
            }
        }
    }

    fn bridge(&mut self, ingress: usize, packet: Packet, arrival: &Arrival) {
        let parsed = bridge::parse(&self.pool, packet);
        if let Err(reason) = self.finish_checksum(&parsed, arrival) {
            self.fates.discard(parsed.packet, reason);
            return;
        }
        let mut packet = classify(&mut self.pool, parsed).packet;
        let tagged = arrival
            .vlan
            .is_none_or(|tci| link::tag::insert(&mut self.pool, &mut packet, tci));
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

    /// Finishes a checksum that the sender left to hardware, if it did.
    #[inline]
    fn finish_checksum(&mut self, parsed: &Parsed, arrival: &Arrival) -> Result<(), Reason> {
        let Some(partial) = arrival.offload.checksum else {
            return Ok(());
        };
        let stripped = self.pool.stripped(&parsed.packet);
        let end = parsed.headers.l3_range().end; // what follows is padding
        let frame = &mut self.pool.frame_mut(&parsed.packet)[..end];
        partial.finish(frame, stripped)
    }

    /// Forwards a classified packet; also after it has waited.
    fn send_on(&mut self, held: Held, now: Instant) {
        let Held {
            packet: Classified { packet, headers },
            ingress,
            origin,
        } = held;
        let hash = self.pool.keys.hash(&packet, weir_packet::KeyKind::Flow);
        match forward(&self.tables, &mut self.next_hops, &headers, hash, origin) {
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
                self.wait(held, neighbour, now);
            }
            Verdict::End(reason, cause) => {
                self.end(ingress, packet, reason, told(origin, headers, cause), now);
            }
        }
    }

    /// Lets a packet wait for its next hop. One that did not answer when it was asked last is asked
    /// again: it may be back.
    fn wait(&mut self, held: Held, neighbour: NeighbourKey, now: Instant) {
        let known = self.tables.neighbours.get(&neighbour);
        let failed = known == Some(&Neighbour::Failed);
        let mut refused = Vec::new();
        self.waiting
            .push(now, neighbour, failed, held, &mut refused);
        for held in refused {
            let packet = held.packet.packet;
            self.fates.discard(packet, Reason::NeighbourQueueFull);
        }
    }

    /// Ends packets whose next hop does not answer.
    fn give_up(&mut self, failed: Vec<Held>, now: Instant) {
        for held in failed {
            let place = self.came_by(held.ingress);
            let Classified { packet, headers } = held.packet;
            let notify = told(held.origin, headers, Some(IcmpCause::HostUnreachable));
            self.end(held.ingress, packet, Reason::NeighbourFailed, notify, now);
            self.reclaim(place);
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
        ingress: Option<usize>,
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
    fn error_source(&self, ingress: Option<usize>, to: IpAddr) -> Option<IpAddr> {
        let own = ingress
            .and_then(|n| self.ports.get(n))
            .and_then(|p| p.index);
        let all = self.ports.iter().map(|p| p.index);
        [own]
            .into_iter()
            .chain(all)
            .flatten()
            .filter_map(|index| self.tables.interfaces.get(&index))
            .find_map(|interface| interface.address_for(to))
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

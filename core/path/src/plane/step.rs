//! From a received frame to a frame that a device may send.
//!
//! ```text
//!  Burst::receive(frame) -> segment? -> pool -> headers -> gathered       for each frame of a burst
//!  end of the burst      -> routes of all -> next hops -> Port::offer     for all of them, in their order
//!
//!  step(now)  -> Port::step -> outbox                                    then, for each port
//!  flush(port, device)  -> frames leave, slots return to the pool
//! ```

use std::sync::Arc;

use weir_base::Instant;
use weir_packet::{Ecn, FrameBytes, Reason, Slot};

use crate::egress::rewrite;
use crate::headers;
use crate::ip::tables::Tables;
use crate::link;
use crate::link::offload::Offload;
use crate::plane::observe::{At, Refused};
use crate::plane::watch::{self, Place};
use crate::plane::{Mode, OUTBOX_MAX, Plane};
use crate::talkers::Taken;

/// A received frame, without its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Time of arrival.
    pub at: Instant,
    /// Length of the frame on the link, in bytes; the frame has fewer bytes here if a receive ring cut it.
    pub len: u32,
    /// The 802.1Q tag control information, if the frame was tagged.
    pub vlan: Option<u16>,
    /// Work that the sender left to hardware.
    pub offload: Offload,
}

/// The frames that a superframe becomes on the wire if it passes whole.
#[derive(Clone, Copy)]
pub(crate) struct Whole {
    pub(super) frames: u8,
    /// Bytes of all frames together.
    pub(super) bytes: u64,
}

/// Maximum frames that are offered to a device at once.
const FLUSH_MAX: usize = 64;

/// The frames of one burst, which all arrived at one port.
///
/// The routes of all its packets are looked up together, so that the processor waits for many lines of memory at the
/// same time. Packets keep their order and their times. When this value is dropped, the burst is carried up to the
/// egress ports.
pub struct Burst<'a> {
    plane: &'a mut Plane,
    ingress: usize,
}

impl Burst<'_> {
    /// Takes a received frame. A superframe that does not pass whole is cut first; it may become up to [`AT_ONCE`]
    /// packets, so the caller should let the ports make a step before the next frame. A superframe that would become
    /// more packets waits for [`Plane::receive_deferred`], like the next frames of its sender.
    ///
    /// [`AT_ONCE`]: crate::plane::deferred::AT_ONCE
    #[inline]
    pub fn receive(&mut self, frame: FrameBytes<'_>, arrival: Arrival) {
        self.plane.take(self.ingress, frame, arrival);
    }

    /// The plane, after all frames so far have been carried up to their egress ports.
    pub fn plane(&mut self) -> &mut Plane {
        self.plane.end_burst(self.ingress);
        self.plane
    }
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        self.plane.end_burst(self.ingress);
    }
}

impl Plane {
    /// Starts a burst of frames that arrived at a port.
    pub fn burst(&mut self, ingress: usize) -> Burst<'_> {
        Burst {
            plane: self,
            ingress,
        }
    }

    /// Takes a new snapshot of routes and neighbours, and sends the packets that waited for it. Returns the old
    /// snapshot, so that another thread can free it: it may be large.
    pub fn set_tables(&mut self, tables: Arc<Tables>, now: Instant) -> Arc<Tables> {
        let old = std::mem::replace(&mut self.tables, tables);
        self.now = self.now.max(now);
        self.next_hops.clear();
        self.passed.clear();
        self.find_indices();
        let tables = Arc::clone(&self.tables);
        let settled = self.waiting.take_settled(&tables, now);
        for (neighbour, held) in settled.answered {
            let place = Place::coming(held.ingress);
            if held.by_rule {
                self.send_to_neighbour(held, neighbour, now)
            } else {
                self.send_on(held, now)
            }
            self.reclaim(place);
        }
        self.give_up(settled.failed, now);
        old
    }

    /// Takes a received frame and carries it up to its egress port, as a burst of one.
    pub fn receive(&mut self, ingress: usize, frame: &[u8], arrival: Arrival) {
        let frame = FrameBytes::Lent(frame);
        self.burst(ingress).receive(frame, arrival);
    }

    #[inline]
    pub(crate) fn end_burst(&mut self, ingress: usize) {
        self.forward_gathered();
        self.reclaim(Place::coming(Some(ingress)));
    }

    #[inline]
    fn take(&mut self, ingress: usize, frame: FrameBytes<'_>, arrival: Arrival) {
        if arrival.offload.segmentation.is_some() || self.has_deferred(ingress) {
            return self.receive_or_defer(ingress, frame, &arrival);
        }
        self.receive_frame(ingress, frame, &arrival, None);
    }

    /// Handles a frame; `whole` holds the frames of a superframe that passes as it is.
    #[inline]
    pub(crate) fn receive_frame(
        &mut self,
        ingress: usize,
        mut frame: FrameBytes<'_>,
        arrival: &Arrival,
        whole: Option<Whole>,
    ) {
        if let Some(number) = self.measured_at(ingress) {
            self.measure_arrival(number, &frame, arrival);
        }
        let taken = self.take_in(ingress, &mut frame, arrival, whole);
        if self.watch.is_some() {
            self.forward_gathered(); // the watch records the fate of the frame
            self.show_arrival(ingress, &frame, arrival, taken);
        }
        if let Err(reason) = taken {
            self.show_refused(ingress, &frame, arrival, reason);
        }
        if !self.fates.to_be_freed().is_empty() {
            self.now = self.now.max(arrival.at);
            let place = Place {
                port: Some(ingress),
                direction: None,
            };
            self.show_ended(place, taken.ok());
        }
    }

    /// Drops a frame that never entered the pool.
    pub(crate) fn refuse(
        &mut self,
        ingress: usize,
        frame: &[u8],
        arrival: &Arrival,
        reason: Reason,
    ) {
        let received = u64::from(arrival.len);
        self.ports[ingress].received.count(received);
        self.fates.count_frame(received, reason);
        if self.watch.is_some() {
            self.show_arrival(ingress, frame, arrival, Err(reason));
        }
        self.show_refused(ingress, frame, arrival, reason);
    }

    /// Shows observers a frame that never entered the pool.
    #[cold]
    fn show_refused(&mut self, ingress: usize, frame: &[u8], arrival: &Arrival, reason: Reason) {
        let at = At {
            port: Some((ingress, &self.ports[ingress].name)),
            outbound: false,
            now: arrival.at,
        };
        let refused = Refused {
            frame,
            len: arrival.len,
            reason,
        };
        self.observers.see_frame(&at, &refused, &self.pool);
    }

    /// Takes a frame into the pool and handles it; returns its slot, or why it never entered the pool. A frame that passes
    /// whole and is not watched leaves its buffer in the pool.
    fn take_in(
        &mut self,
        ingress: usize,
        frame: &mut FrameBytes<'_>,
        arrival: &Arrival,
        whole: Option<Whole>,
    ) -> Result<Slot, Reason> {
        let received = whole.map_or(arrival.len.into(), |whole| whole.bytes);
        let port = &mut self.ports[ingress];
        port.received.count(received);
        let mode = port.mode;
        let refused = match () {
            () if arrival.at < self.oldest => Some(Reason::Stale),
            () if !self.forwards => Some(Reason::Disabled),
            () => None,
        };
        if let Some(reason) = refused {
            self.fates.count_frame(received, reason);
            return Err(reason);
        }
        if frame.len() < arrival.len as usize
            || whole.is_none() && frame.len() > self.pool.frame_bytes_max()
        {
            self.fates.count_frame(received, Reason::TruncatedFrame);
            return Err(Reason::TruncatedFrame);
        }
        let packet = match frame {
            FrameBytes::Buffer(buffer, len) if whole.is_some() && self.watch.is_none() => {
                self.pool.exchange(buffer, *len, arrival.at)
            }
            frame => self.pool.receive(frame, arrival.at),
        };
        let Some(mut packet) = packet else {
            self.fates.count_frame(received, Reason::PoolExhausted);
            return Err(Reason::PoolExhausted);
        };
        if let Some(whole) = whole {
            packet.frames = whole.frames;
            packet.extra = (received - u64::from(arrival.len)) as u16;
        }
        let slot = packet.slot;
        match mode {
            Mode::Routed => self.route(ingress, packet, arrival),
            Mode::Bridged | Mode::Queue => self.pass(ingress, packet, arrival),
        }
        Ok(slot)
    }

    /// Shows the watch a frame as it arrived, with the reason if it has been dropped already.
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
                ended
                    .find(|freed| freed.slot == own)
                    .map(|freed| freed.reason)
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
    }

    /// Makes a step of every port. Returns the time of the next event, if one is known.
    pub fn step(&mut self, now: Instant) -> Option<Instant> {
        self.now = self.now.max(now);
        self.keep_watch(now);
        if self.observers.due() <= now {
            self.observers.flush(&self.ports, &self.fates, now);
        }
        let expired = self.waiting.expired(now);
        self.give_up(expired, now);
        let due = self.lend(|overlay, plane| overlay.step(plane, now));
        let due = [self.waiting.deadline(), due.flatten()];
        let mut next = due.into_iter().flatten().min();
        for number in 0..self.ports.len() {
            let due = match self.shared.iter().position(|shared| shared.has(number)) {
                None => {
                    let held = self.ports[number].outbox.len();
                    let due = self.step_port(number, now, OUTBOX_MAX - held);
                    self.see_departed(number, held, now);
                    due
                }
                Some(group) if self.shared[group].is_first(number) => self.step_shared(group, now),
                Some(_) => continue, // has made its step with the first one
            };
            next = [next, due].into_iter().flatten().min();
        }
        next
    }

    /// Makes a step of a port, which may send as many packets as there is room.
    pub(super) fn step_port(
        &mut self,
        number: usize,
        now: Instant,
        room: usize,
    ) -> Option<Instant> {
        let slot = &mut self.ports[number];
        let (keys, fates) = (&self.pool.keys, &mut self.fates);
        let outbox = &mut slot.outbox;
        let due = slot.port.step(now, keys, fates, room, &mut |packet, _| {
            outbox.push_back(packet);
        });
        due.or(slot.is_full().then_some(now))
    }

    /// Samples, marks and measures the packets that left a port in a step. Before the step its outbox held `held` packets.
    pub(super) fn see_departed(&mut self, number: usize, held: usize, now: Instant) {
        let slot = &mut self.ports[number];
        for packet in slot.outbox.range(held..) {
            let keys = &self.pool.keys;
            slot.talkers.sent(packet.bytes(), || *keys.key(packet));
            if packet.ecn == Ecn::Congested {
                let frame = self.pool.frame_mut(packet);
                let headers = match (&self.overlay, link::peek(frame)) {
                    (Some(overlay), Some(link)) if overlay.ethertype() == Some(link.ethertype) => {
                        overlay.peek(frame, link.l3)
                    }
                    _ => headers::peek(frame),
                };
                if rewrite::mark_congestion(frame, &headers)
                    && let Some(watch) = &mut self.watch
                {
                    watch.marked(packet.slot);
                }
            }
        }
        if self.ports[number].round_trips.is_some() {
            self.measure_sent(number, held, now);
        }
        self.reclaim(Place::leaving(number));
    }

    /// The samples of the packets that each port sent since the last call, in the order of the ports.
    pub fn fetch_talkers(&mut self) -> Vec<Vec<Taken>> {
        let ports = self.ports.iter_mut();
        ports.map(|port| port.talkers.fetch()).collect()
    }

    /// Sets the time of the watch, and ends the watch if its owner no longer fetches.
    fn keep_watch(&mut self, now: Instant) {
        if let Some(watch) = &mut self.watch {
            watch.set_time(now);
            if watch.is_abandoned(now) {
                self.watch = None;
            }
        }
    }

    /// Offers the waiting frames of a port to its device, with what is left for it to do. The device reports how many
    /// frames it took.
    /// Returns whether frames are left.
    pub fn flush<E>(
        &mut self,
        number: usize,
        mut send: impl FnMut(&[&[u8]], &[Offload]) -> Result<usize, E>,
    ) -> Result<bool, E> {
        let is_lent = self.ports[number].mode == Mode::Queue;
        while !self.ports[number].outbox.is_empty() {
            let outbox = &self.ports[number].outbox;
            let offered = outbox.len().min(FLUSH_MAX);
            let mut frames: [&[u8]; FLUSH_MAX] = [&[]; FLUSH_MAX];
            let mut offloads = [Offload::NONE; FLUSH_MAX];
            for (n, packet) in outbox.iter().take(offered).enumerate() {
                frames[n] = self.pool.frame(packet);
                // Other packets are complete, unless the kernel has lent them.
                if (packet.frames > 1 || is_lent)
                    && let Some(left) = self.offloads.get(packet.slot.0 as usize)
                {
                    offloads[n] = left.moved(self.pool.stripped(packet));
                }
            }
            let taken = send(&frames[..offered], &offloads[..offered])?;
            if let Some(watch) = &mut self.watch {
                let port = self.ports[number].watched;
                for packet in self.ports[number].outbox.iter().take(taken) {
                    watch.left(port, packet, &self.pool);
                }
            }
            let outbox = &mut self.ports[number].outbox;
            for packet in outbox.drain(..taken) {
                if let Some(translations) = &mut self.translations {
                    translations.ended(packet.slot);
                }
                self.pool.release(packet);
            }
            if taken < offered {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

//! A port: a discipline in front of a link, and the only place that orders events.
//!
//! ```text
//!             offer()                    step(now)
//!  arrivals ---------> [ arrivals ] ---------------> [ discipline ] ---> link ---> departed
//!                       own times     replayed in                  one frame at a
//!                                     the order of time            time, at the rate
//! ```
//!
//! A step replays all events that have become due since the last step, in the order of their own
//! times: at one instant timers run first, then arrivals are queued, then the link starts its next
//! frame if the last one is complete. The discipline's decisions do not depend on whether a step
//! comes exactly on time (sim), or late and for a whole batch (live).
//!
//! A late step may catch up, but within a bound: at most [`Link::burst`] bytes leave at once.
//! Transmission time beyond that is lost, as on a link that was idle.

use std::collections::VecDeque;

use weir_base::framing::Cells;
use weir_base::{Delays, Instant, Rate, Span, Streams, Tally};
use weir_discipline::{Admission, Cx, Metered, Ready, Spec, SpecMismatch};
use weir_packet::{DropCounters, Keys, Packet, Reason};

use crate::egress::transmitter::Transmitter;
pub use crate::egress::transmitter::{Link, Transmission};

/// Longest time for which a link may send a superframe that is not cut.
const WHOLE_MAX: Span = Span::from_millis(1);

/// A discipline in front of a link.
pub struct Port {
    queue: Metered,
    transmitter: Transmitter,
    /// How far behind the clock the schedule may lag.
    lag_max: Span,
    /// The first packet that was offered and not yet replayed, usually the only one; and the packets after it.
    first: Option<Packet>,
    arrivals: VecDeque<Packet>,
    /// All events up to this time have been replayed.
    clock: Instant,
    /// How long light packets were queued, without those that were not queued; and the same for heavy packets.
    delays: [Delays; 2],
}

impl Port {
    /// A port whose discipline is built from `spec`.
    pub fn new(spec: Spec, link: Link, now: Instant, streams: &Streams) -> Self {
        let mut queue = Metered::new(spec, now, streams);
        queue.set_link_rate(link.rate);
        queue.set_framing(link.framing);
        Self {
            queue,
            transmitter: Transmitter::new(link, now),
            lag_max: link.lag_max(),
            first: None,
            arrivals: VecDeque::new(),
            clock: now,
            delays: Default::default(),
        }
    }

    /// Hands a packet over; the next step queues it at its own time of arrival.
    #[inline(always)]
    pub fn offer(&mut self, packet: Packet) {
        match self.first {
            None => self.first = Some(packet),
            Some(_) => self.arrivals.push_back(packet),
        }
    }

    /// Replays all events that are due up to `now`. Frames that the link starts go to `departed`, at most
    /// `room` of them. Returns the time of the next event, if one is known.
    pub fn step(
        &mut self,
        now: Instant,
        keys: &Keys,
        fates: &mut DropCounters,
        mut room: usize,
        departed: &mut dyn FnMut(Packet, Transmission),
    ) -> Option<Instant> {
        self.catch_up(now);
        self.pass_all(now, &mut room, departed);
        let mut ready = self.queue.ready(self.clock);
        loop {
            let due = self.next_event(ready, room > 0)?.max(self.clock);
            if due > now {
                return Some(due);
            }
            self.clock = due;
            let mut cx = Cx {
                now: due,
                keys,
                fates: &mut *fates,
                heavy: false,
            };
            if self.queue.timeout().is_some_and(|t| t <= due) {
                self.queue.on_timeout(&mut cx);
            }
            self.queue_arrivals(&mut cx);
            ready = self.queue.ready(due);
            while room > 0 && self.transmitter.free_at() <= due && ready == Ready::Now {
                cx.heavy = false;
                // None: the discipline dropped a packet, and its answer has changed.
                if let Some(packet) = self.queue.dequeue(&mut cx) {
                    if due > packet.enqueued || cx.heavy {
                        let delays = &mut self.delays[usize::from(cx.heavy)];
                        delays.count(due.since(packet.enqueued));
                    }
                    let sending = self.transmitter.send_packet(&packet, due);
                    room -= 1;
                    departed(packet, sending);
                }
                ready = self.queue.ready(due);
            }
        }
    }

    /// Gives up the transmission time that a late step at `now` may not use.
    pub(crate) fn catch_up(&mut self, now: Instant) {
        self.clock = self.clock.max(now.before(self.lag_max));
    }

    /// The time of the next event; the link's own events count only if it may start a frame.
    pub(crate) fn due(&self, link_may_start: bool) -> Option<Instant> {
        let next = self.next_event(self.queue.ready(self.clock), link_may_start)?;
        Some(next.max(self.clock))
    }

    /// Whether a step at `at` would let the link start a frame, unless the discipline drops it.
    pub(crate) fn may_start(&self, at: Instant) -> bool {
        self.transmitter.free_at() <= at && self.queue.ready(at) == Ready::Now
    }

    /// Makes the link busy for as long as the link of another port, with which it shares its rate.
    pub(crate) fn wait_for(&mut self, other: Instant) {
        self.transmitter.wait_for(other);
    }

    /// When the link has finished all its frames.
    pub fn free_at(&self) -> Instant {
        self.transmitter.free_at()
    }

    /// A shortcut for a port at which exactly one packet has just arrived: if its queue lets the packet through, its
    /// link is free and nothing else is due, this makes the step and returns the packet. Otherwise it makes no step and
    /// returns `None`.
    #[inline(always)]
    pub fn pass(&mut self, now: Instant) -> Option<(Packet, Transmission)> {
        let packet = self.first.as_ref()?;
        let passes = packet.arrived == now
            && self.transmitter.free_at() <= now
            && self.arrivals.is_empty()
            && self.queue.passes(1);
        if !passes {
            return None;
        }
        let packet = Packet {
            id: packet.id,
            arrived: now,
            enqueued: now,
            len: packet.len,
            slot: packet.slot,
            start: packet.start,
            class: packet.class,
            queue: packet.queue,
            ecn: packet.ecn,
            frames: packet.frames,
            extra: packet.extra,
        };
        self.first = None;
        self.clock = self.clock.max(now);
        self.queue.pass(Tally::one(packet.bytes()));
        let sending = self.transmitter.send_packet(&packet, now);
        Some((packet, sending))
    }

    /// A shortcut for the arrivals of a burst: if the queue lets them all through, and the link takes any number of
    /// frames at once, they leave without being queued.
    #[inline]
    fn pass_all(
        &mut self,
        now: Instant,
        room: &mut usize,
        departed: &mut dyn FnMut(Packet, Transmission),
    ) {
        let offered = usize::from(self.first.is_some()) + self.arrivals.len();
        let passes = self.link().rate.is_none()
            && self.clock.max(self.transmitter.free_at()) <= now
            && offered <= *room
            && self.queue.passes(offered);
        let has_arrived = |packet: &mut Packet| packet.arrived <= now;
        let mut next = self.first.take_if(|first| passes && has_arrived(first));
        if next.is_none() {
            return;
        }
        let mut passed = Tally::ZERO;
        while let Some(mut packet) = next {
            packet.enqueued = now;
            passed.count(packet.bytes());
            let sending = self.transmitter.send_packet(&packet, now);
            departed(packet, sending);
            next = self.arrivals.pop_front_if(has_arrived);
        }
        self.first = self.arrivals.pop_front();
        self.clock = now;
        self.queue.pass(passed);
        *room -= passed.packets as usize; // at most `offered`
    }

    /// Charges the link for a frame that left through it at `at` without passing this queue.
    pub fn charge(&mut self, bytes: u64, at: Instant) {
        self.transmitter.charge(bytes, at);
    }

    /// Changes the discipline and the link. The state is kept if the kind of discipline is the same.
    pub fn reconfigure(
        &mut self,
        spec: Spec,
        link: Link,
        now: Instant,
        keys: &Keys,
        fates: &mut DropCounters,
        streams: &Streams,
    ) {
        self.clock = self.clock.max(now);
        self.set_link(link);
        let mut cx = Cx {
            now: self.clock,
            keys,
            fates,
            heavy: false,
        };
        self.queue.reconfigure(&mut cx, spec, streams);
    }

    /// Paces the link to another rate. Neither the discipline nor its state changes.
    pub fn pace(&mut self, rate: Option<Rate>, now: Instant) {
        self.clock = self.clock.max(now);
        self.set_link(Link {
            rate,
            ..*self.link()
        });
    }

    fn set_link(&mut self, link: Link) {
        if link != *self.link() {
            self.transmitter.replace(link, self.clock);
            self.queue.set_link_rate(link.rate);
            self.queue.set_framing(link.framing);
            self.lag_max = link.lag_max();
        }
    }

    /// Sets new parameters of the same discipline, which keeps its state. The link does not change.
    pub fn set(&mut self, spec: Spec, now: Instant) -> Result<(), SpecMismatch> {
        self.clock = self.clock.max(now);
        self.queue.set(spec, self.clock)
    }

    /// Sets the rate that the discipline assumes for a link without its own limit, because its frames are paced behind
    /// this port.
    pub fn set_known_rate(&mut self, rate: Option<Rate>) {
        self.queue.set_link_rate(rate);
    }

    /// Drops all held packets.
    pub fn shut_down(&mut self, fates: &mut DropCounters, reason: Reason) {
        for packet in self.first.take().into_iter().chain(self.arrivals.drain(..)) {
            fates.discard(packet, reason);
        }
        self.queue.shut_down(fates, reason);
    }

    /// Frees memory if nothing is held, so that a network of thousands of ports needs memory only for
    /// the busy ones.
    pub fn relax(&mut self) {
        if self.is_idle() {
            self.arrivals.shrink_to_fit();
            self.queue.relax();
        }
    }

    /// The queue with its ledger.
    pub fn queue(&self) -> &Metered {
        &self.queue
    }

    /// The link.
    pub fn link(&self) -> &Link {
        self.transmitter.link()
    }

    /// Packets that the link has started to send.
    pub fn sent(&self) -> Tally {
        self.queue.ledger().sent
    }

    /// Whether a superframe of these frames, of `bytes` bytes together, may pass without being cut: other packets wait
    /// for all of it.
    pub fn carries_whole(&self, bytes: u64, frames: u8) -> bool {
        let link = self.link();
        let on_wire = link.wire_bytes_of(bytes, frames);
        link.framing.cells == Cells::None
            && link
                .rate
                .is_none_or(|rate| rate.time_for(on_wire) <= WHOLE_MAX)
    }

    /// Bytes on the wire of the packets that the link has started to send, and of those charged to it.
    pub fn on_wire(&self) -> u64 {
        self.transmitter.on_wire()
    }

    /// How long the sent packets were queued: light packets, and packets of flows that want more than their shares
    /// ([`Cx::heavy`]).
    pub fn delays(&self) -> [Delays; 2] {
        let [mut light, heavy] = self.delays;
        light.count_zeros(self.sent().packets - light.total() - heavy.total());
        [light, heavy]
    }

    /// Whether nothing is held or waiting to be queued.
    pub fn is_idle(&self) -> bool {
        self.first.is_none() && self.queue.backlog() == Tally::ZERO
    }

    fn queue_arrivals(&mut self, cx: &mut Cx<'_>) {
        // While one packet is queued, the memory for the next ones is being loaded.
        const AHEAD: usize = 4;
        if !self.arrivals.is_empty() {
            let all = self.first.iter().chain(&self.arrivals);
            for packet in all.take(AHEAD) {
                self.queue.prefetch(cx, packet);
            }
        }
        while let Some(mut packet) = self.first.take_if(|p| p.arrived <= cx.now) {
            self.first = self.arrivals.pop_front();
            if let Some(coming) = self.arrivals.get(AHEAD - 2) {
                self.queue.prefetch(cx, coming);
            }
            packet.enqueued = cx.now;
            match self.queue.enqueue(cx, packet) {
                Admission::Queued | Admission::Marked | Admission::Refused(_) => {}
            }
        }
        if self.arrivals.is_empty() {
            self.arrivals.clear(); // back to the start of its memory, which is warm
        }
    }

    /// The time of the next event, given the queue's answer at the time of `clock`. The link's own events
    /// count only if it may start a frame.
    fn next_event(&self, ready: Ready, link_may_start: bool) -> Option<Instant> {
        let never = Instant::FAR_FUTURE;
        let arrival = self.first.as_ref().map_or(never, |p| p.arrived);
        let timeout = self.queue.timeout().unwrap_or(never);
        let link = match ready {
            Ready::Now if link_may_start => self.transmitter.free_at(),
            Ready::At(t) if link_may_start => t.max(self.transmitter.free_at()),
            _ => never,
        };
        let next = arrival.min(timeout).min(link);
        (next < never).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::transmitter::DEBT_MAX;
    use weir_base::Framing;
    use weir_base::setting::Scalar;
    use weir_packet::{FlowKey, Slot};

    const FRAME: u32 = 1514;

    fn fifo(limit: i64) -> Spec {
        Spec::check("fifo", [("limit", &Scalar::Integer(limit))]).unwrap()
    }

    fn link(rate: Option<Rate>) -> Link {
        Link {
            rate,
            framing: weir_base::Framing::ETHERNET,
            frame_bytes_max: FRAME,
        }
    }

    struct Bench {
        port: Port,
        keys: Keys,
        fates: DropCounters,
        departures: Vec<(u64, u64)>,
    }

    impl Bench {
        fn new(limit: i64, rate: Option<Rate>) -> Self {
            Self {
                port: Port::new(fifo(limit), link(rate), Instant::ZERO, &Streams::new(1)),
                keys: Keys::new(4096, (1, 2)),
                fates: DropCounters::default(),
                departures: Vec::new(),
            }
        }

        fn offer(&mut self, id: u64, nanos: u64) {
            let at = Instant::from_nanos(nanos);
            self.port.offer(Packet::new(id, Slot(id as u32), FRAME, at));
        }

        fn step(&mut self, nanos: u64, room: usize) -> Option<u64> {
            let departures = &mut self.departures;
            self.port
                .step(
                    Instant::from_nanos(nanos),
                    &self.keys,
                    &mut self.fates,
                    room,
                    &mut |p, sending| departures.push((p.id, sending.start.as_nanos())),
                )
                .map(Instant::as_nanos)
        }
    }

    // 1514 B + 24 B = 1538 B = 12304 bit: 123.04 us at 100 Mbit/s.
    const FRAME_NANOS: u64 = 123_040;

    #[test]
    fn frames_leave_one_after_the_other_at_the_rate() {
        let mut bench = Bench::new(10, Some(Rate::from_mbps(100)));
        (0..3).for_each(|id| bench.offer(id, 1000));
        assert_eq!(bench.step(1000, 9), Some(1000 + FRAME_NANOS));
        assert_eq!(
            bench.step(1000 + FRAME_NANOS, 9),
            Some(1000 + 2 * FRAME_NANOS)
        );
        assert_eq!(bench.step(1000 + 2 * FRAME_NANOS, 9), None);
        let expected = [
            (0, 1000),
            (1, 1000 + FRAME_NANOS),
            (2, 1000 + 2 * FRAME_NANOS),
        ];
        assert_eq!(bench.departures, expected);
    }

    #[test]
    fn the_delay_of_each_sent_packet_is_counted() {
        let mut bench = Bench::new(10, Some(Rate::from_mbps(100)));
        (0..3).for_each(|id| bench.offer(id, 1000));
        bench.step(1000 + 2 * FRAME_NANOS, 9);
        bench.offer(3, 10 * FRAME_NANOS);
        assert!(
            bench
                .port
                .pass(Instant::from_nanos(10 * FRAME_NANOS))
                .is_some()
        );
        let [delays, heavy] = bench.port.delays();
        assert_eq!(heavy.total(), 0, "a plain queue knows no heavy flows");
        // The first and the last did not wait, the others for one frame and two.
        assert_eq!(delays.total(), 4);
        assert_eq!(delays.sum(), Span::from_nanos(3 * FRAME_NANOS));
        let below: Vec<_> = delays.cumulative().map(|(_, count)| count).collect();
        assert_eq!(below[..6], [2, 2, 2, 3, 4, 4]);
    }

    #[test]
    fn a_packet_that_passes_leaves_as_by_a_step() {
        // Alone at a free link; two at once; one while the link is busy; alone again, exactly when the link is free.
        let times = [0, 5, 5, 7, 4 * FRAME_NANOS, 5 * FRAME_NANOS];
        for limit in [1, 10] {
            let [mut stepped, mut passing] =
                [(); 2].map(|()| Bench::new(limit, Some(Rate::from_mbps(100))));
            let mut passed = 0;
            let mut due: Vec<u64> = times.to_vec();
            due.extend([FRAME_NANOS, 2 * FRAME_NANOS, 3 * FRAME_NANOS]);
            due.sort_unstable();
            due.dedup();
            for now in due {
                for (id, _) in times.iter().enumerate().filter(|(_, at)| **at == now) {
                    stepped.offer(id as u64, now);
                    passing.offer(id as u64, now);
                }
                stepped.step(now, 9);
                match passing.port.pass(Instant::from_nanos(now)) {
                    Some((packet, sending)) => {
                        passed += 1;
                        let start = sending.start.as_nanos();
                        passing.departures.push((packet.id, start));
                    }
                    None => drop(passing.step(now, 9)),
                }
            }
            assert_eq!(passing.departures, stepped.departures);
            let books = [&stepped, &passing].map(|bench| bench.port.queue().ledger());
            assert_eq!(books[0], books[1]);
            assert_eq!(passed, 3, "limit {limit}");
        }
    }

    #[test]
    fn one_late_step_decides_as_many_exact_ones() {
        // Two places in the queue: while frame 0 is sent, 1 and 2 wait and 3 is dropped; frame 4
        // comes after frame 1 has started.
        let arrivals = [(0, 0), (1, 10), (2, 20), (3, 30), (4, FRAME_NANOS + 5)];
        let mut exact = Bench::new(2, Some(Rate::from_mbps(100)));
        for (id, at) in arrivals {
            exact.step(at, 9);
            exact.offer(id, at);
            exact.step(at, 9);
        }
        let mut at = 0;
        while let Some(next) = exact.step(at, 9) {
            at = next;
        }
        let mut late = Bench::new(2, Some(Rate::from_mbps(100)));
        arrivals.iter().for_each(|(id, at)| late.offer(*id, *at));
        late.step(5 * FRAME_NANOS, 9);
        assert_eq!(late.departures, exact.departures);
        assert_eq!(late.fates.ended(Reason::QueueFull).packets, 1);
        let ids: Vec<_> = late.departures.iter().map(|d| d.0).collect();
        assert_eq!(ids, [0, 1, 2, 4]);
    }

    #[test]
    fn a_long_delay_is_not_caught_up_beyond_one_burst() {
        let mut bench = Bench::new(1000, Some(Rate::from_mbps(100)));
        (0..1000).for_each(|id| bench.offer(id, 0));
        // A second late: 1 ms at 100 Mbit/s is 12 500 B, eight frames of 1538 B; one less, because sending
        // takes time too.
        bench.step(1_000_000_000, 1000);
        let bytes = bench.departures.len() as u64 * 1538;
        assert!(bytes <= link(Some(Rate::from_mbps(100))).burst(), "{bytes}");
        assert_eq!(bench.departures.len(), 7);
    }

    #[test]
    fn the_schedule_keeps_its_rate_over_odd_frame_times() {
        // At 30 Mbit/s a frame takes 410 133.33 ns: the third of a nanosecond must not get lost.
        let mut bench = Bench::new(4000, Some(Rate::from_mbps(30)));
        (0..3001).for_each(|id| bench.offer(id, 0));
        let mut at = 0;
        while let Some(next) = bench.step(at, 2) {
            at = next;
        }
        assert_eq!(bench.departures[3000].1, 1_230_400_000);
    }

    #[test]
    fn a_port_of_any_framing_and_length_keeps_its_rate_on_the_wire() {
        for words in ["ethernet", "docsis", "pppoe-ptm", "pppoe-llcsnap", "raw"] {
            let framing = Framing::of_words(words).unwrap().from_ethernet();
            // 1 Mbit/s for ten seconds; the receiver counts what such a link carries.
            let mut port = Port::new(
                fifo(100_000),
                Link {
                    framing,
                    ..link(Some(Rate::from_mbps(1)))
                },
                Instant::ZERO,
                &Streams::new(1),
            );
            let (keys, mut fates) = (Keys::new(60_000, (1, 2)), DropCounters::default());
            let lengths = [42, 60, 64, 90, 583, 1514];
            for id in 0..60_000_u32 {
                let len = lengths[id as usize / 10_000 % 6];
                port.offer(Packet::new(id.into(), Slot(id), len, Instant::ZERO));
            }
            let mut wire = 0;
            let (end, mut at) = (Instant::from_nanos(10_000_000_000), Instant::ZERO);
            while at < end {
                let mut departed = |p: Packet, _| wire += framing.wire_bytes(p.bytes());
                let next = port.step(at, &keys, &mut fates, 2, &mut departed);
                at = next.unwrap();
            }
            let ratio = wire as f64 * 8.0 / 1e7;
            assert!((0.99..=1.01).contains(&ratio), "{words}: {ratio}");
            assert_eq!(port.on_wire(), wire);
        }
    }

    #[test]
    fn hosts_share_a_link_by_what_their_frames_take_of_it() {
        // 10 Mbit/s for ten seconds. A host sends short frames, another one full ones, each more than its half.
        let framing = Framing::of_words("pppoe-llcsnap").unwrap().from_ethernet();
        let spec = Spec::check("triple_fair", []).unwrap();
        let link = Link {
            framing,
            ..link(Some(Rate::from_mbps(10)))
        };
        let mut port = Port::new(spec, link, Instant::ZERO, &Streams::new(1));
        let (mut keys, mut fates) = (Keys::new(60_000, (1, 2)), DropCounters::default());
        let lengths = [64_u32, FRAME];
        let mut sent = 0_u32;
        let mut wire = [0_u64; 2];
        for tick in 0..10_000_u64 {
            let now = Instant::from_nanos(tick * 1_000_000);
            for host in [0_usize, 0, 0, 0, 0, 0, 0, 1] {
                let (slot, number) = (Slot(sent % 60_000), host as u8);
                let key = FlowKey::ip(
                    [10, 0, 0, number].into(),
                    [10, 0, 1, number].into(),
                    17,
                    1,
                    2,
                );
                keys.set(slot, key);
                let mut packet = Packet::new(sent.into(), slot, lengths[host], now);
                packet.enqueued = now;
                port.offer(packet);
                sent += 1;
            }
            let mut departed = |packet: Packet, _| {
                let host = usize::from(packet.len == FRAME);
                wire[host] += framing.wire_bytes(packet.bytes());
            };
            port.step(now, &keys, &mut fates, 64, &mut departed);
            fates.freed().count();
        }
        let ratio = wire[0] as f64 / wire[1] as f64;
        assert!((0.97..1.03).contains(&ratio), "{ratio}");
    }

    #[test]
    fn an_unpaced_port_sends_at_once_but_not_more_than_there_is_room() {
        let mut bench = Bench::new(10, None);
        (0..3).for_each(|id| bench.offer(id, 5));
        assert_eq!(bench.step(5, 2), None);
        assert_eq!(bench.departures, [(0, 5), (1, 5)]);
        bench.step(9, 2);
        assert_eq!(bench.departures.last(), Some(&(2, 9)));
    }

    #[test]
    fn what_the_kernel_sends_itself_counts_against_the_rate() {
        let mut bench = Bench::new(10, Some(Rate::from_mbps(100)));
        bench.port.charge(u64::from(FRAME), Instant::ZERO);
        bench.offer(0, 0);
        bench.offer(1, 0);
        assert_eq!(bench.step(0, 9), Some(FRAME_NANOS));
        bench.step(FRAME_NANOS, 9);
        assert_eq!(bench.departures, [(0, FRAME_NANOS)]);
    }

    #[test]
    fn a_flood_that_the_kernel_answers_cannot_stop_transit_for_long() {
        let mut bench = Bench::new(10, Some(Rate::from_mbps(100)));
        // 100 MB in a second, eight times what the link carries.
        for n in 0..66_000_u64 {
            let at = Instant::from_nanos(n * 15_000);
            bench.port.charge(u64::from(FRAME), at);
        }
        bench.offer(0, 1_000_000_000);
        let next = bench.step(1_000_000_000, 9).unwrap();
        assert!(next <= 1_000_000_000 + DEBT_MAX.as_nanos(), "{next}");
        // After an idle time, a burst from the kernel is not charged to the past.
        let mut idle = Bench::new(10, Some(Rate::from_mbps(100)));
        idle.port
            .charge(u64::from(FRAME), Instant::from_nanos(5_000_000_000));
        idle.offer(0, 5_000_000_000);
        assert_eq!(
            idle.step(5_000_000_000, 9),
            Some(5_000_000_000 + FRAME_NANOS)
        );
    }
}

//! An emulated link: packets leave a modem's buffer at a rate, are held for a delay, and some are lost.
//!
//! ```text
//!  arrivals --> lost? --> [ buffer ] -- rate --> [ delay +- jitter ] --> link
//! ```
//!
//! Source: the idea of Linux `sch_netem`. The lab uses this discipline where the kernel lacks netem.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use rand::Rng;
use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, SettingError};
use weir_base::{Bytes, Instant, Rate, Span, Stream, Streams, Tally};
use weir_packet::{Class, Packet, Reason};

use crate::contract::{Admission, Configured, Cx, Discipline, Manual, Ready};
use crate::fifo::LIMIT;
use crate::params::{Parameters, params};
use crate::parts::chance::Chance;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "impair",
    id: 0x00F7_020A,
    purpose: "an emulated link: rate, delay, jitter and loss",
    source: "the idea of Linux sch_netem",
    text: "\
Each packet is lost with the given probability, independently of other packets. Otherwise it is held for
the delay, plus or minus a uniformly distributed jitter. Then it leaves, but not before the packets that
arrived before it, unless `reorder` is on.

    arrivals --> lost? --> [ buffer ] -- rate --> [ delay +- jitter ] --> link

With a `rate`, packets are sent one after the other before their delay begins, and packets that wait for
the rate are in a FIFO of `buffer` bytes, as in a modem; packets that find it full are lost. A packet costs
24 bytes more than its layer-2 length, as on Ethernet. In an `outage` nothing is sent. A changed rate
applies at once: the remaining bits of the packet that is being sent go at the new rate.

A packet that finds the limit reached is dropped: the limit must be at least the packets that the link
sends in the delay. Finding the next packet takes time logarithmic in the number of packets held.

Defaults. Without settings nothing is impaired.

Deviations from netem: one distribution, no correlation, no duplicates and no corruption. A changed rate
also applies to waiting packets. A changed delay applies to packets whose delay begins after the change. A
new discipline that replaces this one while packets are held restarts their delay.

An attacker who fills the link fills the delay line, as it would fill a FIFO. Use it in the lab, not in a
production network.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::counter(101, "lost", Unit::Packets, "packets lost on the emulated link"),
        Gauge::counter(102, "full", Unit::Packets, "packets dropped because the limit was reached"),
        Gauge::counter(103, "overflowed", Unit::Packets, "packets lost because the buffer was full"),
    ],
};

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Params {
        /// Time that each packet is held.
        pub delay: Span = Parameter::new("delay", Kind::Span(Span::ZERO, Span::from_secs(60)), "0 s",
            "time that each packet is held").id(1),
        /// Maximum deviation of a packet's delay from `delay`.
        pub jitter: Span = Parameter::new("jitter", Kind::Span(Span::ZERO, Span::from_secs(60)), "0 s",
            "maximum deviation of a packet's delay, in both directions; at most the delay").id(2),
        /// Probability that a packet is lost.
        pub loss: f64 = Parameter::new("loss", Kind::Ratio(0.0, 1.0), "0",
            "probability that a packet is lost").id(3),
        /// Whether jitter may let a packet overtake another one.
        pub reorder: bool = Parameter::new("reorder", Kind::Flag, "false",
            "jitter may let a packet overtake another one").id(4),
        /// Maximum packets held.
        pub limit: usize = LIMIT.id(5),
        /// Rate at which packets are sent before their delay; zero if each is sent at once.
        pub rate: Rate = Parameter::new("rate", Kind::Rate(Rate::from_bps(0), Rate::PARAMETER_MAX), "0 bit",
            "rate at which packets are sent before their delay; 0 bit: each at once").id(6),
        /// Maximum bytes that wait for the rate.
        pub buffer: Bytes = Parameter::new("buffer", Kind::Bytes(Bytes(2_000), Bytes(1_000_000_000)), "1 GB",
            "maximum bytes that wait for the rate, without the packet that is being sent").id(7),
        /// Whether nothing is sent.
        pub outage: bool = Parameter::new("outage", Kind::Flag, "false", "no packet is sent").id(8),
    }
}

impl Params {
    /// When a packet that arrives now leaves, for a `draw` from the whole range of `u64`.
    fn leaves(&self, now: Instant, draw: u64) -> Instant {
        let range = u128::from(self.jitter.times(2).as_nanos()) + 1;
        let offset = (u128::from(draw) * range) >> 64;
        now + (self.delay - self.jitter) + Span::from_nanos(offset as u64)
    }
}

/// Counters of the link.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    lost: u64,
    full: u64,
    overflowed: u64,
}

/// The emulated link.
#[derive(Debug)]
pub struct Impair {
    params: Params,
    /// Packets that wait to be sent at the rate, of which the first is being sent; and the bytes of the others.
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    sending: Sending,
    held: BinaryHeap<Reverse<Held>>,
    backlog: Tally,
    /// The latest departure of the packets whose delay has begun.
    last: Instant,
    serial: u64,
    stream: Stream,
    stats: Stats,
}

/// A packet that waits to be sent at the rate, with the draw for its jitter.
#[derive(Debug)]
struct Waiting {
    packet: Packet,
    jitter: u64,
}

/// Work in bit ns/s: the product of a rate in bit/s and a time in ns, which is exact.
type Work = u128;
/// The work of a byte.
const BYTE: Work = 8 * 1_000_000_000;
/// Bytes of a packet on the wire beyond its length in layer 2: preamble, frame check sequence and gap.
const WIRE_OVERHEAD_BYTES: u64 = 24;

/// The transmission of the first packet that waits.
#[derive(Clone, Copy, Debug, Default)]
struct Sending {
    /// The work that was left at the time `at`.
    left: Work,
    at: Instant,
    /// The work that the link could have done beyond the last packet, because times are whole nanoseconds.
    spare: Work,
}

impl Sending {
    /// Begins a packet of `bytes` bytes at `now`.
    fn begin(&mut self, bytes: u64, now: Instant) {
        let work = Work::from(bytes + WIRE_OVERHEAD_BYTES) * BYTE;
        // The link was idle if the last packet ended earlier.
        let spare = if self.at == now { self.spare } else { 0 };
        self.left = work.saturating_sub(spare);
        (self.at, self.spare) = (now, 0);
    }

    /// When the packet's last bit is sent, if nothing changes.
    fn end(&self, params: &Params) -> Instant {
        let rate = Work::from(params.rate.as_bps());
        match (params.outage, rate) {
            (true, _) => Instant::FAR_FUTURE,
            (false, 0) => self.at,
            (false, rate) => {
                let nanos = self.left.div_ceil(rate);
                self.at + Span::from_nanos(nanos.try_into().unwrap_or(u64::MAX))
            }
        }
    }

    /// Records the work done by `now`, which must not be after the packet's end.
    fn advance(&mut self, now: Instant, params: &Params) {
        if !params.outage {
            let done = Work::from(params.rate.as_bps()) * Work::from(now.since(self.at).as_nanos());
            self.spare = done.saturating_sub(self.left);
            self.left = self.left.saturating_sub(done);
        }
        self.at = self.at.max(now);
    }
}

/// A packet in transit; packets with equal times leave in the order of arrival.
#[derive(Debug)]
struct Held {
    leaves: Instant,
    serial: u64,
    packet: Packet,
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.leaves, self.serial).cmp(&(other.leaves, other.serial))
    }
}

impl Impair {
    fn pop(&mut self) -> Option<Packet> {
        let Reverse(Held { packet, .. }) = self.held.pop()?;
        self.backlog.uncount(packet.bytes());
        Some(packet)
    }

    /// Whether a packet has to wait before its delay begins.
    fn waits(&self) -> bool {
        self.params.rate > Rate::default() || self.params.outage || !self.waiting.is_empty()
    }

    /// Queues a packet for the rate, and starts to send it if no other packet waits.
    fn wait(&mut self, packet: Packet, jitter: u64, now: Instant) {
        if self.waiting.is_empty() {
            self.sending.begin(packet.bytes(), now)
        } else {
            self.waiting_bytes += packet.bytes()
        }
        self.waiting.push_back(Waiting { packet, jitter });
    }

    /// Begins the delay of every packet that has been sent by `now`.
    fn send(&mut self, now: Instant) {
        while !self.waiting.is_empty() {
            let end = self.sending.end(&self.params);
            if end > now {
                return;
            }
            self.sending.advance(end, &self.params);
            let sent = self.waiting.pop_front();
            if let Some(next) = self.waiting.front() {
                self.waiting_bytes -= next.packet.bytes();
                self.sending.begin(next.packet.bytes(), end);
            }
            if let Some(Waiting { packet, jitter }) = sent {
                self.hold(packet, jitter, end);
            }
        }
    }

    /// Begins the delay of a packet.
    fn hold(&mut self, packet: Packet, jitter: u64, now: Instant) {
        let mut leaves = self.params.leaves(now, jitter);
        if !self.params.reorder {
            leaves = leaves.max(self.last);
        }
        self.last = self.last.max(leaves);
        let serial = self.serial;
        self.serial += 1;
        self.held.push(Reverse(Held {
            leaves,
            serial,
            packet,
        }));
    }
}

impl Configured for Impair {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    fn limit(params: &Params) -> Result<usize, SettingError> {
        if params.jitter > params.delay {
            return Err(SettingError::Contradiction {
                name: "jitter",
                why: format!(
                    "the jitter of {} must not exceed the delay of {}",
                    params.jitter, params.delay
                ),
            });
        }
        Ok(params.limit)
    }

    /// An empty link. All memory that it will ever use is allocated now.
    fn build(params: Params, _now: Instant, streams: &Streams) -> Self {
        Self {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            sending: Sending::default(),
            held: BinaryHeap::with_capacity(params.limit),
            params,
            backlog: Tally::ZERO,
            last: Instant::ZERO,
            serial: 0,
            stream: streams.stream(MANUAL.name),
            stats: Stats::default(),
        }
    }

    fn change(&mut self, params: Params, now: Instant) {
        self.send(now);
        if !self.waiting.is_empty() {
            self.sending.advance(now, &self.params);
        }
        let more = params.limit.saturating_sub(self.held.len());
        self.held.reserve(more);
        self.params = params;
    }
}

impl Discipline for Impair {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        // Each packet takes two draws, whatever its fate, so that parameters do not shift the stream.
        let (loss, jitter) = (self.stream.next_u64(), self.stream.next_u64());
        if Chance::new(self.params.loss).happens(loss) {
            self.stats.lost += 1;
            return Admission::Refused(cx.fates.discard(packet, Reason::Impaired));
        }
        if !self.has_room(packet.class) {
            self.stats.full += 1;
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        self.send(cx.now);
        let is_next = self.waiting.is_empty();
        if !is_next && self.waiting_bytes + packet.bytes() > self.params.buffer.0 {
            self.stats.overflowed += 1;
            return Admission::Refused(cx.fates.discard(packet, Reason::Impaired));
        }
        self.backlog.count(packet.bytes());
        if self.waits() {
            self.wait(packet, jitter, cx.now)
        } else {
            self.hold(packet, jitter, cx.now)
        }
        Admission::Queued
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let Reverse(next) = self.held.peek()?;
        if next.leaves > cx.now {
            return None;
        }
        self.pop()
    }

    fn has_room(&self, _class: Class) -> bool {
        self.waiting.len() + self.held.len() < self.params.limit
    }

    fn ready(&self, now: Instant) -> Ready {
        match self.held.peek() {
            None if self.waiting.is_empty() => Ready::Empty,
            // The timer fires first; only then is the end of the delay known.
            None => Ready::At(
                self.sending
                    .end(&self.params)
                    .max(now + Span::from_nanos(1)),
            ),
            Some(Reverse(next)) if next.leaves <= now => Ready::Now,
            Some(Reverse(next)) => Ready::At(next.leaves),
        }
    }

    fn backlog(&self) -> Tally {
        self.backlog
    }

    fn state_bytes(&self) -> usize {
        let held = self.held.capacity() * size_of::<Reverse<Held>>();
        size_of_val(self) + held + self.waiting.capacity() * size_of::<Waiting>()
    }

    fn timeout(&self) -> Option<Instant> {
        let end = self.sending.end(&self.params);
        (!self.waiting.is_empty() && end < Instant::FAR_FUTURE).then_some(end)
    }

    fn on_timeout(&mut self, cx: &mut Cx<'_>) {
        self.send(cx.now);
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        std::iter::from_fn(|| self.pop()).for_each(&mut *out);
        self.waiting_bytes = 0;
        for Waiting { packet, .. } in self.waiting.drain(..) {
            self.backlog.uncount(packet.bytes());
            out(packet);
        }
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report("lost", self.stats.lost);
        report("full", self.stats.full);
        report("overflowed", self.stats.overflowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, built};

    fn params() -> Params {
        Params {
            delay: Span::from_millis(10),
            jitter: Span::ZERO,
            loss: 0.0,
            reorder: false,
            limit: 100,
            rate: Rate::default(),
            buffer: Bytes(1_000_000),
            outage: false,
        }
    }

    fn impair(params: Params) -> Impair {
        built(params)
    }

    #[test]
    fn a_packet_leaves_after_its_delay() {
        let mut rig = Rig::new(1);
        let mut link = impair(params());
        rig.offer(&mut link, 0, 100);
        let due = Instant::ZERO + Span::from_millis(10);
        assert_eq!(link.ready(rig.now), Ready::At(due));
        assert!(rig.take(&mut link).is_none());
        rig.now = due;
        assert_eq!(link.ready(rig.now), Ready::Now);
        assert!(rig.take(&mut link).is_some());
        assert_eq!(link.ready(rig.now), Ready::Empty);
    }

    #[test]
    fn the_jitter_is_within_its_range() {
        // 10 ms +- 2 ms: the lowest draw gives 8 ms, the middle one 10 ms, the highest 12 ms.
        let params = Params {
            jitter: Span::from_millis(2),
            ..params()
        };
        let at = |draw| params.leaves(Instant::ZERO, draw).as_nanos();
        assert_eq!(
            [at(0), at(1 << 63), at(u64::MAX)],
            [8_000_000, 10_000_000, 12_000_000]
        );
    }

    #[test]
    fn only_reorder_reorders() {
        for reorder in [false, true] {
            let mut rig = Rig::new(1);
            let mut link = impair(Params {
                jitter: Span::from_millis(5),
                reorder,
                ..params()
            });
            for _ in 0..50 {
                rig.offer(&mut link, 0, 100);
            }
            rig.now = Instant::ZERO + Span::from_millis(15);
            let ids: Vec<_> = std::iter::from_fn(|| rig.take(&mut link))
                .map(|p| p.id)
                .collect();
            assert_eq!(ids.len(), 50);
            assert_eq!(ids.is_sorted(), !reorder);
        }
    }

    #[test]
    fn losses_come_as_often_as_asked() {
        let mut rig = Rig::new(1);
        let mut link = impair(Params {
            loss: 0.1,
            limit: 10_000,
            ..params()
        });
        for _ in 0..10_000 {
            rig.offer(&mut link, 0, 100);
        }
        // Binomial: 1000 expected, standard deviation 30; four of them either way.
        let lost = rig.fates.ended(Reason::Impaired).packets;
        assert!((880..=1120).contains(&lost), "{lost}");
    }

    /// Takes the packets that leave up to `until`; returns the number of each and its departure. Times are in
    /// microseconds.
    fn leaving(rig: &mut Rig, link: &mut Impair, until: u64) -> Vec<(u64, u64)> {
        let mut left = Vec::new();
        loop {
            let ready = match link.ready(rig.now) {
                Ready::Now => rig.now,
                Ready::At(at) => at,
                Ready::Empty => Instant::FAR_FUTURE,
            };
            let due = ready.min(link.timeout().unwrap_or(Instant::FAR_FUTURE));
            if due > at_us(until) {
                rig.now = at_us(until);
                return left;
            }
            rig.now = due.max(rig.now);
            link.on_timeout(&mut rig.cx());
            if let Some(packet) = rig.take(link) {
                left.push((packet.id, rig.now.as_nanos() / 1000));
            }
        }
    }

    fn at_us(micros: u64) -> Instant {
        Instant::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn packets_are_sent_one_after_the_other_before_their_delay() {
        // 1476 B and 24 B are 12 000 bit: 1 ms at 12 Mbit/s; then 10 ms of delay.
        let mut rig = Rig::new(1);
        let twelve = Params {
            rate: Rate::from_mbps(12),
            buffer: Bytes(3000),
            ..params()
        };
        let mut link = impair(twelve.clone());
        for _ in 0..4 {
            rig.offer(&mut link, 0, 1476);
        }
        // One packet is being sent, two wait, one is lost.
        assert_eq!((link.stats.overflowed, link.backlog.packets), (1, 3));
        assert_eq!(leaving(&mut rig, &mut link, 1500), []);
        // Half of the second packet is sent; the rest takes 2 ms at 3 Mbit/s, but for 5 ms nothing is sent.
        link.change(
            Params {
                outage: true,
                ..twelve.clone()
            },
            rig.now,
        );
        assert_eq!(leaving(&mut rig, &mut link, 6500), []);
        let three = Params {
            rate: Rate::from_mbps(3),
            ..twelve
        };
        link.change(three.clone(), rig.now);
        assert_eq!(leaving(&mut rig, &mut link, 18_000), [(0, 11_000)]);
        // A changed delay applies to later packets: the second packet's delay began at 8.5 ms, the third one's at 12.5
        // ms.
        link.change(
            Params {
                delay: Span::ZERO,
                ..three
            },
            rig.now,
        );
        assert_eq!(
            leaving(&mut rig, &mut link, 30_000),
            [(1, 18_500), (2, 22_500)]
        );
        assert_eq!(
            (link.ready(rig.now), link.backlog),
            (Ready::Empty, Tally::ZERO)
        );
    }
}

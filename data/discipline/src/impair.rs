//! An emulated link: each packet is held for a delay, and some are lost.
//!
//! ```text
//!  arrivals --> lost? --> [ delay +- jitter ] --> link
//! ```
//!
//! Source: the idea of Linux `sch_netem`; the lab uses it where the kernel has none.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::Rng;
use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, SettingError, Settings};
use weir_base::{Instant, Span, Stream, Tally};
use weir_packet::{Class, Packet, Reason};

use crate::contract::{self, Admission, Cx, Discipline, Manual, Ready, accepted};
use crate::fifo::LIMIT;
use crate::parts::chance::Chance;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "impair",
    id: 0x00F7_020A,
    purpose: "an emulated link: delay, jitter and loss",
    source: "the idea of Linux sch_netem",
    text: "\
Each packet is lost with the given probability, independently of the others; if not, it is held for
the delay, plus or minus a jitter that is drawn evenly from the range. It leaves then, but not before
the packets that came before it, unless `reorder` is on.

    arrivals --> lost? --> [ delay +- jitter ] --> link

A packet that finds the limit reached is dropped: the limit must be at least the packets that the
link sends in the delay. Finding the next packet costs the logarithm of the packets held.

Defaults. Nothing is impaired until it is asked for.

Deviations from netem: one distribution, no correlation, no duplicates and no corruption. Changing the
delay holds for packets that come after the change. A discipline that is put in place while packets
are held starts their delay again.

An attacker who fills the link fills the delay line, as it would fill a FIFO. Use it in the lab, not in
a network.",
    parameters: &[
        Parameter::new("delay", Kind::Span(Span::ZERO, Span::from_secs(60)), "0 s",
            "time that each packet is held").id(1),
        Parameter::new("jitter", Kind::Span(Span::ZERO, Span::from_secs(60)), "0 s",
            "how far the delay of a packet may be off; not more than the delay").id(2),
        Parameter::new("loss", Kind::Ratio(0.0, 1.0), "0", "probability that a packet is lost").id(3),
        Parameter::new("reorder", Kind::Flag, "false", "whether jitter may let a packet overtake another one").id(4),
        LIMIT.id(5),
    ],
    gauges: &[
        Gauge::counter(101, "lost", Unit::Packets, "packets lost on the emulated link"),
        Gauge::counter(102, "full", Unit::Packets, "packets dropped because the limit was reached"),
    ],
};

/// How it is checked and built.
pub const KIND: contract::Kind = contract::Kind {
    manual: MANUAL,
    knows_flows: false,
    limit: |settings| Ok(Params::new(settings)?.limit),
    build: |settings, _, streams| {
        Box::new(Impair::new(
            accepted(Params::new(settings)),
            streams.stream(MANUAL.name),
        ))
    },
};

/// Parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Time that each packet is held.
    pub delay: Span,
    /// How far a packet's delay may be off.
    pub jitter: Span,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Whether jitter may let a packet overtake another one.
    pub reorder: bool,
    /// Maximum packets held.
    pub limit: usize,
}

impl Params {
    /// From checked settings.
    pub fn new(settings: &Settings) -> Result<Self, SettingError> {
        let params = Self {
            delay: settings.span("delay"),
            jitter: settings.span("jitter"),
            loss: settings.ratio("loss"),
            reorder: settings.flag("reorder"),
            limit: settings.count("limit") as usize,
        };
        if params.jitter > params.delay {
            return Err(SettingError::Contradiction {
                name: "jitter",
                why: format!(
                    "a jitter of {} would let packets leave before they come, at a delay of {}",
                    params.jitter, params.delay
                ),
            });
        }
        Ok(params)
    }

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
}

/// The emulated link.
#[derive(Debug)]
pub struct Impair {
    params: Params,
    held: BinaryHeap<Reverse<Held>>,
    backlog: Tally,
    /// When the last of the packets held leaves.
    last: Instant,
    serial: u64,
    stream: Stream,
    stats: Stats,
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
    /// An empty link. All memory that it will ever use is allocated now.
    pub fn new(params: Params, stream: Stream) -> Self {
        Self {
            held: BinaryHeap::with_capacity(params.limit),
            params,
            backlog: Tally::ZERO,
            last: Instant::ZERO,
            serial: 0,
            stream,
            stats: Stats::default(),
        }
    }

    fn pop(&mut self) -> Option<Packet> {
        let Reverse(Held { packet, .. }) = self.held.pop()?;
        self.backlog.uncount(packet.bytes());
        Some(packet)
    }

    /// Puts other parameters in force; the state is kept.
    fn change(&mut self, params: Params) {
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
        if self.held.len() >= self.params.limit {
            self.stats.full += 1;
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        let mut leaves = self.params.leaves(cx.now, jitter);
        if !self.params.reorder {
            leaves = leaves.max(self.last);
        }
        self.last = self.last.max(leaves);
        self.backlog.count(packet.bytes());
        let serial = self.serial;
        self.serial += 1;
        self.held.push(Reverse(Held {
            leaves,
            serial,
            packet,
        }));
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
        self.held.len() < self.params.limit
    }

    fn ready(&self, now: Instant) -> Ready {
        match self.held.peek() {
            None => Ready::Empty,
            Some(Reverse(next)) if next.leaves <= now => Ready::Now,
            Some(Reverse(next)) => Ready::At(next.leaves),
        }
    }

    fn backlog(&self) -> Tally {
        self.backlog
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self) + self.held.capacity() * size_of::<Reverse<Held>>()
    }

    fn reconfigure(&mut self, settings: &Settings, _now: Instant) {
        self.change(accepted(Params::new(settings)));
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        std::iter::from_fn(|| self.pop()).for_each(out);
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report("lost", self.stats.lost);
        report("full", self.stats.full);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;
    use weir_base::Streams;

    fn params() -> Params {
        Params {
            delay: Span::from_millis(10),
            jitter: Span::ZERO,
            loss: 0.0,
            reorder: false,
            limit: 100,
        }
    }

    fn impair(params: Params) -> Impair {
        Impair::new(params, Streams::new(1).stream("impair"))
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
        // 10 ms +- 2 ms: the least draw gives 8 ms, the middle one 10 ms, the greatest 12 ms.
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
}

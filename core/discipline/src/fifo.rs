//! First in, first out, with a tail drop: the plain queue of a normal router.
//!
//! ```text
//!  arrivals --> [ | | | | | ] --> link        full: the arriving packet is dropped
//! ```
//!
//! Source: RFC 7567, section 2 (which warns against it); Linux `pfifo`.

use std::collections::VecDeque;

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, Settings};
use weir_base::{Instant, Tally};
use weir_packet::{Packet, Reason};

use crate::contract::{self, Admission, Cx, Discipline, Manual, Ready};
use crate::waiting::{self, Waiting};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "fifo",
    id: 0x00F7_0207,
    purpose: "first in, first out, with a tail drop",
    source: "Linux pfifo; the normal router of the papers",
    text: "\
One queue. A packet that finds it full is dropped.

    arrivals --> [ | | | | | ] --> link

Defaults. A Linux interface holds 1000 packets: 12 ms of full frames at 1 Gbit/s, 123 ms at 100 Mbit/s, 1.2
s at 10 Mbit/s. Set fewer on a slow link.

An attacker who fills the link fills the queue: all other flows lose in proportion, and wait behind a full
queue. Use it as the baseline, not under attack.",
    parameters: &[LIMIT.id(1)],
    gauges: &[Gauge::counter(101, "full", Unit::Packets, "packets dropped because the queue was full")],
};

/// How the discipline is checked and built.
pub const KIND: contract::Kind = contract::Kind {
    manual: MANUAL,
    knows_flows: false,
    limit: |settings| Ok(Params::new(settings).limit),
    build: |settings, _, _| Box::new(Fifo::new(Params::new(settings))),
};

/// The `limit` parameter, which most disciplines have.
pub const LIMIT: Parameter = Parameter::new(
    "limit",
    Kind::Count(1, 1_000_000),
    "1000 packets",
    "maximum packets held",
);

/// Parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Maximum packets held.
    pub limit: usize,
}

impl Params {
    /// From checked settings.
    pub fn new(settings: &Settings) -> Self {
        Self {
            limit: settings.count("limit") as usize,
        }
    }
}

/// Packets for which a new queue has memory.
const FEW: usize = 8;

/// Counters of the queue.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    full: u64,
}

/// The queue.
#[derive(Debug)]
pub struct Fifo {
    params: Params,
    queue: VecDeque<Packet>,
    backlog: Tally,
    stats: Stats,
}

impl Fifo {
    /// An empty queue with memory for a few packets, because most queues of a large network never hold
    /// more. When more packets wait, it allocates memory for `limit` packets at once.
    pub fn new(params: Params) -> Self {
        Self {
            queue: VecDeque::with_capacity(params.limit.min(FEW)),
            params,
            backlog: Tally::ZERO,
            stats: Stats::default(),
        }
    }

    /// Whether nothing is queued.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Applies other parameters; keeps the state.
    pub(crate) fn change(&mut self, params: Params) {
        self.params = params;
    }
}

impl Discipline for Fifo {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        if self.queue.len() >= self.params.limit {
            self.stats.full += 1;
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        if self.queue.len() == self.queue.capacity() {
            self.queue
                .reserve_exact(self.params.limit - self.queue.len());
        }
        self.backlog.count(packet.bytes());
        self.queue.push_back(packet);
        Admission::Queued
    }

    fn dequeue(&mut self, _cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = self.queue.pop_front()?;
        self.backlog.uncount(packet.bytes());
        if self.queue.is_empty() {
            self.queue.clear(); // restart at the beginning of its memory, which is warm in the cache
        }
        Some(packet)
    }

    fn has_room(&self, _class: weir_packet::Class) -> bool {
        self.queue.len() < self.params.limit
    }

    fn ready(&self, _now: Instant) -> Ready {
        Ready::holding(self.queue.len())
    }

    fn backlog(&self) -> Tally {
        self.backlog
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self) + self.params.limit * size_of::<Packet>()
    }

    fn relax(&mut self) {
        self.queue.shrink_to(FEW);
    }

    fn reconfigure(&mut self, settings: &Settings, _now: Instant) {
        self.change(Params::new(settings));
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        self.backlog = Tally::ZERO;
        self.queue.drain(..).for_each(out);
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report("full", self.stats.full);
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        waiting::of_one_queue(&self.queue, report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Ready;
    use weir_packet::{Fates, Keys, Slot};

    #[test]
    fn a_full_queue_drops_the_arrival() {
        let keys = Keys::new(3, (1, 2));
        let mut fates = Fates::default();
        let mut cx = Cx {
            now: Instant::ZERO,
            keys: &keys,
            fates: &mut fates,
            heavy: false,
        };
        let mut fifo = Fifo::new(Params { limit: 2 });
        let packet = |n| Packet::new(n, Slot(n as u32), 100, Instant::ZERO);
        assert_eq!(fifo.enqueue(&mut cx, packet(0)), Admission::Queued);
        assert_eq!(fifo.enqueue(&mut cx, packet(1)), Admission::Queued);
        let refused = fifo.enqueue(&mut cx, packet(2));
        assert!(matches!(refused, Admission::Refused(d) if d.reason == Reason::QueueFull));
        assert_eq!(
            fifo.backlog(),
            Tally {
                packets: 2,
                bytes: 200
            }
        );
        assert_eq!(fifo.dequeue(&mut cx).map(|p| p.id), Some(0));
        assert_eq!(fifo.dequeue(&mut cx).map(|p| p.id), Some(1));
        assert_eq!(fifo.ready(Instant::ZERO), Ready::Empty);
    }
}

//! First in, first out, with a tail drop: the plain queue of a normal router.
//!
//! ```text
//!  arrivals --> [ | | | | | ] --> link        full: the arriving packet is dropped
//! ```
//!
//! Source: RFC 7567, section 2 (which warns against it); Linux `pfifo`.

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, SettingError};
use weir_base::{Instant, Streams, Tally};
use weir_packet::{Packet, Reason};

use crate::contract::{Admission, Configured, Cx, Discipline, Manual};
use crate::params::{Parameters, params};
use crate::parts::queue::Queue;
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
    parameters: Params::TABLE,
    gauges: &[Gauge::counter(101, "full", Unit::Packets, "packets dropped because the queue was full")],
};

/// The `limit` parameter, which most disciplines have.
pub const LIMIT: Parameter = Parameter::new(
    "limit",
    Kind::Count(1, 1_000_000),
    "1000 packets",
    "maximum packets held",
);

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Params {
        /// Maximum packets held.
        pub limit: usize = LIMIT.id(1),
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
    queue: Queue,
    stats: Stats,
}

impl Fifo {
    /// Whether nothing is queued, and `packets` packets could be.
    #[inline]
    pub(crate) fn passes(&self, packets: usize) -> bool {
        self.queue.packets.is_empty() && packets <= self.params.limit
    }
}

impl Configured for Fifo {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    fn limit(params: &Params) -> Result<usize, SettingError> {
        Ok(params.limit)
    }

    /// An empty queue with memory for a few packets, because most queues of a large network never hold
    /// more. When more packets wait, it allocates memory for `limit` packets at once.
    fn build(params: Params, _now: Instant, _streams: &Streams) -> Self {
        Self {
            queue: Queue::new(params.limit.min(FEW)),
            params,
            stats: Stats::default(),
        }
    }

    fn change(&mut self, params: Params, _now: Instant) {
        self.params = params;
    }
}

impl Discipline for Fifo {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        if self.queue.len() >= self.params.limit {
            self.stats.full += 1;
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        let Queue { packets, .. } = &mut self.queue;
        if packets.len() == packets.capacity() {
            packets.reserve_exact(self.params.limit - packets.len());
        }
        self.queue.push(packet);
        Admission::Queued
    }

    fn dequeue(&mut self, _cx: &mut Cx<'_>) -> Option<Packet> {
        let packet = self.queue.pop()?;
        if self.queue.packets.is_empty() {
            self.queue.packets.clear(); // restart at the beginning of its memory, which is warm in the cache
        }
        Some(packet)
    }

    fn has_room(&self, _class: weir_packet::Class) -> bool {
        self.queue.len() < self.params.limit
    }

    fn backlog(&self) -> Tally {
        self.queue.backlog
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self) + self.params.limit * size_of::<Packet>()
    }

    fn relax(&mut self) {
        self.queue.packets.shrink_to(FEW);
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        self.queue.drain(out);
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report("full", self.stats.full);
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        waiting::of_one_queue(&self.queue.packets, report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Ready;
    use crate::rig::built;
    use weir_packet::{DropCounters, Keys, Slot};

    #[test]
    fn a_full_queue_drops_the_arrival() {
        let keys = Keys::new(3, (1, 2));
        let mut fates = DropCounters::default();
        let mut cx = Cx {
            now: Instant::ZERO,
            keys: &keys,
            fates: &mut fates,
            heavy: false,
        };
        let mut fifo: Fifo = built(Params { limit: 2 });
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

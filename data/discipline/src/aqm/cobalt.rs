//! COBALT: CoDel and BLUE side by side in one queue, as in CAKE.
//!
//! ```text
//!  wait                signal  signal signal               p
//!   ^      __/\/\/\____v_______v______v__  _               ^       __--"  overflow: +1/256
//!   |_____/______________________________\/__ target       |   __--     \_
//!   |    |<- interval ->|                   \_ the count   |__--          ""--__  found empty: -1/4096
//!   +------------------------------> time     falls again  +----------------------> time
//! ```
//!
//! Source: Linux `net/sched/sch_cake.c`, `cobalt_should_drop`, `cobalt_queue_full`, `cobalt_queue_empty`,
//! `cake_set_rate`. It differs from RFC 8289's CoDel in this: one instant is the end of the first interval, the time of
//! the next signal and the time at which the count falls by one; the count falls step by step, at the same
//! pace as it rose; an overflow starts signals at once; the test whether a full frame is left is absent, but the wait
//! must also be longer than four full frames take.

use weir_base::{Instant, Rate, Span};
use weir_packet::{MarkReason, Packet};

use crate::contract::Cx;

/// Bytes of a full Ethernet frame: the unit in which CAKE scales its parameters to the rate.
pub(crate) const FRAME_BYTES: u64 = 1514;

/// The parts into which BLUE's probability is divided.
const PARTS: u32 = 4096;
/// The parts that an overflow adds.
const RISE: u32 = PARTS / 256;
/// Maximum steps of a fall of the count in one call: the length of an idle time is the sender's choice, not ours.
const STEPS_MAX: u32 = 256;

/// The parameters of one queue's control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// Acceptable waiting time, and the time between two changes of BLUE's probability.
    pub(crate) target: Span,
    /// Time above the target before the first signal.
    pub(crate) interval: Span,
    /// Time that the link needs for a full frame; zero if its rate is not known.
    pub(crate) frame: Span,
    /// Whether to mark instead of drop.
    pub(crate) ecn: bool,
}

impl Control {
    /// For this round-trip time: a twentieth of it is the target, unless a frame and a half takes longer at this rate.
    pub(crate) fn new(rtt: Span, ecn: bool, rate: Option<Rate>) -> Self {
        let frame = rate.map_or(Span::ZERO, |rate| rate.time_for(FRAME_BYTES));
        let wanted = rtt.as_nanos() / 20;
        let target = wanted.max(frame.as_nanos().saturating_mul(3) / 2).max(1);
        let interval = rtt.as_nanos().saturating_add(target - wanted);
        Self {
            target: Span::from_nanos(target),
            interval: Span::from_nanos(interval.max(target.saturating_mul(2))),
            frame,
            ecn,
        }
    }
}

/// The decision about a packet at the head of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passes.
    Pass,
    /// It passes, and now carries a congestion mark.
    Marked,
    /// CoDel chose it.
    Codel,
    /// BLUE chose it.
    Blue,
}

/// State of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// Signals, less the steps by which it has fallen since.
    count: u32,
    /// `1 / sqrt(count)` since the count first changed. Zero before, as in the kernel, which sets its variables to
    /// zero: the first signal of a fresh queue comes without an interval's delay.
    root: f64,
    /// When the next signal is due, or the next fall of the count.
    next: Instant,
    /// Whether the wait is above the target, or the queue has overflowed.
    dropping: bool,
    /// BLUE's probability, in 4096ths.
    parts: u32,
    /// When BLUE's probability last changed.
    moved: Instant,
}

impl State {
    /// Whether it remembers nothing that a queue's next flow should not inherit.
    pub(crate) fn rests(&self, now: Instant) -> bool {
        self.parts == 0 && self.count == 0 && now >= self.next
    }

    /// Whether BLUE drops packets.
    pub(crate) fn floods(&self) -> bool {
        self.parts > 0
    }

    /// Notes that the queue lost a packet to make room.
    pub(crate) fn overflow(&mut self, control: &Control, now: Instant) {
        if now.since(self.moved) > control.target {
            self.parts = (self.parts + RISE).min(PARTS);
            self.moved = now;
        }
        self.dropping = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    /// Notes that the queue was found empty at its turn.
    pub(crate) fn empty(&mut self, control: &Control, now: Instant) {
        if self.parts > 0 && now.since(self.moved) > control.target {
            self.parts -= 1;
            self.moved = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.next {
            self.step(control, self.count - 1);
        }
    }

    /// Decides about the packet at the head of the queue; `draw` is a random number, for BLUE.
    pub(crate) fn decide(
        &mut self,
        control: &Control,
        cx: &mut Cx<'_>,
        packet: &mut Packet,
        draw: impl FnOnce() -> u64,
    ) -> Verdict {
        let now = cx.now;
        let due = self.count > 0 && now >= self.next;
        let mut late = now > self.next;
        let wait = now.since(packet.enqueued);
        if wait > control.target && wait > control.frame.times(4) {
            if !self.dropping {
                self.dropping = true;
                self.next = self.after(now, control);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        let signal = due && self.dropping;
        if signal {
            self.step(control, self.count.saturating_add(1));
            late = now > self.next;
        } else if due {
            self.fall(control, now);
            late = false;
        }
        let verdict = self.verdict(signal, control, cx, packet, draw);
        if self.count == 0 {
            self.next = now + control.interval;
        } else if late && matches!(verdict, Verdict::Pass | Verdict::Marked) {
            self.next = now;
        }
        verdict
    }

    fn verdict(
        &self,
        signal: bool,
        control: &Control,
        cx: &mut Cx<'_>,
        packet: &mut Packet,
        draw: impl FnOnce() -> u64,
    ) -> Verdict {
        // BLUE does not mark: it is for senders that do not react.
        if self.parts > 0 && draw() % u64::from(PARTS) < u64::from(self.parts) {
            return Verdict::Blue;
        }
        match signal {
            false => Verdict::Pass,
            true if control.ecn && cx.fates.mark(packet, MarkReason::Congestion) => Verdict::Marked,
            true => Verdict::Codel,
        }
    }

    /// Lets the count fall by one for each instant that has passed. If too many have, the next call goes on.
    fn fall(&mut self, control: &Control, now: Instant) {
        for _ in 0..STEPS_MAX {
            self.step(control, self.count - 1);
            if self.count == 0 || now < self.next {
                return;
            }
        }
    }

    fn step(&mut self, control: &Control, count: u32) {
        self.count = count;
        self.root = 1.0 / f64::from(count.max(1)).sqrt();
        self.next = self.after(self.next, control);
    }

    fn after(&self, at: Instant, control: &Control) -> Instant {
        let nanos = control.interval.as_nanos() as f64 * self.root;
        at + Span::from_nanos(nanos as u64)
    }
}

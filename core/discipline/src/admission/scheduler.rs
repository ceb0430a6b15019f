//! The interface of flow-aware admission control to its scheduler, and the common part of the three schedulers.
//!
//! Fair rate and priority load are differences of running sums over a time that the admission control
//! chooses; a scheduler only keeps the sums. Each scheduler defines which of its packets and rounds
//! count, because the papers define it differently for each.

use std::collections::VecDeque;

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter};
use weir_base::{Bytes, Instant, Rate, Span, Tally};
use weir_packet::Class;

use crate::admission::urn;
use crate::contract::Discipline;
use crate::waiting::{self, REPORTS_MAX};

/// A scheduler that distinguishes streaming from elastic flows by the bytes that each has queued.
pub trait Scheduler: Discipline {
    /// Bytes waiting of the flow with this hash (of `KeyKind::Flow`).
    fn queued_bytes(&self, flow: u64) -> u64;

    /// Running sums since the beginning.
    fn sums(&self, now: Instant) -> Sums;
}

/// Running sums, from which the fair rate and the priority load are estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sums {
    /// Bytes of priority packets: those sent if the scheduler is AFAN (equation 1), otherwise those that
    /// have arrived.
    pub priority_bytes: u64,
    /// Bytes of service that a flow with packets waiting at all times would have received.
    pub fair_bytes: f64,
    /// The total time in which nothing was queued and nothing was sent.
    pub idle: Span,
}

/// The class of the packets that go first: those of streaming flows.
pub(crate) const PRIORITY: Class = Class(0);
/// The class of all others.
pub(crate) const ELASTIC: Class = Class(1);

/// The gauges that each of the three schedulers reports about its queues.
pub(crate) const GAUGES: [Gauge; 6] = [
    Gauge::level(
        101,
        "priority_packets",
        Unit::Packets,
        "waiting priority packets",
    ),
    Gauge::level(
        102,
        "priority_bytes",
        Unit::Bytes,
        "bytes of waiting priority packets",
    ),
    Gauge::level(
        103,
        "elastic_packets",
        Unit::Packets,
        "waiting elastic packets",
    ),
    Gauge::level(
        104,
        "elastic_bytes",
        Unit::Bytes,
        "bytes of waiting elastic packets",
    ),
    Gauge::level(105, "active", Unit::One, "flows with packets waiting"),
    Gauge::level(
        106,
        "active_elastic",
        Unit::One,
        "flows with elastic packets waiting",
    ),
];

/// The values of [`GAUGES`].
pub(crate) struct Backlogs {
    pub(crate) priority: Tally,
    pub(crate) elastic: Tally,
    /// Flows with packets.
    pub(crate) active: u64,
    /// Flows with elastic packets.
    pub(crate) active_elastic: u64,
}

impl Backlogs {
    pub(crate) fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        let values = [
            self.priority.packets,
            self.priority.bytes,
            self.elastic.packets,
            self.elastic.bytes,
            self.active,
            self.active_elastic,
        ];
        for (gauge, value) in GAUGES.into_iter().zip(values) {
            report(gauge.name, value);
        }
    }
}

/// Reports the packets of the priority queue.
pub(crate) fn report_priority(
    queue: &VecDeque<urn::Waiting>,
    report: &mut dyn FnMut(waiting::Waiting<'_>),
) {
    let packet = |at: usize| &queue[at].packet;
    let words = "the priority queue";
    waiting::of_places(queue.len(), packet, words, REPORTS_MAX / 4, report);
}

/// The `mtu` parameter.
pub(crate) const MTU: Parameter = Parameter::new(
    "mtu",
    Kind::Bytes(Bytes(64), Bytes(65536)),
    "1514 B",
    "maximum bytes that a streaming flow may have waiting; at least a full frame",
);

/// The total time in which nothing was queued and nothing was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    /// The sum of the idle times that are over.
    over: Span,
    /// When the latest idle time began or will begin; `None` while packets wait.
    since: Option<Instant>,
    /// When the link will have sent the packets that it has taken.
    free_at: Instant,
    /// Time that a byte takes on the link, in nanoseconds.
    byte_nanos: f64,
}

impl Idle {
    /// Idle from `now` on, in front of a link of `rate`.
    pub(crate) fn new(now: Instant, rate: Rate) -> Self {
        Self {
            over: Span::ZERO,
            since: Some(now),
            free_at: now,
            byte_nanos: byte_nanos(rate),
        }
    }

    /// Sets another link rate.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.byte_nanos = byte_nanos(rate);
    }

    /// Called when a packet is queued.
    #[inline]
    pub(crate) fn end(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.over = self.over + now.since(since);
        }
    }

    /// Called when the link starts to send this many bytes.
    #[inline]
    pub(crate) fn send(&mut self, now: Instant, bytes: u64) {
        let sending = Span::from_nanos((bytes as f64 * self.byte_nanos) as u64);
        self.free_at = now + sending;
    }

    /// Called when the last queued packet has left: idle time begins now, or when the link is free.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant) {
        self.since = Some(self.free_at.max(now));
    }

    /// The whole idle time up to `now`.
    pub(crate) fn until(&self, now: Instant) -> Span {
        self.over + self.since.map_or(Span::ZERO, |since| now.since(since))
    }
}

/// The time for a byte, so that each packet costs a multiplication instead of a division of 128 bits.
fn byte_nanos(rate: Rate) -> f64 {
    8e9 / rate.as_bps() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_by_hand() {
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let mut idle = Idle::new(at(10), Rate::from_mbps(2)); // 4 ms for 1000 B
        assert_eq!(idle.until(at(15)), Span::from_millis(5));
        idle.end(at(20)); // 10 ms
        assert_eq!(idle.until(at(30)), Span::from_millis(10));
        idle.send(at(30), 1000);
        idle.begin(at(30)); // idle from 34 ms on
        assert_eq!(idle.until(at(32)), Span::from_millis(10));
        assert_eq!(idle.until(at(40)), Span::from_millis(16));
        idle.end(at(33)); // before the link was free
        assert_eq!(idle.until(at(50)), Span::from_millis(10));
        idle.send(at(50), 1000);
        idle.begin(at(52)); // the waiting packets were dropped during transmission: idle from 54 ms on
        assert_eq!(idle.until(at(55)), Span::from_millis(11));
        idle.end(at(55));
        idle.begin(at(60)); // long after that
        assert_eq!(idle.until(at(61)), Span::from_millis(12));
    }
}

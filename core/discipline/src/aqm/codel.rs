//! CoDel: drops at the head of the queue when packets have waited too long for too long.
//!
//! ```text
//!  sojourn time
//!     ^         /\    /\/\/\   drop  drop drop drop     after the first: interval / sqrt(count)
//!     |  /\    /  \  /      \____v_____v____v___v____
//!     |_/__\__/____\/________________________________  target
//!     |            |<- interval ->|                      -> time
//! ```
//!
//! Source: RFC 8289, sections 3, 4 and 5. The decision is `State::ok_to_drop`; `dequeue` is the RFC's
//! `dequeue()`, over any `Source`, so that FQ-CoDel runs one for each flow.

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, SettingError};
use weir_base::{Instant, Span, Streams, Tally};
use weir_packet::{Class, MarkReason, Packet, Reason};

use crate::contract::{Admission, Configured, Cx, Discipline, Manual};
use crate::fifo::LIMIT;
use crate::params::{Parameters, params};
use crate::parts::queue::Queue;
use crate::waiting::{self, Waiting};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "codel",
    id: 0x00F7_0203,
    purpose: "controlled delay: drops packets when the queueing delay stays above a target",
    source: "RFC 8289",
    text: "\
One queue. The queueing delay (sojourn) of each packet is known when it leaves. If the delay was above the
target during a whole interval, the head packet is dropped, then another one after interval/sqrt(2), then
interval/sqrt(3), and so on until the delay is below the target.

    sojourn
       |   /\\   _/\\_ drop _ drop _ drop      after the first: interval / sqrt(count)
       |__/__\\_/_______________________ target
              |<- interval ->|                -> time

Defaults. Target and interval are the RFC's. With a round-trip time of 100 ms, a single Reno transfer gets
four fifths of a link of 100 Mbit/s. Below 2.5 Mbit/s a full frame takes longer than the target: raise it
there. The limit is that of `fifo`.

Deviations: one call drops at most 256 packets, because the senders control the length of idle gaps and of
the backlog; the next call continues. With `ecn`, an ECN-capable packet is marked instead of dropped (the
RFC leaves it to the implementer; Linux does the same).

An attacker who ignores drops is hardly slowed: the drop rate grows only with the square root of the number
of drops, so the queue fills up to its limit, and all flows wait in it. Use a discipline with flow queues
instead.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::counter(101, "full", Unit::Packets, "packets dropped because the queue was full"),
        Gauge::counter(102, "dropped", Unit::Packets, "packets dropped by the control law"),
        Gauge::counter(103, "marked", Unit::Packets, "packets marked by the control law"),
        Gauge::level(104, "count", Unit::Packets, "drops since the dropping state began"),
        Gauge::level(105, "dropping", Unit::One, "1 in the dropping state, else 0"),
    ],
};

/// The `target` parameter.
pub(crate) const TARGET: Parameter = Parameter::new(
    "target",
    Kind::Span(Span::from_micros(1), Span::from_secs(10)),
    "5 ms",
    "acceptable standing queueing delay; 5 to 10 % of the interval",
);

/// The `interval` parameter.
pub(crate) const INTERVAL: Parameter = Parameter::new(
    "interval",
    Kind::Span(Span::from_micros(1), Span::from_secs(100)),
    "100 ms",
    "about the longest usual round-trip time",
);

/// The `ecn` parameter.
pub(crate) const ECN: Parameter = Parameter::new(
    "ecn",
    Kind::Flag,
    "true",
    "mark ECN-capable packets instead of dropping them",
);

/// Maximum drops in one call: idle gap and backlog are the senders' choice, not ours.
const DROPS_PER_DEQUEUE_MAX: u32 = 256;

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Params {
        /// The control law.
        pub control: Control => [TARGET.id(1), INTERVAL.id(2), ECN.id(3)],
        /// Maximum packets held.
        pub limit: usize = LIMIT.id(4),
    }
}

params! {
    /// The parameters of the control law.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Control {
        /// Acceptable waiting time.
        pub target: Span = TARGET,
        /// Time above the target before the first drop: about the longest usual round-trip time.
        pub interval: Span = INTERVAL,
        /// Whether to mark instead of drop.
        pub ecn: bool = ECN,
    }
}

impl Control {
    /// Checks that the target is below the interval.
    pub(crate) fn check(&self) -> Result<(), SettingError> {
        if self.target < self.interval {
            return Ok(());
        }
        Err(SettingError::Contradiction {
            name: TARGET.name,
            why: format!(
                "the target of {} must be less than the interval of {}",
                self.target, self.interval
            ),
        })
    }

    /// The control law: when the drop after the `count`th is due.
    fn next_drop(&self, after: Instant, count: u32) -> Instant {
        let nanos = self.interval.as_nanos() as f64 / f64::from(count.max(1)).sqrt();
        after + Span::from_nanos(nanos as u64)
    }
}

/// State of the control law for one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// When the wait will have been above the target for an interval; `None` while it is below.
    above_until: Option<Instant>,
    /// When the next drop is due.
    drop_next: Instant,
    /// Drops since the dropping state was entered.
    count: u32,
    /// `count` when the dropping state was last entered.
    count_before: u32,
    /// Whether it is in the dropping state.
    dropping: bool,
}

/// Counters of the control law.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    /// Packets dropped.
    pub(crate) dropped: u64,
    /// Packets marked.
    pub(crate) marked: u64,
}

/// A queue that the control law can take packets from.
pub(crate) trait Source {
    /// Takes the packet at the head.
    fn pop(&mut self) -> Option<Packet>;
    /// Bytes still queued.
    fn bytes(&self) -> u64;
}

impl State {
    /// The state of a queue that has never held a packet.
    pub(crate) const FRESH: Self = Self {
        above_until: None,
        drop_next: Instant::ZERO,
        count: 0,
        count_before: 0,
        dropping: false,
    };

    /// Does what `dequeue` does when the packet at the head waited for less than the target, for callers that check
    /// this themselves.
    #[inline]
    pub(crate) fn calm(&mut self) {
        self.above_until = None;
        self.dropping = false;
    }

    /// Whether a packet that waited for `sojourn` may be dropped (`ok_to_drop` of RFC 8289); `bytes` remain
    /// behind it in the queue, and `bytes_max` is the length of the longest packet seen.
    fn ok_to_drop(
        &mut self,
        control: &Control,
        now: Instant,
        sojourn: Span,
        bytes: u64,
        bytes_max: u64,
    ) -> bool {
        if sojourn < control.target || bytes <= bytes_max {
            self.above_until = None;
            return false;
        }
        match self.above_until {
            None => {
                self.above_until = Some(now + control.interval);
                false
            }
            Some(until) => now >= until,
        }
    }

    /// Enters the dropping state, with a drop rate near the one that worked recently.
    fn start_dropping(&mut self, control: &Control, now: Instant) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.count_before);
        let recent = now.since(self.drop_next) < control.interval.times(16);
        self.count = if recent && delta > 1 { delta } else { 1 };
        self.drop_next = control.next_drop(now, self.count);
        self.count_before = self.count;
    }
}

/// Takes the next packet that the control law lets pass (RFC 8289, section 5.5).
pub(crate) fn dequeue(
    state: &mut State,
    control: &Control,
    cx: &mut Cx<'_>,
    source: &mut impl Source,
    bytes_max: u64,
    stats: &mut Stats,
) -> Option<Packet> {
    let (mut packet, mut may_drop) = take(state, control, cx.now, source, bytes_max)?;
    if !state.dropping {
        if may_drop {
            if !mark(control, cx, &mut packet, stats) {
                drop_one(cx, packet, stats);
                packet = take(state, control, cx.now, source, bytes_max)?.0;
            }
            state.start_dropping(control, cx.now);
        }
        return Some(packet);
    }
    if !may_drop {
        state.dropping = false;
    }
    let mut drops = 0;
    while state.dropping && cx.now >= state.drop_next && drops < DROPS_PER_DEQUEUE_MAX {
        state.count = state.count.saturating_add(1);
        if mark(control, cx, &mut packet, stats) {
            state.drop_next = control.next_drop(state.drop_next, state.count);
            break;
        }
        drop_one(cx, packet, stats);
        drops += 1;
        match take(state, control, cx.now, source, bytes_max) {
            Some(next) => (packet, may_drop) = next,
            None => {
                state.dropping = false;
                return None;
            }
        }
        if may_drop {
            state.drop_next = control.next_drop(state.drop_next, state.count);
        } else {
            state.dropping = false;
        }
    }
    Some(packet)
}

/// The RFC's `dodequeue()`: the packet at the head, and whether it may be dropped.
fn take(
    state: &mut State,
    control: &Control,
    now: Instant,
    source: &mut impl Source,
    bytes_max: u64,
) -> Option<(Packet, bool)> {
    let Some(packet) = source.pop() else {
        state.above_until = None;
        return None;
    };
    let sojourn = now.since(packet.enqueued);
    let may_drop = state.ok_to_drop(control, now, sojourn, source.bytes(), bytes_max);
    Some((packet, may_drop))
}

fn mark(control: &Control, cx: &mut Cx<'_>, packet: &mut Packet, stats: &mut Stats) -> bool {
    let marked = control.ecn && cx.fates.mark(packet, MarkReason::Congestion);
    stats.marked += u64::from(marked);
    marked
}

fn drop_one(cx: &mut Cx<'_>, packet: Packet, stats: &mut Stats) {
    stats.dropped += 1;
    cx.fates.discard(packet, Reason::Congestion);
}

/// One queue under the control law.
#[derive(Debug)]
pub struct Codel {
    params: Params,
    queue: Queue,
    state: State,
    bytes_max: u64,
    full: u64,
    stats: Stats,
}

impl Source for Queue {
    fn pop(&mut self) -> Option<Packet> {
        self.pop()
    }

    fn bytes(&self) -> u64 {
        self.backlog.bytes
    }
}

impl Configured for Codel {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    fn limit(params: &Params) -> Result<usize, SettingError> {
        params.control.check()?;
        Ok(params.limit)
    }

    fn build(params: Params, _now: Instant, _streams: &Streams) -> Self {
        Self {
            queue: Queue::new(params.limit),
            params,
            state: State::default(),
            bytes_max: 0,
            full: 0,
            stats: Stats::default(),
        }
    }

    fn change(&mut self, params: Params, _now: Instant) {
        self.queue.reserve(params.limit);
        self.params = params;
    }
}

impl Discipline for Codel {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        if self.queue.len() >= self.params.limit {
            self.full += 1;
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        self.bytes_max = self.bytes_max.max(packet.bytes());
        self.queue.push(packet);
        Admission::Queued
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        dequeue(
            &mut self.state,
            &self.params.control,
            cx,
            &mut self.queue,
            self.bytes_max,
            &mut self.stats,
        )
    }

    fn has_room(&self, _class: Class) -> bool {
        self.queue.len() < self.params.limit
    }

    fn backlog(&self) -> Tally {
        self.queue.backlog
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self) + self.queue.heap_bytes()
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        self.queue.drain(out);
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report("full", self.full);
        report("dropped", self.stats.dropped);
        report("marked", self.stats.marked);
        report("count", u64::from(self.state.count));
        report("dropping", u64::from(self.state.dropping));
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        waiting::of_one_queue(&self.queue.packets, report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{Rig, built};
    use weir_packet::Ecn;

    const MS: u64 = 1_000_000;

    fn codel(ecn: bool) -> Codel {
        built(Params {
            control: Control {
                target: Span::from_millis(5),
                interval: Span::from_millis(100),
                ecn,
            },
            limit: 1000,
        })
    }

    /// Keeps a standing queue: 20 packets arrive at once, then one arrives and one leaves each ms.
    /// Returns the milliseconds in which packets were dropped or marked.
    fn standing_queue(codel: &mut Codel, ecn: Ecn, until_ms: u64) -> Vec<u64> {
        let mut rig = Rig::new(1);
        rig.ecn = ecn;
        for _ in 0..20 {
            rig.offer(codel, 0, 1000);
        }
        let mut when = Vec::new();
        for ms in 1..=until_ms {
            rig.now = Instant::from_nanos(ms * MS);
            let before = codel.stats.dropped + codel.stats.marked;
            rig.offer(codel, 0, 1000);
            assert!(rig.take(codel).is_some());
            for _ in before..codel.stats.dropped + codel.stats.marked {
                when.push(ms);
                if ecn == Ecn::NotCapable {
                    rig.offer(codel, 0, 1000); // so that the queue keeps its length
                }
            }
        }
        when
    }

    #[test]
    fn drop_schedule_by_hand() {
        // The sojourn time passes 5 ms at 5 ms, so the first drop is at 105 ms. Then
        // 105 + 100/sqrt(1) = 205.0, + 100/sqrt(2) = 275.7, + 100/sqrt(3) = 333.4,
        // + 100/sqrt(4) = 383.4, + 100/sqrt(5) = 428.2, + 100/sqrt(6) = 469.0; each happens at
        // the first whole millisecond after it is due.
        let when = standing_queue(&mut codel(false), Ecn::NotCapable, 470);
        assert_eq!(when, [105, 205, 276, 334, 384, 429, 469]);
    }

    #[test]
    fn marks_follow_the_same_schedule() {
        let mut codel = codel(true);
        let when = standing_queue(&mut codel, Ecn::Capable0, 430);
        assert_eq!(when, [105, 205, 276, 334, 384, 429]);
        assert_eq!(codel.stats.dropped, 0);
    }

    #[test]
    fn the_drop_rate_is_remembered_for_sixteen_intervals() {
        let control = codel(false).params.control;
        let mut state = State {
            count: 10,
            count_before: 4,
            drop_next: Instant::from_nanos(1000 * MS),
            ..State::default()
        };
        // 10 - 4 = 6 drops were made in the last dropping state.
        state.start_dropping(&control, Instant::from_nanos(2599 * MS));
        assert_eq!((state.count, state.count_before), (6, 6));
        // 2599 + 100/sqrt(6) = 2639.824829 ms.
        assert_eq!(state.drop_next, Instant::from_nanos(2_639_824_829));
        state.count = 12;
        state.start_dropping(&control, state.drop_next + control.interval.times(16));
        assert_eq!(state.count, 1);
    }

    #[test]
    fn a_last_packet_is_not_dropped() {
        let mut rig = Rig::new(1);
        let mut codel = codel(false);
        for second in 1..5 {
            rig.offer(&mut codel, 0, 1000);
            rig.now = Instant::from_nanos(second * 1000 * MS);
            assert!(rig.take(&mut codel).is_some());
        }
        assert_eq!(codel.stats.dropped, 0);
    }

    #[test]
    fn drops_in_one_call_are_limited() {
        let mut rig = Rig::new(1);
        let mut codel = codel(false);
        for _ in 0..600 {
            rig.offer(&mut codel, 0, 1000);
        }
        for ms in [10, 111] {
            rig.now = Instant::from_nanos(ms * MS);
            assert!(rig.take(&mut codel).is_some());
        }
        assert_eq!(codel.stats.dropped, 1);
        // After an hour, thousands of drops are due.
        rig.now = Instant::from_nanos(3_600_000 * MS);
        assert!(rig.take(&mut codel).is_some());
        assert_eq!(codel.stats.dropped, 1 + u64::from(DROPS_PER_DEQUEUE_MAX));
    }
}

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
//! `cake_set_rate`. It differs from the CoDel of RFC 8289: one instant serves as the end of the first interval, the
//! time of the next signal and the time at which the count falls by one; the count falls step by step, at the pace at
//! which it rose; an overflow starts signals at once; the test whether a full frame is left is absent, but the wait
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
    /// The control for this round-trip time: the target is a twentieth of it, or the time that one and a half frames
    /// take at this rate, if that is longer.
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
    /// The packet passes.
    Pass,
    /// The packet passes, and now carries a congestion mark.
    Marked,
    /// CoDel drops the packet.
    Codel,
    /// BLUE drops the packet.
    Blue,
}

/// State of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// Signals, minus the steps by which the count has fallen since.
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
    /// Whether the state is neutral, so that the queue's next flow may inherit it.
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

    /// Lowers the count by one for each due instant that has passed, at most `STEPS_MAX` times; the next call
    /// continues.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::Rig;
    use weir_packet::Ecn;

    const CONTROL: Control = Control {
        target: Span::from_millis(5),
        interval: Span::from_millis(100),
        frame: Span::ZERO,
        ecn: true,
    };

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    /// Decides at this millisecond about a packet that has waited for `wait` ms.
    fn decide(state: &mut State, rig: &mut Rig, at: u64, wait: u64, draw: u64) -> Verdict {
        rig.now = ms(at - wait);
        let mut packet = rig.packet(0, 1000);
        rig.now = ms(at);
        state.decide(&CONTROL, &mut rig.cx(), &mut packet, || draw)
    }

    /// The milliseconds with a signal, if a packet that has waited for `wait` ms leaves in each of these.
    fn signals(
        state: &mut State,
        rig: &mut Rig,
        times: std::ops::Range<u64>,
        wait: u64,
    ) -> Vec<u64> {
        times
            .filter(|at| decide(state, rig, *at, wait, 0) == Verdict::Codel)
            .collect()
    }

    #[test]
    fn the_schedule_by_hand() {
        let (mut state, mut rig) = (State::default(), Rig::new(1));
        let mut between = |times, wait| signals(&mut state, &mut rig, times, wait);
        assert_eq!(between(1..10, 0), []);
        // A fresh queue is above the target at 10, and its first signal is due at once: 11. Then 10 + 100/sqrt(2) =
        // 80.7, + 100/sqrt(3) = 138.4, + 100/sqrt(4) = 188.4; the next is due at + 100/sqrt(5) = 233.2.
        assert_eq!(between(10..200, 9), [11, 81, 139, 189]);
        assert_eq!(between(200..230, 0), []);
        assert_eq!(state.count, 5);
        // Below the target the count falls at that time, and again at + 100/sqrt(4) = 283.2, 340.9, 411.6, 511.6.
        let mut falls = Vec::new();
        for at in 230..600 {
            let before = state.count;
            decide(&mut state, &mut rig, at, 0, 0);
            if state.count != before {
                falls.push((at, state.count));
            }
        }
        assert_eq!(falls, [(234, 4), (284, 3), (341, 2), (412, 1), (512, 0)]);
        // A queue that is not fresh has an interval of grace.
        assert_eq!(
            signals(&mut state, &mut rig, 600..800, 9),
            [700, 771] // 700, + 100/sqrt(2)
        );
    }

    #[test]
    fn a_second_episode_starts_with_the_count_that_is_left() {
        let (mut state, mut rig) = (State::default(), Rig::new(1));
        signals(&mut state, &mut rig, 1..10, 0);
        signals(&mut state, &mut rig, 10..400, 9);
        let count = state.count;
        assert_eq!(count, 10); // nine signals: 80.7, 138.4, and so on up to + 100/sqrt(9) = 380.5
        // The wait is below the target for a moment. When it is above the target again at 405, the next signal is due
        // 100/sqrt(10) = 31.6 later.
        assert_eq!(signals(&mut state, &mut rig, 400..405, 0), []);
        assert_eq!(signals(&mut state, &mut rig, 405..440, 9), [437]);
    }

    #[test]
    fn four_frames_may_wait_whatever_the_target() {
        let (mut state, mut rig) = (State::default(), Rig::new(1));
        let slow = Control {
            frame: Span::from_millis(3),
            ..CONTROL
        };
        for at in 20..500 {
            rig.now = ms(at - 12);
            let mut packet = rig.packet(0, 1000);
            rig.now = ms(at);
            let verdict = state.decide(&slow, &mut rig.cx(), &mut packet, || 0);
            assert_eq!(verdict, Verdict::Pass);
        }
    }

    #[test]
    fn a_packet_that_can_be_marked_is_marked_but_not_by_blue() {
        let (mut state, mut rig) = (State::default(), Rig::new(1));
        rig.ecn = Ecn::Capable0;
        assert_eq!(decide(&mut state, &mut rig, 10, 9, 0), Verdict::Pass);
        assert_eq!(decide(&mut state, &mut rig, 11, 9, 0), Verdict::Marked);
        state.overflow(&CONTROL, ms(12));
        assert_eq!(decide(&mut state, &mut rig, 13, 9, 15), Verdict::Blue);
        assert_eq!(rig.fates.marked().packets, 1);
    }

    #[test]
    fn blue_rises_and_falls_once_in_a_target() {
        let mut state = State::default();
        for at in 100..200 {
            state.overflow(&CONTROL, ms(at)); // at 100, 106, 112, ..., 196: 17 times
        }
        assert_eq!(state.parts, 17 * 16);
        let mut rig = Rig::new(1);
        assert_eq!(decide(&mut state, &mut rig, 201, 0, 271), Verdict::Blue);
        assert_eq!(decide(&mut state, &mut rig, 201, 0, 272), Verdict::Pass);
        for at in 200..260 {
            state.empty(&CONTROL, ms(at)); // at 202, 208, ..., 256: 10 times
        }
        assert_eq!(state.parts, 17 * 16 - 10);
        for at in 1..4000 {
            state.overflow(&CONTROL, ms(1000 * at));
        }
        assert_eq!(state.parts, PARTS);
    }

    #[test]
    fn it_rests_after_an_interval_without_a_wait() {
        let (mut state, mut rig) = (State::default(), Rig::new(1));
        assert!(state.rests(ms(0)));
        decide(&mut state, &mut rig, 10, 0, 0);
        assert!(!state.rests(ms(109)) && state.rests(ms(110)));
        state.overflow(&CONTROL, ms(200));
        assert!(state.floods() && !state.rests(ms(10_000)));
    }

    #[test]
    fn the_steps_of_a_fall_in_one_call_are_limited() {
        let mut rig = Rig::new(1);
        let mut state = State {
            count: 1000,
            ..State::default()
        };
        decide(&mut state, &mut rig, 1_000_000, 0, 0);
        assert_eq!(state.count, 1000 - STEPS_MAX);
        for _ in 0..3 {
            decide(&mut state, &mut rig, 1_000_000, 0, 0);
        }
        assert_eq!(state.count, 0);
    }

    #[test]
    fn the_parameters_follow_the_rate() {
        // A full frame takes 1.2112 ms at 10 Mbit/s, 12.112 ms at 1 Mbit/s, 121.12 ms at 100 kbit/s.
        let of = |rate| {
            let control = Control::new(Span::from_millis(100), true, rate);
            let micros = |span: Span| span.as_nanos() / 1000;
            (micros(control.target), micros(control.interval))
        };
        assert_eq!(of(None), (5000, 100_000));
        assert_eq!(of(Some(Rate::from_mbps(10))), (5000, 100_000));
        assert_eq!(of(Some(Rate::from_mbps(1))), (18_168, 113_168));
        assert_eq!(of(Some(Rate::from_bps(100_000))), (181_680, 363_360));
    }
}

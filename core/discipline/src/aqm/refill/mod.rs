//! Refill: the ingress queue of RS-RED, which delays packets because a link elsewhere is congested.
//!
//! ```text
//!                 rho_a                       rho_a: the packet stays at the head,
//!  arrivals --> (dropped?) --> [ | | | | ] --> (held?) --> link       for one packet time
//!             from threshold on            ^_____|
//! ```
//!
//! Source: Chang et al., "Software Defined Backpressure Mechanism for Edge Router", section III-B,
//! Figures 3 and 4. The probability rho_b comes from a controller, see `weir_controller::backpressure`;
//! `State` has the count that turns rho_b into rho_a. `params`: the manual page and the parameters.

mod params;

use rand::Rng;
use weir_base::setting::SettingError;
use weir_base::{Instant, Rate, Span, Stream, Streams, Tally};
use weir_packet::{Class, Packet, Reason};

use crate::contract::{Admission, Configured, Cx, Discipline, Manual, Ready};
use crate::parts::chance::Chance;
use crate::parts::link_rate::LinkRate;
use crate::parts::queue::Queue;
use crate::waiting::{self, Waiting};

pub use params::{CountResets, MANUAL, Params};

/// State of the packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// The packet is not tried before this instant.
    From(Instant),
    /// The packet is certain to be held, one packet time after the other, from the first instant to the
    /// second, if nothing changes.
    Stuck {
        since: Instant,
        packet_time: Span,
        until: Instant,
    },
}

/// State of the decisions.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The paper's n: packets that passed since the last drop.
    count: u64,
    head: Head,
    /// The time from which the probability counts as 0.
    expires: Instant,
    /// The latest arrival.
    arrived: Instant,
}

/// The verdict on the packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Try {
    Pass,
    Hold,
    Stick,
}

impl State {
    /// The current probability rho_b.
    fn base(&self, params: &Params, now: Instant) -> f64 {
        if now < self.expires {
            params.probability
        } else {
            0.0
        }
    }

    /// The probability rho_a.
    fn chance(&self, params: &Params, now: Instant) -> f64 {
        params.spread(self.base(params, now), self.count)
    }

    /// The verdict on the packet at the head; `draw` gives a random `u64`, if chance decides.
    fn decide(&self, params: &Params, now: Instant, draw: impl FnOnce() -> u64) -> Try {
        let chance = self.chance(params, now);
        if !params.hold || chance <= 0.0 || now >= params.silent(self.arrived) {
            return Try::Pass;
        }
        let next = match params.count_resets {
            CountResets::Drop | CountResets::Set => chance,
            CountResets::Hold => params.spread(params.probability, 0),
        };
        match chance >= 1.0 {
            true if next >= 1.0 => Try::Stick,
            true => Try::Hold,
            false if Chance::new(chance).happens(draw()) => Try::Hold,
            false => Try::Pass,
        }
    }

    /// When the packet at the head is tried next.
    fn next_try(&self) -> Instant {
        match self.head {
            Head::From(at) => at,
            Head::Stuck { until, .. } => until,
        }
    }

    /// Called after a change, or when the time is up: a packet that was certain to be held is tried again at
    /// the end of the current packet time. Returns how many packet times it was held.
    fn release(&mut self, now: Instant) -> u64 {
        let Head::Stuck {
            since,
            packet_time,
            until,
        } = self.head
        else {
            return 0;
        };
        let times = packet_times(now.min(until).since(since), packet_time);
        self.head = Head::From(since + packet_time.times(times));
        times
    }
}

/// How many whole packet times cover a span.
fn packet_times(span: Span, packet_time: Span) -> u64 {
    span.as_nanos().div_ceil(packet_time.as_nanos())
}

/// Longest hold, whatever the configured rate.
const HOLD_MAX: Span = Span::from_secs(1);

/// Counters of the queue.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    holds: u64,
    early: u64,
    full: u64,
    /// Packets times nanoseconds, and nanoseconds, while the probability was above 0.
    area: u128,
    time: u64,
    /// The time up to which they are summed.
    summed: Instant,
}

/// The queue and the values set from outside.
#[derive(Debug)]
pub struct Refill {
    params: Params,
    link_rate: LinkRate,
    queue: Queue,
    state: State,
    stream: Stream,
    stats: Stats,
}

impl Refill {
    /// The time that a packet takes on the link.
    fn packet_time(&self, bytes: u64) -> Span {
        let time = self.link_rate.get().time_for(bytes);
        time.clamp(Span::from_nanos(1), HOLD_MAX)
    }

    /// Adds the packets that waited up to now to the sums.
    fn sum(&mut self, now: Instant) {
        let stats = &mut self.stats;
        if self.params.probability > 0.0 {
            let span = now.min(self.state.expires).since(stats.summed).as_nanos();
            stats.area += u128::from(span) * self.queue.len() as u128;
            stats.time += span;
        }
        stats.summed = stats.summed.max(now);
    }

    /// Re-evaluates the held packet.
    fn release(&mut self, now: Instant) {
        self.stats.holds += self.state.release(now);
    }

    /// Drops an arriving packet.
    fn refuse(&mut self, cx: &mut Cx<'_>, packet: Packet, reason: Reason) -> Admission {
        self.state.count = 0;
        self.release(cx.now);
        Admission::Refused(cx.fates.discard(packet, reason))
    }
}

impl Configured for Refill {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    fn limit(params: &Params) -> Result<usize, SettingError> {
        let (threshold, limit) = (params.threshold, params.limit);
        if threshold > limit {
            return Err(SettingError::Contradiction {
                name: "threshold",
                why: format!(
                    "the threshold is {threshold} packets, but must not exceed the limit of {limit}"
                ),
            });
        }
        Ok(limit)
    }

    fn build(params: Params, now: Instant, streams: &Streams) -> Self {
        Self {
            link_rate: LinkRate::of(params.rate),
            queue: Queue::new(params.limit),
            state: State {
                count: 0,
                head: Head::From(now),
                expires: now + params.lifetime,
                arrived: now,
            },
            params,
            stream: streams.stream(MANUAL.name),
            stats: Stats {
                summed: now,
                ..Stats::default()
            },
        }
    }

    fn change(&mut self, params: Params, now: Instant) {
        self.sum(now);
        self.queue.reserve(params.limit);
        self.link_rate.given = params.rate;
        self.state.expires = now + params.lifetime;
        if params.probability <= 0.0 || params.count_resets == CountResets::Set {
            self.state.count = 0;
        }
        self.params = params;
        self.release(now);
    }
}

impl Discipline for Refill {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        self.sum(cx.now);
        self.state.arrived = cx.now;
        // One draw per arrival, whatever its fate, so that the threshold does not shift the stream.
        let draw = self.stream.next_u64();
        let chance = Chance::new(self.state.chance(&self.params, cx.now));
        if self.queue.len() >= self.params.threshold && chance.happens(draw) {
            self.stats.early += 1;
            return self.refuse(cx, packet, Reason::Congestion);
        }
        if !self.has_room(packet.class) {
            self.stats.full += 1;
            return self.refuse(cx, packet, Reason::QueueFull);
        }
        self.queue.push(packet);
        Admission::Queued
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        let bytes = self.queue.packets.front()?.bytes();
        if cx.now < self.state.next_try() {
            return None;
        }
        self.release(cx.now);
        self.sum(cx.now);
        let stream = &mut self.stream;
        let verdict = self
            .state
            .decide(&self.params, cx.now, || stream.next_u64());
        let packet_time = self.packet_time(bytes);
        if verdict != Try::Pass && self.params.count_resets == CountResets::Hold {
            self.state.count = 0;
        }
        match verdict {
            Try::Pass => {}
            Try::Hold => {
                self.stats.holds += 1;
                self.state.head = Head::From(cx.now + packet_time);
                return None;
            }
            Try::Stick => {
                let silent = self.params.silent(self.state.arrived);
                let ends = self.state.expires.min(silent);
                let left = packet_times(ends.since(cx.now), packet_time);
                self.state.head = Head::Stuck {
                    since: cx.now,
                    packet_time,
                    until: cx.now + packet_time.times(left),
                };
                return None;
            }
        }
        let packet = self.queue.pop()?;
        self.state.count = if self.state.base(&self.params, cx.now) > 0.0 {
            self.state.count.saturating_add(1)
        } else {
            0
        };
        Some(packet)
    }

    fn has_room(&self, _class: Class) -> bool {
        self.queue.len() < self.params.limit
    }

    fn ready(&self, now: Instant) -> Ready {
        if self.queue.packets.is_empty() {
            return Ready::Empty;
        }
        match self.state.next_try() {
            at if at <= now => Ready::Now,
            at => Ready::At(at),
        }
    }

    fn backlog(&self) -> Tally {
        self.queue.backlog
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self) + self.queue.heap_bytes()
    }

    fn set_link_rate(&mut self, rate: Option<Rate>) {
        self.link_rate.port = rate;
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        self.queue.drain(out);
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        let stats = &self.stats;
        let base = self.state.base(&self.params, stats.summed);
        report("probability", (base * 1e6).round() as u64);
        report("holds", stats.holds);
        report("early", stats.early);
        report("full", stats.full);
        let mean = stats.area * 1000 / u128::from(stats.time.max(1));
        report("mean", mean as u64);
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        waiting::of_one_queue(&self.queue.packets, report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::{self, Rig, built, gauge};
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use weir_base::Streams;
    use weir_base::early::spread_waiting;

    /// 1000 B at 10 Mbit/s take 800 us.
    const PACKET_TIME: Span = Span::from_micros(800);

    fn params(probability: f64) -> Params {
        Params {
            threshold: 3,
            probability,
            hold: true,
            count_resets: CountResets::Drop,
            wait: false,
            lifetime: Span::from_secs(1),
            silence: Span::ZERO,
            rate: Rate::from_mbps(10),
            limit: 10,
        }
    }

    fn stream() -> Stream {
        Streams::new(1).stream("refill")
    }

    fn refill(params: Params) -> Refill {
        built(params)
    }

    fn after(span: Span) -> Instant {
        Instant::ZERO + span
    }

    #[test]
    fn the_count_makes_rho_a_of_rho_b() {
        let params = params(0.02);
        let mut state = refill(params.clone()).state;
        let chance = |state: &State| state.chance(&params, Instant::ZERO);
        assert_eq!(chance(&state), 0.02);
        state.count = 25;
        assert_eq!(chance(&state), 0.04); // 0.02 / (1 - 25 * 0.02)
        state.count = 49;
        assert!((chance(&state) - 1.0).abs() < 1e-12); // 0.02 / (1 - 0.98)
        assert_eq!(state.chance(&params, after(Span::from_secs(1))), 0.0);
    }

    #[test]
    fn with_wait_drops_are_spread_as_reds_with_wait() {
        let waiting = Params {
            wait: true,
            ..params(0.02)
        };
        let mut state = refill(waiting.clone()).state;
        for (count, expected) in [(0, 0.0), (49, 0.0), (50, 0.02), (75, 0.04), (99, 1.0)] {
            state.count = count;
            let chance = state.chance(&waiting, Instant::ZERO);
            assert!((chance - expected).abs() < 1e-12, "{count}: {chance}");
            assert_eq!(chance, spread_waiting(0.02, count));
        }
    }

    #[test]
    fn a_packet_is_held_by_chance_for_its_time_on_the_link() {
        let params = params(0.5);
        let state = refill(params.clone()).state;
        let half = 1 << 63; // draws below it happen at 0.5
        let decide = |draw: u64| state.decide(&params, Instant::ZERO, || draw);
        assert_eq!(decide(half - 1), Try::Hold);
        assert_eq!(decide(half), Try::Pass);
        let mut rig = Rig::new(1);
        let mut queue = refill(params);
        rig.offer(&mut queue, 0, 1000);
        let mut holds = 0;
        while rig.take(&mut queue).is_none() {
            holds += 1;
            let next = rig.now + PACKET_TIME;
            assert_eq!(queue.ready(rig.now), Ready::At(next));
            rig.now = next;
        }
        assert_eq!((gauge(&queue, "holds"), queue.state.count), (holds, 1));
    }

    #[test]
    fn what_sticks_goes_on_when_a_packet_is_dropped() {
        // One packet has passed, and 0.5 / (1 - 1 * 0.5) = 1.
        let mut rig = Rig::new(1);
        let mut queue = refill(params(0.5));
        queue.state.count = 1;
        rig.offer(&mut queue, 0, 1000);
        assert!(rig.take(&mut queue).is_none());
        assert_eq!(queue.ready(rig.now), Ready::At(after(Span::from_secs(1))));
        // Two more packets arrive, and then the one that finds three. 2 ms are two and a half packet times.
        rig.now = after(Span::from_millis(2));
        for _ in 0..2 {
            assert_eq!(rig.offer(&mut queue, 0, 1000), Admission::Queued);
        }
        let refused = rig.offer(&mut queue, 0, 1000);
        assert!(matches!(refused, Admission::Refused(d) if d.reason == Reason::Congestion));
        let third = after(PACKET_TIME.times(3));
        assert_eq!(queue.ready(rig.now), Ready::At(third));
        assert_eq!((gauge(&queue, "holds"), gauge(&queue, "early")), (3, 1));
        assert_eq!(queue.state.count, 0);
    }

    #[test]
    fn nothing_is_held_once_nothing_comes() {
        let mut rig = Rig::new(1);
        let mut queue = refill(Params {
            silence: PACKET_TIME.times(5),
            ..params(1.0)
        });
        rig.offer(&mut queue, 0, 1000);
        assert!(rig.take(&mut queue).is_none());
        rig.now = after(PACKET_TIME.times(3));
        rig.offer(&mut queue, 0, 1000);
        // Setting the probability again does not count as an arrival.
        queue.change(queue.params.clone(), rig.now);
        rig.now = after(PACKET_TIME.times(5));
        assert!(rig.take(&mut queue).is_none());
        let silent = after(PACKET_TIME.times(8));
        assert_eq!(queue.ready(rig.now), Ready::At(silent));
        rig.now = silent;
        assert!(rig.take(&mut queue).is_some() && rig.take(&mut queue).is_some());
    }

    #[test]
    fn a_probability_that_nobody_repeats_is_forgotten() {
        let mut rig = Rig::new(1);
        let mut queue = refill(params(1.0));
        for _ in 0..3 {
            rig.offer(&mut queue, 0, 1000);
        }
        assert!(rig.take(&mut queue).is_none());
        // Set again at 0.9 s, which is 1125 packet times: it holds up to 1.9 s.
        rig.now = after(Span::from_millis(900));
        queue.change(params(1.0), rig.now);
        assert!(rig.take(&mut queue).is_none());
        let end = after(Span::from_millis(1900));
        assert_eq!(queue.ready(rig.now), Ready::At(end));
        assert_eq!(gauge(&queue, "probability"), 1_000_000);
        rig.now = end;
        for _ in 0..3 {
            assert!(rig.take(&mut queue).is_some());
        }
        assert_eq!((queue.state.count, gauge(&queue, "probability")), (0, 0));
        // Three packets waited all that time.
        assert_eq!(gauge(&queue, "mean"), 3000);
    }

    #[test]
    fn one_packet_of_each_round_is_lost() {
        // At 0.1 nine packets pass, and then 0.1 / (1 - 0.9) = 1: the queue fills up to the threshold,
        // and a packet is dropped. A drop may come earlier, never later.
        let mut rig = Rig::new(1);
        let mut queue = refill(Params {
            lifetime: Span::from_secs(100),
            ..params(0.1)
        });
        let mut sent = 0;
        let mut link = Instant::ZERO;
        for n in 0..10_000 {
            let arrival = after(PACKET_TIME.times(2 * n)); // half of what the link carries
            rig.now = link;
            while rig.now < arrival {
                match queue.ready(rig.now) {
                    Ready::Now if rig.take(&mut queue).is_some() => {
                        sent += 1;
                        rig.now += PACKET_TIME;
                    }
                    Ready::Now => {}
                    Ready::At(at) => rig.now = at.min(arrival),
                    Ready::Empty => rig.now = arrival,
                }
            }
            link = rig.now;
            rig.now = arrival;
            rig.offer(&mut queue, 0, 1000);
        }
        let lost = gauge(&queue, "early");
        assert!(lost * 9 + 9 >= sent, "{lost} of {sent}");
        assert!(lost * 8 <= sent, "{lost} of {sent}");
        // The mean is between a full threshold and nine packets less at half of their rate.
        let mean = gauge(&queue, "mean");
        assert!((500..=3500).contains(&mean), "{mean}");
    }

    #[test]
    fn a_hold_that_restarts_the_count_lets_the_next_one_pass() {
        let mut rig = Rig::new(1);
        let mut queue = refill(Params {
            count_resets: CountResets::Hold,
            ..params(0.001)
        });
        queue.state.count = 999; // 0.001 / (1 - 0.999) = 1
        rig.offer(&mut queue, 0, 1000);
        assert!(rig.take(&mut queue).is_none());
        assert_eq!(queue.ready(rig.now), Ready::At(after(PACKET_TIME)));
        assert_eq!(queue.state.count, 0);
        rig.now = after(PACKET_TIME);
        assert!(rig.take(&mut queue).is_some());
    }

    #[test]
    fn without_holds_it_only_drops() {
        let mut rig = Rig::new(1);
        let mut queue = refill(Params {
            hold: false,
            threshold: 0,
            ..params(0.1)
        });
        let (mut passed, mut drops) = (0, 0);
        for _ in 0..1000 {
            match rig.offer(&mut queue, 0, 1000) {
                Admission::Queued => {
                    passed += 1;
                    assert!(rig.take(&mut queue).is_some());
                }
                _ => {
                    assert!(passed <= 9, "{passed} since the last drop");
                    (passed, drops) = (0, drops + 1);
                }
            }
        }
        // Distances are even over 1 to 10, with a mean of 5.5 and a variance of 8.25: 182 drops, standard
        // deviation sqrt(1000 * 8.25 / 5.5^3) = 7; four of them either way.
        assert!((154..=210).contains(&drops), "{drops}");
    }

    #[test]
    fn the_links_own_rate_counts_if_none_is_set() {
        let mut queue = refill(Params {
            rate: Rate::default(),
            ..params(0.5)
        });
        queue.set_link_rate(Some(Rate::from_mbps(100)));
        assert_eq!(queue.packet_time(1000), Span::from_micros(80));
        queue.change(params(0.5), Instant::ZERO);
        assert_eq!(queue.packet_time(1000), PACKET_TIME);
    }

    #[test]
    fn a_threshold_that_is_never_reached_is_refused() {
        let error = rig::params::<Refill>(&[("threshold", "2000")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`threshold`: the threshold is 2000 packets, but must not exceed the limit of 1000"
        );
    }

    /// The text, word for word: the packet at the head is tried again after each packet time.
    struct Slow {
        params: Params,
        draws: Stream,
        queue: VecDeque<u64>,
        n: u64,
        next: Instant,
        set: Instant,
        holds: u64,
    }

    impl Slow {
        fn rho_a(&self, now: Instant) -> f64 {
            let rho_b = if now.since(self.set) < self.params.lifetime {
                self.params.probability
            } else {
                0.0
            };
            let left = 1.0 - self.n as f64 * rho_b;
            if left > 0.0 {
                (rho_b / left).min(1.0)
            } else {
                1.0
            }
        }

        /// A draw of 53 bits, as a number below 1.
        fn happens(&mut self, p: f64) -> bool {
            let draw = (self.draws.next_u64() >> 11) as f64 / 2_f64.powi(53);
            draw < p
        }

        fn arrive(&mut self, id: u64, now: Instant) -> Option<Reason> {
            let rho_a = self.rho_a(now);
            let chosen = self.happens(rho_a);
            if self.queue.len() >= self.params.threshold && chosen {
                self.n = 0;
                return Some(Reason::Congestion);
            }
            if self.queue.len() >= self.params.limit {
                self.n = 0;
                return Some(Reason::QueueFull);
            }
            self.queue.push_back(id);
            None
        }

        /// The link is free and asks for a packet; all packets have 1000 bytes.
        fn ask(&mut self, now: Instant) -> Option<u64> {
            if self.queue.is_empty() || now < self.next {
                return None;
            }
            let rho_a = self.rho_a(now);
            let hold = rho_a >= 1.0 || (rho_a > 0.0 && self.params.hold && self.happens(rho_a));
            if hold && self.params.hold {
                self.holds += 1;
                self.next = now + PACKET_TIME;
                if self.params.count_resets == CountResets::Hold {
                    self.n = 0;
                }
                return None;
            }
            let rho_b = now.since(self.set) < self.params.lifetime && self.params.probability > 0.0;
            self.n = if rho_b { self.n + 1 } else { 0 };
            self.queue.pop_front()
        }

        /// Advances time while the link is free, with all events that are due before the end. At one instant,
        /// arrivals and settings come first.
        fn until(&mut self, mut now: Instant, end: Instant, passed: &mut Vec<(u64, Instant)>) {
            loop {
                now = now.max(self.next);
                if now >= end || self.queue.is_empty() {
                    return;
                }
                if let Some(id) = self.ask(now) {
                    passed.push((id, now));
                    now += PACKET_TIME;
                    self.next = self.next.max(now);
                }
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arrive,
        Wait(u64),
        Set(f64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let probability = prop_oneof![Just(0.0), Just(1.0), 0.0..0.3, 0.0..1.0];
        let step = prop_oneof![
            9 => Just(Step::Arrive),
            6 => (0_u64..1500).prop_map(Step::Wait),
            1 => (0_u64..30_000).prop_map(Step::Wait),
            1 => probability.prop_map(Step::Set),
        ];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        #[test]
        fn decides_as_the_text(
            steps in steps(),
            probability in 0.0..0.5,
            hold in any::<bool>(),
            count_resets in prop::sample::select(vec![CountResets::Drop, CountResets::Hold, CountResets::Set]),
            threshold in 0_usize..10,
        ) {
            let params = Params {
                threshold,
                hold,
                count_resets,
                lifetime: Span::from_millis(20),
                ..params(probability)
            };
            let mut rig = Rig::new(1);
            let mut queue = refill(params.clone());
            let mut slow = Slow {
                params: params.clone(), draws: stream(), queue: VecDeque::new(), n: 0,
                next: Instant::ZERO, set: Instant::ZERO, holds: 0,
            };
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            let mut link = Instant::ZERO;
            for step in steps {
                match step {
                    Step::Arrive => {
                        let expected = slow.arrive(rig.next_id(), rig.now);
                        match rig.offer(&mut queue, 0, 1000) {
                            Admission::Refused(d) => prop_assert_eq!(Some(d.reason), expected),
                            _ => prop_assert_eq!(None, expected),
                        }
                    }
                    Step::Wait(micros) => {
                        let end = rig.now + Span::from_micros(micros);
                        slow.until(rig.now, end, &mut theirs);
                        while let Some(at) = next(&queue, link.max(rig.now)).filter(|at| *at < end) {
                            rig.now = at;
                            if let Some(packet) = rig.take(&mut queue) {
                                ours.push((packet.id, at));
                                link = at + PACKET_TIME;
                            }
                        }
                        rig.now = end;
                    }
                    Step::Set(probability) => {
                        let params = Params { probability, ..params.clone() };
                        slow.params = params.clone();
                        slow.set = rig.now;
                        if probability == 0.0 || count_resets == CountResets::Set {
                            slow.n = 0;
                        }
                        queue.change(params, rig.now);
                    }
                }
                prop_assert_eq!(queue.queue.len(), slow.queue.len());
                prop_assert_eq!(queue.state.count, slow.n);
            }
            prop_assert_eq!(ours, theirs);
        }
    }

    /// When the link, free from `free` on, may ask next.
    fn next(queue: &Refill, free: Instant) -> Option<Instant> {
        match queue.ready(free) {
            Ready::Empty => None,
            Ready::Now => Some(free),
            Ready::At(at) => Some(at),
        }
    }
}

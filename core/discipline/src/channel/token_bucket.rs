//! Token buckets: redirect messages beyond an allowed rate are dropped before the queue.
//!
//! ```text
//!  control messages ----------------------------------+
//!                                                     +--> [ | | | ] --> link
//!  redirect messages --> two buckets -- enough? ------+
//!                                           \ no: dropped
//! ```
//!
//! Source: Zhuge et al., "Research on Internal Flow Control Mechanism of ForCES Routers", "Implementation of
//! flow control LFB entity"; the two buckets: RFC 2698 (two-rate three-colour marker, colour-blind). `Meter`
//! is the two buckets, and [`Gate`] the flow control in front of a queue. This file's discipline and
//! `dppbrb` use the gate; it also limits the packets that a router hands to its control element.

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, SettingError};
use weir_base::{Bytes, Instant, Rate, Streams, Tally};
use weir_packet::{Class, Packet, Reason};

use crate::channel::channels::{REDIRECT, WHICH};
use crate::contract::{Admission, Configured, Cx, Discipline, Manual};
use crate::fifo::{self, Fifo, LIMIT};
use crate::params::{Parameters, params};
use crate::waiting::Waiting;

pub use crate::channel::channels::Control;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "token_bucket",
    id: 0x00F7_0212,
    purpose: "first in, first out, behind token buckets that limit redirect messages",
    source: "Zhuge et al., ITJ, flow control LFB, equations 12 and 13; RFC 2698 for the buckets",
    text: "\
The forwarding element's half of flow control between one control element and many forwarding elements:
packets that the forwarding elements redirect to the control element must not fill its link. Control
messages pass unchanged. A redirect message passes if there are tokens for its bytes, and is dropped
otherwise.

    control messages ----------------------------------+
                                                       +--> [ | | | ] --> link
    redirect messages --> two buckets -- enough? ------+
                                             \\ no: dropped

Both buckets are `burst` deep. One fills at `committed`, the rate that the control element always reserves
for this forwarding element (B_c/T_s of the paper); the other fills at `excess` (B_e), which is higher
while other forwarding elements need less than their part. A message that finds too few tokens in the
second bucket is dropped. A message that finds enough in both takes tokens from both, and counts as
committed; a message that finds enough only in the second takes tokens only from that, and counts as
excess. An `excess` below the committed rate counts as the committed rate: no extra.

Without `flow_control`, all messages pass, and only their bytes are counted. A controller that computes
both rates for all its forwarding elements is `flow_control` of the control element; it may change them at
any time, and the tokens stay. `dppbrb` has the same buckets before its two queues.

Choosing parameters. The burst should let jitter pass; the bursts of all forwarding elements together
should fit the queue of the control element's link. A message longer than the burst never passes.

Defaults. `committed` is the paper's example: five forwarding elements share the part of 100 Mbit/s that
remains after 5 Mbit/s of control messages for each. `burst` is ten full packets, 8 ms at that rate. The
limit is that of `fifo`.

Deviations: the paper fills B_c tokens at once every T_s (1.5 s); such a bucket lets 22.5 Mbit pass at full
speed, far more than any queue before the control element holds. Ours fills continuously. The paper does
not specify what happens with the difference between B_c and B_e; RFC 2698 does.

An attacker at one forwarding element gets at most `excess` through, and takes it from the other redirect
messages there: senders are not distinguished. An attacker whose packets are classified as control messages
is not limited at all.",
    parameters: Params::TABLE,
    gauges: &[
        GAUGES[0].id(101), GAUGES[1].id(102), GAUGES[2].id(103), GAUGES[3].id(104),
        Gauge::counter(105, "full", Unit::Packets, "packets dropped because the queue was full"),
    ],
};

/// The gauges of the gate.
pub(crate) const GAUGES: [Gauge; 4] = [
    Gauge::counter(
        101,
        "redirect_bytes",
        Unit::Bytes,
        "bytes of redirect messages that arrived, including dropped messages",
    ),
    Gauge::counter(
        102,
        "committed",
        Unit::Packets,
        "redirect messages within the committed rate",
    ),
    Gauge::counter(
        103,
        "excess",
        Unit::Packets,
        "redirect messages beyond the committed rate that passed",
    ),
    Gauge::counter(
        104,
        "policed",
        Unit::Packets,
        "redirect messages dropped because there were no tokens",
    ),
];

params! {
    /// The rates at which redirect messages may pass.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Limits {
        /// Whether redirect messages need tokens.
        pub flow_control: bool = Parameter::new("flow_control", Kind::Flag, "false",
            "redirect messages need tokens"),
        /// Rate that may pass at any time.
        pub committed: Rate = Parameter::new("committed",
            Kind::Rate(Rate::from_bps(0), Rate::PARAMETER_MAX), "15 Mbit",
            "rate of redirect messages that always passes"),
        /// Maximum rate that passes; never less than `committed`.
        pub excess: Rate = Parameter::new("excess",
            Kind::Rate(Rate::from_bps(0), Rate::PARAMETER_MAX), "0 bit",
            "maximum rate of redirect messages that passes; at least the committed one"),
        /// Bytes that may pass at once.
        pub burst: Bytes = Parameter::new("burst", Kind::Bytes(Bytes(1514), Bytes(100_000_000)), "15000 B",
            "bytes of redirect messages that may pass at once"),
    }
}

impl Limits {
    /// The rates of both buckets.
    fn rates(&self) -> [Rate; 2] {
        [self.committed, self.excess.max(self.committed)]
    }
}

/// The verdict of a meter on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colour {
    /// Within the committed rate.
    Green,
    /// Beyond the committed rate, but within the excess rate.
    Yellow,
    /// Beyond both rates.
    Red,
}

/// Two token buckets. Tokens are bits times 10^9, so that a rate times nanoseconds is a whole number.
#[derive(Clone, Copy, Debug)]
struct Meter {
    rates: [Rate; 2],
    most: u64,
    tokens: [u64; 2],
    filled: Instant,
}

/// Tokens that a byte needs.
const BYTE: u64 = 8_000_000_000;

impl Meter {
    /// Full buckets.
    fn new(limits: &Limits, now: Instant) -> Self {
        let most = limits.burst.0 * BYTE;
        Self {
            rates: limits.rates(),
            most,
            tokens: [most; 2],
            filled: now,
        }
    }

    fn fill(&mut self, now: Instant) {
        let gap = now.since(self.filled).as_nanos();
        for (tokens, rate) in self.tokens.iter_mut().zip(self.rates) {
            let more = rate.as_bps().saturating_mul(gap);
            *tokens = tokens.saturating_add(more).min(self.most);
        }
        self.filled = now;
    }

    /// Applies other limits; keeps the tokens.
    fn change(&mut self, limits: &Limits, now: Instant) {
        self.fill(now);
        self.rates = limits.rates();
        self.most = limits.burst.0 * BYTE;
        self.tokens = self.tokens.map(|tokens| tokens.min(self.most));
    }

    /// Takes the tokens for an arriving packet, if as many as for `reserve` bytes remain.
    fn take(&mut self, now: Instant, bytes: u64, reserve: u64) -> Colour {
        self.fill(now);
        let price = bytes.saturating_mul(BYTE);
        let [committed, excess] = &mut self.tokens;
        if *excess < price.saturating_add(reserve.saturating_mul(BYTE)) {
            return Colour::Red;
        }
        *excess -= price;
        if *committed < price {
            return Colour::Yellow;
        }
        *committed -= price;
        Colour::Green
    }
}

/// Counters of the gate: redirect messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Messages offered, including dropped ones.
    pub offered: Tally,
    /// Messages within the committed rate.
    pub committed: Tally,
    /// Messages beyond the committed rate that passed.
    pub excess: Tally,
    /// Messages dropped for lack of tokens.
    pub policed: Tally,
}

/// Flow control in front of a queue.
#[derive(Debug)]
pub struct Gate {
    limits: Limits,
    meter: Meter,
    stats: Passed,
}

impl Gate {
    /// Full buckets.
    pub fn new(limits: Limits, now: Instant) -> Self {
        Self {
            meter: Meter::new(&limits, now),
            limits,
            stats: Passed::default(),
        }
    }

    /// Whether a packet of this channel may pass.
    pub(crate) fn admits(&mut self, channel: usize, now: Instant, bytes: u64) -> bool {
        channel != REDIRECT || self.passes(now, bytes)
    }

    /// Whether a redirect message of this length may pass.
    pub fn passes(&mut self, now: Instant, bytes: u64) -> bool {
        self.passes_beyond(now, bytes, 0.0)
    }

    /// [`Self::passes`] for a message that leaves this share of the burst to more important messages.
    pub fn passes_beyond(&mut self, now: Instant, bytes: u64, reserve: f64) -> bool {
        self.stats.offered.count(bytes);
        if !self.limits.flow_control {
            return true;
        }
        let reserve = self.limits.burst.0 as f64 * reserve;
        let colour = self.meter.take(now, bytes, reserve as u64);
        match colour {
            Colour::Green => self.stats.committed.count(bytes),
            Colour::Yellow => self.stats.excess.count(bytes),
            Colour::Red => self.stats.policed.count(bytes),
        }
        colour != Colour::Red
    }

    /// The counters.
    pub fn stats(&self) -> Passed {
        self.stats
    }

    /// Applies other limits; keeps the tokens.
    pub fn change(&mut self, limits: &Limits, now: Instant) {
        self.meter.change(limits, now);
        self.limits = limits.clone();
    }

    /// Reports [`GAUGES`].
    pub(crate) fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        report("redirect_bytes", self.stats.offered.bytes);
        report("committed", self.stats.committed.packets);
        report("excess", self.stats.excess.packets);
        report("policed", self.stats.policed.packets);
    }
}

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Params {
        /// Which packets are control messages.
        pub control: Control = WHICH.id(1),
        /// The rates at which the other messages may pass.
        pub limits: Limits => [
            Limits::TABLE[0].id(2), Limits::TABLE[1].id(3), Limits::TABLE[2].id(4), Limits::TABLE[3].id(5),
        ],
        /// The parameters of the queue.
        pub queue: fifo::Params => [LIMIT.id(6)],
    }
}

/// The gate and the queue.
#[derive(Debug)]
pub struct TokenBucket {
    params: Params,
    gate: Gate,
    queue: Fifo,
}

impl Configured for TokenBucket {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    fn limit(params: &Params) -> Result<usize, SettingError> {
        Fifo::limit(&params.queue)
    }

    fn build(params: Params, now: Instant, streams: &Streams) -> Self {
        Self {
            gate: Gate::new(params.limits.clone(), now),
            queue: Fifo::build(params.queue.clone(), now, streams),
            params,
        }
    }

    fn change(&mut self, params: Params, now: Instant) {
        self.queue.change(params.queue.clone(), now);
        self.gate.change(&params.limits, now);
        self.params = params;
    }
}

impl Discipline for TokenBucket {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        let channel = self.params.control.channel(cx, &packet);
        if !self.gate.admits(channel, cx.now, packet.bytes()) {
            return Admission::Refused(cx.fates.discard(packet, Reason::Policed));
        }
        self.queue.enqueue(cx, packet)
    }

    fn dequeue(&mut self, cx: &mut Cx<'_>) -> Option<Packet> {
        self.queue.dequeue(cx)
    }

    fn has_room(&self, class: Class) -> bool {
        self.queue.has_room(class) // a redirect message may still lack tokens
    }

    fn backlog(&self) -> Tally {
        self.queue.backlog()
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self) - size_of_val(&self.queue) + self.queue.state_bytes()
    }

    fn relax(&mut self) {
        self.queue.relax();
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        self.queue.drain(out);
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        self.gate.inspect(report);
        self.queue.inspect(report);
    }

    fn waiting(&self, report: &mut dyn FnMut(Waiting<'_>)) {
        self.queue.waiting(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::channels::tests::rig;
    use crate::rig::{Rig, built, defaults, gauge};
    use proptest::prelude::*;
    use weir_base::Span;

    fn limits(committed: u64, excess: u64, burst: u64) -> Limits {
        Limits {
            flow_control: true,
            committed: Rate::from_bps(committed),
            excess: Rate::from_bps(excess),
            burst: Bytes(burst),
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn colours_by_hand() {
        // 8 and 16 kbit/s fill 1 and 2 bytes a millisecond; both buckets hold 3000 bytes.
        let mut meter = Meter::new(&limits(8000, 16_000, 3000), at(0));
        assert_eq!(meter.take(at(0), 2000, 0), Colour::Green); // 1000 and 1000 left
        assert_eq!(meter.take(at(0), 1001, 0), Colour::Red); // takes nothing
        assert_eq!(meter.take(at(500), 2000, 0), Colour::Yellow); // 1500 and 2000 found, 1500 and 0 left
        assert_eq!(meter.take(at(500), 1, 0), Colour::Red);
        assert_eq!(meter.take(at(1000), 1000, 0), Colour::Green); // 2000 and 1000 found
        assert_eq!(meter.take(at(1000), 1, 0), Colour::Red);
        assert_eq!(meter.take(at(9000), 3000, 0), Colour::Green); // both full again
        assert_eq!(meter.take(at(9000), 1, 0), Colour::Red);
    }

    #[test]
    fn new_rates_leave_the_tokens() {
        let mut meter = Meter::new(&limits(8000, 8000, 3000), at(0));
        assert_eq!(meter.take(at(0), 3000, 0), Colour::Green);
        // 100 ms at the old rate, 100 bytes; then 100 ms at twice that rate, 200 bytes.
        meter.change(&limits(16_000, 16_000, 3000), at(100));
        assert_eq!(meter.tokens, [100 * BYTE; 2]);
        assert_eq!(meter.take(at(200), 301, 0), Colour::Red);
        assert_eq!(meter.take(at(200), 300, 0), Colour::Green);
        // A smaller bucket loses what it cannot hold.
        meter.change(&limits(16_000, 16_000, 2000), at(5000));
        assert_eq!(meter.tokens, [2000 * BYTE; 2]);
        // No rate, no tokens.
        meter.change(&limits(0, 0, 2000), at(5000));
        assert_eq!(meter.take(at(6000), 2000, 0), Colour::Green);
        assert_eq!(meter.take(at(900_000), 1, 0), Colour::Red);
    }

    #[test]
    fn without_excess_the_committed_rate_is_all() {
        assert_eq!(limits(8000, 0, 3000).rates(), [Rate::from_bps(8000); 2]);
    }

    fn token_bucket(limits: Limits) -> TokenBucket {
        let params = Params {
            control: Control::Tcp,
            limits,
            queue: fifo::Params { limit: 1000 },
        };
        built(params)
    }

    /// TCP and UDP at 8 Mbit/s each for a second, sent on at once.
    fn run(rig: &mut Rig, bucket: &mut TokenBucket) -> [u64; 2] {
        let mut sent = [0; 2];
        for _ in 0..1000 {
            rig.now += Span::from_millis(1);
            for flow in [0, 1] {
                rig.offer(bucket, flow, 1000);
            }
            while let Some(packet) = rig.take(bucket) {
                sent[packet.slot.0 as usize] += packet.bytes();
            }
        }
        sent
    }

    #[test]
    fn only_redirect_messages_are_limited() {
        let (mut rig, mut bucket) = (
            rig(&[6, 17]),
            token_bucket(limits(2_000_000, 4_000_000, 2000)),
        );
        // 4 Mbit/s are 500 000 B in the second, and the bucket was full.
        let [control, redirect] = run(&mut rig, &mut bucket);
        assert_eq!(control, 1_000_000);
        assert!((500_000..=502_000).contains(&redirect), "{redirect}");
        assert_eq!(gauge(&bucket, "redirect_bytes"), 1_000_000);
        let policed = gauge(&bucket, "policed");
        assert_eq!(policed, 1000 - redirect / 1000);
        assert_eq!(rig.fates.ended(Reason::Policed).packets, policed);
        // Half of what passed is committed.
        let (committed, excess) = (gauge(&bucket, "committed"), gauge(&bucket, "excess"));
        assert!((250..=252).contains(&committed), "{committed}");
        assert_eq!(committed + excess + policed, 1000);
    }

    #[test]
    fn flow_control_is_switched_on_and_off() {
        let mut bucket = token_bucket(Limits {
            flow_control: false,
            ..limits(0, 0, 2000)
        });
        let mut rig = rig(&[6, 17]);
        assert_eq!(run(&mut rig, &mut bucket), [1_000_000; 2]);
        let params = |flow_control| Params {
            limits: Limits {
                flow_control,
                ..limits(0, 0, 2000)
            },
            ..defaults::<TokenBucket>()
        };
        bucket.change(params(true), rig.now);
        assert_eq!(run(&mut rig, &mut bucket), [1_000_000, 2000]);
        bucket.change(params(false), rig.now);
        assert_eq!(run(&mut rig, &mut bucket), [1_000_000; 2]);
        assert_eq!(gauge(&bucket, "redirect_bytes"), 3_000_000);
    }

    proptest! {
        /// The packets that pass conform, in every period, to the burst plus the rate; only others are stopped.
        #[test]
        fn decides_as_all_that_passed_before_allows(
            arrivals in prop::collection::vec((0_u64..5_000_000, 60_u64..1500), 1..300),
            committed in 0_u64..10_000_000, more in 0_u64..10_000_000,
        ) {
            let limits = limits(committed, committed + more, 1514);
            let mut meter = Meter::new(&limits, Instant::ZERO);
            let (mut now, mut passed) = (0, [Vec::new(), Vec::new()]);
            for (gap, bytes) in arrivals {
                now += gap;
                // From each packet that passed a bucket, at most the bucket's depth plus its rate passes.
                let conforms = |bucket: usize| {
                    let rate = u128::from(limits.rates()[bucket].as_bps());
                    let fits = |bytes: u64, from: u64| {
                        let most = 1514 * u128::from(BYTE) + rate * u128::from(now - from);
                        u128::from(bytes) * u128::from(BYTE) <= most
                    };
                    let mut sum = bytes;
                    let earlier: &Vec<(u64, u64)> = &passed[bucket];
                    fits(sum, now) && earlier.iter().rev().all(|(from, length)| {
                        sum += length;
                        fits(sum, *from)
                    })
                };
                let expected = match (conforms(1), conforms(0)) {
                    (false, _) => Colour::Red,
                    (true, false) => Colour::Yellow,
                    (true, true) => Colour::Green,
                };
                let at = Instant::ZERO + Span::from_nanos(now);
                prop_assert_eq!(meter.take(at, bytes, 0), expected);
                if expected == Colour::Green {
                    passed[0].push((now, bytes));
                }
                if expected != Colour::Red {
                    passed[1].push((now, bytes));
                }
            }
        }
    }
}

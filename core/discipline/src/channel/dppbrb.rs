//! DPPBRB: the control channel's share of a link grows when it needs more, and redirect messages that
//! arrive faster than the remaining share carries are dropped at random.
//!
//! ```text
//!               control   +-> rate r_c, queue x_c --> p_dp --> moves p_c
//!  arrivals --+-----------+                           |                      control messages have
//!               redirect  +-> rate r_d, queue x_d --> p_dp: dropped          p_c of the bytes
//!
//!  p_dp = (A x + B) max(0, 1 - B_i / r_i)     while min_threshold < x <= max_threshold
//! ```
//!
//! Source: Zhuge, Yu, Liu, Wang, "Research on Internal Flow Control Mechanism of ForCES Routers",
//! Information Technology Journal, equations 5 to 11. [`Law`] and [`by_rate`] implement the equations,
//! except equation 5 (`channels`) and equation 7 (`parts::rate`). With a fixed share, this is the
//! discipline of Jiang, Tham, Ko, "A probabilistic priority scheduling discipline for multi-service
//! networks", Computer Communications 25, 2002, for two queues.

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter, SettingError};
use weir_base::{Instant, Rate, Span, Streams, Tally};
use weir_packet::{Class, Packet, Reason};

use crate::channel::channels::{CONTROL, Channels, LIMIT, REDIRECT, WHICH};
use crate::channel::token_bucket::{self, Gate, Limits};
use crate::contract::{Admission, Configured, Cx, Discipline, Manual};
use crate::params::{Parameters, params};
use crate::parts::chance::Chance;
use crate::parts::link_rate::{LinkRate, RATE};
use crate::parts::rate::{RateEstimate, Window};
use crate::parts::thresholds;

pub use crate::channel::channels::Control;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "dppbrb",
    id: 0x00F7_0204,
    purpose: "protects control messages from redirect messages on the link between CE and FE",
    source: "Zhuge et al., ITJ, equations 5 to 11 and Table 1; Jiang, Tham, Ko, Computer Communications 25, 2002",
    text: "\
For the link between a control element (CE) and a forwarding element (FE). Control messages configure the
FE; redirect messages are packets that the FE hands up to the CE, and a flood of them must not delay or
displace control messages.

Dynamic probabilistic priority based on rate and buffer. Control messages and redirect messages (all other
packets) have one FIFO queue each. Each time the link is free and both queues hold packets, one of the two
head packets is drawn. A control message of c bytes leaves before a redirect message of r bytes with the
probability

    p_c r / (p_c r + (1 - p_c) c)                   p_c, if they are equally long

So control messages get the fraction p_c of the bytes that are sent while both queues hold packets: the
bandwidth p_c B of the link's rate B; redirect messages get the rest. An empty queue yields its turn.

                 control   +-> rate r_c, queue x_c --> p_dp --> moves p_c
    arrivals --+-----------+                           |                      control messages have
                 redirect  +-> rate r_d, queue x_d --> p_dp: dropped          p_c of the bytes

Each arrival updates the rate estimate r of its channel, with a window K of `estimate`. It finds x messages
in its queue. Above `max_threshold` it is dropped. Between the thresholds

    p_dp = (buffer_slope x + buffer_offset) max(0, 1 - B_i / r)         B_i: bandwidth of its channel

and up to `min_threshold` p_dp = 0. A redirect message is dropped with probability p_dp. A control message
is not dropped, but moves p_c:

    p_dp = 0 and p_c > 1/2    p_c = max(1/2, decay p_c)
    p_dp > threshold          p_c = min(1, p_c (1 + p_dp - threshold))

With `adapt = false`, p_c stays at `share`, and only packets that find `limit` messages in their queue are
dropped: probabilistic priority. Such a share may be anything from 0 to 1. With 1 a redirect message never
leaves before a control message, which is strict priority; with 0 the order is reversed.

With `flow_control`, redirect messages need tokens before they reach the queues: see `token_bucket`.

Choosing parameters. The defaults are the paper's, for a link of 10 Mbit/s and messages of 1000 B. A
control channel that needs less than half of the link always gets it, because p_c does not fall below 1/2.
`min_threshold` messages wait before p_c begins to grow: keep it below the backlog that the control channel
tolerates. With a smaller `limit`, set smaller thresholds as well. A fixed share is enough if control
messages never need more than it; redirect messages use the unused part.

Deviations and readings. In the paper, p_c is the probability that a control message is served, and all
messages are equally long. Here p_c is a share of bytes, as required by equation 8, which compares rates
with p_c B: with the paper's definition, short control messages got much less than that in competition with
long redirect messages, and were lost while p_c fell. At equal lengths both definitions agree. The text
says that p_c is 1/2 when service begins, its Table 1 says 0.8: we start at `share`. Table 1 is damaged: K
= 20 ms is our reading, as are the thresholds 75 and 25. The text leaves x = max_threshold open: here it
belongs to the range between the thresholds. A control message that is dropped above `max_threshold` does
not move p_c, as in the text; a control message that is dropped at `limit` has moved it. The text raises
p_c when control messages arrive faster than their bandwidth \"or\" when little buffer is left; equation 9
multiplies the two probabilities, and so do we: p_c grows, and redirect messages are dropped, only while
the rate and the queue are both too high. (buffer_slope x + buffer_offset) counts as 1 if it is more. Bytes
are those of layer 2. When p_c has reached 1 and control messages always wait, no redirect message leaves,
as in the text. Jiang et al. have any number of queues, each with a probability; we have two.

An attacker among the redirect messages takes bandwidth only from redirect messages. But p_dp is the same
for all of them: a sender that offers ten times as much gets ten times as much through. p_dp is the product
of two probabilities, and less than the probability that would limit the rate: a flood fills its queue up to
`max_threshold`. An attacker whose packets are classified as control messages drives p_c to 1 and shuts out
redirect messages, or takes up to a fixed share from everybody else: permit only the control element's
addresses. The next queue to be served cannot be predicted.

What two classes cannot do. The packets of routing protocols are redirect messages too, because the control
element's routing daemons receive them that way. A flood of other redirect messages displaces them, and the
adjacencies go down. The channel of `weir fe` and `weir ce` therefore sends them before this discipline.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::level(101, "control_share", Unit::PerMille, "p_c, the share of the bytes for control messages"),
        Gauge::level(102, "control_rate", Unit::BitsPerSecond, "estimated rate of control messages"),
        Gauge::level(103, "redirect_rate", Unit::BitsPerSecond, "estimated rate of redirect messages"),
        Gauge::level(104, "control_packets", Unit::Packets, "packets in the control queue"),
        Gauge::level(105, "redirect_packets", Unit::Packets, "packets in the redirect queue"),
        Gauge::counter(106, "raised", Unit::Packets, "control messages that raised p_c"),
        Gauge::counter(107, "lowered", Unit::Packets, "control messages that lowered p_c"),
        Gauge::counter(108, "early", Unit::Packets, "redirect messages dropped with probability p_dp"),
        Gauge::counter(109, "over_control", Unit::Packets,
            "control messages dropped above max_threshold, or because their queue was full"),
        Gauge::counter(110, "over_redirect", Unit::Packets,
            "redirect messages dropped above max_threshold, or because their queue was full"),
        token_bucket::GAUGES[0].id(111), token_bucket::GAUGES[1].id(112),
        token_bucket::GAUGES[2].id(113), token_bucket::GAUGES[3].id(114),
    ],
};

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Params {
        /// Which packets are control messages.
        pub control: Control = WHICH.id(1),
        /// p_c, or its initial value if it adapts.
        pub share: f64 = Parameter::new("share", Kind::Ratio(0.0, 1.0), "0.8",
            "p_c, the share of bytes for control messages while both queues hold packets; with adapt, its initial value")
            .id(2),
        /// Whether p_c adapts.
        pub adapt: bool = Parameter::new("adapt", Kind::Flag, "true",
            "p_c adapts, and redirect messages are dropped before their queue is full").id(3),
        /// The constants of the equations.
        pub law: Law => [
            Law::TABLE[0].id(4), Law::TABLE[1].id(5), Law::TABLE[2].id(6), Law::TABLE[3].id(7),
            Law::TABLE[4].id(8), Law::TABLE[5].id(9), Law::TABLE[6].id(10),
        ],
        /// Maximum packets held, in each of the two queues.
        pub limit: usize = LIMIT.id(11),
        /// Rate of the link; zero to use the port's.
        pub rate: Rate = RATE.id(12),
        /// Flow control of redirect messages.
        pub limits: Limits => [
            Limits::TABLE[0].id(13), Limits::TABLE[1].id(14), Limits::TABLE[2].id(15), Limits::TABLE[3].id(16),
        ],
    }
}

params! {
    /// The constants of equations 6, 7, 10 and 11.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Law {
        /// A.
        pub buffer_slope: f64 = Parameter::new("buffer_slope", Kind::Ratio(0.0, 1.0), "0.0127",
            "A: increase of the drop probability by buffer for each message in the queue"),
        /// B of equation 6.
        pub buffer_offset: f64 = Parameter::new("buffer_offset", Kind::Ratio(0.0, 1.0), "0",
            "B: constant part of the drop probability by buffer"),
        /// p_th.
        pub threshold: f64 = Parameter::new("threshold", Kind::Ratio(0.0, 1.0), "0.011",
            "p_th: value of p_dp for a control message above which p_c grows"),
        /// lambda_p.
        pub decay: f64 = Parameter::new("decay", Kind::Ratio(0.0, 1.0), "0.995",
            "lambda_p: factor applied to p_c at each control message while p_dp is 0"),
        /// K, the window of the rate estimates.
        pub estimate: Span = Parameter::new("estimate",
            Kind::Span(Span::from_micros(10), Span::from_secs(100)), "20 ms",
            "K: window of the rate estimates"),
        /// Queue length, in messages, above which all messages are dropped.
        pub max_threshold: u64 = Parameter::new("max_threshold", Kind::Count(0, 1_000_000), "75 packets",
            "messages in a queue above which all arrivals are dropped"),
        /// Queue length, in messages, up to which no message is dropped by chance.
        pub min_threshold: u64 = Parameter::new("min_threshold", Kind::Count(0, 1_000_000), "25 packets",
            "messages in a queue up to which p_dp is 0; less than max_threshold and limit"),
    }
}

impl Law {
    /// Equation 6: drop probability by the messages that wait.
    pub fn by_buffer(&self, queue: u64) -> f64 {
        if queue <= self.min_threshold {
            return 0.0;
        }
        (self.buffer_slope * queue as f64 + self.buffer_offset).min(1.0)
    }

    /// Equations 10 and 11: p_c after a control message with this p_dp.
    pub fn adjust(&self, share: f64, drop: f64) -> f64 {
        if drop == 0.0 && share > HALF {
            (share * self.decay).max(HALF)
        } else if drop > self.threshold {
            (share * (1.0 + drop - self.threshold)).min(1.0)
        } else {
            share
        }
    }
}

/// The minimum of p_c.
const HALF: f64 = 0.5;

/// Equation 8: drop probability by rate, for a channel with this bandwidth (both in bit/s).
pub fn by_rate(bandwidth: f64, rate: f64) -> f64 {
    if rate > bandwidth {
        1.0 - bandwidth / rate
    } else {
        0.0
    }
}

/// The arrival rate of a channel.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    estimate: RateEstimate,
    latest: Instant,
}

impl Arrivals {
    fn arrive(&mut self, window: Window, now: Instant, bytes: u64) {
        self.estimate.update(window, now.since(self.latest), bytes);
        self.latest = now;
    }
}

/// State of the decisions.
#[derive(Clone, Copy, Debug)]
struct State {
    /// p_c, the share of the bytes for control messages; `chance` is derived from it.
    share: f64,
    chance: Chance,
    arrivals: [Arrivals; 2],
    link_rate: LinkRate,
}

impl State {
    fn set_share(&mut self, share: f64) {
        self.share = share;
        self.chance = Chance::new(share);
    }

    /// Equation 9, for a message of this channel that finds `queue` messages in its queue.
    fn drop(&self, params: &Params, channel: usize, queue: u64) -> f64 {
        let by_buffer = params.law.by_buffer(queue);
        if by_buffer == 0.0 {
            return 0.0;
        }
        let share = match channel {
            CONTROL => self.share,
            _ => 1.0 - self.share,
        };
        let rate = self.arrivals[channel].estimate.rate();
        by_buffer
            * by_rate(
                share * self.link_rate.get().as_bps() as f64,
                rate.as_bps() as f64,
            )
    }
}

/// Counters of the discipline.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    raised: u64,
    lowered: u64,
    early: u64,
    over: [u64; 2],
}

/// The two queues and the share of the control queue.
#[derive(Debug)]
pub struct Dppbrb {
    params: Params,
    window: Window,
    gate: Gate,
    state: State,
    channels: Channels,
    stats: Stats,
}

impl Dppbrb {
    /// Adapts p_c after a control message.
    fn adjust(&mut self, drop: f64) {
        let before = self.state.share;
        let share = self.params.law.adjust(before, drop);
        self.stats.raised += u64::from(share > before);
        self.stats.lowered += u64::from(share < before);
        self.state.set_share(share);
    }
}

impl Configured for Dppbrb {
    type Params = Params;
    const MANUAL: Manual = MANUAL;

    fn limit(params: &Params) -> Result<usize, SettingError> {
        if params.adapt && params.share < HALF {
            let share = params.share;
            return Err(SettingError::Contradiction {
                name: "share",
                why: format!("p_c is {share}, but must be from {HALF} to 1 unless adapt is false"),
            });
        }
        if params.adapt {
            let (min, max) = (params.law.min_threshold, params.law.max_threshold);
            thresholds::check("min_threshold", min as f64, max as f64, params.limit)?;
        }
        Ok(params.limit * 2)
    }

    fn build(params: Params, now: Instant, streams: &Streams) -> Self {
        let stream = streams.stream(match params.adapt {
            true => MANUAL.name,
            false => "probabilistic_priority", // a discipline of its own once: its runs stay the same
        });
        Self {
            window: Window::new(params.law.estimate),
            gate: Gate::new(params.limits.clone(), now),
            state: State {
                share: params.share,
                chance: Chance::new(params.share),
                arrivals: [Arrivals::default(); 2],
                link_rate: LinkRate::of(params.rate),
            },
            channels: Channels::new(params.limit, stream),
            params,
            stats: Stats::default(),
        }
    }

    fn change(&mut self, params: Params, now: Instant) {
        if params.share != self.params.share || !params.adapt {
            self.state.set_share(params.share); // otherwise p_c keeps its adapted value
        }
        self.window = Window::new(params.law.estimate);
        self.state.link_rate.given = params.rate;
        self.gate.change(&params.limits, now);
        self.channels.reserve(params.limit);
        self.params = params;
    }
}

impl Discipline for Dppbrb {
    fn enqueue(&mut self, cx: &mut Cx<'_>, packet: Packet) -> Admission {
        // One draw per arrival, whatever its fate, so that parameters do not shift the stream.
        let draw = self.params.adapt.then(|| self.channels.draw());
        let channel = self.params.control.channel(cx, &packet);
        if !self.gate.admits(channel, cx.now, packet.bytes()) {
            return Admission::Refused(cx.fates.discard(packet, Reason::Policed));
        }
        self.state.arrivals[channel].arrive(self.window, cx.now, packet.bytes());
        let queue = self.channels.len(channel);
        if let Some(draw) = draw {
            if queue as u64 > self.params.law.max_threshold {
                self.stats.over[channel] += 1;
                return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
            }
            let drop = self.state.drop(&self.params, channel, queue as u64);
            if channel == CONTROL {
                self.adjust(drop);
            } else if Chance::new(drop).happens(draw) {
                self.stats.early += 1;
                return Admission::Refused(cx.fates.discard(packet, Reason::Congestion));
            }
        }
        if queue >= self.params.limit {
            self.stats.over[channel] += 1;
            return Admission::Refused(cx.fates.discard(packet, Reason::QueueFull));
        }
        self.channels.push(channel, packet);
        Admission::Queued
    }

    fn dequeue(&mut self, _cx: &mut Cx<'_>) -> Option<Packet> {
        self.channels.serve(self.state.chance)
    }

    fn has_room(&self, _class: Class) -> bool {
        let above = if self.params.adapt {
            self.params.law.max_threshold.saturating_add(1) as usize
        } else {
            usize::MAX
        };
        self.channels.both_below(self.params.limit.min(above)) // the channel of a packet is not known before it arrives
    }

    fn backlog(&self) -> Tally {
        self.channels.backlog()
    }

    fn state_bytes(&self) -> usize {
        size_of_val(self) + self.channels.heap_bytes()
    }

    fn set_link_rate(&mut self, rate: Option<Rate>) {
        self.state.link_rate.port = rate;
    }

    fn drain(&mut self, out: &mut dyn FnMut(Packet)) {
        self.channels.drain(out);
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, u64)) {
        let rates = self.state.arrivals.map(|a| a.estimate.rate().as_bps());
        report("control_share", (self.state.share * 1000.0).round() as u64);
        report("control_rate", rates[CONTROL]);
        report("redirect_rate", rates[REDIRECT]);
        report("control_packets", self.channels.len(CONTROL) as u64);
        report("redirect_packets", self.channels.len(REDIRECT) as u64);
        report("raised", self.stats.raised);
        report("lowered", self.stats.lowered);
        report("early", self.stats.early);
        report("over_control", self.stats.over[CONTROL]);
        report("over_redirect", self.stats.over[REDIRECT]);
        self.gate.inspect(report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::channels::tests::rig;
    use crate::contract::Ready;
    use crate::rig::{Rig, built, defaults, gauge};
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use weir_base::{Stream, Streams};

    fn params() -> Params {
        defaults::<Dppbrb>()
    }

    fn stream() -> Stream {
        Streams::new(1).stream("dppbrb")
    }

    /// A discipline on a link of 10 Mbit/s.
    fn dppbrb(params: Params) -> Dppbrb {
        let mut dppbrb: Dppbrb = built(params);
        dppbrb.set_link_rate(Some(Rate::from_mbps(10)));
        dppbrb
    }

    /// Flow 0 is TCP, flow 1 is UDP.
    fn two() -> Rig {
        rig(&[6, 17])
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn equation_6_by_hand() {
        let law = params().law;
        // A x + B between the thresholds: .0127 * 26 = .3302, .0127 * 75 = .9525.
        close(law.by_buffer(25), 0.0);
        close(law.by_buffer(26), 0.3302);
        close(law.by_buffer(75), 0.9525);
        let law = Law {
            buffer_offset: 0.1,
            ..law
        };
        close(law.by_buffer(25), 0.0);
        close(law.by_buffer(50), 0.735);
        close(law.by_buffer(75), 1.0); // 1.0525
    }

    #[test]
    fn equation_8_by_hand() {
        close(by_rate(2e6, 0.0), 0.0);
        close(by_rate(2e6, 2e6), 0.0);
        close(by_rate(2e6, 8e6), 0.75);
        close(by_rate(0.0, 8e6), 1.0);
    }

    #[test]
    fn equations_5_and_9_by_hand() {
        // p_c = .8 of 10 Mbit/s: 8 and 2 Mbit/s. One packet of 1000 B after long silence, K = 20 ms: its
        // estimate is near 0; then 39 more at one instant: 40 * 8000 bit / 20 ms = 16 Mbit/s.
        let (mut rig, mut dppbrb) = (two(), dppbrb(params()));
        for channel in [CONTROL, REDIRECT] {
            for _ in 0..40 {
                dppbrb.state.arrivals[channel].arrive(dppbrb.window, rig.now, 1000);
            }
        }
        rig.now += Span::from_nanos(1);
        let drop = |channel, queue| dppbrb.state.drop(&dppbrb.params, channel, queue);
        // 1 - 8/16 = .5 and 1 - 2/16 = .875, times .0127 * 50 = .635.
        assert!((drop(CONTROL, 50) - 0.3175).abs() < 1e-6);
        assert!((drop(REDIRECT, 50) - 0.555_625).abs() < 1e-6);
        close(drop(REDIRECT, 25), 0.0);
    }

    #[test]
    fn equations_10_and_11_by_hand() {
        let law = params().law;
        close(law.adjust(0.8, 0.0), 0.796);
        close(law.adjust(0.501, 0.0), 0.5); // .498495
        close(law.adjust(0.5, 0.0), 0.5);
        close(law.adjust(0.8, 0.011), 0.8); // neither
        close(law.adjust(0.8, 0.111), 0.88);
        close(law.adjust(0.8, 0.411), 1.0); // 1.12
    }

    #[test]
    fn the_rate_of_the_parameters_goes_before_the_links() {
        let drop = |rate: u64, link: Option<u64>| {
            let mut dppbrb = dppbrb(Params {
                rate: Rate::from_bps(rate),
                ..params()
            });
            dppbrb.set_link_rate(link.map(Rate::from_bps));
            for _ in 0..40 {
                dppbrb.state.arrivals[CONTROL].arrive(dppbrb.window, Instant::ZERO, 1000);
            }
            dppbrb.state.drop(&dppbrb.params, CONTROL, 75) > 0.0
        };
        // 16 Mbit/s on 8 or 80. A port that is not paced counts as 1 Gbit/s.
        assert!(drop(0, Some(10_000_000)) && !drop(0, Some(100_000_000)));
        assert!(drop(10_000_000, Some(100_000_000)) && !drop(100_000_000, Some(10_000_000)));
        assert!(!drop(0, None) && drop(10_000_000, None));
    }

    #[test]
    fn the_estimate_settles_within_five_windows() {
        // 5 Mbit/s as 1000 B every 1.6 ms, 100 ms long: e^-5 = .7 % is still missing.
        let (mut rig, mut dppbrb) = (two(), dppbrb(params()));
        while rig.now < Instant::ZERO + Span::from_millis(100) {
            rig.now += Span::from_micros(1600);
            rig.offer(&mut dppbrb, 0, 1000);
            rig.take(&mut dppbrb);
        }
        let off = gauge(&dppbrb, "control_rate") as f64 / 5e6 - 1.0;
        assert!(off.abs() < 0.02, "{off}");
    }

    #[test]
    fn p_c_by_hand() {
        let (mut rig, mut dppbrb) = (two(), dppbrb(params()));
        rig.now += Span::from_secs(1);
        // Without pressure: .8 * .995^10 = .7609.
        for _ in 0..10 {
            rig.now += Span::from_millis(10);
            rig.offer(&mut dppbrb, 0, 1000);
            rig.take(&mut dppbrb);
        }
        assert_eq!(
            (gauge(&dppbrb, "control_share"), gauge(&dppbrb, "lowered")),
            (761, 10)
        );
        // 26 messages at one instant find at most min_threshold and still lower p_c (.7609 * .995^26 =
        // .6679); the next message finds 26, and a rate of at least 27 * 8000 bit / 20 ms = 10.8 Mbit/s
        // for 6.7.
        for _ in 0..26 {
            rig.offer(&mut dppbrb, 0, 1000);
        }
        assert_eq!(
            (gauge(&dppbrb, "control_share"), gauge(&dppbrb, "raised")),
            (668, 0)
        );
        rig.offer(&mut dppbrb, 0, 1000);
        assert_eq!(gauge(&dppbrb, "raised"), 1);
        // p_c reaches 1, and a message that finds more than 75 is dropped.
        for _ in 0..60 {
            rig.offer(&mut dppbrb, 0, 1000);
        }
        assert_eq!(gauge(&dppbrb, "control_share"), 1000);
        assert_eq!(
            (
                gauge(&dppbrb, "control_packets"),
                gauge(&dppbrb, "over_control")
            ),
            (76, 11)
        );
    }

    #[test]
    fn new_parameters_keep_p_c_unless_they_name_another() {
        let (mut rig, mut dppbrb) = (two(), dppbrb(params()));
        for _ in 0..10 {
            rig.offer(&mut dppbrb, 0, 1000);
        }
        let mut other = params();
        other.law.decay = 0.5;
        dppbrb.change(other.clone(), rig.now);
        assert_eq!(gauge(&dppbrb, "control_share"), 761);
        other.share = 0.9;
        dppbrb.change(other, rig.now);
        assert_eq!(gauge(&dppbrb, "control_share"), 900);
    }

    /// Offers both channels messages of these lengths at these rates in Mbit/s for 6 s, on 10 Mbit/s;
    /// returns how many control messages arrived and how many were sent.
    fn offered_and_sent(lengths: [u32; 2], rates: [u64; 2]) -> [u64; 2] {
        let (mut rig, mut dppbrb) = (two(), dppbrb(params()));
        let (mut next, mut free) = ([Instant::ZERO; 2], Instant::ZERO);
        let (mut offered, mut sent) = (0, 0);
        while next[0].min(next[1]) < Instant::ZERO + Span::from_secs(6) {
            let channel = usize::from(next[REDIRECT] < next[CONTROL]);
            while dppbrb.ready(free) == Ready::Now && free <= next[channel] {
                rig.now = free;
                let packet = rig.take(&mut dppbrb).unwrap();
                sent += u64::from(packet.slot.0 == 0);
                free += Rate::from_mbps(10).time_for(packet.bytes());
            }
            rig.now = next[channel];
            free = free.max(rig.now);
            rig.offer(&mut dppbrb, channel, lengths[channel]);
            offered += u64::from(channel == CONTROL);
            next[channel] += Rate::from_mbps(rates[channel]).time_for(lengths[channel].into());
        }
        [offered, sent + gauge(&dppbrb, "control_packets")]
    }

    #[test]
    fn long_redirect_messages_do_not_push_short_control_messages_out() {
        // 1 Mbit/s of the 5 Mbit/s that the control channel always has, next to 20 Mbit/s of redirect messages.
        for lengths in [[60, 1514], [60, 60], [1514, 60], [1000, 1000]] {
            let [offered, sent] = offered_and_sent(lengths, [1, 20]);
            assert_eq!(sent, offered, "{lengths:?}");
        }
    }

    #[test]
    fn a_share_below_one_half_must_be_fixed() {
        use weir_base::setting::Scalar;
        let check = |adapt| {
            let given = [("share", Scalar::Real(0.4)), ("adapt", Scalar::Flag(adapt))];
            let given = given.iter().map(|(name, scalar)| (*name, scalar));
            crate::Spec::check(MANUAL.name, given).map_err(|error| error.to_string())
        };
        assert!(check(false).is_ok());
        let why = "`share`: p_c is 0.4, but must be from 0.5 to 1 unless adapt is false";
        assert_eq!(check(true), Err(why.to_owned()));
    }

    #[test]
    fn p_c_goes_back_to_a_share_that_is_fixed() {
        let (mut rig, mut dppbrb) = (two(), dppbrb(params()));
        rig.offer(&mut dppbrb, 0, 1000);
        assert_eq!(gauge(&dppbrb, "control_share"), 796);
        let fixed = Params {
            adapt: false,
            ..params()
        };
        dppbrb.change(fixed, rig.now);
        rig.offer(&mut dppbrb, 0, 1000);
        assert_eq!(gauge(&dppbrb, "control_share"), 800);
    }

    #[test]
    fn redirect_messages_need_tokens() {
        let mut limited = params();
        limited.limits = Limits {
            flow_control: true,
            committed: Rate::from_bps(0),
            ..limited.limits
        };
        let (mut rig, mut dppbrb) = (two(), dppbrb(limited));
        // The burst of 15 000 B, and no more.
        for n in 0..40 {
            rig.offer(&mut dppbrb, n % 2, 1000);
        }
        assert_eq!(rig.fates.ended(Reason::Policed).packets, 5);
        assert_eq!(
            (
                gauge(&dppbrb, "control_packets"),
                gauge(&dppbrb, "redirect_packets")
            ),
            (20, 15)
        );
    }

    #[test]
    fn dropping_by_rate_alone_trims_to_the_bandwidth() {
        // 100 000 packets at k times B_i, each dropped with 1 - 1/k: the remaining rate is B_i.
        let mut draws = stream();
        for k in [1.5, 2.0, 4.0] {
            let drop = Chance::new(by_rate(1e6, k * 1e6));
            let left = (0..100_000).filter(|_| !drop.happens(rand::Rng::next_u64(&mut draws)));
            let off = left.count() as f64 * k / 100_000.0 - 1.0;
            assert!(off.abs() < 0.02, "{k}: {off}");
        }
    }

    /// The text of "Packet enqueue" and "Packet dequeue", word for word, except that p_c counts bytes.
    struct Text {
        p: Params,
        p_c: f64,
        r: [f64; 2],
        t: [f64; 2],
        queues: [VecDeque<(u64, f64)>; 2],
        draws: Stream,
    }

    impl Text {
        fn draw(&mut self) -> f64 {
            (rand::Rng::next_u64(&mut self.draws) >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn enqueue(&mut self, now: f64, i: usize, id: u64, bytes: f64) {
            let draw = self.draw();
            let gap = now - self.t[i];
            self.t[i] = now;
            let k = self.p.law.estimate.as_secs_f64();
            let alpha = (-gap / k).exp();
            self.r[i] = if gap > 0.0 {
                (1.0 - alpha) * bytes * 8.0 / gap + alpha * self.r[i]
            } else {
                bytes * 8.0 / k + self.r[i]
            };
            let law = &self.p.law;
            let x = self.queues[i].len() as u64;
            if x > law.max_threshold {
                return;
            }
            let mut p_dp = 0.0;
            if x > law.min_threshold {
                let b_i = [self.p_c, 1.0 - self.p_c][i] * 10e6;
                let p_q_dp = (law.buffer_slope * x as f64 + law.buffer_offset).min(1.0);
                p_dp = p_q_dp * (1.0 - b_i / self.r[i]).max(0.0);
            }
            if i == REDIRECT && draw < p_dp {
                return;
            }
            if i == CONTROL {
                if p_dp == 0.0 && self.p_c > 0.5 {
                    self.p_c = (self.p_c * law.decay).max(0.5);
                }
                if p_dp > law.threshold {
                    self.p_c = (self.p_c * (1.0 + p_dp - law.threshold)).min(1.0);
                }
            }
            if x < self.p.limit as u64 {
                self.queues[i].push_back((id, bytes));
            }
        }

        fn dequeue(&mut self) -> Option<u64> {
            let heads =
                [CONTROL, REDIRECT].map(|i| self.queues[i].front().map(|(_, bytes)| *bytes));
            let channel = match heads {
                [_, None] => CONTROL,
                [None, _] => REDIRECT,
                [Some(c), Some(r)] => {
                    let control = self.p_c * r / (self.p_c * r + (1.0 - self.p_c) * c);
                    usize::from(self.draw() >= control)
                }
            };
            self.queues[channel].pop_front().map(|(id, _)| id)
        }
    }

    fn any_params() -> impl Strategy<Value = Params> {
        let law = (
            0.0_f64..0.2,
            0.0_f64..0.3,
            0.0_f64..0.1,
            0.9_f64..1.0,
            2_u64..8,
            9_u64..30,
        );
        (law, 0.5_f64..1.0, 5_usize..40).prop_map(|(law, share, limit)| Params {
            share,
            limit,
            law: Law {
                buffer_slope: law.0,
                buffer_offset: law.1,
                threshold: law.2,
                decay: law.3,
                min_threshold: law.4,
                max_threshold: law.5,
                ..params().law
            },
            ..params()
        })
    }

    proptest! {
        #[test]
        fn decides_as_the_text(
            params in any_params(),
            calls in prop::collection::vec((0_usize..5, 0_u64..1_000_000, 60_u32..1500), 0..600),
        ) {
            let (mut rig, mut dppbrb) = (two(), dppbrb(params.clone()));
            let mut text = Text {
                p_c: params.share, p: params, r: [0.0; 2], t: [0.0; 2], queues: Default::default(),
                draws: stream(),
            };
            for (call, gap, bytes) in calls {
                rig.now += Span::from_nanos(gap);
                if call < 4 {
                    let now = rig.now.as_nanos() as f64 * 1e-9;
                    text.enqueue(now, call % 2, rig.next_id(), bytes.into());
                    rig.offer(&mut dppbrb, call % 2, bytes);
                } else {
                    prop_assert_eq!(rig.take(&mut dppbrb).map(|p| p.id), text.dequeue());
                }
                for i in [CONTROL, REDIRECT] {
                    prop_assert_eq!(dppbrb.channels.len(i), text.queues[i].len());
                }
                prop_assert!((dppbrb.state.share - text.p_c).abs() < 1e-5);
            }
        }

        /// p_c stays in [1/2, 1], falls by `decay` without pressure, and grows under pressure: 1e6 steps in total.
        #[test]
        fn p_c_stays_in_its_range(
            start in 0.5_f64..=1.0, decay in 0.0_f64..1.0, threshold in 0.0_f64..1.0,
            drops in prop::collection::vec(prop_oneof![Just(0.0), 0.0_f64..=1.0], 4000),
        ) {
            let law = Law { decay, threshold, ..params().law };
            let mut share = start;
            for drop in drops {
                let next = law.adjust(share, drop);
                prop_assert!((0.5..=1.0).contains(&next));
                if drop == 0.0 {
                    prop_assert_eq!(next, (share * decay).max(0.5));
                } else if drop > threshold {
                    prop_assert!(next > share || next == 1.0);
                } else {
                    prop_assert_eq!(next, share);
                }
                share = next;
            }
        }
    }

    /// Tests with a fixed share.
    mod fixed {
        use super::*;
        use rand::Rng;

        fn priority(share: f64) -> Dppbrb {
            dppbrb(Params {
                adapt: false,
                share,
                ..params()
            })
        }

        /// Sends `n` packets while both queues always hold packets; returns how many were control messages.
        fn contested(rig: &mut Rig, priority: &mut Dppbrb, n: u32) -> u32 {
            let mut control = 0;
            for flow in [0, 1] {
                rig.offer(priority, flow, 1000);
                rig.offer(priority, flow, 1000);
            }
            for _ in 0..n {
                let flow = rig.take(priority).unwrap().slot.0;
                control += u32::from(flow == CONTROL as u32);
                rig.offer(priority, flow as usize, 1000);
            }
            control
        }

        #[test]
        fn both_backlogged_share_by_the_probability() {
            // 100 000 draws: the deviation of the share is at most sqrt(.25 / 100 000) = .0016.
            for share in [0.5, 0.65, 0.8, 0.95] {
                let control = contested(&mut two(), &mut priority(share), 100_000);
                let measured = f64::from(control) / 100_000.0;
                assert!((measured - share).abs() < 0.01, "{measured} of {share}");
            }
        }

        #[test]
        fn the_share_is_one_of_bytes_at_any_lengths() {
            // The redirect queue's lengths mixed. 100 000 messages, of which messages of 1514 B weigh most.
            for (control, redirect) in [(60, [1514, 1514]), (1514, [60, 60]), (300, [60, 1514])] {
                for share in [0.5, 0.8] {
                    let (mut rig, mut priority) = (two(), priority(share));
                    let mut bytes = [0, 0];
                    for n in 0..100_000 {
                        if priority.channels.len(CONTROL) == 0 {
                            rig.offer(&mut priority, CONTROL, control);
                        }
                        if priority.channels.len(REDIRECT) == 0 {
                            rig.offer(&mut priority, REDIRECT, redirect[n % 2]);
                        }
                        let packet = rig.take(&mut priority).unwrap();
                        bytes[packet.slot.0 as usize] += packet.bytes();
                    }
                    let measured =
                        bytes[CONTROL] as f64 / (bytes[CONTROL] + bytes[REDIRECT]) as f64;
                    assert!((measured - share).abs() < 0.015, "{measured} of {share}");
                }
            }
        }

        #[test]
        fn at_the_ends_one_queue_is_shut_out() {
            for (share, control) in [(0.0, 0), (1.0, 10_000)] {
                let mut priority = priority(share);
                assert_eq!(contested(&mut two(), &mut priority, 10_000), control);
            }
        }

        #[test]
        fn an_empty_queue_gives_its_turn_away() {
            for (share, flow) in [(0.0, 0), (1.0, 1), (0.5, 0), (0.5, 1)] {
                let (mut rig, mut priority) = (two(), priority(share));
                for _ in 0..20 {
                    rig.offer(&mut priority, flow, 1000);
                }
                let sent = std::iter::from_fn(|| rig.take(&mut priority));
                assert_eq!(sent.count(), 20, "share {share}, only flow {flow} waits");
            }
        }

        #[test]
        fn each_queue_has_its_own_limit() {
            let (mut rig, mut priority) = (two(), priority(0.5));
            for n in 0..350 {
                rig.offer(&mut priority, usize::from(n % 3 == 0), 1000);
            }
            // 117 redirect messages and 233 control messages, for 100 places each.
            let full = |name| gauge(&priority, name);
            assert_eq!((full("over_control"), full("over_redirect")), (133, 17));
        }

        proptest! {
            /// The text's "Packet dequeue", word for word, where all messages are equally long.
            #[test]
            fn serves_as_the_text(share in 0.0_f64..1.0, calls in prop::collection::vec(0_usize..4, 0..400)) {
                let (mut rig, mut priority) = (two(), priority(share));
                let mut draws = Streams::new(1).stream("probabilistic_priority");
                let (mut control, mut redirect) = (VecDeque::new(), VecDeque::new());
                for call in calls {
                    if call < 2 {
                        let queue = if call == 0 { &mut control } else { &mut redirect };
                        if queue.len() < 100 {
                            queue.push_back(rig.next_id());
                        }
                        rig.offer(&mut priority, call, 1000);
                        continue;
                    }
                    let mut drawn = || (draws.next_u64() >> 11) as f64 / ((1_u64 << 53) as f64) < share;
                    let serves_control = !control.is_empty() && (redirect.is_empty() || drawn());
                    let expected = if serves_control { control.pop_front() } else { redirect.pop_front() };
                    prop_assert_eq!(rig.take(&mut priority).map(|p| p.id), expected);
                }
            }
        }
    }
}

//! The manual page and the parameters.

use weir_base::early::{spread, spread_waiting};
use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind, Parameter};
use weir_base::{Instant, Rate, Span};

use crate::contract::Manual;
use crate::fifo::LIMIT;
use crate::params::{Parameters, params, words};
use crate::parts::link_rate::RATE;

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "refill",
    id: 0x00F7_020F,
    purpose: "holds packets back for a link that is congested elsewhere, under the command of a controller",
    source: "Chang et al., Software Defined Backpressure (SD-BM), section III-B, Figures 3 and 4",
    text: "\
One queue at an ingress of the network. A controller that sees the congested link, for example the
backpressure controller, repeatedly sets `probability` (the paper's rho_b) while the router runs. The
probability of a drop or a hold is rho_a = rho_b / (1 - n rho_b), where n is the number of packets that
have passed since the last drop. With `wait`, as in `red`, it is 0 while n rho_b < 1, and then rho_a =
rho_b / (2 - n rho_b).

                     rho_a                       rho_a: the packet stays at the head,
    arrivals --> (dropped?) --> [ | | | | ] --> (held?) --> link     for one packet time
               from threshold on             ^_____|

When the link is free, the head packet is held with probability rho_a: it stays for the time that it would
take on the link, and is then tried again. An arrival that finds `threshold` or more packets waiting is
dropped with rho_a; an arrival that finds `limit` packets is dropped. Each drop restarts n, a hold does
not. So when 1/rho_b packets (2/rho_b packets with `wait`) have passed without a drop, rho_a is 1, and the
queue holds everything until it has reached the threshold and a packet is dropped, or, with `count_resets =
\"set\"`, until the probability is set again. Thus packets wait here and not at the congested link. With
\"set\" and a controller period T, no ingress passes more than 1/rho_b packets in T without a drop, and an
ingress that has less to send is not held.

Choosing parameters. `wait` is for comparison with a `red` that has it: both then spread their drops alike.
A hundred packets at the congested link and four ingresses with a `threshold` of 50 hold as many packets as
300 at the link. With `count_resets = \"drop\"` the flows of an ingress must have more than `threshold`
packets in flight, or all of these wait there for packets that nobody sends; a `silence` of some packet
times ends such a wait and keeps the rest of that law. `lifetime` must be several times the period of the
controller: a probability that has not been set again for that long counts as 0, and the queue is a plain
FIFO. So a controller that dies or becomes unreachable stops no traffic. Any change of the queue's
parameters counts as setting the probability again, even if it has expired: a controller that repeats the
previous value must have an effect. A probability that is set in a file needs a long lifetime.

Defaults. Of the paper's thresholds, 50 loses least. `lifetime` is 25 times the paper's 40 ms. `limit` is
that of `fifo`.

Deviations. A packet time is the time of its layer-2 bytes at the rate of the link, without the framing of
layer 1, and at most 1 s. The text holds the packet at the head of the egress queue; it must mean the
ingress queue, or nothing would be held back. It says only that n counts from the last drop: that is
`count_resets = \"drop\"`. With \"hold\" each hold restarts n as well, and hardly anything is held, because
rho_a stays near rho_b. \"set\" is ours, and the default, because the queue cannot stall with it. n counts
departures: if it counted arrivals, the queue would run empty between two drops. A certain hold (rho_a = 1)
draws no random number, and costs no work until rho_a changes. An arrival that finds the limit also
restarts n. `lifetime` and `silence` are ours. With `hold` off nothing is held, and a `threshold` of 0
drops by rho_a at any queue length: RED's drops, moved to the ingress.

An attacker who congests the remote link makes every ingress hold. With `count_resets = \"drop\"` a quiet
ingress, where few packets arrive, may hold each packet until `threshold` others have arrived behind it, or
the probability falls. A peer that can set the probability can stop the port for `lifetime` at a time.
Flows are not distinguished.",
    parameters: Params::TABLE,
    gauges: &[
        Gauge::level(101, "probability", Unit::PerMillion,
            "probability rho_b that applied at the latest packet or change"),
        Gauge::counter(102, "holds", Unit::One, "number of times that the head packet was held for a packet time"),
        Gauge::counter(103, "early", Unit::Packets, "packets dropped at random, above the threshold"),
        Gauge::counter(104, "full", Unit::Packets, "packets dropped because the queue was full"),
        Gauge::level(105, "mean", Unit::MilliPackets,
            "waiting packets: mean over the time with a probability above 0"),
    ],
};

words! {
    /// The events that restart the count of passed packets.
    pub enum CountResets {
        /// A drop.
        Drop = "drop",
        /// A drop, and a hold.
        Hold = "hold",
        /// A drop, and a probability that is set.
        Set = "set",
    }
}

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Params {
        /// Number of waiting packets from which arrivals are dropped by chance.
        pub threshold: usize = Parameter::new("threshold", Kind::Count(0, 1_000_000), "50 packets",
            "waiting packets from which arrivals are dropped at random; at most limit").id(1),
        /// The paper's rho_b.
        pub probability: f64 = Parameter::new("probability", Kind::Ratio(0.0, 1.0), "0",
            "probability of a drop and of a hold, before it is spread evenly; set by a controller").id(2),
        /// Whether packets are held at all.
        pub hold: bool = Parameter::new("hold", Kind::Flag, "true",
            "hold packets; if false, only drop them").id(3),
        /// The events that restart the count.
        pub count_resets: CountResets = Parameter::new("count_resets", Kind::Word(CountResets::WORDS), "set",
            "event that restarts the count of passed packets: only a drop, or also a hold or a new probability").id(4),
        /// Whether nothing is dropped or held for a time after a drop.
        pub wait: bool = Parameter::new("wait", Kind::Flag, "false",
            "nothing is dropped or held for 1/rho_b packets after a drop").id(5),
        /// Time after which the probability counts as 0.
        pub lifetime: Span = Parameter::new("lifetime",
            Kind::Span(Span::from_millis(1), Span::from_secs(31_536_000)), "1 s",
            "time after which a probability that is not set again counts as 0").id(6),
        /// Rate of the link; zero to use the port's.
        pub rate: Rate = RATE.id(7),
        /// Maximum packets held.
        pub limit: usize = LIMIT.id(8),
        /// Time without an arrival after which no packet is held; zero for never.
        pub silence: Span = Parameter::new("silence", Kind::Span(Span::ZERO, Span::from_secs(1000)), "0 s",
            "time without an arrival after which no packet is held; 0 s: packets are held regardless").id(9),
    }
}

impl Params {
    /// The time from which no packet is held, unless another packet arrives after `arrived`.
    pub(super) fn silent(&self, arrived: Instant) -> Instant {
        match self.silence {
            Span::ZERO => Instant::FAR_FUTURE,
            silence => arrived + silence,
        }
    }

    /// rho_a, from rho_b (`base`) and the number of packets that have passed.
    pub(super) fn spread(&self, base: f64, count: u64) -> f64 {
        if self.wait {
            spread_waiting(base, count)
        } else {
            spread(base, count)
        }
    }
}

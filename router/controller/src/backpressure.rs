//! Backpressure: one probability for the queues at the ingresses, from the backlogs of the whole network.
//!
//! ```text
//!   backlogs of the ingresses ─┐
//!                              ├─▶ virtual queue ─▶ average ─▶ law ─▶ rho_b ─▶ shared out ─▶ ingresses
//!   backlog of the egress ─────┘
//! ```
//!
//! Source: Chang et al., "Software Defined Backpressure Mechanism for Edge Router", section III-B.
//! `State::virtual_queue` computes the paper's virtual queue, `State::sample` its average and rho_b. At an ingress, the
//! discipline `refill` applies rho_b.

use weir_base::early::Curve;
use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{Kind as Form, Parameter, Setting, SettingError, Settings};
use weir_base::{Instant, Tally};

use crate::contract::{Controller, Kind, Manual, Order, QueueName, QueueSample, Role, Sample};
use crate::members::Members;

/// This kind of controller, for the closed list.
pub const KIND: Kind = Kind {
    manual: MANUAL,
    build: |settings| Ok(Box::new(Backpressure::new(Params::new(settings)?))),
};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "backpressure",
    id: 0x00F7_0301,
    purpose: "holds packets back at the ingresses while the egress is congested",
    source: "Chang et al., Software Defined Backpressure (SD-BM), section III-B; PI: Hollot et al., 2001",
    text: "\
Treats the queues at the ingresses of a network and the one queue at its egress, through which all their
packets leave, as one virtual queue. Every sample updates the average of its length, in packets: avg becomes
(1 - weight) avg + weight times the length. RED's law turns it into a probability, the paper's rho_b: 0 below
`min_threshold`, growing to `max_probability` at `max_threshold`, and with `gentle` on to 1 at twice
`max_threshold`. Every sample sets it at every ingress, whose discipline (refill) drops and holds packets
with this probability.

    backlogs of the ingresses --+
                                +--> virtual queue --> average --> law --> rho_b --> shared out --> ingresses
    backlog of the egress ------+

With `law = \"pi\"` the probability follows the error of the virtual queue against `target` instead: it changes
by `proportional` for each packet of queue growth, and by `integral` per second for each packet above the
target. In the long run the queue length then equals the target, whatever the load.

With `share = \"alike\"`, as in the paper, every ingress gets the same probability. With \"contribution\" each
gets one in proportion to the packets that it was offered recently, up to 1, such that the same total number
of packets is dropped: an ingress with little traffic is hardly held back. The paper's section IV-D leaves this
open.

Choosing parameters. The paper's method uses all backlogs, with thresholds of a quarter and three quarters
of the total queue capacity: the thresholds of the ingresses plus the limit of the egress. It works as long
as the flows of each ingress have more packets in flight than the threshold there. Our own method works with
any traffic, and is driven by the egress alone (docs/egress-driven.md): `queue = \"egress\"`, thresholds of a
quarter and three quarters of its limit, a `weight` of 0.1, and `count_resets = \"set\"` at the ingresses. A
`weight` of w follows within 1/w samples: at 40 ms, 0.002 takes 20 s, and 0.1 takes 0.4 s.

Defaults. The thresholds are for four ingresses with a threshold of 50 and an egress of 100 packets, as in
the paper; `max_probability` and `gentle` are those of `red`. `target` and both factors of `law = \"pi\"`
are ours: the paper names that law, but gives no figures.

Deviations. The paper's equation adds arrivals and subtracts departures, and so never forgets a packet that
was dropped, or that did not leave through the egress: its queue grows without bound. We add up the backlogs
that the devices report, which by their counters is the same sum without those packets; `queue = \"integral\"`
is the equation as printed. Both count the packets that the ingresses hold because of the probability, which
thus feeds itself: once the ingresses alone hold more than `target`, or much more than `min_threshold`, it may
never fall again. `queue = \"egress\"` counts only the egress. An ingress counts for at most `max_threshold`
packets. A queue that does not answer counts with its latest sample for 25 samples, and then as empty and
without arrivals.

An attacker who fills the egress makes all ingresses hold packets; the thresholds there bound the backlog.
Devices are trusted. With all backlogs, one ingress that reports a false backlog drives the probability to
`max_probability`, plus the effect of the backlogs of the others, or to 1 with `gentle` off; two such ingresses,
a false egress alone, or one such ingress with the integral queue or `law = \"pi\"` drive it to 1 in any case,
and then the ingresses pass no packets. With \"contribution\", an ingress that reports few arrivals shifts its
share to the others. An attacker who can block samples or orders ends the backpressure: the ingresses forget a
probability that is not repeated (see refill, lifetime).",
    roles: &[
        Role {
            name: INGRESS,
            queues: [1, 1000],
            sets: &["probability"],
            renews: &["probability"],
            reads: &[],
            about: "queues at the ingresses of the network, with the discipline refill",
        },
        Role {
            name: EGRESS,
            queues: [1, 1],
            sets: &[],
            renews: &[],
            reads: &[],
            about: "the queue through which packets leave the network",
        },
    ],
    parameters: &[
        Parameter::new("weight", Form::Ratio(0.000_001, 1.0), "0.1",
            "how far one sample moves the average towards the virtual queue").id(1),
        Parameter::new("min_threshold", PACKETS, "75 packets", "average above which the probability exceeds 0").id(2),
        Parameter::new("max_threshold", PACKETS, "225 packets", "average at which max_probability is reached").id(3),
        Parameter::new("max_probability", Form::Ratio(0.0, 1.0), "0.1", "probability at max_threshold").id(4),
        Parameter::new("gentle", Form::Flag, "true",
            "whether the probability above max_threshold grows to 1 at twice max_threshold, instead of being 1").id(5),
        Parameter::new("queue", Form::Word(&["backlogs", "egress", "integral"]), "backlogs",
            "the virtual queue: the backlogs of all queues, or of the egress only, or all arrivals minus all departures").id(6),
        Parameter::new("share", Form::Word(&["alike", "contribution"]), "alike",
            "whether all ingresses get the same probability, or each one in proportion to its arrivals").id(7),
        Parameter::new("law", Form::Word(&["red", "pi"]), "red",
            "law that determines the probability: RED's curve of the average, or a controller with a target").id(8),
        Parameter::new("target", PACKETS, "100 packets", "with law pi: target length of the virtual queue").id(9),
        Parameter::new("proportional", Form::Ratio(0.0, 1.0), "0.001",
            "with law pi: probability change for each packet of growth of the virtual queue").id(10),
        Parameter::new("integral", Form::Ratio(0.0, 1.0), "0.002",
            "with law pi: probability change per second for each packet above the target").id(11),
    ],
    gauges: &[
        Gauge::level(101, "virtual_queue", Unit::Packets, "length of the virtual queue, in packets"),
        Gauge::level(102, "average", Unit::Packets, "average length of the virtual queue"),
        Gauge::level(103, "probability", Unit::Ratio, "probability rho_b"),
        Gauge::level(104, "silent", Unit::One, "queues that did not answer"),
    ],
};

const INGRESS: &str = "ingress";
const EGRESS: &str = "egress";

const PACKETS: Form = Form::Count(1, 1_000_000);

/// Parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Weight of one sample in the average.
    pub weight: f64,
    /// Probability law of RED.
    pub curve: Curve,
    /// How the virtual queue is computed.
    pub queue: VirtualQueue,
    /// Whether the probability is distributed by contribution.
    pub by_contribution: bool,
    /// The alternative law with a target, if enabled; `None` uses `curve`.
    pub pi: Option<Pi>,
}

/// How the virtual queue is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualQueue {
    /// The backlog of all queues.
    Backlogs,
    /// The backlog of the egress.
    Egress,
    /// All arrivals at the ingresses minus all departures at the egress.
    Integral,
}

/// Parameters of the law with a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pi {
    /// Target length of the queue, in packets.
    pub target: f64,
    /// Change of the probability per packet of queue growth.
    pub proportional: f64,
    /// Change of the probability per packet above the target and per second.
    pub integral: f64,
}

impl Params {
    /// Makes parameters from checked settings.
    pub fn new(settings: &Settings) -> Result<Self, SettingError> {
        let curve = Curve {
            min: settings.count("min_threshold") as f64,
            max: settings.count("max_threshold") as f64,
            max_probability: settings.ratio("max_probability"),
            gentle: settings.flag("gentle"),
        };
        if curve.min >= curve.max {
            let (min, max) = (curve.min, curve.max);
            return Err(SettingError::Contradiction {
                name: "min_threshold",
                why: format!("{min} packets is not below max_threshold, which is {max}"),
            });
        }
        let pi = Pi {
            target: settings.count("target") as f64,
            proportional: settings.ratio("proportional"),
            integral: settings.ratio("integral"),
        };
        Ok(Self {
            weight: settings.ratio("weight"),
            curve,
            queue: match settings.word("queue") {
                "egress" => VirtualQueue::Egress,
                "integral" => VirtualQueue::Integral,
                _ => VirtualQueue::Backlogs,
            },
            by_contribution: settings.word("share") == "contribution",
            pi: (settings.word("law") == "pi").then_some(pi),
        })
    }
}

/// Number of samples for which the latest sample of a queue that does not answer remains valid.
const SILENT_MAX: u32 = 25;

/// Weight of one sample in the contribution of an ingress: with a period of 40 ms it converges within a second.
const CONTRIBUTION_WEIGHT: f64 = 0.04;

/// State of one queue.
#[derive(Clone, Copy, Debug, Default)]
struct QueueState {
    latest: Option<Sample>,
    /// Samples since the last answer.
    silent: u32,
    /// Packets offered to the queue, and sent by it, since the previous sample.
    received: u64,
    sent: u64,
    /// Average number of packets offered to the queue per sample.
    contributes: f64,
}

impl QueueState {
    fn take(&mut self, sample: Option<Sample>) {
        let Some(sample) = sample else {
            self.silent = self.silent.saturating_add(1);
            (self.received, self.sent) = (0, 0);
            if self.silent >= SILENT_MAX {
                self.contributes = 0.0;
            }
            return;
        };
        // The first sample starts the sums. A queue that has restarted reports smaller sums.
        let before = self.latest.unwrap_or(sample);
        let passed = |now: Tally, before: Tally| now.packets.saturating_sub(before.packets);
        self.received = passed(sample.received, before.received);
        self.sent = passed(sample.sent, before.sent);
        // After missing answers, the arrivals cover several samples.
        let in_one = self.received as f64 / (f64::from(self.silent) + 1.0);
        self.contributes += CONTRIBUTION_WEIGHT * (in_one - self.contributes);
        self.latest = Some(sample);
        self.silent = 0;
    }

    /// Packets in the queue, according to its latest sample.
    fn backlog(&self) -> f64 {
        let latest = self.latest.filter(|_| self.silent < SILENT_MAX);
        latest.map_or(0.0, |sample| sample.backlog.packets as f64)
    }
}

/// State of the controller.
#[derive(Clone, Debug, Default)]
struct State {
    ingresses: Members<QueueState>,
    egress: Members<QueueState>,
    /// Length of the virtual queue in packets.
    length: f64,
    average: f64,
    probability: f64,
    /// Time of the previous sample.
    sampled: Option<Instant>,
}

impl State {
    /// The current length of the virtual queue. A missing egress counts as an empty queue.
    fn virtual_queue(&self, params: &Params) -> f64 {
        let ingresses = self.ingresses.values();
        let egress = self.egress.values().next().copied().unwrap_or_default();
        match params.queue {
            VirtualQueue::Backlogs => {
                let of_one = |queue: &QueueState| queue.backlog().min(params.curve.max);
                ingresses.map(of_one).sum::<f64>() + egress.backlog()
            }
            VirtualQueue::Egress => egress.backlog(),
            VirtualQueue::Integral => {
                let received: u64 = ingresses.map(|queue| queue.received).sum();
                self.length + received as f64 - egress.sent as f64
            }
        }
    }

    /// Updates the average and the probability.
    fn sample(&mut self, params: &Params, now: Instant) {
        let length = self.virtual_queue(params);
        self.average = (1.0 - params.weight) * self.average + params.weight * length;
        self.probability = match params.pi {
            None => params.curve.probability(self.average),
            Some(pi) => {
                let passed = self.sampled.map_or(0.0, |at| now.since(at).as_secs_f64());
                let grown = pi.proportional * (length - self.length);
                let error = pi.integral * (length - pi.target) * passed;
                (self.probability + grown + error).clamp(0.0, 1.0)
            }
        };
        self.length = length;
        self.sampled = Some(now);
    }

    /// The probability of each ingress.
    fn shares(&self, params: &Params) -> impl Iterator<Item = (&QueueName, f64)> {
        let each_packet = params.by_contribution.then(|| self.each_packet());
        let each_packet = each_packet.flatten();
        let share = move |state: &QueueState| match each_packet {
            Some(each) => (each * state.contributes).min(1.0),
            None => self.probability,
        };
        self.ingresses
            .iter()
            .map(move |(queue, state)| (queue, share(state)))
    }

    /// Probability per packet that an ingress contributes, limited to a total of 1 per ingress, such that the sum of
    /// probability times arrivals does not change. `None` if no packets arrive.
    fn each_packet(&self) -> Option<f64> {
        let mut arrivals: Vec<f64> = self.ingresses.values().map(|q| q.contributes).collect();
        arrivals.sort_by(|a, b| b.total_cmp(a));
        let mut dropped = self.probability * arrivals.iter().sum::<f64>();
        let mut squares: f64 = arrivals.iter().map(|x| x * x).sum();
        for greatest in arrivals {
            if squares <= 0.0 {
                return None;
            }
            let each = dropped / squares;
            if each * greatest <= 1.0 {
                return Some(each);
            }
            // This ingress drops all its packets, and the others share the rest.
            dropped -= greatest;
            squares -= greatest * greatest;
        }
        None
    }
}

/// The controller.
#[derive(Debug)]
pub struct Backpressure {
    params: Params,
    state: State,
}

impl Backpressure {
    /// A controller in its initial state, without queues.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            state: State::default(),
        }
    }
}

impl Controller for Backpressure {
    fn join(&mut self, queue: &QueueName, role: &str) {
        match role {
            INGRESS => self.state.ingresses.join(queue),
            _ => self.state.egress.join(queue),
        }
    }

    fn leave(&mut self, queue: &QueueName) {
        self.state.ingresses.leave(queue);
        self.state.egress.leave(queue);
    }

    fn sample(&mut self, now: Instant, samples: &[QueueSample], orders: &mut Vec<Order>) {
        let state = &mut self.state;
        for QueueSample { queue, sample } in samples {
            let ingress = state.ingresses.get_mut(queue);
            if let Some(queue) = ingress.or_else(|| state.egress.get_mut(queue)) {
                queue.take(*sample);
            }
        }
        state.sample(&self.params, now);
        let shares = state.shares(&self.params);
        orders.extend(shares.map(|(queue, share)| Order {
            queue: queue.clone(),
            parameter: "probability",
            value: Setting::Ratio(share),
        }));
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, f64)) {
        let state = &self.state;
        report("virtual_queue", state.length);
        report("average", state.average);
        report("probability", state.probability);
        let queues = state.ingresses.values().chain(state.egress.values());
        let silent = queues.filter(|queue| queue.silent > 0).count();
        report("silent", silent as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_base::Span;
    use weir_base::setting::Scalar;

    const PERIOD: Span = Span::from_millis(40);

    fn params(given: &[(&str, &str)]) -> Params {
        let given: Vec<_> = given
            .iter()
            .map(|(name, value)| (*name, Scalar::Text((*value).to_owned())))
            .collect();
        let settings = Settings::check(MANUAL.parameters, given.iter().map(|(n, v)| (*n, v)));
        Params::new(&settings.unwrap()).unwrap()
    }

    fn packets(packets: u64) -> Tally {
        Tally {
            packets,
            bytes: 1000 * packets,
        }
    }

    /// A sample of a queue that holds the remaining packets.
    fn sample(received: u64, sent: u64, dropped: u64) -> Option<Sample> {
        let backlog = packets(received - sent - dropped);
        Some(Sample::new(packets(received), packets(sent), backlog))
    }

    /// A controller of some ingresses and an egress, and its samples one period apart.
    struct Rig {
        controller: Backpressure,
        /// The ingresses, followed by the egress.
        queues: Vec<QueueName>,
        now: Instant,
    }

    impl Rig {
        fn new(n: usize, given: &[(&str, &str)]) -> Self {
            let mut controller = Backpressure::new(params(given));
            let queue = |place: usize| QueueName {
                element: format!("router {place}").into(),
                port: "wan".into(),
            };
            let queues: Vec<QueueName> = (0..=n).map(queue).collect();
            for (place, queue) in queues.iter().enumerate() {
                controller.join(queue, if place < n { INGRESS } else { EGRESS });
            }
            Self {
                controller,
                queues,
                now: Instant::ZERO,
            }
        }

        /// The probability ordered for each ingress, after these samples of all queues.
        fn order(&mut self, samples: &[Option<Sample>]) -> Vec<f64> {
            let queues = self.queues.iter().cloned().zip(samples);
            let samples: Vec<_> = queues
                .map(|(queue, sample)| QueueSample {
                    queue,
                    sample: *sample,
                })
                .collect();
            let mut orders = Vec::new();
            self.controller.sample(self.now, &samples, &mut orders);
            self.now += PERIOD;
            let ordered = orders.iter().zip(&self.queues).map(|(order, queue)| {
                assert_eq!((&order.queue, order.parameter), (queue, "probability"));
                match order.value {
                    Setting::Ratio(share) => share,
                    ref other => panic!("{other:?}"),
                }
            });
            ordered.collect()
        }

        fn gauge(&self, name: &str) -> f64 {
            let mut value = None;
            self.controller.inspect(&mut |n, v| {
                if n == name {
                    value = Some(v);
                }
            });
            value.unwrap()
        }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} is not {b}");
    }

    #[test]
    fn the_average_and_rho_b_by_hand() {
        let mut rig = Rig::new(2, &[("weight", "0.5")]);
        // 40 + 60 + 100 packets wait: 0.5 * 200 = 100; 0.1 * (100 - 75) / (225 - 75).
        let all = [sample(40, 0, 0), sample(60, 0, 0), sample(100, 0, 0)];
        let ordered = rig.order(&all);
        assert_eq!(rig.gauge("virtual_queue"), 200.0);
        assert_eq!(rig.gauge("average"), 100.0);
        close(ordered[0], 0.1 * 25.0 / 150.0);
        assert_eq!(ordered[1], ordered[0]);
        // 0.5 * 100 + 0.5 * 200 = 150: half-way between the thresholds.
        close(rig.order(&all)[0], 0.05);
        // All empty: 75, 37.5.
        let none = [sample(0, 0, 0); 3];
        close(rig.order(&none)[0], 0.0);
        assert_eq!(rig.gauge("average"), 75.0);
        assert_eq!(rig.order(&none), [0.0, 0.0]);
    }

    #[test]
    fn what_was_dropped_or_went_elsewhere_is_forgotten_but_by_the_integral() {
        let mut ours = Rig::new(1, &[("weight", "1")]);
        let mut literal = Rig::new(1, &[("weight", "1"), ("queue", "integral")]);
        let start = [sample(0, 0, 0), sample(0, 0, 0)];
        // 100 packets arrived: 10 were dropped there, 5 wait, 85 left. 20 of these 85 went elsewhere; 60 of the others
        // passed the egress, and 5 wait there.
        let later = [sample(100, 85, 10), sample(65, 60, 0)];
        for rig in [&mut ours, &mut literal] {
            rig.order(&start);
            rig.order(&later);
        }
        assert_eq!(ours.gauge("virtual_queue"), 10.0);
        assert_eq!(literal.gauge("virtual_queue"), 40.0); // 100 - 60
    }

    #[test]
    fn the_egress_alone_if_that_is_wanted() {
        let mut rig = Rig::new(1, &[("queue", "egress")]);
        rig.order(&[sample(50, 0, 0), sample(30, 0, 0)]);
        assert_eq!(rig.gauge("virtual_queue"), 30.0);
    }

    #[test]
    fn the_target_by_hand() {
        let mut rig = Rig::new(
            1,
            &[
                ("law", "pi"),
                ("target", "100 packets"),
                ("proportional", "0.001"),
                ("integral", "0.002"),
            ],
        );
        let of = |n| [sample(0, 0, 0), sample(n, 0, 0)];
        // First sample: 50 packets more, but no time has passed yet.
        close(rig.order(&of(50))[0], 0.05);
        // Increase to 150: 0.001 * 100 more, and 0.002 * 50 * 0.04 s.
        close(rig.order(&of(150))[0], 0.05 + 0.1 + 0.000_004 * 1000.0);
        // No change: 0.002 * 50 * 0.04.
        close(rig.order(&of(150))[0], 0.158);
        // Decrease to 0: 0.15 less, and 0.002 * 100 * 0.04 less.
        close(rig.order(&of(0))[0], 0.0);
    }

    #[test]
    fn who_brings_more_bears_more_and_the_sum_stays() {
        let mut rig = Rig::new(4, &[("weight", "1"), ("share", "contribution")]);
        let at = |n: u64| {
            [
                sample(4 * n, 4 * n, 0),
                sample(n, n, 0),
                sample(n, n, 0),
                sample(n, n, 0),
                sample(7 * n + 150, 7 * n, 0),
            ]
        };
        rig.order(&at(0));
        let ordered = rig.order(&at(10));
        // rho_b = 0.05. 4 + 1 + 1 + 1 = 7, 16 + 1 + 1 + 1 = 19: 0.05 * 4 * 7 / 19, 0.05 * 7 / 19.
        close(ordered[0], 0.05 * 28.0 / 19.0);
        assert!(ordered[1..].iter().all(|share| *share == ordered[1]));
        close(ordered[1], 0.05 * 7.0 / 19.0);
        close(4.0 * ordered[0] + 3.0 * ordered[1], 7.0 * 0.05);
    }

    #[test]
    fn what_one_cannot_drop_the_others_do() {
        let mut rig = Rig::new(3, &[("weight", "1"), ("share", "contribution")]);
        let at = |n: u64| {
            let [a, b, c] = [4 * n, n, n];
            [
                sample(a, a, 0),
                sample(b, b, 0),
                sample(c, c, 0),
                sample(6 * n + 405, 6 * n, 0),
            ]
        };
        rig.order(&at(0));
        // rho_b = 0.1 + 0.9 * 180 / 225 = 0.82 of 6: 4.92. The first ingress cannot drop its share, 4.92 * 16 / 18 > 4.
        let ordered = rig.order(&at(10));
        close(ordered[0], 1.0);
        close(ordered[1], 0.46);
        close(ordered[2], 0.46);
    }

    #[test]
    fn who_is_gone_bears_nothing() {
        let mut rig = Rig::new(2, &[("weight", "1"), ("share", "contribution")]);
        let at = |n: u64, first: bool| {
            let one = sample(n, n, 0);
            [one.filter(|_| first), one, sample(2 * n + 150, 2 * n, 0)]
        };
        rig.order(&at(0, true));
        let both = rig.order(&at(10, true));
        close(both[0], 0.05);
        close(both[1], 0.05);
        let mut ordered = both;
        for n in 0..u64::from(SILENT_MAX) {
            ordered = rig.order(&at(20 + 10 * n, false));
        }
        close(ordered[0], 0.0);
        close(ordered[1], 0.05);
    }

    #[test]
    fn a_silence_makes_no_peak() {
        let mut known = QueueState::default();
        let mut other = QueueState::default();
        for n in 0..100 {
            known.take(sample(10 * n, 0, 0));
            other.take(sample(10 * n, 0, 0).filter(|_| n < 90 || n == 99));
        }
        assert!(other.contributes <= 10.0 && other.contributes > 0.95 * known.contributes);
    }

    #[test]
    fn a_silent_queue_is_believed_for_a_second() {
        let mut rig = Rig::new(1, &[("weight", "1")]);
        rig.order(&[sample(50, 0, 0), sample(100, 0, 0)]);
        for _ in 1..SILENT_MAX {
            rig.order(&[sample(50, 0, 0), None]);
            assert_eq!(rig.gauge("virtual_queue"), 150.0);
            assert_eq!(rig.gauge("silent"), 1.0);
        }
        assert_eq!(rig.order(&[sample(50, 0, 0), None]), [0.0]);
        assert_eq!(rig.gauge("virtual_queue"), 50.0);
    }

    #[test]
    fn a_false_backlog_has_a_bound() {
        let mut rig = Rig::new(2, &[("weight", "1")]);
        let ordered = rig.order(&[sample(1_000_000, 0, 0), sample(0, 0, 0), sample(0, 0, 0)]);
        close(ordered[1], 0.1);
    }

    #[test]
    fn thresholds_must_be_in_order() {
        let given = [("min_threshold", Scalar::Integer(225))];
        let settings = Settings::check(MANUAL.parameters, given.iter().map(|(n, v)| (*n, v)));
        assert_eq!(
            Params::new(&settings.unwrap()).unwrap_err().to_string(),
            "`min_threshold`: 225 packets is not below max_threshold, which is 225"
        );
    }

    proptest! {
        /// The equations of the paper, computed from the start each time.
        #[test]
        fn follows_the_equations(
            backlogs in prop::collection::vec((0_u64..80, 0_u64..80, 0_u64..120), 1..60),
            weight in 0.001_f64..1.0,
        ) {
            let mut rig = Rig::new(2, &[("weight", &weight.to_string())]);
            for end in 1..=backlogs.len() {
                let (a, b, c) = backlogs[end - 1];
                let ordered = rig.order(&[sample(a, 0, 0), sample(b, 0, 0), sample(c, 0, 0)]);
                let mut avg = 0.0;
                for (a, b, c) in &backlogs[..end] {
                    avg = (1.0 - weight) * avg + weight * (a + b + c) as f64;
                }
                let rho_b = match avg {
                    avg if avg < 75.0 => 0.0,
                    avg if avg < 225.0 => 0.1 * (avg - 75.0) / 150.0,
                    avg => 0.1 + 0.9 * (avg - 225.0) / 225.0,
                };
                prop_assert!((ordered[0] - rho_b).abs() < 1e-9 && ordered[1] == ordered[0]);
                prop_assert!((0.0..=1.0).contains(&ordered[0]));
            }
        }
    }
}

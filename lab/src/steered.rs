//! Controllers in a run: the channel to their queues, and what they said of themselves, as metrics and
//! curves. The same in both habitats.
//!
//! ```text
//!   every period:  a sample of each queue ──loss, delay──▶ controller
//!                  the queues' parameters ◀──loss, delay───┘
//! ```
//!
//! A habitat looks at queues and carries orders out; it asks the channel when.

use std::collections::{BTreeMap, VecDeque};

use rand::RngExt;
use weir_base::{Instant, Span, Stream, Streams};
use weir_controller::{Controller, Order, Sample};

use crate::results::Curve;
use crate::scenario::{Controller as Described, Scenario};
use crate::statistics::mean;

/// A controller with the channel between it and its queues. Times are those of the run.
pub(crate) struct Channel {
    controller: Box<dyn Controller>,
    period: Span,
    /// Of a sample, and of an order.
    delay: Span,
    loss: f64,
    chance: Stream,
    next_sample: Instant,
    /// Orders on their way, each with its arrival.
    orders: VecDeque<(Instant, Vec<Order>)>,
}

impl Channel {
    /// The controller as it is described, asked every `period`.
    pub(crate) fn new(described: &Described, period: Span, streams: &Streams) -> Self {
        Self {
            controller: described.spec.build(),
            period,
            delay: described.delay,
            loss: described.loss,
            chance: streams.below("controller").stream(&described.name),
            next_sample: Instant::ZERO,
            orders: VecDeque::new(),
        }
    }

    /// When it is to be asked again.
    pub(crate) fn due(&self) -> Instant {
        let arrival = self.orders.front().map(|(due, _)| *due);
        arrival.map_or(self.next_sample, |due| due.min(self.next_sample))
    }

    /// Whether the queues are to be sampled.
    pub(crate) fn wants_samples(&self, now: Instant) -> bool {
        self.next_sample <= now
    }

    /// Takes the samples of `queues` queues; `look` gives none of one that does not answer. What the
    /// controller makes of them arrives a round trip later. It depends on nothing that happens
    /// meanwhile, so it is asked at once, with the time at which the samples reach it.
    pub(crate) fn sample(
        &mut self,
        now: Instant,
        queues: usize,
        look: impl Fn(usize) -> Option<Sample>,
        gauges: &mut Gauges,
    ) {
        let one = |queue| (!self.is_lost()).then(|| look(queue)).flatten();
        let samples: Vec<Option<Sample>> = (0..queues).map(one).collect();
        let (mut orders, there) = (Vec::new(), now + self.delay);
        self.controller.sample(there, &samples, &mut orders);
        orders.retain(|_| !self.is_lost());
        self.orders.push_back((there + self.delay, orders));
        self.next_sample += self.period;
        if self.wants_samples(now) {
            self.next_sample = now + self.period; // what was missed is not made up for
        }
        gauges.note(self.controller.as_ref());
    }

    /// The next orders that have reached the queues.
    pub(crate) fn arrived(&mut self, now: Instant) -> Option<Vec<Order>> {
        let arrived = self.orders.pop_front_if(|(due, _)| *due <= now);
        arrived.map(|(_, orders)| orders)
    }

    fn is_lost(&mut self) -> bool {
        self.loss > 0.0 && self.chance.random_bool(self.loss)
    }
}

/// What a controller's gauges were after each sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauges {
    /// How far the samples are apart, which on the lab may be more than the scenario says.
    period: Span,
    values: BTreeMap<&'static str, Vec<f64>>,
}

impl Gauges {
    /// Of a controller that is asked so often.
    pub(crate) fn new(period: Span) -> Self {
        Self {
            period,
            values: BTreeMap::new(),
        }
    }

    /// Adds what the controller says after a sample.
    fn note(&mut self, controller: &dyn Controller) {
        controller.inspect(&mut |name, value| {
            self.values.entry(name).or_default().push(value);
        });
    }
}

/// Adds the gauges of each controller: their means after the warm-up, what they were at the end,
/// and their curves.
pub(crate) fn add(
    scenario: &Scenario,
    all: &[Gauges],
    metrics: &mut BTreeMap<String, f64>,
    curves: &mut BTreeMap<String, Curve>,
) {
    for (controller, gauges) in scenario.controllers.iter().zip(all) {
        for (gauge, values) in &gauges.values {
            let skipped = scenario
                .warm_up
                .as_nanos()
                .div_ceil(gauges.period.as_nanos());
            let name = format!("controller.{}.{gauge}", controller.name);
            if let Some(mean) = mean(values.get(skipped as usize..).unwrap_or_default()) {
                metrics.insert(format!("{name}.mean"), mean);
            }
            if let Some(last) = values.last() {
                metrics.insert(name.clone(), *last);
            }
            let curve = Curve {
                step_s: gauges.period.as_secs_f64(),
                values: values.clone(),
            };
            curves.insert(name, curve);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::setting::Setting;

    /// Asks of each queue that answered as many packets as it holds, and says when it was asked.
    struct Echo {
        asked: f64,
    }

    impl Controller for Echo {
        fn sample(&mut self, now: Instant, samples: &[Option<Sample>], orders: &mut Vec<Order>) {
            self.asked = now.since(Instant::ZERO).as_secs_f64();
            let answered = samples.iter().enumerate();
            orders.extend(answered.filter_map(|(queue, sample)| {
                Some(Order {
                    queue,
                    parameter: "limit",
                    value: Setting::Count((*sample)?.backlog.packets),
                })
            }));
        }

        fn inspect(&self, report: &mut dyn FnMut(&'static str, f64)) {
            report("asked_s", self.asked);
        }
    }

    fn channel(loss: f64) -> Channel {
        Channel {
            controller: Box::new(Echo { asked: 0.0 }),
            period: Span::from_millis(40),
            delay: Span::from_millis(100),
            loss,
            chance: Streams::new(1).stream("controller"),
            next_sample: Instant::ZERO,
            orders: VecDeque::new(),
        }
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    /// Queue 0 holds `packets`, queue 1 is silent.
    fn look(packets: u64) -> impl Fn(usize) -> Option<Sample> {
        move |queue| {
            (queue == 0).then(|| {
                let mut sample = Sample::default();
                sample.backlog.packets = packets;
                sample
            })
        }
    }

    #[test]
    fn orders_come_a_round_trip_after_their_samples_and_in_their_order() {
        let (mut channel, mut gauges) = (channel(0.0), Gauges::default());
        // Samples at 0, 40, .. 160 ms; orders at 200 ms, together with the sixth samples.
        for step in 0..5 {
            assert_eq!(channel.due(), at(40 * step));
            assert!(channel.wants_samples(at(40 * step)));
            channel.sample(at(40 * step), 2, look(step), &mut gauges);
            assert!(!channel.wants_samples(at(40 * step)));
        }
        assert_eq!(channel.due(), at(200));
        assert_eq!(channel.arrived(at(199)), None);
        channel.sample(at(200), 2, look(5), &mut gauges);
        // The controller is asked when the samples have reached it.
        assert_eq!(gauges.values["asked_s"], [0.1, 0.14, 0.18, 0.22, 0.26, 0.3]);
        for step in 0..2 {
            assert_eq!(channel.due(), at(200 + 40 * step));
            let orders = channel.arrived(at(240)).unwrap();
            assert_eq!((orders.len(), orders[0].queue), (1, 0));
            assert_eq!(orders[0].value, Setting::Count(step));
        }
        assert_eq!(channel.arrived(at(240)), None);
    }

    #[test]
    fn who_comes_late_asks_at_once_and_then_in_the_old_step() {
        let (mut channel, mut gauges) = (channel(0.0), Gauges::default());
        channel.sample(at(0), 1, look(0), &mut gauges);
        channel.sample(at(45), 1, look(0), &mut gauges);
        assert!(!channel.wants_samples(at(79)) && channel.wants_samples(at(80)));
        // 120 and 160 ms were missed: one sample at once, not three.
        channel.sample(at(170), 1, look(0), &mut gauges);
        assert!(!channel.wants_samples(at(209)) && channel.wants_samples(at(210)));
    }

    #[test]
    fn samples_and_orders_are_lost_each_by_itself() {
        // Of a thousand samples a quarter is lost, and a quarter of the orders to the rest: 562 are left.
        let (mut channel, mut gauges) = (channel(0.25), Gauges::default());
        channel.sample(at(0), 1000, |_| Some(Sample::default()), &mut gauges);
        let orders = channel.arrived(at(200)).unwrap();
        assert!((520..=605).contains(&orders.len()), "{}", orders.len());
        // All lost: orders arrive, and there is none.
        channel.loss = 1.0;
        channel.sample(at(40), 2, look(7), &mut gauges);
        assert_eq!(channel.arrived(at(240)), Some(Vec::new()));
    }
}

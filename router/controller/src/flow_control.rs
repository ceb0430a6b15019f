//! Flow control for many forwarding elements: limits the redirects of each, so that the link of the control element has
//! room for the control messages of all.
//!
//! ```text
//!   redirect rates of all FEs ──▶ equation 13 ──▶ B_e ─┐
//!   total, control, N ──────────▶ equation 12 ──▶ B_c ─┴──▶ token buckets at every FE
//! ```
//!
//! Source: Zhuge et al., "Research on Internal Flow Control Mechanism of ForCES Routers", equations 12 and 13.
//! [`committed`] and [`excess`] implement the equations, [`FlowControl`] applies them.

use weir_base::gauge::{Gauge, Unit};
use weir_base::setting::{self, Parameter, Setting, Settings};
use weir_base::{Instant, Rate, Span};

use crate::contract::{Controller, Kind, Manual, Order, QueueName, QueueSample, Role, Sample};
use crate::members::Members;

/// This kind of controller, for the closed list.
pub const KIND: Kind = Kind {
    manual: MANUAL,
    build: |settings| Ok(Box::new(FlowControl::new(settings))),
};

/// The manual page.
pub const MANUAL: Manual = Manual {
    name: "flow_control",
    id: 0x00F7_0302,
    purpose: "limits the redirect rates of forwarding elements, so that all of their control messages get through",
    source: "Zhuge et al., ITJ, equations 12 and 13",
    text: "\
The control element's link carries `total`. Each of the N forwarding elements (FEs) that answer needs
`control` of it for its control messages. The rest is divided evenly: equation 12,

    B_c / T_s = (total - N control) / N                    at least 0

is the rate that an FE may redirect at any time. While some redirect less, others may redirect more, up to
B_e: the rate at which

    sum of min(redirect_i, B_e) = (1 + delta) N B_c / T_s        equation 13, with equality

so that the link is never offered more than delta N B_c / T_s beyond its rate. Both are recomputed with each
sample. When they change, every FE receives them for the token buckets of its uplink (`committed` and `excess`
of `token_bucket` or `dppbrb`, `bc` and `be` of `redirect`), which `flow_control` switches on and off. An FE
that has not answered for `timeout` counts as disconnected until it answers again: the others get their new
rates with the next orders. The redirect rate of an FE is measured over `window`; until it is known, it counts
as unlimited. With `measure`, an FE whose control messages need more than `control` gets the rate that they
use, measured in the same way, and less is left to divide.

Choosing parameters. `control` should be the rate that control messages really need: redirect messages do not
give up more than that. A `delta` of 0 offers the link no more than its rate; then only bursts fill its queue.
`timeout` should be longer than a few sampling periods, so that a lost sample is not mistaken for a lost FE.

Defaults. `total`, `control` and `delta` are the paper's example. `window` and `timeout` are five and more
than ten samples of 40 ms.

Deviations and readings. The printed equation 13 clips at B_c, its example computes B_e = 21.92 Mbit/s from
it: we clip at B_e. T_s cancels out, because our token buckets fill continuously. Where (12) is negative it
counts as 0: no redirect message passes then. Where no FE is clipped, (13) holds for any B_e: we choose the B_e
at which the FE with the highest rate alone could use all that is left.

An attacker at one FE gets B_e, and does not raise the B_e of others: the attacker uses only the rate that quiet
FEs do not use, and they have their committed rate at any time. Several attackers who start together between two
samples may offer the link up to N B_e until the next orders. An FE that reports a false redirect rate can raise
the B_e of the others: FEs are trusted.",
    roles: &[Role {
        name: "uplinks",
        queues: [1, 4096],
        sets: &[FLAG, COMMITTED, EXCESS],
        renews: &[],
        reads: &[REDIRECT],
        about: "the queue of each forwarding element towards the control element",
    }],
    parameters: &[
        TOTAL.id(1), CONTROL.id(2), DELTA.id(3), ENFORCE.id(4), WINDOW.id(5), TIMEOUT.id(6), MEASURE.id(7),
    ],
    gauges: &[
        Gauge::level(101, "elements", Unit::One, "forwarding elements that answer"),
        Gauge::level(102, "committed_mbps", Unit::One, "B_c / T_s"),
        Gauge::level(103, "excess_mbps", Unit::One, "B_e"),
        Gauge::level(
            104, "redirect_mbps", Unit::One,
            "total measured redirect rate of the forwarding elements, including dropped messages",
        ),
    ],
};

const FLAG: &str = "flow_control";
const COMMITTED: &str = "committed";
const EXCESS: &str = "excess";
const REDIRECT: &str = "redirect_bytes";

const TOTAL: Parameter = Parameter::new(
    "total",
    setting::Kind::Rate(Rate::from_bps(1000), Rate::PARAMETER_MAX),
    "100 Mbit",
    "rate of the control element's link",
);

const CONTROL: Parameter = Parameter::new(
    "control",
    setting::Kind::Rate(Rate::from_bps(0), Rate::PARAMETER_MAX),
    "5 Mbit",
    "rate that the control messages of one forwarding element need",
);

const DELTA: Parameter = Parameter::new(
    "delta",
    setting::Kind::Ratio(0.0, 1.0),
    "0.01",
    "how far redirect messages may exceed the rate left for them, as a fraction of it",
);

const ENFORCE: Parameter = Parameter::new(
    "flow_control",
    setting::Kind::Flag,
    "true",
    "whether the forwarding elements enforce the rates",
);

const WINDOW: Parameter = Parameter::new(
    "window",
    setting::Kind::Span(Span::from_millis(1), Span::from_secs(60)),
    "200 ms",
    "time over which the rates of redirect and control messages are measured",
);

const TIMEOUT: Parameter = Parameter::new(
    "timeout",
    setting::Kind::Span(Span::from_millis(1), Span::from_secs(60)),
    "500 ms",
    "a forwarding element that has not answered for this long counts as disconnected",
);

const MEASURE: Parameter = Parameter::new(
    "measure",
    setting::Kind::Flag,
    "false",
    "whether a forwarding element whose control messages need more than `control` gets the rate that they use",
);

/// Equation 12: B_c / T_s of each forwarding element, if their control messages have these rates, on a link of rate
/// `total` (all in bit/s); never negative.
pub fn committed(total: f64, control: &[f64]) -> f64 {
    let left = total - control.iter().sum::<f64>();
    (left / control.len().max(1) as f64).max(0.0)
}

/// Equation 13: the B_e at which forwarding elements with these redirect rates reach a total of `(1 + delta) N
/// committed` (all in bit/s). Sorts the rates.
pub fn excess(committed: f64, delta: f64, redirect: &mut [f64]) -> f64 {
    redirect.sort_by(f64::total_cmp);
    let mut left = (1.0 + delta) * redirect.len() as f64 * committed;
    let mut clipped = redirect.len();
    for rate in &*redirect {
        let level = left / clipped as f64;
        if *rate >= level || clipped == 1 {
            return level; // of this element and all with higher rates
        }
        left -= rate;
        clipped -= 1;
    }
    left
}

/// State of a forwarding element.
#[derive(Clone, Copy, Debug, Default)]
struct Element {
    /// Time of the last answer; `None` if the element is absent.
    answered: Option<Instant>,
    /// Start of the current rate measurement.
    since: Option<(Instant, Bytes)>,
    /// Redirect rate in bit/s, once measured.
    redirect: Option<f64>,
    /// Rate of control messages in bit/s, once measured.
    control: Option<f64>,
}

/// Bytes offered to a queue since its start, dropped bytes included.
#[derive(Clone, Copy, Debug)]
struct Bytes {
    redirect: u64,
    control: u64,
}

impl Bytes {
    fn of(sample: &Sample) -> Self {
        let redirect = sample.gauge(REDIRECT).unwrap_or(0);
        Self {
            redirect,
            control: sample.received.bytes.saturating_sub(redirect),
        }
    }

    /// The increase since `before`; `None` if a sum is smaller than before, because the queue has restarted.
    fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            redirect: self.redirect.checked_sub(before.redirect)?,
            control: self.control.checked_sub(before.control)?,
        })
    }
}

impl Element {
    /// Handles an answer with the bytes offered to the queue since its start.
    fn answer(&mut self, now: Instant, bytes: Bytes, window: Span) {
        self.answered = Some(now);
        let passed = self
            .since
            .and_then(|(since, before)| Some((now.since(since), bytes.since(before)?)));
        match passed {
            Some((span, come)) => {
                if span >= window {
                    let rate = |bytes: u64| bytes as f64 * 8.0 / span.as_secs_f64();
                    self.redirect = Some(rate(come.redirect));
                    self.control = Some(rate(come.control));
                    self.since = Some((now, bytes));
                }
            }
            // The element is new or has restarted.
            None => {
                self.since = Some((now, bytes));
                (self.redirect, self.control) = (None, None);
            }
        }
    }

    /// Handles a missing answer.
    fn miss(&mut self, now: Instant, timeout: Span) {
        if self.answered.is_some_and(|at| now.since(at) >= timeout) {
            *self = Self::default();
        }
    }
}

/// The controller.
#[derive(Debug)]
pub struct FlowControl {
    total: f64,
    control: f64,
    delta: f64,
    enforce: bool,
    window: Span,
    timeout: Span,
    measure: bool,
    elements: Members<Element>,
    /// B_c / T_s and B_e at the latest sample, in bit/s.
    rates: [f64; 2],
}

impl FlowControl {
    /// A controller in its initial state, without forwarding elements.
    fn new(settings: &Settings) -> Self {
        Self {
            total: settings.rate(TOTAL.name).as_bps() as f64,
            control: settings.rate(CONTROL.name).as_bps() as f64,
            delta: settings.ratio(DELTA.name),
            enforce: settings.flag(ENFORCE.name),
            window: settings.span(WINDOW.name),
            timeout: settings.span(TIMEOUT.name),
            measure: settings.flag(MEASURE.name),
            elements: Members::default(),
            rates: [0.0; 2],
        }
    }

    fn present(&self) -> impl Iterator<Item = &Element> {
        self.elements.values().filter(|e| e.answered.is_some())
    }

    fn compute(&self) -> [f64; 2] {
        let mut redirect: Vec<f64> = self
            .present()
            .map(|element| element.redirect.unwrap_or(f64::INFINITY))
            .collect();
        let measured = |element: &Element| element.control.filter(|_| self.measure).unwrap_or(0.0);
        let control: Vec<f64> = self
            .present()
            .map(|e| measured(e).max(self.control))
            .collect();
        let committed = committed(self.total, &control);
        [committed, excess(committed, self.delta, &mut redirect)]
    }
}

impl Controller for FlowControl {
    fn join(&mut self, queue: &QueueName, _role: &str) {
        self.elements.join(queue);
    }

    fn leave(&mut self, queue: &QueueName) {
        self.elements.leave(queue);
    }

    fn sample(&mut self, now: Instant, samples: &[QueueSample], orders: &mut Vec<Order>) {
        for QueueSample { queue, sample } in samples {
            match (self.elements.get_mut(queue), sample) {
                (Some(element), Some(sample)) => {
                    element.answer(now, Bytes::of(sample), self.window);
                }
                (Some(element), None) => element.miss(now, self.timeout),
                (None, _) => {}
            }
        }
        self.rates = self.compute();
        // A single FE on the fastest link has a B_e of the link's rate and `delta` more, which may exceed the
        // parameter's range.
        let ordered = |rate: f64| Rate::from_bps(rate.round() as u64).min(Rate::PARAMETER_MAX);
        let [committed, excess] = self.rates.map(ordered);
        for (queue, element) in self.elements.iter() {
            if element.answered.is_none() {
                continue;
            }
            let values = [
                (COMMITTED, Setting::Rate(committed)),
                (EXCESS, Setting::Rate(excess)),
                (FLAG, Setting::Flag(self.enforce)),
            ];
            orders.extend(values.map(|(parameter, value)| Order {
                queue: queue.clone(),
                parameter,
                value,
            }));
        }
    }

    fn inspect(&self, report: &mut dyn FnMut(&'static str, f64)) {
        let redirect: f64 = self.present().filter_map(|e| e.redirect).sum();
        report("elements", self.present().count() as f64);
        report("committed_mbps", self.rates[0] / 1e6);
        report("excess_mbps", self.rates[1] / 1e6);
        report("redirect_mbps", redirect / 1e6);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_base::setting::Scalar;

    const MBIT: f64 = 1e6;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn the_papers_example() {
        // (100 - 5 * 5) / 5 = 15 Mbit/s; 1.5 s of it are 22.5 Mbit.
        let committed = committed(100.0 * MBIT, &[5.0 * MBIT; 5]);
        close(committed, 15.0 * MBIT);
        // (1.01 * 75 - 10) / 3 = 21.916667 Mbit/s.
        for greedy in [21.92, 25.0, 50.0, f64::INFINITY] {
            let mut redirect = [greedy, 5.0, greedy, greedy, 5.0].map(|x| x * MBIT);
            close(
                excess(committed, 0.01, &mut redirect),
                (1.01 * 75.0 - 10.0) / 3.0 * MBIT,
            );
        }
        // No excess: all elements are limited, B_e is the committed rate.
        close(excess(committed, 0.0, &mut [50.0 * MBIT; 5]), 15.0 * MBIT);
    }

    #[test]
    fn where_no_rate_is_clipped() {
        // 75 Mbit/s are available, 60 are used: an element at the highest rate, 20, may grow by 15.
        let mut redirect = [5.0, 5.0, 10.0, 20.0, 20.0].map(|x| x * MBIT);
        close(excess(15.0 * MBIT, 0.0, &mut redirect), 35.0 * MBIT);
        close(excess(15.0 * MBIT, 0.0, &mut [0.0; 5]), 75.0 * MBIT);
        close(excess(15.0 * MBIT, 0.0, &mut []), 0.0);
    }

    #[test]
    fn nothing_is_left_where_control_needs_more_than_there_is() {
        // 10 - 3 * 4 < 0.
        let committed = committed(10.0 * MBIT, &[4.0 * MBIT; 3]);
        close(committed, 0.0);
        close(excess(committed, 0.01, &mut [4.0 * MBIT; 3]), 0.0);
    }

    proptest! {
        /// Equation 13 holds with equality if rates are limited; a smaller delta never increases them.
        #[test]
        fn equation_13_holds(
            rates in prop::collection::vec(0.0_f64..50.0, 1..20), committed in 0.1_f64..20.0, delta in 0.0_f64..0.1,
        ) {
            let level = excess(committed, delta, &mut rates.clone());
            let all = committed * rates.len() as f64;
            let passed: f64 = rates.iter().map(|rate| rate.min(level)).sum();
            prop_assert!((passed - all) / all <= delta + 1e-9);
            if rates.iter().any(|rate| *rate > level) {
                prop_assert!((passed - (1.0 + delta) * all).abs() < 1e-9 * all);
            }
            prop_assert!(level >= committed * (1.0 + delta) - 1e-9, "quiet ones give, they do not take");
            prop_assert!(excess(committed, delta / 2.0, &mut rates.clone()) <= level + 1e-9);
        }
    }

    fn queue(element: usize) -> QueueName {
        QueueName {
            element: format!("fe{element}").into(),
            port: "uplink".into(),
        }
    }

    /// A controller of this number of elements.
    fn controller(given: &[(&str, Scalar)], elements: usize) -> Box<dyn Controller> {
        let given = given.iter().map(|(name, scalar)| (*name, scalar));
        let spec = crate::Spec::check("flow_control", &[elements], given).unwrap();
        let mut controller = spec.build();
        (0..elements).for_each(|element| controller.join(&queue(element), "uplinks"));
        controller
    }

    /// The samples of elements that have redirected these bytes; `None` is a missing answer.
    fn samples(redirected: &[Option<u64>]) -> Vec<QueueSample> {
        let sample = |bytes: u64| Sample::default().with_gauge(REDIRECT, bytes);
        let all = redirected.iter().enumerate();
        all.map(|(element, bytes)| QueueSample {
            queue: queue(element),
            sample: bytes.map(sample),
        })
        .collect()
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    /// The rates ordered for each queue, in kbit/s.
    fn ordered(orders: &[Order], elements: usize) -> Vec<Option<[u64; 2]>> {
        let value = |element: usize, parameter: &str| {
            let of = |o: &&Order| o.queue == queue(element) && o.parameter == parameter;
            orders.iter().find(of).map(|order| order.value.clone())
        };
        let rate = |element, parameter| match value(element, parameter) {
            Some(Setting::Rate(rate)) => Some(rate.as_bps() / 1000),
            _ => None,
        };
        (0..elements)
            .map(|element| {
                assert!(matches!(
                    value(element, FLAG),
                    None | Some(Setting::Flag(true))
                ));
                Some([rate(element, COMMITTED)?, rate(element, EXCESS)?])
            })
            .collect()
    }

    /// Five elements that redirect 5 or 50 Mbit/s; the last one does not answer between 1 s and 2 s.
    #[test]
    fn elements_go_and_come() {
        let mut controller = controller(&[], 5);
        let rates = [5, 5, 50, 50, 50];
        for period in 0..80 {
            let now = period * 40;
            let gone = (1000..2000).contains(&now);
            let redirected = [0, 1, 2, 3, 4]
                .map(|element| (element != 4 || !gone).then_some(rates[element] * now * 125));
            let mut orders = Vec::new();
            controller.sample(at(now), &samples(&redirected), &mut orders);
            let five = [15_000, 21_916];
            // (100 - 20) / 4 = 20; (1.01 * 80 - 10) / 2 = 35.4.
            let four = [20_000, 35_400];
            // Rates are unknown before 200 ms: all elements count as greedy, 1.01 * 15.
            let unknown = [15_000, 15_150];
            let expected = match now {
                0..200 => vec![Some(unknown); 5],
                200..1000 => vec![Some(five); 5],
                // The last answer came at 960 ms.
                1000..1460 => vec![Some(five); 5],
                1460..2000 => [vec![Some(four); 4], vec![None]].concat(),
                _ => vec![Some(five); 5],
            };
            assert_eq!(ordered(&orders, 5), expected, "at {now} ms");
        }
    }

    #[test]
    fn no_order_is_beyond_what_a_queue_takes() {
        let settings = [
            ("total", Scalar::Text("1000 Gbit".into())),
            ("control", Scalar::Text("0 bit".into())),
        ];
        let mut orders = Vec::new();
        controller(&settings, 1).sample(at(0), &samples(&[Some(0)]), &mut orders);
        assert_eq!(ordered(&orders, 1), [Some([1_000_000_000; 2])]);
    }

    #[test]
    fn who_leaves_is_forgotten_at_once() {
        let mut controller = controller(&[], 5);
        let mut orders = Vec::new();
        controller.sample(at(0), &samples(&[Some(0); 5]), &mut orders);
        controller.leave(&queue(2));
        let mut four = samples(&[Some(0); 5]);
        four.remove(2);
        orders.clear();
        controller.sample(at(40), &four, &mut orders);
        // (100 - 20) / 4 = 20; rates are still unknown: all elements count as greedy, 1.01 * 20.
        let one = Some([20_000, 20_200]);
        assert_eq!(ordered(&orders, 5), [one, one, None, one, one]);
    }

    #[test]
    fn a_counter_that_restarts_is_no_rate() {
        let mut element = Element::default();
        let mut answer = |millis, redirect, control| {
            let bytes = Bytes { redirect, control };
            element.answer(at(millis), bytes, Span::from_millis(100));
            [element.redirect, element.control]
        };
        assert_eq!(answer(0, 1_000_000, 10), [None, None]);
        assert_eq!(answer(100, 2_000_000, 250_010), [Some(80e6), Some(20e6)]);
        assert_eq!(answer(200, 5, 500_000), [None, None]);
    }

    /// Five elements; the control messages of the first one have 15 Mbit/s from 1 s on.
    #[test]
    fn who_needs_more_for_control_messages_has_it_within_a_second() {
        let committed = |measure: bool| {
            let mut controller = controller(&[("measure", Scalar::Flag(measure))], 5);
            let mut changed = None;
            for now in (0..2400).step_by(40) {
                let sample = |element: usize| {
                    let more = if element == 0 {
                        now.max(1000) - 1000
                    } else {
                        0
                    };
                    // 5 Mbit/s of redirects, and 4 of control messages.
                    let mut sample = Sample::default().with_gauge(REDIRECT, now * 625);
                    sample.received.bytes = now * (625 + 500) + more * (15_000 - 4_000) / 8;
                    Some(sample)
                };
                let samples: Vec<_> = (0..5)
                    .map(|element| QueueSample {
                        queue: queue(element),
                        sample: sample(element),
                    })
                    .collect();
                let mut orders = Vec::new();
                controller.sample(at(now), &samples, &mut orders);
                let [committed, _] = ordered(&orders, 5)[4].unwrap();
                if committed != 15_000 {
                    changed.get_or_insert(now);
                }
            }
            let mut gauges = Vec::new();
            controller.inspect(&mut |_, value| gauges.push(value));
            (changed, gauges[1])
        };
        assert_eq!(committed(false), (None, 15.0));
        // (100 - 4 * 5 - 15) / 5 = 13.
        let (changed, last) = committed(true);
        close(last, 13.0);
        assert!(
            changed.is_some_and(|at| (1000..2000).contains(&at)),
            "{changed:?}"
        );
    }
}

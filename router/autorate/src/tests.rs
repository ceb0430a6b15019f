//! The law in front of a fluid model of a link, in steps of a millisecond; and attacks on it.

use std::collections::VecDeque;

use proptest::prelude::*;
use weir_base::{Instant, Rate, Span};

use super::*;

const LEAST: Rate = Rate::from_mbps(1);

fn params(reflectors: usize) -> Params {
    Params {
        least: LEAST,
        base: Rate::from_mbps(2),
        most: Rate::from_mbps(50),
        threshold: Span::from_millis(8),
        interval: Span::from_millis(20),
        reflectors,
    }
}

fn ms(n: u64) -> Instant {
    Instant::ZERO + Span::from_millis(n)
}

/// The environment of the port as functions of the millisecond.
struct Around {
    /// Rate of the link in Mbit/s.
    link: fn(u64) -> f64,
    /// Load that is offered to the port, in Mbit/s.
    load: fn(u64) -> f64,
    /// Load that other hosts send into the same modem, in Mbit/s.
    others: fn(u64) -> f64,
    /// Round trip of a reflector without a queue, in ms; `None` if the reflector does not answer.
    way: fn(u64, Probe) -> Option<u64>,
}

impl Default for Around {
    fn default() -> Self {
        Self {
            link: |_| 20.0,
            load: |_| 1000.0,
            others: |_| 0.0,
            way: |_, _| Some(20),
        }
    }
}

/// A run's state after each millisecond: the rate in Mbit/s, the queue's delay in ms.
struct Run {
    law: Autorate,
    rates: Vec<f64>,
    delays: Vec<f64>,
    carried: f64,
    possible: f64,
}

/// How the law learns of the queue's delay.
trait Measure {
    /// Hands over the answers that have arrived by the millisecond.
    fn arrive(&mut self, law: &mut Autorate, now: u64);

    /// Sends probes or packets that measure the queue's `delay` in ms; the port sends `own` Mbit/s and has sent `sent`
    /// bytes.
    fn leave(&mut self, law: &mut Autorate, now: u64, delay: u64, own: f64, sent: u64);
}

fn run_measured(reflectors: usize, millis: u64, around: &Around, measure: &mut dyn Measure) -> Run {
    let mut law = Autorate::new(params(reflectors), ms(0), 0);
    let (mut sent, mut queue) = (0.0, 0.0_f64);
    let (mut rates, mut delays) = (Vec::new(), Vec::new());
    let (mut carried, mut possible) = (0.0, 0.0);
    for t in 0..millis {
        measure.arrive(&mut law, t);
        law.handle_timeout(ms(t), sent as u64);
        let link = (around.link)(t);
        let delay = queue / link; // kbit over Mbit/s: ms
        let rate = law.rate().as_bps() as f64 / 1e6;
        let own = rate.min((around.load)(t));
        measure.leave(&mut law, t, delay as u64, own, sent as u64);
        let before = queue;
        sent += own * 1000.0 / 8.0;
        queue = (queue + own + (around.others)(t) - link).clamp(0.0, 2400.0);
        carried += (before + own - queue).min(link);
        possible += link;
        rates.push(rate);
        delays.push(delay);
    }
    Run {
        law,
        rates,
        delays,
        carried,
        possible,
    }
}

/// Measures by probes to reflectors.
struct Asked<'a> {
    around: &'a Around,
    answers: VecDeque<(u64, Probe)>,
}

impl Measure for Asked<'_> {
    fn arrive(&mut self, law: &mut Autorate, now: u64) {
        self.answers.make_contiguous().sort_by_key(|(at, _)| *at);
        while let Some((_, probe)) = self.answers.pop_front_if(|(at, _)| *at <= now) {
            law.handle_answer(ms(now), probe);
        }
    }

    fn leave(&mut self, law: &mut Autorate, now: u64, delay: u64, _: f64, _: u64) {
        while let Some(probe) = law.poll_probe() {
            if let Some(way) = (self.around.way)(now, probe) {
                self.answers.push_back((now + way + delay, probe));
            }
        }
    }
}

fn run(reflectors: usize, millis: u64, around: &Around) -> Run {
    let answers = VecDeque::new();
    run_measured(reflectors, millis, around, &mut Asked { around, answers })
}

impl Run {
    fn mean_rate(&self, from: usize) -> f64 {
        let rates = &self.rates[from..];
        rates.iter().sum::<f64>() / rates.len() as f64
    }

    /// The 99th percentile of the delay in ms, from millisecond `from` on.
    fn p99(&self, from: usize) -> f64 {
        let mut delays = self.delays[from..].to_vec();
        delays.sort_by(f64::total_cmp);
        delays[delays.len() * 99 / 100]
    }
}

#[test]
fn a_link_that_falls_to_a_fifth_is_found_and_found_again() {
    let link = |t| {
        if (20_000..40_000).contains(&t) {
            4.0
        } else {
            20.0
        }
    };
    let run = run(
        1,
        60_000,
        &Around {
            link,
            ..Around::default()
        },
    );
    let utilisation = run.carried / run.possible;
    assert!(utilisation > 0.88, "{utilisation}");
    assert!(run.p99(5_000) < 10.0, "{}", run.p99(5_000));
    // A quarter of a second after the fall the queue is empty.
    let late = run.delays[20_350..40_000]
        .iter()
        .copied()
        .fold(0.0, f64::max);
    assert!(late < 15.0, "{late}");
}

#[test]
fn an_outage_ends_with_the_rate_that_the_link_has_then() {
    let link = |t| match t {
        10_000..10_500 => 0.001,
        10_500..20_000 => 5.0,
        _ => 15.0,
    };
    let run = run(
        2,
        30_000,
        &Around {
            link,
            ..Around::default()
        },
    );
    assert!(
        (3.5..5.5).contains(&run.rates[15_000]),
        "{}",
        run.rates[15_000]
    );
    assert!(run.rates[29_000] > 12.0, "{}", run.rates[29_000]);
}

#[test]
fn a_longer_way_is_a_new_baseline_and_not_a_queue() {
    let way = |t, _| Some(if t < 10_000 { 20 } else { 80 });
    let run = run(
        2,
        20_000,
        &Around {
            way,
            ..Around::default()
        },
    );
    assert_eq!(run.law.baseline(), Some(Span::from_millis(80)));
    assert!(run.mean_rate(11_000) > 17.0, "{}", run.mean_rate(11_000));
}

#[test]
fn one_liar_among_three_is_not_believed() {
    // The first reflector answers after arbitrary 20 to 420 ms.
    let way = |t, probe: Probe| match probe.reflector {
        0 => Some(20 + t * 7919 % 400),
        _ => Some(20),
    };
    let run = run(
        3,
        60_000,
        &Around {
            way,
            ..Around::default()
        },
    );
    assert!(run.mean_rate(20_000) > 16.0, "{}", run.mean_rate(20_000));
    assert!(run.p99(5_000) < 10.0, "{}", run.p99(5_000));
}

#[test]
fn a_liar_alone_costs_no_more_than_the_least_rate() {
    let way = |t: u64, _| Some(20 + t * 7919 % 400);
    let run = run(
        1,
        30_000,
        &Around {
            way,
            ..Around::default()
        },
    );
    assert!(run.rates.iter().all(|rate| *rate >= 1.0));
}

#[test]
fn silent_reflectors_leave_the_base_rate_until_they_return() {
    let way = |t, _| (!(10_000..25_000).contains(&t)).then_some(20);
    let run = run(
        2,
        40_000,
        &Around {
            way,
            ..Around::default()
        },
    );
    assert!(run.rates[9_000] > 15.0);
    assert!(run.rates[13_000..25_000].iter().all(|rate| *rate <= 2.0));
    assert!(run.rates[39_000] > 15.0, "{}", run.rates[39_000]);
    assert_eq!(run.law.phase(), Phase::Follow);
}

#[test]
fn a_reflector_that_dies_is_not_missed_among_others() {
    let way = |t, probe: Probe| (probe.reflector > 0 || t < 10_000).then_some(20);
    let run = run(
        3,
        40_000,
        &Around {
            way,
            ..Around::default()
        },
    );
    assert!(run.mean_rate(10_000) > 17.0, "{}", run.mean_rate(10_000));
}

#[test]
fn probes_that_get_lost_are_no_congestion() {
    let way = |t: u64, _| (t * 7919 % 100 >= 3).then_some(20);
    let run = run(
        2,
        30_000,
        &Around {
            way,
            ..Around::default()
        },
    );
    assert!(run.mean_rate(10_000) > 16.0, "{}", run.mean_rate(10_000));
}

#[test]
fn a_light_load_is_never_cut_and_the_rate_does_not_grow_by_it() {
    let load = |t| if t < 10_000 { 1000.0 } else { 3.0 };
    let run = run(
        2,
        190_000,
        &Around {
            load,
            ..Around::default()
        },
    );
    let rates = &run.rates[11_000..];
    assert!(rates.iter().all(|rate| (3.0..22.0).contains(rate)));
}

#[test]
fn others_in_the_same_modem_leave_a_rate_and_a_short_queue() {
    let others = |t| if t < 10_000 { 0.0 } else { 15.0 };
    let run = run(
        2,
        40_000,
        &Around {
            others,
            ..Around::default()
        },
    );
    let rate = run.mean_rate(15_000);
    assert!((4.0..5.5).contains(&rate), "{rate}");
    assert!(run.p99(12_000) < 20.0, "{}", run.p99(12_000));
}

#[test]
fn an_answer_that_was_not_asked_for_is_not_used() {
    let mut law = Autorate::new(params(2), ms(0), 0);
    law.handle_timeout(ms(0), 0);
    let probe = law.poll_probe().unwrap();
    let wrong = Probe {
        reflector: 1 - probe.reflector,
        ..probe
    };
    let ahead = Probe {
        number: probe.number + 1,
        ..probe
    };
    for forged in [wrong, ahead] {
        law.handle_answer(ms(1), forged);
    }
    assert_eq!((law.strange(), law.baseline()), (2, None));
    law.handle_answer(ms(20), probe);
    law.handle_answer(ms(21), probe);
    assert_eq!(
        (law.strange(), law.baseline()),
        (3, Some(Span::from_millis(20)))
    );
}

/// The port's own traffic to `peers` peers, whose round trips are 20, 40, 60 .. ms, and each of which answers every
/// `gap` ms while the port sends.
struct Answered {
    peers: u64,
    gap: u64,
    answers: VecDeque<(u64, Sample)>,
}

impl Measure for Answered {
    fn arrive(&mut self, law: &mut Autorate, now: u64) {
        self.answers.make_contiguous().sort_by_key(|(at, _)| *at);
        while let Some((at, sample)) = self.answers.pop_front_if(|(at, _)| *at <= now) {
            law.handle_sample(ms(at), &sample);
        }
    }

    fn leave(&mut self, law: &mut Autorate, now: u64, delay: u64, own: f64, sent: u64) {
        assert_eq!(law.poll_probe(), None);
        if own > 0.0 && now.is_multiple_of(self.gap) {
            let peer = now / self.gap % self.peers;
            let took = 20 * (peer + 1) + delay;
            let sample = Sample {
                peer: 77 + peer,
                at: ms(now),
                sent,
                round_trip: Span::from_millis(took),
            };
            self.answers.push_back((now + took, sample));
        }
    }
}

fn run_by_traffic(peers: u64, gap: u64, millis: u64, around: &Around) -> Run {
    let answers = VecDeque::new();
    run_measured(
        0,
        millis,
        around,
        &mut Answered {
            peers,
            gap,
            answers,
        },
    )
}

#[test]
fn traffic_shows_the_delay_as_reflectors_do() {
    let link = |t| {
        if (20_000..40_000).contains(&t) {
            4.0
        } else {
            20.0
        }
    };
    let around = Around {
        link,
        ..Around::default()
    };
    for peers in [1, 3] {
        let run = run_by_traffic(peers, 3, 60_000, &around);
        let utilisation = run.carried / run.possible;
        assert!(utilisation > 0.88, "{peers} {utilisation}");
        assert!(run.p99(5_000) < 10.0, "{peers} {}", run.p99(5_000));
    }
}

#[test]
fn a_port_without_load_is_not_blind_for_want_of_traffic() {
    let load = |t| match t {
        10_000..40_000 => 0.0,
        _ => 1000.0,
    };
    let around = Around {
        load,
        ..Around::default()
    };
    let run = run_by_traffic(2, 3, 60_000, &around);
    assert!(run.rates[39_000] > 10.0, "{}", run.rates[39_000]);
    assert!(run.mean_rate(41_000) > 16.0, "{}", run.mean_rate(41_000));
}

#[test]
fn a_load_that_nobody_answers_gets_the_base_rate() {
    let mut law = Autorate::new(params(0), ms(0), 0);
    let sample = |t: u64| Sample {
        peer: 1,
        at: ms(t),
        sent: t * 250,
        round_trip: Span::from_millis(20),
    };
    for t in 0..20_000 {
        if t < 10_000 {
            law.handle_sample(ms(t + 20), &sample(t));
        }
        law.handle_timeout(ms(t + 20), t * 2500); // as much as the limit permits
    }
    assert_eq!(law.phase(), Phase::Blind);
    assert!(law.rate() <= params(0).base);
}

proptest! {
    /// For arbitrary answers, at arbitrary times, from reflectors and from peers of the traffic, the rate stays within
    /// its limits, and so does the time of the next timeout.
    #[test]
    fn the_rate_stays_within_its_limits(
        reflectors in prop::sample::select(vec![0, 3]),
        steps in prop::collection::vec((0_u64..400, 0_u64..2_000_000, 0_u64..9, 0_usize..3), 1..200),
    ) {
        let mut law = Autorate::new(params(reflectors), ms(0), 0);
        let (mut now, mut sent, mut probes) = (0, 0, Vec::new());
        for (gap, bytes, kind, place) in steps {
            now += gap;
            sent += bytes;
            match kind {
                0 => law.handle_answer(ms(now), Probe { reflector: place, number: bytes % 50 }),
                1..=3 if !probes.is_empty() => {
                    let probe = probes.swap_remove(place % probes.len());
                    law.handle_answer(ms(now), probe);
                }
                6..=8 => {
                    // A peer delays its answer, or answers before it has the packet.
                    let took = (bytes % 3_000).min(now);
                    let sample = Sample {
                        peer: place as u64,
                        at: ms(now - took),
                        sent: sent.saturating_sub(bytes),
                        round_trip: Span::from_millis(took),
                    };
                    law.handle_sample(ms(now), &sample);
                }
                _ => {
                    law.handle_timeout(ms(now), sent);
                    probes.extend(law.poll_probe());
                }
            }
            prop_assert!((LEAST..=Rate::from_mbps(50)).contains(&law.rate()), "{}", law.rate());
        }
        law.handle_timeout(ms(now), sent);
        prop_assert!(law.poll_probe().is_none() || law.poll_timeout() > ms(now));
    }
}

//! A model of cake-autorate's algorithm, for comparison with ours.
//!
//! Source: cake-autorate 3.2, `cake-autorate.sh` and `defaults.sh` (github.com/lynxthecat/cake-autorate), with `fping`:
//! half of each round trip counts for a direction. Its defaults: an answer every 50 ms, from one reflector after
//! another; an answer is delayed if it is 30 ms above the baseline; three delayed answers of six are congestion; the
//! load is measured every 200 ms, and is high from 75 % of the rate.
//!
//! Not modelled, because our comparisons do not need it: the sleep of an idle link, the choice among reflectors,
//! stalls, and the compensation of its limits for the time of a full frame.

use std::collections::VecDeque;

use weir_autorate::{Params, Probe};
use weir_base::{Instant, Rate, Span};

const INTERVAL: Span = Span::from_millis(50);
const LOAD_OVER: Span = Span::from_millis(200);
const LOAD_HIGH: f64 = 0.75;
/// Thresholds of the delay, in seconds: above the first an answer counts as delayed; below the second the rate grows
/// fastest; above the third the rate is cut most.
const DELAYED: f64 = 0.030;
const GROWS_MOST: f64 = 0.010;
const CUT_MOST: f64 = 0.060;
const WINDOW: usize = 6;
const CONGESTION: usize = 3;
const BASELINE_RISES: f64 = 0.001;
const BASELINE_FALLS: f64 = 0.9;
const CUT: [f64; 2] = [0.99, 0.75];
const GROWTH: f64 = 0.04;
const DECAY: f64 = 0.01;
const REFRACTORY: Span = Span::from_millis(300);
const DECAY_GAP: Span = Span::from_secs(1);
/// Older answers are not used.
const OLD: Span = Span::from_millis(500);
/// Maximum number of probes in flight.
const UNDER_WAY: usize = 512;

/// The algorithm's state for one direction.
pub(super) struct CakeAutorate {
    params: Params,
    rate: f64,
    under_way: VecDeque<(Probe, Instant)>,
    number: u64,
    baselines: Vec<Option<f64>>,
    deltas: VecDeque<f64>,
    cut_at: Instant,
    decayed_at: Instant,
    load_from: (Instant, u64),
    load: f64,
    is_new_load: bool,
    now: Instant,
    probe_at: Instant,
}

impl CakeAutorate {
    pub(super) fn new(params: Params) -> Self {
        Self {
            rate: params.base.as_bps() as f64,
            under_way: VecDeque::new(),
            number: 0,
            baselines: vec![None; params.reflectors],
            deltas: VecDeque::from(vec![0.0; WINDOW]),
            cut_at: Instant::ZERO,
            decayed_at: Instant::ZERO,
            load_from: (Instant::ZERO, 0),
            load: 0.0,
            is_new_load: false,
            now: Instant::ZERO,
            probe_at: Instant::ZERO,
            params,
        }
    }

    pub(super) fn handle_answer(&mut self, now: Instant, probe: Probe) {
        let place = self.under_way.iter().position(|(known, _)| *known == probe);
        let Some((_, at)) = place.and_then(|place| self.under_way.remove(place)) else {
            return;
        };
        if now.since(at) > OLD {
            return;
        }
        let half = now.since(at).as_secs_f64() / 2.0;
        let baseline = self.baselines[probe.reflector].get_or_insert(half);
        let weight = if half >= *baseline {
            BASELINE_RISES
        } else {
            BASELINE_FALLS
        };
        *baseline += weight * (half - *baseline);
        self.deltas.pop_front();
        self.deltas.push_back(half - *baseline);
        self.decide(now);
    }

    fn decide(&mut self, now: Instant) {
        let delayed = self.deltas.iter().filter(|delta| **delta > DELAYED).count();
        let mean = self.deltas.iter().sum::<f64>() / WINDOW as f64;
        let is_refractory = now <= self.cut_at + REFRACTORY;
        if delayed >= CONGESTION {
            if !is_refractory {
                let part = ((mean - DELAYED) / (CUT_MOST - DELAYED)).clamp(0.0, 1.0);
                self.rate *= CUT[0] - part * (CUT[0] - CUT[1]);
                (self.cut_at, self.decayed_at) = (now, now);
            }
        } else if self.load > LOAD_HIGH {
            if std::mem::take(&mut self.is_new_load) && !is_refractory {
                let part = ((DELAYED - mean) / (DELAYED - GROWS_MOST)).clamp(0.0, 1.0);
                self.rate *= 1.0 + part * GROWTH;
                self.decayed_at = now;
            }
        } else if now > self.decayed_at + DECAY_GAP {
            let base = self.params.base.as_bps() as f64;
            self.rate = if self.rate > base {
                (self.rate * (1.0 - DECAY)).max(base)
            } else {
                (self.rate * (1.0 + DECAY)).min(base)
            };
            self.decayed_at = now;
        }
        let [least, most] = [self.params.least, self.params.most].map(|rate| rate.as_bps() as f64);
        self.rate = self.rate.clamp(least, most);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, sent: u64) {
        self.now = now;
        let (since, before) = self.load_from;
        let passed = now.since(since);
        if passed >= LOAD_OVER {
            let bits = (sent - before) as f64 * 8.0;
            self.load = bits / passed.as_secs_f64() / self.rate;
            self.is_new_load = true;
            self.load_from = (now, sent);
        }
    }

    pub(super) fn poll_probe(&mut self) -> Option<Probe> {
        if self.probe_at > self.now {
            return None;
        }
        self.probe_at = self.now + INTERVAL;
        self.number += 1;
        let probe = Probe {
            reflector: self.number as usize % self.baselines.len(),
            number: self.number,
        };
        if self.under_way.len() == UNDER_WAY {
            self.under_way.pop_front();
        }
        self.under_way.push_back((probe, self.now));
        Some(probe)
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.probe_at.min(self.now + Span::from_millis(10))
    }

    pub(super) fn rate(&self) -> Rate {
        Rate::from_bps(self.rate as u64)
    }
}

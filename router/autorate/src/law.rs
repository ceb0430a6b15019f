//! The control law: delays and delivery rates in, the port's rate out. [`super`] has the manual page.

mod report;

use std::collections::VecDeque;

use weir_base::{Instant, Rate, Span};

use super::deliveries::Deliveries;
use super::drain::Drain;
use super::jitter::Jitter;
use super::load::Load;
use super::params::{Params, Phase};
use super::reflectors::{Answer, Overdue, Probe, Reflectors, Sample};

/// Maximum time between two timeouts.
const TURN: Span = Span::from_millis(5);
/// Time without an answer after which the phase is [`Phase::Blind`].
const BLIND: Span = Span::from_secs(2);
/// Time between two probes while the port is idle.
const IDLE_INTERVAL: Span = Span::from_millis(200);
/// Approximate bits of a probe on the wire; probes take at most 1 % of the rate.
const PROBE_BITS: f64 = 800.0;
const PROBE_SHARE: f64 = 0.01;
/// Bits of a full frame on the wire: a probe may wait behind a frame in transmission.
const FRAME_BITS: f64 = 12_304.0;
/// Number of delays whose mean detects a touch.
const MEAN_OF: usize = 2;
/// Share of the rate during a suspicion: a few frames suffice to find out whether the link has become slower.
const SUSPECT: f64 = 0.125;
/// A touch is a mean above these shares of the threshold and of a frame's time together: a probe waits for half a
/// frame on average.
const TOUCH: f64 = 0.08;
const TOUCH_FRAME: f64 = 0.6;
/// Maximum delay that is attributed to the path itself (jitter), in thresholds.
const JITTER_MAX: u64 = 3;
/// Share of the measured rate at which the port sends after a drain.
const BELOW: f64 = 0.97;
/// Share of the previous rate that a drain keeps if the jitter is at least the threshold.
const KEEP: f64 = 0.5;
/// Growth per second during an ascent: its initial value, its increase per second, and its maximum.
const GROWTH_FIRST: f64 = 0.1;
const GROWTH_GAIN: f64 = 1.0;
const GROWTH_MAX: f64 = 0.7;
/// Maximum growth per second while the rate of the link has never been measured.
const GROWTH_UNKNOWN: f64 = 2.0;
/// Time after a drain before the next ascent; it doubles, up to a maximum, while ascents end at the same rate.
const HOLD: Span = Span::from_millis(200);
const HOLD_MAX: Span = Span::from_millis(800);
/// Relative difference below which the rates at the ends of two ascents count as the same.
const SAME: f64 = 0.08;
/// Share of the bytes that the port could have sent, from which the load is high.
const LOAD_HIGH: f64 = 0.8;
/// A load below this share counts as idle.
const LOAD_IDLE: f64 = 0.2;
/// Share of the distance to the base that an idle port's rate moves per second.
const DECAY: f64 = 0.01;
/// The longest drain.
const DRAIN_MAX: Span = Span::from_secs(2);
/// A drain that begins within this time after another lasts until an answer confirms that the queue is empty.
const AGAIN: Span = Span::from_millis(150);
/// Time for which delays are ignored if this port did not cause them: initial, and maximum.
const LEAVE: Span = Span::from_secs(1);
const LEAVE_MAX: Span = Span::from_secs(32);

/// The controller of one port's rate.
///
/// At the time of `poll_timeout`, call `handle_timeout`, then `poll_probe`, then [`rate`](Self::rate). Call
/// `handle_answer` and `handle_sample` at any time.
#[derive(Clone, Debug)]
pub struct Autorate {
    params: Params,
    reflectors: Reflectors,
    deliveries: Deliveries,
    phase: Phase,
    /// The estimated rate of the link in bit/s, and the rate of the port.
    rate: f64,
    output: Rate,
    drain: Option<Drain>,
    /// The probe that raised the suspicion.
    suspect: Option<Probe>,
    /// Delays of probes sent before `counts_from` raise no suspicion; those before `calm_from` do not count for a
    /// touch.
    counts_from: Instant,
    calm_from: Instant,
    delays: VecDeque<Span>,
    delay: Span,
    /// The link's rate as measured by the latest drain.
    known: Option<f64>,
    /// Earliest start of the next ascent; length of the latest hold; start of the current ascent.
    hold_until: Instant,
    hold: Span,
    ascent: Option<Instant>,
    /// The end of the latest drain.
    drained: Instant,
    /// Until when delays are ignored because this port did not cause them, and the length of that time.
    leave_until: Instant,
    leave: Span,
    /// Delays of the path without a queue.
    jitter: Jitter,
    /// The start of the current half probe interval, and the traffic's round trip with the minimum delay in it. A
    /// single round trip may be late because of its receiver.
    best: Option<(Instant, Answer)>,
    load: Load,
    /// The latest time without load, of a port that measures only its own traffic.
    quiet: Instant,
    now: Instant,
    sent: u64,
    probe_at: Instant,
}

impl Autorate {
    /// A controller at `now`, whose port has sent `sent` bytes on the wire.
    pub fn new(params: Params, now: Instant, sent: u64) -> Self {
        Self {
            reflectors: Reflectors::new(params.reflectors),
            deliveries: Deliveries::default(),
            phase: Phase::Blind,
            rate: params.base.as_bps() as f64,
            output: params.base,
            drain: None,
            suspect: None,
            counts_from: now,
            calm_from: now,
            delays: VecDeque::with_capacity(MEAN_OF),
            delay: Span::ZERO,
            known: None,
            hold_until: now,
            hold: HOLD,
            ascent: None,
            drained: now,
            leave_until: now,
            leave: LEAVE,
            jitter: Jitter::default(),
            best: None,
            load: Load::new(now, sent),
            quiet: now,
            now,
            sent,
            probe_at: now,
            params,
        }
    }

    /// Takes the answer to a probe, which arrived at `now`.
    pub fn handle_answer(&mut self, now: Instant, probe: Probe) {
        if let Some(answer) = self.reflectors.take(probe, now) {
            self.take(now, &answer);
        }
    }

    /// Takes a round trip of the port's own traffic, whose answer arrived at `now`.
    pub fn handle_sample(&mut self, now: Instant, sample: &Sample) {
        let mut answer = self.reflectors.sample(now, sample, self.delay);
        // A full frame takes its own transmission time; the baseline contains only that at the link's fastest rate so
        // far.
        answer.delay = answer.delay - self.frame();
        let over = Span::from_nanos(self.params.interval.as_nanos() / 2);
        let Some((since, best)) = self.best else {
            self.best = Some((now, answer));
            return;
        };
        if answer.at < best.at {
            return; // took a longer path: a later packet was answered already
        }
        if now.since(since) < over {
            let is_less = answer.delay < best.delay;
            self.best = Some((since, if is_less { answer } else { best }));
            return;
        }
        self.best = Some((now, answer));
        self.take(now, &best);
    }

    fn take(&mut self, now: Instant, answer: &Answer) {
        if !answer.counts {
            return;
        }
        self.deliveries.take(answer.at, answer.sent, answer.delay);
        self.delay = answer.delay;
        if self.phase == Phase::Blind {
            self.phase = Phase::Follow;
            self.counts_from = answer.at;
        }
        if self.drain.is_none() && answer.at >= self.drained {
            if answer.at < self.hold_until {
                self.jitter.take(answer.delay - self.frame())
            } else {
                self.jitter.end()
            }
        }
        let threshold = self.threshold();
        let delivered = self.deliveries.delivered(self.frame());
        if let Some(drain) = &mut self.drain {
            drain.delivered = delivered.or(drain.delivered);
        }
        match &mut self.drain {
            Some(drain) if answer.at >= drain.since => {
                drain.take(answer);
                if !drain.hard && answer.delay > threshold {
                    self.begin_drain(now, true); // the link has become slower meanwhile
                }
            }
            None if answer.at >= self.counts_from && now >= self.leave_until => {
                self.decide(now, answer);
            }
            _ => {}
        }
        self.put_out();
    }

    /// Takes the time, and the bytes on the wire that the port has sent so far.
    pub fn handle_timeout(&mut self, now: Instant, sent: u64) {
        let passed = now.since(self.now).as_secs_f64();
        self.load.take(now, sent, self.output.as_bps() as f64);
        (self.now, self.sent) = (now, sent);
        self.reflectors.give_up(now);
        if self.reflectors.asks_nobody() && self.load.share() < LOAD_IDLE {
            self.quiet = now; // no traffic to measure
        }
        if self.reflectors.is_blind(now, BLIND) && self.quiet + BLIND <= now {
            self.go_blind();
        } else if let Some(drain) = self.drain {
            match !drain.hard && self.overdue().is_some() {
                true => self.begin_drain(now, true), // the link has become slower meanwhile
                false => self.check_drain(drain),
            }
        } else if !self.is_late() {
            self.move_rate(passed);
        }
        self.put_out();
    }

    /// The next due probe, which the caller sends now.
    pub fn poll_probe(&mut self) -> Option<Probe> {
        if self.probe_at > self.now {
            return None;
        }
        let is_busy = self.load.share() > LOAD_IDLE || self.phase != Phase::Follow;
        let interval = if is_busy {
            self.params.interval
        } else {
            self.params.interval.max(IDLE_INTERVAL)
        };
        let share = Span::from_secs_f64(PROBE_BITS / (PROBE_SHARE * self.rate));
        self.probe_at = self.now + interval.max(share);
        self.reflectors.next(self.now, self.sent)
    }

    /// Time of the next `handle_timeout`.
    pub fn poll_timeout(&self) -> Instant {
        self.probe_at.min(self.now + TURN)
    }

    /// The rate for the port.
    pub fn rate(&self) -> Rate {
        self.output
    }

    /// The state of the law.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The latest delay above the baseline.
    pub fn delay(&self) -> Span {
        self.delay
    }

    /// The mean baseline of the reflectors, a round trip; `None` before an answer.
    pub fn baseline(&self) -> Option<Span> {
        self.reflectors.baseline()
    }

    /// Unsolicited or duplicate answers, which are ignored.
    pub fn strange(&self) -> u64 {
        self.reflectors.strange
    }

    /// Sets the port's rate by the phase.
    fn put_out(&mut self) {
        let rate = match (self.phase, &self.drain) {
            (Phase::Suspicion, _) => self.rate * SUSPECT,
            (Phase::Drain, Some(drain)) => match drain.delivered {
                Some(_) if drain.hard => 0.0,
                Some(rate) => rate / 2.0,
                None if drain.hard => 0.0,
                None => self.rate / 2.0,
            },
            _ => self.rate,
        };
        self.output = self.within(rate);
    }

    fn within(&self, rate: f64) -> Rate {
        let Params { least, most, .. } = self.params;
        Rate::from_bps(rate as u64).max(least).min(most)
    }

    /// Transmission time of a full frame on the link, as far as the link's rate is known.
    fn frame(&self) -> Span {
        let delivered = self.drain.and_then(|drain| drain.delivered);
        let rate = delivered.map_or(self.rate, |link| link.min(self.rate));
        Span::from_secs_f64(FRAME_BITS / rate.max(1.0))
    }

    fn threshold(&self) -> Span {
        self.params.threshold + self.frame() + self.jitter()
    }

    fn touch(&self) -> Span {
        let threshold = self.params.threshold.as_secs_f64() * TOUCH;
        let frame = self.frame().as_secs_f64() * TOUCH_FRAME;
        Span::from_secs_f64(threshold + frame) + self.jitter()
    }

    /// The delay of the path without a queue.
    fn jitter(&self) -> Span {
        self.jitter
            .value()
            .min(self.params.threshold.times(JITTER_MAX))
    }

    /// Decides about a delay that was measured at the current rate.
    fn decide(&mut self, now: Instant, answer: &Answer) {
        if answer.delay > self.threshold() {
            self.suspect(now, answer.probe, false);
            return;
        }
        if let Some(suspect) = self.suspect.take() {
            self.phase = Phase::Follow;
            self.reflectors.was_wrong(suspect.reflector, now);
        } else {
            self.reflectors.was_right(answer.probe.reflector);
        }
        if answer.at < self.calm_from {
            return;
        }
        if self.delays.len() == MEAN_OF {
            self.delays.pop_front();
        }
        self.delays.push_back(answer.delay);
        let sum = self
            .delays
            .iter()
            .fold(Span::ZERO, |sum, delay| sum + *delay);
        if self.delays.len() == MEAN_OF && sum > self.touch().times(MEAN_OF as u64) {
            self.begin_drain(now, false);
        }
    }

    /// Whether a probe is overdue; if so, raises or confirms a suspicion.
    fn is_late(&mut self) -> bool {
        match self.overdue().filter(|_| self.now >= self.leave_until) {
            Some(overdue) => {
                self.suspect(self.now, overdue.probe, overdue.probes > 1);
                true
            }
            None => false,
        }
    }

    /// Probes whose answers are late. They only raise a suspicion, so a lower limit than the threshold suffices.
    fn overdue(&self) -> Option<Overdue> {
        let threshold = self.threshold() - Span::from_nanos(self.params.threshold.as_nanos() / 2);
        self.reflectors
            .overdue(self.now, self.counts_from, threshold)
    }

    /// Handles a high delay of this probe. A high delay of a probe to another reflector confirms it, or, with a single
    /// reflector, of any other probe; so do several overdue probes.
    fn suspect(&mut self, now: Instant, probe: Probe, several: bool) {
        let Some(before) = self.suspect else {
            self.suspect = Some(probe);
            self.phase = Phase::Suspicion;
            if several {
                self.begin_drain(now, true);
            }
            return;
        };
        let others = self.reflectors.live(now) > 1;
        let confirms = if others {
            before.reflector != probe.reflector
        } else {
            before.number != probe.number
        };
        if several || confirms {
            self.begin_drain(now, true);
        }
    }

    fn begin_drain(&mut self, now: Instant, hard: bool) {
        self.suspect = None;
        self.ascent = None;
        self.jitter.end();
        self.delays.clear();
        if hard {
            self.deliveries.clear(); // measured before the link became slower
        }
        self.phase = Phase::Drain;
        self.drain = Some(Drain {
            since: now,
            hard,
            until_seen: now < self.drained + AGAIN,
            first: None,
            last: (now, Span::MAX),
            least: Span::MAX,
            delivered: self.deliveries.delivered(self.frame()),
        });
        self.probe_at = self.probe_at.min(now + self.params.interval);
    }

    fn check_drain(&mut self, drain: Drain) {
        let rate = drain.delivered;
        let gone = rate.and_then(|rate| {
            let behind = self.deliveries.behind(self.now, self.sent, rate)?;
            (behind <= 0.0).then_some(rate)
        });
        let low = drain.first.is_some() && drain.last.1 <= self.touch();
        if low || !drain.until_seen && gone.is_some() {
            self.end_drain(gone.or(rate), drain.hard);
        } else if drain.is_in_vain() || self.now >= drain.since + DRAIN_MAX {
            if drain.last.1 <= self.threshold() {
                self.end_drain(rate, drain.hard)
            } else {
                self.give_up(drain)
            }
        }
    }

    /// Ends a drain: the queue is empty, and the link delivered at `measured` bit/s, if that is known.
    fn end_drain(&mut self, measured: Option<f64>, hard: bool) {
        let now = self.now;
        // On a path with jitter, a short drain measures only a moment, so up to half of the previous rate is kept.
        let jitter = self.jitter().as_secs_f64() / self.params.threshold.as_secs_f64();
        let keep = KEEP * jitter.min(1.0);
        let link = measured.unwrap_or(self.rate).min(self.rate * (1.05 + keep));
        let link = link * (1.0 - keep) + self.rate * keep;
        let is_same = self
            .known
            .is_some_and(|known| (link / known - 1.0).abs() < SAME);
        self.hold = if is_same {
            self.hold.times(2).min(HOLD_MAX)
        } else {
            HOLD
        };
        self.known = Some(link);
        self.rate = (link * BELOW).max(self.params.least.as_bps() as f64);
        self.phase = Phase::Follow;
        self.drain = None;
        self.drained = now;
        self.calm_from = now;
        if hard {
            self.counts_from = now;
        }
        self.hold_until = now + self.hold;
        self.jitter.begin();
    }

    /// Gives up a drain: this port did not cause the delay.
    fn give_up(&mut self, drain: Drain) {
        if drain.first.is_some() {
            self.reflectors.raise(drain.least);
        }
        self.deliveries.clear();
        self.drain = None;
        self.phase = Phase::Follow;
        let quiet = self.leave_until + self.leave.times(4) < self.now;
        self.leave = if quiet {
            LEAVE
        } else {
            self.leave.times(2).min(LEAVE_MAX)
        };
        self.leave_until = self.now + self.leave;
        self.counts_from = self.now;
    }

    /// Lets the rate grow under load, and return to the base without load.
    fn move_rate(&mut self, passed: f64) {
        let load = self.load.share();
        let is_idle = load < LOAD_IDLE;
        if is_idle {
            let base = self.params.base.as_bps() as f64;
            self.rate += (base - self.rate) * (DECAY * passed).min(1.0);
        }
        let may = load >= LOAD_HIGH && self.now >= self.hold_until && self.phase == Phase::Follow;
        if !may {
            self.ascent = None;
            return;
        }
        let since = *self.ascent.get_or_insert(self.now);
        let lasted = self.now.since(since).as_secs_f64();
        let most = match self.known {
            Some(_) => GROWTH_MAX,
            None => GROWTH_UNKNOWN,
        };
        let growth = (GROWTH_FIRST + GROWTH_GAIN * lasted).min(most);
        let limit = self.params.most.as_bps() as f64;
        self.rate = (self.rate * (1.0 + growth * passed)).min(limit);
    }

    fn go_blind(&mut self) {
        self.phase = Phase::Blind;
        (self.drain, self.suspect, self.ascent) = (None, None, None);
        self.deliveries.clear();
        self.delays.clear();
        self.rate = self.rate.min(self.params.base.as_bps() as f64);
    }
}

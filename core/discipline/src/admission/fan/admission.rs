//! Whether the link is congested: fair rate and priority load, each measured over its own intervals.
//!
//! ```text
//!   scheduler's sums ──▶ every 500 ms: FR = max(S C, 8 FB) / (t2 - t1)    ┐ congested:
//!                    ──▶ every  50 ms: PL = 8 (pb(t2) - pb(t1)) / C (..)  ┘ FR < min_FR or PL > max_PL
//! ```
//!
//! Source: Domzal et al., equations 1 and 2. For PFQ and PDRR, the fair bytes are the service that a
//! fictitious flow would have received; the scheduler reports them.

use weir_base::{Instant, Rate, Span};

use crate::admission::scheduler::Sums;

/// Measurements and their limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The link's rate C.
    pub(super) link: Rate,
    /// The minimum fair rate, as a share of C.
    pub(super) min_fair_rate: f64,
    /// The maximum priority load, as a share of C.
    pub(super) max_priority_load: f64,
    /// Time between two estimates of the fair rate.
    pub(super) fair_rate_interval: Span,
    /// Time between two estimates of the priority load.
    pub(super) priority_load_interval: Span,
}

/// A measuring interval in progress.
#[derive(Clone, Copy, Debug)]
struct Interval {
    begun: Instant,
    due: Instant,
    sums: Sums,
}

impl Interval {
    fn begin(now: Instant, length: Span, sums: Sums) -> Self {
        Self {
            begun: now,
            due: now + length,
            sums,
        }
    }

    /// The next interval, on the same grid unless the timer is late by more than a whole interval.
    fn next(&self, now: Instant, length: Span, sums: Sums) -> Self {
        let due = self.due + length;
        Self {
            begun: now,
            due: if due > now { due } else { now + length },
            sums,
        }
    }
}

/// The result of an estimate of the fair rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Estimate {
    /// The fair rate is not below its limit.
    Clear,
    /// The fair rate is below its limit.
    Congested,
}

/// The measurement.
#[derive(Debug)]
pub(super) struct Measurement {
    limits: Limits,
    fair: Interval,
    load: Interval,
    /// The fair rate, in bit/s; `None` before the first estimate.
    fair_rate: Option<f64>,
    /// The priority load, as a share of C.
    priority_load: f64,
    /// Whether estimation of the fair rate is stopped, and the rate is assumed to be at its limit.
    held: bool,
    /// Whether nothing was queued or sent in the latest intervals, so that timers stop until a packet arrives.
    asleep: bool,
    /// When the fair rate was last estimated at its limit or above; congestion began after that.
    clear: Instant,
    /// Whether the latest estimate of the fair rate was below its limit.
    below: bool,
}

/// Equation 2: the rate that one flow has received, or could have received, in bits per second.
fn fair_rate(link: Rate, idle: Span, fair_bytes: f64, over: Span) -> f64 {
    let unused = idle.as_secs_f64() * link.as_bps() as f64;
    unused.max(fair_bytes * 8.0) / over.as_secs_f64()
}

/// Equation 1: the share of the link that priority packets took.
fn priority_load(link: Rate, priority_bytes: u64, over: Span) -> f64 {
    priority_bytes as f64 * 8.0 / (link.as_bps() as f64 * over.as_secs_f64())
}

impl Measurement {
    /// Starts measuring at `now`.
    pub(super) fn new(limits: Limits, now: Instant, sums: Sums) -> Self {
        Self {
            fair: Interval::begin(now, limits.fair_rate_interval, sums),
            load: Interval::begin(now, limits.priority_load_interval, sums),
            limits,
            fair_rate: None,
            priority_load: 0.0,
            held: false,
            asleep: true,
            clear: now,
            below: false,
        }
    }

    /// Sets new limits; the estimates are kept.
    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Restarts both intervals, because the sums now come from another scheduler.
    pub(super) fn begin(&mut self, now: Instant, sums: Sums) {
        self.fair = Interval::begin(now, self.limits.fair_rate_interval, sums);
        self.load = Interval::begin(now, self.limits.priority_load_interval, sums);
    }

    /// Called when a packet arrives: restarts measuring, if it had stopped because nothing happened.
    pub(super) fn wake(&mut self, now: Instant, sums: impl FnOnce() -> Sums) {
        if self.asleep {
            self.asleep = false;
            self.clear = now;
            self.begin(now, sums());
        }
    }

    /// When an estimate is due.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let fair = if self.held {
            self.load.due
        } else {
            self.load.due.min(self.fair.due)
        };
        (!self.asleep).then_some(fair)
    }

    /// Makes the estimates that are due. Returns the estimate of the fair rate, if one was made.
    pub(super) fn on_timeout(&mut self, now: Instant, sums: Sums) -> Option<Estimate> {
        if self.asleep {
            return None;
        }
        if self.load.due <= now {
            self.estimate_load(now, sums);
        }
        if self.held || self.fair.due > now {
            return None;
        }
        Some(self.estimate_fair(now, sums))
    }

    fn estimate_load(&mut self, now: Instant, sums: Sums) {
        let over = now.since(self.load.begun);
        if over > Span::ZERO {
            let bytes = sums.priority_bytes - self.load.sums.priority_bytes;
            self.priority_load = priority_load(self.limits.link, bytes, over);
        }
        self.load = self
            .load
            .next(now, self.limits.priority_load_interval, sums);
    }

    fn estimate_fair(&mut self, now: Instant, sums: Sums) -> Estimate {
        let over = now.since(self.fair.begun);
        let idle = sums.idle - self.fair.sums.idle;
        if over > Span::ZERO {
            let fair_bytes = sums.fair_bytes - self.fair.sums.fair_bytes;
            let rate = fair_rate(self.limits.link, idle, fair_bytes, over);
            self.fair_rate = Some(rate);
            self.below = rate < self.least();
        }
        self.asleep = over > Span::ZERO && idle >= over;
        self.fair = self.fair.next(now, self.limits.fair_rate_interval, sums);
        if self.below {
            return Estimate::Congested;
        }
        self.clear = now;
        Estimate::Clear
    }

    fn least(&self) -> f64 {
        self.limits.min_fair_rate * self.limits.link.as_bps() as f64
    }

    /// Sets the fair rate to its limit, and stops estimating it (ECCM, lines 5 and 7 of Figure 4).
    pub(super) fn hold(&mut self) {
        self.held = true;
        self.below = false;
        self.fair_rate = Some(self.least());
    }

    /// Whether the fair rate is held.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Resumes estimation (lines 12 and 13), with an estimate over the time since the last one.
    pub(super) fn resume(&mut self, now: Instant, sums: Sums) -> Estimate {
        self.held = false;
        self.clear = now;
        self.fair.due = now;
        self.estimate_fair(now, sums)
    }

    /// Whether new flows are refused.
    pub(super) fn is_congested(&self) -> bool {
        self.below || self.priority_load > self.limits.max_priority_load
    }

    /// The time since which the fair rate has been below its limit, if it is.
    pub(super) fn below_since(&self) -> Option<Instant> {
        self.below.then_some(self.clear)
    }

    /// The latest fair rate, in bits a second.
    pub(super) fn fair_rate(&self) -> u64 {
        let full = self.limits.link.as_bps() as f64;
        self.fair_rate.unwrap_or(full).round() as u64
    }

    /// The latest priority load, in millionths of the link's rate.
    pub(super) fn priority_load(&self) -> u64 {
        (self.priority_load * 1e6).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Rate = Rate::from_mbps(100);

    fn limits() -> Limits {
        Limits {
            link: LINK,
            min_fair_rate: 0.05,
            max_priority_load: 0.7,
            fair_rate_interval: Span::from_millis(500),
            priority_load_interval: Span::from_millis(50),
        }
    }

    fn sums(priority_bytes: u64, fair_bytes: f64, idle_ms: u64) -> Sums {
        Sums {
            priority_bytes,
            fair_bytes,
            idle: Span::from_millis(idle_ms),
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn equations_by_hand() {
        // 437 500 B in 50 ms: 3.5 Mbit of 5 Mbit.
        assert_eq!(priority_load(LINK, 437_500, Span::from_millis(50)), 0.7);
        // 250 000 B in 0.5 s: 4 Mbit/s; 20 ms unused of 0.5 s: 2 Mbit in 0.5 s.
        let half = Span::from_millis(500);
        let idle = Span::from_millis(20);
        assert_eq!(fair_rate(LINK, idle, 250_000.0, half), 4e6);
        // 30 ms unused: 3 Mbit in 0.5 s is 6 Mbit/s, which is more.
        assert_eq!(fair_rate(LINK, Span::from_millis(30), 250_000.0, half), 6e6);
        assert_eq!(fair_rate(LINK, half, 0.0, half), 1e8);
    }

    #[test]
    fn congestion_comes_with_a_low_fair_rate_and_goes_with_a_high_one() {
        let mut m = Measurement::new(limits(), Instant::ZERO, sums(0, 0.0, 0));
        assert_eq!(m.timeout(), None); // no packet has arrived yet
        m.wake(at(100), || sums(0, 0.0, 100));
        assert_eq!(m.timeout(), Some(at(150)));
        for ms in (150..600).step_by(50) {
            assert_eq!(m.on_timeout(at(ms), sums(0, 0.0, 100)), None);
        }
        // 312 499 B in 0.5 s are 4.999984 Mbit/s, less than 5.
        let low = sums(0, 312_499.0, 100);
        assert_eq!(m.on_timeout(at(600), low), Some(Estimate::Congested));
        assert_eq!(m.fair_rate(), 4_999_984);
        assert!(m.is_congested());
        assert_eq!(m.below_since(), Some(at(100)));
        // Exactly 5 Mbit/s is not below.
        let next = sums(0, 312_499.0 + 312_500.0, 100);
        assert_eq!(m.on_timeout(at(1100), next), Some(Estimate::Clear));
        assert!(!m.is_congested());
        assert_eq!(m.below_since(), None);
    }

    #[test]
    fn priority_load_alone_is_congestion_too() {
        let mut m = Measurement::new(limits(), Instant::ZERO, sums(0, 0.0, 0));
        m.wake(at(0), || sums(0, 0.0, 0));
        m.on_timeout(at(50), sums(437_500, 0.0, 0));
        assert!(!m.is_congested()); // 70 % is not above 70 %
        m.on_timeout(at(100), sums(437_500 + 437_563, 0.0, 0));
        assert!(m.is_congested());
        assert_eq!(m.priority_load(), 700_101);
        assert_eq!(m.below_since(), None);
    }

    #[test]
    fn a_held_fair_rate_is_at_its_limit_until_it_is_estimated_again() {
        let mut m = Measurement::new(limits(), Instant::ZERO, sums(0, 0.0, 0));
        m.wake(at(0), || sums(0, 0.0, 0));
        m.on_timeout(at(500), sums(0, 1000.0, 0));
        assert!(m.is_congested());
        m.hold();
        assert!(!m.is_congested());
        assert_eq!(m.fair_rate(), 5_000_000);
        assert_eq!(m.on_timeout(at(1000), sums(0, 2000.0, 0)), None);
        assert!(m.timeout() > Some(at(1000))); // only the priority load is measured
        // Over all the 0.75 s since the last estimate: 5000 B.
        assert_eq!(m.resume(at(1250), sums(0, 6000.0, 0)), Estimate::Congested);
        assert_eq!(m.fair_rate(), (5000.0 * 8.0 / 0.75_f64).round() as u64);
        assert_eq!(m.below_since(), Some(at(1250)));
        assert_eq!(m.fair.due, at(1750));
    }

    #[test]
    fn an_idle_link_is_not_measured() {
        let mut m = Measurement::new(limits(), Instant::ZERO, sums(0, 0.0, 0));
        m.wake(at(0), || sums(0, 0.0, 0));
        m.on_timeout(at(500), sums(0, 1000.0, 0));
        assert!(m.is_congested());
        assert_eq!(
            m.on_timeout(at(1000), sums(0, 1000.0, 500)),
            Some(Estimate::Clear)
        );
        assert_eq!(m.timeout(), None);
        assert_eq!(m.fair_rate(), 100_000_000);
        m.wake(at(9000), || sums(0, 1000.0, 8500));
        assert_eq!(m.timeout(), Some(at(9050)));
        assert!(!m.is_congested());
    }

    #[test]
    fn a_late_timer_is_not_due_again_at_once() {
        let mut m = Measurement::new(limits(), Instant::ZERO, sums(0, 0.0, 0));
        m.wake(at(0), || sums(0, 0.0, 0));
        m.on_timeout(at(10_000), sums(0, 0.0, 0));
        assert!(m.timeout() > Some(at(10_000)));
        assert!(m.is_congested()); // nothing was served, and the link was not idle
    }
}

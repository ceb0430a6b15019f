//! The course of a value over time: the rate or the delay of a link that changes in steps.
//!
//! ```text
//!   20 Mbit ──┐        ┌── ..        "20 Mbit, 5 Mbit from 10 s, 20 Mbit from 20 s"
//!    5 Mbit   └────────┘
//!             10 s     20 s
//! ```
//!
//! Written `"20 Mbit"` for a value that never changes, with steps as above, or `"sawtooth 2 Mbit to 20 Mbit in 10
//! steps every 30 s"`: ten steps of equal length and height from the first value to the second one, then again from
//! the first. A rate may be an `outage`, during which nothing is sent.
//!
//! A value holds from its time on, that instant included. The number of steps is bounded, and a step takes at least a
//! millisecond.

use std::str::FromStr;
use std::sync::Arc;

use crate::time::{Instant, Span};
use crate::units::{Rate, UnitError};

/// Maximum number of steps: 17 minutes of one step each millisecond.
pub const STEPS_MAX: usize = 1 << 20;
/// Minimum length of a step.
pub const STEP_MIN: Span = Span::from_millis(1);
/// The word for a rate of zero.
const OUTAGE: &str = "outage";

/// A value at every time of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Varying<T> {
    /// Each value and the time from which it applies: the first from zero, at increasing times.
    steps: Arc<[(Span, T)]>,
    /// Time after which the course repeats.
    period: Option<Span>,
}

/// A value that can change over time.
pub trait Level: Copy + Ord + FromStr<Err = UnitError> {
    /// Reads a value, or a keyword of this type.
    fn read(text: &str) -> Result<Self, UnitError>;
    /// The value at `part` of `of` parts of the way to `other`.
    fn towards(self, other: Self, part: u64, of: u64) -> Self;
}

impl Level for Rate {
    fn read(text: &str) -> Result<Self, UnitError> {
        match text.trim() {
            OUTAGE => Ok(Self::from_bps(0)),
            text => text.parse(),
        }
    }

    fn towards(self, other: Self, part: u64, of: u64) -> Self {
        Self::from_bps(between(self.as_bps(), other.as_bps(), part, of))
    }
}

impl Level for Span {
    fn read(text: &str) -> Result<Self, UnitError> {
        text.parse()
    }

    fn towards(self, other: Self, part: u64, of: u64) -> Self {
        Self::from_nanos(between(self.as_nanos(), other.as_nanos(), part, of))
    }
}

fn between(from: u64, to: u64, part: u64, of: u64) -> u64 {
    let way = |length: u64| (u128::from(length) * u128::from(part) / u128::from(of)) as u64;
    if to >= from {
        from + way(to - from)
    } else {
        from - way(from - to)
    }
}

impl<T: Level> Varying<T> {
    /// The same value at all times.
    pub fn constant(value: T) -> Self {
        Self {
            steps: [(Span::ZERO, value)].into(),
            period: None,
        }
    }

    /// The course of these values, each from its time on, repeated after each `period`. The error is a sentence without
    /// a subject.
    pub fn new(steps: Vec<(Span, T)>, period: Option<Span>) -> Result<Self, String> {
        let times = steps.iter().map(|(at, _)| *at);
        if steps.first().is_none_or(|(at, _)| *at > Span::ZERO) {
            return Err("must begin with a value at 0 s".to_owned());
        }
        if steps.len() > STEPS_MAX {
            return Err(format!("has more than {STEPS_MAX} steps"));
        }
        let ends = times.clone().skip(1).chain(period);
        if let Some((at, end)) = times.zip(ends).find(|(at, end)| *end < *at + STEP_MIN) {
            return Err(format!(
                "has {end} after {at}; times must increase by at least {STEP_MIN}"
            ));
        }
        let mut steps = steps;
        steps.dedup_by_key(|(_, value)| *value);
        let period = period.filter(|_| steps.len() > 1);
        let steps = steps.into();
        Ok(Self { steps, period })
    }

    /// `number` steps of equal length and height from one value to another, every `period`.
    pub fn sawtooth(from: T, to: T, number: u64, period: Span) -> Result<Self, String> {
        if !(2..=STEPS_MAX as u64).contains(&number) {
            return Err(format!("must have from 2 to {STEPS_MAX} steps"));
        }
        let step = |n: u64| {
            let at = between(0, period.as_nanos(), n, number);
            (Span::from_nanos(at), from.towards(to, n, number - 1))
        };
        Self::new((0..number).map(step).collect(), Some(period))
    }

    /// The value at `now`, and the time until which it holds; [`Instant::FAR_FUTURE`] if the value no longer changes.
    pub fn piece(&self, now: Instant) -> (T, Instant) {
        let [(_, only)] = &*self.steps else {
            return self.find(now);
        };
        (*only, Instant::FAR_FUTURE)
    }

    fn find(&self, now: Instant) -> (T, Instant) {
        let passed = now.as_nanos();
        let round = self.period.map_or(0, |p| passed - passed % p.as_nanos());
        let within = Span::from_nanos(passed - round);
        let next = self.steps.partition_point(|(at, _)| *at <= within);
        let (_, value) = self.steps[next - 1]; // the first one is at zero
        let end = self.steps.get(next).map(|(at, _)| *at).or(self.period);
        let end = end.map(|end| Instant::from_nanos(round) + end);
        (value, end.unwrap_or(Instant::FAR_FUTURE))
    }

    /// The value at `now`.
    pub fn at(&self, now: Instant) -> T {
        self.piece(now).0
    }

    /// Whether the value never changes.
    pub fn is_constant(&self) -> bool {
        self.steps.len() == 1
    }

    /// The length of the shortest step; [`Span::MAX`] if the value never changes.
    pub fn shortest(&self) -> Span {
        let times = self.steps.iter().map(|(at, _)| *at);
        let ends = times.clone().skip(1).chain(self.period);
        let lengths = times.zip(ends).map(|(at, end)| end - at);
        lengths.min().unwrap_or(Span::MAX)
    }

    /// All values of the course.
    pub fn values(&self) -> impl Iterator<Item = T> {
        self.steps.iter().map(|(_, value)| *value)
    }

    /// The maximum of the course.
    pub fn greatest(&self) -> T {
        let first = self.steps[0].1;
        self.values().fold(first, T::max)
    }
}

/// Work of a link in billionths of a bit (bit/s times ns), so that every product of a rate and a time is exact.
pub type Work = u128;
/// The work of one bit.
pub const BIT: Work = 1_000_000_000;

impl Varying<Rate> {
    /// The work that the link does from `from` to `until`; divided by [`BIT`], the bits that it sends.
    pub fn work(&self, from: Instant, until: Instant) -> Work {
        let (mut now, mut sum) = (from, 0);
        while now < until {
            let (rate, end) = self.piece(now);
            let end = end.min(until);
            sum += Work::from(rate.as_bps()) * Work::from(end.since(now).as_nanos());
            now = end;
        }
        sum
    }

    /// The time at which a link that begins at `start` has done this work, rounded up to the nanosecond, and the
    /// further work that it could have done by then. After an endless outage the time is [`Instant::FAR_FUTURE`].
    pub fn done(&self, start: Instant, work: Work) -> (Instant, Work) {
        let (mut now, mut left) = (start, work);
        while now < Instant::FAR_FUTURE {
            let (rate, end) = self.piece(now);
            let rate = Work::from(rate.as_bps());
            let possible = rate.saturating_mul(Work::from(end.since(now).as_nanos()));
            if possible >= left && rate > 0 {
                let nanos = left.div_ceil(rate);
                return (now + Span::from_nanos(nanos as u64), nanos * rate - left);
            }
            left -= possible;
            now = end;
        }
        (Instant::FAR_FUTURE, 0)
    }

    /// Whether every outage ends.
    pub fn always_returns(&self) -> bool {
        let last = self.steps.last().map(|(_, rate)| rate.as_bps());
        self.period.is_some() || last > Some(0)
    }
}

/// The form of a course with an example, for errors.
pub const EXPECTED: &str = "a value, steps like \"20 Mbit, 5 Mbit from 10 s\", or \"sawtooth 2 Mbit to 20 Mbit in 10 \
                            steps every 30 s\"";

impl<T: Level> FromStr for Varying<T> {
    type Err = String;

    /// The error is a sentence without a subject.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(text) = text.trim().strip_prefix("sawtooth ") {
            return read_sawtooth(text);
        }
        let wrong = |error: UnitError| format!("has {error}");
        let mut steps = Vec::new();
        for step in text.split(',') {
            let (value, at) = match step.split_once(" from ") {
                Some((value, at)) => (value, at.parse().map_err(wrong)?),
                None if steps.is_empty() => (step, Span::ZERO),
                None => {
                    return Err(format!(
                        "has \"{}\" without a time; every step after the first needs one, like \"{} from 10 s\"",
                        step.trim(),
                        step.trim()
                    ));
                }
            };
            steps.push((at, T::read(value.trim()).map_err(wrong)?));
        }
        Self::new(steps, None)
    }
}

/// Reads `2 Mbit to 20 Mbit in 10 steps every 30 s`.
fn read_sawtooth<T: Level>(text: &str) -> Result<Varying<T>, String> {
    let parts = || {
        let (from, rest) = text.split_once(" to ")?;
        let (to, rest) = rest.split_once(" in ")?;
        let (number, period) = rest.split_once(" steps every ")?;
        Some((from, to, number.trim().parse().ok()?, period))
    };
    let wrong = |error: UnitError| format!("has {error}");
    let Some((from, to, number, period)) = parts() else {
        return Err(format!("must be {EXPECTED}"));
    };
    let [from, to] = [from, to].map(|value| T::read(value.trim()).map_err(wrong));
    Varying::sawtooth(from?, to?, number, period.parse().map_err(wrong)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn course(text: &str) -> Varying<Rate> {
        text.parse().unwrap()
    }

    fn ms(n: u64) -> Instant {
        Instant::ZERO + Span::from_millis(n)
    }

    #[test]
    fn a_value_holds_from_its_instant_on() {
        let steps = course("20 Mbit, 5 Mbit from 10 s, outage from 20 s");
        let at = |millis| {
            let (rate, until) = steps.piece(ms(millis));
            (rate.as_bps() / 1_000_000, until)
        };
        assert_eq!(at(0), (20, ms(10_000)));
        assert_eq!(at(9_999), (20, ms(10_000)));
        assert_eq!(at(10_000), (5, ms(20_000)));
        assert_eq!(at(20_000), (0, Instant::FAR_FUTURE));
    }

    #[test]
    fn a_sawtooth_rises_and_falls_back() {
        let tooth = course("sawtooth 2 Mbit to 8 Mbit in 4 steps every 2 s");
        let at = |millis| tooth.at(ms(millis)).as_bps() / 1_000_000;
        let values: Vec<u64> = (0..9).map(|n| at(250 * n)).collect();
        assert_eq!(values, [2, 2, 4, 4, 6, 6, 8, 8, 2]);
        assert_eq!(at(2_000_000 + 1_999), 8);
        let falls: Varying<Span> = "sawtooth 30 ms to 10 ms in 2 steps every 1 s"
            .parse()
            .unwrap();
        assert_eq!(falls.at(ms(500)), Span::from_millis(10));
    }

    #[test]
    fn a_frame_ends_at_the_rates_that_hold_while_it_is_sent() {
        // 12 000 bit: 1 ms at 6 Mbit/s sends half of them, then 2 ms of outage, then 3 ms at 2 Mbit/s.
        let steps = course("6 Mbit, outage from 1 ms, 2 Mbit from 3 ms");
        assert_eq!(steps.done(ms(0), 12_000 * BIT), (ms(6), 0));
        assert_eq!(steps.work(ms(0), ms(6)), 12_000 * BIT);
        let never = course("6 Mbit, outage from 1 ms");
        assert_eq!(never.done(ms(0), 12_000 * BIT).0, Instant::FAR_FUTURE);
        assert!(!never.always_returns() && steps.always_returns());
    }

    #[test]
    fn wrong_courses_are_told_apart() {
        let error = |text: &str| text.parse::<Varying<Rate>>().unwrap_err();
        assert!(error("1 Mbit, 2 Mbit").contains("\"2 Mbit\" without a time"));
        assert!(error("1 Mbit from 1 s").contains("begin with a value at 0 s"));
        let back = error("1 Mbit, 2 Mbit from 2 s, 3 Mbit from 1 s");
        assert!(
            back.contains("1 s after 2 s; times must increase"),
            "{back}"
        );
        assert!(error("1 Mb").contains("\"1 Mb\" is not a rate"));
        assert!(error("sawtooth 1 Mbit to 2 Mbit").contains("must be a value, steps like"));
        let fast = error("sawtooth 1 Mbit to 2 Mbit in 9 steps every 1 ms");
        assert!(fast.contains("at least 1 ms"), "{fast}");
        assert!("outage".parse::<Varying<Span>>().is_err());
    }

    proptest! {
        /// The end of a transmission is the first nanosecond up to which the link can do the work.
        #[test]
        fn work_is_done_when_it_is_possible(
            steps in prop::collection::vec((1_u64..50, 0_u64..40_000_000), 1..8),
            repeats: bool,
            start in 0_u64..300_000_000,
            bits in 1_u64..2_000_000,
        ) {
            let mut at = 0;
            let steps: Vec<_> = steps.into_iter().map(|(gap, bps)| {
                let step = (Span::from_millis(at), Rate::from_bps(bps));
                at += gap;
                step
            }).collect();
            let course = Varying::new(steps, repeats.then_some(Span::from_millis(at))).unwrap();
            prop_assume!(course.values().any(|rate| rate.as_bps() > 0));
            let start = Instant::from_nanos(start);
            let work = Work::from(bits) * BIT;
            let (end, spare) = course.done(start, work);
            if end < Instant::FAR_FUTURE {
                prop_assert_eq!(course.work(start, end), work + spare);
                prop_assert!(course.work(start, end.before(Span::from_nanos(1))) < work);
            } else {
                prop_assert!(!course.always_returns());
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = text.parse::<Varying<Rate>>();
        }
    }
}

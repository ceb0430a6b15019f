//! Instants and spans in integer nanoseconds.
//!
//! An [`Instant`] counts from an epoch that the habitat chooses: the start of the run in sim, the
//! kernel's monotonic clock in live. Both types can hold 584 years. Arithmetic saturates, so that a
//! peer's clock or a hostile parameter cannot make a router panic.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in time: nanoseconds since the habitat's epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Instant {
    /// The epoch itself.
    pub const ZERO: Self = Self(0);
    /// Later than any event: "never".
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time passed since `earlier`, zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// This instant moved back by `span`, not before the epoch.
    pub const fn before(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of whole nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of whole microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A span of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A span of whole seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The nearest span to `secs` seconds; negative and not-a-number give zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9).round() as u64) // a float-to-int cast saturates, and maps NaN to 0
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds, as a real number.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This span multiplied by `factor`.
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// Number of steps of this length that cover the span.
    pub const fn steps(self, step: Self) -> usize {
        self.0.div_ceil(step.0) as usize
    }
}

impl Add<Span> for Instant {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Instant {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Span {
    /// Prints in the largest unit in which the value is at least 1: `1500 us` as `1.5 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0 => return f.write_str("0 s"),
            n if n >= 1_000_000_000 => (1e9, "s"),
            n if n >= 1_000_000 => (1e6, "ms"),
            n if n >= 1_000 => (1e3, "us"),
            _ => (1.0, "ns"),
        };
        write!(f, "{} {name}", self.0 as f64 / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_instant_gives_no_negative_span() {
        let (a, b) = (Instant::from_nanos(5), Instant::from_nanos(9));
        assert_eq!(b.since(a), Span::from_nanos(4));
        assert_eq!(a.since(b), Span::ZERO);
    }

    #[test]
    fn never_plus_anything_is_never() {
        assert_eq!(
            Instant::FAR_FUTURE + Span::from_secs(1),
            Instant::FAR_FUTURE
        );
    }

    #[test]
    fn spans_print_in_their_natural_unit() {
        assert_eq!(Span::from_micros(1500).to_string(), "1.5 ms");
        assert_eq!(Span::from_nanos(100).to_string(), "100 ns");
        assert_eq!(Span::from_secs(60).to_string(), "60 s");
    }
}

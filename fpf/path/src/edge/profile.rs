//! Traffic profiles: how much a flow may send over its path.
//!
//! ```text
//!  policed   packet -- tokens for its bytes? --> sent             no: dropped (`policed`)
//!  shaped    packet --> queue --> its rate --> sent              beyond the queue's limit: dropped (`fpf-queue-full`)
//! ```
//!
//! Source: Beben et al., section III.B ("traffic profile, etc. .. used for traffic policing, shaping").
//!
//! A policed rule has its own token bucket, that of [`weir_discipline::channel::token_bucket`] with a single rate. A
//! shaped rule has its own queue, one of the [`Shapers`](crate::edge::shaper::Shapers).

use weir_base::{Bytes, Instant, Rate};
use weir_discipline::channel::token_bucket::{Gate, Limits};

/// Minimum depth of a bucket: one full Ethernet frame, because such a frame would never pass a smaller bucket.
pub const BURST_MIN: Bytes = Bytes(1514);
/// Maximum depth of a bucket.
pub const BURST_MAX: Bytes = Bytes(100_000_000);

/// Maximum packets that wait in a queue of a shaped rule.
pub const WAITING_MAX: usize = 62_500;

/// The traffic profile of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Packets beyond a rate are dropped.
    Policed(Police),
    /// Packets beyond a rate wait.
    Shaped(Shape),
}

/// The rate at which packets pass; checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Police {
    rate: Rate,
    burst: Bytes,
}

/// The rate at which packets leave, and how many may wait; checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    rate: Rate,
    limit: usize,
}

/// Why a profile is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The rate is out of range.
    #[error("the rate is {0}, but must be from 1 bit/s to {max}", max = Rate::PARAMETER_MAX)]
    Rate(Rate),
    /// The burst is out of range.
    #[error("the burst is {0}, but must be from {BURST_MIN} to {BURST_MAX}")]
    Burst(Bytes),
    /// The number of packets that may wait is out of range.
    #[error("the queue limit is {0} packets, but must be from 1 to {WAITING_MAX}")]
    Waiting(usize),
}

impl Police {
    /// A bucket that fills at `rate` and holds `burst`.
    pub fn new(rate: Rate, burst: Bytes) -> Result<Self, ProfileError> {
        check(rate)?;
        if !(BURST_MIN..=BURST_MAX).contains(&burst) {
            return Err(ProfileError::Burst(burst));
        }
        Ok(Self { rate, burst })
    }

    /// The rate at which the bucket fills.
    pub fn rate(self) -> Rate {
        self.rate
    }

    /// Bytes that may pass at once.
    pub fn burst(self) -> Bytes {
        self.burst
    }

    /// A full bucket.
    pub(super) fn gate(self, now: Instant) -> Gate {
        Gate::new(self.limits(), now)
    }

    /// The limits of a bucket with a single rate.
    pub(super) fn limits(self) -> Limits {
        Limits {
            flow_control: true,
            committed: self.rate,
            excess: self.rate,
            burst: self.burst,
        }
    }
}

impl Shape {
    /// A queue of at most `limit` packets that sends at `rate`.
    pub fn new(rate: Rate, limit: usize) -> Result<Self, ProfileError> {
        check(rate)?;
        if (1..=WAITING_MAX).contains(&limit) {
            Ok(Self { rate, limit })
        } else {
            Err(ProfileError::Waiting(limit))
        }
    }

    /// The rate at which packets leave.
    pub fn rate(self) -> Rate {
        self.rate
    }

    /// Maximum packets that wait.
    pub fn limit(self) -> usize {
        self.limit
    }
}

fn check(rate: Rate) -> Result<(), ProfileError> {
    if rate == Rate::from_bps(0) || rate > Rate::PARAMETER_MAX {
        Err(ProfileError::Rate(rate))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Span;

    #[test]
    fn a_bucket_passes_its_burst_and_then_its_rate() {
        // 8 kbit/s fill a byte each millisecond.
        let police = Police::new(Rate::from_bps(8000), Bytes(2000)).unwrap();
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let mut gate = police.gate(at(0));
        assert!(gate.passes(at(0), 2000));
        assert!(!gate.passes(at(499), 500));
        assert!(gate.passes(at(500), 500));
    }

    #[test]
    fn a_profile_that_passes_nothing_is_refused() {
        let error = |bits, bytes| {
            let error = Police::new(Rate::from_bps(bits), Bytes(bytes));
            error.unwrap_err().to_string()
        };
        assert_eq!(
            error(0, 2000),
            "the rate is 0 bit, but must be from 1 bit/s to 1000 Gbit"
        );
        assert_eq!(
            error(1000, 1513),
            "the burst is 1513 B, but must be from 1514 B to 100 MB"
        );
        assert_eq!(
            Shape::new(Rate::from_bps(1000), 0).unwrap_err().to_string(),
            "the queue limit is 0 packets, but must be from 1 to 62500"
        );
    }
}

//! A probability, compared with a draw in whole numbers.

/// A probability as a share of `2^53`, which a double holds exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The share of certainty.
    pub(crate) const ONE: u64 = 1 << 53;

    /// From a probability of 0 (never) to 1 (always).
    pub(crate) fn new(probability: f64) -> Self {
        Self((probability * Self::ONE as f64) as u64)
    }

    /// From a share of [`ONE`](Self::ONE).
    pub(crate) fn of(share: u64) -> Self {
        Self(share)
    }

    /// The share of [`ONE`](Self::ONE).
    pub(crate) fn share(self) -> u64 {
        self.0
    }

    /// Whether it happens, for a `draw` from all of `u64`.
    pub(crate) fn happens(self, draw: u64) -> bool {
        draw >> 11 < self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_always_and_half() {
        assert!(!Chance::new(0.0).happens(0));
        assert!(Chance::new(1.0).happens(u64::MAX));
        assert!(Chance::new(0.5).happens((1 << 63) - 1));
        assert!(!Chance::new(0.5).happens(1 << 63));
    }
}

//! A probability, compared with a random draw as integers.

/// A probability as a share of `2^53`, which a double holds exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chance(u64);

impl Chance {
    /// The share that means certainty.
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

    /// The chance of taking our packet, of two, so that our packets get this share of the bytes: the longer a
    /// packet, the less often it is taken. Equal lengths do not change the chance.
    pub(crate) fn by_bytes(self, ours: u64, theirs: u64) -> Self {
        if ours == theirs {
            return self;
        }
        let for_us = self.0 as f64 * theirs as f64;
        let for_them = (Self::ONE - self.0) as f64 * ours as f64;
        Self::new(for_us / (for_us + for_them))
    }

    /// Whether the event happens, for a `draw` from the whole range of `u64`.
    pub(crate) fn happens(self, draw: u64) -> bool {
        draw >> 11 < self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_bytes_by_hand() {
        // 60 B against 1514 B: .5 * 1514 / (.5 * 1514 + .5 * 60) = .961 880 559 085.
        let chance = |p, ours, theirs| {
            let chance = Chance::new(p).by_bytes(ours, theirs);
            chance.share() as f64 / Chance::ONE as f64
        };
        assert!((chance(0.5, 60, 1514) - 0.961_880_559_085).abs() < 1e-12);
        assert!((chance(0.8, 1000, 500) - 2.0 / 3.0).abs() < 1e-12); // 400 / (400 + 200)
        assert_eq!((chance(0.0, 60, 1514), chance(1.0, 1514, 60)), (0.0, 1.0));
        let p = Chance::new(0.7);
        assert_eq!(p.by_bytes(1000, 1000), p);
    }

    #[test]
    fn never_always_and_half() {
        assert!(!Chance::new(0.0).happens(0));
        assert!(Chance::new(1.0).happens(u64::MAX));
        assert!(Chance::new(0.5).happens((1 << 63) - 1));
        assert!(!Chance::new(0.5).happens(1 << 63));
    }
}

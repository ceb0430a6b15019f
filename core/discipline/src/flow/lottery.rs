//! Decides whether a packet of an uncached flow admits its flow to the flow cache: with a fixed or an
//! adaptive probability.
//!
//! ```text
//!   silence of the entry at the bottom, in turns, when it is replaced
//!      < 100 n   useless flows push useful ones out: the probability falls
//!     >= 100 n   nobody lost a useful place:         the probability grows
//!
//!   1/200 <= p <= 1; while the cache is not full, every miss is admitted
//! ```
//!
//! A *turn* is a packet whose flow differs from that of the packet before it, so that a train of packets
//! counts only once in the silence of other flows. A flow with a share `s` of the turns is silent for
//! `m` of them with probability `e^-sm`: with `m = 100 n`, a flow with `s = 1 / (20 n)` leaves a cache
//! of `n` entries once in `e^5 = 150` of its own turns. Hogs need far less patience; it is about enough
//! to keep the n/3 largest flows of a link with a long tail of small flows.
//!
//! Source: our own. The paper has a fixed probability (Achanta and Reddy, ICC 2004, section II.A).

use crate::parts::chance::Chance;

/// How a miss is admitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// With this probability.
    Fixed(f64),
    /// With a probability that adapts so that an unused entry is kept for 100 turns per entry of the cache.
    Adaptive,
}

/// Turns, per entry of the cache, for which an entry should be kept although its flow sends no packet.
const PATIENCE: u64 = 100;
/// The minimum of an adaptive probability. It bounds the effect of a flood of new flows: a hog is admitted
/// after 200 of its packets on average, whatever others send.
const LEAST: u64 = Chance::ONE / 200;

/// The rule, and the probability that it has learnt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lottery {
    rule: Rule,
    chance: Chance,
    /// Entries of the cache.
    flows: u64,
}

impl Lottery {
    /// A lottery for a cache of this many flows. An adaptive probability starts at 1.
    pub(crate) fn new(rule: Rule, flows: usize) -> Self {
        let chance = match rule {
            Rule::Fixed(probability) => Chance::new(probability),
            Rule::Adaptive => Chance::new(1.0),
        };
        Self {
            rule,
            chance,
            flows: flows as u64,
        }
    }

    /// Sets the rule and the size of the cache. The same rule keeps its probability; a new rule starts over.
    pub(crate) fn renew(&mut self, rule: Rule, flows: usize) {
        let learnt = self.chance;
        let adapts = |rule| rule == Rule::Adaptive;
        let keeps = adapts(self.rule) && adapts(rule);
        *self = Self::new(rule, flows);
        if keeps {
            self.chance = learnt;
        }
    }

    /// Whether the flow of a miss is admitted, for a `draw` from the whole range of `u64`.
    pub(crate) fn admits(&self, draw: u64, full: bool) -> bool {
        let free = self.rule == Rule::Adaptive && !full;
        free || self.chance.happens(draw)
    }

    /// Adapts after the entry at the bottom was replaced, `silence` turns after the last packet of its flow.
    pub(crate) fn replaced(&mut self, silence: u64) {
        if self.rule != Rule::Adaptive {
            return;
        }
        // The fall from 1 to the minimum takes 5.3 sqrt(n) replacements: a small part of a large cache.
        let step = self.chance.share() >> (self.flows.ilog2() / 2).max(1);
        let share = if silence < PATIENCE * self.flows {
            self.chance.share() - step
        } else {
            self.chance.share() + step
        };
        self.chance = Chance::of(share.clamp(LEAST, Chance::ONE));
    }

    /// The current probability, in millionths.
    pub(crate) fn millionths(&self) -> u64 {
        let share = u128::from(self.chance.share()) * 1_000_000;
        (share / u128::from(Chance::ONE)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A draw that wins at a probability above `x`, and loses at `x` and below.
    fn draw(x: f64) -> u64 {
        ((x * Chance::ONE as f64) as u64) << 11
    }

    #[test]
    fn a_fixed_probability_never_changes() {
        let mut lottery = Lottery::new(Rule::Fixed(0.02), 64);
        for silence in [0, 10, 1_000_000] {
            lottery.replaced(silence);
            assert_eq!(lottery.millionths(), 20_000 - 1); // 0.02 is rounded down to a whole share
        }
        assert!(lottery.admits(draw(0.019), true) && !lottery.admits(draw(0.021), false));
    }

    #[test]
    fn a_cache_with_room_admits_everybody() {
        let mut lottery = Lottery::new(Rule::Adaptive, 64);
        assert!(lottery.admits(u64::MAX, true)); // the probability starts at 1
        (0..100).for_each(|_| lottery.replaced(0));
        assert!(lottery.admits(u64::MAX, false));
        assert!(!lottery.admits(u64::MAX, true));
    }

    #[test]
    fn it_moves_by_an_eighth_for_64_entries() {
        // log2 64 / 2 = 3, so a step is 1/8: 1 -> 0.875 -> 0.984375; 64 entries keep for 6400 turns.
        let mut lottery = Lottery::new(Rule::Adaptive, 64);
        lottery.replaced(6399);
        assert_eq!(lottery.millionths(), 875_000);
        lottery.replaced(6400);
        assert_eq!(lottery.millionths(), 984_375);
        lottery.replaced(6400);
        assert_eq!(lottery.millionths(), 1_000_000); // 1.107..., but at most 1
    }

    #[test]
    fn a_flood_cannot_push_it_below_the_least() {
        // (7/8)^39 = 1/183, (7/8)^40 = 1/209: forty replacements of 64 entries reach 1/200.
        let mut lottery = Lottery::new(Rule::Adaptive, 64);
        (0..39).for_each(|_| lottery.replaced(0));
        assert!(lottery.millionths() > 5_000);
        (0..1000).for_each(|_| lottery.replaced(0));
        assert_eq!(lottery.millionths(), 4_999);
        // The probability recovers: (9/8)^45 = 200.5.
        (0..45).for_each(|_| lottery.replaced(u64::MAX));
        assert_eq!(lottery.millionths(), 1_000_000);
    }

    #[test]
    fn small_caches_halve_it_and_large_ones_hardly_move_it() {
        for (flows, after) in [
            (1, 500_000),
            (12, 500_000),
            (16, 750_000),
            (65_536, 996_093),
        ] {
            let mut lottery = Lottery::new(Rule::Adaptive, flows);
            lottery.replaced(0);
            assert_eq!(lottery.millionths(), after, "{flows}");
        }
    }

    #[test]
    fn what_was_learnt_outlives_a_new_size_but_not_a_new_rule() {
        let mut lottery = Lottery::new(Rule::Adaptive, 64);
        lottery.replaced(0);
        lottery.renew(Rule::Adaptive, 128);
        assert_eq!(lottery.millionths(), 875_000);
        lottery.renew(Rule::Fixed(0.5), 128);
        assert_eq!(lottery.millionths(), 500_000);
        lottery.renew(Rule::Adaptive, 128);
        assert_eq!(lottery.millionths(), 1_000_000);
    }
}

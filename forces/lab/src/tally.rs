//! The counts of the load test on the FEs' side, and the numbers that follow from them.

use serde::{Deserialize, Serialize};
use weir_base::statistics::{mean, percentile};

/// Maximum recorded delay in microseconds; longer delays count as this one.
const DELAY_US_MAX: u64 = u32::MAX as u64;

/// The counts of one FE, or of several together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// Number of messages that were due.
    pub(crate) offered: u64,
    /// Number of messages that were refused, because too many waited for credit.
    pub(crate) refused: u64,
    /// Number of messages that were answered in time.
    pub(crate) delivered: u64,
    /// Time from handing a message to the transport to its answer, in microseconds.
    pub(crate) delays_us: Vec<u32>,
    /// Number of messages in flight, at equal steps of time.
    pub(crate) on_their_way: Vec<u64>,
}

impl Tally {
    /// Counts an answer that arrived after this many nanoseconds.
    pub(crate) fn deliver(&mut self, delay_ns: u64) {
        self.delivered += 1;
        let delay_us = (delay_ns / 1000).min(DELAY_US_MAX);
        self.delays_us.push(delay_us as u32);
    }

    /// Adds the counts of another FE.
    pub(crate) fn add(&mut self, other: Self) {
        self.offered += other.offered;
        self.refused += other.refused;
        self.delivered += other.delivered;
        self.delays_us.extend(other.delays_us);
        let steps = self.on_their_way.len().max(other.on_their_way.len());
        self.on_their_way.resize(steps, 0);
        let pairs = self.on_their_way.iter_mut().zip(other.on_their_way);
        pairs.for_each(|(sum, own)| *sum += own);
    }

    /// The report of these counts.
    pub(crate) fn report(mut self) -> FeReport {
        self.delays_us.sort_unstable();
        let delays: Vec<f64> = self
            .delays_us
            .iter()
            .map(|us| f64::from(*us) / 1e3)
            .collect();
        FeReport {
            offered: self.offered,
            refused: self.refused,
            delivered: self.delivered,
            delay_ms_mean: mean(&delays),
            delay_ms_p50: percentile(&delays, 0.5),
            delay_ms_p99: percentile(&delays, 0.99),
            growth: growth(&self.on_their_way),
        }
    }
}

/// Growth of the number of messages in flight, from the second quarter of the time to the last.
fn growth(on_their_way: &[u64]) -> f64 {
    let quarter = on_their_way.len() / 4;
    let of = |from: usize| {
        let part = on_their_way.get(from * quarter..(from + 1) * quarter);
        let values: Vec<f64> = part.unwrap_or_default().iter().map(|n| *n as f64).collect();
        mean(&values).unwrap_or(0.0)
    };
    of(3) - of(1)
}

/// The report of the FEs of a load test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FeReport {
    /// Number of messages that were due.
    pub(crate) offered: u64,
    /// Number of messages that were refused, because too many waited for credit.
    pub(crate) refused: u64,
    /// Number of messages that were answered in time.
    pub(crate) delivered: u64,
    /// Mean delay; `None` if nothing was delivered.
    pub(crate) delay_ms_mean: Option<f64>,
    /// Median delay.
    pub(crate) delay_ms_p50: Option<f64>,
    /// 99th percentile of the delays.
    pub(crate) delay_ms_p99: Option<f64>,
    /// Growth of the number of messages in flight, from the second quarter of the time to the last.
    pub(crate) growth: f64,
}

impl FeReport {
    /// The share of the offered messages that were not delivered.
    pub(crate) fn loss_ratio(&self) -> f64 {
        match self.offered {
            0 => 0.0,
            offered => 1.0 - self.delivered as f64 / offered as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up() {
        let mut sum = Tally::default();
        for fe in 0..2 {
            let mut one = Tally {
                offered: 10,
                refused: fe,
                on_their_way: vec![0, 1, 1, 2, 3, 4, 5, 6],
                ..Tally::default()
            };
            (1..=4).for_each(|ms| one.deliver(ms * 1_000_000));
            sum.add(one);
        }
        let report = sum.report();
        assert_eq!(
            (report.offered, report.refused, report.delivered),
            (20, 1, 8)
        );
        assert_eq!(report.loss_ratio(), 0.6);
        assert_eq!(report.delay_ms_mean, Some(2.5));
        assert_eq!(
            (report.delay_ms_p50, report.delay_ms_p99),
            (Some(2.0), Some(4.0))
        );
        // Each grows from 1.5 to 5.5.
        assert_eq!(report.growth, 8.0);
    }

    #[test]
    fn nothing_is_no_delay() {
        let report = Tally::default().report();
        assert_eq!((report.delay_ms_mean, report.loss_ratio()), (None, 0.0));
    }
}

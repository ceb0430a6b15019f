//! Means, intervals, percentiles, fairness.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

/// One metric over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Mean of the runs.
    pub mean: f64,
    /// Half of the 95 % interval of the mean (Student's t); `None` for a single run.
    pub ci95: Option<f64>,
    /// Median of the runs.
    pub median: f64,
    /// An interval that contains the median with a confidence of at least 95 %, for any distribution: from one run's
    /// value to another's; `None` for fewer than six runs.
    #[serde(default)]
    pub median_ci95: Option<[f64; 2]>,
    /// Number of runs.
    pub n: usize,
}

impl Summary {
    /// The summary of these values; `None` if empty.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mean = mean(values)?;
        let n = values.len();
        let ci95 = StudentsT::new(0.0, 1.0, n as f64 - 1.0).ok().map(|t| {
            let error = deviation(values).unwrap_or(0.0) / (n as f64).sqrt();
            t.inverse_cdf(0.975) * error
        });
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            mean,
            ci95: ci95.filter(|x| x.is_finite()),
            median: (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
            median_ci95: median_ranks(n).map(|[low, high]| [sorted[low], sorted[high]]),
            n,
        })
    }
}

/// The ranks in `n` sorted values between which the median lies with a confidence of at least 95 %; `None` if even
/// the minimum and the maximum do not suffice (David and Nagaraja, Order Statistics, section 7.1).
fn median_ranks(n: usize) -> Option<[usize; 2]> {
    let below = Binomial::new(0.5, n as u64).ok()?;
    let outside = |low: &usize| below.cdf(*low as u64) > 0.025;
    let low = (0..n).find(outside)?.checked_sub(1)?;
    Some([low, n - 1 - low])
}

/// The arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    (!values.is_empty()).then(|| sum / values.len() as f64)
}

/// The standard deviation of a sample; `None` for fewer than two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() as f64 - 1.0)).sqrt())
}

/// The smallest value that at least the share `p` of all values does not exceed (nearest rank).
pub fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let rank = (p * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The slope of the best-fitting line, per step; `None` for fewer than two values.
pub fn slope(values: &[f64]) -> Option<f64> {
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let x = |place: usize| place as f64 - middle;
    let square: f64 = (0..values.len()).map(|n| x(n) * x(n)).sum();
    let sum: f64 = values.iter().enumerate().map(|(n, y)| x(n) * y).sum();
    (square > 0.0).then(|| sum / square)
}

/// Jain's index: 1 if all values are equal, 1/n if only one value is not zero.
pub fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    #[test]
    fn a_summary_by_hand() {
        // 1, 2, 3, 4: mean 2.5, s = sqrt(5/3) = 1.29099, t(3, 97.5 %) = 3.18245;
        // 3.18245 * 1.29099 / 2 = 2.0543.
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert!(near(summary.mean, 2.5) && near(summary.median, 2.5));
        assert!(near(summary.ci95.unwrap(), 2.0543), "{summary:?}");
        let single = Summary::of(&[7.0]).unwrap();
        assert_eq!((single.mean, single.ci95, single.median), (7.0, None, 7.0));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn the_medians_interval_is_from_one_value_to_another() {
        // For six values the median lies outside all of them with probability 2 / 2^6 = 3.1 %; for five with 6.3 %. For
        // ten it lies below the second or above the ninth with probability 2 * (1 + 10) / 2^10 = 2.1 %.
        assert_eq!(
            [0, 1, 5, 6].map(median_ranks),
            [None, None, None, Some([0, 5])]
        );
        assert_eq!(median_ranks(10), Some([1, 8]));
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(Summary::of(&values).unwrap().median_ci95, Some([2.0, 9.0]));
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&sorted, 0.5), Some(50.0));
        assert_eq!(percentile(&sorted, 0.99), Some(99.0));
        assert_eq!(percentile(&[3.0], 0.99), Some(3.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn slope_by_hand() {
        assert_eq!(slope(&[1.0, 3.0, 5.0]), Some(2.0));
        // x = -1.5, -.5, .5, 1.5: (1.5 + .5 * 0 + 0 + 4.5) / 5.
        assert_eq!(slope(&[-1.0, 0.0, 0.0, 3.0]), Some(1.2));
        assert_eq!(slope(&[1.0]), None);
    }

    #[test]
    fn fairness_by_hand() {
        assert_eq!(jain(&[2.0, 2.0, 2.0, 2.0]), Some(1.0));
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        // (1 + 2 + 3)^2 / (3 * 14) = 36/42
        assert!(near(jain(&[1.0, 2.0, 3.0]).unwrap(), 36.0 / 42.0));
        assert_eq!(jain(&[0.0]), None);
    }
}

//! The summary of a metric over several runs.

use serde::{Deserialize, Serialize};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};
use weir_base::statistics::{deviation, mean};

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
}

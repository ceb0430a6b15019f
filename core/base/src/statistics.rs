//! Means, deviations, percentiles, slopes, fairness.

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
        assert!((jain(&[1.0, 2.0, 3.0]).unwrap() - 36.0 / 42.0).abs() < 1e-9);
        assert_eq!(jain(&[0.0]), None);
    }
}

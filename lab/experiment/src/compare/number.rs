//! Means of runs with different seeds, and half of their 95 % intervals, as text.

use crate::statistics::Summary;

/// The mean with about `digits` digits, and half of its interval with the same number of decimals: `518 ± 35`. Numbers
/// below one get `digits` decimals. A single run has no interval, so the text has only the mean.
pub fn shown(summary: &Summary, digits: usize) -> String {
    match summary.ci95 {
        Some(_) => with_half(summary, digits),
        None => format!("{:.*}", decimals(summary.mean, digits), summary.mean),
    }
}

/// Like [`shown`], with a half of zero for a single run.
pub fn with_half(summary: &Summary, digits: usize) -> String {
    let decimals = decimals(summary.mean, digits);
    let (mean, half) = (summary.mean, summary.ci95.unwrap_or(0.0));
    format!("{mean:.decimals$} ± {half:.decimals$}")
}

/// The number of decimals: `digits`, less one for each digit before the point.
pub(super) fn decimals(x: f64, digits: usize) -> usize {
    let before = match x.abs() {
        x if x >= 1000.0 => 4,
        x if x >= 100.0 => 3,
        x if x >= 10.0 => 2,
        x if x >= 1.0 => 1,
        _ => 0,
    };
    digits.saturating_sub(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_by_the_mean() {
        let of = |values: &[f64]| Summary::of(values).unwrap();
        let all = of(&[1.0, 2.0, 3.0]);
        assert_eq!(with_half(&all, 4), "2.000 ± 2.484");
        assert_eq!(shown(&all, 2), "2.0 ± 2.5");
        let single = of(&[517.8]);
        assert_eq!(
            [shown(&single, 3), with_half(&single, 3)],
            ["518", "518 ± 0"]
        );
        assert_eq!(shown(&of(&[0.1168]), 3), "0.117");
    }
}

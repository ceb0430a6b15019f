//! Means of runs with different seeds, as text.

use weir_lab::statistics::Summary;

/// The summary of these values; `None` without values.
pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Summary> {
    Summary::of(&values.collect::<Vec<_>>())
}

/// Half of the 95 % interval; zero for a single run.
pub(crate) fn half(summary: &Summary) -> f64 {
    summary.ci95.unwrap_or(0.0)
}

/// The mean with about four digits, and the half with as many decimals.
pub(crate) fn shown(summary: &Summary) -> String {
    with_decimals(summary, 4)
}

/// The same with about two digits.
pub(crate) fn shown_short(summary: &Summary) -> String {
    with_decimals(summary, 2)
}

/// Numbers below one get `most` decimals; larger ones get one less for each digit before the point.
fn with_decimals(summary: &Summary, most: usize) -> String {
    let (mean, half) = (summary.mean, half(summary));
    let digits = match mean.abs() {
        x if x >= 1000.0 => 4,
        x if x >= 100.0 => 3,
        x if x >= 10.0 => 2,
        x if x >= 1.0 => 1,
        _ => 0,
    };
    let decimals = most.saturating_sub(digits);
    format!("{mean:.decimals$} ± {half:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_by_the_mean() {
        let text = |values: [f64; 3], shown: fn(&Summary) -> String| {
            of(values.into_iter()).map(|summary| shown(&summary))
        };
        let both = [shown, shown_short].map(|shown| text([1.0, 2.0, 3.0], shown));
        assert_eq!(
            both,
            ["2.000 ± 2.484", "2.0 ± 2.5"].map(|t| Some(t.to_owned()))
        );
        assert_eq!(of([].into_iter()), None);
    }
}

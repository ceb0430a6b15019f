//! Means of runs with different seeds.

/// A mean with the half of its 95 % interval.
pub(crate) struct Summary {
    pub(crate) mean: f64,
    pub(crate) half: f64,
}

impl Summary {
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        let half = match values.len() {
            0 => return None,
            1 => 0.0,
            count => student(count - 1) * (squares / (n - 1.0) / n).sqrt(),
        };
        Some(Self { mean, half })
    }

    /// The mean with about four digits, and the half with as many decimals.
    pub(crate) fn shown(&self) -> String {
        self.with_decimals(4)
    }

    /// The same with about two digits.
    pub(crate) fn shown_short(&self) -> String {
        self.with_decimals(2)
    }

    /// Of numbers below one, `most` decimals; one less for each digit before the point.
    fn with_decimals(&self, most: usize) -> String {
        let digits = match self.mean.abs() {
            x if x >= 1000.0 => 4,
            x if x >= 100.0 => 3,
            x if x >= 10.0 => 2,
            x if x >= 1.0 => 1,
            _ => 0,
        };
        let decimals = most.saturating_sub(digits);
        let Self { mean, half } = self;
        format!("{mean:.decimals$} ± {half:.decimals$}")
    }
}

/// Student's t for a two-sided 95 % interval; a little wide between the numbers of the list.
fn student(freedom: usize) -> f64 {
    const T: [f64; 15] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131,
    ];
    match freedom {
        0 => f64::INFINITY,
        1..=15 => T[freedom - 1],
        16..30 => 2.120,
        _ => 2.042,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_three() {
        let summary = Summary::of([1.0, 2.0, 3.0].into_iter()).map(|s| (s.mean, s.half));
        let (mean, half) = summary.unwrap_or_default();
        assert_eq!(mean, 2.0);
        assert!((half - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        assert_eq!(Summary { mean, half }.shown(), "2.000 ± 2.484");
    }
}

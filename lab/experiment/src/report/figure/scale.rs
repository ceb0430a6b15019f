//! Axes: round numbers for ticks, and an end near the data.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// Maximum number of ticks of one axis, so that adjacent labels do not touch.
const TICKS_MAX: f64 = 7.0;
/// Minimum distance between two ticks of swept values, as a share of the axis.
const APART: f64 = 0.05;

/// The distance between two ticks: 1, 2 or 5 times a power of ten, with at most seven ticks in `span`.
pub(super) fn step(span: f64) -> f64 {
    if !(span > 0.0 && span.is_finite()) {
        return 1.0;
    }
    let decade = 10_f64.powf((span / TICKS_MAX).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    let fits = |step: &f64| span / step <= TICKS_MAX;
    steps.into_iter().find(fits).unwrap_or(10.0 * decade)
}

/// The multiples of [`step`] from `low` to `high`.
pub(super) fn ticks(low: f64, high: f64) -> Vec<f64> {
    let step = step(high - low);
    let (first, last) = ((low / step).ceil() as i64, (high / step).floor() as i64);
    (first..=last).map(|n| n as f64 * step).collect()
}

/// 1, 2 and 5 times the powers of ten from `low` to `high`, or only the powers if there would be too many.
pub(super) fn decades(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let of = |steps: &[f64]| -> Vec<f64> {
        let all = (first..=last).flat_map(|n| steps.iter().map(move |s| s * 10_f64.powi(n)));
        all.filter(|x| low <= x * 1.000_001 && *x <= high * 1.000_001)
            .collect()
    };
    let fine = of(&[1.0, 2.0, 5.0]);
    match fine.len() {
        0..=10 => fine,
        _ => of(&[1.0]),
    }
}

/// The values themselves as ticks, sorted and without duplicates, if all of them fit into the span.
pub(super) fn values(mut values: Vec<f64>) -> Option<Vec<f64>> {
    values.sort_by(f64::total_cmp);
    values.dedup();
    let span = values.last()? - values.first()?;
    let mut gaps = values.windows(2).map(|pair| pair[1] - pair[0]);
    let apart = gaps.all(|gap| gap >= APART * span);
    (apart && values.len() as f64 <= 2.0 * TICKS_MAX).then_some(values)
}

/// The label of a tick, with only the decimals that it needs.
pub(crate) fn label(x: f64) -> String {
    let size = x.abs();
    if size != 0.0 && !(1e-3..1e6).contains(&size) {
        return format!("{x:e}");
    }
    let text = format!("{x:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// An axis: its ends, its ticks, and whether it is logarithmic.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    /// The position of the left or lower end.
    pub(super) low: f64,
    /// The position of the other end.
    pub(super) high: f64,
    /// The positions of the ticks.
    pub(super) ticks: Vec<f64>,
    /// Whether a position is the logarithm of a value.
    pub(super) is_logarithmic: bool,
    /// Whether the axis begins above zero, so that differences look larger than they are.
    pub(super) is_cut: bool,
}

/// Values whose minimum is at least this share of the maximum have an axis that begins near them.
const LEVEL: f64 = 0.5;
/// Minimum span of such an axis, as a share of its maximum: random differences must not look significant.
const SPAN_MIN: f64 = 0.25;

impl Axis {
    /// A linear axis with round ticks.
    pub(super) fn linear(low: f64, high: f64) -> Self {
        Self {
            low,
            high,
            ticks: ticks(low, high),
            is_logarithmic: false,
            is_cut: false,
        }
    }

    /// A linear axis for values without signs: from zero or, if all values are far from zero, from a tick below them.
    pub(super) fn near(low: f64, high: f64) -> Self {
        let span = (high - low)
            .max(SPAN_MIN * high.abs())
            .max(f64::MIN_POSITIVE);
        let middle = (low + high) / 2.0;
        let (from, to) = (middle - 0.58 * span, middle + 0.58 * span);
        if low >= 0.0 && low < LEVEL * high {
            return Self::linear(0.0, to);
        }
        let step = step(to - from);
        let from = (from / step).floor() * step;
        Self {
            is_cut: from > 0.0,
            ..Self::linear(from, to)
        }
    }

    /// The end of the axis title: that the scale is logarithmic or does not begin at zero; empty otherwise.
    pub(super) fn remark(&self) -> String {
        match (self.is_logarithmic, self.is_cut) {
            (true, _) => " (logarithmic)".to_owned(),
            (_, true) => format!(" (axis from {}, not from 0)", self.label(self.low)),
            _ => String::new(),
        }
    }

    /// A logarithmic axis; both ends must be above zero.
    pub(super) fn logarithmic(low: f64, high: f64) -> Self {
        let ticks = decades(low, high);
        Self {
            low: low.log10(),
            high: high.log10(),
            ticks: ticks.into_iter().map(f64::log10).collect(),
            is_logarithmic: true,
            is_cut: false,
        }
    }

    /// The position of a value.
    pub(super) fn place(&self, x: f64) -> f64 {
        if self.is_logarithmic {
            x.log10().clamp(self.low, self.high)
        } else {
            x
        }
    }

    /// The label of a tick.
    pub(super) fn label(&self, place: f64) -> String {
        if self.is_logarithmic {
            label((10_f64.powf(place) * 1e9).round() / 1e9)
        } else {
            label(place)
        }
    }

    /// The axis for the drawing library.
    pub(super) fn coordinate(&self) -> Ticked {
        Ticked::new(self.low..self.high, self.ticks.clone())
    }
}

/// An axis for the drawing library: its ends and its ticks.
pub(super) struct Ticked {
    ends: Range<f64>,
    ticks: Vec<f64>,
}

impl Ticked {
    /// An axis with these ticks.
    pub(super) fn new(ends: Range<f64>, ticks: Vec<f64>) -> Self {
        Self { ends, ticks }
    }
}

impl Ranged for Ticked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value - self.ends.start) / (self.ends.end - self.ends.start);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.ends.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_begins_at_zero_or_says_where_it_begins() {
        let axis = Axis::near(3.0, 10.0);
        assert_eq!((axis.low, axis.remark().as_str()), (0.0, ""));
        // A range of one per cent does not fill a tenth of the picture.
        let axis = Axis::near(94.0, 94.94);
        assert!(axis.is_cut && axis.high - axis.low > 20.0, "{axis:?}");
        assert_eq!(
            axis.remark(),
            format!(" (axis from {}, not from 0)", axis.low)
        );
        assert_eq!(axis.low, axis.ticks[0]);
        assert!(!Axis::near(-1.0, 2.0).is_cut);
        assert_eq!(Axis::logarithmic(1.0, 9.0).remark(), " (logarithmic)");
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(0.0, 49.0), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!(ticks(0.0, 39.5), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(ticks(0.0, 98.4), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(
            ticks(0.0, 1.0),
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
        );
        assert_eq!(ticks(-3.0, 3.0), [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]);
        for hundredths in 1..20_000 {
            let span = f64::from(hundredths) / 100.0;
            let step = step(span);
            let digit = step / 10_f64.powf(step.log10().floor());
            assert!(
                [1.0, 2.0, 5.0].iter().any(|d| (d - digit).abs() < 1e-9),
                "{step}"
            );
            assert!((3..=8).contains(&ticks(0.0, span).len()), "{span}");
        }
    }

    #[test]
    fn a_logarithmic_axis_has_decades_and_their_parts() {
        assert_eq!(decades(3.0, 60.0), [5.0, 10.0, 20.0, 50.0]);
        assert_eq!(decades(0.5, 9000.0), [1.0, 10.0, 100.0, 1000.0]);
    }

    #[test]
    fn swept_values_are_ticks_if_they_have_room() {
        assert_eq!(values(vec![4.0, 2.0, 3.0, 2.0]), Some(vec![2.0, 3.0, 4.0]));
        assert_eq!(values(vec![1.0, 2.0, 100.0]), None);
    }

    #[test]
    fn labels_have_no_digits_that_say_nothing() {
        let all = [0.0, 20.0, 0.5, 0.6000000000000001, 1e7, 2500.0]
            .map(label)
            .join(" ");
        assert_eq!(all, "0 20 0.5 0.6 1e7 2500");
    }
}

//! One of our values compared with its limit: the permitted range is shaded, the mean is a dot, and its interval a
//! line.
//!
//! ```text
//!   fetches, times     |      ░░░░░░░░░░░░░░░░|   12.8 (at least 5.00)
//!                      0      5   --o--
//! ```

use super::samples::{Samples, shown};
use super::verdict::Verdict;
use crate::report::escape;
use crate::statistics::Summary;

/// A value, and its permitted range.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The verdict on the value.
    verdict: Verdict,
    /// The quantity.
    what: String,
    mean: f64,
    /// Half of the 95 % interval; 0 without an interval.
    half: f64,
    /// The minimum and the maximum permitted value, if there is one.
    limits: [Option<f64>; 2],
}

impl Bar {
    /// A bar for a measured quantity; `None` if it has no value.
    pub fn of(
        verdict: Verdict,
        what: &str,
        summary: Option<Summary>,
        limits: [Option<f64>; 2],
    ) -> Option<Self> {
        let summary = summary?;
        Some(Self {
            verdict,
            what: what.to_owned(),
            mean: summary.mean,
            half: summary.ci95.unwrap_or(0.0),
            limits,
        })
    }

    /// The mean, its interval, and the permitted range.
    fn numbers(&self) -> String {
        let permitted = match self.limits.map(|limit| limit.map(shown)) {
            [Some(least), Some(most)] => format!("{least} to {most}"),
            [Some(least), None] => format!("at least {least}"),
            [None, most] => format!("at most {}", most.unwrap_or_default()),
        };
        let half = match self.half {
            0.0 => String::new(),
            half => format!(" ± {}", shown(half)),
        };
        format!("{}{half} ({permitted})", shown(self.mean))
    }

    /// Whether this part of a claim's evidence contains no more than the row.
    pub(super) fn says(&self, part: &str) -> bool {
        let judged = part.strip_prefix("fails: ");
        let judged = judged.or_else(|| part.strip_prefix("unclear: "));
        judged.unwrap_or(part) == format!("{}: {}", self.what, self.numbers())
    }

    /// The bar as a row: its name, the picture, and the numbers.
    pub(super) fn html(&self) -> String {
        let [least, most] = self.limits;
        let ends = [self.mean - self.half, self.mean + self.half];
        let all = || ends.into_iter().chain(least).chain(most).chain([0.0]);
        let (from, to) = (all().fold(0.0, f64::min), all().fold(0.0, f64::max) * 1.08);
        let percent =
            |x: f64| 100.0 * ((x - from) / (to - from).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let [low, high] = [least.unwrap_or(from), most.unwrap_or(to)].map(percent);
        let [left, middle, right] = [ends[0], self.mean, ends[1]].map(percent);
        let numbers = self.numbers();
        format!(
            "<div class=\"bar\"><span>{sign} {what}: {numbers}</span>\
             <svg role=\"img\" aria-label=\"{numbers}\"><title>{numbers}</title>\
             <rect x=\"0\" y=\"35%\" width=\"100%\" height=\"30%\" fill=\"var(--faint)\"/>\
             <rect x=\"{low:.1}%\" y=\"0\" width=\"{width:.1}%\" height=\"100%\" fill=\"var(--holds)\" opacity=\".3\"/>\
             <line x1=\"{left:.1}%\" x2=\"{right:.1}%\" y1=\"50%\" y2=\"50%\" stroke=\"var(--ink)\" stroke-width=\"2\"/>\
             <circle cx=\"{middle:.1}%\" cy=\"50%\" r=\"5\" fill=\"var(--ink)\"/></svg></div>",
            sign = self.verdict.sign(),
            what = escape(&self.what),
            width = (high - low).max(0.0),
        )
    }
}

/// The ratio of two means.
pub(super) fn ratio(a: &Samples, b: &Samples) -> Option<Summary> {
    Samples::new(vec![a.mean()? / b.mean()?]).summary()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_drawn_against_its_limit() {
        let bar = |verdict, limits| {
            let bar = Bar::of(verdict, "share <", Summary::of(&[0.5]), limits);
            bar.unwrap().html()
        };
        let html = bar(Verdict::Holds, [Some(0.4), None]);
        assert!(
            html.contains("\u{2713} share &lt;: 0.500 (at least 0.400)"),
            "{html}"
        );
        // From 0 to 0.54: the limit at 74 %, the value at 93 %.
        assert!(
            html.contains("<rect x=\"74.1%\"") && html.contains("cx=\"92.6%\""),
            "{html}"
        );
        let html = bar(Verdict::Fails, [None, Some(0.25)]);
        assert!(
            html.contains("\u{2717} share &lt;: 0.500 (at most 0.250)"),
            "{html}"
        );
        assert!(bar(Verdict::Fails, [Some(0.1), Some(0.2)]).contains("(0.100 to 0.200)"));
        assert_eq!(Bar::of(Verdict::Missing, "x", None, [None; 2]), None);
    }
}

//! Claims that compare numbers, as data: a quantity, the points where it is measured, and a test.
//!
//! ```toml
//! [[result.claim.condition]]
//! each = [{ mechanism = "ramaf", s = 3 }, { mechanism = "eccm", s = 3 }]    # once for each row
//! what = "delay, basic to {mechanism} {s} s"
//! of = { scenario = "afan-eccm/gigabit", variant = "none", metric = "acceptance_delay_s.stream" }
//! is = { times = { than = { variant = "{mechanism} {s}" }, factor = 10 } }  # all else as in `of`
//! on = "sim"                                                                # in this habitat only; in both if absent
//!
//! [[result.claim.shown]]                                                    # evidence that decides nothing
//! what = "goodput, Mbit/s"
//! each = { s = [3, 6] }
//! named = "{s} s"
//! of = { scenario = "afan-eccm/gigabit", variant = "eccm {s}", metric = "tcp_goodput_mbps" }
//! ```
//!
//! [`Quantity`] describes `each` and `of`, [`Test`] describes `is`.

use serde::Deserialize;

use super::measured::Measured;
use super::quantity::{Each, Number, Other, Quantity, Row, Step, filled, is_filled};
#[cfg(test)]
use super::recipe::At;
use super::verdict::{Findings, Samples};
use crate::options::Habitat;
use crate::scenario::Reading;

/// One condition of a claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The quantity as text.
    pub what: String,
    /// The rows for which the condition must hold.
    #[serde(default)]
    pub each: Each,
    /// The quantity.
    pub of: Quantity,
    /// The test to pass.
    pub is: Test,
    /// The only habitat in which the condition counts; `None` for both.
    pub on: Option<Habitat>,
}

/// A number that the evidence shows, without effect on the verdict.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// The quantity as text.
    pub what: String,
    /// The rows to show.
    #[serde(default)]
    pub each: Each,
    /// The name of a row.
    #[serde(default)]
    pub named: String,
    /// The quantity.
    pub of: Quantity,
    /// Whether to show the values as printed instead of the paper as read.
    #[serde(default)]
    pub as_printed: bool,
}

/// A test of a quantity, with the statistics of [`Findings`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Test {
    /// At most this.
    AtMost(Number),
    /// At least this.
    AtLeast(Number),
    /// Greater than this.
    Above(Number),
    /// In this range.
    Between([Number; 2]),
    /// Less than another quantity.
    LessThan(Other),
    /// Not more than another quantity by the minimum effect, per the whole interval.
    NotMoreThan(Other),
    /// At least a multiple of another quantity.
    Times {
        /// The other quantity.
        than: Other,
        /// The factor.
        factor: Number,
    },
    /// Within a share of another quantity.
    Within {
        /// The other quantity.
        than: Other,
        /// The share.
        share: f64,
    },
    /// Rising from step to step, except that a step whose interval includes zero may fall; `{step}` is replaced by each
    /// step.
    Rises(Steps),
    /// Growing at every step.
    Ascends(Steps),
}

/// A series of points.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// The values of `{step}`.
    pub along: Vec<Step>,
    /// The name of a step.
    pub named: String,
}

impl Condition {
    /// Adds the condition's findings to the findings of its claim.
    pub(super) fn decide(&self, m: &Measured, f: &mut Findings) {
        if !self.counts_on(m.on) {
            return;
        }
        for row in self.each.rows() {
            self.decide_row(m, f, &row);
        }
    }

    /// Whether the condition counts in a habitat.
    pub(super) fn counts_on(&self, habitat: Habitat) -> bool {
        self.on.is_none_or(|on| on == habitat)
    }

    fn decide_row(&self, m: &Measured, f: &mut Findings, row: &Row) {
        let what = filled(&self.what, row);
        let a = || self.of.samples(m, row);
        let b = |other: &Other| self.of.but(other).samples(m, row);
        let number = |number: &Number| number.of(row).unwrap_or(f64::NAN); // `check` has refused it
        match &self.is {
            Test::AtMost(bound) => f.at_most(&what, &a(), number(bound)),
            Test::AtLeast(bound) => f.at_least(&what, &a(), number(bound)),
            Test::Above(bound) => f.above(&what, &a(), number(bound)),
            Test::Between(range) => f.between(&what, &a(), range.each_ref().map(number)),
            Test::LessThan(than) => f.less(&what, &a(), &b(than)),
            Test::NotMoreThan(than) => f.not_more(&what, &a(), &b(than)),
            Test::Times { than, factor } => f.times(&what, &a(), &b(than), number(factor)),
            Test::Within { than, share } => f.within(&what, &a(), &b(than), *share),
            Test::Rises(steps) => f.rises(&what, &self.steps(m, row, steps)),
            Test::Ascends(steps) => f.ascends(&what, &self.steps(m, row, steps)),
        }
    }

    fn steps(&self, m: &Measured, row: &Row, steps: &Steps) -> Vec<(String, Samples)> {
        let each = steps.rows(row).map(|row| {
            let samples = self.of.samples(m, &row);
            (filled(&steps.named, &row), samples)
        });
        each.collect()
    }

    /// The rows at which the quantity is measured.
    fn measured_rows(&self) -> Vec<Row> {
        let rows = self.each.rows().into_iter();
        match &self.is {
            Test::Rises(steps) | Test::Ascends(steps) => {
                let stepped = rows.flat_map(|row| steps.rows(&row).collect::<Vec<_>>());
                stepped.collect()
            }
            _ => rows.collect(),
        }
    }

    /// The compared quantities.
    fn quantities(&self) -> Vec<Quantity> {
        let other = match &self.is {
            Test::LessThan(than)
            | Test::NotMoreThan(than)
            | Test::Times { than, .. }
            | Test::Within { than, .. } => Some(self.of.but(than)),
            _ => None,
        };
        [self.of.clone()].into_iter().chain(other).collect()
    }

    fn numbers(&self) -> Vec<&Number> {
        match &self.is {
            Test::AtMost(bound) | Test::AtLeast(bound) | Test::Above(bound) => vec![bound],
            Test::Between(range) => range.iter().collect(),
            Test::Times { factor, .. } => vec![factor],
            _ => Vec::new(),
        }
    }

    /// Refuses formulas that cannot be measured.
    pub(super) fn check(&self) -> Result<(), String> {
        let quantities = self.quantities();
        for row in self.measured_rows() {
            quantities.iter().try_for_each(|q| q.check(&row))?;
        }
        for row in self.each.rows() {
            is_filled(&self.what, &row)?;
            let mut numbers = self.numbers().into_iter();
            numbers.try_for_each(|number| number.of(&row).map(drop))?;
        }
        Ok(())
    }

    /// Every point that the condition needs.
    #[cfg(test)]
    pub(super) fn places(&self) -> Vec<At> {
        let (rows, quantities) = (self.measured_rows(), self.quantities());
        let of_row = |row: &Row| {
            let places = quantities.iter().map(|quantity| quantity.places(row));
            places.flatten().collect::<Vec<_>>()
        };
        rows.iter().flat_map(of_row).collect()
    }
}

impl Shown {
    /// The numbers as text; `None` if they belong to the other column and the paper has only one column.
    pub(super) fn remark(&self, m: &Measured) -> Option<String> {
        let m = match self.as_printed {
            true => m.column(Reading::Printed)?,
            false => m,
        };
        let rows = self.each.rows();
        let shown = rows.iter().map(|row| {
            let samples = self.of.samples(m, row).shown();
            match self.named.is_empty() {
                true => samples,
                false => format!("{} {samples}", filled(&self.named, row)),
            }
        });
        let shown: Vec<String> = shown.collect();
        Some(format!("{}: {}", self.what, shown.join(", ")))
    }

    /// Refuses a formula that cannot be measured, and rows without names.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.named.is_empty() != self.each.is_empty() {
            return Err(format!(
                "`{}` requires both `each` and `named`, or neither",
                self.what
            ));
        }
        let mut rows = self.each.rows().into_iter();
        rows.try_for_each(|row| {
            is_filled(&self.named, &row)?;
            self.of.check(&row)
        })
    }

    /// Every point that the numbers need.
    #[cfg(test)]
    pub(super) fn places(&self) -> Vec<At> {
        let rows = self.each.rows().into_iter();
        rows.flat_map(|row| self.of.places(&row)).collect()
    }
}

impl Steps {
    fn rows(&self, row: &Row) -> impl Iterator<Item = Row> {
        self.along.iter().map(move |step| step.row(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::verdict::Verdict;

    #[test]
    fn a_condition_of_a_habitat_counts_there_alone() {
        let condition = |on: &str| {
            let text =
                format!("what = 'w'\nof = {{ metric = '2 + 3' }}\nis = {{ at_most = 4 }}\n{on}");
            toml::from_str::<Condition>(&text).unwrap()
        };
        let verdict = |on: &str, habitat: Habitat| {
            let mut measured = Measured::default();
            measured.on = habitat;
            let mut findings = Findings::default();
            condition(on).decide(&measured, &mut findings);
            findings.verdict().0
        };
        assert_eq!(verdict("", Habitat::Lab), Verdict::Fails);
        assert_eq!(verdict("on = 'lab'", Habitat::Lab), Verdict::Fails);
        assert_eq!(verdict("on = 'lab'", Habitat::Sim), Verdict::Missing);
        assert!(toml::from_str::<Condition>("on = 'both'").is_err());
    }
}

//! Claims that compare measured points, as data: what is measured where, and what it must be.
//!
//! ```toml
//! [[result.claim.condition]]
//! each = [{ mechanism = "ramaf", s = 3 }, { mechanism = "eccm", s = 3 }]    # once for each; `{NAME}` stands for its value
//! what = "delay, basic to {mechanism} {s} s"
//! of = { scenario = "afan-eccm/gigabit", variant = "none", metric = "acceptance_delay_s.stream" }
//! is = { times = { than = { variant = "{mechanism} {s}" }, factor = 10 } }  # all else as in `of`
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::judge::{Findings, Samples};
use super::measured::{Measured, shown};
use super::recipe::At;

/// One thing that must be so.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// What is compared, in words.
    pub what: String,
    /// Values for `{NAME}` in all texts: the condition holds for each of these rows.
    #[serde(default)]
    pub each: Vec<Row>,
    /// The quantity.
    pub of: Quantity,
    /// What it must be.
    pub is: Test,
}

/// Names and what stands in their place.
type Row = BTreeMap<String, Value>;

/// What is measured, and where.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// The scenario.
    pub scenario: String,
    /// The variant.
    #[serde(default)]
    pub variant: String,
    /// Values of the sweep.
    #[serde(default)]
    pub place: Row,
    /// The metric.
    pub metric: String,
    /// What it is multiplied by.
    pub scale: Option<f64>,
    /// A number that is taken off it.
    pub less: Option<f64>,
}

/// A quantity that is as another one, but for what is said.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Other {
    scenario: Option<String>,
    variant: Option<String>,
    place: Option<Row>,
    metric: Option<String>,
}

/// What a quantity must be. The statistics are those of [`Findings`].
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Test {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// Greater than this.
    Above(f64),
    /// In this range.
    Between([f64; 2]),
    /// Less than another one.
    LessThan(Other),
    /// Not more than another one, as far as the intervals tell.
    NotMoreThan(Other),
    /// At least so many times another one.
    Times {
        /// The other one.
        than: Other,
        /// How many times.
        factor: f64,
    },
    /// Within a share of another one.
    Within {
        /// The other one.
        than: Other,
        /// The share.
        share: f64,
    },
    /// Growing from step to step, if only within the intervals; `{step}` stands for each.
    Rises(Steps),
    /// Growing at every step.
    Ascends(Steps),
}

/// Points in a row.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// The values of `{step}`.
    pub along: Vec<Value>,
    /// What a step is called.
    pub named: String,
}

impl Condition {
    /// Adds what was found to the findings of its claim.
    pub(super) fn judge(&'static self, m: &Measured, f: &mut Findings) {
        for row in self.rows() {
            let what = filled(&self.what, &row);
            let of = |quantity: &Quantity| quantity.samples(m, &row);
            let a = || of(&self.of);
            let other = |other: &Other| of(&self.of.but(other));
            match &self.is {
                Test::AtMost(bound) => f.at_most(&what, &a(), *bound),
                Test::AtLeast(bound) => f.at_least(&what, &a(), *bound),
                Test::Above(bound) => f.above(&what, &a(), *bound),
                Test::Between(range) => f.between(&what, &a(), *range),
                Test::LessThan(than) => f.less(&what, &a(), &other(than)),
                Test::NotMoreThan(than) => f.not_more(&what, &a(), &other(than)),
                Test::Times { than, factor } => f.times(&what, &a(), &other(than), *factor),
                Test::Within { than, share } => f.within(&what, &a(), &other(than), *share),
                Test::Rises(steps) => f.rises(&what, &self.steps(m, &row, steps)),
                Test::Ascends(steps) => f.ascends(&what, &self.steps(m, &row, steps)),
            }
        }
    }

    fn rows(&self) -> Vec<Row> {
        match self.each.is_empty() {
            true => vec![Row::new()],
            false => self.each.clone(),
        }
    }

    fn steps(&self, m: &Measured, row: &Row, steps: &Steps) -> Vec<(String, Samples)> {
        let each = steps.rows(row).map(|row| {
            let samples = self.of.samples(m, &row);
            (filled(&steps.named, &row), samples)
        });
        each.collect()
    }

    /// Every place that it asks for.
    #[cfg(test)]
    pub(super) fn places(&self) -> Vec<At> {
        let of_row = |row: Row| {
            let rows: Vec<Row> = match &self.is {
                Test::Rises(steps) | Test::Ascends(steps) => steps.rows(&row).collect(),
                _ => vec![row.clone()],
            };
            let other = match &self.is {
                Test::LessThan(than)
                | Test::NotMoreThan(than)
                | Test::Times { than, .. }
                | Test::Within { than, .. } => Some(self.of.but(than).at(&row)),
                _ => None,
            };
            rows.iter()
                .map(|row| self.of.at(row))
                .chain(other)
                .collect::<Vec<_>>()
        };
        self.rows().into_iter().flat_map(of_row).collect()
    }
}

impl Steps {
    fn rows(&self, row: &Row) -> impl Iterator<Item = Row> {
        self.along.iter().map(move |step| {
            let mut row = row.clone();
            row.insert("step".to_owned(), step.clone());
            row
        })
    }
}

impl Quantity {
    fn but(&self, other: &Other) -> Self {
        let or =
            |own: &String, other: &Option<String>| other.clone().unwrap_or_else(|| own.clone());
        Self {
            scenario: or(&self.scenario, &other.scenario),
            variant: or(&self.variant, &other.variant),
            place: other.place.clone().unwrap_or_else(|| self.place.clone()),
            metric: or(&self.metric, &other.metric),
            ..self.clone()
        }
    }

    fn at(&self, row: &Row) -> At {
        let place = self.place.iter();
        let place = place.map(|(key, value)| (key.clone(), filled(&shown(value), row)));
        At {
            scenario: filled(&self.scenario, row),
            variant: filled(&self.variant, row),
            place: place.collect(),
        }
    }

    fn samples(&self, m: &Measured, row: &Row) -> Samples {
        let samples = m.samples(&self.at(row), &filled(&self.metric, row));
        let samples = match self.scale {
            Some(scale) => samples.map(|x| x * scale),
            None => samples,
        };
        match self.less {
            Some(less) => samples.map(|x| x - less),
            None => samples,
        }
    }
}

/// A text with the values of a row in the places of their names.
fn filled(text: &str, row: &Row) -> String {
    let fill = |text: String, (name, value): (&String, &Value)| {
        text.replace(&format!("{{{name}}}"), &shown(value))
    };
    row.iter().fold(text.to_owned(), fill)
}

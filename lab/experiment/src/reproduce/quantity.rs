//! Quantities in papers' files: a formula at a point, for each of several rows of values.
//!
//! ```toml
//! each = { floods = [2, 3], s = [3, 6] }              # every combination; or a list of rows; or "line"
//! of = { scenario = "S", variant = "hit {s}", place = { flows = "{floods}" }, metric = "1 - tcp_share_ratio" }
//! ```
//!
//! Every string may contain `{NAME}`, which is replaced by a value of the row. With `each = "line"` the rows are the
//! lines of the result's tables: the values that identify a line, and the paper's numbers under the names of their
//! columns.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use weir_base::statistics::{mean, percentile, slope};

use super::formula::{Formula, Function, Source, Term};
use super::measured::{Measured, Window, shown};
use super::recipe::At;
use super::verdict::Samples;

/// Names and their values.
pub(super) type Row = BTreeMap<String, Value>;

/// A quantity and the point at which it is measured.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// The scenario; empty if the formula contains no measured quantity.
    #[serde(default)]
    pub scenario: String,
    /// The variant.
    #[serde(default)]
    pub variant: String,
    /// Values of the sweep.
    #[serde(default)]
    pub place: Row,
    /// A metric, or a [formula](super::formula) of metrics.
    pub metric: String,
    /// Other points, for `METRIC@NAME`.
    #[serde(default)]
    pub points: BTreeMap<String, Other>,
    /// The steps of `greatest` and `least`: values of `{step}`.
    #[serde(default)]
    pub over: Vec<Step>,
    /// Start and end of the window for curves, in seconds; by default the scenario's.
    pub window: Option<Window>,
    /// Whether the quantity is a share although its metrics are not: a difference below 0.01 means nothing.
    #[serde(default)]
    pub is_share: bool,
}

/// Another quantity, as its differences from this one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Other {
    scenario: Option<String>,
    variant: Option<String>,
    place: Option<Row>,
    metric: Option<String>,
    window: Option<Window>,
}

/// The rows of values for which a condition, a line or a number is repeated.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Each {
    /// These rows.
    Rows(Vec<Row>),
    /// Every combination of these values.
    Product(BTreeMap<String, Vec<Value>>),
    /// `line`: the lines of the result's tables.
    Named(String),
}

/// A step of a sweep: a value of `{step}`, or several values, among them `step`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Step {
    /// Several values.
    Row(Row),
    /// One value.
    Value(Value),
}

/// A number, or a formula over the row's values.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// A number.
    Plain(f64),
    /// A formula.
    Formula(String),
}

impl Default for Each {
    fn default() -> Self {
        Self::Rows(Vec::new())
    }
}

impl Each {
    /// Replaces the name of the lines by the lines of a result's tables.
    pub(super) fn resolve(&mut self, lines: &[Row]) -> Result<(), String> {
        if let Self::Named(name) = self {
            if name != "line" {
                return Err(format!("`each` is `{name}`, but must be `line`"));
            }
            *self = Self::Rows(lines.to_vec());
        }
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Rows(rows) if rows.is_empty())
    }

    /// The rows; a single empty row without any.
    pub(super) fn rows(&self) -> Vec<Row> {
        match self {
            Self::Rows(rows) if !rows.is_empty() => rows.clone(),
            Self::Product(values) => values.iter().fold(vec![Row::new()], |rows, (name, all)| {
                let longer = |row: &Row| {
                    let row = row.clone();
                    let name = name.clone();
                    all.iter().map(move |value| with(&row, &name, value))
                };
                rows.iter().flat_map(longer).collect()
            }),
            Self::Rows(_) | Self::Named(_) => vec![Row::new()],
        }
    }
}

fn with(row: &Row, name: &str, value: &Value) -> Row {
    let mut row = row.clone();
    row.insert(name.to_owned(), value.clone());
    row
}

impl Step {
    /// A row with this step's values added.
    pub(super) fn row(&self, row: &Row) -> Row {
        match self {
            Self::Value(value) => with(row, "step", value),
            Self::Row(own) => {
                let mut row = row.clone();
                row.extend(own.clone());
                row
            }
        }
    }
}

impl Number {
    /// The number for a row. The error is a sentence.
    pub(super) fn of(&self, row: &Row) -> Result<f64, String> {
        match self {
            Self::Plain(number) => Ok(*number),
            Self::Formula(text) => {
                let text = filled(text, row);
                let number = Formula::parse(&text)?.number();
                number.ok_or_else(|| format!("`{text}` is not a number"))
            }
        }
    }
}

impl Quantity {
    /// This quantity with the differences of `other`.
    pub(super) fn but(&self, other: &Other) -> Self {
        let or =
            |own: &String, other: &Option<String>| other.clone().unwrap_or_else(|| own.clone());
        Self {
            scenario: or(&self.scenario, &other.scenario),
            variant: or(&self.variant, &other.variant),
            place: other.place.clone().unwrap_or_else(|| self.place.clone()),
            metric: or(&self.metric, &other.metric),
            window: other.window.or(self.window),
            ..self.clone()
        }
    }

    /// The point of a row.
    pub(super) fn at(&self, row: &Row) -> At {
        let place = self.place.iter();
        let place = place.map(|(key, value)| (key.clone(), filled(&shown(value), row)));
        At {
            scenario: filled(&self.scenario, row),
            variant: filled(&self.variant, row),
            place: place.collect(),
        }
    }

    fn formula(&self, row: &Row) -> Result<Formula, String> {
        Formula::parse(&filled(&self.metric, row))
    }

    /// The quantity of a term, and the row whose values fill its strings.
    fn of_term(&self, term: &Term, step: Option<usize>, row: &Row) -> Option<(Self, Row)> {
        let quantity = match &term.point {
            Some(name) => self.but(self.points.get(name)?),
            None => self.clone(),
        };
        let row = match step {
            Some(step) => self.over.get(step)?.row(row),
            None => row.clone(),
        };
        Some((quantity, row))
    }

    /// The values, one for each seed.
    pub(super) fn samples(&self, m: &Measured, row: &Row) -> Samples {
        let Ok(formula) = self.formula(row) else {
            return Samples::default(); // `check` has refused it
        };
        let read = |term: &Term, step: Option<usize>| {
            let found = self.of_term(term, step, row);
            found.map_or_else(Samples::default, |(quantity, row)| {
                quantity.term(m, term, &quantity.at(&row))
            })
        };
        let steps = self.over.len();
        let samples = formula.samples(&Source { read: &read, steps });
        match self.is_share {
            true => samples.as_shares(),
            false => samples,
        }
    }

    fn term(&self, m: &Measured, term: &Term, at: &At) -> Samples {
        let names: Vec<&str> = term.names.iter().map(String::as_str).collect();
        let of_curve: fn(&[f64]) -> Option<f64> = match term.function {
            Function::Metric => return m.samples(at, names[0]),
            Function::Delivered => {
                let window = self.window.or_else(|| m.window(at));
                return window.map_or_else(Samples::default, |w| m.delivered(at, &names, w));
            }
            Function::CurveMean => mean,
            Function::CurveMax => |values| values.iter().copied().reduce(f64::max),
            Function::CurveP95 => |values| {
                let mut sorted = values.to_vec();
                sorted.sort_by(f64::total_cmp);
                percentile(&sorted, 0.95)
            },
            Function::CurveSlope => slope,
        };
        let window = self.window.or_else(|| m.window(at));
        window.map_or_else(Samples::default, |w| m.curve(at, names[0], w, of_curve))
    }

    /// Refuses a formula that cannot be measured for a row.
    pub(super) fn check(&self, row: &Row) -> Result<(), String> {
        let formula = self.formula(row)?;
        for (term, is_inside) in formula.terms() {
            let name = term.names.join(", ");
            if let Some(point) = &term.point {
                let known = self.points.get(point);
                let other = known.ok_or_else(|| format!("unknown point `{point}` in `points`"))?;
                if other.metric.is_some() {
                    return Err(format!("the point `{point}` cannot have a metric"));
                }
            }
            if self.scenario.is_empty() {
                return Err(format!("`{name}` requires a scenario"));
            }
            if is_inside && self.over.is_empty() {
                return Err(format!("`{name}` requires steps: `over`"));
            }
        }
        Ok(())
    }

    /// Every point that the quantity needs.
    #[cfg(test)]
    pub(super) fn places(&self, row: &Row) -> Vec<At> {
        let formula = self.formula(row).unwrap();
        let of_term = |(term, is_inside): (&Term, bool)| {
            let steps: Vec<Option<usize>> = match is_inside {
                true => (0..self.over.len()).map(Some).collect(),
                false => vec![None],
            };
            let places = steps.into_iter().map(|step| {
                let (quantity, row) = self.of_term(term, step, row).unwrap();
                quantity.at(&row)
            });
            places.collect::<Vec<_>>()
        };
        formula.terms().into_iter().flat_map(of_term).collect()
    }
}

/// A string with the values of a row in place of their names.
pub(super) fn filled(text: &str, row: &Row) -> String {
    let fill = |text: String, (name, value): (&String, &Value)| {
        text.replace(&format!("{{{name}}}"), &shown(value))
    };
    row.iter().fold(text.to_owned(), fill)
}

/// Refuses a string with a name that is not in the row.
pub(super) fn is_filled(text: &str, row: &Row) -> Result<(), String> {
    let text = filled(text, row);
    match (text.find('{'), text.find('}')) {
        (Some(from), Some(to)) if from < to => {
            Err(format!("`{}` is not in `each`", &text[from..=to]))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(text: &str) -> Each {
        #[derive(Deserialize)]
        struct Holder {
            each: Each,
        }
        toml::from_str::<Holder>(text).unwrap().each
    }

    fn texts(each: &Each) -> Vec<String> {
        let rows = each.rows();
        rows.iter().map(|row| filled("{a} {b}", row)).collect()
    }

    #[test]
    fn rows_are_listed_or_combined() {
        let product = each("each = { a = [1, 2], b = ['x', 'y'] }");
        assert_eq!(texts(&product), ["1 x", "1 y", "2 x", "2 y"]);
        let rows = each("each = [{ a = 1, b = 'x' }, { a = 2, b = 'y' }]");
        assert_eq!(texts(&rows), ["1 x", "2 y"]);
        assert_eq!(texts(&Each::default()), ["{a} {b}"]);
        let mut lines = each("each = 'line'");
        lines.resolve(&rows.rows()).unwrap();
        assert_eq!(texts(&lines), ["1 x", "2 y"]);
        assert!(each("each = 'row'").resolve(&[]).is_err());
    }

    #[test]
    fn numbers_may_be_worked_out() {
        let row = Row::from([("L".to_owned(), Value::from(20))]);
        let of = |text: &str| Number::Formula(text.to_owned()).of(&row);
        assert_eq!(of("0.8 * {L}"), Ok(16.0));
        assert_eq!(of("loss").unwrap_err(), "`loss` is not a number");
    }

    #[test]
    fn a_quantity_that_cannot_be_measured_is_refused() {
        let check = |text: &str| {
            let quantity: Quantity = toml::from_str(text).unwrap();
            quantity.check(&Row::new())
        };
        let point = "scenario = 's'\nvariant = 'v'\n";
        assert_eq!(check("metric = '22.9 * 3.71'"), Ok(()));
        let error = check("metric = 'loss_ratio'").unwrap_err();
        assert_eq!(error, "`loss_ratio` requires a scenario");
        let error = check(&format!("{point}metric = 'a - a@red'")).unwrap_err();
        assert_eq!(error, "unknown point `red` in `points`");
        let red = "[points]\nred = { variant = 'RED' }";
        assert_eq!(
            check(&format!("{point}metric = 'a - a@red'\n{red}")),
            Ok(())
        );
        let error = check(&format!("{point}metric = 'greatest(a)'")).unwrap_err();
        assert_eq!(error, "`a` requires steps: `over`");
    }
}

//! Pictures of results: the paper's figures with our numbers, as a paper's file describes them.
//!
//! ```toml
//! [[result.figure]]
//! title = "TCP's share of UDP and long TCP"
//! x = "flows in the cache"
//! line = [
//!     # Over a sweep: `{step}` is the place on the axis below.
//!     { name = "{floods} floods", each = { floods = [2, 3] }, along = [2, 4], of = { .. "{floods}" .. "{step}" .. } },
//!     # Without `along`: a curve over time, and `metric` is its name.
//!     { name = "edge", of = { scenario = "S", variant = "V", metric = "queue_packets.wan" }, scale = "1 / 0.946" },
//! ]
//! ```

use serde::Deserialize;

use super::measured::{Measured, shown};
use super::quantity::{Each, Number, Quantity, Row, Step, filled};
#[cfg(test)]
use super::recipe::At;
use crate::report::{Dot, Form, Line, Plot, escape, mean_curve};

/// A picture.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The title, with the quantity and its unit.
    pub title: String,
    /// The title of the lower axis, with its unit.
    pub x: String,
    /// The lines, in the order of their colours. If they do not fit into one picture, there are several pictures.
    #[serde(rename = "line")]
    pub lines: Vec<LineSpec>,
}

/// A line of a picture, or one for each of several rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineSpec {
    /// The name.
    pub name: String,
    /// The rows; there is a line for each.
    #[serde(default)]
    pub each: Each,
    /// The values of `{step}`, which are also the positions on the lower axis; empty for a curve over time.
    #[serde(default)]
    pub along: Vec<Step>,
    /// The quantity.
    pub of: Quantity,
    /// The factor of a curve.
    #[serde(default = "one")]
    pub scale: Number,
}

const fn one() -> Number {
    Number::Plain(1.0)
}

impl Figure {
    /// The pictures for the page, each with its title; empty if nothing was measured. The error is a sentence.
    pub(super) fn html(&self, measured: &Measured) -> Result<Vec<String>, String> {
        let lines = self.lines.iter().flat_map(|line| line.draw(measured));
        let lines = lines.filter(|line| !line.points.is_empty()).enumerate();
        let plot = Plot {
            title: self.title.clone(),
            x: self.x.clone(),
            lines: lines
                .map(|(colour, line)| Line { colour, ..line })
                .collect(),
            form: Form::Values,
        };
        let failed = |why| format!("cannot draw the picture \"{}\": {why}", self.title);
        let drawn = plot.inline().map_err(failed)?.into_iter();
        let title = escape(&self.title);
        Ok(drawn
            .map(|svg| format!("<figure><figcaption>{title}</figcaption>{svg}</figure>"))
            .collect())
    }

    /// Refuses lines that cannot be drawn.
    pub(super) fn check(&self) -> Result<(), String> {
        let failed = |why: String| format!("the picture \"{}\": {why}", self.title);
        let mut lines = self.lines.iter();
        lines.try_for_each(|line| line.check().map_err(failed))
    }
}

impl LineSpec {
    fn draw(&self, m: &Measured) -> Vec<Line> {
        let rows = self.each.rows();
        let line = |row: &Row| Line {
            name: filled(&self.name, row),
            colour: 0, // set from its index, when all lines are known
            is_marked: !self.along.is_empty(),
            points: match self.along.is_empty() {
                true => self.curve(m, row),
                false => self.swept(m, row),
            },
        };
        rows.iter().map(line).collect()
    }

    /// Means with their intervals over the sweep; values that were not measured are left out.
    fn swept(&self, m: &Measured, row: &Row) -> Vec<Dot> {
        let dot = |step: &Step| {
            let row = step.row(row);
            let summary = self.of.samples(m, &row).summary()?;
            let interval = |half| [summary.mean - half, summary.mean + half];
            Some(Dot {
                x: place_of(&row)?,
                y: summary.mean,
                interval: summary.ci95.map(interval),
            })
        };
        self.along.iter().filter_map(dot).collect()
    }

    /// The mean of all runs over time.
    fn curve(&self, m: &Measured, row: &Row) -> Vec<Dot> {
        let name = filled(&self.of.metric, row);
        let scale = self.scale.of(row).unwrap_or(f64::NAN); // `check` has refused it
        m.check_curve(&name);
        let point = m.point(&self.of.at(row));
        let dots = point.map(|point| mean_curve(point, &name));
        let scaled = |dot: Dot| Dot {
            y: dot.y * scale,
            ..dot
        };
        dots.into_iter().flatten().map(scaled).collect()
    }

    fn check(&self) -> Result<(), String> {
        for row in self.each.rows() {
            self.scale.of(&row)?;
            for step in &self.along {
                let row = step.row(&row);
                self.of.check(&row)?;
                place_of(&row).ok_or("a step is not a number")?;
            }
        }
        Ok(())
    }

    /// Every point that the line needs.
    #[cfg(test)]
    fn places(&self) -> Vec<At> {
        let of_row = |row: Row| match self.along.is_empty() {
            true => vec![self.of.at(&row)],
            false => {
                let steps = self.along.iter();
                steps
                    .flat_map(|step| self.of.places(&step.row(&row)))
                    .collect()
            }
        };
        self.each.rows().into_iter().flat_map(of_row).collect()
    }
}

/// The position of a row's step on the lower axis.
fn place_of(row: &Row) -> Option<f64> {
    shown(row.get("step")?).parse().ok()
}

#[cfg(test)]
impl Figure {
    /// Every point that the picture needs.
    pub(super) fn places(&self) -> Vec<At> {
        self.lines.iter().flat_map(LineSpec::places).collect()
    }
}

//! Pictures of results: the paper's figures with our numbers.

use super::measured::Measured;
use super::query::Point;
use super::samples::Samples;
use crate::report::{Dot, Form, Line, Plot, escape, mean_curve};

/// The lines of a picture, in the order of their colours.
pub(super) type Lines = Box<dyn Fn(&Measured) -> Vec<Line> + Send + Sync>;

/// A picture.
pub struct Figure {
    pub(super) title: String,
    pub(super) x: &'static str,
    pub(super) lines: Lines,
}

impl Figure {
    /// The pictures for the page, each with its title: several if the lines do not fit into one, none if nothing was
    /// measured. The error is a sentence.
    pub(super) fn html(&self, measured: &Measured) -> Result<Vec<String>, String> {
        let lines = (self.lines)(measured).into_iter();
        let lines = lines.filter(|line| !line.points.is_empty()).enumerate();
        let plot = Plot {
            title: self.title.clone(),
            x: self.x.to_owned(),
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
}

/// A line over a sweep: `swept!(for x in CACHES, "{n} floods": share(m, n, x))`.
#[macro_export]
macro_rules! swept {
    (for $x:ident in $along:expr, $name:literal: $value:expr) => {
        $crate::reproduce::figure::sweep(
            &format!($name),
            $along.into_iter().map(|$x| (f64::from($x), $value)),
        )
    };
}
pub use swept;

/// A line over a sweep: means with their intervals; values that were not measured are left out.
pub fn sweep(name: &str, points: impl Iterator<Item = (f64, Samples)>) -> Line {
    let dot = |(x, samples): (f64, Samples)| {
        let summary = samples.summary()?;
        let interval = |half| [summary.mean - half, summary.mean + half];
        Some(Dot {
            x,
            y: summary.mean,
            interval: summary.ci95.map(interval),
        })
    };
    line(name, true, points.filter_map(dot).collect())
}

/// A line over time: the mean of all runs, times a factor.
pub fn curve(name: impl Into<String>, at: &Point<'_>, curve: &str, factor: f64) -> Line {
    at.measured.check_curve(curve);
    let point = at.measured.point(&at.at);
    let dots = point.map(|point| mean_curve(point, curve));
    let scaled = |dot: Dot| Dot {
        y: dot.y * factor,
        ..dot
    };
    line(
        name,
        false,
        dots.into_iter().flatten().map(scaled).collect(),
    )
}

fn line(name: impl Into<String>, is_marked: bool, points: Vec<Dot>) -> Line {
    Line {
        name: name.into(),
        colour: 0, // set from its index, when all lines are known
        is_marked,
        points,
    }
}

//! Pictures of results: what the paper draws, with our numbers.

use super::judge::Samples;
use super::measured::Measured;
use super::recipe::At;
use crate::report::{Dot, Form, LINES_MAX, Line, Plot, mean_curve};

/// A picture.
#[derive(Debug)]
pub struct Figure {
    /// What it shows, with the quantity and its unit.
    pub title: &'static str,
    /// The axis below, with its unit.
    pub x: &'static str,
    /// Draws its lines. More than fit one picture become several pictures.
    pub draw: fn(&Measured, &mut Lines),
}

/// The lines of a picture, in the order of their colours.
#[derive(Debug, Default)]
pub struct Lines(Vec<Line>);

impl Lines {
    /// Means with their intervals over what was swept; what was not measured is left out.
    pub fn swept(&mut self, name: impl Into<String>, points: impl Iterator<Item = (f64, Samples)>) {
        let dot = |(x, samples): (f64, Samples)| {
            let summary = samples.summary()?;
            Some(Dot {
                x,
                y: summary.mean,
                interval: summary
                    .ci95
                    .map(|half| [summary.mean - half, summary.mean + half]),
            })
        };
        self.0.push(Line {
            name: name.into(),
            points: points.filter_map(dot).collect(),
            is_marked: true,
        });
    }

    /// A curve over time, the mean of all runs, each value times `scale`.
    pub fn over_time(
        &mut self,
        name: impl Into<String>,
        measured: &Measured,
        (at, curve): (&At, &str),
        scale: f64,
    ) {
        let dots = measured.point(at).map(|point| mean_curve(point, curve));
        let scaled = |dot: Dot| Dot {
            y: dot.y * scale,
            ..dot
        };
        self.0.push(Line {
            name: name.into(),
            points: dots.into_iter().flatten().map(scaled).collect(),
            is_marked: false,
        });
    }
}

impl Figure {
    /// The pictures as SVG; none if nothing of it was measured. The error is a sentence.
    pub(super) fn svgs(&self, measured: &Measured) -> Result<Vec<String>, String> {
        let mut lines = Lines::default();
        (self.draw)(measured, &mut lines);
        lines.0.retain(|line| !line.points.is_empty());
        let draw = |lines: &[Line]| {
            let plot = Plot {
                title: self.title.to_owned(),
                x: self.x.to_owned(),
                lines: lines.to_vec(),
                form: Form::Values,
            };
            let failed = |why| format!("no picture \"{}\": {why}", self.title);
            plot.svg().map_err(failed)
        };
        lines.0.chunks(LINES_MAX).map(draw).collect()
    }
}

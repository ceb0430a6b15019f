//! Curves over time of one run: kinds of traffic on top of each other, or each curve by itself.

use plotters::prelude::*;

use super::scale::{self, Ticked};
use super::{Area, Backend, Drawn, Figure, KINDS, Look, Titles};
use crate::results::Curve;

/// Curves.
pub(crate) struct Curves<'a> {
    /// The curves; a missing one leaves its colour unused.
    pub(crate) curves: &'a [Option<Curve>],
    /// The value at the top, which the figures of a page have in common.
    pub(crate) top: f64,
    /// The text for the values of a step, if the curves are kinds of traffic that are stacked.
    pub(crate) stacked: Option<fn(&[f64]) -> String>,
}

impl Curves<'_> {
    /// The figure for a page.
    pub(crate) fn figure(&self, about: &str) -> String {
        self.html((520, 280), about)
    }
}

impl Figure for Curves<'_> {
    fn paint<B: Backend>(&self, area: &Area<B>, look: Look, titles: &mut Titles) -> Drawn {
        let there = || self.curves.iter().flatten();
        // A step's value applies to the whole step; a queue is sampled when a step begins, and once more at the end.
        let steps = |curve: &Curve| match self.stacked {
            Some(_) => curve.values.len(),
            None => curve.values.len().saturating_sub(1).max(1),
        };
        let lengths = there().map(|curve| curve.step_s * steps(curve) as f64);
        let from_zero = |end: f64| Ticked::new(0.0..end, scale::ticks(0.0, end));
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(22)
            .x_label_area_size(34)
            .y_label_area_size(40)
            .build_cartesian_2d(
                from_zero(lengths.fold(0.0, f64::max)),
                from_zero(self.top * 1.03),
            )?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(look.faint())
            .axis_style(look.faint())
            .label_style(look.text(15, look.ink()))
            .x_label_formatter(&|t| format!("{} s", scale::label(*t)))
            .y_label_formatter(&|y| scale::label(*y))
            .draw()?;
        let Some(in_words) = self.stacked else {
            for (number, curve) in self.curves.iter().enumerate() {
                let Some(curve) = curve else { continue };
                let samples = curve.values.iter().enumerate();
                let points = samples.map(|(n, v)| (n as f64 * curve.step_s, *v));
                let style = look.line(number).stroke_width(2);
                chart.draw_series(LineSeries::new(points, style))?;
            }
            return Ok(());
        };
        let first = there().next().ok_or("no curves")?;
        let (step, steps) = (first.step_s, first.values.len());
        let mut floor = vec![0.0; steps];
        for (curve, colour) in self.curves.iter().zip(KINDS) {
            let Some(curve) = curve else { continue };
            let both = floor.iter().zip(&curve.values);
            let ceiling: Vec<f64> = both.map(|(a, b)| a + b).collect();
            chart.draw_series([layer(&floor, &ceiling, step, colour)])?;
            floor = ceiling;
        }
        for place in 0..steps {
            let value = |curve: &Option<Curve>| curve.as_ref()?.values.get(place).copied();
            let values: Vec<f64> = self
                .curves
                .iter()
                .map(|c| value(c).unwrap_or(0.0))
                .collect();
            let pixel = |step_at: usize, y| chart.backend_coord(&(step_at as f64 * step, y));
            let ((left, top), (right, bottom)) = (pixel(place, self.top), pixel(place + 1, 0.0));
            let time = scale::label(place as f64 * step);
            titles.push((
                [left, top, right, bottom],
                format!("{time} s: {}", in_words(&values)),
            ));
        }
        Ok(())
    }
}

/// The area between two curves.
fn layer(floor: &[f64], ceiling: &[f64], step: f64, colour: RGBColor) -> Polygon<(f64, f64)> {
    // Each value applies to its whole step: stairs, because slopes were not measured.
    let stairs = |values: &[f64]| -> Vec<(f64, f64)> {
        let ends = |(n, v): (usize, &f64)| [(n as f64 * step, *v), ((n + 1) as f64 * step, *v)];
        values.iter().enumerate().flat_map(ends).collect()
    };
    let mut outline = stairs(ceiling);
    outline.extend(stairs(floor).into_iter().rev());
    Polygon::new(outline, colour.filled())
}

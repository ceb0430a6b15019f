//! The pictures: who got the link, and how that went over time. Inline SVG.
//!
//! Colours are names that the page's style sheet defines, one set for light and one for dark: the
//! drawing library only knows numbers, so each name has a number that stands for it and is
//! replaced in the finished picture.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::font;
use crate::results::{Curve, OneRun, PointResult};

/// Kinds of traffic from the bottom of a stack to its top: metric, name.
pub(super) const KINDS: [(&str, &str); 3] = [("tcp", "long TCP"), ("udp", "UDP"), ("web", "web")];

const INK: RGBColor = RGBColor(1, 1, 1);
const FAINT: RGBColor = RGBColor(2, 2, 2);
const KIND_COLOURS: [RGBColor; 3] = [RGBColor(10, 1, 1), RGBColor(11, 1, 1), RGBColor(12, 1, 1)];
/// Lines of one picture at most.
pub(super) const LINES_MAX: usize = 6;
const LINE_COLOURS: [RGBColor; LINES_MAX] = [
    RGBColor(20, 1, 1),
    RGBColor(21, 1, 1),
    RGBColor(22, 1, 1),
    RGBColor(23, 1, 1),
    RGBColor(24, 1, 1),
    RGBColor(25, 1, 1),
];
/// The numbers that stand for names, as the library writes them.
const NAMES: [(&str, &str); 11] = [
    ("#010101", "var(--ink)"),
    ("#020202", "var(--faint)"),
    ("#0A0101", "var(--tcp)"),
    ("#0B0101", "var(--udp)"),
    ("#0C0101", "var(--web)"),
    ("#140101", "var(--line0)"),
    ("#150101", "var(--line1)"),
    ("#160101", "var(--line2)"),
    ("#170101", "var(--line3)"),
    ("#180101", "var(--line4)"),
    ("#190101", "var(--line5)"),
];
const FONT: &str = font::PAGE;

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws on a canvas of this size and gives the finished picture. A picture that cannot be drawn
/// is left out: the numbers are in the table.
fn draw(size: (u32, u32), about: &str, paint: impl FnOnce(&Canvas<'_>) -> Drawn) -> String {
    font::register();
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let done = paint(&area).and_then(|()| Ok(area.present()?));
    drop(area);
    if done.is_err() {
        return String::new();
    }
    for (number, name) in NAMES {
        svg = svg.replace(number, name);
    }
    let start = svg.find("<svg").unwrap_or(0);
    let fixed = format!("<svg width=\"{}\" height=\"{}\"", size.0, size.1);
    let label = format!("<svg role=\"img\" aria-label=\"{about}\"");
    svg[start..].replacen(&fixed, &label, 1)
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// A horizontal bar for each point: TCP, UDP and web goodput, stacked, in Mbit/s.
pub(super) fn bars(points: &[PointResult], width: u32) -> String {
    const ROW: u32 = 54;
    let size = (width, ROW * points.len() as u32 + 40);
    let whole = points.iter().map(total).fold(1.0, f64::max) * 1.02;
    draw(size, "goodput of each kind of traffic", |area| {
        let left = 8;
        let scale = f64::from(width - 24) / whole;
        for (row, point) in points.iter().enumerate() {
            let top = ROW as i32 * row as i32;
            let label = (FONT, 17).into_font().color(&INK);
            area.draw(&Text::new(point.title(), (left, top + 4), label))?;
            bar(area, point, (left, top + 25), scale)?;
        }
        axis(area, left, size.1 as i32 - 34, scale, whole)
    })
}

/// All goodput of a point.
pub(super) fn total(point: &PointResult) -> f64 {
    let goodput = |(kind, _): &(&str, &str)| point.median(&format!("{kind}_goodput_mbps"));
    KINDS.iter().filter_map(goodput).sum()
}

fn bar(area: &Canvas<'_>, point: &PointResult, at: (i32, i32), scale: f64) -> Drawn {
    const HEIGHT: i32 = 20;
    let mut from = 0.0;
    for ((kind, _), colour) in KINDS.iter().zip(KIND_COLOURS) {
        let value = point.median(&format!("{kind}_goodput_mbps")).unwrap_or(0.0);
        let x = |v: f64| at.0 + (v * scale).round() as i32;
        let corners = [(x(from), at.1), (x(from + value), at.1 + HEIGHT)];
        area.draw(&Rectangle::new(corners, colour.filled()))?;
        if value * scale > 44.0 {
            let white = (FONT, 14).into_font().color(&WHITE);
            let place = (x(from) + 6, at.1 + 4);
            area.draw(&Text::new(format!("{value:.1}"), place, white))?;
        }
        from += value;
    }
    Ok(())
}

fn axis(area: &Canvas<'_>, left: i32, top: i32, scale: f64, whole: f64) -> Drawn {
    let step = if whole > 60.0 {
        20.0
    } else {
        (whole / 4.0).ceil()
    };
    let mut value = 0.0;
    while value <= whole {
        let x = left + (value * scale).round() as i32;
        area.draw(&PathElement::new([(x, top), (x, top + 6)], FAINT))?;
        let anchor = Pos::new(
            if value == 0.0 {
                HPos::Left
            } else {
                HPos::Center
            },
            VPos::Top,
        );
        let style = (FONT, 14).into_font().color(&INK).pos(anchor);
        let unit = if value == 0.0 { " Mbit/s" } else { "" };
        area.draw(&Text::new(
            format!("{value:.0}{unit}"),
            (x, top + 10),
            style,
        ))?;
        value += step;
    }
    Ok(())
}

/// What each kind of traffic got over time, stacked.
pub(super) fn over_time(run: &OneRun, about: &str, top_mbps: f64) -> String {
    draw((520, 280), about, |area| {
        let curves: Vec<Option<&Curve>> = KINDS
            .iter()
            .map(|(kind, _)| run.series.get(&format!("{kind}_mbps")))
            .collect();
        let Some(first) = curves.iter().flatten().next() else {
            return Err("no curves".into());
        };
        let (step, steps) = (first.step_s, first.values.len());
        let mut chart = axes(area, step * steps as f64, top_mbps)?;
        let mut floor = vec![0.0; steps];
        for (curve, colour) in curves.iter().zip(KIND_COLOURS) {
            let Some(curve) = curve else { continue };
            let ceiling: Vec<f64> = floor
                .iter()
                .zip(&curve.values)
                .map(|(a, b)| a + b)
                .collect();
            chart.draw_series([layer(&floor, &ceiling, step, colour)])?;
            floor = ceiling;
        }
        Ok(())
    })
}

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

/// Axes from nothing to so many seconds and to so much.
fn axes<'a, 'b>(
    area: &'a Canvas<'b>,
    seconds: f64,
    top: f64,
) -> Result<Chart<'a, 'b>, Box<dyn std::error::Error>> {
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(22)
        .x_label_area_size(34)
        .y_label_area_size(40)
        .build_cartesian_2d(0.0..seconds, 0.0..top)?;
    let style = (FONT, 15).into_font().color(&INK);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(FAINT)
        .label_style(style)
        .x_labels(6)
        .y_labels(5)
        .x_label_formatter(&|t| match seconds < 6.0 {
            true => format!("{t:.1} s"),
            false => format!("{t:.0} s"),
        })
        .y_label_formatter(&|y| format!("{y:.0}"))
        .draw()?;
    Ok(chart)
}

/// Curves over time as lines, each in its own colour; a missing one leaves its colour out.
pub(super) fn lines(curves: &[Option<Curve>], about: &str, top: f64) -> String {
    draw((520, 280), about, |area| {
        let there = || curves.iter().flatten();
        // A queue is looked at when a step begins, and once more at the end.
        let lengths = there().map(|c| c.step_s * c.values.len().saturating_sub(1).max(1) as f64);
        let mut chart = axes(area, lengths.fold(0.0, f64::max), top * 1.05)?;
        for (curve, colour) in curves.iter().zip(LINE_COLOURS) {
            let Some(curve) = curve else { continue };
            let samples = curve.values.iter().enumerate();
            let points = samples.map(|(n, v)| (n as f64 * curve.step_s, *v));
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        }
        Ok(())
    })
}

/// The area between two curves.
fn layer(floor: &[f64], ceiling: &[f64], step: f64, colour: RGBColor) -> Polygon<(f64, f64)> {
    // Each value holds for its whole step: stairs, not slopes that nobody measured.
    let stairs = |values: &[f64]| -> Vec<(f64, f64)> {
        let ends = |(n, v): (usize, &f64)| [(n as f64 * step, *v), ((n + 1) as f64 * step, *v)];
        values.iter().enumerate().flat_map(ends).collect()
    };
    let mut outline = stairs(ceiling);
    outline.extend(stairs(floor).into_iter().rev());
    Polygon::new(outline, colour.filled())
}

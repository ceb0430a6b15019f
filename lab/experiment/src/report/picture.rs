//! The pictures: the shares of the link, in total and over time. Inline SVG.
//!
//! Colours are names that the page's style sheet defines, one set for light and one for dark. The drawing library
//! only supports numbers, so each name has a number, which the finished picture replaces by the name.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::font;
use super::html::escape;
use super::metric::shown;
use super::scale::{self, Ticked};
use super::style::COLOURS_MAX;
use crate::results::{Curve, PointResult};

/// Kinds of traffic from the bottom of a stack to its top: metric, name.
pub(super) const KINDS: [(&str, &str); 3] = [("tcp", "long TCP"), ("udp", "UDP"), ("web", "web")];

pub(super) const INK: RGBColor = RGBColor(1, 1, 1);
pub(super) const FAINT: RGBColor = RGBColor(2, 2, 2);
pub(super) const SOFT: RGBColor = RGBColor(3, 3, 3);
const KIND_COLOURS: [RGBColor; 3] = [RGBColor(10, 1, 1), RGBColor(11, 1, 1), RGBColor(12, 1, 1)];
/// The first number that represents a line.
const LINE: u8 = 20;
/// The numbers that represent names, in the library's notation.
const NAMES: [(&str, &str); 6] = [
    ("#010101", "var(--ink)"),
    ("#020202", "var(--faint)"),
    ("#030303", "var(--soft)"),
    ("#0A0101", "var(--tcp)"),
    ("#0B0101", "var(--udp)"),
    ("#0C0101", "var(--web)"),
];
pub(super) const FONT: &str = font::PAGE;

/// A rectangle of pixels: left, top, right, bottom.
pub(super) type Area = [i32; 4];
/// Texts that a browser shows over an area of a picture.
pub(super) type Titles = Vec<(Area, String)>;
pub(super) type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws on a canvas of this size and returns the finished picture. A picture that cannot be drawn is left out, because
/// the table contains the numbers.
pub(super) fn draw(
    size: (u32, u32),
    about: &str,
    paint: impl FnOnce(&Canvas<'_>, &mut Titles) -> Drawn,
) -> String {
    font::register();
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let mut titles = Titles::new();
    let done = paint(&area, &mut titles).and_then(|()| Ok(area.present()?));
    drop(area);
    if done.is_err() {
        return String::new();
    }
    for (number, name) in NAMES {
        svg = svg.replace(number, name);
    }
    for number in 0..COLOURS_MAX {
        let RGBColor(r, g, b) = line_colour(number);
        svg = svg.replace(
            &format!("#{r:02X}{g:02X}{b:02X}"),
            &format!("var(--line{number})"),
        );
    }
    let start = svg.find("<svg").unwrap_or(0);
    let fixed = format!("<svg width=\"{}\" height=\"{}\"", size.0, size.1);
    let label = format!("<svg role=\"img\" aria-label=\"{about}\"");
    with_titles(&svg[start..].replacen(&fixed, &label, 1), &titles)
}

/// A picture with the texts that a browser shows over its areas.
pub(super) fn with_titles(svg: &str, titles: &Titles) -> String {
    let area = |([left, top, right, bottom], text): &(Area, String)| {
        format!(
            "<rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" opacity=\"0\"><title>{}</title></rect>",
            right - left,
            bottom - top,
            escape(text)
        )
    };
    let areas: String = titles.iter().map(area).collect();
    svg.replacen("</svg>", &(areas + "</svg>"), 1)
}

/// The colour of this number.
pub(super) fn line_colour(number: usize) -> RGBColor {
    RGBColor(LINE + (number % COLOURS_MAX) as u8, 1, 1)
}

pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// A horizontal bar for each point: TCP, UDP and web goodput, stacked, in Mbit/s.
pub(super) fn bars(
    points: &[&PointResult],
    width: u32,
    goodput: &dyn Fn(&PointResult, &str) -> Option<f64>,
) -> String {
    const ROW: u32 = 54;
    let size = (width, ROW * points.len() as u32 + 40);
    let values = |p: &PointResult| KINDS.map(|(kind, _)| goodput(p, kind).unwrap_or(0.0));
    let total = |p: &&PointResult| values(p).iter().sum::<f64>();
    let most = points.iter().map(total).fold(0.0, f64::max);
    let whole = if most > 0.0 { most * 1.02 } else { 1.0 };
    draw(size, "goodput of each kind of traffic", |area, titles| {
        let left = 8;
        let scale = f64::from(width - 24) / whole;
        for (row, point) in points.iter().enumerate() {
            let top = ROW as i32 * row as i32;
            let label = (FONT, 17).into_font().color(&INK);
            area.draw(&Text::new(point.label(), (left, top + 4), label))?;
            bar(area, values(point), (left, top + 25), scale)?;
            let title = format!("{}: {}", point.label(), in_words(values(point)));
            titles.push(([0, top, width as i32, top + ROW as i32], title));
        }
        axis(area, left, size.1 as i32 - 34, (scale, whole), "Mbit/s")
    })
}

/// The goodput of each kind, in words.
fn in_words(values: [f64; KINDS.len()]) -> String {
    let all = KINDS.iter().zip(values).filter(|(_, value)| *value > 0.0);
    let words = all.map(|((_, name), value)| format!("{name} {}", shown(value)));
    format!("{} Mbit/s", words.collect::<Vec<_>>().join(", "))
}

fn bar(area: &Canvas<'_>, values: [f64; KINDS.len()], at: (i32, i32), scale: f64) -> Drawn {
    const HEIGHT: i32 = 20;
    let mut from = 0.0;
    for (value, colour) in values.into_iter().zip(KIND_COLOURS) {
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

/// The axis below bars: pixels per unit, and its end.
pub(super) fn axis(
    area: &Canvas<'_>,
    left: i32,
    top: i32,
    (scale, whole): (f64, f64),
    unit: &str,
) -> Drawn {
    for value in scale::ticks(0.0, whole) {
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
        let text = match value {
            0.0 => format!("0 {unit}"),
            value => scale::label(value),
        };
        area.draw(&Text::new(text, (x, top + 10), style))?;
    }
    Ok(())
}

/// The goodput of each kind of traffic over time, stacked.
pub(super) fn over_time(curves: &[Option<Curve>], about: &str, top_mbps: f64) -> String {
    draw((520, 280), about, |area, titles| {
        let Some(first) = curves.iter().flatten().next() else {
            return Err("no curves".into());
        };
        let (step, steps) = (first.step_s, first.values.len());
        let mut chart = axes(area, step * steps as f64, top_mbps * 1.03)?;
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
        for place in 0..steps {
            let values = std::array::from_fn(|kind| {
                let curve = curves.get(kind)?.as_ref()?;
                curve.values.get(place).copied()
            });
            let values: [Option<f64>; KINDS.len()] = values;
            let pixel = |step_at: usize, y| chart.backend_coord(&(step_at as f64 * step, y));
            let ((left, top), (right, bottom)) = (pixel(place, top_mbps), pixel(place + 1, 0.0));
            let title = format!(
                "{} s: {}",
                scale::label(place as f64 * step),
                in_words(values.map(|v| v.unwrap_or(0.0)))
            );
            titles.push(([left, top, right, bottom], title));
        }
        Ok(())
    })
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ticked, Ticked>>;

fn from_zero(end: f64) -> Ticked {
    Ticked::new(0.0..end, scale::ticks(0.0, end))
}

/// Axes from zero to the given maximum of time and value.
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
        .build_cartesian_2d(from_zero(seconds), from_zero(top))?;
    let style = (FONT, 15).into_font().color(&INK);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(FAINT)
        .label_style(style)
        .x_label_formatter(&|t| format!("{} s", scale::label(*t)))
        .y_label_formatter(&|y| scale::label(*y))
        .draw()?;
    Ok(chart)
}

/// Curves over time as lines, each in its own colour; a missing curve leaves its colour unused.
pub(super) fn lines(curves: &[Option<Curve>], about: &str, top: f64) -> String {
    draw((520, 280), about, |area, _| {
        let there = || curves.iter().flatten();
        // A queue is sampled when a step begins, and once more at the end.
        let lengths = there().map(|c| c.step_s * c.values.len().saturating_sub(1).max(1) as f64);
        let mut chart = axes(area, lengths.fold(0.0, f64::max), top * 1.03)?;
        for (number, curve) in curves.iter().enumerate() {
            let Some(curve) = curve else { continue };
            let colour = line_colour(number);
            let samples = curve.values.iter().enumerate();
            let points = samples.map(|(n, v)| (n as f64 * curve.step_s, *v));
            chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
        }
        Ok(())
    })
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

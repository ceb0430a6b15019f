//! Percentiles as bars: from zero to the median, then to the 95th and to the 99th percentile, each part paler.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::metric::shown;
use super::picture::{Canvas, Drawn, FONT, INK, axis, draw, line_colour};

/// Opacities of the three parts of a bar.
const STRENGTHS: [f64; 3] = [1.0, 0.5, 0.25];
const ROW: u32 = 40;

/// A bar.
pub(super) struct Row {
    /// The subject.
    pub(super) name: String,
    /// The number of the bar's colour.
    pub(super) colour: usize,
    /// Median, 95th and 99th percentile.
    pub(super) values: [f64; 3],
}

/// The bars, for a wide and for a narrow page, with a legend; empty without rows.
pub(super) fn html(rows: &[Row], unit: &str) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let names = ["median", "p95", "p99"];
    let item = |(name, strength): (&str, f64)| {
        let swatch = format!("<span class=\"swatch ink\" style=\"opacity:{strength}\"></span>");
        format!("<li>{swatch}{name}</li>")
    };
    let items: String = names.into_iter().zip(STRENGTHS).map(item).collect();
    let bars = |class: &str, width: u32| {
        format!(
            "<figure class=\"{class}\">{}</figure>",
            bars(rows, unit, width)
        )
    };
    format!(
        "<ul class=\"legend\">{items}<li class=\"unit\">{unit}</li></ul>{}{}",
        bars("wide", 760),
        bars("narrow", 360)
    )
}

fn bars(rows: &[Row], unit: &str, width: u32) -> String {
    let size = (width, ROW * rows.len() as u32 + 40);
    let most = rows.iter().map(|row| row.values[2]).fold(0.0, f64::max);
    let whole = if most > 0.0 { most * 1.02 } else { 1.0 };
    draw(size, "median, p95 and p99", |area, titles| {
        let left = 8;
        let scale = f64::from(width - 24) / whole;
        for (place, row) in rows.iter().enumerate() {
            let top = ROW as i32 * place as i32;
            let label = (FONT, 14).into_font().color(&INK);
            area.draw(&Text::new(row.name.clone(), (left, top + 4), label.clone()))?;
            let right = label.pos(Pos::new(HPos::Right, VPos::Top));
            let numbers = row.values.map(shown).join(" / ");
            area.draw(&Text::new(numbers, (width as i32 - 16, top + 4), right))?;
            bar(area, row, (left, top + 22), scale)?;
            let [median, p95, p99] = row.values.map(shown);
            let title = format!("{}: median {median}, p95 {p95}, p99 {p99} {unit}", row.name);
            titles.push(([0, top, width as i32, top + ROW as i32], title));
        }
        axis(area, left, size.1 as i32 - 34, (scale, whole), unit)
    })
}

fn bar(area: &Canvas<'_>, row: &Row, at: (i32, i32), scale: f64) -> Drawn {
    const HEIGHT: i32 = 12;
    let mut from = 0.0;
    for (value, strength) in row.values.into_iter().zip(STRENGTHS) {
        let x = |v: f64| at.0 + (v * scale).round() as i32;
        let corners = [(x(from), at.1), (x(value), at.1 + HEIGHT)];
        area.draw(&Rectangle::new(
            corners,
            line_colour(row.colour).mix(strength).filled(),
        ))?;
        from = value;
    }
    Ok(())
}

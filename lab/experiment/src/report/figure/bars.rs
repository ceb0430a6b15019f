//! Horizontal bars of several parts, each with its subject above it, over one axis.

use plotters::prelude::*;
use plotters::style::RGBAColor;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Area, Backend, Drawn, Figure, Look, Titles, scale};

/// A bar.
pub(crate) struct Bar {
    /// The subject.
    pub(crate) name: String,
    /// A text at the right end of the line of its name.
    pub(crate) remark: String,
    /// The text that a browser shows over it.
    pub(crate) title: String,
    /// Where each part ends.
    pub(crate) ends: Vec<f64>,
}

/// Bars.
pub(crate) struct Bars<'a> {
    pub(crate) bars: Vec<Bar>,
    /// The unit of the axis.
    pub(crate) unit: &'a str,
    /// The colour of a part, by the numbers of bar and part.
    pub(crate) colour: &'a dyn Fn(Look, usize, usize) -> RGBAColor,
    /// Whether the parts show their length.
    pub(crate) is_labelled: bool,
}

/// Sizes of one form of bars.
struct Form {
    row: i32,
    name: i32,
    top: i32,
    bar: i32,
}

const LABELLED: Form = Form {
    row: 54,
    name: 17,
    top: 25,
    bar: 20,
};
const PLAIN: Form = Form {
    row: 40,
    name: 14,
    top: 22,
    bar: 12,
};

impl Bars<'_> {
    fn form(&self) -> Form {
        if self.is_labelled { LABELLED } else { PLAIN }
    }

    /// The figures for a wide and for a narrow page: a scaled-down one would be unreadable.
    pub(crate) fn figures(&self, about: &str) -> String {
        let height = (self.form().row * self.bars.len() as i32 + 40) as u32;
        let figure = |(class, width)| {
            let svg = Figure::html(self, (width, height), about);
            format!("<figure class=\"{class}\">{svg}</figure>")
        };
        [("wide", 760), ("narrow", 360)].map(figure).concat()
    }
}

impl Figure for Bars<'_> {
    fn paint<B: Backend>(&self, area: &Area<B>, look: Look, titles: &mut Titles) -> Drawn {
        const LEFT: i32 = 8;
        let form = self.form();
        let (width, height) = area.dim_in_pixel();
        let (width, height) = (width as i32, height as i32);
        let ends = self.bars.iter().filter_map(|bar| bar.ends.last());
        let most = ends.copied().fold(0.0, f64::max);
        let whole = if most > 0.0 { most * 1.02 } else { 1.0 };
        let scale = f64::from(width - 24) / whole;
        let x = |value: f64| LEFT + (value * scale).round() as i32;
        let name = look.text(form.name, look.ink());
        for (number, bar) in self.bars.iter().enumerate() {
            let top = form.row * number as i32;
            area.draw(&Text::new(bar.name.clone(), (LEFT, top + 4), name.clone()))?;
            let right = name.pos(Pos::new(HPos::Right, VPos::Top));
            area.draw(&Text::new(bar.remark.clone(), (width - 16, top + 4), right))?;
            let mut from = 0.0;
            for (part, end) in bar.ends.iter().enumerate() {
                let y = top + form.top;
                let corners = [(x(from), y), (x(*end), y + form.bar)];
                let colour = (self.colour)(look, number, part);
                area.draw(&Rectangle::new(corners, colour.filled()))?;
                if self.is_labelled && (end - from) * scale > 44.0 {
                    let text = format!("{:.1}", end - from);
                    let white = look.text(14, WHITE);
                    area.draw(&Text::new(text, (x(from) + 6, y + 4), white))?;
                }
                from = *end;
            }
            titles.push(([0, top, width, top + form.row], bar.title.clone()));
        }
        let top = height - 34;
        for value in scale::ticks(0.0, whole) {
            let x = x(value);
            area.draw(&PathElement::new([(x, top), (x, top + 6)], look.faint()))?;
            let (anchor, text) = match value {
                0.0 => (HPos::Left, format!("0 {}", self.unit)),
                value => (HPos::Center, scale::label(value)),
            };
            let style = look.text(14, look.ink()).pos(Pos::new(anchor, VPos::Top));
            area.draw(&Text::new(text, (x, top + 10), style))?;
        }
        Ok(())
    }
}

//! Shares: a row for each case, in it a mark for each competitor.
//!
//! ```text
//!                      o first   x second
//!   a case        |  x |    |    |   o|
//!   another one   |    |  x |    |o   |
//!                 0   .25  .5   .75   1
//! ```
//!
//! Marks differ in form and colour, and each competitor has its own height in the rows, so that equal shares are
//! visible.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Area, Backend, Drawn, Failed, Figure, Look, Titles};

/// The figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Marks {
    /// The title of the lower axis.
    pub(crate) axis: String,
    /// The competitors; the last is drawn over the others.
    pub(crate) names: Vec<String>,
    /// For each case its name, and the share of each competitor, from 0 to 1; a share outside is drawn at the edge.
    pub(crate) rows: Vec<(String, Vec<Option<f64>>)>,
}

/// Maximum number of competitors.
pub(crate) const NAMES_MAX: usize = 6;
/// Colours that most people with colour blindness can distinguish (Okabe and Ito).
const COLOURS: [RGBColor; NAMES_MAX] = [
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(204, 121, 167),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(0, 70, 140),
];
/// Sizes, in units of the drawing.
const WIDTH: i32 = 900;
const LEFT: i32 = 340;
const RIGHT: i32 = WIDTH - 30;
const TOP: i32 = 52;
const LANE: i32 = 7;
const BELOW: i32 = 58;

impl Marks {
    /// The figure as a file of its own.
    pub(crate) fn svg(&self) -> Result<String, Failed> {
        let size = (WIDTH as u32, (self.bottom() + BELOW) as u32);
        Figure::svg(self, size, None)
    }

    fn row(&self) -> i32 {
        LANE * self.names.len() as i32 + 16
    }

    fn bottom(&self) -> i32 {
        TOP + self.row() * self.rows.len() as i32
    }

    /// The axis and the names.
    fn scale<B: Backend>(&self, area: &Area<B>, look: Look) -> Drawn {
        let below = look
            .text(14, look.ink())
            .pos(Pos::new(HPos::Center, VPos::Top));
        for (tick, label) in ["0", "0.25", "0.5", "0.75", "1"].into_iter().enumerate() {
            let x = x(tick as f64 / 4.0);
            area.draw(&PathElement::new(
                [(x, TOP), (x, self.bottom())],
                look.faint(),
            ))?;
            area.draw_text(label, &below, (x, self.bottom() + 6))?;
        }
        area.draw_text(&self.axis, &below, ((LEFT + RIGHT) / 2, self.bottom() + 30))?;
        let mut at = LEFT - 20;
        for (place, name) in self.names.iter().enumerate() {
            self.mark(area, (at, 26), place)?;
            let style = look
                .text(15, look.ink())
                .pos(Pos::new(HPos::Left, VPos::Center));
            area.draw_text(name, &style, (at + 12, 26))?;
            at += 32 + area.estimate_text_size(name, &style)?.0 as i32;
        }
        Ok(())
    }

    /// The mark of the competitor with this index.
    fn mark<B: Backend>(&self, area: &Area<B>, at: (i32, i32), place: usize) -> Drawn {
        let last = place + 1 == self.names.len();
        let colour = if last {
            COLOURS[NAMES_MAX - 1]
        } else {
            COLOURS[place % (NAMES_MAX - 1)]
        };
        let thick = colour.stroke_width(2);
        let (low, high) = ((at.0 - 4, at.1 - 4), (at.0 + 4, at.1 + 4));
        match place % 4 {
            _ if last => area.draw(&Circle::new(at, 6, colour.filled()))?,
            0 => area.draw(&TriangleMarker::new(at, 6, colour.filled()))?,
            1 => area.draw(&Cross::new(at, 4, thick))?,
            2 => area.draw(&Circle::new(at, 5, thick))?,
            _ => area.draw(&Rectangle::new([low, high], colour.filled()))?,
        }
        Ok(())
    }
}

impl Figure for Marks {
    fn paint<B: Backend>(&self, area: &Area<B>, look: Look, _titles: &mut Titles) -> Drawn {
        area.fill(&WHITE)?;
        self.scale(area, look)?;
        for (number, (name, shares)) in self.rows.iter().enumerate() {
            let top = TOP + self.row() * number as i32;
            let right = look
                .text(15, look.ink())
                .pos(Pos::new(HPos::Right, VPos::Center));
            area.draw_text(name, &right, (LEFT - 18, top + self.row() / 2))?;
            area.draw(&PathElement::new([(20, top), (RIGHT, top)], look.faint()))?;
            for (place, share) in shares.iter().enumerate() {
                if let Some(share) = share {
                    let y = top + self.row() / 2 + LANE * place as i32
                        - LANE * (shares.len() as i32 - 1) / 2;
                    self.mark(area, (x(*share), y), place)?;
                }
            }
        }
        Ok(())
    }
}

/// The horizontal position of a share.
fn x(share: f64) -> i32 {
    LEFT + (f64::from(RIGHT - LEFT) * share.clamp(0.0, 1.0)).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_for_each_share_that_is_known() {
        let marks = Marks {
            axis: "share".to_owned(),
            names: ["a", "b", "c"].map(str::to_owned).to_vec(),
            rows: vec![
                ("one case".to_owned(), vec![Some(0.0), Some(0.5), None]),
                ("another".to_owned(), vec![None, None, Some(2.0)]),
            ],
        };
        let svg = marks.svg().unwrap();
        for expected in ["one case", "another", "share", "a", "b", "c"] {
            assert!(svg.contains(&format!("\n{expected}\n")), "{expected}");
        }
        // Each competitor has a mark in the legend, and one for each share: two triangles, two crosses of two lines,
        // two discs.
        let count = |what: &str| svg.matches(what).count();
        assert_eq!(count("<polygon"), 2, "{svg}");
        assert_eq!(count("<circle"), 2);
        // A share above 1 is drawn at the edge.
        assert!(svg.contains(&format!("<circle cx=\"{RIGHT}\"")));
        assert_eq!(x(0.5), (LEFT + RIGHT) / 2);
    }
}

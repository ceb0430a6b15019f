//! Figures: painted once, and drawn on a page, in a file of their own, or as a bitmap.
//!
//! | file | figure |
//! |---|---|
//! | `lines` | lines over a numeric axis |
//! | `curves` | curves over time of one run, stacked or each by itself |
//! | `scatter` | points of two figures each |
//! | `marks` | a row of marks for each case |
//! | `bars` | horizontal bars of several parts |
//! | `scale`, `font` | axes; the font |
//!
//! Colours of a page are names that the page's style sheet defines, one set for light and one for dark. The drawing
//! library only supports numbers, so each name has a number, which the finished figure replaces by the name.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::RGBColor;

use super::html::escape;
use super::style::COLOURS_MAX;

pub(super) mod bars;
pub(super) mod curves;
mod font;
pub(super) mod lines;
pub(crate) mod marks;
pub(super) mod scale;
pub(super) mod scatter;

/// A rectangle of pixels: left, top, right, bottom.
pub(crate) type Frame = [i32; 4];
/// Texts that a browser shows over a part of a figure.
pub(crate) type Titles = Vec<(Frame, String)>;
pub(crate) type Failed = Box<dyn std::error::Error>;
pub(crate) type Drawn = Result<(), Failed>;
pub(crate) type Area<B> = DrawingArea<B, Shift>;

/// A surface of the drawing library.
pub(crate) trait Backend: DrawingBackend<ErrorType: 'static> {}
impl<B: DrawingBackend<ErrorType: 'static>> Backend for B {}

/// A figure.
pub(crate) trait Figure {
    /// Draws it on an area; `titles` count on a page only.
    fn paint<B: Backend>(&self, area: &Area<B>, look: Look, titles: &mut Titles) -> Drawn;

    /// The figure for a page, of this size, with a description; without description, a file of its own.
    fn svg(&self, size: (u32, u32), about: Option<&str>) -> Result<String, Failed> {
        font::register();
        let (mut svg, mut titles) = (String::new(), Titles::new());
        let look = Look {
            scale: 1,
            is_page: about.is_some(),
        };
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        self.paint(&area, look, &mut titles)?;
        area.present()?;
        drop(area);
        Ok(match about {
            Some(about) => on_page(svg, size, about, &titles),
            None => svg,
        })
    }

    /// The figure for a page; empty if it cannot be drawn, because the tables contain the numbers.
    fn html(&self, size: (u32, u32), about: &str) -> String {
        self.svg(size, Some(about)).unwrap_or_default()
    }

    /// The figure as a bitmap of twice this size.
    fn png(&self, size: (u32, u32)) -> Result<Vec<u8>, Failed> {
        const PIXELS: u32 = 2;
        font::register();
        let look = Look {
            scale: PIXELS,
            is_page: false,
        };
        let (width, height) = (size.0 * PIXELS, size.1 * PIXELS);
        let mut pixels = vec![0; (width * height * 3) as usize];
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        self.paint(&area, look, &mut Titles::new())?;
        area.present()?;
        drop(area);
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&pixels)?;
        writer.finish()?;
        Ok(file)
    }
}

/// Units, font and colours of a surface.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// Pixels of a unit.
    scale: u32,
    pub(super) is_page: bool,
}

/// Colours that most people with colour blindness can distinguish (Okabe and Ito), outside of a page.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
    RGBColor(106, 81, 163),
    RGBColor(150, 120, 40),
];
/// The number that represents the first colour of lines on a page.
const LINE: u8 = 20;
/// The numbers that represent other names, and the colours outside of a page.
const INK: [RGBColor; 2] = [RGBColor(1, 1, 1), RGBColor(29, 35, 43)];
const FAINT: [RGBColor; 2] = [RGBColor(2, 2, 2), RGBColor(211, 216, 222)];
const SOFT: [RGBColor; 2] = [RGBColor(3, 3, 3), RGBColor(92, 102, 114)];
/// Colours of kinds of traffic, which only a page has.
pub(crate) const KINDS: [RGBColor; 3] =
    [RGBColor(10, 1, 1), RGBColor(11, 1, 1), RGBColor(12, 1, 1)];

impl Look {
    /// Pixels of this many units.
    pub(super) fn units(self, units: i32) -> i32 {
        units * self.scale as i32
    }

    /// The width of a stroke of this many units.
    pub(super) fn stroke(self, units: u32) -> u32 {
        units * self.scale
    }

    fn of(self, [page, alone]: [RGBColor; 2]) -> RGBColor {
        if self.is_page { page } else { alone }
    }

    pub(super) fn ink(self) -> RGBColor {
        self.of(INK)
    }

    pub(super) fn faint(self) -> RGBColor {
        self.of(FAINT)
    }

    pub(super) fn soft(self) -> RGBColor {
        self.of(SOFT)
    }

    /// The colour of lines with this number.
    pub(crate) fn line(self, number: usize) -> RGBColor {
        let page = RGBColor(LINE + (number % COLOURS_MAX) as u8, 1, 1);
        self.of([page, COLOURS[number % COLOURS.len()]])
    }

    /// Text of this height in units.
    pub(super) fn text(self, height: i32, colour: RGBColor) -> TextStyle<'static> {
        let family = if self.is_page {
            font::PAGE
        } else {
            font::ALONE
        };
        let font: FontDesc<'static> = (family, self.units(height)).into();
        font.color(&colour)
    }
}

/// A drawing as a part of a page: with names of colours, a description, and texts that a browser shows over its parts.
fn on_page(mut svg: String, size: (u32, u32), about: &str, titles: &Titles) -> String {
    let names = [(INK[0], "ink"), (FAINT[0], "faint"), (SOFT[0], "soft")];
    let kinds = KINDS.into_iter().zip(["tcp", "udp", "web"]);
    let named = names.into_iter().chain(kinds);
    let lines = (0..COLOURS_MAX).map(|n| (RGBColor(LINE + n as u8, 1, 1), format!("line{n}")));
    for (RGBColor(r, g, b), name) in named.map(|(c, name)| (c, name.to_owned())).chain(lines) {
        svg = svg.replace(
            &format!("#{r:02X}{g:02X}{b:02X}"),
            &format!("var(--{name})"),
        );
    }
    let start = svg.find("<svg").unwrap_or(0);
    let fixed = format!("<svg width=\"{}\" height=\"{}\"", size.0, size.1);
    let label = format!("<svg role=\"img\" aria-label=\"{}\"", escape(about));
    let area = |([left, top, right, bottom], text): &(Frame, String)| {
        format!(
            "<rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" opacity=\"0\"><title>{}</title></rect>",
            right - left,
            bottom - top,
            escape(text)
        )
    };
    let areas: String = titles.iter().map(area).collect();
    svg[start..]
        .replacen(&fixed, &label, 1)
        .replacen("</svg>", &(areas + "</svg>"), 1)
}

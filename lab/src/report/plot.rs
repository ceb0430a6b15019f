//! One plot that stands alone, as SVG and as PNG: lines over an axis of numbers.
//!
//! ```text
//!   title
//!   ── line  ── line           names above the plot, where they cover nothing
//!   |      /I
//!   | I---I       I            I: half of the 95 % interval, up and down
//!   +----------
//! ```

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::font;
use super::metric::shown;

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plot {
    /// What it shows.
    pub(crate) title: String,
    /// The axis below.
    pub(crate) x: String,
    /// Its lines.
    pub(crate) lines: Vec<Line>,
}

/// A line of a plot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    /// What is told by its colour.
    pub(crate) name: String,
    /// Its points from left to right.
    pub(crate) points: Vec<Dot>,
    /// Whether each point is one measurement, with a mark of its own.
    pub(crate) is_marked: bool,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dot {
    /// Along the axis below.
    pub(crate) x: f64,
    /// The value.
    pub(crate) y: f64,
    /// Half of its interval.
    pub(crate) half: Option<f64>,
}

/// Colours that differ for most kinds of sight (Okabe and Ito); as many lines fit one plot.
const COLOURS: [RGBColor; LINES_MAX] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
    RGBColor(150, 120, 40),
];
/// Lines of one plot at most.
pub(crate) const LINES_MAX: usize = 8;
const INK: RGBColor = RGBColor(29, 35, 43);
const FAINT: RGBColor = RGBColor(211, 216, 222);
const SIZE: (u32, u32) = (820, 460);
/// Pixels of a bitmap for each unit of a drawing.
const PIXELS: u32 = 2;

type Failed = Box<dyn std::error::Error>;

impl Plot {
    /// As a drawing.
    pub(crate) fn svg(&self) -> Result<String, Failed> {
        font::register();
        let mut svg = String::new();
        self.draw(
            &SVGBackend::with_string(&mut svg, SIZE).into_drawing_area(),
            1,
        )?;
        Ok(svg)
    }

    /// As a bitmap.
    pub(super) fn png(&self) -> Result<Vec<u8>, Failed> {
        font::register();
        let (width, height) = (SIZE.0 * PIXELS, SIZE.1 * PIXELS);
        let mut pixels = vec![0; (width * height * 3) as usize];
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        self.draw(&area, PIXELS)?;
        drop(area);
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&pixels)?;
        writer.finish()?;
        Ok(file)
    }

    fn draw<B>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Result<(), Failed>
    where
        B: DrawingBackend,
        B::ErrorType: 'static,
    {
        let s = |size: i32| size * scale as i32;
        area.fill(&WHITE)?;
        let text = |size: i32| (font::ALONE, s(size)).into_font().color(&INK);
        area.draw(&Text::new(self.title.clone(), (s(14), s(12)), text(18)))?;
        let below = self.draw_names(area, scale)?;
        let (_, chart) = area.split_vertically(below);
        let (xs, ys) = self.ranges();
        // There is nothing between two and three flows.
        let marked = self.lines.iter().filter(|line| line.is_marked);
        let mut marks = marked.flat_map(|line| &line.points).peekable();
        let whole = marks.peek().is_some() && marks.all(|dot| dot.x.fract() == 0.0);
        let mut chart = ChartBuilder::on(&chart)
            .margin(s(8))
            .margin_right(s(24))
            .x_label_area_size(s(46))
            .y_label_area_size(s(58))
            .build_cartesian_2d(xs, ys)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT.stroke_width(scale))
            .axis_style(FAINT.stroke_width(scale))
            .label_style(text(13))
            .axis_desc_style(text(14))
            .x_desc(self.x.clone())
            .x_labels(8)
            .y_labels(6)
            .x_label_formatter(&|x| match whole && x.fract() != 0.0 {
                true => String::new(),
                false => shown_short(*x),
            })
            .y_label_formatter(&|y| shown_short(*y))
            .draw()?;
        for (line, colour) in self.lines.iter().zip(COLOURS) {
            let points = line.points.iter().map(|dot| (dot.x, dot.y));
            let style = colour.stroke_width(2 * scale);
            chart.draw_series(LineSeries::new(points.clone(), style))?;
            if !line.is_marked {
                continue;
            }
            let mark = |at| Circle::new(at, s(4), colour.filled());
            chart.draw_series(points.map(mark))?;
            let bars = line.points.iter().filter_map(|dot| Some((dot, dot.half?)));
            chart.draw_series(bars.map(|(dot, half)| {
                let (low, high) = (dot.y - half, dot.y + half);
                ErrorBar::new_vertical(dot.x, low, dot.y, high, style, 8 * scale)
            }))?;
        }
        area.present()?;
        Ok(())
    }

    /// The names of the lines, in rows; gives the height where the plot begins.
    fn draw_names<B>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Result<i32, Failed>
    where
        B: DrawingBackend,
        B::ErrorType: 'static,
    {
        let s = |size: i32| size * scale as i32;
        let style = (font::ALONE, s(13)).into_font().color(&INK);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        let (mut x, mut y) = (s(14), s(48));
        for (line, colour) in self.lines.iter().zip(COLOURS) {
            let (width, _) = area.estimate_text_size(&line.name, &style)?;
            let width = s(34) + width as i32;
            if x > s(14) && x + width > s(SIZE.0 as i32 - 14) {
                (x, y) = (s(14), y + s(20));
            }
            let dash = [(x, y - s(2)), (x + s(22), y - s(2))];
            area.draw(&PathElement::new(dash, colour.stroke_width(3 * scale)))?;
            let at = (x + s(28), y);
            area.draw(&Text::new(line.name.clone(), at, style.clone()))?;
            x += width + s(14);
        }
        Ok(y + s(14))
    }

    /// The axes: all of the lines and their intervals, and always the value zero.
    fn ranges(&self) -> (std::ops::Range<f64>, std::ops::Range<f64>) {
        let dots = || self.lines.iter().flat_map(|line| &line.points);
        if dots().next().is_none() {
            return (0.0..1.0, 0.0..1.0);
        }
        let (mut left, mut right) = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut low, mut high) = (0.0, 0.0);
        for dot in dots() {
            let half = dot.half.unwrap_or(0.0);
            (left, right) = (dot.x.min(left), dot.x.max(right));
            (low, high) = ((dot.y - half).min(low), (dot.y + half).max(high));
        }
        let marked = self.lines.iter().any(|line| line.is_marked);
        let margin = match right - left {
            width if width > 0.0 && marked => width * 0.04,
            width if width > 0.0 => 0.0,
            _ => 0.5,
        };
        // Curves begin with the run, whether or not they have a value there.
        left = if marked { left } else { left.min(0.0) };
        let room = match high - low {
            height if height > 0.0 => height * 0.06,
            _ => 1.0,
        };
        let bottom = if low < 0.0 { low - room } else { 0.0 };
        (left - margin..right + margin, bottom..high + room)
    }
}

/// A number on an axis: no digits that say nothing.
fn shown_short(x: f64) -> String {
    let long = shown(x);
    match long.contains('.') && !long.contains('e') {
        true => long.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => long,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_is_a_drawing_and_a_bitmap() {
        let dot = |x, y, half| Dot { x, y, half };
        let line = |name: &str, is_marked| Line {
            name: name.into(),
            points: vec![dot(1.0, 2.0, Some(0.5)), dot(2.0, 3.0, None)],
            is_marked,
        };
        let plot = Plot {
            title: "a < b".into(),
            x: "x".into(),
            lines: vec![line("one", true), line("other", false)],
        };
        let svg = plot.svg().unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("a &lt; b"), "{svg}");
        let file = plot.png().unwrap();
        let reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info();
        let reader = reader.unwrap();
        assert_eq!((reader.info().width, reader.info().height), (1640, 920));
        assert_eq!(file, plot.png().unwrap());
        let empty = Plot {
            lines: Vec::new(),
            ..plot
        };
        assert!(empty.svg().is_ok());
    }

    #[test]
    fn axes_hold_intervals_and_zero() {
        let line = Line {
            name: String::new(),
            points: vec![Dot {
                x: 3.0,
                y: 5.0,
                half: Some(5.0),
            }],
            is_marked: true,
        };
        let plot = Plot {
            title: String::new(),
            x: String::new(),
            lines: vec![line],
        };
        let (xs, ys) = plot.ranges();
        assert_eq!((xs.start, xs.end, ys.start), (2.5, 3.5, 0.0));
        assert!((ys.end - 10.6).abs() < 1e-9);
        assert_eq!(shown_short(20.0), "20");
        assert_eq!(shown_short(0.5), "0.5");
    }
}

//! One plot, as SVG and PNG files or on a page: lines over a numeric axis.
//!
//! ```text
//!   title
//!   ── line  ── line           names above the plot, where they cover nothing
//!   |      /I
//!   | I---I       I            I: an interval
//!   +----------
//! ```

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::metric::shown;
use super::scale::{self, Axis};
use super::{Area, Backend, Drawn, Failed, Figure, Look, Titles};

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plot {
    /// The title.
    pub(crate) title: String,
    /// The title of the lower axis.
    pub(crate) x: String,
    /// The lines.
    pub(crate) lines: Vec<Line>,
    /// The form of the lines.
    pub(crate) form: Form,
}

/// The form of the lines of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Values, from zero on.
    Values,
    /// Distributions: the share of values, in per cent, that do not exceed a value. The axis of values is logarithmic
    /// if they span a wide range.
    Distributions,
}

/// A line of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The legend for its colour.
    pub(crate) name: String,
    /// The number of its colour.
    pub(crate) colour: usize,
    /// The points from left to right.
    pub(crate) points: Vec<Dot>,
    /// Whether each point is one measurement and has a mark.
    pub(crate) is_marked: bool,
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dot {
    /// The position on the lower axis.
    pub(crate) x: f64,
    /// The value.
    pub(crate) y: f64,
    /// The interval of the value: from, to.
    pub(crate) interval: Option<[f64; 2]>,
}

/// Maximum number of lines of a drawing.
pub(crate) const LINES_MAX: usize = 8;
/// The axis of a sweep or a distribution is logarithmic if its ends have at least this ratio.
const FAR_APART: f64 = 20.0;
/// The size of a file, and of a figure on a page.
const ALONE: (u32, u32) = (820, 460);
const ON_PAGE: (u32, u32) = (480, 320);

/// Some lines of a plot, with the axes of all.
struct Part<'a> {
    plot: &'a Plot,
    lines: &'a [Line],
}

impl Plot {
    fn whole(&self) -> Part<'_> {
        Part {
            plot: self,
            lines: &self.lines,
        }
    }

    /// The plot as a file of its own.
    pub(crate) fn svg(&self) -> Result<String, Failed> {
        self.whole().svg(ALONE, None)
    }

    /// The plot as a bitmap.
    pub(crate) fn png(&self) -> Result<Vec<u8>, Failed> {
        self.whole().png(ALONE)
    }

    /// The plot as drawings for the page: without title, in the page's colours. If it has too many lines for one
    /// drawing, there are several with the same axes.
    pub(crate) fn inline(&self) -> Result<Vec<String>, Failed> {
        let parts = self.lines.chunks(LINES_MAX);
        let parts = parts.map(|lines| Part { plot: self, lines });
        parts
            .map(|part| part.svg(ON_PAGE, Some(&self.title)))
            .collect()
    }

    /// The text that a browser shows over a point.
    fn title_of(&self, line: &Line, dot: &Dot) -> String {
        let (x, y) = (shown(dot.x), shown(dot.y));
        match self.form {
            Form::Values => format!("{}: {y} at {x}", line.name),
            Form::Distributions => format!("{}: {y} % at most {x}", line.name),
        }
    }

    /// The axes: they end near the data.
    fn axes(&self) -> (Axis, Axis) {
        let dots = || self.lines.iter().flat_map(|line| &line.points);
        if dots().next().is_none() {
            return (Axis::linear(0.0, 1.0), Axis::linear(0.0, 1.0));
        }
        let least = |of: &dyn Fn(&Dot) -> f64| dots().map(of).fold(f64::INFINITY, f64::min);
        let most = |of: &dyn Fn(&Dot) -> f64| dots().map(of).fold(f64::NEG_INFINITY, f64::max);
        let (left, right) = (least(&|dot| dot.x), most(&|dot| dot.x));
        if self.form == Form::Distributions {
            let positive = dots().map(|dot| dot.x).filter(|x| *x > 0.0);
            let left = positive.fold(f64::INFINITY, f64::min);
            let xs = if right / left >= FAR_APART {
                Axis::logarithmic(left, right * 1.05)
            } else {
                Axis::near(left.min(right), right)
            };
            return (xs, Axis::linear(0.0, 100.0));
        }
        let ends = |dot: &Dot| dot.interval.unwrap_or([dot.y; 2]);
        let low = least(&|dot| ends(dot)[0]).min(0.0);
        let high = most(&|dot| ends(dot)[1]).max(0.0);
        let room = match high - low {
            height if height > 0.0 => height * 0.04,
            _ => 1.0,
        };
        let bottom = if low < 0.0 { low - room } else { 0.0 };
        let marked = self.lines.iter().any(|line| line.is_marked);
        let xs = match marked {
            true => self.swept_axis(left, right),
            // Curves begin at the start of the run, even if they have no value there.
            false if right > left.min(0.0) => Axis::linear(left.min(0.0), right),
            false => Axis::linear(left - 0.5, right + 0.5),
        };
        (xs, Axis::linear(bottom, high + room))
    }

    /// The axis of a sweep: its ticks are the swept values, if there is room for them.
    fn swept_axis(&self, left: f64, right: f64) -> Axis {
        let dots = self.lines.iter().flat_map(|line| &line.points);
        let is_far = left > 0.0 && right / left >= FAR_APART;
        let mut axis = if is_far {
            Axis::logarithmic(left / 1.1, right * 1.1)
        } else {
            let margin = match right - left {
                width if width > 0.0 => width * 0.04,
                _ => 0.5,
            };
            Axis::linear(left - margin, right + margin)
        };
        let places = dots.map(|dot| axis.place(dot.x)).collect();
        if let Some(values) = scale::values(places) {
            axis.ticks = values;
        }
        axis
    }
}

impl Figure for Part<'_> {
    fn paint<B: Backend>(&self, area: &Area<B>, look: Look, titles: &mut Titles) -> Drawn {
        let Part { plot, lines } = *self;
        let s = |size: i32| look.units(size);
        if !look.is_page {
            area.fill(&WHITE)?;
            let title = Text::new(
                plot.title.clone(),
                (s(14), s(12)),
                look.text(18, look.ink()),
            );
            area.draw(&title)?;
        }
        let below = draw_names(area, look, lines)?;
        let (_, chart) = area.split_vertically(below);
        let (xs, ys) = plot.axes();
        let mut chart = ChartBuilder::on(&chart)
            .margin(s(8))
            .margin_right(s(24))
            .x_label_area_size(s(46))
            .y_label_area_size(s(58))
            .build_cartesian_2d(xs.coordinate(), ys.coordinate())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(look.faint().stroke_width(look.stroke(1)))
            .axis_style(look.faint().stroke_width(look.stroke(1)))
            .label_style(look.text(13, look.ink()))
            .axis_desc_style(look.text(14, look.ink()))
            .x_desc(format!("{}{}", plot.x, xs.remark()))
            .x_label_formatter(&|x| xs.label(*x))
            .y_label_formatter(&|y| ys.label(*y))
            .draw()?;
        for line in lines {
            let colour = look.line(line.colour);
            for dot in &line.points {
                let (x, y) = chart.backend_coord(&(xs.place(dot.x), dot.y));
                titles.push(([x - 6, y - 6, x + 6, y + 6], plot.title_of(line, dot)));
            }
            let points = line.points.iter().map(|dot| (xs.place(dot.x), dot.y));
            let style = colour.stroke_width(look.stroke(2));
            chart.draw_series(LineSeries::new(points.clone(), style))?;
            if !line.is_marked {
                continue;
            }
            let mark = |at| Circle::new(at, s(4), colour.filled());
            chart.draw_series(points.map(mark))?;
            let bars = line
                .points
                .iter()
                .filter_map(|dot| Some((dot, dot.interval?)));
            chart.draw_series(bars.map(|(dot, [low, high])| {
                let width = look.stroke(8);
                ErrorBar::new_vertical(xs.place(dot.x), low, dot.y, high, style, width)
            }))?;
        }
        Ok(())
    }
}

/// Draws the names of the lines, in rows; returns the height where the plot begins.
fn draw_names<B: Backend>(area: &Area<B>, look: Look, lines: &[Line]) -> Result<i32, Failed> {
    let s = |size: i32| look.units(size);
    let style = look.text(13, look.ink());
    let style = style.pos(Pos::new(HPos::Left, VPos::Center));
    let left = s(14);
    let (mut x, mut y) = (left, if look.is_page { s(12) } else { s(48) });
    for line in lines {
        let colour = look.line(line.colour);
        let (width, _) = area.estimate_text_size(&line.name, &style)?;
        let width = s(34) + width as i32;
        if x > left && x + width > area.dim_in_pixel().0 as i32 - s(14) {
            (x, y) = (left, y + s(20));
        }
        let dash = [(x, y - s(2)), (x + s(22), y - s(2))];
        let stroke = colour.stroke_width(look.stroke(3));
        area.draw(&PathElement::new(dash, stroke))?;
        let at = (x + s(28), y);
        area.draw(&Text::new(line.name.clone(), at, style.clone()))?;
        x += width + s(14);
    }
    Ok(y + s(14))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(form: Form, is_marked: bool, dots: &[(f64, f64, Option<[f64; 2]>)]) -> Plot {
        let dot = |&(x, y, interval): &(f64, f64, _)| Dot { x, y, interval };
        Plot {
            title: "a < b".into(),
            x: "x".into(),
            lines: vec![Line {
                name: "one".into(),
                colour: 0,
                points: dots.iter().map(dot).collect(),
                is_marked,
            }],
            form,
        }
    }

    #[test]
    fn a_plot_is_a_drawing_and_a_bitmap_and_a_part_of_a_page() {
        let dots = [(1.0, 2.0, Some([1.5, 2.5])), (2.0, 3.0, None)];
        let plot = plot(Form::Values, true, &dots);
        let svg = plot.svg().unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("a &lt; b"), "{svg}");
        let file = plot.png().unwrap();
        let reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info();
        let reader = reader.unwrap();
        assert_eq!((reader.info().width, reader.info().height), (1640, 920));
        assert_eq!(file, plot.png().unwrap());
        let inline = plot.inline().unwrap().concat();
        assert!(
            inline.starts_with("<svg role=\"img\" aria-label=\"a &lt; b\""),
            "{inline}"
        );
        assert!(
            inline.contains("var(--line0)") && !inline.contains("#0072B2"),
            "{inline}"
        );
        let empty = Plot {
            lines: Vec::new(),
            ..plot
        };
        assert!(empty.svg().is_ok());
    }

    #[test]
    fn axes_hold_intervals_and_zero_and_end_near_the_data() {
        let (xs, ys) = plot(Form::Values, true, &[(3.0, 5.0, Some([0.0, 10.0]))]).axes();
        assert_eq!((xs.low, xs.high, ys.low), (2.5, 3.5, 0.0));
        assert!((ys.high - 10.4).abs() < 1e-9);
        // 47.5 Mbit/s of a link of 50.
        let (xs, ys) = plot(
            Form::Values,
            false,
            &[(0.5, 47.5, None), (19.5, 40.0, None)],
        )
        .axes();
        assert_eq!(ys.ticks, [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert!(ys.high < 50.0 && (xs.low, xs.high) == (0.0, 19.5));
    }

    #[test]
    fn swept_values_are_the_ticks_of_their_axis() {
        let dots = [2.0, 3.0, 4.0].map(|x| (x, x, None));
        assert_eq!(
            plot(Form::Values, true, &dots).axes().0.ticks,
            [2.0, 3.0, 4.0]
        );
        let dots = [1.0, 10.0, 100.0, 1000.0].map(|x| (x, x, None));
        let (xs, _) = plot(Form::Values, true, &dots).axes();
        assert!(xs.is_logarithmic);
        let labels: Vec<String> = xs.ticks.iter().map(|tick| xs.label(*tick)).collect();
        assert_eq!(labels, ["1", "10", "100", "1000"]);
    }

    #[test]
    fn a_distribution_goes_to_a_hundred_per_cent_and_counts_in_decades_where_values_are_far_apart()
    {
        let (xs, ys) = plot(
            Form::Distributions,
            false,
            &[(2.0, 0.0, None), (400.0, 100.0, None)],
        )
        .axes();
        assert!(xs.is_logarithmic && (ys.low, ys.high) == (0.0, 100.0));
        let (xs, _) = plot(
            Form::Distributions,
            false,
            &[(2.0, 0.0, None), (4.0, 100.0, None)],
        )
        .axes();
        assert!(!xs.is_logarithmic && xs.is_cut && xs.high < 4.2);
    }
}

//! Two figures of several subjects against each other, each with its interval: delay over rate, as the field draws it.
//!
//! ```text
//!   rate
//!   |  better   + a                a point has its name next to it, where it covers nothing, and its colour
//!   |           |                  in the legend; the line is its interval
//!   |         --o-- b
//!   |                    o c
//!   +-------------------------- delay
//! ```
//!
//! An axis begins at zero, or has a mark that it does not. The axis of delays is logarithmic if they span a wide range.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::html::escape;
use super::super::metric::shown;
use super::super::style::COLOURS_MAX;
use super::scale::Axis;
use super::{Area, Backend, Drawn, Failed, Figure, Frame, Look, Titles};

/// An axis whose ends have at least this ratio is logarithmic.
const FAR_APART: f64 = 4.0;
/// Height of a name, and the vertical distance between the positions to try for a name, in pixels.
const NAME_HEIGHT: i32 = 15;
/// Number of positions above and below a point to try for its name.
const STEPS_MAX: i32 = 14;

/// A picture of points.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scatter {
    /// The title of the lower axis.
    pub(crate) x: String,
    /// The title of the left axis.
    pub(crate) y: String,
    /// The points.
    pub(crate) points: Vec<Point>,
}

/// A point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    /// The subject.
    pub(crate) name: String,
    /// The value on the lower axis: lower end of its interval, mean, upper end.
    pub(crate) x: [f64; 3],
    /// The value on the left axis.
    pub(crate) y: [f64; 3],
    /// The number of the point's colour.
    pub(crate) colour: usize,
    /// Whether the mark is filled.
    pub(crate) is_strong: bool,
}

/// A line from one pixel to another.
type Path = [(i32, i32); 2];

impl Scatter {
    /// The picture for a wide and for a narrow page.
    pub(crate) fn html(&self) -> String {
        let name = |point: &Point| {
            let class = if point.is_strong {
                "swatch"
            } else {
                "swatch hollow"
            };
            let colour = point.colour % COLOURS_MAX;
            format!(
                "<li><span class=\"{class} line{colour}\"></span>{}</li>",
                escape(&point.name)
            )
        };
        let names: String = self.points.iter().map(name).collect();
        let (_, ys) = self.axes();
        let figure = |class: &str, size: (u32, u32)| {
            let caption = format!(
                "<figcaption>{}{}</figcaption>",
                escape(&self.y),
                ys.remark()
            );
            let svg = Figure::html(self, size, &format!("{} over {}", self.y, self.x));
            format!("<figure class=\"{class}\">{caption}{svg}</figure>")
        };
        let figures = figure("wide", (760, 420)) + &figure("narrow", (360, 420));
        format!("<ul class=\"legend\">{names}</ul>{figures}")
    }

    fn axes(&self) -> (Axis, Axis) {
        let ends = |of: fn(&Point) -> [f64; 3]| {
            let values = || self.points.iter().flat_map(of);
            let low = values().fold(f64::INFINITY, f64::min);
            (low, values().fold(f64::NEG_INFINITY, f64::max))
        };
        let (left, right) = ends(|point| point.x);
        // An interval may reach below zero, a mean does not.
        let means = self.points.iter().map(|point| point.x[1]);
        let least = means.fold(f64::INFINITY, f64::min);
        let xs = if right / least >= FAR_APART && least > 0.0 {
            let left = left.max(least / 2.0);
            let room = (right / left).powf(0.06);
            Axis::logarithmic(left / room, right * room)
        } else {
            Axis::near(left, right)
        };
        let (bottom, top) = ends(|point| point.y);
        (xs, Axis::near(bottom, top))
    }

    /// The text that a browser shows over a point.
    fn title_of(&self, point: &Point) -> String {
        let [x, y] = [point.x, point.y].map(|[low, mean, high]| {
            if high > low {
                format!("{} ± {}", shown(mean), shown((high - low) / 2.0))
            } else {
                shown(mean)
            }
        });
        format!("{}: {} {x}; {} {y}", point.name, self.x, self.y)
    }
}

impl Figure for Scatter {
    fn paint<B: Backend>(&self, area: &Area<B>, look: Look, titles: &mut Titles) -> Drawn {
        let (xs, ys) = self.axes();
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(22)
            .x_label_area_size(46)
            .y_label_area_size(48)
            .build_cartesian_2d(xs.coordinate(), ys.coordinate())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(look.faint())
            .axis_style(look.faint())
            .label_style(look.text(13, look.ink()))
            .axis_desc_style(look.text(14, look.ink()))
            .x_desc(format!("{}{}", self.x, xs.remark()))
            .x_label_formatter(&|x| xs.label(*x))
            .y_label_formatter(&|y| ys.label(*y))
            .draw()?;
        let pixel = |x: f64, y: f64| chart.backend_coord(&(xs.place(x), y));
        let (width, height) = chart.plotting_area().dim_in_pixel();
        let (left, top) = chart.plotting_area().get_base_pixel();
        let frame = [left, top, left + width as i32, top + height as i32];
        let inside = |(x, y): (i32, i32)| {
            let [left, top, right, bottom] = frame;
            (x.clamp(left, right), y.clamp(top, bottom))
        };
        let mut taken = vec![corner(area, look, frame)?];
        for point in &self.points {
            let ([left, x, right], [low, y, high]) = (point.x, point.y);
            let colour = look.line(point.colour);
            for ends in [
                [pixel(left, y), pixel(right, y)],
                [pixel(x, low), pixel(x, high)],
            ] {
                let [from, to] = ends.map(inside);
                area.draw(&PathElement::new([from, to], colour.mix(0.6)))?;
                // A vertical line has its values from below.
                taken.push([from.0, to.1, to.0 + 1, from.1 + 1]);
            }
            let at = pixel(x, y);
            area.draw(&if point.is_strong {
                Circle::new(at, 5, colour.filled())
            } else {
                Circle::new(at, 4, colour.stroke_width(2))
            })?;
            let around = [at.0 - 5, at.1 - 5, at.0 + 5, at.1 + 5];
            taken.push(around);
            titles.push((around, self.title_of(point)));
        }
        broken(area, look, frame, [xs.is_cut, ys.is_cut])?;
        let mut lines: Vec<Path> = Vec::new();
        // Points with filled marks get the nearest positions.
        let (strong, others): (Vec<_>, Vec<_>) = self.points.iter().partition(|p| p.is_strong);
        for point in strong.into_iter().chain(others) {
            let style = look.text(
                13,
                if point.is_strong {
                    look.ink()
                } else {
                    look.soft()
                },
            );
            let (width, _) = area.estimate_text_size(&point.name, &style)?;
            let at = pixel(point.x[1], point.y[1]);
            let Some((place, line)) = place(at, width as i32, frame, &taken, &lines) else {
                continue; // the legend has the name
            };
            taken.push(place);
            if let Some(line) = line {
                area.draw(&PathElement::new(line, look.soft().mix(0.5)))?;
                lines.push(line);
            }
            let [left, top, _, bottom] = place;
            let style = style.pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(
                point.name.clone(),
                (left, (top + bottom) / 2),
                style,
            ))?;
        }
        Ok(())
    }
}

/// Draws two strokes across the beginning of each axis that does not begin at zero: below, on the left.
fn broken<B: Backend>(
    area: &Area<B>,
    look: Look,
    [left, _, _, bottom]: Frame,
    [below, beside]: [bool; 2],
) -> Drawn {
    for gap in [6, 11] {
        if below {
            let stroke = [(left + gap - 3, bottom + 5), (left + gap + 3, bottom - 5)];
            area.draw(&PathElement::new(stroke, look.ink().stroke_width(2)))?;
        }
        if beside {
            let stroke = [(left - 5, bottom - gap + 3), (left + 5, bottom - gap - 3)];
            area.draw(&PathElement::new(stroke, look.ink().stroke_width(2)))?;
        }
    }
    Ok(())
}

/// Marks the upper left corner as the better one. Returns the area of the word.
fn corner<B: Backend>(area: &Area<B>, look: Look, [left, top, ..]: Frame) -> Result<Frame, Failed> {
    let style = look.text(13, look.soft());
    let word = "\u{2196} better";
    let (width, _) = area.estimate_text_size(word, &style)?;
    area.draw(&Text::new(word, (left + 6, top + 5), style))?;
    Ok([
        left,
        top,
        left + 10 + width as i32,
        top + 5 + NAME_HEIGHT + 4,
    ])
}

/// The nearest free position for a name of this width, and the line from its point if it is farther away. Neither
/// crosses anything; `None` if there is no such position.
fn place(
    (x, y): (i32, i32),
    width: i32,
    frame: Frame,
    taken: &[Frame],
    lines: &[Path],
) -> Option<(Frame, Option<Path>)> {
    let half = NAME_HEIGHT / 2;
    let at = |left: i32, step: i32| {
        let middle = y + step * (NAME_HEIGHT + 1) / 2;
        let name = [left, middle - half, left + width, middle + half];
        let near = if left > x { left - 2 } else { left + width + 2 };
        let is_far = step.abs() > 2 || (near - x).abs() > 2 * NAME_HEIGHT;
        (name, is_far.then_some([(x, y), (near, middle)]))
    };
    let is_own = |area: &Frame| area[0] <= x && x <= area[2] && area[1] <= y && y <= area[3];
    let is_free = |(name, line): &(Frame, Option<Path>)| {
        let [left, top, right, bottom] = *name;
        let is_inside =
            left >= frame[0] && top >= frame[1] && right <= frame[2] && bottom <= frame[3];
        let meets = |[l, t, r, b]: &Frame| left < *r && *l < right && top < *b && *t < bottom;
        let crosses = |area: &Frame| line.is_some_and(|line| !is_own(area) && crosses(line, *area));
        is_inside
            && !taken.iter().any(|area| meets(area) || crosses(area))
            && !lines.iter().any(|other| crosses_line(*other, *name, *line))
    };
    let steps = (0..=STEPS_MAX).flat_map(|step| [step, -step]);
    // Farther away there must be room for the line to the point.
    let beside = |(step, away): (i32, i32)| [at(x + away, step), at(x - away - width, step)];
    let near = steps
        .clone()
        .map(|step| (step, if step.abs() > 2 { 18 } else { 8 }));
    let far = steps.map(|step| (step, 80));
    let mut places = near.chain(far).flat_map(beside);
    places.find(is_free)
}

/// Whether another name's line meets this name or its line.
fn crosses_line(other: Path, name: Frame, line: Option<Path>) -> bool {
    crosses(other, name) || line.is_some_and(|line| points_of(line).any(|at| is_near(at, other)))
}

/// Whether a line meets an area.
fn crosses(line: Path, [left, top, right, bottom]: Frame) -> bool {
    points_of(line).any(|(x, y)| left <= x && x <= right && top <= y && y <= bottom)
}

fn is_near((x, y): (i32, i32), line: Path) -> bool {
    points_of(line).any(|(a, b)| (a - x).abs() <= 1 && (b - y).abs() <= 1)
}

/// The pixels of a line.
fn points_of([(x, y), (to_x, to_y)]: Path) -> impl Iterator<Item = (i32, i32)> {
    let steps = (to_x - x).abs().max((to_y - y).abs()).max(1);
    (0..=steps).map(move |n| (x + (to_x - x) * n / steps, y + (to_y - y) * n / steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scatter(points: &[(&str, f64, f64)]) -> Scatter {
        let point = |(name, x, y): &(&str, f64, f64)| Point {
            name: (*name).to_owned(),
            x: [x * 0.9, *x, x * 1.1],
            y: [y - 1.0, *y, y + 1.0],
            colour: 1,
            is_strong: *name == "b",
        };
        Scatter {
            x: "delay, ms".into(),
            y: "rate <".into(),
            points: points.iter().map(point).collect(),
        }
    }

    #[test]
    fn a_point_has_a_mark_its_intervals_and_its_name() {
        let html = scatter(&[("a", 25.0, 30.0), ("b", 500.0, 36.0)]).html();
        // For a wide and for a narrow page.
        assert_eq!(html.matches("<svg role=\"img\"").count(), 2);
        assert_eq!(html.matches("<circle").count(), 4);
        assert_eq!(html.matches("\nb\n").count(), 2, "{html}");
        assert_eq!(
            html.matches("<figcaption>rate &lt; (axis from 26, not from 0)</figcaption>")
                .count(),
            2
        );
        assert!(html.contains("var(--line1)") && html.contains("var(--soft)"));
        assert!(html.contains("swatch hollow line1\"></span>a<"), "{html}");
        assert!(
            html.contains("<title>b: delay, ms 500 ± 50.0; rate &lt; 36.0 ± 1.00</title>"),
            "{html}"
        );
    }

    #[test]
    fn axes_hold_the_intervals_and_end_near_them() {
        let (xs, ys) = scatter(&[("a", 25.0, 30.0), ("b", 500.0, 36.0)]).axes();
        assert!(xs.is_logarithmic && xs.place(22.5) > xs.low && xs.place(550.0) < xs.high);
        assert!(25.0 < ys.low && ys.low < 29.0 && 37.0 < ys.high && ys.high < 40.0);
        let (xs, _) = scatter(&[("a", 25.0, 30.0), ("b", 28.0, 36.0)]).axes();
        assert!(!xs.is_logarithmic && xs.low < 22.5 && xs.high > 30.8);
    }

    proptest! {
        #[test]
        fn names_cover_no_point_and_no_other_name(points in prop::collection::vec((60..700_i32, 20..360_i32), 1..12)) {
            let frame = [48, 8, 752, 366];
            let mut taken: Vec<Frame> = points
                .iter()
                .map(|(x, y)| [x - 5, y - 5, x + 5, y + 5])
                .collect();
            let mut lines: Vec<Path> = Vec::new();
            for at in &points {
                let Some((name, line)) = place(*at, 80, frame, &taken, &lines) else { continue };
                let meets = |[l, t, r, b]: &Frame| name[0] < *r && *l < name[2] && name[1] < *b && *t < name[3];
                prop_assert!(!taken.iter().any(meets));
                prop_assert!(!lines.iter().any(|line| crosses(*line, name)));
                taken.push(name);
                lines.extend(line);
            }
        }
    }
}

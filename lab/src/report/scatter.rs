//! Two figures of several subjects against each other, each with its interval: delay over rate, as the field draws it.
//!
//! ```text
//!   rate
//!   |  better   + a                a point has its name beside it, where it covers nothing;
//!   |           |                  the line is its interval
//!   |         --o-- b
//!   |                    o c
//!   +-------------------------- delay
//! ```
//!
//! The axes end near the points: a mark is a place, not a length. The axis of delays is logarithmic if they span a wide
//! range.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::escape;
use super::picture::{Canvas, Drawn, FAINT, FONT, INK, LINE_COLOURS, SOFT, draw};
use super::scale::Axis;

/// An axis whose ends have at least this ratio is logarithmic.
const FAR_APART: f64 = 4.0;
/// Minimum span of an axis, as a share of its greatest value, so that chance does not look like a difference.
const SPAN_MIN: f64 = 0.05;
/// Height of a name, and the distance of its middle from that of the next place that is tried.
const NAME_HEIGHT: i32 = 15;
/// Places above and below a point that are tried for its name.
const STEPS_MAX: i32 = 14;

/// A picture of points.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scatter {
    /// The axis below.
    pub(crate) x: String,
    /// The axis on the left.
    pub(crate) y: String,
    /// Its points.
    pub(crate) points: Vec<Point>,
}

/// A point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    /// The subject.
    pub(crate) name: String,
    /// The value below: lower end of its interval, mean, upper end.
    pub(crate) x: [f64; 3],
    /// The value on the left.
    pub(crate) y: [f64; 3],
    /// Whether it is shown in colour.
    pub(crate) is_strong: bool,
}

/// A rectangle of pixels: left, top, right, bottom.
type Area = [i32; 4];

impl Scatter {
    /// The picture for a wide and for a narrow page.
    pub(crate) fn html(&self) -> String {
        let figure = |class: &str, size: (u32, u32)| {
            let caption = format!("<figcaption>{}</figcaption>", escape(&self.y));
            let svg = self.svg(size);
            format!("<figure class=\"{class}\">{caption}{svg}</figure>")
        };
        figure("wide", (760, 420)) + &figure("narrow", (360, 420))
    }

    fn svg(&self, size: (u32, u32)) -> String {
        let about = format!("{} over {}", escape(&self.y), escape(&self.x));
        draw(size, &about, |area| self.paint(area))
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
        let xs = match right / least >= FAR_APART && least > 0.0 {
            true => {
                let left = left.max(least / 2.0);
                let room = (right / left).powf(0.06);
                Axis::logarithmic(left / room, right * room)
            }
            false => near(left, right),
        };
        let (bottom, top) = ends(|point| point.y);
        (xs, near(bottom, top))
    }

    fn paint(&self, area: &Canvas<'_>) -> Drawn {
        let (xs, ys) = self.axes();
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(46)
            .y_label_area_size(48)
            .build_cartesian_2d(xs.coordinate(), ys.coordinate())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(FAINT)
            .label_style((FONT, 13).into_font().color(&INK))
            .axis_desc_style((FONT, 14).into_font().color(&INK))
            .x_desc(self.x.clone())
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
        let mut taken = vec![corner(area, frame)?];
        for point in &self.points {
            let ([left, x, right], [low, y, high]) = (point.x, point.y);
            let colour = point.colour();
            for ends in [
                [pixel(left, y), pixel(right, y)],
                [pixel(x, low), pixel(x, high)],
            ] {
                let [from, to] = ends.map(inside);
                area.draw(&PathElement::new([from, to], colour.mix(0.6)))?;
                // The vertical one has its values from below.
                taken.push([from.0, to.1, to.0 + 1, from.1 + 1]);
            }
            let at = pixel(x, y);
            area.draw(&Circle::new(at, 4, colour.filled()))?;
            taken.push([at.0 - 5, at.1 - 5, at.0 + 5, at.1 + 5]);
        }
        // Those in colour get the nearest places.
        let (strong, others): (Vec<_>, Vec<_>) = self.points.iter().partition(|p| p.is_strong);
        for point in strong.into_iter().chain(others) {
            let style = (FONT, 13).into_font().color(&point.ink());
            let (width, _) = area.estimate_text_size(&point.name, &style)?;
            let at = pixel(point.x[1], point.y[1]);
            let place = place(at, width as i32, frame, &taken);
            taken.push(place);
            let [left, top, right, bottom] = place;
            let middle = (top + bottom) / 2;
            let is_right = left > at.0;
            let gap = if is_right { left - at.0 } else { at.0 - right };
            if (middle - at.1).abs() > NAME_HEIGHT || gap > 2 * NAME_HEIGHT {
                let near = if is_right { left - 2 } else { right + 2 };
                let line = PathElement::new([at, (near, middle)], SOFT.mix(0.5));
                area.draw(&line)?;
            }
            let style = style.pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(point.name.clone(), (left, middle), style))?;
        }
        Ok(())
    }
}

impl Point {
    fn colour(&self) -> RGBColor {
        if self.is_strong {
            LINE_COLOURS[0]
        } else {
            SOFT
        }
    }

    fn ink(&self) -> RGBColor {
        if self.is_strong { INK } else { SOFT }
    }
}

/// A linear axis that ends near the values.
fn near(low: f64, high: f64) -> Axis {
    let span = (high - low)
        .max(SPAN_MIN * high.abs())
        .max(f64::MIN_POSITIVE);
    let middle = (low + high) / 2.0;
    let (from, to) = (middle - 0.58 * span, middle + 0.58 * span);
    // Neither delay nor rate is negative; if values begin at zero, so does the axis.
    Axis::linear(if low >= 0.0 { from.max(0.0) } else { from }, to)
}

/// Says in the upper left corner that it is the better one. Returns the place of the word.
fn corner(area: &Canvas<'_>, [left, top, ..]: Area) -> Result<Area, Box<dyn std::error::Error>> {
    let style = (FONT, 13).into_font().color(&SOFT);
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

/// The nearest free place for a name of this width: beside its point, or higher or lower. Without one, beside it.
fn place((x, y): (i32, i32), width: i32, frame: Area, taken: &[Area]) -> Area {
    let half = NAME_HEIGHT / 2;
    let at = |left: i32, step: i32| {
        let middle = y + step * (NAME_HEIGHT + 1) / 2;
        [left, middle - half, left + width, middle + half]
    };
    let is_free = |name: &Area| {
        let [left, top, right, bottom] = *name;
        let is_inside =
            left >= frame[0] && top >= frame[1] && right <= frame[2] && bottom <= frame[3];
        let meets = |[l, t, r, b]: &Area| left < *r && *l < right && top < *b && *t < bottom;
        is_inside && !taken.iter().any(meets)
    };
    let steps = (0..=STEPS_MAX).flat_map(|step| [step, -step]);
    // Farther away there must be room for the line to the point.
    let beside = |(step, away): (i32, i32)| [at(x + away, step), at(x - away - width, step)];
    let near = steps
        .clone()
        .map(|step| (step, if step.abs() > 2 { 18 } else { 8 }));
    let far = steps.map(|step| (step, 80));
    let mut places = near.chain(far).flat_map(beside);
    places.find(is_free).unwrap_or_else(|| at(x + 8, 0))
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
            html.matches("<figcaption>rate &lt;</figcaption>").count(),
            2
        );
        assert!(html.contains("var(--line0)") && html.contains("var(--soft)"));
    }

    #[test]
    fn axes_hold_the_intervals_and_end_near_them() {
        let (xs, ys) = scatter(&[("a", 25.0, 30.0), ("b", 500.0, 36.0)]).axes();
        assert!(xs.is_logarithmic && xs.place(22.5) > xs.low && xs.place(550.0) < xs.high);
        assert!(25.0 < ys.low && ys.low < 29.0 && 37.0 < ys.high && ys.high < 40.0);
        let (xs, _) = scatter(&[("a", 25.0, 30.0), ("b", 28.0, 36.0)]).axes();
        assert!(!xs.is_logarithmic && xs.low < 22.5 && xs.high > 30.8);
        // A difference by chance does not fill the picture.
        let level = near(94.9, 94.95);
        assert!(level.high - level.low > 5.0);
    }

    proptest! {
        #[test]
        fn names_cover_no_point_and_no_other_name(points in prop::collection::vec((60..700_i32, 20..360_i32), 1..12)) {
            let frame = [48, 8, 752, 366];
            let mut taken: Vec<Area> = points
                .iter()
                .map(|(x, y)| [x - 5, y - 5, x + 5, y + 5])
                .collect();
            for at in &points {
                let name = place(*at, 80, frame, &taken);
                let meets = |[l, t, r, b]: &Area| name[0] < *r && *l < name[2] && name[1] < *b && *t < name[3];
                let beside = [at.0 + 8, at.1 - NAME_HEIGHT / 2, at.0 + 88, at.1 + NAME_HEIGHT / 2];
                prop_assert!(!taken.iter().any(meets) || name == beside);
                taken.push(name);
            }
        }
    }
}

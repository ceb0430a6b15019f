//! The queries of claims, tables and pictures: metrics and curves at points.
//!
//! ```text
//!   m.at("lru-fq/table1", "fifo").and("flows", 3).metric("tcp_share_ratio")       one value for each seed
//!     scenario -----^        ^-- variant   ^-- a value of the sweep
//! ```
//!
//! Values combine seed by seed: `1.0 - share`, `new / old`. A [`Series`] is a quantity at several points with a name
//! each.

use std::fmt;

use super::measured::{At, Measured, Window};
use super::samples::Samples;

/// A point, and the window in which its curves count.
#[derive(Clone)]
pub struct Point<'a> {
    pub(super) measured: &'a Measured,
    pub(super) at: At,
    /// Start and end in seconds; `None` for the scenario's own window.
    window: Option<Window>,
}

/// A quantity at a point.
pub type Quantity = fn(&Point<'_>) -> Samples;

impl Measured {
    /// The point of a variant.
    pub fn at(&self, scenario: impl Into<String>, variant: impl Into<String>) -> Point<'_> {
        Point {
            measured: self,
            at: At {
                scenario: scenario.into(),
                variant: variant.into(),
                place: Vec::new(),
            },
            window: None,
        }
    }
}

impl Point<'_> {
    /// The point with this additional value of the sweep.
    pub fn and(mut self, key: &'static str, value: impl ToString) -> Self {
        self.at.place.push((key, value.to_string()));
        self
    }

    /// The point with this window.
    pub fn during(self, window: Window) -> Self {
        Self {
            window: Some(window),
            ..self
        }
    }

    /// The values of a metric, one for each seed; empty if it was not measured.
    pub fn metric(&self, name: impl AsRef<str>) -> Samples {
        self.measured.samples(&self.at, name.as_ref())
    }

    /// A function of a curve's values in the window; empty if there is no such curve.
    pub fn curve(&self, name: impl AsRef<str>, of: impl Fn(&[f64]) -> Option<f64>) -> Samples {
        let window = self.window();
        let samples = window.map(|w| self.measured.curve(&self.at, name.as_ref(), w, of));
        samples.unwrap_or_default()
    }

    /// A number computed from two curves in each run, without the warm-up; empty if a run has no such
    /// number.
    pub fn curves(&self, names: [&str; 2], number: impl Fn([&[f64]; 2]) -> Option<f64>) -> Samples {
        self.measured.of_curves(&self.at, names, number)
    }

    /// Delivered divided by offered load in the window, for all these flow groups together.
    pub fn delivered(&self, traffics: &[&str]) -> Samples {
        let window = self.window();
        let samples = window.map(|w| self.measured.delivered(&self.at, traffics, w));
        samples.unwrap_or_default()
    }

    /// The window, in seconds of a run.
    pub fn window(&self) -> Option<Window> {
        self.window.or_else(|| self.measured.window(&self.at))
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of `{}`", self.variant, self.scenario)?;
        for (key, value) in &self.place {
            write!(f, ", {key} {value}")?;
        }
        Ok(())
    }
}

/// A quantity at several points, each with its name; a single one without a name.
#[derive(Clone, Debug, Default)]
pub struct Series(pub Vec<(String, Samples)>);

/// A series over rows of values: `series!(for n in [2, 3], "{n} floods": share(m, n))`.
#[macro_export]
macro_rules! series {
    (for $row:pat in $rows:expr, $name:literal: $value:expr) => {
        $crate::reproduce::query::Series(
            $rows
                .into_iter()
                .map(|$row| (format!($name), $value))
                .collect(),
        )
    };
}
pub use series;

/// The maximum and the minimum, seed by seed.
pub fn extremes(all: impl IntoIterator<Item = Samples>) -> [Samples; 2] {
    let all: Vec<Samples> = all.into_iter().collect();
    [f64::max, f64::min].map(|choose| {
        let all = all.iter().cloned();
        all.reduce(|a, b| a.with(&b, choose)).unwrap_or_default()
    })
}

/// Every pair of these values.
pub fn pairs<A: Copy, B: Copy>(all: &[A], with: &[B]) -> Vec<(A, B)> {
    let pair = |a: &A| with.iter().map(move |b| (*a, *b)).collect::<Vec<_>>();
    all.iter().flat_map(pair).collect()
}

impl Series {
    /// Every quantity as text, after its name.
    pub fn shown(&self) -> String {
        let each = self.0.iter().map(|(name, samples)| match name.as_str() {
            "" => samples.shown(),
            name => format!("{name} {}", samples.shown()),
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

impl From<Samples> for Series {
    fn from(samples: Samples) -> Self {
        Self(vec![(String::new(), samples)])
    }
}

//! The parts of a paper's results: scenarios to run, the paper's numbers, its claims, its pictures.
//!
//! ```text
//!   claim(r, "table1.2", "Long TCP keeps its half").measured(|m, f| {
//!       check!(f, for n in [2, 3, 4], "{n} floods": between(share(m, "lru_fq", n), [0.47, 0.53]));
//!       show!(f, m, "with one flood": share(m, "lru_fq", 1));      evidence that decides nothing
//!   });
//! ```
//!
//! A claim is *measured* (a measured value can change its verdict), *arithmetic* (printed numbers and equations decide
//! it), or *calibrated* (open values were chosen so that it holds).

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use super::bench::Bench;
use super::figure::Figure;
use super::findings::Findings;
use super::measured::Measured;
use super::samples::Samples;
use crate::load::Load;
use crate::report::Line;
use crate::scenario::Reading;

/// The values that a verdict depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Values that were measured, or would be if the claim had been run.
    Measured,
    /// Printed numbers and equations alone.
    Arithmetic,
    /// Values on which ambiguous ones were calibrated: not evidence.
    Calibrated,
}

impl Kind {
    /// All kinds, in the order of a summary.
    pub const ALL: [Self; 3] = [Self::Measured, Self::Arithmetic, Self::Calibrated];

    /// The kind as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Arithmetic => "arithmetic",
            Self::Calibrated => "calibrated",
        }
    }
}

/// A paper.
pub struct Paper {
    /// The short name, which is the prefix of the names of the results.
    pub name: &'static str,
    /// Authors, title, place and year of publication.
    pub source: &'static str,
    /// Other readings with which each claim is decided again, for instance with the values that the paper prints
    /// instead of calibrated ones: the heading of each column, and how ambiguous places are read.
    pub columns: &'static [(&'static str, Reading)],
    /// The length of a run in the lab, where time is real, and of its start, which the metrics leave out.
    pub lab: [&'static str; 2],
    /// The load tests.
    pub loads: &'static [Load],
    /// The measurements that are neither scenarios nor load tests, with the names by which points refer to them.
    pub benches: &'static [(&'static str, &'static dyn Bench)],
    /// The results.
    pub results: Vec<Recipe>,
}

/// One table or figure, or claims of the text that belong to neither.
#[derive(Default)]
pub struct Recipe {
    /// `PAPER/RESULT`.
    pub id: &'static str,
    /// The title.
    pub title: &'static str,
    /// The set-up, and the values chosen for ambiguous places.
    pub notes: &'static [&'static str],
    /// The scenarios that the numbers and claims need, by their built-in names.
    pub scenarios: &'static [&'static str],
    /// Scenarios with other values for ambiguous places. No verdict as printed depends on them, so they do not run as
    /// printed.
    pub readings: &'static [&'static str],
    /// The load tests that the numbers and claims need, by name. Their time is real in every habitat.
    pub loads: &'static [&'static str],
    /// The other measurements that the numbers and claims need, by name.
    pub benches: &'static [&'static str],
    /// The lines of the paper's tables.
    pub lines: Vec<TableLine>,
    /// The paper's claims.
    pub claims: Vec<Claim>,
    /// The pictures.
    pub figures: Vec<Figure>,
}

/// The usual tolerance of a number, as in the list of claims.
pub const TOLERANCE: f64 = 0.15;

/// The name of a column with its unit, the paper's number, and the tolerance as a share of it.
pub(super) type Cell = (&'static str, f64, f64);

/// A line of a table that the paper prints.
pub struct TableLine {
    /// The values that identify the line.
    pub(super) place: Map<String, Value>,
    pub(super) cells: Vec<Cell>,
    /// Our numbers, in the order of the columns.
    pub(super) ours: Ours,
}

/// Our numbers of a line.
pub(super) type Ours = Box<dyn Fn(&Measured) -> Vec<Samples> + Send + Sync>;

/// A claim of the paper.
pub struct Claim {
    /// `PAPER/RESULT.n`.
    pub id: String,
    /// The claim, in our words.
    pub text: &'static str,
    /// The values that the verdict depends on.
    pub kind: Kind,
    /// The conditions; or the reason why the claim is not decided here.
    pub(super) decision: Result<Decide, &'static str>,
}

/// Adds the conditions of a claim, and its evidence, to the findings.
pub(super) type Decide = Box<dyn Fn(&Measured, &mut Findings) + Send + Sync>;

/// The results of a paper: the names of functions that fill them, each the name of its result.
#[macro_export]
macro_rules! results {
    ($paper:literal: $($result:ident)*) => {
        vec![$($crate::reproduce::recipe::Recipe::new(
            concat!($paper, "/", stringify!($result)),
            $result,
        )),*]
    };
}
pub use results;

/// An array of texts.
#[macro_export]
macro_rules! names {
    ($($name:literal)*) => { [$($name),*] };
}
pub use names;

impl Recipe {
    /// The result of this name, filled with its parts.
    pub fn new(id: &'static str, fill: fn(&mut Self)) -> Self {
        let mut recipe = Self {
            id,
            ..Self::default()
        };
        fill(&mut recipe);
        recipe
    }

    /// Adds a picture: its title with the quantity and its unit, the title of the lower axis, and the lines in the
    /// order of their colours.
    pub fn figure(
        &mut self,
        title: impl Into<String>,
        x: &'static str,
        lines: impl Fn(&Measured) -> Vec<Line> + Send + Sync + 'static,
    ) {
        self.figures.push(Figure {
            title: title.into(),
            x,
            lines: Box::new(lines),
        });
    }
}

/// A claim that is added to a result.
pub struct NewClaim<'a> {
    recipe: &'a mut Recipe,
    id: String,
    text: &'static str,
}

/// Adds a claim to a result.
pub fn claim<'a>(recipe: &'a mut Recipe, name: &str, text: &'static str) -> NewClaim<'a> {
    NewClaim {
        id: format!("{}/{name}", super::name_of_paper(recipe.id)),
        recipe,
        text,
    }
}

impl NewClaim<'_> {
    /// The claim depends on measured values, and one of them can refute it.
    pub fn measured(self, by: impl Fn(&Measured, &mut Findings) + Send + Sync + 'static) {
        self.add(Kind::Measured, Ok(Box::new(by)));
    }

    /// Printed numbers and equations decide the claim.
    pub fn arithmetic(self, by: impl Fn(&Measured, &mut Findings) + Send + Sync + 'static) {
        self.add(Kind::Arithmetic, Ok(Box::new(by)));
    }

    /// Ambiguous values were chosen so that the claim holds: it is shown, but is not evidence.
    pub fn calibrated(self, by: impl Fn(&Measured, &mut Findings) + Send + Sync + 'static) {
        self.add(Kind::Calibrated, Ok(Box::new(by)));
    }

    /// The claim is not decided here, for this reason.
    pub fn not_run(self, why: &'static str) {
        self.add(Kind::Measured, Err(why));
    }

    fn add(self, kind: Kind, decision: Result<Decide, &'static str>) {
        self.recipe.claims.push(Claim {
            id: self.id,
            text: self.text,
            kind,
            decision,
        });
    }
}

/// A line that is added to the table of a result.
pub struct NewLine<'a, const N: usize> {
    recipe: &'a mut Recipe,
    place: Map<String, Value>,
    cells: Vec<Cell>,
}

/// Adds a line with the numbers that the paper prints in these columns.
pub fn line<'a, const N: usize>(
    recipe: &'a mut Recipe,
    place: impl IntoIterator<Item = (&'static str, Value)>,
    columns: &[&'static str; N],
    printed: [f64; N],
    tolerances: [f64; N],
) -> NewLine<'a, N> {
    let place = place.into_iter();
    let cells = columns.iter().zip(printed).zip(tolerances);
    NewLine {
        recipe,
        place: place.map(|(key, value)| (key.to_owned(), value)).collect(),
        cells: cells
            .map(|((name, printed), tolerance)| (*name, printed, tolerance))
            .collect(),
    }
}

impl<const N: usize> NewLine<'_, N> {
    /// Our numbers.
    pub fn ours(self, of: impl Fn(&Measured) -> [Samples; N] + Send + Sync + 'static) {
        self.recipe.lines.push(TableLine {
            place: self.place,
            cells: self.cells,
            ours: Box::new(move |m| of(m).into()),
        });
    }
}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

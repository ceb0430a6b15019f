//! The parts of a paper's results: scenarios to run, the paper's numbers, its claims, its pictures.
//!
//! ```text
//!   let text = "Long TCP keeps its half";
//!   r.measured("table1.2", text, |m, f| {
//!       f.between("", floods(m, "lru_fq", SHARE), [0.47, 0.53]);            a condition at each point of a series
//!       f.shown(m.printed(), "as printed", |m| floods(m, "lru_fq", SHARE)); evidence that decides nothing
//!   });
//! ```
//!
//! A claim is *measured* (a measured value can change its verdict), *arithmetic* (printed numbers and equations decide
//! it), or *calibrated* (open values were chosen so that it holds).

use std::fmt;

use serde_json::{Map, Value};

use super::bench::Measures;
use super::decide::Kind;
use super::figure::Figure;
use super::measured::Measured;
use super::query::Point;
use super::verdict::{Findings, Samples};
use crate::load::plan::Load;
use crate::report::Line;
use crate::scenario::Reading;

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
    pub benches: &'static [(&'static str, Measures)],
    /// The results.
    pub results: Vec<Recipe>,
}

/// One table or figure, or claims of the text that belong to neither.
#[derive(Default)]
pub struct Recipe {
    /// `PAPER/RESULT`.
    pub id: String,
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

/// A column of a table: its name with the unit, the tolerance of our number as a share of the paper's, and our number
/// at the point of a line with these values.
pub(super) type Column = (&'static str, f64, fn(&Point<'_>, &Place) -> Samples);

/// The usual tolerance of a number, as in the list of claims.
pub(super) const TOLERANCE: f64 = 0.15;

/// The values that identify a line of a table.
pub(super) type Place = Map<String, Value>;

/// One of the values that identify a line.
pub(super) fn number(place: &Place, key: &str) -> f64 {
    let number = place.get(key).and_then(Value::as_f64);
    number.unwrap_or(f64::NAN)
}

/// A line of a table that the paper prints.
pub struct TableLine {
    pub(super) place: Place,
    pub(super) columns: &'static [Column],
    /// The paper's numbers, in the order of the columns.
    pub(super) printed: Vec<f64>,
    /// The point where we measure.
    pub(super) at: Box<dyn Fn(&Measured) -> Point<'_> + Send + Sync>,
}

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

/// The results of a paper, with their names and their parts.
pub(super) fn results(paper: &str, parts: &[(&str, fn(&mut Recipe))]) -> Vec<Recipe> {
    let result = |(name, fill): &(&str, fn(&mut Recipe))| {
        let mut recipe = Recipe {
            id: format!("{paper}/{name}"),
            ..Recipe::default()
        };
        fill(&mut recipe);
        recipe
    };
    parts.iter().map(result).collect()
}

impl Recipe {
    /// Adds a claim that a measured value can refute.
    pub(super) fn measured(
        &mut self,
        name: &str,
        text: &'static str,
        decide: impl Fn(&Measured, &mut Findings) + Send + Sync + 'static,
    ) {
        self.claim(name, text, Kind::Measured, Ok(Box::new(decide)));
    }

    /// Adds a claim that printed numbers and equations decide.
    pub(super) fn arithmetic(
        &mut self,
        name: &str,
        text: &'static str,
        decide: impl Fn(&Measured, &mut Findings) + Send + Sync + 'static,
    ) {
        self.claim(name, text, Kind::Arithmetic, Ok(Box::new(decide)));
    }

    /// Adds a claim for which ambiguous values were chosen so that it holds: it is shown, but is not evidence.
    pub(super) fn calibrated(
        &mut self,
        name: &str,
        text: &'static str,
        decide: impl Fn(&Measured, &mut Findings) + Send + Sync + 'static,
    ) {
        self.claim(name, text, Kind::Calibrated, Ok(Box::new(decide)));
    }

    /// Adds a claim that is not decided here, for this reason.
    pub(super) fn not_run(&mut self, name: &str, text: &'static str, why: &'static str) {
        self.claim(name, text, Kind::Measured, Err(why));
    }

    fn claim(
        &mut self,
        name: &str,
        text: &'static str,
        kind: Kind,
        decision: Result<Decide, &'static str>,
    ) {
        self.claims.push(Claim {
            id: format!("{}/{name}", super::name_of_paper(&self.id)),
            text,
            kind,
            decision,
        });
    }

    /// Adds a line of a table.
    pub(super) fn line<const N: usize>(
        &mut self,
        place: impl IntoIterator<Item = (&'static str, Value)>,
        columns: &'static [Column; N],
        printed: [f64; N],
        at: impl Fn(&Measured) -> Point<'_> + Send + Sync + 'static,
    ) {
        let place = place.into_iter();
        self.lines.push(TableLine {
            place: place.map(|(key, value)| (key.to_owned(), value)).collect(),
            columns,
            printed: printed.into(),
            at: Box::new(at),
        });
    }

    /// Adds a picture: its title with the quantity and its unit, the title of the lower axis, and the lines in the
    /// order of their colours.
    pub(super) fn figure(
        &mut self,
        title: &'static str,
        x: &'static str,
        lines: impl Fn(&Measured) -> Vec<Line> + Send + Sync + 'static,
    ) {
        self.figures.push(Figure {
            title,
            x,
            lines: Box::new(lines),
        });
    }
}

impl fmt::Debug for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)
    }
}

//! What a paper's results are made of: scenarios to run, the paper's numbers, its claims. All of it is
//! data; each paper fills these tables in a file of its own.

use std::fmt;

use super::figure::Figure;
use super::judge::Findings;
use super::measured::Measured;

/// A paper.
#[derive(Debug)]
pub struct Paper {
    /// Its short name, which begins the names of its results.
    pub name: &'static str,
    /// Authors, title, where and when.
    pub source: &'static str,
    /// Whether it is judged twice: as read, and with the values that it prints instead of calibrated ones.
    pub has_two_columns: bool,
    /// Its results.
    pub results: &'static [&'static Recipe],
}

/// One table or figure, or what the text claims without one.
#[derive(Debug)]
pub struct Recipe {
    /// `PAPER/RESULT`.
    pub id: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// How it was set up, how open places were read, and what we found about them.
    pub notes: &'static [&'static str],
    /// The scenarios that its numbers and claims need, by their names among those that come with the program.
    pub scenarios: &'static [&'static str],
    /// Other readings of open places, which no verdict as printed depends on: they are not run as printed.
    pub readings: &'static [&'static str],
    /// The paper's numbers.
    pub tables: &'static [Table],
    /// Pictures.
    pub figures: &'static [Figure],
    /// The paper's claims.
    pub claims: &'static [Claim],
}

impl Recipe {
    /// Whether its paper is judged twice, as read and as printed.
    pub fn has_two_columns(&self) -> bool {
        let paper = self.id.split('/').next();
        let paper = super::PAPERS.iter().find(|p| Some(p.name) == paper);
        paper.is_some_and(|paper| paper.has_two_columns)
    }
}

/// A place among measured points: the scenario, the variant, values of the sweep by the last word of their
/// path.
#[derive(Clone, Debug)]
pub struct At {
    /// The scenario.
    pub scenario: &'static str,
    /// The variant.
    pub variant: String,
    /// Values of the sweep, as they would be written.
    pub place: Vec<(&'static str, String)>,
}

impl At {
    /// The point of a variant.
    pub fn new(scenario: &'static str, variant: impl Into<String>) -> Self {
        Self {
            scenario,
            variant: variant.into(),
            place: Vec::new(),
        }
    }

    /// The point with this value of the sweep.
    pub fn and(mut self, key: &'static str, value: impl ToString) -> Self {
        self.place.push((key, value.to_string()));
        self
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

/// A table that the paper prints.
#[derive(Debug)]
pub struct Table {
    /// What is compared.
    pub columns: &'static [Column],
    /// Its lines.
    pub lines: &'static [Line],
}

/// A column of a table.
#[derive(Debug)]
pub struct Column {
    /// What it is called, with its unit.
    pub name: &'static str,
    /// Our metric.
    pub metric: &'static str,
    /// Another one that is added to it, if there is one.
    pub plus: Option<&'static str>,
    /// What ours is multiplied by.
    pub scale: f64,
    /// How far ours may be off, as a share of the paper's.
    pub tolerance: f64,
}

/// A line of a table: where ours was measured, and the paper's numbers in the order of the columns.
#[derive(Debug)]
pub struct Line {
    /// What sets it apart, in words.
    pub set: &'static [(&'static str, &'static str)],
    /// Our scenario.
    pub scenario: &'static str,
    /// Our variant.
    pub variant: &'static str,
    /// Values of the sweep.
    pub place: &'static [(&'static str, &'static str)],
    /// The paper's numbers.
    pub numbers: &'static [f64],
}

/// A column whose numbers may be off as usual.
pub const fn column(name: &'static str, metric: &'static str) -> Column {
    Column {
        name,
        metric,
        plus: None,
        scale: 1.0,
        tolerance: TOLERANCE,
    }
}

impl Line {
    /// Where ours was measured.
    pub fn at(&self) -> At {
        let mut at = At::new(self.scenario, self.variant);
        for (key, value) in self.place {
            at = at.and(key, value);
        }
        at
    }
}

/// How far a number may be off where nothing else is said: 15 %, as the list of claims has it.
pub const TOLERANCE: f64 = 0.15;

/// Something the paper claims.
#[derive(Debug)]
pub struct Claim {
    /// `PAPER/RESULT.n`.
    pub id: &'static str,
    /// What it says, in our words.
    pub text: &'static str,
    /// How it is decided.
    pub check: Check,
    /// Whether open places were read such that it holds: it is told, and is no evidence.
    pub calibrated: bool,
}

/// How a claim is decided.
#[derive(Debug)]
pub enum Check {
    /// By what was measured.
    Measured(fn(&Measured, &mut Findings)),
    /// It is not, and why.
    NotRun(&'static str),
}

/// A claim that is decided by what was measured.
pub const fn claim(
    id: &'static str,
    text: &'static str,
    check: fn(&Measured, &mut Findings),
) -> Claim {
    Claim {
        id,
        text,
        check: Check::Measured(check),
        calibrated: false,
    }
}

impl Claim {
    /// The same as one by which open places were read.
    pub const fn calibrated(self) -> Self {
        Self {
            calibrated: true,
            ..self
        }
    }
}

/// A claim that is not decided here.
pub const fn not_run(id: &'static str, text: &'static str, why: &'static str) -> Claim {
    Claim {
        id,
        text,
        check: Check::NotRun(why),
        calibrated: false,
    }
}

//! What a paper's results are made of: scenarios to run, the paper's numbers, its claims.
//!
//! All of it is data, `paper.toml` beside the scenarios of the paper. What only a program can say stands in Rust,
//! under the name of the claim or result that it belongs to ([`Code`]): checks with arithmetic of their own, and
//! how pictures are drawn.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::condition::Condition;
use super::figure::Figure;
use super::judge::Findings;
use super::measured::{Measured, shown};

/// A paper, as its file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its short name, which begins the names of its results.
    pub name: String,
    /// Authors, title, where and when.
    pub source: String,
    /// Whether it is judged twice: as read, and with the values that it prints instead of calibrated ones.
    pub has_two_columns: bool,
    /// Its results.
    #[serde(rename = "result")]
    pub results: Vec<Recipe>,
    /// What stands in Rust.
    #[serde(skip)]
    pub(super) code: &'static [Code],
}

/// One table or figure, or what the text claims without one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// `PAPER/RESULT`.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How it was set up, how open places were read, and what we found about them.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The scenarios that its numbers and claims need, by their names among those that come with the program.
    #[serde(default)]
    pub scenarios: Vec<String>,
    /// Other readings of open places, which no verdict as printed depends on: they are not run as printed.
    #[serde(default)]
    pub readings: Vec<String>,
    /// The paper's numbers.
    #[serde(default, rename = "table")]
    pub tables: Vec<Table>,
    /// The paper's claims.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A table that the paper prints.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Where ours is measured, unless a line says otherwise.
    pub scenario: String,
    /// What is compared.
    pub columns: Vec<Column>,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A column of a table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// What it is called, with its unit.
    pub name: String,
    /// Our metric.
    pub metric: String,
    /// Another one that is added to it, if there is one.
    pub plus: Option<String>,
    /// What ours is multiplied by.
    #[serde(default = "one")]
    pub scale: f64,
    /// How far ours may be off, as a share of the paper's.
    #[serde(default = "tolerance")]
    pub tolerance: f64,
}

/// A line of a table: where ours was measured, and the paper's numbers in the order of the columns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// What sets it apart, in words.
    pub set: BTreeMap<String, Value>,
    /// Our scenario, if it is not the table's.
    pub scenario: Option<String>,
    /// Our variant.
    pub variant: String,
    /// Values of the sweep.
    #[serde(default)]
    pub place: BTreeMap<String, Value>,
    /// The paper's numbers.
    pub numbers: Vec<f64>,
}

/// Something the paper claims.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `PAPER/RESULT.n`.
    pub id: String,
    /// What it says, in our words.
    pub text: String,
    /// Whether open places were read such that it holds: it is told, and is no evidence.
    #[serde(default)]
    pub calibrated: bool,
    /// Why it is not decided here, if it is not.
    pub not_run: Option<String>,
    /// What decides it, where that is a comparison of measured points.
    #[serde(default, rename = "condition")]
    pub conditions: Vec<Condition>,
    /// What the reader of its evidence must know.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// What a claim or a result has in Rust.
#[derive(Debug)]
pub(super) struct Code {
    /// How claims are decided, by their names without the paper's.
    pub(super) checks: &'static [(&'static str, Check)],
    /// What is told besides of claims whose conditions are data; it decides nothing.
    pub(super) remarks: &'static [(&'static str, Check)],
    /// Pictures, by the name of their result without the paper's.
    pub(super) figures: &'static [(&'static str, &'static [Figure])],
}

/// Adds to the findings of a claim.
pub(super) type Check = fn(&Measured, &mut Findings);

const fn one() -> f64 {
    1.0
}

/// How far a number may be off where nothing else is said: 15 %, as the list of claims has it.
const fn tolerance() -> f64 {
    0.15
}

impl Paper {
    /// Reads a paper's file, and says what does not fit together.
    pub(super) fn read(text: &str, code: &'static [Code]) -> Result<Self, String> {
        let paper: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let paper = Self { code, ..paper };
        let mut ids = BTreeSet::new();
        for recipe in &paper.results {
            let is_own = |id: &str| {
                id.strip_prefix(&paper.name)
                    .is_some_and(|rest| rest.starts_with('/'))
            };
            if !is_own(&recipe.id) {
                return Err(format!("{}: is not of {}", recipe.id, paper.name));
            }
            for table in &recipe.tables {
                if table
                    .lines
                    .iter()
                    .any(|line| line.numbers.len() != table.columns.len())
                {
                    return Err(format!(
                        "{}: a line has too few numbers, or too many",
                        recipe.id
                    ));
                }
            }
            for claim in &recipe.claims {
                paper.check_claim(recipe, claim, ids.insert(&claim.id))?;
            }
        }
        let all = || paper.code.iter();
        let mut checks = all().flat_map(|code| code.checks.iter().chain(code.remarks));
        let is_claim = |name: &str| ids.contains(&format!("{}/{name}", paper.name));
        if let Some((name, _)) = checks.find(|(name, _)| !is_claim(name)) {
            return Err(format!(
                "{name}: stands in Rust, and there is no such claim"
            ));
        }
        let mut figures = all().flat_map(|code| code.figures.iter().map(|(name, _)| *name));
        let is_result = |name: &&str| paper.results.iter().any(|r| paper.short(&r.id) == *name);
        match figures.find(|name| !is_result(name)) {
            Some(name) => Err(format!("{name}: there are figures, and no such result")),
            None => Ok(paper),
        }
    }

    /// A claim is decided in exactly one way.
    fn check_claim(&self, recipe: &Recipe, claim: &Claim, is_new: bool) -> Result<(), String> {
        let ways = [
            claim.not_run.is_some(),
            !claim.conditions.is_empty(),
            self.find(claim, |code| code.checks).is_some(),
        ];
        match ways.iter().filter(|way| **way).count() {
            _ if !is_new => Err(format!("{}: is there twice", claim.id)),
            _ if !claim.id.starts_with(&recipe.id) => {
                Err(format!("{}: does not belong to {}", claim.id, recipe.id))
            }
            1 => Ok(()),
            0 => Err(format!("{}: nothing decides it", claim.id)),
            _ => Err(format!("{}: is decided in more than one way", claim.id)),
        }
    }

    fn short<'a>(&self, id: &'a str) -> &'a str {
        id.split_once('/').map_or(id, |(_, short)| short)
    }

    /// Judges a claim that is decided here.
    pub(super) fn judge(&self, claim: &'static Claim, m: &Measured, f: &mut Findings) {
        claim
            .conditions
            .iter()
            .for_each(|condition| condition.judge(m, f));
        claim.remarks.iter().for_each(|remark| f.remark(remark));
        let in_rust = [
            self.find(claim, |code| code.checks),
            self.find(claim, |code| code.remarks),
        ];
        in_rust.into_iter().flatten().for_each(|add| add(m, f));
    }

    /// What a claim has in Rust.
    fn find(
        &self,
        claim: &Claim,
        table: fn(&Code) -> &'static [(&'static str, Check)],
    ) -> Option<Check> {
        let mut all = self.code.iter().flat_map(table);
        let found = all.find(|(name, _)| *name == self.short(&claim.id));
        found.map(|(_, check)| *check)
    }

    /// The pictures of a result.
    pub(super) fn figures(&self, recipe: &Recipe) -> &'static [Figure] {
        let mut figures = self.code.iter().flat_map(|code| code.figures);
        let found = figures.find(|(name, _)| *name == self.short(&recipe.id));
        found.map_or(&[], |(_, figures)| figures)
    }
}

/// A place among measured points: the scenario, the variant, values of the sweep by the last word of their
/// path.
#[derive(Clone, Debug)]
pub struct At {
    /// The scenario.
    pub scenario: String,
    /// The variant.
    pub variant: String,
    /// Values of the sweep, as they would be written.
    pub place: Vec<(String, String)>,
}

impl At {
    /// The point of a variant.
    pub fn new(scenario: impl Into<String>, variant: impl Into<String>) -> Self {
        Self {
            scenario: scenario.into(),
            variant: variant.into(),
            place: Vec::new(),
        }
    }

    /// The point with this value of the sweep.
    pub fn and(mut self, key: &str, value: impl ToString) -> Self {
        self.place.push((key.to_owned(), value.to_string()));
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

impl Table {
    /// Where ours was measured for a line.
    pub fn at(&self, line: &Line) -> At {
        let scenario = line.scenario.as_ref().unwrap_or(&self.scenario);
        let place = line.place.iter();
        At {
            scenario: scenario.clone(),
            variant: line.variant.clone(),
            place: place
                .map(|(key, value)| (key.clone(), shown(value)))
                .collect(),
        }
    }
}

impl Line {
    /// One of the words or numbers that set it apart, as it is written.
    pub(super) fn word(&self, key: &str) -> String {
        self.set.get(key).map(shown).unwrap_or_default()
    }
}

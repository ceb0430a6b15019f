//! The parts of a paper's results: scenarios to run, the paper's numbers, its claims, its pictures.
//!
//! All of it is data, in `paper.toml` in the folder of the paper's scenarios: [`condition`](super::condition) and
//! [`figure`](super::figure) describe the language. Claims that need their own arithmetic are decided in Rust, under
//! their names ([`Checks`]).

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use weir_forces_load::plan::Load;

use super::bench::Bench;
use super::condition::{Condition, Shown};
use super::figure::Figure;
use super::measured::Measured;
use super::quantity::{Quantity, Row};
use super::verdict::Findings;
use crate::options::Habitat;
use crate::scenario::Reading;

/// A paper, as in its file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// The short name, which is the prefix of the names of the results.
    pub name: String,
    /// Authors, title, place and year of publication.
    pub source: String,
    /// Other readings with which each claim is decided again, for instance with the values that the paper prints
    /// instead of calibrated ones.
    #[serde(default)]
    pub columns: Vec<OtherReading>,
    /// The length of the scenarios in the lab, where time is real.
    pub lab: LabRun,
    /// The load tests.
    #[serde(default, rename = "load")]
    pub loads: Vec<Load>,
    /// The measurements that are neither scenarios nor load tests.
    #[serde(default, rename = "bench")]
    pub benches: Vec<Bench>,
    /// The results.
    #[serde(rename = "result")]
    pub results: Vec<Recipe>,
    /// Claims that are decided in Rust.
    #[serde(skip)]
    pub(super) code: &'static [&'static Checks],
}

/// A column of verdicts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherReading {
    /// The heading.
    pub name: String,
    /// How ambiguous places are read.
    pub reading: Reading,
}

/// Length of a run in the lab.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabRun {
    /// The length.
    pub duration: String,
    /// The length of the start of a run, which the metrics leave out.
    pub warm_up: String,
}

/// One table or figure, or claims of the text that belong to neither.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// `PAPER/RESULT`.
    pub id: String,
    /// The title.
    pub title: String,
    /// The set-up, and the values chosen for ambiguous places.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The scenarios that the numbers and claims need, by their built-in names.
    #[serde(default)]
    pub scenarios: Vec<String>,
    /// Scenarios with other values for ambiguous places. No verdict as printed depends on them, so they do not run as
    /// printed.
    #[serde(default)]
    pub readings: Vec<String>,
    /// The load tests that the numbers and claims need, by name. Their time is real in every habitat.
    #[serde(default)]
    pub loads: Vec<String>,
    /// The other measurements that the numbers and claims need, by name.
    #[serde(default)]
    pub benches: Vec<String>,
    /// The paper's numbers.
    #[serde(default, rename = "table")]
    pub tables: Vec<Table>,
    /// The paper's claims.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// The pictures.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
}

/// A table that the paper prints.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The scenario to measure, unless a line names another.
    pub scenario: String,
    /// The cells of each line.
    pub columns: Vec<Column>,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A column of a table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The name, with its unit.
    pub name: String,
    /// Our metric, or a formula over metrics and the values that identify the line.
    pub metric: String,
    /// The tolerance of our number, as a share of the paper's.
    #[serde(default = "tolerance")]
    pub tolerance: f64,
}

/// A line of a table: the point where we measure, and the paper's numbers in the order of the columns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The values that identify the line, as text.
    pub set: Row,
    /// Our scenario, if it differs from the table's.
    pub scenario: Option<String>,
    /// Our variant.
    pub variant: String,
    /// Values of the sweep.
    #[serde(default)]
    pub place: Row,
    /// The paper's numbers.
    pub numbers: Vec<f64>,
}

/// A claim of the paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `PAPER/RESULT.n`.
    pub id: String,
    /// The claim, in our words.
    pub text: String,
    /// Whether ambiguous values were chosen so that the claim holds: it is shown, but is not evidence.
    #[serde(default)]
    pub calibrated: bool,
    /// The reason why the claim is not decided here; `None` if it is.
    pub not_run: Option<String>,
    /// The conditions that decide the claim, if it compares numbers.
    #[serde(default, rename = "condition")]
    pub conditions: Vec<Condition>,
    /// Additional numbers to show.
    #[serde(default)]
    pub shown: Vec<Shown>,
    /// Notes for the reader of the evidence.
    #[serde(default)]
    pub remarks: Vec<String>,
}

/// The checks of claims that are decided in Rust, under their names without the paper's.
pub(super) type Checks = [(&'static str, Check)];

/// A check adds to the findings of a claim.
pub(super) type Check = fn(&Measured, &mut Findings);

/// The default tolerance of a number: 15 %, as in the list of claims.
const fn tolerance() -> f64 {
    0.15
}

impl Paper {
    /// Reads a paper's file. The error names the parts that contradict each other.
    pub(super) fn read(text: &str, code: &'static [&'static Checks]) -> Result<Self, String> {
        let paper: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut paper = Self { code, ..paper };
        paper.results.iter_mut().try_for_each(Recipe::resolve)?;
        paper.loads.iter().try_for_each(Load::check)?;
        let mut ids = BTreeSet::new();
        for recipe in &paper.results {
            recipe.check(&paper.name)?;
            let is_unknown = |name: &&String| !paper.loads.iter().any(|load| load.name == **name);
            if let Some(name) = recipe.loads.iter().find(is_unknown) {
                return Err(format!("{}: unknown load test `{name}`", recipe.id));
            }
            let is_unknown = |name: &&String| !paper.benches.iter().any(|b| b.name == **name);
            if let Some(name) = recipe.benches.iter().find(is_unknown) {
                return Err(format!("{}: unknown measurement `{name}`", recipe.id));
            }
            for claim in &recipe.claims {
                paper.check_claim(recipe, claim, ids.insert(&claim.id))?;
            }
        }
        let mut checks = paper.code.iter().copied().flatten();
        let is_claim = |name: &str| ids.contains(&format!("{}/{name}", paper.name));
        match checks.find(|(name, _)| !is_claim(name)) {
            Some((name, _)) => Err(format!("{name}: is a check in Rust, but not a claim")),
            None => Ok(paper),
        }
    }

    /// Checks that a claim is decided in exactly one way.
    fn check_claim(&self, recipe: &Recipe, claim: &Claim, is_new: bool) -> Result<(), String> {
        let ways = [
            claim.not_run.is_some(),
            !claim.conditions.is_empty(),
            self.check_of(claim).is_some(),
        ];
        match ways.iter().filter(|way| **way).count() {
            _ if !is_new => Err(format!("{}: duplicate claim", claim.id)),
            _ if !claim.id.starts_with(&recipe.id) => Err(format!(
                "{}: its name must begin with `{}`",
                claim.id, recipe.id
            )),
            1 => Ok(()),
            0 => Err(format!("{}: has neither a condition nor a check", claim.id)),
            _ => Err(format!("{}: is decided in more than one way", claim.id)),
        }
    }

    /// Decides a claim.
    pub(super) fn decide(&self, claim: &Claim, m: &Measured, f: &mut Findings) {
        let mut conditions = claim.conditions.iter();
        conditions
            .by_ref()
            .for_each(|condition| condition.decide(m, f));
        if let Some(check) = self.check_of(claim) {
            check(m, f);
        }
    }

    /// The check of a claim that is decided in Rust.
    fn check_of(&self, claim: &Claim) -> Option<Check> {
        let (_, short) = claim.id.split_once('/')?;
        let mut checks = self.code.iter().copied().flatten();
        let found = checks.find(|(name, _)| *name == short);
        found.map(|(_, check)| *check)
    }
}

impl Recipe {
    /// Inserts the lines of the result's tables where a claim refers to them.
    fn resolve(&mut self) -> Result<(), String> {
        let lines: Vec<Row> = self.tables.iter().flat_map(Table::rows).collect();
        let failed = |why: String| format!("{}: {why}", self.id);
        for claim in &mut self.claims {
            let conditions = claim.conditions.iter_mut().map(|c| &mut c.each);
            let mut each = conditions.chain(claim.shown.iter_mut().map(|s| &mut s.each));
            each.try_for_each(|each| each.resolve(&lines))
                .map_err(failed)?;
        }
        Ok(())
    }

    /// Refuses a result whose parts contradict each other.
    fn check(&self, paper: &str) -> Result<(), String> {
        let rest = self.id.strip_prefix(paper);
        if !rest.is_some_and(|rest| rest.starts_with('/')) {
            return Err(format!("{}: its name must begin with `{paper}/`", self.id));
        }
        let failed = |id: &str| {
            let id = id.to_owned();
            move |why: String| format!("{id}: {why}")
        };
        let mut tables = self.tables.iter();
        tables
            .try_for_each(Table::check)
            .map_err(failed(&self.id))?;
        let mut figures = self.figures.iter();
        figures
            .try_for_each(Figure::check)
            .map_err(failed(&self.id))?;
        self.claims.iter().try_for_each(|claim| {
            let mut conditions = claim.conditions.iter();
            let conditions = conditions.try_for_each(Condition::check);
            let conditions = conditions.and_then(|()| claim.check_habitats());
            let shown = conditions.and_then(|()| claim.shown.iter().try_for_each(Shown::check));
            shown.map_err(failed(&claim.id))
        })
    }
}

impl Claim {
    /// Adds numbers and notes without effect on the verdict to the evidence. Leaves out measurements of this machine
    /// that did not run.
    pub(super) fn remark(&self, m: &Measured, f: &mut Findings) {
        for shown in &self.shown {
            let remark = shown.remark(m);
            if !m.take_needs_load() {
                remark.into_iter().for_each(|remark| f.remark(remark));
            }
        }
        self.remarks.iter().for_each(|remark| f.remark(remark));
    }

    /// Refuses a claim if all its conditions leave out the same habitat.
    fn check_habitats(&self) -> Result<(), String> {
        let left_out = [Habitat::Sim, Habitat::Lab].into_iter().find(|habitat| {
            let mut conditions = self.conditions.iter();
            !self.conditions.is_empty() && !conditions.any(|one| one.counts_on(*habitat))
        });
        left_out.map_or(Ok(()), |habitat| {
            Err(format!("has no condition with on = \"{}\"", habitat.word()))
        })
    }
}

/// The name of a measured point: the scenario, the variant, and values of the sweep under the last word of their
/// path.
#[derive(Clone, Debug)]
pub struct At {
    /// The scenario.
    pub scenario: String,
    /// The variant.
    pub variant: String,
    /// Values of the sweep, as text.
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

    /// The point with this additional value of the sweep.
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
    /// The point to measure for a line.
    pub fn at(&self, line: &Line) -> At {
        self.quantity(line, &self.columns[0]).at(&Row::new())
    }

    /// Our quantity for a cell.
    pub(super) fn quantity(&self, line: &Line, column: &Column) -> Quantity {
        let scenario = line.scenario.as_ref().unwrap_or(&self.scenario);
        Quantity {
            scenario: scenario.clone(),
            variant: line.variant.clone(),
            place: line.place.clone(),
            metric: column.metric.clone(),
            ..Quantity::default()
        }
    }

    /// The values that identify each line, and the paper's numbers under the names of their columns.
    fn rows(&self) -> impl Iterator<Item = Row> {
        self.lines.iter().map(|line| {
            let names = self.columns.iter().map(|column| column.name.clone());
            let numbers = names.zip(line.numbers.iter().map(|x| Value::from(*x)));
            line.set.clone().into_iter().chain(numbers).collect()
        })
    }

    fn check(&self) -> Result<(), String> {
        for line in &self.lines {
            if line.numbers.len() != self.columns.len() {
                let (numbers, columns) = (line.numbers.len(), self.columns.len());
                return Err(format!(
                    "a line has {numbers} numbers for {columns} columns"
                ));
            }
            let mut columns = self.columns.iter();
            columns.try_for_each(|column| self.quantity(line, column).check(&line.set))?;
        }
        Ok(())
    }
}

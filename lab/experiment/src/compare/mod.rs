//! Disciplines compared under the same loads: `weir compare`, and its suites, which `docs/comparison.md`,
//! `docs/attacks.md` and `docs/everyday.md` summarise.
//!
//! ```text
//!   candidate ─┐                          ┌▶ answers ─▶ finding ─▶ text, page    weir compare
//!              ├▶ a run of each load ─▶ load ─▶ tradeoff: delay over rate ─▶ page
//!   chosen ────┘                          └▶ suite ─▶ markdown, choice           weir compare --suite
//!                                            figures: the columns of all of them
//! ```
//!
//! Without a suite, every discipline runs at the same link, `bottleneck`; the scenarios of a suite have their own
//! disciplines. All have the same seeds. Values are means over the seeds with 95 % intervals (Student's t).

pub mod answers;
pub mod candidate;
mod choice;
pub mod chosen;
mod figures;
mod finding;
mod load;
mod markdown;
pub mod number;
mod page;
mod suite;
mod text;
mod tradeoff;

use serde::Serialize;
use weir_base::Rate;

pub use answers::Table;
pub use candidate::Candidate;
pub use chosen::Chosen;
pub use page::write;
pub use suite::{SUITES, Suite};
pub use text::text;
pub use tradeoff::Tradeoff;

use crate::agreement::{Compared, Ran, run_both};
use crate::error::Error;
use crate::habitat::Habitat;
use crate::options::RunOptions;
use crate::results::RunResult;
use load::Load;

/// Runs of each discipline under each load: in simulation, in the lab, and of a preview.
const RUNS_SIM: u64 = 5;
const RUNS_LAB: u64 = 3;
const RUNS_QUICK: u64 = 3;

/// The disciplines and loads of a comparison, and how they run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The disciplines.
    pub candidates: Vec<Candidate>,
    /// The loads.
    pub loads: Vec<Chosen>,
    /// Rate of the bottleneck; if `None`, each load's own.
    pub rate: Option<Rate>,
    /// Whether to run in both habitats.
    pub both: bool,
    /// Habitat, seeds, jobs; the scenario and the variants are not used.
    pub run: RunOptions,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The disciplines, as they were written.
    pub disciplines: Vec<String>,
    /// The answers of each habitat, simulation first.
    pub habitats: Vec<Answers>,
    /// How far the habitats agree; empty for one habitat.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agreement: Vec<Agreement>,
    /// All results.
    #[serde(skip)]
    pub loads: Vec<Loaded>,
}

/// The results of a load.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The name of the load.
    pub name: String,
    /// The rate of the bottleneck, as the beginning of a note.
    rate: String,
    /// The results.
    pub ran: Ran,
}

/// The answers of one habitat.
#[derive(Clone, Debug, Serialize)]
pub struct Answers {
    /// `sim` or `lab`.
    pub on: String,
    /// The loads, and how they were measured.
    pub loads: Vec<Measured>,
    /// Notes of the runs for the reader: features that were left out, delays of the run.
    pub notes: Vec<String>,
    /// One table for each question.
    pub tables: Vec<Table>,
    /// Delay over rate: of all loads together, if there are several, then of each load.
    pub tradeoffs: Vec<Tradeoff>,
    /// The finding in a sentence; `None` if there is nothing to compare.
    pub finding: Option<String>,
}

/// A load that was run.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// The name in the tables.
    pub name: String,
    /// The scenario's title.
    pub title: String,
    /// How the load was measured, in a sentence.
    pub note: String,
}

/// The comparison of both habitats under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Agreement {
    /// The load.
    pub load: String,
    /// The comparison of each metric.
    pub metrics: Vec<Compared>,
}

/// Runs every discipline under every load. With the lab, it must be called before the process has a second thread, like
/// [`crate::run()`].
///
/// # Errors
///
/// A load without the link, a rate that the load does not permit, and all errors of a run. All loads are checked before
/// the first one runs.
pub fn run(options: &Options) -> Result<Comparison, Error> {
    let of_loads = options.loads.iter();
    let runs: Vec<(&Chosen, RunOptions)> = of_loads.map(|load| (load, options.of(load))).collect();
    for (load, run) in &runs {
        let own = RunOptions {
            overrides: Vec::new(),
            given: Vec::new(),
            ..run.clone()
        };
        load.check(&own, options.rate)?;
    }
    let loads = run_all(&runs, options.both)?;
    let disciplines = options
        .candidates
        .iter()
        .map(|candidate| candidate.name.clone());
    Ok(Comparison::of(disciplines.collect(), loads))
}

/// Checks all runs, then runs each in its habitat, or in both.
fn run_all(runs: &[(&Chosen, RunOptions)], both: bool) -> Result<Vec<Loaded>, Error> {
    for (load, run) in runs {
        for on in habitats(both, run.on) {
            let run = RunOptions {
                on: *on,
                ..run.clone()
            };
            crate::run::check(&run).map_err(|error| match error {
                Error::Unsupported { on, why } => {
                    Error::unsupported(on, format!("{}: {why}", load.name))
                }
                other => other,
            })?;
        }
    }
    let loaded = runs.iter().map(|(load, run)| {
        if run.progress {
            eprintln!("{}", load.name);
        }
        Ok(Loaded {
            name: load.name.clone(),
            rate: chosen::rate_of(run)?,
            ran: if both {
                Ran::Both(Box::new(run_both(run)?))
            } else {
                crate::run(run)?.into()
            },
        })
    });
    loaded.collect()
}

/// The habitats of a comparison.
fn habitats(both: bool, on: Habitat) -> &'static [Habitat] {
    match (both, on) {
        (true, _) => &[Habitat::Sim, Habitat::Lab],
        (false, Habitat::Sim) => &[Habitat::Sim],
        (false, Habitat::Lab) => &[Habitat::Lab],
    }
}

impl Options {
    fn of(&self, load: &Chosen) -> RunOptions {
        let in_lab = habitats(self.both, self.run.on).contains(&Habitat::Lab);
        let runs = match (self.run.quick, in_lab) {
            (true, _) => RUNS_QUICK,
            (false, true) => RUNS_LAB,
            (false, false) => RUNS_SIM,
        };
        RunOptions {
            overrides: self.rate.map(chosen::rate_override).into_iter().collect(),
            given: self.candidates.iter().map(Candidate::variant).collect(),
            runs: self.run.runs.or(Some(runs)),
            ..load.options(&self.run)
        }
    }
}

impl Comparison {
    fn of(disciplines: Vec<String>, loads: Vec<Loaded>) -> Self {
        let habitats = loads.first().map_or(0, |load| load.ran.results().len());
        let habitat = |number: usize| {
            let results = loads
                .iter()
                .filter_map(|load| Some((load, *load.ran.results().get(number)?)));
            Answers::of(&disciplines, &results.collect::<Vec<_>>())
        };
        let agreement = loads.iter().filter_map(|load| match &load.ran {
            Ran::One(_) => None,
            Ran::Both(both) => Some(Agreement {
                load: load.name.clone(),
                metrics: both.comparison.clone(),
            }),
        });
        Self {
            habitats: (0..habitats).map(habitat).collect(),
            agreement: agreement.collect(),
            disciplines,
            loads,
        }
    }
}

impl Answers {
    fn of(disciplines: &[String], results: &[(&Loaded, &RunResult)]) -> Self {
        let loads = results.iter().flat_map(|(loaded, result)| {
            let mut loads = Load::all(&loaded.name, result);
            for load in &mut loads {
                load.note.insert_str(0, &loaded.rate);
            }
            loads
        });
        let loads: Vec<Load> = loads.collect();
        let tables = answers::tables(&loads);
        let measured = loads.iter().map(|load| Measured {
            name: load.name.clone(),
            title: load.title.clone(),
            note: load.note.clone(),
        });
        let notes = results.iter().flat_map(|(load, result)| {
            let notes = result.notes.iter();
            notes.map(move |note| format!("{}: {note}", load.name))
        });
        Self {
            notes: notes.collect(),
            on: results
                .first()
                .map_or(String::new(), |(_, result)| result.on.clone()),
            loads: measured.collect(),
            finding: finding::sentence(disciplines, &tables),
            tradeoffs: Tradeoff::of_all(&loads)
                .into_iter()
                .chain(loads.iter().filter_map(Tradeoff::of))
                .collect(),
            tables,
        }
    }
}

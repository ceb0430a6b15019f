//! `weir compare`: compares disciplines under the same loads.

use std::path::{Path, PathBuf};

use weir::Failure;
use weir::output::{print, print_json};
use weir_base::Rate;
use weir_experiment::RunOptions;
use weir_experiment::compare::{self, Candidate, Chosen, Options, candidate, chosen};

use crate::complete;
use crate::run::{On, RunsArguments, check_writable, failure, source, written};
use crate::scenarios::Source;

/// Minimum number of disciplines of a comparison.
const DISCIPLINES_MIN: usize = 2;
/// Maximum number of disciplines of a comparison.
const DISCIPLINES_MAX: usize = 64;

/// Arguments of `weir compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct CompareArguments {
    /// Disciplines to compare, with optional parameters: lru_fq:cache=128,key=source [default: all]
    #[arg(value_name = "DISCIPLINE", add = weir::complete::disciplines())]
    disciplines: Vec<Candidate>,
    /// A load from `weir list loads`, or a scenario with a link named `bottleneck`; may be repeated [default: rrul,
    /// mix, floods and hogs in simulation; rrul, mix and demo in the lab]
    #[arg(long, value_name = "LOAD", add = complete::loads())]
    load: Vec<String>,
    /// Bottleneck rate, like "50 Mbit" [default: each load's own rate]
    #[arg(long)]
    rate: Option<Rate>,
    #[command(flatten)]
    runs: RunsArguments,
    /// Write a page with plots (compare.html) and the tables (compare.json) to this folder; finished runs are stored
    /// there, so that the same command resumes an interrupted comparison
    #[arg(long, value_name = "DIR", value_parser = weir::output::folder)]
    out: Option<PathBuf>,
    /// Print the tables as JSON
    #[arg(long)]
    json: bool,
}

/// `weir compare`.
pub(crate) fn run(arguments: &CompareArguments) -> Result<(), Failure> {
    let loads = arguments.load.iter().map(|word| load(word));
    let loads = loads.collect::<Result<Vec<Chosen>, Failure>>()?;
    let options = Options {
        candidates: disciplines(&arguments.disciplines)?,
        loads: if loads.is_empty() {
            chosen::defaults(arguments.runs.on != On::Sim)
        } else {
            loads
        },
        rate: arguments.rate,
        both: arguments.runs.on == On::Both,
        run: RunOptions {
            keep: arguments.out.clone(),
            ..arguments.runs.options()?
        },
    };
    if let Some(folder) = &arguments.out {
        check_writable(folder)?;
    }
    let comparison = compare::run(&options).map_err(failure)?;
    if arguments.json {
        print_json(&comparison)?
    } else {
        print(&compare::text(&comparison))?
    }
    if let Some(folder) = &arguments.out {
        let files = compare::write(&comparison, folder).map_err(failure)?;
        written(&files, folder)?;
    }
    Ok(())
}

/// The disciplines to compare: `given`, or all disciplines if it is empty.
fn disciplines(given: &[Candidate]) -> Result<Vec<Candidate>, Failure> {
    let mut names: Vec<&str> = given
        .iter()
        .map(|candidate| candidate.name.as_str())
        .collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    match given.len() {
        0 => Ok(candidate::all()),
        DISCIPLINES_MIN..=DISCIPLINES_MAX if twice.is_none() => Ok(given.to_vec()),
        DISCIPLINES_MIN..=DISCIPLINES_MAX => {
            let name = twice.map_or("", |pair| pair[0]);
            Err(Failure::Usage(format!("duplicate discipline `{name}`")))
        }
        count => Err(Failure::Usage(format!(
            "{count} discipline{} cannot be compared: give {DISCIPLINES_MIN} to {DISCIPLINES_MAX}, or none for all",
            if count == 1 { "" } else { "s" }
        ))),
    }
}

/// A load by its short name, or a scenario as `weir run` finds it.
fn load(word: &str) -> Result<Chosen, Failure> {
    if let Some(load) = chosen::find(word) {
        return Ok(load);
    }
    let path = Path::new(word);
    let Source { file, text } = source(path).map_err(|why| match (why, chosen::near(word)) {
        (why, _) if path.exists() => why,
        (Failure::Usage(why), near) if near.is_empty() => {
            Failure::Usage(format!("{why}; `weir list loads` lists the loads"))
        }
        (_, near) => Failure::Usage(format!("unknown load `{word}`{near}")),
    })?;
    // The path of a user's own file is not part of its name in the tables.
    let name = match text {
        None => file.file_stem().unwrap_or_default().to_string_lossy(),
        Some(_) => word.into(),
    };
    Ok(Chosen {
        name: name.into_owned(),
        file,
        text,
    })
}

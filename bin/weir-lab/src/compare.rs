//! `weir compare`: compares disciplines under the same loads.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use weir::Failure;
use weir::output::{print, print_json};
use weir_base::Rate;
use weir_base::setting::{did_you_mean, nearest};
use weir_experiment::RunOptions;
use weir_experiment::compare::{
    self, Candidate, Chosen, Options, SUITES, Suite, candidate, chosen,
};

use crate::complete;
use crate::run::{On, RunsArguments, check_writable, failure, note_written, source, written};
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
    /// A load from `weir list loads`, or a scenario with a link named `bottleneck`, or with --suite a scenario of the
    /// suite; may be repeated [default: rrul, mix, floods and hogs in simulation; rrul, mix and demo in the lab; all
    /// of the suite]
    #[arg(long, value_name = "LOAD", add = complete::loads())]
    load: Vec<String>,
    /// Bottleneck rate, like "50 Mbit" [default: each load's own rate]
    #[arg(long)]
    rate: Option<Rate>,
    /// Run the scenarios of a suite, which have their own disciplines and seeds, and print its tables as Markdown
    #[arg(long, value_parser = suites(), conflicts_with_all = ["disciplines", "rate", "json"])]
    suite: Option<&'static Suite>,
    /// Write the summary of the suite to its page in `docs/` instead of printing the tables; run it in the root of
    /// weir's repository
    #[arg(long, requires = "suite", conflicts_with = "load")]
    document: bool,
    #[command(flatten)]
    runs: RunsArguments,
    /// Write a page with plots (compare.html) and the tables (compare.json, with --suite SUITE.md) to this folder;
    /// finished runs are stored there, so that the same command resumes an interrupted comparison
    #[arg(long, value_name = "DIR", value_parser = weir::output::folder)]
    out: Option<PathBuf>,
    /// Print the tables as JSON
    #[arg(long)]
    json: bool,
}

fn suites() -> impl TypedValueParser<Value = &'static Suite> {
    let values = SUITES.map(|suite| PossibleValue::new(suite.name).help(suite.about));
    PossibleValuesParser::new(values).try_map(|name| {
        let mut suites = SUITES.into_iter();
        suites
            .find(|suite| suite.name == name)
            .ok_or("no such suite")
    })
}

/// `weir compare`.
pub(crate) fn run(arguments: &CompareArguments) -> Result<(), Failure> {
    let common = RunOptions {
        keep: arguments.out.clone(),
        ..arguments.runs.options()?
    };
    if let Some(suite) = arguments.suite {
        return run_suite(suite, arguments, &common);
    }
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
        run: common,
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

/// `weir compare --suite`.
fn run_suite(
    suite: &Suite,
    arguments: &CompareArguments,
    common: &RunOptions,
) -> Result<(), Failure> {
    if arguments.runs.on == On::Both {
        let why = "--suite runs in one habitat: use --on sim or --on lab";
        return Err(Failure::Usage(why.to_owned()));
    }
    let mut loads: Vec<Chosen> = suite.loads().collect();
    if !arguments.load.is_empty() {
        let find = |word: &String| {
            let found = loads.iter().find(|load| load.name == *word);
            found.cloned().ok_or_else(|| {
                let near = nearest(word, loads.iter().map(|load| load.name.as_str()));
                let (near, suite) = (did_you_mean(near), suite.name);
                Failure::Usage(format!(
                    "unknown load `{word}` of the suite `{suite}`{near}"
                ))
            })
        };
        loads = arguments.load.iter().map(find).collect::<Result<_, _>>()?;
    }
    if let Some(folder) = &arguments.out {
        check_writable(folder)?;
    }
    let root = Path::new(".");
    if arguments.document {
        suite.check_page(root).map_err(failure)?;
    }
    let loads = suite.run(&loads, common).map_err(failure)?;
    if arguments.document {
        note_written(&suite.document(root, &loads).map_err(failure)?);
    } else {
        print(&suite.text(&loads))?;
    }
    if let Some(folder) = &arguments.out {
        let file = suite.write(folder, &loads).map_err(failure)?;
        written(&[file], folder)?;
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

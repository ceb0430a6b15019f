//! `weir run` and `weir traffic`: arguments of the lab.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_lab::scenario::Override;
use weir_lab::{Capture, Habitat, Ran, RunOptions, report};
use weir_live::file::read_text;

use crate::output::{note, print, print_json};
use crate::{Failure, configuration};

/// Where scenarios are looked for by `weir list scenarios`.
const SCENARIOS: &str = "scenarios";

/// Arguments of `weir run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArguments {
    /// The scenario, or several of them for one report
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Where
    #[arg(long, default_value = "sim")]
    on: On,
    /// Seed of the first run, instead of the scenario's
    #[arg(long)]
    seed: Option<u64>,
    /// Runs of each point, instead of the scenario's
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: Option<u64>,
    /// Simulations side by side; as many as there are processors if not given
    #[arg(long, value_parser = jobs)]
    jobs: Option<usize>,
    /// Only this variant; may be given several times
    #[arg(long)]
    variant: Vec<String>,
    /// Put a value at a path of the scenario: duration="20 s"
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<Override>,
    /// Write down the first packets (10000 if no number is given) that leave a link's queue or end
    /// there, for each point; in simulation, into the folder of `--out`
    #[arg(long, value_name = "LINK[=PACKETS]", requires = "out")]
    capture: Vec<Capture>,
    /// Write a report (report.html), the results (results.json), sheets (CSV), plots (SVG, PNG) and
    /// Flent files to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the results as JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Where a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum On {
    /// Virtual time, modelled TCP and UDP; the same seed gives the same run
    Sim,
    /// Network namespaces, real TCP stacks, real packets
    Lab,
    /// One after the other, and a comparison
    Both,
}

pub(crate) fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=1024) => Ok(n),
        _ => Err("must be a whole number from 1 to 1024".into()),
    }
}

/// `weir run`.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let interrupt = weir_lab::interrupt_flag().map_err(failure)?;
    let mut results = Vec::new();
    for scenario in &arguments.scenarios {
        is_no_router(scenario)?;
        let options = RunOptions {
            scenario: scenario.clone(),
            on: match arguments.on {
                On::Lab => Habitat::Lab,
                On::Sim | On::Both => Habitat::Sim,
            },
            overrides: arguments.set.clone(),
            variants: arguments.variant.clone(),
            seed: arguments.seed,
            runs: arguments.runs,
            jobs: arguments.jobs,
            captures: arguments.capture.clone(),
            executable: None,
            progress: true,
            interrupt: Arc::clone(&interrupt),
        };
        let ran = match arguments.on {
            On::Both => weir_lab::run_both(&options).map(|both| Ran::Both(Box::new(both))),
            On::Sim | On::Lab => weir_lab::run(&options).map(Ran::from),
        };
        let ran = ran.map_err(failure)?;
        if !arguments.json {
            print(&report::text_of(&ran))?;
        }
        results.push(ran);
    }
    if let Some(folder) = &arguments.out {
        for path in report::write(&results, folder).map_err(failure)? {
            note(&format!("written: {}", path.display()));
        }
    }
    match &results[..] {
        _ if !arguments.json => Ok(()),
        [one] => print_json(one),
        many => print_json(&many),
    }
}

/// Refuses a router's configuration with what runs it.
fn is_no_router(scenario: &Path) -> Result<(), Failure> {
    let text = read_text(scenario, configuration::FILE_BYTES_MAX);
    if !text.is_ok_and(|text| configuration::is_router(&text)) {
        // the lab says why it cannot be read
        return Ok(());
    }
    let file = scenario.display();
    Err(Failure::Usage(format!(
        "{file}: this is a router's configuration, not a scenario; check it with `weir check {file}`, \
         start it with `weir router {file}`"
    )))
}

/// `weir traffic`.
pub(crate) fn traffic(command: &weir_lab::traffic::Command) -> Result<(), Failure> {
    weir_lab::traffic::run(command).map_err(|e| Failure::Run(e.to_string()))
}

/// The scenarios of this folder, a line each.
pub(crate) fn scenarios() -> Result<String, Failure> {
    let mut lines = Vec::new();
    let folders = std::fs::read_dir(SCENARIOS)
        .map_err(|e| Failure::Usage(format!("there is no folder `{SCENARIOS}` here: {e}")))?;
    for folder in folders.flatten() {
        let Ok(files) = std::fs::read_dir(folder.path()) else {
            continue;
        };
        lines.extend(
            files
                .flatten()
                .map(|file| format!("{}\n", file.path().display())),
        );
    }
    lines.sort();
    Ok(lines.concat())
}

/// A scenario that is wrong is wrong usage; anything else is a failed run.
pub(crate) fn failure(error: weir_lab::Error) -> Failure {
    if error.is_usage() {
        Failure::Usage(error.to_string())
    } else {
        Failure::Run(error.to_string())
    }
}

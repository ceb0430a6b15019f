//! `weir run` and `weir traffic`: arguments of the lab.

use std::path::{Path, PathBuf};

use weir_lab::scenario::Override;
use weir_lab::{RunOptions, RunResult};

use crate::{Failure, print, print_json};

/// Where scenarios are looked for by `weir list scenarios`.
const SCENARIOS: &str = "scenarios";

/// Arguments of `weir run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArguments {
    /// The scenario
    scenario: PathBuf,
    /// Where: in network namespaces on this machine
    #[arg(long, default_value = "lab")]
    on: Habitat,
    /// Seed of the first run, instead of the scenario's
    #[arg(long)]
    seed: Option<u64>,
    /// Runs of each point, instead of the scenario's
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: Option<u64>,
    /// Only this variant; may be given several times
    #[arg(long)]
    variant: Vec<String>,
    /// Put a value at a path of the scenario: duration="20 s"
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<Override>,
    /// Write a report (report.html) and the results (results.json) to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the results as JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Habitat {
    /// Network namespaces, real TCP stacks, real packets
    Lab,
}

/// `weir run`.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let Habitat::Lab = arguments.on;
    let options = RunOptions {
        scenario: arguments.scenario.clone(),
        overrides: arguments.set.clone(),
        variants: arguments.variant.clone(),
        seed: arguments.seed,
        runs: arguments.runs,
        executable: None,
        progress: true,
        interrupt: weir_lab::interrupt_flag().map_err(failure)?,
    };
    let result = weir_lab::run(&options).map_err(failure)?;
    if let Some(folder) = &arguments.out {
        write(folder, &result).map_err(|e| Failure::Run(format!("{}: {e}", folder.display())))?;
    }
    if arguments.json {
        print_json(&result);
    } else {
        print_json(&result);
    }
    Ok(())
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

fn write(folder: &Path, result: &RunResult) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;

    let json = serde_json::to_string_pretty(result).map_err(std::io::Error::other)?;
    std::fs::write(folder.join("results.json"), json + "\n")
}

/// A scenario that is wrong is wrong usage; anything else is a failed run.
fn failure(error: weir_lab::Error) -> Failure {
    if error.is_usage() {
        Failure::Usage(error.to_string())
    } else {
        Failure::Run(error.to_string())
    }
}

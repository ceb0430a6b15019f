//! `weir run` and `weir traffic`: arguments of the lab.

use std::path::{Path, PathBuf};

use weir::output::{folder, note, print, print_json};
use weir::{Failure, configuration};
use weir_experiment::scenario::{Override, Reading, Sweep};
use weir_experiment::{Capture, Habitat, Ran, RunOptions, report};
use weir_live::file::read_text;

use crate::complete;
use crate::scenarios::{self, Source};

/// Arguments of `weir run`.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArguments {
    /// Scenario files, or names from `weir list scenarios`; several scenarios make one report
    #[arg(required = true, add = complete::scenarios())]
    pub(crate) scenarios: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) runs: RunsArguments,
    /// Use the values printed in the paper where the scenario also has calibrated values
    #[arg(long)]
    pub(crate) as_printed: bool,
    /// Run only this variant; may be repeated
    #[arg(long)]
    pub(crate) variant: Vec<String>,
    /// Set a value of the scenario by its path: duration="20 s"
    #[arg(long, value_name = "PATH=VALUE")]
    pub(crate) set: Vec<Override>,
    /// Run the scenario with each of these values at a path, like a `[sweep]` in the file:
    /// link.out.rate="10 Mbit","20 Mbit"; may be repeated
    #[arg(long, value_name = "PATH=VALUE,VALUE..")]
    pub(crate) sweep: Vec<Sweep>,
    /// Capture the first PACKETS packets [default: 10000] that leave a link's queue or are dropped there, for each
    /// point, to the folder of `--out`; simulation only
    #[arg(long, value_name = "LINK[=PACKETS]", requires = "out")]
    pub(crate) capture: Vec<Capture>,
    /// Write a report (report.html), the results (results.json), sheets (CSV), plots (SVG, PNG) and Flent files to this
    /// folder; finished runs are stored there, so that the same command resumes an interrupted run
    #[arg(long, value_name = "DIR", value_parser = folder)]
    pub(crate) out: Option<PathBuf>,
    /// Print the results as JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where and how often: what `weir run` and `weir compare` share.
#[derive(Debug, clap::Args)]
pub(crate) struct RunsArguments {
    /// Where to run
    #[arg(long, default_value = "sim")]
    pub(crate) on: On,
    /// Seed of the first run [default: the scenario's]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Runs per point [default: the scenario's; for `compare` 5 in simulation, 3 in the lab and with --quick]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) runs: Option<u64>,
    /// Parallel simulations [default: number of CPUs]
    #[arg(long, value_parser = jobs)]
    jobs: Option<usize>,
    /// Preview with the shorter runs of the scenario's `[quick]`
    #[arg(long)]
    pub(crate) quick: bool,
}

impl RunsArguments {
    /// The arguments as options of the lab, which shows progress and ends at a signal.
    pub(crate) fn options(&self) -> Result<RunOptions, Failure> {
        Ok(RunOptions {
            on: match self.on {
                On::Lab => Habitat::Lab,
                On::Sim | On::Both => Habitat::Sim,
            },
            quick: self.quick,
            seed: self.seed,
            runs: self.runs,
            jobs: self.jobs,
            transports: Some(&weir_forces_lab::ForCes),
            progress: true,
            interrupt: weir_experiment::interrupt_flag().map_err(failure)?,
            ..RunOptions::default()
        })
    }
}

/// Where a scenario is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum On {
    /// Simulation: virtual time, modelled TCP and UDP; the same seed gives the same run
    Sim,
    /// Lab: network namespaces, real TCP stacks, real packets
    Lab,
    /// Both in turn, and a comparison
    Both,
}

pub(crate) fn jobs(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=1024) => Ok(n),
        _ => Err("must be an integer from 1 to 1024".into()),
    }
}

/// `weir run`.
pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    let common = arguments.runs.options()?;
    let sources = arguments.scenarios.iter().map(|given| source(given));
    let sources = sources.collect::<Result<Vec<Source>, Failure>>()?;
    if let Some(folder) = &arguments.out {
        check_writable(folder)?;
    }
    let mut results = Vec::new();
    for Source { file, text } in sources {
        let options = RunOptions {
            scenario: file,
            text: text.map(str::to_owned),
            reading: if arguments.as_printed {
                Reading::Printed
            } else {
                Reading::Calibrated
            },
            overrides: arguments.set.clone(),
            sweeps: arguments.sweep.clone(),
            variants: arguments.variant.clone(),
            captures: arguments.capture.clone(),
            keep: arguments.out.clone(),
            ..common.clone()
        };
        let ran = match arguments.runs.on {
            On::Both => weir_experiment::run_both(&options).map(|both| Ran::Both(Box::new(both))),
            On::Sim | On::Lab => weir_experiment::run(&options).map(Ran::from),
        };
        let ran = ran.map_err(failure)?;
        if !arguments.json {
            print(&report::text_of(&ran))?;
        }
        results.push(ran);
    }
    if let Some(folder) = &arguments.out {
        written(&report::write(&results, folder).map_err(failure)?, folder)?;
    }
    match &results[..] {
        _ if !arguments.json => Ok(()),
        [one] => print_json(one),
        many => print_json(&many),
    }
}

/// The scenario to run. A router's configuration is refused, with the command that would run it.
pub(crate) fn source(given: &Path) -> Result<Source, Failure> {
    let source = scenarios::find(given).map_err(Failure::Usage)?;
    let text = read_text(given, configuration::FILE_BYTES_MAX);
    if !text.is_ok_and(|text| configuration::is_router(&text)) {
        return Ok(source); // the lab reports why it cannot be read
    }
    let file = given.display();
    Err(Failure::Usage(format!(
        "{file} is a router configuration, not a scenario; validate it with `weir check {file}`, run it with `weir \
         router {file}`"
    )))
}

/// Creates the folder for a report. Fails before the run if the folder is not writable.
pub(crate) fn check_writable(folder: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        let folder = folder.display();
        Failure::Usage(format!(
            "--out {folder}: the folder is not writable: {error}"
        ))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let probe = folder.join(format!(".weir-{}", std::process::id()));
    std::fs::write(&probe, b"x").map_err(failed)?;
    std::fs::remove_file(&probe).map_err(failed)
}

/// Prints the names of a report's files, and removes the finished runs in its folder, because the report contains them.
pub(crate) fn written(files: &[PathBuf], folder: &Path) -> Result<(), Failure> {
    note_written(files);
    weir_experiment::forget(folder).map_err(|e| Failure::Run(e.to_string()))
}

/// Prints the names of written files.
pub(crate) fn note_written(files: &[PathBuf]) {
    for file in files {
        note(&format!("written: {}", file.display()));
    }
}

/// The lab's traffic tools.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum TrafficCommand {
    #[command(flatten)]
    Tool(Box<weir_experiment::traffic::Command>),
    /// The two sides of the load test of the transport between the CE and FEs.
    #[command(subcommand)]
    Load(weir_forces_lab::Command),
}

/// `weir traffic`.
pub(crate) fn traffic(command: &TrafficCommand) -> Result<(), Failure> {
    let ran = match command {
        TrafficCommand::Tool(tool) => weir_experiment::traffic::run(tool),
        TrafficCommand::Load(side) => weir_forces_lab::run(side),
    };
    ran.map_err(|e| Failure::Run(e.to_string()))
}

/// A wrong scenario is a usage error; any other error is a failed run.
pub(crate) fn failure(error: weir_experiment::Error) -> Failure {
    if error.is_usage() {
        Failure::Usage(error.to_string())
    } else {
        Failure::Run(error.to_string())
    }
}

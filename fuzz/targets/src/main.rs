//! Runs fuzz targets on a stable compiler: `cargo run --release -p weir-fuzz-targets -- run frames --seconds 600`.
//!
//! Exit codes: 0 no failure, 1 a failure (its input is in a file), 2 wrong usage.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use clap::{Parser, Subcommand};
use weir_base::Streams;
use weir_fuzz_targets::runner::{self, Failure, Limits};
use weir_fuzz_targets::{TARGETS, Target};

/// Fuzz targets on a stable compiler.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the targets
    List,
    /// Run targets on mutations of their seeds; all targets if none is named
    Run {
        #[arg(value_parser = target)]
        targets: Vec<&'static Target>,
        /// Seconds for each target
        #[arg(long, default_value = "10")]
        seconds: u64,
        /// Mutations for each target at most
        #[arg(long, default_value_t = u64::MAX)]
        inputs: u64,
        /// Another seed gives other mutations
        #[arg(long, default_value = "1")]
        seed: u64,
        /// Targets side by side
        #[arg(long, default_value = "2", value_parser = clap::value_parser!(u8).range(1..=64))]
        jobs: u8,
        /// The folder for inputs with which a target fails
        #[arg(long, default_value = "target/fuzz")]
        out: PathBuf,
    },
    /// Run a target on the inputs in files
    Replay {
        #[arg(value_parser = target)]
        target: &'static Target,
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Write the seeds of a target into a folder, as a corpus for cargo-fuzz, and its words into FOLDER.dict
    Seeds {
        #[arg(value_parser = target)]
        target: &'static Target,
        folder: PathBuf,
    },
}

fn target(name: &str) -> Result<&'static Target, String> {
    Target::find(name).ok_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        format!("the targets are: {}", names.join(", "))
    })
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::List => {
            TARGETS
                .iter()
                .for_each(|target| println!("{:16} {}", target.name, target.about));
            Ok(true)
        }
        Command::Run {
            targets,
            seconds,
            inputs,
            seed,
            jobs,
            out,
        } => {
            let all: Vec<&Target> = TARGETS.iter().collect();
            let targets = if targets.is_empty() { all } else { targets };
            let time = Duration::from_secs(seconds);
            Ok(run(
                &targets,
                Limits { inputs, time },
                seed,
                jobs.into(),
                &out,
            ))
        }
        Command::Replay { target, files } => replay(target, &files),
        Command::Seeds { target, folder } => write(target, &folder),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Runs targets in parallel; returns whether none failed.
fn run(targets: &[&Target], limits: Limits, seed: u64, jobs: usize, out: &Path) -> bool {
    let (next, good) = (AtomicUsize::new(0), AtomicBool::new(true));
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let tell = |failure: &Failure| tell(target, failure, seed, out);
                    match runner::run(target, &Streams::new(seed), limits, tell) {
                        Ok(ran) => println!(
                            "{:16} {} inputs, {} in the corpus; the slowest took {:.1} ms, the largest {} KiB",
                            target.name,
                            ran.inputs,
                            ran.corpus,
                            ran.slowest.as_secs_f64() * 1e3,
                            ran.memory >> 10
                        ),
                        Err(failure) => {
                            tell(&failure);
                            good.store(false, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    good.into_inner()
}

/// Prints a failure, and the command that reproduces it.
fn tell(target: &Target, failure: &Failure, seed: u64, out: &Path) {
    let Target { name, .. } = target;
    println!("{name:16} FAILED with seed {seed}: {}", failure.what);
    match runner::save(out, target, failure) {
        Ok(path) => println!(
            "{:16} again: cargo run -p weir-fuzz-targets -- replay {name} {}",
            "",
            path.display()
        ),
        Err(error) => println!(
            "{:16} the input cannot be written to {}: {error}",
            "",
            out.display()
        ),
    }
}

fn replay(target: &Target, files: &[PathBuf]) -> Result<bool, String> {
    let mut good = true;
    for file in files {
        let input = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        match runner::replay(target, &input) {
            Ok(()) => println!("{}: good", file.display()),
            Err(failure) => {
                println!("{}: {}", file.display(), failure.what);
                good = false;
            }
        }
    }
    Ok(good)
}

fn write(target: &Target, folder: &Path) -> Result<bool, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(wrong)?;
    for (number, seed) in target.seeds().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number}")), seed).map_err(wrong)?;
    }
    std::fs::write(folder.with_added_extension("dict"), dictionary(target)).map_err(wrong)?;
    Ok(true)
}

/// The words of a target in the format of libFuzzer, which refuses an empty file.
fn dictionary(target: &Target) -> String {
    let mut lines = format!("# {}\n", target.about);
    for word in target.tokens {
        let bytes = word.bytes().map(|byte| format!("\\x{byte:02x}"));
        lines += &format!("\"{}\"\n", bytes.collect::<String>());
    }
    lines
}

//! `weir-lab`: scenarios in simulation and on real packets, the papers' results, benchmarks. This file contains only
//! arguments and wiring.
//!
//! The exit codes are the same as those of `weir`.

mod adjacency;
mod bench;
mod compare;
mod complete;
mod list;
mod pages;
mod reproduce;
mod run;
mod scenarios;
mod soak;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use weir::manpage;
use weir::program::{self, AFTER_HELP, Failure};

/// Simulate, compare and measure: scenarios, the papers' results, benchmarks.
#[derive(Debug, Parser)]
#[command(name = "weir-lab", version, about, max_term_width = 100, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios in simulation or on real packets
    Run(run::RunArguments),
    /// Compare queue disciplines under the same loads
    ///
    /// Without arguments, simulates every discipline under four loads in less than two minutes. A star marks the best
    /// result and all results within its 95 % interval. `weir compare fq_codel lru_fq:cache=128 --load rrul --rate "50 Mbit"`
    /// compares two disciplines at one link rate. docs/comparison.md explains the tables.
    Compare(compare::CompareArguments),
    /// Reproduce the results of the papers, with a verdict on each claim
    Reproduce(reproduce::ReproduceArguments),
    /// Soak-test a router in the lab and verify its final state
    ///
    /// Traffic, floods, hostile frames, churn in a full routing table, configuration changes, captures, and link failures.
    /// At the end the counters must account for every packet, memory must not have grown, and the router's kernel tables
    /// must be deleted. Needs network namespaces.
    Soak(soak::SoakArguments),
    /// Send or receive traffic with the lab's tools
    #[command(subcommand)]
    Traffic(run::TrafficCommand),
    /// Measure this machine
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// List scenarios, loads and results of papers, or print a reference page
    List(list::ListArguments),
    /// Print a shell completion script
    Completions {
        /// Shell to complete for
        shell: clap_complete::Shell,
    },
    /// Print the manual pages of this program
    Manpage(manpage::ManpageArguments),
}

fn main() -> ExitCode {
    weir_experiment::extend(weir_fpf_lab::FPF);
    program::main::<Arguments>(Arguments::command, run)
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    program::release_signals()?;
    match arguments.command {
        Command::Run(arguments) if adjacency::is_named(&arguments) => adjacency::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Traffic(command) => run::traffic(&command),
        Command::Bench(command) => bench::run(&command),
        Command::List(arguments) => list::run(&arguments),
        Command::Completions { shell } => weir::complete::register("weir-lab", shell),
        Command::Manpage(arguments) => manpage::run(Arguments::command(), &arguments),
    }
}

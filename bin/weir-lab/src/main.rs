//! `weir-lab`: scenarios in simulation and on real packets, the papers' results, benchmarks. This file has arguments and
//! wiring only.
//!
//! Exit codes are those of `weir`.

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
    /// Run a scenario
    Run(run::RunArguments),
    /// Compare disciplines under the same loads: which one for my link?
    ///
    /// Without arguments every discipline runs under four loads in simulation, in less than two minutes. A star marks
    /// the best, and what chance may have put behind it. `weir compare fq_codel lru_fq:cache=128 --load rrul --rate "50 Mbit"`
    /// compares two at the rate of a link. docs/comparison.md says how to read it.
    Compare(compare::CompareArguments),
    /// Run the papers' results again: their numbers beside ours, a verdict on each claim
    Reproduce(reproduce::ReproduceArguments),
    /// Soak-test a router in the lab and verify its final state
    ///
    /// Traffic, floods, hostile frames, a full table of routes that come and go, changes of the configuration, captures,
    /// and links that go down and up. At the end every packet must be in the books, memory must be flat, and the
    /// kernel's tables must be gone with the router. Needs network namespaces.
    Soak(soak::SoakArguments),
    /// Send or receive traffic: the lab's tools, usable on their own
    #[command(subcommand)]
    Traffic(weir_experiment::traffic::Command),
    /// Measure this machine
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// List scenarios, loads, results of papers, and pages about them
    List(list::ListArguments),
    /// Print a shell completion script
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print the manual pages of this program and its sub-commands
    Manpage(manpage::ManpageArguments),
}

fn main() -> ExitCode {
    program::main::<Arguments>(Arguments::command, run)
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    program::release_signals()?;
    match arguments.command {
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

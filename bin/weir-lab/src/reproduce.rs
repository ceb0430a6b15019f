//! `weir reproduce`: arguments, and the verdicts that count as failures.

use std::path::PathBuf;

use weir::Failure;
use weir::output::{note, print, print_json};
use weir_experiment::reproduce::verdict::Verdict;
use weir_experiment::reproduce::{self, Options};
use weir_experiment::{Habitat, RunOptions};

use crate::run::{check_writable, failure, jobs, written};

/// Arguments of `weir reproduce`.
#[derive(Debug, clap::Args)]
pub(crate) struct ReproduceArguments {
    /// Results to reproduce: PAPER or PAPER/RESULT from `weir list results` [default: all]
    #[arg(value_name = "PAPER[/RESULT]")]
    results: Vec<String>,
    /// Where to run
    #[arg(long, default_value = "sim")]
    on: Habitat,
    /// Preview with three seeds and shorter runs, which refutes no claim
    #[arg(long)]
    quick: bool,
    /// Runs per point [default: 10 in simulation, 5 in the lab, 3 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: Option<u64>,
    /// Parallel simulations [default: number of CPUs]
    #[arg(long, value_parser = jobs)]
    jobs: Option<usize>,
    /// AS relationships for fpf (CAIDA serial-1: plain, .bz2 or .gz) [default: generated graphs]
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    /// Write a report (reproduce.html, reproduce.md) and the results (reproduce.json) to this folder; finished runs are
    /// stored there, so that the same command resumes an interrupted reproduction
    #[arg(long, value_name = "DIR", value_parser = weir::output::folder)]
    out: Option<PathBuf>,
    /// Print the results as JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// `weir reproduce`. It fails if a claim does not hold, needs a value that was not measured, or could not fail.
pub(crate) fn run(arguments: &ReproduceArguments) -> Result<(), Failure> {
    let recipes = reproduce::select(&arguments.results).map_err(Failure::Usage)?;
    let options = Options {
        run: RunOptions {
            on: arguments.on,
            runs: arguments.runs,
            jobs: arguments.jobs,
            transports: Some(&weir_forces_lab::ForCes),
            progress: true,
            keep: arguments.out.clone(),
            interrupt: weir_experiment::interrupt_flag().map_err(failure)?,
            ..RunOptions::default()
        },
        quick: arguments.quick,
        load: true,
        graph: arguments.graph.clone(),
        overrides: Vec::new(),
    };
    if let Some(folder) = &arguments.out {
        check_writable(folder)?;
    }
    let reproduction = reproduce::run(&recipes, &options).map_err(failure)?;
    if let Some(folder) = &arguments.out {
        let files = reproduce::write(&reproduction, folder).map_err(failure)?;
        written(&files, folder)?;
    }
    if arguments.json {
        print_json(&reproduction)?
    } else {
        print(&reproduce::text(&reproduction))?
    }
    let mistakes = reproduction.mistakes();
    let mistakes: Vec<String> = mistakes
        .map(|(id, what)| format!("{id} ({what})"))
        .collect();
    let named = |verdicts| -> Vec<&str> {
        let claims = reproduction.with(verdicts);
        claims.map(|claim| claim.id).collect()
    };
    let undecided = named(&[Verdict::Undecided]);
    if !undecided.is_empty() {
        note(&format!("undecided: {}", undecided.join(", ")));
    }
    let bad = named(&[Verdict::Partly, Verdict::Fails]);
    let mut why = Vec::new();
    if !mistakes.is_empty() {
        why.push(format!("faulty checks: {}", mistakes.join(", ")));
    }
    if !bad.is_empty() {
        why.push(format!("these claims do not hold: {}", bad.join(", ")));
    }
    if why.is_empty() {
        Ok(())
    } else {
        Err(Failure::Run(why.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn the_frozen_list_is_covered() {
        // The list is not in the repository. If it exists next to the repository, none of its claims may be missing.
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../shared/reference/claims.md"
        );
        let Ok(list) = fs::read_to_string(path) else {
            eprintln!("skipped: there is no {path}");
            return;
        };
        weir_experiment::extend(weir_fpf_lab::FPF);
        let papers = reproduce::papers();
        let results = papers.iter().flat_map(|paper| &paper.results);
        let claims = results.flat_map(|result| &result.claims);
        let ours: BTreeSet<_> = claims.map(|claim| claim.id.as_str()).collect();
        let mut seen = 0;
        for line in list.lines().filter(|line| line.starts_with("| ")) {
            let id = line.split('|').nth(1).unwrap_or_default().trim();
            if papers
                .iter()
                .any(|paper| id.starts_with(&format!("{}/", paper.name)))
            {
                assert!(ours.contains(id), "{id} is not decided");
                seen += 1;
            }
        }
        assert!(seen > 40, "only {seen} claims found in {path}");
    }
}

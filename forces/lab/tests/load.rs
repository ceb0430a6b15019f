//! Load tests: real processes on the loopback interface. The executable is also the `weir` of its tests.

#![allow(clippy::unwrap_used)] // as in every test

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use libtest_mimic::{Arguments, Failed, Trial};
use weir_base::Span;
use weir_experiment::load::{Form, Load, Measures};
use weir_experiment::transports::Transports;
use weir_forces_lab::ForCes;

/// The role of this executable besides the tests.
#[derive(Debug, Parser)]
struct Role {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(subcommand)]
    Traffic(Traffic),
}

#[derive(Debug, Subcommand)]
enum Traffic {
    #[command(subcommand)]
    Load(weir_forces_lab::Command),
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("traffic") {
        let Command::Traffic(Traffic::Load(side)) = Role::parse().command;
        weir_forces_lab::run(&side).unwrap();
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1); // concurrent measurements would disturb each other on two cores
    let trials = vec![
        Trial::test("a_load_test_counts_what_an_overloaded_ce_loses", load),
        Trial::test("associations_hold_under_a_flood", flood),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

type Test = Result<(), Failed>;

/// Returns an error with the observed values unless `ok`.
fn ensure(ok: bool, seen: impl std::fmt::Debug) -> Test {
    if ok {
        Ok(())
    } else {
        Err(format!("{seen:?}").into())
    }
}

/// Runs a load test, and returns the metrics of its points.
fn loaded(load: &Load) -> Result<Vec<BTreeMap<String, f64>>, Failed> {
    let mut tests = ForCes.load_tests(std::env::current_exe()?, Arc::default());
    let points = load.points();
    let metrics = points.iter().map(|point| tests.measure(point));
    Ok(metrics.collect::<Result<_, _>>()?)
}

fn load() -> Test {
    let points = loaded(&Load {
        name: "test/load",
        measures: Measures::Loss,
        forms: &[Form::Process, Form::OneThread, Form::TwoThreads],
        fes: &[2],
        bytes: &[256],
        per_s: &[100.0, 1000.0],
        unit: false,
        work: Span::from_millis(2),
        duration: Span::from_secs(1),
        runs: 1,
    })?;
    for (n, m) in points.iter().enumerate() {
        // 200 events a second are 0.4 s of work; 2000 are 4 s, of which a process for each FE can do 2 s.
        let is_overloaded = n % 2 == 1;
        ensure(
            (m["offered_per_s"] - if is_overloaded { 2000.0 } else { 200.0 }).abs() < 1.0,
            m,
        )?;
        ensure((m["loss_ratio"] > 0.0) == is_overloaded, (n, m))?;
        // The work of each event is charged, whether its answer came in time or not.
        ensure(m["busy_us_per_event"] >= 2000.0, (n, m))?;
        let delivered = m["offered_per_s"] * (1.0 - m["loss_ratio"]);
        ensure((delivered - m["delivered_per_s"]).abs() < 1e-6, (n, m))?;
    }
    ensure(points[3]["loss_ratio"] > 0.4, &points[3])
}

fn flood() -> Test {
    let points = loaded(&Load {
        name: "test/flood",
        measures: Measures::Flood,
        forms: &[Form::OneThread],
        fes: &[5],
        bytes: &[1000],
        per_s: &[6250.0],
        unit: false,
        work: Span::ZERO,
        duration: Span::from_secs(2),
        runs: 1,
    })?;
    let m = &points[0];
    ensure(m["associations"] == 5.0 && m["associations_lost"] == 0.0, m)?;
    ensure(m["heartbeats"] >= 5.0 && m["heartbeats_lost"] == 0.0, m)?;
    ensure(m["control_delivered_ratio"] == 1.0, m)?;
    ensure((0.1..0.9).contains(&m["redirect_delivered_ratio"]), m)
}

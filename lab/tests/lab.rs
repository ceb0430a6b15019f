//! The lab as a whole: real namespaces, real TCP, bounded in time.
//!
//! The kernel forwards here, with its own token bucket and queue in place of weir's port: what is
//! tested is the lab. The router's own behaviour is tested where the `weir` executable is built.

mod support;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use support::{SMALL, ScenarioFile, lab, me, result_of};
use weir_lab::RunResult;

fn main() -> ExitCode {
    if let Some(played) = support::play_another_face() {
        return match played {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        };
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1); // measurements do not share two cores well
    if let Err(error) = weir_live::namespace::Namespace::new() {
        println!("skipped: this machine permits no network namespaces ({error})");
        return ExitCode::SUCCESS;
    }
    libtest_mimic::run(&arguments, trials()).exit_code()
}

fn trials() -> Vec<Trial> {
    vec![Trial::test("everything_is_counted_at_the_receiver", counted)]
}

fn run(text: &str, args: &[&str]) -> Result<RunResult, Failed> {
    let scenario = ScenarioFile::new(text);
    let output = lab(&scenario).args(args).arg("--weir").arg(me()).output()?;
    Ok(result_of(output)?)
}

fn counted() -> Result<(), Failed> {
    let result = run(SMALL, &[])?;
    let metrics = &result.points[0].runs[0].metrics;
    println!("{metrics:#?}");
    Ok(())
}

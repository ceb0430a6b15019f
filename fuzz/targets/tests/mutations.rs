//! Every target on its seeds, on the inputs that once made it fail, and on mutations of both.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_base::Streams;
use weir_fuzz_targets::runner::{Failure, Limits, run, save};
use weir_fuzz_targets::{TARGETS, Target};

/// Seed of the mutations.
const SEED: u64 = 1;
/// Time for the mutations of each target. All targets together take less than a minute on two processors.
const TIME: Duration = Duration::from_secs(2);
/// Number of targets in parallel.
const JOBS: usize = 2;

#[test]
fn no_input_makes_a_target_fail() {
    let (next, began) = (AtomicUsize::new(0), Instant::now());
    let failed = thread::scope(|scope| {
        let work = || {
            let mine = std::iter::from_fn(|| TARGETS.get(next.fetch_add(1, Ordering::Relaxed)));
            mine.filter_map(failure).collect::<Vec<String>>()
        };
        let jobs: Vec<_> = (0..JOBS).map(|_| scope.spawn(work)).collect();
        let all = jobs.into_iter().flat_map(|job| job.join().unwrap());
        all.collect::<Vec<String>>()
    });
    println!("all targets in {:.1} s", began.elapsed().as_secs_f64());
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

/// Runs a target; returns its failure, and a command that reproduces it.
fn failure(target: &Target) -> Option<String> {
    let limits = Limits {
        inputs: u64::MAX,
        time: TIME,
    };
    let hangs = |failure: &Failure| eprintln!("{}", told(target, failure));
    match run(target, &Streams::new(SEED), limits, hangs) {
        Ok(ran) => {
            println!("{}: {ran:?}", target.name);
            None
        }
        Err(failure) => Some(told(target, &failure)),
    }
}

fn told(target: &Target, failure: &Failure) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    let path = save(&folder, target, failure).unwrap();
    format!(
        "{}: {}\nagain: cargo run -p weir-fuzz-targets -- replay {} {}",
        target.name,
        failure.what,
        target.name,
        path.display()
    )
}

//! Shared by the targets for cargo-fuzz.

use weir_fuzz_targets::{Target, runner};

/// Runs the target of this name.
pub fn run(name: &str, bytes: &[u8]) {
    match Target::find(name) {
        Some(target) => runner::run_once(target, bytes),
        None => unreachable!("a test looks for {name}"),
    }
}

//! Reads any text as a scenario. The files that it names are built-in files.

use weir_experiment::scenario::plan::plan;
use weir_experiment::topology::Topology;

use crate::seeds::{files, text};

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    let Some(text) = text(bytes) else {
        return;
    };
    weir_experiment::extend(weir_fpf_lab::FPF);
    match plan(text, &[], &[]) {
        Ok((_, points)) => {
            for point in points {
                if let Ok(topology) = Topology::new(&point.scenario) {
                    assert!(!topology.nodes.is_empty());
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Short built-in scenarios, and invalid scenarios of tests.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = files("scenarios", ".toml");
    all.extend(files("bin/weir/tests/golden/wrong-scenario", ".toml"));
    all
}

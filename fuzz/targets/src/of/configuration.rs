//! Reads any text as the configuration of a router or of a forwarding element, and any line as `weir set` does.
//!
//! Checks besides "no panic": the position of each fault is in the file, and the text of an accepted plan is read as
//! the same plan.

use weir_config::{ConfigError, Document, Origin};
use weir_lfb::Plan;
use weir_lfb::fe::{self, FePlan};
use weir_model::{Change, Operation};

use crate::seeds::{files, sections, text};

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    let Some(text) = text(bytes) else {
        return;
    };
    operations(text);
    let Ok(document) = Document::parse("file", text).inspect_err(|error| placed(error, text))
    else {
        return;
    };
    let changes = document.changes().iter().cloned();
    let (own, of_router): (Vec<Change>, Vec<Change>) = changes.partition(fe::is_of_fe);
    if !own.is_empty() {
        let faults = FePlan::check(&own).err().unwrap_or_default();
        faults
            .iter()
            .for_each(|fault| placed(&document.locate(fault), text));
    }
    match Plan::check(&of_router) {
        Ok(plan) => {
            let again = Plan::check(&plan.changes());
            assert_eq!(again.map(|again| again.shown()), Ok(plan.shown()));
            assert!(plan.operations_to(&plan).is_empty());
        }
        Err(faults) => {
            assert!(!faults.is_empty());
            faults
                .iter()
                .for_each(|fault| placed(&document.locate(fault), text));
        }
    }
}

/// Each line as an assignment, and as a path to delete, on a router with two ports.
fn operations(text: &str) {
    let base =
        "[port.lan]\ninterface = \"eth0\"\n[port.wan]\ninterface = \"eth1\"\nrate = \"9 Mbit\"\n";
    let Ok(document) = Document::parse("base", base) else {
        unreachable!("it is TOML")
    };
    let Ok(plan) = Plan::check(document.changes()) else {
        unreachable!("it is a configuration")
    };
    let operations = text.lines().take(8).filter_map(|line| {
        let set = weir_config::assignment(line).map(Operation::Set);
        set.or_else(|_| line.parse().map(Operation::Delete)).ok()
    });
    let operations: Vec<Operation> = operations.collect();
    if let Ok(after) = plan.after(&operations) {
        let reached = plan.after(&plan.operations_to(&after));
        assert_eq!(reached.map(|reached| reached.shown()), Ok(after.shown()));
    }
}

/// Checks that the position of an error is in the file.
fn placed(error: &ConfigError, text: &str) {
    if let Origin::At(_, at) = error.origin {
        assert!(at <= text.len());
    }
}

/// Examples, wrong configurations of tests, and lines for `weir set`.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = files("bin/weir/tests/golden", ".toml");
    all.extend(files("docs", ".toml"));
    all.extend(files("packaging", ".toml"));
    all.extend(sections("docs/configuration.md"));
    all.push(
        b"port.wan.rate=\"50 Mbit\"\nport.wan.discipline.kind=fifo\nport.wan.discipline\n".to_vec(),
    );
    all
}

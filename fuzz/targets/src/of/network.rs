//! Reads any text as the file of a network with flexible packet forwarding, finds its paths, and gives each element its
//! configuration.
//!
//! Checks besides "no panic": the sections of each element are a configuration that a router accepts.

use weir_config::Document;
use weir_lfb::Plan;
use weir_network::{NetworkPlan, report, toml};
use weir_paths::Paths;

use crate::seeds::{sections, text};

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    let document = text(bytes).and_then(|text| Document::parse("file", text).ok());
    let Some(document) = document else {
        return;
    };
    let plan = match NetworkPlan::check(document.changes()) {
        Ok(plan) => plan,
        Err(faults) => return assert!(!faults.is_empty()),
    };
    let Ok(mut paths) = Paths::new(plan.topology.clone()) else {
        return;
    };
    let Ok(flows) = plan.flows(&mut paths) else {
        return;
    };
    report(&plan, &paths, &flows);
    for fe in plan.topology.fes() {
        if let Ok(changes) = plan.configuration(&paths, fe, &flows) {
            let read = Document::parse("sections", &toml(&changes));
            let checked = read.map(|read| Plan::check_part(read.changes()));
            assert_eq!(checked, Ok(Ok(())));
        }
    }
}

/// The examples of the documents.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    sections("docs/fpf.md")
}

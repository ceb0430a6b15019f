//! Reads any text as the configuration of a control element.

use weir_ce::configuration::CePlan;
use weir_config::Document;

use crate::seeds::{sections, text};

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    let document = text(bytes).and_then(|text| Document::parse("file", text).ok());
    if let Some(document) = document
        && let Err(faults) = CePlan::check(document.changes())
    {
        assert!(!faults.is_empty());
        for fault in &faults {
            assert!(!document.locate(fault).to_string().is_empty());
        }
    }
}

/// The examples of the documents.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    sections("docs/ce-configuration.md")
}

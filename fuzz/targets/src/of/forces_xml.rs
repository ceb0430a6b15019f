//! Parses any text as a library of classes: no panic, and the work is bounded.

use weir_protocol::schema::Registry;

use crate::seeds::{files, text};

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    if let Some(text) = text(bytes) {
        let _ = Registry::standard().load(text);
    }
}

/// The libraries of the RFCs and of tests.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = files("forces/protocol/src/standard", ".xml");
    all.extend(files("forces/protocol/tests", ".xml"));
    all
}

//! Parses any text as a library of classes: no panic, and the work is bounded.

use weir_forces::schema::Registry;
use weir_forces::xml::Library;

use crate::seeds::{files, text};

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    let Some(text) = text(bytes) else {
        return;
    };
    if let Ok(library) = Library::read(text) {
        let _ = library.check(&[]);
        let _ = Registry::standard().load(text);
    }
}

/// The RFCs' libraries, and those of tests.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = files("control/forces/src/standard", ".xml");
    all.extend(files("control/forces/tests", ".xml"));
    all
}

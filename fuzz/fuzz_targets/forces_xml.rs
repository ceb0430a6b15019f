//! Parses any text as a library of classes: no panic, and the work is bounded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_forces::xml::Library;

fuzz_target!(|text: &str| {
    if let Ok(library) = Library::read(text) {
        let _ = library.check(&[]);
    }
});

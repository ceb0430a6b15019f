//! Takes any bytes as a frame with any work left to hardware; finishes its checksum and cuts it.

#![no_main]

#[path = "../../data/path/tests/superframes/mod.rs"]
mod superframes;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((offload, frame)) = superframes::split(bytes) {
        superframes::check(frame, &offload);
    }
});

//! Takes any bytes as frames of a router whose FPF rules do everything that rules can do. The first byte of the input
//! says how long the frames are.
//!
//! Checks besides "no panic": every packet ends once, and all memory is free in the end.

#![no_main]

#[path = "../../data/path/tests/hostile/router.rs"]
#[allow(dead_code)] // makes frames for the test that shares it
mod router;

use libfuzzer_sys::fuzz_target;
use router::Router;

fuzz_target!(|bytes: &[u8]| {
    let Some((len, bytes)) = bytes.split_first() else {
        return;
    };
    let mut router = Router::new();
    for frame in bytes.chunks(14 + usize::from(*len)) {
        router.carry(frame);
    }
    router.settle();
});

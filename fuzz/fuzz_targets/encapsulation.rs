//! The target `encapsulation` of `weir-fuzz-targets`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| weir_fuzz::run("encapsulation", bytes));

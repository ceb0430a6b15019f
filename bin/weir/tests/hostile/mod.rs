//! `weir router` on a hostile network, compared with the kernel's own forwarding.
//!
//! Each test builds its own hosts (see `weir_benches::testbed`). Where network namespaces are not permitted, it prints
//! that and skips.

mod bench;
mod errors;
mod frames;
mod neighbours;
mod scan;
mod sources;

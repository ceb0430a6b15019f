//! The live habitat: real packets on real interfaces, real clocks.
//!
//! The only crate that may contain unsafe code.
//!
//! - [`capture`]: what passes through ports, as pcapng, while the router runs
//! - [`clock`]: the kernel's monotonic clock as [`weir_base::Instant`], and waiting until one
//! - [`device`]: where frames come from and go to, in bursts
//! - [`file`]: files that people name, read with a bound
//! - [`kernel`]: what the kernel knows (links, addresses, routes, neighbours), and the rule that
//!   keeps transit away from it
//! - [`router`]: the running router: what starts, changes and stops it
//! - [`worker`]: the thread that moves packets between devices through the plane
//! - [`namespace`]: network namespaces for the lab, which vanish with the process that made them
//! - [`signals`]: signals that come while a program starts

pub mod capture;
pub mod clock;
pub mod device;
pub mod file;
pub mod kernel;
pub mod namespace;
pub mod router;
pub mod signals;
pub mod worker;

mod sys;

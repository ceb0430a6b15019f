//! The live habitat: real packets on real interfaces, real clocks.
//!
//! The only crate that may contain unsafe code.
//!
//! - [`capture`]: captures of packets at ports, as pcapng, while the router runs
//! - [`clock`]: the kernel's monotonic clock as [`weir_base::Instant`], and waiting until an instant
//! - [`device`]: devices, which receive and send frames in bursts
//! - [`echo`]: pings to reflectors behind a port that finds its rate
//! - [`file`]: files named by users, read with a size limit
//! - [`hangup`]: the end of whoever reads what a program prints
//! - [`kernel`]: the kernel's tables (links, addresses, routes, neighbours), and the rules that keep transit away from
//!   the kernel
//! - [`router`]: the running router: starting, changing and stopping it
//! - [`worker`]: the thread that moves packets between devices through the plane
//! - [`mutex`]: locks that outlive a panic
//! - [`namespace`]: network namespaces for the lab, which vanish with the process that made them
//! - `ndpi`, with the feature of this name: nDPI's opinion on the protocol of flows
//! - [`observe`]: readers of what a running router drops
//! - [`signals`]: signals that arrive while a program starts

pub mod capture;
pub mod clock;
pub mod device;
pub mod echo;
pub mod file;
pub mod hangup;
pub mod kernel;
pub mod mutex;
pub mod namespace;
#[cfg(feature = "ndpi")]
pub mod ndpi;
pub mod observe;
pub mod router;
pub mod signals;
pub mod thread_times;
pub mod worker;

mod sys;

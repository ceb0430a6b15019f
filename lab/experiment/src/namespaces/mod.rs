//! The lab: network namespaces on this machine, real TCP stacks, real packets.
//!
//! ```text
//!   Topology ─▶ limits (can this be done here?) ─▶ build (namespaces, links, addresses, routes)
//!   Scenario ─▶ tools ─▶ traffic sink|tcp|udp|web, one process each
//!                        router: `weir router` in each router's namespace
//!   lab: start ─▶ watch ─▶ collect ─▶ Reported, measured as everywhere
//! ```
//!
//! - [`limits`]: scenarios that the lab cannot run, and features that it leaves out
//! - [`routes`]: the routes in the kernel's form
//! - [`endpoints`]: the TCP settings of each host's kernel
//! - [`build`]: creates namespaces, links and addresses
//! - [`wire`]: wires with a delay, or with a modem
//! - [`process`]: programs inside namespaces, with time limits
//! - [`router`]: `weir router` in a router's namespace
//! - `controllers`: controllers as threads of the run, `elements`: their routers
//! - `courses`: links whose rate or delay changes during a run
//! - `control_element`: controllers within `weir ce`, over routers that run as `weir fe`
//! - [`layer`]: a network layer besides IP
//! - `arrivals`: datagrams that were lost, and copies
//! - `sampler`: the thread that samples the watched queues
//! - [`soak`]: a router under all kinds of load at the same time, for minutes
//! - [`traffic`]: the tools `weir traffic sink|tcp|udp|web`
//!
//! Nothing outside this folder knows about namespaces.

mod arrivals;
pub mod build;
mod control_element;
mod controllers;
mod courses;
mod elements;
pub mod endpoints;
mod lab;
pub mod layer;
pub mod limits;
pub mod process;
pub mod router;
pub mod routes;
mod sampler;
pub mod soak;
mod tools;
pub mod traffic;
mod window;
pub mod wire;

pub(crate) use lab::check;
pub use lab::run;

//! The lab: network namespaces on this machine, real TCP stacks, real packets.
//!
//! ```text
//!   Topology ─▶ limits (can this be done here?) ─▶ build (namespaces, links, addresses, routes)
//!   Scenario ─▶ tools ─▶ traffic sink|tcp|udp|web, one process each
//!                        router: `weir router` in each router's namespace
//!   lab: start ─▶ watch ─▶ collect ─▶ Reported, measured as everywhere
//! ```
//!
//! - [`limits`]: what the lab cannot do, and what it leaves out
//! - [`routes`]: the routes as the kernel reads them
//! - [`endpoints`]: the TCP settings of each host's kernel
//! - [`build`]: namespaces, links and addresses in being
//! - [`wire`]: wires with a delay
//! - [`process`]: programs inside namespaces, each with an end
//! - [`router`]: `weir router` in a router's namespace
//! - `controllers`: controllers as threads of the run, `elements`: the routers that they ask
//! - `sampler`: the thread that samples the watched queues
//! - [`traffic`]: the tools `weir traffic sink|tcp|udp|web`
//!
//! Nothing outside of this folder knows that there are namespaces.

pub mod build;
mod controllers;
mod elements;
pub mod endpoints;
mod folder;
mod lab;
pub mod limits;
pub mod process;
pub mod router;
pub mod routes;
mod sampler;
mod tools;
pub mod traffic;
mod window;
pub mod wire;

pub(crate) use lab::run;

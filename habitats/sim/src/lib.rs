//! The simulated habitat: the same disciplines and ports in virtual time, between modelled hosts.
//!
//! ```text
//!  Network ──▶ Simulation ── run_until ──▶ meters, watches, fetches
//!              │ endpoints: tcp, udp, web clients      happen at events
//!              │ actors: samplers, controllers
//!              └ fabric: events, wires, routes
//! ```
//!
//! - [`network`]: hosts, routers, links
//! - [`simulation`]: a run: traffic on a network, and the loop of events
//! - [`flow_spec`]: the specification of a flow
//! - [`fabric`]: packets on their way: the order at one instant, ports, losses
//! - [`wire`]: one direction of a link: what sends, and what travels; `frame`: how that stands in memory;
//!   `plain`: a FIFO without events of its own; `route`: what routers do, and the path of each connection
//! - [`event`]: the queue of events
//! - [`endpoint`]: the ends of flows; [`tcp`]: the protocol; [`pace`](weir_base::pace), [`web`]:
//!   applications
//! - [`meter`]: what is counted; [`passage`]: when flows pass a port; [`gauges`]: those of its queue; [`trace`]: what passes a port, as a capture
//! - [`identification`]: how well a discipline identifies hogs
//! - [`actor`]: samplers and controllers, which act at times of their own
//!
//! A run depends on the seed and on nothing else: every user of chance has a stream of its own, and
//! events of one instant happen in the order of their scheduling.

pub mod actor;
pub mod endpoint;
pub mod event;
pub mod fabric;
pub mod flight;
pub mod flow_spec;
mod frame;
pub mod gauges;
pub mod identification;
pub mod meter;
pub mod network;
mod observe;
pub mod passage;
mod plain;
mod route;
pub mod simulation;
pub mod tcp;
pub mod trace;
pub mod web;
pub mod wire;

pub use actor::Actor;
pub use endpoint::EndpointId;
pub use fabric::Fabric;
pub use flow_spec::{FlowSpec, Sender};
pub use meter::Meters;
pub use network::{Network, NodeId, PortId};
pub use simulation::{Measurement, Simulation};
pub use wire::PortView;

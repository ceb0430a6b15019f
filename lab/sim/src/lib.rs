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
//! - [`simulation`]: a run: traffic on a network, and the event loop
//! - [`flow_spec`]: the specification of a flow
//! - [`fabric`]: packets in transit: the order at one instant, ports, losses; a network layer
//!   besides IP
//! - [`wire`]: one direction of a link: its sender and its frames; `frame`: the memory layout of frames; `analytic_fifo`: a
//!   FIFO without events of its own; `route`: the decisions of routers, and the path of each connection
//! - `clients`: web clients, of files and of chunks; `multicast`: datagrams to many hosts; `probe`: reflectors of a
//!   port's probes
//! - [`line`]: a link whose rate and delay change with time, and a modem's buffer in front of it
//! - [`event`]: the queue of events
//! - [`endpoint`]: the ends of flows; [`tcp`]: the protocol; [`pace`](weir_base::pace), [`web`]: applications
//! - [`meter`]: the counts of a run; [`passage`]: the passage of flows at a port; [`gauges`]: the gauges of its queue;
//!   [`trace`]: the packets of a port, as a capture
//! - [`identification`]: quality of a discipline's identification of hogs
//! - [`actor`]: samplers and controllers, which act at times of their own choice
//!
//! A run depends on the seed and nothing else: every component that uses random numbers has its own stream, and events
//! of one instant are handled in the order of their scheduling.
//!
//! # How it runs
//!
//! ```text
//!   endpoints: tcp, udp, web          send            one port each way
//!   (protocol below, application  ----------> fabric: Port -> ring -> Port -> ring -> host
//!    above, nothing else)         <----------         the same Port as live
//!                                   arrive    the port serialises, the link only delays
//! ```
//!
//! A `Simulation` consists of endpoints on a `Fabric`. The fabric owns the time, the events, the packets in transit,
//! the ports and the counters. An endpoint is a protocol (also a pure state machine) with an application above it.
//! Controllers and samplers are *actors*: they read the fabric at times of their own choice.
//!
//! **One order.** All events of an instant are handled before any port makes a step, so arrivals and transmissions have
//! the same order as in a live router that is late and replays a whole batch ([`fabric`]).
//!
//! **Fast where it counts.** Events wait in a wheel of slots, and a slot is sorted only when it is reached ([`event`]).
//! A link keeps its packets in order and schedules only the first. An unwatched FIFO decides about a packet on its
//! arrival and needs no other events; a test compares it with the `Port` that it replaces (`analytic_fifo`). The path of a
//! connection is computed once (`route`). Retransmission timers are moved lazily. In steady state no event allocates
//! memory.
//!
//! **Repeatable.** Every user of randomness has a stream named by its path, events of one instant are handled in the
//! order of their scheduling, and runs share nothing. So the same seed gives the same bits, for any value of `--jobs`.

pub mod actor;
mod analytic_fifo;
mod clients;
pub mod endpoint;
mod error;
pub mod event;
pub mod fabric;
pub mod flight;
pub mod flow_spec;
mod frame;
pub mod gauges;
mod id;
pub mod identification;
pub mod line;
pub mod meter;
mod multicast;
pub mod network;
mod observe;
pub mod passage;
mod probe;
mod round_trips;
mod route;
pub mod simulation;
pub mod tcp;
pub mod trace;
pub mod web;
pub mod wire;

pub use actor::Actor;
pub use error::NetworkError;
pub use fabric::{Echo, Fabric, ProberId, layer};
pub use flow_spec::{FlowSpec, Sender, client_stream, flow_stream};
pub use id::{EndpointId, NodeId, PortId};
pub use line::LineSpec;
pub use meter::Meters;
pub use network::Network;
pub use simulation::{Measurement, Simulation};
pub use wire::PortView;

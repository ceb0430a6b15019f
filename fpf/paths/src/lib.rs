//! Path selection for flexible packet forwarding (FPF): the controller, as a state machine without I/O.
//!
//! ```text
//!   topology ──▶ ┌────────────────────────────────────────────────────┐
//!   link or  ──▶ │ trees inside ──▶ rules of each FE                  │ ──▶ Change::Rule          at any FE
//!   FE fails,    │ LIDs ──────┐                                       │
//!   recovers     │ paths ─────┴──▶ vectors ──▶ encapsulation rules    │ ──▶ Change::Encapsulate   at edge FEs
//!   request  ──▶ └────────────────────────────────────────────────────┘
//! ```
//!
//! Source: Beben et al., "A Scalable and Flexible Packet Forwarding Method for Future Internet Networks", sections III
//! and VI. The paper leaves the choice of paths open ("establishment and selection of end-to-end routing paths are not
//! within the scope"); this crate defines it:
//!
//! - `topology`: domains, FEs, links
//! - `lids`: equation (1), and the meaning of each identifier
//! - `inside`: the trees inside a domain
//! - `search`: the k cheapest paths (Yen); `disjoint`: disjoint paths (Suurballe)
//! - `named`: paths that an operator names
//! - `route`: the conversion of exits to a vector; `tree`: the vectors of a multicast tree
//! - `rules`: the rows of each FE's table
//! - `request`: flows of applications; `choice`: the paths of each flow;
//!   `flows`: the answers to requests; `reservations`: the rates that requests have reserved
//!
//! **Order.** Build a [`Topology`], pass it to [`Paths::new`], and install [`Paths::rules`] of every FE. From then on
//! each call that changes the state returns [`Change`]s, which the caller must apply in order: new rules first, then
//! the vectors that use them, then the removal of unused rules.
//!
//! **Failures.** Every request whose path is affected gets another path, chosen as for a new request. If no path
//! exists, the request loses its encapsulation rule (its packets are forwarded by IP), and gets a path at the next
//! event that makes a path possible. All other requests keep their vectors. A path does not move back when the link
//! recovers: [`Paths::reselect`] does that.

mod choice;
mod disjoint;
mod error;
mod inside;
mod lids;
mod request;
mod reservations;
mod route;
mod rules;
mod search;
mod service;
mod topology;

pub use disjoint::Disjoint;
pub use error::PathError;
pub use lids::{Lid, Meaning, lid_bytes};
pub use request::{Carry, Encapsulation, Filter, Prefix, Request, Spread, Step};
pub use route::{Route, Target};
pub use rules::{Input, Rule, Rules};
pub use service::{Change, Paths};
pub use topology::{
    Address, Behaviour, Domain, DomainId, End, Fe, FeId, Link, LinkId, Payload, Topology,
};

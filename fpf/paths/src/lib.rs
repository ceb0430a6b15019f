//! Paths of flexible packet forwarding: the controller's half, as a state machine without I/O.
//!
//! ```text
//!   topology ──▶ ┌────────────────────────────────────────────────────┐
//!   link, FE ──▶ │ trees inside ──▶ rules of each FE                  │ ──▶ Change::Rule          at any FE
//!   fails,       │ LIDs ──────┐                                       │
//!   comes back   │ paths ─────┴──▶ vectors ──▶ encapsulation rules    │ ──▶ Change::Encapsulate   at edge FEs
//!   request  ──▶ └────────────────────────────────────────────────────┘
//! ```
//!
//! Source: Beben et al., "A Scalable and Flexible Packet Forwarding Method for Future Internet Networks", sections III
//! and VI. The paper leaves the choice of paths open ("establishment and selection of end-to-end routing paths are
//! not within the scope"); how it is done here is ours:
//!
//! - `topology`: domains, FEs, links
//! - `lids`: equation (1), and what each identifier names
//! - `inside`: the trees inside a domain
//! - `search`: k cheapest paths (Yen); `disjoint`: disjoint ones (Suurballe)
//! - `named`: paths that an operator names
//! - `route`: from exits to a vector; `tree`: vectors of a multicast tree
//! - `rules`: the rows of each FE's table
//! - `request`: flows of applications; `choice`: the paths that each gets;
//!   `flows`: how it is answered; `books`: the rates that they have reserved
//!
//! **Order.** Build a [`Topology`], hand it to [`Paths::new`], and install [`Paths::rules`] of every FE. From then on each
//! call that changes something returns [`Change`]s, which the caller carries out in their order: new rules first, then
//! the vectors that use them, then rules that nobody uses any more go.
//!
//! **When something fails.** Every request whose path it hits gets another one, chosen as if it were made now; requests
//! for which none exists lose their encapsulation rule (their packets go on by IP), and get a path with the next event
//! that makes one possible. All others keep their vectors. A path does not move back when the link returns:
//! [`Paths::reselect`] does that.

mod books;
mod choice;
mod disjoint;
mod error;
mod inside;
mod lids;
mod request;
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

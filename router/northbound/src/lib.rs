//! HTTP/JSON on a Unix socket, for people and their tools.
//!
//! [`api`] lists every path with its request and answer; the paths of tables come from their classes.
//!
//! A control element has its own service ([`ce`]), which includes the service of each of its FEs.
//!
//! The service answers 503 if the router's forwarding thread does not respond.
//!
//! Routers and control elements have a [`page`] for browsers.
//!
//! The service depends on the model only; an [`Operator`] connects it to the router. All resources are bounded:
//! connections, time, size of a request, changes in one request. Only the owner can access the socket.

pub mod api;
pub mod ce;
pub mod client;
pub mod metrics;
pub mod openapi;
pub mod operator;
pub mod page;
mod places;
mod refusal;
pub mod server;
mod stream;

pub use ce::ControlElement;
pub use operator::{Operator, Peer};
pub use page::{Page, Token};
pub use refusal::Refusal;
pub use server::{Service, answer_stream};
pub use stream::{Live, LiveLine};

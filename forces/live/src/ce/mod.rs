//! A running control element: [`weir_ce::Control`] with links, a clock and a store.
//!
//! - [`driver`]: the task that owns the control element; [`input`]: its inputs
//! - [`store`]: state that survives a restart
//! - `etcd`: state that several control elements share, and which of them leads
//! - [`suites`]: routes of routing suites
//! - [`taps`]: TAP devices for ports for which the control element acts

mod certificates;
mod channels;
mod device;
pub mod driver;
#[cfg(feature = "etcd")]
mod etcd;
mod faults;
mod input;
mod journal;
mod keeper;
#[cfg(not(feature = "etcd"))]
mod no_etcd;
pub mod store;
mod suites;
mod taps;

pub use driver::{Driver, Handle, TABLES};
#[cfg(feature = "etcd")]
pub use etcd::Cluster;
#[cfg(not(feature = "etcd"))]
pub use no_etcd::Cluster;
pub use store::{Store, StoreError};

//! A running control element: [`weir_ce::Control`] with links, a clock and a store.
//!
//! - [`driver`]: the task that owns the control element; [`input`]: its inputs
//! - [`store`]: state that survives a restart
//! - [`suites`]: routes of routing suites
//! - [`taps`]: TAP devices for ports for which the control element acts

mod certificates;
mod channels;
mod device;
pub mod driver;
mod faults;
mod input;
mod journal;
mod keeper;
pub mod store;
mod suites;
mod taps;

pub use driver::{Driver, Handle, TABLES};
pub use store::{Store, StoreError};

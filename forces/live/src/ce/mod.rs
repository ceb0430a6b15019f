//! A running control element: [`weir_ce::Control`] with links, a clock and a store.
//!
//! - [`driver`]: the task that owns the control element
//! - [`store`]: what survives a restart
//! - [`taps`]: TAP devices for ports that the control element acts for

mod certificates;
mod channels;
mod device;
pub mod driver;
mod faults;
mod journal;
mod keeper;
pub mod store;
mod taps;

pub use driver::{Driver, Handle};
pub use store::{Store, StoreError};

//! A running control element: [`weir_ce::Control`] with links, a clock and a store.
//!
//! - [`driver`]: the task that owns the control element
//! - [`store`]: what survives a restart

mod device;
pub mod driver;
pub mod store;

pub use driver::{Driver, Handle};
pub use store::{Store, StoreError};

//! Events: the conditions and filters of each subscription, and the sampling of watched components.

pub mod filter;
pub(crate) mod watch;

pub(crate) use self::watch::Watches;

//! Events: properties of subscriptions, the conditions and filters of each, and the sampling of what is watched.

pub mod filter;
pub(crate) mod property;
pub(crate) mod watch;

pub(crate) use self::watch::Watches;

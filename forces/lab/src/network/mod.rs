//! A network of a CE and three FEs in namespaces, each FE with a router of its own on the CE.
//!
//! - [`topology`]: namespaces, links, addresses; the configurations of CE and FEs
//! - [`adjacency`]: routing daemons, under a flood of exceptions (`weir run network/adjacency`)
//!   - [`suite`]: FRR: its processes, their configurations, their state
//!   - [`flood`]: the packets of the flood, and their sender
//! - [`kills`]: the same, with a CE that dies many times (`weir bench ce-kills`)
//!   - [`keeper`]: keeps the TAPs of the CE
//! - [`full_table`]: a full table of routes (`weir bench full-table`)
//!   - [`fpm`]: the routes, as zebra sends them
//!   - [`installed`]: the routes of an FE's kernel
//! - [`probe`]: packets through the FEs, and how many are lost
//! - [`watch`]: progress, waits, and the end by a signal

pub mod adjacency;
mod flood;
mod fpm;
pub mod full_table;
mod installed;
pub mod keeper;
pub mod kills;
mod probe;
mod suite;
mod topology;
mod watch;

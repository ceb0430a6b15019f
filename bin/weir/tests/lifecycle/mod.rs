//! Start, stop, hang, rename: the fate of packets while a router comes and goes, on real interfaces. Every packet of a
//! numbered stream is counted at its destination.
//!
//! Each test builds its own hosts. Where network namespaces are not permitted, it prints that and skips.

mod handover;
mod hang;
mod interface;
mod many;
mod once;
mod signals;
mod socket;
pub(crate) mod stream;
mod untaken;

use crate::common;

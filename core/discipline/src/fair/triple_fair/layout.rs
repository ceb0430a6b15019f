//! The numbers of the queues: of single flows, of hosts, and the bins.

/// Queues of single flows.
pub(super) const FLOWS: usize = 2048;
/// Queues that each belong to one host, and are shared by its flows without a queue of their own.
pub(super) const SHARED: usize = 512;
/// Queues, by source, for packets that find no other queue.
pub(super) const BINS: usize = 16;
/// The first queue of a host.
pub(super) const FIRST_SHARED: usize = FLOWS;
/// The first bin.
pub(super) const FIRST_BIN: usize = FLOWS + SHARED;
/// All queues.
pub(super) const QUEUES: usize = FLOWS + SHARED + BINS;

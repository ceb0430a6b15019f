//! The counters of a connection.

/// Counters of the sending half of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Segments with data or a FIN, retransmissions included.
    pub segments: u64,
    /// Segments sent again, the SYN included.
    pub retransmitted: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Fast recoveries started.
    pub fast_retransmits: u64,
    /// Reductions of the window because of ECN.
    pub marks: u64,
}

//! The options of a connection.

use weir_base::Span;

/// The loss recovery of a sender, and its window algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Reno's window, recovery by partial acknowledgments (RFC 6582), no SACK.
    NewReno,
    /// Reno's window, recovery by selective acknowledgments (RFC 6675).
    Sack,
    /// CUBIC's window (RFC 9438), recovery by selective acknowledgments.
    Cubic,
}

/// The parameters of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Window algorithm and recovery. SACK is used if both ends support it.
    pub variant: Variant,
    /// Bytes of data in a full-sized segment; the smaller value of the two ends applies.
    pub mss: u32,
    /// The congestion window at the start, in segments (RFC 6928).
    pub initial_window: u32,
    /// Bytes that the receiver can hold. The application reads immediately, so the advertised window always has this
    /// value. It must not be zero: there are no window probes.
    pub receive_window: u32,
    /// Minimum retransmission timeout (RFC 6298, rule 2.4, has one second).
    pub min_rto: Span,
    /// Minimum margin above the smoothed round-trip time: RFC 6298's clock granularity G.
    ///
    /// Virtual time is exact, so on an idle path the variation decays to nothing, and with zero here a delayed
    /// acknowledgment would cause a timeout. Linux adds its `rto_min`.
    pub granularity: Span,
    /// Timeout of the SYN, and of data before the first round trip was measured (RFC 6298, rule 2.1).
    pub initial_rto: Span,
    /// Maximum retransmission timeout (RFC 6298, rule 2.5).
    pub max_rto: Span,
    /// Full-sized segments per acknowledgment: 2 as in RFC 5681, section 4.2; 1 delays none.
    pub ack_every: u32,
    /// Longest time that an acknowledgment waits for another segment.
    pub delayed_ack: Span,
    /// Whether the window grows by the acknowledged bytes (RFC 3465), as in Linux today, or by one segment's worth for
    /// each acknowledgment, regardless of its bytes (RFC 5681, equation 2), as in older stacks, ns-2 and ns-3. With
    /// delayed acknowledgments, the latter is half as fast.
    pub byte_counting: bool,
    /// Whether to offer and accept ECN (RFC 3168).
    pub ecn: bool,
    /// Whether to offer and accept timestamps (RFC 7323): 12 bytes of header, and a sample of the
    /// round-trip time on every acknowledgment of new data.
    pub timestamps: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            variant: Variant::Cubic,
            mss: 1460,
            initial_window: 10,
            receive_window: 4 << 20,
            min_rto: Span::from_millis(200),
            granularity: Span::from_millis(200),
            initial_rto: Span::from_secs(1),
            max_rto: Span::from_secs(60),
            ack_every: 2,
            delayed_ack: Span::from_millis(40),
            byte_counting: true,
            ecn: false,
            timestamps: false,
        }
    }
}

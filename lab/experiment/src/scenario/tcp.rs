//! TCP endpoints of a scenario.

use weir_base::{Bytes, Span};

use super::congestion::Congestion;
use super::parameters::*;
use super::reader::Section;
use weir_config::ConfigError;

/// The endpoints of a flow group's TCP connections.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpOptions {
    /// Congestion control of the side that sends the data.
    pub congestion: Congestion,
    /// Payload of a segment without options, in bytes.
    pub mss: u32,
    /// Initial congestion window, in segments.
    pub initial_window: u32,
    /// Maximum receive window, in bytes.
    pub receive_window: u64,
    /// Minimum retransmission timeout.
    pub min_rto: Span,
    /// The minimum of the term that the timeout adds to the smoothed round-trip time, if the scenario sets it.
    pub granularity: Option<Span>,
    /// Retransmission timeout before the first measurement, and for a SYN.
    pub initial_rto: Span,
    /// Segments per acknowledgement.
    pub ack_every: u32,
    /// Maximum time that an acknowledgement waits for further segments.
    pub delayed_ack: Span,
    /// Whether the window grows by acknowledged bytes; otherwise it grows by acknowledgements.
    pub byte_counting: bool,
    /// Explicit congestion notification.
    pub ecn: bool,
    /// The time stamp option.
    pub timestamps: bool,
}

impl Default for TcpOptions {
    /// The defaults of a scenario.
    fn default() -> Self {
        Self {
            congestion: Congestion::Cubic,
            mss: 1460,
            initial_window: 10,
            receive_window: 4_000_000,
            min_rto: Span::from_millis(200),
            granularity: None,
            initial_rto: Span::from_secs(1),
            ack_every: 2,
            delayed_ack: Span::from_millis(40),
            byte_counting: true,
            ecn: false,
            timestamps: false,
        }
    }
}

impl TcpOptions {
    pub(super) fn check(section: &Section<'_>) -> Result<Self, ConfigError> {
        let word = section.word(&CONGESTION)?;
        let options = Self {
            congestion: word
                .parse()
                .map_err(|e: String| section.error(CONGESTION.name, e))?,
            mss: section.bytes(&MSS)?.0 as u32,
            initial_window: section.count(&INITIAL_WINDOW)? as u32,
            receive_window: section.bytes(&RECEIVE_WINDOW)?.0,
            min_rto: section.span(&MIN_RTO)?,
            granularity: section.optional_span(&GRANULARITY)?,
            initial_rto: section.span(&INITIAL_RTO)?,
            ack_every: section.count(&ACK_EVERY)? as u32,
            delayed_ack: section.span(&DELAYED_ACK)?,
            byte_counting: section.flag(&BYTE_COUNTING)?,
            ecn: section.flag(&ECN)?,
            timestamps: section.flag(&TIMESTAMPS)?,
        };
        if options.receive_window < u64::from(options.mss) {
            let segment = Bytes(options.mss.into());
            let why = format!("must hold at least one segment, {segment}");
            return Err(section.error(RECEIVE_WINDOW.name, why));
        }
        Ok(options)
    }
}

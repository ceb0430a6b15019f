//! Associations between control elements (CEs) and forwarding elements (FEs), as state machines without I/O.
//!
//! ```text
//!                 handle_connected, handle_message, handle_disconnected, handle_timeout
//!   transport  ------------------------------------------------------------------------> +--------+
//!   and clock  <------------------------------------------------------------------------ | Fe, Ce |
//!                 poll_transmit, poll_timeout                                            +--------+
//!                                                                                         ^      |
//!   application   configure, query, transact, respond, redirect --------------------------+      |
//!                 <----------------------------------------------------------- poll_event -------+
//! ```
//!
//! | module | contents | source |
//! |---|---|---|
//! | [`fe`] | the associations of one FE with its CEs | RFC 5810, 4.3, 4.4 and 8; RFC 7121 |
//! | [`ce`] | the associations of one CE with its FEs, requests and transactions | RFC 5810, 4.3 and 4.4 |
//! | [`execute`] | execution of the operations of a Config, and its answer | RFC 5810, 4.3.1 and 7.6.2 |
//! | [`batch`] | many changes in few messages | RFC 5810, 4.3 |
//!
//! The caller reports events by `handle_*`. After each such call and after each command it calls
//! [`poll_transmit`](fe::Fe::poll_transmit) until that returns nothing, then `poll_event` until that returns nothing,
//! then `poll_timeout` for the instant at which to call `handle_timeout`. Time must not run backwards. While a link
//! is open, the transport delivers whole messages in order and without loss; only redirected packets, events and
//! heartbeats may be lost.
//!
//! Every queue is bounded. When a queue is full, new requests are refused with an error, and messages that may be lost
//! are dropped and counted.
//!
//! *Decision*: the loss of a link ends its association. RFC 5810 permits a transport to repair the link first. The
//! transport decides how long it tries; it reports a loss when it has given up.

mod answer;
pub mod batch;
pub mod ce;
pub mod execute;
pub mod fe;
mod outbox;
mod refusal;

use std::fmt;

use weir_base::Span;

use crate::wire::message::association_setup_response::SetupResult;
use crate::wire::message::association_teardown::TeardownReason;

/// Heartbeats: which side sends them, and how often (components 4 to 7 of the FE protocol object).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeats {
    /// Whether the CE sends heartbeats, and the FE checks that it does (CEHBPolicy 0).
    pub ce_sends: bool,
    /// Time without a message from the CE after which an FE gives it up (CEHDI). The CE sends at least three messages
    /// in this time.
    pub ce_dead: Span,
    /// Whether the FE sends heartbeats on its own (FEHBPolicy 1); otherwise the CE requests them.
    pub fe_sends: bool,
    /// Interval of the FE's heartbeats (FEHI).
    pub fe_interval: Span,
}

impl Default for Heartbeats {
    fn default() -> Self {
        Self {
            ce_sends: true,
            ce_dead: Span::from_secs(30),
            fe_sends: false,
            fe_interval: Span::from_millis(500),
        }
    }
}

impl Heartbeats {
    /// The shortest permitted time, because the components count milliseconds.
    const SPAN_MIN: Span = Span::from_millis(1);

    /// Checks the times: a time of zero would cause endless work.
    fn check(&self) -> Result<(), ZeroSpan> {
        check_span(
            "the time after which a silent CE counts as lost (CEHDI)",
            self.ce_dead,
        )?;
        check_span(
            "the interval of an FE's heartbeats (FEHI)",
            self.fe_interval,
        )
    }
}

/// A time is too short for a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {span}, but must be at least {}", Heartbeats::SPAN_MIN)]
pub struct ZeroSpan {
    /// The name of the parameter.
    pub name: &'static str,
    /// Value of the parameter.
    pub span: Span,
}

fn check_span(name: &'static str, span: Span) -> Result<(), ZeroSpan> {
    if span >= Heartbeats::SPAN_MIN {
        Ok(())
    } else {
        Err(ZeroSpan { name, span })
    }
}

/// Correlator of a heartbeat with which an FE requests a heartbeat with the same correlator: "weirlive" in ASCII.
const PROBE: u64 = 0x7765_6972_6c69_7665;

/// Number of missing heartbeats after which an association is given up.
const HEARTBEATS_MISSED_MAX: u64 = 3;

/// Why an association ended, or could not be established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The transport lost the link.
    LinkLost,
    /// The peer was silent for too long.
    Silent,
    /// The peer ended the association.
    TornDown(TeardownReason),
    /// We ended the association.
    Released,
    /// The CE refused the association.
    Refused(SetupResult),
    /// The CE did not answer.
    Unanswered,
    /// The CE sent too many other messages instead of its answer.
    Unexpected,
    /// The same FE has associated again.
    Replaced,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkLost => f.write_str("the link was lost"),
            Self::Silent => f.write_str("the peer was silent for too long"),
            Self::TornDown(reason) => write!(f, "the peer ended the association: {reason}"),
            Self::Released => f.write_str("ended here"),
            Self::Refused(result) => write!(f, "the CE refused the association: {result}"),
            Self::Unanswered => f.write_str("the CE did not answer"),
            Self::Unexpected => {
                f.write_str("the CE sent other messages instead of an answer to the setup")
            }
            Self::Replaced => f.write_str("the FE has associated again"),
        }
    }
}

/// Why a received message, or a message to be sent, was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// The bytes are not a message, or contradict themselves.
    Malformed,
    /// There is no association.
    Unassociated,
    /// The source is not the peer, or the destination is another element.
    WrongId,
    /// A CE that is not the master requested a change, or sent a packet.
    NotMaster,
    /// This peer may not send messages of this type, or no request has this correlator.
    Unexpected,
    /// The queue to the peer, or the queue of its requests, is full.
    Full,
}

/// Numbers of dropped messages, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; 6]);

impl Drops {
    /// Number of messages dropped for this reason.
    pub const fn of(&self, reason: Dropped) -> u64 {
        self.0[reason as usize]
    }

    /// Number of messages dropped for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    const fn count(&mut self, reason: Dropped) {
        self.0[reason as usize] += 1;
    }
}

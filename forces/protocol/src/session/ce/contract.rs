//! Parameters, commands and events of a [`Ce`](super::Ce).

use std::ops::RangeInclusive;

use weir_base::{Instant, Span};

use super::super::{Heartbeats, Loss, ZeroSpan};
use crate::wire::header::{Ack, Execution};
use crate::wire::message::{AssociationSetup, EventNotification, PacketRedirect};
use crate::wire::{Body, Id, IdKind, ResultCode, WireError};

/// The parameters of a CE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// ID of the CE.
    pub id: Id,
    /// The IDs that the CE may assign to FEs that request an ID.
    pub assigns: Option<RangeInclusive<u32>>,
    /// Heartbeats, until [`Ce::set_heartbeats`](super::Ce::set_heartbeats) changes them for an FE.
    pub heartbeats: Heartbeats,
    /// Maximum time that a link may be open without an association.
    pub setup_max: Span,
    /// Maximum number of links.
    pub links_max: usize,
    /// Maximum number of open requests per FE.
    pub window: usize,
    /// Maximum number of requests per FE that wait for a place in the window.
    pub requests_max: usize,
    /// Maximum bytes per FE that wait for the transport; the last message may exceed it.
    pub queue_bytes_max: usize,
}

/// ID of a link, chosen by the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// ID of a request, which is also its correlator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// ID of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub(super) u64);

/// A message for a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The link.
    pub link: LinkId,
    /// Bytes of the message.
    pub message: Vec<u8>,
}

/// How a Config is executed and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// Effect of a failed operation on the others.
    pub execution: Execution,
    /// When the FE answers.
    pub ack: Ack,
    /// The CE ignores responses after this time, unless the FE still sends parts of a long answer.
    pub deadline: Instant,
}

/// Counters of an association (forcesAssociationTable of RFC 5813).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// When the association was established.
    pub since: Instant,
    /// Heartbeats sent.
    pub heartbeats_sent: u64,
    /// Heartbeats received.
    pub heartbeats_received: u64,
    /// Messages sent, except heartbeats, setup responses and teardowns.
    pub operations_sent: u64,
    /// Messages received, except heartbeats, setups and teardowns.
    pub operations_received: u64,
}

/// An event for the application, which may require an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An FE is associated; `setup` describes it.
    Associated {
        /// The FE.
        fe: Id,
        /// The link to it.
        link: LinkId,
        /// The FE's description of itself.
        setup: AssociationSetup,
    },
    /// An association ended.
    Lost(Id, Loss),
    /// Close this link after sending the rest of its queue.
    Close(LinkId),
    /// An answer to a request.
    Response {
        /// The FE that answers.
        fe: Id,
        /// The request that it answers.
        request: RequestId,
        /// A Config Response or a Query Response.
        body: Body,
        /// Whether this is the only or the last part of a response (RFC 7391, 3.3).
        is_last: bool,
    },
    /// No answer will come: the request's deadline has passed, or its FE is lost. Unless the FE is lost, a Config that
    /// requests an answer on success only has failed, and a Config that requests an answer on failure only has
    /// succeeded.
    Unanswered(Id, RequestId),
    /// An FE reports an event.
    Notified(Id, EventNotification),
    /// An FE sends packets.
    Redirected(Id, PacketRedirect),
    /// A transaction has ended.
    Ended(TransactionId, Ended),
}

/// Result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All changes were made.
    Committed,
    /// No change was made, except possibly at the FEs in doubt.
    Aborted {
        /// The failures, in order of occurrence.
        failures: Vec<(Id, Cause)>,
        /// FEs that did not confirm that they have undone their parts.
        in_doubt: Vec<Id>,
    },
}

/// The cause of a failure at an FE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The FE refused a change, with this first specific code, and a sentence if the FE sent one.
    Failed(ResultCode, Option<String>),
    /// The FE did not answer in time.
    Unanswered,
    /// The FE's answer could not be read.
    Malformed,
    /// The FE's association ended.
    Lost,
    /// A message for the FE could not be sent.
    Unsent,
}

/// A fault in the parameters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// The CE's own ID is not an ID of a CE, or an ID that it would assign is not an ID of an FE.
    #[error("{0} is not the ID of {1}")]
    Id(Id, &'static str),
    /// A time is too short.
    #[error(transparent)]
    Zero(#[from] ZeroSpan),
    /// A limit is zero, so the CE could never send a request.
    #[error(
        "a CE needs at least one link, and for each FE at least one open request and one queued request"
    )]
    Nothing,
}

impl Params {
    /// Checks that a CE can work with these parameters.
    pub(super) fn check(&self) -> Result<(), ParamsError> {
        if self.id.kind() != IdKind::Ce {
            return Err(ParamsError::Id(self.id, "a CE"));
        }
        let ends = self
            .assigns
            .iter()
            .flat_map(|ids| [*ids.start(), *ids.end()]);
        let is_fe = |id: &Id| id.kind() == IdKind::Fe && *id != Id::UNASSIGNED;
        if let Some(id) = ends.map(Id).find(|id| !is_fe(id)) {
            return Err(ParamsError::Id(id, "an FE"));
        }
        if self.links_max.min(self.window).min(self.requests_max) == 0 {
            return Err(ParamsError::Nothing);
        }
        Ok(self.heartbeats.check()?)
    }
}

/// The reason why a request is not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The FE is not associated.
    #[error("the FE {0} is not associated")]
    Unassociated(Id),
    /// The queue of requests is full.
    #[error("the queue of requests for the FE {0} is full")]
    Full(Id),
    /// The FE takes part in a transaction.
    #[error("the FE {0} takes part in a transaction, and accepts no other changes until it ends")]
    Busy(Id),
    /// A Config needs an execution mode.
    #[error("a change needs an execution mode: all or none, until failure, or continue on failure")]
    NoExecution,
    /// Only transactions send COMMIT and TRCOMP.
    #[error("COMMIT and TRCOMP are permitted only in transactions: begin one")]
    Commits,
    /// The request does not fit a message.
    #[error(transparent)]
    Wire(#[from] WireError),
}

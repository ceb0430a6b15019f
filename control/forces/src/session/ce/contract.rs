//! What a [`Ce`](super::Ce) is configured with, and what it says.

use std::ops::RangeInclusive;

use weir_base::{Instant, Span};

use super::super::{Heartbeats, Loss, ZeroSpan};
use super::request::RequestId;
use super::transaction::{Ended, TransactionId};
use crate::wire::header::{Ack, Execution};
use crate::wire::message::{AssociationSetup, EventNotification, PacketRedirect};
use crate::wire::{Body, Id, IdKind, WireError};

/// The parameters of a CE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Its ID.
    pub id: Id,
    /// The IDs that it may assign to FEs that ask for one.
    pub assigns: Option<RangeInclusive<u32>>,
    /// Signs of life, until [`Ce::set_heartbeats`](super::Ce::set_heartbeats) says otherwise for an FE.
    pub heartbeats: Heartbeats,
    /// How long a link may be open without an association.
    pub setup_max: Span,
    /// The most links.
    pub links_max: usize,
    /// The most requests that are open at one FE.
    pub window: usize,
    /// The most requests that wait for the window of one FE.
    pub requests_max: usize,
    /// The most bytes that wait for the transport of one FE, but for one message.
    pub queue_bytes_max: usize,
}

/// Names a link to the transport, which chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// A message for a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Which one.
    pub link: LinkId,
    /// Its bytes.
    pub message: Vec<u8>,
}

/// How a Config is executed and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// What a failure does.
    pub execution: Execution,
    /// When it is answered.
    pub ack: Ack,
    /// A response that comes later is ignored.
    pub deadline: Instant,
}

/// What an association has seen (forcesAssociationTable of RFC 5813).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Since when it stands.
    pub since: Instant,
    /// Heartbeats that were sent.
    pub heartbeats_sent: u64,
    /// Heartbeats that came.
    pub heartbeats_received: u64,
    /// Messages that were sent, but for heartbeats, setup responses and teardowns.
    pub operations_sent: u64,
    /// Messages that came, but for heartbeats, setups and teardowns.
    pub operations_received: u64,
}

/// What has happened, and what is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An FE is associated, and says this of itself.
    Associated {
        /// Which one.
        fe: Id,
        /// The link to it.
        link: LinkId,
        /// What it reports.
        setup: AssociationSetup,
    },
    /// An association ended.
    Lost(Id, Loss),
    /// Close this link, after what it still has to send.
    Close(LinkId),
    /// An answer to a request.
    Response {
        /// Of which FE.
        fe: Id,
        /// To which request.
        request: RequestId,
        /// A Config Response or a Query Response.
        body: Body,
        /// Whether it is the last part of a response in parts (RFC 7391, 3.3), or the only one.
        is_last: bool,
    },
    /// A request has no answer: its deadline has passed, or its FE is lost. A Config that is answered on success
    /// only has failed, one that is answered on failure only has succeeded, or its FE is lost.
    Unanswered(Id, RequestId),
    /// An FE reports an event.
    Notified(Id, EventNotification),
    /// An FE hands packets over.
    Redirected(Id, PacketRedirect),
    /// A transaction has ended.
    Ended(TransactionId, Ended),
}

/// Why parameters are wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// Its own ID is none of a CE, or one that it would assign is none of an FE.
    #[error("the ID {0} is not that of {1}")]
    Id(Id, &'static str),
    /// A time is too short.
    #[error(transparent)]
    Zero(#[from] ZeroSpan),
    /// It could never ask for anything.
    #[error(
        "a CE needs at least one link, and for each FE at least one open request and one that waits"
    )]
    Nothing,
}

impl Params {
    /// Passes if a CE can work with them.
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

/// Why a request is not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The FE is not associated.
    #[error("the FE {0} is not associated")]
    Unassociated(Id),
    /// The queue of requests is full.
    #[error("the queue of requests for the FE {0} is full")]
    Full(Id),
    /// The FE takes part in a transaction.
    #[error("the FE {0} takes part in a transaction, and takes no other changes until it ends")]
    Busy(Id),
    /// A Config needs an execution mode.
    #[error("a change needs an execution mode: all or none, until failure, or continue on failure")]
    NoExecution,
    /// COMMIT and TRCOMP are sent by transactions.
    #[error("COMMIT and TRCOMP belong to transactions: begin one")]
    Commits,
    /// It does not fit a message.
    #[error(transparent)]
    Wire(#[from] WireError),
}

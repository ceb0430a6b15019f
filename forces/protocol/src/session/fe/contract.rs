//! Parameters, events and reports of an [`Fe`](super::Fe).

use weir_base::{Instant, Span, Tally};

use super::super::{Heartbeats, Loss, ZeroSpan, check_span};
use super::transaction::Stage;
use crate::wire::header::Flags;
use crate::wire::message::{AssociationSetup, Config, PacketRedirect, Query};
use crate::wire::{Id, IdKind};

/// Maximum number of CEs of an FE.
pub const CES_MAX: usize = 16;

/// Maximum number of messages that a CE may send before the answer to a setup, except redirected packets and
/// heartbeats.
pub const STRAYS_MAX: u32 = 16;

/// Behaviour when the master is lost (components 10, 11 and 14 of the FE protocol object).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// Time for which the FE keeps forwarding without a CE (CEFTI); `None`: it stops at once (CEFailoverPolicy 0).
    pub keeps: Option<Span>,
    /// The role of the other CEs.
    pub standby: Standby,
}

/// The role of the CEs other than the master (HAMode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standby {
    /// The FE associates with the first CE only.
    None,
    /// The FE associates with the next CE when the master is lost.
    Cold,
    /// The FE is associated with all CEs. It keeps forwarding without a master.
    Hot,
}

/// How often an FE tries to associate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Maximum time for the transport to open a link.
    pub open_max: Span,
    /// Maximum time for a CE to answer the first setup; the time doubles with each further setup.
    pub answer_max: Span,
    /// Maximum number of setups before the CE counts as lost.
    pub setups_max: u32,
    /// Pause before the FE retries a CE that failed; it doubles with each further consecutive failure.
    pub pause: Span,
    /// Maximum of `pause`.
    pub pause_max: Span,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            open_max: Span::from_secs(5),
            answer_max: Span::from_secs(1),
            setups_max: 4,
            pause: Span::from_millis(100),
            pause_max: Span::from_secs(10),
        }
    }
}

/// The parameters of an FE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// ID of the FE; with [`Id::UNASSIGNED`] the first CE assigns one.
    pub id: Id,
    /// The FE's description of itself, sent when it requests an association.
    pub setup: AssociationSetup,
    /// Whether results have the extended form, with a cause as text (EResultAdmin 2).
    pub extended_results: bool,
    /// Multicast IDs of the groups that the FE belongs to.
    pub groups: Vec<Id>,
    /// CEs of the FE, the preferred master first.
    pub ces: Vec<Id>,
    /// Heartbeats.
    pub heartbeats: Heartbeats,
    /// Behaviour when the master is lost.
    pub failover: Failover,
    /// How often the FE tries to associate.
    pub retry: Retry,
    /// Maximum number of unanswered requests, for all CEs together.
    pub requests_max: usize,
    /// Maximum bytes in the queue to one CE.
    pub queue_bytes_max: usize,
}

/// A fault in the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// The list of CEs is empty or too long, or contains a CE twice.
    #[error("there are {0} CEs, but there must be from 1 to {CES_MAX}, without duplicates")]
    Ces(usize),
    /// An ID is of the wrong kind.
    #[error("{0} is not the ID of {1}")]
    Id(Id, &'static str),
    /// A time is too short.
    #[error(transparent)]
    Zero(#[from] ZeroSpan),
    /// A limit is zero, so the FE would accept no request or never request an association.
    #[error(
        "an FE must accept at least one request at a time, and send at least one association setup"
    )]
    Nothing,
    /// Hot standby without a time for which the FE keeps forwarding without a master.
    #[error("hot standby needs a time for which the FE keeps forwarding without a CE (CEFTI)")]
    HotNeedsKeeping,
}

/// The state of an FE's associations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No CE; the FE forwards nothing (FEState OperDisable).
    PreAssociation,
    /// A CE is the master.
    Associated,
    /// No CE; until this time (CEFTI) the FE forwards as its last CE configured it.
    NotAssociated(Instant),
}

/// A request of a CE that [`Fe::respond`](super::Fe::respond) or a related function must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// An event for the application, which may require an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Open a link to this CE.
    Connect(Id),
    /// Close the link to this CE after sending the rest of its queue.
    Disconnect(Id),
    /// The CE (first) has accepted the FE under this ID (second).
    Associated(Id, Id),
    /// An association ended or could not be established.
    Lost(Id, Loss),
    /// The CE `to` is the new master; `from` was the previous one.
    Master {
        /// The previous master; `None` the first time.
        from: Option<Id>,
        /// The master.
        to: Id,
    },
    /// The state has changed.
    State(State),
    /// Execute a Config, or prepare it as a part of a transaction; answer it with [`Fe::respond`](super::Fe::respond).
    Config(Ticket, Stage, Flags, Config),
    /// Execute a Query; answer it with [`Fe::respond`](super::Fe::respond).
    Query(Ticket, Query),
    /// Execute all prepared changes; answer with [`Fe::respond_commit`](super::Fe::respond_commit).
    Commit(Ticket),
    /// Undo all changes of the transaction, prepared or committed; if there is a ticket, answer with
    /// [`Fe::respond_commit`](super::Fe::respond_commit).
    Abort(Option<Ticket>),
    /// The transaction is complete: its changes are permanent.
    Complete,
    /// Packets from the master.
    Redirected(PacketRedirect),
}

/// The FE's view of a CE (AllCEType of the FE protocol object).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CeReport {
    /// The ID of the CE.
    pub id: Id,
    /// The progress of the association.
    pub status: CeStatus,
    /// Messages received from the CE.
    pub received: Tally,
    /// Received messages that were dropped.
    pub dropped: Tally,
    /// Messages for the CE that the transport has taken.
    pub sent: Tally,
    /// Messages for the CE that were dropped because its queue was full.
    pub unsent: Tally,
}

/// The progress of an association (CEStatusType of the FE protocol object).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CeStatus {
    /// The FE never tried to associate.
    Disconnected = 0,
    /// There is a link.
    Connected = 1,
    /// There is an association.
    Associated = 2,
    /// The CE is the master.
    IsMaster = 3,
    /// The last association was lost.
    LostConnection = 4,
    /// The last attempt failed.
    Unreachable = 5,
}

/// A message for a CE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The destination.
    pub ce: Id,
    /// Bytes of the message.
    pub message: Vec<u8>,
}

pub(super) fn check_ces(ces: &[Id]) -> Result<(), ParamsError> {
    let unique = ces
        .iter()
        .enumerate()
        .all(|(at, ce)| !ces[..at].contains(ce));
    if ces.is_empty() || ces.len() > CES_MAX || !unique {
        return Err(ParamsError::Ces(ces.len()));
    }
    match ces.iter().find(|ce| ce.kind() != IdKind::Ce) {
        Some(ce) => Err(ParamsError::Id(*ce, "a CE")),
        None => Ok(()),
    }
}

impl Params {
    /// Checks that an FE can work with these parameters.
    pub(super) fn check(&self) -> Result<(), ParamsError> {
        if self.id.kind() != IdKind::Fe {
            return Err(ParamsError::Id(self.id, "an FE"));
        }
        if self.requests_max == 0 || self.retry.setups_max == 0 {
            return Err(ParamsError::Nothing);
        }
        self.heartbeats.check()?;
        check_span("the pause after a failure", self.retry.pause)?;
        check_span("the time for opening a link", self.retry.open_max)?;
        check_span("the time for answering a setup", self.retry.answer_max)?;
        self.failover.check()?;
        check_ces(&self.ces)
    }
}

impl Failover {
    pub(super) fn check(&self) -> Result<(), ParamsError> {
        match (self.standby, self.keeps) {
            (Standby::Hot, None) => Err(ParamsError::HotNeedsKeeping),
            _ => Ok(()),
        }
    }
}

//! What an [`Fe`](super::Fe) is configured with, and what it says.

use weir_base::{Instant, Span, Tally};

use super::super::{Heartbeats, Loss, ZeroSpan, check_span};
use super::transaction::Stage;
use crate::wire::header::Flags;
use crate::wire::message::{AssociationSetup, Config, PacketRedirect, Query};
use crate::wire::{Id, IdKind};

/// The most CEs that an FE has.
pub const CES_MAX: usize = 16;

/// What happens when the master is lost (components 10, 11 and 14 of the FE protocol object).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// How long the FE goes on forwarding without a CE (CEFTI); none at all if it stops at once
    /// (CEFailoverPolicy 0).
    pub keeps: Option<Span>,
    /// Which other CEs it turns to.
    pub standby: Standby,
}

/// How the other CEs stand by (HAMode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standby {
    /// Not at all.
    None,
    /// The FE associates with the next one when the master is lost.
    Cold,
    /// The FE is associated with all of them. It keeps forwarding without a master.
    Hot,
}

/// How often an FE tries to associate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How long a transport may take to open a link.
    pub open_max: Span,
    /// How long a CE may take to answer the first setup; each further one has twice as long.
    pub answer_max: Span,
    /// How often a setup is sent before the CE counts as lost.
    pub setups_max: u32,
    /// How long a CE that failed is left alone; twice as long after each further failure in a row.
    pub pause: Span,
    /// The longest such pause.
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
    /// Its ID; [`Id::UNASSIGNED`] has the first CE assign one.
    pub id: Id,
    /// What it reports of itself when it asks for an association.
    pub setup: AssociationSetup,
    /// Results have the extended form, with a cause in words (EResultAdmin 2).
    pub extended_results: bool,
    /// The groups that it belongs to, by their multicast IDs.
    pub groups: Vec<Id>,
    /// Its CEs, the wanted master first.
    pub ces: Vec<Id>,
    /// Signs of life.
    pub heartbeats: Heartbeats,
    /// What happens when the master is lost.
    pub failover: Failover,
    /// How often it tries to associate.
    pub retry: Retry,
    /// The most requests of all CEs together that are not answered yet.
    pub requests_max: usize,
    /// The most bytes that wait for one CE.
    pub queue_bytes_max: usize,
}

/// Why parameters are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// The list of CEs is empty, too long, or names one twice.
    #[error("there are {0} CEs, but there must be from 1 to {CES_MAX}, each one once")]
    Ces(usize),
    /// An ID is not of the kind that it should be.
    #[error("the ID {0} is not that of {1}")]
    Id(Id, &'static str),
    /// A time is too short.
    #[error(transparent)]
    Zero(#[from] ZeroSpan),
    /// It takes no request, or never asks for its association.
    #[error("an FE takes at least one request at a time, and sends at least one association setup")]
    Nothing,
    /// Hot standby without forwarding in between.
    #[error("hot standby needs a time for which the FE keeps forwarding without a CE (CEFTI)")]
    HotNeedsKeeping,
}

/// How an FE stands to its CEs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No CE, and nothing is forwarded (FEState OperDisable).
    PreAssociation,
    /// A CE is the master.
    Associated,
    /// No CE; until this instant (CEFTI) the FE forwards as the last one configured it.
    NotAssociated(Instant),
}

/// A request of a CE that is to be answered: for [`Fe::respond`](super::Fe::respond) and its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// What has happened, and what is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Open a link to this CE.
    Connect(Id),
    /// Close the link to this CE, after what it still has to send.
    Disconnect(Id),
    /// The CE has accepted the FE, as this ID.
    Associated(Id, Id),
    /// An association ended or did not come about.
    Lost(Id, Loss),
    /// The CE `to` is the master now; `from` was the last one.
    Master {
        /// The previous master; none the first time.
        from: Option<Id>,
        /// The master.
        to: Id,
    },
    /// The state is another one.
    State(State),
    /// Execute a Config, or prepare it as a part of a transaction; answer by [`Fe::respond`](super::Fe::respond).
    Config(Ticket, Stage, Flags, Config),
    /// Execute a Query; answer by [`Fe::respond`](super::Fe::respond).
    Query(Ticket, Query),
    /// Execute all that was prepared; answer by [`Fe::respond_commit`](super::Fe::respond_commit).
    Commit(Ticket),
    /// Undo all that was prepared or committed in the transaction; answer by [`Fe::respond_commit`](super::Fe::respond_commit), if there
    /// is a ticket.
    Abort(Option<Ticket>),
    /// The transaction is complete: what was committed stays.
    Complete,
    /// Packets from the master.
    Redirected(PacketRedirect),
}

/// A CE as its FE knows it (AllCEType of the FE protocol object).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CeReport {
    /// Which one.
    pub id: Id,
    /// How far the association has come.
    pub status: CeStatus,
    /// Messages that came from it.
    pub received: Tally,
    /// Those of them that were dropped.
    pub dropped: Tally,
    /// Messages that the transport has taken for it.
    pub sent: Tally,
}

/// How far an association has come (CEStatusType of the FE protocol object).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CeStatus {
    /// It was never tried.
    Disconnected = 0,
    /// There is a link.
    Connected = 1,
    /// There is an association.
    Associated = 2,
    /// It is the master.
    IsMaster = 3,
    /// The last association was lost.
    LostConnection = 4,
    /// The last attempt failed.
    Unreachable = 5,
}

/// A message for a CE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Which one.
    pub ce: Id,
    /// Its bytes.
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
    /// Passes if an FE can live with them.
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

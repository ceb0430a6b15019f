//! The work that continues with the answers to a job's messages.

use weir_lfb::Plan;
use weir_model::Class;
use weir_protocol::wire::Id;

use super::resolved::Resolved;
use crate::contract::{Records, Refusal, SuiteReport, Ticket, WatchId};
use crate::explain::Evidence;
use crate::leaf::Leaf;
use crate::route::rows::Updates;
use crate::settings::Edit;

/// The action to take with a job's answers. Each variant names the completed work.
#[derive(Debug)]
pub(super) enum Then {
    /// Read the LFBs of an FE.
    Describe(Id),
    /// Read which CE is the master of an FE on standby.
    Master(Id),
    /// Read the configuration of an FE, to restore the desired one.
    Compare(Id),
    /// Restore the desired state.
    Restored(Id, Box<Restoring>),
    /// Restore routes. The number counts the restored components, including those restored before the routes.
    Routed(Id, Box<Updates>, usize),
    /// Send routes of a routing suite.
    Learnt(Id, Box<Updates>),
    /// Read rows of routes after a batch that failed.
    RowsAgain(Id),
    /// Read the value of a component.
    Value(Ticket, Id, Resolved),
    /// Read the rows of a class.
    Rows(Ticket, Id, &'static Class),
    /// Read the tables of an FE that decide about packets to a destination.
    Explain(Ticket, Id, Box<Evidence>),
    /// Read an FE for its row of the table `network`.
    Overview(Ticket, Id, Option<Box<SuiteReport>>),
    /// Read the running configuration.
    Config(Ticket, Id),
    /// Execute a change of operators.
    Changed(Box<Pending>),
    /// Execute a change of a controller.
    Steered(Ticket, Id),
    /// Send sections of the network.
    Given(Box<PendingSections>),
    /// Read a sample for a watch.
    Sample(WatchId),
    /// Subscribe to an event.
    Subscribed(Registration),
    /// Subscribe to the routes missing in an FE's kernel. The number counts the restored components.
    FollowsKernel(Id, usize),
    /// Read the routes missing in an FE's kernel.
    Kernel(Id, Resolved, usize),
}

/// The answers to all messages of a job.
pub(super) type Answers = Result<Vec<Leaf>, Refusal>;

/// A change in progress.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) ticket: Ticket,
    pub(super) parts: Vec<Part>,
    /// If set, the store rolls the change back for this reason.
    pub(super) undone: Option<Refusal>,
}

/// The part of a change that concerns one FE.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) fe: Id,
    pub(super) records: Records,
    pub(super) undo: Records,
    /// The configuration afterwards.
    pub(super) target: Option<Plan>,
    /// Changes of its route rows.
    pub(super) updates: Option<Updates>,
    pub(super) edits: Vec<Edit>,
    /// Whether the change adds or removes LFBs.
    pub(super) renews: bool,
    pub(super) lines: Vec<String>,
}

/// A change of sections in progress.
#[derive(Debug)]
pub(super) struct PendingSections {
    pub(super) ticket: Ticket,
    pub(super) fe: Id,
    /// The configuration afterwards.
    pub(super) target: Plan,
    /// Whether the change adds or removes sections.
    pub(super) renews: bool,
}

/// A restoration in progress.
#[derive(Debug)]
pub(super) struct Restoring {
    /// The configuration of the FE afterwards; `None` if it has no known configuration.
    pub(super) target: Option<Plan>,
    pub(super) count: usize,
    /// Whether the restoration adds or removes LFBs.
    pub(super) renews: bool,
}

/// A subscription that an FE has not confirmed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registration {
    /// The request to answer after the confirmation.
    pub(super) ticket: Option<Ticket>,
    pub(super) watch: WatchId,
}

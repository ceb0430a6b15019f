//! Parameters, effects and notices of an [`Agent`](super::Agent).

use std::collections::BTreeMap;
use std::fmt;

use weir_lfb::Plan;
use weir_model::Operation;
use weir_path::exception::Injection;
use weir_protocol::session::Loss;
use weir_protocol::session::fe::{self, State};
use weir_protocol::wire::Id;

use crate::exception::Refused;
use crate::fib::RouteChange;

/// The parameters of an agent.
#[derive(Clone, Debug)]
pub struct Params {
    /// Its associations. The setup that it describes itself with is made by the agent.
    pub session: fe::Params,
    /// The name that it gives itself (FEName).
    pub name: String,
    /// Its model (FEModel): the program with its version.
    pub model: String,
    /// The configuration in force.
    pub plan: Plan,
}

/// A table that the agent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadTicket(pub(crate) u64);

/// A change, or the check of one, that the agent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeTicket(pub(crate) u64);

/// Changes of routes that the agent may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteTicket(pub(crate) u64);

/// A change of routes that the machine has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteFailure {
    /// Where it is among the changes.
    pub place: usize,
    /// A sentence for the CE.
    pub why: String,
}

/// Work for the habitat.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Open a link to this CE, then call `handle_connected` or `handle_disconnected`.
    Connect(Id),
    /// Close the link to this CE after sending the rest of its queue.
    Disconnect(Id),
    /// Read all rows of the router's class of this name, then call `handle_read`.
    Read(ReadTicket, &'static str),
    /// Check operations without doing them, then call `handle_changed`.
    Check(ChangeTicket, Vec<Operation>),
    /// Carry operations out, all of them or none. Then call `handle_plan` with the configuration in force, and
    /// `handle_changed`.
    Change(ChangeTicket, Vec<Operation>),
    /// Change the routes of the machine, in order, after all earlier changes of routes; a route that is refused does
    /// not keep the others back. Then call `handle_routed`. The machine keeps the routes from then on: it restores those
    /// that it loses. The map has the ports by the numbers that routes have.
    Routes(RouteTicket, Vec<RouteChange>, BTreeMap<u32, String>),
    /// Remove the routes that an earlier process left behind and that no change has named since.
    Sweep,
    /// Forward packets, or stop forwarding them.
    Forward(bool),
    /// Send packets of the master. Those for which there is no room may be dropped.
    Inject(Vec<Injection>),
    /// Let others have their turn, then call `handle_turn`: there is more work than may be done at once.
    Turn,
    /// Log this.
    Notice(Notice),
}

/// Whether the FE forwards, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// It forwards: a CE controls it.
    Controlled,
    /// It forwards as its last CE configured it, for CEFTI.
    Continued,
    /// It forwards as its own configuration says: for CEFTI, or because an operator has said so.
    Alone,
    /// It does not forward: a CE has written AdminDisable to FEState.
    Disabled {
        /// This CE.
        by: Id,
        /// Whether it is the master still.
        is_master: bool,
    },
    /// It does not forward: it has no CE, and CEFTI has passed.
    Expired,
}

impl Forwarding {
    /// Whether the FE forwards.
    pub const fn is_on(self) -> bool {
        matches!(self, Self::Controlled | Self::Continued | Self::Alone)
    }
}

impl fmt::Display for Forwarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNTIL: &str = "until a CE writes OperEnable, or an operator runs `weir enable` here";
        match self {
            Self::Controlled => f.write_str("a CE controls the FE"),
            Self::Continued => f.write_str("as its last CE configured it, for CEFTI"),
            Self::Alone => f.write_str("as its own configuration says"),
            Self::Disabled { by, is_master } => {
                let gone = if *is_master {
                    ""
                } else {
                    ", which is no longer the master,"
                };
                write!(
                    f,
                    "the CE {by}{gone} has disabled the FE (AdminDisable), {UNTIL}"
                )
            }
            Self::Expired => write!(
                f,
                "no CE, and CEFTI has passed; it stays so until a CE associates, or an operator runs `weir enable` here"
            ),
        }
    }
}

/// Something that an operator should know, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The CE (first) has accepted the FE under this ID (second).
    Associated(Id, Id),
    /// An association ended or could not be established.
    Lost(Id, Loss),
    /// The CE `to` is the new master.
    Master {
        /// The previous master.
        from: Option<Id>,
        /// The master.
        to: Id,
    },
    /// The state of the associations has changed.
    State(State),
    /// Packets are forwarded, or are not.
    Forwarding(Forwarding),
    /// A packet of the master is not sent, because what it says beside its bytes is wrong.
    Refused(Refused),
    /// A CE has changed the configuration: the changes, a line each; or the reasons why nothing changed.
    Changed(Result<Vec<String>, Vec<String>>),
}

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
    /// Parameters of the session. The agent replaces the setup that describes the FE.
    pub session: fe::Params,
    /// Name of the FE (FEName).
    pub name: String,
    /// Model of the FE (FEModel): the program with its version.
    pub model: String,
    /// The running configuration.
    pub plan: Plan,
}

/// ID of a table that the agent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadTicket(pub(crate) u64);

/// ID of a change, or of the check of a change, that the agent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChangeTicket(pub(crate) u64);

/// ID of changes of routes that the agent may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteTicket(pub(crate) u64);

/// A change of routes that the machine has refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteFailure {
    /// Index of the change.
    pub place: usize,
    /// The reason, in one sentence, for the CE.
    pub why: String,
}

/// Work for the habitat.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Open a link to this CE, then call `handle_connected` or `handle_disconnected`.
    Connect(Id),
    /// Close the link to this CE after sending the rest of its queue.
    Disconnect(Id),
    /// Read all rows of the router's class with this name, then call `handle_read`.
    Read(ReadTicket, &'static str),
    /// Check operations without executing them, then call `handle_changed`.
    Check(ChangeTicket, Vec<Operation>),
    /// Execute operations, all or none. Then call `handle_plan` with the running configuration, and `handle_changed`.
    Change(ChangeTicket, Vec<Operation>),
    /// Change the routes of the machine, in order, after all earlier changes of routes. A refused route does not
    /// prevent the other changes. Then call `handle_routed`. From then on the machine keeps the routes: it restores
    /// routes that are lost. The map has the ports by the numbers in the routes.
    Routes(RouteTicket, Vec<RouteChange>, BTreeMap<u32, String>),
    /// Remove the routes of an earlier process that no change has named since.
    Sweep,
    /// Forward packets, or stop forwarding them.
    Forward(bool),
    /// Send packets of the master. Packets may be dropped if there is no room for them.
    Inject(Vec<Injection>),
    /// Do other pending work, then call `handle_turn`: the agent has more work than it may do at once.
    Turn,
    /// Log a notice.
    Notice(Notice),
}

/// Whether the FE forwards, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// The FE forwards: a CE controls it.
    Controlled,
    /// The FE forwards as its last CE configured it, for CEFTI.
    Continued,
    /// The FE forwards according to its own configuration, for CEFTI or because an operator has enabled it.
    Alone,
    /// The FE does not forward: a CE has written AdminDisable to FEState.
    Disabled {
        /// The CE that has disabled it.
        by: Id,
        /// Whether this CE is still the master.
        is_master: bool,
    },
    /// The FE does not forward: it has no CE, and CEFTI has passed.
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
            Self::Continued => {
                f.write_str("with the configuration of its last CE, until CEFTI expires")
            }
            Self::Alone => f.write_str("with its own configuration"),
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
                "no CE, and CEFTI has expired; it forwards again when a CE associates, or an operator runs \
                 `weir enable` here"
            ),
        }
    }
}

/// An entry for the log, for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The CE (first) has accepted the FE under this ID (second).
    Associated(Id, Id),
    /// An association ended or could not be established.
    Lost(Id, Loss),
    /// The CE `to` is the new master.
    Master {
        /// The previous master; `None` the first time.
        from: Option<Id>,
        /// The master.
        to: Id,
    },
    /// The state of the associations has changed.
    State(State),
    /// Forwarding was switched on or off.
    Forwarding(Forwarding),
    /// A packet of the master was refused because its metadata is wrong.
    Refused(Refused),
    /// A CE has changed the configuration: the changes, one per line; or the reasons for refusing them.
    Changed(Result<Vec<String>, Vec<String>>),
}

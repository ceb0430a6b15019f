//! Inputs and outputs of a [`Control`](crate::Control), as plain values.

use std::collections::BTreeMap;

use weir_base::Span;
use weir_model::{
    Change, ComponentPath, Fault, NetworkReport, Operation, PathReport, PathRequest, RouteReport,
    Value,
};
use weir_protocol::session::ce::{self, LinkId};
use weir_protocol::wire::Id;
use weir_protocol::wire::message::PacketRedirect;

use crate::desired::{Desired, Record, Wish};
use crate::route::{RouteChange, RouteRecord, Routes};

/// The most requests of operators that are worked on at once.
pub const REQUESTS_MAX: usize = 1024;
/// The most watches at once.
pub const WATCHES_MAX: usize = 8192;
/// Notices that a watch keeps for its reader; the oldest are lost first, and counted.
pub const NOTICES_MAX: usize = 1024;

/// The parameters of a control element.
#[derive(Clone, Debug)]
pub struct Params {
    /// Its associations.
    pub session: ce::Params,
    /// Longest time for an FE to answer one request.
    pub answer_max: Span,
}

/// An FE that may associate.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its ID.
    pub id: Id,
    /// Whether it has a certificate: a peer that has not proved to be it is refused.
    pub is_pinned: bool,
    /// Wishes of the CE's configuration.
    pub desired: Desired,
    /// Wishes of operators before now; they go before those of the configuration.
    pub kept: BTreeMap<ComponentPath, Wish>,
    /// Components of any class that operators have set, with the value as text. The path is class, instance and the
    /// words of a [`Place`].
    pub components: BTreeMap<ComponentPath, String>,
    /// Its routes.
    pub routes: Routes,
}

/// ID of a request, chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// ID of a change of the store, chosen by the CE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTicket(pub u64);

/// ID of a watch, chosen by the CE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub u64);

/// The place of a component, as an operator writes it: names or numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The class.
    pub class: String,
    /// The instance: its number, or the name of a port.
    pub instance: String,
    /// The path within the instance; empty for all of it. At a table: the index of a row, the value of its key, or a
    /// range of indices like `0-99`.
    pub path: Vec<String>,
}

/// A request of an operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Read a component of any class.
    Get {
        /// Name of the FE.
        fe: String,
        /// The component.
        place: Place,
    },
    /// Set components of any class, at one FE or several: all of them or none. Without a value a component is deleted.
    Set(Vec<(String, Place, Option<String>)>),
    /// Read a class as the FE itself shows it.
    Read {
        /// Name of the FE.
        fe: String,
        /// Name of the class.
        class: String,
    },
    /// The configuration that an FE has in force.
    Config(String),
    /// Change the configurations of FEs, all of them or none; each is named once.
    Change(Vec<(String, Vec<Operation>)>),
    /// Change the routes of FEs, all of them or none; each FE is named once.
    Route(Vec<(String, Vec<RouteChange>)>),
    /// The routes that an FE shall have, or all FEs.
    Routes(Option<String>),
    /// Set components of the configuration that an FE has in force, all of them or none, in this order, without
    /// keeping them: for controllers, which repeat what they want.
    Steer(String, Vec<Change>),
    /// Change sections of FPF that the network wants of an FE, each as a whole; none removes one. The answer is that the FE has
    /// them. They are not kept: the network says them again.
    Give(String, Vec<GivenSection>),
    /// Something of the path service.
    Path(PathCommand),
    /// Begin to watch an event or a component.
    Watch(Watch),
    /// The next notices of a watch.
    Fetch(WatchId),
    /// End a watch.
    Unwatch(WatchId),
}

/// A request to the path service.
#[derive(Clone, Debug, PartialEq)]
pub enum PathCommand {
    /// A path for a flow. The answer is that its edge has the encapsulation.
    Request(PathRequest),
    /// End the request of this number.
    Release(u64),
    /// Every flow with a path.
    List,
    /// The network as it is now.
    Network,
}

/// A section of the network at an FE: where it is, and its components.
pub type GivenSection = (ComponentPath, Option<Vec<Change>>);

/// A wish to hear of an event, or of the value of a component at intervals.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    /// Name of the FE.
    pub fe: String,
    /// The event or component.
    pub place: Place,
    /// Filters of an event (RFC 5812, 4.8.5), or the interval of the samples of a component.
    pub filter: Filter,
}

/// Filters of an event. Without any, each occurrence is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The threshold of an event that has one.
    pub threshold: Option<u32>,
    /// How far the value must move before the event is reported again.
    pub hysteresis: Option<u32>,
    /// Report every Nth occurrence.
    pub count: Option<u32>,
    /// Time between reports, or between samples.
    pub interval: Option<Span>,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The value of a component or a class.
    Value(Value),
    /// A configuration: path and value of each component.
    Config(BTreeMap<String, String>),
    /// The changes, a line each.
    Changed(Vec<String>),
    /// Routes.
    Routes(Vec<RouteReport>),
    /// Flows with paths.
    Paths(Vec<PathReport>),
    /// A network.
    Network(NetworkReport),
    /// A watch has begun.
    Watching(WatchId),
    /// Notices of a watch.
    Notices(Notices),
    /// Nothing more to say.
    Done,
}

/// Notices of a watch that were not fetched before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notices {
    /// The notices, the oldest first.
    pub notices: Vec<Value>,
    /// Notices that were lost because nobody fetched them in time.
    pub lost: u64,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The request is wrong: the remedy is in the sentence.
    #[error("{0}")]
    Wrong(String),
    /// There is no such FE, class, instance, row or watch.
    #[error("{0}")]
    NotFound(String),
    /// The FE does not answer, or is not associated.
    #[error("{0}")]
    Silent(String),
    /// Too many requests at once.
    #[error("the CE works on {REQUESTS_MAX} requests already; ask again later")]
    Busy,
    /// Changes are refused, and nothing has changed.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
}

impl Refusal {
    /// The refusal where no network is configured.
    pub(crate) fn no_network() -> Self {
        let why =
            "the control element has no network; name its file as `network` in the configuration";
        Self::NotFound(why.to_owned())
    }

    /// The refusal of a change that breaks rules, for an FE.
    pub(crate) fn of_faults(fe: &str, faults: &[Fault]) -> Self {
        Self::Refused(
            faults
                .iter()
                .map(|fault| format!("{fe}: {fault}"))
                .collect(),
        )
    }
}

/// A change of what the CE keeps for an FE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// Wishes for its configuration.
    pub desired: Vec<Record>,
    /// Components of any class, by address; none removes one.
    pub components: Vec<(ComponentPath, Option<String>)>,
    /// Its routes.
    pub routes: Vec<RouteRecord>,
}

/// A change of the requests for paths that the CE keeps: the number, and the keys; none if it ends.
pub type PathRecord = (u64, Option<BTreeMap<String, String>>);

/// An output for the habitat.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Close this link after sending the rest of its queue.
    Close(LinkId),
    /// The answer to a request.
    Answer(Ticket, Result<Answer, Refusal>),
    /// Write this durably, and report it with [`handle_stored`](crate::Control::handle_stored).
    Store(StoreTicket, Vec<(String, Records)>),
    /// A watch has a notice, for a reader that waits.
    Noticed(WatchId),
    /// Packets of an FE.
    Redirected(Id, PacketRedirect),
    /// Something for the log.
    Journal(Journal),
}

/// Something for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Journal {
    /// An FE is associated.
    Associated(String),
    /// An association ended, with the reason.
    Lost(String, String),
    /// An FE that nobody has configured asked for an association.
    Unknown(Id),
    /// A peer at this address asked for the association of this FE, and has not proved to be it.
    Unproved(String, String),
    /// An FE has the desired configuration; how many components were restored.
    InSync(String, usize),
    /// An FE refused the desired configuration.
    Refused(String, String),
    /// The kernel of an FE lacks routes: the first one, and why.
    Lacks(String, String),
    /// The kernel of an FE has all routes again; how many it has lost since the FE started.
    Regained(String, u64),
}

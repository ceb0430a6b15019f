//! Inputs and outputs of a [`Control`](crate::Control), as plain values.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::Span;
use weir_model::{
    Change, ComponentPath, ElementPath, Fault, NetworkReport, Operation, PathReport, PathRequest,
    RouteExplanation, RouteReport, Value,
};
use weir_protocol::session::ce::{self, LinkId};
use weir_protocol::wire::Id;
use weir_protocol::wire::message::PacketRedirect;

use crate::desired::{Desired, DesiredValue, Record};
use crate::explain::{Destination, SuiteView};
use crate::route::{RouteChange, RouteRecord, Routes};

/// Maximum number of operator requests in progress.
pub const REQUESTS_MAX: usize = 1024;
/// Maximum number of watches.
pub const WATCHES_MAX: usize = 8192;
/// Notices buffered per watch. When full, the CE drops the oldest notice and counts it.
pub const NOTICES_MAX: usize = 1024;

/// The parameters of a control element.
#[derive(Clone, Debug)]
pub struct Params {
    /// Parameters of the associations.
    pub session: ce::Params,
    /// Timeout for an FE to answer one request.
    pub answer_max: Span,
}

/// An FE that may associate.
#[derive(Clone, Debug)]
pub struct FeConfig {
    /// Name of the FE.
    pub name: String,
    /// ForCES ID of the FE.
    pub id: Id,
    /// Whether the FE has a configured certificate: the CE then refuses a peer that has not authenticated as this FE.
    pub is_pinned: bool,
    /// Desired values from the CE's configuration.
    pub desired: Desired,
    /// Desired values that operators set earlier; they override the configuration.
    pub kept: BTreeMap<ComponentPath, DesiredValue>,
    /// Components outside the configuration that operators have set, with the value as text.
    pub components: BTreeMap<ComponentPath, String>,
    /// Routes of the FE.
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

/// A request of an operator.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Read a component of an FE: `port.wan.rate`, as in a configuration, or with class and instance where a
    /// configuration has no such section, as names or numbers: `FEObject.1.FEState`. In a table, a segment is the index
    /// of a row, the value of its key, or a range of indices like `0-99`.
    Get(ElementPath),
    /// Read a class in the form in which the FE itself shows it.
    Read {
        /// Name of the FE.
        fe: String,
        /// Name of the class.
        class: String,
    },
    /// The running configuration of an FE.
    Config(String),
    /// Change components of FEs, all or none.
    Change(Vec<(String, Vec<Operation>)>),
    /// Change the routes of FEs, all or none; the list names each FE once.
    Route(Vec<(String, Vec<RouteChange>)>),
    /// The desired routes of one FE, or of all FEs.
    Routes(Option<String>),
    /// Read an FE for its row of the table `network`. The habitat adds the report of its routing suite.
    Network(String, Option<SuiteReport>),
    /// Explain whether packets to a destination leave an FE. The habitat adds what the routing suite of the FE has.
    Explain(String, Destination, Option<SuiteView>),
    /// Set components of an FE's running configuration, all or none, in this order, without storing them: for
    /// controllers, which repeat their commands.
    Steer(String, Vec<Change>),
    /// Change FPF sections that the network wants at an FE, each as a whole; `None` removes a section. The CE answers
    /// when the FE has them. The CE does not store them, because the network repeats them.
    Give(String, Vec<GivenSection>),
    /// A command for the path service.
    Path(PathCommand),
    /// Start watching an event or a component.
    Watch(CeSubscription),
    /// The next notices of a watch.
    Fetch(WatchId),
    /// End a watch.
    Unwatch(WatchId),
}

/// The report of a routing suite about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuiteReport {
    /// Name of the router.
    pub router: String,
    /// Network namespace of the suite; `None`: that of the CE.
    pub namespace: Option<String>,
    /// Number of routes that the FE gets in a different form or not at all.
    pub differing: u64,
    /// The first of them, with the reason.
    pub first_differing: Option<String>,
    /// Why its routes cannot be read.
    pub trouble: Option<String>,
    /// Neighbours of the suite: port of the FE, address, and whether they answer.
    pub neighbours: Vec<(Arc<str>, IpAddr, bool)>,
}

/// A command for the path service.
#[derive(Clone, Debug, PartialEq)]
pub enum PathCommand {
    /// Set up a path for a flow. The CE answers when the edge of the path has the encapsulation.
    Request(PathRequest),
    /// End the request with this number.
    Release(u64),
    /// List every flow with a path.
    List,
    /// Report the current network.
    Network,
}

/// An FPF section at an FE: its path and its components; `None` removes it.
pub type GivenSection = (ComponentPath, Option<Vec<Change>>);

/// A subscription to an event, or periodic sampling of a component.
#[derive(Clone, Debug, PartialEq)]
pub struct CeSubscription {
    /// The event or component.
    pub path: ElementPath,
    /// Filters of an event (RFC 5812, 4.8.5), or the interval of the samples of a component.
    pub filter: Filter,
}

/// Filters of an event. Without filters, the FE reports each occurrence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Threshold, for an event that has one.
    pub threshold: Option<u32>,
    /// Minimum change of the value before the event is reported again.
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
    /// The changes, one line each.
    Changed(Vec<String>),
    /// Routes.
    Routes(Vec<RouteReport>),
    /// The path of packets to a destination.
    Explained(RouteExplanation),
    /// Flows with paths.
    Paths(Vec<PathReport>),
    /// A network.
    Network(NetworkReport),
    /// The CE has started a watch.
    Watching(WatchId),
    /// Notices of a watch.
    Notices(Notices),
    /// Success without a value.
    Done,
}

/// Notices of a watch since the last fetch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notices {
    /// The notices, oldest first.
    pub notices: Vec<Value>,
    /// Notices dropped because nobody fetched them in time.
    pub lost: u64,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The request is invalid; the text includes the remedy.
    #[error("{0}")]
    Wrong(String),
    /// No such FE, class, instance, row or watch.
    #[error("{0}")]
    NotFound(String),
    /// The FE does not answer, or is not associated.
    #[error("{0}")]
    Silent(String),
    /// Too many requests at once.
    #[error("the CE is busy with {REQUESTS_MAX} requests; retry later")]
    Busy,
    /// The CE or an FE refused changes; nothing has changed.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
}

impl Refusal {
    /// Refuses a request for the network where none is configured.
    pub(crate) fn no_network() -> Self {
        let why = "the control element has no network; set `network` in its configuration to the network file";
        Self::NotFound(why.to_owned())
    }

    /// Refuses a change for an FE because it breaks rules.
    pub(crate) fn of_faults(fe: &str, faults: &[Fault]) -> Self {
        let shown = |fault: &Fault| match fault.path.is_root() || fault.names_place {
            true => format!("{fe}: {fault}"),
            false => format!("{fe}:{fault}"),
        };
        Self::Refused(faults.iter().map(shown).collect())
    }
}

/// A change to the stored state of an FE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    /// Desired values of the configuration.
    pub desired: Vec<Record>,
    /// Components outside the configuration; `None` removes a component.
    pub components: Vec<(ComponentPath, Option<String>)>,
    /// Routes.
    pub routes: Vec<RouteRecord>,
}

/// A change to the stored path requests: number and keys; `None` removes the request.
pub type PathRecord = (u64, Option<BTreeMap<String, String>>);

/// An output for the habitat.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Close this link after sending the rest of its queue.
    Close(LinkId),
    /// The answer to a request.
    Answer(Ticket, Result<Answer, Refusal>),
    /// Write these records durably, then call [`handle_stored`](crate::Control::handle_stored).
    Store(StoreTicket, Vec<(String, Records)>),
    /// A watch has a notice, for a waiting reader.
    Noticed(WatchId),
    /// Packets that an FE redirected.
    Redirected(Id, PacketRedirect),
    /// A log event.
    LogEvent(LogEvent),
}

/// A log event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEvent {
    /// An FE has associated.
    Associated(String),
    /// An association ended, with the reason.
    Lost(String, String),
    /// An unconfigured FE requested an association.
    Unknown(Id),
    /// The peer at this address requested association as this FE without having authenticated as it.
    Unproved(String, String),
    /// An FE has the desired configuration; the number counts the restored components.
    InSync(String, usize),
    /// An FE refused the desired configuration.
    Refused(String, String),
    /// An FE has refused routes of its routing suite: the first one, and why.
    Unroutable(String, String),
    /// The kernel of an FE lacks routes: the first missing route, and why.
    Lacks(String, String),
    /// This CE leads.
    Leads,
    /// This CE does not lead; the name of the leader, if there is one.
    Follows(Option<String>),
    /// The kernel of an FE has all routes again; the number counts the routes that it has lost since the FE started.
    Regained(String, u64),
}

//! The inputs of the task that owns the control element.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::oneshot;
use weir_ce::contract::{Answer, FeConfig, Refusal, Request, StoreTicket};
use weir_ce::controller::{CommandId, Sample};
use weir_model::{Class, Value};
use weir_network::NetworkPlan;
use weir_protocol::session::ce::LinkId;
use weir_protocol::wire::Id;

use crate::tml::{Link, Transport};

#[derive(Debug)]
pub(super) enum Input {
    Request(Request, oneshot::Sender<Result<Answer, Refusal>>),
    Table(&'static Class, oneshot::Sender<Value>),
    Members(Vec<FeConfig>, BTreeSet<Id>, Option<NetworkPlan>),
    /// The FE has to authenticate again.
    Expel(Id),
    Opened(Transport, Link),
    Message(LinkId, Vec<u8>),
    Ended(LinkId),
    Writable(LinkId),
    Stored(StoreTicket, Result<(), String>),
    /// This control element leads until this instant.
    #[cfg(feature = "etcd")]
    Leads(weir_base::Instant),
    /// This control element does not lead; the name of the leader.
    #[cfg(feature = "etcd")]
    Follows(Option<String>),
    /// Changes by the leader of several control elements, or with `is_all` everything that it has kept.
    #[cfg(feature = "etcd")]
    Shared {
        changes: Vec<(String, weir_ce::contract::Records)>,
        revoked: Vec<(crate::tml::identity::Fingerprint, String)>,
        is_all: bool,
    },
    Sampled(CommandId, Samples),
    /// A frame from the kernel at the TAP device of this name.
    Frame(String, Vec<u8>),
    Deaf(String),
}

/// Samples by port, or the reason for their absence.
pub(super) type Samples = Result<Vec<(Arc<str>, Sample)>, String>;

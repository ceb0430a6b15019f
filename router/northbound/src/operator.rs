//! The interface that the service needs of the router.

use std::collections::BTreeMap;

use weir_model::capture::{CaptureRefusal, CaptureReport, CaptureRequest, CaptureTicket};
use weir_model::observe::{ObserveReport, ObserveRequest};
use weir_model::{ApplyReport, ChangeRequest, Class, DeleteRequest, Value};

use crate::refusal::Refusal;
use crate::stream::Live;

/// The process at the other end of the socket, as the kernel reports it (SO_PEERCRED).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// User ID.
    pub uid: u32,
    /// Process ID; `None` if the kernel does not report it.
    pub pid: Option<i32>,
}

/// The router behind the service. Calls may block until the data plane answers, which takes up to one burst.
pub trait Operator: Send + Sync + 'static {
    /// Every readable class; each has the path `/v1/NAME`.
    fn classes(&self) -> Vec<&'static Class>;
    /// Reads a class; the query is the part of the path after `?`.
    fn read(
        &self,
        class: &'static Class,
        query: BTreeMap<String, String>,
    ) -> Result<Value, Refusal>;
    /// The running configuration, with every default written out.
    fn config(&self) -> Result<BTreeMap<String, String>, Refusal>;
    /// Checks a whole configuration and applies it, or changes nothing and returns the reasons.
    fn apply(&self, text: &str, by: Peer) -> ApplyReport;
    /// Changes single components of the running configuration, all of them or none.
    fn change(&self, requests: Vec<ChangeRequest>, by: Peer) -> ApplyReport;
    /// Deletes ports, and resets components of the running configuration to their defaults, all of them or none.
    fn delete(&self, requests: Vec<DeleteRequest>, by: Peer) -> ApplyReport;
    /// Lets a forwarding element forward again that a control element has stopped.
    fn enable(&self, _by: Peer) -> ApplyReport {
        let why = "`enable` works only on the socket of the forwarding element itself; through a control element, set \
                   FEObject.1.FEState";
        ApplyReport {
            applied: false,
            messages: vec![why.to_owned()],
        }
    }
    /// Starts a capture.
    fn capture(&self, request: CaptureRequest) -> Result<CaptureTicket, CaptureRefusal>;
    /// The next part of a capture, as pcapng; `None` if the capture has ended and was fetched completely.
    fn captured(&self, id: u64) -> Result<Option<Vec<u8>>, CaptureRefusal>;
    /// Ends a capture.
    fn end_capture(&self, id: u64) -> Result<CaptureReport, CaptureRefusal>;
    /// Starts to observe dropped packets and backlogged flows, and returns the number of the observer.
    fn observe(&self, _request: ObserveRequest) -> Result<u64, Refusal> {
        let why =
            "events are available only on the socket of the router itself: weir observe --socket";
        Err(Refusal::Impossible(why.to_owned()))
    }
    /// Events for an observer since the last call.
    fn observed(&self, _id: u64) -> Result<ObserveReport, Refusal> {
        Err(Refusal::NotFound("unknown observer".to_owned()))
    }
    /// Ends an observer.
    fn end_observer(&self, _id: u64) {}
    /// The tables of the latest sample as a line of JSON, which changes with each sample; `None` if the router makes no
    /// samples.
    fn live(&self) -> Option<Live> {
        None
    }
}

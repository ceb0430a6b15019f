//! The routers of a run as a controller's elements: requests in, responses out.
//!
//! ```text
//!               ┌─▶ task: one request after the other ──▶ router
//!   requests ───┼─▶ task                              ──▶ router
//!               └─▶ task                              ──▶ router
//!   responses ◀── in any order
//! ```
//!
//! Each router has its own task and connection, so that a router that does not answer does not delay the others. A
//! request whose deadline has passed is dropped without a response: the requester knows the deadline as well.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use weir_base::{Span, Tally};
use weir_controller::Sample;
use weir_controller::runner::{Change, Operation, PolledQueue, Request, RequestId, Response};
use weir_model::{ChangeRequest, ChangeValue, ComponentPath};
use weir_northbound::client::{Client, ClientError, Count, Queue};

use super::window::RunWindow;

/// Maximum number of requests that wait for one router, and of responses that wait to be read.
const WAITING_MAX: usize = 64;

/// Minimum polling period of the queues.
pub(super) const PERIOD_MIN: Span = Span::from_millis(10);

// A runner never puts more into one request than a router's service accepts.
const _: () = assert!(weir_controller::runner::CHANGES_MAX <= weir_model::operation::CHANGES_MAX);

/// The outcome of a request.
pub(super) type Answer = (RequestId, Response);

/// The routers of a controller. It works only as long as the runtime in which it was created.
pub(super) struct Elements {
    requests: HashMap<Arc<str>, mpsc::Sender<Request>>,
    answers: mpsc::Receiver<Answer>,
}

impl Elements {
    /// Routers by name, each with its socket. Must be called within a runtime.
    pub(super) fn new(sockets: BTreeMap<Arc<str>, PathBuf>, window: RunWindow) -> Self {
        let (answer, answers) = mpsc::channel(WAITING_MAX);
        let task = |(name, socket): (Arc<str>, PathBuf)| {
            let (request, requests) = mpsc::channel(WAITING_MAX);
            tokio::spawn(serve(socket, requests, answer.clone(), window));
            (name, request)
        };
        Self {
            requests: sockets.into_iter().map(task).collect(),
            answers,
        }
    }

    /// Sends a request; the error is its response if it cannot be sent.
    pub(super) fn send(&self, request: Request) -> Result<(), Answer> {
        let id = request.id;
        let failed = |why: &str| Err((id, Response::Failed(why.to_owned())));
        let Some(element) = self.requests.get(&request.element) else {
            return failed("unknown router");
        };
        match element.try_send(request) {
            Ok(()) => Ok(()),
            Err(_) => failed("too many pending requests"),
        }
    }

    /// The next response. Waits for it; forever if there was no request.
    pub(super) async fn answer(&mut self) -> Answer {
        match self.answers.recv().await {
            Some(answer) => answer,
            None => std::future::pending().await, // without routers there are no answers
        }
    }

    /// The next response, if it has arrived.
    pub(super) fn try_answer(&mut self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }
}

/// The runtime of the connections of one thread.
pub(super) fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Executes the requests to one router.
async fn serve(
    socket: PathBuf,
    mut requests: mpsc::Receiver<Request>,
    answers: mpsc::Sender<Answer>,
    window: RunWindow,
) {
    let mut client = Client::new(&socket);
    while let Some(request) = requests.recv().await {
        let left = window.until(request.deadline);
        if left.is_zero() {
            continue;
        }
        let response = carry_out(&mut client, &request.operation);
        if let Ok(response) = tokio::time::timeout(left, response).await
            && answers.send((request.id, response)).await.is_err()
        {
            return;
        }
    }
}

async fn carry_out(client: &mut Client, operation: &Operation) -> Response {
    match operation {
        Operation::Poll(polled) => match client.queues().await {
            Ok(queues) => Response::Samples(samples(polled, &queues)),
            Err(error) => Response::Failed(error.to_string()),
        },
        Operation::Change(changes) => {
            let changes: Vec<ChangeRequest> = changes.iter().map(change_request).collect();
            match client.change(&changes).await {
                Ok(()) => Response::Changed,
                Err(error @ ClientError::Refused { .. }) => Response::Refused(error.to_string()),
                Err(error) => Response::Failed(error.to_string()),
            }
        }
    }
}

/// Samples of the polled queues that exist at the router.
fn samples(polled: &[PolledQueue], queues: &[Queue]) -> Vec<(Arc<str>, Sample)> {
    let by_port: HashMap<&str, &Queue> = queues.iter().map(|q| (q.port.as_str(), q)).collect();
    let tally = |Count { packets, bytes }| Tally { packets, bytes };
    let sample = |PolledQueue { port, gauges }: &PolledQueue| {
        let queue = by_port.get(&**port)?;
        let [received, sent, backlog] = [queue.received, queue.sent, queue.backlog].map(tally);
        let sample = Sample::new(received, sent, backlog);
        let values = gauges
            .iter()
            .filter_map(|name| Some((*name, *queue.gauges.get(*name)?)));
        let sample = values.fold(sample, |sample, (name, value)| {
            sample.with_gauge(name, value)
        });
        Some((Arc::clone(port), sample))
    };
    polled.iter().filter_map(sample).collect()
}

fn change_request(change: &Change) -> ChangeRequest {
    let path = ComponentPath::new(["port", &*change.port, "discipline", change.parameter]);
    ChangeRequest {
        path: path.to_string(),
        value: ChangeValue::Text(change.value.to_string()),
    }
}

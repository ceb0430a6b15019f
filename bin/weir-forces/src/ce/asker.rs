//! Requests to the control element, for the northbound service.

use tokio::runtime;
use weir_ce::contract::{self, Answer, PathCommand, Request};
use weir_forces_live::ce::Handle;
use weir_model::{ApplyReport, PathReport, Value};
use weir_northbound::Refusal;

/// Sends requests to the control element from a thread that may block.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) handle: Handle,
    pub(super) runtime: runtime::Handle,
}

impl Asker {
    /// Sends a request, and waits for the answer.
    pub(super) fn ask(&self, request: Request) -> Result<Answer, contract::Refusal> {
        self.runtime.block_on(self.handle.ask(request))
    }

    /// The value that a request reads.
    pub(super) fn value(&self, request: Request) -> Result<Value, Refusal> {
        match self.ask(request).map_err(refusal)? {
            Answer::Value(value) => Ok(value),
            other => Err(unexpected(&other)),
        }
    }

    /// The paths of a path command.
    pub(super) fn paths(&self, command: PathCommand) -> Result<Vec<PathReport>, Refusal> {
        match self.ask(Request::Path(command)) {
            Ok(Answer::Paths(paths)) => Ok(paths),
            Ok(other) => Err(unexpected(&other)),
            Err(why @ contract::Refusal::Refused(_)) => Err(Refusal::Impossible(why.to_string())),
            Err(why) => Err(refusal(why)),
        }
    }

    /// Applies the changes of a request; the error of the request is that it could not be read.
    pub(super) fn change(&self, request: Result<Request, String>) -> ApplyReport {
        let done = match request {
            Ok(request) => self.ask(request),
            Err(why) => Err(contract::Refusal::Wrong(why)),
        };
        match done {
            Ok(Answer::Changed(messages)) => ApplyReport {
                applied: true,
                messages,
            },
            Ok(_) => ApplyReport {
                applied: true,
                messages: Vec::new(),
            },
            Err(refusal) => ApplyReport {
                applied: false,
                messages: match refusal {
                    contract::Refusal::Refused(messages) => messages,
                    other => vec![other.to_string()],
                },
            },
        }
    }
}

/// The refusal of a request as an HTTP refusal.
pub(super) fn refusal(refusal: contract::Refusal) -> Refusal {
    match refusal {
        contract::Refusal::NotFound(why) => Refusal::NotFound(why),
        contract::Refusal::Silent(why) => Refusal::Silent(why),
        busy @ contract::Refusal::Busy => Refusal::Silent(busy.to_string()),
        other => Refusal::Wrong(other.to_string()),
    }
}

/// The refusal for an answer of the wrong kind, which is our own mistake.
pub(super) fn unexpected(answer: &Answer) -> Refusal {
    Refusal::Silent(format!("unexpected answer: {answer:?}"))
}

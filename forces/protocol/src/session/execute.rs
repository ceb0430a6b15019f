//! How the operations of a Config are executed and answered (RFC 5810, 4.3.1 and 7.6).
//!
//! | execution mode | a failure | the rest |
//! |---|---|---|
//! | all or none | undoes the earlier operations | is not tried |
//! | until failure | keeps the earlier operations | is not tried |
//! | continue on failure | keeps the earlier operations | is tried |
//!
//! The response has the shape of the request ([`Answer`]). With `Ack::OnFailure` it has only the failed paths,
//! otherwise all paths.
//!
//! *Decision*: the RFC has no code for a path that was undone or not tried because another path failed. The answer to
//! such a path is `E_UNSPECIFIED_ERROR`, as a failure; the path that failed has its own code.

use crate::wire::header::{Ack, Execution};
use crate::wire::message::{Config, ConfigResponse, Query, QueryResponse, Selects};
use crate::wire::{Content, LfbSelect, OperationKind, ResultCode, WireError};

pub use super::answer::{Answer, Leaf, walk};
use super::answer::{keys_of, respond};

/// The operations that a Config may contain. A Config with any other operation is refused as a whole.
const CHANGES: [OperationKind; 3] = [
    OperationKind::Set,
    OperationKind::SetProperty,
    OperationKind::Delete,
];

/// The state on which operations are executed.
pub trait Target {
    /// Executes one operation. The answer to a SET, SET-PROP or DEL is a result; the answer to a GET or GET-PROP is
    /// data, or a result if it fails.
    fn apply(&mut self, leaf: &Leaf<'_>) -> Answer;

    /// Undoes all operations since the last call of [`Self::keep`].
    fn undo(&mut self);

    /// Makes all operations so far permanent.
    fn keep(&mut self);
}

/// Executes a Config. Returns the response, if the flags request one.
pub fn config(
    config: &Config,
    execution: Execution,
    ack: Ack,
    target: &mut dyn Target,
) -> Result<Option<ConfigResponse>, WireError> {
    let answers = run(config.selects(), execution, target);
    let failed = answers.iter().any(Answer::is_failure);
    match (ack, failed) {
        (Ack::Never, _) | (Ack::OnSuccess, true) | (Ack::OnFailure, false) => return Ok(None),
        _ => {}
    }
    let mut answers = answers.into_iter();
    let selects = respond(config.selects(), &mut |_| {
        let answer = answers.next()?;
        (ack != Ack::OnFailure || answer.is_failure()).then_some(answer)
    })?;
    if selects.is_empty() {
        Ok(None)
    } else {
        Selects::new(selects).map(Some)
    }
}

/// Executes a Query.
pub fn query(query: &Query, target: &mut dyn Target) -> Result<QueryResponse, WireError> {
    answer_query(query, &mut |leaf| {
        let answer = target.apply(leaf);
        let response = leaf.operation.response();
        if response.is_some_and(|kind| kind.permits(&answer.content)) {
            answer
        } else {
            Answer::code(ResultCode::InternalError)
        }
    })
}

/// The response that refuses a whole Config, with the same code for each path.
pub fn refuse(request: &Config, code: ResultCode) -> Result<ConfigResponse, WireError> {
    Selects::new(respond(request.selects(), &mut |_| {
        Some(Answer::code(code))
    })?)
}

/// The response that refuses a whole Config by its first path only, for a Config whose full response would not fit a
/// message.
pub fn refuse_at_first(request: &Config, code: ResultCode) -> Result<ConfigResponse, WireError> {
    let mut first = Some(Answer::code(code));
    Selects::new(respond(request.selects(), &mut |_| first.take())?)
}

/// Whether a path of this Config may take more bytes in the response than in the request. A deletion may, because it
/// has no data for the result to replace. A key takes more bytes than the index that replaces it.
pub fn may_grow(request: &Config) -> bool {
    let result = Answer::code(ResultCode::Unspecified).content.encoded_len();
    let mut grows = false;
    walk(request.selects(), &mut |leaf| {
        let data = leaf
            .trail
            .last()
            .map_or(0, |path| path.content().encoded_len());
        grows |= data < result;
    });
    grows
}

/// The longest possible response to a Config if no result has a cause. An error means that this response does not fit a
/// message.
pub fn longest(request: &Config) -> Result<ConfigResponse, WireError> {
    Selects::new(respond(request.selects(), &mut |leaf| {
        let mut answer = Answer::code(ResultCode::Unspecified);
        answer.indices = vec![0; keys_of(leaf.trail)];
        Some(answer)
    })?)
}

/// The response that refuses a whole Query, with the same code for each path.
pub fn refuse_query(request: &Query, code: ResultCode) -> Result<QueryResponse, WireError> {
    answer_query(request, &mut |_| Answer::code(code))
}

/// Builds the response to a Query; a Query without operations is answered with its empty LFBselects.
fn answer_query(
    request: &Query,
    answers: &mut dyn FnMut(&Leaf<'_>) -> Answer,
) -> Result<QueryResponse, WireError> {
    let mut selects = respond(request.selects(), &mut |leaf| Some(answers(leaf)))?;
    if selects.is_empty() {
        let nothing = |s: &LfbSelect| LfbSelect::new(s.class(), s.instance(), Vec::new());
        selects = request
            .selects()
            .iter()
            .map(nothing)
            .collect::<Result<_, _>>()?;
    }
    Selects::new(selects)
}

/// Executes the operations; returns an answer for each leaf, in order.
fn run(selects: &[LfbSelect], execution: Execution, target: &mut dyn Target) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut failed = false;
    let operations = || selects.iter().flat_map(LfbSelect::operations);
    let known = operations().all(|o| CHANGES.contains(&o.kind()));
    walk(selects, &mut |leaf| {
        let stops = execution != Execution::ContinueOnFailure;
        let answer = match execution {
            Execution::Unset => Answer::code(ResultCode::InvalidFlags),
            _ if !known => Answer::code(ResultCode::InvalidOperation),
            _ if failed && stops => Answer::code(ResultCode::Unspecified),
            _ => apply(leaf, target),
        };
        failed |= answer.is_failure();
        answers.push(answer);
    });
    if failed && execution == Execution::AllOrNone {
        target.undo();
        for answer in answers.iter_mut().filter(|a| !a.is_failure()) {
            answer.content = Answer::code(ResultCode::Unspecified).content;
        }
    } else {
        target.keep();
    }
    answers
}

/// Executes one leaf. An answer that is not a result is a bug of the target.
fn apply(leaf: &Leaf<'_>, target: &mut dyn Target) -> Answer {
    let answer = target.apply(leaf);
    match answer.content {
        Content::Outcome(_) => answer,
        _ => Answer::code(ResultCode::InternalError),
    }
}

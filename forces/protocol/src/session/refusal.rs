//! Answers requests that are not fully readable.
//!
//! RFC 5810 has no error for a whole message: a result can only end a path. *Decision*: the answer to such a request
//! has the path that contains the error, if that path is readable; otherwise the FE drops the request.

use crate::wire::header::View;
use crate::wire::message::Selects;
use crate::wire::tlv::{Tlv, Tlvs};
use crate::wire::{
    Body, Content, LfbSelect, MessageKind, Operation, OperationKind, PathData, ResultCode,
    WireError, path, select,
};

use super::answer::short;

/// A response with the error's code at the path that contains the error.
pub(super) fn refusal(bytes: &[u8], error: &WireError) -> Option<Body> {
    let view = View::new_checked(bytes).ok()?;
    let tlv = within(Tlvs::new("message", view.body(), 24), error.at)?;
    let select = select::View::new_checked(tlv).ok()?;
    let operation = within(select.operations(), error.at)?;
    let kind = OperationKind::from(operation.kind).response()?;
    let inner = Tlvs::new("OPER-TLV", operation.value, operation.value_at());
    let ids = match within(inner, error.at) {
        Some(tlv) => path::View::new_checked(&tlv).ok()?.ids().collect(),
        None => Vec::new(),
    };
    answer(
        view.kind(),
        (select.class(), select.instance()),
        kind,
        ids,
        error.code,
    )
    .ok()
}

/// The TLV that contains a byte; if no TLV does, the first one.
fn within(tlvs: Tlvs<'_>, at: usize) -> Option<Tlv<'_>> {
    let mut readable = tlvs.map_while(Result::ok).peekable();
    let first = readable.peek().copied();
    let around =
        readable.find(|tlv| (tlv.at..tlv.value_at() + tlv.value.len().max(1)).contains(&at));
    around.or(first)
}

fn answer(
    kind: MessageKind,
    (class, instance): (u32, u32),
    operation: OperationKind,
    ids: Vec<u32>,
    code: ResultCode,
) -> Result<Body, WireError> {
    let path = PathData::new(ids, None, Content::Outcome(short(code)))?;
    let operation = match operation {
        OperationKind::CommitResponse => Operation::commit_response(short(code))?,
        kind => Operation::on(kind, vec![path])?,
    };
    let selects = vec![LfbSelect::new(class, instance, vec![operation])?];
    Ok(match kind {
        MessageKind::Query => Body::QueryResponse(Selects::new(selects)?),
        _ => Body::ConfigResponse(Selects::new(selects)?),
    })
}

//! Flattens responses and notifications to lists of paths.

use weir_model::Value;
use weir_protocol::wire::{Content, LfbSelect, OperationKind, Outcome, PathData};

/// One path of a response, with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// Class and instance.
    pub(crate) block: (u32, u32),
    /// The operation.
    pub(crate) operation: OperationKind,
    /// The whole path.
    pub(crate) ids: Vec<u32>,
    /// The data, or the result of the operation.
    pub(crate) content: Content,
}

impl Leaf {
    /// The failure that this path reports.
    pub(crate) fn failure(&self) -> Option<&Outcome> {
        match &self.content {
            Content::Outcome(outcome) if !outcome.is_success() => Some(outcome),
            _ => None,
        }
    }
}

/// A failure of one path as text: its code, and the FE's explanation if it gave one.
pub(crate) fn failure_in_words(outcome: &Outcome) -> String {
    match outcome.cause() {
        Some(cause) if !cause.is_empty() => {
            let cause = cause.replace(char::is_control, " "); // an error text is one line
            format!("{cause} ({})", outcome.code())
        }
        _ => outcome.code().to_string(),
    }
}

/// All leaves of a message, in order.
pub(crate) fn leaves(selects: &[LfbSelect]) -> Vec<Leaf> {
    let mut all = Vec::new();
    for select in selects {
        let block = (select.class(), select.instance());
        for operation in select.operations() {
            let kind = operation.kind();
            for path in operation.paths() {
                collect((block, kind), &mut Vec::new(), path, &mut all);
            }
        }
    }
    all
}

fn collect(
    of: ((u32, u32), OperationKind),
    above: &mut Vec<u32>,
    path: &PathData,
    all: &mut Vec<Leaf>,
) {
    let len = above.len();
    above.extend(path.ids());
    match path.content() {
        Content::Nested(inner) => {
            for path in inner {
                collect(of, above, path, all);
            }
        }
        content => all.push(Leaf {
            block: of.0,
            operation: of.1,
            ids: above.clone(),
            content: content.clone(),
        }),
    }
    above.truncate(len);
}

/// Merges two parts of an answer.
pub(crate) fn joined(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::List(mut rows), Value::List(more)) => {
            rows.extend(more);
            Value::List(rows)
        }
        (Value::Struct(mut rows), Value::Struct(more)) => {
            rows.extend(more);
            Value::Struct(rows)
        }
        (first, _) => first, // two answers to one path are an error of the FE
    }
}

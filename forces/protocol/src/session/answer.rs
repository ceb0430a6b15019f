//! Builds a response in the shape of its request, with a different end of each path.
//!
//! A response does not repeat a selector: the index of the row that a key selected replaces it in the path (RFC 5810,
//! 7.1.9).

use crate::wire::operation::Operands;
use crate::wire::{
    Content, LfbSelect, Operation, OperationKind, Outcome, PathData, ResultCode, Selector,
    WireError,
};

/// The answer to one path of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The end of the path in the response: a result or data.
    pub content: Content,
    /// Indices of the rows that the keys on the path selected, from the outermost key inwards; the list ends before the
    /// first key that selected no row.
    pub indices: Vec<u32>,
}

impl Answer {
    /// An answer to a path without keys.
    pub const fn new(content: Content) -> Self {
        Self {
            content,
            indices: Vec::new(),
        }
    }

    /// An answer that is a result in the short form.
    pub fn code(code: ResultCode) -> Self {
        Self::new(Content::Outcome(short(code)))
    }

    /// Whether the answer reports a failure.
    pub fn is_failure(&self) -> bool {
        matches!(&self.content, Content::Outcome(outcome) if !outcome.is_success())
    }
}

/// A code in the short form; codes above its range become "unspecified".
pub(super) fn short(code: ResultCode) -> Outcome {
    let short = Outcome::plain(code);
    short.unwrap_or_else(|_| match Outcome::plain(ResultCode::Unspecified) {
        Ok(outcome) => outcome,
        Err(_) => unreachable!("its code fits a byte"),
    })
}

/// The end of one path of a request: the LFB, the operation, and the paths from the outermost inwards.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    /// Class ID of the LFB.
    pub class: u32,
    /// Instance ID of the LFB within its class.
    pub instance: u32,
    /// The requested operation.
    pub operation: OperationKind,
    /// Nested PATH-DATA, from the outermost to the innermost, whose content is the data; empty for a COMMIT.
    pub trail: &'a [&'a PathData],
}

/// Returns the answer to each leaf of a request, in order; `None` omits the path from the response.
pub(super) type Answers<'a> = &'a mut dyn FnMut(&Leaf<'_>) -> Option<Answer>;

/// The LFBselects of a response; LFBselects without an answer are omitted.
pub(super) fn respond(
    selects: &[LfbSelect],
    answers: Answers<'_>,
) -> Result<Vec<LfbSelect>, WireError> {
    let mut responses = Vec::new();
    for select in selects {
        let mut operations = Vec::new();
        for operation in select.operations() {
            let Some(kind) = operation.kind().response() else {
                continue;
            };
            let mut shape = Shape {
                leaf: (select.class(), select.instance(), operation.kind()),
                answers,
            };
            if operation.kind() == OperationKind::Commit {
                let answer = shape.leaf(&[]);
                if let Some(Content::Outcome(outcome)) = answer.map(|answer| answer.content) {
                    operations.push(Operation::commit_response(outcome)?);
                }
                continue;
            }
            let paths = shape.paths(operation.paths(), &mut Vec::new(), &mut Vec::new())?;
            if !paths.is_empty() {
                operations.push(Operation::on(kind, paths)?);
            }
        }
        if !operations.is_empty() {
            responses.push(LfbSelect::new(
                select.class(),
                select.instance(),
                operations,
            )?);
        }
    }
    Ok(responses)
}

struct Shape<'s, 'a> {
    leaf: (u32, u32, OperationKind),
    answers: &'s mut (dyn FnMut(&Leaf<'_>) -> Option<Answer> + 'a),
}

impl Shape<'_, '_> {
    /// The answers to `paths`, which are nested in `trail`; `found` collects the rows that keys selected.
    fn paths<'p>(
        &mut self,
        paths: &'p [PathData],
        trail: &mut Vec<&'p PathData>,
        found: &mut Vec<u32>,
    ) -> Result<Vec<PathData>, WireError> {
        let mut responses = Vec::new();
        for path in paths {
            trail.push(path);
            let content = match path.content() {
                Content::Nested(inner) => {
                    let inner = self.paths(inner, trail, found)?;
                    (!inner.is_empty()).then_some(Content::Nested(inner))
                }
                _ => self.leaf(trail).map(|answer| {
                    *found = answer.indices;
                    answer.content
                }),
            };
            let keys = keys_of(trail);
            trail.pop();
            let Some(content) = content else {
                continue;
            };
            let mut ids = path.ids().to_vec();
            if has_key(path) {
                ids.extend(found.get(keys - 1));
            }
            responses.push(PathData::new(ids, None, content)?);
        }
        Ok(responses)
    }

    fn leaf(&mut self, trail: &[&PathData]) -> Option<Answer> {
        (self.answers)(&at(self.leaf, trail))
    }
}

const fn at<'a>(
    (class, instance, operation): (u32, u32, OperationKind),
    trail: &'a [&'a PathData],
) -> Leaf<'a> {
    Leaf {
        class,
        instance,
        operation,
        trail,
    }
}

/// The number of keys on a path; the response names the row of each.
pub(super) fn keys_of(trail: &[&PathData]) -> usize {
    trail.iter().filter(|path| has_key(path)).count()
}

const fn has_key(path: &PathData) -> bool {
    matches!(path.selector(), Some(Selector::Key { .. }))
}

/// Calls `each` with every leaf of a request, in order.
pub fn walk(selects: &[LfbSelect], each: &mut dyn FnMut(&Leaf<'_>)) {
    for select in selects {
        for operation in select.operations() {
            let leaf = (select.class(), select.instance(), operation.kind());
            match operation.kind() {
                OperationKind::Commit => each(&at(leaf, &[])),
                _ => walk_paths(leaf, operation.paths(), &mut Vec::new(), each),
            }
        }
    }
}

fn walk_paths<'p>(
    leaf: (u32, u32, OperationKind),
    paths: &'p [PathData],
    trail: &mut Vec<&'p PathData>,
    each: &mut dyn FnMut(&Leaf<'_>),
) {
    for path in paths {
        trail.push(path);
        match path.content() {
            Content::Nested(inner) => walk_paths(leaf, inner, trail, each),
            _ => each(&at(leaf, trail)),
        }
        trail.pop();
    }
}

/// A response with all results in the extended form, or all in the short form.
pub(super) fn in_form(selects: &[LfbSelect], extended: bool) -> Result<Vec<LfbSelect>, WireError> {
    let operation = |operation: &Operation| match operation.operands() {
        Operands::Paths(paths) => {
            let paths = paths.iter().map(|path| path_in_form(path, extended));
            Operation::on(operation.kind(), paths.collect::<Result<_, _>>()?)
        }
        Operands::Outcome(outcome) if outcome.is_extended() != extended => {
            Operation::commit_response(outcome.in_other_form())
        }
        _ => Ok(operation.clone()),
    };
    let select = |select: &LfbSelect| {
        let operations = select.operations().iter().map(operation);
        let operations = operations.collect::<Result<_, _>>()?;
        LfbSelect::new(select.class(), select.instance(), operations)
    };
    selects.iter().map(select).collect()
}

fn path_in_form(path: &PathData, extended: bool) -> Result<PathData, WireError> {
    let content = match path.content() {
        Content::Outcome(outcome) if outcome.is_extended() != extended => {
            Content::Outcome(outcome.in_other_form())
        }
        Content::Nested(paths) => {
            let paths = paths.iter().map(|path| path_in_form(path, extended));
            Content::Nested(paths.collect::<Result<_, _>>()?)
        }
        _ => return Ok(path.clone()),
    };
    PathData::new(path.ids().to_vec(), path.selector().cloned(), content)
}

/// Whether a response has a result in the wrong form.
pub(super) fn needs_form(selects: &[LfbSelect], extended: bool) -> bool {
    let mut needs = false;
    each_outcome(selects, &mut |outcome| {
        needs |= outcome.is_extended() != extended
    });
    needs
}

/// Whether a response contains a failure.
pub(super) fn has_failure(selects: &[LfbSelect]) -> bool {
    first_failure(selects).is_some()
}

/// The first failure of a response.
pub(super) fn first_failure(selects: &[LfbSelect]) -> Option<Outcome> {
    let mut failure: Option<Outcome> = None;
    each_outcome(selects, &mut |outcome| {
        // E_UNSPECIFIED_ERROR marks a path that was undone because another path failed; prefer the path that failed.
        let is_vague = |outcome: &Outcome| outcome.code() == ResultCode::Unspecified;
        let is_better = failure
            .as_ref()
            .is_none_or(|first| is_vague(first) && !is_vague(outcome));
        if !outcome.is_success() && is_better {
            failure = Some(outcome.clone());
        }
    });
    failure
}

fn each_outcome(selects: &[LfbSelect], each: &mut dyn FnMut(&Outcome)) {
    walk(selects, &mut |leaf| {
        if let Some(Content::Outcome(outcome)) = leaf.trail.last().map(|path| path.content()) {
            each(outcome);
        }
    });
    for operation in selects.iter().flat_map(LfbSelect::operations) {
        if let Operands::Outcome(outcome) = operation.operands() {
            each(outcome);
        }
    }
}

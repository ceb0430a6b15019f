//! A request as a flat list of paths.

use weir_protocol::schema::PathError;
use weir_protocol::session::execute::{Answer, Leaf, Target, walk};
use weir_protocol::value::ValueError;
use weir_protocol::wire::{Content, LfbSelect, OperationKind, Outcome, ResultCode, Selector};

/// Why a path is refused: a code for the CE, and a cause as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: ResultCode,
    pub(crate) cause: String,
}

impl Failure {
    pub(crate) fn new(code: ResultCode, cause: impl Into<String>) -> Self {
        let cause = cause.into();
        Self { code, cause }
    }

    /// The answer with the cause, which the session removes if the CE has not enabled causes.
    pub(crate) fn answer(&self) -> Answer {
        let cause = &self.cause[..self.cause.floor_char_boundary(CAUSE_BYTES_MAX)];
        let outcome = Outcome::extended(self.code, cause);
        match outcome {
            Ok(outcome) => Answer::new(Content::Outcome(outcome)),
            Err(_) => Answer::code(self.code),
        }
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::new(error.code, error.message)
    }
}

impl From<ValueError> for Failure {
    fn from(error: ValueError) -> Self {
        Self::new(error.code, error.to_string())
    }
}

/// Maximum length of a cause in bytes. RFC 7391 recommends 32, which is too short for a component and a remedy.
const CAUSE_BYTES_MAX: usize = 512;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The ID of a component or a member, or the index of a row.
    Id(u32),
    /// The row in which the fields of a key have these values.
    Key { id: u32, values: Vec<u8> },
    /// The rows from the first to the last index, both included.
    Range { first: u32, last: u32 },
}

/// One path of a request, with its operation and its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) class: u32,
    pub(crate) instance: u32,
    pub(crate) operation: OperationKind,
    pub(crate) steps: Vec<Step>,
    /// Number of leading steps that belong to the PATH-DATA around the innermost one. Properties of an event are nested
    /// in the path of the event.
    pub(crate) outer: usize,
    pub(crate) content: Content,
}

impl Item {
    /// The paths of a request, in order.
    pub(crate) fn all(selects: &[LfbSelect]) -> Vec<Self> {
        let mut items = Vec::new();
        walk(selects, &mut |leaf| items.push(leaf.into()));
        items
    }
}

impl From<&Leaf<'_>> for Item {
    fn from(leaf: &Leaf<'_>) -> Self {
        let mut steps = Vec::new();
        let mut outer = 0;
        for path in leaf.trail {
            outer = steps.len();
            steps.extend(path.ids().iter().copied().map(Step::Id));
            steps.extend(path.selector().map(|selector| match selector {
                Selector::Key { id, values } => Step::Key {
                    id: *id,
                    values: values.clone(),
                },
                Selector::Range { first, last } => Step::Range {
                    first: *first,
                    last: *last,
                },
            }));
        }
        let content = leaf.trail.last().map(|path| path.content().clone());
        Self {
            class: leaf.class,
            instance: leaf.instance,
            operation: leaf.operation,
            steps,
            outer,
            content: content.unwrap_or(Content::Empty),
        }
    }
}

/// Answers that were computed before, in the order of the paths.
pub(crate) struct Recorded<'a>(pub(crate) std::slice::Iter<'a, Answer>);

impl Target for Recorded<'_> {
    fn apply(&mut self, _leaf: &Leaf<'_>) -> Answer {
        let answer = self.0.next().cloned();
        answer.unwrap_or_else(|| Answer::code(ResultCode::Unspecified))
    }

    fn undo(&mut self) {}

    fn keep(&mut self) {}
}

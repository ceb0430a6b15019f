//! Paths of IDs, as in messages: their targets and their names.

use std::borrow::Cow;
use std::fmt;

use weir_model::ComponentPath;

use super::{Access, Array, Class, Component, Event, Kind, Size, member};
use crate::wire::ResultCode;

/// A path that does not exist in a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// The result code for the answer.
    pub code: ResultCode,
    /// The error, in one sentence.
    pub message: String,
}

impl PathError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            code: ResultCode::InvalidPath,
            message: message.into(),
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PathError {}

/// The target of a path.
#[derive(Clone, Debug)]
pub struct Target<'c> {
    /// Layout of the value; for an empty path, layout of the whole LFB.
    pub kind: Cow<'c, Kind>,
    /// The permitted access. An LFB or a structure can be written if one of its parts can.
    pub access: Access,
    /// The last component or member on the path; `None` for an empty path.
    pub component: Option<&'c Component>,
    /// The table, if the path ends at one of its rows.
    pub row_of: Option<&'c Array>,
}

/// The schema level that a path has reached.
#[derive(Clone, Copy)]
pub(crate) enum Level<'c> {
    Members(&'c [Component]),
    Rows(&'c Array),
    Single,
}

impl<'c> Level<'c> {
    pub(crate) fn of(kind: &'c Kind) -> Self {
        match kind.resolved() {
            Kind::Struct(members) | Kind::Union(members) => Self::Members(members),
            Kind::Array(array) => Self::Rows(array),
            _ => Self::Single,
        }
    }
}

impl Class {
    /// Finds the target of a path of IDs.
    pub fn component(&self, ids: &[u32]) -> Result<Target<'_>, PathError> {
        let mut target = Target {
            kind: Cow::Owned(Kind::Struct(Vec::new())),
            access: Access::ReadWrite,
            component: None,
            row_of: None,
        };
        let mut level = Level::Members(&self.components);
        for (at, id) in ids.iter().enumerate() {
            let unknown = |what: &str| {
                PathError::new(format!(
                    "there is no {what} {id} in {}",
                    self.path(&ids[..at])
                ))
            };
            let kind = match level {
                Level::Members(members) => {
                    let member = member(members, *id).ok_or_else(|| unknown("component"))?;
                    target.component = Some(member);
                    target.access = member.access;
                    target.row_of = None;
                    &member.kind
                }
                Level::Rows(array) => {
                    if matches!(array.size, Size::Fixed(count) if *id >= count) {
                        return Err(unknown("row"));
                    }
                    target.row_of = Some(array);
                    &array.element
                }
                Level::Single => return Err(unknown("component")),
            };
            target.kind = Cow::Borrowed(kind);
            level = Level::of(kind);
        }
        if ids.is_empty() {
            target.kind = Cow::Owned(Kind::Struct(self.components.clone()));
        }
        Ok(target)
    }

    /// The event at a path of IDs, and the rows that the path selects; `None` if it is not the path of an event.
    pub fn event<'p>(&self, ids: &'p [u32]) -> Option<(&Event, &'p [u32])> {
        let (base, rest) = ids.split_first()?;
        let (id, rows) = rest.split_first()?;
        let event = self.events.iter().find(|event| event.id == *id)?;
        (self.events_base == Some(*base)).then_some((event, rows))
    }

    /// A path of IDs as names. IDs that do not exist in the class stay numbers.
    pub fn names(&self, ids: &[u32]) -> ComponentPath {
        if let Some((event, rows)) = self.event(ids) {
            return ComponentPath::new([&event.name]).below(rows.iter().map(u32::to_string));
        }
        let mut level = Level::Members(&self.components);
        let mut words = Vec::with_capacity(ids.len());
        for id in ids {
            let (word, kind) = match level {
                Level::Members(members) => match member(members, *id) {
                    Some(member) => (member.name.clone(), Some(&member.kind)),
                    None => (id.to_string(), None),
                },
                Level::Rows(array) => (id.to_string(), Some(&array.element)),
                Level::Single => (id.to_string(), None),
            };
            words.push(word);
            level = kind.map_or(Level::Single, Level::of);
        }
        ComponentPath::new(words)
    }

    /// The path with the name of the class first, for errors.
    pub fn path(&self, ids: &[u32]) -> ComponentPath {
        ComponentPath::new([self.short_name()]).below(self.names(ids).segments())
    }
}

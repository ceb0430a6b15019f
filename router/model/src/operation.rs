//! Operations on components: getting a part of an answer, and setting and deleting in the running configuration.
//!
//! A list of operations takes effect whole or not at all (RFC 5810, execute-all-or-none). Getting is not part of such
//! a list: it changes nothing, so it needs no admission.

use weir_base::setting::{did_you_mean, nearest};

use crate::class::Type;
use crate::{Change, Class, Component, ComponentPath, Value};

/// Maximum operations of one request.
pub const CHANGES_MAX: usize = 256;

/// An operation that changes the configuration of a running router.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Set a component.
    Set(Change),
    /// Undo an operator's setting: delete a port, or reset a component or all parameters of a discipline to defaults.
    Delete(ComponentPath),
}

impl Operation {
    /// Path of the component or block.
    pub fn path(&self) -> &ComponentPath {
        match self {
            Self::Set(change) => &change.path,
            Self::Delete(path) => path,
        }
    }
}

impl Class {
    /// The value that an answer has at `path`: the values of the row's key, a component, a member, separated by
    /// slashes, like `wan/received/packets` or, by IDs, `wan/7/1`. A path may end after the key. The error is a
    /// sentence.
    pub fn part<'v>(&self, answer: &'v Value, path: &str) -> Result<&'v Value, String> {
        let (row, rest) = match self.key {
            [] => (answer, path),
            key => row_of(key, answer, path).ok_or_else(|| {
                let (name, key) = (self.name, key.join("/"));
                format!("{name} has no row `{path}`; its key is {key}")
            })?,
        };
        let words: Vec<_> = rest.split('/').filter(|word| !word.is_empty()).collect();
        of_members(&self.all(), row, &words)
    }
}

/// The value at a path that starts with the name or the ID of a component.
fn of_members<'v>(
    all: &[Component],
    value: &'v Value,
    words: &[&str],
) -> Result<&'v Value, String> {
    let Some((word, below)) = words.split_first() else {
        return Ok(value);
    };
    let is_it =
        |component: &&Component| component.name == *word || word.parse() == Ok(component.id);
    let found = all.iter().find(is_it).ok_or_else(|| {
        let near = did_you_mean(nearest(word, all.iter().map(|component| component.name)));
        format!("there is no component `{word}`{near}")
    })?;
    of_type(&found.kind, child(value, found.name)?, below)
}

/// The value at a path in a value of this type.
fn of_type<'v>(kind: &Type, value: &'v Value, words: &[&str]) -> Result<&'v Value, String> {
    let Some((word, below)) = words.split_first() else {
        return Ok(value);
    };
    match *kind {
        Type::Struct(members) => of_members(members, value, words),
        Type::Rows(members) if word.parse::<u32>().is_ok() => {
            of_members(members, child(value, word)?, below)
        }
        Type::Rows(_) => Err(format!("`{word}` must be a row number, starting at 0")),
        Type::Map(kind) => of_type(kind, child(value, word)?, below),
        _ => Err(format!("there is no component `{word}`")),
    }
}

/// The member of this name, or the row of this number.
fn child<'v>(value: &'v Value, word: &str) -> Result<&'v Value, String> {
    let (found, names): (_, &[_]) = match value {
        Value::Struct(members) => {
            let found = members.iter().find(|(name, _)| name == word);
            (found.map(|(_, value)| value), members)
        }
        Value::List(rows) => (word.parse().ok().and_then(|row: usize| rows.get(row)), &[]),
        _ => (None, &[]),
    };
    found.ok_or_else(|| {
        let near = did_you_mean(nearest(word, names.iter().map(|(name, _)| &**name)));
        format!("the answer has no `{word}` (read settings from the configuration){near}")
    })
}

/// The row whose key is a prefix of the path, and the rest of the path. A value of a key may contain slashes:
/// the longest match wins.
fn row_of<'v, 'p>(key: &[&str], answer: &'v Value, path: &'p str) -> Option<(&'v Value, &'p str)> {
    let of_row = |row: &'v Value| {
        let values: Vec<_> = key.iter().filter_map(|name| row.text(name)).collect();
        let rest = path.strip_prefix(&values.join("/"))?;
        (rest.is_empty() || rest.starts_with('/')).then_some((row, rest))
    };
    answer
        .rows()
        .iter()
        .filter_map(of_row)
        .min_by_key(|(_, rest)| rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::COUNT;

    const CLASS: Class = Class {
        name: "routes",
        key: &["prefix"],
        components: &[
            Component::new(1, "prefix", Type::Text, ""),
            Component::new(2, "sent", COUNT, ""),
        ],
        ..Class::PLAIN
    };

    fn answer() -> Value {
        let row = |prefix: &str, packets| {
            let sent = weir_base::Tally { packets, bytes: 0 };
            Value::Struct(vec![
                ("prefix".into(), prefix.into()),
                ("sent".into(), sent.into()),
            ])
        };
        Value::List(vec![row("10.0.0.0", 1), row("10.0.0.0/8", 2)])
    }

    #[test]
    fn a_part_is_a_row_a_component_or_a_member() {
        let answer = answer();
        let part = |path| CLASS.part(&answer, path);
        assert_eq!(part("10.0.0.0/8/sent/packets"), Ok(&Value::Whole(2)));
        assert_eq!(part("10.0.0.0/sent/packets"), Ok(&Value::Whole(1)));
        assert_eq!(part("10.0.0.0/8/2/1"), Ok(&Value::Whole(2)));
        assert_eq!(
            part("10.0.0.0/8").unwrap().text("prefix"),
            Some("10.0.0.0/8")
        );
        let missing = |path| part(path).unwrap_err();
        assert_eq!(
            missing("10.0.0.1/sent"),
            "routes has no row `10.0.0.1/sent`; its key is prefix"
        );
        assert_eq!(
            missing("10.0.0.0/8/sent/packet"),
            "there is no component `packet`; did you mean `packets`?"
        );
        assert_eq!(
            missing("10.0.0.0/8/send"),
            "there is no component `send`; did you mean `sent`?"
        );
    }
}

//! Operations on components: getting a part of an answer, and setting and deleting in the running configuration.
//!
//! A list of operations takes effect whole or not at all (RFC 5810, execute-all-or-none). Getting is not part of such
//! a list: it changes nothing, so it needs no admission.

use std::borrow::Cow;

use weir_base::setting::{did_you_mean, nearest};

use crate::class_path::{ClassPath, Label, Step};
use crate::fault::ResultCode;
use crate::{Change, Class, ComponentPath, Fault, Value};

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
    /// The value that an answer has at a path of this class.
    pub fn get<'v, L: Label + PartialEq>(
        &self,
        answer: &'v Value,
        path: &ClassPath<L>,
    ) -> Result<&'v Value, Fault> {
        let path: ClassPath<String> = path.translate(&[*self])?;
        let is_it = |row: &&Value| {
            let key = self.key.iter().map(|name| row.text(name));
            key.eq(path.instance.iter().map(|value| Some(&value[..])))
        };
        let row = match self.key {
            [] if path.instance.is_empty() => Some(answer),
            [] => None,
            _ => answer.rows().iter().find(is_it),
        };
        let key = path.instance.join("/");
        let row = row.ok_or_else(|| self.no_row(&ComponentPath::new(path.instance), &key))?;
        walk(row, &path.steps).map_err(|fault| Fault {
            path: ComponentPath::new([key]),
            ..fault
        })
    }

    /// The value that an answer has at `path`: the values of the row's key, a component, a member, separated by
    /// slashes, like `wan/received/packets` or, by IDs, `wan/7/1`. A path may end after the key.
    pub fn part<'v>(&self, answer: &'v Value, path: &str) -> Result<&'v Value, Fault> {
        let of = ComponentPath::new(path.split('/'));
        let (row, rest) = match self.key {
            [] => (answer, path),
            key => row_of(key, answer, path).ok_or_else(|| self.no_row(&of, path))?,
        };
        let steps = self.steps(rest);
        let steps =
            steps.map_err(|why| Fault::new(of.clone(), why).code(ResultCode::InvalidPath))?;
        walk(row, &steps).map_err(|fault| Fault { path: of, ..fault })
    }

    fn no_row(&self, path: &ComponentPath, row: &str) -> Fault {
        let message = match self.key {
            [] => format!("{} is not a table, so it has no row `{row}`", self.name),
            key => format!(
                "{} has no row `{row}`; its key is {}",
                self.name,
                key.join("/")
            ),
        };
        Fault::new(path.clone(), message).code(ResultCode::NotFound)
    }
}

/// The value that the steps lead to.
fn walk<'v>(value: &'v Value, steps: &[Step<String>]) -> Result<&'v Value, Fault> {
    steps.iter().try_fold(value, |value, step| {
        let (below, code) = match (value, step) {
            (Value::Struct(members), Step::Member(name)) => {
                (of(members, name), ResultCode::NoValue)
            }
            (Value::Struct(members), Step::Key(name)) => (of(members, name), ResultCode::NotFound),
            (Value::List(rows), Step::Row(row)) => (rows.get(*row as usize), ResultCode::NotFound),
            _ => (None, ResultCode::NoValue),
        };
        below.ok_or_else(|| {
            let names: &[_] = match value {
                Value::Struct(members) => members,
                _ => &[],
            };
            let names = names.iter().map(|(name, _)| &**name);
            let near = did_you_mean(nearest(&step.to_string(), names));
            let message =
                format!("the answer has no `{step}` (read settings from the configuration){near}");
            Fault::new(ComponentPath::default(), message).code(code)
        })
    })
}

/// The value of this name.
fn of<'v>(members: &'v [(Cow<'static, str>, Value)], name: &str) -> Option<&'v Value> {
    let member = members.iter().find(|(member, _)| member == name);
    member.map(|(_, value)| value)
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
    use crate::Component;
    use crate::class::{COUNT, Type};

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
        assert_eq!(missing("10.0.0.1/sent").code, ResultCode::NotFound);
        assert_eq!(
            missing("10.0.0.0/8/sent/packet").code,
            ResultCode::InvalidPath
        );
        let near = missing("10.0.0.0/8/send").message;
        assert_eq!(near, "there is no component `send`; did you mean `sent`?");
    }

    #[test]
    fn a_path_by_ids_gets_the_value_of_the_path_by_names() {
        let answer = answer();
        let by_ids = |instance: &str, steps: &[u32]| ClassPath {
            class: CLASS.id,
            instance: vec![instance.to_owned()],
            steps: steps.iter().map(|id| Step::Member(*id)).collect(),
        };
        let packets = by_ids("10.0.0.0/8", &[2, 1]);
        assert_eq!(CLASS.get(&answer, &packets), Ok(&Value::Whole(2)));
        let by_names: ClassPath<String> = packets.translate(&[CLASS]).unwrap();
        assert_eq!(CLASS.get(&answer, &by_names), Ok(&Value::Whole(2)));
        let code = |path| CLASS.get(&answer, &path).unwrap_err().code;
        assert_eq!(code(by_ids("10.0.0.1", &[2])), ResultCode::NotFound);
        assert_eq!(code(by_ids("10.0.0.0", &[3])), ResultCode::InvalidPath);
        let unknown = ClassPath {
            class: 7,
            ..packets
        };
        assert_eq!(code(unknown), ResultCode::ClassUnknown);
    }
}

//! Operations on components and their result codes: getting a part of an answer here, setting in
//! [`section`](crate::section).

use weir_base::setting::{did_you_mean, nearest};

use crate::fault::ResultCode;
use crate::{Class, ComponentPath, Fault, Value};

impl Class {
    /// The part of an answer at `path`: the values of the row's key, a component, a member, with slashes between
    /// them, like `wan/received/packets`. A path may end after the key.
    pub fn part<'v>(&self, answer: &'v Value, path: &str) -> Result<&'v Value, Fault> {
        let of = |path: &str| ComponentPath::new(path.split('/'));
        let (row, rest) = match self.key {
            [] => (answer, path),
            key => row_of(key, answer, path).ok_or_else(|| {
                let (name, key) = (self.name, key.join("/"));
                let message = format!("{name} has no row `{path}`; its key is {key}");
                Fault::new(of(path), message).code(ResultCode::NotFound)
            })?,
        };
        let (mut value, mut members) = (row, self.components);
        for name in rest.split('/').filter(|name| !name.is_empty()) {
            let member = members.iter().find(|member| member.name == name);
            value = value.get(name).ok_or_else(|| {
                let near = did_you_mean(nearest(name, members.iter().map(|member| member.name)));
                let message = format!("there is no component `{name}`{near}");
                Fault::new(of(path), message).code(ResultCode::InvalidPath)
            })?;
            members = member.map_or(&[], |member| member.kind.members());
        }
        Ok(value)
    }
}

/// The row whose key the path begins with, and the rest of the path. A value of a key may have slashes in it:
/// the longest key counts.
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
}

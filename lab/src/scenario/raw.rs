//! What a scenario file says, before anybody judges it: a tree of values that remember their line.
//!
//! Overrides (`--set PATH=VALUE`, a variant's `set`, a `sweep`) work on this tree, so that a
//! changed value is checked exactly like a written one, and its error says where it came from.

use std::fmt;

use toml::de::{DeTable, DeValue};
use weir_base::setting::{Scalar, nearest};

use super::ScenarioError;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the file, on this line (from 1).
    Line(usize),
    /// Outside: the words of the override.
    Set(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Set(words) => write!(f, "{words}"),
        }
    }
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Where it was written.
    pub origin: Origin,
}

/// A value of a scenario file.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, text or flag.
    Scalar(Scalar),
    /// `[a, b]`
    List(Vec<Node>),
    /// `{ key = value }` or `[section]`, in the order of the file.
    Table(Vec<(String, Node)>),
}

/// Reads a scenario file's text.
pub fn parse(text: &str) -> Result<Node, ScenarioError> {
    let document = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        ScenarioError::new(
            Origin::Line(line_of(text, start)),
            error.message().trim().to_owned(),
        )
    })?;
    table(document.get_ref(), text, Origin::Line(1))
}

/// Reads the right-hand side of an override: a TOML value, or a bare word taken as text.
pub fn parse_value(words: &str, origin: Origin) -> Result<Node, ScenarioError> {
    let bare = || Node {
        value: Value::Scalar(Scalar::Text(words.trim().to_owned())),
        origin: origin.clone(),
    };
    let text = format!("value = {words}");
    let Ok(document) = DeTable::parse(&text) else {
        return Ok(bare());
    };
    let tree = table(document.get_ref(), &text, origin.clone())?;
    let mut node = tree.entry("value").cloned().unwrap_or_else(bare);
    node.relabel(&origin);
    Ok(node)
}

fn table(table: &DeTable<'_>, text: &str, origin: Origin) -> Result<Node, ScenarioError> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table.iter() {
        let place = key.span().start;
        let node = node(value.get_ref(), text, Origin::Line(line_of(text, place)))?;
        entries.push((place, key.get_ref().to_string(), node));
    }
    entries.sort_by_key(|(place, ..)| *place);
    let entries = entries.into_iter().map(|(_, key, node)| (key, node));
    Ok(Node {
        value: Value::Table(entries.collect()),
        origin,
    })
}

fn node(value: &DeValue<'_>, text: &str, origin: Origin) -> Result<Node, ScenarioError> {
    let wrong = |why: &str| Err(ScenarioError::new(origin.clone(), why.to_owned()));
    let scalar = match value {
        DeValue::String(s) => Scalar::Text(s.to_string()),
        DeValue::Boolean(flag) => Scalar::Flag(*flag),
        DeValue::Integer(n) => match i64::from_str_radix(&n.as_str().replace('_', ""), n.radix()) {
            Ok(n) => Scalar::Integer(n),
            Err(_) => return wrong("this whole number is too large"),
        },
        DeValue::Float(x) => match x.as_str().replace('_', "").parse() {
            Ok(x) => Scalar::Real(x),
            Err(_) => return wrong("this number cannot be read"),
        },
        DeValue::Datetime(_) => return wrong("a date is of no use in a scenario"),
        DeValue::Array(items) => {
            let items = items.iter().map(|item| {
                let line = Origin::Line(line_of(text, item.span().start));
                node(item.get_ref(), text, line)
            });
            return Ok(Node {
                value: Value::List(items.collect::<Result<_, _>>()?),
                origin,
            });
        }
        DeValue::Table(inner) => return table(inner, text, origin),
    };
    Ok(Node {
        value: Value::Scalar(scalar),
        origin,
    })
}

/// The line (from 1) of a byte offset.
fn line_of(text: &str, offset: usize) -> usize {
    text[..offset.min(text.len())].matches('\n').count() + 1
}

impl Node {
    /// The entry `key`, if this is a table that has it.
    pub fn entry(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, n)| n),
            _ => None,
        }
    }

    /// The entries, if this is a table; none otherwise.
    pub fn entries(&self) -> &[(String, Node)] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The items, if this is a list; the node itself otherwise.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => std::slice::from_ref(self),
        }
    }

    /// Removes the entry `key` and gives it.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        match &mut self.value {
            Value::Table(entries) => {
                let place = entries.iter().position(|(k, _)| k == key)?;
                Some(entries.remove(place).1)
            }
            _ => None,
        }
    }

    /// Puts `new` at `path`, replacing what was there. All tables on the way must exist.
    pub fn set(&mut self, path: &str, new: Node) -> Result<(), ScenarioError> {
        let mut here = self;
        let (tables, key) = path.rsplit_once('.').unwrap_or(("", path));
        let mut walked = String::new();
        for step in tables.split('.').filter(|s| !s.is_empty()) {
            let near = nearest(step, here.entries().iter().map(|(k, _)| k.as_str()));
            let near = near.map(|k| format!("; did you mean `{walked}{k}`?"));
            let origin = new.origin.clone();
            here = here.entry_mut(step).ok_or_else(|| {
                let near = near.unwrap_or_default();
                ScenarioError::new(origin, format!("there is no `{walked}{step}`{near}"))
            })?;
            walked += &format!("{step}.");
        }
        match &mut here.value {
            Value::Table(entries) => match entries.iter_mut().find(|(k, _)| k == key) {
                Some((_, node)) => *node = new,
                None => entries.push((key.to_owned(), new)),
            },
            _ => {
                let why = format!("`{tables}` is not a section, so it has no `{key}`");
                return Err(ScenarioError::new(new.origin, why));
            }
        }
        Ok(())
    }

    fn entry_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.value {
            Value::Table(entries) => entries.iter_mut().find(|(k, _)| k == key).map(|(_, n)| n),
            _ => None,
        }
    }

    /// Says of the whole subtree that it was written at `origin`.
    pub fn relabel(&mut self, origin: &Origin) {
        self.origin = origin.clone();
        match &mut self.value {
            Value::Scalar(_) => {}
            Value::List(items) => items.iter_mut().for_each(|n| n.relabel(origin)),
            Value::Table(entries) => entries.iter_mut().for_each(|(_, n)| n.relabel(origin)),
        }
    }

    /// As JSON, for results.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Scalar(Scalar::Integer(n)) => (*n).into(),
            Value::Scalar(Scalar::Real(x)) => (*x).into(),
            Value::Scalar(Scalar::Flag(on)) => (*on).into(),
            Value::Scalar(Scalar::Text(text)) => text.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Table(entries) => {
                let entries = entries.iter().map(|(k, n)| (k.clone(), n.to_json()));
                serde_json::Value::Object(entries.collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_remember_their_line() {
        let tree = parse("a = 1\n[b]\nc = \"x\"\n\nd = [1,\n2]\n").unwrap();
        let b = tree.entry("b").unwrap();
        assert_eq!(b.entry("c").unwrap().origin, Origin::Line(3));
        assert_eq!(b.entry("d").unwrap().items()[1].origin, Origin::Line(6));
    }

    #[test]
    fn a_slip_of_the_pen_has_a_line() {
        let error = parse("a = 1\nb = = 2\n").unwrap_err();
        assert!(error.to_string().starts_with("line 2: "), "{error}");
    }

    #[test]
    fn an_override_replaces_or_adds_below_existing_tables() {
        let mut tree = parse("[link.out]\nrate = \"1 Mbit\"\n").unwrap();
        let by = Origin::Set("--set".into());
        let set = |tree: &mut Node, path: &str, words: &str| {
            tree.set(path, parse_value(words, by.clone()).unwrap())
        };
        set(&mut tree, "link.out.rate", "2 Mbit").unwrap();
        set(&mut tree, "link.out.discipline", "{ kind = \"fifo\" }").unwrap();
        let json = tree.to_json();
        assert_eq!(json["link"]["out"]["rate"], "2 Mbit");
        assert_eq!(json["link"]["out"]["discipline"]["kind"], "fifo");
        let error = set(&mut tree, "link.oot.rate", "1 Mbit").unwrap_err();
        assert_eq!(
            error.to_string(),
            "--set: there is no `link.oot`; did you mean `link.out`?"
        );
        assert!(set(&mut tree, "link.out.rate.x", "1").is_err());
    }
}

//! TOML as a tree of values, each with its origin, so that a value that an override sets is checked exactly like a
//! written value, and its error names its origin.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use toml_edit::{Document as Toml, Item, TableLike, TomlError, Value as TomlValue};
use weir_base::setting::{Scalar, did_you_mean, nearest};
use weir_model::ComponentPath;

/// A file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The name of the file.
    pub name: String,
    /// The content of the file.
    pub text: String,
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// An override, an option or a whole file.
    Named(Arc<str>),
    /// This byte of a file.
    At(Arc<Source>, usize),
}

/// An error in a file or an override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The origin of the wrong value.
    pub origin: Origin,
    /// The error in a sentence, with the permitted values or the remedy.
    pub message: String,
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The origin of the value.
    pub origin: Origin,
}

/// A value of TOML.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, a string or a boolean.
    Scalar(Scalar),
    /// `[a, b]`
    List(Vec<Node>),
    /// `{ key = value }` or `[section]`, in the order of the file.
    Table(Vec<(String, Node)>),
}

/// Reads `text`, the content of the file `name`.
pub fn parse(name: &str, text: &str) -> Result<Node, ConfigError> {
    let source = Source::new(name, text);
    let toml = Toml::parse(&*source.text).map_err(|error| source.error(&error))?;
    let whole = Origin::named(name);
    table(toml.as_table(), whole, &|span| source.place(span))
}

/// Reads the value of an override: as in a file, or a bare word or quantity.
pub fn parse_value(words: &str, origin: &Origin) -> Result<Node, ConfigError> {
    let toml = Toml::parse(format!("value = {words}"));
    match toml.as_ref().map(|toml| toml.get("value")) {
        Ok(Some(item)) => node(item, origin.clone(), &|_| origin.clone()),
        _ => Ok(Node {
            value: Value::Scalar(Scalar::Text(words.trim().to_owned())),
            origin: origin.clone(),
        }),
    }
}

/// The origin of a key or value with this span.
type Place<'a> = &'a dyn Fn(Option<Range<usize>>) -> Origin;

fn table(table: &dyn TableLike, origin: Origin, place: Place<'_>) -> Result<Node, ConfigError> {
    let entries = table.iter().map(|(name, item)| {
        let span = table.key(name).and_then(|key| key.span());
        Ok((name.to_owned(), node(item, place(span), place)?))
    });
    let value = Value::Table(entries.collect::<Result<_, _>>()?);
    Ok(Node { value, origin })
}

fn node(item: &Item, origin: Origin, place: Place<'_>) -> Result<Node, ConfigError> {
    if let Some(inner) = item.as_table_like() {
        return table(inner, origin, place);
    }
    let scalar = match item.as_value() {
        Some(TomlValue::String(text)) => Scalar::Text(text.value().clone()),
        Some(TomlValue::Integer(number)) => Scalar::Integer(*number.value()),
        Some(TomlValue::Float(number)) => Scalar::Real(*number.value()),
        Some(TomlValue::Boolean(flag)) => Scalar::Flag(*flag.value()),
        Some(TomlValue::Datetime(_)) => {
            let why = "a date is not a permitted value; write a string in quotes";
            return Err(ConfigError::new(origin, why));
        }
        Some(TomlValue::Array(_) | TomlValue::InlineTable(_)) | None => {
            let values = item.as_array().into_iter().flatten();
            let values =
                values.map(|value| node(&Item::Value(value.clone()), place(value.span()), place));
            let tables = item.as_array_of_tables().into_iter().flatten();
            let tables = tables.map(|inner| table(inner, place(inner.span()), place));
            let value = Value::List(values.chain(tables).collect::<Result<_, _>>()?);
            return Ok(Node { value, origin });
        }
    };
    let value = Value::Scalar(scalar);
    Ok(Node { value, origin })
}

impl Node {
    /// The entry `key`, if this is a table with such an entry.
    pub fn entry(&self, key: &str) -> Option<&Node> {
        let mut entries = self.entries().iter();
        entries.find(|(k, _)| k == key).map(|(_, node)| node)
    }

    /// The entry `key`, mutable.
    pub fn entry_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.value {
            Value::Table(entries) => entries.iter_mut().find(|(k, _)| k == key).map(|(_, n)| n),
            _ => None,
        }
    }

    /// The entries, if this is a table; otherwise empty.
    pub fn entries(&self) -> &[(String, Node)] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The items, if this is a list; otherwise the node itself.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => std::slice::from_ref(self),
        }
    }

    /// The string, if this is a string.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(Scalar::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The single value of the key `name`. A list of words is the text with spaces between them: `["a", "b"]` is
    /// `"a b"`.
    pub fn scalar(&self, name: &str) -> Result<Scalar, ConfigError> {
        let is_word = |text: &&str| !text.is_empty() && !text.contains(char::is_whitespace);
        let words = match &self.value {
            Value::Scalar(scalar) => return Ok(scalar.clone()),
            Value::List(items) => items
                .iter()
                .map(|item| item.text().filter(is_word))
                .collect(),
            Value::Table(_) => None,
        };
        let words: Vec<&str> = words.ok_or_else(|| {
            let why = format!("`{name}` must be a string, a number, a boolean or a list of words");
            ConfigError::new(self.origin.clone(), why)
        })?;
        Ok(Scalar::Text(words.join(" ")))
    }

    /// Removes the entry `key` and returns it.
    pub fn remove(&mut self, key: &str) -> Option<Node> {
        match &mut self.value {
            Value::Table(entries) => {
                let place = entries.iter().position(|(k, _)| k == key)?;
                Some(entries.remove(place).1)
            }
            _ => None,
        }
    }

    /// Sets `path` to `new`, replacing the present value. All tables on the path must exist.
    pub fn set(&mut self, path: &str, new: Node) -> Result<(), ConfigError> {
        let wrong = |why: String| ConfigError::new(new.origin.clone(), why);
        let path: ComponentPath = path.parse().map_err(wrong)?;
        let (tables, key) = (path.parent(), path.segments().pop().unwrap_or_default());
        let (mut here, mut walked) = (self, ComponentPath::default());
        for step in tables.segments() {
            let near = nearest(step, here.entries().iter().map(|(k, _)| k.as_str()));
            let near = near.map(|k| walked.join(k).to_string());
            walked = walked.join(step);
            here = here.entry_mut(step).ok_or_else(|| {
                wrong(format!(
                    "unknown key `{walked}`{}",
                    did_you_mean(near.as_deref())
                ))
            })?;
        }
        let Value::Table(entries) = &mut here.value else {
            let why = format!("`{walked}` is not a table, so `{key}` cannot be set in it");
            return Err(wrong(why));
        };
        match entries.iter_mut().find(|(k, _)| k == key) {
            Some((_, node)) => *node = new,
            None => entries.push((key.to_owned(), new)),
        }
        Ok(())
    }
}

impl Source {
    pub(crate) fn new(name: &str, text: &str) -> Arc<Self> {
        let (name, text) = (name.to_owned(), text.to_owned());
        Arc::new(Self { name, text })
    }

    fn place(self: &Arc<Self>, span: Option<Range<usize>>) -> Origin {
        match span {
            Some(span) => Origin::At(Arc::clone(self), span.start),
            None => Origin::named(&*self.name),
        }
    }

    pub(crate) fn error(self: &Arc<Self>, error: &TomlError) -> ConfigError {
        ConfigError::new(self.place(error.span()), error.message().trim_end())
    }
}

impl Origin {
    /// The origin of this name.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self::Named(name.into())
    }
}

impl ConfigError {
    /// An error at `origin`.
    pub fn new(origin: Origin, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { origin, message }
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { origin, message } = self;
        let (source, at) = match origin {
            Origin::Named(name) => return write!(f, "{name}: {message}"),
            Origin::At(source, at) => (source, *at),
        };
        let (before, after) = source
            .text
            .split_at_checked(at)
            .unwrap_or((&source.text, ""));
        let start = before.rsplit('\n').next().unwrap_or_default();
        let rest = after.lines().next().unwrap_or_default();
        let (line, column) = (before.matches('\n').count() + 1, start.chars().count() + 1);
        let name = &source.name;
        write!(
            f,
            "{name}:{line}:{column}: {message}\n  {line} | {start}{rest}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_remember_their_place() {
        let tree = parse("f", "a = 1\n[b]\nc = \"x\"\n\nd = [1,\n 2]\n[[e]]\n[[e]]\n").unwrap();
        let line = |node: &Node| {
            let error = ConfigError::new(node.origin.clone(), "").to_string();
            error.split(' ').next().map(str::to_owned)
        };
        let place = |text: &str| Some(text.to_owned());
        let b = tree.entry("b").unwrap();
        assert_eq!(line(b.entry("c").unwrap()), place("f:3:1:"));
        assert_eq!(line(&b.entry("d").unwrap().items()[1]), place("f:6:2:"));
        assert_eq!(line(&tree.entry("e").unwrap().items()[1]), place("f:8:1:"));
        assert_eq!(line(&tree), place("f:"));
    }

    #[test]
    fn an_override_replaces_or_adds_below_existing_tables() {
        let mut tree = parse("f", "[link.\"o.t\"]\nrate = \"1 Mbit\"\n").unwrap();
        let by = Origin::named("--set");
        let mut set = |path: &str, words: &str| tree.set(path, parse_value(words, &by).unwrap());
        set("link.\"o.t\".rate", "2 Mbit").unwrap();
        set("link.\"o.t\".discipline", "{ kind = \"fifo\" }").unwrap();
        let error = set("link.o.rate", "1 Mbit").unwrap_err();
        let near = "--set: unknown key `link.o`; did you mean `link.\"o.t\"`?";
        assert_eq!(error.to_string(), near);
        let error = set("lnk.out.rate", "1 Mbit").unwrap_err();
        assert_eq!(
            error.to_string(),
            "--set: unknown key `lnk`; did you mean `link`?"
        );
        assert!(set("link.\"o.t\".rate.x", "1").is_err());
        let link = tree.entry("link").and_then(|l| l.entry("o.t")).unwrap();
        assert_eq!(link.entry("rate").and_then(Node::text), Some("2 Mbit"));
        let kind = link.entry("discipline").and_then(|d| d.entry("kind"));
        assert_eq!(kind.map(|kind| &kind.origin), Some(&by));
    }
}

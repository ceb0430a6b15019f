//! A configuration file as a list of changes.
//!
//! The text is read as TOML and flattened: `[port.wan] rate = "100 Mbit"` becomes the change
//! `port.wan.rate = "100 Mbit"`, the same as a control element would send. This crate checks only the
//! syntax; the logical functional blocks (LFBs) validate the changes, and [`Document::locate`] finds the line of
//! a change that they refuse.

mod edit;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use toml::de::DeTable;
use toml_edit::{Array, Document as Toml, Item, TableLike, Value};
use weir_base::setting::Scalar;
use weir_model::{Change, ComponentPath, Fault};

pub use edit::{as_file, edited};

/// A parsed configuration file.
#[derive(Clone, Debug)]
pub struct Document {
    name: String,
    text: String,
    changes: Vec<Change>,
    places: BTreeMap<ComponentPath, Range<usize>>,
}

/// An error in a file: its place, a message, and the line itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Name of the file.
    pub file: String,
    /// Line number, from 1; `None` if the error concerns the whole file.
    pub line: Option<usize>,
    /// The text of that line.
    pub excerpt: Option<String>,
    /// The error in a sentence.
    pub message: String,
}

impl std::error::Error for ConfigError {}

impl Document {
    /// Reads `text`, the content of the file `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let mut document = Self {
            name: name.to_owned(),
            text: text.to_owned(),
            changes: Vec::new(),
            places: BTreeMap::new(),
        };
        let toml = read(text).map_err(|(place, message)| document.error(place, message))?;
        document.flatten(&ComponentPath::default(), toml.as_table())?;
        Ok(document)
    }

    /// The changes in the order of the file.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Finds the place of a fault in the file.
    pub fn locate(&self, fault: &Fault) -> ConfigError {
        let mut path = fault.path.clone();
        while !path.is_root() && !self.places.contains_key(&path) {
            path = path.parent();
        }
        let message = if path.is_root() {
            fault.to_string()
        } else {
            fault.message.clone()
        };
        self.error(self.places.get(&path).cloned(), message)
    }

    fn flatten(&mut self, path: &ComponentPath, table: &dyn TableLike) -> Result<(), ConfigError> {
        for (name, item) in table.iter() {
            let path = path.join(name);
            let place = table
                .key(name)
                .and_then(|key| key.span())
                .or_else(|| item.span());
            if let Some(place) = &place {
                self.places.insert(path.clone(), place.clone());
            }
            match item.as_table_like() {
                Some(table) if table.is_empty() => self.changes.push(Change::block(path)),
                Some(table) => self.flatten(&path, table)?,
                None => {
                    let value = scalar(item).ok_or_else(|| {
                        let message = format!(
                            "`{name}` must be a string, a number, a boolean or a list of words"
                        );
                        self.error(place, message)
                    })?;
                    self.changes.push(Change::new(path, value));
                }
            }
        }
        Ok(())
    }

    fn error(&self, place: Option<Range<usize>>, message: String) -> ConfigError {
        let line = place.map(|p| {
            let before = &self.text.as_bytes()[..p.start.min(self.text.len())];
            before.iter().filter(|b| **b == b'\n').count() + 1
        });
        ConfigError {
            file: self.name.clone(),
            line,
            excerpt: line.and_then(|n| self.text.lines().nth(n - 1).map(str::to_owned)),
            message,
        }
    }
}

/// Reads TOML; an error is its place and a sentence.
///
/// Two libraries read the text: `toml_edit`, which records every place, panics on some malformed files
/// (fuzz/failures/network/key-of-value), so `toml` refuses malformed files first.
fn read(text: &str) -> Result<Toml<&str>, (Option<Range<usize>>, String)> {
    let shown = |message: &str| message.trim_end().to_owned();
    DeTable::parse(text).map_err(|error| (error.span(), shown(error.message())))?;
    Toml::parse(text).map_err(|error| (error.span(), shown(error.message())))
}

/// The top-level names of a TOML file, which identify its kind; empty if the text is not TOML.
pub fn top_names(text: &str) -> Vec<String> {
    let names = |toml: Toml<&str>| toml.iter().map(|(name, _)| name.to_owned()).collect();
    read(text).map(names).unwrap_or_default()
}

/// Parses `PATH=VALUE` of a command line: the value as in a file, or a bare word or quantity.
pub fn assignment(text: &str) -> Result<Change, String> {
    let Some((name, _)) = text.split_once('=') else {
        return Err(format!("`{text}` must be like port.wan.rate=\"50 Mbit\""));
    };
    // An equals sign in quotes belongs to the path.
    let split = |(at, _)| Some((text[..at].parse().ok()?, &text[at + 1..]));
    let (path, words) = match text.match_indices('=').find_map(split) {
        Some(split) => split,
        None => (name.parse()?, ""),
    };
    let assigned = format!("value = {words}");
    let value = read(&assigned).ok();
    let value = value.and_then(|toml| scalar(toml.get("value")?));
    let value = value.unwrap_or_else(|| Scalar::Text(words.trim().to_owned()));
    Ok(Change::new(path, value))
}

fn scalar(item: &Item) -> Option<Scalar> {
    match item.as_value()? {
        Value::String(text) => Some(Scalar::Text(text.value().clone())),
        Value::Integer(number) => Some(Scalar::Integer(*number.value())),
        Value::Float(number) => Some(Scalar::Real(*number.value())),
        Value::Boolean(flag) => Some(Scalar::Flag(*flag.value())),
        Value::Array(words) => words_of(words).map(Scalar::Text),
        Value::Datetime(_) | Value::InlineTable(_) => None,
    }
}

/// A list of words is the text with spaces between them: `["a", "b"]` is `"a b"`.
fn words_of(list: &Array) -> Option<String> {
    let is_word = |text: &&str| !text.is_empty() && !text.contains(char::is_whitespace);
    let words = list.iter().map(|item| item.as_str().filter(is_word));
    Some(words.collect::<Option<Vec<_>>>()?.join(" "))
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message)?,
            None => write!(f, "{}: {}", self.file, self.message)?,
        }
        match (&self.excerpt, self.line) {
            (Some(excerpt), Some(line)) => write!(f, "\n  {line} | {excerpt}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
mode = \"routed\"

[port.wan]
rate = \"100 Mbit\"
discipline = { kind = \"lru_fq\", cache = 12 }
[port.lan]
";

    #[test]
    fn a_file_becomes_changes() {
        let document = Document::parse("weir.toml", TEXT).unwrap();
        let shown: Vec<_> = document
            .changes()
            .iter()
            .map(|c| match &c.value {
                Some(value) => format!("{} = {value}", c.path),
                None => format!("{} exists", c.path),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "mode = \"routed\"",
                "port.wan.rate = \"100 Mbit\"",
                "port.wan.discipline.kind = \"lru_fq\"",
                "port.wan.discipline.cache = 12",
                "port.lan exists",
            ]
        );
    }

    #[test]
    fn a_fault_is_shown_at_its_line() {
        let document = Document::parse("weir.toml", TEXT).unwrap();
        let path = ComponentPath::new(["port", "wan", "discipline", "cache"]);
        let error = document.locate(&Fault::new(path, "too small"));
        let expected =
            "weir.toml:5: too small\n  5 | discipline = { kind = \"lru_fq\", cache = 12 }";
        assert_eq!(error.to_string(), expected);
        let absent = ComponentPath::new(["port", "wan", "interface"]);
        assert_eq!(
            document.locate(&Fault::new(absent, "missing")).line,
            Some(3)
        );
        let elsewhere = document.locate(&Fault::new(ComponentPath::new(["x"]), "missing"));
        assert_eq!(elsewhere.to_string(), "weir.toml: x: missing");
    }

    #[test]
    fn an_assignment_needs_no_quotes() {
        let read = |text| assignment(text).map(|c| (c.path.to_string(), c.value));
        let text = |text: &str| Some(Scalar::Text(text.to_owned()));
        let rate = ("port.wan.rate".to_owned(), text("50 Mbit"));
        assert_eq!(read("port.wan.rate=50 Mbit"), Ok(rate.clone()));
        assert_eq!(read("port.wan.rate = \"50 Mbit\""), Ok(rate));
        let limit = Ok(("port.wan.discipline.limit".into(), Some(Scalar::Integer(9))));
        assert_eq!(read("port.wan.discipline.limit=9"), limit);
        let dotted = ("port.\"eth0.100\".rate".to_owned(), text("1/50"));
        assert_eq!(read("port.\"eth0.100\".rate=1/50"), Ok(dotted));
        let key = ("port.\"a=b\".rate".to_owned(), text("1 = 2"));
        assert_eq!(read("port.\"a=b\".rate=1 = 2"), Ok(key));
        let list = ("port.wan.reflectors".to_owned(), text("192.0.2.1 ::1"));
        assert_eq!(
            read("port.wan.reflectors=[\"192.0.2.1\", \"::1\"]"),
            Ok(list)
        );
        assert!(read("port.wan.rate").unwrap_err().contains("must be like"));
        assert!(read("port wan=1").unwrap_err().contains("is not the path"));
    }

    #[test]
    fn wrong_syntax_is_shown_at_its_line() {
        let error = Document::parse("weir.toml", "mode = \"routed\"\nrate = = 3\n").unwrap_err();
        assert_eq!(error.line, Some(2));
        let error = Document::parse("weir.toml", "a = 1\na = 2\n").unwrap_err();
        assert_eq!(error.line, Some(2), "{error}");
        let error = Document::parse("weir.toml", "a = [1, 2]\n").unwrap_err();
        assert!(error.message.contains("must be"), "{error}");
    }
}

//! A scenario file before any check: a tree of values, each with its line.
//!
//! Overrides (`--set PATH=VALUE`, a variant's `set`, a `sweep`) work on this tree, so that a changed value is checked
//! exactly like a written one, and its error names its origin.

use std::fmt;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};
use weir_base::setting::{Scalar, did_you_mean, nearest};

use super::ScenarioError;

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This line (from 1) of the file.
    Line(usize),
    /// This line of a file that the scenario uses.
    Other(Arc<str>, usize),
    /// An override with this text.
    Set(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Other(file, line) => write!(f, "line {line} of {file}"),
            Self::Set(words) => write!(f, "{words}"),
        }
    }
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The origin of the value.
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

/// The key of a calibrated value.
const CALIBRATED: &str = "calibrated";

/// How to read a paper where it is ambiguous. A value that depends on the reading is `{ calibrated = .., printed = ..
/// }`, with a key for each reading that differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// The calibrated values: the paper as read.
    #[default]
    Calibrated,
    /// The values that the paper prints. A calibrated value without a printed one is left out.
    Printed,
    /// LRU-FQ, R3: a threshold of packets since the admission, at the calibrated hub.
    SinceAdmission,
    /// LRU-FQ, R27: UDP flows send at their measured rate.
    MeasuredShare,
    /// AFAN, R10: streams begin when observation of the link begins.
    LateStreams,
    /// AFAN, R13: RAMAF counts all identifiers on the list.
    AllListed,
}

impl Reading {
    /// The readings other than the calibrated one, with their keys.
    pub(super) const KEYS: [(Self, &str); 5] = [
        (Self::Printed, "printed"),
        (Self::SinceAdmission, "since_admission"),
        (Self::MeasuredShare, "measured_share"),
        (Self::LateStreams, "late_streams"),
        (Self::AllListed, "all_listed"),
    ];

    fn key(self) -> &'static str {
        let mut keys = Self::KEYS.iter();
        let found = keys.find(|(reading, _)| *reading == self);
        found.map_or(CALIBRATED, |(_, key)| key)
    }
}

/// Reads a scenario file's text.
pub fn parse(text: &str) -> Result<Node, ScenarioError> {
    let lines = Lines::new(text);
    let document = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        ScenarioError::new(lines.of(start), error.message().trim().to_owned())
    })?;
    table(document.get_ref(), &lines, Origin::Line(1))
}

/// Reads the right-hand side of an override: a TOML value, or a bare word taken as a string.
pub fn parse_value(words: &str, origin: Origin) -> Result<Node, ScenarioError> {
    let bare = || Node {
        value: Value::Scalar(Scalar::Text(words.trim().to_owned())),
        origin: origin.clone(),
    };
    let text = format!("value = {words}");
    let Ok(document) = DeTable::parse(&text) else {
        return Ok(bare());
    };
    let tree = table(document.get_ref(), &Lines::new(&text), origin.clone())?;
    let mut node = tree.entry("value").cloned().unwrap_or_else(bare);
    node.relabel(&origin);
    Ok(node)
}

fn table(table: &DeTable<'_>, lines: &Lines, origin: Origin) -> Result<Node, ScenarioError> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table.iter() {
        let place = key.span().start;
        let node = node(value.get_ref(), lines, lines.of(place))?;
        entries.push((place, key.get_ref().to_string(), node));
    }
    entries.sort_by_key(|(place, ..)| *place);
    let entries = entries.into_iter().map(|(_, key, node)| (key, node));
    Ok(Node {
        value: Value::Table(entries.collect()),
        origin,
    })
}

fn node(value: &DeValue<'_>, lines: &Lines, origin: Origin) -> Result<Node, ScenarioError> {
    let wrong = |why: &str| Err(ScenarioError::new(origin.clone(), why.to_owned()));
    let scalar = match value {
        DeValue::String(s) => Scalar::Text(s.to_string()),
        DeValue::Boolean(flag) => Scalar::Flag(*flag),
        DeValue::Integer(n) => match i64::from_str_radix(&n.as_str().replace('_', ""), n.radix()) {
            Ok(n) => Scalar::Integer(n),
            Err(_) => return wrong("integer out of range"),
        },
        DeValue::Float(x) => match x.as_str().replace('_', "").parse() {
            Ok(x) => Scalar::Real(x),
            Err(_) => return wrong("invalid number"),
        },
        DeValue::Datetime(_) => return wrong("a date is not a permitted value"),
        DeValue::Array(items) => {
            let items = items
                .iter()
                .map(|item| node(item.get_ref(), lines, lines.of(item.span().start)));
            return Ok(Node {
                value: Value::List(items.collect::<Result<_, _>>()?),
                origin,
            });
        }
        DeValue::Table(inner) => return table(inner, lines, origin),
    };
    Ok(Node {
        value: Value::Scalar(scalar),
        origin,
    })
}

/// The offsets at which the lines of a text end.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(end, _)| end).collect())
    }

    /// The line (from 1) of a byte offset.
    fn of(&self, offset: usize) -> Origin {
        Origin::Line(self.0.partition_point(|end| *end < offset) + 1)
    }
}

impl Node {
    /// The entry `key`, if this is a table with such an entry.
    pub fn entry(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, n)| n),
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
    pub fn set(&mut self, path: &str, new: Node) -> Result<(), ScenarioError> {
        let mut here = self;
        let (tables, key) = path.rsplit_once('.').unwrap_or(("", path));
        let mut walked = String::new();
        for step in tables.split('.').filter(|s| !s.is_empty()) {
            let near = nearest(step, here.entries().iter().map(|(k, _)| k.as_str()));
            let near = did_you_mean(near.map(|k| format!("{walked}{k}")).as_deref());
            let origin = new.origin.clone();
            here = here.entry_mut(step).ok_or_else(|| {
                ScenarioError::new(origin, format!("unknown key `{walked}{step}`{near}"))
            })?;
            walked += &format!("{step}.");
        }
        match &mut here.value {
            Value::Table(entries) => match entries.iter_mut().find(|(k, _)| k == key) {
                Some((_, node)) => *node = new,
                None => entries.push((key.to_owned(), new)),
            },
            _ => {
                let why = format!("`{tables}` is not a table, so `{key}` cannot be set in it");
                return Err(ScenarioError::new(new.origin, why));
            }
        }
        Ok(())
    }

    /// The entry `key`, mutable.
    pub fn entry_mut(&mut self, key: &str) -> Option<&mut Node> {
        match &mut self.value {
            Value::Table(entries) => entries.iter_mut().find(|(k, _)| k == key).map(|(_, n)| n),
            _ => None,
        }
    }

    /// Sets the origin of the whole subtree.
    pub fn relabel(&mut self, origin: &Origin) {
        self.relabel_each(&|_| Some(origin.clone()));
    }

    /// Sets the origin of the whole subtree to this file, which another file uses.
    pub fn is_of_file(&mut self, file: &Arc<str>) {
        self.relabel_each(&|origin| match origin {
            Origin::Line(line) => Some(Origin::Other(Arc::clone(file), *line)),
            Origin::Other(..) | Origin::Set(_) => None,
        });
    }

    fn relabel_each(&mut self, new: &impl Fn(&Origin) -> Option<Origin>) {
        if let Some(origin) = new(&self.origin) {
            self.origin = origin;
        }
        match &mut self.value {
            Value::Scalar(_) => {}
            Value::List(items) => items.iter_mut().for_each(|n| n.relabel_each(new)),
            Value::Table(entries) => entries.iter_mut().for_each(|(_, n)| n.relabel_each(new)),
        }
    }

    /// This tree extended by `over`: tables are merged key by key, and everything else is replaced. New keys
    /// come last.
    pub fn extended_by(self, over: Self) -> Self {
        let is_whole = self.calibrated().is_some() || over.calibrated().is_some();
        let (mut entries, more) = match (self.value, over.value) {
            (Value::Table(entries), Value::Table(more)) if !is_whole => (entries, more),
            (_, value) => {
                let origin = over.origin;
                return Self { value, origin };
            }
        };
        for (key, node) in more {
            match entries.iter().position(|(known, _)| *known == key) {
                Some(place) => {
                    let (key, below) = entries.remove(place);
                    entries.insert(place, (key, below.extended_by(node)));
                }
                None => entries.push((key, node)),
            }
        }
        Self {
            value: Value::Table(entries),
            origin: over.origin,
        }
    }

    /// The calibrated value, if this value depends on the reading.
    fn calibrated(&self) -> Option<&Node> {
        self.entry(CALIBRATED)
    }

    /// Replaces each `{ calibrated = .., printed = .. }` by the value of the reading, or by the calibrated value if the
    /// reading has no value. Without `printed`, the reading `Printed` removes the key.
    pub fn choose(&mut self, reading: Reading) -> Result<(), ScenarioError> {
        match &mut self.value {
            Value::Scalar(_) => {}
            Value::List(items) => items.iter_mut().try_for_each(|n| n.choose(reading))?,
            Value::Table(entries) => {
                for (key, node) in entries.iter_mut() {
                    node.check_calibrated(key)?;
                }
                entries.retain(|(_, node)| !node.is_left_out(reading));
                for (_, node) in entries.iter_mut() {
                    match node.chosen(reading) {
                        Some(chosen) => *node = chosen,
                        None => node.choose(reading)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn check_calibrated(&self, key: &str) -> Result<(), ScenarioError> {
        if self.calibrated().is_none() {
            return Ok(());
        }
        let keys = Reading::KEYS.map(|(_, key)| key);
        let more =
            |(name, _): &&(String, Node)| name != CALIBRATED && !keys.contains(&name.as_str());
        match self.entries().iter().find(more) {
            None => Ok(()),
            Some((name, node)) => {
                let why = format!(
                    "unknown key `{name}` next to `calibrated` in `{key}`; permitted keys: {}",
                    keys.join(", ")
                );
                Err(ScenarioError::new(node.origin.clone(), why))
            }
        }
    }

    fn is_left_out(&self, reading: Reading) -> bool {
        let own = || self.entry(reading.key());
        reading == Reading::Printed && self.calibrated().is_some() && own().is_none()
    }

    fn chosen(&self, reading: Reading) -> Option<Node> {
        let calibrated = self.calibrated()?;
        let own = self.entry(reading.key());
        Some(own.unwrap_or(calibrated).clone())
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
    fn a_file_that_extends_another_replaces_values_and_adds_keys() {
        let base =
            "title = \"a\"\n[link.x]\nrate = 1\ndelay = 2\n[link.y]\n[[variant]]\nname = \"v\"\n";
        let over = "extra = 1\nvariant = []\n[link.z]\n[link.x]\nrate = 5\n";
        let mut base = parse(base).unwrap();
        base.is_of_file(&"base.toml".into());
        let tree = base.extended_by(parse(over).unwrap());
        let links = tree.entry("link").unwrap();
        let names: Vec<&str> = links.entries().iter().map(|(k, _)| k.as_str()).collect();
        assert_eq!(names, ["x", "y", "z"]);
        let x = links.entry("x").unwrap();
        assert_eq!(x.to_json()["rate"], 5);
        assert_eq!(x.entry("rate").unwrap().origin, Origin::Line(5));
        let delay = &x.entry("delay").unwrap().origin;
        assert_eq!(delay.to_string(), "line 4 of base.toml");
        assert!(tree.entry("variant").unwrap().items().is_empty());
    }

    #[test]
    fn a_calibrated_value_has_what_was_printed_beside_it() {
        let text = "a = { calibrated = 1, printed = 2 }\nb = { calibrated = 3 }\nc = [{ d = { calibrated = 4, printed = 5 } }]\n";
        let tree = parse(text).unwrap();
        let of = |reading| {
            let mut tree = tree.clone();
            tree.choose(reading).unwrap();
            tree.to_json().to_string()
        };
        assert_eq!(of(Reading::Calibrated), r#"{"a":1,"b":3,"c":[{"d":4}]}"#);
        assert_eq!(of(Reading::Printed), r#"{"a":2,"c":[{"d":5}]}"#);
        assert_eq!(of(Reading::LateStreams), of(Reading::Calibrated));
        let other = parse("a = { calibrated = 1, late_streams = 2 }\n");
        let mut other = other.unwrap();
        other.choose(Reading::LateStreams).unwrap();
        assert_eq!(other.to_json()["a"], 2);
        let more = tree.extended_by(parse("a = { calibrated = 7 }\nb = 8\n").unwrap());
        assert_eq!(more.to_json()["a"].to_string(), r#"{"calibrated":7}"#);
        let mut wrong = parse("a = { calibrated = 1, print = 2 }\n").unwrap();
        let error = wrong.choose(Reading::Printed).unwrap_err().to_string();
        assert!(
            error.starts_with("line 1: unknown key `print` next to `calibrated` in `a`"),
            "{error}"
        );
    }

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
            "--set: unknown key `link.oot`; did you mean `link.out`?"
        );
        assert!(set(&mut tree, "link.out.rate.x", "1").is_err());
    }
}

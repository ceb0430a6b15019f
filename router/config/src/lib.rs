//! A configuration file as a list of changes, and TOML as a tree with the origin of each value.
//!
//! [`parse`] reads TOML as a tree of [`Node`]s. [`Document`] flattens the tree: `[port.wan] rate = "100 Mbit"` becomes
//! the change `port.wan.rate = "100 Mbit"`, the same as a control element would send. This crate checks only the
//! syntax; the logical functional blocks (LFBs) validate the changes, and [`Document::locate`] finds the place of
//! a change that they refuse.
//!
//! Do not lower the version of `toml_edit`: 0.24.1 panics ("all items have spans") on the text `a==`, line end,
//! `[a.b]`. The missing value has no span, and the header extends it. 0.25.20 refuses the text as it should.

mod edit;
mod tree;

use weir_model::{Change, ComponentPath, Fault};

pub use edit::{as_file, edited, quoted, written};
pub use tree::{ConfigError, Node, Origin, Source, Value, parse, parse_value};

/// A parsed configuration file.
#[derive(Clone, Debug)]
pub struct Document {
    tree: Node,
    changes: Vec<Change>,
}

impl Document {
    /// Reads `text`, the content of the file `name`.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let tree = parse(name, text)?;
        let mut changes = Vec::new();
        for (name, node) in tree.entries() {
            flatten(ComponentPath::new([name]), node, &mut changes)?;
        }
        Ok(Self { tree, changes })
    }

    /// The changes in the order of the file.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Finds the place of a fault in the file.
    pub fn locate(&self, fault: &Fault) -> ConfigError {
        let segments = fault.path.segments().into_iter();
        let below = segments.scan(&self.tree, |node, segment| {
            *node = node.entry(segment)?;
            Some(*node)
        });
        match below.last() {
            Some(node) => ConfigError::new(node.origin.clone(), &*fault.message),
            None => ConfigError::new(self.tree.origin.clone(), fault.to_string()),
        }
    }
}

fn flatten(path: ComponentPath, node: &Node, changes: &mut Vec<Change>) -> Result<(), ConfigError> {
    match &node.value {
        Value::Table(entries) if entries.is_empty() => changes.push(Change::block(path)),
        Value::Table(entries) => {
            for (name, node) in entries {
                flatten(path.join(name), node, changes)?;
            }
        }
        Value::Scalar(_) | Value::List(_) => {
            let value = node.scalar(path.segments().pop().unwrap_or_default())?;
            changes.push(Change::new(path, value));
        }
    }
    Ok(())
}

/// The top-level names of a TOML file, which identify its kind; empty if the text is not TOML.
pub fn top_names(text: &str) -> Vec<String> {
    let tree = parse("", text).ok();
    let entries = tree.iter().flat_map(Node::entries);
    entries.map(|(name, _)| name.clone()).collect()
}

/// Splits `PATH=VALUE` of a command line; `example` is shown in the error. An equals sign in quotes belongs to the
/// path.
pub fn split<'t>(text: &'t str, example: &str) -> Result<(&'t str, &'t str), String> {
    let signs = || text.match_indices('=').map(|(at, _)| at);
    let ends_path = |at: &usize| text[..*at].parse::<ComponentPath>().is_ok();
    let at = signs().find(ends_path).or_else(|| signs().next());
    let at = at.ok_or_else(|| format!("`{text}` must be like {example}"))?;
    Ok((text[..at].trim(), text[at + 1..].trim()))
}

/// Parses `PATH=VALUE` of a command line: the value as in a file, or a bare word or quantity.
pub fn assignment(text: &str) -> Result<Change, String> {
    let (name, words) = split(text, "port.wan.rate=\"50 Mbit\"")?;
    let path = name.parse()?;
    let node = parse_value(words, &Origin::named(text)).and_then(|node| node.scalar(name));
    Ok(Change::new(path, node.map_err(|error| error.message)?))
}

#[cfg(test)]
mod tests {
    use weir_base::setting::Scalar;

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
            "weir.toml:5:33: too small\n  5 | discipline = { kind = \"lru_fq\", cache = 12 }";
        assert_eq!(error.to_string(), expected);
        let absent = ComponentPath::new(["port", "wan", "interface"]);
        let missing = document.locate(&Fault::new(absent, "missing"));
        assert!(
            missing.to_string().starts_with("weir.toml:3:7: missing\n"),
            "{missing}"
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
    fn wrong_syntax_is_shown_at_its_place() {
        let error = |text: &str| Document::parse("f", text).unwrap_err().to_string();
        for (text, place) in [
            ("mode = \"routed\"\nrate = = 3\n", "f:2:8: "),
            ("a = 1\na = 2\n", "f:2:1: duplicate key"),
            ("\u{fc}b = [1, 2]\n", "f:1:1: "),
            ("a = [1, 2]\n", "f:1:1: `a` must be a string"),
            ("a = 1\nb = 1979-05-27\n", "f:2:1: a date"),
            ("a==\n[a.b]", "f:1:3: "), // toml_edit 0.24.1 panics
        ] {
            assert!(error(text).starts_with(place), "{}", error(text));
        }
    }
}

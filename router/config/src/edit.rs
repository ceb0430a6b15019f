//! Writing configuration files: a file for a running configuration, and an existing file with some components changed.

use std::collections::BTreeMap;
use std::fmt::Write;

use toml_edit::{DocumentMut, Item, Table, TableLike, Value};
use weir_base::setting::Scalar;
use weir_model::{Change, ComponentPath};

use crate::{ConfigError, Origin, Source};

/// A configuration file for the component paths and values that a router reports.
pub fn as_file(components: &BTreeMap<String, String>) -> String {
    let mut sections: BTreeMap<String, Vec<(String, &String)>> = BTreeMap::new();
    for (name, value) in components {
        let path: ComponentPath = name.parse().unwrap_or_default();
        let last = ComponentPath::new(path.segments().pop());
        let own = sections.entry(path.parent().to_string()).or_default();
        own.push((last.to_string(), value));
    }
    let mut text = String::new();
    for (section, components) in &sections {
        if !section.is_empty() {
            let _ = writeln!(text, "\n[{section}]");
        }
        for (name, value) in components {
            let _ = writeln!(text, "{name} = {}", Value::from(value.as_str()));
        }
    }
    text
}

/// Edits `text`, the content of the configuration file `name`: sets components, and deletes components that have no
/// value. Comments stay.
pub fn edited(name: &str, text: &str, changes: &[Change]) -> Result<String, ConfigError> {
    let source = Source::new(name, text);
    let parsed = source.text.parse::<DocumentMut>();
    let mut document = parsed.map_err(|error| source.error(&error))?;
    for change in changes {
        let names = change.path.segments();
        let Some((last, above)) = names.split_last() else {
            continue;
        };
        let mut table: &mut dyn TableLike = document.as_table_mut();
        for name in above {
            if !table.contains_key(name) {
                let mut section = Table::new();
                section.set_implicit(true); // no header `[port]` above `[port.wan]`
                table.insert(name, Item::Table(section));
            }
            let found = table.get_mut(name).and_then(Item::as_table_like_mut);
            table = found.ok_or_else(|| {
                let why = format!("`{name}` is a value and has no components");
                ConfigError::new(Origin::named(&*source.name), why)
            })?;
        }
        match &change.value {
            None => drop(table.remove(last)),
            Some(scalar) => put(table, last, scalar),
        }
    }
    Ok(document.to_string())
}

/// Replaces a value and keeps the comment next to it.
fn put(table: &mut dyn TableLike, name: &str, scalar: &Scalar) {
    let mut new = value(scalar);
    if let Some(old) = table.get(name).and_then(Item::as_value) {
        *new.decor_mut() = old.decor().clone();
    }
    table.insert(name, Item::Value(new));
}

/// A text as in a configuration file.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A value as in a configuration file.
pub fn written(scalar: &Scalar) -> String {
    value(scalar).to_string()
}

fn value(scalar: &Scalar) -> Value {
    match scalar {
        Scalar::Text(text) => text.into(),
        Scalar::Integer(number) => (*number).into(),
        Scalar::Real(number) => (*number).into(),
        Scalar::Flag(flag) => (*flag).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, assignment};

    #[test]
    fn a_file_of_components_is_read_as_these_components() {
        let components = [
            ("mode", "routed"),
            ("port.\"eth0.100\".rate", "5 Mbit"),
            ("port.wan.discipline.kind", "fifo"),
            ("port.wan.interface", "say \"b0\""),
        ];
        let components = components.map(|(path, value)| (path.to_owned(), value.to_owned()));
        let text = as_file(&BTreeMap::from(components.clone()));
        let document = Document::parse("f", &text).unwrap();
        let read = document.changes().iter().map(|change| {
            let Some(Scalar::Text(value)) = &change.value else {
                panic!("{change:?}")
            };
            (change.path.to_string(), value.clone())
        });
        let read: BTreeMap<_, _> = read.collect();
        assert_eq!(read, BTreeMap::from(components), "{text}");
    }

    #[test]
    fn comments_and_the_order_stay() {
        let text = "# my box\n[port.wan]\ninterface = \"b0\"\nrate = \"20 Mbit\" # the contract\n\
                    discipline = { kind = \"fifo\", limit = 10 }\n";
        let changes: Vec<Change> = [
            "port.wan.rate=\"50 Mbit\"",
            "port.wan.discipline.limit=20",
            "port.lan.interface=a0",
        ]
        .map(|text| assignment(text).unwrap())
        .into();
        let edited = edited("f", text, &changes).unwrap();
        let expected = "# my box\n[port.wan]\ninterface = \"b0\"\nrate = \"50 Mbit\" # the contract\n\
                        discipline = { kind = \"fifo\", limit = 20 }\n\n[port.lan]\ninterface = \"a0\"\n";
        assert_eq!(edited, expected);
        let gone =
            super::edited("f", &edited, &[Change::block("port.lan".parse().unwrap())]).unwrap();
        assert!(!gone.contains("lan"), "{gone}");
        let through = super::edited("f", text, &[assignment("port.wan.rate.x=1").unwrap()]);
        assert_eq!(
            through.unwrap_err().to_string(),
            "f: `rate` is a value and has no components"
        );
    }
}

//! Paths as users write them, with names, and with rows that are selected by their content.
//!
//! ```text
//!   rows / 3 / packets               names, and the index of a row
//!   1 / 3 / 2                        the same by IDs
//!   rows / prefix=10.0.0.0/8 / 2     a row by the content of a key: KEYINFO
//!   rows / 0-99                      the rows from one index to another: TABLERANGE
//!   parameters / limit               a value of a map: its name is the key of its row
//!   60 / 1                           an event: base and ID
//! ```

use weir_base::setting::{did_you_mean, nearest};

use crate::schema::{Array, Class, Component, Level, PathError, member};
use crate::value::{self, ValueError};
use crate::wire::{Content, PathData, Selector, WireError};

impl From<ValueError> for PathError {
    fn from(error: ValueError) -> Self {
        Self {
            code: error.code,
            message: error.to_string(),
        }
    }
}

/// A path of IDs, with the rows that keys or a range select.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathSelector {
    /// The IDs, up to the table from which rows are selected.
    pub ids: Vec<u32>,
    /// The key or range, and the path below the selected row.
    pub rows: Option<(Selector, Box<PathSelector>)>,
}

impl PathSelector {
    /// The path with this content at its end. The part after a key becomes a nested path.
    pub fn path_data(self, content: Content) -> Result<PathData, WireError> {
        match self.rows {
            None => PathData::new(self.ids, None, content),
            Some((key, below)) if below.ids.is_empty() && below.rows.is_none() => {
                PathData::new(self.ids, Some(key), content)
            }
            Some((key, below)) => {
                let nested = Content::Nested(vec![below.path_data(content)?]);
                PathData::new(self.ids, Some(key), nested)
            }
        }
    }
}

impl Class {
    /// Resolves the words of a path: names or IDs of components, members and events, indices of rows, and contents of
    /// keys as `field=value`, with commas between several fields. If the key has only one field, its value is
    /// sufficient. The last word may be a range of rows.
    pub fn way(&self, words: &[&str]) -> Result<PathSelector, PathError> {
        if let Some(ids) = self.event_way(words) {
            return Ok(PathSelector { ids, rows: None });
        }
        self.way_from(Level::Members(&self.components), words)
    }

    /// Base and ID of the event that the first word names, followed by the rows.
    fn event_way(&self, words: &[&str]) -> Option<Vec<u32>> {
        let base = self.events_base?;
        let (name, rows) = words.split_first()?;
        let of_name = self.events.iter().find(|event| event.name == *name);
        let (event, rows) = match (of_name, name.parse() == Ok(base)) {
            (Some(event), _) => (Some(event.id), rows),
            (None, true) => match rows.split_first() {
                Some((id, rows)) => (Some(id.parse().ok()?), rows),
                None => (None, rows),
            },
            (None, false) => return None,
        };
        let rows: Option<Vec<u32>> = rows.iter().map(|row| row.parse().ok()).collect();
        Some([base].into_iter().chain(event).chain(rows?).collect())
    }

    fn way_from(&self, mut level: Level<'_>, words: &[&str]) -> Result<PathSelector, PathError> {
        let mut ids = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let kind = match level {
                Level::Members(members) => {
                    let member = self.member_named(members, word)?;
                    ids.push(member.id);
                    &member.kind
                }
                Level::Rows(array) => {
                    if let Ok(row) = word.parse()
                        && !array.is_map()
                    {
                        ids.push(row);
                        level = Level::of(&array.element);
                        continue;
                    }
                    let is_last = at + 1 == words.len();
                    let selector = match range(word).filter(|_| is_last && !array.is_map()) {
                        Some(range) => range,
                        None => key(array, word)?,
                    };
                    let below =
                        self.way_from(Level::of(&array.element), &below(array, words, at))?;
                    let rows = Some((selector, Box::new(below)));
                    return Ok(PathSelector { ids, rows });
                }
                Level::Single => {
                    let before = words[..at].join(".");
                    let message =
                        format!("`{before}` is a single value: there is no `{word}` in it");
                    return Err(PathError::new(message));
                }
            };
            level = Level::of(kind);
        }
        Ok(PathSelector { ids, rows: None })
    }

    fn member_named<'c>(
        &self,
        members: &'c [Component],
        word: &str,
    ) -> Result<&'c Component, PathError> {
        let named = members.iter().find(|member| member.name == word);
        let found = named.or_else(|| member(members, word.parse().ok()?));
        found.ok_or_else(|| {
            let near = did_you_mean(nearest(word, members.iter().map(|m| m.name.as_str())));
            let of = self.short_name();
            PathError::new(format!("there is no component `{word}` in {of}{near}"))
        })
    }
}

/// The words after a row that a key selects. The value of a map needs no name, so the word `value` is inserted.
fn below<'w>(array: &Array, words: &[&'w str], at: usize) -> Vec<&'w str> {
    let rest = &words[at + 1..];
    if array.is_map() && rest.first() != Some(&"name") && rest.first() != Some(&"value") {
        [&["value"], rest].concat()
    } else {
        rest.to_vec()
    }
}

/// Parses a range of rows such as `0-99`.
fn range(word: &str) -> Option<Selector> {
    let (first, last) = word.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    Some(Selector::Range { first, last })
}

/// Parses a key: `field=value`, with commas between several fields, or only the value if the key has one field.
fn key(array: &Array, word: &str) -> Result<Selector, PathError> {
    let given: Vec<(&str, &str)> = word
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .collect();
    let names = |fields: &[Vec<u32>]| -> Vec<String> {
        fields
            .iter()
            .map(|field| field_name(array, field))
            .collect()
    };
    for key in &array.keys {
        let names = names(&key.fields);
        let texts: Option<Vec<&str>> = names
            .iter()
            .map(|name| {
                given
                    .iter()
                    .find(|(field, _)| field == name)
                    .map(|(_, text)| *text)
            })
            .collect();
        let texts = match (texts, names.len()) {
            (Some(texts), fields) if given.len() == fields => texts,
            (_, 1) if given.is_empty() || array.is_map() => vec![word],
            _ => continue,
        };
        let kinds = key.fields.iter().filter_map(|field| array.field(field));
        let parsed = kinds
            .zip(texts)
            .map(|(kind, text)| value::parse(kind, text));
        let values = value::key_bytes(array, key.id, &parsed.collect::<Result<Vec<_>, _>>()?)?;
        return Ok(Selector::Key { id: key.id, values });
    }
    let keys: Vec<_> = array
        .keys
        .iter()
        .map(|key| {
            names(&key.fields)
                .iter()
                .map(|name| format!("{name}=.."))
                .collect::<Vec<_>>()
                .join(",")
        })
        .collect();
    Err(PathError::new(if keys.is_empty() {
        format!("`{word}` must be the index of a row, from 0")
    } else {
        format!(
            "`{word}` must be the index of a row, from 0, or the content of a key: {}",
            keys.join(" or ")
        )
    }))
}

/// Name of a field of a key, with dots between members.
fn field_name(array: &Array, field: &[u32]) -> String {
    let (mut kind, mut names) = (&array.element, Vec::new());
    for id in field {
        let Some(part) = member(kind.members(), *id) else {
            break;
        };
        names.push(part.name.as_str());
        kind = &part.kind;
    }
    if names.is_empty() {
        "*".to_owned()
    } else {
        names.join(".")
    }
}

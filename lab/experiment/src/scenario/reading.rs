//! Values that depend on how a paper is read, files that extend others, and values as JSON.

use serde_json::Value as Json;
use weir_base::setting::Scalar;
use weir_config::{ConfigError, Node, Value};

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

/// `base` extended by `over`: tables are merged key by key, and everything else is replaced. New keys come last.
pub(super) fn extended(base: Node, over: Node) -> Node {
    let is_whole = base.entry(CALIBRATED).is_some() || over.entry(CALIBRATED).is_some();
    let (mut entries, more) = match (base.value, over.value) {
        (Value::Table(entries), Value::Table(more)) if !is_whole => (entries, more),
        (_, value) => {
            let origin = over.origin;
            return Node { value, origin };
        }
    };
    for (key, node) in more {
        match entries.iter().position(|(known, _)| *known == key) {
            Some(place) => {
                let (key, below) = entries.remove(place);
                entries.insert(place, (key, extended(below, node)));
            }
            None => entries.push((key, node)),
        }
    }
    Node {
        value: Value::Table(entries),
        origin: over.origin,
    }
}

/// Replaces each `{ calibrated = .., printed = .. }` by the value of the reading, or by the calibrated value if the
/// reading has no value. Without `printed`, the reading `Printed` removes the key.
pub(super) fn choose(node: &mut Node, reading: Reading) -> Result<(), ConfigError> {
    match &mut node.value {
        Value::Scalar(_) => {}
        Value::List(items) => items.iter_mut().try_for_each(|n| choose(n, reading))?,
        Value::Table(entries) => {
            for (key, mut node) in std::mem::take(entries) {
                let Some(calibrated) = node.entry(CALIBRATED) else {
                    choose(&mut node, reading)?;
                    entries.push((key, node));
                    continue;
                };
                check_calibrated(&key, &node)?;
                match node.entry(reading.key()) {
                    Some(own) => entries.push((key, own.clone())),
                    None if reading == Reading::Printed => {}
                    None => entries.push((key, calibrated.clone())),
                }
            }
        }
    }
    Ok(())
}

fn check_calibrated(key: &str, node: &Node) -> Result<(), ConfigError> {
    let keys = Reading::KEYS.map(|(_, key)| key);
    let more = |(name, _): &&(String, Node)| name != CALIBRATED && !keys.contains(&name.as_str());
    let Some((name, node)) = node.entries().iter().find(more) else {
        return Ok(());
    };
    let why = format!(
        "unknown key `{name}` next to `calibrated` in `{key}`; permitted keys: {}",
        keys.join(", ")
    );
    Err(ConfigError::new(node.origin.clone(), why))
}

/// A value as JSON, for results.
pub fn to_json(node: &Node) -> Json {
    match &node.value {
        Value::Scalar(Scalar::Integer(n)) => (*n).into(),
        Value::Scalar(Scalar::Real(x)) => (*x).into(),
        Value::Scalar(Scalar::Flag(on)) => (*on).into(),
        Value::Scalar(Scalar::Text(text)) => text.as_str().into(),
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Table(entries) => {
            let entries = entries
                .iter()
                .map(|(key, node)| (key.clone(), to_json(node)));
            Json::Object(entries.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Node {
        weir_config::parse("f", text).unwrap()
    }

    #[test]
    fn a_file_that_extends_another_replaces_values_and_adds_keys() {
        let base =
            "title = \"a\"\n[link.x]\nrate = 1\ndelay = 2\n[link.y]\n[[variant]]\nname = \"v\"\n";
        let over = "extra = 1\nvariant = []\n[link.z]\n[link.x]\nrate = 5\n";
        let tree = extended(parse(base), parse(over));
        let links = tree.entry("link").unwrap();
        let names: Vec<&str> = links.entries().iter().map(|(k, _)| k.as_str()).collect();
        assert_eq!(names, ["x", "y", "z"]);
        let x = links.entry("x").unwrap();
        assert_eq!(to_json(x).to_string(), r#"{"delay":2,"rate":5}"#);
        assert!(tree.entry("variant").unwrap().items().is_empty());
    }

    #[test]
    fn a_calibrated_value_has_what_was_printed_beside_it() {
        let text = "a = { calibrated = 1, printed = 2 }\nb = { calibrated = 3 }\nc = [{ d = { calibrated = 4, printed = 5 } }]\n";
        let tree = parse(text);
        let of = |reading| {
            let mut tree = tree.clone();
            choose(&mut tree, reading).unwrap();
            to_json(&tree).to_string()
        };
        assert_eq!(of(Reading::Calibrated), r#"{"a":1,"b":3,"c":[{"d":4}]}"#);
        assert_eq!(of(Reading::Printed), r#"{"a":2,"c":[{"d":5}]}"#);
        assert_eq!(of(Reading::LateStreams), of(Reading::Calibrated));
        let mut other = parse("a = { calibrated = 1, late_streams = 2 }\n");
        choose(&mut other, Reading::LateStreams).unwrap();
        assert_eq!(to_json(&other)["a"], 2);
        let more = extended(tree, parse("a = { calibrated = 7 }\nb = 8\n"));
        assert_eq!(to_json(&more)["a"].to_string(), r#"{"calibrated":7}"#);
        let mut wrong = parse("a = { calibrated = 1, print = 2 }\n");
        let error = choose(&mut wrong, Reading::Printed)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("f:1:23: unknown key `print` next to `calibrated` in `a`"),
            "{error}"
        );
    }
}

//! A discipline to compare, as written on the command line.
//!
//! ```text
//!   fq_codel                              with its defaults
//!   lru_fq:cache=128,key=source           with other settings; each KEY=VALUE as in a configuration
//!   fifo:limit=100 packets                needs quotes in a shell
//!   class_weights:classes="to 10.0.0.0/8 = 1, rest = 1"      a value with a comma has its own
//! ```

use std::str::FromStr;

use weir_base::setting::Scalar;
use weir_config::{Node, Origin, Value, parse_value, written};
use weir_discipline::spec::Spec;

use crate::scenario::plan::split_list;
use crate::scenario::source::BUILT_IN;
use crate::scenario::{Given, Override};

/// The path of the compared discipline in a scenario.
pub(super) const DISCIPLINE: &str = "link.bottleneck.discipline";
/// The list of the disciplines that can serve a bottleneck on their own.
const LIST: &str = "disciplines";

/// A discipline with its settings, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The name in tables: as written.
    pub name: String,
    /// The discipline as in a scenario: a TOML table.
    table: String,
}

impl FromStr for Candidate {
    type Err = String;

    /// Reads `KIND` or `KIND:KEY=VALUE,KEY=VALUE`. An error names the kind or the setting, and the permitted values.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (kind, settings) = match text.split_once(':') {
            Some((kind, settings)) => (kind.trim(), split_list(settings)),
            None => (text, Vec::new()),
        };
        let settings = settings.iter().map(|setting| setting_of(text, setting));
        let settings = settings.collect::<Result<Vec<_>, _>>()?;
        let given = settings.iter().map(|(key, value)| (key.as_str(), value));
        Spec::check(kind, given).map_err(|error| {
            if settings.is_empty() {
                error.to_string()
            } else {
                format!("{text}: {error}")
            }
        })?;
        let entries = settings
            .iter()
            .map(|(key, value)| format!(", {key} = {}", written(value)));
        Ok(Self {
            name: text.to_owned(),
            table: format!("{{ kind = \"{kind}\"{} }}", entries.collect::<String>()),
        })
    }
}

impl Candidate {
    /// The variant of a scenario with this discipline at the bottleneck.
    pub(super) fn variant(&self) -> Given {
        Given {
            name: self.name.clone(),
            set: vec![Override {
                path: DISCIPLINE.to_owned(),
                value: self.table.clone(),
            }],
        }
    }
}

/// Every discipline that can serve a bottleneck on its own, with its defaults: the list in
/// `scenarios/disciplines.toml`.
pub fn all() -> Vec<Candidate> {
    let list = BUILT_IN.iter().find(|(name, _)| *name == LIST);
    let tree = weir_config::parse(LIST, list.map_or("", |(_, text)| text));
    let Ok(tree) = tree else { return Vec::new() };
    let variants = tree.entry("variant").map(Node::items).unwrap_or_default();
    let name = |variant: &Node| variant.entry("name")?.text()?.parse().ok();
    variants.iter().filter_map(name).collect()
}

fn setting_of(text: &str, setting: &str) -> Result<(String, Scalar), String> {
    let example = "is not KEY=VALUE: write a discipline like lru_fq:cache=128,key=source";
    let wrong = || format!("{text}: \"{setting}\" {example}");
    let (key, value) = setting.split_once('=').ok_or_else(wrong)?;
    let (key, value) = (key.trim(), value.trim());
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if key.is_empty() || !key.chars().all(is_bare) || value.is_empty() {
        return Err(wrong());
    }
    match parse_value(value, &Origin::named(text)).map(|node| node.value) {
        Ok(Value::Scalar(scalar)) => Ok((key.to_owned(), scalar)),
        Ok(_) => Err(format!(
            "{text}: `{key}` must be one value, not a list or a table"
        )),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scenario::reading::to_json;

    fn table(text: &str) -> String {
        text.parse::<Candidate>().unwrap().table
    }

    fn error(text: &str) -> String {
        text.parse::<Candidate>().unwrap_err()
    }

    #[test]
    fn settings_are_those_of_a_configuration() {
        assert_eq!(table("fq_codel"), "{ kind = \"fq_codel\" }");
        assert_eq!(
            table(" lru_fq:cache=128, key=source"),
            "{ kind = \"lru_fq\", cache = 128, key = \"source\" }"
        );
        assert_eq!(
            table("fifo:limit=100 packets"),
            "{ kind = \"fifo\", limit = \"100 packets\" }"
        );
        let classes = "class_weights:classes=\"to 10.0.0.0/8 = 1, rest = 1\"";
        assert!(table(classes).contains("classes = \"to 10.0.0.0/8 = 1, rest = 1\""));
    }

    #[test]
    fn an_error_names_the_place_and_what_is_permitted() {
        let end = "unknown discipline `fq_codl`; did you mean `fq_codel`?";
        assert_eq!(error("fq_codl"), end);
        assert!(
            error("lru_fq:cach=1").contains("lru_fq:cach=1: "),
            "{}",
            error("lru_fq:cach=1")
        );
        assert!(error("lru_fq:cach=1").ends_with("did you mean `cache`?"));
        assert!(error("fifo:limit").contains("\"limit\" is not KEY=VALUE"));
        assert!(error("fifo:limit=[1]").contains("`limit` must be one value"));
    }

    #[test]
    fn the_list_has_every_variant_of_its_file() {
        let (_, text) = BUILT_IN.iter().find(|(name, _)| *name == LIST).unwrap();
        assert_eq!(all().len(), text.matches("name = ").count());
        assert!(all().iter().any(|candidate| candidate.name == "fq_codel"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z_]{0,6}:?[ -~]{0,40}") {
            if let Ok(candidate) = text.parse::<Candidate>() {
                let node = parse_value(&candidate.table, &Origin::named("")).unwrap();
                prop_assert!(node.entry("kind").is_some(), "{}", candidate.table);
            }
        }

        #[test]
        fn a_limit_of_any_number_arrives(limit in 1_u64..100_000) {
            let node = parse_value(&table(&format!("fifo:limit={limit}")), &Origin::named("")).unwrap();
            prop_assert_eq!(&to_json(&node)["limit"], &serde_json::Value::from(limit));
        }
    }
}

//! Queue disciplines of a scenario.

use weir_base::setting::Scalar;
use weir_discipline::Spec;

use super::key::Key;
use super::reader::Section;
use weir_config::{ConfigError, Value};

/// A queue discipline, as written and as checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Discipline {
    /// The kind.
    pub kind: String,
    /// The settings as written.
    pub settings: Vec<(String, Scalar)>,
    /// The settings as checked.
    pub spec: Spec,
}

impl Discipline {
    /// The discipline that a key of a section gives, if any.
    pub(super) fn check(
        section: &Section<'_>,
        key: &'static Key,
    ) -> Result<Option<Self>, ConfigError> {
        let Some(node) = section.find(key) else {
            return Ok(None);
        };
        if !matches!(node.value, Value::Table(_)) {
            return Err(section.error(key.name, format!("must be {}", key.form)));
        }
        let path = format!("{}.{}", section.path, key.name);
        let inner = Section::new(&path, node)?;
        let kind = inner.required_word("kind")?;
        let mut settings = Vec::new();
        for (name, node) in node.entries().iter().filter(|(name, _)| name != "kind") {
            settings.push((name.clone(), node.scalar(&inner.path_of(name))?));
        }
        let spec = Spec::check(&kind, settings.iter().map(|(n, s)| (n.as_str(), s)));
        let spec = spec.map_err(|error| {
            let about = match &error {
                weir_discipline::spec::SpecError::Setting(e) => e.name().to_owned(),
                _ => "kind".to_owned(),
            };
            ConfigError::new(inner.origin_of(&about), format!("`{path}`: {error}"))
        })?;
        Ok(Some(Self {
            kind,
            settings,
            spec,
        }))
    }
}

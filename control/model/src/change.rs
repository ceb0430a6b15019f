//! A change, the component it is about, and what may be wrong with it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::setting::{Scalar, SettingError};

use crate::Class;
use crate::operation::ResultCode;

/// The path of a component: `port.wan.discipline.cache`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentPath(Vec<String>);

/// Asks for a component to have a value, or for a block to exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which component.
    pub path: ComponentPath,
    /// Its value; none if it is a block that shall exist with every component at its default.
    pub value: Option<Scalar>,
}

/// Asks a running router for one component to have a value, as tools write it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// Which component, as `weir diff` prints it: `port.wan.discipline.limit`.
    pub path: String,
    /// Its value: a number, true or false, or a text with a unit.
    pub value: ChangeValue,
}

/// The answer to a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyReport {
    /// Whether it is in force.
    pub applied: bool,
    /// What changed, or why nothing did.
    pub messages: Vec<String>,
}

/// A value as JSON has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a text, a number, true or false")]
pub enum ChangeValue {
    /// True or false.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// A name, or a quantity with its unit.
    Text(String),
}

impl From<ChangeValue> for Scalar {
    fn from(value: ChangeValue) -> Self {
        match value {
            ChangeValue::Flag(on) => Self::Flag(on),
            ChangeValue::Integer(n) => Self::Integer(n),
            ChangeValue::Real(x) => Self::Real(x),
            ChangeValue::Text(text) => Self::Text(text),
        }
    }
}

impl From<Scalar> for ChangeValue {
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Flag(on) => Self::Flag(on),
            Scalar::Integer(n) => Self::Integer(n),
            Scalar::Real(x) => Self::Real(x),
            Scalar::Text(text) => Self::Text(text),
        }
    }
}

/// Why a change was refused. The whole set that it belongs to changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", match path.is_root() { true => String::new(), false => format!("{path}: ") })]
pub struct Fault {
    /// The component that is wrong.
    pub path: ComponentPath,
    /// The error, for a program.
    pub code: ResultCode,
    /// The error in a sentence, with the remedy.
    pub message: String,
}

impl ComponentPath {
    /// The path with these segments.
    pub fn new<S: Into<String>>(segments: impl IntoIterator<Item = S>) -> Self {
        Self(segments.into_iter().map(Into::into).collect())
    }

    /// One level down.
    pub fn join(&self, segment: &str) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment.to_owned());
        Self(segments)
    }

    /// The segments.
    pub fn segments(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    /// One level up; the root stays the root.
    pub fn parent(&self) -> Self {
        let kept = self.0.len().saturating_sub(1);
        Self(self.0[..kept].to_vec())
    }

    /// Whether this is the whole router.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl Change {
    /// A change of one component.
    pub fn new(path: ComponentPath, value: Scalar) -> Self {
        Self {
            path,
            value: Some(value),
        }
    }

    /// A block that shall exist.
    pub fn block(path: ComponentPath) -> Self {
        Self { path, value: None }
    }
}

impl Fault {
    /// A fault of one component: its value contradicts something else.
    pub fn new(path: ComponentPath, message: impl fmt::Display) -> Self {
        Self {
            path,
            code: ResultCode::InvalidParameters,
            message: message.to_string(),
        }
    }

    /// The same with another code.
    pub fn code(self, code: ResultCode) -> Self {
        Self { code, ..self }
    }

    /// A parameter of the block at `path`, which is of this class, is refused.
    pub fn of_setting(path: &ComponentPath, class: &Class, error: &SettingError) -> Self {
        let is_component = |name: &str| class.all().iter().any(|c| c.name == name);
        let code = match error {
            SettingError::Unknown { name, .. } if is_component(name) => ResultCode::ReadOnly,
            SettingError::Unknown { .. } => ResultCode::InvalidPath,
            SettingError::NotPermitted { .. } => ResultCode::ValueOutOfRange,
            SettingError::Contradiction { .. } => ResultCode::InvalidParameters,
        };
        Self::new(path.join(error.name()), error).code(code)
    }
}

impl fmt::Display for ComponentPath {
    /// As in TOML: a segment that is not a bare key is quoted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, segment) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str(".")?;
            }
            let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if !segment.is_empty() && segment.chars().all(bare) {
                f.write_str(segment)?;
            } else {
                write!(f, "{segment:?}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_prints_as_toml_writes_it() {
        let path = ComponentPath::new(["port", "eth0.100", "rate"]);
        assert_eq!(path.to_string(), "port.\"eth0.100\".rate");
        assert_eq!(path.parent().to_string(), "port.\"eth0.100\"");
        assert!(path.parent().parent().parent().parent().is_root());
    }

    #[test]
    fn a_fault_of_the_whole_file_names_no_path() {
        let whole = Fault::new(ComponentPath::default(), "no port is configured");
        assert_eq!(whole.to_string(), "no port is configured");
        let rate = ComponentPath::new(["port", "wan", "rate"]);
        assert_eq!(
            Fault::new(rate, "too slow").to_string(),
            "port.wan.rate: too slow"
        );
    }
}

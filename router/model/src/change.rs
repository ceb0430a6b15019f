//! A change of a component, and the answer to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_base::setting::Scalar;

use crate::ComponentPath;

/// A request to set a component, or to create a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Path of the component or block.
    pub path: ComponentPath,
    /// Value of the component; `None` creates a block with every component at its default.
    pub value: Option<Scalar>,
}

/// Sets one component of a running router.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// Path of the component, as `weir diff` prints it: `port.wan.discipline.limit`.
    pub path: String,
    /// Value: a number, a boolean, or a string with a unit.
    pub value: ChangeValue,
}

/// Deletes a port of a running router, or resets a component to its default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    /// Path of the port, discipline or component: `port.guest`, `port.wan.discipline`, `port.wan.rate`.
    pub path: String,
}

/// The answer to a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApplyReport {
    /// Whether the request was applied.
    pub applied: bool,
    /// The changes, or the reasons why nothing changed.
    pub messages: Vec<String>,
}

/// A value in JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be a string, a number or a boolean")]
pub enum ChangeValue {
    /// A boolean.
    Flag(bool),
    /// An integer.
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

impl Change {
    /// A change of one component.
    pub fn new(path: ComponentPath, value: Scalar) -> Self {
        Self {
            path,
            value: Some(value),
        }
    }

    /// A change that creates a block with default values.
    pub fn block(path: ComponentPath) -> Self {
        Self { path, value: None }
    }
}

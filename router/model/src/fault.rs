//! Why an operation is refused: a result code for a program, and a sentence for a person.

use std::fmt;

use weir_base::setting::SettingError;

use crate::{Class, ComponentPath};

/// The result codes of RFC 5810 (appendix A.5) with which an operation can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ResultCode {
    /// E_LFB_INSTANCE_ID_NOT_FOUND: the class has no instance of this name.
    InstanceNotFound = 0x07,
    /// E_INVALID_PATH: the class has no such component.
    InvalidPath = 0x08,
    /// E_EXISTS: the thing to create exists already.
    Exists = 0x0A,
    /// E_READ_ONLY: the component can be read, but not set.
    ReadOnly = 0x0C,
    /// E_VALUE_OUT_OF_RANGE: the value has the wrong type or is outside the range.
    ValueOutOfRange = 0x0E,
    /// E_INVALID_PARAMETERS: values contradict each other.
    InvalidParameters = 0x10,
    /// E_INTERNAL_ERROR: the request is permitted, but the machine failed to carry it out.
    InternalError = 0x17,
    /// E_BUSY: the router is overloaded or stopping.
    Busy = 0x1E,
}

/// Why a change was refused. No change of the same set takes effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if path.is_root() || *names_place { String::new() } else { format!("{path}: ") })]
pub struct Fault {
    /// The component that is wrong.
    pub path: ComponentPath,
    /// The error, for a program.
    pub code: ResultCode,
    /// The error in a sentence, with the remedy.
    pub message: String,
    /// Whether the message itself names the place, so that the path is not printed.
    pub names_place: bool,
}

impl Fault {
    /// A fault of one component: its value contradicts something else.
    pub fn new(path: ComponentPath, message: impl fmt::Display) -> Self {
        Self {
            path,
            code: ResultCode::InvalidParameters,
            message: message.to_string(),
            names_place: false,
        }
    }

    /// A fault of the whole router: the machine failed, or refused.
    pub fn of_machine(message: impl fmt::Display) -> Self {
        Self::new(ComponentPath::default(), message).code(ResultCode::InternalError)
    }

    /// Declares that the message names the place itself.
    pub fn naming_place(self) -> Self {
        Self {
            names_place: true,
            ..self
        }
    }

    /// Sets the code.
    pub fn code(self, code: ResultCode) -> Self {
        Self { code, ..self }
    }

    /// The fault of a refused parameter of the block at `path`, which has this class.
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

#[cfg(test)]
mod tests {
    use super::*;

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

//! Errors in a library.

use std::fmt;

use super::{BYTES_MAX, NESTING_MAX};

/// An error in a library, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlError {
    /// Line number, starting at 1.
    pub line: u32,
    /// The fault.
    pub fault: Fault,
}

/// A fault in a library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The library is too long.
    #[error("the library has {0} bytes, but may have at most {BYTES_MAX}")]
    TooLong(usize),
    /// The text is not XML.
    #[error("{0}")]
    NotXml(String),
    /// The document is not a library.
    #[error(
        "the document is `{0}`, but must be LFBLibrary in the namespace of RFC 5812 or RFC 7408"
    )]
    NoLibrary(String),
    /// An element in a place where it is not permitted.
    #[error("`{found}` is not permitted in `{within}`, which may contain {permitted}")]
    Unexpected {
        /// The element.
        found: String,
        /// The enclosing element.
        within: String,
        /// The elements permitted there.
        permitted: String,
    },
    /// An element that occurs too often, or alternatives that exclude each other.
    #[error("`{within}` has more than one {what}")]
    Twice {
        /// The enclosing element.
        within: String,
        /// The element or the alternatives.
        what: &'static str,
    },
    /// A required part is missing.
    #[error("`{within}` has no {what}")]
    Missing {
        /// The element that lacks the part.
        within: String,
        /// The missing part.
        what: &'static str,
    },
    /// A value is not permitted.
    #[error("{what} is `{found}`, but must be {permitted}")]
    Value {
        /// The name of the value.
        what: &'static str,
        /// The value found.
        found: String,
        /// The permitted values.
        permitted: &'static str,
    },
    /// Two declarations have the same ID or name.
    #[error("{what} {value} is declared twice")]
    Repeated {
        /// The kind of ID or name.
        what: &'static str,
        /// The ID or name.
        value: String,
    },
    /// Types are nested too deeply.
    #[error("types are nested deeper than {NESTING_MAX}")]
    Nesting,
    /// A class has too many parts.
    #[error("the class has more than {0} components, members and tables")]
    TooManyParts(usize),
    /// A name is used but not declared.
    #[error("there is no {what} `{name}`{}", hint(.loads))]
    Undeclared {
        /// The kind of declaration that is missing.
        what: &'static str,
        /// The undeclared name.
        name: String,
        /// The loaded libraries, which might have declared it.
        loads: Vec<String>,
    },
    /// A type that contains itself.
    #[error("the type `{0}` contains itself")]
    Endless(String),
}

fn hint(loads: &[String]) -> String {
    match loads {
        [] => String::new(),
        loads => format!(" here or in the loaded libraries: {}", loads.join(", ")),
    }
}

impl fmt::Display for XmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.fault)
    }
}

impl std::error::Error for XmlError {}

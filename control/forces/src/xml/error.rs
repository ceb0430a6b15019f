//! What can be wrong with a library.

use std::fmt;

use super::{BYTES_MAX, NESTING_MAX};

/// What is wrong with a library, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlError {
    /// The line, from 1 on.
    pub line: u32,
    /// What is wrong there.
    pub fault: Fault,
}

/// What can be wrong with a library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It is longer than may be.
    #[error("the library has {0} bytes, but may have {BYTES_MAX} at most")]
    TooLong(usize),
    /// It is no XML.
    #[error("{0}")]
    NotXml(String),
    /// It is another document.
    #[error(
        "the document is `{0}`, but must be LFBLibrary in the namespace of RFC 5812 or RFC 7408"
    )]
    NoLibrary(String),
    /// An element where it cannot be.
    #[error("`{found}` within `{within}`, which may have {permitted}")]
    Unexpected {
        /// Which one.
        found: String,
        /// Within which one.
        within: String,
        /// What is permitted there.
        permitted: String,
    },
    /// An element that occurs too often, or alternatives that occur together.
    #[error("`{within}` has more than one {what}")]
    Twice {
        /// Within which one.
        within: String,
        /// What there is too often.
        what: &'static str,
    },
    /// Something is missing.
    #[error("`{within}` has no {what}")]
    Missing {
        /// Where.
        within: String,
        /// What.
        what: &'static str,
    },
    /// A value is not one of those that are permitted.
    #[error("{what} is `{found}`, but must be {permitted}")]
    Value {
        /// Of what.
        what: &'static str,
        /// What is there.
        found: String,
        /// What is permitted.
        permitted: &'static str,
    },
    /// Two things have the same ID or name.
    #[error("{what} {value} is declared twice")]
    Repeated {
        /// The ID or name of what.
        what: &'static str,
        /// Which one.
        value: String,
    },
    /// Types are nested too deep.
    #[error("types are nested deeper than {NESTING_MAX}")]
    Nesting,
    /// Something is named that is not declared.
    #[error("there is no {what} `{name}`{}", hint(.loads))]
    Undeclared {
        /// What it should be.
        what: &'static str,
        /// Its name.
        name: String,
        /// The libraries that are loaded, in which it might be.
        loads: Vec<String>,
    },
    /// A type that contains itself.
    #[error("the type `{0}` contains itself")]
    Endless(String),
}

fn hint(loads: &[String]) -> String {
    match loads {
        [] => String::new(),
        loads => format!(
            " here, nor in the libraries that are loaded: {}",
            loads.join(", ")
        ),
    }
}

impl fmt::Display for XmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.fault)
    }
}

impl std::error::Error for XmlError {}

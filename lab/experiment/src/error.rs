//! The errors of a run, with their messages.

use std::io;

use weir_config::ConfigError;
use weir_live::namespace::PrivilegeError;

use crate::habitat::Habitat;

/// The reason why a run gave no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ConfigError),
    /// The scenario is valid, but this habitat cannot run it.
    #[error("the {} cannot run this: {why}", on.noun())]
    Unsupported {
        /// The habitat.
        on: Habitat,
        /// The reason, and a habitat that can run it.
        why: String,
    },
    /// The scenario is valid, but its network cannot be built.
    #[error("cannot build this network: {0}")]
    Network(String),
    /// This process may not create namespaces.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// A program that the lab runs failed.
    #[error("{what} failed{}{output}", if output.is_empty() { "" } else { ": " })]
    Program {
        /// The program, and where it ran.
        what: String,
        /// The program's standard error.
        output: String,
    },
    /// A system call failed.
    #[error("{doing}: {source}")]
    Io {
        /// The action that failed.
        doing: String,
        /// The error of the system call.
        source: io::Error,
    },
    /// The user pressed Ctrl-C.
    #[error("interrupted; all started processes were stopped")]
    Interrupted,
}

impl Error {
    /// An input or output error while `doing` something; for `map_err`.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// The error that the habitat cannot run the scenario, with the reason.
    pub fn unsupported(on: Habitat, why: impl Into<String>) -> Self {
        let why = why.into();
        Self::Unsupported { on, why }
    }

    /// Whether the user's input is at fault, not the run.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Scenario(_) | Self::Unsupported { .. } | Self::Network(_)
        )
    }
}

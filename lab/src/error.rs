//! The errors of a run, in sentences.

use std::io;

use weir_live::namespace::PrivilegeError;

use crate::options::Habitat;
use crate::scenario::ScenarioError;

/// Why a run did not give a result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The scenario is right, but this habitat cannot do it.
    #[error("the {} cannot run this: {why}", on.noun())]
    Unsupported {
        /// Which habitat.
        on: Habitat,
        /// Why, and what could.
        why: String,
    },
    /// The scenario is right, but it is no network.
    #[error("this network cannot be laid out: {0}")]
    Network(String),
    /// This process may not make namespaces.
    #[error(transparent)]
    Privilege(#[from] PrivilegeError),
    /// A program that the lab runs failed.
    #[error("{what} failed{}{output}", if output.is_empty() { "" } else { ": " })]
    Program {
        /// Which, and where.
        what: String,
        /// Its standard error.
        output: String,
    },
    /// The system refused something.
    #[error("{doing}: {source}")]
    Io {
        /// The action that failed.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The user pressed Ctrl-C.
    #[error("interrupted; everything that was started has been ended")]
    Interrupted,
}

impl Error {
    /// An input or output error while `doing` something; for `map_err`.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// That the habitat cannot run the scenario, and why.
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

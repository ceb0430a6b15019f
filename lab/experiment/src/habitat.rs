//! Where a scenario runs.

use serde::Deserialize;

/// The habitat of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Habitat {
    /// Simulation: virtual time, modelled TCP and UDP; the same seed gives the same run
    #[default]
    Sim,
    /// Lab: network namespaces, real TCP stacks, real packets
    Lab,
}

impl Habitat {
    /// The noun for it in a sentence.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Sim => "simulator",
            Self::Lab => "lab",
        }
    }

    /// The word for it in a result.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Lab => "lab",
        }
    }
}

//! The closed list of disciplines, and the parameters of each.
//!
//! A [`Spec`] is a checked configuration: building it cannot fail.

use weir_base::setting::{Scalar, SettingError, Settings, nearest};
use weir_base::{Instant, Streams};

use crate::contract::{Discipline, Manual, SpecMismatch};
use crate::fifo;

/// A discipline with its parameters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Spec {
    /// First in, first out.
    Fifo(fifo::Params),
}

/// The manual page of every discipline, by name.
pub const MANUALS: &[&Manual] = &[&fifo::MANUAL];

/// Why a discipline's configuration was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// There is no such discipline.
    #[error("there is no discipline `{kind}`{}", nearest.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default())]
    UnknownKind {
        /// As written.
        kind: String,
        /// The most similar name.
        nearest: Option<&'static str>,
    },
    /// One of its settings is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

impl Spec {
    /// Checks the configuration of the discipline `kind`.
    pub fn check<'a>(
        kind: &str,
        given: impl IntoIterator<Item = (&'a str, &'a Scalar)>,
    ) -> Result<Self, SpecError> {
        let manual = manual(kind).ok_or_else(|| SpecError::UnknownKind {
            kind: kind.to_owned(),
            nearest: nearest(kind, MANUALS.iter().map(|m| m.name)),
        })?;
        let settings = Settings::check(manual.parameters, given)?;
        Ok(match kind {
            "fifo" => Self::Fifo(fifo::Params::new(&settings)),
            _ => unreachable!("{kind} has a manual but no parameters"),
        })
    }

    /// The discipline's manual page.
    pub fn manual(&self) -> &'static Manual {
        match self {
            Self::Fifo(_) => &fifo::MANUAL,
        }
    }

    /// The discipline's name.
    pub fn kind(&self) -> &'static str {
        self.manual().name
    }

    /// Every parameter with its value, for showing.
    pub fn settings(&self) -> Settings {
        match self {
            Self::Fifo(params) => params.settings(),
        }
    }

    /// Packets that the discipline may hold at most: the sum over all ports must fit the pool.
    pub fn limit(&self) -> usize {
        match self {
            Self::Fifo(params) => params.limit,
        }
    }

    /// Builds the discipline, empty. Each user of chance owns a stream below `streams`.
    pub fn build(&self, _now: Instant, _streams: &Streams) -> Box<dyn Discipline> {
        match self {
            Self::Fifo(params) => Box::new(fifo::Fifo::new(params.clone())),
        }
    }

    /// The error of [`Discipline::reconfigure`] when these parameters meet another kind.
    pub fn mismatch(&self, in_place: &'static str) -> SpecMismatch {
        SpecMismatch {
            in_place,
            offered: self.kind(),
        }
    }
}

/// The manual page of the discipline `kind`.
pub fn manual(kind: &str) -> Option<&'static Manual> {
    MANUALS.iter().find(|m| m.name == kind).copied()
}

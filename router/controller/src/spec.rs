//! The closed list of controllers.
//!
//! A [`Spec`] is a checked configuration: building it cannot fail.

use weir_base::setting::{Scalar, SettingError, Settings, did_you_mean, nearest};

use crate::backpressure;
use crate::contract::{Controller, Kind, Manual};
use crate::flow_control;

/// All kinds of controllers.
pub const KINDS: &[&Kind] = &[&backpressure::KIND, &flow_control::KIND];

/// A controller with its parameters.
#[derive(Clone)]
pub struct Spec {
    kind: &'static Kind,
    settings: Settings,
}

/// Why a controller's configuration was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// The controller does not exist.
    #[error("there is no controller `{kind}`{}", did_you_mean(*nearest))]
    UnknownKind {
        /// Name as written.
        kind: String,
        /// The most similar name.
        nearest: Option<&'static str>,
    },
    /// A role has too few queues, or too many.
    #[error("`{role}` has {given} queues, but must have from {} to {}", permitted[0], permitted[1])]
    Queues {
        /// The role.
        role: &'static str,
        /// Number of queues given.
        given: usize,
        /// Minimum and maximum number of queues.
        permitted: [usize; 2],
    },
    /// A setting is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// The manual page of the controller `kind`.
pub fn manual(kind: &str) -> Result<&'static Manual, SpecError> {
    find(kind).map(|kind| &kind.manual)
}

fn find(kind: &str) -> Result<&'static Kind, SpecError> {
    let known = KINDS.iter().find(|known| known.manual.name == kind);
    known.copied().ok_or_else(|| SpecError::UnknownKind {
        kind: kind.to_owned(),
        nearest: nearest(kind, KINDS.iter().map(|known| known.manual.name)),
    })
}

impl Spec {
    /// Checks the configuration of the controller `kind`, with these numbers of queues for its roles.
    pub fn check<'a>(
        kind: &str,
        queues: &[usize],
        given: impl IntoIterator<Item = (&'a str, &'a Scalar)>,
    ) -> Result<Self, SpecError> {
        let kind = find(kind)?;
        for (role, given) in kind.manual.roles.iter().zip(queues) {
            let [least, most] = role.queues;
            if !(least..=most).contains(given) {
                return Err(SpecError::Queues {
                    role: role.name,
                    given: *given,
                    permitted: role.queues,
                });
            }
        }
        let settings = Settings::check(kind.manual.parameters, given)?;
        (kind.build)(&settings)?;
        Ok(Self { kind, settings })
    }

    /// Builds the controller in its initial state, without queues.
    pub fn build(&self) -> Box<dyn Controller> {
        match (self.kind.build)(&self.settings) {
            Ok(controller) => controller,
            Err(error) => unreachable!("checked before: {error}"),
        }
    }

    /// The manual page.
    pub fn manual(&self) -> &'static Manual {
        &self.kind.manual
    }

    /// All parameters with their values, for display.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.kind.manual.name == other.kind.manual.name && self.settings == other.settings
    }
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(self.kind.manual.name)
            .field("settings", &self.settings)
            .finish()
    }
}

//! The closed list of controllers.
//!
//! A [`Spec`] is a checked configuration: building it cannot fail.

use weir_base::setting::{Scalar, SettingError, Settings, did_you_mean, nearest};

use crate::backpressure;
use crate::contract::{Controller, Kind, Manual};
use crate::flow_control;

/// Every kind of controller.
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
    /// There is no such controller.
    #[error("there is no controller `{kind}`{}", did_you_mean(*nearest))]
    UnknownKind {
        /// As written.
        kind: String,
        /// The most similar name.
        nearest: Option<&'static str>,
    },
    /// A role has too few queues, or too many.
    #[error("`{role}` has {given} queues, but must have from {} to {}", permitted[0], permitted[1])]
    Queues {
        /// The role.
        role: &'static str,
        /// How many there are.
        given: usize,
        /// Least and greatest number.
        permitted: [usize; 2],
    },
    /// One of its settings is wrong.
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
    /// Checks the configuration of the controller `kind`, with this many queues in each role.
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

    /// Builds the controller at its beginning, without queues.
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

    /// Every parameter with its value, for showing.
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

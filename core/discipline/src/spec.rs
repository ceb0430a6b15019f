//! A discipline's configuration, checked: building from it cannot fail.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use weir_base::setting::{Scalar, SettingError, Settings, nearest};
use weir_base::{Instant, Streams};
use weir_packet::Queue;

use crate::KINDS;
use crate::contract::{Checked, Configured, Discipline, Erased, Kind, Manual};
use crate::fair::class_weights::ClassWeights;

/// A kind of discipline with its settings.
#[derive(Clone)]
pub struct Spec {
    kind: &'static Kind,
    settings: Settings,
    limit: usize,
    checked: Arc<dyn Erased>,
}

/// Why a discipline's configuration was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// No discipline has this name.
    #[error("unknown discipline `{kind}`; {}", remedy(kind, *nearest))]
    UnknownKind {
        /// The name as written.
        kind: String,
        /// The most similar name.
        nearest: Option<&'static str>,
    },
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// Linux queue disciplines that weir lacks, and former names of weir's own disciplines, each with the
/// nearest discipline here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("bfifo", "the closest discipline is `fifo`"),
    ("fq", "the closest discipline is `fq_codel`"),
    ("fq_pie", "the closest discipline is `fq_codel`"),
    (
        "htb",
        "the port's `rate` shapes, and `class_weights` divides the link between classes",
    ),
    ("netem", "the closest discipline is `impair`"),
    ("pfifo", "the closest discipline is `fifo`"),
    ("pfifo_fast", "the closest discipline is `fifo`"),
    ("pie", "the closest discipline is `codel`"),
    ("prio", "the closest discipline is `class_weights`"),
    (
        "probabilistic_priority",
        "write kind = \"dppbrb\" and adapt = false",
    ),
    ("tbf", "the port's `rate` shapes, with any discipline"),
];

/// The remedy for the name of a kind that does not exist.
fn remedy(kind: &str, nearest: Option<&str>) -> String {
    let known = ELSEWHERE.iter().find(|(name, _)| *name == kind);
    match (known, nearest) {
        (Some((_, advice)), _) => (*advice).to_owned(),
        (None, Some(near)) => format!("did you mean `{near}`?"),
        (None, None) => {
            let names: Vec<_> = KINDS.iter().map(|known| known.manual.name).collect();
            format!("known disciplines: {}", names.join(", "))
        }
    }
}

impl Spec {
    /// Checks the configuration of the discipline `kind`.
    pub fn check<'a>(
        kind: &str,
        given: impl IntoIterator<Item = (&'a str, &'a Scalar)>,
    ) -> Result<Self, SpecError> {
        let known = KINDS.iter().find(|known| known.manual.name == kind);
        let known = known.ok_or_else(|| SpecError::UnknownKind {
            kind: kind.to_owned(),
            nearest: match ELSEWHERE.iter().any(|(name, _)| *name == kind) {
                true => None, // a known name is not a typo
                false => nearest(kind, KINDS.iter().map(|known| known.manual.name)),
            },
        })?;
        Self::of(known, Settings::check(known.manual.parameters, given)?)
    }

    /// A copy with other values of some parameters.
    pub fn with<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, &'a Scalar)>,
    ) -> Result<Self, SpecError> {
        let table = self.kind.manual.parameters;
        let mut settings = self.settings.clone();
        for (name, value) in given {
            settings.set(table, name, value)?;
        }
        Self::of(self.kind, settings)
    }

    /// Whether the discipline has a separate queue for packets that a forwarding rule assigns to `queue`.
    pub fn has_queue(&self, queue: Queue) -> bool {
        let params = self.params::<ClassWeights>();
        params.is_some_and(|params| params.classes.have(queue))
    }

    fn of(kind: &'static Kind, settings: Settings) -> Result<Self, SpecError> {
        let (limit, checked) = (kind.check)(&settings)?;
        Ok(Self {
            kind,
            settings,
            limit,
            checked,
        })
    }

    /// The discipline's manual page.
    pub fn manual(&self) -> &'static Manual {
        &self.kind.manual
    }

    /// The discipline's name.
    pub fn kind(&self) -> &'static str {
        self.kind.manual.name
    }

    /// Whether the discipline stores flow keys.
    pub fn knows_flows(&self) -> bool {
        self.kind.knows_flows
    }

    /// Every parameter with its value.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Maximum packets that the discipline holds; the sum over all ports must fit in the pool.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The parameters, if they are of the discipline `D`.
    pub fn params<D: Configured>(&self) -> Option<&D::Params> {
        let checked: &dyn Any = &*self.checked;
        checked.downcast_ref().map(|Checked::<D>(params)| params)
    }

    /// Builds the discipline, empty. Each user of randomness owns a stream below `streams`.
    pub fn build(&self, now: Instant, streams: &Streams) -> Box<dyn Discipline> {
        self.checked.build(now, streams)
    }

    /// Applies the parameters to a discipline of their kind, which keeps its state; `false` if it is of another kind.
    pub fn apply(&self, discipline: &mut dyn Discipline, now: Instant) -> bool {
        self.checked.apply(discipline, now)
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        (self.kind(), &self.settings) == (other.kind(), &other.settings)
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind(), self.settings)
    }
}

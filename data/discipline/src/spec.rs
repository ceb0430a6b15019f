//! The closed list of disciplines, and the parameters of each.
//!
//! A [`Spec`] is a checked configuration: building it cannot fail.

use weir_base::setting::{Scalar, SettingError, Settings, nearest};
use weir_base::{Instant, Streams};

use crate::admission::{afan, fan, pdrr, pfq};
use crate::aqm::{codel, red, refill};
use crate::channel::{dppbrb, probabilistic_priority, token_bucket};
use crate::contract::{Discipline, Manual, SpecMismatch};
use crate::fair::{class_weights, drr, fq_codel, host_fair, sfq, stfq};
use crate::flow::lru_fq;
use crate::{fifo, impair};

/// A discipline with its parameters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Spec {
    /// Approximate flow-aware networking.
    Afan(afan::Params),
    /// Admission control in front of a scheduler.
    Fan(fan::Params),
    /// First in, first out.
    Fifo(fifo::Params),
    /// A queue for each class of traffic.
    ClassWeights(class_weights::Params),
    /// Controlled delay (RFC 8289).
    Codel(codel::Params),
    /// Dynamic probabilistic priority between control and redirect messages.
    Dppbrb(dppbrb::Params),
    /// Deficit round robin.
    Drr(drr::Params),
    /// Flow queues with controlled delay (RFC 8290).
    FqCodel(fq_codel::Params),
    /// Fair between hosts.
    HostFair(host_fair::Params),
    /// An emulated link.
    Impair(impair::Params),
    /// A flow cache over two queues.
    LruFq(lru_fq::Params),
    /// A set share for control messages.
    ProbabilisticPriority(probabilistic_priority::Params),
    /// Priority deficit round robin.
    Pdrr(pdrr::Params),
    /// Priority fair queueing.
    Pfq(pfq::Params),
    /// Random early detection.
    Red(red::Params),
    /// The ingress queue of RS-RED.
    Refill(refill::Params),
    /// Stochastic fairness queueing.
    Sfq(sfq::Params),
    /// Start-time fair queueing.
    Stfq(stfq::Params),
    /// Limited redirect messages.
    TokenBucket(token_bucket::Params),
}

/// The manual page of every discipline, by name.
pub const MANUALS: &[&Manual] = &[
    &fifo::MANUAL,
    &class_weights::MANUAL,
    &codel::MANUAL,
    &dppbrb::MANUAL,
    &drr::MANUAL,
    &fq_codel::MANUAL,
    &host_fair::MANUAL,
    &impair::MANUAL,
    &lru_fq::MANUAL,
    &probabilistic_priority::MANUAL,
    &red::MANUAL,
    &refill::MANUAL,
    &sfq::MANUAL,
    &stfq::MANUAL,
    &afan::MANUAL,
    &token_bucket::MANUAL,
    &pfq::MANUAL,
    &pdrr::MANUAL,
    &fan::MANUAL,
];

/// Why a discipline's configuration was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// There is no such discipline.
    #[error("there is no discipline `{kind}`; {}", remedy(kind, *nearest))]
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

/// Queue disciplines that Linux has and weir has not, and what does the same job here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("bfifo", "`fifo` is nearest to it"),
    (
        "cake",
        "`host_fair` (fair between hosts, then flows) and `fq_codel` are nearest to it; the port's `rate` shapes",
    ),
    ("fq", "`fq_codel` is nearest to it"),
    ("fq_pie", "`fq_codel` is nearest to it"),
    (
        "htb",
        "the port's `rate` shapes, and `class_weights` divides the link between classes",
    ),
    ("netem", "`impair` is nearest to it"),
    ("pfifo", "`fifo` is nearest to it"),
    ("pfifo_fast", "`fifo` is nearest to it"),
    ("pie", "`codel` is nearest to it"),
    ("prio", "`class_weights` is nearest to it"),
    ("tbf", "the port's `rate` shapes, with any discipline"),
];

/// What to write instead of a kind that there is not.
fn remedy(kind: &str, nearest: Option<&str>) -> String {
    let known = ELSEWHERE.iter().find(|(name, _)| *name == kind);
    match (known, nearest) {
        (Some((_, advice)), _) => (*advice).to_owned(),
        (None, Some(near)) => format!("did you mean `{near}`?"),
        (None, None) => {
            let mut names: Vec<_> = MANUALS.iter().map(|m| m.name).collect();
            names.sort_unstable();
            format!("there are {}", names.join(", "))
        }
    }
}

impl Spec {
    /// Checks the configuration of the discipline `kind`.
    pub fn check<'a>(
        kind: &str,
        given: impl IntoIterator<Item = (&'a str, &'a Scalar)>,
    ) -> Result<Self, SpecError> {
        let manual = manual(kind).ok_or_else(|| SpecError::UnknownKind {
            kind: kind.to_owned(),
            nearest: match ELSEWHERE.iter().any(|(name, _)| *name == kind) {
                true => None, // a name that is right elsewhere is no slip
                false => nearest(kind, MANUALS.iter().map(|m| m.name)),
            },
        })?;
        let settings = Settings::check(manual.parameters, given)?;
        Ok(match kind {
            "fifo" => Self::Fifo(fifo::Params::new(&settings)),
            "class_weights" => Self::ClassWeights(class_weights::Params::new(&settings)?),
            "codel" => Self::Codel(codel::Params::new(&settings)?),
            "dppbrb" => Self::Dppbrb(dppbrb::Params::new(&settings)?),
            "drr" => Self::Drr(drr::Params::new(&settings)),
            "fq_codel" => Self::FqCodel(fq_codel::Params::new(&settings)?),
            "host_fair" => Self::HostFair(host_fair::Params::new(&settings)?),
            "impair" => Self::Impair(impair::Params::new(&settings)?),
            "lru_fq" => Self::LruFq(lru_fq::Params::new(&settings)?),
            "probabilistic_priority" => {
                Self::ProbabilisticPriority(probabilistic_priority::Params::new(&settings))
            }
            "red" => Self::Red(red::Params::new(&settings)?),
            "refill" => Self::Refill(refill::Params::new(&settings)?),
            "sfq" => Self::Sfq(sfq::Params::new(&settings)),
            "stfq" => Self::Stfq(stfq::Params::new(&settings)),
            "afan" => Self::Afan(afan::Params::new(&settings)?),
            "token_bucket" => Self::TokenBucket(token_bucket::Params::new(&settings)),
            "pfq" => Self::Pfq(pfq::Params::new(&settings)),
            "pdrr" => Self::Pdrr(pdrr::Params::new(&settings)),
            "fan" => Self::Fan(fan::Params::new(&settings)?),
            _ => unreachable!("{kind} has a manual but no parameters"),
        })
    }

    /// The same discipline with another value of one parameter.
    pub fn with(&self, parameter: &str, value: &Scalar) -> Result<Self, SpecError> {
        let shown = self.settings();
        let shown = shown
            .iter()
            .map(|(name, setting)| (name, Scalar::Text(setting.to_string())));
        let shown: Vec<_> = shown.collect();
        let given = shown.iter().map(|(name, scalar)| (*name, scalar));
        Self::check(self.kind(), given.chain([(parameter, value)]))
    }

    /// The discipline's manual page.
    pub fn manual(&self) -> &'static Manual {
        match self {
            Self::Fifo(_) => &fifo::MANUAL,
            Self::ClassWeights(_) => &class_weights::MANUAL,
            Self::Codel(_) => &codel::MANUAL,
            Self::Dppbrb(_) => &dppbrb::MANUAL,
            Self::Drr(_) => &drr::MANUAL,
            Self::FqCodel(_) => &fq_codel::MANUAL,
            Self::HostFair(_) => &host_fair::MANUAL,
            Self::Impair(_) => &impair::MANUAL,
            Self::LruFq(_) => &lru_fq::MANUAL,
            Self::ProbabilisticPriority(_) => &probabilistic_priority::MANUAL,
            Self::Red(_) => &red::MANUAL,
            Self::Refill(_) => &refill::MANUAL,
            Self::Sfq(_) => &sfq::MANUAL,
            Self::Stfq(_) => &stfq::MANUAL,
            Self::Afan(_) => &afan::MANUAL,
            Self::TokenBucket(_) => &token_bucket::MANUAL,
            Self::Pfq(_) => &pfq::MANUAL,
            Self::Pdrr(_) => &pdrr::MANUAL,
            Self::Fan(_) => &fan::MANUAL,
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
            Self::ClassWeights(params) => params.settings(),
            Self::Codel(params) => params.settings(),
            Self::Dppbrb(params) => params.settings(),
            Self::Drr(params) => params.settings(),
            Self::FqCodel(params) => params.settings(),
            Self::HostFair(params) => params.settings(),
            Self::Impair(params) => params.settings(),
            Self::LruFq(params) => params.settings(),
            Self::ProbabilisticPriority(params) => params.settings(),
            Self::Red(params) => params.settings(),
            Self::Refill(params) => params.settings(),
            Self::Sfq(params) => params.settings(),
            Self::Stfq(params) => params.settings(),
            Self::Afan(params) => params.settings(),
            Self::TokenBucket(params) => params.settings(),
            Self::Pfq(params) => params.settings(),
            Self::Pdrr(params) => params.settings(),
            Self::Fan(params) => params.settings(),
        }
    }

    /// Packets that the discipline may hold at most: the sum over all ports must fit the pool.
    pub fn limit(&self) -> usize {
        match self {
            Self::Fifo(params) => params.limit,
            Self::ClassWeights(params) => params.limit(), // of each class
            Self::Codel(params) => params.limit,
            Self::Drr(params) => params.limit,
            Self::FqCodel(params) => params.limit,
            Self::HostFair(params) => params.limit,
            Self::Impair(params) => params.limit,
            Self::Red(params) => params.limit,
            Self::Refill(params) => params.limit,
            Self::Sfq(params) => params.limit,
            Self::Stfq(params) => params.limit,
            Self::Afan(params) => params.limit,
            Self::TokenBucket(params) => params.limit,
            Self::Dppbrb(params) => 2 * params.limit, // of each queue
            Self::LruFq(params) => 2 * params.limit,  // of each queue
            Self::ProbabilisticPriority(params) => 2 * params.limit,
            Self::Pfq(params) => params.limit,
            Self::Pdrr(params) => params.limit,
            Self::Fan(params) => params.limit(),
        }
    }

    /// Builds the discipline, empty. Each user of chance owns a stream below `streams`.
    pub fn build(&self, now: Instant, streams: &Streams) -> Box<dyn Discipline> {
        match self {
            Self::Fifo(params) => Box::new(fifo::Fifo::new(params.clone())),
            Self::ClassWeights(params) => {
                Box::new(class_weights::ClassWeights::new(params.clone()))
            }
            Self::Codel(params) => Box::new(codel::Codel::new(params.clone())),
            Self::Dppbrb(params) => Box::new(dppbrb::Dppbrb::new(
                params.clone(),
                now,
                streams.stream(dppbrb::MANUAL.name),
            )),
            Self::Drr(params) => Box::new(drr::Drr::new(params.clone())),
            Self::FqCodel(params) => Box::new(fq_codel::FqCodel::new(params.clone())),
            Self::HostFair(params) => Box::new(host_fair::HostFair::new(
                params.clone(),
                streams.stream(host_fair::MANUAL.name),
            )),
            Self::Impair(params) => Box::new(impair::Impair::new(
                params.clone(),
                streams.stream(impair::MANUAL.name),
            )),
            Self::LruFq(params) => Box::new(lru_fq::LruFq::new(
                params.clone(),
                streams.stream(lru_fq::MANUAL.name),
            )),
            Self::ProbabilisticPriority(params) => {
                Box::new(probabilistic_priority::ProbabilisticPriority::new(
                    params.clone(),
                    streams.stream(probabilistic_priority::MANUAL.name),
                ))
            }
            Self::Red(params) => Box::new(red::Red::new(
                params.clone(),
                streams.stream(red::MANUAL.name),
            )),
            Self::Refill(params) => Box::new(refill::Refill::new(
                params.clone(),
                now,
                streams.stream(refill::MANUAL.name),
            )),
            Self::Sfq(params) => Box::new(sfq::Sfq::new(
                params.clone(),
                now,
                streams.stream(sfq::MANUAL.name),
            )),
            Self::Stfq(params) => Box::new(stfq::Stfq::new(params.clone())),
            Self::Afan(params) => Box::new(afan::Afan::new(
                params.clone(),
                now,
                streams.stream(afan::MANUAL.name),
            )),
            Self::TokenBucket(params) => {
                Box::new(token_bucket::TokenBucket::new(params.clone(), now))
            }
            Self::Pfq(params) => Box::new(pfq::Pfq::new(params.clone(), now)),
            Self::Pdrr(params) => Box::new(pdrr::Pdrr::new(params.clone(), now)),
            Self::Fan(params) => Box::new(fan::Fan::new(params.clone(), now, streams)),
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

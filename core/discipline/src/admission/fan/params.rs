//! The parameters of `fan`: its own, and those of the scheduler behind it.

use weir_base::setting::{Kind, Parameter, SettingError, Settings};
use weir_base::{Rate, Span};

use super::admission::Limits;
use super::mechanism::{self, Rules};
use crate::admission::{afan, pdrr, pfq};
use crate::parts::chance::Chance;
use crate::parts::link_rate::LinkRate;

pub(super) const SCHEDULER: Parameter = Parameter::new(
    "scheduler",
    Kind::Word(&["afan", "pfq", "pdrr"]),
    "afan",
    "scheduler that shares the link among accepted flows",
);

pub(super) const MECHANISM: Parameter = Parameter::new(
    "mechanism",
    Kind::Word(mechanism::WORDS),
    "eccm",
    "mechanism that admits new flows to a congested link",
);

pub(super) const MIN_FAIR_RATE: Parameter = Parameter::new(
    "min_fair_rate",
    Kind::Ratio(0.0001, 1.0),
    "0.05",
    "share of the link's rate; the link is congested if the fair rate is below it",
);

pub(super) const MAX_PRIORITY_LOAD: Parameter = Parameter::new(
    "max_priority_load",
    Kind::Ratio(0.0, 1.0),
    "0.7",
    "share of the link's rate; the link is congested if the priority load is above it",
);

pub(super) const FAIR_RATE_INTERVAL: Parameter = Parameter::new(
    "fair_rate_interval",
    Kind::Span(Span::from_millis(1), Span::from_secs(100)),
    "500 ms",
    "time between two estimates of the fair rate",
);

pub(super) const PRIORITY_LOAD_INTERVAL: Parameter = Parameter::new(
    "priority_load_interval",
    Kind::Span(Span::from_millis(1), Span::from_secs(100)),
    "50 ms",
    "time between two estimates of the priority load",
);

pub(super) const FLOW_TIMEOUT: Parameter = Parameter::new(
    "flow_timeout",
    Kind::Span(Span::from_millis(100), Span::from_secs(86_400)),
    "20 s",
    "a flow that is silent for this time leaves the protected flow list",
);

pub(super) const FLOWS: Parameter = Parameter::new(
    "flows",
    Kind::Count(1, 1 << 20),
    "16384",
    "maximum flows on the protected flow list, and on the list of removed flows",
);

pub(super) const WAITING: Parameter = Parameter::new(
    "waiting",
    Kind::Count(1, 1 << 20),
    "4096",
    "maximum waiting flows whose acceptance delay is recorded",
);

pub(super) const INTERVAL: Parameter = Parameter::new(
    "interval",
    Kind::Span(Span::from_millis(1), Span::from_secs(3600)),
    "6 s",
    "duration of congestion before a run of the mechanism: the longest time that a stream should wait",
);

pub(super) const EFMP: Parameter = Parameter::new(
    "efmp",
    Kind::Word(mechanism::POLICIES),
    "oldest",
    "flow that `efmp` removes",
);

pub(super) const ECCM: Parameter = Parameter::new(
    "eccm",
    Kind::Word(mechanism::FORMS),
    "timers",
    "trigger of the `eccm` steps: timers, or packets of new flows as in the paper's Figure 4",
);

pub(super) const RAMAF: Parameter = Parameter::new(
    "ramaf",
    Kind::Word(mechanism::COUNTED),
    "elastic",
    "flows that equation 8 of `ramaf` counts: the elastic flows, or all flows on the list",
);

pub(super) const ACTIVE_TIME: Parameter = Parameter::new(
    "active_time",
    Kind::Span(Span::ZERO, Span::from_secs(86_400)),
    "10 s",
    "`raef`, `rbaef` and `rpaef` remove elastic flows that were accepted at least this long ago",
);

pub(super) const BLOCKED_TIME: Parameter = Parameter::new(
    "blocked_time",
    Kind::Span(Span::ZERO, Span::from_secs(3600)),
    "2 s",
    "time for which a flow removed by `rbaef` stays blocked",
);

pub(super) const PRIORITY_TIME: Parameter = Parameter::new(
    "priority_time",
    Kind::Span(Span::ZERO, Span::from_secs(3600)),
    "2 s",
    "time for which a flow removed by `rpaef` has priority on return",
);

pub(super) const PRIORITY_ADMISSION: Parameter = Parameter::new(
    "priority_admission",
    Kind::Ratio(0.0, 1.0),
    "0.03",
    "P_RPAEF: while such flows may return, the admission probability for each packet of another new flow",
);

/// Parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// The scheduler that shares the link.
    pub scheduler: &'static str,
    /// The mechanism by which new flows are accepted in congestion.
    pub mechanism: &'static str,
    /// The minimum fair rate, as a share of the link's rate.
    pub min_fair_rate: f64,
    /// The maximum priority load, as a share of the link's rate.
    pub max_priority_load: f64,
    /// Time between two estimates of the fair rate.
    pub fair_rate_interval: Span,
    /// Time between two estimates of the priority load.
    pub priority_load_interval: Span,
    /// Silence after which a flow leaves the list.
    pub flow_timeout: Span,
    /// Maximum flows on the list.
    pub flows: usize,
    /// Maximum flows that wait.
    pub waiting: usize,
    /// Duration of congestion before a run.
    pub interval: Span,
    /// Which flow EFMP removes.
    pub efmp: &'static str,
    /// The form of ECCM: driven by timers, or literal.
    pub eccm: &'static str,
    /// Whether RAMAF counts all flows on the list, not elastic ones only.
    pub counts_listed: bool,
    /// Time on the list after which a flow can be removed.
    pub active_time: Span,
    /// How long a flow is blocked.
    pub blocked_time: Span,
    /// How long a removed flow comes before others.
    pub priority_time: Span,
    /// P_RPAEF.
    pub priority_admission: f64,
    /// The parameters of AFAN, from the same settings.
    pub afan: afan::Params,
    /// The parameters of PFQ.
    pub pfq: pfq::Params,
    /// The parameters of PDRR.
    pub pdrr: pdrr::Params,
}

impl Params {
    /// From checked settings.
    pub fn new(settings: &Settings) -> Result<Self, SettingError> {
        Ok(Self {
            scheduler: settings.word("scheduler"),
            mechanism: settings.word("mechanism"),
            min_fair_rate: settings.ratio("min_fair_rate"),
            max_priority_load: settings.ratio("max_priority_load"),
            fair_rate_interval: settings.span("fair_rate_interval"),
            priority_load_interval: settings.span("priority_load_interval"),
            flow_timeout: settings.span("flow_timeout"),
            flows: settings.count("flows") as usize,
            waiting: settings.count("waiting") as usize,
            interval: settings.span("interval"),
            efmp: settings.word("efmp"),
            eccm: settings.word("eccm"),
            counts_listed: settings.word("ramaf") == "listed",
            active_time: settings.span("active_time"),
            blocked_time: settings.span("blocked_time"),
            priority_time: settings.span("priority_time"),
            priority_admission: settings.ratio("priority_admission"),
            afan: afan::Params::new(settings)?,
            pfq: pfq::Params::new(settings),
            pdrr: pdrr::Params::new(settings),
        })
    }

    /// Maximum packets held.
    pub fn limit(&self) -> usize {
        self.afan.limit
    }

    /// The limits that define congestion, on a link of this rate.
    pub(super) fn limits(&self, port: Option<Rate>) -> Limits {
        let given = self.afan.rate;
        Limits {
            link: LinkRate { given, port }.get(),
            min_fair_rate: self.min_fair_rate,
            max_priority_load: self.max_priority_load,
            fair_rate_interval: self.fair_rate_interval,
            priority_load_interval: self.priority_load_interval,
        }
    }

    /// The parameters of the mechanisms.
    pub(super) fn rules(&self) -> Rules {
        Rules {
            fair_rate_interval: self.fair_rate_interval,
            min_fair_rate: self.min_fair_rate,
            active_time: self.active_time,
            blocked_time: self.blocked_time,
            priority_time: self.priority_time,
            priority_admission: Chance::new(self.priority_admission),
            removes_most_active: self.efmp == "most_active",
            is_literal: self.eccm == "literal",
        }
    }
}

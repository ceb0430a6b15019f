//! The parameters of `fan`: its own, and those of the scheduler behind it.

use weir_base::setting::{Kind, Parameter};
use weir_base::{Rate, Span};

use super::admission::Limits;
use super::mechanism::{self, Rules};
use crate::admission::scheduler::MTU;
use crate::admission::{afan, pdrr, pfq};
use crate::aqm::red::WEIGHT;
use crate::params::{Parameters, params, words};
use crate::parts::bins::QUANTUM;
use crate::parts::chance::Chance;
use crate::parts::link_rate::{LinkRate, RATE};

const DAY: Span = Span::from_secs(86_400);
const HOUR: Span = Span::from_secs(3600);
const AFAN: &[Parameter] = afan::Params::TABLE;

words! {
    /// The flows on the list that RAMAF counts.
    pub enum Counted {
        /// Elastic flows.
        Elastic = "elastic",
        /// All flows.
        Listed = "listed",
    }
}

params! {
    /// Parameters.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Params {
        /// The scheduler that shares the link.
        pub scheduler: &'static str = Parameter::new("scheduler", Kind::Word(&["afan", "pfq", "pdrr"]), "afan",
            "scheduler that shares the link among accepted flows").id(1),
        /// The mechanism by which new flows are accepted in congestion.
        pub mechanism: &'static str = Parameter::new("mechanism", Kind::Word(mechanism::WORDS), "eccm",
            "mechanism that admits new flows to a congested link").id(2),
        /// Duration of congestion before a run.
        pub interval: Span = Parameter::new("interval", Kind::Span(Span::from_millis(1), HOUR), "6 s",
            "duration of congestion before a run of the mechanism: the longest time that a stream should wait").id(3),
        /// The minimum fair rate, as a share of the link's rate.
        pub min_fair_rate: f64 = Parameter::new("min_fair_rate", Kind::Ratio(0.0001, 1.0), "0.05",
            "share of the link's rate; the link is congested if the fair rate is below it").id(4),
        /// The maximum priority load, as a share of the link's rate.
        pub max_priority_load: f64 = Parameter::new("max_priority_load", Kind::Ratio(0.0, 1.0), "0.7",
            "share of the link's rate; the link is congested if the priority load is above it").id(5),
        /// Time between two estimates of the fair rate.
        pub fair_rate_interval: Span = Parameter::new("fair_rate_interval",
            Kind::Span(Span::from_millis(1), Span::from_secs(100)), "500 ms",
            "time between two estimates of the fair rate").id(6),
        /// Time between two estimates of the priority load.
        pub priority_load_interval: Span = Parameter::new("priority_load_interval",
            Kind::Span(Span::from_millis(1), Span::from_secs(100)), "50 ms",
            "time between two estimates of the priority load").id(7),
        /// Silence after which a flow leaves the list.
        pub flow_timeout: Span = Parameter::new("flow_timeout", Kind::Span(Span::from_millis(100), DAY), "20 s",
            "a flow that is silent for this time leaves the protected flow list").id(8),
        /// Maximum flows on the list.
        pub flows: usize = Parameter::new("flows", Kind::Count(1, 1 << 20), "16384",
            "maximum flows on the protected flow list, and on the list of removed flows").id(9),
        /// Maximum flows that wait.
        pub waiting: usize = Parameter::new("waiting", Kind::Count(1, 1 << 20), "4096",
            "maximum waiting flows whose acceptance delay is recorded").id(10),
        /// Which flow EFMP removes.
        pub efmp: &'static str = Parameter::new("efmp", Kind::Word(&["oldest", "most_active"]), "oldest",
            "flow that `efmp` removes").id(11),
        /// The form of ECCM: driven by timers, or literal.
        pub eccm: &'static str = Parameter::new("eccm", Kind::Word(&["timers", "literal"]), "timers",
            "trigger of the `eccm` steps: timers, or packets of new flows as in the paper's Figure 4").id(12),
        /// Time on the list after which a flow can be removed.
        pub active_time: Span = Parameter::new("active_time", Kind::Span(Span::ZERO, DAY), "10 s",
            "`raef`, `rbaef` and `rpaef` remove elastic flows that were accepted at least this long ago").id(13),
        /// How long a flow is blocked.
        pub blocked_time: Span = Parameter::new("blocked_time", Kind::Span(Span::ZERO, HOUR), "2 s",
            "time for which a flow removed by `rbaef` stays blocked").id(14),
        /// How long a removed flow comes before others.
        pub priority_time: Span = Parameter::new("priority_time", Kind::Span(Span::ZERO, HOUR), "2 s",
            "time for which a flow removed by `rpaef` has priority on return").id(15),
        /// P_RPAEF.
        pub priority_admission: f64 = Parameter::new("priority_admission", Kind::Ratio(0.0, 1.0), "0.03",
            "P_RPAEF: while such flows may return, the admission probability for each packet of another new flow").id(16),
        /// The parameters of AFAN.
        pub afan: afan::Params => [
            MTU.id(17), AFAN[6].id(18), RATE.id(19), WEIGHT.id(20), AFAN[2].id(21), AFAN[3].id(22), AFAN[4].id(23),
        ],
        /// The parameters of PFQ, which AFAN has too.
        pub pfq: pfq::Params => [],
        /// The parameters of PDRR.
        pub pdrr: pdrr::Params => [QUANTUM.id(24)],
        /// The flows on the list that RAMAF counts.
        pub ramaf: Counted = Parameter::new("ramaf", Kind::Word(Counted::WORDS), "elastic",
            "flows that equation 8 of `ramaf` counts: the elastic flows, or all flows on the list").id(25),
    }
}

impl Params {
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

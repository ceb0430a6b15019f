//! Queue disciplines: they decide which packet gets the link, and which packets are dropped.
//!
//! One file per mechanism, of the same shape inside: a manual page (purpose, source, picture, counters, deviations),
//! `Params`, `State`, `Stats`, the decision functions, tests. A discipline is a pure state machine: [`Cx`] passes in the
//! time, the flow keys and the counters. It does not know what a port, a device or a clock is.
//!
//! | module | content |
//! |---|---|
//! | [`fifo`], [`impair`] | the plain queue, and an emulated link |
//! | [`aqm`] | active queue management: one queue that drops before it is full |
//! | [`fair`] | fair queueing: a queue for each flow, host or class, and a scheduler |
//! | [`flow`] | a small cache that finds high-bandwidth flows, which get a separate queue |
//! | [`admission`] | flow-aware networking: admission control, and the schedulers behind it |
//! | [`channel`] | control and redirect messages between a control and a forwarding element |
//! | `parts` | building blocks that several modules share: queues in fixed memory, flow tables, rates |
//!
//! Outside the table: [`contract`] (the interface of a discipline), [`params`] (its parameters), [`spec`] (a checked
//! configuration), [`waiting`] (reports of waiting packets), [`metered`] (the accounting). A module uses `parts` and the
//! modules above it in this table; only [`KINDS`] lists all disciplines.

pub mod contract;
pub mod fifo;
pub mod impair;
pub mod metered;
pub mod params;
pub mod spec;
pub mod waiting;

/// Active queue management: one queue that drops before it is full.
pub mod aqm {
    pub(crate) mod average;
    pub(crate) mod blue;
    pub(crate) mod cobalt;
    pub mod codel;
    pub mod red;
    pub mod refill;
}

/// Fair queueing: a queue for each flow, host or class, and a scheduler.
pub mod fair {
    pub mod cake;
    pub mod class_weights;
    pub(crate) mod classes;
    pub mod drr;
    pub(crate) mod fair_queue;
    pub mod fq_codel;
    pub mod host_fair;
    pub(crate) mod hosts;
    pub(crate) mod sets;
    pub mod sfq;
    pub mod stfq;
    pub mod triple_fair;
}

/// A small cache that finds high-bandwidth flows, which get a separate queue.
pub mod flow {
    pub(crate) mod flow_cache;
    pub(crate) mod lottery;
    pub mod lru_fq;
    mod order;
    pub(crate) mod share;
}

/// Flow-aware networking: `fan` is the admission control for the schedulers `afan`, `pfq` and `pdrr`.
pub mod admission {
    pub(crate) mod active;
    pub mod afan;
    pub mod fan;
    pub mod pdrr;
    pub mod pfq;
    pub(crate) mod priority_fair;
    pub(crate) mod ranking;
    pub mod scheduler;
    pub(crate) mod split;
    pub(crate) mod urn;
}

/// Control and redirect messages between a control element and a forwarding element.
pub mod channel {
    pub(crate) mod channels;
    pub mod dppbrb;
    pub mod schedule;
    pub mod token_bucket;
}

/// Building blocks that several modules share.
pub mod parts {
    pub(crate) mod bins;
    pub(crate) mod chain;
    pub(crate) mod chance;
    pub(crate) mod index;
    pub(crate) mod link_rate;
    pub(crate) mod lists;
    pub(crate) mod longest;
    pub(crate) mod lru;
    pub(crate) mod queue;
    pub mod rate;
    pub(crate) mod table;
    pub(crate) mod thresholds;
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod rig;

pub use contract::{
    Admission, Configured, Cx, Discipline, FlowClass, FlowReport, FlowStanding, Kind, Manual,
    Ready, Threshold,
};
pub use metered::{Metered, SpecMismatch};
pub use spec::Spec;

/// Every kind of discipline, by name.
pub const KINDS: &[Kind] = &[
    Kind::of::<admission::afan::Afan>(),
    Kind::of::<fair::cake::Cake>(),
    Kind::of::<fair::class_weights::ClassWeights>(),
    Kind::of::<aqm::codel::Codel>(),
    Kind::of::<channel::dppbrb::Dppbrb>(),
    Kind::of::<fair::drr::Drr>(),
    Kind::of::<admission::fan::Fan>(),
    Kind::of::<fifo::Fifo>(),
    Kind::of::<fair::fq_codel::FqCodel>(),
    Kind::of::<fair::host_fair::HostFair>(),
    Kind::of::<impair::Impair>(),
    Kind::of::<flow::lru_fq::LruFq>(),
    Kind::of::<admission::pdrr::Pdrr>(),
    Kind::of::<admission::pfq::Pfq>(),
    Kind::of::<aqm::red::Red>(),
    Kind::of::<aqm::refill::Refill>(),
    Kind::of::<fair::sfq::Sfq>(),
    Kind::of::<fair::stfq::Stfq>(),
    Kind::of::<channel::token_bucket::TokenBucket>(),
    Kind::of::<fair::triple_fair::TripleFair>(),
];

/// The manual page of every kind, by name.
pub fn manuals() -> impl Iterator<Item = &'static Manual> {
    KINDS.iter().map(|kind| &kind.manual)
}

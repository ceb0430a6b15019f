//! Queue disciplines: who gets the link, when, and who must go.
//!
//! One file per mechanism, of the same shape inside: a manual page (purpose, source, picture,
//! parameters, counters, deviations), `Params`, `State`, `Stats`, the decision functions, tests.
//! A discipline is a pure state machine: time, flow keys and the books are handed in by [`Cx`].
//! It does not know what a port, a device or a clock is.
//!
//! - disciplines: [`fifo`], [`codel`], [`drr`], [`fan`], [`sfq`], [`stfq`], [`fq_codel`], [`host_fair`],
//!   [`class_weights`], [`lru_fq`], [`red`], [`refill`], [`impair`],
//!   [`probabilistic_priority`], [`dppbrb`], [`token_bucket`]
//! - what they are built of: `chain` and `bins` (many queues in fixed memory), `longest` (which queue
//!   must make room), `lru` (a bounded map), `flow_cache` (which flows are hogs), `lottery` (which
//!   flows get into it), `rate` (how fast a flow sends), `share` (and all together), `link_rate`, `chance`
//! - of flow tables: `index` (by hash), `lists` (orders over entries), `table`, `split` (two queues over one)
//! - between control and forwarding elements: `channels` (control and redirect messages)
//! - of fair queues and classes: `sets` (places of keys), `hosts` (how busy each host is), `blue` (drops
//!   for those who do not react), `classes` (traffic by its headers)
//! - of FAN and RED: `scheduler`, `urn` (a queue to draw from), `active` (a queue for each flow), `ranking`,
//!   `average`
//! - around them: [`contract`], [`spec`] (the closed list), [`metered`] (the books)

pub mod afan;
pub mod class_weights;
pub mod codel;
pub mod contract;
pub mod dppbrb;
pub mod drr;
pub mod fan;
pub mod fifo;
pub mod fq_codel;
pub mod host_fair;
pub mod impair;
pub mod lru_fq;
pub mod metered;
pub mod pdrr;
pub mod pfq;
pub mod probabilistic_priority;
pub mod red;
pub mod refill;
pub mod scheduler;
pub mod sfq;
pub mod spec;
pub mod stfq;
pub mod token_bucket;

mod active;
mod average;
mod bins;
mod blue;
mod chain;
mod chance;
mod channels;
mod classes;
mod flow_cache;
mod hosts;
mod index;
mod link_rate;
mod lists;
mod longest;
mod lottery;
mod lru;
mod ranking;
mod rate;
mod sets;
mod share;
mod split;
mod table;
mod thresholds;
mod urn;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod rig;

pub use contract::{
    Admission, Cx, Discipline, FlowClass, FlowReport, FlowStanding, Manual, Ready, SpecMismatch,
};
pub use metered::Metered;
pub use spec::Spec;

//! Flexible packet forwarding (FPF) in the lab.
//!
//! - [`scenario`]: its sections of a scenario; `metrics`: what its runs measure
//! - `control`: the controller that knows the whole network
//! - [`elements`]: simulated routers that are forwarding elements; `simulation`: the controller writes to them
//! - `routers`: the controller writes to real routers
//! - `paper`: the results of the paper; `measures`: their measurements that are neither scenarios nor load tests
//! - [`memory`]: FPF as its paper measures it, in memory
//! - [`scale`]: paths, LIDs and headers on an Internet of domains
//! - `wire`: the highest rate at which a router loses no frame

mod control;
pub mod elements;
mod measures;
pub mod memory;
mod metrics;
mod paper;
mod routers;
pub mod scale;
pub mod scenario;
mod simulation;
mod wire;

use weir_experiment::Extension;

/// What FPF adds to the lab.
pub const FPF: &Extension = &Extension {
    paper: paper::paper,
    sections: scenario::SECTIONS,
    check: scenario::check,
    metrics: metrics::METRICS,
};

//! Flexible packet forwarding (FPF) in the lab.
//!
//! - [`scenario`]: its sections of a scenario; `metrics`: the metrics of its runs
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

/// FPF in the lab.
pub const FPF: &Extension = &Extension {
    papers: &[paper::paper],
    sections: scenario::SECTIONS,
    checks: &[scenario::check],
    metrics: metrics::METRICS,
    simulated: &[simulation::simulate],
    in_the_lab: &[routers::start],
};

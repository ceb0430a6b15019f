//! Scenarios, the habitats that run them, measurements, reports.
//!
//! ```text
//!  scenario.toml ─▶ scenario ─▶ topology ─▶ namespaces (--on lab) ─┐
//!                                                                  ├─▶ reported ─▶ measure ─▶
//!                                           simulation (--on sim) ─┘      results ─▶ report
//! ```
//!
//! - [`scenario`]: the file, checked: a network, its queues and its traffic
//! - [`topology`]: nodes, links, addresses, first hops
//! - [`options`]: the options of a run; [`run`](mod@run) runs it
//! - [`namespaces`]: the lab: real TCP stacks on this machine
//! - `simulation`: the same in virtual time
//! - [`reported`], [`measure`](mod@measure), [`statistics`], [`results`]: from counts to numbers
//! - [`metrics`]: the meaning of each number
//! - [`load`]: the load test of the transports between control and forwarding elements
//! - [`scale`]: paths, LIDs and headers of FPF on an Internet of domains
//! - `attack`: the effect of an attack on honest traffic
//! - [`agreement`]: both habitats side by side
//! - [`mod@compare`]: disciplines side by side under the same loads
//! - [`report`]: results as a page, tables, CSV sheets, plots
//!
//! The entry points are [`run()`], [`agreement::run_both`], [`traffic::run`], [`report::write`] and
//! [`report::text`].
//!
//! Both habitats read the same files, build the same network and fill the same [`reported`] counts, so that a metric
//! means the same in both.

pub mod agreement;
mod attack;
pub mod compare;
mod control;
mod cpu;
pub mod error;
mod finished;
mod folder;
mod forwarding;
mod lines;
pub mod load;
pub mod measure;
pub mod metrics;
pub mod namespaces;
pub mod options;
mod progress;
pub mod report;
pub mod reported;
pub mod reproduce;
pub mod results;
pub mod run;
pub mod scale;
pub mod scenario;
mod simulation;
pub mod statistics;
pub mod topology;
mod traffic_info;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use agreement::{Ran, run_both};
pub use error::Error;
pub use finished::forget;
pub use namespaces::{soak, traffic};
pub use options::{Capture, Habitat, RunOptions};
pub use results::RunResult;
pub use run::run;
pub use traffic_info::TrafficInfo;
use weir_live::signals;

/// A flag that becomes true when the process is asked to end (Ctrl-C, SIGTERM, SIGHUP). A second
/// request ends the process at once.
pub fn interrupt_flag() -> Result<Arc<AtomicBool>, Error> {
    signals::interrupt_flag().map_err(Error::io("cannot watch for Ctrl-C"))
}

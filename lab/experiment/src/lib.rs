//! Scenarios, the habitats that run them, measurements, reports.
//!
//! ```text
//!  scenario.toml ─▶ scenario ─▶ topology ─▶ namespaces (--on lab) ─┐
//!                                                                  ├─▶ reported ─▶ measure ─▶
//!                                           simulation (--on sim) ─┘      results ─▶ report
//! ```
//!
//! - [`scenario`]: the checked scenario file: a network, its queues and its traffic
//! - [`topology`]: nodes, links, addresses, first hops
//! - [`options`]: the options of a run, with its [`habitat`]; [`run`](mod@run) runs it
//! - [`namespaces`]: the lab: real TCP stacks on this machine
//! - `simulation`: the same network in virtual time
//! - [`reported`], [`measure`](mod@measure), [`statistics`], [`results`]: from counts to numbers
//! - [`metrics`]: how the meaning and the value of each number are declared; [`definitions`]: all of them
//! - [`load`]: the points of load tests of transports; [`transports`]: the interface of the crate that runs them
//! - [`extension`]: papers and network layers of another crate
//! - [`agreement`]: compares both habitats
//! - [`mod@compare`]: compares disciplines under the same loads
//! - [`report`]: results as a page, tables, CSV sheets, plots
//!
//! The entry points are [`run()`], [`agreement::run_both`], [`traffic::run`], [`report::write`] and
//! [`report::text`].
//!
//! Both habitats read the same files, build the same network and fill the same [`reported`] counts, so that a metric
//! means the same in both.
//!
//! # Scenarios, controllers and papers
//!
//! **One scenario, two habitats.** A scenario is checked once and laid out once (`Topology`). Both habitats fill the
//! same counts (`Reported`), so a metric means the same in both, with one exception: goodput counts arrivals in the
//! simulator, and reads by the receiving program in the lab ([`measure`](mod@measure)). `--on both` prints the
//! differences between the habitats. Both use shortest-hop paths (`core/base/src/graph.rs`), and their routers spread
//! flows over equally short paths by the same rule (`Action::choose`). In the lab, a wire with a delay of a millisecond
//! or more contains a bridge, which is a weir router with the discipline `impair` (`namespaces/wire`).
//!
//! **One runner for controllers.** A `Runner` polls its elements every period, each with a deadline, and passes their
//! answers to the controller without waiting for an element that missed its last deadline
//! (`router/controller/src/runner.rs`). Queues are named by element and port. In simulation an actor carries out the
//! requests at once; in the lab a thread does, with a connection to each router's northbound socket. With
//! `control = "forces"` the lab instead starts each of these routers as `weir-forces fe`, and one `weir-forces ce` with
//! the scenario's controllers, over links that are not ports of the routers (`namespaces/control_element`). The delay
//! and the losses of a scenario are a layer around the runner, the same in both habitats
//! (`lab/experiment/src/control/channel.rs`).
//!
//! **A scenario file contains every value of its result.** A file extends another file (`extends`), takes lists of
//! variants from other files (`from`), and states calibrated values next to printed values
//! (`{ calibrated = .., printed = .. }`). `weir-lab run` and `weir-lab reproduce` run the same points, and neither
//! changes a point in code.
//!
//! **Claims of papers are functions.** Each paper has a module in `lab/experiment/src/reproduce`: the scenarios of each
//! result, the paper's numbers, its claims and its pictures. A claim reads metrics at points (`query`) and adds
//! conditions to its findings; a test looks up every point. It is *measured*, *arithmetic* or *calibrated*, and a
//! measured claim must be able to fail. The statistics of all claims are in one place (`verdict`).
//! Points with a calibrated value run a second time with the printed value, for a second column of verdicts. A name
//! that does not exist (`measured`) makes its claim *missing*, never *not run*.
//!
//! **Load tests and measurements in memory** name their points like scenarios, and run only when results need them.
//! Load tests of the transports (`forces/lab`, `LOADS` of a paper) run a CE and FEs as
//! processes. Other measurements (`lab/experiment/src/reproduce/bench.rs`) are functions of the crate that adds a paper.

mod added;
pub mod agreement;
pub mod compare;
mod control;
pub mod cpu;
pub mod definitions;
pub mod error;
pub mod extension;
mod finished;
pub mod folder;
pub mod habitat;
mod lines;
pub mod load;
pub mod measure;
pub mod metrics;
pub mod namespaces;
pub mod options;
pub mod programs;
pub mod progress;
pub mod report;
pub mod reported;
pub mod reproduce;
pub mod results;
pub mod run;
pub mod scenario;
mod simulation;
pub mod statistics;
pub mod topology;
mod traffic_info;
pub mod transports;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_live::signals;

pub use agreement::{Ran, run_both};
pub use error::Error;
pub use extension::{Extension, extend};
pub use finished::forget;
pub use habitat::Habitat;
pub use namespaces::{soak, traffic};
pub use options::{Capture, RunOptions};
pub use results::RunResult;
pub use run::run;
pub use traffic_info::TrafficInfo;

/// A flag that becomes true when a signal (Ctrl-C, SIGTERM, SIGHUP) requests the end of the process. A second
/// signal ends the process at once.
pub fn interrupt_flag() -> Result<Arc<AtomicBool>, Error> {
    signals::interrupt_flag().map_err(Error::io("cannot watch for Ctrl-C"))
}

//! Scenarios, the lab of network namespaces, reports.
//!
//! ```text
//!  scenario.toml ─▶ scenario ─▶ topology ─▶ build (namespaces, links)
//!                                  │            │
//!                               tools, router ──┴─▶ run ─▶ measure ─▶ results ─▶ report
//! ```
//!
//! - [`scenario`]: the file, checked: what a network, its queues and its traffic are
//! - [`topology`]: nodes, addresses, routes; what the lab cannot do
//! - [`build`]: namespaces, links and addresses in being
//! - [`process`]: programs inside namespaces, each with an end
//! - [`router`]: `weir router` in a router's namespace
//! - [`traffic`]: the tools `weir traffic sink|tcp|udp|web`
//! - [`run`](mod@run): everything of one scenario
//! - [`measure`], [`statistics`], [`results`]: from counts to numbers
//! - [`report`]: results as a page and as a table
//!
//! The entry points are [`run()`], [`traffic::run`], [`report::html`] and [`report::text`].
//!
//! What a scenario is does not know of the lab: the simulator will run the same files. The lab
//! does not know how a router decides: it starts `weir router` and counts at the receivers.

pub mod build;
pub mod error;
mod folder;
pub mod measure;
pub mod process;
mod progress;
pub mod report;
pub mod results;
pub mod router;
pub mod run;
pub mod scenario;
pub mod statistics;
mod tools;
pub mod topology;
pub mod traffic;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use error::Error;
pub use results::RunResult;
pub use run::{RunOptions, run};

/// A flag that becomes true when the process is asked to end (Ctrl-C, SIGTERM, SIGHUP). A second
/// request ends the process at once.
pub fn interrupt_flag() -> Result<Arc<AtomicBool>, Error> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        // The order matters: the second signal finds the flag set by the first.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(Error::io("cannot watch for Ctrl-C"))?;
    }
    Ok(flag)
}

//! A thread that writes the CE's routes to the kernel: a change of a hundred thousand routes blocks for a fraction of a
//! second.
//!
//! ```text
//!  agent --- changes ---> thread --- Installer ---> kernel --- announcements ---> forwarding thread
//!        <-- failures ---    ^  \-- report: what the kernel lacks                 |
//!                            '------------ Losses: time to compare ---------------+
//! ```
//!
//! **The routes stay.** The kernel loses routes when an interface goes down or another program removes them. The thread
//! finds lost routes by comparing the kernel's routes with the desired routes ([`kept`](super::kept)), and reinstalls
//! them as scheduled by [`upkeep`](super::upkeep). A route via an interface that is down or absent is not a failure: it
//! waits.
//!
//! The thread makes changes in the order in which they arrive. The agent bounds their number: it has one request in
//! progress.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{io, thread};

use weir_base::Span;
use weir_fe::{RouteFailure, RouteTicket, fib};
use weir_lfb::class::ce_routes::CeRoutes;

use super::Input;
use super::kept::{Open, failure};
use weir_live::clock;
use weir_live::kernel::losses::{Hint, Ignored, Losses};
use weir_live::router::Running;
use weir_live::router::journal::Sparse;

/// Work for the thread.
enum Work {
    Change(RouteTicket, Vec<fib::RouteChange>, BTreeMap<u32, String>),
    Sweep,
    Hint(Hint),
}

/// Handle of the thread. Dropping it ends the thread.
pub(super) struct Routes {
    work: mpsc::Sender<Work>,
}

impl Routes {
    /// Starts the thread in the calling thread's network namespace. It sends answers to `answers`, and reports to
    /// `running`.
    pub(super) fn start(
        answers: tokio::sync::mpsc::Sender<Input>,
        running: Arc<Running>,
    ) -> io::Result<Self> {
        let (work, works) = mpsc::channel();
        let (losses, ignored) = Losses::open()?;
        tokio::spawn(pass_on(losses, work.clone()));
        let run = move || {
            let mut kernel = Kernel {
                open: None,
                ignored,
                running,
                reported: Sparse::default(),
            };
            loop {
                match kernel.next(&works) {
                    Ok(Work::Sweep) => kernel.sweep(),
                    Ok(Work::Hint(hint)) => kernel.hint(hint),
                    Ok(Work::Change(ticket, changes, interfaces)) => {
                        let failures = kernel.change(&changes, interfaces);
                        if answers
                            .blocking_send(Input::Routed(ticket, failures))
                            .is_err()
                        {
                            return;
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => kernel.compare(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        thread::Builder::new()
            .name("weir-routes".to_owned())
            .spawn(run)?;
        Ok(Self { work })
    }

    /// Makes changes. The map has the interface of each port.
    pub(super) fn change(
        &self,
        ticket: RouteTicket,
        changes: Vec<fib::RouteChange>,
        interfaces: BTreeMap<u32, String>,
    ) {
        let _ = self.work.send(Work::Change(ticket, changes, interfaces)); // the thread outlives this value
    }

    /// Removes routes that an earlier process left behind and that no change has named since.
    pub(super) fn sweep(&self) {
        let _ = self.work.send(Work::Sweep);
    }
}

/// Passes on hints that routes may be missing. Periodic comparison finds losses without an announcement.
async fn pass_on(mut losses: Losses, work: mpsc::Sender<Work>) {
    loop {
        match losses.next().await {
            Ok(hint) => {
                if work.send(Work::Hint(hint)).is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(%error, "interface monitor failed: lost routes of a CE are reinstalled up to a minute later");
                return;
            }
        }
    }
}

/// The kernel's routes of this protocol.
struct Kernel {
    /// Opened on first use: an FE whose CE writes no routes does not need it.
    open: Option<Open>,
    ignored: Ignored,
    running: Arc<Running>,
    reported: Sparse,
}

impl Kernel {
    /// The next work; a timeout when a comparison is due.
    fn next(&self, works: &mpsc::Receiver<Work>) -> Result<Work, RecvTimeoutError> {
        let Some(open) = self.open.as_ref().filter(|open| !open.upkeep.is_empty()) else {
            return works.recv().map_err(|_| RecvTimeoutError::Disconnected);
        };
        match open.due.since(clock::now()) {
            Span::ZERO => Err(RecvTimeoutError::Timeout),
            wait => works.recv_timeout(Duration::from_nanos(wait.as_nanos())),
        }
    }

    fn open(&mut self) -> io::Result<&mut Open> {
        if self.open.is_none() {
            let (open, port) = Open::new()?;
            self.ignored.set(port)?;
            self.open = Some(open);
        }
        let none = || io::Error::other("no socket for routes");
        self.open.as_mut().ok_or_else(none)
    }

    fn change(
        &mut self,
        changes: &[fib::RouteChange],
        interfaces: BTreeMap<u32, String>,
    ) -> Vec<RouteFailure> {
        let failures = match self.open() {
            Ok(open) => {
                open.interfaces = interfaces;
                open.change(changes)
            }
            Err(error) => vec![failure(0, error)],
        };
        self.report();
        failures
    }

    fn sweep(&mut self) {
        let swept = self.open().and_then(Open::sweep);
        match swept {
            Ok(0) => {}
            Ok(routes) => tracing::info!(routes, "removed routes of an earlier process"),
            Err(error) => tracing::warn!(%error, "cannot remove routes of an earlier process"),
        }
    }

    fn hint(&mut self, hint: Hint) {
        if let Some(open) = &mut self.open {
            open.links |= hint == Hint::Links;
            open.due = open.earliest; // may be in the past
        }
    }

    fn compare(&mut self) {
        let Some(open) = &mut self.open else {
            return;
        };
        if let Err(error) = open.compare() {
            tracing::warn!(%error, "cannot compare the kernel's routes with those of the CE");
        }
        self.report();
    }

    /// Reports the routes that the kernel lacks, and logs them if they have changed.
    fn report(&mut self) {
        let Some(open) = &self.open else {
            return;
        };
        let report = open.upkeep.report();
        let before = self.running.set_ce_routes(report.clone());
        let is_worse = report.lost > before.lost || report.missing > before.missing;
        let is_better = report.missing == 0 && before.missing > 0;
        if !(is_worse || is_better) {
            return;
        }
        let Some(unlogged) = self.reported.admit() else {
            return;
        };
        let CeRoutes {
            missing,
            first,
            lost,
            restored,
            ..
        } = report;
        match missing {
            0 => tracing::info!(
                lost,
                restored,
                unlogged,
                "the kernel has all routes of the CE again"
            ),
            _ => tracing::warn!(
                missing,
                first,
                unlogged,
                "the kernel lacks routes of the CE"
            ),
        }
    }
}

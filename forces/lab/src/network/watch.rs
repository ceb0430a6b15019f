//! Waits of a run, which a signal can end.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_experiment::Error;
use weir_experiment::progress::Progress;

/// The progress of a run, and its end by a signal.
pub(super) struct Watch<'a> {
    /// The beginning of each line of progress.
    pub(super) prefix: String,
    progress: Progress,
    interrupt: &'a AtomicBool,
}

impl<'a> Watch<'a> {
    /// Shows progress if `shown`; the run ends when `interrupt` becomes true.
    pub(super) fn new(shown: bool, interrupt: &'a AtomicBool) -> Self {
        Self {
            prefix: String::new(),
            progress: Progress::new(shown),
            interrupt,
        }
    }

    /// Shows the present step; returns an error if the run must end.
    pub(super) fn show(&mut self, step: &str) -> Result<(), Error> {
        self.progress.update(&format!("{}{step}", self.prefix));
        self.check()
    }

    /// Returns an error if the run must end.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    /// Polls `is_done` at this interval. Returns the time until it holds, in seconds; `None` if that exceeds `patience`.
    pub(super) fn time(
        &mut self,
        (interval, patience): (Duration, Duration),
        mut is_done: impl FnMut(&mut Self) -> Result<bool, Error>,
    ) -> Result<Option<f64>, Error> {
        let began = Instant::now();
        while !is_done(self)? {
            self.check()?;
            if began.elapsed() > patience {
                return Ok(None);
            }
            thread::sleep(interval);
        }
        Ok(Some(began.elapsed().as_secs_f64()))
    }
}

/// The error after a wait that took too long.
pub(super) fn timeout(what: &str, why: impl Into<String>) -> Error {
    Error::io(format!("timeout: {what}"))(io::Error::other(why.into()))
}

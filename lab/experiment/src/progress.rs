//! One line on standard error that shows the progress of a run.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Interval of the lines if standard error is not a terminal, where a line cannot be overwritten.
const PLAIN_STEP: Duration = Duration::from_secs(10);

/// Shows progress, or nothing.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    terminal: bool,
    latest: Option<Instant>,
    width: usize,
}

impl Progress {
    /// Shows progress on standard error if `shown`.
    pub fn new(shown: bool) -> Self {
        Self {
            shown,
            terminal: io::stderr().is_terminal(),
            latest: None,
            width: 0,
        }
    }

    /// Shows a new state. On a terminal it replaces the line; elsewhere it is a new line, at most one per interval.
    pub fn update(&mut self, text: &str) {
        if !self.shown {
            return;
        }
        let text = &text.replace(char::is_control, "?"); // the text contains names from a scenario
        // A failed write must not stop the run.
        if self.terminal {
            let width = text.chars().count();
            let blank = self.width.saturating_sub(width);
            let _ = write!(io::stderr(), "\r{text}{:blank$}", "");
            let _ = io::stderr().flush();
            self.width = width;
        } else if self
            .latest
            .is_none_or(|latest| latest.elapsed() >= PLAIN_STEP)
        {
            let _ = writeln!(io::stderr(), "{text}");
            self.latest = Some(Instant::now());
        }
    }

    /// Writes a line that is not overwritten.
    pub(crate) fn say(&mut self, text: &str) {
        if self.shown {
            self.clear();
            let text = text.replace(char::is_control, "?");
            let _ = writeln!(io::stderr(), "{text}");
            self.latest = None;
        }
    }

    /// Removes the line.
    pub(crate) fn clear(&mut self) {
        if self.shown && self.terminal && self.width > 0 {
            let _ = write!(io::stderr(), "\r{:width$}\r", "", width = self.width);
            let _ = io::stderr().flush();
            self.width = 0;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

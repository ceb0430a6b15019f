//! Distinguishes a thread that hangs from a thread that waits for a processor.
//!
//! ```text
//!  /proc/PID/task/TID/schedstat: time on a processor, time in the run queue
//!  /proc/PID/task/TID/stat:      its state; R: it runs, or waits in the run queue
//! ```
//!
//! Killing a thread that is ready to run on an overloaded machine would not help: its successor would wait as long.
//! The kernel adds the time in the run queue when the thread leaves that queue, so only its state shows that a thread
//! waits there now.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The name of the forwarding thread.
const FORWARDING_THREAD: &str = "weir-worker";
/// A thread that had less than this fraction (1/N) of a processor had no time for a loop iteration.
const TURN_SHARE: u32 = 10;

/// The state of a thread at an instant, and its times up to then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    at: Instant,
    is_ready: bool,
    ran: Duration,
    waited: Duration,
}

/// The folder of a process's forwarding thread.
pub(super) fn forwarding_thread(process: u32) -> io::Result<PathBuf> {
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let folder = thread?.path();
        if fs::read_to_string(folder.join("comm"))?.trim_end() == FORWARDING_THREAD {
            return Ok(folder);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// The folder of a process's control thread, which is its first thread.
pub(super) fn control_thread(process: u32) -> io::Result<PathBuf> {
    Ok(format!("/proc/{process}/task/{process}").into())
}

impl Sample {
    /// Reads the state of the thread with this folder.
    pub(super) fn read(thread: &io::Result<PathBuf>) -> Option<Self> {
        let folder = thread.as_ref().ok()?;
        let stat = fs::read_to_string(folder.join("stat")).ok()?;
        let times = fs::read_to_string(folder.join("schedstat")).ok()?;
        Self::parse(&stat, &times, Instant::now())
    }

    fn parse(stat: &str, times: &str, at: Instant) -> Option<Self> {
        let (_, after_name) = stat.rsplit_once(") ")?; // a name may contain anything
        let mut times = times.split(' ').map(|nanos| nanos.trim().parse());
        let mut next = || Some(Duration::from_nanos(times.next()?.ok()?));
        Some(Self {
            at,
            is_ready: after_name.starts_with('R'),
            ran: next()?,
            waited: next()?,
        })
    }

    /// Whether the thread waited for a processor between `then` and this sample.
    pub(super) fn starved_since(&self, then: &Self) -> bool {
        let passed = self.at - then.at;
        let ran = self.ran.saturating_sub(then.ran);
        let waited = self.waited.saturating_sub(then.waited);
        waited * 2 >= passed || (self.is_ready && ran * TURN_SHARE < passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_for_a_processor_does_not_hang() {
        let begin = Instant::now();
        let sample = |state: char, ran_ms: u64, waited_ms: u64, after_ms: u64| {
            let stat = format!("7 (weir) R) {state} 1 7 7 0");
            let times = format!("{} {} 12\n", ran_ms * 1_000_000, waited_ms * 1_000_000);
            Sample::parse(&stat, &times, begin + Duration::from_millis(after_ms)).unwrap()
        };
        let then = sample('S', 500, 100, 0);
        // Ready, and has hardly run; or has waited for most of the time.
        assert!(sample('R', 501, 100, 1000).starved_since(&then));
        assert!(sample('S', 540, 800, 1000).starved_since(&then));
        // The thread spins, waits for something else, or is stopped.
        assert!(!sample('R', 1400, 150, 1000).starved_since(&then));
        for state in ['S', 'D', 'T', 't', 'Z'] {
            assert!(!sample(state, 500, 100, 1000).starved_since(&then));
        }
    }

    #[test]
    fn the_threads_of_a_process_are_found() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let named = std::thread::Builder::new().name(FORWARDING_THREAD.to_owned());
        let thread = named
            .spawn(move || ended.recv().unwrap_or_default())
            .unwrap();
        let process = std::process::id();
        let mut found = forwarding_thread(process);
        while found.is_err() {
            found = forwarding_thread(process); // the thread sets its name soon after its start
        }
        for folder in [found, control_thread(process)] {
            assert!(Sample::read(&folder).is_some(), "{folder:?}");
        }
        drop(end);
        thread.join().unwrap();
    }
}

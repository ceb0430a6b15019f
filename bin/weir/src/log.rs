//! Logs: to standard error, filtered by `WEIR_LOG`. An event is one line, whatever characters its fields contain.
//!
//! ```text
//!  any thread --> [LINES_MAX lines] --> weir-log --> standard error
//! ```
//!
//! In a router a separate thread writes them ([`aside`]): a reader of standard error that blocks (a blocked service
//! manager, a full pipe) must not block any other thread. Lines that do not fit in the queue are lost and counted.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use tracing::field::Field;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use weir_base::setting::{did_you_mean, nearest};

use crate::output::one_line;

/// The variable that filters logs.
pub const VARIABLE: &str = "WEIR_LOG";

/// The permitted values of the variable, for help and errors.
pub const FORM: &str =
    "a level (error, warn, info, debug, trace, off), or levels by module like info,weir_live=debug";

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// Starts logging; the default level is `info`.
pub fn begin() -> Result<(), String> {
    let words = match std::env::var(VARIABLE) {
        Ok(words) if !words.trim().is_empty() => words,
        Ok(_) | Err(std::env::VarError::NotPresent) => "info".to_owned(),
        Err(error) => return Err(format!("{VARIABLE}: {error}; it must be {FORM}")),
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| Lines)
        .with_ansi(io::stderr().is_terminal())
        .fmt_fields(debug_fn(put).delimited(" "))
        .log_internal_errors(false); // it would panic if standard error has no reader
    tracing_subscriber::registry()
        .with(filter(&words)?)
        .with(lines)
        .init();
    Ok(())
}

/// Writes a field.
fn put(out: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = format!("{value:?}");
    match field.name() {
        "message" => write!(out, "{}", one_line(&text)),
        name => write!(out, "{name}={}", one_line(&text)),
    }
}

/// Maximum number of lines that wait for the reader of standard error.
const LINES_MAX: usize = 4096;
/// Maximum time for which [`flush`] waits.
const FLUSH_TIME_MAX: Duration = Duration::from_millis(500);

/// The queue of the writing thread; empty if there is no such thread.
static QUEUE: OnceLock<mpsc::SyncSender<Entry>> = OnceLock::new();
/// Number of lines that did not fit in the queue, since the last written line.
static LOST: AtomicU64 = AtomicU64::new(0);

enum Entry {
    Line(Vec<u8>),
    /// A request to drop the sender once all earlier lines have been written.
    Flush(mpsc::Sender<()>),
}

/// Starts a thread that writes the log from then on. Lines before a panic are written as well.
pub fn aside() -> io::Result<()> {
    let (queue, entries) = mpsc::sync_channel(LINES_MAX);
    thread::Builder::new()
        .name("weir-log".to_owned())
        .spawn(move || entries.into_iter().for_each(write))?;
    let _ = QUEUE.set(queue); // called once
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        flush();
        report(panic);
    }));
    Ok(())
}

/// Waits until all earlier lines are written, at most `FLUSH_TIME_MAX`.
pub fn flush() {
    let (done, is_done) = mpsc::channel();
    if let Some(queue) = QUEUE.get()
        && queue.try_send(Entry::Flush(done)).is_ok()
    {
        let _ = is_done.recv_timeout(FLUSH_TIME_MAX);
    }
}

fn write(entry: Entry) {
    let line = match entry {
        Entry::Line(line) => line,
        Entry::Flush(done) => return drop(done),
    };
    let mut stderr = io::stderr();
    let _ = stderr.write_all(&line); // without a reader the error cannot be reported either
    let lost = LOST.swap(0, Ordering::Relaxed);
    if lost > 0 {
        let _ = writeln!(
            stderr,
            "weir: {lost} log lines were lost, because standard error was not read in time"
        );
    }
}

/// Receives one line of the log at a time.
struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match QUEUE.get() {
            None => return io::stderr().write(line),
            Some(queue) => {
                if queue.try_send(Entry::Line(line.to_vec())).is_err() {
                    LOST.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Parses a filter. A single word must be a level: the library would interpret `debgu` as the name of a module and log
/// nothing.
fn filter(words: &str) -> Result<Targets, String> {
    let wrong = |hint: String| format!("{VARIABLE} is \"{words}\", but must be {FORM}{hint}");
    for directive in words.split(',') {
        let level = directive
            .rsplit_once('=')
            .map_or(directive, |(_, level)| level);
        let level = level.trim().to_lowercase();
        if !LEVELS.contains(&&level[..]) {
            let near = nearest(&level, LEVELS.into_iter());
            return Err(wrong(did_you_mean(near)));
        }
    }
    let parsed = words.parse();
    parsed.map_err(|error| wrong(format!(" ({error})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_means_nothing_is_refused() {
        for words in [
            "debug",
            "INFO",
            "warn,weir_live=debug",
            "weir::router=trace",
            "off",
        ] {
            assert!(filter(words).is_ok(), "{words}");
        }
        for words in ["debgu", "info,weir_live=loud", "5=x", "info,,debug"] {
            let why = filter(words).unwrap_err();
            assert!(why.contains(FORM), "{why}");
        }
        let why = filter("debgu").unwrap_err();
        assert!(why.ends_with("; did you mean `debug`?"), "{why}");
    }
}

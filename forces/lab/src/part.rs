//! The processes of a load test, controlled by lines on standard input, and killed when dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use weir_base::Span;
use weir_experiment::Error;

use crate::lines::Line;

/// Maximum number of bytes kept of a process's standard error.
const ERROR_BYTES_MAX: u64 = 4096;

/// A process must answer within this time; associating a thousand FEs takes a while.
const ANSWER: Duration = Duration::from_secs(60);

/// Starts a process with each list of arguments, and waits for the first line of each.
pub(crate) fn start<T>(
    executable: &Path,
    arguments: impl IntoIterator<Item = Vec<String>>,
    find: fn(Line) -> Option<T>,
) -> Result<(Vec<Part>, Vec<T>), Error> {
    let parts = arguments.into_iter();
    let parts = parts.map(|args| Part::start(executable, &args));
    let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
    let lines = next_of_each(&mut parts, ANSWER, find)?;
    Ok((parts, lines))
}

/// Sends a line to each process, and waits for the answer of each, which may take this time.
pub(crate) fn ask<T>(
    parts: &mut [Part],
    duration: Span,
    find: fn(Line) -> Option<T>,
) -> Result<Vec<T>, Error> {
    parts.iter_mut().try_for_each(Part::ask)?;
    let patience = Duration::from_nanos(duration.as_nanos()) + ANSWER;
    next_of_each(parts, patience, find)
}

/// The next line of each process.
fn next_of_each<T>(
    parts: &mut [Part],
    patience: Duration,
    find: fn(Line) -> Option<T>,
) -> Result<Vec<T>, Error> {
    let parts = parts.iter_mut();
    parts.map(|part| part.next(patience, find)).collect()
}

/// A process of a load test.
#[derive(Debug)]
pub(crate) struct Part {
    name: String,
    child: Child,
    requests: Option<ChildStdin>,
    lines: Receiver<Line>,
}

impl Part {
    /// Starts `weir traffic load` with these arguments.
    fn start(executable: &Path, args: &[String]) -> Result<Self, Error> {
        let name = format!("weir traffic load {}", args.join(" "));
        let mut command = Command::new(executable);
        command.args(["traffic", "load"]).args(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.stderr(Stdio::piped()).spawn();
        let mut child = started.map_err(Error::io(format!("cannot start {name}")))?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(stdout).lines().map_while(Result::ok);
                let mut lines = lines.filter_map(|line| serde_json::from_str(&line).ok());
                while let Some(line) = lines.next()
                    && sender.send(line).is_ok()
                {}
            });
        }
        Ok(Self {
            name,
            requests: child.stdin.take(),
            child,
            lines,
        })
    }

    /// Sends a line to the process.
    fn ask(&mut self) -> Result<(), Error> {
        let written = self.requests.as_mut().map(|stdin| stdin.write_all(b"\n"));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failed("closed its standard input")),
        }
    }

    /// Waits for the next line of the process, which must contain what `find` looks for.
    fn next<T>(&mut self, patience: Duration, find: fn(Line) -> Option<T>) -> Result<T, Error> {
        let found = match self.lines.recv_timeout(patience) {
            Ok(line) => {
                find(line.clone()).ok_or_else(|| format!("sent an unexpected line: {line:?}"))
            }
            Err(_) => Err(format!("timeout: no output for {} s", patience.as_secs())),
        };
        found.map_err(|why| self.failed(&why))
    }

    /// The error that the process failed, with its standard error.
    fn failed(&mut self, how: &str) -> Error {
        self.end(Duration::ZERO);
        let mut words = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(ERROR_BYTES_MAX).read_to_string(&mut words); // an incomplete message is better than none
        }
        let output = match words.trim() {
            "" => how.to_owned(),
            words => format!("{how}: {words}"),
        };
        let what = self.name.clone();
        Error::Program { what, output }
    }

    /// Ends the process: by closing its standard input, or by killing it if it does not end within this time.
    fn end(&mut self, patience: Duration) {
        drop(self.requests.take());
        let until = Instant::now() + patience;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                _ => return,
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.end(Duration::from_millis(200));
    }
}

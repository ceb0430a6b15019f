//! The processes of a load test, controlled by lines on standard input, and killed when dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use weir_base::Span;

use crate::ce::CeAddress;
use crate::error::Error;
use crate::lines::Line;

/// Maximum number of bytes kept of a process's standard error.
const ERROR_BYTES_MAX: u64 = 4096;

/// A process must answer within this time; associating a thousand FEs takes a while.
const ANSWER: Duration = Duration::from_secs(60);

/// The processes of a test.
#[derive(Debug)]
pub(crate) struct Processes {
    fes: Vec<Part>,
    ces: Vec<Part>,
}

impl Processes {
    /// Starts CEs with these arguments, and waits until they listen.
    pub(crate) fn listen(
        executable: &Path,
        ces: impl Iterator<Item = Vec<String>>,
    ) -> Result<(Self, Vec<CeAddress>), Error> {
        let (ces, addresses) = start(executable, ces, |line| match line {
            Line::Listening(address) => Some(address),
            _ => None,
        })?;
        let fes = Vec::new();
        Ok((Self { fes, ces }, addresses))
    }

    /// Starts groups of FEs with these arguments, and waits until they are connected.
    pub(crate) fn connect(
        &mut self,
        executable: &Path,
        fes: impl Iterator<Item = Vec<String>>,
    ) -> Result<(), Error> {
        let is_connected = |line| matches!(line, Line::Connected).then_some(());
        (self.fes, _) = start(executable, fes, is_connected)?;
        Ok(())
    }

    /// Requests the reports of the CEs.
    pub(crate) fn report<T>(&mut self, find: fn(Line) -> Option<T>) -> Result<Vec<T>, Error> {
        let ces = self.ces.iter_mut();
        ces.map(|ce| ce.ask().and_then(|()| ce.next(ANSWER, find)))
            .collect()
    }

    /// Lets the FEs send for this time, and waits for their reports.
    pub(crate) fn send<T>(
        &mut self,
        duration: Span,
        find: fn(Line) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        self.fes.iter_mut().try_for_each(Part::ask)?;
        let patience = Duration::from_nanos(duration.as_nanos()) + ANSWER;
        next_of_each(&mut self.fes, patience, find)
    }
}

/// Starts a process with each list of arguments, and waits for their first lines.
fn start<T>(
    executable: &Path,
    arguments: impl Iterator<Item = Vec<String>>,
    find: fn(Line) -> Option<T>,
) -> Result<(Vec<Part>, Vec<T>), Error> {
    let parts = arguments.map(|args| Part::start(executable, &args));
    let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
    let lines = next_of_each(&mut parts, ANSWER, find)?;
    Ok((parts, lines))
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
struct Part {
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
        let mut child = started.map_err(|source| Error::Start {
            program: name.clone(),
            source,
        })?;
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
        let why = match self.lines.recv_timeout(patience) {
            Ok(line) => {
                let unexpected = format!("sent an unexpected line: {line:?}");
                match find(line) {
                    Some(found) => return Ok(found),
                    None => unexpected,
                }
            }
            Err(_) => format!("timeout: no output for {} s", patience.as_secs()),
        };
        Err(self.failed(&why))
    }

    /// The error that the process failed, with its standard error.
    fn failed(&mut self, how: &str) -> Error {
        self.end(Duration::ZERO);
        let mut words = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(ERROR_BYTES_MAX).read_to_string(&mut words); // an incomplete message is better than none
        }
        let why = match words.trim() {
            "" => how.to_owned(),
            words => format!("{how}: {words}"),
        };
        Error::Program {
            program: self.name.clone(),
            why,
        }
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

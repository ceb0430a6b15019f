//! Programs inside namespaces: short set-up programs, and the tools and routers of a run.
//!
//! The lab's [`Spawner`] starts every program, so no program outlives the lab. Every wait has a time limit. A
//! program's standard error becomes part of the lab's error.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_live::namespace::{Namespace, Signal, Spawner, signal};

use crate::error::Error;
use crate::namespaces::traffic::Line;

/// A set-up program must end within this time.
const SETUP_MAX: Duration = Duration::from_secs(20);
/// Maximum number of bytes kept of a program's standard error.
const OUTPUT_BYTES_MAX: u64 = 16 << 10;
/// The Debian packages of the programs that a lab starts.
const PACKAGES: &[(&str, &str)] = &[
    ("ethtool", "ethtool"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("ping", "iputils-ping"),
    ("tc", "iproute2"),
];
/// Marks a panic in the standard error of a Rust program.
const PANIC: &str = "panicked at";

/// Runs a short program to its end; `input` goes to its standard input.
pub fn run_to_end(
    spawner: &Spawner,
    namespace: &Namespace,
    what: &str,
    mut command: Command,
    input: &str,
) -> Result<(), Error> {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command.stdin(Stdio::piped());
    let mut running = Running::start(spawner, namespace, what, command)?;
    if let Some(mut stdin) = running.take_stdin() {
        // A program that ends before it has read everything explains itself on its standard error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let status = running.wait(Instant::now() + SETUP_MAX)?;
    if status.success() {
        Ok(())
    } else {
        Err(running.failed(&format!("{status}")))
    }
}

/// The memory in a line of a file like `/proc/PID/status`, in bytes; zero without this file or line.
pub fn memory_bytes(file: &str, name: &str) -> u64 {
    status_field(&fs::read_to_string(file).unwrap_or_default(), name) << 10
}

/// The number in a line of `/proc/PID/status`.
pub(super) fn status_field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A started program, which is killed when this value is dropped.
#[derive(Debug)]
pub struct Running {
    what: String,
    child: Child,
    ended: Option<ExitStatus>,
    output: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts `command` inside `namespace`. `what` names it in errors.
    pub fn start(
        spawner: &Spawner,
        namespace: &Namespace,
        what: &str,
        command: Command,
    ) -> Result<Self, Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = spawner.spawn(namespace, command).map_err(|error| {
            let package = PACKAGES.iter().find(|(name, _)| *name == program);
            let package = package.filter(|_| error.kind() == io::ErrorKind::NotFound);
            let remedy =
                package.map(|(_, package)| format!("; remedy: install the package {package}"));
            let doing = format!(
                "cannot start {program} for {what}{}",
                remedy.unwrap_or_default()
            );
            Error::io(doing)(error)
        })?;
        let output = child
            .stderr
            .take()
            .map(|stderr| thread::spawn(move || kept(stderr)));
        Ok(Self {
            what: what.to_owned(),
            child,
            ended: None,
            output,
        })
    }

    /// The process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The exit status, if the program has ended.
    pub fn has_ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        if self.ended.is_none() {
            let doing = format!("cannot wait for {}", self.what);
            self.ended = self.child.try_wait().map_err(Error::io(doing))?;
        }
        Ok(self.ended)
    }

    /// Waits for the program to end; returns an error if the deadline passes.
    pub fn wait(&mut self, deadline: Instant) -> Result<ExitStatus, Error> {
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(status) = self.has_ended()? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                return Err(self.failed("did not exit in time"));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    /// Sends a signal to the program.
    pub fn signal(&self, which: Signal) -> Result<(), Error> {
        let doing = format!("cannot send a signal to {}", self.what);
        signal(&self.child, which).map_err(Error::io(doing))
    }

    /// Terminates the program. Returns an error if it does not end successfully within this time, or if one of its
    /// threads has panicked.
    pub fn end(&mut self, patience: Duration) -> Result<(), Error> {
        self.signal(Signal::Terminate)?;
        let status = self.wait(Instant::now() + patience)?;
        if !status.success() {
            return Err(self.failed(&format!("{status}")));
        }
        let output = self.output.take().and_then(|thread| thread.join().ok());
        match output.filter(|output| output.contains(PANIC)) {
            None => Ok(()),
            Some(output) => Err(Error::Program {
                what: self.what.clone(),
                output,
            }),
        }
    }

    /// Terminates the program, and kills it if it does not end within this time.
    pub fn stop(&mut self, patience: Duration) {
        if self.ended.is_none() && matches!(self.child.try_wait(), Ok(None)) {
            // The program may have ended by itself at this moment; then there is no process to signal.
            let _ = signal(&self.child, Signal::Terminate);
            let _ = self.wait(Instant::now() + patience);
        }
        self.kill();
    }

    fn kill(&mut self) {
        if self.ended.is_none() {
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }

    /// Kills the program; returns an error with its standard error.
    pub fn failed(&mut self, how: &str) -> Error {
        self.kill();
        let output = self.output.take().and_then(|thread| thread.join().ok());
        Error::Program {
            what: self.what.clone(),
            output: match output {
                Some(output) if !output.is_empty() => format!("{how}: {output}"),
                _ => how.to_owned(),
            },
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Keeps the beginning of a program's standard error, and the lines of panics. An incomplete message is better than
/// none.
fn kept(mut stderr: impl Read) -> String {
    let mut output = Vec::new();
    let _ = stderr
        .by_ref()
        .take(OUTPUT_BYTES_MAX)
        .read_to_end(&mut output);
    let mut output = String::from_utf8_lossy(&output).into_owned();
    for line in BufReader::new(stderr).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if line.contains(PANIC) && output.len() < 2 * OUTPUT_BYTES_MAX as usize {
            output = format!("{output}\n{line}");
        }
    }
    output.trim().to_owned()
}

/// A running traffic tool.
#[derive(Debug)]
pub struct Tool {
    running: Running,
    ready: mpsc::Receiver<()>,
    lines: Option<JoinHandle<Vec<Line>>>,
}

impl Tool {
    /// Starts a tool: `command` is `weir traffic` with its arguments.
    pub fn start(
        spawner: &Spawner,
        namespace: &Namespace,
        what: &str,
        mut command: Command,
    ) -> Result<Self, Error> {
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(spawner, namespace, what, command)?;
        let (tell_ready, ready) = mpsc::channel();
        let lines = running.child.stdout.take().map(|stdout| {
            thread::spawn(move || {
                let lines = BufReader::new(stdout).lines().map_while(Result::ok);
                let lines = lines.filter_map(|line| serde_json::from_str(&line).ok());
                lines
                    .inspect(|line| {
                        if *line == Line::Ready {
                            let _ = tell_ready.send(());
                        }
                    })
                    .collect()
            })
        });
        Ok(Self {
            running,
            ready,
            lines,
        })
    }

    /// Waits until the tool listens.
    pub fn wait_ready(&mut self, deadline: Instant) -> Result<(), Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.ready.recv_timeout(left) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.running.failed("did not become ready")),
        }
    }

    /// Returns an error if the tool has ended too early.
    pub fn check(&mut self) -> Result<(), Error> {
        match self.running.has_ended()? {
            None => Ok(()),
            Some(status) => Err(self.running.failed(&format!("exited early, {status}"))),
        }
    }

    /// Waits for the tool to end and returns its report.
    pub fn finish(mut self, deadline: Instant) -> Result<Vec<Line>, Error> {
        let status = self.running.wait(deadline)?;
        if !status.success() {
            return Err(self.running.failed(&format!("{status}")));
        }
        let lines = self.lines.take().and_then(|thread| thread.join().ok());
        lines.ok_or_else(|| self.running.failed("its report is missing"))
    }
}

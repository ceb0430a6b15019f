//! The start and the end of a program: arguments, signals, log, exit code; and the other programs in its folder.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use clap::FromArgMatches;
use weir_live::programs::find;
use weir_live::signals;

use crate::output::{note, print_own, rendered};
use crate::{complete, log, output};

/// Help text common to all programs.
pub const AFTER_HELP: &str = "\
Environment:
  WEIR_LOG     Log filter for standard error: a level (error, warn, info, debug, trace, off), or
               levels by module like info,weir_live=debug [default: info]
  WEIR_SOCKET  The socket of the router to query [default: that of the running router]

Exit codes: 0 success, 1 failure (diff: differences found), 2 wrong usage or configuration";

/// Reason why a program fails.
#[derive(Debug)]
pub enum Failure {
    /// Wrong usage or configuration.
    Usage(String),
    /// The command failed.
    Run(String),
    /// A child process has reported the error and exited with this code.
    Reported(u8),
    /// `weir diff` has found a difference, and printed it.
    Different,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Run(why) => f.write_str(why),
            Self::Reported(code) => write!(f, "a child process exited with code {code}"),
            Self::Different => f.write_str("differences found"),
        }
    }
}

/// The main function of a program: answers a shell that completes commands, reads the arguments, starts the log, runs,
/// and returns the exit code.
pub fn main<A: FromArgMatches>(
    command: fn() -> clap::Command,
    run: impl FnOnce(A) -> Result<(), Failure>,
) -> ExitCode {
    complete::answer(command);
    // This comes first, so that a router that receives a signal while it starts stops in an orderly way.
    if let Err(error) = signals::hold() {
        return fail(1, &format!("cannot block signals: {error}"));
    }
    let matches = command().try_get_matches();
    let arguments = match matches.and_then(|matches| A::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            note(error.render().to_string().trim_end());
            return ExitCode::from(2);
        }
        Err(help) => return end(print_own(&rendered(&help))),
    };
    if let Err(why) = log::begin() {
        return fail(2, &why);
    }
    let result = run(arguments);
    log::flush();
    end(result)
}

/// Prepares a command that runs until a signal ends it: the log must not block it, and signals stay pending until it
/// reads them.
pub fn serves() -> Result<(), Failure> {
    log::aside().map_err(|e| Failure::Run(format!("log: {e}")))
}

/// Prepares a command that waits for events forever: it ends when its output has no reader.
pub fn waits() -> Result<(), Failure> {
    release_signals()?;
    output::end_with_reader();
    Ok(())
}

/// Unblocks the signals that have been pending since the program started.
pub fn release_signals() -> Result<(), Failure> {
    signals::release().map_err(|e| Failure::Run(format!("cannot unblock signals: {e}")))
}

/// Prints the error of a result, and returns its exit code.
pub fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => fail(2, &message),
        Err(Failure::Run(message)) => fail(1, &message),
        Err(Failure::Reported(code)) => ExitCode::from(code),
        Err(Failure::Different) => ExitCode::from(1),
    }
}

fn fail(code: u8, message: &str) -> ExitCode {
    note(&format!("weir: {message}"));
    ExitCode::from(code)
}

/// The program with control and forwarding elements.
pub const FORCES: &str = "weir-forces";
/// The program with simulations and measurements.
pub const LAB: &str = "weir-lab";

/// Replaces this process by another program of weir with these arguments. Returns only if that fails.
pub fn replace(program: &str, arguments: impl IntoIterator<Item = OsString>) -> Failure {
    let file = match file_of(program) {
        Ok(file) => file,
        Err(missing) => return missing,
    };
    let _ = release_signals(); // they would stay blocked
    let error = Command::new(&file).args(arguments).exec();
    Failure::Run(format!("cannot start {}: {error}", file.display()))
}

/// Runs another program of weir with these arguments, and with this text as its standard input.
pub fn run_with_input(program: &str, arguments: &[&str], input: &str) -> Result<(), Failure> {
    let file = file_of(program)?;
    let failed = |error: io::Error| Failure::Run(format!("cannot run {}: {error}", file.display()));
    let mut command = Command::new(&file);
    command.args(arguments).stdin(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes()); // the exit code tells whether it was read
    }
    match child.wait().map_err(failed)?.code() {
        Some(0) => Ok(()),
        code => Err(Failure::Reported(code.map_or(1, |code| code as u8))),
    }
}

fn file_of(program: &str) -> Result<PathBuf, Failure> {
    find(program).ok_or_else(|| {
        Failure::Usage(format!(
            "this command needs `{program}`, which is not installed: install the package {program}"
        ))
    })
}

//! Printing to a standard output that may be full, or whose reader may have gone away.

use std::io::{self, ErrorKind, IsTerminal, Write};

use serde::Serialize;

use crate::Failure;

/// Prints to standard output. A reader that has gone away (`| head`) is not a failure; a full disk is.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_to_reader(text).map(|_| ())
}

/// The same for repeated output; returns whether the reader is still there.
pub(crate) fn print_to_reader(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Run(format!(
            "cannot write to standard output: {error}"
        ))),
    }
}

/// Prints one JSON document.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&(text + "\n")),
        Err(error) => Err(Failure::Run(format!("cannot write JSON: {error}"))),
    }
}

/// Prints a line to standard error. Ignores a failure, because nobody could be told about it.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A help page or the version, with colours for a terminal.
pub(crate) fn rendered(help: &clap::Error) -> String {
    let page = help.render();
    match io::stdout().is_terminal() {
        true => page.ansi().to_string(),
        false => page.to_string(),
    }
}

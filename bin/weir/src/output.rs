//! Printing to a standard output that may be full, or whose reader may have closed it.
//!
//! A terminal obeys escape sequences, and external strings may contain them: the name of a forwarding element, of an
//! interface or of a file. So all output passes through this module, which writes non-printable characters as `\u{1b}`.
//! Line breaks are kept; where an external string must stay in its line, [`one_line`] removes its line breaks.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_live::file::with_suffix;
use weir_live::hangup;

use crate::Failure;

/// Whether a terminal prints a character, instead of obeying or ignoring it.
fn is_printed(letter: char) -> bool {
    matches!(letter, '"' | '\'' | '\\' | '\u{a0}') || letter.escape_debug().len() == 1
}

/// A string in which `escape` writes each non-printable character.
fn replaced(
    text: &str,
    is_plain: impl Fn(char) -> bool,
    escape: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if text.chars().all(&is_plain) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_plain(letter) {
            safe.push(letter)
        } else {
            escape(&mut safe, letter)
        }
    }
    safe.into()
}

/// A string in one line, without characters that a terminal obeys.
pub fn one_line(text: &str) -> Cow<'_, str> {
    replaced(text, is_printed, |safe, letter| {
        safe.extend(letter.escape_debug());
    })
}

/// A string without characters that a terminal obeys, except line breaks and tabs.
fn lines(text: &str) -> Cow<'_, str> {
    let is_plain = |letter| matches!(letter, '\n' | '\t') || is_printed(letter);
    replaced(text, is_plain, |safe, letter| {
        safe.extend(letter.escape_debug());
    })
}

/// JSON with the same value, whose strings contain no such characters either.
fn json(text: &str) -> Cow<'_, str> {
    let is_plain = |letter| letter == '\n' || is_printed(letter);
    replaced(text, is_plain, |safe, letter| {
        for unit in letter.encode_utf16(&mut [0; 2]) {
            let _ = write!(safe, "\\u{unit:04x}"); // writing to a string cannot fail
        }
    })
}

/// Prints to standard output. A closed pipe (`| head`) is not a failure; a full disk is.
pub fn print(text: &str) -> Result<(), Failure> {
    print_to_reader(text).map(|_| ())
}

/// Prints our own text unchanged: a help page with its colours, a shell script.
pub fn print_own(text: &str) -> Result<(), Failure> {
    put(text).map(|_| ())
}

/// Like [`print()`], for repeated output; returns whether the reader still exists.
pub fn print_to_reader(text: &str) -> Result<bool, Failure> {
    put(&lines(text))
}

/// Like [`print_to_reader`], for a line of JSON.
pub fn print_json_to_reader(text: &str) -> Result<bool, Failure> {
    put(&json(&format!("{text}\n")))
}

fn put(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Run(format!(
            "cannot write to standard output: {error}"
        ))),
    }
}

/// Ends the program as soon as its standard output has no reader, or its terminal is closed: for commands that wait
/// forever.
pub fn end_with_reader() {
    let watched = || {
        let (input, output, errors) = (io::stdin(), io::stdout(), io::stderr());
        let mut files = vec![output.as_fd()];
        files.extend(input.is_terminal().then(|| input.as_fd()));
        files.extend(errors.is_terminal().then(|| errors.as_fd()));
        if hangup::wait(&files).is_ok() {
            std::process::exit(0);
        }
    };
    // Without the thread, the next failed write ends the program.
    let _ = std::thread::Builder::new().spawn(watched);
}

/// Prints one JSON document.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print_json_to_reader(&text).map(|_| ()),
        Err(error) => Err(Failure::Run(format!("cannot write JSON: {error}"))),
    }
}

/// Prints a line to standard error. Ignores a failure, because it could not be reported.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{}", lines(line));
}

/// A help page or the version, with colours for a terminal.
pub fn rendered(help: &clap::Error) -> String {
    let page = help.render();
    if io::stdout().is_terminal() {
        page.ansi().to_string()
    } else {
        page.to_string()
    }
}

/// Parses the name of a folder. Refuses `-`, which elsewhere means standard output.
pub fn folder(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => {
            Err("this command writes several files: name a folder (./- if its name is `-`)".into())
        }
        folder => Ok(folder.into()),
    }
}

/// Writes a complete file, or no file. A new file is readable for all users, because the service has its own user.
pub fn write_file(path: &Path, text: &str, overwrite: bool) -> io::Result<()> {
    let target = fs::canonicalize(path); // a symbolic link stays a link
    let target = target.as_deref().unwrap_or(path);
    let beside = with_suffix(target, &format!(".{}", std::process::id()));
    let mut options = OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .open(&beside)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            let old = fs::metadata(target).map(|old| old.permissions());
            file.set_permissions(old.unwrap_or_else(|_| Permissions::from_mode(0o644)))?;
            file.sync_all()
        })
        .and_then(|()| match overwrite {
            true => fs::rename(&beside, target),
            // Unlike a rename, a link never replaces a file.
            false => fs::hard_link(&beside, target).and_then(|()| fs::remove_file(&beside)),
        });
    written.inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Escape sequences of seven and eight bits, a bell, a line break, a bidirectional override, a zero-width space,
    /// and a tag.
    const HOSTILE: &str = "a\u{1b}[2J\u{9b}1m\u{7}b\r\nc\u{202e}d\u{200b}e\u{e0041}";

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let shown = "a\\u{1b}[2J\\u{9b}1m\\u{7}b\\r\\nc\\u{202e}d\\u{200b}e\\u{e0041}";
        assert_eq!(one_line(HOSTILE), shown);
        assert_eq!(lines(HOSTILE), shown.replace("\\n", "\n"));
        let plain = "it's 5 µs, \"grün\", 中文… \\ 9.1\u{a0}ms";
        assert!(matches!(one_line(plain), Cow::Borrowed(same) if same == plain));
    }

    #[test]
    fn json_keeps_its_value() {
        let text = serde_json::to_string_pretty(&[HOSTILE, "plain"]).unwrap();
        let safe = json(&text);
        assert!(
            safe.chars()
                .all(|letter| letter == '\n' || is_printed(letter))
        );
        let value: Vec<String> = serde_json::from_str(&safe).unwrap();
        assert_eq!(value, [HOSTILE, "plain"]);
    }
}

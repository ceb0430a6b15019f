//! Paths that are not files, full disks, readers that have gone away.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn weir(arguments: &[&str], out: impl Into<Stdio>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(Stdio::piped())
        .output()
        .unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Commands that print without a router and without a long run.
const PRINTING: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["check", "--help"],
    &["list", "disciplines"],
    &["list", "schema"],
    &["describe", "fifo"],
    &["completions", "bash"],
    &["manpage"],
    &["bench", "encapsulation"],
    &["bench", "encapsulation", "--json"],
];

#[test]
fn a_full_disk_is_said_with_exit_code_1() {
    for arguments in PRINTING {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = weir(arguments, full);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        let expected = "weir: cannot write to standard output: No space left on device";
        assert!(said.starts_with(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn a_reader_that_has_gone_away_is_no_failure() {
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = weir(arguments, writer);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), &said[..]),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn an_error_that_cannot_be_said_is_still_an_exit_code() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["describe", "nothing"])
        .stdout(full())
        .stderr(full())
        .status();
    assert_eq!(status.unwrap().code(), Some(2));
}

#[test]
fn only_files_with_an_end_are_read() {
    let folder = folder("files");
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let large = folder.join("large.toml");
    fs::write(&large, vec![b'#'; (1 << 20) + 1]).unwrap();
    for (command, path, why) in [
        ("check", "/dev/zero", "it is a device or a pipe"),
        ("check", pipe.to_str().unwrap(), "it is a device or a pipe"),
        ("check", folder.to_str().unwrap(), "it is a folder"),
        (
            "check",
            large.to_str().unwrap(),
            "it is longer than 1048576 bytes",
        ),
        ("apply", "/dev/zero", "it is a device or a pipe"),
        ("router", pipe.to_str().unwrap(), "it is a device or a pipe"),
        ("router", "-", "give it a file, not standard input"),
        ("run", "/dev/zero", "it is a device or a pipe"),
        ("run", pipe.to_str().unwrap(), "it is a device or a pipe"),
    ] {
        let output = weir(&[command, path], Stdio::null());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command} {path}: {said}");
        assert!(
            (path == "-" || said.contains(path)) && said.contains(why),
            "{command} {path}: {said}"
        );
    }
}

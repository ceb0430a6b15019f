//! Prometheus' own checker of metrics, queries and rules.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// Only one test fetches the program.
static FETCH: Mutex<()> = Mutex::new(());

/// `promtool` with these arguments and this input: its output if it finds no fault, else the test fails. Where it is
/// not available, prints a note and returns `None`.
pub(crate) fn promtool(arguments: &[&str], input: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("promtool");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/promtool");
    let fetching = FETCH.lock().unwrap_or_else(PoisonError::into_inner);
    if !Command::new(script)
        .arg(&folder)
        .status()
        .unwrap()
        .success()
    {
        println!("skipped: promtool {}", arguments.join(" "));
        return None;
    }
    drop(fetching);
    let mut child = Command::new(folder.join("promtool"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "promtool {arguments:?}: {printed}{said}"
    );
    Some(printed + &said)
}

/// Checks the text of a `GET /metrics` against the conventions: there must be no remark.
pub(crate) fn check_metrics(text: &str) {
    let said = promtool(&["check", "metrics"], text).unwrap_or_default();
    assert_eq!(said, "", "{text}");
}

//! Checks source files for leftovers, unsafe code and, in pure code, anything that touches the machine.

use crate::tree::{Tree, is_test, without_tests};

/// Words that must not occur in pure code: it has no clock, no sockets, no threads, no files.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::io",
    "std::process",
    "std::thread",
    "std::time",
    "TcpStream",
    "UdpSocket",
    "tokio",
    "SystemTime",
];

/// The folders of pure code. Some of their crates are not pure: the exceptions are in [`HABITATS`].
const PURE: &[&str] = &["core", "router", "fpf", "forces"];

/// The crates of these folders that may touch the machine.
const HABITATS: &[&str] = &[
    "router/live/",
    "router/northbound/",
    "forces/live/",
    "forces/lab/",
    "fpf/lab/",
];

/// Markers of unfinished work.
const LEFTOVERS: &[&str] = &["FIXME", "TODO", "XXX", "dbg!("];

pub(super) fn check(tree: &Tree, crates: &[&str], faults: &mut Vec<String>) {
    for folder in crates {
        for (path, text) in tree.below(folder, ".rs") {
            check_source(path, text, faults);
        }
    }
}

fn check_source(path: &str, text: &str, faults: &mut Vec<String>) {
    let own = path.starts_with("xtask/");
    let is_unsafe = |line: &str| line.contains("unsafe ") || line.contains("unsafe{");
    let may_be_unsafe = own || path.starts_with("router/live/");
    for (number, line) in text.lines().enumerate() {
        let mut fault = |what: &str| faults.push(format!("{path}:{}: {what}", number + 1));
        if !own && LEFTOVERS.iter().any(|word| line.contains(word)) {
            fault("leftover marker or debug code");
        }
        if !may_be_unsafe && !is_comment(line) && is_unsafe(line) {
            fault("unsafe code belongs in router/live");
        }
    }
    let is_pure = PURE.iter().any(|f| path.split('/').next() == Some(f))
        && !HABITATS.iter().any(|folder| path.starts_with(folder));
    if is_pure && !is_test(path) {
        check_pure(path, without_tests(text), faults);
    }
}

fn check_pure(path: &str, code: &str, faults: &mut Vec<String>) {
    for (number, line) in code.lines().enumerate().filter(|(_, l)| !is_comment(l)) {
        for word in IMPURE.iter().filter(|word| line.contains(**word)) {
            faults.push(format!(
                "{path}:{}: pure code must not use {word}",
                number + 1
            ));
        }
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check_source(path, text, &mut faults);
        faults
    }

    #[test]
    fn pure_code_has_no_clock() {
        let text = "use std::time::Instant;\n";
        assert_eq!(faults("core/base/src/a.rs", text).len(), 1);
        assert!(faults("router/live/src/a.rs", text).is_empty());
        assert!(faults("core/base/src/a.rs", "/// like std::time\n").is_empty());
    }

    #[test]
    fn leftovers_are_found() {
        assert_eq!(faults("lab/src/a.rs", "// FIXME later\n").len(), 1);
    }

    #[test]
    fn unsafe_code_has_one_place() {
        let text = "unsafe { call() }\n";
        assert_eq!(faults("core/path/src/a.rs", text).len(), 1);
        assert!(faults("router/live/src/a.rs", text).is_empty());
    }
}

//! The rules of ARCHITECTURE.md that a program can check.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a source file, its tests not counted.
const FILE_LINES_MAX: usize = 500;

/// Which of our crates a crate may depend on. What is not listed here is forbidden.
const EDGES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("data/wire", &[]),
    ("data/packet", &["base"]),
    ("data/discipline", &["base", "packet"]),
    ("data/path", &["base", "wire", "packet", "discipline"]),
    ("data/capture", &["base", "packet"]),
    ("control/model", &["base"]),
    ("control/config", &["base", "model"]),
    ("control/controller", &["base"]),
    (
        "control/lfb",
        &["base", "model", "packet", "discipline", "path"],
    ),
    (
        "habitats/live",
        &[
            "base",
            "wire",
            "packet",
            "discipline",
            "path",
            "capture",
            "model",
            "lfb",
        ],
    ),
    (
        "habitats/sim",
        &["base", "wire", "packet", "discipline", "path", "capture"],
    ),
    ("northbound", &["model"]),
    (
        "lab",
        &[
            "base",
            "discipline",
            "controller",
            "live",
            "sim",
            "capture",
            "model",
            "config",
            "lfb",
            "northbound",
        ],
    ),
    (
        "benches",
        &[
            "base",
            "wire",
            "packet",
            "discipline",
            "path",
            "live",
            "sim",
        ],
    ),
    (
        "bin/weir",
        &[
            "base",
            "wire",
            "packet",
            "discipline",
            "path",
            "model",
            "config",
            "controller",
            "lfb",
            "live",
            "northbound",
            "lab",
            "benches",
        ],
    ),
    ("xtask", &[]),
];

/// Words that pure code does not contain: it has no clock, no sockets, no threads, no files.
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

/// The folders whose code is pure.
const PURE: &[&str] = &["base", "data", "control"];

/// Everything that is not as it should be, a sentence each.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let mut sources = Vec::new();
    for (folder, _) in EDGES {
        collect(&root.join(folder), &mut sources);
    }
    sources.sort();
    check_edges(root, &mut faults);
    for source in &sources {
        match fs::read_to_string(source) {
            Ok(text) => {
                let name = source.strip_prefix(root).unwrap_or(source);
                check_source(&name.display().to_string(), &text, &mut faults);
            }
            Err(error) => faults.push(format!("{}: {error}", source.display())),
        }
    }
    faults
}

/// All Rust files below a folder.
fn collect(folder: &Path, sources: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, sources);
        } else if path.extension().is_some_and(|e| e == "rs") {
            sources.push(path);
        }
    }
}

fn check_edges(root: &Path, faults: &mut Vec<String>) {
    for (folder, allowed) in EDGES {
        let path = root.join(folder).join("Cargo.toml");
        let manifest = fs::read_to_string(&path).ok();
        let Some(manifest) = manifest.and_then(|m| m.parse::<toml::Table>().ok()) else {
            faults.push(format!("{folder}/Cargo.toml is missing, or is not TOML"));
            continue;
        };
        let Some(dependencies) = manifest.get("dependencies").and_then(|d| d.as_table()) else {
            continue; // what only tests use is free
        };
        let ours = dependencies.keys().filter_map(|d| d.strip_prefix("weir-"));
        for dependency in ours.filter(|d| !allowed.contains(d)) {
            faults.push(format!("{folder} must not depend on {dependency}"));
        }
    }
}

fn check_source(name: &str, text: &str, faults: &mut Vec<String>) {
    let own = name.starts_with("xtask/");
    let code = text
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let is_test = name.contains("/tests/") || name.ends_with("tests.rs");
    let lines = code.lines().count();
    if lines > FILE_LINES_MAX && !is_test {
        faults.push(format!(
            "{name}: {lines} lines without tests, more than {FILE_LINES_MAX}"
        ));
    }
    for (number, line) in text.lines().enumerate() {
        let mut fault = |what: &str| faults.push(format!("{name}:{}: {what}", number + 1));
        let statement = line.trim_start();
        if !own
            && ["FIXME", "TODO", "XXX", "dbg!("]
                .iter()
                .any(|w| line.contains(w))
        {
            fault("left over from writing");
        }
        let live = name.starts_with("habitats/live/") || own;
        if !live
            && !statement.starts_with("//")
            && (line.contains("unsafe ") || line.contains("unsafe{"))
        {
            fault("unsafe code belongs in habitats/live");
        }
    }
    if PURE
        .iter()
        .any(|folder| name.starts_with(&format!("{folder}/")))
        && !is_test
    {
        let imports = code
            .lines()
            .enumerate()
            .filter(|(_, l)| !l.trim_start().starts_with("//"));
        for (number, line) in imports {
            for word in IMPURE.iter().filter(|w| line.contains(**w)) {
                faults.push(format!(
                    "{name}:{}: pure code must not use {word}",
                    number + 1
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(name: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check_source(name, text, &mut faults);
        faults
    }

    #[test]
    fn pure_code_has_no_clock() {
        let text = "use std::time::Instant;\n";
        assert_eq!(faults("base/src/a.rs", text).len(), 1);
        assert!(faults("habitats/live/src/a.rs", text).is_empty());
        assert!(faults("base/src/a.rs", "/// like std::time\n").is_empty());
    }

    #[test]
    fn long_files_and_leftovers_are_found() {
        let long = "//\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(faults("lab/src/a.rs", &long).len(), 1);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert!(faults("lab/src/a.rs", &tests).is_empty());
        assert_eq!(faults("lab/src/a.rs", "// FIXME later\n").len(), 1);
    }

    #[test]
    fn the_repository_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(check(root), Vec::<String>::new());
    }
}

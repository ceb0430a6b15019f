//! Finds unused files: sources that no `mod` reaches, scenarios that nothing names, pages that nothing links to,
//! fixtures that no test reads.

use std::collections::BTreeSet;

use super::links;
use crate::tree::{Tree, folder, has_word, is_test, resolved};

/// The folders in which cargo compiles each Rust file separately.
const TARGETS: &[&str] = &["src/bin", "tests", "examples", "benches", "fuzz_targets"];

pub(super) fn check(tree: &Tree, faults: &mut Vec<String>) {
    sources(tree, faults);
    scenarios(tree, faults);
    pages(tree, faults);
    fixtures(tree, faults);
}

/// Checks that every Rust file is a cargo target or a module of one.
fn sources(tree: &Tree, faults: &mut Vec<String>) {
    let mut reached = BTreeSet::new();
    let manifests = tree.files().filter_map(|(path, text)| {
        let folder = path.strip_suffix("Cargo.toml")?;
        Some((folder.strip_suffix('/')?, text))
    });
    for (package, manifest) in manifests {
        for (path, _) in tree.below(package, ".rs") {
            if is_target(path.strip_prefix(package).unwrap_or(path), manifest) {
                reach(tree, path, true, &mut reached);
            }
        }
    }
    for (path, _) in tree.files().filter(|(path, _)| path.ends_with(".rs")) {
        if !reached.contains(path) {
            faults.push(format!("{path}: no `mod` reaches this file"));
        }
    }
}

/// Whether cargo compiles this file of a package as a separate target.
fn is_target(path: &str, manifest: &str) -> bool {
    let path = path.trim_start_matches('/');
    if path.starts_with("tests/") && manifest.contains("autotests = false") {
        return manifest.contains(&format!("path = \"{path}\""));
    }
    if ["src/lib.rs", "src/main.rs", "build.rs"].contains(&path) {
        return true;
    }
    TARGETS.iter().any(|target| {
        let below = path.strip_prefix(target).and_then(|p| p.strip_prefix('/'));
        below.is_some_and(|p| match p.split_once('/') {
            None => true,
            Some((_, inside)) => inside == "main.rs",
        })
    })
}

/// Adds a file and the modules that it declares.
fn reach(tree: &Tree, path: &str, is_root: bool, reached: &mut BTreeSet<String>) {
    let Some(text) = tree.text(path) else { return };
    if !reached.insert(path.to_owned()) {
        return;
    }
    let here = folder(path);
    let inside = if is_root || path.ends_with("/mod.rs") {
        here.to_owned()
    } else {
        path.trim_end_matches(".rs").to_owned()
    };
    let mut named = None;
    let mut inline: Vec<(usize, &str)> = Vec::new();
    for full in text.lines() {
        let line = full.trim();
        let indent = full.len() - full.trim_start().len();
        inline.retain(|(at, _)| line.is_empty() || *at < indent);
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            named = rest.split('"').next();
        } else if let Some(module) = declared(line, " {") {
            inline.push((indent, module));
        } else if let Some(module) = declared(line, ";") {
            let outer = inline.iter().map(|(_, outer)| format!("/{outer}"));
            let place = format!("{inside}{}/{module}", outer.collect::<String>());
            match named.take() {
                Some(file) => reach(tree, &resolved(&format!("{here}/{file}")), false, reached),
                None => {
                    reach(tree, &format!("{place}.rs"), false, reached);
                    reach(tree, &format!("{place}/mod.rs"), false, reached);
                }
            }
        } else if let Some((_, rest)) = line.split_once("include!(\"") {
            let file = rest.split('"').next().unwrap_or_default();
            reach(tree, &resolved(&format!("{here}/{file}")), false, reached);
        }
    }
}

/// The module name that a line declares, if `end` follows it.
fn declared<'a>(line: &'a str, end: &str) -> Option<&'a str> {
    let (before, module) = line.strip_suffix(end)?.rsplit_once("mod ")?;
    let visible = before.is_empty() || before.starts_with("pub");
    visible.then_some(module)
}

/// Checks that every scenario is named somewhere, or runs together with its folder in a suite of `weir compare`.
fn scenarios(tree: &Tree, faults: &mut Vec<String>) {
    for (path, _) in tree.below("scenarios", ".toml") {
        let name = path.trim_start_matches("scenarios/");
        let name = name.trim_end_matches(".toml");
        let (room, stem) = name.rsplit_once('/').unwrap_or(("", name));
        let is_named = |(other, text): (&str, &str)| {
            let is_experiment = other.starts_with("lab/experiment/examples/");
            other != path
                && (has_word(text, &format!("{stem}.toml"))
                    || !room.is_empty() && has_word(text, name)
                    || is_experiment && text.contains(&format!("\"{stem}\""))
                    || other.starts_with("lab/experiment/src/compare/suite/")
                        && runs_folder(text, room))
        };
        if !tree.files().any(is_named) {
            faults.push(format!("{path}: no file names this scenario"));
        }
    }
}

/// Whether a suite runs all scenarios of a folder.
fn runs_folder(text: &str, room: &str) -> bool {
    let mut lists = text.lines().filter(|line| line.contains("folders: &["));
    lists.any(|list| list.contains(&format!("\"{room}\"")))
}

/// Checks that every page has a link from another page.
fn pages(tree: &Tree, faults: &mut Vec<String>) {
    let linked: BTreeSet<String> = tree
        .files()
        .filter(|(path, _)| path.ends_with(".md"))
        .flat_map(|(path, text)| {
            let targets = links::targets(path, text).into_iter();
            targets
                .map(|(_, target, _)| target)
                .filter(move |target| target != path)
        })
        .collect();
    for (path, _) in tree.below("docs", "") {
        if !linked.contains(path) {
            faults.push(format!("{path}: no page links to this file"));
        }
    }
}

/// Checks that a test of the same crate names every fixture, or its folder.
fn fixtures(tree: &Tree, faults: &mut Vec<String>) {
    for (path, _) in tree.files() {
        let Some((package, inside)) = path.split_once("/tests/") else {
            continue;
        };
        if path.ends_with(".rs") {
            continue;
        }
        let file = inside.rsplit('/').next().unwrap_or(inside);
        let stem = file.split('.').next().unwrap_or(file);
        let room = folder(inside);
        let is_read = |(source, text): (&str, &str)| {
            is_test(source) && (has_word(text, file) || has_word(text, stem) || reads(text, room))
        };
        if !tree.below(package, ".rs").any(is_read) {
            faults.push(format!("{path}: no test reads this file"));
        }
    }
}

/// Whether a test reads a whole folder of fixtures.
fn reads(text: &str, room: &str) -> bool {
    text.contains("read_dir") && !room.is_empty() && text.contains(&format!("{room}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(rule: fn(&Tree, &mut Vec<String>), files: &[(&str, &str)]) -> Vec<String> {
        let mut faults = Vec::new();
        rule(&Tree::of(files), &mut faults);
        faults
    }

    #[test]
    fn a_source_without_a_mod_is_found() {
        let files = [
            ("base/Cargo.toml", ""),
            (
                "base/src/lib.rs",
                "pub mod a;\npub(crate) mod b;\n#[path = \"other.rs\"]\nmod c;\n",
            ),
            (
                "base/src/a.rs",
                "mod inner;\npub mod room {\n    mod deep;\n}\nmod flat;\n",
            ),
            ("base/src/a/room/deep.rs", ""),
            ("base/src/a/flat.rs", ""),
            ("base/src/a/inner.rs", ""),
            ("base/src/b/mod.rs", "mod deep;\n"),
            ("base/src/b/deep.rs", ""),
            ("base/src/other.rs", ""),
            ("base/src/dead.rs", "mod worse;\n"),
            ("base/src/dead/worse.rs", ""),
            ("base/tests/whole.rs", "mod common;\n"),
            ("base/tests/common/mod.rs", ""),
            ("base/tests/big/main.rs", "mod part;\n"),
            ("base/tests/big/part.rs", ""),
            ("base/tests/big/lost.rs", ""),
            (
                "one/Cargo.toml",
                "autotests = false\n[[test]]\npath = \"tests/main.rs\"\n",
            ),
            ("one/tests/main.rs", "mod a;\n"),
            ("one/tests/a.rs", ""),
            ("one/tests/lost.rs", ""),
        ];
        let expected = [
            "base/src/dead.rs: no `mod` reaches this file",
            "base/src/dead/worse.rs: no `mod` reaches this file",
            "base/tests/big/lost.rs: no `mod` reaches this file",
            "one/tests/lost.rs: no `mod` reaches this file",
        ];
        assert_eq!(faults(sources, &files), expected);
    }

    #[test]
    fn a_scenario_that_nothing_names_is_found() {
        let files = [
            ("README.md", "`weir run room/shown`\n"),
            (
                "lab/experiment/src/compare/suite/one.rs",
                "folders: &[\"x\", \"attack\"]",
            ),
            ("lab/experiment/examples/one.rs", "scenario: \"case\""),
            ("scenarios/attack/any.toml", ""),
            ("scenarios/peers/case.toml", ""),
            ("scenarios/room/lost.toml", "# room/lost\n"),
            ("scenarios/room/network.toml", ""),
            ("scenarios/room/shown.toml", "extends = \"network.toml\"\n"),
        ];
        let expected = ["scenarios/room/lost.toml: no file names this scenario"];
        assert_eq!(faults(scenarios, &files), expected);
    }

    #[test]
    fn a_page_without_a_link_is_found() {
        let files = [
            ("README.md", "[one](docs/one.md#top)\n"),
            ("docs/lost.md", "[this](lost.md)\n"),
            ("docs/one.md", "[two](deep/two.md)\n"),
            ("docs/deep/two.md", ""),
        ];
        let expected = ["docs/lost.md: no page links to this file"];
        assert_eq!(faults(pages, &files), expected);
    }

    #[test]
    fn a_fixture_that_no_test_reads_is_found() {
        let files = [
            (
                "bin/tests/golden.rs",
                "check(\"golden/help.txt\"); read_dir(\"tests/golden/wrong\")",
            ),
            ("bin/tests/golden/help.txt", ""),
            ("bin/tests/golden/old.txt", ""),
            ("bin/tests/golden/wrong/some.toml", ""),
        ];
        let expected = ["bin/tests/golden/old.txt: no test reads this file"];
        assert_eq!(faults(fixtures, &files), expected);
    }
}

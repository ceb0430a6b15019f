//! Checks the modules of a crate: the files and folders of each folder below `src`. Their uses form no cycles.
//!
//! A module uses a sibling if its code contains `crate::PATH::SIBLING` (or the equivalent number of `super`). A name that
//! the folder's own module re-exports counts for the sibling that defines it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::tree::{Tree, is_test, without_tests};

/// Each module of a folder, with the siblings that it uses and a place where it uses them.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

pub(super) fn check(tree: &Tree, crates: &[&str], faults: &mut Vec<String>) {
    for source in crates.iter().map(|folder| format!("{folder}/src")) {
        let modules = Modules::of(tree, &source);
        for folder in modules.folders() {
            let uses = modules.uses(folder);
            let place = [std::slice::from_ref(&source), folder].concat().join("/");
            let knots = tied(&uses);
            faults.extend(knots.iter().map(|knot| sentence(&place, &uses, knot)));
        }
    }
}

/// Describes a cycle of modules in one sentence, with one shortest cycle and the place that closes it.
fn sentence(folder: &str, uses: &Uses, knot: &BTreeSet<&str>) -> String {
    let cycles = knot.iter().filter_map(|room| cycle(uses, room));
    let rooms = cycles.min_by_key(Vec::len).unwrap_or_default();
    let places = rooms.windows(2).filter_map(|w| uses[w[0]].get(w[1]));
    let places: Vec<&str> = places.map(String::as_str).collect();
    let all: Vec<&str> = knot.iter().copied().collect();
    format!(
        "{folder}: modules use each other in cycles: {}; for example {} ({})",
        all.join(", "),
        rooms.join(" -> "),
        places.join(", ")
    )
}

/// The sets of rooms that can all reach each other.
fn tied(uses: &Uses) -> Vec<BTreeSet<&str>> {
    let mut knots: Vec<BTreeSet<&str>> = Vec::new();
    for room in uses.keys() {
        if knots.iter().any(|knot| knot.contains(&**room)) {
            continue;
        }
        let returns = |other: &&String| {
            *other == room || path(uses, room, other).is_some() && path(uses, other, room).is_some()
        };
        let knot: BTreeSet<&str> = uses.keys().filter(returns).map(String::as_str).collect();
        if knot.len() > 1 {
            knots.push(knot);
        }
    }
    knots
}

/// A shortest cycle through a room, with the room at both ends.
fn cycle<'a>(uses: &'a Uses, room: &'a str) -> Option<Vec<&'a str>> {
    let next = uses.get(room)?.keys();
    let back = next.filter_map(|used| path(uses, used, room));
    let rest = back.min_by_key(Vec::len)?;
    Some(std::iter::once(room).chain(rest).collect())
}

/// The rooms of a shortest path from one room to another, both included.
fn path<'a>(uses: &'a Uses, from: &'a str, to: &str) -> Option<Vec<&'a str>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(room) = next.pop_front() {
        if room == to {
            let mut rooms = vec![room];
            while let Some(previous) = before.get(rooms[rooms.len() - 1]) {
                rooms.push(previous);
            }
            rooms.reverse();
            return Some(rooms);
        }
        for used in uses.get(room).into_iter().flat_map(BTreeMap::keys) {
            if used != from && !before.contains_key(&**used) {
                before.insert(used, room);
                next.push_back(used);
            }
        }
    }
    None
}

/// The source files of a crate.
struct Modules {
    /// Path, module path, and code.
    files: Vec<(String, Vec<String>, String)>,
}

impl Modules {
    fn of(tree: &Tree, source: &str) -> Self {
        let files = tree.files().filter_map(|(path, text)| {
            let below = path.strip_prefix(source)?.strip_prefix('/')?;
            let module = below.strip_suffix(".rs")?;
            (!is_test(path)).then(|| {
                let mut module: Vec<_> = module.split('/').map(str::to_owned).collect();
                if matches!(
                    module.last().map(String::as_str),
                    Some("mod" | "lib" | "main")
                ) {
                    module.pop();
                }
                (path.to_owned(), module, code(text))
            })
        });
        Self {
            files: files.collect(),
        }
    }

    /// The module paths of folders.
    fn folders(&self) -> BTreeSet<&[String]> {
        let modules = self.files.iter().map(|(_, module, _)| module);
        modules
            .filter_map(|module| Some(module.split_last()?.1))
            .collect()
    }

    /// The uses of siblings between the modules of a folder.
    fn uses(&self, folder: &[String]) -> Uses {
        let below = |path: &[String]| path.strip_prefix(folder)?.first().cloned();
        let modules: BTreeSet<_> = self.files.iter().filter_map(|(_, m, _)| below(m)).collect();
        let own = self.files.iter().filter(|(_, module, _)| module == folder);
        let exported: BTreeMap<_, _> = own.flat_map(|(.., code)| exports(code)).collect();
        let mut uses = Uses::new();
        for (path, module, code) in &self.files {
            let Some(user) = below(module) else {
                continue;
            };
            for (line, used) in used_paths(code, module) {
                let Some(name) = below(&used) else {
                    continue;
                };
                let owner = exported.get(&name).filter(|_| !modules.contains(&name));
                let used = owner.unwrap_or(&name);
                if *used != user && modules.contains(used) {
                    let of_user = uses.entry(user.clone()).or_default();
                    let place = || format!("{path}:{line}");
                    of_user.entry(used.clone()).or_insert_with(place);
                }
            }
        }
        uses
    }
}

/// A source file without its unit tests and comments; line numbers stay the same.
fn code(text: &str) -> String {
    let lines = without_tests(text).lines();
    let lines = lines.map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths that the code of a module uses, from the root of its crate, each with its line.
fn used_paths(code: &str, module: &[String]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for prefix in ["crate::", "super::"] {
        for (at, _) in code.match_indices(prefix) {
            let before = &code[..at];
            if before.ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c)) {
                continue;
            }
            let mut rest = &code[at..];
            let mut parent = module;
            while let Some(after) = rest.strip_prefix("super::") {
                (rest, parent) = (
                    after,
                    parent.split_last().map_or(parent, |(_, parent)| parent),
                );
            }
            if let Some(after) = rest.strip_prefix("crate::") {
                (rest, parent) = (after, &[]);
            }
            let line = before.lines().count().max(1);
            let mut paths = Vec::new();
            use_tree(rest, parent, &mut paths);
            found.extend(paths.into_iter().map(|path| (line, path)));
        }
    }
    found
}

/// The names that a folder's own module re-exports, each with its module.
fn exports(code: &str) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for (at, found) in code.match_indices("use ") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + found.len()..];
        let mut paths = Vec::new();
        use_tree(rest, &[], &mut paths);
        for mut path in paths {
            path.retain(|part| part != "crate" && part != "self");
            if let [first, .., last] = &path[..] {
                names.push((last.clone(), first.clone()));
            }
        }
    }
    names
}

/// Expands `a::{b, c::d}` into its paths; returns the rest of the text.
fn use_tree<'a>(text: &'a str, prefix: &[String], paths: &mut Vec<Vec<String>>) -> &'a str {
    let mut path = prefix.to_vec();
    let mut text = text.trim_start();
    loop {
        if let Some(mut rest) = text.strip_prefix('{') {
            loop {
                rest = use_tree(rest, &path, paths).trim_start();
                match rest.strip_prefix(',') {
                    Some(next) if !next.trim_start().starts_with('}') => rest = next,
                    Some(next) => return next.trim_start().trim_start_matches('}'),
                    None => return rest.strip_prefix('}').unwrap_or(rest),
                }
            }
        }
        let end = text
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(text.len());
        if end > 0 {
            path.push(text[..end].to_owned());
        }
        text = &text[end..];
        match text.strip_prefix("::") {
            Some(rest) => text = rest,
            None => break,
        }
    }
    if let Some(renamed) = text.trim_start().strip_prefix("as ") {
        let end = renamed
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(renamed.len());
        path.push(renamed[..end].to_owned());
        text = &renamed[end..];
    }
    if !path.is_empty() {
        paths.push(path);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let mut faults = Vec::new();
        check(&Tree::of(files), &["base"], &mut faults);
        faults
    }

    const CIRCLE: &[(&str, &str)] = &[
        (
            "base/src/lib.rs",
            "mod a;\nmod b;\npub use b::{Deep, Other as Else};\n",
        ),
        ("base/src/a.rs", "use crate::Deep;\n"),
        ("base/src/b/mod.rs", "mod inner;\n"),
        (
            "base/src/b/inner.rs",
            "//! crate::a\nuse std::mem;\nuse super::super::{a::Thing};\n",
        ),
    ];

    #[test]
    fn a_circle_is_found_through_exports_and_supers() {
        let expected = "base/src: modules use each other in cycles: a, b; for example a -> b -> a \
                    (base/src/a.rs:1, base/src/b/inner.rs:3)";
        assert_eq!(faults(CIRCLE), [expected]);
    }

    #[test]
    fn a_circle_of_files_in_a_folder_is_found() {
        let files = [
            ("base/src/b/mod.rs", "mod c;\nmod d;\npub use c::Own;\n"),
            ("base/src/b/c.rs", "use super::d::{Deep, self};\n"),
            ("base/src/b/d/mod.rs", "use crate::b::Own;\n"),
        ];
        let expected = "base/src/b: modules use each other in cycles: c, d; for example c -> d -> c \
                        (base/src/b/c.rs:1, base/src/b/d/mod.rs:1)";
        assert_eq!(faults(&files), [expected]);
    }

    #[test]
    fn tests_and_comments_use_nothing() {
        let files = [
            ("base/src/a.rs", "use crate::b;\n"),
            (
                "base/src/b.rs",
                "// crate::a\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n",
            ),
        ];
        assert!(faults(&files).is_empty());
    }

    #[test]
    fn trees_of_uses_are_read() {
        let mut paths = Vec::new();
        use_tree("a::{b, c::{d, e as f},\n    self}; more", &[], &mut paths);
        let found: Vec<String> = paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(found, ["a::b", "a::c::d", "a::c::e::f", "a::self"]);
    }
}

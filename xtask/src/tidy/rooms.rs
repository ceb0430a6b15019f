//! Checks the rooms (modules) of a crate: the folders and files directly in its `src`. Their uses form no cycles.
//!
//! A room uses another room if its code contains `crate::OTHER` (or the equivalent number of `super`). A name that the
//! root of the crate re-exports counts for the room that defines it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::tree::{Tree, is_test, without_tests};

/// Rooms that still use each other in cycles: crate, rooms, and the reason why. This list only
/// shrinks: a room that is no longer in a cycle with the others must be removed.
const KNOTS: &[Knot] = &[(
    "lab/sim",
    &[
        "actor",
        "endpoint",
        "fabric",
        "flight",
        "frame",
        "identification",
        "meter",
        "network",
        "plain",
        "trace",
        "route",
        "wire",
    ],
    "endpoints call the fabric that holds them; the types of both should move below them",
)];

type Knot = (&'static str, &'static [&'static str], &'static str);

/// Each room, with the rooms that it uses and a place where it uses them.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

pub(super) fn check(tree: &Tree, crates: &[&str], faults: &mut Vec<String>) {
    check_with(tree, crates, KNOTS, faults);
}

fn check_with(tree: &Tree, crates: &[&str], knots: &[Knot], faults: &mut Vec<String>) {
    for folder in crates {
        let uses = uses(tree, folder);
        let permitted: Vec<_> = knots.iter().filter(|(owner, ..)| owner == folder).collect();
        let found = tied(&uses);
        for knot in &found {
            let is_permitted = |(_, rooms, _): &&&Knot| knot.iter().all(|r| rooms.contains(r));
            if !permitted.iter().any(|set| is_permitted(&set)) {
                faults.push(sentence(folder, &uses, knot));
            }
        }
        for (_, rooms, _) in permitted {
            let inside = |room: &&&str| found.iter().any(|knot| knot.contains(**room));
            for room in rooms.iter().filter(|room| !inside(room)) {
                faults.push(format!(
                    "{folder}: {room} is no longer in a cycle: remove it from KNOTS in xtask"
                ));
            }
        }
    }
}

/// Describes a cycle of rooms in one sentence, with one shortest cycle and the place that closes it.
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

fn uses(tree: &Tree, folder: &str) -> Uses {
    let source = format!("{folder}/src");
    let files: Vec<(&str, &str)> = tree
        .below(&source, ".rs")
        .filter(|(path, _)| !is_test(path))
        .filter_map(|(path, text)| Some((path.strip_prefix(&*source)?.trim_matches('/'), text)))
        .collect();
    let is_root = |path: &str| matches!(path, "lib.rs" | "main.rs");
    let rooms: BTreeSet<&str> = files
        .iter()
        .filter(|(path, _)| !is_root(path))
        .map(|(path, _)| room(path))
        .collect();
    let roots = files.iter().filter(|(path, _)| is_root(path));
    let exported: BTreeMap<String, String> = roots.flat_map(|(_, text)| exports(text)).collect();
    let mut uses = Uses::new();
    for (path, text) in files.iter().filter(|(path, _)| !is_root(path)) {
        let user = room(path);
        for (line, name) in root_names(&code(text), depth(path)) {
            let owner = exported.get(&name).filter(|_| !rooms.contains(&*name));
            let used = owner.unwrap_or(&name);
            if used != user && rooms.contains(&**used) {
                let of_user = uses.entry(user.to_owned()).or_default();
                let at = || format!("{source}/{path}:{line}");
                of_user.entry(used.clone()).or_insert_with(at);
            }
        }
    }
    uses
}

/// The room of a file below `src`.
fn room(path: &str) -> &str {
    let first = path.split('/').next().unwrap_or(path);
    first.trim_end_matches(".rs")
}

/// Module depth of a file below the root of its crate.
fn depth(path: &str) -> usize {
    path.trim_end_matches("/mod.rs").split('/').count()
}

/// A source file without its unit tests and comments; line numbers stay the same.
fn code(text: &str) -> String {
    let lines = without_tests(text).lines();
    let lines = lines.map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The names that a file uses directly from the root of its crate, each with its line.
fn root_names(code: &str, depth: usize) -> Vec<(usize, String)> {
    let supers = "super::".repeat(depth);
    let mut names = Vec::new();
    for prefix in ["crate::", &supers] {
        for (at, _) in code.match_indices(prefix) {
            let before = &code[..at];
            if before.ends_with(|c: char| c.is_alphanumeric() || "_:$".contains(c)) {
                continue;
            }
            let line = before.lines().count().max(1);
            let mut paths = Vec::new();
            use_tree(&code[at + prefix.len()..], &[], &mut paths);
            let firsts = paths.into_iter().filter_map(|p| p.into_iter().next());
            names.extend(firsts.map(|name| (line, name)));
        }
    }
    names
}

/// The names that the root of a crate re-exports, each with its module.
fn exports(root: &str) -> Vec<(String, String)> {
    let code = code(root);
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

    fn faults(files: &[(&str, &str)], permitted: &[Knot]) -> Vec<String> {
        let mut faults = Vec::new();
        check_with(&Tree::of(files), &["base"], permitted, &mut faults);
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
        let expected = "base: modules use each other in cycles: a, b; for example a -> b -> a (base/src/a.rs:1, \
                        base/src/b/inner.rs:3)";
        assert_eq!(faults(CIRCLE, &[]), [expected]);
    }

    #[test]
    fn a_permitted_circle_must_exist() {
        let permitted = [("base", &["a", "b"][..], "because")];
        assert!(faults(CIRCLE, &permitted).is_empty());
        assert_eq!(faults(CIRCLE, &[("base", &["a"], "because")]).len(), 1);
        assert_eq!(faults(&CIRCLE[..2], &permitted).len(), 2);
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
        assert!(faults(&files, &[]).is_empty());
    }

    #[test]
    fn trees_of_uses_are_read() {
        let mut paths = Vec::new();
        use_tree("a::{b, c::{d, e as f},\n    self}; more", &[], &mut paths);
        let found: Vec<String> = paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(found, ["a::b", "a::c::d", "a::c::e::f", "a::self"]);
    }
}

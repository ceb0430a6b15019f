//! Counts lines by module: a row for each crate, and for each folder at the root that is not a crate.

use std::collections::BTreeMap;

use crate::tree::{Tree, is_test, without_tests};

/// Titles of the columns.
const COLUMNS: [&str; 4] = ["code", "tests", "docs", "data"];

/// The table, with a row for the sum.
pub(crate) fn table(tree: &Tree) -> String {
    let mut rooms: BTreeMap<&str, [usize; COLUMNS.len()]> = BTreeMap::new();
    for (path, text) in tree.files() {
        let counts = rooms.entry(room(tree, path)).or_default();
        for (count, more) in counts.iter_mut().zip(lines(path, text)) {
            *count += more;
        }
    }
    rooms.retain(|_, counts| counts.iter().sum::<usize>() > 0);
    let sum = |column: usize| rooms.values().map(|counts| counts[column]).sum();
    let all = std::array::from_fn(sum);
    let mut table = row("room", COLUMNS.map(str::to_owned));
    for (room, counts) in &rooms {
        table += &row(room, counts.map(|count| count.to_string()));
    }
    table + &row("all", all.map(|count: usize| count.to_string()))
}

/// The crate of a file, or its folder at the root.
fn room<'a>(tree: &Tree, path: &'a str) -> &'a str {
    let folders = path.match_indices('/').map(|(at, _)| &path[..at]);
    let mut crates = folders.filter(|f| tree.text(&format!("{f}/Cargo.toml")).is_some());
    let first = path.split_once('/').map_or(".", |(folder, _)| folder);
    crates.next().unwrap_or(first)
}

/// Lines of a file: code without comments and blank lines, tests, docs, data. Files of other kinds do not count.
fn lines(path: &str, text: &str) -> [usize; COLUMNS.len()] {
    let all = text.lines().count();
    let ending = path.rsplit('.').next().unwrap_or_default();
    match ending {
        "rs" if is_test(path) => [0, all, 0, 0],
        "rs" => {
            let production = without_tests(text);
            let code = production.lines().filter(|line| is_code(line)).count();
            [code, all - production.lines().count(), 0, 0]
        }
        "md" => [0, 0, all, 0],
        "toml" | "txt" | "json" => [0, 0, 0, all],
        _ => [0; COLUMNS.len()],
    }
}

/// Whether a line is neither blank nor only a comment.
fn is_code(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with("//")
}

fn row(name: &str, cells: [String; COLUMNS.len()]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>8}")).collect();
    format!("{name:20}{cells}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_room_and_kind() {
        let tree = Tree::of(&[
            ("README.md", "one\ntwo\n"),
            ("base/Cargo.toml", "[package]\n"),
            (
                "base/src/a.rs",
                "//! A.\n\nfn a() {}\n#[cfg(test)]\nmod tests {\n}\n",
            ),
            ("base/tests/all.rs", "one\ntwo\n"),
            ("docs/deep/page.md", "one\n"),
        ]);
        let expected = [
            "room                    code   tests    docs    data",
            ".                          0       0       2       0",
            "base                       1       5       0       1",
            "docs                       0       0       1       0",
            "all                        1       5       3       1",
        ];
        let found = table(&tree);
        assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    }
}

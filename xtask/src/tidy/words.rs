//! Words that are hard to understand, with replacements.

use crate::tree::{Tree, has_word};

/// Forbidden phrases, in lower case, with replacements. They must not occur anywhere, comments included.
const PHRASES: &[(&str, &str)] = &[
    ("so many", "the number, or N"),
    ("so long at most", "the longest time"),
    ("is told", "receives, or is reported"),
    ("are told", "receive, or are reported"),
    ("of late", "recently"),
    ("bury", "reap"),
    ("buries", "reaps"),
    ("buried", "reaped"),
    ("ends as `", "is dropped with reason `...`"),
    ("ended, by reason", "dropped packets, by reason"),
    ("what ended", "dropped packets"),
    ("what waits", "the held packet, or waiting packets"),
    ("to be tried anew", "re-evaluate"),
    ("whom to tell", "name what is decided"),
    ("looked for at each", "checked after every N"),
    ("is a look at", "previews"),
    ("whoever else is there", "everyone except"),
];

/// Forbidden names of types, with replacements.
const TYPES: &[(&str, &str)] = &[
    ("Ways", "NextHopCache"),
    ("Neighbourhood", "NeighbourKey"),
    ("Said", "the thing that was said"),
    ("Known", "the thing that is known"),
    ("Sight", "the thing that is seen"),
    ("Course", "FlowSpec"),
];

/// Forbidden names of functions, with replacements.
const FUNCTIONS: &[(&str, &str)] = &[("look", "peek"), ("judge", "validate, or decide")];

/// Type names that only one folder may define.
const HOMES: &[(&str, &str)] = &[("Order", "router/controller")];

/// Extensions of text files that people read.
const KINDS: &[&str] = &[".rs", ".md", ".toml", ".txt"];

/// This file contains the words themselves.
const LIST: &str = "xtask/src/tidy/words.rs";

pub(super) fn check(tree: &Tree, faults: &mut Vec<String>) {
    let is_text = |path: &str| KINDS.iter().any(|kind| path.ends_with(kind));
    let files = tree
        .files()
        .filter(|(path, _)| is_text(path) && *path != LIST);
    for (path, text) in files {
        phrases(path, text, faults);
        if path.ends_with(".rs") {
            openings(path, text, faults);
            names(path, text, faults);
        }
    }
}

/// A comment does not open with a clause that has no noun: "What the gate counts". A question may.
const OPENINGS: &[&str] = &["What ", "Whoever "];

fn openings(path: &str, text: &str, faults: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!', ' ']);
        let opens = |opening: &&&str| comment.starts_with(**opening) && !comment.contains('?');
        if let Some(opening) = OPENINGS.iter().find(opens) {
            faults.push(format!(
                "{path}:{}: a comment opens with \"{}\"; name the thing",
                number + 1,
                opening.trim_end()
            ));
        }
    }
}

fn phrases(path: &str, text: &str, faults: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        for (phrase, better) in PHRASES {
            let found = if phrase.ends_with('`') {
                line.contains(phrase)
            } else {
                has_word(&line, phrase)
            };
            if found {
                faults.push(format!(
                    "{path}:{}: \"{phrase}\"; write: {better}",
                    number + 1
                ));
            }
        }
    }
}

fn names(path: &str, text: &str, faults: &mut Vec<String>) {
    for (list, kinds) in [(TYPES, TYPE_WORDS), (FUNCTIONS, FUNCTION_WORDS)] {
        for (name, better) in list {
            for number in declared(text, name, kinds) {
                faults.push(format!("{path}:{number}: `{name}`; write: {better}"));
            }
        }
    }
    for (name, home) in HOMES.iter().filter(|(_, home)| !path.starts_with(home)) {
        for number in declared(text, name, TYPE_WORDS) {
            faults.push(format!(
                "{path}:{number}: `{name}` is the name of a type in {home}"
            ));
        }
    }
}

const TYPE_WORDS: &[&str] = &["struct", "enum", "trait", "type", "union"];
const FUNCTION_WORDS: &[&str] = &["fn", "mod"];

/// The lines that declare this name with one of these words.
fn declared(text: &str, name: &str, kinds: &[&str]) -> Vec<usize> {
    let is_declared = |line: &str| {
        kinds
            .iter()
            .any(|kind| has_word(line, &format!("{kind} {name}")))
    };
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| is_declared(line))
        .map(|(n, _)| n + 1)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let mut faults = Vec::new();
        check(&Tree::of(files), &mut faults);
        faults
    }

    #[test]
    fn phrases_are_found_in_any_text() {
        let found = faults(&[
            ("a.toml", "# So many\nname = 1\n"),
            ("b.md", "how is told\n"),
        ]);
        let expected = [
            "a.toml:1: \"so many\"; write: the number, or N",
            "b.md:1: \"is told\"; write: receives, or is reported",
        ];
        assert_eq!(found, expected);
        assert!(faults(&[("c.rs", "// this tolder of lateness\n")]).is_empty());
    }

    #[test]
    fn comments_open_with_a_noun() {
        let text = "/// What the gate counts.\n// What now?\nfn whatever() {} // What\n";
        let found = faults(&[("a.rs", text)]);
        assert_eq!(
            found,
            ["a.rs:1: a comment opens with \"What\"; name the thing"]
        );
    }

    #[test]
    fn names_are_found_where_they_are_declared() {
        let text =
            "pub(crate) struct Known {}\n// Known limits\nfn look(&self) {}\nfn looks() {}\n";
        let found = faults(&[("a.rs", text)]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn one_type_is_called_order() {
        let files = [
            ("a.rs", "struct Order;\nenum Ordering {}\n"),
            ("router/controller/b.rs", "enum Order {}\n"),
        ];
        let found = faults(&files);
        assert_eq!(
            found,
            ["a.rs:1: `Order` is the name of a type in router/controller"]
        );
    }
}

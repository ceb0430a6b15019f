//! Patterns of sentences that must be read twice, each with the number of lines that still have it. The numbers may
//! only fall.

use regex_lite::Regex;

use crate::tree::Tree;

struct Pattern {
    name: &'static str,
    /// The replacement.
    remedy: &'static str,
    regex: &'static str,
    /// A match that also matches this one is good English.
    except: Option<&'static str>,
    lines: usize,
}

const PATTERNS: &[Pattern] = &[
    Pattern {
        name: "a headless clause",
        remedy: "name the thing: dropped packets, any reader",
        regex: r"\b([Ww]ho(m?ever)|[Ww]hat (is|was|it|they|comes|goes|waits|passes))\b",
        except: None,
        lines: 62,
    },
    Pattern {
        name: "a bare `one` or `those`",
        remedy: "repeat the noun",
        regex: r"\b([Oo]nes?|[Tt]hose) (that|of|with|without|whose|in|from|by) ",
        except: None,
        lines: 511,
    },
    Pattern {
        name: "a comment that opens with a pronoun",
        remedy: "open with the noun, or delete the comment",
        regex: r"^\s*//[/!]? (It|Its|They|Their|Of (it|its|them|these)|The same|The others?)\b",
        except: None,
        lines: 87,
    },
    Pattern {
        name: "`is there`, `lies` or `gone`",
        remedy: "exists, is missing, was deleted, is down",
        regex: r"\b(is|are|was|were|be|not) (there|gone|away)\b|\b(stands?|lies?) (in|at|on|by|between|behind|beside|ahead|below|for)\b",
        except: None,
        lines: 44,
    },
    Pattern {
        name: "a negated noun",
        remedy: "is not a socket; `None` if",
        regex: r"([Tt]here )?\b(is|are|was|were|be) no \w+|; none\b|\bnone (if|for|when|while|without)\b",
        except: Some(r"^[Tt]here |no (longer|more|less)"),
        lines: 32,
    },
    Pattern {
        name: "`anew` or its like",
        remedy: "restart, recreate, reset, no longer",
        regex: r"\b(anew|any more|from now on|defaults? again|again and again)\b",
        except: None,
        lines: 11,
    },
    Pattern {
        name: "a German preposition",
        remedy: "under, next to; through, via; our classes",
        regex: r"\bbeside\b|\b(goes?|leaves?|comes?|came|went) (in |out )?by (a|an|the|its|it|that|which|IP|another)\b|\bof ours\b",
        except: None,
        lines: 73,
    },
    Pattern {
        name: "a talking object",
        remedy: "files define, kernels report, tables list",
        regex: r"\b(says?|tells?)\b",
        except: None,
        lines: 124,
    },
    Pattern {
        name: "a household metaphor",
        remedy: "the glossary's word",
        regex: r"\b(in force|wish(es)?|signs? of life|under way|heard of|the books|by turns)\b",
        except: None,
        lines: 113,
    },
    Pattern {
        name: "a passive without an agent, or `shall`",
        remedy: "name the actor, or use the imperative",
        regex: r"\b(shall|is meant|are meant)\b|\b(is|are) (asked|taken|given|kept|wanted|told|held|noted)\b( by)?",
        except: Some(" by$"),
        lines: 138,
    },
    Pattern {
        name: "a comma before `too`",
        remedy: "also, before the verb; as well",
        regex: r#", too([.,;:)"]|$)"#,
        except: None,
        lines: 0,
    },
    Pattern {
        name: "an old spelling",
        remedy: "lookup, timeout, forever",
        regex: r"\b([Ll]ook-ups?|[Tt]ime-outs?|for ever)\b",
        except: None,
        lines: 5,
    },
    Pattern {
        name: "a countable `traffic`",
        remedy: "flow group; the other traffic",
        regex: r"\b([Aa]|[Oo]ne|[Aa]nother|[Ee]ach|[Ee]very) traffic\b( \w+)?",
        except: Some(r" (class|generator|handover|mix|tool)$"),
        lines: 0,
    },
];

/// Extensions of the files that count.
const KINDS: &[&str] = &[".rs", ".md", ".toml", ".html", ".js"];

/// Folders that do not count: the lists themselves, and the results, which quote papers.
const LEFT_OUT: &[&str] = &["xtask/src/tidy/", "docs/results/"];

pub(super) fn check(tree: &Tree, faults: &mut Vec<String>) {
    check_with(tree, PATTERNS, faults);
}

fn check_with(tree: &Tree, patterns: &[Pattern], faults: &mut Vec<String>) {
    for pattern in patterns {
        let places = places(tree, pattern);
        let (found, permitted) = (places.len(), pattern.lines);
        if found > permitted {
            faults.push(format!(
                "{} lines have {}, {permitted} are permitted; write: {} (the last one: {})",
                found,
                pattern.name,
                pattern.remedy,
                places[found - 1]
            ));
        } else if found < permitted {
            // Only a note: a change that improves a text must pass.
            println!(
                "tidy: only {found} lines have {}: write this number in xtask/src/tidy/patterns.rs",
                pattern.name
            );
        }
    }
}

/// The lines with this pattern: file and line number.
fn places(tree: &Tree, pattern: &Pattern) -> Vec<String> {
    let compiled = |regex| Regex::new(regex).unwrap_or_else(|e| unreachable!("{regex}: {e}"));
    let (regex, except) = (compiled(pattern.regex), pattern.except.map(compiled));
    let is_bad = |text: &str| except.as_ref().is_none_or(|except| !except.is_match(text));
    let has = |line: &str| regex.find_iter(line).any(|found| is_bad(found.as_str()));
    let is_read = |path: &str| {
        KINDS.iter().any(|kind| path.ends_with(kind))
            && !LEFT_OUT.iter().any(|folder| path.starts_with(folder))
    };
    let files = tree.files().filter(|(path, _)| is_read(path));
    let lines = files.flat_map(|(path, text)| (1..).zip(text.lines()).map(move |l| (path, l)));
    let found = lines.filter(|(_, (_, line))| has(line));
    found
        .map(|(path, (number, _))| format!("{path}:{number}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_lines_than_permitted_are_a_fault() {
        let tree = Tree::of(&[
            (
                "a.rs",
                "// This is no socket.\n// There is no path; it is no longer used.\n",
            ),
            ("b.py", "# This is no socket.\n"),
        ]);
        let faults = |lines| {
            let mut faults = Vec::new();
            let pattern = Pattern {
                lines,
                ..PATTERNS[4]
            };
            check_with(&tree, &[pattern], &mut faults);
            faults
        };
        assert!(faults(1).is_empty());
        let more = faults(0);
        assert!(more[0].ends_with("(the last one: a.rs:1)"), "{more:?}");
        assert!(faults(2).is_empty());
    }
}

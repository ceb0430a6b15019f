//! Checks that links between pages are valid, and that pages named in sources exist.

use crate::tree::{Tree, folder, resolved};

pub(super) fn check(tree: &Tree, faults: &mut Vec<String>) {
    for (path, text) in tree.files() {
        if path.ends_with(".md") {
            for (line, target, anchor) in targets(path, text) {
                if let Some(why) = dead(tree, &target, &anchor) {
                    faults.push(format!("{path}:{line}: {why}"));
                }
            }
        }
        let is_source = [".rs", ".toml", ".md"]
            .iter()
            .any(|end| path.ends_with(end));
        if is_source && !path.starts_with("xtask/") {
            for (number, line) in text.lines().enumerate() {
                for page in named(line).filter(|page| tree.text(page).is_none()) {
                    faults.push(format!("{path}:{}: {page} does not exist", number + 1));
                }
            }
        }
    }
}

/// Reason why a link is dead.
fn dead(tree: &Tree, target: &str, anchor: &str) -> Option<String> {
    let Some(text) = tree.text(target) else {
        let is_folder = tree.below(target, "").next().is_some();
        return (!is_folder).then(|| format!("a link to {target}, which does not exist"));
    };
    let has_anchor = anchor.is_empty() || headings(text).any(|heading| heading == anchor);
    (!has_anchor).then(|| format!("{target} has no heading #{anchor}"))
}

/// A page's links to files: line, path from the root, heading.
pub(super) fn targets(page: &str, text: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for rest in line.split("](").skip(1) {
            let link = rest.split(')').next().unwrap_or_default();
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                page.to_owned()
            } else {
                resolved(&format!("{}/{file}", folder(page)))
            };
            found.push((number + 1, target, anchor.to_owned()));
        }
    }
    found
}

/// The anchors of a page's headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// The pages below `docs` named in a line.
fn named(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("docs/").filter_map(|(at, _)| {
        let rest = &line[at..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && !"/-_.".contains(c));
        let page = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
        let starts = !line[..at].ends_with(|c: char| c.is_alphanumeric() || "/.-".contains(c));
        (starts && (page.ends_with(".md") || page.ends_with(".txt"))).then_some(page)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_found() {
        let tree = Tree::of(&[
            (
                "README.md",
                "[a](docs/one.md) [b](docs/lost.md)\n[c](docs) [d](http://x/y)\n",
            ),
            ("base/src/a.rs", "//! As docs/one.md and docs/old.md.\n"),
            (
                "docs/one.md",
                "# What it is\n[e](#what-it-is) [f](#what-it-was)\n[g](../README.md)\n",
            ),
        ]);
        let mut faults = Vec::new();
        check(&tree, &mut faults);
        let expected = [
            "README.md:1: a link to docs/lost.md, which does not exist",
            "README.md:1: docs/lost.md does not exist",
            "base/src/a.rs:1: docs/old.md does not exist",
            "docs/one.md:2: docs/one.md has no heading #what-it-was",
        ];
        assert_eq!(faults, expected);
    }
}

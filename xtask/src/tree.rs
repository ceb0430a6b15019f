//! The files of the repository, read once and shared by all rules.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Folders that commands generate.
const MADE: &[&str] = &[".git", "target", "out"];

/// The text of each file, by its path from the root.
pub(crate) struct Tree(BTreeMap<String, String>);

impl Tree {
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        collect(root, "", &mut files)?;
        Ok(Self(files))
    }

    /// A tree with these files, for tests of rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter();
        Self(
            files
                .map(|(p, t)| ((*p).to_owned(), (*t).to_owned()))
                .collect(),
        )
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// All files with their texts, in the order of their paths.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (&**path, &**text))
    }

    /// The folders of all crates of the workspace.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &str> {
        let manifests = self
            .files()
            .filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"));
        manifests.filter(|folder| *folder != "fuzz") // it is a separate workspace
    }

    /// The files below a folder whose names have this extension.
    pub(crate) fn below<'a>(
        &'a self,
        folder: &'a str,
        ending: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files().filter(move |(path, _)| {
            let inside = path.strip_prefix(folder);
            inside.is_some_and(|rest| rest.starts_with('/')) && path.ends_with(ending)
        })
    }
}

fn collect(root: &Path, folder: &str, files: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_dir() && !MADE.contains(&&*name) {
            collect(root, &path, files)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path())?;
            files.insert(path, String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    Ok(())
}

/// The code of a source file: its text before the unit tests.
pub(crate) fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default()
}

/// Whether a source file contains only tests.
pub(crate) fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs")
}

/// Whether a text contains a whole word, with no letter, digit or underscore directly before or after it.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

/// A path with `.` and `..` resolved.
pub(crate) fn resolved(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The folder of a file, empty for the root.
pub(crate) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

//! Reads a scenario's text, and the other files that it uses: files that it `extends`, lists of variants that several
//! files share, and traces of links.
//!
//! A file on disk uses files on disk, and a built-in scenario uses built-in files, so that built-in scenarios never
//! depend on the current folder. Paths are relative to the file that contains them.

use std::path::{Component, Path, PathBuf};

use weir_base::setting::{did_you_mean, nearest};
use weir_config::{ConfigError, Node, Origin, Value};
use weir_live::file::read_text;

use super::parameters::{EXTENDS, FROM_FILE, ONLY};
use super::reader::Section;
use super::reading::extended;

/// The scenario files of the repository, by their path below `scenarios/` without `.toml`, and their texts. Files
/// without a title are parts of others.
pub const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));

/// The title of a scenario, from its `title` line; empty without one.
pub fn title(text: &str) -> &str {
    let mut titles = text
        .lines()
        .filter_map(|line| line.strip_prefix("title = \""));
    let title = titles.next().unwrap_or_default();
    title.trim_end().trim_end_matches('"')
}

/// The traces of links that built-in scenarios use, by their path below `scenarios/`.
const TRACES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/traces.rs"));

/// Maximum length of a file, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Maximum length of a chain of files in which each extends the next.
const CHAIN_MAX: usize = 8;

/// The text of a built-in scenario, by its path in the repository.
pub(super) fn built_in(path: &Path) -> Result<&'static str, ConfigError> {
    let name = match path.extension() {
        Some(ending) if ending == "toml" => path.with_extension(""),
        _ => path.to_owned(),
    };
    let name = name.to_string_lossy().into_owned();
    let name = name.strip_prefix("scenarios/").unwrap_or(&name);
    let all = || BUILT_IN.iter().chain(TRACES);
    let names = || all().map(|(known, _)| *known);
    match all().find(|(known, _)| *known == name) {
        Some((_, text)) => Ok(text),
        None => {
            let near = did_you_mean(nearest(name, names()));
            let why = format!("is not a built-in file{near}");
            let origin = Origin::named(path.display().to_string());
            Err(ConfigError::new(origin, why))
        }
    }
}

/// The content of a file, with everything that it takes from other files. Without `text` it is read from disk; with
/// `text`, the files that it names are built-in files.
pub(super) fn read(file: &Path, text: Option<&str>) -> Result<Node, ConfigError> {
    let shelf = Shelf::of(text);
    let mut reading = Reading {
        shelf,
        open: Vec::new(),
    };
    match text {
        Some(text) => reading.whole(file, text),
        None => reading.whole(file, &shelf.text(file)?),
    }
}

/// The source of the files that others name.
#[derive(Clone, Copy, Debug)]
enum Shelf {
    Disk,
    BuiltIn,
}

impl Shelf {
    /// With `text`, the built-in files; otherwise the disk.
    fn of(text: Option<&str>) -> Self {
        match text {
            Some(_) => Self::BuiltIn,
            None => Self::Disk,
        }
    }

    fn text(self, path: &Path) -> Result<String, ConfigError> {
        match self {
            Self::Disk => read_text(path, FILE_BYTES_MAX).map_err(|error| {
                let origin = Origin::named(path.display().to_string());
                ConfigError::new(origin, format!("cannot be read ({error})"))
            }),
            Self::BuiltIn => built_in(path).map(str::to_owned),
        }
    }
}

/// Access to the files that a scenario names, relative to the file that names them.
#[derive(Debug)]
pub struct Files {
    shelf: Shelf,
    file: PathBuf,
}

impl Files {
    /// The files of a scenario file; with `text`, of a built-in scenario.
    pub(super) fn of(file: &Path, text: Option<&str>) -> Self {
        Self {
            shelf: Shelf::of(text),
            file: file.to_owned(),
        }
    }

    /// The normalized path and the text of the file that is named at `origin`. The error is a sentence without a
    /// subject.
    pub(super) fn text(&self, origin: &Origin, name: &str) -> Result<(String, String), String> {
        let place = match origin {
            Origin::At(source, _) => Path::new(&source.name),
            Origin::Named(_) => &self.file,
        };
        let path = plain(&place.parent().unwrap_or(Path::new("")).join(name));
        match self.shelf.text(&path) {
            Ok(text) => Ok((path.display().to_string(), text)),
            Err(error) => Err(format!(
                "names \"{name}\", but {} {}",
                path.display(),
                error.message
            )),
        }
    }
}

/// The files that are being read; each file is needed by the file before it.
struct Reading {
    shelf: Shelf,
    open: Vec<PathBuf>,
}

impl Reading {
    fn whole(&mut self, file: &Path, text: &str) -> Result<Node, ConfigError> {
        let mut tree = weir_config::parse(&file.display().to_string(), text)?;
        self.open.push(plain(file));
        self.take_variants(&mut tree)?;
        if let Some(named) = tree.remove(EXTENDS.name) {
            let base = self.other(&named, EXTENDS.name)?;
            tree = extended(base, tree);
        }
        self.open.pop();
        Ok(tree)
    }

    /// The whole content of the file whose name is `named`.
    fn other(&mut self, named: &Node, key: &str) -> Result<Node, ConfigError> {
        let wrong = |why: String| ConfigError::new(named.origin.clone(), format!("`{key}` {why}"));
        let Some(name) = named.text() else {
            return Err(wrong(format!(
                "must be the path of another file, like {key} = \"network.toml\""
            )));
        };
        let folder = self.open.last().and_then(|file| file.parent());
        let path = plain(&folder.unwrap_or(Path::new("")).join(name));
        if self.open.contains(&path) {
            let chain = self.open.iter().chain([&path]);
            let chain: Vec<String> = chain.map(|file| file.display().to_string()).collect();
            return Err(wrong(format!(
                "is circular: {}; remove one of these references",
                chain.join(", then ")
            )));
        }
        if self.open.len() == CHAIN_MAX {
            return Err(wrong(format!(
                "exceeds the maximum nesting of {CHAIN_MAX} files; merge some of these files"
            )));
        }
        let text = self.shelf.text(&path).map_err(|error| {
            wrong(format!(
                "names \"{name}\", but {} {}",
                path.display(),
                error.message
            ))
        })?;
        self.whole(&path, &text)
    }

    /// Replaces each `from` in the list of variants by the variants of the named file.
    fn take_variants(&mut self, tree: &mut Node) -> Result<(), ConfigError> {
        let Some(Node {
            value: Value::List(items),
            ..
        }) = tree.entry_mut("variant")
        else {
            return Ok(());
        };
        let mut all = Vec::with_capacity(items.len());
        for item in std::mem::take(items) {
            match item.entry(FROM_FILE.name) {
                Some(named) => all.append(&mut self.variants_of(named, &item)?),
                None => all.push(item),
            }
        }
        *items = all;
        Ok(())
    }

    fn variants_of(&mut self, named: &Node, item: &Node) -> Result<Vec<Node>, ConfigError> {
        let section = Section::new("variant", item)?;
        let only = section.names(&ONLY)?;
        let mut variants = match self.other(named, "variant.from")?.remove("variant") {
            Some(Node {
                value: Value::List(variants),
                ..
            }) => variants,
            _ => return Err(section.error(FROM_FILE.name, "names a file that has no variants")),
        };
        let name_of = |variant: &Node| variant.entry("name")?.text().map(str::to_owned);
        if let Some(only) = only {
            let known: Vec<String> = variants.iter().filter_map(name_of).collect();
            if let Some(name) = only.iter().find(|name| !known.contains(name)) {
                let near = did_you_mean(nearest(name, known.iter().map(String::as_str)));
                let why = format!("names the unknown variant \"{name}\"{near}");
                return Err(section.error(ONLY.name, why));
            }
            variants.retain(|v| name_of(v).is_some_and(|name| only.contains(&name)));
        }
        section.finish_with(&[], &[FROM_FILE.name, ONLY.name])?;
        Ok(variants)
    }
}

/// A path without `.` and `..`, as far as the text of the path permits.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match (part, plain.components().next_back()) {
            (Component::CurDir, _) => {}
            (Component::ParentDir, Some(Component::Normal(_))) => {
                plain.pop();
            }
            _ => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::reading::to_json;

    #[test]
    fn paths_are_made_plain() {
        let plain = |path: &str| super::plain(Path::new(path)).display().to_string();
        assert_eq!(plain("a/./b/../c.toml"), "a/c.toml");
        assert_eq!(plain("../a/../../b.toml"), "../../b.toml");
    }

    #[test]
    fn what_is_built_in_uses_what_is_built_in() {
        let text = "extends = \"network.toml\"\ntitle = \"t\"\n";
        let of = |file: &str| read(Path::new(file), Some(text));
        let tree = of("scenarios/lru-fq/mine.toml").unwrap();
        assert_eq!(to_json(&tree)["host"]["tcp"]["count"], 20);
        let error = of("scenarios/both/mine.toml").unwrap_err().to_string();
        let expected = "scenarios/both/mine.toml:1:1: `extends` names \"network.toml\", but scenarios/both/network.toml is not a built-in \
                        file";
        assert!(error.starts_with(expected), "{error}");
    }

    #[test]
    fn a_chain_has_an_end() {
        let folder = std::env::temp_dir().join(format!("weir-chain-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for n in 0..=CHAIN_MAX {
            let text = format!("extends = \"{}.toml\"\n", n + 1);
            std::fs::write(folder.join(format!("{n}.toml")), text).unwrap();
        }
        let error = read(&folder.join("0.toml"), None).unwrap_err().to_string();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(
            error.contains("7.toml:1:1: `extends` exceeds the maximum nesting of 8 files"),
            "{error}"
        );
    }
}

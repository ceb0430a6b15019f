//! Documents with measured tables: a table for each load of their scenarios, with a row for each discipline.
//!
//! The command writes all tables to `out`, and replaces the summary between marks in the document; the text around it
//! is written by hand.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use weir_experiment::RunOptions;
use weir_experiment::compare::load::{Load, Place};
use weir_experiment::results::PointResult;

/// A document and its scenarios.
pub(crate) struct Document {
    /// The name of the command after `cargo xtask`.
    pub(crate) command: &'static str,
    /// The path of the document.
    pub(crate) path: &'static str,
    /// The folders below `scenarios`.
    pub(crate) folders: &'static [&'static str],
    /// The load and the row that a point of the results belongs to.
    pub(crate) place: fn(&PointResult) -> Option<Place>,
    /// The text between the marks at the top.
    pub(crate) summary: fn(&[Load]) -> String,
    /// All tables.
    pub(crate) tables: fn(&[Load]) -> String,
    /// A picture next to the document, if it has one.
    pub(crate) picture: Option<Picture>,
}

/// A picture, redrawn with the summary.
pub(crate) struct Picture {
    /// The path of the file.
    pub(crate) path: &'static str,
    /// The picture as SVG.
    pub(crate) draw: fn(&[Load]) -> Option<String>,
}

#[derive(Debug, Default, PartialEq)]
struct Options {
    runs: Option<u64>,
    scenarios: Vec<String>,
}

impl Document {
    /// Runs the command with these arguments.
    pub(crate) fn run(&self, root: &Path, words: &[&str]) -> Result<(), String> {
        let wrong = |why| format!("{why}\nusage: {}", self.usage());
        let options = parse(words).map_err(wrong)?;
        let files = self.files(root, &options.scenarios).map_err(wrong)?;
        let mut loads = Vec::new();
        for file in files {
            eprintln!("{}", file.display());
            loads.extend(self.measure(&file, options.runs)?);
        }
        let measured = (self.tables)(&loads);
        if !options.scenarios.is_empty() {
            print!("{measured}");
            return Ok(());
        }
        if let Some(Picture { path, draw }) = self.picture
            && let Some(svg) = draw(&loads)
        {
            fs::write(root.join(path), svg).map_err(|error| format!("{path}: {error}"))?;
        }
        self.write(root, &(self.summary)(&loads), &measured)
    }

    /// Replaces the summary in the document, and writes all tables to a separate file.
    fn write(&self, root: &Path, summary: &str, tables: &str) -> Result<(), String> {
        let document = root.join(self.path);
        let at = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&document).map_err(|error| at(&document, error))?;
        let text = replaced(&text, &self.marks(), summary);
        let text = text.ok_or(format!(
            "{}: the marks of the summary are missing",
            self.path
        ))?;
        fs::write(&document, text).map_err(|error| at(&document, error))?;
        let full = root.join(self.tables_path());
        fs::create_dir_all(root.join("out")).map_err(|error| at(&full, error))?;
        let title = format!("# Tables of `cargo xtask {}`\n", self.command);
        fs::write(&full, title + tables).map_err(|error| at(&full, error))
    }

    /// The path of the file with all tables.
    fn tables_path(&self) -> String {
        format!("out/{}.md", self.command)
    }

    fn usage(&self) -> String {
        let Self { command, path, .. } = self;
        let folders: Vec<String> = self
            .folders
            .iter()
            .map(|f| format!("scenarios/{f}"))
            .collect();
        let folders = folders.join(" or ");
        format!(
            "cargo xtask {command} [--runs N] [SCENARIO...]
  SCENARIO  a file name below {folders}, without `.toml`; prints the tables of this scenario
            [default: all scenarios; writes {} and the summary in {path}]
  --runs    seeds of each point [default: the scenario's]",
            self.tables_path()
        )
    }

    /// The scenario files, in the order of the document.
    fn files(&self, root: &Path, named: &[String]) -> Result<Vec<PathBuf>, String> {
        let mut files = Vec::new();
        for folder in self.folders {
            let folder = root.join("scenarios").join(folder);
            let entries = fs::read_dir(&folder);
            let entries = entries.map_err(|error| format!("{}: {error}", folder.display()))?;
            let mut here: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            here.retain(|file| is_whole(file));
            here.sort();
            files.extend(here);
        }
        let stem = |file: &Path| file.file_stem().map(|s| s.to_string_lossy().into_owned());
        if let Some(name) = named
            .iter()
            .find(|name| !files.iter().any(|file| stem(file).as_ref() == Some(name)))
        {
            return Err(format!("unknown scenario \"{name}\""));
        }
        files.retain(|file| named.is_empty() || stem(file).is_some_and(|s| named.contains(&s)));
        Ok(files)
    }

    /// The loads of a scenario.
    fn measure(&self, file: &Path, runs: Option<u64>) -> Result<Vec<Load>, String> {
        let options = RunOptions {
            scenario: file.to_owned(),
            runs,
            progress: true,
            ..RunOptions::default()
        };
        let results = weir_experiment::run(&options).map_err(|error| error.to_string())?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Load::all(&name, &results, self.place))
    }

    /// The marks around the summary.
    fn marks(&self) -> [String; 2] {
        let by = format!("measured by `cargo xtask {}`: do not edit", self.command);
        [
            format!("<!-- summary, {by} -->\n"),
            "<!-- end of the summary -->\n".to_owned(),
        ]
    }
}

/// Each variant is a row.
pub(crate) fn by_variant(point: &PointResult) -> Option<Place> {
    Some(Place {
        row: point.variant.clone()?,
        load: String::new(),
    })
}

/// Whether a scenario can be run: a file without a title is a part of other scenarios.
fn is_whole(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().any(|line| line.starts_with("title = "))
}

/// The text, with the part between the marks replaced.
fn replaced(text: &str, [begin, end]: &[String; 2], measured: &str) -> Option<String> {
    let (before, rest) = text.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}{measured}{end}{after}"))
}

fn parse(words: &[&str]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} requires a value"));
        match *word {
            "--runs" => {
                let runs = value()?.parse().ok().filter(|runs| *runs > 0);
                options.runs = Some(runs.ok_or(format!("{word}: must be a positive number"))?);
            }
            name if !name.starts_with('-') => options.scenarios.push(name.to_owned()),
            _ => return Err(format!("unknown argument \"{word}\"")),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: Document = Document {
        command: "count",
        path: "docs/comparison.md",
        folders: &["counts"],
        place: |_| None,
        summary: |_| String::new(),
        tables: |_| String::new(),
        picture: None,
    };

    #[test]
    fn words_are_options_or_scenarios() {
        let options = parse(&["--runs", "3", "9-mix"]);
        let options = options.map(|options| (options.runs, options.scenarios));
        assert_eq!(options, Ok((Some(3), vec!["9-mix".to_owned()])));
        assert!(parse(&["--runs", "0"]).is_err());
        assert!(parse(&["--fast"]).is_err());
    }

    #[test]
    fn the_summary_is_replaced_and_all_tables_are_written() {
        let root = std::env::temp_dir().join(format!("weir-tables-{}", std::process::id()));
        let page = root.join(DOCUMENT.path);
        fs::create_dir_all(root.join("docs")).unwrap();
        let [begin, end] = DOCUMENT.marks();
        assert!(begin.contains("cargo xtask count"), "{begin}");
        fs::write(&page, format!("by hand\n{begin}old\n{end}by hand too\n")).unwrap();
        DOCUMENT.write(&root, "new\n", "\n## One\n").unwrap();
        let expected = format!("by hand\n{begin}new\n{end}by hand too\n");
        assert_eq!(fs::read_to_string(&page).unwrap(), expected);
        let full = fs::read_to_string(root.join("out/count.md")).unwrap();
        assert_eq!(full, "# Tables of `cargo xtask count`\n\n## One\n");
        fs::write(&page, "by hand\n").unwrap();
        assert!(DOCUMENT.write(&root, "new\n", "").is_err());
        fs::remove_dir_all(&root).unwrap();
    }
}

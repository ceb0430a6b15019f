//! Documents with measured tables: a table for each load of their scenarios, with a row for each discipline.
//!
//! The command writes all tables to `out`, and replaces the summary between marks in the document; the text around it
//! is written by hand.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use weir_lab::RunOptions;
use weir_lab::statistics::Summary;

use crate::summary;

/// A document and its scenarios.
pub(crate) struct Document {
    /// The name of the command after `cargo xtask`.
    pub(crate) command: &'static str,
    /// The path of the document.
    pub(crate) path: &'static str,
    /// The folders below `scenarios`.
    pub(crate) folders: &'static [&'static str],
    /// The load and the row that a point of the results belongs to.
    pub(crate) place: fn(&Value) -> Option<Place>,
    /// The text between the marks at the top.
    pub(crate) summary: fn(&[Load]) -> String,
    /// All tables.
    pub(crate) tables: fn(&[Load]) -> String,
}

/// The place of a point in the tables.
pub(crate) struct Place {
    /// The row: usually a discipline.
    pub(crate) row: String,
    /// The part of the load's name after the scenario's.
    pub(crate) load: String,
}

/// One load, and each discipline's results under it.
pub(crate) struct Load {
    /// The scenario's name, and the values that its sweep sets besides the discipline.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) about: String,
    /// How the load was measured.
    pub(crate) note: String,
    /// For each row: its name, and the metrics of its runs.
    pub(crate) rows: Vec<(String, Vec<Metrics>)>,
}

pub(crate) type Metrics = BTreeMap<String, f64>;
pub(crate) type Read = fn(&Metrics) -> Option<f64>;

/// A column of a table.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    pub(crate) read: Read,
}

/// A column.
pub(crate) const fn column(title: &'static str, read: Read) -> Column {
    Column { title, read }
}

#[derive(Debug, Default, PartialEq)]
struct Options {
    runs: Option<u64>,
    scenarios: Vec<String>,
}

impl Load {
    /// The metrics of all runs.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = &Metrics> {
        self.rows.iter().flat_map(|(_, runs)| runs)
    }

    /// Whether it has this row.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.rows.iter().any(|(row, _)| row == name)
    }

    /// Those of these columns that have a value for this load.
    pub(crate) fn columns<'a>(&self, all: &'a [Column]) -> Vec<&'a Column> {
        let told = |column: &&Column| self.metrics().any(|m| (column.read)(m).is_some());
        all.iter().filter(told).collect()
    }

    /// The summary of all runs of a row.
    pub(crate) fn cell(
        &self,
        name: &str,
        read: Read,
        shown: impl Fn(&Summary) -> String,
    ) -> String {
        let row = self.rows.iter().find(|(row, _)| row == name);
        let summary = row.and_then(|(_, runs)| summary::of(runs.iter().filter_map(read)));
        summary.map_or("-".to_owned(), |summary| shown(&summary))
    }
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
        self.write(root, &(self.summary)(&loads), &measured)
    }

    /// Replaces the summary in the document, and writes all tables to a separate file.
    fn write(&self, root: &Path, summary: &str, tables: &str) -> Result<(), String> {
        let document = root.join(self.path);
        let at = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
        let text = fs::read_to_string(&document).map_err(|error| at(&document, error))?;
        let text = replaced(&text, &self.marks(), summary);
        let text = text.ok_or(format!("{}: the marks are gone", self.path))?;
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
  SCENARIO  a file name below {folders}, without `.toml`; all of them if none is
            named, and then {} and the summary in {path} are written; otherwise the tables are printed
  --runs    seeds of each point (what the scenario says)",
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
            return Err(format!("there is no scenario \"{name}\""));
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
        let results = weir_lab::run(&options).map_err(|error| error.to_string())?;
        let results = serde_json::to_value(&results).map_err(|error| error.to_string())?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let wrong = || format!("{}: results of another shape", file.display());
        loads(&name, &results, self.place).ok_or_else(wrong)
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
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match *word {
            "--runs" => {
                let runs = value()?.parse().ok().filter(|runs| *runs > 0);
                options.runs = Some(runs.ok_or(format!("{word}: not a positive number"))?);
            }
            name if !name.starts_with('-') => options.scenarios.push(name.to_owned()),
            _ => return Err(format!("\"{word}\" is not understood")),
        }
    }
    Ok(options)
}

/// The loads in the results of a scenario.
pub(crate) fn loads(
    name: &str,
    results: &Value,
    place: fn(&Value) -> Option<Place>,
) -> Option<Vec<Load>> {
    let mut loads: Vec<Load> = Vec::new();
    let word = |key: &str| results[key].as_str().map(str::to_owned);
    for point in results["points"].as_array()? {
        let Place { row, load } = place(point)?;
        let name = format!("{name}{load}");
        let runs = point["runs"].as_array()?;
        let metrics: Option<Vec<Metrics>> =
            runs.iter().map(|run| metrics(&run["metrics"])).collect();
        let (count, seed) = (runs.len(), results["seed"].as_u64()?);
        let (duration, warm_up) = (
            results["duration_s"].as_f64()?,
            results["warm_up_s"].as_f64()?,
        );
        let row = (row, metrics?);
        match loads.iter_mut().find(|load| load.name == name) {
            Some(load) => load.rows.push(row),
            None => loads.push(Load {
                name,
                title: word("title")?,
                about: word("about")?,
                note: format!(
                    "{duration} s, the first {warm_up} s not counted; {count} runs, seeds {seed} to {}.",
                    seed + count as u64 - 1
                ),
                rows: vec![row],
            }),
        }
    }
    Some(loads)
}

fn metrics(value: &Value) -> Option<Metrics> {
    let pairs = value.as_object()?.iter();
    let pairs = pairs.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
    Some(pairs.collect())
}

/// One figure of these rows under each load; loads are numbered from 1.
pub(crate) fn glance(loads: &[&Load], rows: &[&str], read: Read, decimals: usize) -> String {
    let numbers: Vec<String> = (1..=loads.len()).map(|n| n.to_string()).collect();
    let mut text = header(&numbers);
    for name in rows {
        let cells = loads.iter();
        let cells = cells.map(|load| load.cell(name, read, |s| format!("{:.decimals$}", s.mean)));
        text += &row(name, &cells.collect::<Vec<_>>());
    }
    text
}

/// All rows of a load.
pub(crate) fn table(load: &Load, columns: &[&Column], shown: fn(&Summary) -> String) -> String {
    let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
    let mut text = header(&titles);
    for name in names([load]) {
        let cells = columns.iter();
        let cells = cells.map(|column| load.cell(name, column.read, shown));
        text += &row(name, &cells.collect::<Vec<_>>());
    }
    text
}

/// The rows of these loads, each once.
pub(crate) fn names<'a>(loads: impl IntoIterator<Item = &'a Load>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in loads.into_iter().flat_map(|load| &load.rows) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

pub(crate) fn header<T: AsRef<str>>(titles: &[T]) -> String {
    let titles: Vec<&str> = titles.iter().map(AsRef::as_ref).collect();
    let lines = "---|".repeat(titles.len());
    format!("| | {} |\n|---|{lines}\n", titles.join(" | "))
}

pub(crate) fn row(name: &str, cells: &[String]) -> String {
    format!("| `{name}` | {} |\n", cells.join(" | "))
}

/// The existing figures with these names.
fn values(metrics: &Metrics, names: &[&str]) -> impl Iterator<Item = f64> {
    names.iter().filter_map(|name| metrics.get(*name).copied())
}

/// The first existing figure with one of these names.
pub(crate) fn first(metrics: &Metrics, names: &[&str]) -> Option<f64> {
    values(metrics, names).next()
}

/// The greatest of the figures with these names.
pub(crate) fn most(metrics: &Metrics, names: &[&str]) -> Option<f64> {
    values(metrics, names).reduce(f64::max)
}

/// The mean of all figures whose names have this prefix.
pub(crate) fn mean(metrics: &Metrics, prefix: &str) -> Option<f64> {
    let values = metrics.range(prefix.to_owned()..);
    let values = values.take_while(|(name, _)| name.starts_with(prefix));
    summary::of(values.map(|(_, value)| *value)).map(|summary| summary.mean)
}

/// The sum of the figures with these names.
pub(crate) fn sum(metrics: &Metrics, names: &[&str]) -> Option<f64> {
    values(metrics, names).reduce(|a, b| a + b)
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

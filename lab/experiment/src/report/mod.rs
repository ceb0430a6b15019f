//! Results as a self-contained page, and as tables, sheets and plots.
//!
//! ```text
//!   Ran ─▶ page ─▶ latency, shares, …   one HTML file: no scripts, nothing external, light and dark
//!       ─▶ table                        the same numbers in columns, for a terminal
//!       ─▶ sheets                       CSV: runs, summaries, flows, curves
//!       ─▶ plots ─▶ figure              distributions, sweeps and curves over time, as SVG and PNG
//!       ─▶ flent                        files for Flent
//! ```
//!
//! Numbers and plots are medians over the runs of a point, except that curves over time are means. Where a scenario
//! reproduces a table of a paper, the page shows the paper's numbers next to ours.

mod agreement;
#[cfg(test)]
mod example;
mod figure;
mod flent;
mod gain;
mod html;
mod latency;
mod measures;
mod metric;
mod page;
mod paper;
mod plots;
mod shares;
mod sheets;
mod style;
mod swept;
mod table;

pub(crate) use agreement::{html as agreement_html, text as agreement_text};
pub use figure::lines::Line;
pub(crate) use figure::lines::{Dot, Form, Plot};
pub(crate) use figure::marks::Marks;
pub(crate) use figure::scatter::{Point, Scatter};
pub(crate) use html::{escape, section};
use page::Drawn;
pub(crate) use page::{DISTURBED, document, files, pictures};
pub(crate) use plots::mean_curve;
pub(crate) use style::COLOURS_MAX;
pub(crate) use table::align;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::agreement::Ran;
use crate::error::Error;
use crate::results::RunResult;

/// Maximum number of files of one kind in one folder; the rest is in the sheets.
const FILES_MAX: usize = 1000;

/// A plain table of a result, for a terminal.
pub fn text(result: &RunResult) -> String {
    table::text(result)
}

/// The tables of one or both habitats, with their comparison.
pub fn text_of(ran: &Ran) -> String {
    let results = ran.results();
    let tables: Vec<String> = results.into_iter().map(table::text).collect();
    let text = tables.join("\n");
    match ran {
        Ran::One(_) => text,
        Ran::Both(both) => format!("{text}\n{}", agreement::text(both)),
    }
}

/// Writes everything into `folder`, which is created if necessary: `report.html`, `results.json`, the sheets, the
/// folders `plots`, `flent` and `captures`. Returns the paths of single files, and of folders.
pub fn write(all: &[Ran], folder: &Path) -> Result<Vec<PathBuf>, Error> {
    make(folder)?;
    let json = match all {
        [one] => serde_json::to_string_pretty(one),
        many => serde_json::to_string_pretty(many),
    };
    let json = json.map_err(|e| Error::io("cannot write the results as JSON")(e.into()))?;
    let results: Vec<&RunResult> = all.iter().flat_map(Ran::results).collect();
    let names = prefixes(&results);
    let (plots, drawn) = write_plots(&results, &names, &folder.join("plots"))?;
    let mut written = vec![put(folder, "results.json", json.as_bytes())?];
    written.extend(sheets::write(&results, folder)?);
    let flent = write_flent(&results, &names, &folder.join("flent"))?;
    let captures = write_captures(&results, &names, &folder.join("captures"))?;
    let single = written.iter().filter_map(|path| path.file_name());
    let mut paths: Vec<String> = single
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    for (inside, files) in [&flent, &captures] {
        let inside = inside.iter().filter_map(|path| path.file_name());
        for inside in inside {
            let inside = inside.to_string_lossy();
            paths.extend(files.iter().map(|file| format!("{inside}/{file}")));
        }
    }
    let html = page::html(all, &drawn, &paths);
    written.insert(0, put(folder, "report.html", html.as_bytes())?);
    written.extend(plots.into_iter().chain(flent.0).chain(captures.0));
    Ok(written)
}

/// The prefix of a result's file names, so that they differ from another result's.
fn prefixes(results: &[&RunResult]) -> Vec<String> {
    let stem = |result: &RunResult| {
        let stem = Path::new(&result.scenario).file_stem().unwrap_or_default();
        format!("{}-{}-", stem.to_string_lossy(), result.on)
    };
    let several = results.len() > 1;
    let mut taken = BTreeSet::new();
    let prefix = |result: &&RunResult| {
        let mut name = if several { stem(result) } else { String::new() };
        let first = name.clone();
        let mut number = 2;
        while !taken.insert(name.clone()) {
            name = format!("{first}{number}-");
            number += 1;
        }
        name
    };
    results.iter().map(prefix).collect()
}

fn write_plots(
    results: &[&RunResult],
    prefixes: &[String],
    folder: &Path,
) -> Result<(Option<PathBuf>, Vec<Vec<Drawn>>), Error> {
    let mut files = Files::new(folder);
    let mut drawn = Vec::new();
    for (result, prefix) in results.iter().zip(prefixes) {
        let (plots, more) = plots::of(result);
        files.left_out += more;
        let mut of_result = Vec::new();
        for (name, plot) in plots {
            let failed = |e| {
                let e = std::io::Error::other(format!("{e}"));
                Error::io(format!("cannot draw {name}"))(e)
            };
            let name = format!("{prefix}{name}");
            let svg = plot.svg().map_err(failed)?;
            let png = plot.png().map_err(failed)?;
            if let Some(name) = files.put(&name, &[("svg", svg.as_bytes()), ("png", &png)])? {
                of_result.push(Drawn {
                    title: plot.title,
                    path: format!("plots/{name}"),
                });
            }
        }
        drawn.push(of_result);
    }
    Ok((files.written().0, drawn))
}

fn write_flent(
    results: &[&RunResult],
    prefixes: &[String],
    folder: &Path,
) -> Result<Written, Error> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |passed| passed.as_secs());
    let mut files = Files::new(folder);
    for (result, prefix) in results.iter().zip(prefixes) {
        let began = now.saturating_sub(result.wall_s as u64);
        for point in &result.points {
            if let Some(content) = flent::file(result, point, began)? {
                let name = format!("{prefix}{}", point.title());
                files.put(&name, &[("flent.gz", &content)])?;
            }
        }
    }
    Ok(files.written())
}

fn write_captures(
    results: &[&RunResult],
    prefixes: &[String],
    folder: &Path,
) -> Result<Written, Error> {
    let mut files = Files::new(folder);
    for (result, prefix) in results.iter().zip(prefixes) {
        for point in &result.points {
            for captured in point.runs.iter().flat_map(|run| &run.captures) {
                let name = match point.title().as_str() {
                    "all" => format!("{prefix}{}", captured.link),
                    title => format!("{prefix}{}-{title}", captured.link),
                };
                files.put(&name, &[("pcapng", &captured.pcapng)])?;
            }
        }
    }
    Ok(files.written())
}

/// A folder, if it was created, and the names of its files.
type Written = (Option<PathBuf>, Vec<String>);

/// A folder of many files, created with its first file.
struct Files<'a> {
    folder: &'a Path,
    names: BTreeSet<String>,
    files: Vec<String>,
    left_out: usize,
}

impl<'a> Files<'a> {
    fn new(folder: &'a Path) -> Self {
        Self {
            folder,
            names: BTreeSet::new(),
            files: Vec::new(),
            left_out: 0,
        }
    }

    /// Writes an item in several forms, under a unique name, which is returned; `None` if the maximum number of files
    /// is reached.
    fn put(&mut self, name: &str, forms: &[(&str, &[u8])]) -> Result<Option<String>, Error> {
        if self.names.len() == FILES_MAX {
            self.left_out += 1;
            return Ok(None);
        }
        if self.names.is_empty() {
            make(self.folder)?;
        }
        let plain = metric::file_name(name);
        let mut name = plain.clone();
        let mut number = 2;
        while !self.names.insert(name.clone()) {
            name = format!("{plain}-{number}");
            number += 1;
        }
        for (ending, content) in forms {
            let file = format!("{name}.{ending}");
            put(self.folder, &file, content)?;
            self.files.push(file);
        }
        Ok(Some(name))
    }

    /// The folder, if it has files, and their names.
    fn written(self) -> Written {
        if self.left_out > 0 {
            let folder = self.folder.display();
            eprintln!(
                "note: {} more files for {folder} were left out",
                self.left_out
            );
        }
        let folder = (!self.names.is_empty()).then(|| self.folder.to_owned());
        (folder, self.files)
    }
}

/// Creates a folder.
pub(crate) fn make(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(Error::io(format!("cannot create {}", folder.display())))
}

/// Writes a complete file into a folder, or no file.
pub(crate) fn put(folder: &Path, name: &str, content: &[u8]) -> Result<PathBuf, Error> {
    let path = folder.join(name);
    let written = fs::write(&path, content);
    let written = written.inspect_err(|_| drop(fs::remove_file(&path))); // an incomplete file looks like a complete one
    written.map_err(Error::io(format!("cannot write {}", path.display())))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_written() {
        let folder = std::env::temp_dir().join(format!("weir-report-{}", std::process::id()));
        let ran = Ran::from(example::result());
        let written = write(&[ran.clone(), ran], &folder).unwrap();
        let names: Vec<_> = written.iter().filter_map(|p| p.file_name()).collect();
        let expected = [
            "report.html",
            "results.json",
            "runs.csv",
            "summary.csv",
            "flows.csv",
            "series.csv",
            "plots",
            "flent",
        ];
        assert_eq!(names, expected);
        for path in [
            "plots/a-sim-tcp_mbps-over-time.svg",
            "plots/a-sim-2-tcp_mbps-over-time.png",
            "plots/a-sim-tcp_share_ratio-by-traffic.flood.flows.png",
            "flent/a-sim-plain-old-flows-2.flent.gz",
        ] {
            assert!(folder.join(path).exists(), "{path}");
        }
        let page = fs::read_to_string(folder.join("report.html")).unwrap();
        for entry in fs::read_dir(folder.join("plots")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(
                page.contains(&format!("href=\"plots/{name}\"")),
                "{name} is not linked"
            );
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}

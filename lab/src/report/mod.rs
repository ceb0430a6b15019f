//! Results as a page that needs nothing else, and as a table for a terminal.
//!
//! ```text
//!   RunResult ─▶ page     one HTML file: no scripts, no external resources, light and dark
//!             ─▶ text     the same numbers in columns
//! ```
//!
//! Numbers are medians over the runs of a point. Where a scenario reproduces a table of a paper,
//! the paper's numbers stand beside ours.

mod page;
mod paper;
mod picture;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::results::RunResult;

/// The page of these results.
pub fn html(results: &[RunResult]) -> String {
    page::html(results)
}

/// A plain table of a result, for a terminal.
pub fn text(result: &RunResult) -> String {
    table::text(result)
}

/// Writes `report.html` and `results.json` into `folder`, which is made if it is not there, and
/// gives their paths.
pub fn write(results: &[RunResult], folder: &Path) -> Result<Vec<PathBuf>, Error> {
    fs::create_dir_all(folder).map_err(Error::io(format!("cannot make {}", folder.display())))?;
    let json = match results {
        [one] => serde_json::to_string_pretty(one),
        many => serde_json::to_string_pretty(many),
    };
    let json = json.map_err(|e| Error::io("cannot write the results as JSON")(e.into()))?;
    let files = [("report.html", html(results)), ("results.json", json)];
    let written = files.into_iter().map(|(name, content)| {
        let path = folder.join(name);
        fs::write(&path, content).map_err(Error::io(format!("cannot write {}", path.display())))?;
        Ok(path)
    });
    written.collect()
}

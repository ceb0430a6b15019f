//! Tables of documents: a row for each discipline, in Markdown.

use super::figures::Column;
use super::load::{Load, Read, rows};
use crate::statistics::Summary;

impl Load {
    /// The columns that have a value for this load.
    pub fn columns<'a>(&self, all: &'a [Column]) -> Vec<&'a Column> {
        let told = |column: &&Column| self.metrics().any(|m| (column.read)(m).is_some());
        all.iter().filter(told).collect()
    }

    /// A figure of a row as a cell; `-` without a value.
    pub fn cell(&self, name: &str, read: Read, shown: impl Fn(&Summary) -> String) -> String {
        let summary = self.summary(name, read);
        summary.map_or("-".to_owned(), |summary| shown(&summary))
    }
}

/// All rows of a load.
pub(super) fn table(load: &Load, columns: &[&Column], shown: fn(&Summary) -> String) -> String {
    let titles: Vec<&str> = columns.iter().map(|column| column.title).collect();
    let mut text = header(&titles);
    for name in rows([load]) {
        let cells = columns.iter();
        let cells = cells.map(|column| load.cell(name, column.read, shown));
        text += &row(name, &cells.collect::<Vec<_>>());
    }
    text
}

/// The mean of one figure of these rows under each load; loads are numbered from 1.
pub(super) fn glance(loads: &[&Load], rows: &[&str], read: Read, decimals: usize) -> String {
    let numbers: Vec<String> = (1..=loads.len()).map(|n| n.to_string()).collect();
    let mut text = header(&numbers);
    for name in rows {
        let cells = loads.iter();
        let cells = cells.map(|load| load.cell(name, read, |s| format!("{:.decimals$}", s.mean)));
        text += &row(name, &cells.collect::<Vec<_>>());
    }
    text
}

/// The first two lines of a table.
pub(super) fn header<T: AsRef<str>>(titles: &[T]) -> String {
    let titles: Vec<&str> = titles.iter().map(AsRef::as_ref).collect();
    let lines = "---|".repeat(titles.len());
    format!("| | {} |\n|---|{lines}\n", titles.join(" | "))
}

/// A row of a table.
pub(super) fn row(name: &str, cells: &[String]) -> String {
    format!("| `{name}` | {} |\n", cells.join(" | "))
}

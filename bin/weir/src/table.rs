//! Aligned tables for a terminal.

use std::borrow::Cow;
use std::fmt;

use crate::output::one_line;

/// The space between two columns.
const GAP: &str = "  ";
/// Minimum width of a column that is cut.
const CUT_MIN: usize = 12;

/// A column: its title and its alignment.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// Text.
    Left(&'static str),
    /// Numbers, with digits of the same place aligned.
    Right(&'static str),
}

/// A table: columns as wide as their widest cell, two spaces between them.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[Column]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; it must have as many cells as the table has columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter();
        let safe = |cell: String| one_line(&cell).into_owned();
        self.rows.push(cells.map(safe).collect());
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl Column {
    fn title(self) -> &'static str {
        let (Self::Left(title) | Self::Right(title)) = self;
        title
    }

    fn align(self, cell: &str, width: usize) -> String {
        match self {
            Self::Left(_) => format!("{cell:<width$}"),
            Self::Right(_) => format!("{cell:>width$}"),
        }
    }
}

impl Table {
    /// The lines of the table, the head first, none wider than `width`: columns that do not fit are left out from the
    /// right. A last column of text is cut instead, if some of it fits.
    pub fn within(&self, width: usize) -> Vec<String> {
        let widths = self.widths();
        let (mut columns, mut end) = (0, 0);
        for column in &widths {
            let next = end + if columns > 0 { GAP.len() } else { 0 } + column;
            if next > width {
                break;
            }
            (columns, end) = (columns + 1, next);
        }
        let is_last = columns + 1 == self.columns.len();
        let is_text = matches!(self.columns.last(), Some(Column::Left(_)));
        let rest = width.saturating_sub(end + GAP.len());
        let mut widths = widths;
        if is_last && is_text && rest >= CUT_MIN {
            widths[columns] = rest;
            columns += 1;
        }
        self.lines(&widths[..columns])
    }

    /// The width of each column.
    fn widths(&self) -> Vec<usize> {
        let width = |(number, column): (usize, &Column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(number));
            let cells = cells.map(String::as_str).chain([column.title()]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        self.columns.iter().enumerate().map(width).collect()
    }

    /// The first columns, each with its width; longer cells are cut.
    fn lines(&self, widths: &[usize]) -> Vec<String> {
        let head: Vec<String> = self.columns.iter().map(|c| c.title().to_owned()).collect();
        let line = |line: &Vec<String>| {
            let cells = line.iter().zip(widths).zip(&self.columns);
            let cells: Vec<_> = cells
                .map(|((cell, &width), column)| column.align(&cut(cell, width), width))
                .collect();
            cells.join(GAP).trim_end().to_owned()
        };
        std::iter::once(&head).chain(&self.rows).map(line).collect()
    }
}

/// A cell of at most this many letters, with a mark if it was longer.
fn cut(cell: &str, width: usize) -> Cow<'_, str> {
    if cell.chars().count() > width {
        let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
        format!("{kept}…").into()
    } else {
        cell.into()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.lines(&self.widths()) {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let mut table = Table::new(&[
            Column::Left("NAME"),
            Column::Right("SENT"),
            Column::Left("X"),
        ]);
        assert!(table.is_empty());
        table.row(["wide cell", "7", "a"].map(str::to_owned));
        table.row(["b", "123456", ""].map(str::to_owned));
        table.row(["\u{1b}[m\nx", "", ""].map(str::to_owned));
        let expected =
            "NAME           SENT  X\nwide cell         7  a\nb            123456\n\\u{1b}[m\\nx\n";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn what_is_too_wide_is_left_out_from_the_right() {
        let mut table = Table::new(&[
            Column::Left("WHO"),
            Column::Right("SENT"),
            Column::Left("WHY"),
        ]);
        table.row(["a host", "7", "because it was the first"].map(str::to_owned));
        let widths = [200, 36, 35, 26, 25, 12, 11, 6, 5, 0];
        let rows = widths.map(|width| {
            let lines = table.within(width);
            assert!(
                lines.iter().all(|line| line.chars().count() <= width),
                "{lines:?}"
            );
            lines[1].clone()
        });
        let whole = "a host     7  because it was the first";
        let cut = [
            "a host     7  because it was the fi…",
            "a host     7  because it was the f…",
            "a host     7  because it …",
        ];
        assert_eq!(
            rows[..6],
            [
                whole,
                cut[0],
                cut[1],
                cut[2],
                "a host     7",
                "a host     7"
            ]
        );
        assert_eq!(rows[6..], ["a host", "a host", "", ""]);
    }
}

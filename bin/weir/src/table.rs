//! Aligned tables for a terminal.

use std::fmt;

/// A column: its title and its alignment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// Text.
    Left(&'static str),
    /// Numbers, with digits of the same place aligned.
    Right(&'static str),
}

/// A table: columns as wide as their widest cell, two spaces between them.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; it has as many cells as the table has columns.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Whether it has no row.
    pub(crate) fn is_empty(&self) -> bool {
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

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head: Vec<String> = self.columns.iter().map(|c| c.title().to_owned()).collect();
        let lines = || std::iter::once(&head).chain(&self.rows);
        let width = |column: usize| {
            let cells = lines().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.columns.len()).map(width).collect();
        for line in lines() {
            let cells = line.iter().zip(&widths).zip(&self.columns);
            let cells: Vec<_> = cells
                .map(|((cell, &width), column)| column.align(cell, width))
                .collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
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
        let expected = "NAME         SENT  X\nwide cell       7  a\nb          123456\n";
        assert_eq!(table.to_string(), expected);
    }
}

//! Reference pages in Markdown, generated from the declarations that the code itself uses.

pub mod api;
pub mod configuration;
pub mod dashboard;
pub mod drops;
pub mod kernel;
pub mod prometheus;

/// The text of a table cell: `|` is escaped, and a line break becomes a space.
pub fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

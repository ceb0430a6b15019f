//! Reference pages in Markdown, generated from the declarations that the code itself uses.

pub(crate) mod api;
pub(crate) mod configuration;
pub(crate) mod dashboard;
pub(crate) mod drops;
pub(crate) mod kernel;
pub(crate) mod metrics;
pub(crate) mod prometheus;
pub(crate) mod scenario;

/// The text of a table cell: `|` is escaped, and a line break becomes a space.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

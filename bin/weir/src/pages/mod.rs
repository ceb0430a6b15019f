//! Reference pages in Markdown, made from what the code itself uses.

pub(crate) mod api;
pub(crate) mod configuration;
pub(crate) mod metrics;
pub(crate) mod prometheus;

/// A cell of a table: no bar may end it early.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

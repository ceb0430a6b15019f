//! The code of the `list` commands of all programs.

use serde_json::{Value, json};

use crate::Failure;
use crate::output::{print, print_json};

/// Prints a list as text, and as JSON.
pub type Printers = (fn() -> String, fn() -> Value);

/// Prints a list.
pub fn print_list((text, rows): Printers, as_json: bool) -> Result<(), Failure> {
    if as_json {
        print_json(&rows())
    } else {
        print(&text())
    }
}

/// Names, each with a description or a title.
pub type Pairs = Vec<(&'static str, &'static str)>;

/// One line for each name.
pub fn lines(all: &Pairs) -> String {
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, what): &(&str, &str)| format!("{name:<width$} {what}\n");
    all.iter().map(line).collect()
}

/// One object for each name; `what` is the key of the description.
pub fn objects(all: Pairs, what: &str) -> Value {
    let object = |(name, words): (&str, &str)| json!({ "name": name, what: words });
    all.into_iter().map(object).collect()
}

//! weir and the kernel under the same attacks on real interfaces, as docs/hostile-network.md.
//!
//! The tests of `bin/weir/tests/hostile` print the tables between marks. Tests that take minutes are ignored in a
//! normal test run.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program;

const DOCUMENT: &str = "docs/hostile-network.md";
/// The tests that measure, with the names of their tables.
const TABLES: [(&str, &str); 2] = [
    ("scans", "hostile::scan::the_table_of_scans"),
    (
        "errors",
        "hostile::errors::a_flood_of_forged_packets_leaves_an_honest_host_its_errors",
    ),
];

/// Measures every table, or the named ones, and writes them into the document.
pub(crate) fn run(root: &Path, named: &[&str]) -> Result<(), String> {
    let path = root.join(DOCUMENT);
    let failed = |error: std::io::Error| format!("{DOCUMENT}: {error}");
    let mut text = fs::read_to_string(&path).map_err(failed)?;
    if let Some(name) = named
        .iter()
        .find(|n| TABLES.iter().all(|(name, _)| name != *n))
    {
        let names = TABLES.map(|(name, _)| name).join(", ");
        return Err(format!("unknown table \"{name}\"; permitted: {names}"));
    }
    let wanted = TABLES
        .iter()
        .filter(|(name, _)| named.is_empty() || named.contains(name));
    for (name, test) in wanted {
        let mut command = Command::new(env!("CARGO"));
        command
            .current_dir(root)
            .args(["test", "-p", "weir", "--test", "tests", "--locked"]);
        command.args(["--", "--exact", test, "--include-ignored", "--nocapture"]);
        let printed = program::output(&mut command)?;
        let (begin, end) = marks(name);
        let measured = between(&printed, &begin, &end);
        let measured = measured.ok_or(format!("{test} printed no table"))?;
        let before = between(&text, &begin, &end).map(str::to_owned);
        let before = before.ok_or(format!("{DOCUMENT} has no mark {begin}"))?;
        text = text.replace(
            &format!("{begin}{before}{end}"),
            &format!("{begin}{measured}{end}"),
        );
    }
    fs::write(&path, text).map_err(failed)
}

fn marks(name: &str) -> (String, String) {
    (
        format!("<!-- table {name} -->\n"),
        format!("<!-- end of table {name} -->"),
    )
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    Some(text.split_once(begin)?.1.split_once(end)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_found_between_its_marks() {
        let (begin, end) = marks("scans");
        let text = format!("test .. \n{begin}| 1 |\n{end}\nok");
        assert_eq!(between(&text, &begin, &end), Some("| 1 |\n"));
        assert_eq!(between(&text, &marks("errors").0, &end), None);
    }
}

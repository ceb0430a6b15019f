//! `weir describe` and `weir list`: the manual pages, from the tables that the code itself uses.

use std::fmt::Write;

use weir_discipline::Manual;
use weir_discipline::spec::MANUALS;
use weir_packet::Reason;

/// The manual page of a discipline.
pub(crate) fn page(manual: &Manual) -> String {
    let mut page = format!("{} - {}\n\n", manual.name, manual.purpose);
    let _ = writeln!(page, "SOURCE\n    {}\n", manual.source);
    let _ = writeln!(page, "DESCRIPTION\n{}\n", indent(manual.text));
    let _ = writeln!(page, "PARAMETERS");
    for p in manual.parameters {
        let _ = writeln!(page, "    {} = {}", p.name, p.default);
        let _ = writeln!(page, "        {}; {}", p.about, p.kind);
    }
    let _ = writeln!(page, "\nGAUGES");
    for (name, meaning) in manual.gauges {
        let _ = writeln!(page, "    {name}: {meaning}");
    }
    page
}

/// One line for each discipline.
pub(crate) fn disciplines() -> String {
    let line = |m: &&Manual| format!("{:<10} {}\n", m.name, m.purpose);
    MANUALS.iter().map(line).collect()
}

/// Every reason for which a packet can end.
pub(crate) fn drops() -> String {
    let head = "| reason | a loss | what it means |\n|---|---|---|\n";
    let row = |reason: Reason| {
        let loss = if reason.is_loss() { "yes" } else { "no" };
        format!("| `{}` | {loss} | {} |\n", reason.name(), reason.sentence())
    };
    let rows: String = Reason::ALL.into_iter().map(row).collect();
    format!("{head}{rows}")
}

fn indent(text: &str) -> String {
    let line = |line: &str| match line {
        "" => String::new(),
        line => format!("    {line}"),
    };
    let lines: Vec<_> = text.lines().map(line).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_discipline_has_a_whole_page() {
        for manual in MANUALS {
            let page = page(manual);
            assert!(
                !manual.source.is_empty() && !manual.text.is_empty(),
                "{page}"
            );
            for parameter in manual.parameters {
                assert!(page.contains(parameter.name));
            }
        }
    }
}

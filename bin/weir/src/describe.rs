//! `weir describe`: the manual pages, from the tables that the code itself uses.

use std::fmt::Write;

use weir_base::setting::{Parameter, nearest};
use weir_controller::spec::KINDS;
use weir_discipline::spec::SpecError;
use weir_discipline::{Spec, manuals};

/// The manual page of the discipline or controller `name`.
pub(crate) fn page(name: &str) -> Option<String> {
    if let Some(m) = manuals().find(|m| m.name == name) {
        let mut page = head(m.name, m.purpose, m.source, m.text);
        tail(&mut page, m.parameters, m.gauges);
        return Some(page);
    }
    let kind = KINDS.iter().find(|kind| kind.manual.name == name)?;
    let m = &kind.manual;
    let mut page = head(m.name, m.purpose, m.source, m.text);
    let _ = writeln!(page, "QUEUES");
    for role in m.roles {
        let _ = writeln!(page, "    {}\n        {}", role.name, role.about);
        if !role.sets.is_empty() {
            let _ = writeln!(page, "        sets {}", role.sets.join(", "));
        }
    }
    page.push('\n');
    tail(&mut page, m.parameters, m.gauges);
    Some(page)
}

/// What to say of a name that has no page.
pub(crate) fn unknown(name: &str) -> String {
    match (Spec::check(name, []), nearest(name, names())) {
        (Err(error @ SpecError::UnknownKind { nearest: None, .. }), _) => error.to_string(),
        (_, near) => {
            let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            format!("there is no discipline or controller `{name}`{hint}")
        }
    }
}

/// Every name that has a manual page.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let controllers = KINDS.iter().map(|kind| kind.manual.name);
    manuals().map(|m| m.name).chain(controllers)
}

fn head(name: &str, purpose: &str, source: &str, text: &str) -> String {
    let text = indent(text);
    format!("{name} - {purpose}\n\nSOURCE\n    {source}\n\nDESCRIPTION\n{text}\n\n")
}

fn tail(page: &mut String, parameters: &[Parameter], gauges: &[(&str, &str)]) {
    let _ = writeln!(page, "PARAMETERS");
    for p in parameters {
        let _ = writeln!(page, "    {} = {}", p.name, p.default);
        let _ = writeln!(page, "        {}; {}", p.about, p.kind);
    }
    let _ = writeln!(page, "\nGAUGES");
    for (name, meaning) in gauges {
        let _ = writeln!(page, "    {name}: {meaning}");
    }
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
        for manual in manuals() {
            let page = page(manual.name).unwrap();
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

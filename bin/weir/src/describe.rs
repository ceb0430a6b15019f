//! `weir describe`: the manual pages, generated from the declarations that the code itself uses.

use std::fmt::Write;

use weir_base::setting::{Parameter, did_you_mean, nearest};
use weir_discipline::spec::SpecError;
use weir_discipline::{Spec, manuals};
use weir_lfb::class::{self, classes};
use weir_model::class::{Access, Gauge, Type};
use weir_model::{Class, Component, capture};
use weir_packet::Reason;

use crate::output::print;
use crate::{Failure, pages};

/// `weir describe`.
pub fn run(name: &str) -> Result<(), Failure> {
    let page = page(name).ok_or_else(|| Failure::Usage(unknown(name, [].into_iter())))?;
    print(&page)
}

/// The manual page of the table, discipline or drop reason `name`.
pub fn page(name: &str) -> Option<String> {
    let tables = classes().into_iter().chain([&capture::CLASS]);
    if let Some(class) = tables.into_iter().find(|class| class.name == name) {
        return Some(of_class(class));
    }
    if let Some(m) = manuals().find(|m| m.name == name) {
        let class = class::of_discipline(m);
        return Some(head(&class, m.source, m.text) + &tail(&class));
    }
    pages::drops::manual(name)
}

/// The error about a name without a manual page; `others` have their page in another program.
pub fn unknown(name: &str, others: impl Iterator<Item = &'static str>) -> String {
    match (Spec::check(name, []), nearest(name, names().chain(others))) {
        (Err(error @ SpecError::UnknownKind { nearest: None, .. }), _) => error.to_string(),
        (_, near) => {
            let hint = did_you_mean(near);
            format!("there is no table, discipline, controller or drop reason `{name}`{hint}")
        }
    }
}

/// Every name with a manual page.
pub fn names() -> impl Iterator<Item = &'static str> {
    let tables = classes().into_iter().map(|class| class.name);
    let tables = tables.chain([capture::CLASS.name]);
    let reasons = Reason::ALL.into_iter().map(Reason::name);
    let disciplines = manuals().map(|m| m.name);
    disciplines.chain(tables).chain(reasons)
}

/// A table: its class, and the fields of its rows.
fn of_class(class: &Class) -> String {
    let mut page = title(class);
    if !class.key.is_empty() {
        let _ = writeln!(page, "\nKEY OF A ROW\n    {}", class.key.join(", "));
    }
    page.push_str("\nCOMPONENTS\n");
    let mut all = class.all();
    all.retain(|component| !matches!(component.kind, Type::Setting(_))); // settings follow below
    let is_capability = |component: &Component| component.access == Access::Capability;
    let (capabilities, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_capability);
    components(&mut page, "", &others);
    if !capabilities.is_empty() {
        page.push_str("\nCAPABILITIES\n");
        components(&mut page, "", &capabilities);
    }
    if !class.query.is_empty() {
        page.push_str("\nQUERY\n");
        parameters(&mut page, class.query);
    }
    if !class.parameters.is_empty() {
        page.push_str("\nPARAMETERS\n");
        parameters(&mut page, class.parameters);
    }
    if !class.events.is_empty() {
        page.push_str("\nEVENTS\n");
    }
    for event in class.events {
        let reports = event.reports.join(", ");
        let _ = writeln!(page, "    {} {}: {reports}", event.id, event.name);
        let _ = writeln!(page, "        {}", event.about);
    }
    page
}

/// The head of every page.
fn title(class: &Class) -> String {
    let Class {
        name,
        about,
        id,
        version,
        ..
    } = class;
    format!("{name} - {about}\n\nCLASS\n    {id:#010x}, version {version}\n")
}

/// Components in the order of their IDs, with the members of a structure below it.
fn components(page: &mut String, above: &str, all: &[Component]) {
    let mut sorted: Vec<_> = all.iter().collect();
    sorted.sort_by_key(|component| component.id);
    for component in sorted {
        let (id, kind) = (component.id, component.type_in_words());
        let access = match component.access {
            Access::Read | Access::Capability => "",
            Access::ReadWrite => "; can be set",
        };
        let _ = writeln!(page, "    {above}{id} {}: {kind}{access}", component.name);
        let _ = writeln!(page, "        {}", component.about);
        components(page, &format!("{above}{id}."), component.kind.members());
    }
}

/// The beginning of the manual page of a mechanism: class, source and description.
pub fn head(class: &Class, source: &str, text: &str) -> String {
    let (title, text) = (title(class), indent(text));
    format!("{title}\nSOURCE\n    {source}\n\nDESCRIPTION\n{text}\n\n")
}

/// The end of the manual page of a mechanism: parameters and gauges.
pub fn tail(class: &Class) -> String {
    let mut page = "PARAMETERS\n".to_owned();
    parameters(&mut page, class.parameters);
    let _ = writeln!(page, "\nGAUGES");
    for gauge in class.gauges {
        let kind = if gauge.counts { "counter" } else { "gauge" };
        let Gauge {
            id,
            name,
            unit,
            about,
            ..
        } = gauge;
        let _ = writeln!(page, "    {id} {name}: {about} ({kind}{unit})");
    }
    page
}

/// Parameters in the order of their table; the parameters of a query have no ID.
fn parameters(page: &mut String, all: &[Parameter]) {
    for p in all {
        let id = match p.id {
            0 => String::new(),
            id => format!("{id} "),
        };
        let _ = writeln!(page, "    {id}{} = {}", p.name, p.default);
        let _ = writeln!(page, "        {}; {}", p.about, p.kind);
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

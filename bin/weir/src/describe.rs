//! `weir describe`: the manual pages, generated from the declarations that the code itself uses.

use std::fmt::Write;

use weir_base::setting::{Parameter, did_you_mean, nearest};
use weir_controller::spec::KINDS;
use weir_discipline::spec::SpecError;
use weir_discipline::{Spec, manuals};
use weir_lfb::class::{self, classes};
use weir_model::class::{Access, Gauge, Type};
use weir_model::{Class, Component, capture};
use weir_packet::Reason;

use crate::pages;

/// The manual page of the class, discipline, controller or drop reason `name`.
pub(crate) fn page(name: &str) -> Option<String> {
    let tables = classes().into_iter().chain([&capture::CLASS]);
    if let Some(class) = tables.into_iter().find(|class| class.name == name) {
        return Some(of_class(class));
    }
    if let Some(m) = manuals().find(|m| m.name == name) {
        let class = class::of_discipline(m);
        return Some(head(&class, m.source, m.text) + &tail(&class));
    }
    if let Some(page) = pages::drops::manual(name) {
        return Some(page);
    }
    let kind = KINDS.iter().find(|kind| kind.manual.name == name)?;
    let m = &kind.manual;
    let class = Class::mechanism((m.id, m.name, m.purpose), m.parameters, m.gauges);
    let mut page = head(&class, m.source, m.text);
    let _ = writeln!(page, "QUEUES");
    for role in m.roles {
        let _ = writeln!(page, "    {}\n        {}", role.name, role.about);
        if !role.sets.is_empty() {
            let _ = writeln!(page, "        sets {}", role.sets.join(", "));
        }
    }
    page.push('\n');
    Some(page + &tail(&class))
}

/// The error about a name that has no page.
pub(crate) fn unknown(name: &str) -> String {
    match (Spec::check(name, []), nearest(name, names())) {
        (Err(error @ SpecError::UnknownKind { nearest: None, .. }), _) => error.to_string(),
        (_, near) => {
            let hint = did_you_mean(near);
            format!("there is no table, discipline, controller or drop reason `{name}`{hint}")
        }
    }
}

/// Every name that has a manual page.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let controllers = KINDS.iter().map(|kind| kind.manual.name);
    let tables = classes().into_iter().map(|class| class.name);
    let tables = tables.chain([capture::CLASS.name]);
    let reasons = Reason::ALL.into_iter().map(Reason::name);
    let mechanisms = manuals().map(|m| m.name).chain(controllers);
    mechanisms.chain(tables).chain(reasons)
}

/// A table: its class, and the fields of its rows.
fn of_class(class: &Class) -> String {
    let mut page = title(class);
    if !class.key.is_empty() {
        let _ = writeln!(page, "\nKEY OF A ROW\n    {}", class.key.join(", "));
    }
    page.push_str("\nCOMPONENTS\n");
    let mut all = class.all();
    all.retain(|component| !matches!(component.kind, Type::Setting(_))); // these are below
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

fn head(class: &Class, source: &str, text: &str) -> String {
    let (title, text) = (title(class), indent(text));
    format!("{title}\nSOURCE\n    {source}\n\nDESCRIPTION\n{text}\n\n")
}

fn tail(class: &Class) -> String {
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

//! Reads LFB classes from XML.

use super::element::{DOC, Element, Often};
use super::{Fault, NESTING_MAX, Reader, Scope, XmlError, add, unique};
use crate::schema::{Access, Class, Component, Condition, Event, Step, member};

const CONDITIONS: [(&str, Condition); 6] = [
    ("eventCreated", Condition::Created),
    ("eventDeleted", Condition::Deleted),
    ("eventChanged", Condition::Changed),
    ("eventGreaterThan", Condition::GreaterThan),
    ("eventLessThan", Condition::LessThan),
    ("eventBecomesEqualTo", Condition::BecomesEqualTo),
];

impl<'a> Reader<'a> {
    /// Reads a class with the parts that it inherits.
    pub(super) fn class(&mut self, class: Element<'a>) -> Result<Class, XmlError> {
        self.parts = 0;
        self.derived(class, 0)
    }

    fn derived(&mut self, class: Element<'a>, depth: usize) -> Result<Class, XmlError> {
        let optional = Often::AtMostOnce;
        let more = [
            ("version", Often::Once),
            ("derivedFrom", optional),
            ("inputPorts", optional),
            ("outputPorts", optional),
            ("components", optional),
            ("capabilities", optional),
            ("events", optional),
        ];
        class.expect(&[&DOC[..], &more].concat())?;
        let (name, about) = class.doc()?;
        class.each_within("inputPorts", "inputPort", |port| check_input(&port))?;
        class.each_within("outputPorts", "outputPort", |port| check_output(&port))?;
        let parent = class.optional_text("derivedFrom");
        let inherited = match &parent {
            Some(_) if depth == NESTING_MAX => return Err(class.error(Fault::Endless(name))),
            Some(parent) => {
                let found = self.classes.get(parent).copied();
                let found = found.ok_or_else(|| self.undeclared("class", parent, class))?;
                Some(self.derived(found, depth + 1)?)
            }
            None => None,
        };
        let (mut components, mut events, base) = inherited.map_or_else(Default::default, |of| {
            (of.components, of.events, of.events_base)
        });
        let part = |part| self.part(part, false);
        let mut parts = class.each_within("components", "component", part)?;
        let capability = |part| self.part(part, true);
        parts.extend(class.each_within("capabilities", "capability", capability)?);
        let own_base = read_base(&class)?;
        let ids = parts.iter().map(|(part, at)| (part.id, *at));
        unique("the ID", ids.chain(own_base.map(|base| (base, class))))?;
        let names = parts.iter().map(|(part, at)| (&part.name, *at));
        unique("the component", names)?;
        for (part, _) in parts {
            add(&mut components, part, class)?;
        }
        // Capabilities follow the components, as in a library.
        components.sort_by_key(|part| part.is_capability);
        let events_base = own_base.or(base);
        if let Some(base) = events_base
            && member(&components, base).is_some()
        {
            return Err(class.repeated("the ID", base));
        }
        let own = class.each_within("events", "event", |event| {
            Ok((self.event(&components, event)?, event))
        })?;
        unique(
            "the event ID",
            own.iter().map(|(event, at)| (event.id, *at)),
        )?;
        for (event, _) in own {
            match events
                .iter_mut()
                .find(|known: &&mut Event| known.id == event.id)
            {
                Some(known) if known.name == event.name => *known = event,
                Some(known) => return Err(class.repeated("the event ID", known.id)),
                None => events.push(event),
            }
        }
        Ok(Class {
            id: id(&class)?,
            name,
            version: read_version(&class.need("version")?)?,
            about,
            components,
            events_base,
            events,
        })
    }

    /// Reads a component or a capability.
    fn part(
        &mut self,
        part: Element<'a>,
        is_capability: bool,
    ) -> Result<(Component, Element<'a>), XmlError> {
        let mut scope = Scope::of(part);
        if is_capability {
            scope.access = Access::ReadOnly;
        }
        let component = Component {
            is_capability,
            ..self.component(part, scope)?
        };
        Ok((component, part))
    }

    fn event(&self, components: &[Component], event: Element<'a>) -> Result<Event, XmlError> {
        let conditions = CONDITIONS.map(|(name, _)| (name, Often::AtMostOnce));
        let more = [
            ("eventTarget", Often::Once),
            ("eventReports", Often::AtMostOnce),
        ];
        event.expect(&[&DOC[..], &more, &conditions].concat())?;
        let found = event.children().filter_map(|child| {
            let condition = CONDITIONS.iter().find(|(name, _)| *name == child.name());
            condition.map(|(_, condition)| *condition)
        });
        let found: Vec<_> = found.collect();
        let condition = match found.as_slice() {
            [condition] => *condition,
            [] => return Err(event.missing("condition, such as eventChanged")),
            _ => {
                return Err(event.error(Fault::Twice {
                    within: event.name().into(),
                    what: "condition",
                }));
            }
        };
        let steps = |path: &Element<'a>| self.steps(components, path, event);
        let (name, about) = event.doc()?;
        Ok(Event {
            id: event.id("eventID")?,
            name,
            about,
            target: steps(&event.need("eventTarget")?)?,
            condition,
            reports: event.each_within("eventReports", "eventReport", |report| steps(&report))?,
        })
    }

    /// Reads the path to a component of an event; it begins with the name of a component.
    fn steps(
        &self,
        components: &[Component],
        path: &Element<'a>,
        event: Element<'a>,
    ) -> Result<Vec<Step>, XmlError> {
        path.expect(&[("eventField", Often::Any), ("eventSubscript", Often::Any)])?;
        let first = path.children().next();
        if first.is_none_or(|first| first.name() != "eventField") {
            return Err(path.missing("eventField at its beginning"));
        }
        let (mut members, mut rows) = (components, None);
        let mut steps = Vec::new();
        for child in path.children() {
            let text = child.text();
            let missing = |what| self.undeclared(what, &text, event);
            let (step, kind) = if child.name() == "eventField" {
                let found = members.iter().find(|member| member.name == text);
                let found = found.ok_or_else(|| missing("component"))?;
                (Step::Member(found.id), &found.kind)
            } else {
                let (what, step) = match text.parse() {
                    Ok(row) => ("table with row", Step::Row(row)),
                    Err(_) => ("table with rows", Step::AnyRow),
                };
                (step, rows.ok_or_else(|| missing(what))?)
            };
            steps.push(step);
            members = kind.own_members();
            rows = kind.array().map(|array| &array.element);
        }
        Ok(steps)
    }
}

fn read_version(version: &Element<'_>) -> Result<String, XmlError> {
    let text = version.text();
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    match text.split_once('.') {
        Some((major, minor)) if is_number(major) && is_number(minor) => Ok(text),
        _ => Err(version.value("a version", &text, "two numbers, as in 1.0")),
    }
}

/// Reads the ID of a class.
pub(super) fn id(class: &Element<'_>) -> Result<u32, XmlError> {
    match class.id("LFBClassID")? {
        0 => Err(class.value("LFBClassID", "0", "a number from 1 to 4294967295")),
        id => Ok(id),
    }
}

/// Reads the first ID of the paths of the events of a class.
fn read_base(class: &Element<'_>) -> Result<Option<u32>, XmlError> {
    match class.child("events") {
        Some(list) if list.attribute("baseID").is_some() => list.id("baseID").map(Some),
        Some(list) if class.child("derivedFrom").is_none() => Err(list.missing("baseID")),
        _ => Ok(None),
    }
}

fn check_input(port: &Element<'_>) -> Result<(), XmlError> {
    port.expect(&[&DOC[..], &[("expectation", Often::Once)]].concat())?;
    port.doc()?;
    check_group(port)?;
    let expectation = port.need("expectation")?;
    let optional = Often::AtMostOnce;
    expectation.expect(&[("frameExpected", optional), ("metadataExpected", optional)])?;
    expectation.each_within("frameExpected", "ref", |_| Ok(()))?;
    let Some(metadata) = expectation.child("metadataExpected") else {
        return Ok(());
    };
    metadata.expect(&[("ref", Often::Any), ("one-of", Often::Any)])?;
    metadata.each("ref", |metadatum| check_expected(&metadatum))?;
    metadata.each("one-of", |choice| {
        choice.expect(&[("ref", Often::Any)])?;
        choice.each("ref", |metadatum| check_expected(&metadatum))
    })?;
    Ok(())
}

/// Checks a metadatum that packets must carry, or an optional metadatum with its default value.
fn check_expected(metadatum: &Element<'_>) -> Result<(), XmlError> {
    match metadatum.attribute("dependency").as_deref() {
        None | Some("required") => Ok(()),
        Some("optional") if metadatum.attribute("defaultValue").is_some() => Ok(()),
        Some("optional") => {
            Err(metadatum.missing("defaultValue, which is needed where it is optional"))
        }
        Some(other) => Err(metadatum.value("dependency", other, "required or optional")),
    }
}

fn check_output(port: &Element<'_>) -> Result<(), XmlError> {
    port.expect(&[&DOC[..], &[("product", Often::Once)]].concat())?;
    port.doc()?;
    check_group(port)?;
    let product = port.need("product")?;
    let optional = Often::AtMostOnce;
    product.expect(&[("frameProduced", optional), ("metadataProduced", optional)])?;
    product.each_within("frameProduced", "ref", |_| Ok(()))?;
    product.each_within("metadataProduced", "ref", |metadatum| {
        match metadatum.attribute("availability").as_deref() {
            None | Some("unconditional" | "conditional") => Ok(()),
            Some(other) => {
                Err(metadatum.value("availability", other, "unconditional or conditional"))
            }
        }
    })?;
    Ok(())
}

fn check_group(port: &Element<'_>) -> Result<(), XmlError> {
    match port.attribute("group").as_deref() {
        None | Some("false" | "0" | "true" | "1") => Ok(()),
        Some(other) => Err(port.value("group", other, "true or false")),
    }
}

//! Reads LFB classes from XML.

use super::data_type::read_component;
use super::element::{DOC, Element, Often};
use super::{
    Class, Condition, Event, ExpectedMetadata, Fault, InputPort, NESTING_MAX, OutputPort, Step,
    XmlError,
};

const CONDITIONS: [(&str, Condition); 6] = [
    ("eventCreated", Condition::Created),
    ("eventDeleted", Condition::Deleted),
    ("eventChanged", Condition::Changed),
    ("eventGreaterThan", Condition::GreaterThan),
    ("eventLessThan", Condition::LessThan),
    ("eventBecomesEqualTo", Condition::BecomesEqualTo),
];

pub(super) fn read(class: Element<'_>) -> Result<Class, XmlError> {
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
    let part = |part| read_component(part, NESTING_MAX);
    let (events_base, events) = read_events(&class)?;
    Ok(Class {
        id: read_class_id(&class)?,
        doc: class.doc()?,
        version: read_version(&class.need("version")?)?,
        derived_from: class.optional_text("derivedFrom"),
        inputs: class.each_within("inputPorts", "inputPort", |port| read_input(&port))?,
        outputs: class.each_within("outputPorts", "outputPort", |port| read_output(&port))?,
        components: class.each_within("components", "component", part)?,
        capabilities: class.each_within("capabilities", "capability", part)?,
        events_base,
        events,
    })
}

fn read_version(version: &Element<'_>) -> Result<String, XmlError> {
    let text = version.text();
    let is_number = |part: &str| part.parse::<u32>().is_ok();
    match text.split_once('.') {
        Some((major, minor)) if is_number(major) && is_number(minor) => Ok(text),
        _ => Err(version.value("a version", &text, "two numbers, as in 1.0")),
    }
}

fn read_class_id(class: &Element<'_>) -> Result<u32, XmlError> {
    match class.id("LFBClassID")? {
        0 => Err(class.value("LFBClassID", "0", "a number from 1 to 4294967295")),
        id => Ok(id),
    }
}

fn read_input(port: &Element<'_>) -> Result<InputPort, XmlError> {
    port.expect(&[&DOC[..], &[("expectation", Often::Once)]].concat())?;
    let expectation = port.need("expectation")?;
    let optional = Often::AtMostOnce;
    expectation.expect(&[("frameExpected", optional), ("metadataExpected", optional)])?;
    let metadata = match expectation.child("metadataExpected") {
        Some(metadata) => {
            metadata.expect(&[("ref", Often::Any), ("one-of", Often::Any)])?;
            let choices = metadata.children().map(|choice| match choice.name() {
                "ref" => Ok(vec![read_expected(&choice)?]),
                _ => {
                    choice.expect(&[("ref", Often::Any)])?;
                    choice.each("ref", |one| read_expected(&one))
                }
            });
            choices.collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    Ok(InputPort {
        doc: port.doc()?,
        group: read_group(port)?,
        frames: expectation.each_within("frameExpected", "ref", |frame| Ok(frame.text()))?,
        metadata,
    })
}

/// Reads a metadatum that packets must carry, or an optional metadatum with its default value.
fn read_expected(element: &Element<'_>) -> Result<ExpectedMetadata, XmlError> {
    let default = element.attribute("defaultValue");
    match element.attribute("dependency").as_deref() {
        None | Some("required") => {}
        Some("optional") if default.is_some() => {}
        Some("optional") => {
            return Err(element.missing("defaultValue, which is needed where it is optional"));
        }
        Some(other) => return Err(element.value("dependency", other, "required or optional")),
    }
    Ok(ExpectedMetadata {
        name: element.text(),
        default,
    })
}

fn read_output(port: &Element<'_>) -> Result<OutputPort, XmlError> {
    port.expect(&[&DOC[..], &[("product", Often::Once)]].concat())?;
    let product = port.need("product")?;
    let optional = Often::AtMostOnce;
    product.expect(&[("frameProduced", optional), ("metadataProduced", optional)])?;
    Ok(OutputPort {
        doc: port.doc()?,
        group: read_group(port)?,
        frames: product.each_within("frameProduced", "ref", |frame| Ok(frame.text()))?,
        metadata: product.each_within("metadataProduced", "ref", |metadatum| {
            match metadatum.attribute("availability").as_deref() {
                None | Some("unconditional") => Ok((metadatum.text(), true)),
                Some("conditional") => Ok((metadatum.text(), false)),
                Some(other) => {
                    let permitted = "unconditional or conditional";
                    Err(metadatum.value("availability", other, permitted))
                }
            }
        })?,
    })
}

fn read_group(port: &Element<'_>) -> Result<bool, XmlError> {
    match port.attribute("group").as_deref() {
        None | Some("false" | "0") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(other) => Err(port.value("group", other, "true or false")),
    }
}

fn read_events(class: &Element<'_>) -> Result<(Option<u32>, Vec<Event>), XmlError> {
    let events = class.each_within("events", "event", |event| read_event(&event))?;
    let base = match class.child("events") {
        Some(list) if list.attribute("baseID").is_some() => Some(list.id("baseID")?),
        _ => None,
    };
    if let Some(list) = class.child("events")
        && base.is_none()
        && class.child("derivedFrom").is_none()
    {
        return Err(list.missing("baseID"));
    }
    Ok((base, events))
}

fn read_event(event: &Element<'_>) -> Result<Event, XmlError> {
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
    Ok(Event {
        id: event.id("eventID")?,
        doc: event.doc()?,
        target: read_steps(&event.need("eventTarget")?)?,
        condition,
        reports: event.each_within("eventReports", "eventReport", |report| read_steps(&report))?,
    })
}

/// Reads the path to a component; it begins with the name of a component.
fn read_steps(element: &Element<'_>) -> Result<Vec<Step>, XmlError> {
    element.expect(&[("eventField", Often::Any), ("eventSubscript", Often::Any)])?;
    let steps: Vec<_> = element
        .children()
        .map(|child| match (child.name(), child.text()) {
            ("eventField", name) => Step::Field(name),
            (_, text) => match text.parse() {
                Ok(row) => Step::Row(row),
                Err(_) => Step::AnyRow(text),
            },
        })
        .collect();
    match steps.first() {
        Some(Step::Field(_)) => Ok(steps),
        _ => Err(element.missing("eventField at its beginning")),
    }
}

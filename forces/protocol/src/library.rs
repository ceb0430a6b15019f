//! Writes schemas as a library in XML, with elements in the order that the schemas of RFC 5812 (4.9) and RFC 7408
//! require.
//!
//! A library has version 1.0 (RFC 5812), unless a class needs an extension of RFC 7408: the condition
//! `eventBecomesEqualTo`, or a member whose access differs from its parent's; then every member states its access.
//! Types are written inline, without names, so that each class is self-contained. Only the type of an alias must have a
//! name.

use std::fmt::Write;

use weir_model::class::Condition;

use crate::schema::xml::NAMESPACES;
use crate::schema::{
    Access, Class, Component, Event, Integer, Key, Kind, Number, Size, Step, member,
};

/// Writes a library of these classes; other libraries load it by the name `provides`.
pub fn write(provides: &str, about: &str, classes: &[Class]) -> String {
    let mut writer = Writer {
        text: String::new(),
        depth: 0,
        is_later: classes.iter().any(needs_later_version),
        types: Vec::new(),
    };
    writer.depth = 2;
    for class in classes {
        writer.class(class);
    }
    let body = std::mem::take(&mut writer.text);
    let types = std::mem::take(&mut writer.types);
    let namespace = NAMESPACES[usize::from(writer.is_later)];
    writer.depth = 0;
    writer.line("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
    let provides = escaped(provides);
    writer.open(&format!(
        "LFBLibrary xmlns=\"{namespace}\" provides=\"{provides}\""
    ));
    writer.element("description", about);
    if !types.is_empty() {
        writer.open("dataTypeDefs");
        for (number, kind) in types.iter().enumerate() {
            writer.open("dataTypeDef");
            writer.element("name", &alias_type(number));
            writer.element("synopsis", "The type of an alias.");
            writer.kind(kind);
            writer.close("dataTypeDef");
        }
        writer.close("dataTypeDefs");
    }
    if !body.is_empty() {
        writer.open("LFBClassDefs");
        writer.text.push_str(&body);
        writer.close("LFBClassDefs");
    }
    writer.close("LFBLibrary");
    writer.text
}

/// Name of the type of an alias.
fn alias_type(number: usize) -> String {
    format!("AliasType{}", number + 1)
}

/// Whether a class needs an extension of RFC 7408.
fn needs_later_version(class: &Class) -> bool {
    let own_access = |part: &Component| has_own_access(&part.kind, part.access);
    let is_later = |event: &Event| event.condition == Condition::BecomesEqualTo;
    class.events.iter().any(is_later) || class.components.iter().any(own_access)
}

/// Whether a member of this layout has a different access than its parent.
fn has_own_access(kind: &Kind, around: Access) -> bool {
    match kind {
        Kind::Struct(members) | Kind::Union(members) => members
            .iter()
            .any(|member| member.access != around || has_own_access(&member.kind, member.access)),
        Kind::Array(array) => has_own_access(&array.element, around),
        _ => false,
    }
}

struct Writer {
    text: String,
    depth: usize,
    /// Whether the library needs RFC 7408.
    is_later: bool,
    /// Types of aliases.
    types: Vec<Kind>,
}

impl Writer {
    fn line(&mut self, line: &str) {
        // Writing to a string cannot fail.
        _ = writeln!(self.text, "{:1$}{line}", "", 2 * self.depth);
    }

    /// Opens an element; `element` holds the name and the attributes.
    fn open(&mut self, element: &str) {
        self.line(&format!("<{element}>"));
        self.depth += 1;
    }

    fn close(&mut self, element: &str) {
        self.depth -= 1;
        self.line(&format!("</{element}>"));
    }

    fn element(&mut self, element: &str, text: &str) {
        self.line(&format!("<{element}>{}</{element}>", escaped(text)));
    }

    fn class(&mut self, class: &Class) {
        self.open(&format!("LFBClassDef LFBClassID=\"{}\"", class.id));
        self.element("name", &class.name);
        self.element("synopsis", &class.about);
        self.element("version", &class.version);
        let (capabilities, components): (Vec<_>, Vec<_>) =
            class.components.iter().partition(|part| part.is_capability);
        for (list, element, parts) in [
            ("components", "component", components),
            ("capabilities", "capability", capabilities),
        ] {
            if !parts.is_empty() {
                self.open(list);
                for part in parts {
                    if part.is_capability {
                        self.begin(element, part, None);
                        self.close(element);
                    } else {
                        self.component(part)
                    }
                }
                self.close(list);
            }
        }
        if let (Some(base), [_, ..]) = (class.events_base, &class.events[..]) {
            self.open(&format!("events baseID=\"{base}\""));
            for event in &class.events {
                self.event(class, event);
            }
            self.close("events");
        }
        self.close("LFBClassDef");
    }

    fn component(&mut self, component: &Component) {
        self.begin("component", component, Some(component.access));
        if let Some(default) = &component.default {
            self.element("defaultValue", default);
        }
        self.close("component");
    }

    /// Opens a component and writes everything up to its type. Only components of a class have a default value.
    fn begin(&mut self, element: &str, component: &Component, access: Option<Access>) {
        let access = access.map_or_else(String::new, |a| format!(" access=\"{}\"", word(a)));
        self.open(&format!(
            "{element} componentID=\"{}\"{access}",
            component.id
        ));
        self.element("name", &component.name);
        self.element("synopsis", &component.about);
        if component.optional {
            self.line("<optional/>");
        }
        self.kind(&component.kind);
    }

    fn kind(&mut self, kind: &Kind) {
        match kind {
            Kind::Number(number) if number.ranges.is_empty() && number.names.is_empty() => {
                self.element("typeRef", integer(number.base));
            }
            Kind::Number(number) => self.atomic(number),
            Kind::Struct(members) => self.members("struct", members),
            Kind::Union(members) => self.members("union", members),
            Kind::Array(array) => {
                self.open(&match array.size {
                    Size::Fixed(len) => format!("array type=\"fixed-size\" length=\"{len}\""),
                    Size::Variable(None) => "array type=\"variable-size\"".to_owned(),
                    Size::Variable(Some(most)) => {
                        format!("array type=\"variable-size\" maxLength=\"{most}\"")
                    }
                });
                self.kind(&array.element);
                for key in &array.keys {
                    self.key(&array.element, key);
                }
                self.close("array");
            }
            Kind::Alias(kind) => {
                let name = basic(kind).unwrap_or_else(|| {
                    let known = self.types.iter().position(|known| known == &**kind);
                    alias_type(known.unwrap_or_else(|| {
                        self.types.push((**kind).clone());
                        self.types.len() - 1
                    }))
                });
                self.element("alias", &name);
            }
            single => self.element("typeRef", &basic(single).unwrap_or_default()),
        }
    }

    fn members(&mut self, element: &str, members: &[Component]) {
        self.open(element);
        for member in members {
            self.begin("component", member, self.is_later.then_some(member.access));
            self.close("component");
        }
        self.close(element);
    }

    fn atomic(&mut self, number: &Number) {
        self.open("atomic");
        self.element("baseType", integer(number.base));
        if !number.ranges.is_empty() {
            self.open("rangeRestriction");
            for (least, most) in &number.ranges {
                self.line(&format!("<allowedRange min=\"{least}\" max=\"{most}\"/>"));
            }
            self.close("rangeRestriction");
        }
        if !number.names.is_empty() {
            self.open("specialValues");
            for named in &number.names {
                self.open(&format!("specialValue value=\"{}\"", named.value));
                self.element("name", &named.name);
                self.element("synopsis", &named.about);
                self.close("specialValue");
            }
            self.close("specialValues");
        }
        self.close("atomic");
    }

    fn key(&mut self, element: &Kind, key: &Key) {
        self.open(&format!("contentKey contentKeyID=\"{}\"", key.id));
        for field in &key.fields {
            let mut names = Vec::new();
            let mut members = element.members();
            for id in field {
                if let Some(part) = member(members, *id) {
                    names.push(part.name.as_str());
                    members = part.kind.members();
                }
            }
            if names.is_empty() {
                self.element("contentKeyField", "*")
            } else {
                self.element("contentKeyField", &names.join("."))
            }
        }
        self.close("contentKey");
    }

    fn event(&mut self, class: &Class, event: &Event) {
        self.open(&format!("event eventID=\"{}\"", event.id));
        self.element("name", &event.name);
        self.element("synopsis", &event.about);
        self.steps("eventTarget", class, &event.target);
        self.line(match event.condition {
            Condition::Created => "<eventCreated/>",
            Condition::Deleted => "<eventDeleted/>",
            Condition::Changed => "<eventChanged/>",
            Condition::GreaterThan => "<eventGreaterThan/>",
            Condition::LessThan => "<eventLessThan/>",
            Condition::BecomesEqualTo => "<eventBecomesEqualTo/>",
        });
        if !event.reports.is_empty() {
            self.open("eventReports");
            for report in &event.reports {
                self.steps("eventReport", class, report);
            }
            self.close("eventReports");
        }
        self.close("event");
    }

    fn steps(&mut self, element: &str, class: &Class, steps: &[Step]) {
        self.open(element);
        let mut members = &class.components[..];
        for step in steps {
            match step {
                Step::Row(row) => self.element("eventSubscript", &row.to_string()),
                Step::AnyRow => self.element("eventSubscript", "_row_"),
                Step::Member(id) => {
                    if let Some(part) = member(members, *id) {
                        self.element("eventField", &part.name);
                        members = part.kind.members();
                    }
                }
            }
        }
        self.close(element);
    }
}

/// Name of a type of the model; `None` if the layout has no name.
fn basic(kind: &Kind) -> Option<String> {
    let of_len = |name: &str, len: Option<u32>| match len {
        Some(len) => format!("{name}[{len}]"),
        None => name.to_owned(),
    };
    Some(match kind {
        Kind::Number(number) if number.ranges.is_empty() && number.names.is_empty() => {
            integer(number.base).to_owned()
        }
        Kind::Flag => "boolean".to_owned(),
        Kind::Real32 => "float32".to_owned(),
        Kind::Real64 => "float64".to_owned(),
        Kind::Bytes(len) => of_len("byte", Some(*len)),
        Kind::Text(most) => of_len("string", *most),
        Kind::Octets(most) => of_len("octetstring", *most),
        _ => return None,
    })
}

fn integer(base: Integer) -> &'static str {
    match base {
        Integer::Int8 => "char",
        Integer::Uint8 => "uchar",
        Integer::Int16 => "int16",
        Integer::Uint16 => "uint16",
        Integer::Int32 => "int32",
        Integer::Uint32 => "uint32",
        Integer::Int64 => "int64",
        Integer::Uint64 => "uint64",
    }
}

fn word(access: Access) -> &'static str {
    match access {
        Access::ReadOnly => "read-only",
        Access::ReadWrite => "read-write",
        Access::WriteOnly => "write-only",
        Access::ReadReset => "read-reset",
        Access::TriggerOnly => "trigger-only",
    }
}

/// Escapes XML's special characters; control characters, which XML does not permit, become spaces.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

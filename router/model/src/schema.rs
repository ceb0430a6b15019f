//! Components and parameters as JSON Schema: for OpenAPI, and for editors of configuration files.

use schemars::{Schema, json_schema};
use weir_base::setting::{Kind, Parameter};
use weir_base::units::Quantity;

use crate::class::{Component, Type};
use crate::{Class, Section};

/// An object with these required components.
pub fn of_members(members: &[Component]) -> Schema {
    let mut schema = json_schema!({ "type": "object" });
    for member in members {
        add(&mut schema, "properties", member.name, of_component(member));
    }
    let names: Vec<_> = members.iter().map(|member| member.name).collect();
    schema.insert("required".to_owned(), names.into());
    schema
}

fn of_component(component: &Component) -> Schema {
    let mut schema = of_type(&component.kind);
    if component.optional {
        schema = json_schema!({ "oneOf": [schema, { "type": "null" }] });
    }
    schema.insert("description".to_owned(), component.about.into());
    schema
}

fn of_type(kind: &Type) -> Schema {
    match kind {
        Type::Text => json_schema!({ "type": "string" }),
        Type::Flag => json_schema!({ "type": "boolean" }),
        Type::Gauge(_) | Type::Counter(_) => json_schema!({ "type": "integer", "minimum": 0 }),
        Type::Real(_) => json_schema!({ "type": "number" }),
        Type::Setting(None) => json_schema!({ "type": ["string", "number", "boolean"] }),
        Type::Setting(Some(kind)) => of_kind(kind),
        Type::Struct(members) => of_members(members),
        Type::Rows(members) => json_schema!({ "type": "array", "items": of_members(members) }),
        Type::Map(kind) => {
            json_schema!({ "type": "object", "additionalProperties": of_type(kind) })
        }
    }
}

/// A section of a configuration, with its subsections.
pub fn of_section(section: &Section) -> Schema {
    let mut schema = match &(section.classes)()[..] {
        [class] => of_parameters(class.parameters),
        kinds => {
            let kinds: Vec<_> = kinds
                .iter()
                .map(|class| of_one_kind(section, class))
                .collect();
            json_schema!({ "oneOf": kinds })
        }
    };
    for within in section.sections {
        let one = of_section(within);
        let all = if within.has_instances {
            json_schema!({ "type": "object", "additionalProperties": one })
        } else {
            one
        };
        add(&mut schema, "properties", within.key, all);
    }
    schema
}

/// The section with the `kind` that selects this class.
fn of_one_kind(section: &Section, class: &Class) -> Schema {
    let mut schema = of_parameters(class.parameters);
    let kind = json_schema!({ "const": class.name, "description": class.about });
    add(&mut schema, "properties", "kind", kind);
    if class.name != section.kind_default {
        schema.insert("required".to_owned(), vec!["kind"].into());
    }
    schema
}

/// An object that permits only these parameters.
pub fn of_parameters(parameters: &[Parameter]) -> Schema {
    let mut schema = json_schema!({ "type": "object", "additionalProperties": false });
    for parameter in parameters {
        add(
            &mut schema,
            "properties",
            parameter.name,
            of_parameter(parameter),
        );
    }
    schema
}

/// A value of this parameter.
pub fn of_parameter(parameter: &Parameter) -> Schema {
    let mut schema = of_kind(&parameter.kind);
    let about = format!("{}; {}", parameter.about, parameter.kind);
    schema.insert("description".to_owned(), about.into());
    let default = match parameter.kind {
        Kind::Flag => (parameter.default == "true").into(),
        _ => parameter.default.into(),
    };
    schema.insert("default".to_owned(), default);
    schema
}

/// The pattern of a number.
pub const NUMBER: &str = "[0-9][0-9_]*(\\.[0-9_]*)?";

/// The pattern of a unit of this quantity.
pub fn unit(of: Quantity) -> String {
    let per_second = if of == Quantity::Rate { "(/s)?" } else { "" };
    format!("({}){per_second}", of.unit_names().replace(", ", "|"))
}

/// The pattern of a number with its unit.
pub fn quantity(of: Quantity) -> String {
    format!("{NUMBER} *{}", unit(of))
}

/// A setting.
pub fn of_kind(kind: &Kind) -> Schema {
    let text = |pattern: &str| {
        let title = kind.to_string();
        json_schema!({ "type": "string", "pattern": format!("^ *({pattern}) *$"), "title": title })
    };
    let number_or = |min: &f64, max: &f64, pattern: &str| {
        let number = json_schema!({ "type": "number", "minimum": min, "maximum": max });
        json_schema!({ "anyOf": [number, text(pattern)] })
    };
    let ratio = format!("{NUMBER}( */ *{NUMBER})?");
    match kind {
        Kind::Count(min, max) => json_schema!({ "anyOf": [
            { "type": "integer", "minimum": min, "maximum": max },
            text(&format!("{NUMBER} *(packets?)?")),
        ] }),
        Kind::Ratio(min, max) => number_or(min, max, &ratio),
        Kind::RatioOrWord(min, max, word) => number_or(min, max, &format!("{word}|{ratio}")),
        Kind::PacketsRateOrShare(packets, _) => json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 0, "maximum": packets },
            { "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1 },
            text(&format!("{NUMBER} *((packets?)?|{}|/ *{NUMBER})", unit(Quantity::Rate))),
        ] }),
        Kind::Span(..) => text(&quantity(Quantity::Time)),
        Kind::Rate(..) => text(&quantity(Quantity::Rate)),
        Kind::Bytes(..) => text(&quantity(Quantity::Size)),
        Kind::RateOrWord(_, _, words) => {
            text(&format!("{}|{}", words.join("|"), quantity(Quantity::Rate)))
        }
        Kind::BytesOrWords(_, _, words) => text(&format!(
            "{}|(({}) *)+",
            quantity(Quantity::Size),
            words.join("|")
        )),
        Kind::Flag => json_schema!({ "type": "boolean" }),
        Kind::Word(words) => json_schema!({ "enum": words }),
        // A list of words means the text of these words, separated by spaces.
        Kind::Text(max) => json_schema!({ "anyOf": [
            { "type": "string", "maxLength": max },
            { "type": "array", "items": { "type": "string" } },
        ] }),
    }
}

/// Adds `name` to the object at `key` of `schema`.
pub fn add(schema: &mut Schema, key: &str, name: &str, value: Schema) {
    let object = schema.ensure_object();
    let all = object.entry(key).or_insert_with(|| json_schema!({}).into());
    if let Some(all) = all.as_object_mut() {
        all.insert(name.to_owned(), value.into());
    }
}

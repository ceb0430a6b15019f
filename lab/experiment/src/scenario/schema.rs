//! The JSON Schema of a scenario file, from the tables that check it. With it an editor can complete and check a file.
//!
//! The schema states the kind, range and default of each value. It does not mark required keys, because a file may
//! inherit them from the file that it extends. It cannot express rules for several keys together (names that resolve,
//! `stop` after `start`): only [`super::load`] checks them.

use serde_json::{Map, Value, json};
use weir_base::setting::{Kind, Parameter};
use weir_base::units::Quantity;
use weir_discipline::manuals;
use weir_model::schema::{NUMBER, of_kind, quantity};

use super::key::{Form, Key, SAME, WEIGHT_MAX};
use super::layer::SECTIONS;
use super::parameters::*;
use super::reading::Reading;

/// The schema, for draft 2020-12.
pub fn schema() -> Value {
    let mut top = section(&[FILE, TOP]);
    let mut properties = vec![
        ("router", named("routers", json!(section(&[ROUTER])))),
        ("host", named("hosts", json!(section(&[HOST])))),
        ("link", named("links", json!(section(&[LINK])))),
        ("traffic", named("traffic", traffic())),
        ("controller", named("controllers", controller())),
    ];
    let added = SECTIONS.all().iter();
    properties.extend(
        added.map(|(title, what, keys)| (table_of(title), named(what, json!(section(&[keys]))))),
    );
    properties.extend([
        ("quick", json!(section(&[QUICK]))),
        ("variant", variants()),
        ("sweep", sweep()),
    ]);
    if let Some(Value::Object(known)) = top.get_mut("properties") {
        known.extend(
            properties
                .into_iter()
                .map(|(name, schema)| (name.to_owned(), schema)),
        );
    }
    top.insert(
        "$schema".into(),
        json!("https://json-schema.org/draft/2020-12/schema"),
    );
    top.insert("title".into(), json!("weir scenario"));
    let shared = json!({ "discipline": discipline(), "calibrated": calibrated() });
    top.insert("$defs".into(), shared);
    Value::Object(top)
}

/// The schema of a table with only these keys.
fn section(tables: &[&[&'static Key]]) -> Map<String, Value> {
    let keys = || tables.iter().flat_map(|table| table.iter());
    let properties = keys().map(|key| (key.name.to_owned(), described(key)));
    object(properties.collect())
}

/// A calibrated value and the values of other readings, such as the printed one; permitted in place of any value.
fn calibrated() -> Value {
    let others = Reading::KEYS.iter().map(|(_, key)| *key);
    let properties = ["calibrated"].into_iter().chain(others);
    let mut pair = object(
        properties
            .map(|name| (name.to_owned(), json!({})))
            .collect(),
    );
    pair.insert("required".into(), json!(["calibrated"]));
    Value::Object(pair)
}

fn object(properties: Map<String, Value>) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("type".into(), json!("object"));
    object.insert("properties".into(), Value::Object(properties));
    object.insert("additionalProperties".into(), json!(false));
    object
}

/// `[section.NAME]`, any number of them.
fn named(what: &str, section: Value) -> Value {
    json!({ "description": format!("{what}, by name"), "type": "object",
            "additionalProperties": section })
}

/// The schema of traffic: the keys of each kind.
fn traffic() -> Value {
    let kinds: [(&str, &[&[&'static Key]]); 3] = [
        ("tcp", &[TRAFFIC, TCP, TCP_OPTIONS]),
        ("udp", &[TRAFFIC, UDP]),
        ("web", &[TRAFFIC, WEB, TCP_OPTIONS]),
    ];
    let one = kinds.map(|(kind, tables)| {
        let mut keys = section(tables);
        keys.insert("title".into(), json!(kind));
        keys["properties"]["kind"] = json!({ "const": kind });
        Value::Object(keys)
    });
    json!({ "anyOf": one })
}

fn discipline() -> Value {
    let one = manuals().map(|manual| {
        let parameters = manual.parameters.iter();
        let mut properties: Map<String, Value> = parameters
            .map(|p: &Parameter| {
                let about = (p.about, p.default);
                (p.name.to_owned(), with(about, json!(of_kind(&p.kind))))
            })
            .collect();
        properties.insert("kind".into(), json!({ "const": manual.name }));
        let mut keys = object(properties);
        keys.insert("title".into(), json!(manual.name));
        keys.insert("description".into(), json!(manual.purpose));
        Value::Object(keys)
    });
    json!({ "anyOf": one.collect::<Vec<_>>() })
}

/// The schema of a controller: the links and parameters of each kind.
fn controller() -> Value {
    let one = weir_controller::spec::KINDS.iter().map(|kind| {
        let manual = &kind.manual;
        let mut keys = section(&[CONTROLLER]);
        if let Some(Value::Object(properties)) = keys.get_mut("properties") {
            properties.insert("kind".into(), json!({ "const": manual.name }));
            for role in manual.roles {
                let links = with((role.about, ""), form(&Form::Links));
                properties.insert(role.name.to_owned(), links);
            }
            for p in manual.parameters {
                let schema = with((p.about, p.default), json!(of_kind(&p.kind)));
                properties.insert(p.name.to_owned(), schema);
            }
        }
        keys.insert("title".into(), json!(manual.name));
        keys.insert("description".into(), json!(manual.purpose));
        Value::Object(keys)
    });
    json!({ "anyOf": one.collect::<Vec<_>>() })
}

fn variants() -> Value {
    let set = json!({ "type": "object", "description": "values by path" });
    let mut variant = section(&[VARIANT]);
    if let Some(Value::Object(properties)) = variant.get_mut("properties") {
        properties.insert("name".into(), json!({ "type": "string" }));
        properties.insert("set".into(), set);
    }
    let mut list = Map::new();
    list.insert(
        "description".into(),
        json!("every variant runs at every point of the sweep"),
    );
    list.insert("type".into(), json!("array"));
    list.insert("items".into(), json!(variant));
    Value::Object(list)
}

fn sweep() -> Value {
    json!({
        "description": "values for each path; every combination runs",
        "type": "object",
        "additionalProperties": { "type": "array", "minItems": 1 },
    })
}

/// A key's schema with its description.
fn described(key: &Key) -> Value {
    with((key.about, key.default), form(&key.form))
}

/// A value's schema with its description and its default.
fn with((about, default): (&str, &str), value: Value) -> Value {
    let mut schema = json!({ "anyOf": [value, { "$ref": "#/$defs/calibrated" }] });
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".into(), json!(about));
        if !default.is_empty() {
            schema.insert("default".into(), json!(default));
        }
    }
    schema
}

fn form(form: &Form) -> Value {
    match form {
        Form::Setting(of) => json!(of_kind(of)),
        Form::Sizes(..) => distribution(Quantity::Size, "|webstone"),
        Form::Times(..) => distribution(Quantity::Time, ""),
        Form::RateCourse(min, max) => {
            let single = Kind::Rate(*min, *max);
            course(single, Quantity::Rate, "|outage", "|trace +.+")
        }
        Form::SpanCourse(min, max) => course(Kind::Span(*min, *max), Quantity::Time, "", ""),
        Form::Load => json!({ "type": "string", "pattern": LOAD, "title": form.to_string() }),
        Form::Spacing => {
            let pattern = format!("^(even|poisson|jittered +{NUMBER})$");
            json!({ "type": "string", "pattern": pattern })
        }
        Form::Text | Form::Host => json!({ "type": "string" }),
        Form::Ends => {
            json!({ "type": "array", "items": { "type": "string" }, "minItems": 2, "maxItems": 2 })
        }
        Form::Weights => {
            let weight = json!({ "type": "integer", "minimum": 1, "maximum": WEIGHT_MAX });
            json!({ "type": "array", "items": weight })
        }
        Form::Links | Form::Names | Form::Variants => {
            json!({ "type": "array", "items": { "type": "string" } })
        }
        Form::Discipline => json!({ "$ref": "#/$defs/discipline" }),
        Form::ReverseDiscipline => {
            json!({ "anyOf": [{ "$ref": "#/$defs/discipline" }, { "const": SAME }] })
        }
    }
}

const LOAD: &str = "^[-+*() 0-9._t]*(bit|kbit|Mbit|Gbit)(/s)?[-+*() 0-9._tkMGbis/]*$";

/// The schema of a single value of this kind, or of its changes over time; with a further word for a value, and further
/// forms.
fn course(single: Kind, of: Quantity, word: &str, more: &str) -> Value {
    let (value, period) = (quantity(of), quantity(Quantity::Time));
    let from = format!("({value}{word}) +from +{period}");
    let pattern = format!(
        "({value}{word}) *(, *{from} *)+|sawtooth +{value} +to +{value} +in +[0-9]+ +steps +every +{period}{more}"
    );
    let pattern = format!("^ *({pattern}) *$");
    json!({ "anyOf": [of_kind(&single), { "type": "string", "pattern": pattern }] })
}

fn distribution(of: Quantity, more: &str) -> Value {
    let one = quantity(of);
    let forms = format!(
        "{one}|uniform +{one} to {one}|exponential +{one}|pareto +{NUMBER} +{one}( to {one})?\
         |{one} *: *{NUMBER}( *, *{one} *: *{NUMBER})*{more}"
    );
    json!({ "type": "string", "pattern": format!("^ *({forms}) *$") })
}

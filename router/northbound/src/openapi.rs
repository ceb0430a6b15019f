//! The interface as an OpenAPI 3.1 document, from the same declarations as the service itself.

use serde_json::{Map, Value, json};
use weir_model::{Class, schema};

use crate::api::{self, CE_ENDPOINTS, Content, ENDPOINTS, ERRORS, Endpoint};

/// The OpenAPI document of a router with these classes.
pub fn document(classes: &[&Class]) -> Value {
    of(classes, ENDPOINTS, "HTTP on the Unix socket of a router")
}

/// The OpenAPI document of a control element with these tables. The interface of an FE has a separate document, at
/// `/v1/fe/NAME/v1/openapi.json`.
pub fn of_control_element(classes: &[&Class]) -> Value {
    let own: Vec<_> = CE_ENDPOINTS
        .iter()
        .filter(|e| e.method != "ANY")
        .copied()
        .collect();
    of(
        classes,
        &own,
        "HTTP on the Unix socket of a control element",
    )
}

fn of(classes: &[&Class], endpoints: &[Endpoint], about: &str) -> Value {
    let mut paths = Map::new();
    for class in classes {
        paths.insert(api::path_of(class), json!({ "get": table(class) }));
    }
    for endpoint in endpoints {
        let methods = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        methods[endpoint.method.to_lowercase()] = operation(endpoint);
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "weir", "version": "1", "description": about },
        "paths": paths,
    })
}

fn table(class: &Class) -> Value {
    let row = schema::of_members(class.components);
    let (schema, example) = match class.key {
        [] => (json!(row), json!(class.example())),
        _ => (
            json!({ "type": "array", "items": row }),
            json!([class.example()]),
        ),
    };
    let query = class.query.iter().map(|parameter| {
        json!({ "name": parameter.name, "in": "query", "schema": schema::of_parameter(parameter) })
    });
    let mut table = json!({
        "summary": class.about,
        "x-class-id": class.id,
        "parameters": query.collect::<Vec<_>>(),
        "responses": responses(&json!({ "schema": schema, "example": example }), "application/json", &[]),
    });
    if let Some(mechanisms) = class.mechanisms {
        let all = (mechanisms.classes)().into_iter().map(|class| {
            let gauges = class.gauges.iter();
            let gauges = gauges.map(|gauge| (gauge.name.to_owned(), gauge.about.into()));
            (class.name.to_owned(), Value::Object(gauges.collect()))
        });
        table["x-gauges"] = Value::Object(all.collect());
    }
    table
}

fn operation(endpoint: &Endpoint) -> Value {
    let (kind, content) = media(endpoint.answer);
    let mut operation = json!({
        "summary": endpoint.about,
        "responses": responses(&content, kind, endpoint.statuses),
    });
    if let (Content::One(_) | Content::List(_) | Content::Other(_), (kind, content)) =
        (endpoint.body, media(endpoint.body))
    {
        operation["requestBody"] = json!({ "required": true, "content": { kind: content } });
    }
    let id = json!({ "type": "integer", "minimum": 0 });
    let id = json!({ "name": "id", "in": "path", "required": true, "schema": id });
    let in_path = endpoint.path.contains("{id}").then_some(id);
    let parameters: Vec<_> = in_path.into_iter().chain(query(endpoint.body)).collect();
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    operation
}

/// The parameters of a query, one for each field; the parameter of a list may be repeated.
fn query(content: Content) -> Vec<Value> {
    let Content::Query(shape) = content else {
        return Vec::new();
    };
    let schema = shape.schema();
    let fields = schema["properties"].as_object();
    let parameter = |(name, schema): (&String, &Value)| json!({ "name": name, "in": "query", "schema": schema });
    fields.into_iter().flatten().map(parameter).collect()
}

/// Media type and schema of a request's or an answer's content.
fn media(content: Content) -> (&'static str, Value) {
    match content {
        Content::Nothing | Content::Query(_) => ("application/json", json!({})),
        Content::Lines(shape) => ("application/x-ndjson", json!({ "schema": shape.schema() })),
        Content::One(shape) => ("application/json", json!({ "schema": shape.schema() })),
        Content::List(shape) => {
            let list = json!({ "type": "array", "items": shape.schema() });
            ("application/json", json!({ "schema": list }))
        }
        Content::Other(words) => ("*/*", json!({ "schema": { "description": words } })),
    }
}

fn responses(content: &Value, kind: &str, statuses: &[(u16, &str)]) -> Value {
    let good = json!({ "description": "the answer", "content": { kind: content } });
    let mut all = Map::from_iter([("200".to_owned(), good)]);
    for (status, when) in ERRORS.iter().chain(statuses) {
        all.insert(status.to_string(), json!({ "description": when }));
    }
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_has_its_methods() {
        let document = document(&[&Class {
            name: "drops",
            ..Class::PLAIN
        }]);
        let paths = document["paths"].as_object().unwrap();
        let methods = |path: &str| {
            paths[path]
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(methods("/v1/drops"), ["get"]);
        assert_eq!(methods("/v1/config"), ["delete", "get", "patch", "put"]);
        assert_eq!(methods("/v1/capture/{id}"), ["delete", "get"]);
    }

    #[test]
    fn a_value_is_the_same_after_json() {
        let text = r#"{"none":null,"on":true,"n":7,"x":0.5,"rows":[{"a":"b"}]}"#;
        let value: weir_model::Value = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        assert_eq!((value.whole("n"), value.real("x")), (Some(7), Some(0.5)));
        assert_eq!(value.get("rows").unwrap().rows()[0].text("a"), Some("b"));
    }
}

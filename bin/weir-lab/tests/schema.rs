//! Every scenario of the repository is readable, and the JSON Schema agrees with the reader.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex_lite::Regex;
use serde_json::Value;
use weir_discipline::manuals;
use weir_experiment::scenario::parameters::sections;
use weir_experiment::scenario::reading::to_json;
use weir_experiment::scenario::{self, Choices, source};

/// The schema, with the sections of all extensions.
fn schema() -> Value {
    weir_experiment::extend(weir_fpf_lab::FPF);
    scenario::schema()
}

/// The scenario files of the repository, which need all extensions.
fn files() -> Vec<PathBuf> {
    weir_experiment::extend(weir_fpf_lab::FPF);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let names = source::BUILT_IN.iter().map(|(name, _)| name);
    let files: Vec<PathBuf> = names
        .map(|name| root.join(format!("{name}.toml")))
        .collect();
    assert!(files.len() >= 8, "{files:?}");
    files
}

/// The scenarios that can be run: a file without a title is a part of others.
fn scenarios() -> impl Iterator<Item = PathBuf> {
    let all = source::BUILT_IN.iter().zip(files());
    let named = all.filter(|((_, text), _)| text.contains("\ntitle = \""));
    named.map(|(_, file)| file)
}

/// The rules of `schema` that `value` violates, with their paths. Supports the subset of JSON Schema that ours uses.
fn broken(schema: &Value, value: &Value, whole: &Value, path: &str) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{path}: {what}: {value}"));
    for (keyword, says) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "$ref" => {
                let pointer = says.as_str().unwrap().strip_prefix('#').unwrap();
                broken(whole.pointer(pointer).unwrap(), value, whole, path)?;
            }
            "type" => {
                let right = match says.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "integer" => value.is_u64(),
                    "number" => value.is_number(),
                    other => panic!("type {other}"),
                };
                if !right {
                    return wrong(&format!("is no {says}"));
                }
            }
            "const" if says != value => return wrong("is another constant"),
            "enum" if !says.as_array().unwrap().contains(value) => return wrong("is no such word"),
            "minimum" if value.as_f64() < says.as_f64() => return wrong("is too small"),
            "maximum" if value.as_f64() > says.as_f64() => return wrong("is too large"),
            "minItems" if (items(value).len() as u64) < says.as_u64().unwrap() => {
                return wrong("is too short");
            }
            "maxItems" if items(value).len() as u64 > says.as_u64().unwrap() => {
                return wrong("is too long");
            }
            "pattern" => {
                let pattern = Regex::new(says.as_str().unwrap()).unwrap();
                if !pattern.is_match(value.as_str().unwrap_or_default()) {
                    return wrong("does not look right");
                }
            }
            "items" => {
                for item in items(value) {
                    broken(says, item, whole, path)?;
                }
            }
            "required" => {
                let missing = items(says)
                    .iter()
                    .find(|k| value.get(k.as_str().unwrap()).is_none());
                if let Some(key) = missing {
                    return wrong(&format!("lacks {key}"));
                }
            }
            "properties" | "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                for (key, value) in value.as_object().into_iter().flatten() {
                    let path = format!("{path}.{key}");
                    match known.and_then(|known| known.get(key)) {
                        Some(schema) if keyword == "properties" => {
                            broken(schema, value, whole, &path)?;
                        }
                        None if *says == Value::Bool(false) => {
                            return Err(format!("{path}: there is no such key"));
                        }
                        None if keyword == "additionalProperties" => {
                            broken(says, value, whole, &path)?;
                        }
                        _ => {}
                    }
                }
            }
            "oneOf" | "anyOf" => {
                let tried = items(says).iter().map(|s| broken(s, value, whole, path));
                let (good, bad): (Vec<_>, Vec<_>) = tried.partition(Result::is_ok);
                if good.is_empty() || (keyword == "oneOf" && good.len() > 1) {
                    return wrong(&format!("{keyword}: {bad:?}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn check(text: &str) -> Result<(), String> {
    let schema = schema();
    let tree = to_json(&weir_config::parse("f", text).unwrap());
    broken(&schema, &tree, &schema, "")
}

#[test]
fn every_scenario_is_read_and_fits_the_schema() {
    for file in scenarios() {
        let plan = scenario::load(&file, Choices::default()).unwrap();
        for point in &plan.points {
            weir_experiment::topology::Topology::new(&point.scenario).unwrap();
        }
    }
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        check(&text).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    }
}

/// Kinds that are not in `weir compare`: an emulated link, a queue that only obeys its controller, and one
/// that is plain until its controller changes it.
const NOT_COMPARED: [&str; 3] = ["impair", "refill", "token_bucket"];

#[test]
fn every_discipline_is_compared() {
    let all = manuals().map(|manual| manual.name);
    let expected: Vec<&str> = all.filter(|name| !NOT_COMPARED.contains(name)).collect();
    let compared = ["rfc7928", "rrul", "hosts"].map(|folder| Path::new(folder).to_owned());
    let of_folder = |file: &PathBuf| {
        let folder = file.parent().and_then(Path::file_name);
        compared.iter().any(|name| Some(name.as_os_str()) == folder)
    };
    for file in scenarios().filter(of_folder) {
        let plan = scenario::load(&file, Choices::default()).unwrap();
        let mut loads: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
        for point in &plan.points {
            let links = &point.scenario.links;
            let bottleneck = links.iter().find(|link| link.name == "bottleneck").unwrap();
            let kinds = [&bottleneck.discipline, &bottleneck.reverse_discipline];
            let kinds: BTreeSet<&str> =
                kinds.into_iter().flatten().map(|d| d.spec.kind()).collect();
            assert_eq!(kinds.len(), 1, "{file:?}: two disciplines at one point");
            let others = point
                .set
                .iter()
                .filter(|(path, _)| !path.contains("discipline."));
            let load = others
                .map(|(path, value)| format!("{path}={value} "))
                .collect();
            loads.entry(load).or_default().extend(kinds);
        }
        for (load, kinds) in loads {
            let left_out: Vec<_> = expected
                .iter()
                .filter(|name| !kinds.contains(*name))
                .collect();
            assert!(left_out.is_empty(), "{file:?} {load}lacks {left_out:?}");
        }
    }
}

/// An emulated link is not a queue to attack.
const NOT_ATTACKED: [&str; 1] = ["impair"];
/// Kinds that are used between control elements and forwarding elements, or at the ingresses of a network, have their
/// own attack scenarios.
const ATTACKED_ELSEWHERE: [&str; 3] = ["dppbrb", "refill", "token_bucket"];

#[test]
fn every_mechanism_has_an_attacker() {
    let all: BTreeSet<&str> = manuals().map(|manual| manual.name).collect();
    let everywhere: Vec<&str> = all
        .iter()
        .filter(|name| !NOT_ATTACKED.contains(name) && !ATTACKED_ELSEWHERE.contains(name))
        .copied()
        .collect();
    let (mut attacked, mut controllers) = (BTreeSet::new(), BTreeSet::new());
    for file in scenarios().filter(|file| file.parent().is_some_and(|f| f.ends_with("attack"))) {
        let plan = scenario::load(&file, Choices::default()).unwrap();
        let scenarios = || plan.points.iter().map(|point| &point.scenario);
        for scenario in scenarios() {
            let attacks = scenario.traffic.iter().any(|traffic| traffic.hog);
            assert!(attacks, "{file:?}: nobody attacks");
            controllers.extend(scenario.controllers.iter().map(|c| c.spec.manual().name));
        }
        let links = scenarios().flat_map(|scenario| &scenario.links);
        let named = links.filter_map(|link| link.discipline.as_ref());
        let here: BTreeSet<&str> = named.map(|discipline| discipline.spec.kind()).collect();
        // A scenario that begins with the plain queue compares all its alternatives.
        if plan.points[0].variant.as_deref() == Some("fifo") {
            let left_out = everywhere.iter().filter(|name| !here.contains(*name));
            let left_out: Vec<_> = left_out.collect();
            assert!(left_out.is_empty(), "{file:?} lacks {left_out:?}");
        }
        attacked.extend(here);
    }
    let unattacked: Vec<_> = all.difference(&attacked).collect();
    assert_eq!(unattacked, NOT_ATTACKED.iter().collect::<Vec<_>>());
    let of_controllers = weir_controller::spec::KINDS.iter().map(|k| k.manual.name);
    assert_eq!(controllers, of_controllers.collect());
}

#[test]
fn the_schema_finds_what_the_reader_finds() {
    let file = files().into_iter().find(|f| f.ends_with("peers/fan.toml"));
    let text = std::fs::read_to_string(file.unwrap()).unwrap();
    for (old, new) in [
        ("warm_up", "warmup"),
        ("ends = [\"r1\", \"r2\"]", "ends = [\"r1\"]"),
        ("delay = \"10 ms\"", "delay = \"10 m\""),
        ("delay = \"10 ms\"", "delay = \"10 ms, 20 ms\""),
        ("delay = \"10 ms\"", "delay = \"trace a.trace\""),
        (
            "delay = \"10 ms\"",
            "delay = \"sawtooth 1 ms to 2 ms every 1 s\"",
        ),
        ("kind = \"red\", limit", "kind = \"red\", limits"),
        ("kind = \"red\", limit", "kind = \"reed\", limit"),
        ("\"exponential 0.2 s\"", "\"exponetial 0.2 s\""),
        ("\"pareto 1.5 26.25 MB\"", "\"pareto 26.25 MB\""),
        ("kind = \"udp\"", "kind = \"tcp\""),
        ("\"57.6 kbit\"", "\"57.6 kb\""),
        ("ack_every = 1", "ack_every = 65"),
    ] {
        assert!(text.contains(old), "{old}");
        let text = text.replacen(old, new, 1);
        assert!(check(&text).is_err(), "{new} fits the schema");
        assert!(
            scenario::plan::plan(&text, &[], &[]).is_err(),
            "{new} is read"
        );
    }
}

#[test]
fn every_key_is_in_the_schema_with_its_sentence() {
    fn keys<'a>(schema: &'a Value, found: &mut BTreeSet<(&'a str, &'a str)>) {
        if let Some(known) = schema.get("properties").and_then(Value::as_object) {
            for (key, schema) in known {
                let about = schema["description"].as_str().unwrap_or_default();
                found.insert((key, about));
            }
        }
        match schema {
            Value::Object(inner) => inner.values().for_each(|v| keys(v, found)),
            Value::Array(inner) => inner.iter().for_each(|v| keys(v, found)),
            _ => {}
        }
    }
    let schema = schema();
    let mut found = BTreeSet::new();
    keys(&schema, &mut found);
    for (section, table) in sections() {
        for key in table.iter() {
            let is_kind = key.name == "kind"; // a constant of each alternative
            let there = found.contains(&(key.name, key.about)) || is_kind;
            assert!(there, "{section}: {}", key.name);
        }
    }
    for manual in manuals() {
        for parameter in manual.parameters {
            let there = found.contains(&(parameter.name, parameter.about));
            assert!(there, "{}: {}", manual.name, parameter.name);
        }
    }
}

#[test]
fn defaults_fit_their_own_schema() {
    fn walk(schema: &Value, whole: &Value) {
        if let Some(default) = schema.get("default") {
            // A default is in the form of a text in a file, also for flags and words.
            let plain = default.as_str().and_then(|t| serde_json::from_str(t).ok());
            let fits = broken(schema, default, whole, "")
                .or_else(|_| broken(schema, &plain.unwrap_or_default(), whole, ""));
            fits.unwrap();
        }
        match schema {
            Value::Object(inner) => inner.values().for_each(|v| walk(v, whole)),
            Value::Array(inner) => inner.iter().for_each(|v| walk(v, whole)),
            _ => {}
        }
    }
    let schema = schema();
    walk(&schema, &schema);
}

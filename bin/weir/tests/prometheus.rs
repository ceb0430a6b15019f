//! The dashboard and the alerts use metrics that exist, in queries that Prometheus understands; and every metric
//! follows Prometheus' naming conventions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::promtool::{check_metrics, promtool};
use serde_json::Value;

const RULES: &str = "packaging/prometheus/weir.rules.yml";

/// The metrics of routers and of control elements.
fn metrics() -> Vec<Value> {
    let lists = ["prometheus", "ce-prometheus"].map(list);
    lists
        .iter()
        .flat_map(|list| list.as_array().unwrap())
        .cloned()
        .collect()
}

fn list(what: &str) -> Value {
    let program = env!("CARGO_BIN_EXE_weir");
    let listed = Command::new(program)
        .args(["list", what, "--json"])
        .output()
        .unwrap();
    serde_json::from_slice(&listed.stdout).unwrap()
}

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// The names of all declared metrics; a histogram has several.
fn declared() -> BTreeSet<String> {
    let of_row = |row: &Value| {
        let name = row["name"].as_str().unwrap();
        let ends: &[&str] = if row["type"] == "histogram" {
            &["_bucket", "_sum", "_count"]
        } else {
            &[""]
        };
        ends.iter()
            .map(|end| format!("{name}{end}"))
            .collect::<Vec<_>>()
    };
    metrics().iter().flat_map(of_row).collect()
}

/// Every query of the dashboard, except the queries of its variables.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(query) = members.get("expr") {
                found.push(query.as_str().unwrap().to_owned());
            }
            members.values().for_each(|value| queries(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

/// Words of a text that are names of our metrics.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("weir_"))
}

#[test]
fn the_dashboard_asks_for_metrics_that_exist() {
    let dashboard = list("dashboard");
    let mut all = Vec::new();
    queries(&dashboard, &mut all);
    assert!(all.len() > 100, "{all:?}");
    let declared = declared();
    let text = dashboard.to_string();
    for name in names(&text) {
        assert!(declared.contains(name), "{name} is no metric");
    }
    // Prometheus has no command that only parses queries in all versions, but it checks recording rules.
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (number, query) in all.iter().enumerate() {
        let query = query.replace("$__rate_interval", "5m");
        assert!(!query.contains("{{"), "{query}");
        rules += &format!("  - record: query_{number}\n    expr: >-\n      {query}\n");
    }
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dashboard.rules.yml");
    fs::write(&path, rules).unwrap();
    if let Some(said) = promtool(&["check", "rules", path.to_str().unwrap()], "") {
        assert!(
            said.contains(&format!("{} rules found", all.len())),
            "{said}"
        );
    }
}

/// The dashboard has all gauges of every discipline.
#[test]
fn the_dashboard_shows_every_metric_of_a_discipline() {
    let dashboard = list("dashboard").to_string();
    let shown: BTreeSet<_> = names(&dashboard).map(str::to_owned).collect();
    let declared = declared();
    for discipline in list("disciplines").as_array().unwrap() {
        let prefix = format!("weir_{}_", discipline["name"].as_str().unwrap());
        let mut of_discipline = declared.iter().filter(|name| name.starts_with(&prefix));
        let missing = of_discipline.find(|name| !shown.contains(*name));
        assert_eq!(missing, None);
    }
}

#[test]
fn alerts_fire_when_they_should() {
    let rules = fs::read_to_string(file(RULES)).unwrap();
    let declared = declared();
    assert!(names(&rules).count() > 10);
    for name in names(&rules) {
        assert!(declared.contains(name), "{name} is no metric");
    }
    let tests = file("packaging/prometheus/weir.rules.test.yml");
    promtool(&["check", "rules", file(RULES).to_str().unwrap()], "");
    promtool(&["test", "rules", tests.to_str().unwrap()], "");
}

/// The metrics of a running router and of a control element are checked where one runs: `operator`, `exceptions`.
#[test]
fn every_declared_metric_is_named_by_the_conventions() {
    let mut text = String::new();
    for row in metrics() {
        let cell = |column: &str| row[column].as_str().unwrap();
        let (name, kind, about) = (cell("name"), cell("type"), cell("about"));
        text += &format!("# HELP {name} {about}\n# TYPE {name} {kind}\n");
        text += &match kind {
            "histogram" => {
                format!("{name}_bucket{{le=\"+Inf\"}} 1\n{name}_sum 1\n{name}_count 1\n")
            }
            _ => format!("{name} 1\n"),
        };
    }
    check_metrics(&text);
}

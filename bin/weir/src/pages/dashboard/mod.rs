//! The dashboard for Grafana: panels over the metrics of routers and control elements.
//!
//! The panels of a discipline come from its gauges, so a new discipline gets a row without further code. A panel is a
//! question of an operator; its description explains how to read the answer.

mod panels;

use serde_json::{Value, json};
use weir_lfb::class::disciplines;
use weir_model::Class;
use weir_model::metric::{Kind, Metric};

/// Width of the grid, and height of a panel with a curve and with a number.
const WIDTH: usize = 24;
const HEIGHT: usize = 8;
const HEIGHT_OF_NUMBER: usize = 4;

/// A panel.
struct Panel {
    title: String,
    about: String,
    /// Grafana's name of the unit.
    unit: &'static str,
    /// Whether the panel shows the latest value instead of a curve.
    is_number: bool,
    /// Threshold from which a number is red.
    alarm: Option<f64>,
    /// Queries with the names of their curves.
    queries: Vec<(String, String)>,
}

/// A panel with curves.
fn curves(title: &str, about: &str, unit: &'static str, queries: &[(&str, &str)]) -> Panel {
    Panel {
        title: title.to_owned(),
        about: about.to_owned(),
        unit,
        is_number: false,
        alarm: None,
        queries: queries
            .iter()
            .map(|(query, name)| ((*query).to_owned(), (*name).to_owned()))
            .collect(),
    }
}

/// A panel with a number.
fn number(
    title: &str,
    about: &str,
    (unit, alarm): (&'static str, Option<f64>),
    query: (&str, &str),
) -> Panel {
    Panel {
        is_number: true,
        alarm,
        ..curves(title, about, unit, &[query])
    }
}

/// The dashboard, which Grafana imports.
pub fn json() -> Value {
    let open = [
        ("Health", panels::health()),
        ("Links", panels::links()),
        ("Queues", panels::queues()),
        ("Dropped packets", panels::drops()),
    ];
    let folded = [
        ("Flexible packet forwarding".to_owned(), panels::fpf()),
        (
            "Forwarding element".to_owned(),
            panels::forwarding_element(),
        ),
        ("Control element".to_owned(), panels::control_element()),
    ];
    let of_disciplines = disciplines().into_iter().map(|class| {
        let title = format!("Discipline {}: {}", class.name, class.about);
        (title, of_discipline(&class))
    });
    let mut grid = Grid::default();
    for (title, panels) in open {
        grid.row(title, false, panels);
    }
    for (title, panels) in folded.into_iter().chain(of_disciplines) {
        grid.row(&title, true, panels);
    }
    json!({
        "title": "weir",
        "uid": "weir",
        "description": "Routers, forwarding elements and control elements of weir. Written by `weir list dashboard`.",
        "tags": ["weir"],
        "schemaVersion": 38,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": { "from": "now-30m", "to": "now" },
        "timezone": "browser",
        "templating": { "list": variables() },
        "panels": grid.panels,
    })
}

fn variables() -> Value {
    let query = |name: &str, label: &str, query: &str| {
        json!({
            "name": name, "label": label, "type": "query", "datasource": source(),
            "query": { "query": query, "refId": name }, "refresh": 2, "sort": 1,
        })
    };
    let ports = r#"label_values(weir_port_info{instance=~"$instance"}, port)"#;
    let mut port = query("port", "Port", ports);
    port["multi"] = true.into();
    port["includeAll"] = true.into();
    port["allValue"] = ".*".into();
    port["current"] = json!({ "selected": true, "text": ["All"], "value": ["$__all"] });
    let instances = r#"label_values({__name__=~"weir_info|weir_fe_info"}, instance)"#;
    json!([
        { "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus" },
        query("instance", "Router or control element", instances),
        port,
    ])
}

/// The data source that the user has chosen.
fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

/// Places panels from left to right and from top to bottom.
#[derive(Default)]
struct Grid {
    panels: Vec<Value>,
    y: usize,
    id: usize,
}

impl Grid {
    /// Adds a row; a folded row keeps its panels until it is opened.
    fn row(&mut self, title: &str, is_folded: bool, panels: Vec<Panel>) {
        let head = self.y;
        let id = self.next_id();
        self.y += 1;
        let mut placed = Vec::new();
        for line in lines(panels) {
            let width = WIDTH / line.len();
            let height = line.iter().map(height).max().unwrap_or(HEIGHT);
            for (number, panel) in line.iter().enumerate() {
                let place = json!({ "x": number * width, "y": self.y, "w": width, "h": height });
                placed.push(panel.json(self.next_id(), place));
            }
            self.y += height;
        }
        let place = json!({ "x": 0, "y": head, "w": WIDTH, "h": 1 });
        let within: &[Value] = if is_folded { &placed } else { &[] };
        self.panels.push(json!({
            "id": id, "type": "row", "title": title, "collapsed": is_folded, "gridPos": place, "panels": within,
        }));
        if is_folded {
            self.y = head + 1;
        } else {
            self.panels.append(&mut placed);
        }
    }

    fn next_id(&mut self) -> usize {
        self.id += 1;
        self.id
    }
}

fn height(panel: &Panel) -> usize {
    match panel.is_number {
        true => HEIGHT_OF_NUMBER,
        false => HEIGHT,
    }
}

/// The lines of a row: all numbers in one line, and two curves in each.
fn lines(panels: Vec<Panel>) -> Vec<Vec<Panel>> {
    let mut lines: Vec<Vec<Panel>> = Vec::new();
    for panel in panels {
        let most = if panel.is_number { 6 } else { 2 };
        match lines.last_mut() {
            Some(line) if line[0].is_number == panel.is_number && line.len() < most => {
                line.push(panel);
            }
            _ => lines.push(vec![panel]),
        }
    }
    lines
}

impl Panel {
    fn json(&self, id: usize, place: Value) -> Value {
        let targets = self
            .queries
            .iter()
            .enumerate()
            .map(|(number, (query, name))| {
                let query = query
                    .replace("{{i}}", r#"{instance=~"$instance"}"#)
                    .replace("{{p}}", r#"{instance=~"$instance",port=~"$port"}"#);
                let letter = char::from(b'A' + number as u8);
                json!({
                    "refId": letter.to_string(), "datasource": source(), "expr": query,
                    "legendFormat": name, "instant": self.is_number, "range": !self.is_number,
                })
            });
        let options = match self.is_number {
            true => json!({ "textMode": "value_and_name" }),
            false => {
                json!({ "legend": { "displayMode": "table", "placement": "bottom", "calcs": ["mean", "max"] } })
            }
        };
        let mut steps = vec![json!({ "color": "green", "value": null })];
        steps.extend(
            self.alarm
                .map(|from| json!({ "color": "red", "value": from })),
        );
        let defaults = json!({
            "unit": self.unit, "min": 0, "thresholds": { "mode": "absolute", "steps": steps },
        });
        json!({
            "id": id,
            "type": if self.is_number { "stat" } else { "timeseries" },
            "title": self.title,
            "description": self.about,
            "datasource": source(),
            "gridPos": place,
            "options": options,
            "fieldConfig": { "defaults": defaults, "overrides": [] },
            "targets": targets.collect::<Vec<_>>(),
        })
    }
}

/// The panels of a discipline for its counters and gauges, by unit.
fn of_discipline(class: &Class) -> Vec<Panel> {
    let mut panels: Vec<(&'static str, Panel)> = Vec::new();
    let mut last = String::new();
    for metric in class.metrics() {
        if metric.name == last {
            continue; // the same metric with another number
        }
        let (kind, unit) = unit_of(&metric);
        let name = short(&metric.name, class.name);
        let about = format!("{name}: {}", metric.about);
        let legend = match metric.number {
            Some(_) => format!("{{{{port}}}} {name} {{{{number}}}}"),
            None => format!("{{{{port}}}} {name}"),
        };
        let query = match metric.kind {
            Kind::Counter => format!("rate({}{{{{p}}}}[$__rate_interval])", metric.name),
            Kind::Gauge | Kind::Histogram => format!("{}{{{{p}}}}", metric.name),
        };
        last = metric.name.clone();
        let title = format!("{}: {kind}", class.name);
        let same = |(of, panel): &&mut (&str, Panel)| *of == kind && panel.queries.len() < 8;
        match panels.iter_mut().find(same) {
            Some((_, panel)) => {
                panel.about += &format!("\n\n{about}");
                panel.queries.push((query, legend));
            }
            None => {
                let queries = vec![(query, legend)];
                let panel = Panel {
                    title,
                    about,
                    queries,
                    ..curves("", "", unit, &[])
                };
                panels.push((kind, panel));
            }
        }
    }
    panels.into_iter().map(|(_, panel)| panel).collect()
}

/// The name of a metric without the prefix that all metrics of its discipline share.
fn short(name: &str, discipline: &str) -> String {
    let name = name.strip_suffix("_total").unwrap_or(name);
    let name = name.strip_prefix("weir_").unwrap_or(name);
    let name = name.strip_prefix(discipline).unwrap_or(name);
    name.trim_start_matches('_').to_owned()
}

/// The panel of a discipline's metric, and Grafana's name of its unit.
fn unit_of(metric: &Metric) -> (&'static str, &'static str) {
    let name = metric.name.trim_end_matches("_total");
    let ends = |end| name.ends_with(end);
    match metric.kind {
        Kind::Counter if ends("_packets") => ("packets a second", "pps"),
        Kind::Counter => ("events a second", "eps"),
        _ if ends("_ratio") => ("shares", "percentunit"),
        _ if ends("_bytes_per_second") => ("rates", "Bps"),
        _ if ends("_seconds") => ("times", "s"),
        _ if ends("_bytes") => ("bytes", "bytes"),
        _ => ("now", "none"),
    }
}

//! `weir get` and `weir watch`: components of a router's configuration, and components and events of forwarding elements
//! through their control element.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use weir_base::setting::{did_you_mean, nearest};
use weir_lfb::section;
use weir_model::watch::WatchRequest;
use weir_model::{ComponentPath, ElementPath, Value};
use weir_northbound::client;

use crate::output::{note, one_line, print, print_json, print_json_to_reader, print_to_reader};
use crate::{CeSocket, Failure, RouterSocket};

/// Arguments of `weir get`.
#[derive(Debug, clap::Args)]
pub struct GetArguments {
    /// Components, or their parents: port.wan.rate, port.wan; of a forwarding element: edge1:port.wan.rate
    #[arg(value_name = "[FE:]PATH", required = true)]
    paths: Vec<String>,
    /// Print JSON: the value, or a list if there are several components
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    router: RouterSocket,
}

/// Arguments of `weir watch`.
#[derive(Debug, clap::Args)]
pub struct WatchArguments {
    /// The event, or the component to sample: edge1:port.wan.carrier_lost
    #[arg(value_name = "FE:PATH")]
    path: String,
    /// The threshold of an event that has one
    #[arg(long)]
    threshold: Option<u32>,
    /// Minimum change of the value before the event is reported again
    #[arg(long)]
    hysteresis: Option<u32>,
    /// Report every Nth occurrence of the event only
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// Seconds between reports of an event, or between samples of a component [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = millis)]
    interval: Option<u32>,
    /// Print each notice as a line of JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    ce: CeSocket,
}

fn millis(text: &str) -> Result<u32, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86400.0).contains(&seconds) => {
            let millis = Duration::from_secs_f64(seconds).as_millis();
            Ok(u32::try_from(millis).unwrap_or(u32::MAX))
        }
        _ => Err("must be a number of seconds from 0.01 to 86400".to_owned()),
    }
}

/// A component that a command names.
pub(crate) enum Component {
    /// A component of a router's own configuration.
    OfRouter(ComponentPath),
    /// A component of a forwarding element, through its control element.
    OfElement(ElementPath),
}

impl Component {
    /// Reads `[FE:]PATH`.
    pub(crate) fn read(text: &str, option: Option<&str>) -> Result<Self, Failure> {
        let (fe, path) = ElementPath::split(text);
        Self::new(fe, path.parse().map_err(Failure::Usage)?, option)
    }

    /// The component of an FE, or of a router. The previous release named an FE with the option `--fe`, and a component
    /// of an FE with its class; both get a hint.
    pub(crate) fn new(
        fe: Option<&str>,
        path: ComponentPath,
        option: Option<&str>,
    ) -> Result<Self, Failure> {
        let name = match (fe, option) {
            (Some(fe), Some(other)) if fe != other => {
                let why = format!("`--fe {other}` contradicts `{fe}:{path}`; omit `--fe`");
                return Err(Failure::Usage(why));
            }
            (None, None) => return Ok(Self::OfRouter(path)),
            (fe, option) => fe.or(option).unwrap_or_default(),
        };
        let renamed = section::renamed(&path);
        let is_old = option.is_some() || renamed.is_some();
        let at = ElementPath {
            fe: name.to_owned(),
            path: renamed.unwrap_or(path),
        };
        if is_old {
            note(&format!(
                "weir: write `{at}`; the next release does not read the old form"
            ));
        }
        Ok(Self::OfElement(at))
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OfRouter(path) => path.fmt(f),
            Self::OfElement(path) => path.fmt(f),
        }
    }
}

/// `weir get`.
pub fn get(arguments: &GetArguments) -> Result<(), Failure> {
    let mut values = Vec::new();
    for text in &arguments.paths {
        values.push(match Component::read(text, None)? {
            Component::OfElement(path) => {
                let query = format!("/v1/component?path={}", escaped(&path.to_string()));
                let socket = arguments.router.of_control_element();
                client::get::<Value>(&socket, &query).map_err(|e| Failure::Run(e.to_string()))?
            }
            Component::OfRouter(path) => of_router(&path, &arguments.router.path()?)?,
        });
    }
    match (arguments.json, &values[..]) {
        (true, [value]) => print_json(value),
        (true, values) => print_json(&values),
        (false, values) => {
            for value in values {
                print(&format!("{}\n", lines(value)))?;
            }
            Ok(())
        }
    }
}

/// The components of a router's configuration at or below a path. If there is only one, the value itself.
fn of_router(path: &ComponentPath, socket: &Path) -> Result<Value, Failure> {
    let path = path.to_string();
    let in_force = client::configuration(socket, "").map_err(|e| Failure::Run(e.to_string()))?;
    let below = format!("{path}.");
    let (components, others): (BTreeMap<_, _>, BTreeMap<_, _>) = in_force
        .into_iter()
        .partition(|(name, _)| *name == path || name.starts_with(&below));
    if components.is_empty() {
        let near = did_you_mean(nearest(&path, others.keys().map(String::as_str)));
        return Err(Failure::Usage(format!(
            "there is no component `{path}`{near}"
        )));
    }
    let members = components.into_iter();
    let mut members: Vec<_> = members
        .map(|(path, value)| (path.into(), Value::Text(value)))
        .collect();
    Ok(match (members.pop(), members.is_empty()) {
        (Some((_, only)), true) => only,
        (last, _) => Value::Struct(members.into_iter().chain(last).collect()),
    })
}

/// `weir watch`.
pub fn watch(arguments: &WatchArguments) -> Result<(), Failure> {
    let request = WatchRequest {
        path: Component::read(&arguments.path, None)?.to_string(),
        threshold: arguments.threshold,
        hysteresis: arguments.hysteresis,
        count: arguments.count,
        interval_ms: arguments.interval,
    };
    let mut reading = Ok(true);
    let take = |bytes: &[u8]| {
        reading = show_notice(bytes, arguments.json);
        matches!(reading, Ok(true))
    };
    let ended = client::post_lines(&arguments.ce.socket, "/v1/watch", &request, take);
    match (ended, reading?) {
        (Ok(()), false) => Ok(()),
        (Ok(()), true) => Err(Failure::Run(
            "the control element closed the connection".to_owned(),
        )),
        (Err(error), _) => Err(Failure::Run(error.to_string())),
    }
}

/// Prints a line of a watch. Returns whether standard output still has a reader.
fn show_notice(bytes: &[u8], json: bool) -> Result<bool, Failure> {
    let notice: Value = serde_json::from_slice(bytes)
        .map_err(|error| Failure::Run(format!("cannot parse a notice: {error}")))?;
    if let (Some(lost), Value::Struct(members)) = (notice.whole("lost"), &notice)
        && members.len() == 1
    {
        note(&format!("weir: {lost} notices were lost"));
        return Ok(true);
    }
    match json {
        true => print_json_to_reader(&serde_json::to_string(&notice).unwrap_or_default()), // plain values
        false => print_to_reader(&format!("{}\n", one_line(&notice.to_string()))),
    }
}

/// A string, escaped for the query of a path.
pub fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b':' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

/// A value as text: one member per line, one row per line.
fn lines(value: &Value) -> String {
    let lines: Vec<_> = match value {
        Value::Struct(members) => {
            let member = |(name, value): &(_, Value)| format!("{name}: {value}");
            members.iter().map(member).collect()
        }
        Value::List(rows) => rows.iter().map(Value::to_string).collect(),
        value => vec![value.to_string()],
    };
    let lines: Vec<_> = lines.iter().map(|line| one_line(line)).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_has_one_form_and_the_old_forms_are_read() {
        let read = |text, option| Component::read(text, option).map(|c| c.to_string());
        for (text, option) in [
            ("edge1:port.wan.rate", None),
            ("edge1:ports.wan.rate", None),
            ("port.wan.rate", Some("edge1")),
            ("ports.wan.rate", Some("edge1")),
            ("edge1:port.wan.rate", Some("edge1")),
        ] {
            assert_eq!(read(text, option).unwrap(), "edge1:port.wan.rate", "{text}");
        }
        for own in ["port.wan.rate", "ports.wan.rate", "port.\"a:b\".rate"] {
            assert_eq!(read(own, None).unwrap(), own);
        }
        let quoted = "edge1:port.\"eth0.100\".received.packets";
        let old = quoted.replace("port.", "ports.");
        assert_eq!(read(&old, None).unwrap(), quoted);
        let Err(Failure::Usage(why)) = read("edge2:port.wan.rate", Some("edge1")) else {
            panic!("it is accepted");
        };
        let expected = "`--fe edge1` contradicts `edge2:port.wan.rate`; omit `--fe`";
        assert_eq!(why, expected);
    }
}

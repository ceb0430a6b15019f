//! `weir get` and `weir watch`: components of a router's configuration, and components and events of forwarding elements
//! through their control element.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_base::setting::{did_you_mean, nearest};
use weir_model::watch::WatchRequest;
use weir_model::{ChangeRequest, Value};
use weir_northbound::client;

use crate::output::{note, one_line, print, print_json, print_json_to_reader, print_to_reader};
use crate::{CE_SOCKET_DEFAULT, Failure, RouterSocket};

#[derive(Debug, clap::Args)]
struct CeSocket {
    /// The control element's `socket`
    #[arg(long, env = "WEIR_SOCKET", default_value = CE_SOCKET_DEFAULT)]
    socket: PathBuf,
}

/// Arguments of `weir get`.
#[derive(Debug, clap::Args)]
pub struct GetArguments {
    /// Components, or their parents: port.wan.rate, port.wan; for a forwarding element its name, then class, instance
    /// and path as names or numbers (a port's name is an instance too): edge1:ports.wan.rate
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
    /// The event, or the component to sample
    #[arg(value_name = "FE:CLASS.INSTANCE.PATH")]
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

/// `weir get`.
pub fn get(arguments: &GetArguments) -> Result<(), Failure> {
    let mut values = Vec::new();
    for path in &arguments.paths {
        values.push(match of_element(path) {
            Some(_) => {
                let query = format!("/v1/component?path={}", escaped(path));
                let socket = arguments.router.of_control_element();
                client::get::<Value>(&socket, &query).map_err(|e| Failure::Run(e.to_string()))?
            }
            None => of_router(path, &arguments.router.socket)?,
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
fn of_router(path: &str, socket: &Path) -> Result<Value, Failure> {
    let path = weir_config::path(path).map_err(Failure::Usage)?.to_string();
    let in_force = client::configuration(socket, "").map_err(|e| {
        let of_fe =
            "a component of a forwarding element begins with the element's name, like edge1:ports.wan.rate";
        Failure::Run(format!("{e}; {of_fe}"))
    })?;
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
        path: arguments.path.clone(),
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
        false => print_to_reader(&format!("{}\n", one_line(&line(&notice)))),
    }
}

/// The path of a component of an FE: the part before the first `=`, if it begins with a name and a colon.
pub fn of_element(text: &str) -> Option<&str> {
    let path = text.split_once('=').map_or(text, |(path, _)| path);
    let (fe, _) = path.split_once(':')?;
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_name = !fe.is_empty() && fe.chars().all(is_letter);
    // A key of a table may contain `=` within quotes; then the value follows the last quote.
    let whole = match path.matches('"').count() % 2 {
        0 => path,
        _ => &text[..text[path.len()..].find('"').map(|at| path.len() + at + 1)?],
    };
    let rest = &text[whole.len()..];
    let end = rest.find('=').map_or(text.len(), |at| whole.len() + at);
    is_name.then(|| text[..end].trim())
}

/// A component of an FE with its value.
pub fn assignment(path: &str, text: &str) -> Result<ChangeRequest, String> {
    let value = text[path.len()..].trim_start().strip_prefix('=');
    let value =
        value.ok_or_else(|| format!("`{text}` must be like edge1:ports.wan.rate=\"50 Mbit\""))?;
    let change = weir_config::assignment(&format!("value={value}"))?;
    Ok(ChangeRequest {
        path: path.to_owned(),
        value: change
            .value
            .ok_or("a section has no value; name one of its keys")?
            .into(),
    })
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
            let member = |(name, value): &(_, Value)| format!("{name}: {}", line(value));
            members.iter().map(member).collect()
        }
        Value::List(rows) => rows.iter().map(line).collect(),
        value => vec![line(value)],
    };
    let lines: Vec<_> = lines.iter().map(|line| one_line(line)).collect();
    lines.join("\n")
}

/// A value in one line.
fn line(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Absent => "-".to_owned(),
        Value::Struct(members) => {
            let member = |(name, value): &(_, Value)| format!("{name}={}", line(value));
            members.iter().map(member).collect::<Vec<_>>().join(" ")
        }
        Value::List(rows) => {
            let rows: Vec<_> = rows.iter().map(line).collect();
            format!("[{}]", rows.join(", "))
        }
        other => serde_json::to_string(other).unwrap_or_default(), // plain values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_of_an_fe_begins_with_its_name() {
        let path = "edge1:ports.wan.rate";
        assert_eq!(of_element(path), Some(path));
        assert_eq!(of_element("edge1:ports.wan.rate=50 Mbit"), Some(path));
        assert_eq!(of_element("port.wan.rate=50 Mbit"), None);
        assert_eq!(of_element("port.\"a:b\".rate=1"), None);
        assert_eq!(of_element("socket=/run/x:y"), None);
        let key = "edge1:routes.1.rows.\"prefix=10.0.0.0/8\".port";
        assert_eq!(of_element(&format!("{key}=lan")), Some(key));
        let set = assignment(path, "edge1:ports.wan.rate = 50 Mbit").unwrap();
        assert_eq!(set.path, path);
        assert!(assignment(path, path).unwrap_err().contains("must be like"));
    }
}

//! `weir route`: routes of forwarding elements, through their control element.
//!
//! A route has the form of `ip route`: `PREFIX [via ADDRESS] dev PORT [metric NUMBER]`. A file has one on each
//! line; `#` begins a comment.

mod explain;

use std::io::Read;
use std::path::{Path, PathBuf};

use weir::component::escaped;
use weir::configuration;
use weir::output::{print, print_json};
use weir::table::{Column, Table};
use weir::{CeSocket, Failure};
use weir_live::file::decoded;
use weir_model::{RouteReport, RouteRequest, RouteVerb, RouteWish};
use weir_northbound::client;

/// Maximum length of a file of routes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of printed errors of a file.
const ERRORS_MAX: usize = 20;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum RouteCommand {
    /// Add routes, none of which may exist
    Add(ChangeArguments),
    /// Add routes, replacing existing routes with the same prefix and metric
    Replace(ChangeArguments),
    /// Delete routes, all of which must exist
    Del(ChangeArguments),
    /// List the desired routes of forwarding elements
    List(ListArguments),
    /// Explain whether packets to a destination leave forwarding elements, and if not, why
    ///
    /// Follows the path of the route from the routing suite to the next hop at the port, and stops at the first reason:
    /// docs/forces.md lists all reasons, with their remedies.
    Explain(explain::ExplainArguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ChangeArguments {
    /// Forwarding element; repeat for several, each of which gets all routes
    #[arg(long, value_name = "NAME", required = true)]
    fe: Vec<String>,
    /// File with one route per line; `-` is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "route")]
    file: Option<PathBuf>,
    /// The route: PREFIX [via ADDRESS] dev PORT [metric NUMBER]
    #[arg(value_name = "ROUTE", required_unless_present = "file")]
    route: Vec<String>,
    #[command(flatten)]
    ce: CeSocket,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Only routes of this forwarding element
    #[arg(long, value_name = "NAME")]
    fe: Option<String>,
    /// Print JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    ce: CeSocket,
}

/// `weir route`.
pub(crate) fn run(command: &RouteCommand) -> Result<(), Failure> {
    match command {
        RouteCommand::Add(arguments) => change(RouteVerb::Add, arguments),
        RouteCommand::Replace(arguments) => change(RouteVerb::Replace, arguments),
        RouteCommand::Del(arguments) => change(RouteVerb::Delete, arguments),
        RouteCommand::List(arguments) => list(arguments),
        RouteCommand::Explain(arguments) => explain::run(arguments),
    }
}

fn change(verb: RouteVerb, arguments: &ChangeArguments) -> Result<(), Failure> {
    let routes = match &arguments.file {
        Some(file) => of_file(&read(file)?).map_err(|errors| {
            let errors = errors
                .iter()
                .map(|why| format!("{}: {why}", file.display()));
            Failure::Usage(errors.collect::<Vec<_>>().join("\n"))
        })?,
        None => {
            // A single argument may contain a whole route.
            let words = arguments
                .route
                .iter()
                .flat_map(|word| word.split_whitespace());
            vec![of_words(words).map_err(Failure::Usage)?]
        }
    };
    let fes = arguments.fe.clone();
    let requests = [RouteRequest { fes, routes }];
    let socket = &arguments.ce.socket;
    configuration::report(client::routes(socket, verb, &requests))
}

fn list(arguments: &ListArguments) -> Result<(), Failure> {
    let query = arguments
        .fe
        .as_ref()
        .map(|fe| format!("?fe={}", escaped(fe)));
    let path = format!("/v1/service/route{}", query.unwrap_or_default());
    let routes = client::get::<Vec<RouteReport>>(&arguments.ce.socket, &path);
    let routes = routes.map_err(|e| Failure::Run(e.to_string()))?;
    if arguments.json {
        return print_json(&routes);
    }
    let columns = ["fe", "prefix", "via", "port"].map(Column::Left);
    let numbers = [
        Column::Right("metric"),
        Column::Left("origin"),
        Column::Left("state"),
    ];
    let mut table = Table::new(&[&columns[..], &numbers].concat());
    for route in routes {
        let mut via = route.via.or(route.drops).unwrap_or_else(|| "-".to_owned());
        if let Some(weight) = route.weight {
            via += &format!(" weight {weight}");
        }
        let metric = route.metric.to_string();
        let (origin, state) = (route.origin, route.state);
        table.row([
            route.fe,
            route.prefix,
            via,
            route.port,
            metric,
            origin,
            state,
        ]);
    }
    print(&table.to_string())
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin()
            .take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file)
            .and_then(|open| open.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
    };
    let wrong = |why: String| Failure::Usage(format!("{}: {why}", file.display()));
    match read {
        Ok(len) if len as u64 > FILE_BYTES_MAX => Err(wrong(format!(
            "the file is larger than {} MiB; split it",
            FILE_BYTES_MAX >> 20
        ))),
        Ok(_) => decoded(bytes).map_err(|error| wrong(error.to_string())),
        Err(error) => Err(wrong(error.to_string())),
    }
}

/// The routes of a file, each with its line, or its errors.
fn of_file(text: &str) -> Result<Vec<RouteWish>, Vec<String>> {
    let (mut routes, mut errors) = (Vec::new(), Vec::new());
    for (line, number) in text.lines().zip(1..) {
        let line = line.split_once('#').map_or(line, |(before, _)| before);
        let mut words = line.split_whitespace().peekable();
        if words.peek().is_none() {
            continue;
        }
        match of_words(words) {
            Ok(route) => routes.push(RouteWish {
                line: Some(number),
                ..route
            }),
            Err(why) => errors.push(format!("line {number}: {why}")),
        }
        if errors.len() == ERRORS_MAX {
            break;
        }
    }
    if routes.is_empty() && errors.is_empty() {
        errors.push("the file has no routes".to_owned());
    }
    if errors.is_empty() {
        Ok(routes)
    } else {
        Err(errors)
    }
}

/// A route in the form of `ip route`. An attribute that a route of the CE cannot have is an error, because dropping it
/// silently would change the meaning of another program's list; `proto` and `scope` only give the origin of a route,
/// and are skipped.
fn of_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<RouteWish, String> {
    let mut words = words.into_iter();
    let prefix = words.next().ok_or("the prefix is missing")?;
    let mut route = RouteWish {
        prefix: String::new(),
        via: None,
        port: None,
        metric: 0,
        line: None,
    };
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| format!("`{word}` needs a value"))
        };
        match word {
            "via" => route.via = Some(value()?.to_owned()),
            "dev" => route.port = Some(value()?.to_owned()),
            "metric" => {
                let number = value()?;
                let wrong = |_| {
                    format!(
                        "`metric {number}`: the metric must be a number from 0 to {}",
                        u32::MAX
                    )
                };
                route.metric = number.parse().map_err(wrong)?;
            }
            "proto" | "scope" => drop(value()?),
            "nexthop" => {
                let why = "a route of an operator has one next hop; use several routes with different metrics";
                return Err(why.to_owned());
            }
            other => {
                return Err(format!(
                    "`{other}` is not supported; a route is PREFIX [via ADDRESS] dev PORT [metric NUMBER]"
                ));
            }
        }
    }
    let is_v6 = route.via.as_ref().is_some_and(|via| via.contains(':'));
    route.prefix = match (prefix, prefix.contains('/')) {
        ("default", _) if is_v6 => "::/0".to_owned(),
        ("default", _) => "0.0.0.0/0".to_owned(),
        (host, false) if host.contains(':') => format!("{host}/128"),
        (host, false) => format!("{host}/32"),
        (prefix, true) => prefix.to_owned(),
    };
    Ok(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(text: &str) -> Result<RouteWish, String> {
        of_words(text.split_whitespace())
    }

    #[test]
    fn routes_are_written_as_by_ip_route() {
        let whole = route("10.0.0.0/8 via 192.0.2.1 dev wan proto static metric 5").unwrap();
        let wanted = RouteWish {
            prefix: "10.0.0.0/8".to_owned(),
            via: Some("192.0.2.1".to_owned()),
            port: Some("wan".to_owned()),
            metric: 5,
            line: None,
        };
        assert_eq!(whole, wanted);
        let prefix = |text: &str| route(text).unwrap().prefix;
        assert_eq!(prefix("default via 192.0.2.1 dev wan"), "0.0.0.0/0");
        assert_eq!(prefix("default via fe80::1 dev wan"), "::/0");
        assert_eq!(prefix("192.0.2.7 dev lan"), "192.0.2.7/32");
        assert_eq!(prefix("2001:db8::7 dev lan"), "2001:db8::7/128");
    }

    #[test]
    fn what_a_route_cannot_say_is_an_error() {
        for (text, why) in [
            ("", "the prefix is missing"),
            ("10.0.0.0/8 via", "`via` needs a value"),
            ("10.0.0.0/8 dev wan metric high", "must be a number"),
            ("10.0.0.0/8 dev wan src 192.0.2.7", "`src` is not supported"),
            ("10.0.0.0/8 nexthop via 192.0.2.1 dev wan", "one next hop"),
        ] {
            let error = route(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_has_a_route_on_each_line() {
        let text = "# uplink\n10.0.0.0/8 via 192.0.2.1 dev wan\n\n192.0.2.0/24 dev lan # here\n";
        let routes = of_file(text).unwrap();
        let lines: Vec<_> = routes.iter().map(|route| route.line).collect();
        assert_eq!(lines, [Some(2), Some(4)]);
        assert_eq!(
            of_file("#\n"),
            Err(vec!["the file has no routes".to_owned()])
        );
        let errors = of_file("10.0.0.0/8 dev wan\nx y\n").unwrap_err();
        assert!(errors[0].starts_with("line 2: `y` is not supported"));
    }
}

//! `weir paths request`, `list`, `links` and `release`: the paths of a running control element.

use std::collections::BTreeMap;

use weir::output::{print, print_json};
use weir::table::{Column, Table};
use weir::{CeSocket, Failure};
use weir_model::{ChangeValue, NetworkReport, PathReport, PathRequest, Value};
use weir_northbound::client;

use super::picture;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Request a path from a running control element, and print it when packets use it
    Request(Box<RequestArguments>),
    /// List the flows of a running control element's network, and their paths
    List(ListArguments),
    /// List the links of a running control element's network, and which of them have failed
    Links(LinksArguments),
    /// End a request; its packets follow IP routes again
    Release(ReleaseArguments),
}

#[derive(Debug, clap::Args)]
pub(super) struct RequestArguments {
    /// Element where the packets enter
    #[arg(long, value_name = "ELEMENT")]
    from: String,
    /// Domain or edge element where the packets leave
    #[arg(long, value_name = "NAME", required_unless_present = "through")]
    to: Option<String>,
    /// Domains and elements along the path, including the first and the last: "c b a"
    #[arg(long, value_name = "NAMES")]
    through: Option<String>,
    /// Source prefix: 192.0.2.0/24
    #[arg(long, value_name = "PREFIX")]
    source: Option<String>,
    /// Destination prefix
    #[arg(long, value_name = "PREFIX")]
    destination: Option<String>,
    /// Protocol: tcp, udp, icmp, icmpv6, sctp or a number
    #[arg(long, value_name = "NAME")]
    protocol: Option<String>,
    /// Source port, or a port range: 5000-5999
    #[arg(long, value_name = "PORTS")]
    source_ports: Option<String>,
    /// Destination port, or a port range
    #[arg(long, value_name = "PORTS")]
    destination_ports: Option<String>,
    /// IP version, 4 or 6, if no prefix implies it
    #[arg(long, value_name = "VERSION")]
    ip_version: Option<String>,
    /// Precedence among flows whose packets overlap; the lowest number wins [default: 1000]
    #[arg(long, value_name = "NUMBER")]
    priority: Option<String>,
    /// Treatment in every domain
    #[arg(long, value_name = "NAME")]
    behaviour: Option<String>,
    /// Number of paths over which the packets are spread
    #[arg(long, value_name = "NUMBER")]
    paths: Option<String>,
    /// Elements that no two of the paths may share: links or domains
    #[arg(long, value_name = "WHAT")]
    disjoint: Option<String>,
    /// How packets are spread over the paths: by flow or packet
    #[arg(long, value_name = "HOW")]
    spread: Option<String>,
    /// Rate to reserve on the links, which must have it available: "2 Mbit"
    #[arg(long, value_name = "RATE")]
    reserve: Option<String>,
    /// Rate beyond which packets are dropped
    #[arg(long, value_name = "RATE")]
    police: Option<String>,
    /// Request lifetime; repeating the request renews it
    #[arg(long, value_name = "TIME")]
    lifetime: Option<String>,
    /// Print JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    ce: CeSocket,
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArguments {
    /// Print JSON
    #[arg(short, long)]
    json: bool,
    /// Print the network as a Graphviz graph, including failed links
    #[arg(long, conflicts_with = "json")]
    dot: bool,
    #[command(flatten)]
    ce: CeSocket,
}

#[derive(Debug, clap::Args)]
pub(super) struct LinksArguments {
    /// Print the whole network as JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    ce: CeSocket,
}

#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArguments {
    /// Number of the request
    request: u64,
    #[command(flatten)]
    ce: CeSocket,
}

pub(super) fn run(command: &Command) -> Result<(), Failure> {
    let failed = |error: client::ClientError| Failure::Run(error.to_string());
    match command {
        Command::Request(arguments) => {
            let socket = &arguments.ce.socket;
            let asked = client::post_slow(socket, "/v1/service/path", &arguments.request());
            let paths: Vec<PathReport> = asked.map_err(failed)?;
            print_paths(&paths, arguments.json)
        }
        Command::List(arguments) => {
            let socket = &arguments.ce.socket;
            if arguments.dot {
                let network: NetworkReport =
                    client::get(socket, "/v1/service/network").map_err(failed)?;
                return print(&picture::of(&network));
            }
            let paths: Vec<PathReport> = client::get(socket, "/v1/service/path").map_err(failed)?;
            print_paths(&paths, arguments.json)
        }
        Command::Links(arguments) => {
            let network = client::get(&arguments.ce.socket, "/v1/service/network");
            print_links(&network.map_err(failed)?, arguments.json)
        }
        Command::Release(arguments) => {
            let path = format!("/v1/service/path/{}", arguments.request);
            let released: Value = client::delete(&arguments.ce.socket, &path).map_err(failed)?;
            debug_assert_eq!(released, Value::Absent);
            Ok(())
        }
    }
}

impl RequestArguments {
    fn request(&self) -> PathRequest {
        let text = |text: &Option<String>| text.clone().map(ChangeValue::Text);
        let keys = [
            ("to", &self.to),
            ("through", &self.through),
            ("source", &self.source),
            ("destination", &self.destination),
            ("protocol", &self.protocol),
            ("source_ports", &self.source_ports),
            ("destination_ports", &self.destination_ports),
            ("version", &self.ip_version),
            ("priority", &self.priority),
            ("behaviour", &self.behaviour),
            ("paths", &self.paths),
            ("disjoint", &self.disjoint),
            ("spread", &self.spread),
            ("reserve", &self.reserve),
            ("police", &self.police),
        ];
        let given = keys.into_iter();
        let given = given.filter_map(|(key, value)| Some((key.to_owned(), text(value)?)));
        let mut keys: BTreeMap<String, ChangeValue> = given.collect();
        keys.insert("from".to_owned(), ChangeValue::Text(self.from.clone()));
        PathRequest {
            lifetime: text(&self.lifetime),
            keys,
        }
    }
}

fn print_paths(paths: &[PathReport], json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&paths);
    }
    let left = ["PATH", "FROM", "TO", "PACKETS", "STATE", "VECTOR"].map(Column::Left);
    let right = [Column::Right("COST"), Column::Left("ELEMENTS")];
    let mut table = Table::new(&[&left[..], &right].concat());
    for path in paths {
        let flow =
            [&path.path, &path.from, &path.to, &path.packets, &path.state].map(String::clone);
        for route in &path.routes {
            let elements = route.elements.join(" ");
            let of_route = [route.vector.clone(), route.cost.to_string(), elements];
            table.row(flow.iter().cloned().chain(of_route));
        }
        if path.routes.is_empty() {
            let why = path.why.clone().unwrap_or_default();
            let none = ["-".to_owned(), "-".to_owned(), why];
            table.row(flow.iter().cloned().chain(none));
        }
    }
    if table.is_empty() {
        print("There is no path.\n")
    } else {
        print(&table.to_string())
    }
}

fn print_links(network: &NetworkReport, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(network);
    }
    let left = ["LINK", "FROM", "TO", "STATE"].map(Column::Left);
    let mut table = Table::new(&[&left[..], &[Column::Right("FAILURES")]].concat());
    for link in &network.links {
        let [from, to] = link.ends.clone();
        let failures = link.failures.to_string();
        table.row([link.link.clone(), from, to, link.state.clone(), failures]);
    }
    print(&table.to_string())
}

//! `weir paths`: a network with flexible packet forwarding, its paths, and the configuration of its elements.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;
use weir_ce::path::{Flow, NetworkPlan, hex, toml};
use weir_config::Document;
use weir_controller::paths::{Meaning, Paths, Route, Target};
use weir_model::Fault;

use crate::Failure;
use crate::configuration::{located, read, shown};
use crate::output::{print, print_json};
use crate::table::{Column, Table};

/// Arguments of `weir paths`.
#[derive(Debug, clap::Args)]
pub(crate) struct PathsArguments {
    /// The network; `-` is standard input
    network: PathBuf,
    /// The paths from this element to --to, instead of those of the file
    #[arg(long, value_name = "ELEMENT", requires = "to")]
    from: Option<String>,
    /// The domain, or the edge element, where they end
    #[arg(long, value_name = "NAME", requires = "from")]
    to: Option<String>,
    /// How many of them, the cheapest first
    #[arg(long, value_name = "NUMBER", default_value_t = 3, requires = "from",
          value_parser = clap::value_parser!(u8).range(1..=64))]
    number: u8,
    /// As if this link had failed; more than once for several links
    #[arg(long, value_name = "LINK")]
    without: Vec<String>,
    /// Print the sections [fpf...] of this element's configuration
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "dot", "json"])]
    configure: Option<String>,
    /// Print a picture of the network for Graphviz: weir paths --dot FILE | dot -Tsvg
    #[arg(long, conflicts_with_all = ["from", "json"])]
    dot: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A path, for printing.
#[derive(Serialize)]
struct Shown {
    path: String,
    vector: String,
    cost: u64,
    elements: Vec<String>,
}

pub(crate) fn run(arguments: &PathsArguments) -> Result<(), Failure> {
    let name = shown(&arguments.network);
    let text = read(&arguments.network)?;
    let usage = |error: &dyn ToString| Failure::Usage(error.to_string());
    let document = Document::parse(&name, &text).map_err(|e| usage(&e))?;
    let refused = |faults: Vec<Fault>| Failure::Usage(located(&document, &faults).join("\n"));
    let plan = NetworkPlan::check(document.changes()).map_err(refused)?;
    let mut paths = Paths::new(plan.topology.clone())
        .map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
    for link in &arguments.without {
        let Some(number) = plan.links.get(link) else {
            return Err(Failure::Usage(format!("{name}: there is no link `{link}`")));
        };
        paths.handle_link(*number, false);
    }
    if let (Some(from), Some(to)) = (&arguments.from, &arguments.to) {
        let routes = between(&paths, from, to, arguments.number.into());
        let routes = routes.map_err(|error| Failure::Run(format!("{name}: {error}")))?;
        let label = format!("{from} to {to}");
        let all = routes.iter().map(|route| of_route(&paths, &label, route));
        return print_paths(&all.collect::<Vec<_>>(), arguments.json);
    }
    let flows = plan.flows(&mut paths).map_err(refused)?;
    if let Some(element) = &arguments.configure {
        let fe = plan.topology.fe_named(element);
        let fe = fe.map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
        let changes = plan.configuration(&paths, fe, &flows).map_err(refused)?;
        return print(&toml(&changes));
    }
    if arguments.dot {
        return print(&picture(&paths, &flows));
    }
    let all = flows.iter().flat_map(|flow| {
        let of = |route| of_route(&paths, &flow.name, route);
        flow.routes.iter().map(of).collect::<Vec<_>>()
    });
    print_paths(&all.collect::<Vec<_>>(), arguments.json)
}

fn between(
    paths: &Paths,
    from: &str,
    to: &str,
    number: usize,
) -> Result<Vec<Route>, weir_controller::paths::PathError> {
    let source = paths.topology().fe_named(from)?;
    let target: Target = weir_ce::path::target(paths, to)?;
    paths.cheapest(source, target, None, number)
}

fn of_route(paths: &Paths, label: &str, route: &Route) -> Shown {
    let topology = paths.topology();
    let element = |fe: &_| topology.fe(*fe).name.clone();
    Shown {
        path: label.to_owned(),
        vector: hex(&route.vector),
        cost: route.cost,
        elements: route.fes.iter().map(element).collect(),
    }
}

fn print_paths(all: &[Shown], json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&all);
    }
    let mut table = Table::new(&[
        Column::Left("PATH"),
        Column::Left("VECTOR"),
        Column::Right("COST"),
        Column::Left("ELEMENTS"),
    ]);
    for path in all {
        let elements = path.elements.join(" ");
        table.row([
            path.path.clone(),
            path.vector.clone(),
            path.cost.to_string(),
            elements,
        ]);
    }
    match table.is_empty() {
        true => print("The file asks for no path; add [path.NAME], or use --from and --to.\n"),
        false => print(&table.to_string()),
    }
}

/// The network as a graph: domains as boxes, the LID of each exit at its link, paths in colours.
fn picture(paths: &Paths, flows: &[Flow]) -> String {
    const COLOURS: [&str; 6] = [
        "#c0392b", "#2471a3", "#1e8449", "#b9770e", "#7d3c98", "#117a65",
    ];
    let topology = paths.topology();
    let quoted = |name: &str| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
    let mut text = "graph network {\n  node [shape=ellipse];\n".to_owned();
    for (number, domain) in topology.domains().enumerate() {
        let name = quoted(&topology.domain(domain).name);
        let _ = writeln!(text, "  subgraph cluster_{number} {{\n    label={name};");
        for fe in topology.members(domain) {
            let _ = writeln!(text, "    {};", quoted(&topology.fe(*fe).name));
        }
        text += "  }\n";
    }
    let lid_at = |domain, link| {
        let mut lids = paths.lids(domain);
        let lid = lids.find_map(|(meaning, lid)| match meaning {
            Meaning::Exit {
                link: of,
                behaviour: 0,
            } if of == link => Some(lid),
            _ => None,
        });
        lid.map(|lid| {
            let mut bytes = Vec::new();
            lid.append_to(&mut bytes);
            hex(&bytes)
        })
    };
    for link in topology.links() {
        let ends = topology.link(link).ends.each_ref().map(|end| end.fe);
        let [a, b] = ends.map(|fe| quoted(&topology.fe(fe).name));
        let [tail, head] = ends.map(|fe| lid_at(topology.domain_of(fe), link).unwrap_or_default());
        let style = if paths.works(link) {
            ""
        } else {
            ", style=dashed"
        };
        let _ = writeln!(
            text,
            "  {a} -- {b} [taillabel=\"{tail}\", headlabel=\"{head}\"{style}];"
        );
    }
    for (flow, colour) in flows.iter().zip(COLOURS.iter().cycle()) {
        for route in &flow.routes {
            let label = quoted(&format!("{} {}", flow.name, hex(&route.vector)));
            let names: Vec<String> = route
                .fes
                .iter()
                .map(|fe| quoted(&topology.fe(*fe).name))
                .collect();
            let _ = writeln!(
                text,
                "  {} [color=\"{colour}\", penwidth=2, constraint=false, label={label}, fontcolor=\"{colour}\"];",
                names.join(" -- ")
            );
        }
    }
    text + "}\n"
}

//! `weir paths`: a network with flexible packet forwarding, its paths, and the configuration of its elements.
//!
//! - this module: reads a file of a network
//! - `running`: the network of a running control element
//! - `picture`: a network for Graphviz

mod picture;
mod running;

use std::path::PathBuf;

use serde::Serialize;
use weir::Failure;
use weir::configuration::{located, read, shown};
use weir::output::{print, print_json};
use weir::table::{Column, Table};
use weir_config::Document;
use weir_model::Fault;
use weir_network::{NetworkPlan, hex, toml};
use weir_paths::{Paths, Route, Target};

/// Arguments of `weir paths`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct PathsArguments {
    #[command(subcommand)]
    command: Option<running::Command>,
    /// Network file; `-` is standard input
    #[arg(required = true)]
    network: Option<PathBuf>,
    /// Print paths from this element to --to, instead of the paths in the file
    #[arg(long, value_name = "ELEMENT", requires = "to")]
    from: Option<String>,
    /// Domain or edge element where the paths end
    #[arg(long, value_name = "NAME", requires = "from")]
    to: Option<String>,
    /// Maximum number of paths, cheapest first
    #[arg(long, value_name = "NUMBER", default_value_t = 3, requires = "from",
          value_parser = clap::value_parser!(u8).range(1..=64))]
    number: u8,
    /// Treat this link as failed; repeat for several links
    #[arg(long, value_name = "LINK")]
    without: Vec<String>,
    /// Print the [fpf...] sections of this element's configuration
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "dot", "json"])]
    configure: Option<String>,
    /// Print the network as a Graphviz graph: weir paths --dot FILE | dot -Tsvg
    #[arg(long, conflicts_with_all = ["from", "json"])]
    dot: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A path to print.
#[derive(Serialize)]
struct Shown {
    path: String,
    vector: String,
    cost: u64,
    elements: Vec<String>,
}

pub(crate) fn run(arguments: &PathsArguments) -> Result<(), Failure> {
    let file = match (&arguments.command, &arguments.network) {
        (Some(command), _) => return running::run(command),
        (None, Some(file)) => file,
        (None, None) => {
            return Err(Failure::Usage(
                "no network file given: weir paths FILE".to_owned(),
            ));
        }
    };
    let name = shown(file);
    let text = read(file)?;
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
        return print(&picture::of(&weir_network::report(&plan, &paths, &flows)));
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
) -> Result<Vec<Route>, weir_paths::PathError> {
    let source = paths.topology().fe_named(from)?;
    let target: Target = weir_network::target(paths, to)?;
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
    if table.is_empty() {
        print("The file defines no paths; add [path.NAME], or use --from and --to.\n")
    } else {
        print(&table.to_string())
    }
}

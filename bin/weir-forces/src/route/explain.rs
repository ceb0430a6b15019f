//! `weir route explain`: why a prefix is not reachable at forwarding elements.

use weir::Failure;
use weir::component::escaped;
use weir::output::{one_line, print, print_json};
use weir::table::{Column, Table};
use weir_ce::explain::Destination;
use weir_model::RouteExplanation;
use weir_northbound::client;

use super::CeSocket;

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArguments {
    /// A prefix, or an address, whose longest prefix decides: 10.0.0.0/8, 2001:db8::7
    #[arg(value_name = "DESTINATION")]
    to: Destination,
    /// Only at this forwarding element
    #[arg(long, value_name = "NAME")]
    fe: Option<String>,
    /// Print JSON
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    ce: CeSocket,
}

pub(super) fn run(arguments: &ExplainArguments) -> Result<(), Failure> {
    let fe = arguments
        .fe
        .as_ref()
        .map(|fe| format!("&fe={}", escaped(fe)));
    let path = format!(
        "/v1/service/route/explain?to={}{}",
        arguments.to,
        fe.unwrap_or_default()
    );
    let explained = client::get::<Vec<RouteExplanation>>(&arguments.ce.socket, &path);
    let explained = explained.map_err(|e| Failure::Run(e.to_string()))?;
    if arguments.json {
        return print_json(&explained);
    }
    let texts: Vec<_> = explained.iter().map(text).collect();
    print(&texts.join("\n"))
}

/// The verdict, the findings, and the remedy.
fn text(explained: &RouteExplanation) -> String {
    let RouteExplanation {
        fe, destination, ..
    } = explained;
    let verdict = match &explained.reason {
        None => format!("{destination} is reachable at {fe}."),
        Some(reason) => format!(
            "{destination} is not reachable at {fe}: {} ({}).",
            reason.why, reason.name
        ),
    };
    let mut table = Table::new(&[Column::Left(""); 3]); // the first column indents the others
    let mut row = |at: &str, found: String| table.row([String::new(), at.to_owned(), found]);
    for step in &explained.steps {
        row(&step.at, step.found.clone());
    }
    for exit in &explained.exits {
        let via = exit
            .via
            .as_deref()
            .map_or("on the link".to_owned(), |via| format!("via {via}"));
        let mac = exit
            .mac
            .as_deref()
            .map_or(String::new(), |mac| format!(" ({mac})"));
        row(
            &format!("leaves by port {}", exit.port),
            format!("{via}{mac}"),
        );
    }
    if let Some(reason) = &explained.reason {
        row("remedy", reason.remedy.clone());
    }
    format!("{}{table}", one_line(&verdict)) // the head of the table is an empty line
}

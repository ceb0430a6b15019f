//! `weir-lab list`: scenarios, loads, results of papers, and reference pages.

use serde_json::{Value, json};
use weir::Failure;
use weir::list::{Pairs, Printers, lines, objects, print_list};
use weir::output::print_json;
use weir_experiment::compare::chosen;
use weir_experiment::reproduce;

use crate::{pages, scenarios};

/// Arguments of `weir-lab list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// List to print
    #[arg(default_value = "scenarios")]
    what: What,
    /// Print JSON instead of text
    #[arg(short, long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// Built-in scenarios for `weir run NAME`
    Scenarios,
    /// Loads of `weir compare`, and their scenarios
    Loads,
    /// Results of papers that `weir reproduce` can reproduce
    Results,
    /// Every key of a scenario file, with examples, as a page in Markdown
    ScenarioKeys,
    /// The JSON Schema of scenario files
    Schema,
    /// Every metric of a run, with its definition, as a page in Markdown
    Metrics,
}

/// `weir-lab list`.
pub(crate) fn run(arguments: &ListArguments) -> Result<(), Failure> {
    let printers: Printers = match arguments.what {
        What::Scenarios => (|| lines(&shipped()), || objects(shipped(), "title")),
        What::Loads => (loads, loads_json),
        What::Results => (|| lines(&results()), || objects(results(), "title")),
        What::Schema => return print_json(&weir_experiment::scenario::schema()),
        What::ScenarioKeys => (pages::scenario::markdown, pages::scenario::json),
        What::Metrics => (pages::metrics::markdown, pages::metrics::json),
    };
    print_list(printers, arguments.json)
}

fn shipped() -> Pairs {
    scenarios::titles()
}

/// Short name, scenario and title of each load.
fn loads() -> String {
    let width = |of: fn(&(&str, &str, &str)) -> usize| chosen::named().map(|row| of(&row)).max();
    let names = width(|(name, ..)| name.len()).unwrap_or(0);
    let scenarios = width(|(_, scenario, _)| scenario.len()).unwrap_or(0);
    let line = |(name, scenario, title)| format!("{name:<names$} {scenario:<scenarios$} {title}\n");
    chosen::named().map(line).collect()
}

fn loads_json() -> Value {
    let row = |(name, scenario, title): (&str, &str, &str)| json!({ "name": name, "scenario": scenario, "title": title });
    chosen::named().map(row).collect()
}

fn results() -> Pairs {
    reproduce::list().collect()
}

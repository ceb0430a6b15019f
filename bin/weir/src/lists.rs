//! `weir list`: disciplines, tables and reference pages, as text or as JSON.

use std::ffi::OsString;

use weir::list::{Pairs, Printers, lines, objects, print_list};
use weir::output::print_json;
use weir::pages;
use weir::program::{self, FORCES, Failure, LAB};
use weir_discipline::manuals;

/// Arguments of `weir list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Of what
    #[arg(default_value = "disciplines")]
    what: What,
    /// Print JSON instead of text
    #[arg(short, long)]
    json: bool,
    /// Print a library in XML instead of text: for `lfb`
    #[arg(long, hide = true)]
    xml: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Queue disciplines
    Disciplines,
    /// Tables of a running router: what `weir show` prints
    Tables,
    /// Every reason for which a packet can be dropped, and what to do about it, as a page in Markdown
    Drops,
    /// Every kind of kernel state that decides about packets, and what a router does about it, as a table in Markdown
    Kernel,
    /// Every key of a router's configuration, as a page in Markdown
    Configuration,
    /// The JSON Schema of a router's configuration
    ConfigurationSchema,
    /// The router's HTTP interface, as a page in Markdown; with --json as an OpenAPI document
    Api,
    /// Every metric that a router has for Prometheus, as a page in Markdown
    Prometheus,
    /// The dashboard for Grafana over these metrics, as JSON to import
    Dashboard,
    #[value(hide = true)]
    Scenarios,
    #[value(hide = true)]
    Loads,
    #[value(hide = true)]
    Results,
    #[value(hide = true)]
    ScenarioKeys,
    #[value(hide = true)]
    Schema,
    #[value(hide = true)]
    Metrics,
    #[value(hide = true)]
    Controllers,
    #[value(hide = true)]
    Lfb,
    #[value(hide = true)]
    CeConfiguration,
    #[value(hide = true)]
    CeApi,
    #[value(hide = true)]
    CePrometheus,
}

/// `weir list`.
pub(crate) fn run(arguments: &ListArguments) -> Result<(), Failure> {
    let printers: Printers = match arguments.what {
        What::Disciplines => (
            || lines(&disciplines()),
            || objects(disciplines(), "purpose"),
        ),
        What::Tables => (|| lines(&tables()), || objects(tables(), "about")),
        What::ConfigurationSchema => return print_json(&pages::configuration::schema()),
        What::Dashboard => return print_json(&pages::dashboard::json()),
        What::Drops => (pages::drops::markdown, pages::drops::json),
        What::Kernel => (pages::kernel::markdown, pages::kernel::json),
        What::Configuration => (pages::configuration::markdown, pages::configuration::json),
        What::Api => (pages::api::markdown, pages::api::json),
        What::Prometheus => (pages::prometheus::markdown, pages::prometheus::json),
        What::Scenarios
        | What::Loads
        | What::Results
        | What::ScenarioKeys
        | What::Schema
        | What::Metrics => return elsewhere(LAB),
        What::Controllers
        | What::Lfb
        | What::CeConfiguration
        | What::CeApi
        | What::CePrometheus => return elsewhere(FORCES),
    };
    print_list(printers, arguments.json)
}

/// Starts the program that contains this list, with the same arguments.
fn elsewhere(program: &str) -> Result<(), Failure> {
    let words = std::env::args_os().skip(1);
    Err(program::replace(program, words.collect::<Vec<OsString>>()))
}

fn disciplines() -> Pairs {
    manuals().map(|m| (m.name, m.purpose)).collect()
}

fn tables() -> Pairs {
    let classes = weir_lfb::class::classes().into_iter();
    classes.map(|class| (class.name, class.about)).collect()
}

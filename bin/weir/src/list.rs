//! `weir list`: disciplines, tables and reference pages; and the code that the lists of all programs share.

use serde_json::{Value, json};
use weir_discipline::manuals;

use crate::output::{print, print_json};
use crate::{Failure, pages};

/// Arguments of `weir list`.
#[derive(Debug, clap::Args)]
pub struct ListArguments {
    /// The list
    #[arg(default_value = "disciplines")]
    what: What,
    /// Print JSON instead of text
    #[arg(short, long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Queue disciplines
    Disciplines,
    /// Tables of a running router: what `weir show` prints
    Tables,
    /// Every drop reason with its causes and remedy, as a page in Markdown
    Drops,
    /// Every kind of kernel state that affects packets, and how a router handles it, as a table in Markdown
    Kernel,
    /// Every key of a router's configuration, as a page in Markdown
    Configuration,
    /// The JSON Schema of a router's configuration
    ConfigurationSchema,
    /// The router's HTTP interface, as a page in Markdown; with --json as an OpenAPI document
    Api,
    /// Every Prometheus metric of a router, as a page in Markdown
    Prometheus,
    /// A Grafana dashboard for these metrics, as JSON to import
    Dashboard,
}

/// `weir list`.
pub fn run(arguments: &ListArguments) -> Result<(), Failure> {
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
    };
    print_list(printers, arguments.json)
}

fn disciplines() -> Pairs {
    manuals().map(|m| (m.name, m.purpose)).collect()
}

fn tables() -> Pairs {
    let classes = weir_lfb::class::classes().into_iter();
    classes.map(|class| (class.name, class.about)).collect()
}

/// Prints a list as text, and as JSON.
pub type Printers = (fn() -> String, fn() -> Value);

/// Prints a list.
pub fn print_list((text, rows): Printers, as_json: bool) -> Result<(), Failure> {
    if as_json {
        print_json(&rows())
    } else {
        print(&text())
    }
}

/// Names, each with a description or a title.
pub type Pairs = Vec<(&'static str, &'static str)>;

/// One line for each name.
pub fn lines(all: &Pairs) -> String {
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, what): &(&str, &str)| format!("{name:<width$} {what}\n");
    all.iter().map(line).collect()
}

/// One object for each name; `what` is the key of the description.
pub fn objects(all: Pairs, what: &str) -> Value {
    let object = |(name, words): (&str, &str)| json!({ "name": name, what: words });
    all.into_iter().map(object).collect()
}

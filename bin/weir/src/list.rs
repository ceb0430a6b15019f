//! `weir list`: what there is, as text or as JSON.

use serde_json::{Value, json};
use weir_controller::spec::KINDS;
use weir_discipline::manuals;
use weir_experiment::compare::chosen;
use weir_experiment::reproduce;
use weir_protocol::library::write;
use weir_protocol::schema::Class;

use crate::output::{print, print_json};
use crate::{Failure, pages, scenarios};

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
    #[arg(long, conflicts_with = "json")]
    xml: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// Queue disciplines
    Disciplines,
    /// Controllers
    Controllers,
    /// Tables of a running router: what `weir show` prints
    Tables,
    /// Scenarios that come with the program: `weir run NAME`
    Scenarios,
    /// Loads of `weir compare`, and their scenarios
    Loads,
    /// Results of papers that can be reproduced
    Results,
    /// Every key of a scenario file, with examples, as a page in Markdown
    ScenarioKeys,
    /// The JSON Schema of scenario files
    Schema,
    /// Every reason for which a packet can be dropped, and what to do about it, as a page in Markdown
    Drops,
    /// Every kind of kernel state that decides about packets, and what a router does about it, as a table in Markdown
    Kernel,
    /// Every key of a router's configuration, as a page in Markdown
    Configuration,
    /// Every key of a control element's configuration, as a page in Markdown
    CeConfiguration,
    /// The JSON Schema of a router's configuration
    ConfigurationSchema,
    /// The router's HTTP interface, as a page in Markdown; with --json as an OpenAPI document
    Api,
    /// Every metric of a run, with its definition, as a page in Markdown
    Metrics,
    /// Every metric that a router has for Prometheus, as a page in Markdown
    Prometheus,
    /// The dashboard for Grafana over these metrics, as JSON to import
    Dashboard,
    /// Classes of blocks of a forwarding element (LFBs of ForCES); with --xml as a library (RFC 5812)
    Lfb,
}

/// How a list is printed as text, and how as JSON.
type Printers = (fn() -> String, fn() -> Value);

/// `weir list`.
pub(crate) fn run(arguments: &ListArguments) -> Result<(), Failure> {
    if arguments.xml {
        return match arguments.what {
            What::Lfb => print(&library()),
            _ => Err(Failure::Usage(
                "--xml is for `weir list lfb` only".to_owned(),
            )),
        };
    }
    let (text, rows): Printers = match arguments.what {
        What::Disciplines => (
            || lines(&disciplines()),
            || objects(disciplines(), "purpose"),
        ),
        What::Controllers => (
            || lines(&controllers()),
            || objects(controllers(), "purpose"),
        ),
        What::Tables => (|| lines(&tables()), || objects(tables(), "about")),
        What::Scenarios => (|| lines(&shipped()), || objects(shipped(), "title")),
        What::Loads => (loads, loads_json),
        What::Results => (|| lines(&results()), || objects(results(), "title")),
        What::Schema => return print_json(&weir_experiment::scenario::schema()),
        What::Dashboard => return print_json(&pages::dashboard::json()),
        What::ConfigurationSchema => return print_json(&pages::configuration::schema()),
        What::Drops => (pages::drops::markdown, pages::drops::json),
        What::Kernel => (pages::kernel::markdown, pages::kernel::json),
        What::Configuration => (pages::configuration::markdown, pages::configuration::json),
        What::CeConfiguration => (
            pages::configuration::ce_markdown,
            pages::configuration::ce_json,
        ),
        What::ScenarioKeys => (pages::scenario::markdown, pages::scenario::json),
        What::Api => (pages::api::markdown, pages::api::json),
        What::Metrics => (pages::metrics::markdown, pages::metrics::json),
        What::Prometheus => (pages::prometheus::markdown, pages::prometheus::json),
        What::Lfb => (blocks, blocks_json),
    };
    match arguments.json {
        true => print_json(&rows()),
        false => print(&text()),
    }
}

type Pairs = Vec<(&'static str, &'static str)>;

fn disciplines() -> Pairs {
    manuals().map(|m| (m.name, m.purpose)).collect()
}

fn controllers() -> Pairs {
    let manuals = KINDS.iter().map(|kind| &kind.manual);
    manuals.map(|m| (m.name, m.purpose)).collect()
}

fn tables() -> Pairs {
    let classes = weir_lfb::class::classes().into_iter();
    classes.map(|class| (class.name, class.about)).collect()
}

fn shipped() -> Pairs {
    let named = scenarios::all();
    named
        .map(|(name, text)| (name, scenarios::title(text)))
        .collect()
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

fn lines(all: &Pairs) -> String {
    let width = all.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, what): &(&str, &str)| format!("{name:<width$} {what}\n");
    all.iter().map(line).collect()
}

fn objects(all: Pairs, what: &str) -> Value {
    let object = |(name, words): (&str, &str)| json!({ "name": name, what: words });
    all.into_iter().map(object).collect()
}

/// The classes of blocks: ID, name, version and sentence.
fn blocks() -> String {
    let classes = weir_library::classes();
    let width = classes
        .iter()
        .map(|class| class.name.len())
        .max()
        .unwrap_or(0);
    let line = |class: &Class| {
        let Class {
            id,
            name,
            version,
            about,
            ..
        } = class;
        format!("{id:<8} {name:<width$} {version:<4} {about}\n")
    };
    classes.iter().map(line).collect()
}

fn blocks_json() -> Value {
    let classes = weir_library::classes().into_iter();
    let row = |class: Class| json!({ "id": class.id, "name": class.name, "version": class.version, "about": class.about });
    classes.map(row).collect()
}

fn library() -> String {
    let about = "Blocks of a forwarding element of weir. Those with a number below 65536 are of RFC 5812, RFC 5810 and RFC 6956.";
    write("Weir", about, &weir_library::classes())
}

//! `weir-forces list`: controllers, classes of blocks, and reference pages.

use serde_json::{Value, json};
use weir::Failure;
use weir::list::{Pairs, Printers, lines, objects, print_list};
use weir::output::print;
use weir_controller::spec::KINDS;
use weir_protocol::library::write;
use weir_protocol::schema::Class;

use crate::pages;

/// Arguments of `weir-forces list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// List to print
    #[arg(default_value = "controllers")]
    what: What,
    /// Print JSON instead of text
    #[arg(short, long)]
    json: bool,
    /// Print an XML library instead of text; only for `lfb`
    #[arg(long, conflicts_with = "json")]
    xml: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Controllers
    Controllers,
    /// LFB classes of a forwarding element (ForCES); with --xml, as a library (RFC 5812)
    Lfb,
    /// Every key of a control element's configuration, as a Markdown page
    CeConfiguration,
    /// The HTTP interface of a control element, as a Markdown page
    CeApi,
    /// Every Prometheus metric of a control element, as a Markdown page
    CePrometheus,
}

/// `weir-forces list`.
pub(crate) fn run(arguments: &ListArguments) -> Result<(), Failure> {
    if arguments.xml {
        return match arguments.what {
            What::Lfb => print(&library()),
            _ => Err(Failure::Usage(
                "--xml is for `weir list lfb` only".to_owned(),
            )),
        };
    }
    let printers: Printers = match arguments.what {
        What::Controllers => (
            || lines(&controllers()),
            || objects(controllers(), "purpose"),
        ),
        What::Lfb => (blocks, blocks_json),
        What::CeConfiguration => (pages::configuration, pages::configuration_json),
        What::CeApi => (pages::api, pages::api_json),
        What::CePrometheus => (pages::prometheus, pages::prometheus_json),
    };
    print_list(printers, arguments.json)
}

fn controllers() -> Pairs {
    let manuals = KINDS.iter().map(|kind| &kind.manual);
    manuals.map(|m| (m.name, m.purpose)).collect()
}

/// The LFB classes: ID, name, version and description.
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
    let about = "LFBs of weir's forwarding element. Classes with an ID below 65536 are from RFC 5812, RFC 5810 and RFC 6956.";
    write("Weir", about, &weir_library::classes())
}

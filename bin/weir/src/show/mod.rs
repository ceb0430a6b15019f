//! `weir show`: queries a running router and prints tables or JSON.
//!
//! Rates come from two samples: half a second apart, or (with `--watch`) from one refresh to the next.

mod cells;
mod query;
mod tables;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use weir_base::setting::{Scalar, Settings};
use weir_lfb::class::{Block, classes};
use weir_model::class::Form;
use weir_model::{Class, Value};
use weir_northbound::{api, client};

use crate::output::{print, print_json, print_json_to_reader, print_own, print_to_reader};
use crate::{Element, Failure, RouterSocket, configuration};

/// Time between the two samples of a rate.
const RATE_OVER: Duration = Duration::from_millis(500);
/// Interval of `--watch` without a number, in seconds.
const WATCH_DEFAULT: &str = "2";
/// Cursor home, and clear to the end of the screen, so that a redrawn table does not flicker.
const REDRAW: &str = "\x1b[H\x1b[J";

/// Arguments of `weir show`.
#[derive(Debug, clap::Args)]
pub struct ShowArguments {
    /// The table
    #[arg(value_name = "TABLE", value_parser = subjects(&[]))]
    subject: Subject,
    #[command(flatten)]
    how: How,
}

/// From where a table is read, and how it is shown.
#[derive(Debug, clap::Args)]
pub struct How {
    #[command(flatten)]
    element: Element,
    /// Print JSON instead of tables: counters and gauges, units in the names (with --watch, a line each time)
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    query: query::Query,
    /// Repeat every SECONDS (default: 2) until Ctrl-C, with rates since the previous output
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = WATCH_DEFAULT, value_parser = period)]
    watch: Option<Duration>,
    #[command(flatten)]
    router: RouterSocket,
}

/// A table, or the configuration.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// A table of a router.
    Table(&'static Class),
    /// A table of a control element itself.
    OfControlElement(&'static Class),
    /// The configuration.
    Config,
}

/// The name of the configuration, which is not a table.
const CONFIG: &str = "config";

/// The name of every table of a router, and of the configuration.
pub fn names() -> impl Iterator<Item = &'static str> {
    let tables = classes().into_iter().map(|class| class.name);
    tables.chain([CONFIG])
}

/// The configuration, and every table by name: those of routers, and these of control elements.
pub fn subjects(
    of_control_elements: &'static [&'static Class],
) -> impl TypedValueParser<Value = Subject> {
    let named = |class: &&Class| PossibleValue::new(class.name).help(class.about);
    let own = of_control_elements.iter().copied();
    let all: Vec<&'static Class> = classes().into_iter().chain(own).collect();
    let about = "The running configuration with all defaults, in the format of `weir apply`";
    let config = PossibleValue::new(CONFIG).help(about);
    let names = PossibleValuesParser::new([config].into_iter().chain(all.iter().map(named)));
    names.try_map(move |name| {
        let found = all.iter().find(|class| class.name == name);
        match (found, name.as_str()) {
            (_, CONFIG) => Ok(Subject::Config),
            (Some(class), _) if of_control_elements.iter().any(|own| own.id == class.id) => {
                Ok(Subject::OfControlElement(class))
            }
            (Some(class), _) => Ok(Subject::Table(class)),
            (None, _) => Err("is not a table"),
        }
    })
}

/// A router's response at one moment.
#[derive(Clone, Debug)]
struct Sample {
    /// Time of the response.
    at: Instant,
    /// The status of the router.
    status: Value,
    /// The value of the class.
    answer: Value,
    /// The number of rows of the related class.
    beside: usize,
}

fn period(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("must be a number of seconds from 0.1 to 3600".to_owned()),
    }
}

/// `weir show`.
pub fn run(arguments: &ShowArguments) -> Result<(), Failure> {
    show(arguments.subject, &arguments.how)
}

/// Shows a table or the configuration.
pub fn show(subject: Subject, how: &How) -> Result<(), Failure> {
    let table = match subject {
        Subject::Table(class) => Table {
            class,
            of_router: true,
        },
        Subject::OfControlElement(class) => Table {
            class,
            of_router: false,
        },
        Subject::Config => {
            let components = configuration::shown_in_force(&how.element, &how.router)?;
            return if how.json {
                print_json(&components)
            } else {
                print(&weir_config::as_file(&components))
            };
        }
    };
    let query = how.query.0.iter();
    let query = query.map(|(name, text)| (*name, Scalar::Text(text.clone())));
    let query: Vec<_> = query.collect();
    let query = query.iter().map(|(name, text)| (*name, text));
    let query = Settings::check(table.class.query, query)
        .map_err(|e| Failure::Usage(format!("weir show {}: {e}", table.class.name)))?;
    match how.watch {
        Some(period) => watch(how, table, &query, period),
        None => once(how, table, &query),
    }
}

/// A table, and the element that has it.
#[derive(Clone, Copy)]
struct Table {
    class: &'static Class,
    /// Whether a router has it; otherwise a control element.
    of_router: bool,
}

fn once(how: &How, table: Table, query: &Settings) -> Result<(), Failure> {
    let first = take(how, table)?;
    if how.json {
        return print_json(&first.answer);
    }
    let (before, now) = if has_rates(table.class, &first) {
        std::thread::sleep(RATE_OVER);
        (Some(first), take(how, table)?)
    } else {
        (None, first)
    };
    print(&tables::text(table.class, &now, before.as_ref(), query))
}

fn watch(how: &How, table: Table, query: &Settings, period: Duration) -> Result<(), Failure> {
    let redraw = !how.json && io::stdout().is_terminal();
    let mut before: Option<Sample> = None;
    loop {
        let now = take(how, table)?;
        if redraw {
            print_own(REDRAW)?;
        }
        let is_read = if how.json {
            let text = serde_json::to_string(&now.answer).unwrap_or_default(); // plain values
            print_json_to_reader(&text)?
        } else {
            let text = tables::text(table.class, &now, before.as_ref(), query);
            print_to_reader(&format!("{text}\n"))?
        };
        if !is_read {
            return Ok(());
        }
        // The first refresh has no rates, so the second one follows soon.
        let wait = if before.is_none() {
            RATE_OVER.min(period)
        } else {
            period
        };
        before = Some(now);
        std::thread::sleep(wait);
    }
}

/// Whether a second sample adds rates.
fn has_rates(class: &Class, sample: &Sample) -> bool {
    let mut cells = class
        .components
        .iter()
        .flat_map(|component| component.cells);
    !sample.answer.rows().is_empty() && cells.any(|cell| cell.form == Form::PerSecond)
}

/// Queries the router.
fn take(how: &How, Table { class, of_router }: Table) -> Result<Sample, Failure> {
    let (socket, prefix) = if of_router {
        how.element.target(&how.router)?
    } else {
        (how.router.of_control_element(), String::new())
    };
    let get = |path: &str| {
        let answer = client::get::<Value>(&socket, &format!("{prefix}{path}"));
        answer.map_err(|e| Failure::Run(e.to_string()))
    };
    let status = if of_router {
        get("/v1/status")?
    } else {
        Value::Absent
    };
    let beside = match class.layout.beside.and_then(|(name, _)| Block::find(name)) {
        Some(other) => get(&api::path_of(&other.class))?.rows().len(),
        None => 0,
    };
    let pairs = how.query.0.iter();
    let query: Vec<_> = pairs.map(|(name, text)| format!("{name}={text}")).collect();
    let at = Instant::now();
    let query = if query.is_empty() {
        String::new()
    } else {
        format!("?{}", query.join("&"))
    };
    let answer = get(&format!("{}{query}", api::path_of(class)))?;
    Ok(Sample {
        at,
        status,
        answer,
        beside,
    })
}

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
use weir_ce::tables::TABLES;
use weir_lfb::class::{Block, classes};
use weir_model::class::Form;
use weir_model::{Class, Value};
use weir_northbound::{api, client};

use crate::output::{print, print_json, print_json_to_reader, print_own, print_to_reader};
use crate::{Element, Failure, RouterSocket, configuration};

/// Time between the two samples for a rate.
const RATE_OVER: Duration = Duration::from_millis(500);
/// Seconds of `--watch` without a number.
const WATCH_DEFAULT: &str = "2";
/// Cursor home, and clear to the end of the screen, so that a redrawn table does not flicker.
const REDRAW: &str = "\x1b[H\x1b[J";

/// Arguments of `weir show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArguments {
    /// The table
    #[arg(value_name = "TABLE", value_parser = subjects())]
    subject: Subject,
    #[command(flatten)]
    element: Element,
    /// Print JSON instead of tables: counters and gauges, units in the names (with --watch a line each time)
    #[arg(short, long)]
    json: bool,
    #[command(flatten)]
    query: query::Query,
    /// Repeat every SECONDS (2 if not given) until Ctrl-C, with rates since the last time
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = WATCH_DEFAULT, value_parser = period)]
    watch: Option<Duration>,
    #[command(flatten)]
    router: RouterSocket,
}

/// A table, or the configuration.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Table(&'static Class),
    Config,
}

/// The name of the configuration, which is no table.
const CONFIG: &str = "config";

/// The configuration, and every table by its name.
fn subjects() -> impl TypedValueParser<Value = Subject> {
    let named = |class: &&Class| PossibleValue::new(class.name).help(class.about);
    let all: Vec<&'static Class> = classes()
        .into_iter()
        .chain(TABLES.iter().copied())
        .collect();
    let about = "The configuration in force, every default spelt out, as `weir apply` takes it";
    let config = PossibleValue::new(CONFIG).help(about);
    let names = PossibleValuesParser::new([config].into_iter().chain(all.iter().map(named)));
    names.try_map(move |name| {
        let found = all.iter().find(|class| class.name == name);
        match (found, name.as_str()) {
            (_, CONFIG) => Ok(Subject::Config),
            (Some(class), _) => Ok(Subject::Table(class)),
            (None, _) => Err("is no table"),
        }
    })
}

/// Whether a control element has a table itself.
fn is_of_control_element(class: &Class) -> bool {
    TABLES.iter().any(|table| table.id == class.id)
}

/// A router's answer at one moment.
#[derive(Clone, Debug)]
struct Sample {
    /// Time of the answer.
    at: Instant,
    /// The router itself.
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
pub(crate) fn run(arguments: &ShowArguments) -> Result<(), Failure> {
    let table = match arguments.subject {
        Subject::Table(table) => table,
        Subject::Config => {
            let components = configuration::shown_in_force(&arguments.element, &arguments.router)?;
            return match arguments.json {
                true => print_json(&components),
                false => print(&weir_config::as_file(&components)),
            };
        }
    };
    let query = arguments.query.0.iter();
    let query = query.map(|(name, text)| (*name, Scalar::Text(text.clone())));
    let query: Vec<_> = query.collect();
    let query = query.iter().map(|(name, text)| (*name, text));
    let query = Settings::check(table.query, query)
        .map_err(|e| Failure::Usage(format!("weir show {}: {e}", table.name)))?;
    match arguments.watch {
        Some(period) => watch(arguments, table, &query, period),
        None => once(arguments, table, &query),
    }
}

fn once(arguments: &ShowArguments, table: &'static Class, query: &Settings) -> Result<(), Failure> {
    let first = take(arguments, table)?;
    if arguments.json {
        return print_json(&first.answer);
    }
    let (before, now) = match has_rates(table, &first) {
        true => {
            std::thread::sleep(RATE_OVER);
            (Some(first), take(arguments, table)?)
        }
        false => (None, first),
    };
    print(&tables::text(table, &now, before.as_ref(), query))
}

fn watch(
    arguments: &ShowArguments,
    table: &'static Class,
    query: &Settings,
    period: Duration,
) -> Result<(), Failure> {
    let redraw = !arguments.json && io::stdout().is_terminal();
    let mut before: Option<Sample> = None;
    loop {
        let now = take(arguments, table)?;
        if redraw {
            print_own(REDRAW)?;
        }
        let is_read = match arguments.json {
            true => {
                let text = serde_json::to_string(&now.answer).unwrap_or_default(); // plain values
                print_json_to_reader(&text)?
            }
            false => {
                let text = tables::text(table, &now, before.as_ref(), query);
                print_to_reader(&format!("{text}\n"))?
            }
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
fn take(arguments: &ShowArguments, class: &'static Class) -> Result<Sample, Failure> {
    let (socket, prefix) = match is_of_control_element(class) {
        true => (arguments.router.of_control_element(), String::new()),
        false => arguments.element.target(&arguments.router),
    };
    let get = |path: &str| {
        let answer = client::get::<Value>(&socket, &format!("{prefix}{path}"));
        answer.map_err(|e| Failure::Run(e.to_string()))
    };
    let status = match is_of_control_element(class) {
        true => Value::Absent,
        false => get("/v1/status")?,
    };
    let beside = match class.layout.beside.and_then(|(name, _)| Block::find(name)) {
        Some(other) => get(&api::path_of(&other.class))?.rows().len(),
        None => 0,
    };
    let pairs = arguments.query.0.iter();
    let query: Vec<_> = pairs.map(|(name, text)| format!("{name}={text}")).collect();
    let at = Instant::now();
    let query = match query.is_empty() {
        true => String::new(),
        false => format!("?{}", query.join("&")),
    };
    let answer = get(&format!("{}{query}", api::path_of(class)))?;
    Ok(Sample {
        at,
        status,
        answer,
        beside,
    })
}

//! `weir show`: queries a running router and prints tables or JSON.
//!
//! Rates come from two samples: half a second apart, or (with `--watch`) from one refresh to the next.

mod cells;
mod query;
mod tables;

pub(crate) use cells::elapsed;

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
use crate::{Element, Failure, RouterSocket};

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
    #[arg(value_name = "TABLE", value_parser = tables())]
    table: &'static Class,
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

/// Every table by its name.
fn tables() -> impl TypedValueParser<Value = &'static Class> {
    let named = |class: &&Class| PossibleValue::new(class.name).help(class.about);
    let all: Vec<&'static Class> = classes()
        .into_iter()
        .chain(TABLES.iter().copied())
        .collect();
    let names = PossibleValuesParser::new(all.iter().map(named));
    names.try_map(move |name| {
        let found = all.iter().find(|class| class.name == name);
        found.copied().ok_or("is no table")
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
    let query = arguments.query.0.iter();
    let query = query.map(|(name, text)| (*name, Scalar::Text(text.clone())));
    let query: Vec<_> = query.collect();
    let query = query.iter().map(|(name, text)| (*name, text));
    let query = Settings::check(arguments.table.query, query)
        .map_err(|e| Failure::Usage(format!("weir show {}: {e}", arguments.table.name)))?;
    match arguments.watch {
        Some(period) => watch(arguments, &query, period),
        None => once(arguments, &query),
    }
}

fn once(arguments: &ShowArguments, query: &Settings) -> Result<(), Failure> {
    let first = take(arguments)?;
    if arguments.json {
        return print_json(&first.answer);
    }
    let (before, now) = match has_rates(arguments.table, &first) {
        true => {
            std::thread::sleep(RATE_OVER);
            (Some(first), take(arguments)?)
        }
        false => (None, first),
    };
    print(&tables::text(arguments.table, &now, before.as_ref(), query))
}

fn watch(arguments: &ShowArguments, query: &Settings, period: Duration) -> Result<(), Failure> {
    let redraw = !arguments.json && io::stdout().is_terminal();
    let mut before: Option<Sample> = None;
    loop {
        let now = take(arguments)?;
        if redraw {
            print_own(REDRAW)?;
        }
        let is_read = match arguments.json {
            true => {
                let text = serde_json::to_string(&now.answer).unwrap_or_default(); // plain values
                print_json_to_reader(&text)?
            }
            false => {
                let text = tables::text(arguments.table, &now, before.as_ref(), query);
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
fn take(arguments: &ShowArguments) -> Result<Sample, Failure> {
    let class = arguments.table;
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

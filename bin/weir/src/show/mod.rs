//! `weir show`: asks a running router, and prints tables or JSON.
//!
//! Rates come from two samples: half a second apart, or (with `--watch`) from one picture to the next.

mod sample;
mod tables;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use crate::output::{print, print_json, print_to_reader};
use crate::{Failure, RouterSocket};
use sample::Sample;

/// Time between the two samples that a rate is made of.
const RATE_OVER: Duration = Duration::from_millis(500);
/// `--watch` without a number.
const WATCH_DEFAULT: &str = "2";
/// Home, and clear to the end of the screen: what is drawn anew does not flicker.
const REDRAW: &str = "\x1b[H\x1b[J";

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Subject {
    /// The router: version, mode, uptime
    Status,
    /// Ports and their links: rates now, totals since the start
    Ports,
    /// Queue disciplines: what they took, dropped, marked and hold, and their gauges
    Queues,
    /// Flows in the queue for high-bandwidth flows, and why: threshold, share of the link, dropped packets
    Hogs,
    /// Flows that an admission control accepted, lets wait or blocks, with their acceptance delay
    Flows,
    /// Routes in force
    Routes,
    /// Neighbours, and packets that wait for them
    Neighbours,
    /// Packets that were dropped, by reason
    Drops,
    /// Netfilter rules of this machine that transit bypasses
    Netfilter,
}

/// Arguments of `weir show`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArguments {
    /// What to show
    subject: Subject,
    /// Print JSON instead of tables: counters and gauges, units in the names (with --watch a line each time)
    #[arg(short, long)]
    json: bool,
    /// Hogs: the watched flows too
    #[arg(long)]
    all: bool,
    /// Maximum number of hogs (50 if not given), or of flows of each port (1000 if not given)
    #[arg(long, value_name = "FLOWS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: Option<u64>,
    /// Repeat every SECONDS (2 if not given) until Ctrl-C, with rates since the last time
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = WATCH_DEFAULT, value_parser = period)]
    watch: Option<Duration>,
    #[command(flatten)]
    router: RouterSocket,
}

fn period(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("must be a number of seconds from 0.1 to 3600".to_owned()),
    }
}

/// `weir show`.
pub(crate) fn run(arguments: &ShowArguments) -> Result<(), Failure> {
    match arguments.watch {
        Some(period) => watch(arguments, period),
        None => once(arguments),
    }
}

fn once(arguments: &ShowArguments) -> Result<(), Failure> {
    let first = take(arguments)?;
    if arguments.json {
        return print_json(&first.reports);
    }
    let before = match first.has_rates() {
        true => {
            std::thread::sleep(RATE_OVER);
            Some(first.clone())
        }
        false => None,
    };
    let now = match before {
        Some(_) => take(arguments)?,
        None => first,
    };
    print(&tables::text(&now, before.as_ref(), arguments.limit))
}

fn watch(arguments: &ShowArguments, period: Duration) -> Result<(), Failure> {
    let redraw = !arguments.json && io::stdout().is_terminal();
    let mut before: Option<Sample> = None;
    loop {
        let now = take(arguments)?;
        let text = match arguments.json {
            true => serde_json::to_string(&now.reports).unwrap_or_default(), // plain values
            false => tables::text(&now, before.as_ref(), arguments.limit),
        };
        let head = if redraw { REDRAW } else { "" };
        if !print_to_reader(&format!("{head}{text}\n"))? {
            return Ok(());
        }
        // The first picture has no rates: the second follows soon.
        let wait = if before.is_none() {
            RATE_OVER.min(period)
        } else {
            period
        };
        before = Some(now);
        std::thread::sleep(wait);
    }
}

fn take(arguments: &ShowArguments) -> Result<Sample, Failure> {
    let socket: &Path = &arguments.router.socket;
    Sample::take(socket, arguments.subject, arguments.all, arguments.limit)
        .map_err(|e| Failure::Run(e.to_string()))
}

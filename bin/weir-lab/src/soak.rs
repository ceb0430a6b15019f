//! `weir soak`: arguments, and the exit code.

use weir::Failure;
use weir::output::{print, print_json};
use weir_base::Span;
use weir_experiment::scenario::Mode;
use weir_experiment::soak::{self, Options};

use crate::run::failure;

/// Minimum and maximum length of a run, in seconds.
const DURATION_S: std::ops::RangeInclusive<u64> = 5..=86_400;

/// Arguments of `weir soak`.
#[derive(Debug, clap::Args)]
pub(crate) struct SoakArguments {
    /// Forwarder: weir, or the kernel with weir as its queue
    #[arg(long, value_enum, default_value_t = Mode::Routed)]
    mode: Mode,
    /// Length of the test
    #[arg(long, default_value = "600 s", value_parser = duration)]
    duration: Span,
    /// Seed of the random events and their order
    #[arg(long, default_value = "1")]
    seed: u64,
    /// IPv4 routes in the routing table; every eighth also gets an IPv6 route
    #[arg(long, default_value = "100000", value_parser = clap::value_parser!(u32).range(1000..=900_000))]
    routes: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn duration(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    let (first, last) = (DURATION_S.start(), DURATION_S.end());
    let permitted = Span::from_secs(*first)..=Span::from_secs(*last);
    if permitted.contains(&span) {
        Ok(span)
    } else {
        Err(format!("must be from {first} s to {last} s"))
    }
}

/// `weir soak`. It fails if a check does not hold.
pub(crate) fn run(arguments: &SoakArguments) -> Result<(), Failure> {
    let options = Options {
        mode: arguments.mode,
        duration: arguments.duration,
        seed: arguments.seed,
        routes: arguments.routes,
        executable: None,
        progress: true,
        interrupt: weir_experiment::interrupt_flag().map_err(failure)?,
    };
    let report = soak::run(&options).map_err(failure)?;
    if arguments.json {
        print_json(&report)?
    } else {
        print(&report.text())?
    }
    if report.holds() {
        Ok(())
    } else {
        Err(Failure::Reported(1))
    }
}

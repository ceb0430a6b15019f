//! `weir bench`: measurements of this machine, as tables or JSON.

use weir_benches::{live, pacing};

use crate::table::Table;
use crate::{Failure, print_json};

/// What can be measured.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum BenchCommand {
    /// Forwarding on real interfaces, against a copy loop and the kernel (needs root)
    Live {
        /// Rounds; each figure is the median of them
        #[arg(long, default_value = "5", value_parser = clap::value_parser!(u64).range(1..=100))]
        rounds: u64,
        /// Seconds for each way and round
        #[arg(long, default_value = "1.0", value_parser = seconds)]
        seconds: f64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Pacing at 10 Mbit/s, 100 Mbit/s and 1 Gbit/s on real interfaces (needs root)
    Pacing {
        /// Seconds for each rate
        #[arg(long, default_value = "10.0", value_parser = seconds)]
        seconds: f64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs a measurement and prints it.
pub(crate) fn run(command: &BenchCommand) -> Result<(), Failure> {
    let failed = |e: std::io::Error| Failure::Run(e.to_string());
    match *command {
        BenchCommand::Live {
            rounds,
            seconds,
            json,
        } => {
            let report = live::run(rounds as usize, seconds).map_err(failed)?;
            if json {
                print_json(&report);
            } else {
                print_live(&report);
            }
        }
        BenchCommand::Pacing { seconds, json } => {
            let rows = pacing::run(seconds).map_err(failed)?;
            if json {
                print_json(&rows);
            } else {
                print_pacing(&rows);
            }
        }
    }
    Ok(())
}

fn print_live(report: &live::Report) {
    let mut table = Table::new(&[
        "64-BYTE FRAMES BY",
        "CPU NS",
        "OVER COPY LOOP",
        "KPACKETS/S",
    ]);
    for row in &report.forwarding {
        table.row([
            row.way.clone(),
            format!("{:.0}", row.cpu_ns),
            format!("{:+.0}", row.over_copy_ns),
            format!("{:.0}", row.packets_per_s / 1000.0),
        ]);
    }
    println!("{table}");
    let mut table = Table::new(&["IDLE ROUND TRIP BY", "P50 US", "P99 US"]);
    for row in &report.round_trip {
        table.row([
            row.way.clone(),
            format!("{:.1}", row.p50_us),
            format!("{:.1}", row.p99_us),
        ]);
    }
    print!("{table}");
}

fn print_pacing(rows: &[pacing::Row]) {
    let mut table = Table::new(&["RATE", "MEASURED", "ERROR", "BURST", "PERMITTED", "CPU"]);
    for row in rows {
        table.row([
            format!("{} Mbit", row.rate_mbps),
            format!("{:.3} Mbit", row.measured_mbps),
            format!("{:+.3} %", row.error_percent),
            format!("{} B", row.burst_bytes),
            format!("{} B", row.burst_bytes_max),
            format!("{:.1} %", row.cpu_percent),
        ]);
    }
    print!("{table}");
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.1 to 600".to_owned()),
    }
}

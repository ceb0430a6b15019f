//! `weir bench`: measurements of this machine, as tables or JSON.

use serde::Serialize;
use weir::Failure;
use weir::output::{print, print_json};
use weir::table::Column::{Left, Right};
use weir::table::Table;
use weir_base::Span;
use weir_benches::{
    classifier, discipline, flow_cache, forwarding, live, lookup, overload, pacing, simulator,
    transfers, translation,
};
use weir_forces_lab::associations::{self, Bench, Row};
use weir_forces_lab::network::{full_table, kills};
use weir_forces_live::tml::Transport;
use weir_fpf_lab::memory::{encapsulation, headers};

use crate::run::failure;

/// The measurements.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum BenchCommand {
    /// The flow-aware classifier on an in-memory capture, by number of flows
    Classifier {
        /// Use a tenth of the packets
        #[arg(long)]
        quick: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Cost of each discipline in memory relative to fifo, by number of flows
    Discipline {
        /// Use fewer packets: 1 s instead of 10 s
        #[arg(long)]
        quick: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// FPF encapsulation at an edge in memory, by number of flows
    Encapsulation {
        /// Use a tenth of the packets
        #[arg(long)]
        quick: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// How many of the largest flows lru_fq's cache finds, by cache size and admission policy
    FlowCache {
        /// Use a tenth of the packets: 10 s instead of 2 minutes
        #[arg(long)]
        quick: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Route lookup by table size: the lookup alone, and the whole forwarding path in memory
    Lookup {
        /// Number of rounds; each figure is the best round
        #[arg(long, default_value = "3", value_parser = clap::value_parser!(u64).range(1..=100))]
        rounds: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// The whole forwarding path in memory by discipline, and headers by protocol: FPF, MPLS, IPv4, IPv6
    Forwarding {
        /// Packets per round
        #[arg(long, default_value = "1000000", value_parser = clap::value_parser!(u64).range(1000..=1_000_000_000))]
        packets: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Many FEs on one CE over ForCES: associations, events, heartbeats, and Config round trips
    Forces {
        /// Number of FEs
        #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1024))]
        fes: u32,
        /// Seconds during which each FE sends ten events per second
        #[arg(long, default_value = "60.0", value_parser = seconds)]
        seconds: f64,
        /// Transports to measure: quic, tcp_udp, sctp, sctp_udp
        #[arg(long, value_delimiter = ',', default_value = "quic,tcp_udp")]
        transports: Vec<Transport>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// A full table of routes by FPM through a CE into three FEs: loading, a changed next hop, changed routes (needs root)
    FullTable {
        /// Routes of IPv4
        #[arg(long, default_value = "1000000", value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
        ipv4: u32,
        /// Routes of IPv6
        #[arg(long, default_value = "200000", value_parser = clap::value_parser!(u32).range(0..=200_000))]
        ipv6: u32,
        /// Changed routes per second and FE
        #[arg(long, default_value = "10000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        updates: u64,
        /// Seconds of changes
        #[arg(long, default_value = "60.0", value_parser = seconds)]
        seconds: f64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// A CE that is killed many times, under a flood and changing routes: lost packets, adjacencies of FRR (needs root)
    CeKills {
        /// How often the CE is killed
        #[arg(long, default_value = "100", value_parser = clap::value_parser!(u64).range(1..=10_000))]
        kills: u64,
        /// Seed of the flood, of the changes and of the pauses
        #[arg(long, default_value = "1")]
        seed: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forwarding on real interfaces, compared with a copy loop and the kernel (needs root)
    Live {
        /// Number of rounds; each figure is the median
        #[arg(long, default_value = "5", value_parser = clap::value_parser!(u64).range(1..=100))]
        rounds: u64,
        /// Seconds per forwarder and round
        #[arg(long, default_value = "1.0", value_parser = seconds)]
        seconds: f64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Honest traffic during a flood on the same port or another one, compared with the kernel (needs root)
    Overload {
        /// Number of rounds; each figure is the median
        #[arg(long, default_value = "5", value_parser = clap::value_parser!(u64).range(1..=100))]
        rounds: u64,
        /// Seconds per forwarder and round
        #[arg(long, default_value = "2.0", value_parser = seconds)]
        seconds: f64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// TCP of hosts with default offloads, compared with a copy loop and the kernel (needs root)
    Transfers {
        /// Number of rounds; each figure is the median
        #[arg(long, default_value = "5", value_parser = clap::value_parser!(u64).range(1..=100))]
        rounds: u64,
        /// Seconds per forwarder and round
        #[arg(long, default_value = "2.0", value_parser = seconds)]
        seconds: f64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Simulator speed: bottleneck packets per second of CPU time
    Simulator {
        /// Number of rounds; each figure is the best round
        #[arg(long, default_value = "3", value_parser = clap::value_parser!(u64).range(1..=100))]
        rounds: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Finding the hosts behind a translated address in memory, by number of flows
    Translation {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Pacing at 10 Mbit/s, 100 Mbit/s and 1 Gbit/s on real interfaces (needs root)
    Pacing {
        /// Seconds per rate
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
    let wrong = |e: weir_discipline::spec::SpecError| Failure::Run(e.to_string());
    match *command {
        BenchCommand::Forces {
            fes,
            seconds,
            ref transports,
            json,
        } => {
            let options = Bench {
                fes,
                duration: Span::from_secs_f64(seconds),
                round_trips: ROUND_TRIPS,
                transports: transports.clone(),
            };
            let rows = associations::bench(&options).map_err(|e| Failure::Run(e.to_string()))?;
            show(json, &rows[..], forces_table)
        }
        BenchCommand::Classifier { quick, json } => {
            const ROUNDS: usize = 5;
            let rows = classifier::run(ROUNDS, quick).map_err(|e| Failure::Run(e.to_string()))?;
            show(json, &rows[..], classifier::table)
        }
        BenchCommand::Discipline { quick, json } => {
            let rows = discipline::run(quick).map_err(wrong)?;
            show(json, &rows[..], discipline::table)
        }
        BenchCommand::Encapsulation { quick, json } => {
            const ROUNDS: usize = 5;
            let rows =
                encapsulation::run(ROUNDS, quick).map_err(|e| Failure::Run(e.to_string()))?;
            show(json, &rows[..], encapsulation::table)
        }
        BenchCommand::FlowCache { quick, json } => {
            let rows = flow_cache::run(quick).map_err(wrong)?;
            show(json, &rows[..], flow_cache::table)
        }
        BenchCommand::Forwarding { packets, json } => {
            const ROUNDS: usize = 5;
            let disciplines = ["fifo", "lru_fq", "fq_codel"];
            let report = ForwardingReport {
                path: forwarding::run(&disciplines, ROUNDS, packets as usize).map_err(wrong)?,
                headers: headers::run(ROUNDS).map_err(|e| Failure::Run(e.to_string()))?,
            };
            show(json, &report, forwarding_table)
        }
        BenchCommand::Lookup { rounds, json } => {
            let rows = lookup::run(rounds as usize).map_err(wrong)?;
            show(json, &rows[..], lookup_table)
        }
        BenchCommand::Translation { json } => {
            const ROUNDS: usize = 5;
            let rows = translation::run(ROUNDS, 1_000_000).map_err(wrong)?;
            show(json, &rows[..], translation_table)
        }
        BenchCommand::Simulator { rounds, json } => {
            let rows = simulator::run(rounds as usize).map_err(|e| Failure::Run(e.to_string()))?;
            show(json, &rows[..], simulator_table)
        }
        BenchCommand::Live {
            rounds,
            seconds,
            json,
        } => {
            let report = live::run(rounds as usize, seconds).map_err(failed)?;
            show(json, &report, live_table)
        }
        BenchCommand::Overload {
            rounds,
            seconds,
            json,
        } => {
            let rows = overload::run(rounds as usize, seconds).map_err(failed)?;
            show(json, &rows[..], overload_table)
        }
        BenchCommand::Transfers {
            rounds,
            seconds,
            json,
        } => {
            let rows = transfers::run(rounds as usize, seconds).map_err(failed)?;
            show(json, &rows[..], transfers_table)
        }
        BenchCommand::FullTable {
            ipv4,
            ipv6,
            updates,
            seconds,
            json,
        } => {
            let v4 = lookup::prefixes_v4().into_iter().take(ipv4 as usize);
            let v6 = lookup::prefixes_v6().into_iter().take(ipv6 as usize);
            let report = full_table::run(&full_table::Options {
                prefixes: v4.chain(v6).collect(),
                updates_per_s: updates,
                churn: Span::from_secs_f64(seconds),
                executable: None,
                interrupt: weir_experiment::interrupt_flag().map_err(failure)?,
            });
            show(json, &report.map_err(failure)?, full_table_text)
        }
        BenchCommand::CeKills { kills, seed, json } => {
            let report = kills::run(&kills::Options {
                kills,
                seed,
                executable: None,
                interrupt: weir_experiment::interrupt_flag().map_err(failure)?,
            });
            show(json, &report.map_err(failure)?, kills_text)
        }
        BenchCommand::Pacing { seconds, json } => {
            let rows = pacing::run(seconds).map_err(failed)?;
            show(json, &rows[..], pacing_table)
        }
    }
}

/// Prints results as JSON or as a table.
fn show<R: Serialize + ?Sized>(
    json: bool,
    results: &R,
    table: impl FnOnce(&R) -> String,
) -> Result<(), Failure> {
    if json {
        print_json(&results)
    } else {
        print(&table(results))
    }
}

/// Number of Configs whose round trips `weir bench forces` measures.
const ROUND_TRIPS: u64 = 2000;

fn forces_table(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        Left("TRANSPORT"),
        Right("FES"),
        Right("ASSOCIATED IN"),
        Right("LOST"),
        Right("EVENTS"),
        Right("LOST"),
        Right("HEARTBEATS"),
        Right("LOST"),
        Right("EVENT P99"),
        Right("MEMORY/FE"),
        Right("CPU"),
        Right("CONFIG P50"),
        Right("CONFIG P99"),
    ]);
    for row in rows {
        table.row([
            row.transport.to_owned(),
            row.associations.to_string(),
            format!("{:.1} s", row.associate_s),
            row.associations_lost.to_string(),
            row.events.to_string(),
            row.events_lost.to_string(),
            row.heartbeats.to_string(),
            row.heartbeats_lost.to_string(),
            format!("{:.1} ms", row.event_ms_p99),
            format!("{} kB", row.memory_per_fe_bytes / 1000),
            format!("{:.0} %", row.processors * 100.0),
            format!("{:.0} us", row.round_trip_us_p50),
            format!("{:.0} us", row.round_trip_us_p99),
        ]);
    }
    table.to_string()
}

/// The rows of `weir bench forwarding`.
#[derive(serde::Serialize)]
struct ForwardingReport {
    /// Rows of the whole path.
    path: Vec<forwarding::Row>,
    /// Rows of parsing, lookup and rewriting.
    headers: Vec<headers::Row>,
}

fn translation_table(rows: &[translation::Row]) -> String {
    let mut table = Table::new(&[
        Right("FLOWS"),
        Right("NS PER PACKET, OUTER ADDRESS"),
        Right("NS, HOST INSIDE"),
        Right("QUESTIONS PER PACKET"),
    ]);
    for row in rows {
        table.row([
            row.flows.to_string(),
            format!("{:.0}", row.outer_ns),
            format!("{:.0}", row.inside_ns),
            format!("{:.3}", row.questions),
        ]);
    }
    table.to_string()
}

fn forwarding_table(report: &ForwardingReport) -> String {
    let mut path = Table::new(&[Left("64-BYTE FRAMES THROUGH"), Right("NS PER PACKET")]);
    for row in &report.path {
        path.row([row.discipline.clone(), format!("{:.0}", row.ns)]);
    }
    let mut table = Table::new(&[
        Left("HEADERS IN 78-BYTE FRAMES"),
        Right("ENTRIES"),
        Right("TABLE BYTES"),
        Right("16K HEADERS NS"),
        Right("VS FPF"),
        Right("64K HEADERS NS"),
        Right("VS FPF"),
        Right("SCATTERED NS"),
        Right("DEPENDENT NS"),
    ]);
    for row in &report.headers {
        let ns = |ns: f64| format!("{ns:.1}");
        table.row([
            row.protocol.to_owned(),
            row.entries.to_string(),
            row.table_bytes.to_string(),
            ns(row.burst_ns[0]),
            format!("{:.2}", row.over_fpf[0]),
            ns(row.burst_ns[1]),
            format!("{:.2}", row.over_fpf[1]),
            row.scattered_ns.map(ns).join(" / "),
            row.dependent_ns.map(ns).join(" / "),
        ]);
    }
    format!("{path}\n{table}")
}

fn lookup_table(rows: &[lookup::Row]) -> String {
    let mut table = Table::new(&[
        Left("TABLE"),
        Right("BYTES"),
        Right("INSERT NS"),
        Right("UPDATE NS"),
        Right("UNIFORM NS"),
        Right("HIT NS"),
        Right("SKEWED NS"),
        Right("DEPENDENT NS"),
        Right("PATH, 16K HEADERS NS"),
        Right("64K NS"),
    ]);
    for row in rows {
        let [uniform, hit, skewed] = row.independent_ns;
        let ns = |ns: f64| format!("{ns:.1}");
        table.row([
            row.table.clone(),
            row.bytes.to_string(),
            ns(row.insert_ns),
            ns(row.update_ns),
            ns(uniform),
            ns(hit),
            ns(skewed),
            row.dependent_ns.map(ns).join(" / "),
            ns(row.path_ns[0]),
            ns(row.path_ns[1]),
        ]);
    }
    table.to_string()
}

fn simulator_table(rows: &[simulator::Row]) -> String {
    let mut table = Table::new(&[
        Left("WORKLOAD"),
        Right("SIMULATED S"),
        Right("CPU S"),
        Right("KPACKETS PER CPU S"),
        Right("MEVENTS PER CPU S"),
    ]);
    for row in rows {
        table.row([
            row.workload.clone(),
            format!("{:.0}", row.simulated_s),
            format!("{:.2}", row.cpu_s),
            format!("{:.0}", row.packets_per_cpu_s / 1e3),
            format!("{:.1}", row.events_per_cpu_s / 1e6),
        ]);
    }
    table.to_string()
}

fn live_table(report: &live::Report) -> String {
    let mut table = Table::new(&[
        Left("FORWARDER, 64-BYTE FRAMES"),
        Right("CPU NS"),
        Right("VS COPY LOOP"),
        Right("KPACKETS/S"),
    ]);
    for row in &report.forwarding {
        table.row([
            row.way.clone(),
            format!("{:.0}", row.cpu_ns),
            format!("{:+.0}", row.over_copy_ns),
            format!("{:.0}", row.packets_per_s / 1000.0),
        ]);
    }
    let forwarding = table;
    let mut table = Table::new(&[
        Left("FORWARDER, IDLE ROUND TRIP"),
        Right("P50 US"),
        Right("P99 US"),
    ]);
    for row in &report.round_trip {
        table.row([
            row.way.clone(),
            format!("{:.1}", row.p50_us),
            format!("{:.1}", row.p99_us),
        ]);
    }
    format!("{forwarding}\n{table}")
}

fn transfers_table(rows: &[transfers::Row]) -> String {
    let mut table = Table::new(&[
        Left("FORWARDED BY"),
        Right("CONNECTIONS"),
        Right("MBIT/S"),
        Right("OF COPY LOOP"),
        Right("CPU MS PER GBIT"),
    ]);
    for row in rows {
        let cpu = row.cpu_ms_per_gbit;
        table.row([
            row.way.clone(),
            row.connections.to_string(),
            format!("{:.0}", row.mbps),
            format!("{:.2}", row.of_copy_loop),
            cpu.map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.1}")),
        ]);
    }
    table.to_string()
}

fn full_table_text(report: &full_table::Report) -> String {
    let mut table = Table::new(&[
        Left("PROCESS"),
        Right("CPU S TO LOAD"),
        Right("ROUTES PER CPU S"),
        Right("CPU S OF CHANGES"),
        Right("MEMORY MB"),
    ]);
    for process in &report.processes {
        table.row([
            process.name.clone(),
            format!("{:.1}", process.load_cpu_s),
            format!("{:.0}", process.routes_per_cpu_s),
            format!("{:.1}", process.churn_cpu_s),
            (process.memory_bytes >> 20).to_string(),
        ]);
    }
    let full_table::Report {
        routes,
        load_s,
        kernel_bytes,
        moved_routes,
        moved_s,
        moved_lost,
        updates,
        settled_s,
        restart_s,
        restart_lost,
        wrong,
        others_cpu_ratio,
        ..
    } = report;
    format!(
        "{table}\n{routes} routes in each of three FEs after {load_s:.1} s; {} MB in their kernels\n\
         a next hop with {moved_routes} routes changed: packets take the new way after {:.0} ms, {moved_lost} lost\n\
         {updates} routes of each FE changed: all FEs have them {settled_s:.2} s after the last\n\
         the CE was killed: its successor has all FEs in sync after {restart_s:.1} s, {restart_lost} packets lost\n\
         routes that are wrong at the end: {wrong}\n\
         other programs kept {others_cpu_ratio:.1} CPUs busy\n",
        kernel_bytes >> 20,
        moved_s * 1e3,
    )
}

fn kills_text(report: &kills::Report) -> String {
    let mut table = Table::new(&[
        Left("PROTOCOL"),
        Right("LOST, FLOODED PORT"),
        Right("LOST, OTHER PORTS"),
    ]);
    for (name, flaps) in &report.flaps {
        table.row([
            (*name).to_owned(),
            flaps.same_port.to_string(),
            flaps.elsewhere.to_string(),
        ]);
    }
    let kills::Report {
        kills,
        in_sync_s: [median, maximum],
        lost,
        length_s,
        flood_per_s,
        changes,
        wrong,
        others_cpu_ratio,
        ..
    } = report;
    format!(
        "{table}\nthe CE was killed {kills} times in {length_s:.0} s, with {flood_per_s:.0} exceptions/s and {changes} changes of \
         routes\n\
         all FEs in sync again after {median:.2} s (median), {maximum:.2} s (maximum)\n\
         packets lost: {lost}\n\
         routes that are wrong at the end: {wrong}\n\
         other programs kept {others_cpu_ratio:.1} CPUs busy\n"
    )
}

fn overload_table(rows: &[overload::Row]) -> String {
    let mut table = Table::new(&[
        Left("FORWARDED BY"),
        Left("FLOOD"),
        Right("KPACKETS/S"),
        Right("RING LOST"),
        Right("TCP MBIT/S"),
        Right("PINGS LOST"),
    ]);
    for row in rows {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        table.row([
            row.way.clone(),
            row.flood.clone(),
            format!("{:.0}", row.flood_packets_per_s / 1000.0),
            row.missed.map_or_else(|| "-".to_owned(), percent),
            format!("{:.0}", row.tcp_mbps),
            percent(row.ping_loss),
        ]);
    }
    table.to_string()
}

fn pacing_table(rows: &[pacing::Row]) -> String {
    let mut table = Table::new(&[
        Left("RATE"),
        Right("MEASURED"),
        Right("ERROR"),
        Right("BURST"),
        Right("PERMITTED"),
        Right("CPU"),
    ]);
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
    table.to_string()
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("must be a number of seconds from 0.1 to 600".to_owned()),
    }
}

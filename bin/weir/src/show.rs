//! `weir show`: asks a running router, and prints a table or JSON.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_base::Rate;
use weir_model::report::{
    AdmissionReport, BypassReport, Count, DropReport, HogReport, NeighbourReport, PortReport,
    QueueReport, RouteReport,
};
use weir_northbound::client;

use crate::Failure;
use crate::output::{print, print_json};
use crate::table::Table;

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Subject {
    /// Ports and their links
    Ports,
    /// Queue disciplines: what they took, dropped, marked and hold
    Queues,
    /// Flows that a discipline knows by identity, and why they are where they are
    Hogs,
    /// Flows that an admission control accepted, lets wait or blocks, with their acceptance delay
    Flows,
    /// Routes in force
    Routes,
    /// Neighbours, and packets that wait for them
    Neighbours,
    /// What ended, by reason
    Drops,
    /// Netfilter rules of this machine that transit bypasses
    Netfilter,
}

/// Which flows `weir show hogs` lists.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Selection {
    /// Hogs: the watched flows too
    #[arg(long)]
    all: bool,
    /// Hogs: so many at most, the fastest ones (up to 1000)
    #[arg(long, default_value = "50", value_name = "FLOWS")]
    most: usize,
}

/// Prints `subject` of the router on `socket`.
pub(crate) fn show(
    socket: &Path,
    subject: Subject,
    selection: Selection,
    json: bool,
) -> Result<(), Failure> {
    let show = Show { socket, json };
    match subject {
        Subject::Ports => {
            show.print("ports", ports)?;
            show.note_bypass()
        }
        Subject::Queues => show.print("queues", queues),
        Subject::Hogs => {
            let Selection { all, most } = selection;
            show.print(&format!("hogs?all={all}&most={most}"), hogs)
        }
        Subject::Flows => show.print("flows", flows),
        Subject::Routes => show.print("routes", routes),
        Subject::Neighbours => show.print("neighbours", neighbours),
        Subject::Drops => show.print("drops", drops),
        Subject::Netfilter => show.print("netfilter", netfilter),
    }
}

struct Show<'a> {
    socket: &'a Path,
    json: bool,
}

impl Show<'_> {
    fn print<T: DeserializeOwned + Serialize>(
        &self,
        path: &str,
        table: fn(&[T]) -> Table,
    ) -> Result<(), Failure> {
        let rows = client::get(self.socket, &format!("/v1/{path}"));
        let rows: Vec<T> = rows.map_err(|e| Failure::Run(e.to_string()))?;
        match self.json {
            true => print_json(&rows),
            false => print(&table(&rows).to_string()),
        }
    }

    /// Below a table, how many chains of netfilter rules transit bypasses, if it does.
    fn note_bypass(&self) -> Result<(), Failure> {
        if self.json {
            return Ok(()); // `show netfilter --json` has them
        }
        let rows = client::get(self.socket, "/v1/netfilter");
        let rows: Vec<BypassReport> = rows.map_err(|e| Failure::Run(e.to_string()))?;
        let chains = match rows.len() {
            0 => return Ok(()),
            1 => "1 chain".to_owned(),
            n => format!("{n} chains"),
        };
        print(&format!(
            "\ntransit bypasses {chains} of this machine's netfilter rules: weir show netfilter\n"
        ))
    }
}

fn netfilter(rows: &[BypassReport]) -> Table {
    let mut table = Table::new(&[
        "FAMILY", "TABLE", "CHAIN", "HOOK", "RULES", "POLICY", "SINCE",
    ]);
    for row in rows {
        table.row([
            row.family.clone(),
            row.table.clone(),
            row.chain.clone(),
            row.hook.clone(),
            if row.has_rules { "yes" } else { "no" }.to_owned(),
            if row.policy_drop { "drop" } else { "accept" }.to_owned(),
            if row.at_start { "start" } else { "later" }.to_owned(),
        ]);
    }
    table
}

fn ports(rows: &[PortReport]) -> Table {
    let mut table = Table::new(&[
        "PORT",
        "INTERFACE",
        "STATE",
        "RATE",
        "DISCIPLINE",
        "RECEIVED",
        "SENT",
        "MISSED",
        "REFUSED",
        "LOCAL DROPPED",
    ]);
    for row in rows {
        table.row([
            row.port.clone(),
            row.interface.clone(),
            match (row.up, row.carrier) {
                (false, _) => "down",
                (true, false) => "no carrier",
                (true, true) => "up",
            }
            .to_owned(),
            row.rate_bps
                .map_or_else(|| "-".to_owned(), |bps| Rate::from_bps(bps).to_string()),
            row.discipline.clone(),
            count(&row.received),
            count(&row.sent),
            row.missed.to_string(),
            row.refused.to_string(),
            count(&row.local_dropped),
        ]);
    }
    table
}

fn queues(rows: &[QueueReport]) -> Table {
    let mut table = Table::new(&[
        "PORT",
        "DISCIPLINE",
        "RECEIVED",
        "SENT",
        "DROPPED",
        "MARKED",
        "HELD",
        "GAUGES",
    ]);
    for row in rows {
        let gauges = row.gauges.iter().filter(|(_, value)| **value > 0);
        let gauges: Vec<_> = gauges
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        table.row([
            row.port.clone(),
            row.discipline.clone(),
            count(&row.received),
            count(&row.sent),
            count(&row.dropped),
            row.marked.packets.to_string(),
            row.backlog.packets.to_string(),
            gauges.join(", "),
        ]);
    }
    table
}

fn hogs(rows: &[HogReport]) -> Table {
    let mut table = Table::new(&[
        "PORT", "FLOW", "KEY", "STANDING", "RATE", "SEEN", "KNOWN", "SILENT",
    ]);
    for row in rows {
        table.row([
            row.port.clone(),
            row.flow.clone(),
            row.key.clone(),
            row.standing.clone(),
            format!("{:.3} Mbit", row.rate_bps as f64 / 1e6),
            count(&row.seen),
            format!("{:.1} s", row.known_s),
            format!("{:.3} s", row.silent_s),
        ]);
    }
    table
}

fn flows(rows: &[AdmissionReport]) -> Table {
    let mut table = Table::new(&[
        "PORT", "FLOW", "STANDING", "CLASS", "DELAY", "RATE", "SEEN", "KNOWN", "SILENT",
    ]);
    for row in rows {
        table.row([
            row.port.clone(),
            row.flow.clone(),
            row.standing.clone(),
            row.class.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{:.3} s", row.acceptance_delay_s),
            format!("{:.3} Mbit", row.rate_bps as f64 / 1e6),
            count(&row.seen),
            format!("{:.1} s", row.known_s),
            format!("{:.3} s", row.silent_s),
        ]);
    }
    table
}

fn routes(rows: &[RouteReport]) -> Table {
    let mut table = Table::new(&["PREFIX", "ACTION", "NEXT HOPS", "METRIC"]);
    for row in rows {
        table.row([
            row.prefix.clone(),
            row.action.clone(),
            row.next_hops.join(", "),
            row.metric.to_string(),
        ]);
    }
    table
}

fn neighbours(rows: &[NeighbourReport]) -> Table {
    let mut table = Table::new(&["ADDRESS", "INTERFACE", "MAC", "WAITING"]);
    for row in rows {
        table.row([
            row.address.clone(),
            row.interface.clone(),
            row.mac.clone().unwrap_or_else(|| "no answer".to_owned()),
            row.waiting.to_string(),
        ]);
    }
    table
}

fn drops(rows: &[DropReport]) -> Table {
    let mut table = Table::new(&["REASON", "PACKETS", "BYTES", "LOSS", "MEANING"]);
    for row in rows {
        table.row([
            row.reason.clone(),
            row.count.packets.to_string(),
            row.count.bytes.to_string(),
            if row.loss { "yes" } else { "no" }.to_owned(),
            row.meaning.clone(),
        ]);
    }
    table
}

fn count(count: &Count) -> String {
    let bytes = count.bytes as f64;
    let bytes = match count.bytes {
        0..1_000 => format!("{} B", count.bytes),
        1_000..1_000_000 => format!("{:.1} kB", bytes / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} GB", bytes / 1e9),
    };
    format!("{} / {bytes}", count.packets)
}

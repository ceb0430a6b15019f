//! The tables of `weir show`: one value in a cell, numbers to the right, and a word where a table is empty.

use std::collections::BTreeMap;

use weir_base::Rate;
use weir_model::report::{
    AdmissionReport, BypassReport, Count, DropReport, HogReport, NeighbourReport, NextHopReport,
    PortReport, QueueReport, RouteReport, StatusReport,
};
use weir_packet::Reason;

use super::sample::{Reports, Sample, Speed};
use crate::table::Column::{Left, Right};
use crate::table::Table;

/// Below the ports, if there are such rules.
const BYPASS_NOTE: &str =
    "\ntransit bypasses {} of this machine's netfilter rules: weir show netfilter\n";
/// Hogs and flows that the router tells if nothing is said.
const HOGS_DEFAULT: u64 = 50;
const FLOWS_DEFAULT: u64 = 1000;

/// The tables of a sample; rates are since `before`.
pub(super) fn text(now: &Sample, before: Option<&Sample>, limit: Option<u64>) -> String {
    let seconds = before.map_or(0.0, |before| (now.at - before.at).as_secs_f64());
    let before = before.map(|before| &before.reports);
    match (&now.reports, before) {
        (Reports::Status(status), _) => self::status(status),
        (Reports::Ports(rows), Some(Reports::Ports(old))) => ports(now, rows, old, seconds),
        (Reports::Ports(rows), _) => ports(now, rows, &[], seconds),
        (Reports::Queues(rows), Some(Reports::Queues(old))) => {
            queues(&now.status, rows, old, seconds)
        }
        (Reports::Queues(rows), _) => queues(&now.status, rows, &[], seconds),
        (Reports::Hogs(rows), _) => hogs(now, rows, limit.unwrap_or(HOGS_DEFAULT)),
        (Reports::Flows(rows), _) => flows(now, rows, limit.unwrap_or(FLOWS_DEFAULT)),
        (Reports::Routes(rows), _) => routes(&now.status, rows),
        (Reports::Neighbours(rows), _) => neighbours(rows),
        (Reports::Drops(rows), Some(Reports::Drops(old))) => drops(&now.status, rows, old, seconds),
        (Reports::Drops(rows), _) => drops(&now.status, rows, &[], seconds),
        (Reports::Netfilter(rows), _) => netfilter(rows),
    }
}

fn status(status: &StatusReport) -> String {
    let mut table = Table::new(&[Left("ROUTER"), Left("")]);
    let rows = [
        ("version", status.version.clone()),
        ("uptime", uptime(status)),
        ("mode", status.mode.clone()),
        ("ports", status.ports.to_string()),
        ("pool", format!("{} packets", status.pool_packets)),
        ("socket", status.socket.clone()),
        ("process", status.pid.to_string()),
    ];
    for (name, value) in rows {
        table.row([name.to_owned(), value]);
    }
    table.to_string()
}

fn ports(sample: &Sample, rows: &[PortReport], old: &[PortReport], seconds: f64) -> String {
    let mut now = Table::new(&[
        Left("PORT"),
        Left("INTERFACE"),
        Left("STATE"),
        Right("PACED TO"),
        Left("DISCIPLINE"),
        Right("IN PKT/S"),
        Right("IN MBIT/S"),
        Right("OUT PKT/S"),
        Right("OUT MBIT/S"),
    ]);
    let mut totals = Table::new(&[
        Left("PORT"),
        Right("IN PACKETS"),
        Right("IN BYTES"),
        Right("OUT PACKETS"),
        Right("OUT BYTES"),
        Right("RING LOST"),
        Right("REFUSED"),
        Right("KERNEL'S OWN"),
        Right("OWN DROPPED"),
    ]);
    for row in rows {
        let before = old.iter().find(|before| before.port == row.port);
        let speed =
            |count: fn(&PortReport) -> Count| Speed::between(count(before?), count(row), seconds);
        let rate = row.rate_bps.map(|bps| Rate::from_bps(bps).to_string());
        let words = [
            row.port.clone(),
            row.interface.clone(),
            state(row).to_owned(),
            rate.unwrap_or_else(|| "-".to_owned()),
            row.discipline.clone(),
        ];
        let speeds = [speed(|port| port.received), speed(|port| port.sent)];
        now.row(words.into_iter().chain(speeds.into_iter().flat_map(rates)));
        totals.row([
            row.port.clone(),
            row.received.packets.to_string(),
            bytes(row.received.bytes),
            row.sent.packets.to_string(),
            bytes(row.sent.bytes),
            row.missed.to_string(),
            row.refused.to_string(),
            row.charged.packets.to_string(),
            row.local_dropped.packets.to_string(),
        ]);
    }
    let note = match sample.bypassed {
        0 => String::new(),
        1 => BYPASS_NOTE.replace("{}", "1 chain"),
        n => BYPASS_NOTE.replace("{}", &format!("{n} chains")),
    };
    format!("{now}\n{}\n{totals}{note}", since_start(&sample.status))
}

fn state(port: &PortReport) -> &'static str {
    match (port.up, port.carrier) {
        (true, true) => "up",
        (true, false) => "no carrier",
        (false, _) => "down",
    }
}

fn netfilter(rows: &[BypassReport]) -> String {
    if rows.is_empty() {
        return "transit bypasses no netfilter rules of this machine\n".to_owned();
    }
    let mut table = Table::new(&[
        Left("FAMILY"),
        Left("TABLE"),
        Left("CHAIN"),
        Left("HOOK"),
        Left("RULES"),
        Left("POLICY"),
        Left("SINCE"),
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
    table.to_string()
}

fn queues(
    status: &StatusReport,
    rows: &[QueueReport],
    old: &[QueueReport],
    seconds: f64,
) -> String {
    let mut now = Table::new(&[
        Left("PORT"),
        Left("DISCIPLINE"),
        Right("HELD PACKETS"),
        Right("HELD BYTES"),
        Right("IN PKT/S"),
        Right("IN MBIT/S"),
        Right("OUT PKT/S"),
        Right("OUT MBIT/S"),
        Right("DROPPED PKT/S"),
    ]);
    let mut totals = Table::new(&[
        Left("PORT"),
        Right("IN PACKETS"),
        Right("IN BYTES"),
        Right("OUT PACKETS"),
        Right("OUT BYTES"),
        Right("DROPPED PACKETS"),
        Right("DROPPED"),
        Right("MARKED PACKETS"),
    ]);
    let mut gauges = Table::new(&[
        Left("PORT"),
        Left("DISCIPLINE"),
        Left("GAUGE"),
        Right("VALUE"),
    ]);
    for row in rows {
        let before = old.iter().find(|before| before.port == row.port);
        let speed =
            |count: fn(&QueueReport) -> Count| Speed::between(count(before?), count(row), seconds);
        let held = [
            row.port.clone(),
            row.discipline.clone(),
            row.backlog.packets.to_string(),
            bytes(row.backlog.bytes),
        ];
        let speeds = [speed(|queue| queue.received), speed(|queue| queue.sent)];
        let dropped = rates(speed(|queue| queue.dropped)).into_iter().take(1);
        let speeds = speeds.into_iter().flat_map(rates).chain(dropped);
        now.row(held.into_iter().chain(speeds));
        totals.row([
            row.port.clone(),
            row.received.packets.to_string(),
            bytes(row.received.bytes),
            row.sent.packets.to_string(),
            bytes(row.sent.bytes),
            row.dropped.packets.to_string(),
            percent(ratio(row.dropped.packets, row.received.packets)),
            row.marked.packets.to_string(),
        ]);
        for (name, value) in &row.gauges {
            let words = [&row.port, &row.discipline, name].map(String::clone);
            gauges.row(words.into_iter().chain([value.to_string()]));
        }
    }
    let gauges = match gauges.is_empty() {
        true => String::new(),
        false => format!("\n`weir describe DISCIPLINE` explains the gauges.\n{gauges}"),
    };
    format!("{now}\n{}\n{totals}{gauges}", since_start(status))
}

fn hogs(now: &Sample, rows: &[HogReport], limit: u64) -> String {
    if rows.is_empty() {
        return match now.disciplines.iter().any(|kind| kind == "lru_fq") {
            true => "No flow is a hog now. `weir show hogs --all` lists the watched flows, too.\n",
            false => "No port has a discipline that identifies hogs; `lru_fq` does.\n",
        }
        .to_owned();
    }
    let mut table = Table::new(&[
        Left("PORT"),
        Left("FLOW"),
        Left("KEY"),
        Left("STANDING"),
        Right("MBIT/S"),
        Right("OF LINK"),
        Right("PACKETS"),
        Right("THRESHOLD"),
        Right("DROPPED"),
        Right("KNOWN S"),
        Right("SILENT S"),
    ]);
    for row in rows {
        table.row([
            row.port.clone(),
            row.flow.clone(),
            row.key.clone(),
            row.standing.clone(),
            mbps(row.rate_bps),
            percent(row.link_share_ratio),
            row.seen.packets.to_string(),
            threshold(row),
            row.dropped_packets.to_string(),
            format!("{:.1}", row.known_s),
            format!("{:.3}", row.silent_s),
        ]);
    }
    let why = "A flow at or above the threshold is a hog: it shares the queue of all hogs.\n";
    format!("{why}{table}{}", cut(rows.len() as u64, limit))
}

/// From where on a flow is a hog, in words.
fn threshold(row: &HogReport) -> String {
    if let Some(packets) = row.threshold_packets {
        return format!("{packets} packets");
    }
    match (row.threshold_bps, row.threshold_share_ratio) {
        (Some(bps), _) => Rate::from_bps(bps).to_string(),
        (None, Some(share)) => format!("{} of all", percent(Some(share))),
        (None, None) => "-".to_owned(),
    }
}

fn flows(now: &Sample, rows: &[AdmissionReport], limit: u64) -> String {
    if rows.is_empty() {
        return match now.disciplines.iter().any(|kind| kind == "fan") {
            true => "No flow is known to the admission control now.\n",
            false => "No port has a discipline with admission control; `fan` has one.\n",
        }
        .to_owned();
    }
    let mut table = Table::new(&[
        Left("PORT"),
        Left("FLOW"),
        Left("STANDING"),
        Left("CLASS"),
        Right("DELAY S"),
        Right("MBIT/S"),
        Right("PACKETS"),
        Right("BYTES"),
        Right("KNOWN S"),
        Right("SILENT S"),
    ]);
    let mut of_port: BTreeMap<&str, u64> = BTreeMap::new();
    for row in rows {
        *of_port.entry(&row.port).or_default() += 1;
        table.row([
            row.port.clone(),
            row.flow.clone(),
            row.standing.clone(),
            row.class.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{:.3}", row.acceptance_delay_s),
            mbps(row.rate_bps),
            row.seen.packets.to_string(),
            bytes(row.seen.bytes),
            format!("{:.1}", row.known_s),
            format!("{:.3}", row.silent_s),
        ]);
    }
    let most = of_port.into_values().max().unwrap_or(0);
    format!("{table}{}", cut(most, limit))
}

/// A line below a list that ends at its limit.
fn cut(rows: u64, limit: u64) -> String {
    match rows < limit {
        true => String::new(),
        false => format!(
            "The list ends at {limit} flows; there may be more: `--limit N`, up to 10000.\n"
        ),
    }
}

fn routes(status: &StatusReport, rows: &[RouteReport]) -> String {
    if rows.is_empty() {
        return match status.mode.as_str() {
            "bridged" => "A bridge needs no routes.\n",
            _ => "The kernel has no routes: `ip route` should list some.\n",
        }
        .to_owned();
    }
    let mut table = Table::new(&[
        Left("PREFIX"),
        Left("ACTION"),
        Left("GATEWAY"),
        Left("INTERFACE"),
        Right("WEIGHT"),
        Right("METRIC"),
    ]);
    for row in rows {
        let hop = |hop: &NextHopReport| {
            let gateway = hop.gateway.clone();
            let gateway = gateway.unwrap_or_else(|| "on the link".to_owned());
            [gateway, hop.interface.clone(), hop.weight.to_string()]
        };
        let mut hops: Vec<[String; 3]> = row.next_hops.iter().map(hop).collect();
        if hops.is_empty() {
            hops.push(["-", "-", "-"].map(str::to_owned));
        }
        for (n, [gateway, interface, weight]) in hops.into_iter().enumerate() {
            let first = |text: &str| {
                if n == 0 {
                    text.to_owned()
                } else {
                    String::new()
                }
            };
            let metric = first(&row.metric.to_string());
            let (prefix, action) = (first(&row.prefix), first(&row.action));
            table.row([prefix, action, gateway, interface, weight, metric]);
        }
    }
    table.to_string()
}

fn neighbours(rows: &[NeighbourReport]) -> String {
    if rows.is_empty() {
        return "No neighbour is known yet: the kernel asks when the first packet for one comes.\n"
            .to_owned();
    }
    let mut table = Table::new(&[
        Left("ADDRESS"),
        Left("INTERFACE"),
        Left("MAC"),
        Right("WAITING PACKETS"),
    ]);
    for row in rows {
        table.row([
            row.address.clone(),
            row.interface.clone(),
            row.mac.clone().unwrap_or_else(|| "no answer".to_owned()),
            row.waiting.to_string(),
        ]);
    }
    table.to_string()
}

fn drops(status: &StatusReport, rows: &[DropReport], old: &[DropReport], seconds: f64) -> String {
    let since = since_start(status);
    if rows.is_empty() {
        return format!("{since}\nNothing was dropped.\n");
    }
    let mut table = Table::new(&[
        Left("REASON"),
        Right("PACKETS"),
        Right("BYTES"),
        Right("PKT/S NOW"),
        Left("LOSS"),
        Left("MEANING"),
    ]);
    for row in rows {
        let before = old.iter().find(|before| before.reason == row.reason);
        let speed = before.and_then(|before| Speed::between(before.count, row.count, seconds));
        let [packets_per_s, _] = rates(speed);
        table.row([
            row.reason.clone(),
            row.count.packets.to_string(),
            bytes(row.count.bytes),
            packets_per_s,
            if row.loss { "yes" } else { "no" }.to_owned(),
            meaning(&row.reason).to_owned(),
        ]);
    }
    format!("{since}\n{table}")
}

/// What a reason means; the router may be newer than this program.
fn meaning(reason: &str) -> &'static str {
    let known = Reason::ALL.into_iter().find(|known| known.name() == reason);
    known.map_or("", |reason| reason.sentence())
}

fn since_start(status: &StatusReport) -> String {
    format!("Since the start, {} ago:", uptime(status))
}

fn uptime(status: &StatusReport) -> String {
    let seconds = status.uptime_s as u64;
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min {rest} s"),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Packets and megabits a second; a dash where there is no second sample.
fn rates(speed: Option<Speed>) -> [String; 2] {
    match speed {
        Some(speed) => [
            format!("{:.0}", speed.packets_per_s),
            format!("{:.2}", speed.mbps),
        ],
        None => ["-", "-"].map(str::to_owned),
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1} %", 100.0 * ratio))
}

fn mbps(bps: u64) -> String {
    format!("{:.3}", bps as f64 / 1e6)
}

fn bytes(bytes: u64) -> String {
    let scaled = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", scaled / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", scaled / 1e6),
        _ => format!("{:.1} GB", scaled / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units_that_a_person_reads() {
        let all = [999, 1_000, 2_500_000, 7_000_000_000].map(bytes);
        assert_eq!(all, ["999 B", "1.0 kB", "2.5 MB", "7.0 GB"]);
        assert_eq!(percent(ratio(1, 8)), "12.5 %");
        assert_eq!(percent(ratio(0, 0)), "-");
    }

    #[test]
    fn a_list_that_is_cut_says_so() {
        assert_eq!(cut(9, 10), "");
        assert!(cut(10, 10).contains("ends at 10 flows"));
    }
}

//! A sample of a router: the data that `weir top` shows.

use weir_model::Value;

/// A sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) version: String,
    pub(super) hostname: String,
    pub(super) unix_s: f64,
    pub(super) uptime_s: f64,
    pub(super) ports: Vec<Port>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) talkers: Vec<Talker>,
    /// Losses, in descending order of their number in the latest second.
    pub(super) drops: Vec<Drops>,
}

/// A port, its link and its queue, in the latest second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) state: String,
    pub(super) discipline: String,
    /// `None` if the port is not paced.
    pub(super) rate_bps: Option<u64>,
    pub(super) received_bps: u64,
    pub(super) sent_bps: u64,
    pub(super) offered_bps: u64,
    pub(super) utilisation: Option<f64>,
    pub(super) held_packets: u64,
    pub(super) light_p99_s: Option<f64>,
    pub(super) heavy_p99_s: Option<f64>,
    pub(super) dropped_per_s: f64,
    pub(super) marked_per_s: f64,
}

/// A source with packets in the queue of a port.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Waiting {
    pub(super) port: String,
    pub(super) who: String,
    pub(super) flows: u64,
    pub(super) packets: u64,
    pub(super) queue_share: f64,
    pub(super) link_share: Option<f64>,
    pub(super) waited_s: f64,
    pub(super) why: String,
}

/// A source, a destination or a flow that sends through a port.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Talker {
    pub(super) port: String,
    pub(super) by: String,
    pub(super) who: String,
    /// The rate in the latest second, and the means over one and five minutes.
    pub(super) rates_bps: [u64; 3],
    pub(super) share: f64,
}

/// Packets lost for a reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Drops {
    pub(super) reason: String,
    pub(super) per_s: f64,
    pub(super) since_start: u64,
    pub(super) meaning: String,
}

impl Sample {
    /// Reads a line of `/v1/live`. Missing parts are empty: the router, which may be older or newer, defines the
    /// tables.
    pub(super) fn read(line: &Value) -> Self {
        let rows = |table: &str| line.get(table).map_or(&[][..], Value::rows);
        let ports = rows("ports").iter().map(|port| {
            let name = text(port, "port");
            let of_port = |row: &&Value| row.text("port") == Some(&name);
            Port::read(port, rows("history").iter().find(of_port))
        });
        let mut drops: Vec<_> = rows("drops")
            .iter()
            .filter_map(|row| {
                let reason = text(row, "reason");
                let same = |row: &&Value| row.text("reason") == Some(&reason);
                let latest = rows("drop_history").iter().find(same);
                let is_loss = matches!(row.get("loss"), Some(Value::Flag(true)));
                is_loss.then(|| Drops {
                    per_s: latest.map_or(0.0, |latest| per_second(latest, "packets")),
                    since_start: row.whole("count.packets").unwrap_or(0),
                    meaning: text(row, "meaning"),
                    reason,
                })
            })
            .collect();
        drops.sort_by(|a, b| {
            let by_total = b.since_start.cmp(&a.since_start);
            b.per_s.total_cmp(&a.per_s).then(by_total)
        });
        Self {
            version: line.text("status.version").unwrap_or_default().to_owned(),
            hostname: line.text("status.hostname").unwrap_or_default().to_owned(),
            unix_s: line.real("status.unix_s").unwrap_or(0.0),
            uptime_s: line.real("status.uptime_s").unwrap_or(0.0),
            ports: ports.collect(),
            waiting: rows("waiting").iter().map(Waiting::read).collect(),
            talkers: rows("talkers").iter().map(Talker::read).collect(),
            drops,
        }
    }
}

impl Port {
    fn read(port: &Value, history: Option<&Value>) -> Self {
        let whole = |name: &str| history.and_then(|row| row.whole(name)).unwrap_or(0);
        let real = |name: &str| history.and_then(|row| row.real(name));
        let per_s = |name: &str| history.map_or(0.0, |row| per_second(row, name));
        Self {
            name: text(port, "port"),
            state: text(port, "state"),
            discipline: text(port, "discipline"),
            rate_bps: port.whole("rate_bps"),
            received_bps: whole("received_bps"),
            sent_bps: whole("sent_bps"),
            offered_bps: whole("offered_bps"),
            utilisation: real("utilisation_ratio"),
            held_packets: whole("backlog.packets"),
            light_p99_s: real("light_delay_p99_s"),
            heavy_p99_s: real("heavy_delay_p99_s"),
            dropped_per_s: per_s("dropped_packets"),
            marked_per_s: per_s("marked_packets"),
        }
    }
}

impl Waiting {
    fn read(row: &Value) -> Self {
        Self {
            port: text(row, "port"),
            who: text(row, "who"),
            flows: row.whole("flows").unwrap_or(0),
            packets: row.whole("held.packets").unwrap_or(0),
            queue_share: row.real("queue_share_ratio").unwrap_or(0.0),
            link_share: row.real("link_share_ratio"),
            waited_s: row.real("waited_s").unwrap_or(0.0),
            why: text(row, "why"),
        }
    }
}

impl Talker {
    fn read(row: &Value) -> Self {
        let rates = ["rate_bps", "minute_bps", "five_minutes_bps"];
        Self {
            port: text(row, "port"),
            by: text(row, "by"),
            who: text(row, "who"),
            rates_bps: rates.map(|name| row.whole(name).unwrap_or(0)),
            share: row.real("share_ratio").unwrap_or(0.0),
        }
    }
}

fn text(row: &Value, name: &str) -> String {
    row.text(name).unwrap_or_default().to_owned()
}

/// A number of a record, divided by the number of seconds of the record.
fn per_second(record: &Value, name: &str) -> f64 {
    let span = record.real("span_s").filter(|span| *span > 0.0);
    record.whole(name).unwrap_or(0) as f64 / span.unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_and_what_is_missing_is_empty() {
        let line = r#"{
            "status": {"version": "0.1.0", "uptime_s": 3},
            "ports": [
                {"port": "wan", "state": "up", "rate_bps": 95000000, "discipline": "triple_fair"},
                {"port": "lan", "state": "up", "rate_bps": null, "discipline": "fifo"}
            ],
            "history": [{"port": "wan", "span_s": 2.0, "sent_bps": 94000000, "utilisation_ratio": 0.99,
                "backlog": {"packets": 40, "bytes": 60000}, "heavy_delay_p99_s": 0.02, "dropped_packets": 10}],
            "drops": [
                {"reason": "no-route", "loss": true, "count": {"packets": 7, "bytes": 700}, "meaning": "No."},
                {"reason": "not-ip", "loss": false, "count": {"packets": 99, "bytes": 1}, "meaning": "ARP."},
                {"reason": "queue-full", "loss": true, "count": {"packets": 5, "bytes": 1}, "meaning": "Full."}
            ],
            "drop_history": [{"reason": "queue-full", "span_s": 0.5, "packets": 3}]
        }"#;
        let sample = Sample::read(&serde_json::from_str(line).unwrap());
        let [wan, lan] = &sample.ports[..] else {
            panic!("{sample:?}");
        };
        assert_eq!((wan.rate_bps, lan.rate_bps), (Some(95_000_000), None));
        assert_eq!((wan.held_packets, wan.dropped_per_s), (40, 5.0));
        assert_eq!((wan.light_p99_s, wan.heavy_p99_s), (None, Some(0.02)));
        let drops: Vec<_> = sample
            .drops
            .iter()
            .map(|d| (&d.reason[..], d.per_s, d.since_start))
            .collect();
        assert_eq!(drops, [("queue-full", 6.0, 5), ("no-route", 0.0, 7)]);
        assert_eq!(sample.uptime_s, 3.0);
        assert_eq!(Sample::read(&Value::Absent), Sample::default());
    }
}

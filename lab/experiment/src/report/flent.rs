//! Results in Flent's format: gzipped JSON, format version 4, one file for the first run of each point.
//!
//! Flent only draws series whose names it knows. So a file names one of Flent's tests, and contains our curves under
//! the names of that test as well as under their own names:
//!
//! ```text
//!   rrul          TCP each way, small packets:   TCP upload sum, avg   TCP download sum, avg   TCP totals
//!                                                Ping (ms) UDP BE, avg
//!   tcp_download  anything else:                 TCP download          Ping (ms) ICMP
//! ```
//!
//! - Up is the direction from the first end of a watched link to its second.
//! - A ping is the mean delay of small packets in a step. If there are such packets in both directions, both delays
//!   are added, which is a round trip; otherwise it is the delay of one direction, as the file's note explains.
//! - Goodput is known for each flow group, not for each of its flows: `avg` is the sum over the number of flows.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

use super::metric::Metric;
use crate::TrafficInfo;
use crate::error::Error;
use crate::results::{Curve, OneRun, PointResult, RunResult};

/// The file of a point's first run, started at `unix_s`; `None` without a run or without curves.
pub(super) fn file(
    result: &RunResult,
    point: &PointResult,
    unix_s: u64,
) -> Result<Option<Vec<u8>>, Error> {
    let Some(document) = point
        .runs
        .first()
        .and_then(|run| document(result, point, run, unix_s))
    else {
        return Ok(None);
    };
    let failed = || Error::io("cannot write a Flent file");
    // The header of the gzip has no time, so that equal results give equal files.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(document.to_string().as_bytes())
        .map_err(failed())?;
    gzip.finish().map(Some).map_err(failed())
}

/// A run in the form of a Flent test.
struct Test {
    name: &'static str,
    /// Curves under Flent's names.
    curves: Vec<(&'static str, Vec<f64>)>,
    /// The metric of the test's ping.
    ping: &'static str,
}

impl Test {
    fn of(result: &RunResult, run: &OneRun) -> Self {
        let is_up = |t: &&&TrafficInfo| t.crosses.iter().any(|link| !link.ends_with(".reverse"));
        let tcp = result.traffic.iter().filter(|t| t.kind == "tcp");
        let tcp: Vec<&TrafficInfo> = tcp.filter(|t| !t.crosses.is_empty()).collect();
        let (up, down): (Vec<_>, Vec<_>) = tcp.iter().partition(is_up);
        let sparse: Vec<&TrafficInfo> = result.traffic.iter().filter(|t| t.is_sparse).collect();
        let there = sparse.iter().find(is_up);
        let back = sparse.iter().find(|t| !is_up(t));
        let delay = |traffic: Option<&&TrafficInfo>| {
            let curve = run.series.get(&format!("delay_ms.{}", traffic?.name))?;
            Some(curve.values.clone())
        };
        let (ping, told) = match (delay(there), delay(back)) {
            (Some(there), Some(back)) => (
                Some(there.iter().zip(&back).map(|(a, b)| a + b).collect()),
                "Ping: sum of the delays of small packets in both directions, mean of each step.",
            ),
            (there, back) => (
                there.or(back),
                "Ping: one-way delay of small packets, mean of each step.",
            ),
        };
        let mut curves = Vec::new();
        let name = match (up.is_empty(), down.is_empty(), &ping) {
            (false, false, Some(ping)) => {
                let (up, down) = (Goodput::of(&up, run), Goodput::of(&down, run));
                let totals = up.sum.iter().zip(&down.sum).map(|(a, b)| a + b);
                curves.push(("TCP totals", totals.collect()));
                curves.push(("TCP upload avg", up.average()));
                curves.push(("TCP upload sum", up.sum));
                curves.push(("TCP download avg", down.average()));
                curves.push(("TCP download sum", down.sum));
                curves.push(("Ping (ms) UDP BE", ping.clone()));
                curves.push(("Ping (ms) avg", ping.clone()));
                "rrul"
            }
            _ => {
                let all = run.series.get("tcp_mbps");
                curves.extend(all.map(|curve| ("TCP download", curve.values.clone())));
                curves.extend(ping.clone().map(|ping| ("Ping (ms) ICMP", ping)));
                "tcp_download"
            }
        };
        Self {
            name,
            curves,
            ping: if ping.is_some() { told } else { "" },
        }
    }
}

/// The goodput of traffic of one direction.
struct Goodput {
    sum: Vec<f64>,
    flows: u64,
}

impl Goodput {
    fn of(traffics: &[&&TrafficInfo], run: &OneRun) -> Self {
        let curve = |t: &&&TrafficInfo| {
            let own = run.series.get(&format!("goodput_mbps.{}", t.name));
            own.or_else(|| run.series.get("tcp_mbps"))
        };
        let sum = traffics
            .iter()
            .filter_map(curve)
            .cloned()
            .reduce(|mut sum, curve| {
                sum.values
                    .iter_mut()
                    .zip(curve.values)
                    .for_each(|(a, b)| *a += b);
                sum
            });
        Self {
            sum: sum.map(|curve| curve.values).unwrap_or_default(),
            flows: traffics.iter().map(|t| t.flows).sum(),
        }
    }

    fn average(&self) -> Vec<f64> {
        let each = |x: &f64| x / self.flows.max(1) as f64;
        self.sum.iter().map(each).collect()
    }
}

/// The series of a document, all on one time axis.
struct Series {
    times: Vec<f64>,
    unix_s: u64,
    results: Map<String, Value>,
    raw: Map<String, Value>,
    meta: Map<String, Value>,
}

impl Series {
    fn add(&mut self, name: &str, unit: &str, values: &[f64]) {
        // A step without a value, and the missing rest of a shorter curve, is null, like a value that is not a
        // number.
        let all = values
            .iter()
            .map(|v| json!(v))
            .chain(std::iter::repeat(Value::Null));
        let all: Vec<Value> = all.take(self.times.len()).collect();
        self.results.insert(name.to_owned(), all.into());
        // Flent considers a file without raw values empty, even if it has other data.
        let there = || self.times.iter().zip(values).filter(|(_, v)| v.is_finite());
        let raw = there().map(|(t, v)| json!({ "t": self.unix_s as f64 + t, "val": v }));
        self.raw.insert(name.to_owned(), raw.collect());
        let count = there().count().max(1) as f64;
        let mean = there().map(|(_, v)| v).sum::<f64>() / count;
        let meta = json!({ "UNITS": unit, "MEAN_VALUE": mean });
        self.meta.insert(name.to_owned(), meta);
    }
}

fn document(result: &RunResult, point: &PointResult, run: &OneRun, unix_s: u64) -> Option<Value> {
    let step_s = run.series.values().next()?.step_s;
    let curves = || run.series.iter().filter(|(_, c)| c.step_s == step_s);
    let steps = curves().map(|(_, c)| c.values.len()).max()?;
    let time = |n: usize| (n as f64 * step_s * 1e9).round() / 1e9;
    let mut series = Series {
        times: (0..steps).map(time).collect(),
        unix_s,
        results: Map::new(),
        raw: Map::new(),
        meta: Map::new(),
    };
    let unit = |name: &str| match Metric::named(name).unit {
        "Mbit/s" => "Mbits/s",
        unit => unit,
    };
    curves().for_each(|(name, Curve { values, .. })| series.add(name, unit(name), values));
    let test = Test::of(result, run);
    for (name, values) in &test.curves {
        let unit = if name.starts_with("Ping") {
            "ms"
        } else {
            "Mbits/s"
        };
        series.add(name, unit, values);
    }
    let title = format!("{}: {}", result.title, point.title());
    let command = format!(
        "weir run {} --on {} --seed {}.",
        result.scenario, result.on, run.seed
    );
    Some(json!({
        "version": 4,
        "metadata": {
            "NAME": test.name,
            "TITLE": title,
            "TIME": timestamp(unix_s),
            "T0": timestamp(unix_s),
            "LENGTH": result.duration_s,
            "TOTAL_LENGTH": result.duration_s,
            "STEP_SIZE": step_s,
            "HOST": "weir",
            "HOSTS": ["weir"],
            "LOCAL_HOST": "weir",
            "NOTE": format!("{command} {}", test.ping).trim_end(),
            "FLENT_VERSION": null,
            "IP_VERSION": 4,
            "DATA_FILENAME": null,
            "TEST_PARAMETERS": {},
            "SERIES_META": series.meta,
            "WEIR_METRICS": run.metrics,
        },
        "x_values": series.times,
        "results": series.results,
        "raw_values": series.raw,
    }))
}

/// `2026-11-22T01:02:03.000000Z`, the only form that Flent reads as UTC. The date is computed from days as in
/// H. Hinnant, "chrono-compatible low-level date algorithms", civil_from_days.
fn timestamp(unix_s: u64) -> String {
    let (days, second) = (unix_s / 86_400, unix_s % 86_400);
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // from March on
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, next) = match month {
        0..=9 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    format!(
        "{:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}.000000Z",
        400 * era + year + next,
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;
    use std::io::Read;

    #[test]
    fn times_by_hand() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(
            timestamp(951_782_400 + 3_661),
            "2000-02-29T01:01:01.000000Z"
        );
        assert_eq!(timestamp(1_767_225_599), "2025-12-31T23:59:59.000000Z");
    }

    fn read(result: &RunResult) -> Value {
        let gzip = file(result, &result.points[0], 100).unwrap().unwrap();
        let mut text = String::new();
        let mut reader = flate2::read::GzDecoder::new(gzip.as_slice());
        reader.read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_file_has_what_flent_wants() {
        let result = example::result();
        let document = read(&result);
        assert_eq!(document["version"], 4);
        assert_eq!(document["metadata"]["NAME"], "tcp_download");
        assert_eq!(document["x_values"], json!([0.0, 0.5]));
        assert_eq!(document["results"]["TCP download"], json!([10.0, 20.0]));
        assert_eq!(document["results"]["queue_packets.out"], json!([0.0, 7.0]));
        let raw = json!([{ "t": 100.0, "val": 10.0 }, { "t": 100.5, "val": 20.0 }]);
        assert_eq!(document["raw_values"]["TCP download"], raw);
        assert_eq!(document["metadata"]["STEP_SIZE"], 0.5);
        assert_eq!(document, read(&result));
    }

    #[test]
    fn transfers_each_way_with_small_packets_are_flents_rrul() {
        let mut result = example::result();
        let info = |name: &str, kind: &str, flows, link: &str| TrafficInfo {
            name: name.into(),
            kind: kind.into(),
            flows,
            hosts: 1,
            is_sparse: kind == "udp",
            crosses: vec![link.into()],
        };
        result.traffic = vec![
            info("up", "tcp", 4, "line"),
            info("down", "tcp", 2, "line.reverse"),
            info("ping", "udp", 1, "line"),
            info("pong", "udp", 1, "line.reverse"),
        ];
        let curves = [
            ("goodput_mbps.up", vec![8.0, 12.0]),
            ("goodput_mbps.down", vec![10.0, 14.0]),
            ("delay_ms.ping", vec![25.0, f64::NAN]),
            ("delay_ms.pong", vec![26.0, 30.0]),
        ];
        let series = &mut result.points[0].runs[0].series;
        for (name, values) in curves {
            series.insert(
                name.into(),
                Curve {
                    step_s: 0.5,
                    values,
                },
            );
        }
        let document = read(&result);
        assert_eq!(document["metadata"]["NAME"], "rrul");
        let is =
            |name: &str, values: Value| assert_eq!(document["results"][name], values, "{name}");
        is("TCP upload sum", json!([8.0, 12.0]));
        is("TCP upload avg", json!([2.0, 3.0]));
        is("TCP download sum", json!([10.0, 14.0]));
        is("TCP totals", json!([18.0, 26.0]));
        is("Ping (ms) UDP BE", json!([51.0, null]));
        let raw = &document["raw_values"]["Ping (ms) UDP BE"];
        assert_eq!(*raw, json!([{ "t": 100.0, "val": 51.0 }]));
    }
}

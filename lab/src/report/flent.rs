//! Results as Flent reads them: gzipped JSON, format version 4, one file for the first run of each
//! point.
//!
//! Flent draws what it knows the name of: the file says that it is a `tcp_download`, and the
//! goodput of all long TCP is its `TCP download`. Every curve is there under its own name too.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

use super::metric::Metric;
use crate::error::Error;
use crate::results::{OneRun, PointResult, RunResult};

/// The test of Flent whose plots fit.
const TEST: &str = "tcp_download";
/// What our goodput of TCP is called there.
const ALIASES: [(&str, &str); 1] = [("tcp_mbps", "TCP download")];

/// The file of a point's first run, begun at `unix_s`; none without a run or without curves.
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
    // The header of the gzip carries no time: equal results are equal files.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(document.to_string().as_bytes())
        .map_err(failed())?;
    gzip.finish().map(Some).map_err(failed())
}

fn document(result: &RunResult, point: &PointResult, run: &OneRun, unix_s: u64) -> Option<Value> {
    let step_s = run.series.values().next()?.step_s;
    let steps = run.series.values().map(|c| c.values.len()).max()?;
    // One axis for all: a curve that is shorter ends in nulls.
    let values = |curve: &crate::results::Curve| -> Vec<Value> {
        let values = curve.values.iter().map(|v| json!(v));
        values
            .chain(std::iter::repeat(Value::Null))
            .take(steps)
            .collect()
    };
    let mut series = Map::new();
    let mut units = Map::new();
    for (name, curve) in run.series.iter().filter(|(_, c)| c.step_s == step_s) {
        let alias = ALIASES.iter().find(|(own, _)| own == name);
        for name in [name.as_str()]
            .into_iter()
            .chain(alias.map(|(_, theirs)| *theirs))
        {
            series.insert(name.to_owned(), values(curve).into());
            let metric = Metric::named(name);
            let unit = match metric.unit {
                "" if alias.is_some() => "Mbits/s",
                "Mbit/s" => "Mbits/s",
                unit => unit,
            };
            let mean = curve.values.iter().sum::<f64>() / curve.values.len().max(1) as f64;
            units.insert(
                name.to_owned(),
                json!({ "UNITS": unit, "MEAN_VALUE": mean }),
            );
        }
    }
    let times: Vec<f64> = (0..steps)
        .map(|n| (n as f64 * step_s * 1e9).round() / 1e9)
        .collect();
    let title = format!("{}: {}", result.title, point.title());
    Some(json!({
        "version": 4,
        "metadata": {
            "NAME": TEST,
            "TITLE": title,
            "TIME": timestamp(unix_s),
            "T0": timestamp(unix_s),
            "LENGTH": result.duration_s,
            "TOTAL_LENGTH": result.duration_s,
            "STEP_SIZE": step_s,
            "HOST": "weir",
            "HOSTS": ["weir"],
            "LOCAL_HOST": "weir",
            "NOTE": format!("weir run {} --on {} --seed {}", result.scenario, result.on, run.seed),
            "FLENT_VERSION": null,
            "IP_VERSION": 4,
            "DATA_FILENAME": null,
            "TEST_PARAMETERS": {},
            "SERIES_META": units,
            "WEIR_METRICS": run.metrics,
        },
        "x_values": times,
        "results": series,
        "raw_values": {},
    }))
}

/// `2026-11-22T01:02:03.000000Z`, the only form that Flent reads as UTC; days to date as in H. Hinnant, "chrono-compatible low-level date
/// algorithms", civil_from_days.
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

    #[test]
    fn a_file_has_what_flent_wants() {
        let result = example::result();
        let gzip = file(&result, &result.points[0], 0).unwrap().unwrap();
        let mut text = String::new();
        let mut reader = flate2::read::GzDecoder::new(gzip.as_slice());
        reader.read_to_string(&mut text).unwrap();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["version"], 4);
        assert_eq!(read["x_values"], json!([0.0, 0.5]));
        assert_eq!(read["results"]["TCP download"], json!([10.0, 20.0]));
        assert_eq!(read["results"]["queue_packets.out"], json!([0.0, 7.0]));
        assert_eq!(read["metadata"]["STEP_SIZE"], 0.5);
        assert_eq!(gzip, file(&result, &result.points[0], 0).unwrap().unwrap());
    }
}

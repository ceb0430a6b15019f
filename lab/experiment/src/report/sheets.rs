//! Results as sheets for other programs: CSV as in RFC 4180.
//!
//! ```text
//!   runs.csv      a row for each run: the values of its point, its seed, every metric
//!   summary.csv   a row for each point and metric: mean, ci95 (half of the mean's interval), median and its
//!                 interval, n
//!   flows.csv     a row for each flow of each simulated run
//!   series.csv    a row for each value of each curve of each run; t_s is the start of its step
//! ```
//!
//! Every row begins with `scenario`, `on`, `variant` and a column for each swept path, empty if a row has no value
//! there. Values with units are numbers, and the column's name ends with their unit: `link.out.delay_s`.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use csv::Writer;
use serde_json::Value;
use weir_base::{Bytes, Rate, Span};

use crate::error::Error;
use crate::results::{PointResult, RunResult};

/// Writes all sheets and returns their paths; sheets without rows are left out.
pub(super) fn write(results: &[&RunResult], folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let swept: BTreeSet<String> = results.iter().flat_map(|r| r.swept()).collect();
    let swept = swept.into_iter().map(|path| Swept::new(path, results));
    let sheets = Sheets {
        results,
        swept: swept.collect(),
    };
    let mut written = Vec::new();
    let mut sheet =
        |name: &str, fill: &dyn Fn(&mut Writer<File>) -> csv::Result<bool>| -> Result<(), Error> {
            let path = folder.join(name);
            let wrong = |e: csv::Error| {
                Error::io(format!("cannot write {}", path.display()))(std::io::Error::other(e))
            };
            let mut writer = Writer::from_path(&path).map_err(wrong)?;
            let any = fill(&mut writer).map_err(wrong)?;
            writer.flush().map_err(|e| wrong(e.into()))?;
            if any {
                written.push(path)
            } else {
                drop(std::fs::remove_file(&path))
            }
            Ok(())
        };
    sheet("runs.csv", &|to| sheets.runs(to))?;
    sheet("summary.csv", &|to| sheets.summary(to))?;
    sheet("flows.csv", &|to| sheets.flows(to))?;
    sheet("series.csv", &|to| sheets.series(to))?;
    Ok(written)
}

struct Sheets<'a> {
    results: &'a [&'a RunResult],
    swept: Vec<Swept>,
}

/// Reads a text as a number of one unit.
type Number = fn(&str) -> Option<f64>;

/// The column of a swept path.
struct Swept {
    path: String,
    head: String,
    number: Number,
}

impl Swept {
    /// Units, and the function that reads a string as a number of each unit.
    const UNITS: [(&str, Number); 3] = [
        ("_s", |text| Some(text.parse::<Span>().ok()?.as_secs_f64())),
        ("_bps", |text| {
            Some(text.parse::<Rate>().ok()?.as_bps() as f64)
        }),
        ("_bytes", |text| Some(text.parse::<Bytes>().ok()?.0 as f64)),
    ];

    fn new(path: String, results: &[&RunResult]) -> Self {
        let points = results.iter().flat_map(|result| &result.points);
        let values = points.filter_map(|point| point.set.get(&path));
        let texts: Option<Vec<&str>> = values.map(Value::as_str).collect();
        let texts = texts.unwrap_or_default();
        let fits =
            |number: &Number| !texts.is_empty() && texts.iter().all(|text| number(text).is_some());
        let unit = Self::UNITS.into_iter().find(|(_, number)| fits(number));
        let (unit, number) = unit.unwrap_or(("", |_| None));
        Self {
            head: format!("{path}{unit}"),
            path,
            number,
        }
    }

    fn cell(&self, point: &PointResult) -> String {
        match point.set.get(&self.path) {
            None => String::new(),
            Some(Value::String(text)) => match (self.number)(text) {
                Some(number) => number.to_string(),
                None => text.clone(),
            },
            Some(value) => value.to_string(),
        }
    }
}

impl Sheets<'_> {
    fn points(&self) -> impl Iterator<Item = (&RunResult, &PointResult)> {
        let results = self.results.iter();
        results.flat_map(|result| result.points.iter().map(move |point| (*result, point)))
    }

    /// The columns that every sheet begins with.
    fn heads<'a>(&'a self, more: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let swept = self.swept.iter().map(|swept| swept.head.as_str());
        let first = ["scenario", "on", "variant"].into_iter().chain(swept);
        first.chain(more).collect()
    }

    /// The cells of these columns.
    fn place(&self, result: &RunResult, point: &PointResult) -> Vec<String> {
        let variant = point.variant.clone().unwrap_or_default();
        let mut cells = vec![result.scenario.clone(), result.on.clone(), variant];
        cells.extend(self.swept.iter().map(|swept| swept.cell(point)));
        cells
    }

    fn runs(&self, to: &mut Writer<File>) -> csv::Result<bool> {
        let runs = || {
            self.points()
                .flat_map(|(r, p)| p.runs.iter().map(move |run| (r, p, run)))
        };
        let names: BTreeSet<&str> = runs()
            .flat_map(|(.., run)| run.metrics.keys().map(String::as_str))
            .collect();
        to.write_record(self.heads(["seed"].into_iter().chain(names.iter().copied())))?;
        for (result, point, run) in runs() {
            let mut cells = self.place(result, point);
            cells.push(run.seed.to_string());
            let values = names.iter().map(|name| run.metrics.get(*name));
            cells.extend(values.map(|value| value.map(f64::to_string).unwrap_or_default()));
            to.write_record(cells)?;
        }
        Ok(true)
    }

    fn summary(&self, to: &mut Writer<File>) -> csv::Result<bool> {
        to.write_record(self.heads([
            "metric",
            "mean",
            "ci95",
            "median",
            "median_low",
            "median_high",
            "n",
        ]))?;
        for (result, point) in self.points() {
            for (name, summary) in &point.summary {
                let mut cells = self.place(result, point);
                cells.extend([
                    name.clone(),
                    summary.mean.to_string(),
                    optional(summary.ci95),
                    summary.median.to_string(),
                    optional(summary.median_ci95.map(|[low, _]| low)),
                    optional(summary.median_ci95.map(|[_, high]| high)),
                    summary.n.to_string(),
                ]);
                to.write_record(cells)?;
            }
        }
        Ok(true)
    }

    fn flows(&self, to: &mut Writer<File>) -> csv::Result<bool> {
        to.write_record(self.heads([
            "seed",
            "traffic",
            "start_s",
            "connected_s",
            "end_s",
            "completion_s",
            "size_bytes",
            "bytes",
            "window_bytes",
        ]))?;
        let mut any = false;
        for (result, point) in self.points() {
            let place = self.place(result, point);
            for run in &point.runs {
                for flow in &run.flows {
                    any = true;
                    let own = [
                        run.seed.to_string(),
                        flow.traffic.clone(),
                        flow.start_s.to_string(),
                        optional(flow.connected_s),
                        optional(flow.end_s),
                        optional(flow.completion_s()),
                        optional(flow.size_bytes),
                        flow.bytes.to_string(),
                        flow.window_bytes.to_string(),
                    ];
                    to.write_record(place.iter().chain(&own))?;
                }
            }
        }
        Ok(any)
    }

    fn series(&self, to: &mut Writer<File>) -> csv::Result<bool> {
        to.write_record(self.heads(["seed", "curve", "t_s", "value"]))?;
        let mut any = false;
        for (result, point) in self.points() {
            let place = self.place(result, point);
            for run in &point.runs {
                let seed = run.seed.to_string();
                for (name, curve) in &run.series {
                    for (step, value) in curve.values.iter().enumerate() {
                        any = true;
                        // Rounded to a nanosecond: steps are whole nanoseconds, floats are not.
                        let at = (step as f64 * curve.step_s * 1e9).round() / 1e9;
                        let own = [&seed, name, &at.to_string(), &value.to_string()];
                        to.write_record(place.iter().chain(own))?;
                    }
                }
            }
        }
        Ok(any)
    }
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example;

    #[test]
    fn sheets_have_a_row_for_each_thing_and_quote_what_needs_it() {
        let folder = std::env::temp_dir().join(format!("weir-sheets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let result = example::result();
        let written = write(&[&result], &folder).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let runs = read("runs.csv");
        let mut lines = runs.lines();
        assert_eq!(
            lines.next(),
            Some(
                "scenario,on,variant,traffic.flood.flows,seed,delay_ms_mean.long,delay_ms_p50.voice,\
                 delay_ms_p99.voice,queue_delay_ms_mean.out,queue_delay_ms_p99.out,tcp_share_ratio"
            )
        );
        assert_eq!(
            lines.next(),
            Some("a.toml,sim,\"plain, \"\"old\"\"\",2,1,3.5,5,10,2,9.5,0.5")
        );
        assert_eq!(runs.lines().count(), 1 + 4);
        assert!(read("summary.csv").contains(",tcp_share_ratio,0.5,,0.5,,,1\n"));
        assert!(read("series.csv").contains(",2,1,tcp_mbps,0.5,20\n"));
        assert!(read("flows.csv").contains(",2,1,long,0,0.1,,,,9000,8000\n"));
        assert_eq!(written.len(), 4);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

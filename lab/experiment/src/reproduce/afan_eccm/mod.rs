//! Domzal et al., "Efficient congestion control mechanism for flow-aware networks".

mod figures;
mod tables;
mod text;

use super::findings::Findings;
use super::measured::Measured;
use super::query::{Point, Series, series};
use super::recipe::{Paper, results};
use super::samples::Samples;
use crate::scenario::Reading;
use figures::{basic, fig7, fig8, fig9};
use tables::{table2, table3};
use text::{cost, text};

pub(super) fn paper() -> Paper {
    Paper {
        name: "afan-eccm",
        source: "Domżał, Wójcik, Chołda, Stankiewicz and Jajszczyk, \"Efficient congestion control \
                 mechanism for flow-aware networks\", International Journal of Communication \
                 Systems 2015",
        columns: &[
            ("as printed", Reading::Printed),
            ("streams from 20 s (R10)", Reading::LateStreams),
            ("RAMAF counts all flows (R13)", Reading::AllListed),
        ],
        lab: ["40 s", "10 s"],
        loads: &[],
        benches: &[],
        results: results!["afan-eccm": basic fig7 fig8 fig9 table2 table3 cost text],
    }
}

/// Acceptance delay of streams; a stream that is never accepted counts with its age at the end (R10).
const DELAY: &str = "acceptance_delay_s.stream";
/// Goodput of elastic flows since their acceptance, without flows that the clean-up of the same run removed (R29).
const GOODPUT: &str = "goodput_since_kept_mbps.elastic";
/// Elastic flows on the list: the mean over time, and after each run's clean-up or restoration (R30).
const LISTED: &str = "known_flows.bottleneck.elastic";
const AFTER_RUNS: &str = "run_after_flows.bottleneck.elastic";
/// The total over all runs.
const RUNS: &str = "gauge.bottleneck.runs";
const WRITES: &str = "gauge.bottleneck.list_writes";
const READS: &str = "gauge.bottleneck.list_reads";
const REMOVED: &str = "gauge.bottleneck.removed";
const REMOVED_ESTABLISHED: &str = "gauge.bottleneck.removed_established";
const OUTAGE: &str = "outage_s_max.elastic";

/// Intervals between two runs of RAMAF and of ECCM, and of EFMP.
const INTERVALS: [u32; 5] = [3, 6, 9, 12, 15];
const INTERVALS_EFMP: [u32; 4] = [1, 2, 3, 4];
const BOTH: [&str; 2] = ["ramaf", "eccm"];
const MECHANISMS: [(&str, &str, &[u32]); 3] = [
    ("EFMP", "efmp", &INTERVALS_EFMP),
    ("RAMAF", "ramaf", &INTERVALS),
    ("ECCM", "eccm", &INTERVALS),
];

/// A link of 100 Mbit/s without a mechanism, and with a mechanism at an interval.
fn basic_link(m: &Measured) -> Point<'_> {
    m.at("afan-eccm/none", "none")
}

fn at<'a>(m: &'a Measured, mechanism: &str, interval: u32) -> Point<'a> {
    m.at("afan-eccm/mechanisms", format!("{mechanism} {interval}"))
}

/// A link of 1 Gbit/s.
fn gigabit<'a>(m: &'a Measured, mechanism: &str, interval: u32) -> Point<'a> {
    m.at("afan-eccm/gigabit", format!("{mechanism} {interval}"))
}

/// A quantity by interval.
fn by_interval(intervals: &[u32], of: impl Fn(u32) -> Samples) -> Series {
    series!(for s in intervals, "{s} s": of(*s))
}

/// Shows a metric with the values that the paper prints, without a mechanism and with some.
fn show_printed(m: &Measured, f: &mut Findings, metric: &str) {
    f.shown(m.printed(), "as printed, none", |m| {
        basic_link(m).metric(metric)
    });
    let points = ["efmp 3", "ramaf 3", "ramaf 9", "eccm 3", "eccm 9"];
    f.shown(m.printed(), "as printed", |m| {
        let of = |point| m.at("afan-eccm/mechanisms", point).metric(metric);
        series!(for point in points, "{point}": of(point))
    });
}

/// Local and international bounds of the delay, in seconds.
const LOCAL: f64 = 6.0;
const INTERNATIONAL: f64 = 11.0;

/// Whether two quantities are alike: within a tolerance, or with overlapping intervals. `None` if one was not measured.
fn alike(a: &Samples, b: &Samples, within: impl Fn(f64, f64) -> bool) -> Option<bool> {
    let (a, b) = (a.summary()?, b.summary()?);
    let reach = a.ci95.unwrap_or(0.0) + b.ci95.unwrap_or(0.0);
    Some(within(a.mean, b.mean) || (a.mean - b.mean).abs() <= reach)
}

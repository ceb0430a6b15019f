//! The papers' printed numbers, where a scenario reproduces a table.

use crate::results::{PointResult, RunResult};

/// One row of Tables I and II of the LRU-FQ paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Row {
    /// The router: our variant's name.
    pub(super) variant: &'static str,
    /// UDP flows.
    pub(super) floods: u64,
    /// UDP, Mbit/s.
    pub(super) udp: f64,
    /// Web requests in `seconds`.
    pub(super) fetches: f64,
    /// Long TCP, Mbit/s.
    pub(super) tcp: f64,
    /// Share of TCP.
    pub(super) share: f64,
    /// Mean response time, s.
    pub(super) response: f64,
    /// Mean connection time, s.
    pub(super) connect: f64,
}

/// Length of the paper's measurement: six clients are always busy, and requests times the mean response time is about
/// 3550 client-seconds.
pub(super) const SECONDS: f64 = 600.0;

const fn row(variant: &'static str, floods: u64, numbers: [f64; 6]) -> Row {
    let [udp, fetches, tcp, share, response, connect] = numbers;
    Row {
        variant,
        floods,
        udp,
        fetches,
        tcp,
        share,
        response,
        connect,
    }
}

const ROWS: [Row; 6] = [
    row("fifo", 2, [89.450, 1313.0, 5.883, 0.0617, 2.540, 1.952]),
    row("fifo", 3, [89.796, 1284.0, 5.548, 0.0581, 2.696, 1.935]),
    row("fifo", 4, [89.125, 927.0, 6.212, 0.0651, 3.064, 2.112]),
    row("lru_fq", 2, [45.727, 13915.0, 44.916, 0.4955, 0.255, 0.136]),
    row("lru_fq", 3, [45.733, 13828.0, 44.830, 0.4950, 0.258, 0.131]),
    row("lru_fq", 4, [46.237, 13632.0, 44.514, 0.4905, 0.260, 0.134]),
];

/// Floods of `demo.toml`, which runs one row of the tables, with two more disciplines.
const DEMO_FLOODS: u64 = 3;

/// Whether the scenario reproduces the paper's tables, or a row of them.
pub(super) fn is_table(result: &RunResult) -> bool {
    result.scenario.ends_with("lru-fq/table1.toml") || is_demo(result)
}

fn is_demo(result: &RunResult) -> bool {
    result.scenario.ends_with("lru-fq/demo.toml")
}

/// The paper's row for a point.
pub(super) fn row_of(result: &RunResult, point: &PointResult) -> Option<Row> {
    if !is_table(result) {
        return None;
    }
    let swept = point
        .set
        .get("traffic.flood.flows")
        .and_then(|f| f.as_u64());
    let floods = swept.or_else(|| is_demo(result).then_some(DEMO_FLOODS))?;
    let variant = point.variant.as_deref()?;
    let mut rows = ROWS.iter();
    rows.find(|r| r.variant == variant && r.floods == floods)
        .copied()
}

//! Chang et al., "Software Defined Backpressure Mechanism for Edge Router".
//!
//! - [`arithmetic`]: Table I and Figure 5
//! - [`thresholds`]: Tables II and III
//! - [`queues`]: Figures 1 and 8
//! - [`sizes`]: Figures 7 and 9
//! - [`mod@location`], [`mod@text`]: where packets are lost, and what the text claims

mod arithmetic;
mod location;
mod queues;
mod sizes;
mod text;
mod thresholds;

use super::measured::Measured;
use super::query::{Point, Series, series};
use super::recipe::{Paper, results};
use super::samples::Samples;
use arithmetic::{fig5, table1};
use location::location;
use queues::{fig1, fig8};
use sizes::{fig7, fig9};
use text::text;
use thresholds::{table2, table3};
use weir_base::statistics::percentile;

pub(super) fn paper() -> Paper {
    Paper {
        name: "sd-bm",
        source: "Chang et al., \"Software Defined Backpressure Mechanism for Edge Router\", 2015",
        columns: &[],
        lab: ["40 s", "10 s"], // 30 s are counted
        loads: &[],
        benches: &[],
        results: results!["sd-bm": table1 table2 table3 fig1 fig5 fig7 fig8 fig9 location text],
    }
}

/// The thresholds of the tables.
const THRESHOLDS: [u32; 4] = [20, 30, 40, 50];

/// The ingress devices' queues.
const INGRESSES: [&str; 4] = ["n4", "n5", "n6", "n7"];

const DELAY: &str = "delay_ms_mean";
const JITTER: &str = "jitter_ms";
const LOSS: &str = "loss_ratio";

/// A scheme with a threshold, or RED with a number of packets, at a load of twice the WAN link's rate.
fn tables<'a>(m: &'a Measured, scheme: &str, packets: u32) -> Point<'a> {
    m.at("sd-bm/tables", format!("{scheme} {packets}"))
}

/// A variant at a multiple of the load that the WAN link carries.
fn loaded<'a>(m: &'a Measured, load: f64, variant: &str) -> Point<'a> {
    match load {
        2.0 => m.at("sd-bm/tables", variant),
        _ => m.at(format!("sd-bm/tables-{load:.1}"), variant),
    }
}

/// A quantity by threshold.
fn by_threshold(of: impl Fn(u32) -> Samples) -> Series {
    series!(for l in THRESHOLDS, "{l}": of(l))
}

fn goodput(at: &Point<'_>) -> Samples {
    at.metric("tcp_goodput_mbps") + at.metric("udp_goodput_mbps")
}

/// The value that 95 % of the samples do not exceed (R31).
fn peak(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    percentile(&sorted, 0.95)
}

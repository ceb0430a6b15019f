//! Achanta and Reddy, "Design and Evaluation of a Partial State Router".

mod figures;
mod tables;
mod text;

use super::findings::Findings;
use super::measured::Measured;
use super::query::{Point, Series, pairs, series};
use super::recipe::{Paper, names, results};
use super::samples::Samples;
use crate::scenario::Reading;
use figures::{fig5a, fig5b, fig6, fig7};
use tables::{table1, table2, table3, table4};
use text::text;

pub(super) fn paper() -> Paper {
    Paper {
        name: "lru-fq",
        source: "Achanta and Reddy, \"Design and Evaluation of a Partial State Router\", ICC 2004",
        columns: &[
            ("as printed", Reading::Printed),
            ("packets since admission (R3)", Reading::SinceAdmission),
            ("UDP at 4.66 Mbit/s (R27)", Reading::MeasuredShare),
        ],
        lab: ["40 s", "10 s"], // 30 s are counted
        loads: &[],
        benches: &[],
        results: results!["lru-fq": table1 table2 table3 table4 fig5a fig5b fig6 fig7 text],
    }
}

/// The routers' names in the scenarios, and in the paper.
const LRU: &str = "lru_fq";
const FIFO: &str = "fifo";
const NORMAL: &str = "normal";

const FLOODS: [u32; 3] = [2, 3, 4];

const TCP: &str = "tcp_goodput_mbps";
const UDP: &str = "udp_goodput_mbps";
const SHARE: &str = "tcp_share_ratio";
const FETCHES: &str = "web_fetches_per_s";
const RESPONSE: &str = "web_response_s_mean";
const RESPONSE_DEV: &str = "web_response_s_dev";
const HOGS: &str = "hog_flows.bottleneck.flood";
const KNOWN: &str = "known_flows.bottleneck.flood";

/// The lines of a table: the normal router and LRU-FQ, each with these numbers of flows.
fn lines(flows: &[u32]) -> impl Iterator<Item = (&'static str, u32)> {
    pairs(&[NORMAL, "LRU-FQ"], flows).into_iter()
}

/// The variant of a router of the paper.
fn variant(router: &str) -> &'static str {
    if router == NORMAL { FIFO } else { LRU }
}

/// Floods, long TCP and the web, by the number of floods.
fn flooded(m: &Measured, router: &str, floods: u32, metric: &str) -> Samples {
    m.at("lru-fq/table1", router)
        .and("flows", floods)
        .metric(metric)
}

/// Other readings, with three floods.
fn by_reading(m: &Measured, router: &str, readings: &[&str], metric: &str) -> Series {
    let of = |reading| m.at("lru-fq/readings", format!("{router}, {reading}"));
    series!(for reading in readings, "{reading}": of(reading).metric(metric))
}

/// Readings of the hub, by the Mbit/s that it carries.
const HUBS: [&str; 6] = names![
    "hub at 90" "hub at 92" "as read" "hub at 96" "hub at 98" "hub at 100"
];

/// Shows the normal router with the hub as printed.
fn show_printed(m: &Measured, f: &mut Findings, what: &str, metric: &str) {
    let what = format!("normal router with a hub that carries 100 Mbit/s, {what}");
    let by_floods = |m| series!(for n in FLOODS, "{n} floods": flooded(m, FIFO, n, metric));
    f.shown(m.printed(), &what, by_floods);
}

/// Floods against long TCP, by the number of floods.
fn limited<'a>(m: &'a Measured, variant: &str, floods: u32) -> Point<'a> {
    m.at("lru-fq/fig5a", variant).and("flows", floods)
}

/// UDP's share where a percentage is set for the queue of hogs.
fn udp_share(m: &Measured, percent: u32, floods: u32) -> Samples {
    1.0 - limited(m, &format!("hit {percent}"), floods).metric(SHARE)
}

//! Chang et al., "Software Defined Backpressure Mechanism for Edge Router": what its tables and figures
//! say, and how each claim is decided.
//!
//! - [`arithmetic`]: Table I, Figure 5, and what can be worked out
//! - [`places`]: Figures 1 and 8, and where packets are lost
//! - [`tables`]: Tables II and III
//! - [`figures`]: Figures 7 and 9
//! - [`words`]: what the text claims

mod arithmetic;
mod figures;
mod places;
mod tables;
mod words;

use super::judge::{Samples, shown};
use super::measured::Measured;
use super::recipe::{At, Code};

/// The paper, and what it has in Rust.
pub(super) const TEXT: &str = include_str!("../../../../scenarios/sd-bm/paper.toml");
pub(super) const CODE: &[Code] = &[
    arithmetic::CODE,
    tables::CODE,
    places::CODE,
    figures::CODE,
    words::CODE,
];

/// A load, in units of what the WAN link carries: its name, and the scenario at it.
struct Load {
    name: &'static str,
    scenario: &'static str,
}

const fn load(name: &'static str, scenario: &'static str) -> Load {
    Load { name, scenario }
}

const LOAD_10: Load = load("load 1.0", "sd-bm/tables-1.0");
const LOAD_14: Load = load("load 1.4", "sd-bm/tables-1.4");
const LOAD_18: Load = load("load 1.8", "sd-bm/tables-1.8");
const LOAD_20: Load = load("load 2.0", "sd-bm/tables");

/// Open places of the paper read in other ways, at a load of 2 C0.
const READINGS: &str = "sd-bm/readings";

const LOSS: &str = "loss_ratio";
const DELAY: &str = "delay_ms_mean";
const JITTER: &str = "jitter_ms";

/// The ingress devices' queues.
const INGRESSES: [&str; 4] = ["n4", "n5", "n6", "n7"];

/// A scheme with a threshold at the ingresses: RS-RED as the paper is read, or what is driven by the egress
/// alone, which is ours and decides nothing (R32).
fn rs_red(load: &Load, scheme: &str, threshold: u32) -> At {
    At::new(load.scenario, format!("{scheme} {threshold}"))
}

fn red(load: &Load) -> At {
    At::new(load.scenario, "RED 100")
}

/// Mbit/s of payload, TCP and UDP together.
fn goodput(m: &Measured, at: &At) -> Samples {
    let [tcp, udp] = ["tcp", "udp"].map(|what| m.samples(at, &format!("{what}_goodput_mbps")));
    tcp.with(&udp, |a, b| a + b)
}

/// Which share of all losses the ingresses have.
fn ingress_share(m: &Measured, at: &At) -> Samples {
    let of = |name: &str| m.samples(at, &format!("dropped_payload_packets.{name}"));
    let ingress = INGRESSES
        .map(of)
        .into_iter()
        .reduce(|a, b| a.with(&b, |a, b| a + b))
        .unwrap_or_default();
    let share = ingress.with(&m.samples(at, "lost_packets"), |here, all| {
        here / all.max(1.0)
    });
    share.as_shares()
}

/// What the improvement gives (R32), in words: a quantity by threshold.
fn by_egress(what: &str, quantity: impl Fn(u32) -> Samples) -> String {
    let each = arithmetic::THRESHOLDS.map(|l| format!("{l}: {}", quantity(l).shown()));
    format!("egress-driven, {what} at {}", each.join(", "))
}

/// A quantity under other readings, in words.
fn readings(what: &str, names: &[&str], quantity: impl Fn(&At) -> Samples) -> String {
    let each = names.iter().map(|name| {
        let mean = quantity(&At::new(READINGS, *name)).mean();
        let mean = mean.map_or_else(|| "not measured".to_owned(), shown);
        format!("{name} {mean}")
    });
    let each: Vec<String> = each.collect();
    format!("{what}: {}", each.join(", "))
}

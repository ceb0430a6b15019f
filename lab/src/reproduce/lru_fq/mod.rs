//! Achanta and Reddy, "Design and Evaluation of a Partial State Router": what its tables and figures say,
//! and how each claim is decided.
//!
//! - [`fig5`]: floods held at a set share
//! - [`web`]: Tables I and II
//! - [`cache`]: Figures 6 and 7
//! - [`mixed`]: Tables III and IV
//! - [`words`]: what the text claims

mod cache;
mod fig5;
mod mixed;
mod web;
mod words;

use super::judge::{Samples, shown};
use super::measured::Measured;
use super::recipe::{At, Code};

/// The paper, and what it has in Rust.
pub(super) const TEXT: &str = include_str!("../../../../scenarios/lru-fq/paper.toml");
pub(super) const CODE: &[Code] = &[web::CODE, mixed::CODE, fig5::CODE, cache::CODE, words::CODE];

/// The other readings of open places: for remarks only.
const READINGS: &str = "lru-fq/readings";

const SHARE: &str = "tcp_share_ratio";

/// What all floods have of what they share with long TCP.
fn udp_share(measured: &Measured, at: &At) -> Samples {
    measured.samples(at, SHARE).map(|share| 1.0 - share)
}

/// A metric under other readings, in a sentence.
fn readings(measured: &Measured, what: &str, router: &str, names: &[&str], metric: &str) -> String {
    let value = |name: &&str| {
        let at = At::new(READINGS, format!("{router}, {name}"));
        let mean = measured.samples(&at, metric).mean();
        mean.map(|mean| format!("{name} {}", shown(mean)))
    };
    let values: Vec<String> = names.iter().filter_map(value).collect();
    match values.is_empty() {
        true => format!("{what}: other readings were not run"),
        false => format!("{what}, with three floods: {}", values.join(", ")),
    }
}

const HUB: [&str; 6] = [
    "hub at 90",
    "hub at 92",
    "as read",
    "hub at 96",
    "hub at 98",
    "hub at 100",
];

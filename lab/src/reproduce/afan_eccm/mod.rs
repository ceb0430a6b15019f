//! Domzal et al., "Efficient congestion control mechanism for flow-aware networks": what its tables and
//! figures say, and how each claim is decided.
//!
//! - [`basic`]: the network without a mechanism, and what the other readings make of it
//! - [`figures`]: Figures 7, 8 and 9
//! - [`cost`]: operations on lists
//! - [`words`]: what the text claims

mod basic;
mod cost;
mod figures;
mod words;

use super::judge::Samples;
use super::measured::Measured;
use super::recipe::{At, Code};

/// The paper, and what it has in Rust.
pub(super) const TEXT: &str = include_str!("../../../../scenarios/afan-eccm/paper.toml");
pub(super) const CODE: &[Code] = &[basic::CODE, figures::CODE, cost::CODE, words::CODE];

/// Without a mechanism.
const NONE: &str = "afan-eccm/none";
/// The points of the figures.
const FIGURES: &str = "afan-eccm/mechanisms";
/// What the text compares.
const WORDS: &str = "afan-eccm/text";
/// Tables II and III.
const GIGABIT: &str = "afan-eccm/gigabit";
/// The network without a mechanism, one open place at a time read in another way: for remarks only.
const READINGS: &str = "afan-eccm/readings";

/// Acceptance delay of streams; those never let in count with their age at the end (R10).
const DELAY: &str = "acceptance_delay_s.stream";
/// Goodput of elastic flows since they were let in, without those that the clean-up of that run removed (R29).
const GOODPUT: &str = "goodput_since_kept_mbps.elastic";
/// The same with them.
const GOODPUT_OF_ALL: &str = "goodput_since_accepted_mbps.elastic";
/// Elastic flows on the list, over time.
const LISTED: &str = "known_flows.bottleneck.elastic";
/// The same after each run's clean-up or restoration (R30).
const AFTER_RUNS: &str = "run_after_flows.bottleneck.elastic";

/// The basic network.
fn none(m: &Measured, metric: &str) -> Samples {
    m.samples(&At::new(NONE, "none"), metric)
}

/// A mechanism at an interval, at 100 Mbit/s.
fn at(mechanism: &str, interval: u32) -> At {
    At::new(FIGURES, format!("{mechanism} {interval}"))
}

/// A metric there.
fn of(m: &Measured, mechanism: &str, interval: u32, metric: &str) -> Samples {
    m.samples(&at(mechanism, interval), metric)
}

/// A gauge at the end.
fn gauge(m: &Measured, at: &At, name: &str) -> Samples {
    m.samples(at, &format!("gauge.bottleneck.{name}"))
}

/// One quantity over another, seed by seed; runs that never happened count as one.
fn per(a: &Samples, b: &Samples) -> Samples {
    a.with(b, |a, b| a / b.max(1.0))
}

/// The share of the greatest and the least of several points, seed by seed.
fn spread(points: impl Iterator<Item = Samples>) -> Samples {
    let points: Vec<Samples> = points.collect();
    let over = |choose: fn(f64, f64) -> f64| {
        let first = points.first().cloned().unwrap_or_default();
        points.iter().skip(1).fold(first, |a, b| a.with(b, choose))
    };
    over(f64::max).with(&over(f64::min), |most, least| most / least)
}

/// Whether two are alike: within a share, or their intervals overlap. None if one was not measured.
fn alike(a: &Samples, b: &Samples, within: impl Fn(f64, f64) -> bool) -> Option<bool> {
    let (a, b) = (a.summary()?, b.summary()?);
    let reach = a.ci95.unwrap_or(0.0) + b.ci95.unwrap_or(0.0);
    Some(within(a.mean, b.mean) || (a.mean - b.mean).abs() <= reach)
}

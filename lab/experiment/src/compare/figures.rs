//! The figures of a comparison of disciplines, each read from the metrics of one run: the only definitions of the
//! columns of `weir compare`, `docs/comparison.md`, `docs/attacks.md` and `docs/everyday.md`.

use weir_base::statistics;

use super::load::{Metrics, Read, SMALL_LOST, SMALL_P50, SMALL_P99};

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading.
    pub title: &'static str,
    /// The figure.
    pub read: Read,
}

/// A column.
pub(super) const fn column(title: &'static str, read: Read) -> Column {
    Column { title, read }
}

/// The median of the time of all packets in the queue, in ms: the greater of the two directions.
pub(super) fn queue_p50(metrics: &Metrics) -> Option<f64> {
    queue(metrics, "p50")
}

/// The 99th percentile of the time of all packets in the queue, in ms.
pub(super) fn queue_p99(metrics: &Metrics) -> Option<f64> {
    queue(metrics, "p99")
}

fn queue(metrics: &Metrics, statistic: &str) -> Option<f64> {
    let both = ["", ".reverse"].map(|end| format!("queue_delay_ms_{statistic}.bottleneck{end}"));
    values(metrics, &both.each_ref().map(String::as_str)).reduce(f64::max)
}

/// The median delay of small packets from end to end, in ms.
pub(super) fn small_p50(metrics: &Metrics) -> Option<f64> {
    metrics.get(SMALL_P50).copied()
}

/// The 99th percentile of the delay of small packets from end to end, in ms.
pub(super) fn small_p99(metrics: &Metrics) -> Option<f64> {
    metrics.get(SMALL_P99).copied()
}

/// The share of lost small packets, in per cent.
pub(super) fn small_lost(metrics: &Metrics) -> Option<f64> {
    Some(100.0 * metrics.get(SMALL_LOST)?)
}

/// The 99th percentile of the delay in ms, in which a lost packet counts with the length of the run: the maximum of the
/// flow groups `game`, `call` and `dns`.
pub(super) fn light_p99(metrics: &Metrics) -> Option<f64> {
    let light = ["game", "call", "dns"].map(|name| format!("delay_ms_p99_with_losses.{name}"));
    values(metrics, &light.each_ref().map(String::as_str)).reduce(f64::max)
}

/// The goodput of all traffic, in Mbit/s.
pub(super) fn goodput(metrics: &Metrics) -> Option<f64> {
    sum(
        metrics,
        &["tcp_goodput_mbps", "udp_goodput_mbps", "web_goodput_mbps"],
    )
}

/// The goodput of traffic that reacts to losses, TCP and web, in Mbit/s.
pub(super) fn elastic_goodput(metrics: &Metrics) -> Option<f64> {
    sum(metrics, &["tcp_goodput_mbps", "web_goodput_mbps"])
}

/// Jain's index of long flows; it would mean nothing between long and short flows.
pub(super) fn jain(metrics: &Metrics) -> Option<f64> {
    let index = metrics.get("jain_index").copied();
    index.filter(|_| !metrics.contains_key("transfers"))
}

/// The mean time of short flows, in s.
pub(super) fn short_flows(metrics: &Metrics) -> Option<f64> {
    values(metrics, &["transfer_s_mean", "web_response_s_mean"]).next()
}

/// The 99th percentile of the time of short flows, in s.
pub(super) fn short_flows_p99(metrics: &Metrics) -> Option<f64> {
    values(metrics, &["transfer_s_p99", "web_response_s_p99"]).next()
}

/// The share of its goodput that honest traffic keeps during an attack.
pub(super) fn kept(metrics: &Metrics) -> Option<f64> {
    metrics.get("honest_kept_ratio").copied()
}

/// The share that the most affected kind of honest traffic keeps.
pub(super) fn worst_kept(metrics: &Metrics) -> Option<f64> {
    prefixed(metrics, "kept_ratio.").reduce(f64::min)
}

/// The share that web traffic keeps.
pub(super) fn web_kept(metrics: &Metrics) -> Option<f64> {
    metrics.get("kept_ratio.web").copied()
}

/// The share that web traffic keeps, at most 1: it may exceed 1, because the attack excludes other traffic.
pub(super) fn web_kept_at_most_all(metrics: &Metrics) -> Option<f64> {
    web_kept(metrics).map(|kept| kept.min(1.0))
}

/// The mean of all figures whose names have this prefix.
pub(super) fn mean(metrics: &Metrics, prefix: &str) -> Option<f64> {
    statistics::mean(&prefixed(metrics, prefix).collect::<Vec<_>>())
}

/// All figures whose names have this prefix.
fn prefixed(metrics: &Metrics, prefix: &str) -> impl Iterator<Item = f64> {
    let values = metrics.range(prefix.to_owned()..);
    let values = values.take_while(move |(name, _)| name.starts_with(prefix));
    values.map(|(_, value)| *value)
}

/// The sum of the existing figures with these names.
fn sum(metrics: &Metrics, names: &[&str]) -> Option<f64> {
    values(metrics, names).reduce(|a, b| a + b)
}

/// The existing figures with these names.
fn values(metrics: &Metrics, names: &[&str]) -> impl Iterator<Item = f64> {
    names.iter().filter_map(|name| metrics.get(*name).copied())
}

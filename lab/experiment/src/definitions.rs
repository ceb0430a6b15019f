//! The definitions of all metrics of a run.
//!
//! A new table of metrics is named in [`all`]: a test runs a scenario with three variants, and fails if a metric of the run
//! is not found there, or is found twice.

use crate::added::Added;
use crate::measure::{attack, goodput, losses, queues, transfers, web};
use crate::metrics::{Definition, STATISTIC};
use crate::simulation::{hosts, links, packets, passage};
use crate::{control, cpu};

/// The words that replace `STATISTIC`.
const STATISTICS: [&str; 9] = [
    "mean", "dev", "min", "max", "p10", "p50", "p90", "p95", "p99",
];

/// All metrics, grouped by subject.
pub fn all() -> impl Iterator<Item = &'static Definition> {
    let own = [
        goodput::RUN,
        goodput::TRAFFIC,
        transfers::RUN,
        transfers::SIZE,
        web::RUN,
        losses::RUN,
        losses::COPIES,
        packets::RUN,
        packets::TRAFFIC,
        packets::LOSSES,
        hosts::RUN,
        queues::LINK,
        queues::GAUGE,
        links::LINK,
        links::GAUGE,
        links::CLASS,
        links::TRACKED,
        links::HOGS,
        passage::TRAFFIC,
        passage::LINK,
        attack::RUN,
        attack::TRAFFIC,
    ];
    let others = [control::GAUGE, cpu::LAB];
    let tables = own.into_iter().chain(METRICS.all().iter().copied());
    tables.chain(others).flatten()
}

/// The metrics of other crates.
pub(crate) static METRICS: Added<&'static [Definition]> = Added::new();

/// The definition of the metric called `name`.
pub fn definition(name: &str) -> Option<&'static Definition> {
    all().find(|metric| is(metric.name, name))
}

/// Whether a pattern matches a name: the same words before the first dot, and either both have a suffix or neither.
fn is(pattern: &str, name: &str) -> bool {
    let parts = |text: &str| {
        let (base, of) = text.split_once('.').unwrap_or((text, ""));
        (base.to_owned(), !of.is_empty())
    };
    let ((pattern, of_pattern), (name, of_name)) = (parts(pattern), parts(name));
    let base = match pattern.split_once(STATISTIC) {
        Some((before, after)) => STATISTICS
            .iter()
            .any(|word| name == format!("{before}{word}{after}")),
        None => pattern == name,
    };
    base && of_pattern == of_name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RunOptions, run};

    /// A scenario with every kind of traffic, transfers, an attack, and disciplines that track flows.
    const SCENARIO: &str = r#"
title = "Everything that is measured"
duration = "4 s"
warm_up = "500 ms"
[router.r]
[host.a]
[host.b]
[link.access]
ends = ["a", "r"]
rate = "50 Mbit"
[link.out]
ends = ["r", "b"]
rate = "5 Mbit"
delay = "5 ms"
[traffic.long]
kind = "tcp"
from = "a"
to = "b"
[traffic.files]
kind = "tcp"
from = "a"
to = "b"
arrivals = "exponential 0.2 s"
size = "20 kB"
[traffic.flood]
kind = "udp"
from = "a"
to = "b"
rate = "4 Mbit"
start = "1 s"
stop = "2 s"
hog = true
[traffic.web]
kind = "web"
from = "a"
to = "b"
clients = 2
[[variant]]
name = "fifo"
[[variant]]
name = "lru_fq"
set = { "link.out.discipline" = { kind = "lru_fq" } }
[[variant]]
name = "fan"
set = { "link.out.discipline" = { kind = "fan", mechanism = "efm" } }
"#;

    #[test]
    fn every_metric_of_a_run_is_defined_once() {
        let options = RunOptions {
            scenario: "metrics.toml".into(),
            text: Some(SCENARIO.to_owned()),
            runs: Some(1),
            ..RunOptions::default()
        };
        let result = run(&options).unwrap();
        let runs = result.points.iter().flat_map(|point| &point.runs);
        for name in runs.flat_map(|run| run.metrics.keys()) {
            let found = all().filter(|metric| is(metric.name, name)).count();
            assert_eq!(found, 1, "{name} must be described once");
        }
    }

    #[test]
    fn names_match_their_patterns() {
        let name = |name| definition(name).map(|metric| metric.name);
        assert_eq!(name("loss_ratio"), Some("loss_ratio"));
        assert_eq!(name("loss_ratio.long"), Some("loss_ratio.TRAFFIC"));
        assert_eq!(
            name("delay_ms_p99.long"),
            Some("delay_ms_STATISTIC.TRAFFIC")
        );
        assert_eq!(name("gauge.out.full"), Some("gauge.LINK.GAUGE"));
        assert_eq!(name("delay_ms_p98.long"), None);
    }
}

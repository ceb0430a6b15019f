//! Domzal et al., "Efficient congestion control mechanism for flow-aware networks": what its tables and
//! figures say, and how each claim is decided.
//!
//! - [`basic`]: the network without a mechanism, and what the other readings make of it
//! - [`figures`]: Figures 7, 8 and 9
//! - [`tables`]: Tables II and III, at 1 Gbit/s
//! - [`cost`]: operations on lists
//! - [`words`]: what the text claims

mod basic;
mod cost;
mod figures;
mod tables;
mod words;

use super::judge::Samples;
use super::measured::Measured;
use super::recipe::{At, Batch, Paper};

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "afan-eccm",
    source: "Domżał, Wójcik, Chołda, Stankiewicz and Jajszczyk, \"Efficient congestion control mechanism for \
             flow-aware networks\", International Journal of Communication Systems 2015",
    has_two_columns: true,
    results: &[
        &basic::BASIC,
        &figures::FIG7,
        &figures::FIG8,
        &figures::FIG9,
        &tables::TABLE2,
        &tables::TABLE3,
        &cost::COST,
        &words::TEXT,
    ],
};

/// A scenario of this paper.
macro_rules! batch {
    ($name:literal, $file:literal) => {
        Batch {
            name: $name,
            file: concat!("afan-eccm/", $file, ".toml"),
            text: include_str!(concat!("../../../../scenarios/afan-eccm/", $file, ".toml")),
            set: &[],
            only: &[],
            printed: PRINTED,
            quick: ["60 s", "20 s"],
        }
    };
}

/// The calibrated reading R11, and what the paper prints, at 100 Mbit/s and at 1 Gbit/s.
const PRINTED: &[(&str, &str)] = &[
    ("rate = \"1 Gbit\" # calibrated (R11)", "rate = \"10 Mbit\""),
    ("delay = \"0.1 ms\" # calibrated (R11)", "delay = \"1 ms\""),
    ("delay = \"1 ms\" # calibrated (R11)", "delay = \"10 ms\""),
    (
        "rate = \"10 Gbit\" # calibrated (R11)",
        "rate = \"100 Mbit\"",
    ),
    ("delay = \"0.01 ms\" # calibrated (R11)", "delay = \"1 ms\""),
    ("delay = \"0.2 ms\" # calibrated (R11)", "delay = \"10 ms\""),
    (
        "size = \"pareto 1.5 1875 MB\" # calibrated (R11)",
        "size = \"pareto 1.5 26.25 MB\"",
    ),
];

/// Without a mechanism.
const NONE: Batch = Batch {
    only: &["none"],
    ..batch!("none", "mechanisms")
};
/// The points of the figures.
const FIGURES: Batch = Batch {
    only: &[
        "efmp 1", "efmp 2", "efmp 3", "efmp 4", "efmp 6", "ramaf 3", "ramaf 6", "ramaf 9",
        "ramaf 12", "ramaf 15", "eccm 3", "eccm 6", "eccm 9", "eccm 12", "eccm 15",
    ],
    ..batch!("figures", "mechanisms")
};
/// What the text compares.
const WORDS: Batch = Batch {
    only: &[
        "pfq 3",
        "pfq 6",
        "pdrr 3",
        "pdrr 6",
        "efm 3",
        "raef 3",
        "rbaef 3",
        "rpaef 3",
        "literal 3",
    ],
    ..batch!("words", "mechanisms")
};
/// Tables II and III.
const GIGABIT: Batch = Batch {
    quick: ["24 s", "10 s"],
    ..batch!("gigabit", "gigabit")
};
/// One of R11's values at a time as printed, for remarks: access links of 10 Mbit/s.
const SLOW_ACCESS: Batch = Batch {
    set: &[
        ("link.elastic.rate", "10 Mbit"),
        ("link.elastic_sink.rate", "10 Mbit"),
        ("link.stream.rate", "10 Mbit"),
        ("link.stream_sink.rate", "10 Mbit"),
    ],
    only: &["none"],
    printed: &[],
    ..batch!("access as printed", "mechanisms")
};
/// Transfers of 210 Mbit.
const SMALL: Batch = Batch {
    set: &[("traffic.elastic.size", "pareto 1.5 26.25 MB")],
    only: &["none"],
    printed: &[],
    ..batch!("volumes as printed", "mechanisms")
};
/// Delays of 1 ms and 10 ms.
const FAR: Batch = Batch {
    set: &[
        ("link.elastic.delay", "1 ms"),
        ("link.elastic_sink.delay", "1 ms"),
        ("link.stream.delay", "1 ms"),
        ("link.stream_sink.delay", "1 ms"),
        ("link.bottleneck.delay", "10 ms"),
    ],
    only: &["none"],
    printed: &[],
    ..batch!("delays as printed", "mechanisms")
};
/// R10: streams that start at 20 s.
const LATE: Batch = Batch {
    set: &[("traffic.stream.start", "20 s")],
    only: &["none"],
    printed: &[],
    ..batch!("streams from 20 s", "mechanisms")
};
/// A window of 20 packets, ns-2's default.
const WINDOW: Batch = Batch {
    set: &[("traffic.elastic.receive_window", "20 kB")],
    only: &["none"],
    printed: &[],
    ..batch!("window of 20 packets", "mechanisms")
};
/// R11: a buffer of 1000 packets.
const BUFFER: Batch = Batch {
    set: &[
        ("link.bottleneck.discipline.limit", "1000 packets"),
        ("link.bottleneck.discipline.min_threshold", "0 packets"),
        ("link.bottleneck.discipline.max_threshold", "0 packets"),
    ],
    only: &["none"],
    printed: &[],
    ..batch!("buffer of 1000 packets", "mechanisms")
};

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
    m.samples(&At::new(NONE.name, "none"), metric)
}

/// A mechanism at an interval, at 100 Mbit/s.
fn at(mechanism: &str, interval: u32) -> At {
    At::new(FIGURES.name, format!("{mechanism} {interval}"))
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

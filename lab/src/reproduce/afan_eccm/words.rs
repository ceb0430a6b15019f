//! What the text claims, without a table or figure of its own.

use super::basic::remark;
use super::{DELAY, GIGABIT, GOODPUT, LISTED, WORDS, alike, at, gauge, none, of, per};
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Code};

const FAIR_RATE_MEAN: &str = "gauge_mean.bottleneck.fair_rate";
const FAIR_RATE_DEV: &str = "gauge_dev.bottleneck.fair_rate";
const OUTAGE: &str = "outage_s_max.elastic";
/// IP bits a second of a stream, and the share of its packets that is payload.
const STREAM_KBPS: f64 = 80.0;
const STREAM_PAYLOAD: f64 = 0.72;

pub(super) const CODE: Code = Code {
    checks: &[
        ("text.1", alike_on_all),
        ("text.2", |m, f| {
            let metric = "run_let_in_ratio.bottleneck.stream";
            for i in [3, 6] {
                let what = format!("{i} s, share of waiting streams let in");
                // Where no stream waits at any run of a seed, the metric is not there.
                let let_in = of(m, "eccm", i, metric);
                match let_in.mean() {
                    Some(_) => f.at_least(&what, &let_in, 0.99),
                    None => f.nothing(format!("{i} s: in some seeds no stream waited at a run")),
                }
            }
        }),
        ("text.4", |m, f| {
            for i in [3, 6] {
                let growth = of(m, "eccm", i, "run_growth_flows.bottleneck.elastic");
                f.at_most(
                    &format!("more elastic flows 1 s after a run, {i} s"),
                    &growth,
                    1.0,
                );
            }
            remark(m, f, "run_growth_flows.bottleneck.elastic");
        }),
        ("text.5", |m, f| {
            for (mechanism, i) in [("ramaf", 3), ("ramaf", 6), ("eccm", 3), ("eccm", 6)] {
                let [large, small] = scaled(m, mechanism, i);
                let ratio = large.with(&small, |large, small| large / small);
                f.at_most(
                    &format!("delay, {mechanism} {i} s, 1 Gbit/s to 100"),
                    &ratio,
                    1.25,
                );
            }
        }),
        ("text.6", |m, f| {
            f.less(
                "flows on the list, basic and EFM",
                &none(m, LISTED),
                &word(m, "efm", LISTED),
            );
            let rate = word(m, "efm", FAIR_RATE_MEAN).map(|bps| bps / 1e6);
            f.at_most("mean fair rate under EFM, Mbit/s", &rate, 5.0);
        }),
        ("text.7", |m, f| {
            let removed = |mechanism| word_per_run(m, mechanism, "removed");
            f.less(
                "flows removed in a run, RAEF and EFM",
                &removed("raef"),
                &removed("efm"),
            );
        }),
        ("text.9", |m, f| {
            let let_in = |mechanism| word_per_run(m, mechanism, "accepted_in_runs");
            f.less(
                "flows let in by a run, RPAEF and RAEF",
                &let_in("rpaef"),
                &let_in("raef"),
            );
            let runs = gauge(m, &at("ramaf", 3), "runs");
            let ramaf = per(&gauge(m, &at("ramaf", 3), "accepted_in_runs"), &runs);
            f.less(
                "flows let in by a run, RAMAF and RPAEF",
                &ramaf,
                &let_in("rpaef"),
            );
        }),
        ("text.10", |m, f| {
            let mbps = |samples: Samples| samples.map(|bps| bps / 1e6);
            let ramaf = mbps(of(m, "ramaf", 3, FAIR_RATE_DEV));
            for other in ["efm", "raef"] {
                let what = format!("deviation of the fair rate, Mbit/s, RAMAF and {other}");
                f.less(&what, &ramaf, &mbps(word(m, other, FAIR_RATE_DEV)));
            }
        }),
        ("text.11", |m, f| {
            let removed = |mechanism| gauge(m, &at(mechanism, 3), "removed_established");
            f.above("established flows removed by EFMP", &removed("efmp"), 0.0);
            f.at_most("established flows removed by ECCM", &removed("eccm"), 0.0);
            f.remark(format!(
                "longest outage, s, of EFMP {}, of ECCM {}, without a mechanism {}",
                of(m, "efmp", 3, OUTAGE).shown(),
                of(m, "eccm", 3, OUTAGE).shown(),
                none(m, OUTAGE).shown()
            ));
        }),
        ("text.12", |_, f| {
            // max_p 0.02 at half of the way from min_th to max_th.
            let p = 0.02 * (6500.0 - 4000.0) / (9000.0 - 4000.0);
            let gap = 1.0 / (2.0 * p) + 0.5;
            f.is(
                format!("1 / (2 x {p}) + 1/2 = {gap}"),
                (gap - 50.5_f64).abs() <= 1.0,
            );
        }),
        ("text.14", |m, f| {
            for mechanism in ["eccm", "ramaf"] {
                for i in [3, 6] {
                    let payload = of(m, mechanism, i, "goodput_since_accepted_mbps.stream");
                    let rate = payload.map(|mbps| 1000.0 * mbps / STREAM_PAYLOAD);
                    let what = format!("{mechanism} {i} s, rate since let in, kbit/s");
                    f.at_least(&what, &rate, 79.0);
                    let lost = rate.map(|kbps| 1.0 - kbps / STREAM_KBPS);
                    f.at_most(
                        &format!("{mechanism} {i} s, loss since let in"),
                        &lost,
                        0.001,
                    );
                }
            }
        }),
        ("text.15", |m, f| {
            let runs = |at: &At| gauge(m, at, "runs");
            let literal = At::new(WORDS, "literal 3");
            f.less(
                "runs, literal and by timers",
                &runs(&literal),
                &runs(&at("eccm", 3)),
            );
            let delay = |at: &At| m.samples(at, DELAY).shown();
            let congested = |at: &At| m.samples(at, "gauge_mean.bottleneck.congested").shown();
            f.remark(format!(
                "delay, s, literal {}, by timers {}; share of time congested {} and {}",
                delay(&literal),
                delay(&at("eccm", 3)),
                congested(&literal),
                congested(&at("eccm", 3))
            ));
        }),
    ],
    remarks: &[],
    figures: &[],
};

/// The delay at 1 Gbit/s and that at 100 Mbit/s.
fn scaled(m: &Measured, mechanism: &str, interval: u32) -> [Samples; 2] {
    let gigabit = At::new(GIGABIT, format!("{mechanism} {interval}"));
    [
        m.samples(&gigabit, DELAY),
        of(m, mechanism, interval, DELAY),
    ]
}

fn word(m: &Measured, mechanism: &str, metric: &str) -> Samples {
    m.samples(&At::new(WORDS, format!("{mechanism} 3")), metric)
}

fn word_per_run(m: &Measured, mechanism: &str, name: &str) -> Samples {
    let at = At::new(WORDS, format!("{mechanism} 3"));
    per(&gauge(m, &at, name), &gauge(m, &at, "runs"))
}

fn alike_on_all(m: &Measured, f: &mut Findings) {
    for i in [3, 6] {
        for (what, metric) in [("delay, s", DELAY), ("goodput, Mbit/s", GOODPUT)] {
            let afan = of(m, "eccm", i, metric);
            for scheduler in ["pfq", "pdrr"] {
                let at = At::new(WORDS, format!("{scheduler} {i}"));
                let other = m.samples(&at, metric);
                let close = |a: f64, b: f64| (a / b - 1.0).abs() <= 0.25;
                let shown = (other.shown(), afan.shown());
                let said = format!("{what}, {i} s, {scheduler} {}, afan {}", shown.0, shown.1);
                f.is_if_known(said, alike(&other, &afan, close));
            }
        }
    }
}

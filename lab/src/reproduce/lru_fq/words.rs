//! What the text claims, without a table or figure of its own.

use super::fig5::{self, missed};
use super::web::TABLE1_RUNS;
use super::{SHARE, udp_share};
use crate::reproduce::judge::{Findings, Samples};
use crate::reproduce::measured::Measured;
use crate::reproduce::recipe::{At, Code};

pub(super) const WEB_RUNS: &str = "lru-fq/text-web";
const LIMIT_RUNS: &str = "lru-fq/text-limit";
const FLOODS_RUNS: &str = "lru-fq/text-floods";
const CBQ_RUNS: &str = "lru-fq/text-cbq";
const VICTIM_RUNS: &str = "lru-fq/text-victim";

const RESPONSE: &str = "web_response_s_mean";

pub(super) const CODE: Code = Code {
    checks: &[
        ("text.1", |m, f| {
            mends(m, f, &["cache 24"]);
            let others = ["cache 48", "cache 24, 10 Mbit/s", "cache 48, 10 Mbit/s"]
                .map(|variant| format!("{variant} {}", excess(m, variant).shown()));
            f.remark(format!("excess with others: {}", others.join(", ")));
        }),
        ("text.2", |m, f| {
            mends(m, f, &["pin"]);
            f.remark(format!(
                "pinned from 10 Mbit/s on: {}",
                excess(m, "pin at 10 Mbit/s").shown()
            ));
        }),
        ("text.4", split_by_policy),
        ("text.7", identified),
        ("text.10", keeps_out),
        ("text.11", holds_floods),
        ("text.12", delay_and_jitter),
        ("text.14", by_destination),
    ],
    remarks: &[
        ("text.3", |m, f| {
            f.remark(format!("at 1:2 {}", web(m, "1:2", RESPONSE).shown()))
        }),
        ("text.6", by_protocol),
    ],
    figures: &[],
};

/// By how much four floods exceed 30 %.
fn excess(m: &Measured, variant: &'static str) -> Samples {
    udp_share(m, &At::new(LIMIT_RUNS, variant)).map(|share| share - 0.30)
}

fn mends(m: &Measured, f: &mut Findings, remedies: &[&'static str]) {
    for remedy in remedies {
        let what = format!("4 floods at 30 %, excess of UDP with {remedy} and with a cache of 12");
        f.less(&what, &excess(m, remedy), &excess(m, "cache 12"));
        f.at_most(
            &format!("excess of UDP with {remedy}"),
            &excess(m, remedy),
            0.05,
        );
    }
}

fn web(m: &Measured, variant: &'static str, metric: &str) -> Samples {
    m.samples(&At::new(WEB_RUNS, variant), metric)
}

/// The slope of a straight line through the UDP shares of targets of 30 % to 70 %, for each seed.
fn split_by_policy(m: &Measured, f: &mut Findings) {
    for floods in [2, 3, 4] {
        let targets = [30, 40, 50, 60, 70];
        // Least squares: sum of (x - mean x) y over sum of (x - mean x)^2 = 0.1, and x - mean x is a tenth of:
        let weights = [-2.0, -1.0, 0.0, 1.0, 2.0];
        let mut terms = targets.iter().zip(weights).map(|(percent, weight)| {
            udp_share(m, &fig5::at(*percent, floods)).map(|share| weight * share)
        });
        let first = terms.next().unwrap_or_default();
        let slope = terms.fold(first, |sum, term| sum.with(&term, |a, b| a + b));
        f.between(&format!("{floods} floods, slope"), &slope, [0.85, 1.15]);
    }
}

fn by_protocol(m: &Measured, f: &mut Findings) {
    let by_protocol = ["apart", "among"].map(|place| {
        let at = At::new(CBQ_RUNS, format!("protocol {place}"));
        format!("{place} {}", m.samples(&at, SHARE).shown())
    });
    f.remark(format!(
        "not judged: TCP share with classes by protocol {}",
        by_protocol.join(", ")
    ));
}

fn floods(floods: u32) -> At {
    At::new(FLOODS_RUNS, "hit 50").and("flows", floods)
}

fn identified(m: &Measured, f: &mut Findings) {
    for count in 1..=3 {
        let found = missed(m, &floods(count), count).map(|missed| 1.0 - missed);
        f.at_least(
            &format!("{count} floods, share of packets to the hit queue"),
            &found,
            0.9,
        );
    }
}

fn holds_floods(m: &Measured, f: &mut Findings) {
    for count in 1..=3 {
        let known = m.samples(&floods(count), "known_flows.bottleneck.flood");
        let present = known.map(|known| known / f64::from(count));
        f.at_least(
            &format!("{count} floods, share of samples in the cache"),
            &present,
            0.9,
        );
        let tcp = m.samples(&floods(count), "known_flows.bottleneck.long");
        f.remark(format!(
            "with {count} floods {} of 12 entries are long TCP",
            tcp.shown()
        ));
    }
}

fn keeps_out(m: &Measured, f: &mut Findings) {
    let share = |variant| {
        let [hit, miss] = ["1", "0"]
            .map(|class| web(m, variant, &format!("class_packets.bottleneck.web.{class}")));
        hit.with(&miss, |hit, miss| hit / (hit + miss)).as_shares()
    };
    f.at_most("web packets from the hit queue, share", &share("1:1"), 0.05);
    f.less(
        "the same, and with every flow admitted at once",
        &share("1:1"),
        &share("all"),
    );
}

fn delay_and_jitter(m: &Measured, f: &mut Findings) {
    for floods in [2, 3, 4] {
        let both = |metric: &str| {
            ["fifo", "lru_fq"]
                .map(|router| m.samples(&At::new(TABLE1_RUNS, router).and("flows", floods), metric))
        };
        for (name, metric, factor) in [
            ("mean response", RESPONSE, 5.0),
            ("deviation of response", "web_response_s_dev", 2.0),
        ] {
            let [normal, ours] = both(metric);
            f.times(
                &format!("{floods} floods, {name}, normal to LRU-FQ, s"),
                &normal,
                &ours,
                factor,
            );
        }
    }
}

fn by_destination(m: &Measured, f: &mut Findings) {
    let share = |key: &str| {
        let at = At::new(VICTIM_RUNS, format!("by {key}"));
        let [hit, miss] = ["1", "0"]
            .map(|class| m.samples(&at, &format!("class_packets.bottleneck.flood.{class}")));
        hit.with(&miss, |hit, miss| hit / (hit + miss)).as_shares()
    };
    f.at_least(
        "attack packets from the hit queue, by destination",
        &share("destination"),
        0.8,
    );
    f.at_most(
        "attack packets from the hit queue, by 5-tuple",
        &share("flow"),
        0.5,
    );
    let network = share("destination_prefix");
    f.remark(format!("by destination network {}", network.shown()));
}

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
const SFQ_RUNS: &str = "lru-fq/text-sfq";
const CBQ_RUNS: &str = "lru-fq/text-cbq";
const VICTIM_RUNS: &str = "lru-fq/text-victim";
const STATE_RUNS: &str = "lru-fq/text-state";

const RESPONSE: &str = "web_response_s_mean";
const FETCHES: &str = "web_fetches_per_s";

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
        ("text.3", weights_help_the_web),
        ("text.4", split_by_policy),
        ("text.5", better_than_sfq),
        ("text.6", better_than_cbq),
        ("text.7", identified),
        ("text.8", fixed_state),
        ("text.10", keeps_out),
        ("text.11", holds_floods),
        ("text.12", delay_and_jitter),
        ("text.14", by_destination),
    ],
    remarks: &[],
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

fn weights_help_the_web(m: &Measured, f: &mut Findings) {
    let response = |variant| web(m, variant, RESPONSE);
    f.less(
        "mean response at 1:4 and at 1:1, s",
        &response("1:4"),
        &response("1:1"),
    );
    f.not_more(
        "mean response at 1:9 and at 1:4, s",
        &response("1:9"),
        &response("1:4"),
    );
    f.remark(format!("at 1:2 {}", response("1:2").shown()));
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

fn compare(m: &Measured, f: &mut Findings, what: &str, [ours, other]: [&At; 2]) {
    for (name, metric) in [("TCP share", SHARE), ("web fetches a second", FETCHES)] {
        let [ours, other] = [ours, other].map(|at| m.samples(at, metric));
        f.less(
            &format!("{what}, {name} of the other and of LRU-FQ"),
            &other,
            &ours,
        );
    }
}

fn better_than_sfq(m: &Measured, f: &mut Findings) {
    for ports in [4, 100] {
        for buckets in [16, 128] {
            let at = |variant: String| At::new(SFQ_RUNS, variant).and("flows", ports);
            let [ours, other] = [at("lru_fq".into()), at(format!("sfq {buckets}"))];
            let what = format!("{ports} ports, SFQ with {buckets} queues");
            compare(m, f, &what, [&ours, &other]);
        }
    }
}

fn better_than_cbq(m: &Measured, f: &mut Findings) {
    for place in ["apart", "among"] {
        let at = |router: &str| At::new(CBQ_RUNS, format!("{router} {place}"));
        let what = format!("floods {place}");
        compare(m, f, &what, [&at("lru_fq"), &at("cbq")]);
    }
    f.remark(
        "`apart`: the floods' network is a class of its own, so classes hold them back by construction; \
         `among`: the floods come from the network of the TCP senders",
    );
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

fn fixed_state(m: &Measured, f: &mut Findings) {
    let bytes = |flows: u32| {
        const HOSTS: u32 = 5; // that send as many each
        let at = At::new(STATE_RUNS, "").and("flows", flows / HOSTS);
        m.samples(&at, "state_bytes.bottleneck")
    };
    for flows in [1000, 100_000] {
        let what = format!("{flows} flows and 10, bytes of state");
        f.within(&what, &bytes(flows), &bytes(10), 0.0);
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

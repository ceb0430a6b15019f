//! Claims of the text.

use super::{
    FETCHES, FIFO, FLOODS, HOGS, KNOWN, LRU, RESPONSE, RESPONSE_DEV, SHARE, flooded, udp_share,
};
use crate::reproduce::findings::{Findings, check, show};
use crate::reproduce::measured::Measured;
use crate::reproduce::query::{Point, pairs};
use crate::reproduce::recipe::{Recipe, claim};
use crate::reproduce::samples::Samples;

/// A remedy for four floods: UDP's share above the 30 % that are set.
fn remedied(m: &Measured, remedy: &str) -> Samples {
    1.0 - m.at("lru-fq/text-limit", remedy).metric(SHARE) - 0.3
}

/// The remedy mends what a cache of 12 does not.
fn mends(m: &Measured, f: &mut Findings, remedy: &str) {
    check!(f, "4 floods at 30 %, excess of UDP with {remedy} and with a cache of 12":
        less(remedied(m, remedy), remedied(m, "cache 12")));
    check!(f, "excess of UDP with {remedy}": at_most(remedied(m, remedy), 0.05));
}

/// The share of a flow group's packets that were sent from the hit queue.
fn hit_share(at: &Point<'_>, traffic: &str) -> Samples {
    let [miss, hit] =
        [0, 1].map(|class| at.metric(format!("class_packets.bottleneck.{traffic}.{class}")));
    hit.clone() / (hit + miss)
}

pub(super) fn text(r: &mut Recipe) {
    r.title = "What the text claims";
    r.notes = &[
        "Readings as in lru-fq/fig5a and lru-fq/table1.",
        "The state of LRU-FQ is compared with the truth, which the simulation knows: flows in the cache and flows \
         treated as hogs are sampled ten times a second. For a flood of an even rate, the share of its packets in \
         the hit queue equals the share of time in which it is a hog.",
    ];
    r.scenarios = &[
        "lru-fq/fig5a",
        "lru-fq/table1",
        "lru-fq/text-web",
        "lru-fq/text-limit",
        "lru-fq/text-floods",
        "lru-fq/text-sfq",
        "lru-fq/text-cbq",
        "lru-fq/text-victim",
        "lru-fq/text-state",
    ];
    remedies(r);
    compared(r);
    known(r);
}

fn remedies(r: &mut Recipe) {
    claim(r, "text.1", "A larger cache mends the 4-flood case").measured(|m, f| {
        mends(m, f, "cache 24");
        let others = ["cache 48", "cache 24, 10 Mbit/s", "cache 48, 10 Mbit/s"];
        show!(f, m, "excess with others": for other in others, "{other}": remedied(m, other));
    });
    claim(r, "text.2", "Pinning mends the 4-flood case").measured(|m, f| {
        mends(m, f, "pin");
        show!(f, m, "pinned from 10 Mbit/s on": remedied(m, "pin at 10 Mbit/s"));
    });
    let text = "Weighting the miss queue above the hit queue lowers web delay";
    claim(r, "text.3", text).measured(|m, f| {
        let at = |weights| m.at("lru-fq/text-web", weights).metric(RESPONSE);
        check!(f, "mean response at 1:4 and at 1:1, s": less(at("1:4"), at("1:1")));
        check!(f, "mean response at 1:9 and at 1:4, s": not_more(at("1:9"), at("1:4")));
        show!(f, m, "at 1:2": at("1:2"));
    });
    claim(r, "text.4", "Weights set the bandwidth split by policy").calibrated(|m, f| {
        for n in FLOODS {
            let udp = |percent| udp_share(m, percent, n);
            let slope = 2.0 * udp(70) + udp(60) - udp(40) - 2.0 * udp(30);
            check!(f, "{n} floods, slope of the UDP share over targets of 30 % to 70 %":
                between(slope, [0.85, 1.15]));
        }
    });
}

const SHARE_AND_FETCHES: [(&str, &str); 2] =
    [("TCP share", SHARE), ("web fetches a second", FETCHES)];

fn compared(r: &mut Recipe) {
    let text = "Under DoS much better than stochastic fair queueing (cited)";
    claim(r, "text.5", text).measured(|m, f| {
        for (ports, buckets) in pairs(&[4, 100], &[16, 128]) {
            for (name, metric) in SHARE_AND_FETCHES {
                let of = |variant: &str| {
                    let at = m.at("lru-fq/text-sfq", variant).and("flows", ports);
                    at.metric(metric)
                };
                check!(f, "{ports} ports, SFQ with {buckets} queues, {name} of the other and of \
                           LRU-FQ":
                    less(of(&format!("sfq {buckets}")), of(LRU)));
            }
        }
    });
    let text = "Under DoS much better than class-based queueing (cited)";
    claim(r, "text.6", text).measured(|m, f| {
        let of = |variant: String, metric| m.at("lru-fq/text-cbq", variant).metric(metric);
        for (place, (name, metric)) in pairs(&["apart", "among"], &SHARE_AND_FETCHES) {
            let [cbq, lru] = ["cbq", LRU].map(|queue| of(format!("{queue} {place}"), metric));
            check!(f, "floods {place}, {name} of the other and of LRU-FQ": less(cbq, lru));
        }
        show!(f, m, "not decided: TCP share with classes by protocol":
            for place in ["apart", "among"], "{place}": of(format!("protocol {place}"), SHARE));
        f.remark(
            "`apart`: the floods' network is a class of its own, so classes hold them back by \
             construction; `among`: the floods come from the network of the TCP senders",
        );
    });
}

fn known(r: &mut Recipe) {
    fn of(m: &Measured, floods: u32, metric: &str) -> Samples {
        m.at("lru-fq/text-floods", "hit 50")
            .and("flows", floods)
            .metric(metric)
    }
    let text = "Attack flows are identified with high probability";
    claim(r, "text.7", text).measured(|m, f| {
        check!(f, for n in [1, 2, 3], "{n} floods, share of packets to the hit queue":
            at_least(of(m, n, HOGS) / f64::from(n), 0.9));
    });
    claim(r, "text.8", "State is fixed whatever the flow count").measured(|m, f| {
        let bytes = |flows: u32| {
            let at = m.at("lru-fq/text-state", "").and("flows", flows);
            at.metric("state_bytes.bottleneck")
        };
        check!(f, for (flows, each) in [(1000, 200), (100_000, 20_000)],
            "{flows} flows, bytes of state for each (the addresses, ports and protocol of a flow are \
             13)":
                at_most(bytes(each) / f64::from(flows), 12.9));
        f.remark(
            "a test of all disciplines compares the reported size of their state with the allocated memory",
        );
    });
    let why = "a bench: a simulation has no processor. `weir bench discipline` measures \
        nanoseconds per packet";
    claim(r, "text.9", "Packet scheduling is O(1)").not_run(why);
    let text = "Random admission keeps short flows out; the threshold prunes the rest";
    claim(r, "text.10", text).measured(|m, f| {
        let web = |variant| hit_share(&m.at("lru-fq/text-web", variant), "web").into_shares();
        check!(f, "web packets from the hit queue, share": at_most(web("1:1"), 0.05));
        check!(f, "the same, and with every flow admitted at once": less(web("1:1"), web("all")));
    });
    claim(r, "text.11", "Cache holds mainly high-rate flows").measured(|m, f| {
        check!(f, for n in [1, 2, 3], "{n} floods, share of samples in the cache":
            at_least(of(m, n, KNOWN) / f64::from(n), 0.9));
        show!(f, m, "long TCP flows among the 12 entries": for n in [1, 2, 3], "{n} floods":
            of(m, n, "known_flows.bottleneck.long"));
    });
    claim(r, "text.12", "Web gets lower delay and less jitter at once").measured(|m, f| {
        for (what, metric, factor) in [("mean", RESPONSE, 5.0), ("deviation of", RESPONSE_DEV, 2.0)]
        {
            check!(f, for n in FLOODS, "{n} floods, {what} response, normal to LRU-FQ, s":
                times(flooded(m, FIFO, n, metric), flooded(m, LRU, n, metric), factor));
        }
    });
    let why = "for the lab and the bench: small packets cost processor time, which a simulation does not have. \
               `weir bench discipline` and `weir bench forwarding` measure it";
    let text = "Aggregate also scales with packet size (experiment not shown)";
    claim(r, "text.13", text).not_run(why);
    let text = "Keying the cache by destination alone finds a DoS on one network (outlook)";
    claim(r, "text.14", text).measured(|m, f| {
        let by = |key: &str| {
            hit_share(&m.at("lru-fq/text-victim", format!("by {key}")), "flood").into_shares()
        };
        check!(f, "attack packets from the hit queue, by destination":
            at_least(by("destination"), 0.8));
        check!(f, "attack packets from the hit queue, by 5-tuple": at_most(by("flow"), 0.5));
        show!(f, m, "by destination network": by("destination_prefix"));
    });
}

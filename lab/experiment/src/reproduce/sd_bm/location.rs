//! Where packets are lost.

use super::{INGRESSES, THRESHOLDS, by_threshold, loaded, tables};
use crate::reproduce::findings::{check, show};
use crate::reproduce::query::{Point, extremes, pairs};
use crate::reproduce::recipe::{Recipe, claim};
use crate::reproduce::samples::Samples;

const LOADS: [f64; 3] = [1.4, 1.8, 2.0];

/// Points by threshold and by other readings.
const PLACES: [(&str, &str); 10] = [
    ("sd-bm/tables", "RS-RED 20"),
    ("sd-bm/tables", "RS-RED 30"),
    ("sd-bm/tables", "RS-RED 40"),
    ("sd-bm/tables", "RS-RED 50"),
    ("sd-bm/readings", "RS-RED 20, max_p 0.02"),
    ("sd-bm/readings", "RS-RED 20, max_p 0.5"),
    ("sd-bm/readings", "RS-RED 50, max_p 0.02"),
    ("sd-bm/readings", "RS-RED 50, max_p 0.5"),
    ("sd-bm/readings", "RS-RED 20, thresholds of 100"),
    ("sd-bm/readings", "RS-RED 50, thresholds of 100"),
];

/// A number of packets, by all that were lost.
fn of_lost(at: &Point<'_>, packets: Samples) -> Samples {
    packets / at.metric("lost_packets").map(|lost| lost.max(1.0))
}

/// The share that was lost at the ingresses.
fn at_ingresses(at: &Point<'_>) -> Samples {
    let each = INGRESSES.map(|name| at.metric(format!("dropped_payload_packets.{name}")));
    let all = each.into_iter().reduce(|a, b| a + b).unwrap_or_default();
    of_lost(at, all).into_shares()
}

pub(super) fn location(r: &mut Recipe) {
    r.title = "Where packets are lost";
    r.notes = &[
        "Packets with payload that were dropped at a port, divided by all packets with payload that were lost \
         anywhere.",
    ];
    r.scenarios = &[
        "sd-bm/tables-1.4",
        "sd-bm/tables-1.8",
        "sd-bm/tables",
        "sd-bm/readings",
    ];

    claim(r, "location.1", "RED: loss only at the egress").measured(|m, f| {
        for load in LOADS {
            let at = loaded(m, load, "RED 100");
            let elsewhere = 1.0 - of_lost(&at, at.metric("dropped_payload_packets.wan"));
            check!(f, "load {load:.1}, share lost elsewhere": at_most(elsewhere, 0.01));
        }
    });
    claim(r, "location.2", "RS-RED: loss at the ingress, or at both").measured(|m, f| {
        let share = |load, l| at_ingresses(&loaded(m, load, &format!("RS-RED {l}")));
        check!(f, for (load, l) in pairs(&LOADS, &[20, 30, 40]),
            "load {load:.1}, L = {l}, share lost at the ingresses": above(share(load, l), 0.0));
        check!(f, for load in LOADS, "load {load:.1}, L = 50, share lost at the ingresses":
            at_least(share(load, 50), 0.5));
        show!(f, m, "egress-driven, that share":
            by_threshold(|l| at_ingresses(&tables(m, "egress-driven", l))));
    });
    claim(r, "location.3", "The share can be set by parameters").measured(|m, f| {
        let share = |(scenario, variant)| at_ingresses(&m.at(scenario, variant));
        let [greatest, least] = extremes(PLACES.map(share));
        check!(f, "share lost at the ingresses, highest minus lowest by L and readings":
            at_least(greatest - least, 0.3));
        show!(f, m, "that share": for (scenario, variant) in PLACES, "{variant}":
            share((scenario, variant)));
    });
    let text = "The edge router is relieved before overload";
    claim(r, "location.4", text).measured(|m, f| {
        let all = || pairs(&LOADS, &THRESHOLDS);
        let ours = |load, l| loaded(m, load, &format!("RS-RED {l}"));
        let red = |load| loaded(m, load, "RED 100");
        let dropped = |at: Point<'_>| at.metric("dropped_packets.wan");
        check!(f, for (load, l) in all(), "load {load:.1}, L = {l}, dropped at the egress":
            less(dropped(ours(load, l)), dropped(red(load))));
        let come = |at: Point<'_>| {
            let come = at.metric("packets_sent.n2") + at.metric("packets_sent.n3");
            come / at.metric("packets_sent.wan")
        };
        check!(f, for (load, l) in all(),
            "load {load:.1}, L = {l}, arriving packets for each that leaves":
                less(come(ours(load, l)), come(red(load))));
    });
}

//! Claims of the text without a figure.

use super::{UDP, at};
use crate::reproduce::findings::{check, show};
use crate::reproduce::recipe::{Recipe, claim};
use weir_base::statistics::mean;

pub(super) fn text(r: &mut Recipe) {
    r.title = "What the text claims without a figure";
    r.notes = &["Messages are frames of 1000 B and rates count frames."];
    r.loads = &["forces-flow-control/joined", "forces-flow-control/flood"];
    r.scenarios = &[
        "forces-flow-control/text",
        "forces-flow-control/demand",
        "forces-flow-control/fig11",
        "forces-flow-control/fig12",
    ];

    let text = "DPPBRB holds for constant rates and for rates that grow";
    claim(r, "text.1", text).measured(|m, f| {
        for (what, figure) in [("rates that grow", "fig11"), ("constant rates", "fig12")] {
            let at = at(m, figure, "dppbrb").during([2.5, 6.0]);
            f.at_least(what, at.delivered(&["control"]), 0.95);
        }
    });
    let text = "TCP meets the needs of control messages only if it is protected: UDP crowds it out";
    claim(r, "text.2", text).measured(|m, f| {
        let control = |variant| {
            at(m, "text", variant)
                .during([1.0, 6.0])
                .delivered(&["control"])
        };
        check!(f, "drop-tail, 4 Mbit/s of control and 12 of redirect messages on 10, \
                   control delivered by offered": at_most(control("crowded"), 0.5));
        show!(f, m, "under DPPBRB": control("protected"));
    });
    let text = "When control messages ease, redirect messages get the bandwidth back";
    claim(r, "text.3", text).measured(|m, f| {
        let share = |window| {
            at(m, "text", "eases")
                .during(window)
                .curve("udp_mbps", mean)
                / UDP
                / 10.0
        };
        check!(f,
            "control messages stop at 3 s, redirect messages' share of the link from 3.5 s on":
                at_least(share([3.5, 6.0]), 0.95));
        show!(f, m, "before 3 s": share([1.0, 3.0]));
        show!(f, m, "in the half second after it": share([3.0, 3.5]));
    });
    transport(r);
}

fn transport(r: &mut Recipe) {
    let text = "Joining small packets into large ones raises the forwarding rate";
    claim(r, "text.4", text).measured(|m, f| {
        let [joined, single] = [1024, 64].map(|bytes| {
            let at = at(m, "joined", "one thread").and("bytes", bytes);
            at.metric("redirected_mbps")
        });
        check!(f, "payload that arrives at the CE, Mbit/s, packets of 64 B joined up to 1024 B and \
                   singly": times(joined, single, 1.5));
    });
    claim(r, "text.5", "Attackers cannot cut the CE from its FEs").measured(|m, f| {
        let of = |metric: &str| at(m, "flood", "one thread").metric(metric);
        check!(f, "associations at the end": between(of("associations"), [5.0, 5.0]));
        check!(f, "associations lost": at_most(of("associations_lost"), 0.0));
        check!(f, "heartbeats lost": at_most(of("heartbeats_lost"), 0.0));
        check!(f, "share of the control messages that arrived":
            at_least(of("control_delivered_ratio"), 1.0));
        show!(f, m, "share of the redirect messages that arrived": of("redirect_delivered_ratio"));
        let what = "time from an FE to the CE's session, ms, p99 and longest";
        show!(f, m, "{what}": for name in ["p99", "max"], "{name}":
            of(&format!("event_ms_{name}")));
        show!(f, m, "heartbeats": of("heartbeats"));
        f.remark(
            "five associations over `tcp_udp`, 50 Mbit/s of redirect messages at three FEs; DPPBRB \
             at each FE's channel of 26.92 Mbit/s, which is what equation 13 leaves a busy FE; no \
             shared link stands behind the channels",
        );
    });
    let text = "(ours) DPPBRB is useful where control messages need more than a fixed share";
    claim(r, "text.6", text).measured(|m, f| {
        let delivered = |discipline: &str, demand| {
            let at = at(m, "demand", format!("{discipline} {demand}")).during([3.0, 10.0]);
            at.delivered(&["control", "more"])
        };
        for demand in [6, 7, 8] {
            check!(f, "DPPBRB, {demand} of 10 Mbit/s of control messages, delivered by offered":
                at_least(delivered("dppbrb", demand), 0.98));
        }
        show!(f, m, "two classes served alike, delivered by offered": for demand in [6, 7, 8],
            "{demand} Mbit/s": delivered("drr", demand));
    });
}

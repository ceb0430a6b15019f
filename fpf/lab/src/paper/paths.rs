//! Figure 1: paths by a vector of LIDs.

use weir_experiment::Habitat;
use weir_experiment::reproduce::findings::check;
use weir_experiment::reproduce::measured::Measured;
use weir_experiment::reproduce::query::pairs;
use weir_experiment::reproduce::recipe::{Recipe, claim};
use weir_experiment::reproduce::samples::Samples;

use super::at;

/// Packets that were sent over a link.
fn sent(m: &Measured, variant: &str, link: &str) -> Samples {
    at(m, "figure-1", variant).metric(format!("packets_sent.{link}"))
}

/// Packets that leave C.
fn leave(m: &Measured, variant: &str) -> Samples {
    sent(m, variant, "c_b") + sent(m, variant, "c_d")
}

pub(super) fn fig1(r: &mut Recipe) {
    r.title = "Paths by a vector of LIDs";
    r.notes = &[
        "Four FEs as planes in memory, the paper's example: C sends via B to A; and the same network in simulation, \
         in which IP takes the path via D.",
    ];
    r.scenarios = &["fpf/figure-1", "fpf/multicast"];
    r.benches = &["fpf/conformance"];
    forwarding(r);
    several_paths(r);
}

fn forwarding(r: &mut Recipe) {
    claim(r, "fig1.1", "The LID vector sets a path other than IP's").measured(|m, f| {
        for (what, variant, link) in [
            ("with the vector, share on C-B", "fpf", "c_b"),
            ("inside B", "fpf", "b_b"),
            ("on B-A", "fpf", "b_a"),
            ("by routes, share on C-D", "ip", "c_d"),
            ("on D-A", "ip", "d_a"),
        ] {
            let share = sent(m, variant, link) / leave(m, variant);
            f.between(what, share.into_shares(), [1.0, 1.0]);
        }
        let both = [("with the vector", "fpf"), ("by routes", "ip")];
        check!(f, for (what, variant) in both, "packets that leave C, {what}":
            at_least(leave(m, variant), 7000.0));
        for (what, variant) in both {
            let lost = at(m, "figure-1", variant).metric("lost_packets");
            check!(f, "lost packets, {what}": at_most(lost, 0.0));
        }
    });
    let text = "Both FEs in a domain use the same LID; Index moves only at the border";
    claim(r, "fig1.2", text).measured(|m, f| {
        let at = at(m, "conformance", "figure 1");
        for (fe, index) in [(1, 0.0), (2, 1.0), (3, 1.0), (4, 2.0)] {
            check!(f, "Index at FE {fe}": between(at.metric(format!("index.{fe}")), [index; 2]));
        }
        check!(f, "both FEs of domain B use the same LID": at_least(at.metric("same_lid"), 1.0));
    });
    let text = "Last FE strips the header and delivers the original";
    claim(r, "fig1.3", text).measured(|m, f| {
        let at = at(m, "conformance", "figure 1");
        check!(f, "delivered byte for byte, as a frame to the host":
            at_least(at.metric("original"), 1.0));
        check!(f, "handed to IP, delivered with one hop less and no other change":
            at_least(at.metric("routed"), 1.0));
    });
    let text = "Re-routing needs only a new vector at the edge";
    claim(r, "fig1.4", text).measured(|m, f| {
        let at = at(m, "figure-1", "change");
        check!(f, "changes of forwarding tables": at_most(at.metric("fpf_table_changes"), 0.0));
        check!(f, "lost packets": at_most(at.metric("lost_packets"), 0.0));
        for link in ["c_b", "c_d"] {
            let what = format!("packets on {link}, of 8000");
            match m.on {
                Habitat::Sim => f.between(&what, sent(m, "change", link), [3900.0, 4100.0]),
                Habitat::Lab => f.at_least(&what, sent(m, "change", link), 2000.0),
            }
        }
        f.remark("the vector changes after 4 of 8 s, while packets flow");
    });
}

fn several_paths(r: &mut Recipe) {
    claim(r, "fig1.5", "One flow aggregate over several paths").measured(|m, f| {
        for (variant, what) in [("packets", "by packet"), ("flows", "by flow")] {
            let share = sent(m, variant, "c_b") / leave(m, variant);
            check!(f, "share on the first path, {what}": between(share.into_shares(), [0.73, 0.77]));
        }
        f.remark("weights 3:1; one flow by packet, and 4000 flows by flow");
    });
    claim(r, "fig1.6", "Multicast by per-leaf vectors").measured(|m, f| {
        let copies = |leaves: u32, which: &str| {
            let at = at(m, "conformance", "multicast").and("leaves", leaves);
            at.metric(format!("copies_{which}"))
        };
        for ((name, which), leaves) in pairs(&[("fewest", "min"), ("most", "max")], &[2, 8]) {
            check!(f, "{leaves} leaves, {name} copies of a leaf":
                between(copies(leaves, which), [1.0, 1.0]));
        }
        check!(f, for leaves in [2, 8], "{leaves} leaves, other copies":
            at_most(copies(leaves, "other"), 0.0));
        for (leaves, variants) in [(2, ["2, tree", "2, edge"]), (8, ["8, tree", "8, edge"])] {
            for leaf in 1..=leaves {
                for variant in variants {
                    let copies = at(m, "multicast", variant)
                        .metric(format!("copies_ratio.video.leaf{leaf}"));
                    check!(f, "copies of a packet at leaf {leaf}, {variant}":
                        between(copies, [1.0, 1.0]));
                }
            }
        }
    });
}

//! Figure 8 and Table II: paths between domains, degrees, and the size of LIDs.

use weir_experiment::reproduce::figure::swept;
use weir_experiment::reproduce::findings::{check, show};
use weir_experiment::reproduce::measured::Measured;
use weir_experiment::reproduce::query::Point;
use weir_experiment::reproduce::recipe::{Recipe, TOLERANCE, claim, line};

use crate::scale::header::{lid_bytes, lids};

/// The domains of the paper.
const DOMAINS: f64 = 36_878.0;

/// Our graph.
pub(super) fn graph(m: &Measured) -> Point<'_> {
    m.at("fpf/internet", "graph")
}

pub(super) fn fig8(r: &mut Recipe) {
    r.title = "Length of the paths between domains";
    r.notes = &[
        "Shortest paths in hops between all pairs of domains, over all links alike: route export policies are \
         ignored. A path's length is the number of its domains, both ends \
         included, as the paper counts LIDs; its Figure 1 needs one LID less.",
        "R24: the paper prints \"less than 7 domains\" and \"7 LIDs\" for 99 % of the paths. The verdict is about \
         at most 7; less than 7 is only shown.",
    ];
    r.benches = &["fpf/internet"];
    for (name, metric, printed) in [
        ("domains", "domains", DOMAINS),
        ("mean length in domains", "length_domains_mean", 4.88),
        ("maximum length in domains", "length_domains_max", 20.0),
    ] {
        let place = [("of", name.into()), ("metric", metric.into())];
        line(r, place, &["value"], [printed], [0.05]).ours(move |m| [graph(m).metric(metric)]);
    }
    r.figure("Share of paths", "domains on the path", |m| {
        let share = |n: u32| graph(m).metric(format!("length_share_ratio.{n}"));
        vec![swept!(for n in 2..=21, "ours": share(n))]
    });
    r.figure("Share of headers that are not longer", "bytes", |m| {
        let share = |n: u32| graph(m).metric(format!("header_within_share_ratio.{n}"));
        vec![swept!(for n in 5..=24, "ours, LID sizes by formula (1)": share(n))]
    });

    claim(r, "fig8.1", "Over 1.3e9 paths among 36,878 domains").arithmetic(|m, f| {
        check!(f, "ordered pairs of 36,878 domains": above(DOMAINS * (DOMAINS - 1.0), 1.3e9));
        show!(f, m, "paths of our graph": graph(m).metric("paths"));
        show!(f, m, "its domains": graph(m).metric("domains"));
        show!(f, m, "share of its pairs that are connected":
            graph(m).metric("connected_share_ratio"));
    });
    claim(r, "fig8.2", "99 % of paths cross under 7 domains").measured(|m, f| {
        let within = |n| graph(m).metric(format!("length_within_share_ratio.{n}"));
        check!(f, "share of paths with at most 7 domains": at_least(within(7), 0.99));
        show!(f, m, "less than 7 domains": within(6));
    });
    claim(r, "fig8.3", "Mean length 4.88").measured(|m, f| {
        let bounds = [0.95 * 4.88, 1.05 * 4.88];
        check!(f, "mean length in domains":
            between(graph(m).metric("length_domains_mean"), bounds));
        show!(f, m, "links of the mean path": graph(m).metric("length_hops_mean"));
    });
    claim(r, "fig8.4", "Longest path 20").measured(|m, f| {
        let longest = graph(m).metric("length_domains_max");
        check!(f, "maximum length in domains": between(longest, [20.0, 20.0]));
        f.remark(
            "it depends on the longest chain of a few domains in the graph, and ours is not the \
             graph of the paper",
        );
    });
}

/// Maximum degree at each percentile of Table II, its LIDs, and their bytes.
const TABLE_2: [(&str, u32, u64, u32); 5] = [
    ("p90", 6, 24, 1),
    ("p99", 60, 240, 1),
    ("p99_5", 128, 512, 2),
    ("p99_99", 2000, 8000, 2),
    ("p100", 2972, 11_888, 2),
];
pub(super) fn table2(r: &mut Recipe) {
    r.title = "Degrees of domains, and the size of LIDs";
    r.notes = &[
        "Formula (1) with three behaviours for each link (DB) and one special rule for each link \
         (SR = DD): four LIDs per link.",
    ];
    r.benches = &["fpf/internet"];
    for (p, degree, lids, bytes) in TABLE_2 {
        let printed = [degree.into(), lids as f64, bytes.into()];
        let columns = ["degree", "LIDs", "bytes"];
        line(r, [("p", p.into())], &columns, printed, [TOLERANCE; 3]).ours(move |m| {
            ["degree", "lids", "lid_bytes"].map(|name| graph(m).metric(format!("{name}.{p}")))
        });
    }

    claim(r, "table2.1", "LIDs needed = 4 x degree").arithmetic(|_, f| {
        for (_, degree, printed, _) in TABLE_2 {
            let ours = lids(degree);
            check!(f, "degree {degree}: {ours} LIDs (paper {printed})": is(ours == printed));
        }
    });
    claim(r, "table2.2", "LID bytes by formula (1)").arithmetic(|_, f| {
        for (_, degree, lids, printed) in TABLE_2 {
            let bytes = lid_bytes(degree);
            check!(f, "{lids} LIDs: {bytes} B (paper {printed})": is(bytes == printed));
        }
    });
    claim(r, "table2.3", "99 % of domains need one byte").measured(|m, f| {
        let degrees = (1..).take_while(|degree| lid_bytes(*degree) == 1);
        let greatest = degrees.last().unwrap_or_default();
        let [_, (_, at_99, ..), ..] = TABLE_2;
        check!(f,
            "highest degree with LIDs of one byte: {greatest} (at the 99th percentile: {at_99})":
                is(greatest >= at_99));
        let share = graph(m).metric("one_byte_share_ratio");
        check!(f, "share of the domains of our graph": at_least(share, 0.99));
    });
    claim(r, "table2.4", "Domain counts at the percentiles").arithmetic(|_, f| {
        for (percent, printed) in [
            (90.0, 33190.0),
            (99.0, 36509.0),
            (99.5, 36693.0),
            (99.99, 36874.0),
            (100.0, 36878.0),
        ] {
            check!(f, "{percent} % of 36,878 (paper {printed})":
                between(percent / 100.0 * DOMAINS, [printed - 1.0, printed + 1.0]));
        }
    });
}

//! Flexible packet forwarding next to IP, as scenarios in simulation: the counters of the links show the packets'
//! paths.

use std::collections::BTreeMap;
use std::path::Path;

use weir_experiment::definitions::definition;
use weir_experiment::namespaces::routes::Routes;
use weir_experiment::scenario::{Choices, load_built_in};
use weir_experiment::topology::Topology;
use weir_experiment::{RunOptions, run};

/// The metrics of each variant of a scenario.
fn variants(file: &str) -> BTreeMap<String, BTreeMap<String, f64>> {
    weir_experiment::extend(weir_fpf_lab::FPF);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/fpf");
    let options = RunOptions {
        scenario: root.join(file),
        runs: Some(1),
        ..RunOptions::default()
    };
    let result = run(&options).unwrap();
    let points = result.points.into_iter();
    let metrics = points.map(|point| {
        let variant = point.variant.unwrap_or_default();
        (variant, point.runs[0].metrics.clone())
    });
    metrics.collect()
}

const BY_B: [&str; 3] = ["c_b", "b_b", "b_a"];
const BY_D: [&str; 2] = ["c_d", "d_a"];

fn sent<const N: usize>(metrics: &BTreeMap<String, f64>, links: [&str; N]) -> [f64; N] {
    links.map(|link| metrics[&format!("packets_sent.{link}")])
}

#[test]
fn every_metric_is_defined() {
    for metrics in [
        "figure-1.toml",
        "multicast.toml",
        "xor.toml",
        "shape.toml",
        "cache.toml",
    ]
    .into_iter()
    .flat_map(variants)
    {
        for name in metrics.1.keys() {
            assert!(definition(name).is_some(), "{name}");
        }
    }
}

#[test]
fn figure_1() {
    let variants = variants("figure-1.toml");
    let of = |variant: &str| {
        let metrics = &variants[variant];
        (sent(metrics, BY_B), sent(metrics, BY_D))
    };
    assert_eq!(of("ip"), ([0.0; 3], [8000.0; 2]));
    assert_eq!(of("fpf"), ([8000.0; 3], [0.0; 2]));
    assert_eq!(of("packets"), ([6000.0; 3], [2000.0; 2]));
    // A hash distributes flows over the paths: the deviation of a binomial share of 4000 is 0.7 %.
    let ([b, ..], [d, ..]) = of("flows");
    let packets = variants["flows"]["fpf_encapsulated_packets.video"];
    assert!(b + d == packets && packets >= 12_000.0, "{b} + {d}");
    assert!((b / packets - 0.75).abs() <= 0.02, "{}", b / packets);
}

#[test]
fn a_path_is_changed_at_the_edge_alone_and_loses_nothing() {
    let metrics = &variants("figure-1.toml")["change"];
    assert_eq!(metrics["fpf_table_changes"], 0.0);
    assert_eq!(metrics["fpf_encapsulation_changes"], 1.0);
    assert_eq!(metrics["lost_packets"], 0.0);
    let (by_b, by_d) = (sent(metrics, BY_B), sent(metrics, BY_D));
    assert_eq!(by_b[0] + by_d[0], 8000.0);
    assert!(by_b == [by_b[0]; 3] && by_d == [by_d[0]; 2]);
    assert!((3990.0..=4010.0).contains(&by_b[0]), "{by_b:?}");
}

#[test]
fn a_cut_link_is_avoided_without_a_change_in_any_table() {
    let metrics = &variants("figure-1.toml")["cut"];
    assert_eq!(metrics["fpf_table_changes"], 0.0);
    let lost = metrics["lost_packets.video.c_d.device-down"];
    assert!(lost == metrics["lost_packets"] && (1.0..=2.0).contains(&lost));
    let (by_b, by_d) = (sent(metrics, BY_B), sent(metrics, BY_D));
    assert_eq!(by_b[2] + by_d[1] + lost, 8000.0);
}

#[test]
fn each_leaf_gets_exactly_one_copy() {
    for (variant, metrics) in variants("multicast.toml") {
        let leaves = if variant.starts_with('2') { 2 } else { 8 };
        for leaf in 1..=8 {
            let copies = metrics.get(&format!("copies_ratio.video.leaf{leaf}"));
            let wanted = (leaf <= leaves).then_some(&1.0);
            assert_eq!(copies, wanted, "{variant}: leaf {leaf}");
            let [sent] = sent(&metrics, [&format!("m-r{leaf}")]);
            assert_eq!(sent, if leaf <= leaves { 2000.0 } else { 0.0 });
        }
        let trunk = if variant.ends_with("tree") { 1 } else { leaves };
        assert_eq!(sent(&metrics, ["c-m"]), [2000.0 * f64::from(trunk)]);
    }
}

#[test]
fn xor_coding_repairs_what_one_of_two_paths_loses() {
    let variants = variants("xor.toml");
    let of = |variant: &str, metric: &str| variants[variant][metric];
    let lost = |variant: &str| of(variant, "lost_packets.video.c_d.impaired");
    for variant in ["plain", "xor"] {
        let share = lost(variant) / 4000.0;
        assert!((0.08..=0.12).contains(&share), "{variant}: {share}");
        assert_eq!(lost(variant), of(variant, "lost_packets"));
    }
    let received = |variant: &str| (of(variant, "packets_received_per_s.video") * 9.0).round();
    assert_eq!(received("plain"), 8000.0 - lost("plain"));
    assert_eq!(received("xor"), 8000.0);
    assert_eq!(of("xor", "fpf_decoder.video.repaired"), lost("xor"));
    assert_eq!(of("xor", "fpf_repaired_packets.a"), lost("xor"));
    assert_eq!(sent(&variants["plain"], ["c_b"]), [4000.0]);
    assert_eq!(sent(&variants["xor"], ["c_b"]), [8000.0]);
    // Every other packet took the path that was down for two of eight seconds.
    assert_eq!(received("away"), 8000.0);
    let repaired = of("away", "fpf_repaired_packets.a");
    assert!((1250.0..=1350.0).contains(&repaired), "{repaired}");
    assert_eq!(of("away", "lost_packets"), repaired);
}

#[test]
fn a_shaped_path_has_its_rate_and_its_packets_wait() {
    let variants = variants("shape.toml");
    let of = |variant: &str, metric: &str| variants[variant][metric];
    let books = |variant: &str| {
        let count = |what: &str| of(variant, &format!("fpf_{what}_packets.video"));
        [count("encapsulated"), count("overflowed"), count("waiting")]
    };
    assert_eq!(of("plain", "goodput_mbps.video"), 8.0);
    for variant in ["shaped", "full"] {
        let rate = of(variant, "goodput_mbps.video");
        assert!((5.99..=6.01).contains(&rate), "{variant}: {rate}");
        let all: f64 = books(variant).iter().sum();
        assert!((4990.0..=5000.0).contains(&all), "{variant}: {all}");
    }
    let [_, dropped, waiting] = books("shaped");
    assert!(dropped == 0.0 && (1240.0..=1260.0).contains(&waiting));
    assert_eq!(of("shaped", "lost_packets"), 0.0);
    // 250 packets more in each of five seconds, at 750 a second.
    let delay = of("shaped", "delay_ms_max.video");
    assert!((1240.0..=1270.0).contains(&delay), "{delay}");
    // When full, a queue of 100 packets has a delay of 133 ms; 250 packets per second find no room.
    let [_, dropped, waiting] = books("full");
    assert!((1140.0..=1160.0).contains(&dropped) && waiting >= 99.0);
    let delay = of("full", "delay_ms_max.video") - of("plain", "delay_ms_max.video");
    assert!((132.0..=135.0).contains(&delay), "{delay}");
}

#[test]
fn a_cache_at_the_edge_saves_the_link_what_came_before() {
    let variants = variants("cache.toml");
    let of = |variant: &str, metric: &str| variants[variant][metric];
    let gauge = |variant: &str, gauge: &str| of(variant, &format!("fpf_cache.chunks.{gauge}"));
    for variant in ["plain", "path"] {
        let [carried] = sent(&variants[variant], ["link"]);
        // Twenty clients have one fetch each at the end.
        let unfinished = carried - of(variant, "web_fetches");
        assert!((0.0..=20.0).contains(&unfinished), "{variant}");
        assert!(of(variant, "utilisation_ratio.link") > 0.8, "{variant}");
    }
    for (variant, distinct) in [("cache", true), ("small", false)] {
        let (hits, misses) = (gauge(variant, "hits"), gauge(variant, "misses"));
        let [carried] = sent(&variants[variant], ["link"]);
        // The cache or the link answers each interest; the last ones are in flight.
        assert!((0.0..=20.0).contains(&(misses - carried)), "{variant}");
        let unfinished = hits + misses - of(variant, "web_fetches");
        assert!((0.0..=20.0).contains(&unfinished), "{variant}");
        let stays = gauge(variant, "stored") - gauge(variant, "evicted");
        if distinct {
            // All 200 chunks, each once, except some that were requested again while they were in flight.
            assert_eq!(gauge(variant, "evicted"), 0.0);
            assert!((190.0..=200.0).contains(&stays), "{stays}");
            assert!(
                (stays..=1.3 * stays).contains(&carried),
                "{carried} of {stays}"
            );
        } else {
            // 66 kB are 52 chunks of 1000 bytes, with 256 bytes of memory for each besides.
            assert_eq!(stays, 52.0);
        }
        assert_eq!(of(variant, "web_failures"), 0.0);
    }
    // The link carries less, and the clients wait for less time.
    let falls = |metric: &str| {
        let all = ["plain", "small", "cache"].map(|variant| of(variant, metric));
        assert!(all.is_sorted_by(|a, b| a > b), "{metric}: {all:?}");
    };
    falls("utilisation_ratio.link");
    falls("web_response_s_mean");
    assert!(
        of("cache", "web_response_s_p50") < 0.005,
        "two milliseconds to the edge and back"
    );
}

#[test]
fn only_the_router_of_a_receiver_knows_its_group() {
    weir_experiment::extend(weir_fpf_lab::FPF);
    let plan = load_built_in("fpf/multicast", Choices::default()).unwrap();
    let scenario = &plan.points[0].scenario; // leaf1 and leaf2
    let topology = Topology::new(scenario).unwrap();
    let all = Routes::new(scenario, &topology);
    let group = "10.63.0.0/32";
    for (index, node) in topology.nodes.iter().enumerate() {
        let is_receiver = ["leaf1", "leaf2"].contains(&&*node.name);
        assert_eq!(all.groups[index] == [group], is_receiver, "{}", node.name);
        let knows = all.routes[index].iter().any(|route| route.to == group);
        let is_last = ["r1", "r2"].contains(&&*node.name);
        assert_eq!(knows, is_last, "{}", node.name);
    }
}

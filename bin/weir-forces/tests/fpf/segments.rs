//! Segments on real packets: hosts with packets of 1500 bytes, and links between the routers that carry no more.

use super::*;

/// Sections of rules with these names, LIDs and actions.
fn processing(rules: &[(&str, &str, &str)]) -> String {
    let section = |(name, lid, action): &(&str, &str, &str)| {
        format!("[fpf.rule.{name}]\nlid = \"{lid}\"\naction = \"{action}\"\n")
    };
    rules.iter().map(section).collect()
}

/// Whether a packet of this length that may not be fragmented gets from s to t and back, or the error.
fn ping(network: &Network, bytes: u32) -> Result<(), String> {
    let data = bytes - 28;
    let arguments = format!("-M do -c 1 -W 1 -s {data} 10.0.6.2");
    let answer = run(&network.nodes["s"], "ping", &arguments);
    answer.map(drop).map_err(|error| error.to_string())
}

fn gauge(network: &Network, node: &str, name: &str) -> u64 {
    let fpf: serde_json::Value = client::get(&network.socket(node), "/v1/fpf").unwrap();
    fpf[name].as_u64().unwrap()
}

#[test]
fn hosts_with_packets_as_long_as_the_links_between_the_routers_carry() {
    let Some(mut network) = Network::new("segments") else {
        return;
    };
    let cut = ("cut", "5e", "segment");
    let join = ("join", "5f", "reassemble");
    // All the way to a in segments.
    let all = "[fpf.encapsulation.all]\ndestination = \"10.0.6.0/24\"\nvectors = \"5e0b0a5f\"\n";
    network.start("a", &processing(&[join]));
    network.start("b", &[rule("b", "a"), processing(&[cut, join])].concat());
    network.start("d", "");
    let at_c = [rule("c", "b"), processing(&[cut]), all.to_owned()];
    network.start("c", &at_c.concat());
    eventually("the hosts reach each other", || ping(&network, 100).is_ok());
    for vector in ["5e0b0a5f", "5e0b5f5e0a5f"] {
        let set = format!("fpf.encapsulation.all.vectors={vector}");
        network.weir("c", &["set", &set]);
        assert_eq!(ping(&network, 1500), Ok(()), "{vector}");
        let before = ["segmented", "reassembled"].map(|name| gauge(&network, "b", name));
        for bytes in [1000, 1500 - 28 - 8 - 4, 1500 - 28] {
            whole(&network.flow(VIDEO, bytes), bytes);
        }
        let after = ["segmented", "reassembled"].map(|name| gauge(&network, "b", name));
        let at_b = if vector.len() > 8 { PACKETS } else { 0 };
        assert_eq!(after, before.map(|n| n + at_b));
    }
    // Of each flow and vector, the longest packets; and the ping.
    assert_eq!(gauge(&network, "c", "segmented"), 2 * (PACKETS + 1));
    assert_eq!(gauge(&network, "a", "reassembled"), 2 * (PACKETS + 1));

    // TCP keeps its segment size: most of its packets are as long as without a header, and so are segmented.
    let before = gauge(&network, "a", "reassembled");
    assert_eq!(tcp(&network), 5_000_000);
    let segments = gauge(&network, "a", "reassembled") - before;
    assert!(segments > 3000, "{segments}");
    for node in ["a", "b", "c"] {
        let drops = network.weir(node, &["show", "drops"]);
        for reason in ["too-big", "fpf-incomplete", "fpf-processed", "no-copy"] {
            assert!(!drops.contains(reason), "{node}: {drops}");
        }
    }
    let shown = network.weir("a", &["show", "fpf"]);
    assert!(shown.contains("reassembled "), "{shown}");

    // Without segments the header has no room.
    network.weir("c", &["set", "fpf.encapsulation.all.vectors=0b0a"]);
    let answer = ping(&network, 1500).unwrap_err();
    assert!(
        answer.contains("1496") || answer.contains("too long"),
        "{answer}"
    );
}

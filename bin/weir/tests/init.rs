//! `weir init` on real interfaces. Where network namespaces are not permitted, the test prints that and skips.

use std::fs;

use crate::common::Hosts;
use weir_benches::testbed::run;

#[test]
fn the_kernel_says_enough_for_a_configuration() {
    let Some(hosts) = Hosts::new() else { return };
    let file = hosts.folder.join("weir.toml");
    let init = |arguments: &[&str]| {
        let output = hosts.weir(&[&["init"], arguments].concat(), "weir");
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    };
    let out = ["--rate", "50 Mbit", "--out", file.to_str().unwrap()];

    let (code, said) = init(&out);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("no default route") && said.contains("r0, r1"),
        "{said}"
    );
    assert!(!file.exists());

    hosts.ip("route add default via 10.77.2.2");
    let (code, said) = init(&out);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("and weir queues the packets of r1; --routed"),
        "{said}"
    );
    let written = fs::read_to_string(&file).unwrap();
    assert!(written.contains("\nmode = \"queue\"\n"), "{written}");
    assert!(
        written.contains("[port.up]\ninterface = \"r1\"") && written.contains("[port.down]"),
        "{written}"
    );
    assert_eq!(
        written.matches("\nrate = \"50 Mbit\"\n").count(),
        1,
        "{written}"
    );
    let checked = hosts.weir(&["check", file.to_str().unwrap()], "weir");
    assert!(checked.status.success(), "{checked:?}");

    let other = ["--rate", "20 Mbit", "--out", file.to_str().unwrap()];
    let (code, said) = init(&other);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--force"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), written);
    let again = |more: &[&str]| init(&[&other[..], &["--force"], more].concat());
    assert_eq!(again(&[]).0, Some(0));
    assert_ne!(fs::read_to_string(&file).unwrap(), written);
    let (code, said) = again(&["--routed"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("uplink: r1; networks: r0"), "{said}");
    let (code, said) = again(&["--lan", "r0"]);
    assert!(code == Some(2) && said.contains("--routed"), "{said}");

    // A machine with NAT: packets that a router forwards would bypass it.
    for rule in [
        "add table ip nat",
        "add chain ip nat post { type nat hook postrouting priority 100 ; }",
        "add rule ip nat post masquerade",
    ] {
        run(&hosts.bed.router, "nft", rule).unwrap();
    }
    let (code, said) = again(&[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("because this machine has netfilter rules;"),
        "{said}"
    );
    let (code, said) = again(&["--routed"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("ip nat") && said.contains("--bypass-netfilter"),
        "{said}"
    );
    let (code, said) = again(&["--routed", "--bypass-netfilter"]);
    assert_eq!(code, Some(0), "{said}");

    // Two uplinks, of which one is a bridge.
    for command in [
        "link add br0 type bridge",
        "link set r0 master br0",
        "link set br0 up",
        "address add 10.77.3.1/24 dev br0",
        "route add default via 10.77.3.2 metric 5",
    ] {
        hosts.ip(command);
    }
    let (code, said) = again(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("one uplink, but there are r1, br0"), "{said}");
    let (code, said) = init(&["--out", file.to_str().unwrap(), "--force"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("br0 (bridge)") && said.contains("with `--uplink`: r0"),
        "{said}"
    );
    let written = fs::read_to_string(&file).unwrap();
    assert!(
        written.contains("[port.down2]\ninterface = \"br0\"\ndirection = \"in\""),
        "{written}"
    );
}

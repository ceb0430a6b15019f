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
    assert!(said.contains("uplink: r1; networks: r0"), "{said}");
    let written = fs::read_to_string(&file).unwrap();
    assert!(
        written.contains("[port.wan]\ninterface = \"r1\""),
        "{written}"
    );
    assert!(written.contains("\nrate = \"50 Mbit\"\n"), "{written}");
    let checked = hosts.weir(&["check", file.to_str().unwrap()], "weir");
    assert!(checked.status.success(), "{checked:?}");

    let other = ["--rate", "20 Mbit", "--out", file.to_str().unwrap()];
    let (code, said) = init(&other);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--force"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), written);
    assert_eq!(init(&[&other[..], &["--force"]].concat()).0, Some(0));
    assert_ne!(fs::read_to_string(&file).unwrap(), written);

    // A machine with NAT: forwarded packets would bypass it.
    for rule in [
        "add table ip nat",
        "add chain ip nat post { type nat hook postrouting priority 100 ; }",
        "add rule ip nat post masquerade",
    ] {
        run(&hosts.bed.router, "nft", rule).unwrap();
    }
    let (code, said) = init(&[&other[..], &["--force"]].concat());
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("ip nat") && said.contains("--bypass-netfilter"),
        "{said}"
    );
    let (code, said) = init(&[&other[..], &["--force", "--bypass-netfilter"]].concat());
    assert_eq!(code, Some(0), "{said}");
}

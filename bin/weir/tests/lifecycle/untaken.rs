//! Ports whose transit the router cannot take over, or loses: the kernel forwards.

use std::fmt::Write;
use std::fs;
use std::thread;
use std::time::Duration;

use weir_benches::testbed::run;
use weir_live::namespace::Namespace;

use super::common::{Hosts, eventually, logged};
use super::stream::{CONFIG, Stream};

/// Maximum number of chains that the kernel permits at one hook of a device (`MAX_HOOK_COUNT` of net/netfilter/core.c).
const CHAINS_MAX: usize = 1024;

/// The state of a port in `weir show`.
fn state(hosts: &Hosts, port: &str) -> String {
    let ports = hosts.ask(&["show", "ports"], "a");
    let line = ports.lines().find(|line| line.starts_with(port));
    line.unwrap_or_default().to_owned()
}

/// Whether an interface has the rules that keep transit from the kernel.
fn is_guarded(hosts: &Hosts, interface: &str) -> bool {
    let rules = run(&hosts.bed.router, "nft", "list ruleset").unwrap();
    rules.contains(&format!("chain port-{interface}"))
}

fn received(hosts: &Hosts, port: &str) -> u64 {
    let ports = hosts.ask(&["show", "ports", "--json"], "a");
    let ports: serde_json::Value = serde_json::from_str(&ports).unwrap();
    let port = ports.as_array().unwrap().iter().find(|p| p["port"] == port);
    port.unwrap()["received"]["packets"].as_u64().unwrap()
}

#[test]
fn a_port_whose_rules_the_kernel_refuses_is_in_force_and_the_kernel_forwards() {
    let Some(hosts) = Hosts::new() else { return };
    let wan = &CONFIG[CONFIG.find("[port.wan]").unwrap()..];
    let _router = hosts.start("a", &format!("pool = 9000\n{wan}"));
    let mut full = "table netdev full {\n".to_owned();
    for n in 0..CHAINS_MAX {
        writeln!(
            full,
            "chain c{n} {{ type filter hook ingress device \"r0\" priority 0; }}"
        )
        .unwrap();
    }
    let file = hosts.folder.join("full.nft");
    fs::write(&file, full + "}\n").unwrap();
    run(&hosts.bed.router, "nft", &format!("-f {}", file.display())).unwrap();

    let path = hosts.configure("a", &format!("pool = 9000\n{CONFIG}"));
    let applied = hosts.weir(&["apply", path.to_str().unwrap()], "a");
    let said = String::from_utf8_lossy(&applied.stdout).into_owned();
    assert!(applied.status.success(), "{applied:?}");
    assert!(
        said.contains("refused")
            && said.contains("the kernel forwards packets that arrive at that port"),
        "{said}"
    );
    assert!(!is_guarded(&hosts, "r0") && is_guarded(&hosts, "r1"));
    let before = received(&hosts, "lan");
    let ping = || run(&hosts.bed.source, "ping", "-c 3 -i 0.01 -W 10 10.77.2.2").unwrap();
    ping(); // through the kernel there, and through the router back
    assert_eq!(received(&hosts, "lan"), before);

    // The next change tries again.
    run(&hosts.bed.router, "nft", "delete table netdev full").unwrap();
    hosts.ask(&["set", "port.wan.rate=40 Mbit"], "a");
    assert!(is_guarded(&hosts, "r0"));
    ping();
    assert!(received(&hosts, "lan") >= before + 3);
}

#[test]
fn a_port_whose_interface_is_down_is_shown_down_and_works_when_it_is_up() {
    let Some(hosts) = Hosts::new() else { return };
    let wan = &CONFIG[CONFIG.find("[port.wan]").unwrap()..];
    let router = hosts.start("a", &format!("pool = 9000\n{wan}"));
    hosts.ip("link set r0 down");
    let path = hosts.configure("a", &format!("pool = 9000\n{CONFIG}"));
    let applied = hosts.weir(&["apply", path.to_str().unwrap()], "a");
    let said = String::from_utf8_lossy(&applied.stdout).into_owned();
    assert!(applied.status.success(), "{applied:?}");
    assert!(
        said.contains("port `lan`") && said.contains("waits for it"),
        "{said}"
    );
    assert!(
        state(&hosts, "lan").contains("down"),
        "{}",
        state(&hosts, "lan")
    );
    assert!(!is_guarded(&hosts, "r0"));
    hosts.ip("link set r0 up");
    eventually("the port works", || is_guarded(&hosts, "r0"));
    run(&hosts.bed.source, "ping", "-c 3 -W 10 10.77.2.2").unwrap();
    eventually("it receives", || received(&hosts, "lan") > 0);
    logged(|| router.log(), &["port back"]);
}

#[test]
fn a_lost_port_is_the_kernels_until_it_is_back() {
    let Some(hosts) = Hosts::new() else { return };
    hosts.ip("link add x0 type veth peer name x1");
    hosts.ip("link set x0 up");
    hosts.ip("link set x1 up");
    let config = format!(
        "pool = 9000\n{CONFIG}[port.more]\ninterface = \"x0\"\ndiscipline = {{ kind = \"fifo\", limit = \"9 packets\" }}\n"
    );
    let router = hosts.start("a", &config);
    assert!(is_guarded(&hosts, "x0"));
    let elsewhere = Namespace::new().unwrap();
    let (there, here) = (elsewhere.path(), hosts.bed.router.path());
    let moved = format!("link set x0 netns {there}");
    let back = format!("link set x0 netns {here}");
    let stream = Stream::begin(&hosts);
    for (n, (loss, host, returns)) in [
        (
            "link set x0 down",
            &hosts.bed.router,
            ["link set x0 up"].as_slice(),
        ),
        (&moved, &elsewhere, &[&back, "link set x0 up"]),
        (
            "link delete x0",
            &hosts.bed.router,
            &[
                "link add x0 type veth peer name x1",
                "link set x1 up",
                "link set x0 up",
            ],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        hosts.ip(loss);
        eventually("the port is down and the kernel's", || {
            state(&hosts, "more").contains("down") && !is_guarded(&hosts, "x0")
        });
        for step in returns {
            let host = if step.contains("netns") {
                host
            } else {
                &hosts.bed.router
            };
            run(host, "ip", step).unwrap();
        }
        eventually("the port is up and the router's", || {
            !state(&hosts, "more").contains("down") && is_guarded(&hosts, "x0")
        });
        assert_eq!(
            router.log().matches("port back").count(),
            n + 1,
            "{}",
            router.log()
        );
    }
    thread::sleep(Duration::from_millis(100));
    let count = stream.end();
    assert_eq!(
        (count.lost, count.duplicated),
        (0, 0),
        "the others forward: {count:?}"
    );
}

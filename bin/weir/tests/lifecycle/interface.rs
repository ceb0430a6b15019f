//! Interfaces that are renamed, and links without a carrier.

use std::thread;
use std::time::Duration;

use weir_benches::testbed::run;

use super::common::{Hosts, eventually};
use super::stream::{CONFIG, Stream};

#[test]
fn a_renamed_interface_stays_the_ports() {
    let Some(hosts) = Hosts::new() else { return };
    let router = hosts.start("a", CONFIG);
    let stream = Stream::begin(&hosts);
    // While the interface is up: first the incoming one, then the outgoing one.
    for (old, new) in [("r0", "in0"), ("r1", "out1")] {
        hosts.ip(&format!("link set {old} name {new}"));
        eventually("the new name is shown", || {
            hosts.ask(&["show", "ports"], "a").contains(new)
        });
        thread::sleep(Duration::from_millis(200));
    }
    let count = stream.end();
    assert!(
        router.log().contains("interface renamed"),
        "{}",
        router.log()
    );
    println!("two renames: {count:?}");
    // Some kernels (6.18) remove the rules with the old name, and forward as well until the router is notified. Others
    // keep the rules, so nothing forwards for that time: a few milliseconds, with four packets in each.
    assert!(count.lost < 100 && count.duplicated < 200, "{count:?}");
    let stream = Stream::begin(&hosts);
    thread::sleep(Duration::from_millis(200));
    let count = stream.end();
    assert_eq!((count.lost, count.duplicated), (0, 0), "{count:?}");

    // While the interface is down.
    for arguments in [
        "link set in0 down",
        "link set in0 name lan9",
        "link set lan9 up",
        "neighbour replace 10.77.1.2 lladdr 02:00:00:00:4d:01 dev lan9",
    ] {
        hosts.ip(arguments);
    }
    eventually("the port is back", || {
        hosts.ask(&["show", "ports"], "a").contains("lan9")
            && router.log().matches("port back").count() == 1
    });
    thread::sleep(Duration::from_millis(300));
    let stream = Stream::begin(&hosts);
    thread::sleep(Duration::from_millis(200));
    let count = stream.end();
    assert_eq!((count.lost, count.duplicated), (0, 0), "{count:?}");
}

#[test]
fn a_missing_carrier_is_shown_and_logged() {
    let Some(hosts) = Hosts::new() else { return };
    let router = hosts.start("a", CONFIG);
    let ports = || hosts.ask(&["show", "ports"], "a");
    assert!(!ports().contains("no carrier"), "{}", ports());
    run(&hosts.bed.sink, "ip", "link set b0 down").unwrap();
    eventually("the missing carrier is shown", || {
        let wan = ports();
        let wan = wan.lines().find(|l| l.starts_with("wan"));
        wan.unwrap().contains("no carrier")
    });
    assert!(router.log().contains("carrier lost"), "{}", router.log());
    run(&hosts.bed.sink, "ip", "link set b0 up").unwrap();
    eventually("the carrier is back", || !ports().contains("no carrier"));
    assert!(router.log().contains("carrier found"), "{}", router.log());
}

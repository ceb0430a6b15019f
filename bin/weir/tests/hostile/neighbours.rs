//! The kernel's neighbour entries while weir runs and after it has stopped.

use std::time::{Duration, Instant};

use weir_benches::testbed::{MACS, Testbed};
use weir_live::device::Device;

use super::bench::{CONFIG, ip, sysctl};
use crate::common::{ANSWERED, Bench, eventually};

/// Long enough for a verification of the entries in use.
const LONG: Duration = Duration::from_secs(6);
/// Long enough for three unanswered solicitations.
const SHORT: Duration = Duration::from_millis(3500);

/// The router's entries for these addresses, each with its MAC address, state and flags.
fn entries(bench: &Bench, addresses: &[&str]) -> Vec<String> {
    let all = ip(&bench.bed.router, "-d neighbour show nud all");
    let entry = |address: &&str| {
        let mut lines = all.lines();
        let line = lines.find(|l| l.split_whitespace().next() == Some(address));
        line.unwrap_or("no entry").trim().to_owned()
    };
    addresses.iter().map(entry).collect()
}

/// An ARP reply to the router that gives this address the attacker's MAC address.
fn spoofed(address: [u8; 4]) -> Vec<u8> {
    const ATTACKER: [u8; 6] = [2, 0, 0, 0, 0x66, 0x66];
    let mut frame = [&MACS[2][..], &ATTACKER, &[8, 6]].concat();
    frame.extend([0, 1, 8, 0, 6, 4, 0, 2]);
    frame.extend(ATTACKER);
    frame.extend(address);
    frame.extend(MACS[2]);
    frame.extend([10, 77, 2, 1]);
    frame.resize(60, 0);
    frame
}

/// Traffic through the static gateway, which answers no ARP, while its address is spoofed.
fn gateway_works(bench: &Bench, who: &str, time: Duration) {
    let mut attacker = Testbed::open(&bench.bed.sink, "b0").unwrap();
    let begin = Instant::now();
    while begin.elapsed() < time {
        attacker.transmit(&[&spoofed([10, 77, 2, 2])]).unwrap();
        assert!(bench.ping("-c 5 -i 0.05 -W 10 192.0.2.1"), "{who}");
    }
}

#[test]
fn a_static_gateway_stays_as_the_operator_made_it() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    let (router, sink) = (&bench.bed.router, &bench.bed.sink);
    ip(sink, "address add 192.0.2.1/32 dev lo");
    sysctl(sink, "ipv4/conf/b0/arp_ignore", "8"); // answers no question
    ip(router, "route add 192.0.2.0/24 via 10.77.2.2");
    for (address, how) in [
        ("fd77:2::2", "nud permanent"),
        ("10.77.2.50", "nud noarp"),
        ("10.77.2.51", "nud stale extern_learn"),
        ("10.77.2.52", "nud permanent"),
    ] {
        let entry = format!("neighbour replace {address} lladdr 02:00:00:00:77:04 dev r1 {how}");
        ip(router, &entry);
    }
    ip(router, "route add 198.51.100.0/24 via 10.77.2.51");
    ip(router, "route add 203.0.113.0/24 via 10.77.2.52");
    let set = [
        "10.77.2.2",
        "10.77.1.2",
        "fd77:2::2",
        "10.77.2.50",
        "10.77.2.51",
        "10.77.2.52",
    ];
    let before = entries(&bench, &set);
    assert!(before[0].contains("PERMANENT"), "{before:?}");

    gateway_works(&bench, "the kernel alone", Duration::from_secs(1));
    assert_eq!(entries(&bench, &set), before, "the kernel alone");
    for (how, time) in [("TERM", LONG), ("KILL", SHORT)] {
        bench.start(CONFIG);
        gateway_works(&bench, "weir", time);
        // The other entries are in use as well; the destination of their packets does not matter.
        for address in ["10.77.2.50", "10.77.2.51", "198.51.100.1", "203.0.113.1"] {
            bench.ping(&format!("-c 2 -i 0.01 -W 0.1 {address}"));
        }
        assert_eq!(entries(&bench, &set), before, "while weir runs");
        bench.stop(how);
        assert_eq!(entries(&bench, &set), before, "after {how:?}");
        gateway_works(&bench, "the kernel afterwards", Duration::from_millis(500));
    }
    assert_eq!(entries(&bench, &set), before);
}

#[test]
fn what_the_kernel_doubts_is_verified_while_it_is_used() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    let router = &bench.bed.router;
    sysctl(router, "ipv4/neigh/r1/delay_first_probe_time", "1");
    ip(&bench.bed.sink, "address add 10.77.2.7/24 dev b0");
    ip(router, "route add 192.0.2.0/24 via 10.77.2.7");
    for host in ["10.77.2.2", "10.77.2.7", "10.77.2.8"] {
        let entry = format!("neighbour replace {host} lladdr 02:00:00:00:4d:04 dev r1 nud stale");
        ip(router, &entry);
    }
    bench.start(CONFIG);
    let state = |host| entries(&bench, &[host]).remove(0);
    eventually("a gateway is verified", || {
        state("10.77.2.7").contains("REACHABLE")
    });
    eventually("a host in use is verified", || {
        assert!(bench.ping(ANSWERED));
        state("10.77.2.2").contains("REACHABLE")
    });
    assert!(state("10.77.2.8").contains("STALE"), "nobody uses it");
    assert!(!state("10.77.2.2").contains("managed"));
}

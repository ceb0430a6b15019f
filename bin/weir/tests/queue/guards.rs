//! Helper devices and interfaces that change under a running router: the kernel goes on, and the queues come back.

use std::thread;
use std::time::Duration;

use weir_benches::testbed::run;
use weir_live::device::interface;
use weir_live::namespace::Namespace;

use super::echoes::Echoes;
use super::{CONFIG, await_queues, await_queues_again, bench};

/// The longest time in which datagrams are lost after a change.
const PAUSE_MAX: Duration = Duration::from_millis(1500);
/// Time between two datagrams.
const GAP: Duration = Duration::from_millis(1);
/// Time in which datagrams pass before a change and after it.
const CALM: Duration = Duration::from_millis(300);

/// A change: its name, and commands of the form "HOST PROGRAM ARGUMENTS". OUT and IN are the near ends of the
/// helpers of `r1`.
type Change = (&'static str, &'static [&'static str]);

/// Changes of helper devices, as programs that manage a network may make them.
const HELPERS: [Change; 12] = [
    ("sent frames: removed", &["box ip link del OUT"]),
    ("sent frames: near end down", &["box ip link set OUT down"]),
    ("received frames: removed", &["box ip link del INr"]),
    (
        "received frames: near end down",
        &["box ip link set IN down"],
    ),
    ("sent frames: far end down", &["box ip link set OUTr down"]),
    (
        "sent frames: address",
        &["box ip link set OUT address 02:00:00:00:00:09"],
    ),
    (
        "received frames: address",
        &["box ip link set IN address 02:00:00:00:00:09"],
    ),
    (
        "received frames: elsewhere",
        &["box ip link set IN netns ELSEWHERE"],
    ),
    ("sent frames: MTU", &["box ip link set OUTr mtu 600"]),
    (
        "sent frames: renamed",
        &["box ip link set OUT down", "box ip link set OUT name mine"],
    ),
    (
        "received frames: no qdisc",
        &["box tc qdisc del dev IN clsact"],
    ),
    (
        "received frames: no filter",
        &["box tc filter del dev IN ingress"],
    ),
];

/// Gives `r1` its address and neighbour, which it loses with its link.
const ADDRESS: &str = "box ip address replace 10.77.2.1/24 dev r1";
const UP: &str = "box ip link set r1 up";
const NEIGHBOUR: &str = "box ip neighbour replace 10.77.2.2 lladdr 02:00:00:00:4d:04 dev r1";

/// Changes of the interface.
const INTERFACES: [Change; 6] = [
    (
        "another address",
        &[
            "box ip link set r1 address 02:00:00:00:77:33",
            "sink ip neighbour replace 10.77.2.1 lladdr 02:00:00:00:77:33 dev b0",
            NEIGHBOUR, // the kernel forgets its neighbours there
        ],
    ),
    ("another MTU", &["box ip link set r1 mtu 1400"]),
    ("down and up", &["box ip link set r1 down", UP, NEIGHBOUR]),
    (
        "renamed",
        &["box ip link set r1 name r9", "box ip link set r9 name r1"],
    ),
    (
        "elsewhere and back",
        &[
            "box ip link set r1 netns ELSEWHERE",
            "elsewhere ip link set r1 netns BOX",
            ADDRESS,
            UP,
            NEIGHBOUR,
        ],
    ),
    (
        "made again",
        &[
            "box ip link del r1",
            "box ip link add r1 type veth peer name b0 address 02:00:00:00:4d:04 netns SINK",
            "sink ip address add 10.77.2.2/24 dev b0",
            "sink ip link set b0 up",
            "sink ethtool -K b0 tx off",
            ADDRESS,
            UP,
            NEIGHBOUR,
        ],
    ),
];

/// Makes changes during an exchange of datagrams, and waits until the queues are back after each.
fn survive(changes: &[Change]) {
    let Some(mut bench) = bench() else {
        return;
    };
    bench.start(&CONFIG.replace("20 Mbit", "90 Mbit"));
    await_queues(&bench);
    let elsewhere = Namespace::new().unwrap();
    let bed = &bench.bed;
    for (what, commands) in changes {
        let index = bed.router.enter(|| interface::index("r1").unwrap());
        let index = index.unwrap();
        let echoes = Echoes::begin(bed, GAP);
        thread::sleep(CALM);
        for command in *commands {
            let command = command
                .replace("ELSEWHERE", &elsewhere.path())
                .replace("BOX", &bed.router.path())
                .replace("SINK", &bed.sink.path())
                .replace("OUT", &format!("weir-o{index}"))
                .replace("IN", &format!("weir-i{index}"));
            let (host, command) = command.split_once(' ').unwrap();
            let (program, arguments) = command.split_once(' ').unwrap();
            let host = match host {
                "box" => &bed.router,
                "sink" => &bed.sink,
                _ => &elsewhere,
            };
            run(host, program, arguments).unwrap();
        }
        let changed_at = echoes.now();
        await_queues_again(&bench, what);
        thread::sleep(CALM);
        let outcome = echoes.end();
        let pause = CALM..changed_at + PAUSE_MAX;
        let sent = outcome.sent.iter().filter(|at| pause.contains(at)).count();
        let lost = outcome.lost.len();
        println!(
            "{what}: {lost} of {} lost, the last at {:?}, the change was made at {changed_at:?}",
            outcome.sent.len(),
            outcome.lost.last()
        );
        assert!(lost < sent, "{what}: {}", bench.log());
        assert!(outcome.doubled.is_empty(), "{what}: {}", bench.log());
    }
}

#[test]
fn helpers_that_are_removed_or_switched_off_are_made_again() {
    survive(&HELPERS[..4]);
}

#[test]
fn helpers_with_other_addresses_are_made_again() {
    survive(&HELPERS[4..8]);
}

#[test]
fn helpers_that_are_taken_apart_are_made_again() {
    survive(&HELPERS[8..]);
}

#[test]
fn the_queues_follow_the_address_and_the_mtu_of_the_interface() {
    survive(&INTERFACES[..3]);
}

#[test]
fn the_queues_follow_an_interface_that_goes_and_comes_back() {
    survive(&INTERFACES[3..]);
}

#[test]
fn a_missing_carrier_is_logged_for_both_ports() {
    let Some(mut bench) = bench() else {
        return;
    };
    bench.start(CONFIG);
    await_queues(&bench);
    for (state, logged) in [("down", "carrier lost"), ("up", "carrier found")] {
        run(&bench.bed.sink, "ip", &format!("link set b0 {state}")).unwrap();
        bench.eventually(logged, || bench.log().matches(logged).count() == 2);
    }
    await_queues_again(&bench, "carrier");
    assert!(!bench.log().contains("port lost"), "{}", bench.log());
}

#[test]
fn frames_that_are_too_long_for_the_router_bypass_the_queue() {
    let Some(mut bench) = bench() else {
        return;
    };
    bench.start(CONFIG);
    await_queues(&bench);
    for (host, device) in [
        (&bench.bed.source, "a0"),
        (&bench.bed.router, "r0"),
        (&bench.bed.router, "r1"),
        (&bench.bed.sink, "b0"),
    ] {
        run(host, "ip", &format!("link set {device} mtu 9000")).unwrap();
    }
    bench.eventually("the log names the remedy", || {
        bench.log().matches("restart the router").count() == 2
    });
    bench.eventually("long packets bypass the queue", || {
        bench.ping("-c 1 -W 1 -s 8000 -M do 10.77.2.2")
    });
    bench.ip("link set r1 mtu 1500");
    await_queues_again(&bench, "the MTU of the start");
}

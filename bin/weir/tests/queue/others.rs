//! Other observers at an interface whose frames the kernel lends: packet sockets, traffic control, chains of netfilter.

use weir_benches::testbed::run;
use weir_live::device::af_packet::{AfPacket, Options};
use weir_live::device::{Device, Direction};
use weir_live::namespace::Namespace;

use super::{CONFIG, await_queues, bench};
use crate::common::{ANSWERED, Bench, PING, logged};
use crate::gateway::rules;

/// Counters of ICMP before and after the chains of weir, whose priority is -500.
const COUNTERS: &str = "\
table netdev seen {
    chain early_in { type filter hook ingress device r1 priority -600; ip protocol icmp counter; }
    chain late_in { type filter hook ingress device r1 priority -400; ip protocol icmp counter; }
    chain early_out { type filter hook egress device r1 priority -600; ip protocol icmp counter; }
    chain late_out { type filter hook egress device r1 priority -400; ip protocol icmp counter; }
}
";
/// Requests, and answers, of a measurement.
const PINGS: u64 = 20;

/// Preferences of the filters at both sides: the kernel shows u32 filters of equal preference at either side.
const SIDES: [(&str, u32); 2] = [("ingress", 7), ("egress", 8)];

/// Adds filters that count ICMP by copying it to a device that nobody reads.
fn count_in_tc(router: &Namespace, sides: &[(&str, u32)]) {
    let tc = |arguments: &str| run(router, "tc", arguments).unwrap();
    for arguments in ["link add m0 type veth peer name m1", "link set m0 up"] {
        run(router, "ip", arguments).unwrap();
    }
    tc("qdisc add dev r1 clsact");
    for (side, preference) in sides {
        tc(&format!(
            "filter add dev r1 {side} protocol ip pref {preference} u32 match ip protocol 1 0xff \
             action mirred egress mirror dev m0"
        ));
    }
}

/// The number before a word.
fn number_before(text: &str, word: &str) -> u64 {
    let words: Vec<_> = text.split_whitespace().collect();
    let at = words.iter().position(|w| *w == word);
    at.map_or(0, |at| words[at - 1].parse().unwrap())
}

/// ICMP frames that a filter of traffic control has counted.
fn in_tc(router: &Namespace, side: &str) -> u64 {
    let text = run(router, "tc", &format!("-s filter show dev r1 {side}")).unwrap();
    number_before(&text, "pkt")
}

/// ICMP frames that each observer has seen so far.
fn seen(bench: &Bench) -> Vec<(&'static str, u64)> {
    let router = &bench.bed.router;
    let chain = |name: &str| {
        let text = run(router, "nft", &format!("list chain netdev seen {name}")).unwrap();
        let text = text
            .replace("packets ", "")
            .replace(" bytes", " packets bytes");
        number_before(&text, "packets")
    };
    vec![
        ("early ingress chain", chain("early_in")),
        ("late ingress chain", chain("late_in")),
        ("early egress chain", chain("early_out")),
        ("late egress chain", chain("late_out")),
        ("tc ingress", in_tc(router, "ingress")),
        ("tc egress", in_tc(router, "egress")),
    ]
}

/// ICMP frames at a packet socket: received, and sent.
fn sniffed(socket: &mut AfPacket) -> [u64; 2] {
    let mut counts = [0, 0];
    while socket
        .receive(64, &mut |frame| {
            if frame.bytes.get(12..14) == Some(&[8, 0]) && frame.bytes.get(23) == Some(&1) {
                counts[usize::from(frame.direction == Direction::Outgoing)] += 1;
            }
        })
        .unwrap()
        > 0
    {}
    counts
}

#[test]
fn others_see_received_frames_twice_before_the_hook_and_once_after_it() {
    let Some(mut bench) = bench() else {
        return;
    };
    rules(&bench, COUNTERS);
    count_in_tc(&bench.bed.router, &SIDES);
    bench.start(CONFIG);
    await_queues(&bench);
    logged(
        || bench.log(),
        &["each received frame passes these traffic-control filters twice"],
    );
    logged(|| bench.log(), &["r1: u32, pref 7"]);
    let open = || AfPacket::open("r1", Options::default()).unwrap();
    let mut socket = bench.bed.router.enter(open).unwrap();
    let before = seen(&bench);
    let ping = format!("-c {PINGS} -i 0.01 -W 10 10.77.2.2");
    assert!(bench.ping(&ping));
    let counts = seen(&bench).into_iter().zip(before);
    let counts: Vec<_> = counts
        .map(|((who, now), (_, then))| (who, (now - then) / PINGS))
        .collect();
    let expected = [
        ("early ingress chain", 2),
        ("late ingress chain", 1),
        ("early egress chain", 2),
        ("late egress chain", 1),
        ("tc ingress", 2),
        ("tc egress", 1),
    ];
    assert_eq!(counts, expected);
    assert_eq!(sniffed(&mut socket), [2 * PINGS, PINGS]);
}

#[test]
fn a_routed_port_bypasses_traffic_control_at_the_egress() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    let router = &bench.bed.router;
    count_in_tc(router, &SIDES[1..]);
    assert!(run(router, "ping", ANSWERED).is_ok());
    assert_eq!(in_tc(router, "egress"), 1, "the kernel's own request");
    bench.start(crate::gateway::CONFIG);
    bench.eventually("the router forwards", || bench.ping(PING));
    let before = in_tc(&bench.bed.router, "egress");
    assert!(bench.ping(&format!("-c {PINGS} -i 0.01 -W 10 10.77.2.2")));
    assert_eq!(in_tc(&bench.bed.router, "egress"), before);
}

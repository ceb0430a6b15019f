//! Kernel state that decides about packets: refused by name before a start, and while a router runs the kernel forwards
//! until the state is removed. The kernel alone is the oracle: with the same state, the same packets arrive.

use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{ANSWERED, Bench, PING, UNPACED, logged};
use crate::gateway::{CONFIG, wan};
use weir_benches::testbed::{SINK, SOURCE, run};
use weir_model::Value;

/// State of the kernel, and the finding of weir about it.
struct Case {
    /// Kind, as docs/router.md names it.
    kind: &'static str,
    /// Commands of a shell on the box.
    set: &'static str,
    /// Commands that undo it.
    undo: &'static str,
    /// Text in the finding.
    what: &'static str,
    /// The key that permits it, if there is one.
    key: Option<&'static str>,
    /// Whether the kernel forwards pings from source to sink.
    passes: bool,
}

const RULES: Option<&str> = Some("bypass_rules");
const NETFILTER: Option<&str> = Some("bypass_netfilter");
const TC: Option<&str> = Some("bypass_tc");
const DEFAULT: Option<&str> = Some("bypass_default_route");

const fn case(
    kind: &'static str,
    set: &'static str,
    undo: &'static str,
    what: &'static str,
    key: Option<&'static str>,
    passes: bool,
) -> Case {
    Case {
        kind,
        set,
        undo,
        what,
        key,
        passes,
    }
}

/// State that this kernel supports. `tun0` is an interface that is not a port.
const CASES: &[Case] = &[
    case(
        "policy rules",
        "ip rule add from 10.77.1.0/24 prohibit pref 90",
        "ip rule del pref 90",
        "IPv4 rule 90: from 10.77.1.0/24 prohibit",
        RULES,
        false,
    ),
    case(
        "policy rules",
        "ip route add blackhole default table 99; ip rule add from 10.77.1.2 lookup 99 pref 91",
        "ip rule del pref 91; ip route flush table 99",
        "IPv4 rule 91: from 10.77.1.2/32 lookup 99",
        RULES,
        false,
    ),
    // As wg-quick does for a tunnel that carries all traffic.
    case(
        "policy rules",
        "ip route add 10.0.0.0/8 dev tun0 table 51820; ip rule add not fwmark 0xca6c lookup 51820 pref 93; \
         ip rule add lookup main suppress_prefixlength 24 pref 92",
        "ip rule del pref 92; ip rule del pref 93; ip route flush table 51820",
        "IPv4 rule 93: not from all fwmark 0xca6c lookup 51820",
        RULES,
        false,
    ),
    case(
        "policy rules",
        "ip -6 rule add to fd77:9::/64 unreachable pref 94",
        "ip -6 rule del pref 94",
        "IPv6 rule 94: from all to fd77:9::/64 unreachable",
        RULES,
        true,
    ),
    case(
        "policy rules",
        "ip rule del pref 32767",
        "ip rule add lookup default pref 32767",
        "IPv4 has no rule 32767: from all lookup default",
        RULES,
        true,
    ),
    case(
        "policy rules",
        "ip rule add pref 40000 lookup local; ip rule del pref 0",
        "ip rule add pref 0 lookup local; ip rule del pref 40000",
        "IPv4 rule 32766: from all lookup main",
        RULES,
        true,
    ),
    case(
        "IPsec policies",
        "ip xfrm policy add dir out src 10.77.1.0/24 dst 10.77.2.0/24 tmpl src 10.77.2.1 dst 10.77.2.2 proto esp mode tunnel",
        "ip xfrm policy flush",
        "policy out encrypts 10.77.1.0/24 to 10.77.2.0/24",
        None,
        false,
    ),
    case(
        "IPsec policies",
        "ip xfrm policy add dir fwd src 10.77.1.0/24 dst 10.77.2.0/24 action block",
        "ip xfrm policy flush",
        "policy fwd blocks 10.77.1.0/24 to 10.77.2.0/24",
        None,
        false,
    ),
    case(
        "IPsec policies",
        "ip xfrm policy setdefault fwd block",
        "ip xfrm policy setdefault fwd accept",
        "the default of fwd is block",
        None,
        false,
    ),
    case(
        "netfilter rules",
        "nft add table inet late; nft add chain inet late closed '{ type filter hook forward priority 0; policy drop; }'",
        "nft delete table inet late",
        "table inet late, chain closed",
        NETFILTER,
        false,
    ),
    case(
        "netfilter rules",
        "iptables-legacy -A FORWARD -d 10.77.2.2 -j DROP",
        "iptables-legacy -F FORWARD",
        "iptables: table filter, chain FORWARD",
        NETFILTER,
        false,
    ),
    case(
        "tc ingress filters",
        "tc qdisc add dev r0 clsact; tc filter add dev r0 ingress protocol ip u32 match u32 0 0 flowid 1:1",
        "tc qdisc del dev r0 clsact",
        "r0: u32, pref",
        TC,
        true,
    ),
    case(
        "tc redirections",
        "tc qdisc add dev r0 ingress; tc filter add dev r0 parent ffff: protocol ip u32 match u32 0 0 action mirred egress redirect dev ifb0",
        "tc qdisc del dev r0 ingress",
        "r0: u32, pref",
        None,
        true,
    ),
    case(
        "default routes past the ports",
        "ip route add default dev tun0",
        "ip route del default dev tun0",
        "IPv4 default dev tun0",
        DEFAULT,
        true,
    ),
    case(
        "default routes past the ports",
        "ip route add 128.0.0.0/1 dev tun0",
        "ip route del 128.0.0.0/1 dev tun0",
        "128.0.0.0/1 dev tun0",
        DEFAULT,
        true,
    ),
    case(
        "default routes past the ports",
        "ip -6 route add default dev tun0 metric 5",
        "ip -6 route del default dev tun0",
        "IPv6 default dev tun0",
        DEFAULT,
        true,
    ),
    case(
        "default routes past the ports",
        "ip route add default nexthop via 10.77.2.2 dev r1 nexthop dev tun0",
        "ip route del default",
        "IPv4 default dev tun0",
        DEFAULT,
        true,
    ),
    case(
        "master interfaces",
        "ip link set r0 master br0",
        "ip link set r0 nomaster",
        "r0 in br0 (bridge)",
        None,
        true,
    ),
];

/// Runs commands of a shell on the box.
fn sh(bench: &Bench, commands: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", commands]);
    let output = bench.bed.router.enter(|| shell.output()).unwrap().unwrap();
    assert!(output.status.success(), "{commands}: {output:?}");
}

/// The hosts, with an interface on the box that is not a port, an IFB, and a bridge.
fn bench() -> Option<Bench> {
    let bench = Bench::without_router()?;
    sh(
        &bench,
        "ip link add tun0 type veth peer name tun1; ip link set tun0 up; ip link set tun1 up; \
         ip link add ifb0 type ifb; ip link set ifb0 up; ip link add br0 type bridge; ip link set br0 up; \
         ip address add 10.99.0.1/24 dev tun0",
    );
    Some(bench)
}

fn status(bench: &Bench) -> Value {
    bench.get("/v1/status")
}

fn is_handed_back(bench: &Bench) -> bool {
    status(bench).get("handed_back") == Some(&Value::Flag(true))
}

/// Whether the table of kernel state has a finding.
fn has(bench: &Bench, case: &Case) -> bool {
    let rows: Vec<Value> = bench.get("/v1/kernel");
    rows.iter().any(|row| {
        row.text("kind") == Some(case.kind)
            && row.text("what").is_some_and(|w| w.contains(case.what))
    })
}

#[test]
fn what_is_refused_is_named_before_a_start_and_permitted_by_its_key() {
    let Some(bench) = bench() else { return };
    for case in CASES {
        sh(&bench, case.set);
        assert_eq!(
            bench.ping(if case.passes { ANSWERED } else { PING }),
            case.passes,
            "the kernel alone: {}",
            case.set
        );
        let path = bench.configure(CONFIG);
        let check = bench.weir(&["check", path.to_str().unwrap()]);
        let said = String::from_utf8(check.stderr).unwrap();
        assert_eq!(check.status.code(), Some(2), "{}: {said}", case.set);
        assert!(said.contains(case.what), "{said}");
        let router = bench.weir(&["router", path.to_str().unwrap()]);
        assert_eq!(router.status.code(), Some(2), "{}", case.set);
        match case.key {
            None => assert!(!said.contains(" = true"), "{said}"),
            Some(key) => {
                assert!(said.contains(&format!("`{key} = true`")), "{said}");
                let path = bench.configure(&format!("{key} = true\n{CONFIG}"));
                let check = bench.weir(&["check", path.to_str().unwrap()]);
                let said = String::from_utf8(check.stdout.clone()).unwrap();
                assert!(check.status.success(), "{}: {check:?}", case.set);
                assert!(
                    said.contains(case.what) && said.contains(&format!("note: `{key}` is true")),
                    "{said}"
                );
            }
        }
        sh(&bench, case.undo);
        let path = bench.configure(CONFIG);
        let check = bench.weir(&["check", path.to_str().unwrap()]);
        assert!(check.status.success(), "{}: {check:?}", case.undo);
    }
}

#[test]
fn while_a_router_runs_the_kernel_forwards_until_what_is_refused_is_gone() {
    let Some(mut bench) = bench() else { return };
    bench.start(CONFIG);
    assert!(bench.ping(ANSWERED));
    for case in CASES {
        let began = Instant::now();
        sh(&bench, case.set);
        bench.eventually(case.set, || is_handed_back(&bench));
        println!("{:?} after: {}", began.elapsed(), case.set);
        let why = status(&bench)
            .text("handed_back_why")
            .unwrap_or_default()
            .to_owned();
        assert!(why.contains(case.what), "{why}");
        assert!(has(&bench, case), "{}", case.set);
        bench.eventually("the ports are the kernel's", || {
            let rules = run(&bench.bed.router, "nft", "list tables netdev").unwrap_or_default();
            rules.contains("weir-")
                && !run(&bench.bed.router, "nft", "list ruleset")
                    .unwrap()
                    .contains("hook ingress")
        });
        let before = wan(&bench, "sent.packets");
        assert_eq!(
            bench.ping(if case.passes { ANSWERED } else { PING }),
            case.passes,
            "the kernel forwards: {}",
            case.set
        );
        assert_eq!(wan(&bench, "sent.packets"), before, "not weir");
        sh(&bench, case.undo);
        bench.eventually(case.undo, || !is_handed_back(&bench) && !has(&bench, case));
        bench.eventually("weir forwards again", || {
            bench.ping(PING) && wan(&bench, "sent.packets") > before
        });
    }
    logged(|| bench.log(), &["the kernel forwards at all ports until"]);
    logged(|| bench.log(), &["weir forwards again"]);
    assert_eq!(bench.stop("TERM").code(), Some(0));
}

/// Datagrams that reach the sink while `during` runs; the source sends one each millisecond.
fn under_traffic(bench: &Bench, during: impl FnOnce(&UdpSocket)) {
    let sink = bench
        .bed
        .sink
        .enter(|| UdpSocket::bind((SINK, 9)).unwrap())
        .unwrap();
    sink.set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let source = bench
        .bed
        .source
        .enter(|| UdpSocket::bind((SOURCE, 0)).unwrap())
        .unwrap();
    source.connect((SINK, 9)).unwrap();
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u64;
            while !ends.load(Ordering::Relaxed) {
                let _ = source.send(&number.to_be_bytes());
                number += 1;
                thread::sleep(Duration::from_millis(1));
            }
        });
        during(&sink);
        ends.store(true, Ordering::Relaxed);
    });
}

/// Number of a datagram that arrives now.
fn arrives(sink: &UdpSocket) -> Option<u64> {
    let mut number = [0; 8];
    sink.recv(&mut number).ok()?;
    Some(u64::from_be_bytes(number))
}

#[test]
fn nothing_leaves_in_clear_text_once_the_kernel_has_a_policy_or_a_tunnel_for_everything() {
    let Some(mut bench) = bench() else { return };
    bench.start(UNPACED);
    for case in CASES.iter().filter(|case| {
        case.kind == "IPsec policies" && case.what.contains("encrypts")
            || case.what.contains("fwmark")
    }) {
        under_traffic(&bench, |sink| {
            bench.eventually("traffic flows", || arrives(sink).is_some());
            sh(&bench, case.set);
            let began = Instant::now();
            let (mut count, mut last) = (0, Duration::ZERO);
            // Until nothing arrives for as long as the socket waits.
            while arrives(sink).is_some() {
                (count, last) = (count + 1, began.elapsed());
                assert!(last < Duration::from_secs(10), "{}", bench.log());
            }
            println!("{count} datagrams, the last {last:?} after: {}", case.set);
            assert!(is_handed_back(&bench));
            sh(&bench, case.undo);
            // No datagram arrives twice, and the order stays.
            let mut before = None;
            bench.eventually("weir forwards again", || {
                let number = arrives(sink);
                assert!(
                    number.is_none() || number > before,
                    "{number:?} after {before:?}"
                );
                before = number.or(before);
                !is_handed_back(&bench) && number.is_some()
            });
        });
    }
}

#[test]
fn a_handover_loses_and_doubles_nothing() {
    let Some(mut bench) = bench() else { return };
    bench.start(UNPACED);
    // The kernel forwards as weir does: only the forwarder changes.
    let harmless = [
        "ip rule add to 192.0.2.0/24 unreachable pref 95",
        "ip rule del pref 95",
    ];
    under_traffic(&bench, |sink| {
        let mut expected = arrives(sink).unwrap() + 1;
        for (command, is_kernel) in harmless.iter().zip([true, false]) {
            sh(&bench, command);
            let mut more = 100;
            bench.eventually(command, || {
                let number = arrives(sink).unwrap();
                assert_eq!(number, expected, "{command}");
                expected += 1;
                if is_handed_back(&bench) == is_kernel {
                    more -= 1;
                }
                more == 0
            });
        }
    });
}

#[test]
fn the_key_permits_it_while_the_router_runs_and_a_reload_is_refused() {
    let Some(mut bench) = bench() else { return };
    bench.start(CONFIG);
    sh(&bench, "ip rule add from 10.77.1.0/24 prohibit pref 90");
    bench.eventually("handed back", || {
        is_handed_back(&bench) && !bench.ping(PING)
    });
    let path = bench.configure(&CONFIG.replace("20 Mbit", "30 Mbit"));
    let refused = bench.weir(&["apply", path.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(
        why.contains("prohibit") && why.contains("bypass_rules"),
        "{why}"
    );
    let set = bench.ask(&["set", "port.wan.rate=4 Mbit"]);
    assert!(
        set.contains("4 Mbit") && set.contains("the kernel forwards"),
        "{set}"
    );
    let shown = bench.ask(&["show", "status"]);
    assert!(
        shown.contains("handed back") && shown.contains("prohibit"),
        "{shown}"
    );
    let set = bench.weir(&["set", "bypass_rules=true"]);
    assert!(set.status.success(), "{set:?}");
    assert!(!is_handed_back(&bench) && bench.ping(ANSWERED));
    let set = bench.weir(&["set", "bypass_rules=false"]);
    assert!(set.status.success(), "{set:?}");
    bench.eventually("handed back again", || {
        is_handed_back(&bench) && !bench.ping(PING)
    });
    // The router ends in order while the kernel forwards.
    assert_eq!(bench.stop("TERM").code(), Some(0));
    sh(&bench, "ip rule del pref 90");
    assert!(bench.ping(ANSWERED), "the kernel alone");
}

#[test]
fn rules_of_the_box_itself_and_routes_to_a_third_interface_start_a_router() {
    let Some(mut bench) = bench() else { return };
    sh(
        &bench,
        "ip rule add iif lo to 192.0.2.0/24 lookup 100; ip rule add oif tun0 lookup 100; \
         ip rule add iif tun0 lookup 100; ip rule add uidrange 1000-2000 lookup 100; \
         ip rule add lookup main pref 100; ip xfrm policy add dir in src 10.9.0.0/24 dst 10.8.0.0/24 \
         tmpl proto esp mode tunnel; ip xfrm policy add dir out src 10.9.0.0/24 dst 10.8.0.0/24 action allow",
    );
    let path = bench.configure(CONFIG);
    let check = bench.weir(&["check", path.to_str().unwrap()]);
    let said = String::from_utf8(check.stdout.clone()).unwrap();
    assert!(check.status.success(), "{check:?}");
    let notes: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("note: "))
        .collect();
    assert_eq!(notes.len(), 1, "{said}");
    assert!(notes[0].contains("tun0 (10.99.0.0/24)"), "{said}");
    bench.start(CONFIG);
    assert!(bench.ping(ANSWERED) && !is_handed_back(&bench));
}

#[test]
fn a_bridge_hands_back_to_the_bridge_of_the_kernel_and_to_nobody_else() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    let config =
        "mode = \"bridged\"\n[port.lan]\ninterface = \"r0\"\n[port.wan]\ninterface = \"r1\"\n";
    sh(&bench, "ip address flush dev r0; ip address flush dev r1");
    for (host, far, mac) in [
        (&bench.bed.source, SINK, "b0"),
        (&bench.bed.sink, SOURCE, "a0"),
    ] {
        let device = if mac == "b0" { "a0" } else { "b0" };
        run(host, "ip", &format!("route add {far}/32 dev {device}")).unwrap();
    }
    let rule = "nft add table netdev late; nft add chain netdev late early \
                '{ type filter hook ingress device r0 priority 0; }'; \
                nft add rule netdev late early meta length 1 drop";
    bench.start(config);
    bench.eventually("the bridge passes", || bench.ping(PING));
    // Only weir connects the interfaces: it continues, and reports the rule.
    sh(&bench, rule);
    bench.eventually("found", || {
        bench.ask(&["show", "kernel"]).contains("chain early")
    });
    assert!(!is_handed_back(&bench) && bench.ping(ANSWERED));
    sh(
        &bench,
        "ip link add br0 type bridge forward_delay 0; ip link set r0 master br0; ip link set r1 master br0; ip link set br0 up",
    );
    bench.eventually("the kernel's bridge forwards", || is_handed_back(&bench));
    bench.eventually("and passes", || bench.ping(PING));
    sh(&bench, "nft delete table netdev late");
    bench.eventually("weir forwards again", || {
        !is_handed_back(&bench) && bench.ping(PING)
    });
}

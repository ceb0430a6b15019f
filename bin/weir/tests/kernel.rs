//! `weir router` and the kernel beneath it: packets that the kernel still forwards, rules of the machine that are
//! bypassed with a key, and packets that the kernel itself sends. What a router refuses is in `state.rs`.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{ANSWERED, Bench, PATIENCE, PING, UNPACED, eventually, logged};
use crate::gateway::{CONFIG, bypassed, forwarded, received, rules, stacks, wan};
use crate::oracle::{self, Case, Probe, V4, V6};
use weir_benches::testbed::{MACS, SINK, SOURCE, Testbed, run, udp_frame};
use weir_live::device::Device;
use weir_model::Value;

#[test]
fn what_is_tagged_goes_through_weir_or_nowhere() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    let stacks = stacks(5);
    let priority_only = |n: &usize| stacks[*n].iter().all(|(_, vlan)| *vlan == 0);
    let expected: BTreeSet<usize> = (0..stacks.len()).filter(priority_only).collect();
    let alone = forwarded(&bench.bed, &stacks);
    assert_eq!(
        BTreeSet::from_iter(alone.into_keys()),
        expected,
        "the kernel alone"
    );
    bench.start(CONFIG);
    let before = wan(&bench, "sent.packets");
    let came = forwarded(&bench.bed, &stacks);
    let twice: Vec<_> = came.iter().filter(|(_, times)| **times > 1).collect();
    assert_eq!(twice, [], "by weir and by the kernel");
    // As the kernel does: with no tag, or with a priority tag only.
    for (n, stack) in stacks
        .iter()
        .enumerate()
        .filter(|(_, stack)| stack.len() < 2)
    {
        assert_eq!(came.contains_key(&n), expected.contains(&n), "{stack:?}");
    }
    assert!(came.keys().all(|n| expected.contains(n)), "{came:?}");
    let by_weir = wan(&bench, "sent.packets") - before;
    assert!(
        by_weir >= came.len() as u64,
        "nothing came past weir's port"
    );
    println!(
        "the kernel alone forwards {}, weir {}",
        expected.len(),
        came.len()
    );
}

const FORWARD_DROP: &str = "\
table inet late {
  chain closed {
    type filter hook forward priority 0; policy drop;
  }
}
";

#[test]
fn rules_that_appear_later_are_seen_and_refuse_a_new_configuration() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    let config = format!("kernel_change = \"ignore\"\n{CONFIG}");
    bench.start(&config);
    assert_eq!(bypassed(&bench), []);
    assert!(!bench.ask(&["show", "ports"]).contains("bypasses"));
    rules(&bench, FORWARD_DROP);
    eventually("the new chain is seen", || bypassed(&bench).len() == 1);
    let row = bypassed(&bench).remove(0);
    let words = ["table", "chain", "hook"].map(|name| row.text(name).unwrap());
    assert_eq!(words, ["late", "closed", "forward"]);
    let flags = ["policy_drop", "at_start"].map(|name| row.get(name).unwrap().clone());
    assert_eq!(flags, [Value::Flag(true), Value::Flag(false)]);
    logged(|| bench.log(), &["ERROR", "late", "closed"]);
    assert!(bench.ask(&["show", "netfilter"]).contains("closed"));
    let ports = bench.ask(&["show", "ports"]);
    assert!(
        ports.contains("that forwarded packets bypass: 1"),
        "{ports}"
    );
    // The router still forwards, but refuses configuration changes.
    assert!(bench.ping(ANSWERED));
    let path = bench.configure(&config.replace("20 Mbit", "30 Mbit"));
    let refused = bench.weir(&["apply", path.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let why = String::from_utf8(refused.stderr).unwrap();
    assert!(
        why.contains("chain closed") && why.contains("bypass_netfilter"),
        "{why}"
    );
    bench.signal("HUP");
    eventually("SIGHUP is refused", || {
        bench.log().contains("configuration refused")
    });
    assert!(bench.ask(&["show", "ports"]).contains("20 Mbit"));
    // When the rules are deleted, configurations are accepted again.
    run(&bench.bed.router, "nft", "delete table inet late").unwrap();
    eventually("the chain has gone", || bypassed(&bench).is_empty());
    let applied = bench.weir(&["apply", path.to_str().unwrap()]);
    assert!(applied.status.success(), "{applied:?}");
}

#[test]
fn a_storm_of_changes_is_read_a_few_times_a_second() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    bench.start_with(
        CONFIG,
        &[("WEIR_LOG", "info,weir_live::router::watch=debug")],
    );
    let reads = || bench.log().matches("reading kernel state").count();
    let (begin, before) = (Instant::now(), reads());
    let mut changes = 0;
    while begin.elapsed() < Duration::from_secs(3) {
        rules(&bench, "add table inet storm\ndelete table inet storm\n");
        changes += 1;
    }
    let most = 2 + begin.elapsed().as_millis() as usize / 400;
    let came = reads() - before;
    assert!(
        came > 0 && came <= most,
        "{came} reads for {changes} changes"
    );
    println!("{came} reads for {changes} changes");
}

#[test]
fn a_router_may_stop_when_rules_appear() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    // Also with the old name of the key.
    bench.start(&format!("netfilter_change = \"stop\"\n{CONFIG}"));
    logged(|| bench.log(), &["write `kernel_change = \"stop\"`"]);
    assert!(bench.ping(ANSWERED));
    rules(&bench, FORWARD_DROP);
    assert_eq!(bench.ended().code(), Some(1));
    assert!(bench.log().contains("chain closed"), "{}", bench.log());
    assert!(!bench.ping(PING), "the kernel applies its rule");
    run(&bench.bed.router, "nft", "delete table inet late").unwrap();
    assert!(bench.ping(ANSWERED), "and forwards");
}

#[test]
fn every_hook_refuses_the_start_and_permission_is_logged() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    let chains = [
        ("ip", "raw", "prerouting priority -300"),
        ("inet", "mangle", "postrouting priority -150"),
        ("netdev", "early", "ingress device r0 priority 0"),
    ];
    let table = |(family, chain, hook): &(&str, &str, &str)| {
        format!(
            "table {family} t {{\n chain {chain} {{\n type filter hook {hook};\n meta length 1 drop\n }}\n}}\n"
        )
    };
    for one in &chains {
        rules(&bench, &table(one));
        let path = bench.configure(CONFIG);
        let check = bench.weir(&["check", path.to_str().unwrap()]);
        assert_eq!(check.status.code(), Some(2), "{one:?}");
        let why = String::from_utf8(check.stderr).unwrap();
        assert!(
            why.contains(&format!("table {} t, chain {}", one.0, one.1)),
            "{why}"
        );
        run(&bench.bed.router, "nft", "flush ruleset").unwrap();
    }
    rules(&bench, &chains.iter().map(table).collect::<String>());
    bench.start(&format!("bypass_netfilter = true\n{CONFIG}"));
    eventually("what is bypassed is known", || bypassed(&bench).len() == 3);
    let at_start = |row: &Value| row.get("at_start") == Some(&Value::Flag(true));
    assert!(bypassed(&bench).iter().all(at_start));
    let warning = logged(|| bench.log(), &["WARN", "bypass_netfilter"]);
    let names = |(_, chain, _): &(_, &str, _)| warning.contains(chain);
    assert!(chains.iter().all(names), "{warning}");
    let log = bench.log();
    assert!(!log.contains("ERROR"), "{log}");
}

/// An echo request from the sink to the box.
fn echo_request() -> Vec<u8> {
    let mut frame = udp_frame(0, 1400);
    frame[0..6].copy_from_slice(&MACS[2]);
    frame[6..12].copy_from_slice(&MACS[3]);
    frame[23] = 1;
    frame[24..26].fill(0);
    frame[26..30].copy_from_slice(&SINK.octets());
    frame[30..34].copy_from_slice(&[10, 77, 2, 1]);
    frame[34..].fill(0);
    frame[34] = 8;
    let sum = |bytes: &[u8]| {
        let words = bytes
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
        let sum: u32 = words.sum();
        (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
    };
    let header = sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&header);
    let icmp = sum(&frame[34..]);
    frame[36..38].copy_from_slice(&icmp);
    frame
}

/// Bits per second that leave the box for the sink during a second in which the sink sends echo requests as fast as it
/// can. With `transit`, the source sends datagrams at the same time.
fn under_flood(bench: &Bench, transit: bool, meanwhile: impl FnOnce()) -> f64 {
    let request = echo_request();
    let batch = [request.as_slice(); 32];
    let mut flooder = Testbed::open(&bench.bed.sink, "b0").unwrap();
    let sender = bench
        .bed
        .source
        .enter(|| UdpSocket::bind((SOURCE, 0)).unwrap())
        .unwrap();
    sender.connect((SINK, 9)).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = flooder.transmit(&batch);
            }
        });
        scope.spawn(|| {
            // Twice the port's rate.
            while transit && !stop.load(Ordering::Relaxed) {
                let _ = sender
                    .send(&[0; 1200])
                    .and_then(|_| sender.send(&[0; 1200]));
                thread::sleep(Duration::from_micros(300));
            }
        });
        // By then, the second's worth of bytes that a bucket holds is used up.
        thread::sleep(Duration::from_millis(1500));
        let (begin, before) = (Instant::now(), received(bench));
        meanwhile();
        thread::sleep(Duration::from_secs(1).saturating_sub(begin.elapsed()));
        let bits = (received(bench) - before) as f64 * 8.0;
        let rate = bits / begin.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        rate
    })
}

#[test]
fn a_flood_of_pings_at_the_box_keeps_to_its_share_of_the_port() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    let alone = under_flood(&bench, false, || ());
    bench.start(CONFIG);
    assert!(bench.ping(ANSWERED));
    assert_eq!(wan(&bench, "local_dropped.packets"), 0);
    let listener = bench
        .bed
        .router
        .enter(|| TcpListener::bind("10.77.2.1:2222").unwrap());
    let listener = listener.unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = [0; 100];
            while stream.read_exact(&mut line).is_ok() {
                let _ = stream.write_all(&line);
            }
        }
    });
    let managed = || {
        let connect = || TcpStream::connect("10.77.2.1:2222").unwrap();
        let mut stream = bench.bed.sink.enter(connect).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        for _ in 0..50 {
            stream.write_all(&[7; 100]).unwrap();
            stream.read_exact(&mut [0; 100]).unwrap();
        }
    };
    let begin = Instant::now();
    let both = under_flood(&bench, true, managed);
    let took = begin.elapsed();
    let dropped = wan(&bench, "local_dropped.packets");
    let pings = under_flood(&bench, false, || ());
    println!(
        "the kernel alone sends {:.1} Mbit/s; a port of 20 Mbit/s with transit {:.2}, without \
         {:.2}; {dropped} answers were dropped; 50 exchanges and a second took {took:?}",
        alone / 1e6,
        both / 1e6,
        pings / 1e6,
    );
    assert!(alone > 40e6, "the flood is one: {alone}");
    assert!(both < 20e6 * 1.05, "{both}");
    assert!(both > 2.0 * pings, "most of it is transit: {both}");
    // One eighth of half the port's rate.
    assert!(pings < 20e6 / 16.0 * 1.2, "{pings}");
    assert!(dropped > 0);
    // The limit follows the rate.
    let changed = bench.weir(&["set", "port.wan.rate=4 Mbit"]);
    assert!(changed.status.success(), "{changed:?}");
    eventually("the limit follows", || {
        under_flood(&bench, false, || ()) < pings / 3.0
    });
    let table = bench.ask(&["show", "ports"]);
    assert!(table.contains("LOCAL DROPPED"), "{table}");
}

#[test]
fn transit_does_not_count_as_the_boxs_own() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    // The box itself gets 200 kbit/s, and a burst of one second's worth: 25 kB.
    let share = "rate = \"20 Mbit\"\nlocal_share = 0.01";
    bench.start(&CONFIG.replace("rate = \"20 Mbit\"", share));
    assert!(bench.ping(ANSWERED));
    let bind = || UdpSocket::bind((SOURCE, 0)).unwrap();
    let sender = bench.bed.source.enter(bind).unwrap();
    let before = received(&bench);
    for _ in 0..1000 {
        sender.send_to(&[0; 1000], (SINK, 9)).unwrap();
        thread::sleep(Duration::from_micros(600));
    }
    eventually("transit comes whole", || {
        received(&bench) - before >= 1000 * 1042
    });
    assert_eq!(wan(&bench, "local_dropped.packets"), 0);
}

/// Packets that the kernel forwards or not, depending on its settings.
const FORWARDING: &[Case] = &[
    Case {
        name: "nothing is changed",
        setup: "true",
        undo: "true",
        probes: &[
            V4,
            V6,
            V4.expiring(),
            V6.expiring(),
            V4.to("192.0.2.1"),
            V6.to("2001:db8::1"),
        ],
    },
    Case {
        name: "ip_forward is 0",
        setup: "sysctl -qw net.ipv4.ip_forward=0",
        undo: "true",
        probes: &[V4, V4.expiring(), V4.to("192.0.2.1"), V6],
    },
    Case {
        name: "forwarding is 0 where they come in",
        setup: "sysctl -qw net.ipv4.conf.r0.forwarding=0",
        undo: "true",
        probes: &[V4, V4.expiring(), V6],
    },
    Case {
        name: "forwarding is 0 where they leave",
        setup: "sysctl -qw net.ipv4.conf.r1.forwarding=0",
        undo: "true",
        probes: &[V4],
    },
    Case {
        name: "IPv6's forwarding is 0",
        setup: "sysctl -qw net.ipv6.conf.all.forwarding=0",
        undo: "true",
        probes: &[V6, V6.expiring(), V6.to("2001:db8::1"), V4],
    },
    Case {
        name: "IPv6's forwarding is 0 at one interface, which only makes it a host",
        setup: "sysctl -qw net.ipv6.conf.r0.forwarding=0 net.ipv6.conf.r1.forwarding=0",
        undo: "true",
        probes: &[V6],
    },
    Case {
        name: "IPv6's forwarding is 0, but not where they come in",
        setup: "sysctl -qw net.ipv6.conf.all.forwarding=0;
            [ ! -e /proc/sys/net/ipv6/conf/r0/force_forwarding ] ||
            sysctl -qw net.ipv6.conf.r0.force_forwarding=1",
        undo: "true",
        probes: &[V6],
    },
    Case {
        name: "IPv6 is off where they come in",
        setup: "sysctl -qw net.ipv6.conf.r0.disable_ipv6=1",
        undo: "true",
        probes: &[V6, V6.expiring(), V6.to("2001:db8::1"), V4],
    },
    Case {
        name: "IPv6 is off where they leave",
        setup: "sysctl -qw net.ipv6.conf.r1.disable_ipv6=1",
        undo: "true",
        probes: &[V6],
    },
    Case {
        name: "the MTU ends IPv6",
        setup: "ip link set r0 mtu 1000",
        undo: "true",
        probes: &[V6, V4],
    },
];

/// Packets that are too long for a route, for IPv6 or for an interface.
const LONG: Probe = V4.long(1400);
const LONG_V6: Probe = V6.long(1400);
const MTUS: &[Case] = &[
    Case {
        name: "an IPv4 route has an MTU",
        setup: "ip route add 10.77.2.2 dev r1 mtu 1300",
        undo: "ip route del 10.77.2.2",
        probes: &[LONG, LONG.fragmentable(), LONG_V6],
    },
    Case {
        name: "an IPv4 route has a locked MTU",
        setup: "ip route add 10.77.2.2 via 10.77.2.2 dev r1 onlink mtu lock 1300",
        undo: "ip route del 10.77.2.2",
        probes: &[LONG, LONG.fragmentable(), V4.long(1300)],
    },
    Case {
        name: "the MTU of a route changes",
        setup: "ip route add 10.77.2.2 dev r1 mtu 1300; ip route replace 10.77.2.2 dev r1 mtu 1350",
        undo: "ip route del 10.77.2.2",
        probes: &[LONG],
    },
    Case {
        name: "a route by a next-hop object has an MTU",
        setup: "ip nexthop add id 5 dev r1; ip route add 10.77.2.2 nhid 5 mtu 1300",
        undo: "ip route del 10.77.2.2; ip nexthop del id 5",
        probes: &[LONG],
    },
    Case {
        name: "an IPv6 route has an MTU",
        setup: "ip route add fd77:2::2 dev r1 mtu 1300",
        undo: "ip route del fd77:2::2",
        probes: &[LONG_V6, LONG],
    },
    Case {
        name: "an IPv6 route has a locked MTU",
        setup: "ip route add fd77:2::2 dev r1 mtu lock 1300",
        undo: "ip route del fd77:2::2",
        probes: &[LONG_V6],
    },
    Case {
        name: "a router advertisement has set the MTU of IPv6",
        setup: "sysctl -qw net.ipv6.conf.r1.mtu=1300",
        undo: "true",
        probes: &[LONG_V6, LONG],
    },
    Case {
        name: "the MTU of IPv6 counts where they leave",
        setup: "sysctl -qw net.ipv6.conf.r0.mtu=1300",
        undo: "true",
        probes: &[LONG_V6],
    },
    Case {
        name: "the device's MTU",
        setup: "ip link set r1 mtu 1300",
        undo: "true",
        probes: &[LONG, LONG.fragmentable(), LONG_V6],
    },
];

/// A host behind the source, and another that is a neighbour of the router there.
const FAR: Probe = V4.from("198.51.100.7").expiring();
const FAR_V6: Probe = V6.from("2001:db8:7::7").expiring();
const SOURCES: &[Case] = &[
    Case {
        name: "an unnumbered router has an address on lo",
        setup: "ip address add 192.0.2.9/32 dev lo; ip -4 address flush dev r0;
            ip route add 10.77.1.2 dev r0; ip neighbour replace 10.77.1.2 lladdr 02:00:00:00:4d:01 dev r0",
        undo: "ip route del 10.77.1.2; ip address del 192.0.2.9/32 dev lo",
        probes: &[V4.expiring(), V4.to("192.0.2.1")],
    },
    Case {
        name: "an unnumbered interface",
        setup: "ip -4 address flush dev r0; ip route add 10.77.1.2 dev r0;
            ip neighbour replace 10.77.1.2 lladdr 02:00:00:00:4d:01 dev r0",
        undo: "ip route del 10.77.1.2",
        probes: &[V4.expiring()],
    },
    Case {
        name: "no IPv4 address at all",
        setup: "ip -4 address flush dev r0; ip -4 address flush dev r1; ip -4 address flush dev lo;
            ip route add 10.77.1.2 dev r0; ip route add 10.77.2.2 dev r1;
            ip neighbour replace 10.77.1.2 lladdr 02:00:00:00:4d:01 dev r0",
        undo: "ip route del 10.77.1.2; ip route del 10.77.2.2; ip address add 127.0.0.1/8 dev lo",
        probes: &[V4.expiring()],
    },
    Case {
        name: "IPv4 by an IPv6 next hop, unnumbered",
        setup: "ip -4 address flush dev r0; ip address add 192.0.2.9/32 dev lo;
            ip route add 198.51.100.7 via inet6 fd77:1::2 dev r0",
        undo: "ip route del 198.51.100.7; ip address del 192.0.2.9/32 dev lo",
        probes: &[FAR],
    },
    Case {
        name: "two addresses",
        setup: "ip address add 192.0.2.1/24 dev r0; ip route add 198.51.100.7 via 192.0.2.77;
            ip neighbour replace 192.0.2.77 lladdr 02:00:00:00:4d:01 dev r0",
        undo: "ip address del 192.0.2.1/24 dev r0",
        probes: &[V4.expiring(), FAR],
    },
    Case {
        name: "a secondary address came first and is primary now",
        setup: "ip address add 10.77.1.3/24 dev r0; ip address del 10.77.1.1/24 dev r0;
            ip address add 10.77.1.4/24 dev r0; ip address add 10.77.1.5/24 dev r0;
            ip neighbour replace 10.77.1.2 lladdr 02:00:00:00:4d:01 dev r0",
        undo: "ip -4 address flush dev r0",
        probes: &[V4.expiring()],
    },
    Case {
        name: "addresses of two scopes",
        setup: "ip address add 169.254.9.9/24 dev r0 scope link; ip address del 10.77.1.1/24 dev r0;
            ip route add 198.51.100.7 dev r0; ip route add 198.51.100.8 via 10.77.1.2 dev r0 onlink;
            ip neighbour replace 198.51.100.7 lladdr 02:00:00:00:4d:01 dev r0;
            ip neighbour replace 10.77.1.2 lladdr 02:00:00:00:4d:01 dev r0",
        undo: "ip route del 198.51.100.7; ip route del 198.51.100.8; ip address del 169.254.9.9/24 dev r0",
        probes: &[FAR, FAR.from("198.51.100.8")],
    },
    Case {
        name: "a point-to-point address",
        setup: "ip -4 address flush dev r0; ip address add 203.0.113.1 peer 10.77.1.2/32 dev r0;
            ip neighbour replace 10.77.1.2 lladdr 02:00:00:00:4d:01 dev r0",
        undo: "ip -4 address flush dev r0",
        probes: &[V4.expiring()],
    },
    Case {
        name: "a preferred source",
        setup: "ip route add 198.51.100.7 via 10.77.1.2 src 10.77.2.1;
            ip route add 2001:db8:7::7 via fd77:1::2 src fd77:2::1",
        undo: "ip route del 198.51.100.7; ip route del 2001:db8:7::7",
        probes: &[FAR, FAR_V6],
    },
    Case {
        name: "the way back leads out of another interface",
        setup: "ip route add 198.51.100.7 via 10.77.2.2; ip route add 2001:db8:7::7 via fd77:2::2",
        undo: "ip route del 198.51.100.7; ip route del 2001:db8:7::7",
        probes: &[FAR, FAR_V6],
    },
    Case {
        name: "errors have an address of the ingress interface",
        setup: "sysctl -qw net.ipv4.icmp_errors_use_inbound_ifaddr=1;
            ip route add 198.51.100.7 via 10.77.2.2",
        undo: "ip route del 198.51.100.7",
        probes: &[FAR],
    },
    Case {
        name: "no way back",
        setup: "ip route add unreachable 198.51.100.7; ip route add blackhole 2001:db8:7::7",
        undo: "ip route del unreachable 198.51.100.7; ip route del blackhole 2001:db8:7::7",
        probes: &[FAR, FAR.from("198.51.100.9"), FAR_V6, FAR_V6.from("2001:db8:7::9")],
    },
    Case {
        name: "several IPv6 addresses",
        setup: "ip address add fd77:1::a/64 dev r0 nodad; ip address add 2001:db8:1::1/64 dev r0 nodad;
            ip route add 2001:db8:7::7 via fd77:1::2",
        undo: "ip address del fd77:1::a/64 dev r0; ip address del 2001:db8:1::1/64 dev r0;
            ip route del 2001:db8:7::7",
        probes: &[V6.expiring(), FAR_V6],
    },
    Case {
        name: "an unnumbered router has an IPv6 address on lo",
        setup: "ip address add 2001:db8:9::9/128 dev lo nodad; ip address del fd77:1::1/64 dev r0;
            ip route add fd77:1::2 dev r0; ip neighbour replace fd77:1::2 lladdr 02:00:00:00:4d:01 dev r0;
            ip address del fd77:2::1/64 dev r1; ip route add fd77:2::2 dev r1",
        undo: "ip address del 2001:db8:9::9/128 dev lo; ip route del fd77:1::2; ip route del fd77:2::2",
        probes: &[V6.expiring()],
    },
    Case {
        name: "no global IPv6 address",
        setup: "ip address del fd77:1::1/64 dev r0; ip route add fd77:1::2 dev r0;
            ip neighbour replace fd77:1::2 lladdr 02:00:00:00:4d:01 dev r0;
            ip address del fd77:2::1/64 dev r1; ip route add fd77:2::2 dev r1",
        undo: "ip route del fd77:1::2; ip route del fd77:2::2",
        probes: &[V6.expiring()],
    },
    Case {
        name: "only addresses of the interface",
        setup: "sysctl -qw net.ipv6.conf.r0.use_oif_addrs_only=1; ip address del fd77:1::1/64 dev r0;
            ip route add fd77:1::2 dev r0; ip neighbour replace fd77:1::2 lladdr 02:00:00:00:4d:01 dev r0",
        undo: "ip route del fd77:1::2",
        probes: &[V6.expiring()],
    },
    Case {
        name: "a deprecated IPv6 address",
        setup: "ip address change fd77:1::1/64 dev r0 preferred_lft 0",
        undo: "ip address change fd77:1::1/64 dev r0 preferred_lft forever",
        probes: &[V6.expiring()],
    },
    Case {
        name: "a home address",
        setup: "ip address add fd77:1::f/64 dev r0 nodad home; ip address add fd77:1::e/64 dev r0 nodad",
        undo: "ip address del fd77:1::f/64 dev r0; ip address del fd77:1::e/64 dev r0",
        probes: &[V6.expiring()],
    },
];

/// A host behind the sink, and an IPv6 host there.
const THERE: Probe = V4.to("192.0.2.1");
const THERE_V6: Probe = V6.to("2001:db8::1");
const ROUTES: &[Case] = &[
    Case {
        name: "routes that refuse",
        setup: "ip route add unreachable 192.0.2.0/24; ip route add unreachable 2001:db8::/32",
        undo: "ip route del unreachable 192.0.2.0/24; ip route del unreachable 2001:db8::/32",
        probes: &[THERE, THERE_V6],
    },
    Case {
        name: "throw ends the search in its table",
        setup: "ip route add throw 192.0.2.0/24; ip route add default via 10.77.2.2;
            ip route add throw 2001:db8::/32; ip route add default via fd77:2::2",
        undo: "ip route del throw 192.0.2.0/24; ip route del default;
            ip route del throw 2001:db8::/32; ip -6 route del default",
        probes: &[THERE, THERE_V6, V4.to("203.0.113.1")],
    },
    Case {
        name: "throw goes on in the table default, a blackhole does not",
        setup: "ip route add throw 192.0.2.0/24; ip route add blackhole 203.0.113.0/24;
            ip route add default via 10.77.2.2 table default",
        undo: "ip route del throw 192.0.2.0/24; ip route del blackhole 203.0.113.0/24;
            ip route del default table default",
        probes: &[THERE, V4.to("203.0.113.1"), V4.to("198.51.100.1")],
    },
    Case {
        name: "main comes before default, however long the prefixes",
        setup: "ip route add 192.0.0.0/8 via 10.77.1.2; ip route add 192.0.2.0/24 via 10.77.2.2 table default",
        undo: "ip route del 192.0.0.0/8; ip route del 192.0.2.0/24 table default",
        probes: &[THERE],
    },
    Case {
        name: "no rule of IPv6 leads to the table default",
        setup: "ip -6 route add default via fd77:2::2 table default",
        undo: "ip -6 route del default table default",
        probes: &[THERE_V6],
    },
    Case {
        name: "IPv6's local table comes before main",
        setup: "ip route add local 2001:db8::/48 dev lo; ip route add 2001:db8::/64 via fd77:2::2",
        undo: "ip route del local 2001:db8::/48 dev lo table local; ip route del 2001:db8::/64 via fd77:2::2",
        probes: &[THERE_V6],
    },
    Case {
        name: "source-specific routes",
        setup: "ip -6 route add default from fd77:1::/64 via fd77:2::2;
            ip -6 route add 2001:db8:8::/48 via fd77:2::2",
        undo: "ip -6 route del default from fd77:1::/64; ip -6 route del 2001:db8:8::/48",
        probes: &[THERE_V6, THERE_V6.from("2001:db8:8::8")],
    },
    Case {
        name: "source-specific routes beside others",
        setup: "ip -6 route add default via fd77:2::2;
            ip -6 route add blackhole 2001:db8::/48 from fd77:1::/64;
            ip -6 route add 2001:db8::/48 from fd77:1::7 via fd77:2::2;
            ip -6 route add unreachable 2001:db8:1::/48 from fd77:1::/64",
        undo: "ip -6 route del default; ip -6 route del blackhole 2001:db8::/48 from fd77:1::/64;
            ip -6 route del 2001:db8::/48 from fd77:1::7;
            ip -6 route del unreachable 2001:db8:1::/48 from fd77:1::/64",
        probes: &[
            THERE_V6,
            THERE_V6.from("fd77:1::7"),
            THERE_V6.from("2001:db8:8::8"),
            V6.to("2001:db8:1::1"),
            V6.to("2001:db8:1::1").from("2001:db8:8::8"),
        ],
    },
    Case {
        name: "a lifetime ends",
        setup: "ip -6 route add 2001:db8::/32 via fd77:2::2 expires 1; sleep 1.2",
        undo: "ip -6 route flush 2001:db8::/32 2>/dev/null || true",
        probes: &[THERE_V6],
    },
    Case {
        name: "reserved blocks that have routes",
        setup: "for net in 240.1.0.0/16 0.1.0.0/16 169.254.7.0/24 255.1.1.1/32; do
                ip route add $net via 10.77.2.2; done;
            for net in 240.2.0.0/16 0.2.0.0/16 169.254.8.0/24; do ip route add $net via 10.77.1.2; done;
            ip route add ::ffff:10.1.1.0/120 via fd77:2::2",
        undo: "for net in 240.1.0.0/16 0.1.0.0/16 169.254.7.0/24 255.1.1.1/32 240.2.0.0/16 0.2.0.0/16 \
                169.254.8.0/24; do ip route del $net; done;
            ip route del ::ffff:10.1.1.0/120",
        probes: &[
            V4.to("240.1.1.1"),
            V4.to("0.1.1.1"),
            V4.to("169.254.7.7"),
            V4.to("255.1.1.1"),
            V4.to("127.1.1.1"),
            V4.from("240.2.1.1"),
            V4.from("0.2.1.1"),
            V4.from("169.254.8.8"),
            V4.from("240.2.1.1").expiring(),
            V4.from("127.1.1.1"),
            V6.to("::ffff:10.1.1.1"),
        ],
    },
];

#[test]
fn what_the_kernel_decides_is_what_weir_does() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    let cases = [FORWARDING, MTUS, SOURCES, ROUTES];
    oracle::compare(&mut bench, UNPACED, &cases.concat());
}

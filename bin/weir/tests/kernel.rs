//! `weir router` and the kernel beneath it: packets that the kernel still forwards, rules of the machine that are
//! bypassed with a key, and packets that the kernel itself sends. What a router refuses is in `state.rs`.
#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod common;
mod gateway;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Bench, PATIENCE, PING, eventually};
use gateway::{CONFIG, bypassed, forwarded, received, rules, stacks, wan};
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
    let log = bench.log();
    let line = log.lines().find(|l| l.contains("ERROR")).unwrap();
    assert!(line.contains("late") && line.contains("closed"), "{line}");
    assert!(bench.ask(&["show", "netfilter"]).contains("closed"));
    let ports = bench.ask(&["show", "ports"]);
    assert!(ports.contains("that transit bypasses: 1"), "{ports}");
    // It still forwards, but refuses to put a configuration in force as if nothing had happened.
    assert!(bench.ping(PING));
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
    // When the rules have gone, configurations are accepted again.
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
    let reads = || bench.log().matches("kernel state is read").count();
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
    // By the key's old name.
    bench.start(&format!("netfilter_change = \"stop\"\n{CONFIG}"));
    assert!(
        bench.log().contains("write `kernel_change = \"stop\"`"),
        "{}",
        bench.log()
    );
    assert!(bench.ping(PING));
    rules(&bench, FORWARD_DROP);
    assert_eq!(bench.ended().code(), Some(1));
    assert!(bench.log().contains("chain closed"), "{}", bench.log());
    assert!(!bench.ping(PING), "the kernel applies its rule");
    run(&bench.bed.router, "nft", "delete table inet late").unwrap();
    assert!(bench.ping(PING), "and forwards");
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
    let log = bench.log();
    let warning = log
        .lines()
        .find(|l| l.contains("WARN") && l.contains("bypass_netfilter"));
    assert!(
        chains
            .iter()
            .all(|(_, chain, _)| warning.unwrap().contains(chain)),
        "{log}"
    );
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
    assert!(bench.ping(PING));
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
    assert!(table.contains("OWN DROPPED"), "{table}");
}

#[test]
fn transit_does_not_count_as_the_boxs_own() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    // The box itself gets 200 kbit/s, and a burst of one second's worth: 25 kB.
    let share = "rate = \"20 Mbit\"\nlocal_share = 0.01";
    bench.start(&CONFIG.replace("rate = \"20 Mbit\"", share));
    assert!(bench.ping(PING));
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

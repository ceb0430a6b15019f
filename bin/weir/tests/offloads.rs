//! Hosts that leave checksums and segmentation to hardware, on either side of `weir router`. Every host on veth, tun or
//! virtio does so by default.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Bench, PATIENCE, UNPACED};
use etherparse::PacketBuilder;
use weir_benches::testbed::{DISCARD, MACS, run};
use weir_live::device::injector::Injector;
use weir_live::namespace::Namespace;
use weir_path::link::offload::{Offload, PartialChecksum, SegmentKind, Segmentation};

/// Sending time of each connection.
const SENDING: Duration = Duration::from_millis(1000);

/// A router between two hosts that have their offloads switched on.
fn bench(config: &str) -> Option<Bench> {
    let bench = Bench::new(config)?;
    for (host, device) in [(&bench.bed.source, "a0"), (&bench.bed.sink, "b0")] {
        offloads(host, device, "on");
    }
    Some(bench)
}

/// Switches veth's default offloads on or off.
fn offloads(host: &Namespace, device: &str, state: &str) {
    run(
        host,
        "ethtool",
        &format!("-K {device} tx {state} tso {state} gso {state}"),
    )
    .unwrap();
}

/// No packet was dropped because of a pending offload.
fn assert_no_offload_drops(bench: &Bench) {
    let drops = bench.ask(&["show", "drops"]);
    for reason in ["truncated-frame", "bad-offload", "pool-exhausted"] {
        assert!(!drops.contains(reason), "{drops}");
    }
}

/// Goodput of one TCP connection to an address of the sink, Mbit/s.
fn tcp(bench: &Bench, to: &str) -> f64 {
    let listener = bench.bed.sink.enter(|| TcpListener::bind((to, 0)));
    let listener = listener.unwrap().unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::scope(|scope| {
        let receiving = scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let (begin, mut buffer, mut bytes) = (Instant::now(), vec![0; 1 << 18], 0);
            loop {
                let len = stream.read(&mut buffer).unwrap();
                if len == 0 {
                    return bytes as f64 * 8e-6 / begin.elapsed().as_secs_f64();
                }
                bytes += len;
            }
        });
        let stream = bench.bed.source.enter(|| TcpStream::connect((to, port)));
        let mut stream = stream.unwrap().unwrap();
        let (begin, block) = (Instant::now(), vec![0x5a; 1 << 18]);
        while begin.elapsed() < SENDING {
            stream.write_all(&block).unwrap();
        }
        drop(stream);
        receiving.join().unwrap()
    })
}

/// Goodput through the kernel, which forwards once the router has ended.
fn kernel_tcp(bench: &mut Bench, to: &str) -> f64 {
    if bench.router.is_some() {
        bench.stop("KILL");
    }
    tcp(bench, to)
}

#[test]
fn tcp_of_hosts_with_default_offloads_is_as_fast_as_forwarding_is() {
    let Some(mut bench) = bench(UNPACED) else {
        return;
    };
    let rates = ["10.77.2.2", "fd77:2::2"].map(|to| (to, tcp(&bench, to)));
    assert_no_offload_drops(&bench);
    for (to, rate) in rates {
        let kernel = kernel_tcp(&mut bench, to);
        println!("to {to}: {rate:.0} Mbit/s, by the kernel {kernel:.0} Mbit/s");
        assert!(rate > 100.0, "{rate} Mbit/s to {to}");
    }
}

#[test]
fn a_paced_port_charges_segments_and_not_superframes() {
    let config = UNPACED.replace("\"r1\"\n", "\"r1\"\nrate = \"50 Mbit\"\n");
    let Some(bench) = bench(&config) else {
        return;
    };
    let rate = tcp(&bench, "10.77.2.2");
    assert_no_offload_drops(&bench);
    // 1448 of 1538 bytes on the wire are payload; a full queue drains after the last byte.
    assert!(
        (20.0..=50.0 * 1448.0 / 1538.0 + 1.0).contains(&rate),
        "{rate}"
    );
    // On the wire each frame costs 24 bytes more, and so does each frame of a superframe that passes whole.
    let ports = bench.ports();
    let wan = &ports[1];
    let of = |count: &serde_json::Value| count.as_f64().unwrap();
    let sent = of(&wan["sent"]["bytes"]);
    let by_kernel = of(&wan["charged"]["bytes"]) + 24.0 * of(&wan["charged"]["packets"]);
    let frames = (of(&wan["on_wire"]) - by_kernel - sent) / 24.0;
    assert!(sent / frames <= 1514.0 && frames > 1000.0, "{ports}");
}

#[test]
fn a_vxlan_between_hosts_with_default_offloads_works() {
    let Some(mut bench) = bench(UNPACED) else {
        return;
    };
    let (source, sink) = (&bench.bed.source, &bench.bed.sink);
    let tunnels = [
        ("vx4", "id 4", "10.77.1.2", "10.77.2.2", "10.94", ""),
        (
            "vx6",
            "id 6",
            "fd77:1::2",
            "fd77:2::2",
            "10.96",
            "udpcsum udp6zerocsumrx",
        ),
    ];
    for (name, id, near, far, net, options) in tunnels {
        for (host, device, local, remote, own) in
            [(source, "a0", near, far, 1), (sink, "b0", far, near, 2)]
        {
            let made = format!(
                "link add {name} type vxlan {id} local {local} remote {remote} dev {device} \
                 dstport 4789 {options}"
            );
            if let Err(error) = run(host, "ip", &made) {
                println!("skipped: no VXLAN here ({error})");
                return;
            }
            run(
                host,
                "ip",
                &format!("address add {net}.0.{own}/24 dev {name}"),
            )
            .unwrap();
            run(host, "ip", &format!("link set {name} up")).unwrap();
        }
        let rate = tcp(&bench, &format!("{net}.0.2"));
        println!("{name}: {rate:.0} Mbit/s");
        assert!(rate > 50.0, "{name}: {rate} Mbit/s");
    }
    assert_no_offload_drops(&bench);
    for (name, _, _, _, net, _) in tunnels {
        let kernel = kernel_tcp(&mut bench, &format!("{net}.0.2"));
        println!("{name}, by the kernel: {kernel:.0} Mbit/s");
    }
}

#[test]
fn what_gro_put_together_is_cut_again() {
    let Some(bench) = bench(UNPACED) else {
        return;
    };
    for (host, device) in [(&bench.bed.source, "a0"), (&bench.bed.sink, "b0")] {
        offloads(host, device, "off");
    }
    for device in ["r0", "r1"] {
        run(&bench.bed.router, "ethtool", &format!("-K {device} gro on")).unwrap();
    }
    let rate = tcp(&bench, "10.77.2.2");
    println!("with GRO at the ports: {rate:.0} Mbit/s");
    assert!(rate > 100.0, "{rate} Mbit/s");
    assert_no_offload_drops(&bench);
}

/// TCP from a second host behind `a0` to an address where nobody listens, in a superframe of 2000 packets.
fn tiny_segments() -> (Vec<u8>, Offload) {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2, 0, 0, 0, 77, 50], MACS[1])
        .ipv4([10, 77, 1, 3], DISCARD.octets(), 64)
        .tcp(4000, 80, 1000, 5000)
        .write(&mut frame, &[7; 64_000])
        .unwrap();
    let offload = Offload {
        checksum: Some(PartialChecksum {
            start: 34,
            offset: 16,
        }),
        segmentation: Some(Segmentation {
            kind: SegmentKind::TcpV4,
            size: 32,
        }),
    };
    (frame, offload)
}

/// The median of the round trips between the source and the sink, and the number of answers of 40, while a second host
/// at the source sends this number of superframes per second; and the number of superframes sent.
fn round_trips(bench: &Bench, superframes_a_second: u32) -> (Duration, usize, u32) {
    let ends = AtomicBool::new(false);
    let raw = bench.bed.source.enter(|| Injector::open("a0"));
    let raw = raw.unwrap().unwrap();
    thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let (mut tried, mut sent) = (0, 0);
            let (frame, offload) = tiny_segments();
            let begin = Instant::now();
            while superframes_a_second > 0 && !ends.load(Ordering::Relaxed) {
                sent += u32::from(raw.send(&frame, &offload).is_ok());
                tried += 1;
                let due = Duration::from_secs(1) * tried / superframes_a_second;
                thread::sleep(due.saturating_sub(begin.elapsed()));
            }
            sent
        });
        let pings = run(&bench.bed.source, "ping", "-c 40 -i 0.05 -W 10 10.77.2.2");
        ends.store(true, Ordering::Relaxed);
        let pings = pings.unwrap_or_else(|error| error.to_string());
        let times = pings.lines().filter_map(|line| {
            let (_, time) = line.split_once("time=")?;
            time.split(' ').next()?.parse().ok()
        });
        let mut times: Vec<f64> = times.collect();
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().unwrap_or(f64::INFINITY);
        let median = Duration::try_from_secs_f64(median / 1e3).unwrap_or(Duration::MAX);
        (median, times.len(), flood.join().unwrap())
    })
}

#[test]
fn superframes_of_tiny_segments_delay_their_sender_only() {
    let Some(mut bench) = bench(UNPACED) else {
        return;
    };
    const RATE: u32 = 180; // 96 Mbit/s, 360 000 packets a second
    let (idle, _, _) = round_trips(&bench, 0);
    let (busy, came, sent) = round_trips(&bench, RATE);
    bench.eventually("everything is cut or dropped", || {
        // In packets, or in whole superframes without room in the queue; or the number that found no room before the
        // router.
        let ports = bench.ports();
        let missed = ports[0]["missed"].as_u64().unwrap();
        let received = ports[0]["received"]["bytes"].as_u64().unwrap();
        let least = u64::from(sent).saturating_sub(missed) * 64_000;
        received >= least
    });
    println!("{}", bench.ask(&["show", "drops"]));
    assert_no_offload_drops(&bench);
    bench.stop("KILL");
    let (kernel, kernel_came, kernel_sent) = round_trips(&bench, RATE);
    println!(
        "median round trip: idle {idle:?}; beside {sent} superframes {busy:?}, {came} of 40; \
         by the kernel, beside {kernel_sent}: {kernel:?}, {kernel_came} of 40"
    );
    assert!(came >= 36, "{came} of 40 pings were answered");
    // Before the fix, they were a hundred times as long.
    let most = 20 * idle.max(Duration::from_millis(1));
    assert!(busy < most, "{busy:?}, {idle:?} without the superframes");
}

#[test]
fn a_port_counts_short_frames_as_the_wire_does() {
    let config = UNPACED.replace("\"r1\"\n", "\"r1\"\nrate = \"1 Mbit\"\n");
    let Some(bench) = bench(&config) else {
        return;
    };
    let charge = |bench: &Bench| bench.ports()[1]["charge"].as_str().unwrap().to_owned();
    assert_eq!(charge(&bench), "+24 B, at least 84 B");
    let socket = bench.bed.source.enter(|| UdpSocket::bind("10.77.1.2:0"));
    let socket = socket.unwrap().unwrap();
    let received = || -> u64 {
        let read = || fs::read_to_string("/proc/thread-self/net/dev");
        let counters = bench.bed.sink.enter(read).unwrap().unwrap();
        let mut words = counters
            .split_whitespace()
            .skip_while(|word| *word != "b0:");
        words.nth(2).unwrap().parse().unwrap()
    };
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        // Twice what the link carries, in frames of 43 bytes: 84 bytes on the wire.
        scope.spawn(|| {
            let begin = Instant::now(); // a failed test must not wait for this thread
            let mut sent = 0;
            while !ends.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(60) {
                while sent < 3 * begin.elapsed().as_millis() {
                    socket.send_to(&[1], "10.77.2.9:9").unwrap();
                    sent += 1;
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        bench.eventually("the link is full", || {
            let queues = bench.ask(&["show", "queues", "--json"]);
            let queues: serde_json::Value = serde_json::from_str(&queues).unwrap();
            queues[1]["backlog"]["packets"].as_u64() > Some(100)
        });
        // Mbit/s on the wire for this long.
        let rate = |time: Duration| {
            let (begin, before) = (Instant::now(), received());
            thread::sleep(time);
            let packets = received() - before;
            packets as f64 * 84.0 * 8e-6 / begin.elapsed().as_secs_f64()
        };
        // A higher rate is wrong on any machine. A router that gets no processor sends less until it gets one.
        let long = rate(Duration::from_secs(5));
        assert!(long <= 1.01, "{long} Mbit/s");
        bench.eventually("the port keeps its rate for a while", || {
            let short = rate(Duration::from_millis(500));
            println!("short frames: {long:.4} and {short:.4} Mbit/s on the wire");
            short >= 0.97
        });
        ends.store(true, Ordering::Relaxed);
    });
    let ports = bench.ports();
    let port = &ports[1];
    let (sent, wire) = (&port["sent"], port["on_wire"].as_u64().unwrap());
    let charged = port["charged"]["packets"].as_u64().unwrap();
    let packets = sent["packets"].as_u64().unwrap() + charged;
    assert!(
        wire >= 84 * packets && wire < 85 * packets + 2000 * charged,
        "{port}"
    );
    // A home with PPPoE over VDSL2.
    let told = bench.ask(&["set", "port.wan.overhead=pppoe-ptm"]);
    assert_eq!(charge(&bench), "+16 B, in PTM (65/64)", "{told}");
    let told = bench.ask(&["set", "port.wan.overhead=pppoe-ptn"]);
    assert!(told.contains("did you mean `pppoe-ptm`?"), "{told}");
    bench.ask(&[
        "set",
        "port.wan.overhead=30 B",
        "port.wan.framing=atm",
        "port.wan.mpu=0 B",
    ]);
    assert_eq!(charge(&bench), "+30 B, in ATM cells");
}

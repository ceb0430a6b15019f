//! Hosts that leave checksums and segmentation to hardware, on either side of `weir router`. Every host on veth, tun or
//! virtio does so by default.
#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use common::{Bench, PATIENCE, UNPACED};
use weir_benches::testbed::run;
use weir_live::namespace::Namespace;

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
fn a_paced_port_counts_segments_and_not_superframes() {
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
    let ports = bench.ports();
    let of = |port: usize, what: &str| {
        let count = &ports[port][what];
        (
            count["packets"].as_f64().unwrap(),
            count["bytes"].as_f64().unwrap(),
        )
    };
    for (packets, bytes) in [of(0, "received"), of(1, "sent")] {
        assert!(bytes / packets <= 1514.0, "{ports}");
        assert!(packets > 1000.0, "{ports}");
    }
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

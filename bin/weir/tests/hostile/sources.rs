//! Forwarding by source and destination: the same frames through the kernel and through weir.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::thread;
use std::time::Duration;

use etherparse::PacketBuilder;
use weir_benches::testbed::{MACS, SINK, Testbed};
use weir_live::device::Device;

use super::bench::{CONFIG, ip, sysctl};
use super::frames::receive_all;
use crate::common::{ANSWERED, Bench, eventually};

/// Sources, and whether Linux forwards them with rp_filter 0, 1 and 2. The default route leads to
/// the sink.
const SOURCES: &[(&str, [bool; 3])] = &[
    ("10.77.1.2", [true, true, true]),
    ("10.77.1.77", [true, true, true]),
    ("10.77.2.77", [true, false, true]),
    ("192.0.2.1", [true, false, true]),
    ("198.51.100.1", [true, false, false]), // an unreachable route
    ("203.0.113.1", [true, false, false]),  // a blackhole
    ("10.77.1.1", [false; 3]),
    ("10.77.2.1", [false; 3]),
    ("0.0.0.0", [false; 3]),
    ("127.0.0.1", [false; 3]),
    ("224.0.0.1", [false; 3]),
    ("255.255.255.255", [false; 3]),
];
/// Sources that weir always refuses and Linux sometimes forwards: see `weir_path::ip::source_check` and
/// `weir_path::parse`.
const STRICTER: &[&str] = &[
    "10.77.1.255",
    "10.77.2.255",
    "0.1.2.3",
    "240.0.0.1",
    "169.254.1.1",
];
/// Destinations that neither forwards.
const DESTINATIONS: &[&str] = &[
    "10.77.2.255",
    "10.77.1.255",
    "10.77.2.1",
    "0.0.0.0",
    "127.0.0.2",
    "224.0.0.5",
    "255.255.255.255",
];

fn frame(from: Ipv4Addr, to: Ipv4Addr, payload: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(MACS[0], MACS[1])
        .ipv4(from.octets(), to.octets(), 64)
        .udp(4321, 4321)
        .write(&mut frame, format!("{payload:>24}").as_bytes())
        .unwrap();
    frame
}

/// Sends these frames from the source, and returns the payloads that reached the sink.
fn forwarded(bench: &Bench, frames: &[Vec<u8>]) -> BTreeSet<String> {
    let mut source = Testbed::open(&bench.bed.source, "a0").unwrap();
    let mut sink = Testbed::open(&bench.bed.sink, "b0").unwrap();
    for frame in frames {
        assert_eq!(source.transmit(&[frame]).unwrap(), 1);
    }
    thread::sleep(Duration::from_millis(300));
    let mut seen = BTreeSet::new();
    receive_all(&mut sink, |bytes| {
        let end = bytes.len().saturating_sub(24);
        let ports = bytes.windows(4).any(|w| w == [0x10, 0xe1, 0x10, 0xe1]);
        if ports && let Ok(text) = std::str::from_utf8(&bytes[end..]) {
            seen.insert(text.trim().to_owned());
        }
    });
    seen
}

fn from_all(bench: &Bench) -> BTreeSet<String> {
    let sources = SOURCES.iter().map(|(source, _)| *source);
    let frames: Vec<_> = sources
        .chain(STRICTER.iter().copied())
        .map(|source| frame(source.parse().unwrap(), SINK, source))
        .collect();
    forwarded(bench, &frames)
}

fn to_all(bench: &Bench) -> BTreeSet<String> {
    let source = Ipv4Addr::new(10, 77, 1, 2);
    let frames = DESTINATIONS
        .iter()
        .map(|to| frame(source, to.parse().unwrap(), to));
    forwarded(bench, &frames.collect::<Vec<_>>())
}

fn prepare(bench: &Bench) {
    for route in [
        "route add default via 10.77.2.2",
        "route add unreachable 198.51.100.0/24",
        "route add blackhole 203.0.113.0/24",
        "-6 route add default via fd77:2::2",
    ] {
        ip(&bench.bed.router, route);
    }
    set_rp_filter(bench, 0, 0);
}

fn set_rp_filter(bench: &Bench, all: usize, own: usize) {
    for (of, value) in [("all", all), ("r0", own)] {
        let name = format!("ipv4/conf/{of}/rp_filter");
        sysctl(&bench.bed.router, &name, &value.to_string());
    }
}

#[test]
fn sources_are_checked_as_the_kernel_does() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    prepare(&bench);
    // The larger of the two values applies, so each value is set in both places.
    let settings = [(0, 0, 0), (0, 1, 1), (1, 0, 1), (2, 1, 2), (0, 2, 2)];
    let expected = |mode: usize| -> BTreeSet<String> {
        let passes = SOURCES.iter().filter(|(_, passes)| passes[mode]);
        passes.map(|(source, _)| (*source).to_owned()).collect()
    };
    let stricter: BTreeSet<_> = STRICTER.iter().map(|s| (*s).to_owned()).collect();
    for (all, own, mode) in settings {
        set_rp_filter(&bench, all, own);
        let mut seen = from_all(&bench);
        println!("the kernel, rp_filter {mode}: {seen:?}");
        seen.retain(|source| !stricter.contains(source));
        assert_eq!(
            seen,
            expected(mode),
            "the kernel, rp_filter {all} and {own}"
        );
    }
    assert_eq!(to_all(&bench), BTreeSet::new(), "the kernel");
    bench.start(CONFIG);
    for (all, own, mode) in settings {
        set_rp_filter(&bench, all, own);
        bench.eventually(&format!("weir follows rp_filter {all} and {own}"), || {
            from_all(&bench) == expected(mode)
        });
    }
    assert_eq!(to_all(&bench), BTreeSet::new(), "weir");
    let drops = bench.ask(&["show", "drops"]);
    for reason in ["own-source", "reverse-path", "martian-source"] {
        assert!(drops.contains(reason), "{drops}");
    }
}

#[test]
fn the_configuration_counts_before_the_kernels_setting() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    prepare(&bench);
    set_rp_filter(&bench, 1, 1);
    let v6 = |from: &str| {
        let from: Ipv6Addr = from.parse().unwrap();
        let to: Ipv6Addr = "fd77:2::2".parse().unwrap();
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(MACS[0], MACS[1])
            .ipv6(from.octets(), to.octets(), 64)
            .udp(4321, 4321)
            .write(&mut frame, format!("{from:>24}").as_bytes())
            .unwrap();
        frame
    };
    let spoofed = "2001:db8::1";
    let frames = [
        frame(Ipv4Addr::new(192, 0, 2, 1), SINK, "192.0.2.1"),
        v6("fd77:1::2"),
        v6(spoofed),
        v6("fd77:2::1"), // the router's own
    ];
    bench.start(&CONFIG.replacen("\n[port.wan]", "\nsource_check = \"off\"\n[port.wan]", 1));
    assert!(bench.ping(ANSWERED));
    eventually("IPv6 works", || bench.ping("-6 -c 1 -W 1 fd77:2::2"));
    let seen =
        |names: &[&str]| -> BTreeSet<String> { names.iter().map(|n| (*n).to_owned()).collect() };
    assert_eq!(
        forwarded(&bench, &frames),
        seen(&["192.0.2.1", "fd77:1::2", spoofed])
    );
    bench.ask(&["set", "port.lan.source_check=strict"]);
    assert_eq!(forwarded(&bench, &frames), seen(&["fd77:1::2"]));
    bench.ask(&["set", "port.lan.source_check=loose"]);
    assert_eq!(
        forwarded(&bench, &frames),
        seen(&["192.0.2.1", "fd77:1::2", spoofed])
    );
    bench.ask(&["set", "port.lan.source_check=kernel"]);
    assert_eq!(forwarded(&bench, &frames), seen(&["fd77:1::2", spoofed]));
}

//! Neighbour exhaustion (RFC 6583): how a scan of a connected network affects hosts that reach new neighbours there,
//! and hosts that talk to known ones.
//!
//! ```text
//!  source a0 ----- r0 router r1 ----- b0 sink: 10.99.255.1 to .160, fd99::1:1 to ::1:160
//!    honest: one datagram to each of 120 hosts that nobody has sent to before
//!    also: datagrams to 20 hosts that were known before
//!    scanner: datagrams to random addresses in 10.99.0.0/17 or fd99::/64
//! ```

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use weir_benches::testbed::{MACS, run};

use super::bench::{CONFIG, control_seconds, ip, table};
use super::frames::{Random, send_at};
use crate::common::{Bench, eventually};

/// Hosts that are known before the scan; the others are new.
const KNOWN: u16 = 20;
/// Time between two datagrams.
const GAP: Duration = Duration::from_millis(25);
/// A datagram that has not arrived by then counts as lost.
const LAST: Duration = Duration::from_secs(1);
const PORT: u16 = 7777;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

/// The source of the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scanner {
    /// The address of the honest host.
    SameHost,
    /// Another host in the honest host's network.
    Neighbour,
    /// A different network for each packet.
    Random,
}

#[derive(Clone, Copy, Debug)]
struct Scan {
    family: Family,
    scanner: Scanner,
    /// Packets per second.
    rate: u32,
    /// Number of new hosts.
    hosts: u16,
}

#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Share of the datagrams to new hosts that arrived.
    new: f64,
    /// Share of the datagrams to known hosts that arrived.
    known: f64,
    /// Share of a processor that weir's control side used.
    control: f64,
}

fn host(family: Family, n: u16) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 99, 255, n as u8).into(),
        Family::V6 => Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 1, n).into(),
    }
}

/// The network behind `r1`, with the hosts that answer.
fn network(bench: &Bench) {
    let (router, sink) = (&bench.bed.router, &bench.bed.sink);
    ip(router, "address add 10.99.0.1/16 dev r1");
    ip(router, "address add fd99::1/64 dev r1 nodad");
    let mut batch =
        String::from("address add 10.99.0.2/16 dev b0\naddress add fd99::2/64 dev b0 nodad\n");
    for n in 1..=160 {
        let (v4, v6) = (host(Family::V4, n), host(Family::V6, n));
        batch += &format!("address add {v4}/32 dev b0\naddress add {v6}/128 dev b0 nodad\n");
    }
    let path = bench.folder.join("addresses");
    fs::write(&path, batch).unwrap();
    ip(sink, &format!("-batch {}", path.display()));
    eventually("IPv4 works", || bench.ping("-c 1 -W 1 10.77.2.2"));
    eventually("IPv6 works", || bench.ping("-6 -c 1 -W 1 fd77:2::2"));
}

fn scan_frame(scan: &Scan, random: &mut Random) -> Vec<u8> {
    let link = PacketBuilder::ethernet2(MACS[0], MACS[1]);
    let (bits, low) = (random.next(), random.next());
    let builder = match scan.family {
        Family::V4 => {
            let source = match scan.scanner {
                Scanner::SameHost => [10, 77, 1, 2],
                Scanner::Neighbour => [10, 77, 1, 66],
                Scanner::Random => [
                    11 + (bits % 100) as u8,
                    (bits >> 8) as u8,
                    (bits >> 16) as u8,
                    9,
                ],
            };
            link.ipv4(source, [10, 99, low as u8 & 0x7f, (low >> 8) as u8], 64)
        }
        Family::V6 => {
            let net = match scan.scanner {
                Scanner::Random => 0x2001_0db8_0000_0000 | bits >> 32,
                _ => 0xfd77_0001_0000_0000,
            };
            let own = if scan.scanner == Scanner::Neighbour {
                0x66
            } else {
                2
            };
            let to = 0xfd99_u128 << 112 | 1 << 63 | u128::from(low >> 1);
            let from = u128::from(net) << 64 | own;
            link.ipv6(from.to_be_bytes(), to.to_be_bytes(), 64)
        }
    };
    let mut frame = Vec::new();
    builder.udp(9, 9).write(&mut frame, b"scan").unwrap();
    frame
}

fn measure(bench: &Bench, scan: &Scan) -> Outcome {
    // The flush fails if the kernel removes an entry at the same time.
    let flush = || run(&bench.bed.router, "ip", "neighbour flush dev r1").is_ok();
    eventually("the neighbours are flushed", flush);
    let known: Vec<u16> = (1..=KNOWN).collect();
    // Otherwise weir sends the first datagram with its old entry, and nobody solicits that neighbour.
    eventually("weir follows the flush", || {
        let shown = bench.ask(&["show", "neighbours"]);
        let is_shown = |n: &u16| shown.contains(&host(scan.family, *n).to_string());
        !known.iter().any(is_shown)
    });
    assert_eq!(
        arrived(bench, scan.family, &known).1,
        known.len(),
        "no scan yet"
    );
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let scanning = scope.spawn(|| {
            send_at(bench, scan.rate, &stop, |random| scan_frame(scan, random));
        });
        thread::sleep(Duration::from_secs(3)); // until the kernel stops its first solicitations
        // New and known hosts alternate.
        let new: Vec<u16> = (KNOWN + 1..=KNOWN + scan.hosts).collect();
        let list: Vec<u16> = new
            .iter()
            .zip(known.iter().cycle())
            .flat_map(|(n, k)| [*n, *k])
            .collect();
        let (begin, before) = (Instant::now(), control_seconds(bench));
        let (new, known) = arrived(bench, scan.family, &list);
        let control = (control_seconds(bench) - before) / begin.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        scanning.join().unwrap();
        let all = f64::from(scan.hosts);
        Outcome {
            new: new as f64 / all,
            known: known as f64 / all,
            control,
        }
    })
}

/// The number of datagrams that arrived at new hosts and at known hosts; each group has its own socket.
fn arrived(bench: &Bench, family: Family, list: &[u16]) -> (usize, usize) {
    let any: IpAddr = match family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    };
    let bind = |host: &weir_live::namespace::Namespace, port| {
        let address = SocketAddr::new(any, port);
        host.enter(|| UdpSocket::bind(address)).unwrap().unwrap()
    };
    let sinks = [bind(&bench.bed.sink, PORT), bind(&bench.bed.sink, PORT + 1)];
    let source = bind(&bench.bed.source, 0);
    for n in list {
        let port = PORT + u16::from(*n <= KNOWN);
        source.send_to(b"hello", (host(family, *n), port)).unwrap();
        thread::sleep(GAP / 2);
    }
    thread::sleep(LAST);
    let count = |sink: &UdpSocket| {
        sink.set_nonblocking(true).unwrap();
        let mut buffer = [0; 16];
        std::iter::from_fn(|| sink.recv(&mut buffer).ok()).count()
    };
    (count(&sinks[0]), count(&sinks[1]))
}

#[test]
fn a_scan_of_ipv4_costs_new_and_known_neighbours_little() {
    scan_of(Family::V4, "-4");
}

#[test]
fn a_scan_of_ipv6_costs_new_and_known_neighbours_little() {
    scan_of(Family::V6, "-6");
}

fn scan_of(family: Family, option: &str) {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    network(&bench);
    bench.start(CONFIG);
    let scan = Scan {
        family,
        scanner: Scanner::Neighbour,
        rate: 1000,
        hosts: 30,
    };
    let Outcome {
        new,
        known,
        control,
    } = measure(&bench, &scan);
    let seen = format!(
        "{scan:?}: {new:.2} of new, {known:.2} of known hosts, {control:.2} of a processor"
    );
    println!("{seen}");
    assert!(new >= 0.9 && known >= 0.97, "{seen}");
    let entries = format!("{option} neighbour show nud all dev r1");
    let entries = ip(&bench.bed.router, &entries).lines().count();
    // The kernel removes entries above gc_thresh2 (512), but only every five seconds. At gc_thresh3 (1024, all namespaces
    // together) it has no room for another, which is where a scan without limits ends.
    assert!(entries < 768, "{entries} entries");
}

/// Measures the figures of docs/hostile-network.md; `cargo xtask hostile` runs this test.
#[test]
#[ignore = "a measurement of minutes, which fills the kernel's neighbour tables"]
fn the_table_of_scans() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    network(&bench);
    let scans = |scanner| {
        [Family::V4, Family::V6]
            .into_iter()
            .flat_map(move |family| {
                [200, 300, 1000, 5000].map(|rate| Scan {
                    family,
                    scanner,
                    rate,
                    hosts: 120,
                })
            })
    };
    // The kernel behaves the same for every scanner.
    let kernel: Vec<_> = scans(Scanner::Neighbour)
        .map(|scan| measure(&bench, &scan))
        .collect();
    let weir = [Scanner::Neighbour, Scanner::SameHost, Scanner::Random].map(|scanner| {
        let each = scans(scanner).map(|scan| {
            bench.start(CONFIG); // again, because it remembers who answered before
            let outcome = measure(&bench, &scan);
            println!("{scan:?}: {outcome:?}\n{}", bench.ask(&["show", "drops"]));
            bench.stop("TERM");
            outcome
        });
        each.collect::<Vec<_>>()
    });
    table("scans", || {
        println!(
            "| | packets/s | kernel | weir: another host | the same host | random sources | control |"
        );
        println!("|---|---|---|---|---|---|---|");
        for (n, scan) in scans(Scanner::Neighbour).enumerate() {
            let family = if scan.family == Family::V4 {
                "IPv4"
            } else {
                "IPv6"
            };
            let mut row = format!("| {family} | {} |", scan.rate);
            for outcome in [kernel[n], weir[0][n], weir[1][n], weir[2][n]] {
                row += &format!(" {:.2}, {:.2} |", outcome.new, outcome.known);
            }
            println!("{row} {:.0} % |", 100.0 * weir[2][n].control);
        }
    });
}

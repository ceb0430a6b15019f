//! ICMP errors for an honest host while a flood provokes thousands of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use etherparse::PacketBuilder;
use weir_benches::testbed::{MACS, SINK, Testbed};
use weir_live::device::Device;

use super::bench::{CONFIG, ip, table};
use super::frames::{Random, receive_all, send_at};
use crate::common::{Bench, eventually};

/// Errors that the honest host provokes.
const TRIES: usize = 20;
/// Frames of the flood per second.
const FLOOD: u32 = 5000;

/// The reason why packets of the honest host and of the flood are not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    TooBig,
    Expired,
}

/// The cases: an address family and a cause.
const CASES: [(bool, Cause); 4] = [
    (false, Cause::TooBig),
    (true, Cause::TooBig),
    (false, Cause::Expired),
    (true, Cause::Expired),
];

/// A packet of the honest host, or of another source, that must be answered by an error: it is too long for the path to
/// the sink and may not be fragmented, or its hop limit has run out.
fn offender(v6: bool, cause: Cause, source: Option<u32>) -> Vec<u8> {
    let (hops, payload): (_, &[u8]) = match cause {
        Cause::TooBig => (64, &[0; 1350]),
        Cause::Expired => (1, &[0; 20]),
    };
    let link = PacketBuilder::ethernet2(MACS[0], MACS[1]);
    let builder = if v6 {
        let net = match source {
            None => 0xfd77_0001_u128 << 96,
            Some(n) => 0x2001_0db8_u128 << 96 | u128::from(n) << 64,
        };
        let to = 0xfd77_0002_u128 << 96 | 2;
        link.ipv6((net | 2).to_be_bytes(), to.to_be_bytes(), hops)
    } else {
        let from = match source {
            None => [10, 77, 1, 2],
            Some(n) => (0x0b00_0000 + n % 0x5000_0000).to_be_bytes(),
        };
        link.ipv4(from, SINK.octets(), hops)
    };
    let mut frame = Vec::new();
    builder.udp(4321, 4321).write(&mut frame, payload).unwrap();
    frame
}

/// The number of the honest host's packets that are answered during the flood.
fn answered(bench: &Bench, v6: bool, cause: Cause) -> usize {
    let stop = AtomicBool::new(false);
    let mut device = Testbed::open(&bench.bed.source, "a0").unwrap();
    thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let forged = |random: &mut Random| offender(v6, cause, Some(random.next() as u32));
            send_at(bench, FLOOD, &stop, forged);
        });
        thread::sleep(Duration::from_millis(500));
        for _ in 0..TRIES {
            device.transmit(&[&offender(v6, cause, None)]).unwrap();
            thread::sleep(Duration::from_millis(30));
        }
        thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        flood.join().unwrap();
    });
    let (kind, code, kind_v6) = match cause {
        Cause::TooBig => (3, 4, 2),
        Cause::Expired => (11, 0, 3),
    };
    let mut count = 0;
    receive_all(&mut device, |bytes| {
        count += usize::from(if v6 {
            bytes[12..14] == [0x86, 0xdd] && bytes[20] == 58 && bytes[54] == kind_v6
        } else {
            bytes[12..14] == [8, 0] && bytes[23] == 1 && bytes[34..36] == [kind, code]
        });
    });
    count
}

#[test]
fn a_flood_of_forged_packets_leaves_an_honest_host_its_errors() {
    let Some(mut bench) = Bench::without_router() else {
        return;
    };
    ip(&bench.bed.router, "link set r1 mtu 1300");
    // The errors for the flood go to an address that nobody has.
    ip(&bench.bed.router, "route add default via 10.77.2.9");
    ip(
        &bench.bed.router,
        "neighbour replace fd77:2::9 lladdr 02:00:00:00:77:63 dev r1 nud permanent",
    );
    ip(&bench.bed.router, "-6 route add default via fd77:2::9");
    eventually("IPv6 works", || bench.ping("-6 -c 1 -W 1 fd77:2::2"));
    let kernel = CASES.map(|(v6, cause)| answered(&bench, v6, cause));
    bench.start(CONFIG);
    eventually("IPv6 works", || bench.ping("-6 -c 1 -W 1 fd77:2::2"));
    let weir = CASES.map(|(v6, cause)| answered(&bench, v6, cause));
    table("errors", || {
        println!("| | cause | kernel | weir |\n|---|---|---|---|");
        for ((v6, cause), (kernel, weir)) in CASES.iter().zip(kernel.iter().zip(&weir)) {
            let family = if *v6 { "IPv6" } else { "IPv4" };
            let cause = match cause {
                Cause::TooBig => "too big",
                Cause::Expired => "no hops left",
            };
            println!("| {family} | {cause} | {kernel} | {weir} |");
        }
    });
    for (case, (weir, kernel)) in CASES.iter().zip(weir.iter().zip(&kernel)) {
        assert!(
            weir >= kernel,
            "{case:?}, of {TRIES}: weir {weir}, the kernel {kernel}"
        );
    }
}

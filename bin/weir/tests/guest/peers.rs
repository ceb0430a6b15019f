//! Light flows next to a full upload and a full download of a box that translates: with mode queue, and with the queues of
//! the kernel, which the test machine may lack.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_benches::testbed::run;

use super::devices::{RULES, sent, shell, start};
use super::{DONE, INSIDE, work_in_a_guest};
use crate::common::{Bench, PING, eventually};
use crate::gateway::rules;

/// Queues of the kernel at the interfaces `r1` (uploads) and `r0` (downloads) of the box.
const PEERS: [(&str, &str); 3] = [
    (
        "tbf",
        "tc qdisc replace dev $1 root tbf rate 4mbit burst 4kb latency 300ms",
    ),
    (
        "fq_codel",
        "tc qdisc replace dev $1 root handle 1: htb default 1
         tc class add dev $1 parent 1: classid 1:1 htb rate 4mbit
         tc qdisc add dev $1 parent 1:1 fq_codel",
    ),
    (
        "cake",
        "tc qdisc replace dev $1 root cake bandwidth 4mbit nat ethernet",
    ),
];
const RATES: [&str; 4] = ["--up", "4 Mbit", "--down", "4 Mbit"];
/// Light flows of each direction.
const FLOWS: usize = 10;
/// Time between two packets of all light flows together.
const GAP: Duration = Duration::from_micros(2500);
/// Packets of all light flows together.
const PACKETS: usize = 6000;

#[test]
fn light_flows_are_compared_with_queues_of_the_kernel_in_a_guest() {
    work_in_a_guest("guest::peers::in_the_guest");
}

/// Does nothing unless the guest's init starts it.
#[test]
fn in_the_guest() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    let mut bench = Bench::without_router().expect("root in the guest");
    rules(&bench, &RULES.replace("d0", "r1"));
    // The queue of the box is under test, so the devices of the hosts cut superframes.
    for (host, device) in [(&bench.bed.source, "a0"), (&bench.bed.sink, "b0")] {
        run(host, "ethtool", &format!("-K {device} tso off gso off")).unwrap();
    }
    eventually("the kernel forwards", || bench.ping(PING));
    let mut found = Vec::new();
    for (name, script) in PEERS {
        for device in ["r1", "r0"] {
            let script = script.replace("$1", device);
            shell(&bench.bed.router, &script, &bench.bed.sink);
        }
        found.push(Measured::of(name, &bench));
        for device in ["r1", "r0"] {
            run(
                &bench.bed.router,
                "tc",
                &format!("qdisc del dev {device} root"),
            )
            .unwrap();
        }
    }
    start(&mut bench, "r1", &RATES);
    bench.eventually("pings pass the queues", || {
        bench.ping(PING) && sent(&bench).is_some_and(|sent| sent.iter().all(|n| *n > 0))
    });
    let weir = Measured::of("weir", &bench);
    // On an emulated machine a process that is due may wait long for the processor, and the kernel does not. So the
    // comparison with fq_codel and CAKE is for the reader; a plain queue of the same rate is the bound.
    assert!(weir.p50 <= found[0].p50 / 4);
    println!("{DONE}");
}

/// The waiting times of light packets.
struct Measured {
    p50: Duration,
}

impl Measured {
    fn of(name: &str, bench: &Bench) -> Self {
        let is_over = AtomicBool::new(false);
        let bulk = [(); 2].map(|()| AtomicU64::new(0));
        let (mut delays, rates) = thread::scope(|scope| {
            for (is_up, bytes) in [true, false].into_iter().zip(&bulk) {
                let (from, to) = stream(bench, is_up);
                let is_over = &is_over;
                scope.spawn(move || fill(from, is_over));
                scope.spawn(move || drain(to, bytes));
            }
            thread::sleep(Duration::from_secs(3));
            let before = bulk.each_ref().map(|bytes| bytes.load(Ordering::Relaxed));
            let start = Instant::now();
            let delays = light(bench);
            let elapsed = start.elapsed().as_secs_f64();
            let rates = [0, 1].map(|n| {
                let arrived = bulk[n].load(Ordering::Relaxed) - before[n];
                arrived as f64 * 8e-6 / elapsed
            });
            is_over.store(true, Ordering::Relaxed);
            (delays, rates)
        });
        delays.sort_unstable();
        let at = |share: f64| delays[(delays.len() as f64 * share) as usize];
        let (p50, p99) = (at(0.5), at(0.99));
        let lost = PACKETS - delays.len();
        println!(
            "{name}: light p50 {p50:?}, p99 {p99:?}, lost {lost}; TCP up and down {rates:.2?} Mbit/s"
        );
        Self { p50 }
    }
}

/// A TCP connection from inside: its sending and its receiving end.
fn stream(bench: &Bench, is_up: bool) -> (TcpStream, TcpStream) {
    let bind = || TcpListener::bind(("10.77.2.2", 0)).unwrap();
    let listener = bench.bed.sink.enter(bind).unwrap();
    let to = listener.local_addr().unwrap();
    let inside = bench.bed.source.enter(|| TcpStream::connect(to).unwrap());
    let (server, _) = listener.accept().unwrap();
    match is_up {
        true => (inside.unwrap(), server),
        false => (server, inside.unwrap()),
    }
}

fn fill(mut to: TcpStream, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        to.write_all(&[7; 4096]).unwrap();
    }
}

fn drain(mut from: TcpStream, bytes: &AtomicU64) {
    let mut buffer = [0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        bytes.fetch_add(count as u64, Ordering::Relaxed);
    }
}

/// Delays of the packets of light flows that arrive. Both ends read the same clock.
fn light(bench: &Bench) -> Vec<Duration> {
    let bind = |is_inside| {
        let (host, address) = match is_inside {
            true => (&bench.bed.source, "10.77.1.2"),
            false => (&bench.bed.sink, "10.77.2.2"),
        };
        let bound = host.enter(|| UdpSocket::bind((address, 0)).unwrap());
        let socket = bound.unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        socket
    };
    // Uploads: many sockets inside and one outside; downloads: one inside and many outside, which it calls first.
    let up: Vec<_> = (0..FLOWS).map(|_| bind(true)).collect();
    let down: Vec<_> = (0..FLOWS).map(|_| bind(false)).collect();
    let (outside, inside) = (bind(false), bind(true));
    let server = outside.local_addr().unwrap();
    let peers: Vec<SocketAddr> = down
        .iter()
        .map(|socket| {
            let mut peer = None;
            eventually("a connection", || {
                inside.send_to(&[0], socket.local_addr().unwrap()).unwrap();
                peer = socket.recv_from(&mut [0]).ok().map(|(_, peer)| peer);
                peer.is_some()
            });
            peer.unwrap()
        })
        .collect();
    let base = Instant::now();
    let receive = |socket: &UdpSocket| {
        let (mut delays, mut stamp) = (Vec::new(), [0; 100]);
        while let Ok(bytes) = socket.recv(&mut stamp) {
            let now = base.elapsed();
            if let (100, Some(sent)) = (bytes, stamp.first_chunk()) {
                delays.push(now - Duration::from_nanos(u64::from_be_bytes(*sent)));
            }
        }
        delays
    };
    thread::scope(|scope| {
        let receivers = [&outside, &inside].map(|socket| scope.spawn(|| receive(socket)));
        for n in 0..PACKETS {
            thread::sleep((GAP * n as u32).saturating_sub(base.elapsed()));
            let mut packet = [0; 100];
            packet[..8].copy_from_slice(&(base.elapsed().as_nanos() as u64).to_be_bytes());
            let flow = n / 2 % FLOWS;
            let _ = match n % 2 {
                0 => up[flow].send_to(&packet, server),
                _ => down[flow].send_to(&packet, peers[flow]),
            };
        }
        let delays = receivers.map(|receiver| receiver.join().unwrap());
        delays.concat()
    })
}

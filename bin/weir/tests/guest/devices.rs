//! Mode queue at devices that the kernel of the test machine may lack: each is the uplink of a box that translates.
//!
//! ```text
//! source ---- router d0 ==(r1 ---- b0)== d0 sink
//! ```

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_benches::testbed::run;
use weir_live::namespace::Namespace;

use super::{DONE, INSIDE, work_in_a_guest};
use crate::common::{Bench, PATIENCE, PING, Router, eventually, weir};
use crate::gateway::rules;

/// Names of devices, and the commands that make `d0` in the sink and then in the router.
const DEVICES: [(&str, &str, &str); 5] = [
    (
        "VLAN",
        "ip link add d0 link b0 type vlan id 5",
        "ip link add d0 link r1 type vlan id 5",
    ),
    (
        "bridge",
        "ip link add d0 type bridge; ip link set b0 master d0",
        "ip link add d0 type bridge; ip link set r1 master d0",
    ),
    (
        "bond",
        "ip link add b1 type veth peer name r2 netns $PEER; ip link add d0 type bridge
         for port in b0 b1; do ip link set $port master d0 up; done",
        "ip link add d0 type bond mode active-backup miimon 100
         for port in r1 r2; do ip link set $port down; ip link set $port master d0; done",
    ),
    (
        "WireGuard",
        "ip address add 10.77.3.2/24 dev b0; ip link add d0 type wireguard
         umask 77; for key in 1 2; do wg genkey > /tmp/key$key; done
         wg set d0 private-key /tmp/key2 listen-port 5000 peer $(wg pubkey < /tmp/key1) \
             endpoint 10.77.3.1:5000 allowed-ips 0.0.0.0/0",
        "ip address add 10.77.3.1/24 dev r1; ip link add d0 type wireguard
         wg set d0 private-key /tmp/key1 listen-port 5000 peer $(wg pubkey < /tmp/key2) \
             endpoint 10.77.3.2:5000 allowed-ips 0.0.0.0/0",
    ),
    // pppd replaces earlier addresses by its own.
    (
        "PPPoE",
        "echo > /etc/ppp/options; printf 'ifname d0\nnoauth\n' > /etc/ppp/pppoe-server-options
         pppoe-server -I b0 -L 10.77.3.2 -R 10.77.3.1 -N 1",
        "modprobe -a pppoe; pppd plugin pppoe.so nic-r1 ifname d0 noauth noipdefault updetach
         until nsenter --net=$PEER ip address show d0 | grep 10.77.3.2; do sleep .1; done",
    ),
];
/// Commands of both before and afterwards.
const BEFORE: [&str; 2] = ["ip address flush dev b0", "ip address flush dev r1"];
const AFTER: [&str; 2] = [
    "ip address add 10.77.2.2/24 dev d0; ip link set d0 up; ip route replace default via 10.77.2.1",
    "ip address add 10.77.2.1/24 dev d0; ip link set d0 up",
];
pub(super) const RULES: &str = "\
table ip home {
    chain translate { type nat hook postrouting priority 100; oifname d0 masquerade; }
    chain guard {
        type filter hook forward priority 0; policy drop;
        iifname d0 ct state established,related accept
        iifname r0 oifname d0 accept
    }
}
";
const FAST: &str = "\
table ip fast {
    flowtable f { hook ingress priority 0; devices = { r0, r1 }; }
}
";

/// Rate of both directions, in bit/s: an emulated machine carries more than the flood.
const RATE: f64 = 1e6;
const RATES: [&str; 4] = ["--up", "1 Mbit", "--down", "1 Mbit"];
/// Datagrams of a flood per second: twice the rate.
const FLOOD: f64 = 250.0;
/// Lengths of datagrams of a flood and of a light flow.
const HEAVY: usize = 1000;
const LIGHT: usize = 100;
/// Bytes of a datagram that count in addition: Ethernet's between the frames and in them, IPv4's and UDP's.
const HEADERS: usize = 24 + 14 + 20 + 8;
/// Datagrams of the flood that arrive before the measurement, and until its end.
const ARRIVALS: [u32; 2] = [100, 600];
/// Floods of which a single right flood is enough.
const ATTEMPTS: usize = 5;
/// Bytes of a transfer by TCP.
const BYTES: usize = 200_000;

#[test]
fn devices_of_many_kinds_are_queued_in_a_guest() {
    work_in_a_guest("guest::devices::in_the_guest");
}

/// Does nothing unless the guest's init starts it.
#[test]
fn in_the_guest() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    for (name, sink, router) in DEVICES {
        let mut bench = Bench::without_router().expect("root in the guest");
        for [sink, router] in [BEFORE, [sink, router], AFTER] {
            let bed = &bench.bed;
            shell(&bed.sink, sink, &bed.router);
            shell(&bed.router, router, &bed.sink);
        }
        rules(&bench, RULES);
        eventually(name, || bench.ping(PING));
        start(&mut bench, "d0", &RATES);
        bench.eventually("pings pass the queues", || {
            bench.ping(PING) && sent(&bench).is_some_and(|sent| sent.iter().all(|n| *n > 0))
        });
        for is_up in [true, false] {
            // A machine that is busy may stop the guest for seconds.
            let mut floods = (0..ATTEMPTS).map(|_| Flood::run(&bench, is_up));
            let is_right = floods.any(|flood| {
                println!("{name}, up {is_up}: {flood:?}");
                flood.is_right()
            });
            assert!(is_right, "{name}, up {is_up}");
        }
        transfer(&bench);
        bench.router.as_mut().unwrap().kill();
        eventually("the kernel forwards", || bench.ping(PING));
    }
    let bench = Bench::without_router().expect("root in the guest");
    rules(&bench, FAST);
    bench.ip("link add d0 link r1 type vlan id 5");
    bench.ip("link set d0 up");
    for device in ["r1", "d0"] {
        let mut command = Command::new(weir());
        command.args(["queue", device]).args(RATES);
        let refused = bench
            .bed
            .router
            .enter(|| command.output())
            .unwrap()
            .unwrap();
        let said = String::from_utf8(refused.stderr).unwrap();
        println!("{said}");
        assert!(!refused.status.success());
        assert!(said.contains("table ip fast, flowtable f"), "{said}");
    }
    println!("{DONE}");
}

/// Runs a script, which finds the namespace of the other host in `$PEER`.
pub(super) fn shell(host: &Namespace, script: &str, peer: &Namespace) {
    // The shell of busybox has an `ip` of its own.
    let mut command = Command::new("dash");
    command.args(["-ec", script]).env("PEER", peer.path());
    // A server that keeps running must not keep a pipe.
    command.stdout(Stdio::null());
    assert!(
        host.enter(|| command.status()).unwrap().unwrap().success(),
        "{script}"
    );
}

/// Starts `weir queue` at a device with these rates.
pub(super) fn start(bench: &mut Bench, device: &str, rates: &[&str]) {
    let log = bench.folder.join("weir.log");
    let mut command = Command::new(weir());
    command.args(["queue", device]).args(rates);
    command.stderr(File::create(&log).unwrap());
    let process = bench.spawner.spawn(&bench.bed.router, command).unwrap();
    bench.router = Some(Router { process, log });
}

/// Packets that the ports have sent, if the router answers.
pub(super) fn sent(bench: &Bench) -> Option<[u64; 2]> {
    let mut command = Command::new(weir());
    command.args(["show", "ports", "--json"]);
    let shown = bench
        .bed
        .router
        .enter(|| command.output())
        .unwrap()
        .unwrap();
    let ports: serde_json::Value = serde_json::from_slice(&shown.stdout).ok()?;
    let sent = |port: usize| ports[port]["sent"]["packets"].as_u64();
    Some([sent(0)?, sent(1)?])
}

/// Counts of a flood and of a light flow.
#[derive(Debug)]
struct Flood {
    /// Arrivals of both as a share of the rate.
    share: f64,
    /// Datagrams sent for each that arrives.
    load: f64,
    /// Datagrams of the light flow: sent, lost.
    light: [u32; 2],
}

impl Flood {
    fn run(bench: &Bench, is_up: bool) -> Self {
        let [heavy, light] = [(); 2].map(|()| connection(bench, is_up));
        let (mut arrived, mut numbers) = ([0; 2], [0; 2]);
        let mut began = None;
        let take = |arrived: &mut [u32; 2]| {
            for (n, (_, to)) in [&heavy, &light].into_iter().enumerate() {
                while let Ok(bytes) = to.recv(&mut [0; 2000]) {
                    arrived[n] += u32::from(bytes == [HEAVY, LIGHT][n]);
                }
            }
        };
        let start = Instant::now();
        while arrived[0] < ARRIVALS[1] {
            // A sleep of an emulated machine may take several milliseconds.
            let due = (FLOOD * start.elapsed().as_secs_f64()) as u32;
            for _ in 0..due.saturating_sub(numbers[0]).min(16) {
                let _ = heavy.0.send(&[0; HEAVY]);
                numbers[0] += 1;
                if numbers[0] % 5 == 0 {
                    light.0.send(&[0; LIGHT]).unwrap();
                    numbers[1] += 1;
                }
            }
            take(&mut arrived);
            if began.is_none() && arrived[0] >= ARRIVALS[0] {
                began = Some((Instant::now(), arrived));
            }
            thread::sleep(Duration::from_millis(1));
        }
        let (began, before) = began.unwrap();
        let bytes = (arrived[0] - before[0]) as usize * (HEAVY + HEADERS)
            + (arrived[1] - before[1]) as usize * (LIGHT + HEADERS);
        let share = bytes as f64 * 8.0 / RATE / began.elapsed().as_secs_f64();
        let load = f64::from(numbers[0]) / f64::from(arrived[0]);
        let patience = Instant::now();
        while arrived[1] < numbers[1] && patience.elapsed() < Duration::from_secs(10) {
            take(&mut arrived);
            thread::sleep(Duration::from_millis(1));
        }
        Self {
            share,
            load,
            light: [numbers[1], numbers[1] - arrived[1]],
        }
    }

    fn is_right(&self) -> bool {
        (0.97..1.01).contains(&self.share) && self.load > 1.2 && self.light[1] == 0
    }
}

/// Sends [`BYTES`] by TCP with superframes.
fn transfer(bench: &Bench) {
    let offloads = "-K a0 tx on tso on gso on";
    run(&bench.bed.source, "ethtool", offloads).unwrap();
    let bind = || TcpListener::bind(("10.77.2.2", 0)).unwrap();
    let listener = bench.bed.sink.enter(bind).unwrap();
    let to = listener.local_addr().unwrap();
    let connect = || TcpStream::connect(to).unwrap();
    let mut stream = bench.bed.source.enter(connect).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut arrived = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            stream.write_all(&[7; BYTES]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        server.read_to_end(&mut arrived).unwrap();
    });
    assert_eq!(arrived.len(), BYTES);
}

/// A connection through the translation: the sending and the receiving socket.
fn connection(bench: &Bench, is_up: bool) -> (UdpSocket, UdpSocket) {
    let bind = |host: &Namespace, address: &str| {
        let socket = host
            .enter(|| UdpSocket::bind((address, 0)).unwrap())
            .unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let inside = bind(&bench.bed.source, "10.77.1.2");
    let server = bind(&bench.bed.sink, "10.77.2.2");
    inside.connect(server.local_addr().unwrap()).unwrap();
    eventually("a connection", || {
        inside.send(&[0]).unwrap();
        let peer = server.recv_from(&mut [0]);
        peer.is_ok_and(|(_, peer)| server.connect(peer).is_ok())
    });
    if is_up {
        (inside, server)
    } else {
        (server, inside)
    }
}

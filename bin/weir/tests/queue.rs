//! `weir router` in mode "queue", next to a kernel that translates and filters.

mod echoes;
mod flood;
mod guards;
mod others;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_benches::testbed::{DISCARD, run};
use weir_live::device::Device;
use weir_live::device::tun::Tun;
use weir_live::namespace::Namespace;

use crate::common::{ANSWERED, Bench, PATIENCE, PING, Router, eventually, weir};
use crate::lifecycle::stream::Stream;

/// Both directions of the uplink.
const CONFIG: &str = "\
mode = \"queue\"
[port.up]
interface = \"r1\"
rate = \"20 Mbit\"
[port.down]
interface = \"r1\"
direction = \"in\"
rate = \"50 Mbit\"
discipline = { kind = \"triple_fair\", hosts = \"destination\" }
";
/// A masquerade and a firewall that drops by default, with counters of accepted packets.
const RULES: &str = "\
table ip home {
    chain translate { type nat hook postrouting priority 100; oifname r1 masquerade; }
    chain guard {
        type filter hook forward priority 0; policy drop;
        iifname r1 ct state established,related counter accept
        iifname r0 oifname r1 counter accept
    }
    chain marked { type filter hook prerouting priority 0; meta mark != 0 counter; }
}
";

/// A box that translates, and a sink that does not know the way to the source.
fn bench() -> Option<Bench> {
    let bench = Bench::without_router()?;
    crate::gateway::rules(&bench, RULES);
    // The answers come only to the translated address.
    let _ = run(&bench.bed.sink, "ip", "route del 10.77.1.0/24");
    let _ = run(&bench.bed.sink, "ip", "route del default");
    assert!(bench.ping(ANSWERED), "the kernel alone");
    Some(bench)
}

/// A tunnel in place of the link to the sink: the interface `r1` of the box is a TUN device.
struct Tunnel {
    stop: Arc<AtomicBool>,
    carrier: Option<JoinHandle<()>>,
}

/// Like [`bench`], with a tunnel. The sink passes packets to an unused address on to `b0`.
fn tunnelled() -> Option<(Bench, Tunnel)> {
    let bench = bench()?;
    let (router, sink) = (&bench.bed.router, &bench.bed.sink);
    run(sink, "ip", "link del b0").unwrap();
    let ends = [(router, "r1"), (sink, "t1")].map(|(host, name)| {
        let tun = host.enter(|| Tun::open(name)).unwrap();
        run(host, "ip", &format!("link set {name} txqueuelen 10000")).unwrap();
        tun.unwrap()
    });
    run(router, "ip", "address add 10.77.2.1/24 dev r1").unwrap();
    for arguments in [
        "address add 10.77.2.2/24 dev t1".to_owned(),
        "link add b1 type veth peer name b0".to_owned(),
        "link set b0 up".to_owned(),
        "link set b1 up".to_owned(),
        format!("route add {DISCARD} dev b1"),
        format!("neighbour replace {DISCARD} lladdr 02:00:00:00:77:99 dev b1"),
    ] {
        run(sink, "ip", &arguments).unwrap();
    }
    let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
    sink.enter(forward).unwrap().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let carrier = thread::spawn(move || {
        let [mut near, mut far] = ends;
        while !stopped.load(Ordering::Relaxed) {
            if carry(&mut near, &mut far) + carry(&mut far, &mut near) == 0 {
                thread::sleep(Duration::from_micros(200));
            }
        }
    });
    let tunnel = Tunnel {
        stop,
        carrier: Some(carrier),
    };
    assert!(bench.ping(ANSWERED), "the kernel alone");
    Some((bench, tunnel))
}

fn carry(from: &mut Tun, to: &mut Tun) -> usize {
    let taken = from.receive(64, &mut |packet| {
        assert_eq!(to.transmit(&[&packet.bytes]).unwrap(), 1);
    });
    taken.unwrap()
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.carrier.take().map(JoinHandle::join);
    }
}

/// Packets that a port has sent.
fn sent(bench: &Bench, port: &str) -> u64 {
    let ports = bench.ports();
    let ports = ports.as_array().unwrap();
    let port = ports.iter().find(|p| p["port"] == port).unwrap();
    port["sent"]["packets"].as_u64().unwrap()
}

/// Waits until pings pass the queues in both directions.
fn await_queues(bench: &Bench) {
    bench.eventually("pings pass the queues", || {
        bench.ping(PING) && sent(bench, "up") > 0 && sent(bench, "down") > 0
    });
}

/// Waits until the next pings pass the queues in both directions.
fn await_queues_again(bench: &Bench, what: &str) {
    let counts = || ["up", "down"].map(|port| sent(bench, port));
    let before = counts();
    bench.eventually(&format!("{what}: pings pass the queues"), || {
        let now = counts();
        bench.ping(PING) && now.iter().zip(&before).all(|(now, before)| now > before)
    });
}

/// The set of rules and links, as the machine's own tools show them.
fn configuration(bench: &Bench) -> [String; 3] {
    let print = |program, arguments| run(&bench.bed.router, program, arguments).unwrap();
    [
        print("nft", "-s list ruleset"),
        print("ip", "-o addr show scope global"),
        print("ip", "rule"),
    ]
}

#[test]
fn both_directions_of_a_translating_box_pass_the_queues() {
    if let Some(bench) = bench() {
        both_directions(bench);
    }
}

#[test]
fn both_directions_of_a_tun_device_pass_the_queues() {
    if let Some((bench, _tunnel)) = tunnelled() {
        both_directions(bench);
    }
}

/// Fifty pings pass the queues once, and received packets have no mark of weir.
fn pings_pass_once(bench: &Bench) {
    let before = ["up", "down"].map(|port| sent(bench, port));
    assert!(run(&bench.bed.source, "ping", "-c 50 -i 0.002 -W 10 10.77.2.2").is_ok());
    let passed = ["up", "down"].map(|port| sent(bench, port));
    let passed = [passed[0] - before[0], passed[1] - before[1]];
    // Requests and answers once each; neighbour discovery may add a few.
    assert!(passed.iter().all(|n| (50..60).contains(n)), "{passed:?}");
    let marked = run(&bench.bed.router, "nft", "list chain ip home marked").unwrap();
    assert!(marked.contains("counter packets 0 "), "{marked}");
}

fn both_directions(mut bench: Bench) {
    let before = configuration(&bench);
    bench.start(CONFIG);
    await_queues(&bench);
    pings_pass_once(&bench);
    // The box's own packets are queued too.
    let up = sent(&bench, "up");
    assert!(run(&bench.bed.router, "ping", ANSWERED).is_ok());
    assert!(sent(&bench, "up") > up);
    assert!(bench.stop("TERM").success());
    assert_eq!(configuration(&bench), before);
}

#[test]
fn frames_with_marks_of_others_pass_the_queues() {
    let Some(mut bench) = bench() else {
        return;
    };
    crate::gateway::rules(
        &bench,
        "table ip others {
            chain sent { type filter hook forward priority 0; oifname r1 meta mark set 0x77656972; }
        }",
    );
    bench.start(&format!("mark = \"0x80000/0xff0000\"\n{CONFIG}"));
    await_queues(&bench);
    pings_pass_once(&bench);
}

#[test]
fn a_start_a_reload_and_a_stop_lose_and_double_nothing() {
    if let Some(bench) = bench() {
        lose_and_double_nothing(bench);
    }
}

#[test]
fn a_start_a_reload_and_a_stop_at_a_tun_device_lose_and_double_nothing() {
    if let Some((bench, _tunnel)) = tunnelled() {
        lose_and_double_nothing(bench);
    }
}

fn lose_and_double_nothing(mut bench: Bench) {
    let config = CONFIG.replace("20 Mbit", "90 Mbit");
    let stream = Stream::begin(&bench);
    bench.start(&config);
    bench.eventually("the stream passes the queue", || sent(&bench, "up") > 400);
    let up = &config[config.find("[port.up]").unwrap()..config.find("[port.down]").unwrap()];
    let turned = config.replace("[port.up]", "[port.x]");
    let turned = turned.replace("[port.down]", "[port.up]");
    for config in [
        config.replace("90 Mbit", "80 Mbit"),
        // Without the port the kernel sends, and with it the queue.
        config.replace(up, ""),
        config.clone(),
        // Another port takes the place of a port.
        config.replace("[port.up]", "[port.out]"),
        // Two ports exchange their directions.
        turned.replace("[port.x]", "[port.down]"),
        config.clone(),
    ] {
        let path = bench.configure(&config);
        let applied = bench.weir(&["apply", path.to_str().unwrap()]);
        assert!(applied.status.success(), "{applied:?}");
    }
    assert!(bench.stop("TERM").success());
    let count = stream.end();
    assert_eq!((count.lost, count.duplicated), (0, 0), "{count:?}");
}

#[test]
fn the_kernel_goes_on_alone_when_the_router_is_killed_or_stands_still() {
    if let Some(bench) = bench() {
        goes_on_alone(bench);
    }
}

#[test]
fn the_kernel_goes_on_alone_at_a_tun_device() {
    if let Some((bench, _tunnel)) = tunnelled() {
        goes_on_alone(bench);
    }
}

fn goes_on_alone(mut bench: Bench) {
    bench.start(CONFIG);
    await_queues(&bench);
    let router = bench.router.as_mut().unwrap();
    let child = router.child();
    crate::common::kill(router.process.id(), "STOP");
    crate::common::kill(child, "STOP");
    let began = Instant::now();
    eventually("the kernel forwards", || {
        bench.ping("-c 1 -W 0.2 10.77.2.2")
    });
    println!("the kernel forwards again after {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(20));
    bench.router.as_mut().unwrap().kill();
    assert!(bench.ping(ANSWERED));
    // The next router replaces what the killed one left behind.
    bench.router = None;
    bench.start(CONFIG);
    await_queues(&bench);
}

/// Datagrams of two hosts inside with 1 and 16 connections; both send more than the link carries.
struct TwoHosts {
    /// Sockets inside, each with the number of its host.
    inside: Vec<(u8, UdpSocket)>,
    server: UdpSocket,
    /// The server's view of each connection.
    peers: Vec<(u8, SocketAddr)>,
}

impl TwoHosts {
    const HOSTS: [&str; 2] = ["10.77.1.2", "10.77.1.3"];

    fn new(bench: &Bench) -> Self {
        let bind = |namespace: &Namespace, address: &str| {
            let socket = namespace
                .enter(|| UdpSocket::bind((address, 0)))
                .unwrap()
                .unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        };
        run(
            &bench.bed.source,
            "ip",
            "addr add 10.77.1.3/24 dev a0 nodad",
        )
        .unwrap();
        let server = bind(&bench.bed.sink, "10.77.2.2");
        let to = server.local_addr().unwrap();
        let hosts = [0].into_iter().chain([1; 16]);
        let inside: Vec<_> = hosts
            .map(|host| {
                (
                    host,
                    bind(&bench.bed.source, Self::HOSTS[usize::from(host)]),
                )
            })
            .collect();
        let mut peers = Vec::new();
        for (n, (host, socket)) in inside.iter().enumerate() {
            eventually("a connection", || {
                socket.send_to(&[n as u8; 100], to).unwrap();
                let mut buffer = [0; 100];
                while let Ok((_, peer)) = server.recv_from(&mut buffer) {
                    if peers.len() == n && usize::from(buffer[0]) == n {
                        peers.push((*host, peer));
                    }
                }
                peers.len() > n
            });
        }
        Self {
            inside,
            server,
            peers,
        }
    }

    /// Packets of each host that arrive while both send, the first ones left out. They send until `is_over`, and then
    /// until enough packets have arrived.
    fn shares(&self, is_up: bool, is_over: impl Fn() -> bool) -> [u32; 2] {
        let (mut arrived, mut buffer) = ([0; 2], [0; 2000]);
        let to = self.server.local_addr().unwrap();
        let (mut begun, mut turn) = (0, 0);
        while arrived[0] + arrived[1] < 1500 || !is_over() {
            let enough = arrived[0] + arrived[1] >= 1500;
            let mut take = |socket: &UdpSocket| {
                while let Ok((bytes, _)) = socket.recv_from(&mut buffer) {
                    begun += 1;
                    if bytes == 1000 && begun > 500 && !enough {
                        arrived[usize::from(buffer[0])] += 1;
                    }
                }
            };
            // Each host sends once in a turn, by its connections one after another.
            turn += 1;
            let both = [0, 1 + turn % 16];
            if is_up {
                for n in both {
                    let (host, socket) = &self.inside[n];
                    let _ = socket.send_to(&[*host; 1000], to);
                }
                take(&self.server);
            } else {
                for n in both {
                    let (host, peer) = self.peers[n];
                    let _ = self.server.send_to(&[host; 1000], peer);
                }
                self.inside.iter().for_each(|(_, socket)| take(socket));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        arrived
    }
}

#[test]
fn hosts_behind_the_translation_share_whatever_their_number_of_connections() {
    let Some(mut bench) = bench() else {
        return;
    };
    bench.start(
        &CONFIG
            .replace("20 Mbit", "4 Mbit")
            .replace("50 Mbit", "4 Mbit"),
    );
    await_queues(&bench);
    let hosts = TwoHosts::new(&bench);
    for is_up in [true, false] {
        let is_over = AtomicBool::new(false);
        let is_named = |shown: &str| TwoHosts::HOSTS.iter().all(|host| shown.contains(host));
        let ([one, other], shown) = thread::scope(|scope| {
            let flood = scope.spawn(|| hosts.shares(is_up, || is_over.load(Ordering::Relaxed)));
            let start = Instant::now();
            let mut shown = bench.ask(&["show", "waiting"]);
            while !is_named(&shown) && start.elapsed() < PATIENCE {
                shown = bench.ask(&["show", "waiting"]);
            }
            is_over.store(true, Ordering::Relaxed);
            (flood.join().unwrap(), shown)
        });
        println!("{shown}");
        println!("up {is_up}: {one} and {other}");
        assert!(is_named(&shown), "{shown}");
        assert!(one.abs_diff(other) < 75, "up {is_up}: {one} and {other}");
    }
}

#[test]
fn the_directions_of_a_half_duplex_link_share_one_rate() {
    const RATE: f64 = 4e6;
    const ON_WIRE: f64 = 8.0 * (1000 + 28 + 14 + 24) as f64;
    let Some(mut bench) = bench() else {
        return;
    };
    let rate = CONFIG.replace("20 Mbit", "4 Mbit");
    bench.start(&rate.replace("rate = \"50 Mbit\"", "rate_of = \"up\""));
    await_queues(&bench);
    let hosts = TwoHosts::new(&bench);
    let (_, inside) = &hosts.inside[0];
    let (_, peer) = hosts.peers[0];
    let to = hosts.server.local_addr().unwrap();
    let (mut arrived, mut all, mut buffer) = ([0_u32; 2], 0_u32, [0; 2000]);
    // From before the first packet, so that a pause of the receiver never makes a rate look greater.
    let start = Instant::now();
    while arrived[0] + arrived[1] < 1500 {
        let _ = inside.send_to(&[0; 1000], to);
        let _ = hosts.server.send_to(&[0; 1000], peer);
        for (arrived, socket) in arrived.iter_mut().zip([&hosts.server, inside]) {
            while let Ok((bytes, _)) = socket.recv_from(&mut buffer) {
                all += u32::from(bytes == 1000);
                *arrived += u32::from(bytes == 1000 && all >= 500);
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    let [up, down] = arrived;
    let rate = f64::from(all) * ON_WIRE / start.elapsed().as_secs_f64();
    println!("up {up}, down {down}, together {rate:.0} bit/s");
    assert!(up.abs_diff(down) < 75, "{up} and {down}");
    assert!(rate < 1.02 * RATE, "{rate:.0} bit/s");
}

#[test]
fn one_command_queues_an_interface_and_its_service_has_the_same_file() {
    let Some(mut bench) = bench() else {
        return;
    };
    // The command writes below these folders.
    let own = "mount -t tmpfs none /run && mount -t tmpfs none /etc && exec \"$0\" \"$@\"";
    let rates = ["--up", "20 Mbit", "--down", "50 Mbit"];
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", own])
        .arg(weir())
        .args(["queue", "r1"])
        .args(rates);
    let log = bench.folder.join("queue.log");
    command.stderr(fs::File::create(&log).unwrap());
    let process = bench.spawner.spawn(&bench.bed.router, command).unwrap();
    let pid = process.id();
    bench.router = Some(Router { process, log });
    let ask = |arguments: &[&str]| {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{pid}/ns/mnt"));
        command.arg(weir()).args(arguments);
        let Output {
            status,
            stdout,
            stderr,
        } = bench
            .bed
            .router
            .enter(|| command.output())
            .unwrap()
            .unwrap();
        (
            status.code(),
            String::from_utf8([stdout, stderr].concat()).unwrap(),
        )
    };
    eventually("the only router is found", || {
        ask(&["show", "ports"]).0 == Some(0)
    });
    bench.eventually("a ping passes the queue", || {
        let (_, rows) = ask(&["show", "ports", "--json"]);
        let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
        bench.ping(PING) && rows[1]["port"] == "up" && rows[1]["sent"]["packets"] != 0
    });

    let (code, said) = ask(&["queue", "r1"]);
    assert!(
        code == Some(1) && said.contains("r1 is queued already"),
        "{said}"
    );
    let save = |rates: &[&str]| ask(&[&["queue", "r1", "--save"], rates].concat());
    let (code, said) = save(&rates);
    assert!(
        code == Some(0) && said.contains("systemctl enable --now weir@r1"),
        "{said}"
    );
    assert_eq!(save(&rates).0, Some(0), "the same file");
    let (code, said) = save(&rates[..2]);
    assert!(
        code == Some(2) && said.contains("systemctl reload weir@r1"),
        "{said}"
    );
    // The commands find the router of the file, and the file of the router.
    assert_eq!(
        ask(&["diff", "/etc/weir/r1.toml"]),
        (Some(0), String::new())
    );
    let (code, said) = ask(&["set", "port.up.rate=15 Mbit", "--save"]);
    assert!(
        code == Some(0) && said.contains("saved: /etc/weir/r1.toml"),
        "{said}"
    );
    let (code, said) = ask(&["apply", "/etc/weir/r1.toml"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(ask(&["get", "port.up.rate"]).1.contains("15 Mbit"));
    assert!(bench.stop("TERM").success());
    assert!(bench.ping(ANSWERED));
}

//! A port that finds the rate of the modem behind it, on real packets.
//!
//! ```text
//!  source a0 ---- r0 router r2 ---- m0 [modem: bridge, impair] m1 ---- c0 sink, two addresses that answer pings
//!      rate = "auto", no load    rate = "auto"
//! ```

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::{self, Hosts, Router};
use serde_json::Value;
use weir_benches::testbed::{Testbed, run};
use weir_live::device::Device;
use weir_live::namespace::Namespace;
use weir_northbound::client;

/// The router's name.
const EDGE: &str = "edge";
const LAN: &str = "\
watchdog = \"0 s\"
[port.lan]
interface = \"r0\"
rate = \"auto\"
rate_base = \"40 Mbit\"
reflectors = \"10.77.1.2\"
";
/// Its configuration without the reflectors.
const WAN: &str = "\
[port.wan]
interface = \"r2\"
rate = \"auto\"
rate_base = \"2 Mbit\"
rate_most = \"50 Mbit\"
rate_threshold = \"15 ms\"
";
const MODEM: &str = "\
mode = \"bridged\"
watchdog = \"0 s\"
[port.m0]
discipline = { kind = \"impair\", delay = \"2 ms\" }
[port.m1]
discipline = { kind = \"impair\", delay = \"2 ms\", rate = \"12 Mbit\", buffer = \"300 kB\" }
";
/// Time in which a rate must be found, on a busy machine.
const FOUND_WITHIN: Duration = Duration::from_secs(25);

/// The router, its modem, and the load. The load ends first, because its connections need the path.
struct Bench {
    load: Load,
    hosts: Hosts,
    _modem: (Router, Namespace),
    _edge: Router,
}

impl Bench {
    /// A bench with datagrams as load; the port to the modem measures by `reflectors`.
    fn new(reflectors: &str) -> Option<Self> {
        Self::with(reflectors, Load::datagrams)
    }

    fn with(reflectors: &str, load: impl FnOnce(&Hosts) -> Load) -> Option<Self> {
        let hosts = Hosts::new()?;
        let modem = Namespace::new().unwrap();
        let router = &hosts.bed.router;
        let (at_router, at_sink) = (router.path(), hosts.bed.sink.path());
        for arguments in [
            format!("link add m0 type veth peer name r2 netns {at_router}"),
            format!("link add m1 type veth peer name c0 netns {at_sink}"),
            "link set m0 up".to_owned(),
            "link set m1 up".to_owned(),
        ] {
            run(&modem, "ip", &arguments).unwrap();
        }
        for (host, port, last) in [(router, "r2", [1, 4]), (&hosts.bed.sink, "c0", [2, 3])] {
            for last in last {
                run(
                    host,
                    "ip",
                    &format!("address add 10.78.0.{last}/24 dev {port}"),
                )
                .unwrap();
                let v6 = format!("address add fd78::{last}/64 dev {port} nodad");
                run(host, "ip", &v6).unwrap();
            }
            run(host, "ip", &format!("link set {port} up")).unwrap();
            run(host, "ethtool", &format!("-K {port} tx off")).unwrap();
        }
        let path = hosts.configure("modem", MODEM);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("router").arg(path).stdin(Stdio::null());
        let log = hosts.folder.join("modem.log");
        command.stderr(std::fs::File::create(&log).unwrap());
        let process: Child = hosts.spawner.spawn(&modem, command).unwrap();
        let bridge = Router { process, log };
        common::eventually("the modem answers", || {
            client::get::<Value>(&hosts.socket("modem"), "/v1/status").is_ok()
        });
        for back in ["10.77.1.0/24 via 10.78.0.1", "fd77:1::/64 via fd78::1"] {
            let arguments = format!("route replace {back} dev c0");
            run(&hosts.bed.sink, "ip", &arguments).unwrap();
        }
        let edge = hosts.start(EDGE, &format!("{LAN}{WAN}reflectors = {reflectors}\n"));
        Some(Self {
            load: load(&hosts),
            hosts,
            _modem: (bridge, modem),
            _edge: edge,
        })
    }

    /// The answer of the router, which may take long on a busy machine.
    fn get(&self, path: &str) -> Value {
        let mut answer = None;
        common::eventually("the router answers", || {
            answer = client::get(&self.hosts.socket(EDGE), path).ok();
            answer.is_some()
        });
        answer.unwrap()
    }

    /// The port's row in the table of found rates.
    fn finding(&self) -> Value {
        let rates = self.get("/v1/rates");
        let wan = |finding: &&Value| finding["port"] == "wan";
        let found = rates.as_array().unwrap().iter().find(wan);
        found.cloned().unwrap_or_default()
    }

    /// The estimated rate of the link, in Mbit/s.
    fn found(&self) -> f64 {
        self.finding()["found_bps"].as_f64().unwrap() / 1e6
    }

    fn paced_to(&self) -> f64 {
        let ports = self.get("/v1/ports");
        let wan = |port: &&Value| port["port"] == "wan";
        let wan = ports.as_array().unwrap().iter().find(wan).unwrap();
        wan["rate_bps"].as_f64().unwrap() / 1e6
    }

    fn set(&self, name: &str, assignment: &str) {
        let said = self.hosts.weir(&["set", assignment], name);
        assert!(said.status.success(), "{said:?}");
    }

    fn within(&self, what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
        let began = Instant::now();
        while !holds() {
            let finding = self.finding();
            assert!(
                began.elapsed() < limit,
                "not within {limit:?}: {what}: {finding}"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Traffic from the source to the sink, while it is on.
struct Load {
    on: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn none() -> Self {
        let [on, ended] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        Self {
            on,
            ended,
            threads: Vec::new(),
        }
    }

    /// Calls `part` repeatedly until the end, with whether the load is on.
    fn repeat(&mut self, mut part: impl FnMut(bool) + Send + 'static) {
        let (on, ended) = (Arc::clone(&self.on), Arc::clone(&self.ended));
        self.threads.push(thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                part(on.load(Ordering::Relaxed));
            }
        }));
    }

    /// Datagrams of 20 Mbit/s.
    fn datagrams(hosts: &Hosts) -> Self {
        let socket = hosts.bed.source.enter(|| UdpSocket::bind("10.77.1.2:0"));
        let socket = socket.unwrap().unwrap();
        let mut load = Self::none();
        load.repeat(move |is_on| {
            for _ in 0..if is_on { 4 } else { 0 } {
                let _ = socket.send_to(&[0; 1200], "10.78.0.2:9");
            }
            thread::sleep(Duration::from_millis(2));
        });
        load
    }

    /// An IPv4 and an IPv6 upload from a host that leaves segmentation to others.
    fn uploads(hosts: &Hosts) -> Self {
        for arguments in ["-K a0 tx on", "-K a0 tso on gso on"] {
            run(&hosts.bed.source, "ethtool", arguments).unwrap();
        }
        let mut load = Self::none();
        for to in ["10.78.0.2:5001", "[fd78::2]:5001"] {
            let listener = hosts.bed.sink.enter(|| TcpListener::bind(to));
            let listener = listener.unwrap().unwrap();
            let connect = || TcpStream::connect(to);
            let mut from = hosts.bed.source.enter(connect).unwrap().unwrap();
            let (mut at_sink, _) = listener.accept().unwrap();
            for socket in [&from, &at_sink] {
                let limit = Some(Duration::from_millis(100)); // so that the thread can end
                socket.set_read_timeout(limit).unwrap();
                socket.set_write_timeout(limit).unwrap();
            }
            load.repeat(move |is_on| {
                if is_on {
                    _ = from.write(&[0; 16_384])
                } else {
                    thread::sleep(Duration::from_millis(10))
                }
            });
            let mut taken = vec![0; 65_536];
            load.repeat(move |_| _ = at_sink.read(&mut taken));
        }
        load
    }

    fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A reflector that lies, in place of the sink's kernel: its answers are late by anything up to 0.4 s, come twice, or
/// repeat something else.
struct Liar {
    due: VecDeque<(Instant, Vec<u8>)>,
    asked: u64,
}

impl Liar {
    /// Takes a frame; its answer is sent later.
    fn take(&mut self, frame: &[u8], now: Instant) {
        let is_ping = frame.get(12..15) == Some(&[8, 0, 0x45])
            && frame.get(23) == Some(&1)
            && frame.get(34) == Some(&8);
        if !is_ping || frame.len() < 66 {
            return;
        }
        self.asked += 1;
        let mut answer = frame.to_vec();
        answer[..6].copy_from_slice(&frame[6..12]);
        answer[6..12].copy_from_slice(&frame[..6]);
        answer[26..30].copy_from_slice(&frame[30..34]);
        answer[30..34].copy_from_slice(&frame[26..30]);
        answer[34] = 0;
        let sum = u16::from_be_bytes([frame[36], frame[37]]);
        let (sum, carry) = sum.overflowing_add(0x0800);
        let sum = sum + u16::from(carry);
        answer[36..38].copy_from_slice(&sum.to_be_bytes());
        let at = now + Duration::from_millis(self.asked * 97 % 400);
        if self.asked.is_multiple_of(3) {
            self.due.push_back((at, answer.clone()));
        }
        if self.asked.is_multiple_of(5) {
            answer.swap(51, 57); // another sequence number with the same checksum
        }
        self.due.push_back((at, answer));
    }

    /// The answers that are due.
    fn answers(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let (due, later) = self.due.drain(..).partition(|(at, _)| *at <= now);
        self.due = later;
        let due: VecDeque<(Instant, Vec<u8>)> = due;
        due.into_iter().map(|(_, answer)| answer).collect()
    }
}

impl Bench {
    /// Answers the sink's pings by a liar as long as `lies`.
    fn lie(&mut self, lies: &Arc<AtomicBool>) {
        let lies = Arc::clone(lies);
        let mut device = Testbed::open(&self.hosts.bed.sink, "c0").unwrap();
        let mut liar = Liar {
            due: VecDeque::new(),
            asked: 0,
        };
        self.load.repeat(move |_| {
            let now = Instant::now();
            let _ = device.receive(64, &mut |frame| {
                if lies.load(Ordering::Relaxed) {
                    liar.take(&frame.bytes, now);
                }
            });
            for answer in liar.answers(now) {
                let _ = device.transmit(&[&answer]);
            }
            thread::sleep(Duration::from_millis(1));
        });
    }

    /// Whether the sink's kernel answers pings.
    fn answer_pings(&self, on: bool) {
        let value = if on { "0" } else { "1" };
        let write = || std::fs::write("/proc/sys/net/ipv4/icmp_echo_ignore_all", value);
        self.hosts.bed.sink.enter(write).unwrap().unwrap();
    }
}

#[test]
fn a_port_finds_the_rate_of_its_modem_and_loses_it_with_its_reflectors() {
    let Some(bench) = Bench::new("[\"10.78.0.2\", \"fd78::3\"]") else {
        return;
    };
    // Without load the rate stays at its initial value.
    bench.within("all reflectors answer", FOUND_WITHIN, || {
        let reflectors = bench.get("/v1/reflectors");
        let all = reflectors.as_array().unwrap();
        all.len() == 3 && all.iter().all(|r| r["state"] == "answers")
    });
    assert!((1.0..3.0).contains(&bench.found()), "{}", bench.finding());
    bench.load.set(true);
    bench.within("most of 12 Mbit/s is found", FOUND_WITHIN, || {
        bench.found() > 7.0
    });

    // A change elsewhere keeps the found rate, and so does a reload of limits.
    bench.set(EDGE, "port.wan.local_share=0.4");
    bench.set(EDGE, "port.wan.rate_most=\"40 Mbit\"");
    assert!(
        bench.found() > 3.5,
        "it would begin at 2: {}",
        bench.finding()
    );

    bench.set("modem", "port.m1.discipline.rate=\"3 Mbit\"");
    bench.within("the fall to 3 Mbit/s is followed", FOUND_WITHIN, || {
        bench.found() < 4.0
    });

    // An operator sets the rate, and then returns to the automatic rate.
    bench.set(EDGE, "port.wan.rate=\"5 Mbit\"");
    assert_eq!(bench.paced_to(), 5.0);
    thread::sleep(Duration::from_millis(50));
    assert_eq!((bench.finding(), bench.paced_to()), (Value::Null, 5.0));
    bench.set(EDGE, "port.wan.rate=auto");
    bench.within("it finds again", FOUND_WITHIN, || {
        let found = bench.finding();
        found["phase"] != "blind" && bench.paced_to() < 4.0
    });
    let shown = bench.hosts.ask(&["show", "rates"], EDGE);
    assert!(shown.contains("WHY") && shown.contains("wan"), "{shown}");

    // The reflectors die.
    bench.set("modem", "port.m1.discipline.rate=\"20 Mbit\"");
    bench.within("20 Mbit/s are found", FOUND_WITHIN, || bench.found() > 6.0);
    for dead in ["10.78.0.2/24", "fd78::3/64"] {
        let arguments = format!("address del {dead} dev c0");
        run(&bench.hosts.bed.sink, "ip", &arguments).unwrap();
    }
    bench.within("it is blind", Duration::from_secs(8), || {
        bench.finding()["phase"] == "blind"
    });
    bench.within(
        "the port has no more than the base",
        Duration::from_secs(1),
        || bench.paced_to() <= 2.0,
    );
    // The other port has its own reflectors.
    let lan = &bench.get("/v1/rates")[0];
    assert_eq!(
        (&lan["port"], &lan["phase"]),
        (&"lan".into(), &"follow".into())
    );
    assert!(lan["found_bps"].as_f64().unwrap() > 30e6, "{lan}");
}

#[test]
fn a_port_finds_the_rate_by_the_connections_that_pass_it() {
    let Some(bench) = Bench::with("\"traffic\"", Load::uploads) else {
        return;
    };
    let traffic = || {
        let reflectors = bench.get("/v1/reflectors");
        let all = reflectors.as_array().unwrap();
        let wan: Vec<_> = all.iter().filter(|row| row["port"] == "wan").collect();
        assert_eq!((wan.len(), &wan[0]["address"]), (1, &"traffic".into()));
        wan[0].clone()
    };
    assert_eq!(traffic()["state"], "idle");
    assert!((1.0..3.0).contains(&bench.found()), "{}", bench.finding());
    bench.load.set(true);
    bench.within("most of 12 Mbit/s is found", FOUND_WITHIN, || {
        bench.found() > 7.0
    });
    let seen = traffic();
    let baseline = seen["baseline_s"].as_f64().unwrap();
    assert_eq!(seen["state"], "measured", "{seen}");
    assert!(
        (0.004..0.1).contains(&baseline),
        "two delays of 2 ms: {seen}"
    );

    bench.set("modem", "port.m1.discipline.rate=\"3 Mbit\"");
    bench.within("the fall to 3 Mbit/s is followed", FOUND_WITHIN, || {
        bench.found() < 4.0
    });
    // An additional reflector starts from scratch, and the traffic continues to count.
    bench.set("modem", "port.m1.discipline.rate=\"12 Mbit\"");
    bench.set(EDGE, "port.wan.reflectors=\"10.78.0.2 traffic\"");
    bench.within("both are seen", FOUND_WITHIN, || {
        let reflectors = bench.get("/v1/reflectors");
        let all = reflectors.as_array().unwrap();
        let mut states = all.iter().filter(|row| row["port"] == "wan");
        let mut is = |word| states.next().is_some_and(|row| row["state"] == word);
        is("answers") && is("measured")
    });
    bench.within("it finds again", FOUND_WITHIN, || bench.found() > 7.0);
    let shown = bench.hosts.ask(&["show", "reflectors"], EDGE);
    assert!(shown.contains("traffic"), "{shown}");
}

#[test]
fn a_reflector_that_lies_and_an_interface_that_goes_leave_the_rate_within_its_limits() {
    let Some(mut bench) = Bench::new("\"10.78.0.2\"") else {
        return;
    };
    bench.set(EDGE, "port.wan.rate_most=\"20 Mbit\"");
    bench.load.set(true);
    bench.within("most of 12 Mbit/s is found", FOUND_WITHIN, || {
        bench.found() > 7.0
    });
    // It is the only reflector, so it is believed.
    let lies = Arc::new(AtomicBool::new(true));
    bench.answer_pings(false);
    bench.lie(&lies);
    let strange = |bench: &Bench| bench.finding()["strange"].as_u64().unwrap();
    let limits = 0.999..=20.001;
    let mut least = f64::MAX;
    let until = Instant::now() + Duration::from_secs(4);
    while Instant::now() < until {
        let (found, paced) = (bench.found(), bench.paced_to());
        assert!(limits.contains(&found), "{}", bench.finding());
        assert!(limits.contains(&paced), "{paced}");
        least = least.min(paced);
        thread::sleep(Duration::from_millis(5));
    }
    assert!(least < 5.0, "the lies had no effect: {least}");
    assert!(strange(&bench) > 0, "{}", bench.finding());
    lies.store(false, Ordering::Relaxed);
    bench.answer_pings(true);
    bench.within("the truth is found again", FOUND_WITHIN, || {
        bench.found() > 7.0
    });

    // The interface goes and comes back.
    let set = |state: &str| {
        let arguments = format!("link set r2 {state}");
        run(&bench.hosts.bed.router, "ip", &arguments).unwrap();
    };
    set("down");
    bench.within("it is blind", Duration::from_secs(8), || {
        bench.finding()["phase"] == "blind" && bench.paced_to() <= 2.0
    });
    set("up");
    bench.within("it finds again", FOUND_WITHIN, || bench.found() > 7.0);
}

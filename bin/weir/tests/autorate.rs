//! A port that finds the rate of the modem behind it, on real packets.
//!
//! ```text
//!  source a0 ---- r0 router r2 ---- m0 [modem: bridge, impair] m1 ---- c0 sink, two addresses that answer pings
//!      rate = "auto", no load    rate = "auto"
//! ```
#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod common;

use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::{Hosts, Router};
use serde_json::Value;
use weir_benches::testbed::run;
use weir_live::namespace::Namespace;
use weir_northbound::client;

/// The router's name.
const EDGE: &str = "edge";
const CONFIG: &str = "\
watchdog = \"0 s\"
[port.lan]
interface = \"r0\"
rate = \"auto\"
rate_base = \"40 Mbit\"
reflectors = \"10.77.1.2\"
[port.wan]
interface = \"r2\"
rate = \"auto\"
rate_base = \"2 Mbit\"
rate_most = \"50 Mbit\"
rate_threshold = \"15 ms\"
reflectors = [\"10.78.0.2\", \"fd78::3\"]
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

/// The router, its modem, and the load.
struct Bench {
    hosts: Hosts,
    _modem: (Router, Namespace),
    _edge: Router,
    load: Load,
}

impl Bench {
    fn new() -> Option<Self> {
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
        let edge = hosts.start(EDGE, CONFIG);
        let load = Load::start(&hosts);
        Some(Self {
            hosts,
            _modem: (bridge, modem),
            _edge: edge,
            load,
        })
    }

    fn get(&self, path: &str) -> Value {
        client::get(&self.hosts.socket(EDGE), path).unwrap()
    }

    /// The port as whoever finds its rate knows it.
    fn finding(&self) -> Value {
        let rates = self.get("/v1/rates");
        let wan = |finding: &&Value| finding["port"] == "wan";
        let found = rates.as_array().unwrap().iter().find(wan);
        found.cloned().unwrap_or_default()
    }

    /// The rate that is held to be the link's, in Mbit/s.
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

/// Datagrams of 20 Mbit/s from the source to the sink, while it is on.
struct Load {
    on: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    fn start(hosts: &Hosts) -> Self {
        let [on, ended] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let socket = hosts.bed.source.enter(|| UdpSocket::bind("10.77.1.2:0"));
        let socket = socket.unwrap().unwrap();
        let thread = {
            let (on, ended) = (Arc::clone(&on), Arc::clone(&ended));
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    for _ in 0..if on.load(Ordering::Relaxed) { 4 } else { 0 } {
                        let _ = socket.send_to(&[0; 1200], "10.78.0.2:9");
                    }
                    thread::sleep(Duration::from_millis(2));
                }
            })
        };
        Self {
            on,
            ended,
            thread: Some(thread),
        }
    }

    fn set(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn a_port_finds_the_rate_of_its_modem_and_loses_it_with_its_reflectors() {
    let Some(bench) = Bench::new() else { return };
    // Without load it stays where it begins.
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

    // A change of something else leaves what was found, and so does a reload of limits.
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

    // A person decides, and lets it decide again.
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
    // The other port has reflectors of its own.
    let lan = &bench.get("/v1/rates")[0];
    assert_eq!(
        (&lan["port"], &lan["phase"]),
        (&"lan".into(), &"follow".into())
    );
    assert!(lan["found_bps"].as_f64().unwrap() > 30e6, "{lan}");
}

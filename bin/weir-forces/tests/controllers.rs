//! A control element whose controller controls two forwarding elements, all of them processes. Where network namespaces
//! are not permitted, the tests print that and skip.
//!
//! ```text
//!   source ---[ edge1 ]--- sink        ---[ edge2 ]---
//!                 \_________  ce  _________/              over the loopback interface
//! ```

use std::fmt::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{self, Hosts, Router, eventually};
use serde_json::Value;
use weir_benches::testbed::{SINK, SOURCE, run};
use weir_northbound::client;

/// Maximum time until the other FEs have their new rates after an FE has disconnected.
const GONE_MAX: Duration = Duration::from_secs(1);

/// The uplinks: a queue of each FE.
const PORTS: &str = "edge1.wan, edge2.wan";

/// The two FEs with their interfaces.
const EDGES: [(&str, [&str; 2]); 2] = [("edge1", ["r0", "r1"]), ("edge2", ["x0", "x1"])];

/// The MAC addresses of the interfaces of the second FE.
const MACS: [&str; 2] = ["02:00:00:00:00:10", "02:00:00:00:00:11"];

struct Domain {
    hosts: Hosts,
    transport: &'static str,
}

impl Domain {
    /// `None` where namespaces are not permitted.
    fn new(transport: &'static str) -> Option<Self> {
        let hosts = Hosts::new()?;
        hosts.ip("link set lo up");
        for (port, mac) in EDGES[1].1.iter().zip(MACS) {
            let far = hosts.bed.source.path();
            hosts.ip(&format!(
                "link add {port} address {mac} type veth peer name {port}-far netns {far}"
            ));
            hosts.ip(&format!("link set {port} up"));
            run(&hosts.bed.source, "ip", &format!("link set {port}-far up")).unwrap();
        }
        for name in ["ce", "edge1", "edge2"] {
            let mut command = Command::new(common::weir());
            command.arg("keys").arg(hosts.folder.join(name));
            assert!(command.output().unwrap().status.success());
        }
        Some(Self { hosts, transport })
    }

    /// Starts the CE: each FE needs 1 Mbit/s of its 10 Mbit/s for control messages. The uplinks are queues of ports, or
    /// the exceptions of the FEs.
    fn ce(&self, uplinks: &str) -> Router {
        let mut config = format!(
            "id = 1\nstore = \"ce.redb\"\ncertificate = \"ce.crt\"\nkey = \"ce.key\"\n\
             [listen.main]\naddress = \"127.0.0.1:6704\"\ntransport = \"{}\"\n\
             [controller.flow]\nkind = \"flow_control\"\nuplinks = \"{uplinks}\"\n\
             total = \"10 Mbit\"\ncontrol = \"1 Mbit\"\n",
            self.transport
        );
        for (n, (name, _)) in EDGES.iter().enumerate() {
            let id = n + 2;
            writeln!(
                config,
                "[fe.{name}]\nid = {id}\ncertificate = \"{name}.crt\"\n[fe.{name}.redirect]\nhop_limit = true\nno_route = true"
            )
            .unwrap();
        }
        self.hosts.spawn_as("ce", "ce", &config, &[])
    }

    /// Starts an FE and waits until it forwards.
    fn fe(&self, n: usize) -> Router {
        let (name, [lan, wan]) = EDGES[n];
        let config = format!(
            "[fe]\nid = {}\ncertificate = \"{name}.crt\"\nkey = \"{name}.key\"\n\
             [ce.main]\nid = 1\naddress = \"127.0.0.1:6704\"\ntransport = \"{}\"\ncertificate = \"ce.crt\"\n\
             [port.lan]\ninterface = \"{lan}\"\n\
             [port.wan]\ninterface = \"{wan}\"\nrate = \"20 Mbit\"\ndiscipline = {{ kind = \"token_bucket\" }}\n",
            n + 2,
            self.transport
        );
        let fe = self.hosts.spawn_as("fe", name, &config, &[]);
        eventually("the FE answers", || {
            client::get::<Value>(&self.hosts.socket(name), "/v1/status").is_ok()
        });
        fe
    }

    /// The token bucket of an FE: flag, committed and excess rate.
    fn bucket(&self, fe: &str) -> [String; 3] {
        let config: Value = client::get(&self.hosts.socket(fe), "/v1/config").unwrap();
        ["flow_control", "committed", "excess"].map(|name| {
            let value = &config[format!("port.wan.discipline.{name}")];
            value.as_str().unwrap().to_owned()
        })
    }

    /// A gauge of the controller.
    fn gauge(&self, name: &str) -> f64 {
        let socket = self.hosts.socket("ce");
        let rows = client::get::<Value>(&socket, "/v1/controllers");
        let rows = rows.unwrap_or_default();
        rows[0]["gauges"][name].as_f64().unwrap_or(-1.0)
    }

    /// Messages that the CE has sent to an FE, and received from it.
    fn messages(&self, fe: &str) -> [u64; 2] {
        let rows: Value = client::get(&self.hosts.socket("ce"), "/v1/associations").unwrap();
        let mut rows = rows.as_array().unwrap().iter();
        let row = rows.find(|row| row["fe"] == fe).unwrap();
        ["messages_sent", "messages_received"].map(|name| row[name].as_u64().unwrap())
    }

    /// Waits until an FE has these rates; returns how long it took.
    fn until(&self, fe: &str, committed: &str, excess: &str) -> Duration {
        let began = Instant::now();
        let expected = ["true", committed, excess];
        let what = format!("{fe} has {committed} and {excess}");
        eventually(&what, || self.bucket(fe) == expected);
        began.elapsed()
    }
}

/// Equations 12 and 13 with one FE more or less: B_c = (10 - N) / N, and B_e = 1.01 N B_c, as nobody redirects.
fn rates_follow_the_fes(transport: &'static str) {
    let Some(domain) = Domain::new(transport) else {
        return;
    };
    let _ce = domain.ce(PORTS);
    let (_edge1, mut edge2) = (domain.fe(0), domain.fe(1));
    for fe in ["edge1", "edge2"] {
        domain.until(fe, "4 Mbit", "8.08 Mbit");
    }
    edge2.kill();
    let passed = domain.until("edge1", "9 Mbit", "9.09 Mbit");
    assert!(passed < GONE_MAX, "{passed:?}");
    drop(edge2);
    let _edge2 = domain.fe(1);
    let passed = domain.until("edge1", "4 Mbit", "8.08 Mbit");
    assert!(passed < GONE_MAX, "{passed:?}");
    domain.until("edge2", "4 Mbit", "8.08 Mbit");
}

#[test]
fn rates_follow_the_fes_over_quic() {
    rates_follow_the_fes("quic");
}

#[test]
fn rates_follow_the_fes_over_tcp() {
    rates_follow_the_fes("tcp_udp");
}

#[test]
fn what_an_fe_redirects_comes_by_subscription() {
    let Some(domain) = Domain::new("tcp_udp") else {
        return;
    };
    let _ce = domain.ce(PORTS);
    let (_edge1, _edge2) = (domain.fe(0), domain.fe(1));
    domain.until("edge2", "4 Mbit", "8.08 Mbit");
    let source = &domain.hosts.bed.source;
    let sender = source.enter(|| UdpSocket::bind((SOURCE, 4000)).unwrap());
    let sender = sender.unwrap();
    sender.connect((SINK, 5000)).unwrap();
    // At most 8 Mbit/s.
    let send = || {
        let _ = sender.send(&[0; 1000]); // the sink may answer "port unreachable"
        thread::sleep(Duration::from_millis(1));
    };
    eventually("the controller has the redirect rate", || {
        send();
        domain.gauge("redirect_mbps") > 0.5
    });
    let ([out, answers], began) = (domain.messages("edge1"), Instant::now());
    while began.elapsed() < Duration::from_secs(1) {
        send();
    }
    let [more_out, more_answers] = domain.messages("edge1");
    let reports = (more_answers - answers).saturating_sub(more_out - out);
    // 25 per second, and fewer on a busy machine. Each other message answers a message of the CE.
    assert!(
        reports >= 8,
        "{reports} reports, {} requests",
        more_out - out
    );
    eventually("the rate is zero again", || {
        domain.gauge("redirect_mbps") == 0.0
    });
}

/// Exceptions: packets whose TTL runs out, or without a route, of 1000 bytes, at this rate until it is dropped.
struct Flood {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Flood {
    fn new(sender: UdpSocket, rate: f64) -> Self {
        sender.set_ttl(1).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, began) = (Arc::clone(&is_over), Instant::now());
        let thread = thread::spawn(move || {
            let mut sent = 0.0;
            while !over.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(60) {
                thread::sleep(Duration::from_millis(1));
                while sent < began.elapsed().as_secs_f64() * rate / 8000.0 {
                    let _ = sender.send(&[0; 972]); // the CE may answer "time exceeded"
                    sent += 1.0;
                }
            }
        });
        let thread = Some(thread);
        Self { is_over, thread }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

impl Domain {
    /// A sender whose packets come to the first port of an FE.
    fn sender(&self, n: usize) -> UdpSocket {
        let (from, to) = match n {
            0 => (SOURCE, SINK),
            _ => (Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 10, 0, 1)),
        };
        let source = &self.hosts.bed.source;
        if n > 0 {
            let [mac, _] = MACS;
            for arguments in [
                format!("addr add {from}/24 dev x0-far"),
                format!("neigh add 10.9.0.2 lladdr {mac} dev x0-far"),
                format!("route add {to} via 10.9.0.2 dev x0-far"),
            ] {
                run(source, "ip", &arguments).unwrap();
            }
        }
        let sender = source.enter(|| UdpSocket::bind((from, 4000)).unwrap());
        let sender = sender.unwrap();
        sender.connect((to, 5000)).unwrap();
        sender
    }

    /// The token buckets of an FE's exceptions, as rates: B_c / T_s and B_e, in Mbit/s; `None` without flow control.
    fn rates(&self, fe: &str) -> Option<[f64; 2]> {
        let config: Value = client::get(&self.hosts.socket(fe), "/v1/config").unwrap();
        let text = |name: &str| {
            config[format!("redirect.{name}")]
                .as_str()
                .unwrap()
                .to_owned()
        };
        (text("flow_control") == "true" && text("ts") == "1.5 s")
            .then(|| ["bc", "be"].map(|name| text(name).parse::<f64>().unwrap() / 1.5e6))
    }

    /// The exceptions of an FE: bytes received, bytes policed, and the rate of the received ones in Mbit/s.
    fn exceptions(&self, fe: &str) -> [f64; 3] {
        let row: Value = client::get(&self.hosts.socket(fe), "/v1/redirect").unwrap();
        let stats = ["bytes", "dropped_bytes"].map(|name| row["stats"][name].as_f64().unwrap());
        [
            stats[0],
            stats[1],
            row["redirect_bps"].as_f64().unwrap() / 1e6,
        ]
    }

    /// Waits until both buckets of these FEs are about as expected; returns how long it took.
    fn until_rates(&self, fes: &[&str], expected: impl Fn() -> [f64; 2]) -> Duration {
        let began = Instant::now();
        let mut last = Vec::new();
        eventually("the buckets have their rates", || {
            last = fes.iter().map(|fe| self.rates(fe)).collect();
            let expected = expected();
            let is_near = |rates: &Option<[f64; 2]>| {
                let rates = rates.unwrap_or_default().into_iter().zip(expected);
                rates
                    .into_iter()
                    .all(|(rate, expected)| (rate - expected).abs() < 0.3)
            };
            last.iter().all(is_near)
        });
        began.elapsed()
    }
}

/// Both FEs redirect packets, and one is flooded: it gets the rate that the other leaves (equation 13). The share of an
/// FE that disconnects goes to the other.
#[test]
fn exceptions_are_shared_out_among_the_fes() {
    let Some(domain) = Domain::new("tcp_udp") else {
        return;
    };
    let _ce = domain.ce("edge1, edge2");
    let (_edge1, mut edge2) = (domain.fe(0), domain.fe(1));
    let both = ["edge1", "edge2"];
    // B_c = (10 - 2) / 2 Mbit/s; no FE redirects, so one FE may have 1.01 times the whole excess rate.
    domain.until_rates(&both, || [4.0, 8.08]);
    let _quiet = Flood::new(domain.sender(1), 2e6);
    eventually("edge2 shows its rate", || {
        domain.exceptions("edge2")[2] > 1.8
    });
    domain.until_rates(&both, || [4.0, 8.08]); // because the other FE redirects nothing
    let flood = Flood::new(domain.sender(0), 20e6);
    let passed = domain.until_rates(&both, || [4.0, 8.08 - domain.exceptions("edge2")[2]]);
    assert!(passed < GONE_MAX, "{passed:?}");
    // The rates that pass then.
    let before = both.map(|fe| domain.exceptions(fe));
    let began = Instant::now();
    thread::sleep(Duration::from_secs(2));
    let after = both.map(|fe| domain.exceptions(fe));
    let seconds = began.elapsed().as_secs_f64();
    let [flooded, quiet] = [0, 1].map(|n| {
        let [came, policed] = [0, 1].map(|i| (after[n][i] - before[n][i]) * 8e-6 / seconds);
        [came - policed, policed]
    });
    let all = format!("flooded {flooded:?}, quiet {quiet:?} Mbit/s");
    assert!(
        (5.0..6.5).contains(&flooded[0]) && flooded[1] > 5.0,
        "{all}"
    );
    assert!((1.8..2.5).contains(&quiet[0]) && quiet[1] == 0.0, "{all}");
    // B_c = 10 - 1.
    edge2.kill();
    let passed = domain.until_rates(&both[..1], || [9.0, 9.09]);
    assert!(passed < GONE_MAX, "{passed:?}");
    drop(flood);
    eventually("the rate is zero again", || {
        domain.exceptions("edge1")[2] == 0.0
    });
}

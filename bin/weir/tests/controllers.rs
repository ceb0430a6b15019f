//! A control element whose controller steers two forwarding elements, all of them processes. Where network namespaces
//! are not permitted, the tests print that and skip.
//!
//! ```text
//!   source ---[ edge1 ]--- sink        ---[ edge2 ]---
//!                 \_________  ce  _________/              over the loopback interface
//! ```
#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod common;

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use common::{Hosts, Router, eventually, kill};
use serde_json::Value;
use weir_benches::testbed::{SINK, SOURCE};
use weir_northbound::client;

/// Longest time until the others have their new rates when an FE goes.
const GONE_MAX: Duration = Duration::from_secs(1);

/// The two FEs with their interfaces.
const EDGES: [(&str, [&str; 2]); 2] = [("edge1", ["r0", "r1"]), ("edge2", ["x0", "x1"])];

struct Domain {
    hosts: Hosts,
    transport: &'static str,
}

impl Domain {
    /// None where namespaces are not permitted.
    fn new(transport: &'static str) -> Option<Self> {
        let hosts = Hosts::new()?;
        hosts.ip("link set lo up");
        for port in EDGES[1].1 {
            hosts.ip(&format!("link add {port} type veth peer name {port}-far"));
            hosts.ip(&format!("link set {port} up"));
            hosts.ip(&format!("link set {port}-far up"));
        }
        for name in ["ce", "edge1", "edge2"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
            command.arg("keys").arg(hosts.folder.join(name));
            assert!(command.output().unwrap().status.success());
        }
        Some(Self { hosts, transport })
    }

    /// Starts the CE: each FE needs 1 Mbit/s of its 10 Mbit/s for control messages.
    fn ce(&self) -> Router {
        let mut config = format!(
            "id = 1\nstore = \"ce.redb\"\ncertificate = \"ce.crt\"\nkey = \"ce.key\"\n\
             [listen.main]\naddress = \"127.0.0.1:6704\"\ntransport = \"{}\"\n\
             [controller.flow]\nkind = \"flow_control\"\nuplinks = \"edge1.wan, edge2.wan\"\n\
             total = \"10 Mbit\"\ncontrol = \"1 Mbit\"\n",
            self.transport
        );
        for (n, (name, _)) in EDGES.iter().enumerate() {
            let id = n + 2;
            writeln!(
                config,
                "[fe.{name}]\nid = {id}\ncertificate = \"{name}.crt\""
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
    let _ce = domain.ce();
    let (_edge1, edge2) = (domain.fe(0), domain.fe(1));
    for fe in ["edge1", "edge2"] {
        domain.until(fe, "4 Mbit", "8.08 Mbit");
    }
    kill(edge2.child(), "KILL");
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
    let _ce = domain.ce();
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
    // 25 a second, and fewer on a machine that is busy. Each other message answers one of the CE.
    assert!(
        reports >= 8,
        "{reports} reports, {} requests",
        more_out - out
    );
    eventually("the rate is zero again", || {
        domain.gauge("redirect_mbps") == 0.0
    });
}

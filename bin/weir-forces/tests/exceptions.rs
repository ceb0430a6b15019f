//! `weir ce` acts for the ports of a `weir fe` in another namespace: packets that the FE cannot handle itself go to the
//! CE, and its kernel answers through TAP devices.
//!
//! ```text
//!  source a0 ---- r0 weir fe r1 ---- b0 sink
//!                      | c0
//!                      | c1
//!                   weir ce: TAPs edge1.lan, edge1.wan
//! ```
//!
//! The CE has the addresses .8 on both links, the FE's kernel .1. Where network namespaces are not permitted, the tests
//! print that and skip.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{self, Hosts, UNPACED, eventually, kill};
use serde_json::Value;
use weir_benches::testbed::{Testbed, run, udp_frame};
use weir_live::device::Device;
use weir_live::namespace::Namespace;
use weir_northbound::client;

use crate::promtool;

pub(crate) const CE: &str = "\
id = 1
store = \"ce.redb\"
certificate = \"ce.crt\"
key = \"ce.key\"
[listen.main]
address = \"10.78.0.2:6704\"
[fe.edge1]
id = 2
certificate = \"edge1.crt\"
[fe.edge1.redirect]
hop_limit = true
[remote.lan]
fe = \"edge1\"
port = \"lan\"
addresses = \"10.77.1.8/24\"
tap = true
[remote.wan]
fe = \"edge1\"
port = \"wan\"
addresses = \"10.77.2.8/24\"
tap = true
";

const FE: &str = "\
[fe]
id = 2
certificate = \"edge1.crt\"
key = \"edge1.key\"
[ce.main]
id = 1
address = \"10.78.0.2:6704\"
certificate = \"ce.crt\"
rate = \"10 Mbit\"
";

/// A process, which ends when this value is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// An FE and its CE, which end when this value is dropped.
pub(crate) struct Elements {
    pub(crate) hosts: Hosts,
    pub(crate) control: Namespace,
    /// The CE, then the FE.
    pub(crate) processes: Vec<Child>,
}

impl Drop for Elements {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Elements {
    /// Starts both, and waits until the CE acts for the ports. `None` where namespaces are not permitted.
    fn new() -> Option<Self> {
        Self::with(CE, &[], "")
    }

    /// Like [`Self::new`], with this configuration and these environment variables of the CE, whose TAPs are found with these
    /// options of `ip`.
    pub(crate) fn with(ce: &str, variables: &[(&str, &str)], place: &str) -> Option<Self> {
        let hosts = Hosts::new()?;
        let control = Namespace::new().unwrap();
        let link = format!(
            "link add c0 type veth peer name c1 netns {}",
            control.path()
        );
        hosts.ip(&link);
        hosts.ip("address add 10.78.0.1/24 dev c0");
        hosts.ip("link set c0 up");
        run(&control, "ip", "address add 10.78.0.2/24 dev c1").unwrap();
        run(&control, "ip", "link set c1 up").unwrap();
        run(&control, "ip", "link set lo up").unwrap();
        let mut elements = Self {
            hosts,
            control,
            processes: Vec::new(),
        };
        for name in ["ce", "edge1"] {
            let mut keys = Command::new(common::weir());
            keys.arg("keys").arg(elements.hosts.folder.join(name));
            assert!(keys.stdout(Stdio::null()).status().unwrap().success());
        }
        elements.start("ce", ce, variables);
        elements.start("fe", &format!("{FE}{UNPACED}"), &[]);
        eventually("the FE is in sync", || {
            elements.ask("fes")[0]["state"] == "in sync"
        });
        for tap in ["edge1.lan", "edge1.wan"] {
            let show = format!("{place} address show dev {tap}");
            let is_there =
                || run(&elements.control, "ip", &show).is_ok_and(|s| s.contains("10.77."));
            eventually("the TAP device is there", is_there);
        }
        Some(elements)
    }

    /// Starts `weir ce` or `weir fe`.
    fn start(&mut self, what: &str, config: &str, variables: &[(&str, &str)]) {
        let hosts = &self.hosts;
        let mut command = Command::new(common::weir());
        let log = std::fs::File::create(hosts.folder.join(format!("{what}.log"))).unwrap();
        command
            .arg(what)
            .arg(hosts.configure(what, config))
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let host = match what {
            "ce" => &self.control,
            _ => &hosts.bed.router,
        };
        let process = hosts.spawner.spawn(host, command).unwrap();
        self.processes.push(process);
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.hosts.socket("ce")
    }

    /// A table of the CE.
    pub(crate) fn ask(&self, table: &str) -> Value {
        let rows = client::get::<Value>(&self.socket(), &format!("/v1/{table}"));
        rows.unwrap_or_default()
    }

    /// A table of the FE, through the CE.
    fn ask_fe(&self, table: &str) -> Value {
        client::get(&self.socket(), &format!("/v1/fe/edge1/v1/{table}")).unwrap()
    }

    /// The line with the responder in the output of a ping from the source.
    pub(crate) fn ping(&self, arguments: &str) -> String {
        let said = run(&self.hosts.bed.source, "ping", arguments);
        let said = said.unwrap_or_else(|error| error.to_string());
        let mut lines = said.lines();
        let line = lines.find(|line| line.starts_with("From ") || line.contains("bytes from"));
        line.unwrap_or(&said).to_owned()
    }

    /// Waits until packets whose TTL runs out are answered by this address: three seconds, and the time that a ping of
    /// the test takes.
    fn answered_by(&self, address: &str) {
        let began = Instant::now();
        let from = format!("From {address} ");
        while !self.ping("-c 1 -W 0.3 -t 1 10.77.2.2").contains(&from) {
            let elapsed = began.elapsed();
            assert!(elapsed < Duration::from_secs(5), "{address} is silent");
        }
        println!("{address} answers after {:.1?}", began.elapsed());
    }
}

#[test]
fn the_kernel_of_the_control_element_answers_at_the_ports() {
    let Some(elements) = Elements::new() else {
        return;
    };
    for address in ["10.77.1.8", "10.77.2.8"] {
        let answer = elements.ping(&format!("-c 1 -W 10 {address}"));
        assert!(
            answer.contains(&format!("bytes from {address}")),
            "{answer}"
        );
    }
    let neighbours = run(&elements.hosts.bed.source, "ip", "neighbour show 10.77.1.8").unwrap();
    let mac = elements.ask_fe("ports")[0]["mac"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(neighbours.contains(&mac), "{neighbours} {mac}");

    // A traceroute shows the FE with the address that the CE has there, and the sink behind it.
    let hop = elements.ping("-c 1 -W 10 -t 1 10.77.2.2");
    assert!(
        hop.contains("From 10.77.1.8") && hop.contains("Time to live exceeded"),
        "{hop}"
    );
    let sink = elements.ping("-c 1 -W 10 -t 2 10.77.2.2");
    assert!(sink.contains("bytes from 10.77.2.2"), "{sink}");

    let counts = elements.ask_fe("redirect");
    let packets = |name: &str| counts[name]["packets"].as_u64().unwrap();
    assert!(
        packets("redirected") >= 4 && packets("injected") >= 4,
        "{counts}"
    );
    assert_eq!(packets("overflowed"), 0, "{counts}");

    // The CE counts its actions on exceptions, for operators and for Prometheus.
    let fates = elements.ask("exceptions");
    let fates = fates.as_array().unwrap().iter();
    // A frame that a host's kernel sends by itself may come before the CE acts for the port. It belongs to none then.
    let is_early = |row: &&Value| row["fate"] == "unknown_port";
    let fates: Vec<_> = fates
        .filter(|row| row["packets"] != 0 && !is_early(row))
        .collect();
    let named: Vec<_> = fates
        .iter()
        .map(|row| row["fate"].as_str().unwrap())
        .collect();
    assert_eq!(named, ["kernel", "icmp"], "{fates:?}");
    let metrics_at = |socket: &PathBuf| {
        let metrics = client::get_bytes(socket, "/metrics").unwrap().unwrap();
        let metrics = String::from_utf8(metrics.to_vec()).unwrap();
        promtool::check_metrics(&metrics);
        metrics
    };
    let of_fe = metrics_at(&elements.hosts.socket("fe"));
    assert!(
        of_fe.contains("weir_redirect_redirected_packets_total "),
        "{of_fe}"
    );
    let metrics = metrics_at(&elements.socket());
    for line in [
        "weir_exception_packets_total{fate=\"icmp\"} 1",
        "weir_fe_info{fe=\"edge1\",state=\"in sync\"} 1",
        "weir_channel_redirect_received_messages_total{fe=\"edge1\"}",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }

    // The CE's kernel reaches hosts at the port as if it were its own.
    let back = run(
        &elements.control,
        "ping",
        "-c 1 -W 10 -I edge1.wan 10.77.2.2",
    )
    .unwrap();
    assert!(back.contains("bytes from 10.77.2.2"), "{back}");
}

#[test]
fn without_its_master_the_router_answers_again() {
    let Some(mut elements) = Elements::new() else {
        return;
    };
    let hop = elements.ping("-c 1 -W 10 -t 1 10.77.2.2");
    assert!(hop.contains("From 10.77.1.8"), "{hop}");
    // Long before the FE gives up a silent CE, which takes 30 seconds (CEHDI).
    let control = elements.processes[0].id();
    let began = Instant::now();
    kill(control, "STOP");
    elements.answered_by("10.77.1.1");
    kill(control, "CONT");
    elements.answered_by("10.77.1.8");
    let up_s = elements.ask("associations")[0]["up_s"].as_f64().unwrap();
    assert!(
        up_s > began.elapsed().as_secs_f64(),
        "the association has ended"
    );
    let mut control = elements.processes.remove(0);
    control.kill().unwrap();
    control.wait().unwrap();
    let taps = run(&elements.control, "ip", "link show").unwrap();
    assert!(!taps.contains("edge1"), "{taps}");
    elements.answered_by("10.77.1.1");
}

#[test]
fn a_master_that_stops_before_the_first_exception_is_noticed_too() {
    let Some(elements) = Elements::new() else {
        return;
    };
    thread::sleep(Duration::from_secs(1)); // no packet is in flight
    kill(elements.processes[0].id(), "STOP");
    elements.answered_by("10.77.1.1");
    kill(elements.processes[0].id(), "CONT");
}

#[test]
fn a_flood_of_exceptions_disturbs_neither_forwarding_nor_control() {
    const MILLIS: u64 = 3000;
    const GOOD: usize = 2;
    const BAD: usize = 20;
    let Some(elements) = Elements::new() else {
        return;
    };
    let up = |elements: &Elements| elements.ask("associations")[0]["up_s"].as_f64().unwrap();
    let before = up(&elements);
    let port = |n: usize, name: &str| {
        let ports = elements.ask_fe("ports");
        ports[n][name]["packets"]
            .as_u64()
            .or(ports[n][name].as_u64())
            .unwrap()
    };
    let (sent_before, missed_before) = (port(1, "sent"), port(0, "missed"));

    let good = udp_frame(1, 200);
    let mut bad = udp_frame(2, 200);
    // A TTL of 1 instead of 64, and the checksum that follows (RFC 1624, equation 3; no carry here).
    bad[22] = 1;
    bad[24] = bad[24].checked_add(63).expect("no carry");
    let mut burst: Vec<&[u8]> = vec![&bad; BAD];
    burst.extend(vec![&good[..]; GOOD]);
    let mut source = Testbed::open(&elements.hosts.bed.source, "a0").unwrap();
    let socket = elements.socket();
    let began = Instant::now();
    let asking = thread::spawn(move || {
        let mut times = Vec::new();
        while began.elapsed() < Duration::from_millis(MILLIS) {
            let start = Instant::now();
            let path = "/v1/component?path=edge1:port.wan.rate";
            client::get::<Value>(&socket, path).unwrap();
            times.push(start.elapsed());
        }
        times.sort_unstable();
        times
    });
    for n in 1..=MILLIS {
        let mut rest = &burst[..];
        while !rest.is_empty() {
            rest = &rest[source.transmit(rest).unwrap()..];
        }
        let next = began + Duration::from_millis(n);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let seconds = began.elapsed().as_secs_f64();
    let times = asking.join().unwrap();
    thread::sleep(Duration::from_millis(200));

    let (sent, missed) = (
        port(1, "sent") - sent_before,
        port(0, "missed") - missed_before,
    );
    assert!(
        sent + missed >= MILLIS * GOOD as u64,
        "{sent} forwarded, {missed} missed"
    );
    let counts = elements.ask_fe("redirect");
    let came = counts["stats"]["packets"].as_u64().unwrap();
    assert!(
        came + missed >= MILLIS * BAD as u64,
        "{came} came, {missed} missed"
    );
    let worst = times[times.len() - 1];
    println!(
        "{came} exceptions in {seconds:.1} s, {} questions, the slowest {worst:?}",
        times.len()
    );
    assert!(
        times.len() >= 20 && worst < Duration::from_secs(1),
        "{} {worst:?}",
        times.len()
    );
    assert!(
        up(&elements) >= before + seconds,
        "the association has ended"
    );
    assert_eq!(elements.ask("fes")[0]["state"], "in sync");
}

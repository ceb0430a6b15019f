//! Figure 1 of the paper with a control element that runs it: a path by request, failures, restarts, mistakes.
//!
//! ```text
//!                 +--- b ---+          a request at the CE: s - c - b - a - t
//!  s --- c -------+         +--- a --- t
//!                 +--- d ---+          when c - b fails, and by IP: s - c - d - a - t
//!
//!  k `weir ce`, with a link of its own to each of a, b, c, d `weir fe`
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_benches::testbed::run;
use weir_live::namespace::{Namespace, Spawner};
use weir_northbound::client;

use crate::common::{Router, eventually, eventually_or, kill};

/// Links: the two nodes, and the network 10.0.N.0/24, in which the first node is .1 and the second .2.
const LINKS: [(&str, &str, u8); 6] = [
    ("s", "c", 1),
    ("c", "b", 2),
    ("b", "a", 3),
    ("c", "d", 4),
    ("d", "a", 5),
    ("a", "t", 6),
];
/// IP routes: to the host t through d, and back.
const ROUTES: [(&str, &str); 8] = [
    ("s", "default via 10.0.1.2"),
    ("t", "default via 10.0.6.1"),
    ("c", "10.0.6.0/24 via 10.0.4.2"),
    ("d", "10.0.6.0/24 via 10.0.5.2"),
    ("d", "10.0.1.0/24 via 10.0.4.1"),
    ("a", "10.0.1.0/24 via 10.0.5.1"),
    ("a", "10.0.4.0/24 via 10.0.5.1"),
    ("b", "10.0.6.0/24 via 10.0.3.2"),
];
/// The elements, and the networks 10.9.N.0/24 of their links to the CE.
const ELEMENTS: [(&str, u8); 4] = [("a", 1), ("b", 2), ("c", 3), ("d", 4)];
/// The port whose packets take the path.
const VIDEO: u16 = 5000;
/// A request for these packets.
const REQUEST: [&str; 11] = [
    "paths",
    "request",
    "--from",
    "c1",
    "--to",
    "a",
    "--destination",
    "10.0.6.0/24",
    "--protocol",
    "udp",
    "--destination-ports=5000",
];
/// Packets of the stream each second.
const RATE: u32 = 1000;

/// The MAC address of a node's interface to another node.
fn mac(node: &str, to: &str) -> String {
    let byte = |name: &str| name.as_bytes()[0];
    format!("02:00:00:00:{:02x}:{:02x}", byte(node), byte(to))
}

/// The file of the network, with paths behind it.
fn network(paths: &str) -> String {
    let mut text = String::new();
    for (node, _) in ELEMENTS {
        text += &format!("[domain.{node}]\n[element.{node}1]\ndomain = \"{node}\"\n");
    }
    for (from, to, _) in &LINKS[1..5] {
        let cost = if [*from, *to].contains(&"d") { 2 } else { 1 };
        text += &format!(
            "[link.{from}-{to}]\nfrom = \"{from}1:{to}\"\nto = \"{to}1:{from}\"\ncost = {cost}\n\
             from_address = \"{}\"\nto_address = \"{}\"\n",
            mac(from, to),
            mac(to, from)
        );
    }
    text + paths
}

struct Network {
    nodes: BTreeMap<&'static str, Namespace>,
    folder: PathBuf,
    /// Ends everything that it started when dropped.
    spawner: Spawner,
}

impl Network {
    /// `None` where namespaces are not permitted.
    fn new(name: &str) -> Option<Self> {
        if let Err(error) = Namespace::new() {
            println!("skipped: no network namespaces here ({error})");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let nodes =
            ["s", "t", "a", "b", "c", "d", "k"].map(|name| (name, Namespace::new().unwrap()));
        let network = Self {
            nodes: nodes.into(),
            folder,
            spawner: Spawner::new().unwrap(),
        };
        for (first, second, net) in LINKS {
            network.link(first, second, &format!("10.0.{net}"));
        }
        for (node, net) in ELEMENTS {
            network.link("k", node, &format!("10.9.{net}"));
            let on = || fs::write("/proc/sys/net/ipv4/ip_forward", "1");
            network.nodes[node].enter(on).unwrap().unwrap();
        }
        for (node, route) in ROUTES {
            network.ip(node, &format!("route add {route}"));
        }
        Some(network)
    }

    fn link(&self, first: &str, second: &str, net: &str) {
        let there = self.nodes[second].path();
        let (near, far) = (mac(first, second), mac(second, first));
        self.ip(
            first,
            &format!(
                "link add {first}-{second} address {near} type veth peer name {second}-{first} address {far} netns {there}"
            ),
        );
        for (node, other, host) in [(first, second, 1), (second, first, 2)] {
            self.ip(node, &format!("link set {node}-{other} up"));
            self.ip(
                node,
                &format!("addr add {net}.{host}/24 dev {node}-{other}"),
            );
        }
    }

    fn ip(&self, node: &str, arguments: &str) {
        run(&self.nodes[node], "ip", arguments).unwrap();
    }

    fn socket(&self, node: &str) -> PathBuf {
        self.folder.join(format!("{node}.sock"))
    }

    /// Starts `weir ce` or `weir fe` on a node, and waits until it answers.
    fn start(&self, node: &str, command: &str, config: &str, answers: &str) -> Router {
        let file = self.folder.join(format!("{node}.toml"));
        fs::write(
            &file,
            format!("socket = \"{}\"\n{config}", self.socket(node).display()),
        )
        .unwrap();
        let log = self.folder.join(format!("{node}.log"));
        let appended = fs::OpenOptions::new().create(true).append(true).open(&log);
        let mut weir = Command::new(crate::common::weir());
        weir.arg(command)
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(appended.unwrap());
        let process = self.spawner.spawn(&self.nodes[node], weir).unwrap();
        let mut router = Router { process, log };
        eventually(&format!("{node} answers"), || {
            let ended = router.process.try_wait().unwrap();
            assert!(ended.is_none(), "{}", router.log());
            client::get::<Value>(&self.socket(node), answers).is_ok()
        });
        router
    }

    fn start_ce(&self, paths: &str) -> Router {
        fs::write(self.folder.join("network.toml"), network(paths)).unwrap();
        self.start("k", "ce", &ce_config(), "/v1/fes")
    }

    fn start_fe(&self, node: &str) -> Router {
        let (place, (_, net)) = ELEMENTS
            .iter()
            .enumerate()
            .find(|(_, (n, _))| *n == node)
            .unwrap();
        let mut text = format!(
            "[fe]\nid = {}\nname = \"{node}1\"\n[ce.main]\nid = 1\naddress = \"10.9.{net}.1:6704\"\n\
             transport = \"tcp_udp\"\ninsecure = true\n",
            place + 2
        );
        let links = LINKS.iter().filter_map(|(first, second, _)| match node {
            n if n == *first => Some(*second),
            n if n == *second => Some(*first),
            _ => None,
        });
        for other in links {
            text += &format!(
                "[port.{other}]\ninterface = \"{node}-{other}\"\ndiscipline = {{ kind = \"fifo\" }}\n"
            );
        }
        self.start(node, "fe", &text, "/v1/status")
    }

    /// Runs a command at the CE.
    fn weir(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(crate::common::weir());
        command.env("WEIR_SOCKET", self.socket("k")).args(arguments);
        self.nodes["k"].enter(|| command.output()).unwrap().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let Output {
            status,
            stdout,
            stderr,
        } = self.weir(arguments);
        let said =
            String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
        assert!(status.success(), "weir {arguments:?}: {said}");
        said
    }

    fn refused(&self, arguments: &[&str], why: &str) {
        let Output { status, stderr, .. } = self.weir(arguments);
        let said = String::from_utf8_lossy(&stderr);
        assert!(
            !status.success() && said.contains(why),
            "weir {arguments:?}: {said}"
        );
    }

    /// The encapsulations of c.
    fn vectors(&self) -> BTreeMap<String, String> {
        let config: BTreeMap<String, String> =
            client::get(&self.socket("c"), "/v1/config").unwrap_or_default();
        let vectors = config.into_iter().filter_map(|(path, value)| {
            let name = path
                .strip_prefix("fpf.encapsulation.")?
                .strip_suffix(".vectors")?;
            Some((name.to_owned(), value))
        });
        vectors.collect()
    }

    /// Packets with a header that a node has forwarded.
    fn passed(&self, node: &str) -> u64 {
        let fpf: Value = client::get(&self.socket(node), "/v1/fpf").unwrap();
        fpf["forwarded"]["packets"].as_u64().unwrap()
    }

    /// The rules of a node.
    fn rules(&self, node: &str) -> usize {
        let config: BTreeMap<String, String> =
            client::get(&self.socket(node), "/v1/config").unwrap_or_default();
        let is_lid = |path: &&String| path.starts_with("fpf.rule.") && path.ends_with(".lid");
        config.keys().filter(is_lid).count()
    }

    /// The state of a link as the CE sees it.
    fn link_state(&self, link: &str) -> String {
        let network: Value = client::get(&self.socket("k"), "/v1/service/network").unwrap();
        let links = network["links"].as_array().unwrap();
        let found = links.iter().find(|row| row["link"] == link).unwrap();
        found["state"].as_str().unwrap().to_owned()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("k.log")).unwrap_or_default()
    }

    /// A numbered stream from s to t while `happens` runs; the arrivals, and their times.
    fn stream(&self, happens: impl FnOnce()) -> Stream {
        let receiver = self.nodes["t"].enter(|| UdpSocket::bind(("10.0.6.2", VIDEO)));
        let receiver = receiver.unwrap().unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let sender = self.nodes["s"].enter(|| UdpSocket::bind("10.0.1.1:4000"));
        let sender = sender.unwrap().unwrap();
        sender.connect(("10.0.6.2", VIDEO)).unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let sent = scope.spawn(|| {
                let begin = Instant::now();
                let mut sent = 0;
                while !stop.load(Ordering::Relaxed) {
                    let _ = sender.send(&u32::to_be_bytes(sent)); // an ICMP error is no reason to end
                    sent += 1;
                    let next = begin + Duration::from_secs(1) * sent / RATE;
                    thread::sleep(next.saturating_duration_since(Instant::now()));
                }
                sent
            });
            let came = scope.spawn(|| {
                let (mut came, mut buffer) = (Vec::new(), [0; 16]);
                loop {
                    match receiver.recv(&mut buffer) {
                        Ok(_) => came.push(Instant::now()),
                        Err(_) if stop.load(Ordering::Relaxed) => return came,
                        Err(_) => {} // no packet for a while
                    }
                }
            });
            thread::sleep(Duration::from_millis(300));
            happens();
            thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
            let (sent, came) = (sent.join().unwrap(), came.join().unwrap());
            let gaps = came.windows(2).map(|pair| pair[1] - pair[0]);
            Stream {
                lost: i64::from(sent) - came.len() as i64,
                sent,
                gap: gaps.max().unwrap_or(Duration::MAX),
            }
        })
    }
}

/// A finished stream.
#[derive(Debug)]
struct Stream {
    sent: u32,
    lost: i64,
    /// The longest time without a packet.
    gap: Duration,
}

fn ce_config() -> String {
    let mut text = "id = 1\nstore = \"ce.redb\"\nnetwork = \"network.toml\"\n[listen.main]\naddress = \"0.0.0.0:6704\"\n\
                    transport = \"tcp_udp\"\ninsecure = true\n"
        .to_owned();
    for (place, (node, _)) in ELEMENTS.iter().enumerate() {
        text += &format!("[fe.{node}1]\nid = {}\n", place + 2);
    }
    text
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_path_by_request_goes_around_a_failed_link_within_a_second_and_comes_back() {
    let Some(network) = Network::new("path-service") else {
        return;
    };
    let mut ce = network.start_ce("");
    let mut fes: BTreeMap<&str, Router> = ELEMENTS
        .iter()
        .map(|(node, _)| (*node, network.start_fe(node)))
        .collect();
    eventually_or(
        "every element has its rules",
        || network.log(),
        || ELEMENTS.iter().all(|(node, _)| network.rules(node) == 2),
    );
    for (node, address) in [("s", "10.0.6.2"), ("b", "10.0.6.2"), ("t", "10.0.1.1")] {
        let answers = || {
            run(
                &network.nodes[node],
                "ping",
                &format!("-c 1 -W 1 {address}"),
            )
            .is_ok()
        };
        eventually("the hosts reach each other", answers);
    }

    // C-B-A by request: the encapsulation exists when the command ends.
    let said = network.done(&REQUEST);
    assert!(
        said.contains("request-000001") && said.contains("c1 b1 a1"),
        "{said}"
    );
    let by_b = network.vectors()["request-000001"].clone();
    let before = network.passed("b");
    let whole = network.stream(|| {});
    assert!(
        network.passed("b") - before >= u64::from(whole.sent),
        "all of them went by b"
    );

    // The link fails at one end: the other end loses its carrier.
    let (d, began) = (network.passed("d"), Instant::now());
    let mut moved = Duration::MAX;
    let cut = network.stream(|| {
        network.ip("c", "link set c-b down");
        eventually_or(
            "the path goes by d",
            || network.log(),
            || {
                network
                    .vectors()
                    .get("request-000001")
                    .is_some_and(|vector| *vector != by_b)
            },
        );
        moved = began.elapsed() - Duration::from_millis(300);
    });
    println!(
        "c-b fails: {cut:?}, {} ms until the vector is another one",
        moved.as_millis()
    );
    assert!(
        cut.gap < Duration::from_secs(1) && moved < Duration::from_secs(1),
        "{cut:?}, {moved:?}"
    );
    assert!(network.passed("d") > d, "they go by FPF, not by IP");
    let listed = network.done(&["paths", "list"]);
    assert!(
        listed.contains("c1 d1 a1") && listed.contains("active"),
        "{listed}"
    );
    assert_eq!(network.link_state("c-b"), "failed");
    let dot = network.done(&["paths", "list", "--dot"]);
    let is_it = |line: &&str| line.contains("\"c1\" -- \"b1\" [taillabel");
    let drawn = dot.lines().find(is_it);
    assert!(
        drawn.is_some_and(|line| line.contains("style=dashed")),
        "{dot}"
    );

    // The link works again: the path comes back, and no packet is lost.
    let back = network.stream(|| {
        network.ip("c", "link set c-b up");
        eventually_or(
            "the path is back",
            || network.log(),
            || network.vectors().get("request-000001") == Some(&by_b),
        );
    });
    println!("c-b works again: {back:?}");
    assert!(back.gap < Duration::from_secs(1), "{back:?}");

    // The CE dies and starts again: packets take the path all the time.
    let b = network.passed("b");
    let restart = network.stream(|| {
        kill(ce.process.id(), "KILL");
        ce.ended();
        ce = network.start_ce("");
        eventually_or(
            "the network has begun",
            || network.log(),
            || network.done(&["paths", "list"]).contains("active"),
        );
    });
    println!("the CE starts again: {restart:?}");
    assert!(network.passed("b") - b >= u64::from(restart.sent) - restart.lost.unsigned_abs());

    // b dies, and packets go through d; b starts again with an empty configuration, and has its rules before the path
    // comes back.
    let fe = fes.get_mut("b").unwrap();
    let dead = network.stream(|| {
        kill(fe.child(), "KILL");
        kill(fe.process.id(), "KILL");
        eventually_or(
            "the path avoids b",
            || network.log(),
            || {
                network
                    .vectors()
                    .get("request-000001")
                    .is_some_and(|vector| *vector != by_b)
            },
        );
    });
    println!("b1 dies: {dead:?}");
    fe.ended();
    assert!(dead.gap < Duration::from_secs(1), "{dead:?}");
    fes.insert("b", network.start_fe("b"));
    eventually_or(
        "the path is back",
        || network.log(),
        || network.vectors().get("request-000001") == Some(&by_b),
    );
    assert_eq!(network.rules("b"), 2);

    network.done(&["paths", "release", "1"]);
    assert!(network.vectors().is_empty());
    network.refused(&["paths", "release", "1"], "there is no request 1");
}

#[test]
fn a_network_that_is_wrong_is_refused_with_its_line_and_changes_nothing() {
    let Some(network) = Network::new("path-mistakes") else {
        return;
    };
    let path = "[path.plain]\nfrom = \"c1\"\nto = \"a\"\ndestination = \"10.0.7.0/24\"\n";
    let ce = network.start_ce(path);
    let _fes: Vec<Router> = ELEMENTS
        .iter()
        .map(|(node, _)| network.start_fe(node))
        .collect();
    eventually_or(
        "the path of the file stands",
        || network.log(),
        || network.vectors().len() == 1,
    );
    let by_b = network.vectors();
    for (arguments, why) in [
        (
            &["--from", "c1", "--to", "q", "--destination", "10.0.6.0/24"][..],
            "to: there is no domain `q`",
        ),
        (
            &["--from", "c1", "--to", "a", "--destination", "10.0.7.0/24"],
            "the path `plain` of the file already has these packets",
        ),
        (
            &[
                "--from",
                "c1",
                "--through",
                "c a",
                "--destination",
                "10.0.6.0/24",
            ],
            "no working link leads from domain `c` to `a`",
        ),
        (
            &[
                "--from",
                "c1",
                "--to",
                "a",
                "--paths",
                "3",
                "--disjoint",
                "links",
                "--destination",
                "10.0.6.0/24",
            ],
            "2 of 3 paths",
        ),
    ] {
        network.refused(&[&["paths", "request"], arguments].concat(), why);
    }
    // A file with a mistake changes nothing; the log has the line.
    let file = network.folder.join("network.toml");
    let wrong = self::network(&format!("{path}protocol = \"udpp\"\n"));
    let line = wrong.lines().count();
    fs::write(&file, &wrong).unwrap();
    let config = network.folder.join("k.toml");
    network.refused(
        &["check", config.to_str().unwrap()],
        &format!("network.toml:{line}:1: "),
    );
    ce.signal("HUP");
    eventually_or(
        "the log has the line",
        || network.log(),
        || network.log().contains(&format!("network.toml:{line}:1: ")),
    );
    assert_eq!(network.vectors(), by_b);
    // Another path instead.
    fs::write(
        &file,
        self::network(
            &path
                .replace("plain", "other")
                .replace("\"a\"\n", "\"a\"\nthrough = \"c d a\"\n"),
        ),
    )
    .unwrap();
    ce.signal("HUP");
    eventually_or(
        "the other path stands, alone",
        || network.log(),
        || {
            let vectors = network.vectors();
            vectors.len() == 1
                && vectors
                    .get("other")
                    .is_some_and(|vector| *vector != by_b["plain"])
        },
    );
}

//! Figure 1 of the paper on real packets: routers in namespaces, each with a `weir router` of its own.
//!
//! ```text
//!                 +--- b ---+          FPF: s - c - b - a - t, chosen at c alone
//!  s --- c -------+         +--- a --- t
//!                 +--- d ---+          IP:  s - c - d - a - t
//! ```

mod cache;
mod classes;
mod forged;
mod processes;
mod segments;

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{self, Router, as_it_stands, eventually};
use weir_benches::testbed::run;
use weir_live::namespace::{Namespace, Spawner};
use weir_northbound::client;

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
const ROUTES: [(&str, &str); 10] = [
    ("s", "default via 10.0.1.2"),
    ("t", "default via 10.0.6.1"),
    ("c", "10.0.6.0/24 via 10.0.4.2"),
    ("c", "10.0.5.0/24 via 10.0.4.2"),
    ("d", "10.0.6.0/24 via 10.0.5.2"),
    ("d", "10.0.1.0/24 via 10.0.4.1"),
    ("a", "10.0.1.0/24 via 10.0.5.1"),
    ("a", "10.0.4.0/24 via 10.0.5.1"),
    ("b", "10.0.6.0/24 via 10.0.3.2"),
    ("b", "10.0.1.0/24 via 10.0.2.1"),
];

/// Packets of a test flow.
const PACKETS: u64 = 200;
/// The port whose packets take the path of FPF.
const VIDEO: u16 = 5000;

/// The MAC address of a node's interface to another node.
fn mac(node: &str, to: &str) -> String {
    let byte = |name: &str| name.as_bytes()[0];
    format!("02:00:00:00:{:02x}:{:02x}", byte(node), byte(to))
}

struct Network {
    nodes: BTreeMap<&'static str, Namespace>,
    routers: BTreeMap<&'static str, Router>,
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
        let nodes = ["s", "t", "a", "b", "c", "d"].map(|name| (name, Namespace::new().unwrap()));
        let network = Self {
            nodes: nodes.into(),
            routers: BTreeMap::new(),
            folder,
            spawner: Spawner::new().unwrap(),
        };
        for (first, second, net) in LINKS {
            let there = &network.nodes[second];
            let (near, far) = (mac(first, second), mac(second, first));
            network.ip(
                first,
                &format!(
                    "link add {first}-{second} address {near} type veth \
                     peer name {second}-{first} address {far} netns {}",
                    there.path()
                ),
            );
            for (node, other, host) in [(first, second, 1), (second, first, 2)] {
                network.ip(node, &format!("link set {node}-{other} up"));
                network.ip(
                    node,
                    &format!("addr add 10.0.{net}.{host}/24 dev {node}-{other}"),
                );
            }
        }
        for (node, route) in ROUTES {
            network.ip(node, &format!("route add {route}"));
        }
        for node in ["a", "b", "c", "d"] {
            let on = || fs::write("/proc/sys/net/ipv4/ip_forward", "1");
            network.nodes[node].enter(on).unwrap().unwrap();
        }
        Some(network)
    }

    fn ip(&self, node: &str, arguments: &str) {
        run(&self.nodes[node], "ip", arguments).unwrap();
    }

    fn socket(&self, node: &str) -> PathBuf {
        self.folder.join(format!("{node}.sock"))
    }

    /// Starts a router with its ports and this configuration of FPF. Each port has an interface with the port's name,
    /// unless the configuration has one.
    fn start(&mut self, node: &'static str, fpf: &str) {
        let neighbours = LINKS.iter().filter_map(|(first, second, _)| match node {
            n if n == *first => Some(*second),
            n if n == *second => Some(*first),
            _ => None,
        });
        let mut text = format!("socket = \"{}\"\n", self.socket(node).display());
        for other in neighbours {
            text += &format!(
                "[port.{other}]\ninterface = \"{node}-{other}\"\ndiscipline = {{ kind = \"fifo\" }}\n"
            );
            let interface = format!("[fpf.interface.{other}]\n");
            if !fpf.contains(&interface) {
                text += &format!("{interface}port = \"{other}\"\n");
            }
        }
        let config = self.folder.join(format!("{node}.toml"));
        let log = self.folder.join(format!("{node}.log"));
        fs::write(&config, text + fpf).unwrap();
        let mut command = Command::new(common::weir());
        command
            .arg("router")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap());
        let process = self.spawner.spawn(&self.nodes[node], command).unwrap();
        let mut router = Router { process, log };
        eventually("the router answers", || {
            let ended = router.process.try_wait().unwrap();
            assert!(ended.is_none(), "{}", router.log());
            client::get::<serde_json::Value>(&self.socket(node), "/v1/status").is_ok()
        });
        self.routers.insert(node, router);
    }

    fn weir(&self, node: &str, arguments: &[&str]) -> String {
        let (success, text) = self.run_weir(node, arguments);
        assert!(success, "weir {arguments:?}: {text}");
        text
    }

    /// The error of a command that fails.
    fn refused(&self, node: &str, arguments: &[&str]) -> String {
        let (success, text) = self.run_weir(node, arguments);
        assert!(!success, "weir {arguments:?}: {text}");
        text
    }

    fn run_weir(&self, node: &str, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(common::weir());
        command
            .env("WEIR_SOCKET", self.socket(node))
            .args(arguments);
        let output = self.nodes[node]
            .enter(|| command.output())
            .unwrap()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        (output.status.success(), text)
    }

    fn counter(&self, node: &str, name: &str) -> u64 {
        let fpf: serde_json::Value = client::get(&self.socket(node), "/v1/fpf").unwrap();
        fpf[name]["packets"].as_u64().unwrap()
    }

    /// Total number of packets that a router has sent through its port to another router.
    fn sent(&self, node: &str, to: &str) -> u64 {
        let ports: serde_json::Value = client::get(&self.socket(node), "/v1/ports").unwrap();
        let port = ports
            .as_array()
            .unwrap()
            .iter()
            .find(|port| port["port"] == to);
        port.unwrap()["sent"]["packets"].as_u64().unwrap()
    }

    /// Binds a socket. A child of another test that has not started its program yet may still hold a copy of the last
    /// socket there.
    fn socket_at(&self, node: &str, address: (&str, u16)) -> UdpSocket {
        let mut socket = None;
        eventually(&format!("{address:?} is free"), || {
            match self.nodes[node].enter(|| UdpSocket::bind(address)).unwrap() {
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                bound => socket = Some(bound.unwrap()),
            }
            socket.is_some()
        });
        socket.unwrap()
    }

    /// Sends packets from s to a port of t, one after the other, and returns the packets that arrived, in order.
    fn flow(&self, port: u16, bytes: usize) -> Vec<Vec<u8>> {
        let receiver = self.socket_at("t", ("10.0.6.2", port));
        receiver
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let sender = self.socket_at("s", ("10.0.1.1", 4000));
        sender.connect(("10.0.6.2", port)).unwrap();
        let mut came = Vec::new();
        let mut buffer = vec![0; 65_536];
        for number in 0..PACKETS {
            let payload = payload(number, bytes);
            sender.send(&payload).unwrap();
            if let Ok(len) = receiver.recv(&mut buffer) {
                came.push(buffer[..len].to_vec());
            }
        }
        came
    }

    /// Sends packets from s to a port of t as fast as it can, and returns the arrival times.
    fn burst(&self, port: u16, bytes: usize) -> Vec<Instant> {
        let receiver = self.socket_at("t", ("10.0.6.2", port));
        receiver
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let sender = self.nodes["s"]
            .enter(|| UdpSocket::bind("10.0.1.1:0"))
            .unwrap()
            .unwrap();
        let send = || {
            for number in 0..PACKETS {
                let payload = payload(number, bytes);
                sender.send_to(&payload, ("10.0.6.2", port)).unwrap();
            }
        };
        thread::scope(|scope| {
            scope.spawn(send);
            let mut buffer = vec![0; 65_536];
            let mut came: Vec<Instant> = Vec::new();
            while receiver.recv(&mut buffer).is_ok() {
                came.push(Instant::now());
            }
            came
        })
    }

    /// A counter of the encapsulation at c.
    fn of_video(&self, name: &str) -> u64 {
        let all: serde_json::Value =
            client::get(&self.socket("c"), "/v1/fpf_encapsulations").unwrap();
        all[0][name]["packets"].as_u64().unwrap()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.routers.clear();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn payload(number: u64, bytes: usize) -> Vec<u8> {
    let mut payload = vec![number as u8; bytes];
    payload[..8].copy_from_slice(&number.to_be_bytes());
    payload
}

fn whole(came: &[Vec<u8>], bytes: usize) {
    let expected: Vec<_> = (0..PACKETS).map(|number| payload(number, bytes)).collect();
    assert_eq!(came.len(), expected.len(), "packets that came");
    assert!(came == expected, "in order, byte for byte");
}

/// The IP address of a node on its link to another node.
fn address(node: &str, to: &str) -> String {
    let own = |(first, second, net): &(&str, &str, u8)| match () {
        () if (*first, *second) == (node, to) => Some(format!("10.0.{net}.1")),
        () if (*first, *second) == (to, node) => Some(format!("10.0.{net}.2")),
        () => None,
    };
    LINKS.iter().find_map(own).unwrap()
}

/// The rule of a router: its LID for the next router leads there, and on into the next domain.
fn rule(node: &str, to: &str) -> String {
    rule_by(&address(to, node), to)
}

fn rule_by(neighbour: &str, to: &str) -> String {
    format!(
        "[fpf.rule.to-{to}]\nlid = \"0{to}\"\noutput = \"{to}\"\nneighbour = \"{neighbour}\"\nleaves_domain = true\n"
    )
}

/// The paper's example: rules at b, c and d for their neighbours, and an encapsulation at c.
fn figure_1(name: &str) -> Option<Network> {
    figure_1_with(name, &[rule("c", "b"), rule("c", "d"), video()].concat())
}

/// The packets of the flow that takes the path of FPF.
fn video() -> String {
    format!(
        "[fpf.encapsulation.video]\ndestination = \"10.0.6.0/24\"\nprotocol = \"udp\"\n\
         destination_ports = \"{VIDEO}\"\nvectors = \"0b0a\"\n"
    )
}
/// The network of Figure 1 with this configuration at c.
fn figure_1_with(name: &str, at_c: &str) -> Option<Network> {
    let mut network = Network::new(name)?;
    network.start("a", "");
    network.start("b", &rule("b", "a"));
    network.start("d", &rule_by(&mac("a", "d"), "a"));
    network.start("c", at_c);
    // So that no first packet waits for neighbour resolution on the path.
    let answers = || run(&network.nodes["s"], "ping", "-c 1 -W 1 10.0.6.2").is_ok();
    eventually("the hosts reach each other", answers);
    let answers = || run(&network.nodes["b"], "ping", "-c 1 -W 1 10.0.6.2").is_ok();
    eventually("b reaches t", answers);
    Some(network)
}

#[test]
fn a_vector_sets_a_path_other_than_that_of_ip_and_the_edge_changes_it() {
    let Some(network) = figure_1("figure-1") else {
        return;
    };
    let before = (network.sent("b", "a"), network.sent("d", "a"));
    whole(&network.flow(VIDEO, 1000), 1000);
    let video = (network.sent("b", "a"), network.sent("d", "a"));
    assert_eq!(
        (video.0 - before.0, video.1 - before.1),
        (PACKETS, 0),
        "C-B-A"
    );
    assert_eq!(network.counter("c", "encapsulated"), PACKETS);
    assert_eq!(network.counter("b", "forwarded"), PACKETS);
    assert_eq!(network.counter("a", "decapsulated"), PACKETS);

    whole(&network.flow(VIDEO + 1, 1000), 1000);
    let plain = (network.sent("b", "a"), network.sent("d", "a"));
    assert_eq!(
        (plain.0 - video.0, plain.1 - video.1),
        (0, PACKETS),
        "C-D-A"
    );

    // The path is changed only at the edge, while packets flow.
    let flow = thread::scope(|scope| {
        let flow = scope.spawn(|| network.flow(VIDEO, 1000));
        network.weir("c", &["set", "fpf.encapsulation.video.vectors=0d0a"]);
        flow.join().unwrap()
    });
    whole(&flow, 1000);
    whole(&network.flow(VIDEO, 1000), 1000);
    let after = (
        network.sent("b", "a") - plain.0,
        network.sent("d", "a") - plain.1,
    );
    assert_eq!(after.0 + after.1, 2 * PACKETS);
    assert!(after.1 >= PACKETS, "{after:?}");

    let shown = network.weir("c", &["show", "fpf_encapsulations"]);
    let line = shown.lines().find(|line| line.starts_with("video"));
    let packets = line.and_then(|line| line.split_whitespace().nth(1));
    assert_eq!(packets, Some("600"), "{shown}");
}

#[test]
fn weights_share_packets_over_paths_and_leaves_get_a_copy_each() {
    let Some(network) = figure_1("multipath") else {
        return;
    };
    network.weir(
        "c",
        &[
            "set",
            "fpf.encapsulation.video.vectors=0b0a:3 0d0a:1",
            "fpf.encapsulation.video.spread=packet",
        ],
    );
    let before = (network.sent("b", "a"), network.sent("d", "a"));
    whole(&network.flow(VIDEO, 100), 100);
    let shares = (
        network.sent("b", "a") - before.0,
        network.sent("d", "a") - before.1,
    );
    assert_eq!(shares, (PACKETS * 3 / 4, PACKETS / 4));

    network.weir("c", &["set", "fpf.encapsulation.video.spread=copies"]);
    let before = (network.sent("b", "a"), network.sent("d", "a"));
    network.flow(VIDEO, 100);
    eventually("every leaf has its copy", || {
        let leaves = (
            network.sent("b", "a") - before.0,
            network.sent("d", "a") - before.1,
        );
        leaves == (PACKETS, PACKETS)
    });
}

#[test]
fn a_shaped_path_sends_at_its_rate_and_counts_what_its_queue_does_not_hold() {
    let Some(network) = figure_1("shape") else {
        return;
    };
    // 1042 B per packet: 480 packets per second. All of them may wait, and the last one leaves 415 ms after the first.
    const RATE: f64 = 4e6;
    let [frame, last] = [1042.0, PACKETS as f64 - 1.0];
    let shape = |limit| {
        let limit = format!("fpf.encapsulation.video.shape_limit={limit}");
        let rate = "fpf.encapsulation.video.shape=4 Mbit";
        network.weir("c", &["set", rate, &limit]);
    };
    shape(PACKETS);
    let came = network.burst(VIDEO, 1000);
    assert_eq!(came.len() as u64, PACKETS);
    let seconds = (came[came.len() - 1] - came[0]).as_secs_f64();
    let expected = last * frame * 8.0 / RATE;
    assert!(
        (expected * 0.95..expected * 1.5).contains(&seconds),
        "{seconds} of {expected}"
    );

    // Only 20 may wait: the rest is dropped, and every packet is counted in one column.
    shape(20);
    let sent = network.of_video("count");
    let came = network.burst(VIDEO, 1000).len() as u64;
    let [passed, lost, waiting] = [
        network.of_video("count") - sent,
        network.of_video("overflowed"),
        network.of_video("waiting"),
    ];
    assert_eq!((passed, passed + lost, waiting), (came, PACKETS, 0));
    assert!((21..PACKETS).contains(&passed), "{passed}");
    let drops = network.weir("c", &["show", "drops"]);
    assert!(drops.contains("fpf-queue-full"), "{drops}");
}

/// Two LIDs of c lead to b, through two queues of the port.
#[test]
fn a_rule_names_a_queue_of_its_port_and_the_queues_share_the_link_by_weight() {
    let slow = format!(
        "[fpf.rule.slow]\nlid = \"1b\"\noutput = \"b\"\nneighbour = \"{}\"\nleaves_domain = true\n\
         [fpf.encapsulation.slow]\ndestination = \"10.0.6.0/24\"\nprotocol = \"udp\"\n\
         destination_ports = \"6000\"\nvectors = \"1b0a\"\n",
        address("b", "c")
    );
    let Some(network) = figure_1_with(
        "queues",
        &[rule("c", "b"), rule("c", "d"), video(), slow].concat(),
    ) else {
        return;
    };
    network.weir(
        "c",
        &[
            "set",
            "port.b.rate=16 Mbit",
            "port.b.discipline.kind=class_weights",
            "port.b.discipline.classes=queue 1 = 3, queue 2 = 1, rest = 1",
            "fpf.rule.to-b.queue=1",
            "fpf.rule.slow.queue=2",
        ],
    );
    let network = &network;
    // Both send all their packets at once. When the fast flow has passed, a third as many packets of the slow one have.
    let [fast, slow] = thread::scope(|scope| {
        let flows = [VIDEO, 6000].map(|port| scope.spawn(move || network.burst(port, 1000)));
        flows.map(|flow| flow.join().unwrap())
    });
    assert_eq!([fast.len(), slow.len()], [PACKETS as usize; 2]);
    let last = fast.last().unwrap();
    let meanwhile = slow.iter().filter(|at| *at < last).count() as f64;
    let share = meanwhile / PACKETS as f64;
    assert!((0.2..0.5).contains(&share), "{share}");
}

#[test]
fn a_neighbour_by_its_ip_address_is_resolved_and_followed_to_another_mac_address() {
    let Some(network) = figure_1("neighbour") else {
        return;
    };
    let knows = |mac: &str| {
        let path = "/v1/neighbours";
        let neighbours: serde_json::Value = client::get(&network.socket("c"), path).unwrap();
        neighbours.to_string().contains(mac)
    };
    // b's address is not resolved yet: the first packets wait for it.
    network.ip("c", "neighbour flush dev c-b");
    eventually("c has heard that b's entry is gone", || {
        !knows(&mac("b", "c"))
    });
    whole(&network.flow(VIDEO, 1000), 1000);
    assert_eq!(network.counter("b", "forwarded"), PACKETS);
    let shown = run(&network.nodes["c"], "ip", "neighbour show dev c-b").unwrap();
    assert!(shown.contains(&mac("b", "c")), "{shown}");

    let other = "02:00:00:00:0b:99";
    let announce = || fs::write("/proc/sys/net/ipv4/conf/all/arp_notify", "1");
    network.nodes["b"].enter(announce).unwrap().unwrap();
    network.ip("b", &format!("link set b-c address {other}"));
    eventually("c follows b to another MAC address", || knows(other));
    whole(&network.flow(VIDEO, 1000), 1000);

    // A neighbour that does not answer: the packets are dropped with the reason that IP gives.
    network.ip("b", "link set b-c down");
    network.ip("c", "neighbour flush dev c-b");
    let send = || UdpSocket::bind("10.0.1.1:4000")?.send_to(&[7; 100], ("10.0.6.2", VIDEO));
    eventually("they are dropped", || {
        network.nodes["s"].enter(send).unwrap().unwrap();
        let drops = network.weir("c", &["show", "drops"]);
        drops.contains("neighbour-failed")
    });
}

#[test]
fn coding_over_two_paths_repairs_what_one_of_them_loses() {
    let Some(mut network) = Network::new("coding") else {
        return;
    };
    let section = |name: &str, lid: &str, action: &str, leaves: &str| {
        format!(
            "[fpf.rule.{name}]\nlid = \"{lid}\"\naction = \"{action}\"\nleaves = \"{leaves}\"\n"
        )
    };
    // The first packet of each pair and the parity go through b, the second through d, which has no rule for it.
    let encode = section("encode", "e0", "xor-encode", "0b0adc 0d0adc 0b0adc");
    let decode = section("decode", "dc", "xor-decode", "ff");
    let video = format!(
        "[fpf.encapsulation.video]\ndestination = \"10.0.6.0/24\"\nprotocol = \"udp\"\n\
         destination_ports = \"{VIDEO}\"\nvectors = \"e0\"\n"
    );
    let end = "[fpf.rule.end]\nlid = \"ff\"\naction = \"decapsulate\"\n";
    network.start("a", &[&decode, end].concat());
    network.start("b", &rule("b", "a"));
    network.start("d", "");
    network.start(
        "c",
        &[rule("c", "b"), rule("c", "d"), encode, video].concat(),
    );
    let answers = || run(&network.nodes["s"], "ping", "-c 1 -W 1 10.0.6.2").is_ok();
    eventually("the hosts reach each other", answers);
    for (node, to) in [("c", "b"), ("b", "a")] {
        let far = address(to, node);
        let answers = || run(&network.nodes[node], "ping", &format!("-c 1 -W 1 {far}")).is_ok();
        eventually("the neighbour is known", answers);
    }
    whole(&network.flow(VIDEO, 1000), 1000);
    let fpf: serde_json::Value = client::get(&network.socket("a"), "/v1/fpf").unwrap();
    assert_eq!(fpf["repaired"], PACKETS / 2, "{fpf}");
    let drops = network.weir("d", &["show", "drops"]);
    assert!(drops.contains("fpf-unknown-lid"), "{drops}");
    // The longest packet: 28 bytes of IP and UDP, 5 of FPF, and 8 of the code. A byte more gets an answer.
    whole(&network.flow(VIDEO, 1500 - 28 - 5 - 8), 1500 - 28 - 5 - 8);
    let socket = network.nodes["s"].enter(|| UdpSocket::bind("10.0.1.1:0"));
    let socket = socket.unwrap().unwrap();
    socket.connect(("10.0.6.2", VIDEO)).unwrap();
    eventually("the sender hears that it is too long", || {
        socket.send(&[7; 1500 - 28 - 5 - 8 + 1]).is_err()
    });
}

/// The figure with other links on C-B-A: a VLAN from c to b, and from b to a a GRE tunnel between these addresses.
fn vlan_and_tunnel(name: &str, ends: [&str; 2]) -> Option<Network> {
    let mut network = Network::new(name)?;
    for (node, other, end) in [("b", "a", ends[0]), ("a", "b", ends[1])] {
        if end.contains(':') {
            network.ip(node, &format!("addr add {end}/64 dev {node}-{other} nodad"));
        }
        // The header, GRE and the longest outer header: a packet of the link before fits in here.
        network.ip(node, &format!("link set {node}-{other} mtu 1544"));
    }
    let vlan = |other: &str| format!("[fpf.interface.{other}]\nport = \"{other}\"\nvlan = 7\n");
    let tunnel = |other: &str, local: &str, remote: &str| {
        format!("[fpf.interface.{other}]\nlocal = \"{local}\"\nremote = \"{remote}\"\n")
    };
    let to_a = "[fpf.rule.a]\nlid = \"0a\"\noutput = \"a\"\nleaves_domain = true\n";
    let all = "[fpf.encapsulation.all]\ndestination = \"10.0.6.0/24\"\nvectors = \"0b0a\"\n";
    network.start("a", &tunnel("b", ends[1], ends[0]));
    let at_b = [vlan("c"), tunnel("a", ends[0], ends[1]), to_a.to_owned()];
    network.start("b", &at_b.concat());
    network.start("d", "");
    let at_c = [vlan("b"), rule_by(&mac("b", "c"), "b"), all.to_owned()];
    network.start("c", &at_c.concat());
    let answers = || run(&network.nodes["s"], "ping", "-c 1 -W 1 10.0.6.2").is_ok();
    eventually("the hosts reach each other", answers);
    Some(network)
}

/// Bytes that TCP carries from s to t; both have their offloads, as veth has.
fn tcp(network: &Network) -> usize {
    const BYTES: usize = 5_000_000;
    let listener = network.nodes["t"].enter(|| TcpListener::bind("10.0.6.2:0"));
    let listener = listener.unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let sent: Vec<u8> = (0..BYTES).map(|n| (n / 7) as u8).collect();
    thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut came = Vec::new();
            stream
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            stream.read_to_end(&mut came).unwrap();
            came
        });
        let stream = network.nodes["s"].enter(|| TcpStream::connect(to));
        let mut stream = stream.unwrap().unwrap();
        stream.write_all(&sent).unwrap();
        drop(stream);
        let came = receiving.join().unwrap();
        assert!(came == sent, "{} bytes, byte for byte", came.len());
        came.len()
    })
}

#[test]
fn vlans_and_gre_tunnels_carry_packets_of_hosts_with_offloads_up_to_the_mtu() {
    for (name, ends, outer) in [
        ("gre-v4", ["10.0.3.1", "10.0.3.2"], 20 + 4),
        ("gre-v6", ["fd77:3::1", "fd77:3::2"], 40 + 4),
    ] {
        let Some(network) = vlan_and_tunnel(name, ends) else {
            return;
        };
        assert_eq!(tcp(&network), 5_000_000);
        for node in ["a", "b", "c"] {
            let drops = network.weir(node, &["show", "drops"]);
            for reason in ["truncated-frame", "bad-offload", "fpf-"] {
                assert!(!drops.contains(reason), "{node}: {drops}");
            }
        }
        let packets = network.counter("c", "encapsulated");
        assert!(packets > 3000, "{packets}");
        assert_eq!(network.counter("b", "forwarded"), packets);
        assert_eq!(network.counter("a", "decapsulated"), packets);

        // 1496 bytes and the header are 1500. A byte more gets an answer.
        let ping = |bytes: u32| {
            let data = bytes - 28;
            run(
                &network.nodes["s"],
                "ping",
                &format!("-M do -c 1 -W 1 -s {data} 10.0.6.2"),
            )
        };
        assert!(ping(1496).is_ok());
        let answer = ping(1497).unwrap_err().to_string();
        assert!(
            answer.contains("1496") || answer.contains("too long"),
            "{answer}"
        );
        // The tunnel's link carries exactly such a packet, and is one byte too short for it then.
        network.ip("b", &format!("link set b-a mtu {}", 1500 + outer));
        eventually("b follows its link", || ping(1496).is_ok());
        network.ip("b", &format!("link set b-a mtu {}", 1499 + outer));
        eventually("b refuses what its link does not carry", || {
            let passed = ping(1496).is_ok();
            let drops = network.weir("b", &["show", "drops"]);
            !passed && drops.contains("too-big")
        });
        assert!(ping(1495).is_ok());
    }
}

#[test]
fn the_tutorial_does_what_it_says() {
    let Some(said) = as_it_stands("docs/fpf-tutorial.md") else {
        return;
    };
    // The vectors through b and through d; the packets that c has encapsulated; the packets that b and then d have
    // forwarded.
    for line in [
        "video  0000       2  c b a",
        "c to a  0101       2  c d a",
        "video       20  ",
    ] {
        assert!(said.contains(line), "{line}");
    }
    let forwarded = said.lines().filter(|line| *line == "forwarded       20");
    assert_eq!(forwarded.count(), 2);
}

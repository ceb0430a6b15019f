//! Packets of processes on c, an element of Figure 1, that the kernel routes into a port of kind "tun".
//!
//! ```text
//!  process --> route --> weir0 --> [encapsulation] --> b --> a --> t
//!     ^                                                           |
//!     +------------------- kernel <--- c-d <--- d <--- a <--------+
//! ```

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use weir_benches::testbed::run;

use super::{Network, PACKETS, VIDEO, figure_1_with, payload, rule, video};
use crate::common::eventually;

/// A port for the packets of processes.
const LOCAL: &str = "[port.local]\nkind = \"tun\"\ninterface = \"weir0\"\n";
/// An address of c, which others reach through d.
const C: &str = "10.0.1.2";

fn all() -> String {
    "[fpf.encapsulation.all]\ndestination = \"10.0.6.0/24\"\nvectors = \"0b0a\"\n".to_owned()
}

/// Figure 1 with this encapsulation at c, where packets of processes to t's network go into the router. Without it they
/// go through d.
fn network(name: &str, encapsulation: String) -> Option<Network> {
    let at_c = [
        rule("c", "b"),
        rule("c", "d"),
        encapsulation,
        LOCAL.to_owned(),
    ];
    let network = figure_1_with(name, &at_c.concat())?;
    network.ip("c", "route del 10.0.6.0/24");
    network.ip("c", "route add 10.0.6.0/24 via 10.0.4.2 metric 100");
    Some(network)
}

impl Network {
    /// Makes the kernel of c route packets to t's network into the router.
    fn enter_paths(&self) {
        self.ip("c", &format!("route add 10.0.6.0/24 dev weir0 src {C}"));
        eventually("the router knows the route", || {
            self.weir("c", &["show", "routes"]).contains("weir0")
        });
    }

    /// Whether a process on c gets answers from an address.
    fn ping_from_c(&self, arguments: &str) -> Result<String, String> {
        let arguments = format!("-c 1 -W 1 -I {C} {arguments}");
        run(&self.nodes["c"], "ping", &arguments).map_err(|error| error.to_string())
    }

    /// Sends packets from a process on c to a process on t, which sends each back. Returns how many came back whole.
    fn echoes(&self, bytes: usize) -> u64 {
        let bind = |node, address| {
            let socket = self.nodes[node].enter(|| UdpSocket::bind((address, VIDEO)));
            let socket = socket.unwrap().unwrap();
            let patience = Some(Duration::from_millis(500));
            socket.set_read_timeout(patience).unwrap();
            socket
        };
        let (process, other) = (bind("c", C), bind("t", "10.0.6.2"));
        let (mut there, mut back) = (vec![0; 65_536], vec![0; 65_536]);
        let comes_back = |number: &u64| {
            let sent = payload(*number, bytes);
            process.send_to(&sent, ("10.0.6.2", VIDEO)).unwrap();
            let Ok((len, from)) = other.recv_from(&mut there) else {
                return false;
            };
            other.send_to(&there[..len], from).unwrap();
            process
                .recv(&mut back)
                .is_ok_and(|len| back[..len] == sent[..])
        };
        (0..PACKETS).filter(comes_back).count() as u64
    }
}

#[test]
fn packets_of_processes_take_the_path_and_answers_return_until_the_router_dies() {
    let Some(mut network) = network("processes", all()) else {
        return;
    };
    // The kernel alone: through d.
    let ways = |network: &Network| (network.sent("b", "a"), network.sent("d", "a"));
    let before = ways(&network);
    assert_eq!(network.echoes(1000), PACKETS);
    let plain = ways(&network);
    assert_eq!((plain.0 - before.0, plain.1 - before.1), (0, PACKETS));
    // Hops: d and a.
    assert!(network.ping_from_c("-t 3 10.0.6.2").is_ok());
    assert!(network.ping_from_c("-t 2 10.0.6.2").is_err());

    network.enter_paths();
    let before = (ways(&network), network.counter("c", "encapsulated"));
    assert_eq!(network.echoes(1000), PACKETS);
    let video = ways(&network);
    let by = (video.0 - before.0.0, video.1 - before.0.1);
    assert_eq!(by, (PACKETS, 0));
    assert_eq!(network.counter("c", "encapsulated") - before.1, PACKETS);
    // The end of the path counts as one hop, and c as none.
    assert!(network.ping_from_c("-t 2 10.0.6.2").is_ok());
    assert!(network.ping_from_c("-t 1 10.0.6.2").is_err());

    // The route to the source of answers leads into the router: they pass a loose check, not a strict one.
    for (rp_filter, passes) in [("1", false), ("2", true)] {
        let set = || fs::write("/proc/sys/net/ipv4/conf/c-d/rp_filter", rp_filter);
        network.nodes["c"].enter(set).unwrap().unwrap();
        assert_eq!(
            network.ping_from_c("10.0.6.2").is_ok(),
            passes,
            "{rp_filter}"
        );
    }

    // Without the router the kernel's path applies again.
    network.routers.remove("c");
    let routes = run(&network.nodes["c"], "ip", "route show 10.0.6.0/24").unwrap();
    assert!(!routes.contains("weir0"), "{routes}");
    let before = network.sent("d", "a");
    assert_eq!(network.echoes(1000), PACKETS);
    assert_eq!(network.sent("d", "a") - before, PACKETS);
}

#[test]
fn processes_hear_how_long_packets_of_their_path_may_be() {
    let Some(network) = network("processes-mtu", all()) else {
        return;
    };
    network.enter_paths();
    const BYTES: usize = 5_000_000;
    let sent: Vec<u8> = (0..BYTES).map(|n| (n / 7) as u8).collect();
    let listener = network.nodes["t"].enter(|| TcpListener::bind("10.0.6.2:0"));
    let listener = listener.unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let came = thread::scope(|scope| {
        // Both directions: t sends every packet back.
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut copy = stream.try_clone().unwrap();
            std::io::copy(&mut stream, &mut copy).unwrap();
        });
        let stream = network.nodes["c"].enter(|| TcpStream::connect(to));
        let mut stream = stream.unwrap().unwrap();
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).unwrap();
        let mut writing = stream.try_clone().unwrap();
        let sent = &sent;
        scope.spawn(move || {
            writing.write_all(sent).unwrap();
            writing.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        came
    });
    assert!(came == sent, "{} bytes, byte for byte", came.len());
    let packets = network.counter("c", "encapsulated");
    assert!(packets > 3000, "{packets}");

    // 1496 bytes and the header are 1500. A byte more gets an answer, from the process' own kernel then.
    let known = run(&network.nodes["c"], "ip", "route get 10.0.6.2").unwrap();
    assert!(known.contains("mtu 1496"), "{known}");
    assert!(network.ping_from_c("-M do -s 1468 10.0.6.2").is_ok());
    let answer = network.ping_from_c("-M do -s 1469 10.0.6.2").unwrap_err();
    assert!(answer.contains("mtu=1496"), "{answer}");
    // The kernel fragments longer UDP packets.
    assert_eq!(network.echoes(4000), PACKETS);
}

#[test]
fn what_no_encapsulation_matches_is_not_sent_round() {
    let Some(network) = network("processes-others", video()) else {
        return;
    };
    network.enter_paths();
    assert_eq!(network.echoes(1000), PACKETS);
    let answer = network.ping_from_c("10.0.6.2").unwrap_err();
    assert!(answer.contains("Net Unreachable"), "{answer}");
    let transit = run(&network.nodes["s"], "ping", "-c 1 -W 10 10.0.6.2");
    let answer = transit.unwrap_err().to_string();
    assert!(answer.contains("Net Unreachable"), "{answer}");
    let drops = network.weir("c", &["show", "drops"]);
    assert!(drops.contains("no-route"), "{drops}");
    assert_eq!(network.sent("c", "local"), 1, "the answer alone");
}

#[test]
fn with_a_table_of_their_own_other_packets_follow_the_main_one() {
    let Some(network) = network("processes-table", video()) else {
        return;
    };
    network.ip(
        "c",
        &format!("route add 10.0.6.0/24 dev weir0 src {C} table 100"),
    );
    network.ip("c", "rule add iif lo to 10.0.6.0/24 lookup 100");
    let before = (network.counter("c", "encapsulated"), network.sent("c", "d"));
    assert_eq!(network.echoes(1000), PACKETS);
    assert_eq!(network.counter("c", "encapsulated") - before.0, PACKETS);
    // Through d, and sent by the router: as many hops as by the kernel.
    assert!(network.ping_from_c("-t 3 10.0.6.2").is_ok());
    assert!(network.ping_from_c("-t 2 10.0.6.2").is_err());
    assert_eq!(network.sent("c", "d") - before.1, 2);
    assert!(run(&network.nodes["s"], "ping", "-c 1 -W 10 10.0.6.2").is_ok());
}

#[test]
fn a_path_that_ends_at_the_router_leads_to_its_processes() {
    let Some(mut network) = network("processes-end", all()) else {
        return;
    };
    network.enter_paths();
    // At a, which has no port for them, they are dropped.
    assert!(network.ping_from_c("10.0.6.1").is_err());
    let drops = network.weir("a", &["show", "drops"]);
    assert!(drops.contains("not-a-port"), "{drops}");

    network.routers.remove("a");
    network.start("a", LOCAL);
    eventually("t is known again", || {
        network.ping_from_c("10.0.6.2").is_ok()
    });
    let before = network.sent("a", "local");
    assert!(network.ping_from_c("10.0.6.1").is_ok());
    assert_eq!(network.sent("a", "local") - before, 1);
}

#[test]
fn in_ipv6_processes_hear_how_long_packets_may_be_too() {
    let v6 = "[fpf.encapsulation.v6]\ndestination = \"fd77:6::/64\"\nvectors = \"0b0a\"\n";
    let Some(network) = network("processes-v6", v6.to_owned()) else {
        return;
    };
    network.ip("c", "addr add fd77:1::2/64 dev c-s nodad");
    network.ip("c", "route add fd77:6::/64 dev weir0 src fd77:1::2");
    let sends = |bytes: u32| {
        let ping = format!("-6 -M do -c 1 -W 1 -s {} fd77:6::2", bytes - 48);
        let answer = run(&network.nodes["c"], "ping", &ping).unwrap_err(); // nobody sends a reply
        answer.to_string()
    };
    let before = || network.counter("c", "encapsulated");
    eventually("packets get a header", || {
        let first = before();
        sends(1496);
        before() > first
    });
    eventually("a byte more is answered", || sends(1497).contains("1496"));
}

#[test]
fn the_interface_is_the_routers_own_and_comes_back() {
    let Some(network) = network("processes-interface", all()) else {
        return;
    };
    network.enter_paths();
    assert!(network.ping_from_c("10.0.6.2").is_ok());
    // Down and up: the kernel has lost its route.
    network.ip("c", "link set weir0 down");
    network.ip("c", "link set weir0 up");
    network.enter_paths();
    assert!(network.ping_from_c("10.0.6.2").is_ok());
    // The interface was deleted: the router recreates it.
    network.ip("c", "link del weir0");
    let exists = || run(&network.nodes["c"], "ip", "link show weir0").is_ok();
    eventually("the interface is back", exists);
    network.enter_paths();
    eventually("packets of processes are taken again", || {
        network.ping_from_c("10.0.6.2").is_ok()
    });
    // Ports of this kind come and go while the router runs; their names must be free.
    let file = network.folder.join("c.toml");
    let before = fs::read_to_string(&file).unwrap();
    let apply = |interface: &str| {
        let other = LOCAL.replace("local", "other").replace("weir0", interface);
        fs::write(&file, before.clone() + &other).unwrap();
        ["apply", file.to_str().unwrap()]
    };
    let shown = || run(&network.nodes["c"], "ip", "link show weir1");
    network.weir("c", &apply("weir1"));
    assert!(shown().is_ok());
    network.weir("c", &["check", file.to_str().unwrap()]); // also while the router runs with it
    network.ip("c", "link add taken type veth peer name other");
    let refused = network.refused("c", &apply("taken"));
    assert!(refused.contains("choose another name"), "{refused}");
    let foreign = "tuntap add mode tun name foreign";
    network.ip("c", foreign);
    let refused = network.refused("c", &apply("foreign"));
    assert!(
        refused.contains("interface `foreign` already exists"),
        "{refused}"
    );
    network.weir("c", &apply("weir2"));
    eventually("the interface goes with its port", || shown().is_err());
}

//! Forged packets at the router a: GRE for its tunnel from another port, and packets for a itself from a path.
//!
//! ```text
//!   b ---- [b: core]  a  [t: customers] ---- t         t forges b, the other end of a's tunnel
//! ```
//!
//! For each packet from a path, the test also sends the same packet without a header, which the kernel gets and checks.

use etherparse::{IpNumber, PacketBuilder};
use weir_benches::testbed::Testbed;
use weir_live::device::Device;
use weir_live::device::af_packet::AfPacket;

use super::*;

/// The port of a server on a.
const SERVER: u16 = 9000;
/// The path ends here: the vector is empty.
const END: [u8; 2] = [0, 0];

fn frame(to: &str, from: &str, ethertype: u16, bytes: &[&[u8]]) -> Vec<u8> {
    let mac = |text: String| -> Vec<u8> {
        let bytes = text.split(':');
        bytes.map(|b| u8::from_str_radix(b, 16).unwrap()).collect()
    };
    let [destination, source] = [mac(mac_of(to, from)), mac(mac_of(from, to))];
    [
        &destination[..],
        &source,
        &ethertype.to_be_bytes(),
        &bytes.concat(),
    ]
    .concat()
}

/// The MAC address of a node's interface to another one.
fn mac_of(node: &str, to: &str) -> String {
    super::mac(node, to)
}

/// UDP to a port, with this payload.
fn udp(from: &str, to: &str, port: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
    match (from, to) {
        (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) => {
            let ip = PacketBuilder::ipv4(from.octets(), to.octets(), 64);
            ip.udp(4000, port).write(&mut packet, payload).unwrap();
        }
        (std::net::IpAddr::V6(from), std::net::IpAddr::V6(to)) => {
            let ip = PacketBuilder::ipv6(from.octets(), to.octets(), 64);
            ip.udp(4000, port).write(&mut packet, payload).unwrap();
        }
        _ => unreachable!("of one family"),
    }
    packet
}

/// The ends of the tunnel, as in the other end's packets: source and destination.
const V4: [&str; 2] = ["10.0.3.1", "10.0.3.2"];
const V6: [&str; 2] = ["fd77:3::1", "fd77:3::2"];

/// A packet for t at the end of its path, in the tunnel; behind an extension header if `is_extended`.
fn in_tunnel([from, to]: [&str; 2], is_extended: bool) -> (u16, Vec<u8>) {
    let inner = udp("10.0.3.1", "10.0.6.2", VIDEO, b"tunnelled");
    let gre = [&[0, 0, 0xc0, 0], &END[..], &inner].concat();
    let mut packet = Vec::new();
    match (from.parse().unwrap(), to.parse().unwrap()) {
        (std::net::IpAddr::V4(from), std::net::IpAddr::V4(to)) => {
            let ip = PacketBuilder::ipv4(from.octets(), to.octets(), 64);
            ip.write(&mut packet, IpNumber(47), &gre).unwrap();
            (0x0800, packet)
        }
        (std::net::IpAddr::V6(from), std::net::IpAddr::V6(to)) => {
            // Destination options: the number of the next header, and padding.
            let options = [47, 0, 1, 4, 0, 0, 0, 0];
            let (next, payload) = if is_extended {
                (60, [&options[..], &gre].concat())
            } else {
                (47, gre)
            };
            let ip = PacketBuilder::ipv6(from.octets(), to.octets(), 64);
            ip.write(&mut packet, IpNumber(next), &payload).unwrap();
            (0x86dd, packet)
        }
        _ => unreachable!("of one family"),
    }
}

fn ended(network: &Network, reason: &str) -> u64 {
    let drops: serde_json::Value = client::get(&network.socket("a"), "/v1/drops").unwrap();
    let rows = drops.as_array().unwrap();
    let row = rows.iter().find(|row| row["reason"] == reason);
    row.map_or(0, |row| row["count"]["packets"].as_u64().unwrap())
}

fn send(from: &mut AfPacket, frame: &[u8]) {
    while from.transmit(&[frame]).unwrap() == 0 {}
}

/// The number of ICMP errors among the received frames.
fn errors(at: &mut AfPacket) -> usize {
    let mut errors = 0;
    let mut take = |frame: &[u8]| {
        let kind = match frame.get(12..14) {
            Some([8, 0]) if frame.get(23) == Some(&1) => frame.get(34),
            Some([0x86, 0xdd]) if frame.get(20) == Some(&58) => frame.get(54),
            _ => None,
        };
        errors += usize::from(matches!(kind, Some(1..=5)));
    };
    while at
        .receive(256, &mut |received| take(&received.bytes))
        .unwrap()
        > 0
    {}
    errors
}

#[test]
fn a_tunnel_is_entered_only_by_the_port_to_its_other_end() {
    for (name, ends) in [("forged-v4", V4), ("forged-v6", V6)] {
        let Some(mut network) = Network::new(name) else {
            return;
        };
        if ends == V6 {
            network.ip("a", "addr add fd77:3::2/64 dev a-b nodad");
            network.ip("b", "addr add fd77:3::1/64 dev b-a nodad");
        }
        let tunnel = format!("local = \"{}\"\nremote = \"{}\"\n", ends[1], ends[0]);
        network.start("a", &format!("[fpf.interface.b]\n{tunnel}"));
        let mut t = Testbed::open(&network.nodes["t"], "t-a").unwrap();
        let mut b = Testbed::open(&network.nodes["b"], "b-a").unwrap();
        let forged = |is_extended| {
            let (ethertype, packet) = in_tunnel(ends, is_extended);
            frame("a", "t", ethertype, &[&packet])
        };
        let (ethertype, packet) = in_tunnel(ends, false);
        let honest = frame("a", "b", ethertype, &[&packet]);

        for n in 1..=10 {
            send(&mut t, &forged(n % 2 == 0));
        }
        eventually("they are dropped, with a reason", || {
            ended(&network, "fpf-tunnel-port") == 10
        });
        assert_eq!(network.counter("a", "received"), 0);
        assert_eq!(errors(&mut t), 0, "nobody answers them");
        send(&mut b, &honest);
        eventually("the other end's packet comes out", || {
            network.counter("a", "received") == 1
        });

        // The route to the other end moves to t: then only t's packets come from there.
        if ends == V4 {
            network.ip("a", "route add 10.0.3.1/32 via 10.0.6.2 dev a-t")
        } else {
            network.ip("a", "addr add fd77:6::1/64 dev a-t nodad");
            network.ip("a", "route add fd77:3::1/128 via fd77:6::2 dev a-t");
        }
        let mut sent = 0;
        eventually("the tunnel follows the route", || {
            send(&mut t, &forged(false));
            sent += 1;
            network.counter("a", "received") > 1
        });
        let (before, refused) = (
            network.counter("a", "received"),
            ended(&network, "fpf-tunnel-port"),
        );
        for _ in 0..10 {
            send(&mut b, &honest);
        }
        eventually("and leaves the old port", || {
            ended(&network, "fpf-tunnel-port") >= refused + 10
        });
        assert!(network.counter("a", "received") <= before + sent);

        // Named ports apply instead of the routes.
        network.weir("a", &["set", "fpf.interface.b.ports=b d"]);
        let (before, refused) = (
            network.counter("a", "received"),
            ended(&network, "fpf-tunnel-port"),
        );
        send(&mut b, &honest);
        send(&mut t, &forged(false));
        eventually("the named port is the entrance", || {
            network.counter("a", "received") == before + 1
                && ended(&network, "fpf-tunnel-port") == refused + 1
        });
        let wrong = network.refused("a", &["set", "fpf.interface.b.ports=b e"]);
        assert!(wrong.contains("there is no port `e`"), "{wrong}");
    }
}

/// The router a, with a server that receives from every source.
struct Server<'a> {
    network: &'a Network,
    socket: UdpSocket,
    from_b: AfPacket,
    /// Counts the packets, so that each has a unique number.
    number: u64,
}

impl Server<'_> {
    /// Whether the server receives a packet that comes from b, without a header or from a path. A second packet, which
    /// it certainly receives, follows on the same path.
    fn hears(&mut self, from: &str, to: &str, is_path: bool) -> bool {
        self.number += 2;
        let (probe, mark) = (self.number, self.number + 1);
        let probe = self.frame(from, to, probe, is_path);
        send(&mut self.from_b, &probe);
        let (mut heard, mut buffer) = (false, [0; 64]);
        let last = self.frame("10.0.3.1", "10.0.6.1", mark, is_path);
        for _ in 0..100 {
            send(&mut self.from_b, &last);
            while let Ok(len) = self.socket.recv(&mut buffer) {
                let number = u64::from_be_bytes(*buffer[..len].first_chunk().unwrap());
                heard |= number == self.number;
                if number == mark {
                    return heard;
                }
            }
        }
        panic!(
            "the server does not hear b: {}",
            self.network.weir("a", &["show", "drops"])
        );
    }

    fn frame(&self, from: &str, to: &str, number: u64, is_path: bool) -> Vec<u8> {
        let packet = udp(from, to, SERVER, &number.to_be_bytes());
        match (is_path, from.contains(':')) {
            (true, _) => frame("a", "b", 0xc000, &[&END, &packet]),
            (false, true) => frame("a", "b", 0x86dd, &[&packet]),
            (false, false) => frame("a", "b", 0x0800, &[&packet]),
        }
    }
}

#[test]
fn a_packet_out_of_a_path_for_the_router_is_judged_as_one_of_a_port() {
    let Some(mut network) = Network::new("inner") else {
        return;
    };
    let on_a = |key: &str, value: &str| {
        let write = || fs::write(format!("/proc/sys/net/ipv4/conf/{key}"), value);
        network.nodes["a"].enter(write).unwrap().unwrap();
    };
    on_a("a-b/rp_filter", "1");
    // A single queue keeps the order of arrival, whatever the sender.
    network.start(
        "a",
        "[port.own]\nkind = \"tun\"\ninterface = \"weir0\"\ndiscipline = { kind = \"fifo\" }\n",
    );
    let socket = network.nodes["a"].enter(|| UdpSocket::bind(("0.0.0.0", SERVER)));
    let socket = socket.unwrap().unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let mut server = Server {
        network: &network,
        socket,
        from_b: Testbed::open(&network.nodes["b"], "b-a").unwrap(),
        number: 0,
    };
    let own = "10.0.6.1";
    let cases = [
        ("10.0.3.1", own, true),
        ("10.0.3.77", own, true),
        ("10.0.6.2", own, false),    // t's address
        ("203.0.113.9", own, false), // an unassigned address
        ("10.0.6.1", own, false),    // a's own address
        ("10.0.3.2", own, false),
        ("10.0.3.255", own, false), // a broadcast address
        ("127.0.0.1", own, false),
        ("0.0.0.0", own, false),
        ("224.0.0.5", own, false),
        ("240.0.0.1", own, false),
        ("169.254.7.7", own, false),
        ("10.0.3.1", "127.0.0.1", false),
        ("10.0.3.1", "0.0.0.0", false),
        ("10.0.3.1", "10.0.6.255", true), // a directed broadcast: received by the machine, not forwarded
        ("10.0.6.2", "10.0.6.255", false),
    ];
    for (from, to, expected) in cases {
        let heard = [false, true].map(|is_path| server.hears(from, to, is_path));
        assert_eq!(heard, [expected; 2], "{from} to {to}: kernel, path");
    }

    // A firewall names the port by its interface.
    let drop = "add table inet f; add chain inet f i { type filter hook input priority 0; }; \
                add rule inet f i iifname weir0 ip saddr 10.0.3.77 counter drop";
    run(&network.nodes["a"], "nft", drop).unwrap();
    let heard = [false, true].map(|is_path| server.hears("10.0.3.77", own, is_path));
    assert_eq!(heard, [true, false], "kernel, path");

    // A packet that continues by IP is checked at the port as well, and a broadcast of t's network ends at the router.
    let mut t = Testbed::open(&network.nodes["t"], "t-a").unwrap();
    for (from, to) in [
        ("10.0.6.2", "10.0.1.1"),
        ("10.0.3.1", "10.0.6.255"),
        ("10.0.6.1", "10.0.6.2"),
    ] {
        let frame = frame("a", "b", 0xc000, &[&END, &udp(from, to, 7, b"on")]);
        send(&mut server.from_b, &frame);
    }
    let good = frame(
        "a",
        "b",
        0xc000,
        &[&END, &udp("10.0.3.1", "10.0.6.2", 7, b"good")],
    );
    let (mut on, mut came) = (0, false);
    eventually("what may go on goes on", || {
        send(&mut server.from_b, &good);
        let mut take = |frame: &[u8]| {
            let is_udp = frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&17);
            on += usize::from(is_udp && frame.ends_with(b"on"));
            came |= is_udp && frame.ends_with(b"good");
        };
        while t
            .receive(256, &mut |received| take(&received.bytes))
            .unwrap()
            > 0
        {}
        came
    });
    assert_eq!(on, 0);
    assert_eq!(
        ended(&network, "reverse-path") + ended(&network, "own-source"),
        8
    );
}

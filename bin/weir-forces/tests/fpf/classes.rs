//! Implicit encapsulation rules: flows whose first packets follow the routes of Figure 1, and the others the path of
//! their class.

use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use std::io::{Read, Write};

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::quic::{self, Version};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Side};
use weir_northbound::client;

use super::{Network, figure_1_with, rule};
use crate::common::eventually;

/// The host t.
const T: Ipv4Addr = Ipv4Addr::new(10, 0, 6, 2);
/// Classes at c: voice and partners through b, all else through d, where the routes lead.
const CLASSES: &str = "
[fpf]
edge_ports = \"s\"
classifier_flows = 500

[fpf.class.voice]
kinds = \"rtp\"
vectors = \"0b0a\"
timeout = \"5 s\"

[fpf.class.partner]
kinds = \"tls quic\"
server = \"*.example.org\"
vectors = \"0b0a\"
";

/// Figure 1 with these classes.
fn classes(name: &str) -> Option<Network> {
    figure_1_with(
        name,
        &[rule("c", "b"), rule("c", "d"), CLASSES.to_owned()].concat(),
    )
}

impl Network {
    /// Packets that have passed b and d.
    fn ways(&self) -> (u64, u64) {
        (self.sent("b", "a"), self.sent("d", "a"))
    }

    /// A row of the classes at c.
    fn class(&self, name: &str) -> serde_json::Value {
        let rows: serde_json::Value = client::get(&self.socket("c"), "/v1/fpf_classes").unwrap();
        let rows = rows.as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap().clone()
    }

    /// A number of `weir show fpf` at c.
    fn edge(&self, name: &str) -> u64 {
        let fpf: serde_json::Value = client::get(&self.socket("c"), "/v1/fpf").unwrap();
        fpf[name].as_u64().unwrap()
    }

    /// Sockets at s and at t that are connected to each other.
    fn sockets(&self, ports: [u16; 2]) -> [UdpSocket; 2] {
        let of = |node: &str, address: Ipv4Addr, port| {
            let bind = || UdpSocket::bind((address, port));
            self.nodes[node].enter(bind).unwrap().unwrap()
        };
        let [from, to] = [
            of("s", Ipv4Addr::new(10, 0, 1, 1), ports[0]),
            of("t", T, ports[1]),
        ];
        from.connect((T, ports[1])).unwrap();
        to.set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        [from, to]
    }

    /// Sends datagrams one by one, and waits for each. No datagram is lost or reordered.
    fn datagrams(&self, [from, to]: &[UdpSocket; 2], datagrams: impl Iterator<Item = Vec<u8>>) {
        let mut buffer = vec![0; 2000];
        for datagram in datagrams {
            from.send(&datagram).unwrap();
            let len = to.recv(&mut buffer).expect("no packet is lost");
            assert!(buffer[..len] == datagram, "in order, byte for byte");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn rtp(sequence: u16) -> Vec<u8> {
    let [high, low] = sequence.to_be_bytes();
    let header = [0x80, 96, high, low, 0, 0, high, low, 0, 0, 0, 7];
    [&header[..], &[0x55; 160]].concat()
}

/// Settings of a TLS client without trusted certificates.
fn settings() -> Arc<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap();
    let settings = builder.with_root_certificates(RootCertStore::empty());
    Arc::new(settings.with_no_client_auth())
}

fn server(name: &str) -> ServerName<'static> {
    ServerName::try_from(name.to_owned()).unwrap()
}

/// The first packet of a QUIC client (RFC 9001, section 5).
fn initial(name: &str) -> Vec<u8> {
    const ID: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
    let parameters = vec![0x01, 0x01, 0x1e]; // idle timeout
    let mut hello = Vec::new();
    quic::ClientConnection::new(settings(), Version::V1, server(name), parameters)
        .unwrap()
        .write_hs(&mut hello);
    let wide = |n: usize| (n as u16 | 0x4000).to_be_bytes();
    let mut payload = [&[6, 0][..], &wide(hello.len()), &hello].concat();
    payload.resize(1200 - 16 - 24, 0);
    let length = wide(4 + payload.len() + 16);
    let mut header = [&[0xc3, 0, 0, 0, 1, 8][..], &ID, &[0, 0], &length, &[0; 4]].concat();
    let suite = ring::cipher_suite::TLS13_AES_128_GCM_SHA256
        .tls13()
        .unwrap();
    let keys = suite
        .quic_suite()
        .unwrap()
        .keys(&ID, Side::Client, Version::V1)
        .local;
    let tag = keys
        .packet
        .encrypt_in_place(0, &header, &mut payload)
        .unwrap();
    payload.extend(tag.as_ref());
    let (first, number) = header.split_at_mut(18);
    let sample = &payload[..keys.header.sample_len()];
    keys.header
        .encrypt_in_place(sample, &mut first[0], number)
        .unwrap();
    [header, payload].concat()
}

#[test]
fn a_voice_flow_leaves_the_routes_after_its_first_packets_and_follows_its_class() {
    let Some(network) = classes("voice") else {
        return;
    };
    let before = network.ways();
    let sockets = network.sockets([4000, 6000]);
    network.datagrams(&sockets, (0..200).map(rtp));
    let (by_b, by_d) = network.ways();
    let (by_b, by_d) = (by_b - before.0, by_d - before.1);
    assert_eq!(by_b + by_d, 200);
    assert!(
        by_d >= 2 && by_b >= 100,
        "by b {by_b}, by the routes {by_d}"
    );
    let voice = network.class("voice");
    assert_eq!(
        (&voice["flows"], &voice["classified"]),
        (&1.into(), &1.into())
    );
    assert_eq!(voice["count"]["packets"], by_b);
    let shown = network.weir("c", &["show", "fpf_classes"]);
    assert!(
        shown.lines().any(|line| line.starts_with("voice")),
        "{shown}"
    );

    // A change elsewhere leaves the flow on its path; a change of the class moves it, while packets flow.
    network.weir(
        "c",
        &[
            "set",
            "fpf.class.partner.vectors=0d0a",
            "port.s.discipline.limit=200",
        ],
    );
    let before = network.ways();
    network.datagrams(&sockets, (200..300).map(rtp));
    assert_eq!(network.ways(), (before.0 + 100, before.1));
    thread::scope(|scope| {
        let flow = scope.spawn(|| network.datagrams(&sockets, (300..600).map(rtp)));
        network.weir("c", &["set", "fpf.class.voice.vectors=0d0a"]);
        flow.join().unwrap();
    });
    let before = network.ways();
    network.datagrams(&sockets, (600..650).map(rtp));
    assert_eq!(network.ways(), (before.0, before.1 + 50));
    assert_eq!(network.class("voice")["classified"], 1);
    assert_eq!(
        network.counter("a", "decapsulated"),
        network.counter("c", "encapsulated")
    );
    // Without its class it follows the routes.
    network.weir("c", &["unset", "fpf.class.voice"]);
    let encapsulated = network.counter("c", "encapsulated");
    network.datagrams(&sockets, (650..700).map(rtp));
    assert_eq!(network.counter("c", "encapsulated"), encapsulated);
}

#[test]
fn a_flow_to_a_named_server_follows_its_class_in_tls_and_in_quic() {
    let Some(network) = classes("partner") else {
        return;
    };
    for (port, name, is_partner) in [
        (5000, "www.example.org", true),
        (5001, "example.net", false),
    ] {
        let before = network.ways();
        let sockets = network.sockets([4000, port]);
        let data = (0..200).map(|n| vec![0x40 | n; 300]); // short headers
        network.datagrams(&sockets, std::iter::once(initial(name)).chain(data));
        let by_b = network.ways().0 - before.0;
        assert_eq!(
            by_b >= 100,
            is_partner,
            "QUIC to {name}: {by_b} packets by b"
        );
        assert!(by_b < 201, "the first packet follows the routes");
    }
    for (port, name, is_partner) in [
        (5002, "www.example.org", true),
        (5003, "example.net", false),
    ] {
        let listener = network.nodes["t"]
            .enter(|| TcpListener::bind((T, port)))
            .unwrap()
            .unwrap();
        let received = thread::spawn(move || {
            let mut all = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut all).unwrap();
            all.len()
        });
        let before = network.class("partner")["count"]["packets"]
            .as_u64()
            .unwrap();
        let connect = || TcpStream::connect((T, port));
        let mut stream = network.nodes["s"].enter(connect).unwrap().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut hello = Vec::new();
        let mut client = ClientConnection::new(settings(), server(name)).unwrap();
        client.write_tls(&mut hello).unwrap();
        stream.write_all(&hello).unwrap();
        for _ in 0..100 {
            stream.write_all(&[0x17, 3, 3, 0, 40]).unwrap();
            stream.write_all(&[0; 40]).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        drop(stream);
        assert_eq!(received.join().unwrap(), hello.len() + 100 * 45);
        let after = network.class("partner")["count"]["packets"]
            .as_u64()
            .unwrap();
        let count = after - before;
        assert_eq!(
            count >= 50,
            is_partner,
            "TLS to {name}: {count} packets of the class"
        );
    }
    assert_eq!(network.class("partner")["classified"], 2);
}

#[test]
fn a_flood_of_new_flows_fills_no_table_and_disturbs_no_other_flow() {
    let Some(network) = classes("flood") else {
        return;
    };
    let sockets = network.sockets([4000, 6000]);
    let data = |count| (0..count).map(|n| vec![0x40 | n as u8 & 0x3f; 300]); // short headers
    let first = std::iter::once(initial("www.example.org"));
    network.datagrams(&sockets, first.chain(data(200)));
    let packets = || {
        network.class("partner")["count"]["packets"]
            .as_u64()
            .unwrap()
    };
    let before = packets();
    assert!(before >= 100, "{before}");
    let flood = || {
        let bind = || UdpSocket::bind((Ipv4Addr::new(10, 0, 1, 1), 4001));
        let socket = network.nodes["s"].enter(bind).unwrap().unwrap();
        let (begin, mut sent) = (Instant::now(), 0_u64);
        while begin.elapsed() < Duration::from_secs(3) {
            let due = begin.elapsed().as_micros() as u64 / 50; // 20 000 packets a second
            while sent < due {
                // Two packets per flow, so that each flow is voice.
                let port = 10_000 + (sent / 2 % 50_000) as u16;
                let _refused = socket.send_to(&rtp((sent % 2) as u16), (T, port));
                sent += 1;
            }
            thread::sleep(Duration::from_millis(1));
        }
        sent
    };
    let sent = thread::scope(|scope| {
        let flood = scope.spawn(flood);
        network.datagrams(&sockets, data(1000));
        flood.join().unwrap()
    });
    assert!(sent > 10_000, "{sent}");
    let of_partner = packets() - before;
    assert!(
        of_partner >= 900,
        "{of_partner} of 1000 packets on their path"
    );
    let flows = network.class("voice")["flows"].as_u64().unwrap();
    assert!((2..=500).contains(&flows), "{flows}");
    assert!(network.edge("followed") <= 500);
    assert!(network.edge("displaced") + network.edge("unclassified") > 0);
    // The table empties again.
    eventually("silent flows end", || network.class("voice")["flows"] == 0);
}

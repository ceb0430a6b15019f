//! A cache of named chunks at b, between clients at s and a server at t.

use super::*;

/// The server's port.
const CHUNKS: u16 = 6363;

/// An interest, or data with this content.
fn chunk(name: u8, content: &[u8]) -> Vec<u8> {
    let kind = u8::from(!content.is_empty());
    let length = (content.len() as u16).to_be_bytes();
    [&[0xd1, kind][..], &length, &[name; 16], content].concat()
}

/// A datagram, and its sender.
type Received = (Vec<u8>, std::net::SocketAddr);

/// The next datagram of a socket, if one arrives within a time.
fn take_within(socket: &UdpSocket, time: Duration) -> Option<Received> {
    socket.set_read_timeout(Some(time)).unwrap();
    let mut buffer = vec![0; 2000];
    let (len, from) = socket.recv_from(&mut buffer).ok()?;
    buffer.truncate(len);
    Some((buffer, from))
}

/// The next datagram of a socket, which must arrive, even on a busy machine.
fn take(socket: &UdpSocket) -> Option<Received> {
    take_within(socket, Duration::from_secs(10))
}

/// The next datagram of a socket, if one arrives soon.
fn poll(socket: &UdpSocket) -> Option<Received> {
    take_within(socket, Duration::from_millis(500))
}

#[test]
fn a_cache_on_the_way_answers_for_the_server() {
    let Some(mut network) = Network::new("cache") else {
        return;
    };
    let encapsulation = |ports: &str, vector: &str| {
        format!(
            "[fpf.encapsulation.chunks]\nversion = \"4\"\nprotocol = \"udp\"\n{ports} = \"{CHUNKS}\"\nvectors = \"{vector}\"\n"
        )
    };
    // Room for three chunks of 1000 bytes.
    let cache =
        "[fpf.rule.cache]\nlid = \"ca\"\naction = \"cache\"\nleaves = \"0c\"\ncache_chunks = 3\n";
    let at_a = encapsulation("source_ports", "0bca0c");
    network.start("a", &[rule("a", "b"), at_a].concat());
    network.start("b", &[&rule("b", "a"), &rule("b", "c"), cache].concat());
    network.start("d", "");
    let at_c = encapsulation("destination_ports", "0bca0a");
    network.start("c", &[rule("c", "b"), at_c].concat());
    let answers = || run(&network.nodes["s"], "ping", "-c 1 -W 1 10.0.6.2").is_ok();
    eventually("the hosts reach each other", answers);

    let bind = |node: &str, address: &str| {
        let socket = network.nodes[node].enter(|| UdpSocket::bind(address));
        socket.unwrap().unwrap()
    };
    let server = bind("t", &format!("10.0.6.2:{CHUNKS}"));
    let clients = ["10.0.1.1:4000", "10.0.1.1:4001"].map(|address| bind("s", address));
    let ask = |client: &UdpSocket, name| {
        let interest = chunk(name, &[]);
        client.send_to(&interest, ("10.0.6.2", CHUNKS)).unwrap();
    };
    // The neighbours on the path are resolved meanwhile.
    eventually("the server is asked", || {
        ask(&clients[0], 0);
        poll(&server).is_some()
    });
    while poll(&server).is_some() {}

    let data = |name: u8| chunk(name, &[name; 1000]);
    let from_server = format!("10.0.6.2:{CHUNKS}").parse().unwrap();
    for name in 1..=4 {
        ask(&clients[0], name);
        let (interest, client) = take(&server).unwrap();
        assert_eq!(interest, chunk(name, &[]));
        server.send_to(&data(name), client).unwrap();
        assert_eq!(take(&clients[0]), Some((data(name), from_server)));
    }
    // Unsolicited data.
    server.send_to(&data(9), "10.0.1.1:4000").unwrap();
    assert_eq!(take(&clients[0]), Some((data(9), from_server)));
    for name in 2..=4 {
        ask(&clients[1], name);
        assert_eq!(take(&clients[1]), Some((data(name), from_server)));
    }
    assert_eq!(poll(&server), None);
    // The first chunk was evicted for the fourth, and the ninth was not stored.
    for name in [1, 9] {
        ask(&clients[1], name);
        assert_eq!(
            take(&server).map(|(bytes, _)| bytes),
            Some(chunk(name, &[]))
        );
    }
    let fpf: serde_json::Value = client::get(&network.socket("b"), "/v1/fpf").unwrap();
    let expected = [("hits", 3), ("stored", 4), ("evicted", 1), ("refused", 1)];
    for (count, expected) in expected {
        assert_eq!(fpf[format!("cache_{count}")], expected, "{count}: {fpf}");
    }
    let shown = network.weir("b", &["show", "fpf"]);
    assert!(shown.contains("cache hits      3"), "{shown}");
}

use super::*;

/// A network of endpoints in virtual time: packets take a millisecond.
struct Net {
    now: Instant,
    ends: Vec<(SocketAddr, Endpoint)>,
    wire: Vec<(Instant, SocketAddr, SocketAddr, Vec<u8>)>,
    loses: fn(u64) -> bool,
    sent: u64,
    events: Vec<(usize, Event)>,
}

const CE: &str = "192.0.2.1:9899";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn settings(seed: u32) -> Settings {
    let mut state = seed;
    Settings {
        epoch: Epoch::new(std::time::Instant::now()),
        secret: [seed as u8; 32],
        random: Box::new(move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state
        }),
        links_max: 300,
        silence_max: Span::from_secs(8),
    }
}

impl Net {
    fn new() -> Self {
        Self {
            now: Instant::from_nanos(1_000_000_000),
            ends: vec![(address(CE), Endpoint::listen(settings(1), 6704))],
            wire: Vec::new(),
            loses: |_| false,
            sent: 0,
            events: Vec::new(),
        }
    }

    fn add_fe(&mut self, at: &str, port: u16, seed: u32) -> usize {
        let endpoint = Endpoint::connect(self.now, settings(seed), address(CE), 6704, port);
        self.ends.push((address(at), endpoint));
        self.ends.len() - 1
    }

    fn run_for(&mut self, span: Span) {
        let until = self.now + span;
        loop {
            self.collect();
            let timers = self.ends.iter().filter_map(|(_, e)| e.poll_timeout());
            let next = timers.chain(self.wire.iter().map(|w| w.0)).min();
            match next {
                Some(next) if next <= until => self.now = next.max(self.now),
                _ => break,
            }
            let wire = std::mem::take(&mut self.wire);
            let (due, later): (Vec<_>, _) = wire.into_iter().partition(|w| w.0 <= self.now);
            self.wire = later;
            for (_, from, to, packet) in due {
                for (at, endpoint) in &mut self.ends {
                    if *at == to {
                        endpoint.handle_packet(self.now, from, &packet);
                    }
                }
            }
            for (_, endpoint) in &mut self.ends {
                endpoint.handle_timeout(self.now);
            }
        }
        self.now = until;
    }

    fn collect(&mut self) {
        for (index, (at, endpoint)) in self.ends.iter_mut().enumerate() {
            while let Some((to, packet)) = endpoint.poll_packet(self.now) {
                self.sent += 1;
                if !(self.loses)(self.sent) {
                    let arrival = self.now + Span::from_millis(1);
                    self.wire.push((arrival, *at, to, packet));
                }
            }
            while let Some(event) = endpoint.poll_event() {
                self.events.push((index, event));
            }
        }
    }

    fn up(&self, index: usize) -> Vec<LinkId> {
        let up = self.events.iter().filter_map(|event| match event {
            (of, Event::Up(link, _)) if *of == index => Some(*link),
            _ => None,
        });
        up.collect()
    }

    fn send(&mut self, from: usize, link: LinkId, message: &[u8]) {
        let (_, endpoint) = &mut self.ends[from];
        assert!(endpoint.send(link, message));
    }

    fn messages(&mut self, at: usize, link: LinkId) -> Vec<Vec<u8>> {
        let (now, (_, endpoint)) = (self.now, &mut self.ends[at]);
        std::iter::from_fn(|| endpoint.poll_message(now, link)).collect()
    }
}

fn message(kind: u8, priority: u8) -> Vec<u8> {
    let mut message = vec![0x10, kind, 0, 6];
    message.resize(20, 0);
    message.extend([priority << 3, 0, 0, 0]);
    message
}

#[test]
fn three_associations_are_one_link_and_are_read_in_strict_order() {
    let mut net = Net::new();
    let fe = net.add_fe("192.0.2.2:5000", 5000, 2);
    net.run_for(Span::from_secs(1));
    let (ce_link, fe_link) = (net.up(0)[0], net.up(fe)[0]);
    let (redirect, event, query) = (message(6, 2), message(5, 3), message(4, 4));
    for message in [&redirect, &event, &query, &redirect] {
        net.send(fe, fe_link, message);
    }
    net.send(0, ce_link, &query);
    net.run_for(Span::from_millis(10));
    let expected = [query.clone(), event, redirect.clone(), redirect];
    assert!(net.messages(0, ce_link) == expected);
    assert!(net.messages(fe, fe_link) == [query]);
    assert_eq!(net.ends[0].1.refused, Refused::default());
}

#[test]
fn a_link_opens_although_packets_are_lost_and_two_behind_one_address_are_two() {
    let mut net = Net::new();
    // A random quarter: with a fixed pattern, retries at a constant interval could always meet the same loss.
    net.loses = |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62 == 0;
    let one = net.add_fe("192.0.2.2:5000", 5000, 2);
    let two = net.add_fe("192.0.2.2:5001", 5001, 3);
    let raw = net.add_fe("192.0.2.3:0", 5001, 4);
    net.run_for(Span::from_secs(9));
    for fe in [one, two, raw] {
        assert_eq!(net.up(fe).len(), 1);
    }
    assert_eq!(net.up(0).len(), 3);
}

#[test]
fn the_loss_of_one_channel_ends_the_link() {
    let mut net = Net::new();
    let fe = net.add_fe("192.0.2.2:5000", 5000, 2);
    net.run_for(Span::from_secs(1));
    let (ce_link, fe_link) = (net.up(0)[0], net.up(fe)[0]);
    net.send(fe, fe_link, &message(4, 4));
    net.run_for(Span::from_millis(10));
    let path = net.ends[0].1.path(ce_link, Channel::Medium).unwrap();
    let now = net.now;
    let medium = &mut net.ends[0].1.up.get_mut(&path).unwrap().association;
    medium.close(now, false);
    net.ends[0].1.settle(now, path);
    net.run_for(Span::from_millis(10));
    assert!(net.ends[0].1.end(ce_link).is_some());
    assert_eq!(net.ends[fe].1.end(fe_link), Some(End::ByPeer));
    assert_eq!(
        net.messages(0, ce_link).len(),
        1,
        "what had arrived is read"
    );
    let now = net.now;
    net.ends[0].1.forget(now, ce_link);
    assert!(net.ends[0].1.up.is_empty());
    assert!(net.ends[0].1.timers.is_empty());
}

#[test]
fn a_close_delivers_what_waits_on_all_channels() {
    let mut net = Net::new();
    let fe = net.add_fe("192.0.2.2:5000", 5000, 2);
    net.run_for(Span::from_secs(1));
    let (ce_link, fe_link) = (net.up(0)[0], net.up(fe)[0]);
    let mut long = message(4, 4);
    long.resize(120_000, 0);
    long[2..4].copy_from_slice(&30_000_u16.to_be_bytes());
    net.send(fe, fe_link, &long);
    net.send(fe, fe_link, &message(5, 3));
    let now = net.now;
    net.ends[fe].1.close(now, fe_link, true);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.ends[fe].1.end(fe_link), Some(End::Closed));
    assert_eq!(net.ends[0].1.end(ce_link), Some(End::ByPeer));
    assert!(net.messages(0, ce_link) == [long, message(5, 3)]);
}

#[test]
fn a_peer_that_restarts_at_the_same_port_gets_a_new_link() {
    let mut net = Net::new();
    let fe = net.add_fe("192.0.2.2:5000", 5000, 2);
    net.run_for(Span::from_secs(1));
    let old = net.up(0)[0];
    net.ends.remove(fe);
    let fe = net.add_fe("192.0.2.2:5000", 5000, 99);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.ends[0].1.end(old), Some(End::ByPeer));
    assert_eq!(net.up(0).len(), 2);
    let new = net.up(0)[1];
    assert_eq!(net.ends[0].1.end(new), None);
    assert!(net.up(fe).len() == 2, "events of both incarnations");
}

#[test]
fn a_listener_that_restarts_says_so_to_its_peers() {
    let mut net = Net::new();
    let fe = net.add_fe("192.0.2.2:5000", 5000, 2);
    net.run_for(Span::from_secs(1));
    let link = net.up(fe)[0];
    net.ends[0].1 = Endpoint::listen(settings(50), 6704);
    net.send(fe, link, &message(4, 4));
    net.run_for(Span::from_millis(10));
    assert_eq!(net.ends[fe].1.end(link), Some(End::ByPeer));
    // The message, and the ABORTs of the other channels.
    assert_eq!(net.ends[0].1.refused.out_of_the_blue, 3);
}

#[test]
fn nobody_there_and_a_link_without_all_channels_fail() {
    let mut net = Net::new();
    net.loses = |_| true;
    let fe = net.add_fe("192.0.2.2:5000", 5000, 2);
    net.run_for(Span::from_secs(6));
    let why = "no answer from port 6706".to_owned();
    assert!(net.events.contains(&(fe, Event::Failed(why))));

    let mut net = Net::new();
    net.loses = |n| n > 6; // the low channel comes up, but no other
    let fe = net.add_fe("192.0.2.2:5000", 5000, 2);
    net.run_for(Span::from_secs(20));
    let failures = net.events.iter().filter(|(at, _)| *at == fe).count();
    assert_eq!(failures, 1, "{:?}", net.events);
    assert!(net.ends[0].1.up.is_empty());
    assert!(net.ends[fe].1.up.is_empty());
}

/// An INIT to the high channel, from any port.
fn init(tag: u32, port: u16) -> Vec<u8> {
    let header = Header {
        source_port: port,
        destination_port: 6704,
        tag: 0,
    };
    let init = Init {
        tag,
        window: 100_000,
        first_tsn: 1,
        forward_tsn: true,
    };
    Writer::new(header)
        .chunk(kind::INIT, 0, &init.value(None))
        .finish()
}

#[test]
fn a_hundred_thousand_inits_leave_nothing_behind() {
    let mut net = Net::new();
    let fe = net.add_fe("192.0.2.2:5000", 5000, 2);
    let now = net.now;
    let ce = &mut net.ends[0].1;
    for n in 0..100_000_u32 {
        let from = SocketAddr::new(std::net::Ipv4Addr::from(0x0a00_0000 + n).into(), 9899);
        ce.handle_packet(now, from, &init(n + 1, (n % 60_000) as u16 + 1));
        while ce.poll_packet(now).is_some() {}
    }
    assert!(ce.up.is_empty() && ce.timers.is_empty() && ce.finished.is_empty());
    assert_eq!(ce.poll_timeout(), None);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.up(fe).len(), 1, "an honest peer gets its link");

    // A socket that accepts nothing: the number of waiting packets is bounded.
    let ce = &mut net.ends[0].1;
    for n in 0..2 * OUTBOX_MAX as u32 {
        let from = SocketAddr::new(std::net::Ipv4Addr::from(0x0a00_0000 + n).into(), 9899);
        ce.handle_packet(now, from, &init(n + 1, 7));
    }
    assert_eq!(ce.outbox.len(), OUTBOX_MAX);
    assert!(ce.refused.outbox > 0);
}

#[test]
fn peers_that_open_one_channel_only_do_not_fill_the_memory() {
    let mut net = Net::new();
    let now = net.now;
    for n in 0..2000_u32 {
        let from = SocketAddr::new(std::net::Ipv4Addr::from(0x0a00_0000 + n).into(), 9899);
        let ce = &mut net.ends[0].1;
        ce.handle_packet(now, from, &init(n + 10, 7));
        let (_, answer) = ce.poll_packet(now).unwrap();
        let packet = Packet::parse(&answer).unwrap();
        let value = packet.chunks().next().unwrap().value;
        let (theirs, cookie) = Init::parse(value).unwrap();
        let header = Header {
            source_port: 7,
            destination_port: 6704,
            tag: theirs.tag,
        };
        let echo = Writer::new(header).chunk(kind::COOKIE_ECHO, 0, cookie.unwrap());
        ce.handle_packet(now, from, &echo.finish());
        while ce.poll_packet(now).is_some() {}
    }
    let ce = &net.ends[0].1;
    assert_eq!(ce.up.len(), super::super::links::INCOMPLETE_MAX);
    net.run_for(Span::from_secs(11));
    assert!(net.ends[0].1.up.is_empty());
}

#[test]
fn cookies_of_others_and_packets_for_others_do_nothing() {
    let mut net = Net::new();
    let now = net.now;
    let ce = &mut net.ends[0].1;
    let header = |destination_port, tag| Header {
        source_port: 7,
        destination_port,
        tag,
    };
    let from = address("192.0.2.9:9899");
    let echo = Writer::new(header(6704, 1)).chunk(kind::COOKIE_ECHO, 0, &[7; 70]);
    ce.handle_packet(now, from, &echo.finish());
    assert_eq!(ce.refused.cookie, 1);
    let other = Writer::new(header(6707, 1)).chunk(kind::HEARTBEAT, 0, &[]);
    ce.handle_packet(now, from, &other.finish());
    assert_eq!(ce.poll_packet(now), None);
    // Out of the blue: an ABORT with the sender's own tag, up to the limit per second.
    for _ in 0..2 * ABORTS_MAX {
        let data = Writer::new(header(6704, 77)).chunk(kind::DATA, 3, &[0; 13]);
        ce.handle_packet(now, from, &data.finish());
    }
    assert_eq!(ce.outbox.len(), ABORTS_MAX as usize);
    let (_, abort) = ce.poll_packet(now).unwrap();
    let abort = Packet::parse(&abort).unwrap();
    let chunk = abort.chunks().next().unwrap();
    assert_eq!(
        (chunk.kind, chunk.flags, abort.header.tag),
        (kind::ABORT, 1, 77)
    );
}

/// Random packets with correct checksums, to our ports and from a peer that has an association: nothing panics, and
/// memory stays bounded.
#[test]
fn random_chunks_do_no_harm() {
    let mut net = Net::new();
    let mut random = 0x0123_4567_89ab_cdef_u64;
    let mut draw = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for round in 0..200_u32 {
        let fe = net.add_fe("192.0.2.2:5000", 5000, round * 7 + 2);
        net.run_for(Span::from_millis(50));
        let channel = Channel::ALL[round as usize % 3];
        let path = Path {
            remote: address("192.0.2.2:5000"),
            remote_port: 5000,
            local_port: 6704 + channel.index() as u16,
        };
        for _ in 0..100 {
            let Some(slot) = net.ends[0].1.up.get(&path) else {
                break;
            };
            let contract = *slot.association.contract();
            let header = Header {
                source_port: 5000,
                destination_port: path.local_port,
                tag: contract.ours.tag,
            };
            let mut packet = Writer::new(header);
            for _ in 0..1 + draw() % 4 {
                let mut value: Vec<u8> = (0..draw() % 60).map(|_| draw() as u8).collect();
                let near = contract.theirs.first_tsn.wrapping_add((draw() % 8) as u32);
                let kinds = [
                    kind::DATA,
                    kind::SACK,
                    kind::FORWARD_TSN,
                    kind::HEARTBEAT,
                    draw() as u8,
                ];
                let kind = kinds[draw() as usize % kinds.len()];
                let start = match kind {
                    kind::SACK => contract.ours.first_tsn.wrapping_sub(1),
                    _ => near,
                };
                if let Some(tsn) = value.get_mut(..4) {
                    tsn.copy_from_slice(&start.to_be_bytes());
                }
                if let Some(ids) = value.get_mut(4..8) {
                    ids.copy_from_slice(&[0, 0, 0, (draw() % 8) as u8]);
                }
                packet = packet.chunk(kind, (draw() % 4) as u8, &value);
            }
            let now = net.now;
            net.ends[0]
                .1
                .handle_packet(now, path.remote, &packet.finish());
            net.run_for(Span::from_millis(draw() % 20));
        }
        assert!(net.ends[0].1.up.len() <= 3);
        for link in net.up(0) {
            let now = net.now;
            net.ends[0].1.forget(now, link);
        }
        net.events.clear();
        net.wire.clear();
        net.ends.remove(fe);
    }
    assert!(net.ends[0].1.finished.is_empty());
}
